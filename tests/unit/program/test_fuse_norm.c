/*
 * test_fuse_norm.c - programs whose norms take sums (lib/program/fuse_norm.c) beside the same ones
 * whose norms do not: the same losses bit for bit, no more memory, one pass over it less for each
 * sum; and the sums that no norm may take.
 *
 * The Makefile wraps the pass, so that it can be left out here.
 */
#include "lib/base/mem.h"
#include "lib/cost/price.h"
#include "lib/program/build.h"
#include "lib/verify/verify.h"
#include "tests/lib/job_test.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

void __real_sn_pass_fuse_norms(struct sn_program *p);
void __wrap_sn_pass_fuse_norms(struct sn_program *p);

static bool fuses = true; /* set while no rank compiles */

void __wrap_sn_pass_fuse_norms(struct sn_program *p)
{
    if (fuses)
        __real_sn_pass_fuse_norms(p);
}

static bool is_norm(const struct sn_op *op)
{
    return op->kind == SN_OP_LAYERNORM || op->kind == SN_OP_RMSNORM;
}

/* All ranks' jobs of a layout. */
struct world {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job **jobs;
    int n;
};

static bool create(struct world *w, const struct sn_config *c, const struct sn_ops *ops, bool with,
                   struct sn_err *err)
{
    *w = (struct world){.config = *c, .n = layout_ranks(c)};
    w->jobs = calloc((size_t)w->n, sizeof(struct sn_job *));
    fuses = with;
    bool good =
        w->jobs && sn_model_create(&w->model, &w->config.model, &w->config.train, err) == SN_OK;
    for (int r = 0; r < w->n && good; r++) {
        struct sn_job_env env = {
            .config = &w->config, .model = w->model, .ops = ops, .threads = 1, .rank = r};
        good = sn_job_create(&w->jobs[r], &env, err) == SN_OK;
    }
    return good;
}

static void destroy(struct world *w)
{
    for (int r = 0; r < w->n && w->jobs; r++)
        sn_job_destroy(w->jobs[r]);
    free(w->jobs);
    sn_model_destroy(w->model);
}

/* A norm with an addend is looked up among measured operations by what it moves: twice as much. */
static bool keys_tell(const struct sn_program *p)
{
    bool good = true;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        struct sn_measured key;
        sn_price_key(p, op, &key);
        good = good && (!is_norm(op) ||
                        key.m == op->out[0].rows * op->out[0].cols * (op->in[3].buf >= 0 ? 2 : 1));
    }
    return good;
}

/* Of the forward text of ranks that differ in their stage alone: sums, those that norms have. */
struct counts {
    int sums, in_norms;
    int64_t bytes; /* that all kernels of the train programs move */
    int64_t width; /* of the sums in norms, repeated ones, too */
};

static void count_ops(const struct sn_program *p, bool forward, struct counts *n)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        bool taken = is_norm(op) && op->in[3].buf >= 0;
        n->sums += forward && op->kind == SN_OP_ADD;
        n->in_norms += forward && taken;
        n->bytes += op->kind < SN_NKERNELS ? sn_op_bytes(p, op) : 0;
        n->width += taken ? op->out[2].rows * op->out[2].cols *
                                (int64_t)sn_dtype_size(p->bufs[op->out[2].buf].dtype)
                          : 0;
    }
}

static struct counts count(const struct world *w, bool evaluate)
{
    struct counts n = {0};
    for (int r = 0; r < w->n; r++) {
        const struct sn_job *j = w->jobs[r];
        if (j->rank == sn_group_member(&j->grid, j->rank, SN_GROUP_PIPELINE, j->stage) &&
            r % (w->n / j->stages) == 0)
            count_ops(evaluate ? &j->evaluate : &j->train, evaluate, &n);
    }
    return n;
}

static bool all_need_no_more(const struct world *with, const struct world *without)
{
    for (int r = 0; r < with->n; r++) {
        const struct sn_job *a = with->jobs[r], *b = without->jobs[r];
        if (a->arena_bytes[SN_ARENA_SCRATCH] > b->arena_bytes[SN_ARENA_SCRATCH] ||
            a->train.slots_bytes > b->train.slots_bytes ||
            a->train.temp_bytes > b->train.temp_bytes)
            return false;
    }
    return true;
}

/* --- texts ------------------------------------------------------------------------------------ */

