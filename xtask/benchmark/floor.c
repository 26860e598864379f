// The floor: what a load generator on epoll cannot be much cheaper than.
//
// Requests are written before the clock starts and sent as they lie there; of the replies only the bytes are counted,
// against what one reply of each kind had when it was asked for once. No parsing, no checks, no statistics, one
// reading of the clock a round. Two system calls a batch: recv and send.
//
// With transactions an operation is a whole one, its statements sent one after the other, each when the one before is
// answered. Their replies differ in length, so that a reply is over when what has come ends with ReadyForQuery.
//
//   floor resp|http|postgres|tpcb|oltp_read_write ADDRESS PORT CONNECTIONS PIPELINE SECONDS [OPTION=VALUE]...
//     postgres       a select of pgbench; tpcb: pgbench's transaction; oltp_read_write: sysbench's; all prepared
//     set=N get=N    weights of the RESP requests; keys=N how many keys; path=TEXT of the HTTP request
//     rows=N         how many accounts pgbench's table has, or rows sysbench's
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

// A statement that is prepared once on each connection, what it is given, a letter for each parameter, and how often it
// is executed in a row.
struct statement {
    const char *sql, *parameters;
    int times;
};

static const struct statement select_one[] = {{"SELECT abalance FROM pgbench_accounts WHERE aid = $1", "i", 1}, {0}};

static const struct statement tpcb[] = {
    {"BEGIN", "", 1},
    {"UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", "di", 1},
    {"SELECT abalance FROM pgbench_accounts WHERE aid = $1", "s", 1},
    {"UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", "dt", 1},
    {"UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = 1", "d", 1},
    {"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, 1, $2, $3, CURRENT_TIMESTAMP)", "tsd", 1},
    {"COMMIT", "", 1}, {0}};

static const struct statement read_write[] = {
    {"BEGIN", "", 1},
    {"SELECT c FROM sbtest1 WHERE id = $1", "i", 10},
    {"SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2", "il", 1},
    {"SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2", "il", 1},
    {"SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c", "il", 1},
    {"SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c", "il", 1},
    {"UPDATE sbtest1 SET k = k + 1 WHERE id = $1", "i", 1},
    {"UPDATE sbtest1 SET c = $1 WHERE id = $2", "ci", 1},
    {"DELETE FROM sbtest1 WHERE id = $1", "i", 1},
    {"INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)", "sicp", 1},
    {"COMMIT", "", 1}, {0}};

// What is asked for.
struct settings {
    const char *protocol, *path;
    struct sockaddr_in peer;
    int connections, pipeline, times;
    double seconds, rate;
    uint64_t set, get, keys, rows;
    const struct statement *statements; // of PostgreSQL, else null
    int steps;                          // requests of an operation
    int requests;                       // how many are written beforehand: whole operations
};

// All requests in one piece of memory. Request i lies from text[at[i]] to text[at[i + 1]]; the replies to the first i
// requests are answer[i] bytes long; answer is null where replies differ in length. The first `pipeline` requests stand
// once more behind the last.
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

// The numbers of an operation: a row, and of pgbench's transaction the rest.
struct drawn {
    long long row, teller, delta;
};

// Writes a parameter in text form and returns its length.
static size_t write_parameter(char *to, char letter, struct drawn *drawn, uint64_t rows) {
    // Groups of 11 digits with a dash between them, as sysbench fills its columns.
    size_t size = letter == 'c' ? 119 : letter == 'p' ? 59 : 0;
    for (size_t i = 0; i < size; i++) to[i] = i % 12 == 11 ? '-' : (char)('0' + draw(10));
    if (size) return size;
    if (letter == 'i') drawn->row = 1 + (long long)draw(rows);
    switch (letter) {
    case 'i': // drawn anew
    case 's': // the same again
        return (size_t)sprintf(to, "%lld", drawn->row);
    case 'l': return (size_t)sprintf(to, "%lld", drawn->row + 99);
    case 't': return (size_t)sprintf(to, "%lld", drawn->teller);
    case 'd': return (size_t)sprintf(to, "%lld", drawn->delta);
    }
    die("a parameter's letter");
    return 0;
}

