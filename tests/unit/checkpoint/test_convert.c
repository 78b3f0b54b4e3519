/*
 * test_convert.c - conversions from a source in memory: plans, values, memory, resuming, refusals.
 * Between real runs, and under MPI, they are tested by tests/cli/test_convert.sh.
 */
#include "checkpoint/convert/convert.h"
#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "tests/lib/source_test.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char model_text[] =
    "model:\n  family: llama\n  layers: 4\n  hidden: 48\n  heads: 4\n  kv_heads: 2\n  ffn: 76\n"
    "  vocab: 101\n  seq: 32\n  tied_embeddings: false\n  rope_theta: 10000.0\n"
    "  rotary_pct: 1.0\n  parallel_residual: false\n  norm_eps: 1e-05\n  init_std: 0.0\n"
    "  dropout: 0.0\n  share_layers: 1\n";

/* A source, a directory for results, and the means of a conversion. */
struct bench {
    char root[64], dst[96], tmp[128], layout[96];
    struct fake fake;
    struct sn_source source;
    struct sn_config config;
    struct sn_manifest plan;
    struct sn_comm *comm;
    struct sn_convert_options o;
    struct sn_convert_report report;
    struct sn_err err;
};

static void setup(struct bench *b)
{
    struct sn_model *m;
    *b = (struct bench){0}; /* in memory where possible: a sync after each block takes its time */
    (void)snprintf(b->root, sizeof(b->root), "%s/sn-convert-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(b->root) || sn_comm_create_self(&b->comm, &b->err) != SN_OK ||
        sn_config_load_layout(&b->config, NULL, model_text, "the model", &b->err) != SN_OK ||
        sn_model_create(&m, &b->config.model, &b->config.train, &b->err) != SN_OK) {
        printf("# %s\n", b->err.text);
        exit(1);
    }
    (void)snprintf(b->dst, sizeof(b->dst), "%s/step-00000007", b->root);
    (void)snprintf(b->tmp, sizeof(b->tmp), "%s.tmp.convert", b->dst);
    (void)snprintf(b->layout, sizeof(b->layout), "%s/layout.yaml", b->root);
    fake_add_model(&b->fake, m, 3);
    b->source = fake_source(&b->fake, model_text);
    sn_model_destroy(m);
    b->o = (struct sn_convert_options){
        .dst = b->dst, .memory = 64 << 20, .dtype = SN_F32, .comm = b->comm, .is_quiet = true};
}

static void teardown(struct bench *b)
{
    sn_manifest_fini(&b->plan);
    sn_source_close(&b->source);
    fake_fini(&b->fake);
    b->comm->ops->destroy(b->comm);
    (void)sn_dir_remove(b->root, &b->err);
}

static enum sn_status load_layout(struct bench *b, const char *text)
{
    if (sn_file_save(b->layout, text, strlen(text), &b->err) != SN_OK)
        exit(1);
    return sn_config_load_layout(&b->config, b->layout, model_text, "the model", &b->err);
}

static enum sn_status plan(struct bench *b, const char *text)
{
    sn_manifest_fini(&b->plan);
    SN_TRY(load_layout(b, text));
    return sn_convert_plan(&b->plan, &b->source, &b->config, &b->err);
}

static enum sn_status run(struct bench *b)
{
    return sn_convert_run(&b->source, &b->plan, &b->o, &b->report, &b->err);
}

