use strict;
use warnings;
use IO::Socket::INET;

$SIG{CHLD} = 'IGNORE';
my $listener = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1) or die "no socket: $!";
while (my $client = $listener->accept) {
    if (fork) {
        close $client;
        next;
    }
    while (<$client>) {
        next unless /^\r?\n$/;
        print $client "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        $client->flush;
    }
    exit;
}