// Binds the unnamed portal to the statement of this name, executes it, syncs.
static void append_execution(const struct statement *statement, char name, struct drawn *drawn, uint64_t rows) {
    char body[1024] = {0, name, 0, 0, 0, 0, (char)strlen(statement->parameters)};
    size_t count = 7;
    for (const char *letter = statement->parameters; *letter; letter++) {
        size_t size = write_parameter(body + count + 4, *letter, drawn, rows);
        uint32_t wire = htonl((uint32_t)size);
        memcpy(body + count, &wire, 4);
        count += 4 + size;
    }
    memcpy(body + count, "\0\0", 2);
    append_message('B', body, count + 2);
    append_message('E', "\0\0\0\0\0", 5);
    append_message('S', "", 0);
}

// Appends the requests of an operation; the last ends where the text does. Returns which kind they are: replies to one
// kind are all of one length, where an operation is one request.
static int append_operation(const struct settings *s, size_t *starts) {
    char line[1024];
    *starts = length;
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
    struct drawn drawn = {0, 1 + (long long)draw(10), (long long)draw(10001) - 5000};
    for (int i = 0; s->statements[i].sql; i++) {
        for (int time = 0; time < s->statements[i].times; time++) {
            *starts++ = length;
            append_execution(&s->statements[i], (char)('a' + i), &drawn, s->rows);
        }
    }
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
    unsigned char head[5];
    uint32_t size;
    do {
        if (recv(fd, head, sizeof head, MSG_WAITALL) != sizeof head) die("the greeting");
        if (head[0] == 'E') die("the server refused");
        memcpy(&size, head + 1, 4);
        size = ntohl(size) - 4;
        if (size > sizeof incoming) die("the greeting");
        if (size && recv(fd, incoming, size, MSG_WAITALL) != (ssize_t)size) die("the greeting");
    } while (head[0] != 'Z');
}

// What is said on a fresh connection before requests: for PostgreSQL the start-up and the statements.
static void greet(const struct settings *s, int fd) {
    if (!s->statements) return;
    size_t from = length;
    static const char start[] = "\0\3\0\0user\0postgres\0database\0postgres\0";
    append_message(0, start, sizeof start);
    send_all(fd, text + from, length - from);
    length = from;
    await_ready(fd);
    for (int i = 0; s->statements[i].sql; i++) {
        // Its name, its text, and no types of parameters: the server finds them out.
        char parse[256];
        int size = snprintf(parse, sizeof parse, "%c%c%s%c%c%c", 'a' + i, 0, s->statements[i].sql, 0, 0, 0);
        append_message('P', parse, (size_t)size);
    }
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
    int count = s->requests + s->pipeline, *kinds = malloc(sizeof(int) * (size_t)count);
    at = malloc(sizeof(size_t) * (size_t)(count + 1));
    if (!kinds || !at) die("memory");
    for (int i = 0; i < s->requests; i += s->steps) kinds[i] = append_operation(s, at + i);
    at[s->requests] = length;
    for (int i = s->requests; i < count; i++) {
        size_t from = at[i - s->requests], size = at[i - s->requests + 1] - from;
        char *again = malloc(size);
        memcpy(again, text + from, size);
        append(again, size);
        free(again);
        kinds[i] = kinds[i - s->requests];
        at[i + 1] = length;
    }
    if (s->steps == 1) {
        int fd = make_connection(s);
        greet(s, fd);
        if (!strcmp(s->protocol, "resp") && s->get) populate(s, fd);
        answer = malloc(sizeof(uint64_t) * (size_t)(count + 1));
        if (!answer) die("memory");
        answer[0] = 0;
        for (int i = 0; i < count; i++) {
            if (!reply[kinds[i]]) {
                send_all(fd, text + at[i], at[i + 1] - at[i]);
                reply[kinds[i]] = read_until_quiet(fd);
            }
            answer[i + 1] = answer[i] + reply[kinds[i]];
        }
        close(fd);
    }
    free(kinds);
}

// Times by count: 1024 buckets for each power of two.
#define FINE 1024
static uint64_t counts[64 * FINE], longest, total;
static uint64_t failed; // transactions that the server gave up; many of them would be cheaper than what was asked for
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
    printf("{\"operations\":%llu,\"failed\":%llu,\"seconds\":%.6f,\"cpu_s\":%.6f",
           (unsigned long long)operations, (unsigned long long)failed, (double)took_ns / 1e9, cpu);
    if (total)
        printf(",\"mean_us\":%.3f,\"p50_us\":%.3f,\"p95_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"max_us\":%.3f",
               sum_ns / (double)total / 1e3, quantile_us(.5), quantile_us(.95), quantile_us(.99), quantile_us(.999),
               (double)longest / 1e3);
    printf("}\n");
}