static void clear(struct bench *b)
{
    if (sn_dir_remove(b->dst, &b->err) != SN_OK || sn_dir_remove(b->tmp, &b->err) != SN_OK)
        exit(1);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* --- what was written ------------------------------------------------------------------------- */

static bool same_values(const struct fake *f, int tensor, struct sn_box box, const char *bytes)
{
    const struct sn_source_tensor *t = &f->tensors[tensor];
    for (int64_t r = 0; r < box.rows; r++)
        if (memcmp(bytes + r * box.cols * 4, f->values[tensor] + (box.row + r) * t->cols + box.col,
                   (size_t)box.cols * 4) != 0)
            return false;
    return true;
}

static bool same_hashes(const struct sn_manifest *m, const struct sn_manifest_piece *p,
                        const char *bytes, int64_t n)
{
    for (int64_t k = 0; k < p->n_blocks; k++) {
        int64_t at = k * m->block, len = n - at < m->block ? n - at : m->block;
        if (p->hashes[k] != sn_hash64(bytes + at, (size_t)len))
            return false;
    }
    return p->n_blocks > 0;
}

/* The bytes of one piece as its shard has them; caller frees. */
static char *load_piece(const struct bench *b, const struct sn_manifest *m,
                        const struct sn_manifest_tensor *t, const struct sn_manifest_piece *p)
{
    struct sn_err err;
    struct sn_h5 *h = NULL;
    struct sn_h5_slot slot = {.rows = p->set_rows, .cols = p->set_cols, .dtype = t->dtype};
    char path[256], *text = NULL, *bytes = NULL;
    size_t len, n = (size_t)sn_manifest_bytes(t, p->box);
    (void)snprintf(path, sizeof(path), "%s/%s", b->dst, m->shards[p->shard].file);
    (void)snprintf(slot.dataset, sizeof(slot.dataset), "%s", p->dataset);
    size_t size = sn_dtype_size(t->dtype), row = (size_t)p->box.cols * size;
    if (sn_h5_open(&h, path, &err) == SN_OK && sn_h5_locate(h, &slot, &err) == SN_OK &&
        sn_file_load(&text, &len, path, &err) == SN_OK && len >= slot.offset + n &&
        (int64_t)len == m->shards[p->shard].bytes && (bytes = sn_alloc(n)))
        for (int64_t r = 0; r < p->box.rows; r++)
            memcpy(bytes + (size_t)r * row,
                   text + slot.offset + (size_t)((p->at_row + r) * p->set_cols + p->at_col) * size,
                   row);
    else
        printf("# %s: %s\n", path, err.text);
    sn_h5_close(h);
    sn_free(text);
    return bytes;
}

/* Is what was committed the source, bit for bit, with the right hashes? */
static bool holds_the_source(struct bench *b)
{
    struct sn_manifest m;
    char path[256], *text;
    size_t len;
    (void)snprintf(path, sizeof(path), "%s/manifest.json", b->dst);
    if (sn_file_load(&text, &len, path, &b->err) != SN_OK ||
        sn_manifest_parse(&m, text, len, path, &b->err) != SN_OK) {
        printf("# %s\n", b->err.text);
        return false;
    }
    bool same = m.n_tensors == b->source.n_tensors && m.scalars.step == 7 &&
                sn_manifest_check_cover(&m, path, &b->err) == SN_OK;
    for (int i = 0; i < m.n_tensors && same; i++)
        for (int k = 0; k < m.tensors[i].n_pieces && same; k++) {
            const struct sn_manifest_piece *p = &m.tensors[i].pieces[k];
            char *bytes = load_piece(b, &m, &m.tensors[i], p);
            same = bytes && same_values(&b->fake, i, p->box, bytes) &&
                   same_hashes(&m, p, bytes, sn_manifest_bytes(&m.tensors[i], p->box));
            sn_free(bytes);
        }
    sn_manifest_fini(&m);
    sn_free(text);
    return same && !exists(b->tmp);
}

/* --- tests ------------------------------------------------------------------------------------ */

static const char *const layouts[] = {
    "layout: {tensor: 2, pipeline: 2}",
    "layout: {tensor: 4, sequence_parallel: false}",
    "layout: {data: 3, zero: 1}",
    "layout: {data: 3, tensor: 2, zero: 3}",
    "layout: {data: 2, context: 2}",
    "layout: {pipeline: 2, virtual_stages: 2, schedule: interleaved, micro_batch: 3}",
    "layout: {data: 3, tensor: 2, zero: 1}\ncheckpoint: {single_file: true}",
    "run: {name: x}\ntrain: {steps: 9, global_batch: 4}\nlayout: {data: 2, pipeline: 2, zero: 2}",
};

static void any_layout_gets_every_value(void)
{
    struct bench b;
    setup(&b);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        bool good = plan(&b, layouts[i]) == SN_OK && run(&b) == SN_OK && holds_the_source(&b);
        tap_ok(good, "every value is in its place, and hashed: %s", layouts[i]);
        if (!good)
            printf("# %s\n", b.err.text);
        tap_ok(b.report.tensors == b.source.n_tensors && b.report.bytes > 0 &&
                   b.report.resumed_bytes == 0,
               "and the report counts them");
        clear(&b);
    }
    teardown(&b);
}

