/*
 * bench_checkpoint.c - saving and loading against the disk itself, and an asynchronous save against
 * a plain copy in memory.
 *
 *   build/tests/bench/bench_checkpoint [--dir DIR] [--mib 2048] [--pairs 10] [--ranks 1,2,4]
 *   build/tests/bench/bench_checkpoint --once ...     one save and one load of the first of --ranks
 *
 * The state is 32 matrices, cut by rows among the ranks, which are processes. A pair is: raw
 * O_DIRECT writes of the same bytes (one file a rank, space reserved, synced), a save (shards,
 * master, manifest, renamed), raw O_DIRECT reads, a load with all hashes verified into the same
 * memory. Every load is compared with what was saved. Ratios are of the pair, so that a disk whose
 * rate drifts spoils none; medians are reported. What is removed is removed between the timed
 * parts.
 */
#include "checkpoint/io/files.h"
#include "checkpoint/store/checkpoint.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 32, COLS = 4096, MOST_PAIRS = 101, RAW_BLOCK = 8 << 20, MOST_COUNTS = 8 };

struct options {
    char dir[512];
    int mib, pairs, n_counts, counts[MOST_COUNTS];
    bool once;
};

/* Shared by the processes of one run. */
struct meeting {
    pthread_barrier_t barrier;
};

struct rank {
    const struct options *o;
    struct meeting *m;
    int rank, ranks, pair;
    float *values; /* all boxes of this rank, one after the other */
    size_t bytes;
    char raw[600];
    struct sn_saver saver;
    struct sn_state state;
    struct sn_state_tensor tensors[TENSORS];
    struct sn_state_shape all[TENSORS];
    char names[TENSORS][32];
    uint64_t hash; /* of the values */
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static void must_ok(enum sn_status st, const struct sn_err *err)
{
    if (st == SN_OK)
        return;
    (void)fprintf(stderr, "bench_checkpoint: %s\n", err->text);
    exit(1);
}

static void meet(struct rank *r)
{
    (void)pthread_barrier_wait(&r->m->barrier); /* its two good answers differ by rank */
}

/* --- what is timed: each begins and ends with all ranks together ----------------------------- */

static double raw(struct rank *r, bool is_write)
{
    int flags = is_write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
    meet(r);
    double t = sn_clock();
    int fd = open(r->raw, flags | O_DIRECT | O_CLOEXEC, 0666);
    must(fd >= 0, r->raw);
    if (is_write)
        must(fallocate(fd, 0, 0, (off_t)r->bytes) == 0, "fallocate");
    for (size_t at = 0; at < r->bytes; at += RAW_BLOCK) {
        size_t n = r->bytes - at < RAW_BLOCK ? r->bytes - at : RAW_BLOCK;
        char *p = (char *)r->values + at;
        ssize_t done = is_write ? pwrite(fd, p, n, (off_t)at) : pread(fd, p, n, (off_t)at);
        must(done == (ssize_t)n, r->raw);
    }
    must(!is_write || fsync(fd) == 0, "fsync");
    must(close(fd) == 0, "close");
    meet(r);
    return sn_clock() - t;
}

static double save(struct rank *r)
{
    struct sn_err err;
    r->state.scalars.step = r->pair + 1;
    meet(r);
    double t = sn_clock();
    if (r->rank == 0)
        must_ok(sn_saver_phase(&r->saver, &r->state, SN_SAVE_PREPARE, &err), &err);
    meet(r);
    must_ok(sn_saver_phase(&r->saver, &r->state, SN_SAVE_WRITE, &err), &err);
    meet(r);
    if (r->rank == 0)
        must_ok(sn_saver_phase(&r->saver, &r->state, SN_SAVE_COMMIT, &err), &err);
    meet(r);
    return sn_clock() - t;
}

static double load(struct rank *r)
{
    struct sn_err err;
    memset(r->values, 0, r->bytes);
    meet(r);
    double t = sn_clock();
    must_ok(r->saver.load(r->saver.self, r->pair + 1, &r->state, &err), &err);
    meet(r);
    double seconds = sn_clock() - t;
    if (sn_hash64(r->values, r->bytes) != r->hash) {
        (void)fprintf(stderr, "bench_checkpoint: rank %d: loaded values are not the saved ones\n",
                      r->rank);
        exit(1);
    }
    return seconds;
}

/* How long the state may not change, of one save whose staging holds everything. */
static double stall(struct rank *r, double *layout)
{
    struct sn_err err;
    bool ended;
    r->state.scalars.step = r->pair + 1;
    if (r->rank == 0)
        must_ok(sn_saver_phase(&r->saver, &r->state, SN_SAVE_PREPARE, &err), &err);
    meet(r);
    double t = sn_clock();
    must_ok(r->saver.begin(r->saver.self, &r->state, SN_SAVE_WRITE, &err), &err);
    r->saver.copied(r->saver.self);
    double seconds = sn_clock() - t;
    struct sn_save_times times;
    must_ok(r->saver.finish(r->saver.self, true, &ended, &err), &err);
    r->saver.times(r->saver.self, &times);
    *layout = times.layout;
    meet(r);
    if (r->rank == 0)
        must_ok(sn_saver_phase(&r->saver, &r->state, SN_SAVE_COMMIT, &err), &err);
    meet(r);
    return seconds;
}

/* --- the ranks -------------------------------------------------------------------------------- */

static void make_state(struct rank *r)
{
    int64_t rows = (int64_t)r->o->mib * (1 << 20) / TENSORS / COLS / 4;
    int64_t first = rows * r->rank / r->ranks, end = rows * (r->rank + 1) / r->ranks;
    r->bytes = (size_t)(end - first) * COLS * 4 * TENSORS;
    r->values = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    must(r->values != MAP_FAILED, "memory for the values");
    uint32_t x = 12345u + (uint32_t)r->rank;
    for (size_t i = 0; i < r->bytes / 4; i++) {
        x = x * 1664525u + 1013904223u;
        r->values[i] = (float)x;
    }
    r->hash = sn_hash64(r->values, r->bytes);
    float *p = r->values;
    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(r->names[i], sizeof(r->names[i]), "layers.%02d.weight", i);
        r->all[i] = (struct sn_state_shape){"model", r->names[i], rows, COLS};
        r->tensors[i] = sn_state_whole(&r->all[i], p);
        r->tensors[i].row = first;
        r->tensors[i].n_rows = end - first;
        p += (end - first) * COLS;
    }
    r->state = (struct sn_state){.model_text = "model: {}\n",
                                 .layout_text = "",
                                 .rank = r->rank,
                                 .ranks = r->ranks,
                                 .tag = 1,
                                 .n_tensors = TENSORS,
                                 .tensors = r->tensors,
                                 .n_all = TENSORS,
                                 .all = r->all};
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), bench_by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static void remove_step(struct rank *r)
{
    char path[700];
    struct sn_err err;
    (void)snprintf(path, sizeof(path), "%s/ckpt/step-%08d", r->o->dir, r->pair + 1);
    meet(r);
    if (r->rank == 0)
        must_ok(sn_dir_remove(path, &err), &err);
    must(unlink(r->raw) == 0 || errno == ENOENT, r->raw);
    meet(r);
}