struct connection {
    int fd, next;
    uint64_t awaited, sent_ns; // awaited: bytes; where replies differ in length, whether there is one to come
    char tail[6];              // where replies differ in length, the last bytes that came
};

static void ask(const struct settings *s, struct connection *c) {
    int from = c->next, to = from + s->pipeline;
    c->next = to >= s->requests ? to - s->requests : to;
    c->awaited = answer ? answer[to] - answer[from] : 1;
    send_all(c->fd, text + at[from], at[to] - at[from]);
}

// Whether what has come on a connection, `got` bytes of it just now, ends with ReadyForQuery. Nothing else in a reply
// looks like it, wherever it is cut: no column here has a Z.
static int is_ready(struct connection *c, size_t got) {
    size_t old = got < sizeof c->tail ? sizeof c->tail - got : 0;
    memmove(c->tail, c->tail + sizeof c->tail - old, old);
    memcpy(c->tail + old, incoming + got - (sizeof c->tail - old), sizeof c->tail - old);
    return !memcmp(c->tail, "Z\0\0\0\5", 5);
}

// Takes what has come, and says whether all that was asked for is answered.
static int receive(struct connection *c) {
    ssize_t got;
    do {
        got = recv(c->fd, incoming, sizeof incoming, 0);
        if (got <= 0) die("recv");
        if (answer && (uint64_t)got > c->awaited) errno = 0, die("a reply's length");
        c->awaited = answer ? c->awaited - (uint64_t)got : !is_ready(c, (size_t)got);
    } while (got == sizeof incoming && c->awaited);
    return !c->awaited;
}

// Goes on from an answered request, and says whether it was the last of its operation.
static int step_on(const struct settings *s, const struct connection *c) {
    int step = c->next % s->steps;
    // ReadyForQuery says E in a transaction that can only be rolled back, which COMMIT, the last step, then does.
    if (!answer && step == s->steps - 1) failed += c->tail[5] == 'E';
    return step == 0;
}

static void closed_loop(const struct settings *s) {
    struct connection *connections = calloc((size_t)s->connections, sizeof *connections);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS];
    for (int i = 0; i < s->connections; i++) {
        struct connection *c = &connections[i];
        c->fd = make_connection(s);
        // Connections at the same transaction would wait for each other's rows, and so stay together.
        if (answer) c->next = (int)draw((uint64_t)s->requests);
        else c->next = s->requests / s->steps * i / s->connections * s->steps;
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
            if (!receive(c)) continue;
            if (step_on(s, c)) {
                operations += (uint64_t)s->pipeline;
                if (s->times) {
                    now = now_ns();
                    keep(now - c->sent_ns, (uint64_t)s->pipeline);
                    c->sent_ns = now;
                }
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
        do {
            ask(s, &c);
            while (!receive(&c)) {}
        } while (!step_on(s, &c));
        keep(now_ns() - due, 1);
    }
    say(operations, now_ns() - start, &before);
}

int main(int count, char **words) {
    struct settings s = {.set = 1, .keys = 10000, .rows = 100000, .path = "/"};
    if (count < 7) {
        fprintf(stderr, "usage: floor resp|http|postgres|tpcb|oltp_read_write ADDRESS PORT CONNECTIONS PIPELINE SECONDS "
                        "[OPTION=VALUE]...\n");
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
    if (!strcmp(s.protocol, "postgres")) s.statements = select_one;
    else if (!strcmp(s.protocol, "tpcb")) s.statements = tpcb;
    else if (!strcmp(s.protocol, "oltp_read_write")) s.statements = read_write;
    else if (strcmp(s.protocol, "resp") && strcmp(s.protocol, "http")) die(s.protocol);
    s.steps = !s.statements;
    for (int i = 0; s.statements && s.statements[i].sql; i++) s.steps += s.statements[i].times;
    if (s.steps > 1 && s.pipeline != 1) die("transactions have no pipeline");
    s.requests = REQUESTS - REQUESTS % s.steps;
    write_requests(&s);
    if (s.rate > 0) planned(&s);
    else closed_loop(&s);
    return 0;
}
