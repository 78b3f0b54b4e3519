/*
 * test_snapshot_train.c - training runs that end without a checkpoint go on from memory, in many
 * layouts, with what one host had lost; and everything that is planned for it holds.
 *
 * Ranks are threads; the memory of a host is a folder. A run ends when its saver fails, which is
 * when nobody has time to tidy up.
 */
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/data/data.h"
#include "lib/program/boxes.h"
#include "lib/train/trainer.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"
#include "tests/lib/thread_comm.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 8, STEPS = 7, ENDS = 5 };

struct saver {
    struct sn_saver base;
    int64_t fails;   /* at the save of this step; 0: never */
    int64_t damaged; /* the step of the one checkpoint; 0: there is none */
    int64_t passed_over;
};

struct world {
    const char *base;
    struct sn_config config;
    int ranks;
    const char *host[2]; /* of the first half of the ranks, and of the other */
    int64_t fails, damaged, passed_over;
    bool fresh;
    struct thread_world *threads;
    enum sn_status status[MOST];
    struct sn_err err[MOST];
    int64_t snapshot; /* planned bytes of rank 0 */
};

static enum sn_status begin(void *self, const struct sn_state *s, enum sn_save_phase phase,
                            struct sn_err *err)
{
    const struct saver *v = self;
    if (phase == SN_SAVE_PREPARE && s->scalars.step == v->fails)
        return sn_fail(err, SN_EIO, "the disk is full");
    return SN_OK;
}

static enum sn_status is_over(void *self, bool wait, bool *ended, struct sn_err *err)
{
    (void)self, (void)wait, (void)err;
    *ended = true;
    return SN_OK;
}

static void no_times(void *self, struct sn_save_times *out)
{
    (void)self;
    *out = (struct sn_save_times){0};
}

static enum sn_status find(void *self, int64_t before, int64_t *step, struct sn_err *err)
{
    const struct saver *v = self;
    *step = v->damaged > 0 && v->damaged < before ? v->damaged : -1;
    return *step < 0 ? SN_OK : sn_fail(err, SN_EIO, "it was cut");
}

static enum sn_status pass_over(void *self, int64_t step, struct sn_err *err)
{
    struct saver *v = self;
    (void)err;
    v->passed_over = step;
    return SN_OK;
}

static char *path(void *self, int64_t step)
{
    (void)self, (void)step;
    return sn_strdup("the folder");
}

static enum sn_status set_nothing_aside(void *self, struct sn_err *err)
{
    (void)self, (void)err;
    return SN_OK;
}

static void body(void *arg, int rank)
{
    struct world *w = arg;
    struct saver v = {.base = {.begin = begin,
                               .finish = is_over,
                               .times = no_times,
                               .find = find,
                               .pass_over = pass_over,
                               .path = path,
                               .set_aside = set_nothing_aside},
                      .fails = w->fails,
                      .damaged = w->damaged};
    struct sn_trainer *t = NULL;
    struct sn_trainer_options o = {.fresh = w->fresh};
    char memory[128];
    const char *host = w->host[2 * rank / w->ranks];
    int code = -1;
    (void)snprintf(memory, sizeof(memory), "%s/%s", w->base, host);
    v.base.self = &v;
    struct sn_trainer_env env = {.config = &w->config,
                                 .comm = thread_world_comm(w->threads, rank),
                                 .ops = sn_ops_cpu(),
                                 .saver = &v.base,
                                 .threads = 1,
                                 .memory = memory,
                                 .host = host};
    w->status[rank] = sn_trainer_create(&t, &env, &w->err[rank]);
    if (w->status[rank] == SN_OK && rank == 0) {
        struct sn_memory_plan plan;
        sn_job_memory(sn_trainer_job(t), &plan);
        w->snapshot = plan.snapshot;
    }
    if (w->status[rank] == SN_OK)
        w->status[rank] = sn_trainer_run(t, &o, &code, &w->err[rank]);
    sn_trainer_destroy(t);
    if (rank == 0)
        w->passed_over = v.passed_over;
}

/* True if it ended as it should. */
static bool train(struct world *w)
{
    bool good = true;
    w->ranks = layout_ranks(&w->config);
    w->threads = thread_world_create(w->ranks);
    memset(w->err, 0, sizeof(w->err));
    thread_world_run(w->threads, body, w);
    thread_world_destroy(w->threads);
    for (int r = 0; r < w->ranks; r++) {
        good = good && (w->status[r] == SN_OK) == (w->fails == 0);
        if (w->status[r] != SN_OK && w->fails == 0)
            printf("# rank %d: %s\n", r, w->err[r].text);
    }
    return good;
}

/* --- files ------------------------------------------------------------------------------------ */