static void texts_have(struct sn_config c, bool adds_in_products, int in_norms, int sums,
                       const char *what)
{
    struct sn_ops ops = *sn_ops_cpu();
    struct world with, without;
    struct sn_err err = {0};
    ops.adds_in_products = adds_in_products;
    bool good = create(&with, &c, &ops, true, &err);
    good = create(&without, &c, &ops, false, &err) && good;
    if (tap_ok(good, "%s compiles %s", what, err.text)) {
        struct counts a = count(&with, true), b = count(&without, true);
        tap_ok(a.in_norms == in_norms && a.sums == sums && b.in_norms == 0 &&
                   b.sums == in_norms + sums,
               "%s: %d sums are norms', %d are not (want %d, %d)", what, a.in_norms, a.sums,
               in_norms, sums);
        a = count(&with, false), b = count(&without, false);
        tap_ok(a.width > 0 ? b.bytes - a.bytes == a.width : in_norms == 0,
               "%s: the train programs move %lld bytes less, one pass for each (%lld)", what,
               (long long)(b.bytes - a.bytes), (long long)a.width);
        tap_ok(keys_tell(&with.jobs[0]->train), "%s: norms are looked up by what they move", what);
        tap_ok(all_need_no_more(&with, &without), "%s: no rank needs more memory", what);
        struct sn_verify_world v = {&with.jobs[0]->grid, (const struct sn_job *const *)with.jobs};
        tap_ok(sn_verify(&v, NULL, &err) == SN_OK, "%s: the programs are proven %s", what,
               err.text);
    }
    destroy(&with);
    destroy(&without);
}

static struct sn_config experts(struct sn_config c)
{
    c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
    return c;
}

static void every_family(void)
{
    struct sn_config gpt2 = layout_config(SN_GPT2), neox = layout_config(SN_GPT_NEOX),
                     llama = layout_config(SN_LLAMA), mixtral = experts(llama);
    texts_have(gpt2, false, 8, 0, "gpt2");
    texts_have(gpt2, true, 0, 0, "gpt2, sums in products");
    texts_have(llama, false, 8, 0, "llama");
    texts_have(neox, false, 4, 4, "gpt-neox");
    texts_have(neox, true, 4, 0, "gpt-neox, sums in products");
    texts_have(mixtral, false, 8, 0, "mixtral");
    texts_have(mixtral, true, 4, 0, "mixtral, sums in products");
    gpt2.layout.tensor = llama.layout.tensor = mixtral.layout.tensor = 2;
    texts_have(gpt2, true, 8, 0, "gpt2, tensor 2");
    llama.layout.sequence_parallel = true;
    texts_have(llama, true, 8, 0, "llama, sequences split over tensor ranks");
    texts_have(mixtral, true, 8, 0, "mixtral, tensor 2");
    llama.layout.pipeline = 2;
    texts_have(llama, false, 7, 1, "llama, two stages");
    llama.layout.virtual_stages = 2;
    llama.layout.schedule = SN_INTERLEAVED;
    texts_have(llama, false, 5, 3, "llama, two stages of two virtual stages");
}

static void repeated_norms_take_repeated_sums(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    struct world w;
    struct sn_err err = {0};
    c.layout.recompute = SN_RECOMPUTE_FULL;
    bool good = create(&w, &c, sn_ops_cpu(), true, &err);
    int forward = 0, all = 0;
    for (int i = 0; good && i < w.jobs[0]->train.n_ops; i++) {
        const struct sn_op *op = &w.jobs[0]->train.ops[i];
        bool taken = is_norm(op) && op->in[3].buf >= 0;
        all += taken;
        forward += taken && i < w.jobs[0]->train.segments[1].first;
    }
    /* Of a layer's two sums the second leaves it, and is kept. */
    tap_ok(good && forward == 8 && all == 12, "%d sums in the forward pass, %d again", forward,
           all - forward);
    destroy(&w);
}

/* --- by hand: x + g, then something, then a norm ---------------------------------------------- */

enum between { NOTHING, ZEROS, COMPUTES, READS_SUM, SEGMENT, IN_PART };

static int vector(struct sn_program *p)
{
    return sn_buffer_add(p, SN_CLASS_TEMP, SN_F32, 1, 8, "w");
}

