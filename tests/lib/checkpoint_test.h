/*
 * checkpoint_test.h - a small state, a saver in a temporary directory, and questions to them.
 */
#ifndef CHECKPOINT_TEST_H
#define CHECKPOINT_TEST_H

#include "checkpoint/io/files.h"
#include "checkpoint/store/checkpoint.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

enum { N = 7 };
#define MODEL "model:\n  family: llama\n  hidden: 64\n  heads: 4\n"

__attribute__((unused)) static const struct sn_state_shape shape[N] = {
    {"model", "embed.weight", 300, 64},
    {"model", "final_norm.weight", 64, 1},
    {"model", "layers.0.attn.q.weight", 160, 130},
    {"exp_avg", "embed.weight", 300, 64},
    {"exp_avg", "final_norm.weight", 64, 1},
    {"exp_avg_sq", "embed.weight", 300, 64},
    {"exp_avg_sq", "layers.0.attn.q.weight", 1, 3},
};

/* How checkpoints are written: through a ring of staging, all copied aside first, or by all ranks
 * into one file. */
enum way { IN_TURN, ASIDE, SINGLE, WAYS };
__attribute__((unused)) static const char *const way_name[WAYS] = {"in turn", "aside", "one file"};

/* A temporary directory, a saver in its folder "ckpt", and a state to save. */
struct bench {
    char root[64], dir[96];
    enum way way;
    struct sn_saver saver;
    struct sn_state state;
    struct sn_state_tensor tensors[N];
    struct sn_err err;
};

__attribute__((unused)) static size_t bytes_of(const struct sn_state_tensor *t)
{
    return (size_t)t->rows * (size_t)t->cols * sizeof(float);
}

/* The state of a run of one rank; `all` is read only. */
__attribute__((unused)) static void make_state(struct sn_state *s, struct sn_state_tensor *t)
{
    for (int i = 0; i < N; i++) {
        t[i] = sn_state_whole(&shape[i], NULL);
        t[i].p = sn_alloc(bytes_of(&t[i]));
    }
    *s = (struct sn_state){.model_text = MODEL,
                           .config_hash = 7,
                           .ranks = 1,
                           .tag = getpid(),
                           .n_tensors = N,
                           .tensors = t,
                           .n_all = N,
                           .all = (struct sn_state_shape *)shape};
}

__attribute__((unused)) static void free_state(struct sn_state *s)
{
    for (int i = 0; i < N; i++)
        sn_free(s->tensors[i].p);
}

/* What the state is at a step: random bits, so that NaN, infinities and subnormals
 * are there too. */
__attribute__((unused)) static void set_state(struct sn_state *s, int64_t step)
{
    s->scalars =
        (struct sn_state_scalars){step, step * 12345678901, step - 1, 3, 1, 0.1f, {0}, 0, 0};
    for (int i = 0; i < N; i++) {
        uint64_t key = sn_rng_key((uint64_t)step * N + (uint64_t)i, "state");
        for (size_t k = 0; k < bytes_of(&s->tensors[i]) / 4; k++) {
            uint32_t bits = (uint32_t)sn_rng_bits(key, k);
            memcpy(&s->tensors[i].p[k], &bits, 4);
        }
    }
}

__attribute__((unused)) static bool open_saver(struct bench *b, int keep)
{
    struct sn_checkpoint_options o = {keep, b->way == SINGLE};
    if (sn_checkpoint_open(&b->saver, b->dir, &o, &b->err) != SN_OK)
        return false;
    return b->way != ASIDE || b->saver.reserve(b->saver.self, 4 << 20, &b->err) == SN_OK;
}

__attribute__((unused)) static void setup_in(struct bench *b, int keep, enum way way,
                                             const char *where)
{
    *b = (struct bench){.way = way};
    (void)snprintf(b->root, sizeof(b->root), "%s/sn-ckpt-XXXXXX", where);
    if (!mkdtemp(b->root)) {
        perror(b->root);
        exit(1);
    }
    (void)snprintf(b->dir, sizeof(b->dir), "%s/runs/ckpt", b->root);
    make_state(&b->state, b->tensors);
    if (!open_saver(b, keep))
        exit(1);
}