static void shell(const char *base, const char *command)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "cd %s && %s", base, command);
    if (system(text) != 0)
        printf("# failed: %s\n", text);
}

static bool make_data(const char *base)
{
    struct sn_data_writer *w = NULL;
    struct sn_err err = {0};
    char prefix[128];
    int32_t tokens[8000];
    for (int i = 0; i < 8000; i++)
        tokens[i] = (i * 31 + i / 7) % 61;
    (void)snprintf(prefix, sizeof(prefix), "%s/tok", base);
    bool good = sn_data_writer_create(&w, prefix, 1, &err) == SN_OK &&
                sn_data_writer_add(w, tokens, 8000, &err) == SN_OK &&
                sn_data_writer_finish(w, &err) == SN_OK;
    sn_data_writer_destroy(w);
    return good;
}

/* Losses and norms of the steps of a run, and how many steps had a snapshot beside them. */
struct series {
    int n, snapshots;
    double loss[STEPS + 1], norm[STEPS + 1];
    long long bytes;
};

static double member(const char *line, const char *key)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "\"%s\": ", key);
    const char *at = strstr(line, name);
    return at ? strtod(at + strlen(name), NULL) : NAN;
}

static struct series read_series(const char *base)
{
    struct series s = {0};
    char path[128], line[4096];
    (void)snprintf(path, sizeof(path), "%s/out/metrics.jsonl", base);
    FILE *f = fopen(path, "r");
    while (f && s.n < STEPS && fgets(line, sizeof(line), f)) {
        s.loss[s.n] = member(line, "loss");
        s.norm[s.n++] = member(line, "grad_norm");
        if (!isnan(member(line, "snapshot_bytes"))) {
            s.snapshots++;
            s.bytes = (long long)member(line, "snapshot_bytes");
        }
    }
    if (f)
        (void)fclose(f);
    return s;
}

static bool same(const struct series *a, const struct series *b, double tolerance)
{
    bool good = a->n == STEPS && b->n == STEPS;
    for (int i = 0; good && i < STEPS; i++)
        good = fabs(a->loss[i] - b->loss[i]) <= tolerance * fabs(b->loss[i]) &&
               fabs(a->norm[i] - b->norm[i]) <= 10 * tolerance * fabs(b->norm[i]);
    return good;
}

/* Bytes of the snapshot shards on both hosts. */
static long long held(const char *base)
{
    char text[128];
    long long n = -1;
    (void)snprintf(text, sizeof(text), "cat %s/h?/*/* | wc -c", base);
    FILE *f = popen(text, "r");
    if (f && fscanf(f, "%lld", &n) != 1)
        n = -1;
    if (f)
        (void)pclose(f);
    return n;
}

/* --- runs ------------------------------------------------------------------------------------- */

struct row {
    const char *name;
    enum sn_family family;
    struct sn_layout_config layout; /* data, tensor, pipeline, context, virtual_stages, zero */
    enum sn_dtype precision;
    int data, tensor, pipeline; /* of another layout; data 0: none */
};

/* clang-format off */
static const struct row rows[] = {
    {"data 4", SN_LLAMA, {.data = 4}, SN_F32, 2, 1, 1},
    {"data 2 x tensor 2", SN_LLAMA, {.data = 2, .tensor = 2}, SN_F32, 1, 2, 1},
    {"pipeline 2 x data 2, tied", SN_GPT2, {.data = 2, .pipeline = 2}, SN_F32, 2, 2, 1},
    {"ZeRO 1 over 4, bf16", SN_LLAMA, {.data = 4, .zero = 1}, SN_BF16, 0, 0, 0},
    {"ZeRO 3 over 2 x pipeline 2", SN_GPT_NEOX, {.data = 2, .pipeline = 2, .zero = 3}, SN_F32, 2, 1, 2},
    {"context 2 x tensor 2, ZeRO 2", SN_LLAMA, {.tensor = 2, .context = 2, .zero = 2}, SN_F32, 3, 1, 1},
    {"fp16, tensor 2", SN_LLAMA, {.tensor = 2}, SN_F16, 0, 0, 0},
    {"two virtual stages on each of two stages", SN_LLAMA, {.pipeline = 2, .virtual_stages = 2}, SN_F32, 2, 1, 1},
};
/* clang-format on */

static int at_least_one(int n)
{
    return n ? n : 1;
}

