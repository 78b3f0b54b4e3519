/*
 * test_copies.c - one altered bit in one copy of the state is found, wherever copies are.
 *
 * Ranks are threads. That copies stay equal in real steps, every run of test_layouts says.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/state/replica_check.h"
#include "lib/state/weights.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"
#include "tests/lib/thread_comm.h"

enum { RANKS_MAX = 16 };

/* One bit of a value is altered on one rank; "" alters nothing. */
struct planted {
    const char *name;
    struct sn_layout_config layout; /* what is 0 is 1 */
    enum sn_family family;
    enum sn_dtype dtype;
    int kv_heads; /* 0: all */
    int rank;
    const char *group, *tensor;
    const char *words[2]; /* of the sentence; NULL: none, the state is sound */
};

struct world {
    struct sn_config config;
    struct thread_world *threads;
    const struct planted *planted;
    bool beside; /* hash in a thread */
    enum sn_status status[RANKS_MAX];
    struct sn_err err[RANKS_MAX];
    bool found[RANKS_MAX];   /* what is to be altered lies here */
    bool counted[RANKS_MAX]; /* some traffic is left over */
};

struct place {
    struct sn_model *model;
    struct sn_job *job;
    struct sn_exec *exec;
    struct sn_state state;
};

static void set_values(struct sn_state *s)
{
    for (int i = 0; i < s->n_tensors; i++) {
        struct sn_state_tensor *t = &s->tensors[i];
        uint64_t key = sn_rng_key(sn_rng_key(7, t->group), t->name);
        for (int64_t r = 0; r < t->n_rows; r++)
            for (int64_t c = 0; c < t->n_cols; c++)
                t->p[r * t->ld + c] =
                    (float)(sn_rng_bits(key, (uint64_t)((t->row + r) * t->cols + t->col + c)) >>
                            40);
    }
}

/* The lowest bit of the last value that this rank has of the tensor. */
static bool alter(struct sn_state *s, const struct planted *f)
{
    for (int i = s->n_tensors - 1; i >= 0; i--) {
        struct sn_state_tensor *t = &s->tensors[i];
        if (strcmp(t->group, f->group) != 0 || strcmp(t->name, f->tensor) != 0)
            continue;
        unsigned char *byte = (unsigned char *)&t->p[(t->n_rows - 1) * t->ld + t->n_cols - 1];
        *byte ^= 1;
        return true;
    }
    return false;
}

static enum sn_status begin(struct world *w, struct place *p, int rank, struct sn_err *err)
{
    struct sn_comm *comm = thread_world_comm(w->threads, rank);
    SN_TRY(sn_model_create(&p->model, &w->config.model, &w->config.train, err));
    struct sn_job_env env = {.config = &w->config, .model = p->model, .ops = sn_ops_cpu(), .threads = 1, .rank = rank};
    SN_TRY(sn_job_create(&p->job, &env, err));
    SN_TRY(sn_exec_create(&p->exec, p->job, comm, err));
    SN_TRY(comm->ops->set_grid(comm, &p->job->grid, err));
    return sn_state_create(&p->state, p->exec, p->job, err);
}

static enum sn_status compare(const struct world *w, struct place *p, struct sn_comm *comm,
                              struct sn_err *err)
{
    struct sn_replica_check *c = NULL;
    if (!w->beside)
        return sn_replica_check_check(p->exec, p->job, comm, err);
    enum sn_status st = sn_replica_check_create(&c, p->exec, p->job, err);
    if (st == SN_OK)
        st = sn_replica_check_begin(c, err);
    if (st == SN_OK) {
        sn_replica_check_wait(c);
        st = sn_replica_check_compare(c, comm, err);
    }
    sn_replica_check_destroy(c);
    return st;
}

static void body(void *arg, int rank)
{
    struct world *w = arg;
    struct place p = {0};
    struct sn_comm *comm = thread_world_comm(w->threads, rank);
    int64_t sent[SN_NAXES] = {0};
    enum sn_status st = begin(w, &p, rank, &w->err[rank]);
    if (st == SN_OK) {
        set_values(&p.state);
        if (rank == w->planted->rank && w->planted->group)
            w->found[rank] = alter(&p.state, w->planted);
        st = compare(w, &p, comm, &w->err[rank]);
        comm->ops->take_sent_bytes(comm, sent);
        for (int a = 0; a < SN_NAXES; a++)
            w->counted[rank] |= sent[a] != 0;
    }
    w->status[rank] = st;
    sn_state_fini(&p.state);
    sn_exec_destroy(p.exec);
    sn_job_destroy(p.job);
    sn_model_destroy(p.model);
}

static struct sn_config config_of(const struct planted *f)
{
    struct sn_config c = layout_config(f->family);
    const struct sn_layout_config *l = &f->layout;
    c.train.precision = f->dtype;
    if (f->kv_heads)
        c.model.kv_heads = f->kv_heads;
    c.layout.data = l->data ? l->data : 1;
    c.layout.tensor = l->tensor ? l->tensor : 1;
    c.layout.context = l->context ? l->context : 1;
    c.layout.pipeline = l->pipeline ? l->pipeline : 1;
    c.layout.sequence_parallel = l->sequence_parallel;
    c.layout.zero = l->zero;
    return c;
}

