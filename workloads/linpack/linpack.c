/*
 * Solves a dense system Ax = b in double precision with the LU factorisation of OpenBLAS (partial pivoting, all its
 * threads) and says how many floating-point operations a second that was. README.md says what is counted, timed and
 * checked.
 *
 *   linpack --n 2000 --threads 2 --seconds 10     solves until 10 s have passed, once at least
 *   linpack --n 2000 --threads 2 --repeat 3       solves three times
 *   linpack --wait                                says "ready" and sleeps until SIGTERM
 *
 * The last line of the output is a JSON document. Exit code 2: wrong arguments; 1: no memory; 0: all else, for whether
 * the solutions are right is said by a check in the document.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* LAPACK's own solver, and what OpenBLAS tells of itself. Declared here: the header's name differs by flavour. */
extern void dgesv_(const int *n, const int *sides, double *a, const int *stride, int *pivots, double *b,
                   const int *b_stride, int *info);
extern void openblas_set_num_threads(int threads);
extern int openblas_get_num_threads(void);
extern char *openblas_get_config(void);
extern char *openblas_get_corename(void);
extern int openblas_get_parallel(void);

/* The residual below which a solution counts, as in HPL. */
#define RESIDUAL_MAX 16.0
/* The relative machine precision of HPL: half the distance from 1 to the next double. */
#define EPSILON 0x1p-53
/* The largest order whose matrix a 64-bit machine of today can hold: 320 GB. */
#define ORDER_MAX 200000
#define THREADS_MAX 4096
/* The order of the solve before the first that is timed: it wakes the threads and touches their buffers. */
#define ORDER_OF_WARM_UP 500

struct Asked {
    long order;
    long threads;
    long repeat;    /* 0: as often as fits into `seconds` */
    double seconds;
    uint64_t seed;
};

struct System {
    long order;
    long threads;
    uint64_t seed;
    double *matrix; /* by columns; the factors after a solve */
    double *sides;  /* b; x after a solve */
    int *pivots;
};

