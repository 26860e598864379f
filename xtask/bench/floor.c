// The floor: what a load generator on epoll cannot be much cheaper than.
//
// Requests are written before the clock starts and sent as they lie there; of the replies only the bytes are counted,
// against what one reply of each kind had when it was asked for once. No parsing, no checks, no statistics, one
// reading of the clock a round. Two system calls a batch: recv and send.
//
//   floor resp|http|postgres ADDRESS PORT CONNECTIONS PIPELINE SECONDS [OPTION=VALUE]...
//     set=N get=N    weights of the RESP requests; keys=N how many keys; path=TEXT of the HTTP request; rows=N accounts
//     times=1        keep the times of batches as well, for their quantiles (no floor any more)
//     rate=N         instead: one connection, one request after another at N planned starts a second, timed from the
//                    planned start; every time is kept. A slow reply delays those after it, and counts for them.
//
// Prints one line of JSON.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS 16384
#define EVENTS 1024
#define SECOND 1000000000ull

static char incoming[256 * 1024];

static void die(const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t draw(uint64_t bound) {
    static uint64_t state = 0x9E3779B97F4A7C15ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint64_t)(((unsigned __int128)state * bound) >> 64);
}

// What is asked for.
struct settings {
    const char *protocol, *path;
    struct sockaddr_in peer;
    int connections, pipeline, times;
    double seconds, rate;
    uint64_t set, get, keys, rows;
};

// All requests in one piece of memory. Request i lies from text[at[i]] to text[at[i + 1]]; the replies to the first i
// requests are answer[i] bytes long. The first `pipeline` requests stand once more behind the last.
static char *text;
static size_t length, room;
static size_t *at;
static uint64_t *answer;

static void append(const void *bytes, size_t count) {
    if (length + count > room) {
        room = (length + count) * 2;
        text = realloc(text, room);
        if (!text) die("memory");
    }
    memcpy(text + length, bytes, count);
    length += count;
}

static void append_text(const char *bytes) { append(bytes, strlen(bytes)); }

// A PostgreSQL message: its kind, its length, what is in it.
static void append_message(char kind, const char *body, size_t count) {
    uint32_t whole = htonl((uint32_t)count + 4);
    if (kind) append(&kind, 1);
    append(&whole, 4);
    append(body, count);
}

// Appends one request and returns which kind it is: replies to one kind are all of one length.
static int append_request(const struct settings *s) {
    char line[1024];
    if (!strcmp(s->protocol, "resp")) {
        int is_set = draw(s->set + s->get) < s->set;
        unsigned long long key = draw(s->keys);
        if (is_set)
            snprintf(line, sizeof line, "*3\r\n$3\r\nSET\r\n$16\r\nbare%012llu\r\n$3\r\nxxx\r\n", key);
        else
            snprintf(line, sizeof line, "*2\r\n$3\r\nGET\r\n$16\r\nbare%012llu\r\n", key);
        append_text(line);
        return is_set;
    }
    if (!strcmp(s->protocol, "http")) {
        snprintf(line, sizeof line, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", s->path);
        append_text(line);
        return 0;
    }
    // Bind the unnamed portal to statement "s" with one parameter in text form, execute it, sync.
    char body[64];
    size_t count = 0;
    char number[24];
    uint32_t digits = (uint32_t)snprintf(number, sizeof number, "%llu", 1 + (unsigned long long)draw(s->rows));
    memcpy(body, "\0s\0\0\0\0\1", 7);
    count = 7;
    uint32_t wire = htonl(digits);
    memcpy(body + count, &wire, 4);
    memcpy(body + count + 4, number, digits);
    count += 4 + digits;
    memcpy(body + count, "\0\0", 2);
    append_message('B', body, count + 2);
    append_message('E', "\0\0\0\0\0", 5);
    append_message('S', "", 0);
    return 0;
}

static void send_all(int fd, const char *bytes, size_t count) {
    if (send(fd, bytes, count, MSG_NOSIGNAL) != (ssize_t)count) die("send");
}

// Reads until nothing more has come for a while; how many bytes it was. Only before the clock starts.
static size_t read_until_quiet(int fd) {
    struct timeval wait = {1, 0};
    size_t count = 0;
    for (;;) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        ssize_t got = recv(fd, incoming, sizeof incoming, 0);
        if (got == 0) die("the peer closed");
        if (got < 0) break;
        count += (size_t)got;
        wait = (struct timeval){0, 60000};
    }
    return count;
}