static void disk_pairs(struct rank *r)
{
    double t[4][MOST_PAIRS], ratio[2][MOST_PAIRS];
    double gib = r->o->mib / 1024.0 * 1.073741824;
    for (r->pair = 0; r->pair < r->o->pairs; r->pair++) {
        int i = r->pair;
        t[0][i] = raw(r, true);
        t[1][i] = save(r);
        t[2][i] = raw(r, false);
        t[3][i] = load(r);
        ratio[0][i] = t[0][i] / t[1][i];
        ratio[1][i] = t[2][i] / t[3][i];
        remove_step(r);
    }
    if (r->rank != 0)
        return;
    static const char *const what[] = {"save", "load"};
    int n = r->o->pairs;
    printf("%d rank%s", r->ranks, r->ranks > 1 ? "s" : " ");
    for (int k = 0; k < 2; k++) {
        double limit = gib / median(t[2 * k], n), ours = gib / median(t[2 * k + 1], n);
        double middle = median(ratio[k], n); /* sorts */
        printf("   %s %.2f GB/s, raw %.2f, ratio %.2f (%.2f .. %.2f)", what[k], ours, limit, middle,
               ratio[k][0], ratio[k][n - 1]);
    }
    printf("\n");
}

static void stall_pairs(struct rank *r)
{
    double ratio[MOST_PAIRS], copy[MOST_PAIRS], wait[MOST_PAIRS], layout[MOST_PAIRS];
    struct sn_err err;
    char *aside = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    must(aside != MAP_FAILED, "memory for a copy");
    must_ok(r->saver.reserve(r->saver.self, (int64_t)r->bytes + TENSORS * 4096, &err), &err);
    for (r->pair = 0; r->pair < r->o->pairs; r->pair++) {
        meet(r);
        double t = sn_clock();
        memcpy(aside, r->values, r->bytes);
        copy[r->pair] = sn_clock() - t;
        wait[r->pair] = stall(r, &layout[r->pair]);
        ratio[r->pair] = wait[r->pair] / copy[r->pair];
        remove_step(r);
    }
    int n = r->o->pairs;
    double middle = median(ratio, n); /* sorts */
    if (r->rank == 0)
        printf("%d rank%s   asynchronous save: the state is busy %.3f s (%.3f s of it making the "
               "file), a plain copy takes %.3f s, ratio %.2f (%.2f .. %.2f)\n",
               r->ranks, r->ranks > 1 ? "s" : " ", median(wait, n), median(layout, n),
               median(copy, n), middle, ratio[0], ratio[n - 1]);
    must(munmap(aside, r->bytes) == 0, "munmap");
}