static void check(const struct planted *f, bool beside)
{
    struct world w = {.config = config_of(f), .planted = f, .beside = beside};
    int ranks = layout_ranks(&w.config), good = 0;
    bool counted = false;
    w.threads = thread_world_create(ranks);
    thread_world_run(w.threads, body, &w);
    thread_world_destroy(w.threads);
    for (int r = 0; r < ranks; r++) {
        counted = counted || w.counted[r];
        if (!f->words[0])
            good += w.status[r] == SN_OK;
        else
            good += w.status[r] == SN_EIO && strstr(w.err[r].text, f->words[0]) &&
                    strstr(w.err[r].text, f->words[1]) && w.found[f->rank];
    }
    tap_ok(good == ranks, "%s%s: %s on all %d ranks", f->name, beside ? ", by a thread" : "",
           f->words[0] ? "found, and said" : "sound", ranks);
    tap_ok(!counted, "%s: no traffic of a step", f->name);
    if (good < ranks || f->words[0])
        printf("#   %s\n", w.err[0].text);
}

static void altered_bits_are_found(void)
{
    /* clang-format off */
    const struct planted cases[] = {
        {"replicas", {.data = 3}, SN_LLAMA, .words = {NULL}},
        {"everything", {.data = 2, .tensor = 2, .context = 2, .pipeline = 2, .sequence_parallel = true}, SN_GPT2, .words = {NULL}},
        {"a slice has no copy", {.data = 2, .zero = 1}, SN_LLAMA, .rank = 1, .group = "exp_avg", .tensor = "layers.2.attn.k.weight", .words = {NULL}},
        {"a weight of a replica", {.data = 3}, SN_LLAMA, .rank = 2, .group = "model", .tensor = "layers.1.attn.v.weight",
            .words = {"model of 'layers.1.attn.qkv.weight' differs between ranks 0 and 2", "(data x context): a memory or network error is likely"}},
        {"a moment of member 0", {.data = 2, .context = 2}, SN_LLAMA, SN_BF16, .rank = 0, .group = "exp_avg_sq", .tensor = "embed.weight",
            .words = {"exp_avg_sq of 'embed.weight' differs between ranks 0 and 1", "(data x context)"}},
        {"a norm of a tensor rank", {.data = 2, .tensor = 2, .zero = 2, .sequence_parallel = true}, SN_GPT2, .rank = 3, .group = "exp_avg", .tensor = "final_norm.bias",
            .words = {"exp_avg of 'final_norm.bias' differs between ranks 2 and 3", "(tensor)"}},
        {"a copy of key heads", {.tensor = 4}, SN_LLAMA, .kv_heads = 2, .rank = 1, .group = "model", .tensor = "layers.3.attn.k.weight",
            .words = {"model of 'layers.3.attn.qkv.weight' differs between ranks 0 and 1", "(kv copies)"}},
        {"an end of a tied embedding", {.pipeline = 2}, SN_GPT2, .rank = 1, .group = "model", .tensor = "embed.weight",
            .words = {"model of 'embed.weight' differs between ranks 0 and 1", "(tied"}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int beside = 0; beside < 2; beside++)
            check(&cases[i], beside);
}

/* One of two ranks, which never meets the other. */
static void hashing_may_be_left_off(void)
{
    struct planted alone = {.family = SN_LLAMA, .layout = {.data = 2}};
    struct world w = {.config = config_of(&alone), .planted = &alone};
    struct sn_err err = {0};
    struct place p = {0};
    struct sn_replica_check *c = NULL;
    w.threads = thread_world_create(2);
    bool good = begin(&w, &p, 0, &err) == SN_OK &&
                sn_replica_check_create(&c, p.exec, p.job, &err) == SN_OK;
    for (int i = 0; good && i < 2; i++) {
        good = sn_replica_check_begin(c, &err) == SN_OK;
        sn_replica_check_wait(c);
        sn_replica_check_wait(c);
    }
    tap_ok(good, "begin and wait, twice %s", err.text);
    good = good && sn_replica_check_begin(c, &err) == SN_OK;
    sn_replica_check_destroy(c);
    tap_ok(good, "destroy waits");
    for (uint64_t n = 1; good && n <= 4; n++) {
        sn_mem_fail_at(n);
        good = sn_replica_check_create(&c, p.exec, p.job, &err) == SN_ENOMEM;
        sn_mem_fail_at(0);
    }
    tap_ok(good, "each of 4 allocations may fail: %s", err.text);
    sn_state_fini(&p.state);
    sn_exec_destroy(p.exec);
    sn_job_destroy(p.job);
    sn_model_destroy(p.model);
    thread_world_destroy(w.threads);
}

int main(void)
{
    altered_bits_are_found();
    hashing_may_be_left_off();
    return tap_done();
}