static int make_connection(const struct settings *s) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    if (connect(fd, (const struct sockaddr *)&s->peer, sizeof s->peer)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

// Reads PostgreSQL messages until ReadyForQuery. Only before the clock starts.
static void await_ready(int fd) {
    static unsigned char held[65536];
    size_t have = 0;
    for (;;) {
        ssize_t got = recv(fd, held + have, sizeof held - have, 0);
        if (got <= 0) die("the greeting");
        have += (size_t)got;
        size_t from = 0;
        while (have - from >= 5) {
            uint32_t size;
            memcpy(&size, held + from + 1, 4);
            size = ntohl(size);
            if (held[from] == 'E') die("the server refused");
            if (have - from < 1 + size) break;
            if (held[from] == 'Z') return;
            from += 1 + size;
        }
        memmove(held, held + from, have - from);
        have -= from;
    }
}

// What is said on a fresh connection before requests: for PostgreSQL the start-up and the statement.
static void greet(const struct settings *s, int fd) {
    if (strcmp(s->protocol, "postgres")) return;
    size_t from = length;
    static const char start[] = "\0\3\0\0user\0postgres\0database\0postgres\0";
    append_message(0, start, sizeof start);
    send_all(fd, text + from, length - from);
    length = from;
    await_ready(fd);
    static const char parse[] = "s\0SELECT abalance FROM pgbench_accounts WHERE aid = $1\0\0";
    append_message('P', parse, sizeof parse);
    append_message('S', "", 0);
    send_all(fd, text + from, length - from);
    length = from;
    await_ready(fd);
}

// GET must find something. The keys are not those of other tools, whose values may be checked.
static void populate(const struct settings *s, int fd) {
    char line[128];
    for (uint64_t key = 0; key < s->keys; key++) {
        int size = snprintf(line, sizeof line, "*3\r\n$3\r\nSET\r\n$16\r\nbare%012llu\r\n$3\r\nxxx\r\n", (unsigned long long)key);
        send_all(fd, line, (size_t)size);
        if (recv(fd, incoming, sizeof incoming, 0) != 5) die("populate");
    }
}

static void write_requests(const struct settings *s) {
    uint64_t reply[2] = {0, 0};
    int count = REQUESTS + s->pipeline, *kinds = malloc(sizeof(int) * (size_t)count);
    at = malloc(sizeof(size_t) * (size_t)(count + 1));
    answer = malloc(sizeof(uint64_t) * (size_t)(count + 1));
    if (!kinds || !at || !answer) die("memory");
    for (int i = 0; i < REQUESTS; i++) {
        at[i] = length;
        kinds[i] = append_request(s);
    }
    at[REQUESTS] = length;
    for (int i = REQUESTS; i < count; i++) {
        size_t from = at[i - REQUESTS], size = at[i - REQUESTS + 1] - from;
        char *again = malloc(size);
        memcpy(again, text + from, size);
        append(again, size);
        free(again);
        kinds[i] = kinds[i - REQUESTS];
        at[i + 1] = length;
    }
    int fd = make_connection(s);
    greet(s, fd);
    if (!strcmp(s->protocol, "resp") && s->get) populate(s, fd);
    answer[0] = 0;
    for (int i = 0; i < count; i++) {
        if (!reply[kinds[i]]) {
            send_all(fd, text + at[i], at[i + 1] - at[i]);
            reply[kinds[i]] = read_until_quiet(fd);
        }
        answer[i + 1] = answer[i] + reply[kinds[i]];
    }
    close(fd);
    free(kinds);
}

// Times by count: 1024 buckets for each power of two.
#define FINE 1024
static uint64_t counts[64 * FINE], longest, total;
static double sum_ns;

static void keep(uint64_t ns, uint64_t times) {
    int shift = ns < 2 * FINE ? 0 : 53 - __builtin_clzll(ns);
    counts[shift * FINE + (int)(ns >> shift)] += times;
    total += times;
    sum_ns += (double)ns * (double)times;
    if (ns > longest) longest = ns;
}

static double quantile_us(double share) {
    uint64_t seen = 0, rank = (uint64_t)(share * (double)total);
    for (int i = 0; i < 64 * FINE; i++) {
        seen += counts[i];
        if (seen > rank) {
            int shift = i < 2 * FINE ? 0 : i / FINE - 1;
            return ((double)((uint64_t)(i - shift * FINE) << shift) + (double)(1ull << shift) / 2) / 1e3;
        }
    }
    return (double)longest / 1e3;
}

static void say(uint64_t operations, uint64_t took_ns, const struct rusage *before) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec - before->ru_utime.tv_sec + used.ru_stime.tv_sec - before->ru_stime.tv_sec)
        + (double)(used.ru_utime.tv_usec - before->ru_utime.tv_usec + used.ru_stime.tv_usec - before->ru_stime.tv_usec) / 1e6;
    printf("{\"operations\":%llu,\"seconds\":%.6f,\"cpu_s\":%.6f", (unsigned long long)operations, (double)took_ns / 1e9, cpu);
    if (total)
        printf(",\"mean_us\":%.3f,\"p50_us\":%.3f,\"p95_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"max_us\":%.3f",
               sum_ns / (double)total / 1e3, quantile_us(.5), quantile_us(.95), quantile_us(.99), quantile_us(.999),
               (double)longest / 1e3);
    printf("}\n");
}