/* Where syncing costs nothing, if there is such a place: kills and refusals need no disk. */
__attribute__((unused)) static void setup_way(struct bench *b, int keep, enum way way)
{
    setup_in(b, keep, way, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

__attribute__((unused)) static void setup(struct bench *b, int keep)
{
    setup_way(b, keep, IN_TURN);
}

__attribute__((unused)) static void teardown(struct bench *b)
{
    sn_checkpoint_close(&b->saver);
    free_state(&b->state);
    (void)sn_dir_remove(b->root, &b->err);
}

/* A save as the trainer makes it: n ranks in turn, and rank 0 abandons it when a phase fails. */
__attribute__((unused)) static enum sn_status
save_ranks(struct sn_saver *s, const struct sn_state *ranks, int n, struct sn_err *err)
{
    struct sn_err ignored;
    enum sn_status st = sn_saver_phase(s, ranks, SN_SAVE_PREPARE, err);
    for (int r = 0; r < n && st == SN_OK; r++)
        st = sn_saver_phase(s, &ranks[r], SN_SAVE_WRITE, err);
    if (st == SN_OK)
        st = sn_saver_phase(s, ranks, SN_SAVE_COMMIT, err);
    if (st != SN_OK)
        (void)sn_saver_phase(s, ranks, SN_SAVE_ABANDON, &ignored);
    sn_checkpoint_wait_swept(s);
    return st;
}

__attribute__((unused)) static enum sn_status save_as_is(struct bench *b)
{
    return save_ranks(&b->saver, &b->state, 1, &b->err);
}

__attribute__((unused)) static enum sn_status save(struct bench *b, int64_t step)
{
    set_state(&b->state, step);
    return save_as_is(b);
}

/* The newest whole one, -1 for none; damaged ones are passed over, but where all are damaged it is
 * an error. */
__attribute__((unused)) static int64_t newest(struct bench *b)
{
    int64_t step = INT64_MAX;
    enum sn_status st, seen = SN_OK;
    while ((st = b->saver.find(b->saver.self, step, &step, &b->err)) == SN_EIO && step >= 0)
        seen = st;
    if (st == SN_OK && step < 0)
        st = seen;
    return st == SN_OK ? step : -100 - (int64_t)st;
}

/* Loads `step` into fresh memory and compares every bit with what set_state(want) makes. */
__attribute__((unused)) static bool loads_as(struct bench *b, int64_t step, int64_t want)
{
    struct sn_state got, expect;
    struct sn_state_tensor t[N], e[N];
    make_state(&got, t);
    make_state(&expect, e);
    set_state(&expect, want);
    bool same = b->saver.load(b->saver.self, step, &got, &b->err) == SN_OK;
    if (!same)
        printf("# %s\n", b->err.text);
    for (int i = 0; i < N && same; i++)
        same = memcmp(t[i].p, e[i].p, bytes_of(&t[i])) == 0;
    same = same && got.scalars.step == want && got.scalars.tokens == want * 12345678901 &&
           got.scalars.adam_count == want - 1 && got.scalars.scale_age == 3 &&
           got.scalars.skipped == 1 && got.scalars.loss_scale == 0.1f;
    free_state(&got);
    free_state(&expect);
    return same;
}

static const char *path_in(struct bench *b, const char *rest)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", b->dir, rest);
    return path;
}

__attribute__((unused)) static bool exists(struct bench *b, const char *rest)
{
    return access(path_in(b, rest), F_OK) == 0;
}

/* Number of entries whose name contains `part`. */
__attribute__((unused)) static int count_entries(struct bench *b, const char *part)
{
    char command[256], line[32] = "";
    (void)snprintf(command, sizeof(command), "ls %s | grep -c -F -e '%s'", b->dir, part);
    FILE *f = popen(command, "r");
    if (!f || !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        (void)pclose(f);
    return atoi(line);
}

#endif