static void weights_alone_stay_alone(void)
{
    struct bench b;
    setup(&b);
    int n = 0;
    for (int i = 0; i < b.fake.n; i++)
        if (strcmp(b.fake.tensors[i].group, "model") == 0) {
            b.fake.tensors[n] = b.fake.tensors[i];
            float *p = b.fake.values[n];
            b.fake.values[n++] = b.fake.values[i];
            b.fake.values[i] = p;
        }
    b.source.n_tensors = n;
    tap_ok(plan(&b, layouts[3]) == SN_OK && b.plan.n_tensors == n,
           "weights without moments are fine");
    tap_ok(run(&b) == SN_OK && holds_the_source(&b), "and are converted");
    teardown(&b);
}

static void other_tensors_are_named(void)
{
    struct bench b;
    setup(&b);
    struct sn_source_tensor last = b.fake.tensors[b.fake.n - 1];
    b.source.n_tensors--;
    tap_ok(plan(&b, layouts[0]) == SN_EINPUT && strstr(b.err.text, last.name) &&
               strstr(b.err.text, "has no tensor"),
           "a missing tensor: %s", b.err.text);
    b.source.n_tensors++;
    b.fake.tensors[b.fake.n - 1].rows++;
    tap_ok(plan(&b, layouts[0]) == SN_EINPUT && strstr(b.err.text, "but the model's is"),
           "another shape: %s", b.err.text);
    b.fake.tensors[b.fake.n - 1] = last;
    (void)fake_add(&b.fake, "model", "zzz.weight", 2, 2);
    b.source = fake_source(&b.fake, model_text);
    tap_ok(plan(&b, layouts[0]) == SN_EINPUT && strstr(b.err.text, "model zzz.weight") &&
               strstr(b.err.text, "no place for 1"),
           "a left-over tensor: %s", b.err.text);
    tap_ok(!exists(b.dst) && !exists(b.tmp), "and nothing was written");
    teardown(&b);
}

static void frozen_parameters_have_no_moments(void)
{
    struct bench b;
    setup(&b);
    tap_ok(plan(&b, "train: {steps: 1, freeze: [embed.*]}\nlayout: {tensor: 2}") == SN_EINPUT &&
               strstr(b.err.text, "exp_avg embed.weight"),
           "moments that the layout file freezes are left over: %s", b.err.text);
    int lost = source_number(&b.source, "exp_avg", "embed.weight");
    float *values = b.fake.values[lost];
    for (int i = lost; i + 1 < b.fake.n; i++) {
        b.fake.tensors[i] = b.fake.tensors[i + 1];
        b.fake.values[i] = b.fake.values[i + 1];
    }
    b.fake.values[b.fake.n - 1] = values; /* to be freed */
    b.source.n_tensors--;
    tap_ok(plan(&b, "layout: {tensor: 2}") == SN_EINPUT && strstr(b.err.text, "train.freeze"),
           "a missing moment says what may be the cause: %s", b.err.text);
    teardown(&b);
}

static void the_layout_file_is_explained(void)
{
    struct bench b;
    setup(&b);
    tap_ok(load_layout(&b, "layout:\n  tensor: 3\n") == SN_EINPUT &&
               strstr(b.err.text, "layout.yaml:2:11: layout.tensor: 3"),
           "%s", b.err.text);
    tap_ok(load_layout(&b, "layuot:\n  tensor: 3\n") == SN_EINPUT &&
               strstr(b.err.text, "layout.yaml:1:1: unknown key"),
           "%s", b.err.text);
    tap_ok(load_layout(&b, "model: {family: llama,\n  hidden: 64}\n") == SN_EINPUT &&
               strstr(b.err.text, "layout.yaml:2:11: model.hidden: is 64, but 48"),
           "%s", b.err.text);
    tap_ok(load_layout(&b, "model: {kv_heads: 2, ffn: 76, dropout: 0.1}\nlayout: {tensor: 2}") ==
                   0 &&
               b.config.layout.tensor == 2 && b.config.layout.data == 1,
           "the same model may be repeated, with another dropout");
    tap_ok(load_layout(&b, "layout: {data: 5, micro_batch: 3}") == SN_OK &&
               b.config.train.global_batch % 15 == 0,
           "a batch is made up that every rule allows");
    tap_ok(load_layout(&b, "train: {steps: 1, global_batch: 4}\nlayout: {data: 3}") == SN_EINPUT &&
               strstr(b.err.text, "global_batch"),
           "one that is given must be right: %s", b.err.text);
    teardown(&b);
}