static int run_rank(struct rank *r)
{
    struct sn_err err;
    char dir[600];
    (void)snprintf(dir, sizeof(dir), "%s/ckpt", r->o->dir);
    (void)snprintf(r->raw, sizeof(r->raw), "%s/raw-%d", r->o->dir, r->rank);
    must_ok(sn_checkpoint_open(&r->saver, dir, &(struct sn_checkpoint_options){0}, &err), &err);
    make_state(r);
    if (r->o->once) {
        double s = save(r), l = load(r);
        if (r->rank == 0)
            printf("{\"ranks\": %d, \"mib\": %d, \"save_s\": %.4f, \"load_s\": %.4f}\n", r->ranks,
                   r->o->mib, s, l);
        remove_step(r);
    } else {
        disk_pairs(r);
        stall_pairs(r);
    }
    (void)fflush(stdout);
    sn_checkpoint_close(&r->saver);
    return 0;
}

static void run_ranks(const struct options *o, int ranks)
{
    struct meeting *m =
        mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(m != MAP_FAILED, "shared memory");
    pthread_barrierattr_t shared;
    must(pthread_barrierattr_init(&shared) == 0 &&
             pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0 &&
             pthread_barrier_init(&m->barrier, &shared, (unsigned)ranks) == 0,
         "barrier");
    for (int i = 0; i < ranks; i++) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            struct rank *r = sn_alloc(sizeof(*r));
            must(r != NULL, "memory for a rank");
            *r = (struct rank){.o = o, .m = m, .rank = i, .ranks = ranks};
            exit(run_rank(r));
        }
    }
    for (int i = 0; i < ranks; i++) {
        int status = 0;
        must(wait(&status) > 0, "wait");
        if (status != 0) {
            (void)kill(0, SIGTERM); /* the others wait for it */
            exit(1);
        }
    }
    must(munmap(m, sizeof(*m)) == 0, "munmap");
}

static void parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.mib = 2048, .pairs = 10, .n_counts = 3, .counts = {1, 2, 4}};
    (void)snprintf(o->dir, sizeof(o->dir), "/tmp/bench_checkpoint.%ld", (long)getpid());
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--once") == 0) {
            o->once = true;
            continue;
        }
        if (strcmp(argv[i], "--dir") == 0)
            (void)snprintf(o->dir, sizeof(o->dir), "%s", value);
        else if (strcmp(argv[i], "--mib") == 0)
            o->mib = atoi(value);
        else if (strcmp(argv[i], "--pairs") == 0)
            o->pairs = atoi(value);
        else if (strcmp(argv[i], "--ranks") == 0)
            for (o->n_counts = 0; *value && o->n_counts < MOST_COUNTS; value += *value == ',')
                o->counts[o->n_counts++] = (int)strtol(value, (char **)&value, 10);
        i++;
    }
    if (o->mib < TENSORS || o->pairs < 1 || o->pairs > MOST_PAIRS || o->n_counts < 1) {
        (void)fprintf(stderr,
                      "bench_checkpoint: want --mib from %d, --pairs 1 to %d, --ranks a,b,...\n",
                      (int)TENSORS, (int)MOST_PAIRS);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    bench_head();
    struct options o;
    struct sn_err err;
    parse(&o, argc, argv);
    must_ok(sn_dir_make(o.dir, &err), &err);
    if (!o.once)
        printf("%d MiB, %d pairs, medians; %s\n", o.mib, o.pairs, o.dir);
    (void)fflush(stdout);
    for (int i = 0; i < (o.once ? 1 : o.n_counts); i++)
        run_ranks(&o, o.counts[i]);
    must_ok(sn_dir_remove(o.dir, &err), &err);
    return 0;
}
