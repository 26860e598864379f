/*
 * Copies, scales, adds and does both at once to arrays that no cache can hold, with as many threads as asked for, and
 * says at which rate: a "STREAM-like" measurement, of its own source. README.md says what is counted, timed and
 * checked.
 *
 *   stream --array-bytes 134217728 --cache 33554432 --threads 2     arrays of 128 MiB beside caches of 32 MiB
 *   stream --times-cache 4 --cache 33554432 --threads 2             the same
 *   stream --wait                                                   says "ready" and sleeps until SIGTERM
 *
 * The last line of the output is a JSON document. Exit code 2: wrong arguments; 1: no memory; 0: all else, for whether
 * the results are right is said by a check in the document.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What b is multiplied with. */
#define FACTOR 3.0
/* How many times the machine's last-level caches an array must be at least. */
#define TIMES_CACHE_MIN 4
/* The mean relative error of an array above which its values count as wrong. */
#define ERROR_MAX 1e-13
/* An iteration multiplies the values by 15: with more of them they would leave the range of a double. */
#define REPEAT_MAX 200
#define KERNELS 4

struct Asked {
    int64_t array_bytes;
    int64_t cache_bytes; /* 0: not said */
    int64_t threads;
    int64_t repeat;
};

struct Arrays {
    double *a, *b, *c;
    size_t length; /* elements of each */
};

struct Found {
    double best[KERNELS]; /* seconds, the first iteration left out */
    double sum[KERNELS];  /* seconds, of the same */
    int threads;
    double error; /* the largest of the arrays' mean relative errors */
};

static const char *const NAMES[KERNELS] = {"copy", "scale", "add", "triad"};
/* Bytes read and written for an element, without what a cache fetches before it is overwritten. */
static const double BYTES[KERNELS] = {16, 16, 24, 24};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The kernels on elements `from` up to `to`. Each is a function of its own that knows that its arrays do not overlap:
 * so the compiler makes of them what it makes of loops over global arrays, for `copy` a call of memcpy. */
typedef void Kernel(double *restrict a, double *restrict b, double *restrict c, size_t from, size_t to);

static void copy(double *restrict a, double *restrict b, double *restrict c, size_t from, size_t to) {
    (void)b;
    for (size_t n = from; n < to; n++) {
        c[n] = a[n];
    }
}

static void scale(double *restrict a, double *restrict b, double *restrict c, size_t from, size_t to) {
    (void)a;
    for (size_t n = from; n < to; n++) {
        b[n] = FACTOR * c[n];
    }
}

static void add(double *restrict a, double *restrict b, double *restrict c, size_t from, size_t to) {
    for (size_t n = from; n < to; n++) {
        c[n] = a[n] + b[n];
    }
}

static void triad(double *restrict a, double *restrict b, double *restrict c, size_t from, size_t to) {
    for (size_t n = from; n < to; n++) {
        a[n] = b[n] + FACTOR * c[n];
    }
}

static Kernel *const ALL[KERNELS] = {copy, scale, add, triad};

/* The elements of the calling thread: the same for every kernel and for who first writes to them, so that each thread
 * finds its pages where it placed them. */
static void own_part(size_t length, size_t *from, size_t *to) {
    size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
    size_t each = length / threads, left = length % threads;
    *from = thread * each + (thread < left ? thread : left);
    *to = *from + each + (thread < left);
}

/* Gives the arrays their first values; returns how many threads there are. */
static int prepare(const struct Arrays *arrays) {
    int threads = 0;
#pragma omp parallel
    {
        size_t from, to;
        own_part(arrays->length, &from, &to);
        for (size_t n = from; n < to; n++) {
            arrays->a[n] = 1;
            arrays->b[n] = 2;
            arrays->c[n] = 0;
        }
#pragma omp master
        threads = omp_get_num_threads();
    }
    return threads;
}

static double timed(const struct Arrays *arrays, Kernel *kernel) {
    double start = now();
#pragma omp parallel
    {
        size_t from, to;
        own_part(arrays->length, &from, &to);
        kernel(arrays->a, arrays->b, arrays->c, from, to);
    }
    return now() - start;
}

static double mean_error(const double *values, size_t length, double expected) {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (size_t n = 0; n < length; n++) {
        sum += fabs(values[n] - expected);
    }
    return sum / (double)length / fabs(expected);
}

/* How far the arrays are from what the same operations make of three numbers. */
static double largest_error(const struct Arrays *arrays, int64_t repeat) {
    double a = 1, b = 2, c = 0;
    for (int64_t n = 0; n < repeat; n++) {
        c = a;
        b = FACTOR * c;
        c = a + b;
        a = b + FACTOR * c;
    }
    double errors[] = {mean_error(arrays->a, arrays->length, a), mean_error(arrays->b, arrays->length, b),
                       mean_error(arrays->c, arrays->length, c)};
    double largest = 0;
    for (int n = 0; n < 3; n++) {
        /* A value that is no number stays one. */
        largest = errors[n] <= largest ? largest : errors[n];
    }
    return largest;
}