static void half_types_round(void)
{
    static const enum sn_dtype types[] = {SN_BF16, SN_F16};
    struct bench b;
    setup(&b);
    for (int i = 0; i < 2; i++) {
        b.o.dtype = types[i];
        tap_ok(plan(&b, layouts[3]) == SN_OK && run(&b) == SN_OK, "%s: is written",
               sn_dtype_name(types[i]));
        int t = source_number(&b.source, "model", "layers.1.attn.q.weight");
        const struct sn_manifest_piece *p = &b.plan.tensors[t].pieces[1];
        uint16_t *got = (uint16_t *)(void *)load_piece(&b, &b.plan, &b.plan.tensors[t], p);
        float worst = 0;
        for (int64_t e = 0; got && e < sn_box_size(p->box); e++) {
            float want =
                b.fake
                    .values[t][(p->box.row + e / p->box.cols) * 48 + p->box.col + e % p->box.cols];
            float have;
            uint32_t bits = (uint32_t)got[e] << 16;
            memcpy(&have, &bits, 4);
            float off = types[i] == SN_BF16 ? have - want : 0;
            worst = off > worst ? off : -off > worst ? -off : worst;
        }
        tap_ok(got && worst <= 0.5f / 128, "%s: values are off by at most %g",
               sn_dtype_name(types[i]), (double)worst);
        tap_ok(b.plan.tensors[0].dtype == SN_F32, "%s: moments stay fp32", sn_dtype_name(types[i]));
        sn_free(got);
        clear(&b);
    }
    teardown(&b);
}

static void too_little_memory_is_refused_with_the_least(void)
{
    struct bench b;
    setup(&b);
    b.source.least = 5 << 20;
    b.o.memory = (10 << 20) - 1;
    tap_ok(plan(&b, layouts[0]) == SN_OK && run(&b) == SN_EINPUT && strstr(b.err.text, "10485760"),
           "%s", b.err.text);
    tap_ok(!exists(b.dst) && !exists(b.tmp), "nothing was written");
    b.o.memory++;
    tap_ok(run(&b) == SN_OK && holds_the_source(&b), "the least is enough");
    tap_ok(b.fake.memory <= 5 << 20 && b.report.peak_buffers <= 11 << 20,
           "half of it goes to the source; %lld bytes of buffers",
           (long long)b.report.peak_buffers);
    tap_ok(run(&b) == SN_EINPUT && strstr(b.err.text, "is there already"),
           "what is there is not replaced: %s", b.err.text);
    teardown(&b);
}

static void a_failure_keeps_what_is_done(void)
{
    struct bench b;
    setup(&b);
    b.o.sync_bytes = 1;
    b.fake.fail_at = 60;
    tap_ok(plan(&b, layouts[3]) == SN_OK && run(&b) == SN_EIO && exists(b.tmp) && !exists(b.dst),
           "a failed read: %s", b.err.text);
    b.fake.fail_at = 0;
    int64_t before = b.fake.read;
    tap_ok(plan(&b, layouts[1]) == SN_OK && run(&b) == SN_EINPUT && strstr(b.err.text, "--fresh"),
           "another layout does not go on there: %s", b.err.text);
    b.source.identity++;
    tap_ok(plan(&b, layouts[3]) == SN_OK && run(&b) == SN_EINPUT && strstr(b.err.text, "--fresh"),
           "nor does another source");
    b.source.identity--;
    tap_ok(plan(&b, layouts[3]) == SN_OK && run(&b) == SN_OK && holds_the_source(&b),
           "the same conversion goes on");
    tap_ok(b.report.resumed_bytes > 0 &&
               b.report.resumed_bytes + (b.fake.read - before) * 4 == b.report.bytes,
           "and reads only what was not done (%lld of %lld bytes were)",
           (long long)b.report.resumed_bytes, (long long)b.report.bytes);
    clear(&b);
    b.fake.fail_at = 60;
    (void)run(&b);
    b.fake.fail_at = 0;
    b.o.fresh = true;
    tap_ok(exists(b.tmp) && run(&b) == SN_OK && b.report.resumed_bytes == 0 && holds_the_source(&b),
           "--fresh begins anew");
    clear(&b);
    b.o.sync_bytes = 0;
    b.fake.fail_at = 2;
    tap_ok(run(&b) == SN_EIO && !exists(b.tmp), "without anything done nothing is left");
    char dst[160], parent[128];
    (void)snprintf(parent, sizeof(parent), "%s/new", b.root);
    (void)snprintf(dst, sizeof(dst), "%s/step-00000007", parent);
    b.o.dst = dst;
    tap_ok(run(&b) == SN_EIO && !exists(parent), "not even the directory that was to hold it");
    b.fake.fail_at = 0;
    tap_ok(run(&b) == SN_OK && exists(dst), "which a success makes");
    teardown(&b);
}