static struct sn_config config_of(const struct row *r, const char *base)
{
    struct sn_config c = layout_config(r->family);
    c.layout.data = at_least_one(r->layout.data);
    c.layout.tensor = at_least_one(r->layout.tensor);
    c.layout.pipeline = at_least_one(r->layout.pipeline);
    c.layout.context = at_least_one(r->layout.context);
    c.layout.virtual_stages = at_least_one(r->layout.virtual_stages);
    c.layout.schedule = r->layout.virtual_stages > 1 ? SN_INTERLEAVED : SN_1F1B;
    c.layout.zero = r->layout.zero;
    c.train.precision = r->precision;
    c.train.steps = STEPS;
    c.checkpoint.every = 0;
    (void)snprintf(c.run.output, sizeof(c.run.output), "%s/out", base);
    char prefix[SN_PATH_MAX];
    (void)snprintf(prefix, sizeof(prefix), "%s/tok", base);
    sn_sets_take(&c.data.train, prefix);
    return c;
}

/* Ends at the save of step ENDS, loses a host, goes on. */
static bool break_off(struct world *w, const char *base)
{
    shell(base, "rm -rf out h? && mkdir out h0 h1 h2");
    w->host[0] = "h0", w->host[1] = "h1";
    w->config.checkpoint.every = ENDS;
    w->fails = ENDS;
    bool good = train(w);
    w->config.checkpoint.every = 0;
    w->fails = 0;
    return good;
}

static void play(const struct row *r, const char *base)
{
    struct world w = {.base = base, .config = config_of(r, base), .host = {"h0", "h1"}};
    shell(base, "rm -rf out h? && mkdir out h0 h1 h2");
    bool good = train(&w);
    struct series plain = read_series(base);
    w.config.checkpoint.snapshot_every = 1;
    good = good && break_off(&w, base);
    if (!tap_ok(good, "%s: a run ends at step %d", r->name, ENDS))
        return;
    int64_t most = w.snapshot;
    tap_ok(held(base) == most * w.ranks,
           "%s: its snapshot shards take what is planned, %lld bytes a rank", r->name,
           (long long)most);
    shell(base, "rm -rf h1");
    w.host[1] = "h2";
    struct series before = read_series(base);
    good = train(&w);
    struct series s = read_series(base);
    tap_ok(good && same(&s, &plain, 0), "%s: it goes on from memory with the same bits", r->name);
    tap_ok(before.snapshots == ENDS - 1 && s.snapshots == STEPS - 1 - 1 && s.bytes > 0,
           "%s: from step %d, with a snapshot beside each step but the first", r->name, ENDS - 1);
    if (!r->data)
        return;
    good = break_off(&w, base);
    shell(base, "rm -rf h0");
    w.host[0] = "h2";
    w.config.layout.data = r->data;
    w.config.layout.tensor = r->tensor;
    w.config.layout.pipeline = r->pipeline;
    w.config.layout.context = w.config.layout.virtual_stages = 1;
    w.config.layout.schedule = SN_1F1B;
    good = good && train(&w);
    s = read_series(base);
    tap_ok(good && same(&s, &plain, 1e-5) && s.snapshots == STEPS - 2,
           "%s: and in another layout, within rounding", r->name);
}

/* Memory holds step ENDS - 1. A damaged checkpoint is not missed where it is no newer; else
 * checkpoint.damaged decides. */
static void a_damaged_checkpoint(const char *base)
{
    struct world w = {.base = base, .config = config_of(&rows[0], base), .host = {"h0", "h1"}};
    shell(base, "rm -rf out h? && mkdir out h0 h1 h2");
    bool good = train(&w);
    struct series plain = read_series(base), s;
    w.config.checkpoint.snapshot_every = 1;
    for (int64_t damaged = ENDS - 1; damaged <= ENDS; damaged++) {
        for (int older = 0; older < 2; older++) {
            bool stops = !older && damaged == ENDS;
            w.damaged = 0;
            good = break_off(&w, base) && good;
            w.damaged = damaged;
            w.fails = stops ? STEPS + 1 : 0;
            w.config.checkpoint.damaged = older ? SN_DAMAGED_OLDER : SN_DAMAGED_STOP;
            good = train(&w) && good;
            w.fails = 0;
            s = read_series(base);
            if (stops)
                tap_ok(good && strstr(w.err[0].text, "it was cut; no older one is whole") &&
                           w.err[1].status == SN_EIO && w.passed_over == 0,
                       "step %lld is damaged: the run stops: %s", (long long)damaged,
                       w.err[0].text);
            else
                tap_ok(good && same(&s, &plain, 0) && w.passed_over == damaged,
                       "step %lld is damaged, %s: it goes on from memory with the same bits",
                       (long long)damaged, older ? "older" : "stop");
        }
    }
}

int main(void)
{
    char base[] = "/tmp/sn-snaptrain-XXXXXX", command[64];
    if (!mkdtemp(base))
        return 1;
    sn_log_set_level(SN_LOG_ERROR);
    if (tap_ok(make_data(base), "token files"))
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            play(&rows[i], base);
    a_damaged_checkpoint(base);
    (void)snprintf(command, sizeof(command), "rm -rf %s", base);
    (void)!system(command);
    return tap_done();
}
