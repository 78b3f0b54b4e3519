/*
 * Tokens that go to their experts in chunks, one while another is computed: the losses of all at
 * once (the bits, where no experts learn), the same bytes, and messages beside products, forward
 * and backward.
 */
#include "lib/layout/exchange.h"
#include "lib/model/model.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 3, K = 2 };

struct shape {
    const char *what;
    int data, tensor, context, pipeline, expert, node, experts;
    int own; /* expert_tensor, where it is less than tensor; 0 */
    bool split, drops, level, aware, devices;
    double buffer;
    enum sn_recompute recompute;
    enum sn_schedule schedule;
    int zero;
};

static struct sn_config config_of(const struct shape *s, int chunks)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.layers = 2;
    c.model.experts = (struct sn_experts_config){.count = s->experts, .top_k = K, .every = 1};
    c.train.global_batch = 8;
    c.train.n_freeze = s->level;
    (void)snprintf(c.train.freeze[0], sizeof(c.train.freeze[0]), "*router*");
    c.layout.data = s->data;
    c.layout.tensor = s->tensor;
    c.layout.context = s->context;
    c.layout.pipeline = s->pipeline;
    c.layout.expert = s->expert;
    c.layout.expert_node = s->node;
    c.layout.expert_tensor = s->own;
    c.layout.expert_tokens = s->split ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    c.layout.sequence_parallel = s->own || s->split;
    c.layout.drop_duplicates = s->drops;
    c.layout.expert_buffer = s->buffer;
    c.layout.expert_chunks = chunks;
    c.layout.recompute = s->recompute;
    c.layout.comm_aware_recompute = s->aware;
    c.layout.schedule = s->schedule;
    c.layout.zero = s->zero;
    return c;
}

static void train(struct layout_run *r, const struct shape *s, int chunks, bool frozen)
{
    struct sn_config c = config_of(s, chunks);
    *r = (struct layout_run){.steps = STEPS, .level_routers = s->level, .on_devices = s->devices};
    if (frozen)
        (void)snprintf(c.train.freeze[c.train.n_freeze++], sizeof(c.train.freeze[0]), "*experts*");
    layout_train(r, &c);
}

static bool same_bits(const struct layout_run *a, const struct layout_run *b)
{
    return memcmp(a->loss, b->loss, sizeof(a->loss)) == 0 &&
           memcmp(a->norm, b->norm, sizeof(a->norm)) == 0 && a->val_loss == b->val_loss;
}

/* A row's result does not depend on the rows beside it; sums over rows, which are gradients of
 * weights, are in another order, and where tensor ranks share windows, a token's sum over ranks is
 * made of other parts. A chunk's window may have a row more than its part, so that fewer rows may
 * be left for further rounds. */
static void results_are_those_of_all_at_once(const struct shape *s, int chunks)
{
    static struct layout_run whole, parts;
    train(&whole, s, 1, false);
    train(&parts, s, chunks, false);
    double off = layout_difference(&parts, &whole);
    bool same = s->drops || (whole.loss[0] == parts.loss[0]), one_round = s->buffer >= 2;
    tap_ok(!whole.fault[0] && !parts.fault[0] && off <= 1e-5 && same && whole.loss[0] > 0,
           "%s: %d chunks: %s, %d steps are off by %.1e%s%s", s->what, chunks,
           s->drops ? "losses of all at once" : "the first loss has the bits of all at once", STEPS,
           off, whole.fault, parts.fault);
    int64_t more = parts.routed - whole.routed, gathered = parts.gathered - whole.gathered;
    tap_ok(parts.traffic_is_planned && whole.routed > 0 && more <= 0 && gathered <= 0 &&
               (!one_round || (more == 0 && gathered == 0)),
           "its bytes, as counted: %lld over expert, %lld of shares (%+lld, %+lld)",
           (long long)parts.routed, (long long)parts.gathered, (long long)more,
           (long long)gathered);
}

static void bits_are_those_of_all_at_once(const struct shape *s, int chunks)
{
    static struct layout_run whole, parts;
    train(&whole, s, 1, true);
    train(&parts, s, chunks, true);
    tap_ok(!whole.fault[0] && !parts.fault[0] && same_bits(&whole, &parts) && whole.loss[0] > 0,
           "%s, experts frozen: %d chunks: the bits of all at once in every step%s%s", s->what,
           chunks, whole.fault, parts.fault);
}

/* --- text ------------------------------------------------------------------------------------- */

struct text {
    int posts;      /* of exchanges and gathers of shares, in forward or backward */
    int beside;     /* that go while experts compute */
    int64_t window; /* rows of one */
};

static bool moves_rows(const struct sn_op *op)
{
    return !op->extra && (op->kind == SN_OP_EXCHANGE || op->kind == SN_OP_GATHER_ROWS);
}

static void read_segment(struct text *out, const struct sn_program *p, const struct sn_segment *c)
{
    for (int i = c->first; i < c->first + c->n; i++) {
        bool computes = false;
        if (!moves_rows(&p->ops[i]))
            continue;
        for (int k = i + 1; k < c->first + c->n && p->ops[k].waits_for != p->ops[i].id; k++)
            computes |= p->ops[k].kind == SN_OP_EXPERT_GEMM;
        out->posts++;
        out->beside += computes;
    }
}