struct connection {
    int fd, next;
    uint64_t awaited, sent_ns;
};

static void ask(const struct settings *s, struct connection *c) {
    int from = c->next, to = from + s->pipeline;
    c->next = to >= REQUESTS ? to - REQUESTS : to;
    c->awaited = answer[to] - answer[from];
    send_all(c->fd, text + at[from], at[to] - at[from]);
}

static void closed_loop(const struct settings *s) {
    struct connection *connections = calloc((size_t)s->connections, sizeof *connections);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS];
    for (int i = 0; i < s->connections; i++) {
        struct connection *c = &connections[i];
        c->fd = make_connection(s);
        c->next = (int)draw(REQUESTS);
        greet(s, c->fd);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event)) die("epoll_ctl");
    }
    struct rusage before;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns(), now = start, end = start + (uint64_t)(s->seconds * 1e9), operations = 0;
    for (int i = 0; i < s->connections; i++) {
        connections[i].sent_ns = now;
        ask(s, &connections[i]);
    }
    while (now < end) {
        int ready = epoll_wait(epoll, events, EVENTS, 100);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            ssize_t got;
            do {
                got = recv(c->fd, incoming, sizeof incoming, 0);
                if (got <= 0 || (uint64_t)got > c->awaited) die("recv");
                c->awaited -= (uint64_t)got;
            } while (got == sizeof incoming && c->awaited);
            if (c->awaited) continue;
            operations += (uint64_t)s->pipeline;
            if (s->times) {
                now = now_ns();
                keep(now - c->sent_ns, (uint64_t)s->pipeline);
                c->sent_ns = now;
            }
            ask(s, c);
        }
        now = now_ns();
    }
    say(operations, now - start, &before);
}

static void planned(const struct settings *s) {
    struct connection c = {.fd = make_connection(s)};
    greet(s, c.fd);
    prctl(PR_SET_TIMERSLACK, 1);
    struct timeval forever = {0, 0};
    setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
    struct rusage before;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns() + SECOND / 1000, gap = (uint64_t)(1e9 / s->rate), operations = 0;
    for (; (double)(operations * gap) < s->seconds * 1e9; operations++) {
        uint64_t due = start + operations * gap;
        struct timespec wake = {(time_t)(due / SECOND), (long)(due % SECOND)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR) {}
        ask(s, &c);
        while (c.awaited) {
            ssize_t got = recv(c.fd, incoming, sizeof incoming, 0);
            if (got <= 0) die("recv");
            c.awaited -= (uint64_t)got;
        }
        keep(now_ns() - due, 1);
    }
    say(operations, now_ns() - start, &before);
}

int main(int count, char **words) {
    struct settings s = {.set = 1, .keys = 10000, .rows = 100000, .path = "/"};
    if (count < 7) {
        fprintf(stderr, "usage: floor resp|http|postgres ADDRESS PORT CONNECTIONS PIPELINE SECONDS [OPTION=VALUE]...\n");
        return 2;
    }
    s.protocol = words[1];
    s.peer.sin_family = AF_INET;
    s.peer.sin_port = htons((uint16_t)atoi(words[3]));
    if (inet_pton(AF_INET, words[2], &s.peer.sin_addr) != 1) die("the address");
    s.connections = atoi(words[4]);
    s.pipeline = atoi(words[5]);
    s.seconds = atof(words[6]);
    for (int i = 7; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value) die(words[i]);
        *value++ = 0;
        if (!strcmp(words[i], "set")) s.set = strtoull(value, NULL, 10);
        else if (!strcmp(words[i], "get")) s.get = strtoull(value, NULL, 10);
        else if (!strcmp(words[i], "keys")) s.keys = strtoull(value, NULL, 10);
        else if (!strcmp(words[i], "rows")) s.rows = strtoull(value, NULL, 10);
        else if (!strcmp(words[i], "path")) s.path = value;
        else if (!strcmp(words[i], "times")) s.times = atoi(value);
        else if (!strcmp(words[i], "rate")) s.rate = atof(value);
        else die(words[i]);
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (s.rate > 0) s.pipeline = 1;
    write_requests(&s);
    if (s.rate > 0) planned(&s);
    else closed_loop(&s);
    return 0;
}