static bool is_fused(enum between what)
{
    struct sn_program p = {0};
    int buf[5];
    for (int i = 0; i < 5; i++)
        buf[i] = sn_buffer_add(&p, SN_CLASS_TEMP, SN_F32, 4, 8, "b%d", i);
    int w = vector(&p), other = vector(&p);
    sn_segment_begin(&p, SN_SEGMENT_FORWARD);
    struct sn_op *op = sn_op_add(&p, SN_OP_ADD, "sum");
    op->in[0] = sn_view_all(&p, buf[0]);
    op->in[1] = sn_view_all(&p, buf[1]);
    op->out[0] = what == IN_PART ? sn_view_rows(&p, buf[2], 0, 2) : sn_view_all(&p, buf[2]);
    if (what == ZEROS || what == COMPUTES || what == READS_SUM) {
        op = sn_op_add(&p, what == ZEROS ? SN_OP_ZERO : SN_OP_COPY, "between");
        op->out[0] = sn_view_all(&p, what == READS_SUM ? buf[4] : other);
        op->in[0] = what == ZEROS       ? sn_no_view
                    : what == READS_SUM ? sn_view_all(&p, buf[2])
                                        : sn_view_all(&p, w);
    }
    if (what == SEGMENT)
        sn_segment_begin(&p, SN_SEGMENT_BACKWARD);
    op = sn_op_add(&p, SN_OP_RMSNORM, "norm");
    op->in[0] = sn_view_all(&p, buf[2]);
    op->in[1] = sn_view_all(&p, w);
    op->out[0] = sn_view_all(&p, buf[3]);
    sn_segments_close(&p);
    int before = p.n_ops;
    __real_sn_pass_fuse_norms(&p);
    const struct sn_op *last = &p.ops[p.n_ops - 1];
    bool fused = p.n_ops == before - 1 && last->in[0].buf == buf[0] && last->in[3].buf == buf[1] &&
                 last->out[2].buf == buf[2] && p.segments[0].n == p.n_ops &&
                 p.op_of_id[last->id] == p.n_ops - 1;
    bool kept = p.n_ops == before && last->in[0].buf == buf[2] && last->in[3].buf < 0;
    if (!fused && !kept)
        printf("# neither the old text nor the new one\n");
    sn_free(p.bufs);
    sn_free(p.ops);
    sn_free(p.op_of_id);
    sn_free(p.segments);
    return fused;
}

static void only_sums_that_stand_before_their_norm(void)
{
    tap_ok(is_fused(NOTHING), "a sum before its norm is the norm's");
    tap_ok(is_fused(ZEROS), "also with a ZERO between them");
    tap_ok(!is_fused(COMPUTES), "not with an operation that computes");
    tap_ok(!is_fused(READS_SUM), "nor with another reader before the norm");
    tap_ok(!is_fused(SEGMENT), "nor over the end of a segment");
    tap_ok(!is_fused(IN_PART), "nor a sum of some rows");
}

/* --- runs ------------------------------------------------------------------------------------- */

static void runs_are_equal(struct sn_config c, bool on_devices, const char *what)
{
    enum { STEPS = 2 };
    struct layout_run with = {.steps = STEPS, .on_devices = on_devices}, without = with;
    size_t bytes = STEPS * sizeof(with.loss[0]);
    fuses = true;
    layout_train(&with, &c);
    fuses = false;
    layout_train(&without, &c);
    tap_ok(!with.fault[0] && !without.fault[0] && memcmp(with.loss, without.loss, bytes) == 0 &&
               memcmp(with.norm, without.norm, bytes) == 0 && with.val_loss == without.val_loss,
           "%s: losses and norms of %d steps have the same bits%s%s", what, (int)STEPS, with.fault,
           without.fault);
}

static void losses_are_the_same(void)
{
    struct sn_config c = layout_config(SN_GPT2);
    c.model.dropout = 0.1;
    c.train.precision = SN_BF16;
    runs_are_equal(c, false, "gpt2, bf16, dropout");
    c = layout_config(SN_GPT_NEOX);
    c.layout.recompute = SN_RECOMPUTE_FULL;
    c.layout.data = 2;
    c.layout.zero = 3;
    runs_are_equal(c, false, "gpt-neox, recomputed, ZeRO 3");
    c = layout_config(SN_LLAMA);
    c.train.precision = SN_F16;
    c.layout.recompute = SN_RECOMPUTE_SELECTIVE;
    c.layout.tensor = 2;
    c.layout.sequence_parallel = true;
    c.layout.pipeline = 2;
    c.layout.schedule = SN_ZERO_BUBBLE;
    runs_are_equal(c, false, "llama, fp16, tensor 2, two stages without bubbles");
    c = experts(layout_config(SN_LLAMA));
    c.layout.data = c.layout.expert = 2;
    runs_are_equal(c, false, "mixtral, experts on 2 ranks");
    c.layout.recompute = SN_RECOMPUTE_FULL;
    runs_are_equal(c, true, "the same recomputed, on devices");
}

int main(void)
{
    every_family();
    repeated_norms_take_repeated_sums();
    only_sums_that_stand_before_their_norm();
    losses_are_the_same();
    return tap_done();
}