static bool read_text(struct text out[2], const struct sn_config *c, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_job *job = NULL;
    struct sn_job_env env = {.config = c, .ops = sn_ops_cpu(), .threads = 1};
    bool good = sn_model_create(&model, &c->model, &c->train, err) == SN_OK;
    env.model = model;
    good = good && sn_job_create(&job, &env, err) == SN_OK;
    for (int i = 0; good && i < job->train.n_segments; i++) {
        const struct sn_segment *x = &job->train.segments[i];
        if (x->kind == SN_SEGMENT_FORWARD || x->kind == SN_SEGMENT_BACKWARD)
            read_segment(&out[x->kind == SN_SEGMENT_BACKWARD], &job->train, x);
    }
    for (int b = 0; good && b < job->train.n_bufs; b++)
        if (strstr(job->train.bufs[b].name, "l1.ffn.experts.window"))
            out->window = job->train.bufs[b].rows;
    sn_job_destroy(job);
    sn_model_destroy(model);
    return good;
}

/* Of C chunks all but the first go to the experts, and all but the last come back, beside products;
 * backward the same, and the last gradients leave beside the last products of weights. What is sent
 * once more in backward (full) goes ahead of the chunk that needs it. */
static void messages_go_beside_products(const struct shape *s, int chunks)
{
    struct sn_config c = config_of(s, chunks);
    struct text got[2] = {{0}};
    struct sn_err err = {0};
    bool again = s->recompute == SN_RECOMPUTE_FULL && !s->aware;
    int layers = 2, n = chunks - 1;
    int posts[] = {2 * chunks * layers, (2 + again) * chunks * layers};
    int beside[] = {2 * n * layers, (2 * n + 1 + (again ? n : 0)) * layers};
    bool good = read_text(got, &c, &err);
    for (int i = 0; i < 2; i++)
        tap_ok(good && got[i].posts == posts[i] && got[i].beside == beside[i],
               "%s, %d chunks, %s: %d of %d messages beside products, want %d of %d %s", s->what,
               chunks, i ? "backward" : "forward", got[i].beside, got[i].posts, beside[i], posts[i],
               err.text);
    int64_t all = (int64_t)(s->buffer * 48 * K);
    int64_t window = sn_exchange_chunk_most(all, s->expert, chunks);
    tap_ok(got->window == window && window <= all / chunks + s->expert,
           "and windows of %lld rows of %lld", (long long)got->window, (long long)all);
}

/* With shares gathered over tensor ranks the exchange of one chunk, the gather of the one before
 * and the products of the one before that go together. */
static void gathers_go_beside_exchanges(void)
{
    struct shape s = {"shares",    .data = 2,    .tensor = 2,   .context = 1, .pipeline = 1,
                      .expert = 2, .experts = 4, .drops = true, .buffer = 2};
    struct sn_config c = config_of(&s, 4);
    struct text got[2] = {{0}};
    struct sn_err err = {0};
    bool good = read_text(got, &c, &err);
    for (int i = 0; i < 2; i++)
        tap_ok(good && got[i].posts == 2 * 16 && got[i].beside >= 2 * 10,
               "shares, 4 chunks, %s: %d of %d messages beside products %s",
               i ? "backward" : "forward", got[i].beside, got[i].posts, err.text);
}

int main(void)
{
    static const struct shape shapes[] = {
        {"expert 2", 2, 1, 1, 1, 2, 1, 4, .buffer = 2},
        {"expert 4, full", 4, 1, 1, 1, 4, 1, 4, .buffer = 1, .recompute = SN_RECOMPUTE_FULL},
        {"all to one", 4, 1, 1, 1, 4, 1, 8, .buffer = 1.5, .level = true},
        {"copies of experts", 4, 1, 1, 1, 2, 1, 4, .buffer = 1, .zero = 3,
         .recompute = SN_RECOMPUTE_SELECTIVE},
        {"without duplicates", 2, 2, 1, 1, 2, 1, 4, .drops = true, .buffer = 1},
        {"without duplicates, full", 2, 2, 1, 1, 2, 1, 4, .drops = true, .buffer = 2,
         .recompute = SN_RECOMPUTE_FULL},
        {"two hops", 4, 1, 1, 1, 4, 2, 8, .buffer = 1.2},
        {"two hops, full", 4, 1, 1, 1, 4, 2, 8, .buffer = 1, .recompute = SN_RECOMPUTE_FULL,
         .aware = true},
        {"folded", 2, 2, 1, 1, 4, 1, 8, .own = 1, .buffer = 1},
        {"over two of four", 1, 4, 1, 1, 2, 1, 4, .own = 2, .buffer = 1.1},
        {"split tokens", 2, 2, 1, 1, 2, 1, 4, .split = true, .buffer = 1.1},
        {"split tokens, full", 2, 2, 1, 1, 2, 1, 4, .split = true, .buffer = 2,
         .recompute = SN_RECOMPUTE_FULL},
        {"zero bubble", 2, 1, 1, 2, 2, 1, 4, .buffer = 1, .schedule = SN_ZERO_BUBBLE,
         .recompute = SN_RECOMPUTE_FULL},
        {"on devices", 2, 1, 1, 1, 2, 1, 4, .buffer = 1, .devices = true},
        {"shares on devices", 2, 2, 1, 1, 2, 1, 4, .drops = true, .buffer = 2, .devices = true},
    };
    static const int chunks[] = {2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        results_are_those_of_all_at_once(&shapes[i], chunks[i % 4]);
    for (size_t i = 0; i < 4; i++)
        bits_are_those_of_all_at_once(&shapes[i], chunks[(i + 2) % 4]);
    messages_go_beside_products(&shapes[0], 2);
    messages_go_beside_products(&shapes[1], 4);
    gathers_go_beside_exchanges();
    return tap_done();
}