static double *memory(size_t bytes) {
    void *block = NULL;
    /* Aligned as large pages are, so that every form that has them can use them. */
    if (posix_memalign(&block, 1 << 21, bytes) != 0) {
        fprintf(stderr, "stream: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return block;
}

static struct Found run(const struct Asked *asked) {
    size_t bytes = (size_t)asked->array_bytes;
    size_t length = bytes / sizeof(double);
    /* One behind the other, as STREAM's are: how far apart arrays lie decides which parts of a cache they share. */
    double *first = memory(3 * bytes);
    struct Arrays arrays = {first, first + length, first + 2 * length, length};
    struct Found found = {.best = {INFINITY, INFINITY, INFINITY, INFINITY}};
    found.threads = prepare(&arrays);
    for (int64_t n = 0; n < asked->repeat; n++) {
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            double took = timed(&arrays, ALL[kernel]);
            if (n > 0) {
                found.best[kernel] = fmin(found.best[kernel], took);
                found.sum[kernel] += took;
            }
        }
    }
    found.error = largest_error(&arrays, asked->repeat);
    return found;
}

static const char *truth(int value) {
    return value ? "true" : "false";
}

static void report(const struct Asked *asked, const struct Found *found) {
    int64_t length = asked->array_bytes / (int64_t)sizeof(double), counted = asked->repeat - 1;
    int beyond = asked->cache_bytes > 0 && asked->array_bytes / TIMES_CACHE_MIN >= asked->cache_bytes;
    double seconds = 0;
    for (int n = 0; n < KERNELS; n++) {
        seconds += found->sum[n];
    }
    printf("{\"seconds\": %.9f, ", seconds);
    printf("\"operations\": {\"iteration\": {\"count\": %lld, \"errors\": 0}}, \"metrics\": {", (long long)counted);
    for (int n = 0; n < KERNELS; n++) {
        double megabytes = 1e-6 * BYTES[n] * (double)length;
        printf("\"%s\": %.3f, ", NAMES[n], megabytes / found->best[n]);
        printf("\"%s_mean\": %.3f%s", NAMES[n], megabytes * (double)counted / found->sum[n], n < 3 ? ", " : "}, ");
    }
    printf("\"checks\": [{\"name\": \"arrays beyond the caches\", \"passed\": %s, ", truth(beyond));
    if (asked->cache_bytes > 0) {
        double times = (double)asked->array_bytes / (double)asked->cache_bytes;
        printf("\"detail\": \"%.2f times the last-level caches, at least 4 are wanted\"}, ", times);
    } else {
        printf("\"detail\": \"how large the last-level caches are was not said\"}, ");
    }
    printf("{\"name\": \"results within 1e-13\", \"passed\": %s, ", truth(found->error < ERROR_MAX));
    printf("\"detail\": \"mean relative error %.3g\"}, ", found->error);
    printf("{\"name\": \"threads\", \"passed\": %s, ", truth(found->threads == asked->threads));
    printf("\"detail\": \"%d of %lld\"}], ", found->threads, (long long)asked->threads);
    printf("\"facts\": {\"array_bytes\": \"%lld\", ", (long long)length * (long long)sizeof(double));
    printf("\"cache_bytes\": \"%lld\", \"threads\": \"%d\", ", (long long)asked->cache_bytes, found->threads);
    printf("\"bound\": \"%s\"}}\n", omp_get_proc_bind() == omp_proc_bind_false ? "no" : "yes");
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

/* A handler, because this may be the first process of its container, which no signal ends otherwise. */
static void rest(void) {
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}

static void refuse(const char *what, const char *value) {
    fprintf(stderr, "stream: %s '%s'\n", what, value);
    fprintf(stderr, "usage: stream {--array-bytes N | --times-cache K} [--cache BYTES] [--threads N] [--repeat N], "
                    "or stream --wait\n");
    exit(2);
}

static int64_t whole(const char *name, const char *text, int64_t least, int64_t most) {
    char *rest = NULL;
    errno = 0;
    long long value = strtoll(text, &rest, 10);
    if (errno != 0 || rest == text || *rest != '\0' || value < least || value > most) {
        fprintf(stderr, "stream: %s takes a whole number from %lld to %lld\n", name, (long long)least, (long long)most);
        refuse("this is none:", text);
    }
    return value;
}

static struct Asked read_arguments(int count, char **arguments) {
    struct Asked asked = {.repeat = 10};
    int64_t times_cache = 0;
    asked.threads = omp_get_num_procs();
    for (int n = 1; n < count; n += 2) {
        const char *name = arguments[n], *value = n + 1 < count ? arguments[n + 1] : "";
        if (strcmp(name, "--array-bytes") == 0) {
            asked.array_bytes = whole(name, value, 4096, (int64_t)1 << 46) / 8 * 8;
        } else if (strcmp(name, "--times-cache") == 0) {
            times_cache = whole(name, value, 1, 1000);
        } else if (strcmp(name, "--cache") == 0) {
            asked.cache_bytes = whole(name, value, 1, (int64_t)1 << 36);
        } else if (strcmp(name, "--threads") == 0) {
            asked.threads = whole(name, value, 1, 4096);
        } else if (strcmp(name, "--repeat") == 0) {
            asked.repeat = whole(name, value, 2, REPEAT_MAX);
        } else {
            refuse("there is no argument", name);
        }
    }
    if (times_cache > 0 && asked.cache_bytes == 0) {
        refuse("--times-cache needs", "--cache");
    }
    if ((times_cache > 0) == (asked.array_bytes > 0)) {
        refuse("how large an array is, is said once, by --array-bytes or", "--times-cache");
    }
    if (times_cache > 0) {
        asked.array_bytes = (times_cache * asked.cache_bytes + 7) / 8 * 8;
    }
    return asked;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--wait") == 0) {
        rest();
    }
    struct Asked asked = read_arguments(count, arguments);
    omp_set_dynamic(0);
    omp_set_num_threads((int)asked.threads);
    struct Found found = run(&asked);
    report(&asked, &found);
    return 0;
}