struct Found {
    long solves;
    long wrong;
    double seconds; /* of all solves together, without making and checking */
    double fastest; /* seconds of the fastest solve */
    double residual; /* the largest */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The number of this index in the sequence of `seed`, uniform in [-0.5, 0.5). It depends on nothing else, so the system
 * is the same whoever makes which part of it. The mixing is that of SplitMix64. */
static inline double entry(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(int64_t)(z >> 11) * 0x1p-53 - 0.5;
}

/* A share of the rows or columns of a system, and what is found in it. */
struct Share {
    struct System *system;
    long from, to;
    double matrix_norm, difference; /* maxima over the rows of the share */
    double *sums, *differences;     /* by row */
    pthread_t thread;
};

/* Carries out `work` on equal shares, each in a thread of its own, which then ends: OpenBLAS has threads too, and ours
 * must not be in their way. What cannot have a thread is done here. */
static void in_shares(struct Share *shares, struct System *system, void *(*work)(void *)) {
    for (long n = 0; n < system->threads; n++) {
        shares[n].system = system;
        shares[n].from = system->order * n / system->threads;
        shares[n].to = system->order * (n + 1) / system->threads;
    }
    long started = 1;
    while (started < system->threads &&
           pthread_create(&shares[started].thread, NULL, work, &shares[started]) == 0) {
        started++;
    }
    work(&shares[0]);
    for (long n = started; n < system->threads; n++) {
        work(&shares[n]);
    }
    for (long n = 1; n < started; n++) {
        pthread_join(shares[n].thread, NULL);
    }
}

/* Writes the columns of a share, and with the first write places their pages near to who writes. */
static void *make_columns(void *argument) {
    const struct Share *share = argument;
    const struct System *system = share->system;
    const uint64_t order = (uint64_t)system->order;
    for (uint64_t column = (uint64_t)share->from; column < (uint64_t)share->to; column++) {
        double *values = system->matrix + column * order;
        for (uint64_t row = 0; row < order; row++) {
            values[row] = entry(system->seed, column * order + row);
        }
        system->sides[column] = entry(system->seed, order * order + column);
    }
    return NULL;
}

/* |Ax - b| and |A| of the rows of a share, from the entries as they were before they became factors. */
static void *check_rows(void *argument) {
    struct Share *share = argument;
    const struct System *system = share->system;
    const uint64_t order = (uint64_t)system->order;
    const double *solution = system->sides;
    for (long row = share->from; row < share->to; row++) {
        share->differences[row] = -entry(system->seed, order * order + (uint64_t)row);
        share->sums[row] = 0;
    }
    for (uint64_t column = 0; column < order; column++) {
        for (long row = share->from; row < share->to; row++) {
            double value = entry(system->seed, column * order + (uint64_t)row);
            share->differences[row] += value * solution[column];
            share->sums[row] += fabs(value);
        }
    }
    share->difference = share->matrix_norm = 0;
    for (long row = share->from; row < share->to; row++) {
        double difference = fabs(share->differences[row]);
        /* A value that is no number stays one. */
        share->difference = difference <= share->difference ? share->difference : difference;
        share->matrix_norm = fmax(share->matrix_norm, share->sums[row]);
    }
    return NULL;
}

/* HPL's residual: |Ax-b| / (eps (|A| |x| + |b|) n), all norms the largest absolute row sum. */
static double residual(struct Share *shares, struct System *system) {
    in_shares(shares, system, check_rows);
    const uint64_t order = (uint64_t)system->order;
    double difference = 0, matrix_norm = 0, solution_norm = 0, sides_norm = 0;
    for (long n = 0; n < system->threads; n++) {
        double found = shares[n].difference;
        difference = found <= difference ? difference : found;
        matrix_norm = fmax(matrix_norm, shares[n].matrix_norm);
    }
    for (uint64_t row = 0; row < order; row++) {
        solution_norm = fmax(solution_norm, fabs(system->sides[row]));
        sides_norm = fmax(sides_norm, fabs(entry(system->seed, order * order + row)));
    }
    return difference / (EPSILON * (matrix_norm * solution_norm + sides_norm) * (double)order);
}

/* Factors and solves; returns the seconds that it took. `info` is not 0 when there is no solution. */
static double solve(struct System *system, int *info) {
    const int order = (int)system->order, one = 1;
    double start = now();
    dgesv_(&order, &one, system->matrix, &order, system->pivots, system->sides, &order, info);
    return now() - start;
}

static void *memory(size_t bytes) {
    void *block = NULL;
    /* Aligned as large pages are, so that every form that has them can use them. */
    if (posix_memalign(&block, 1 << 21, bytes) != 0) {
        fprintf(stderr, "linpack: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return block;
}

static struct Found run(const struct Asked *asked) {
    const size_t order = (size_t)asked->order;
    const size_t room = order > ORDER_OF_WARM_UP ? order : ORDER_OF_WARM_UP;
    struct System system = {.threads = asked->threads, .seed = asked->seed};
    system.matrix = memory(room * room * sizeof(double));
    system.sides = memory(room * sizeof(double));
    system.pivots = memory(room * sizeof(int));
    struct Share *shares = memory((size_t)asked->threads * sizeof(struct Share));
    double *sums = memory(order * sizeof(double)), *differences = memory(order * sizeof(double));
    for (long n = 0; n < asked->threads; n++) {
        shares[n] = (struct Share){.sums = sums, .differences = differences};
    }
    /* The pages are placed by who first writes to them: that must be the real matrix's threads. */
    system.order = asked->order;
    in_shares(shares, &system, make_columns);
    system.order = ORDER_OF_WARM_UP;
    in_shares(shares, &system, make_columns);
    int info = 0;
    solve(&system, &info);
    system.order = asked->order;

    struct Found found = {.fastest = INFINITY};
    double start = now();
    do {
        in_shares(shares, &system, make_columns);
        double took = solve(&system, &info);
        double worst = info == 0 ? residual(shares, &system) : NAN;
        found.solves++;
        found.wrong += !(worst < RESIDUAL_MAX);
        found.seconds += took;
        found.fastest = fmin(found.fastest, took);
        found.residual = worst <= found.residual ? found.residual : worst;
    } while (asked->repeat > 0 ? found.solves < asked->repeat : now() - start < asked->seconds);
    return found;
}

/* The operations that one solve counts for, by the convention of HPL, whatever was really done. */
static double operations(long order) {
    double n = (double)order;
    return 2.0 / 3.0 * n * n * n + 3.0 / 2.0 * n * n;
}

static void print_text(const char *text) {
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            putchar('\\');
        }
        putchar(byte < ' ' ? ' ' : byte);
    }
    putchar('"');
}

static void report(const struct Asked *asked, const struct Found *found) {
    static const char *const WAYS[] = {"one thread", "pthreads", "OpenMP"};
    int way = openblas_get_parallel(), threads = openblas_get_num_threads();
    double giga = 1e-9 * operations(asked->order);
    printf("{\"seconds\": %.9f, ", found->seconds);
    printf("\"operations\": {\"solve\": {\"count\": %ld, \"errors\": %ld}}, ", found->solves, found->wrong);
    printf("\"metrics\": {\"gflops\": %.6f, ", giga * (double)found->solves / found->seconds);
    printf("\"gflops_best\": %.6f}, ", giga / found->fastest);
    printf("\"checks\": [{\"name\": \"residual\", \"passed\": %s, ", found->wrong == 0 ? "true" : "false");
    printf("\"detail\": \"%.4g %s 16\"}, ", found->residual, found->wrong == 0 ? "<" : "is not <");
    printf("{\"name\": \"threads\", \"passed\": %s, ", threads == asked->threads ? "true" : "false");
    printf("\"detail\": \"OpenBLAS uses %d of %ld\"}], \"facts\": {\"openblas.core\": ", threads, asked->threads);
    print_text(openblas_get_corename());
    printf(", \"openblas.config\": ");
    print_text(openblas_get_config());
    printf(", \"openblas.parallel\": \"%s\", ", way >= 0 && way < 3 ? WAYS[way] : "unknown");
    printf("\"size\": \"%ld\", \"threads\": \"%d\", ", asked->order, threads);
    printf("\"seed\": \"%llu\"}}\n", (unsigned long long)asked->seed);
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

/* A handler, and not a blocked signal: this may be the first process of its container, which no signal ends otherwise,
 * and OpenBLAS has threads that would take it. */
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
    fprintf(stderr, "linpack: %s '%s'\n", what, value);
    fprintf(stderr, "usage: linpack --n ORDER [--threads N] [--repeat N | --seconds S] [--seed N], "
                    "or linpack --wait\n");
    exit(2);
}

static long whole(const char *name, const char *text, long least, long most) {
    char *rest = NULL;
    errno = 0;
    long value = strtol(text, &rest, 10);
    if (errno != 0 || rest == text || *rest != '\0' || value < least || value > most) {
        fprintf(stderr, "linpack: %s takes a whole number from %ld to %ld\n", name, least, most);
        refuse("this is none:", text);
    }
    return value;
}

static struct Asked read_arguments(int count, char **arguments) {
    struct Asked asked = {.repeat = 1, .seed = 1};
    cpu_set_t cpus;
    asked.threads = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    for (int n = 1; n < count; n += 2) {
        const char *name = arguments[n], *value = n + 1 < count ? arguments[n + 1] : "";
        if (strcmp(name, "--n") == 0) {
            asked.order = whole(name, value, 1, ORDER_MAX);
        } else if (strcmp(name, "--threads") == 0) {
            asked.threads = whole(name, value, 1, THREADS_MAX);
        } else if (strcmp(name, "--repeat") == 0) {
            asked.repeat = whole(name, value, 1, 1000000);
        } else if (strcmp(name, "--seed") == 0) {
            asked.seed = (uint64_t)whole(name, value, 0, INT32_MAX);
        } else if (strcmp(name, "--seconds") == 0) {
            char *rest = NULL;
            asked.seconds = strtod(value, &rest);
            asked.repeat = 0;
            if (rest == value || *rest != '\0' || !(asked.seconds > 0 && asked.seconds < 1e6)) {
                refuse("--seconds takes seconds, not", value);
            }
        } else {
            refuse("there is no argument", name);
        }
    }
    if (asked.order == 0) {
        refuse("missing argument", "--n");
    }
    return asked;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--wait") == 0) {
        rest();
    }
    struct Asked asked = read_arguments(count, arguments);
    openblas_set_num_threads((int)asked.threads);
    struct Found found = run(&asked);
    report(&asked, &found);
    return 0;
}