static void journal_path(const struct bench *b, char path[160])
{
    (void)snprintf(path, 160, "%s/journal-00000", b->tmp);
}

static void a_torn_journal_is_as_good_as_its_whole_records(void)
{
    struct bench b;
    char path[160], *text;
    size_t len;
    int good = 0, cuts = 0;
    setup(&b);
    b.o.sync_bytes = 1;
    tap_ok(plan(&b, layouts[2]) == SN_OK, "a plan");
    for (size_t cut = 0; cut < 200; cut += 9, cuts++) {
        b.fake.fail_at = 40;
        (void)run(&b);
        b.fake.fail_at = 0;
        journal_path(&b, path);
        if (sn_file_load(&text, &len, path, &b.err) != SN_OK || len < 200)
            break;
        (void)sn_file_save(path, text, len - cut, &b.err);
        sn_free(text);
        good += run(&b) == SN_OK && holds_the_source(&b);
        clear(&b);
    }
    tap_ok(cuts > 20 && good == cuts, "%d of %d cut journals are taken up", good, cuts);
    b.fake.fail_at = 40;
    (void)run(&b);
    b.fake.fail_at = 0;
    journal_path(&b, path);
    (void)sn_file_save(path, "this is no journal of any conversion, is it", 43, &b.err);
    tap_ok(run(&b) == SN_EINPUT && strstr(b.err.text, "is no journal"), "%s", b.err.text);
    tap_ok(exists(path), "and it is not removed");
    teardown(&b);
}

static enum sn_status die_at_failure(void *self, float *out, int64_t ld, struct sn_err *err)
{
    enum sn_status st = fake_next(self, out, ld, err);
    return st == SN_OK ? st : (enum sn_status)raise(SIGKILL);
}

/* The process dies inside a read; what it had synced is taken over. */
static void a_killed_conversion_goes_on(void)
{
    struct bench b;
    setup(&b);
    b.o.sync_bytes = 1;
    tap_ok(plan(&b, layouts[3]) == SN_OK, "a plan");
    for (int i = 0; i < 3; i++) {
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            b.fake.fail_at = 30 + 30 * i;
            b.source.next = die_at_failure;
            (void)run(&b);
            _exit(0);
        }
        (void)waitpid(child, NULL, 0);
    }
    tap_ok(run(&b) == SN_OK && holds_the_source(&b) && b.report.resumed_bytes > 0,
           "after three of them, %lld bytes were taken over", (long long)b.report.resumed_bytes);
    teardown(&b);
}

static void each_allocation_may_fail(void)
{
    struct bench b;
    setup(&b);
    tap_ok(plan(&b, layouts[0]) == SN_OK, "a plan");
    sn_manifest_fini(&b.plan);
    int bad = 0, n = 0;
    for (bool failed = true; failed && n < 20000; n++) {
        sn_mem_fail_at((uint64_t)n + 1);
        enum sn_status st = sn_convert_plan(&b.plan, &b.source, &b.config, &b.err);
        failed = st != SN_OK;
        bad += failed && (st != SN_ENOMEM || !strstr(b.err.text, "memory"));
    }
    sn_mem_fail_at(0);
    tap_ok(n > 10 && bad == 0, "plan: %d allocations failed in turn", n - 1);
    n = 0;
    for (bool failed = true; failed && n < 20000; n++) {
        sn_mem_fail_at((uint64_t)n + 1);
        enum sn_status st = run(&b);
        sn_mem_fail_at(0);
        failed = st != SN_OK;
        bool wrong = failed && !strstr(b.err.text, "memory");
        if (wrong)
            printf("# %d: %s\n", n, b.err.text);
        bad += wrong;
    }
    tap_ok(n > 10 && bad == 0, "run: %d allocations failed in turn", n - 1);
    tap_ok(holds_the_source(&b), "and the one that succeeds is right");
    teardown(&b);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    sn_h5_setup();
    any_layout_gets_every_value();
    weights_alone_stay_alone();
    other_tensors_are_named();
    frozen_parameters_have_no_moments();
    the_layout_file_is_explained();
    half_types_round();
    too_little_memory_is_refused_with_the_least();
    a_failure_keeps_what_is_done();
    a_torn_journal_is_as_good_as_its_whole_records();
    a_killed_conversion_goes_on();
    each_allocation_may_fail();
    return tap_done();
}
