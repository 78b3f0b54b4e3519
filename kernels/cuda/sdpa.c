/*
 * sdpa.c - see sdpa.h.
 */
#include "kernels/cuda/sdpa.h"

#include "kernels/cuda/geometry.h"

#include <stdio.h>
#include <string.h>

/* --- what cuDNN is asked for ------------------------------------------------------------------ */

/* Operands of the storage type: all but the statistics. */
static const char *refuses_types(const struct sn_args *a, bool is_backward)
{
    enum sn_dtype t = a->in[SN_ATTENTION_Q].dtype;
    if (t != SN_BF16 && t != SN_F16)
        return "it computes in bf16 and fp16 alone";
    for (int i = 0; i < (is_backward ? 5 : 3); i++)
        if (a->in[i].dtype != t || !sn_is_aligned(&a->in[i]))
            return a->in[i].dtype != t ? "its operands are of two types"
                                       : "a row of an operand is no whole number of 16 bytes";
    for (int o = 0; o < (is_backward ? 3 : 1); o++)
        if (a->out[o].dtype != t || !sn_is_aligned(&a->out[o]))
            return a->out[o].dtype != t ? "its result is of another type than its operands"
                                        : "a row of a result is no whole number of 16 bytes";
    return NULL;
}

static size_t whole(size_t bytes, size_t piece)
{
    return (bytes + piece - 1) / piece * piece;
}

static size_t kept_scores(const struct sn_sdpa_shape *s)
{
    size_t side = whole((size_t)s->seq, 128);
    return s->in_order ? (size_t)(s->samples * s->heads) * side * side * 2 : 0;
}

const char *sn_sdpa_refuses(const struct sn_args *a, bool is_backward, int arch)
{
    const struct sn_attr *t = &a->attr;
    if (arch != 0 && arch < 80)
        return "the device is older than sm_80";
    if (arch >= 100 && is_backward && !t->any_order)
        return "from sm_100 on its sums are in order with engines that we have not tried";
    if (t->random.drop > 0)
        return "dropout's random numbers are our own";
    if (t->attention.window > 0 || t->attention.cap > 0 ||
        (is_backward ? a->in[SN_ATTENTION_DX_STARTS] : a->in[SN_ATTENTION_STARTS]).rows > 0)
        return "windows, caps of scores, documents and prefixes are our own kernels'";
    if (t->position.context > 1 || t->position.key_rank != t->position.context_rank)
        return "each sequence is spread over context ranks, whose results are merged";
    for (int o = 0; o < (is_backward ? 3 : 2); o++)
        if (a->acc[o] == SN_ADD)
            return "its result is added to another one";
    if (t->attention.head_dim % 8 != 0 || t->attention.head_dim > SN_SDPA_WIDEST)
        return "a head has to be a multiple of 8 wide, and 128 at most";
    if (sn_v_dim(&t->attention) != t->attention.head_dim)
        return "heads of keys and of values have two widths";
    if (t->attention.kv_heads < 1 || t->attention.heads % t->attention.kv_heads != 0)
        return "each key needs the same number of query heads";
    if (t->position.seq < 1 || a->in[SN_ATTENTION_Q].rows == 0 ||
        a->in[SN_ATTENTION_Q].rows % t->position.seq != 0 ||
        t->position.row0 % t->position.seq != 0 ||
        a->in[SN_ATTENTION_K].rows != a->in[SN_ATTENTION_Q].rows)
        return "its rows are no whole samples";
    const char *why = refuses_types(a, is_backward);
    if (why || t->attention.library == SN_LIBRARY_MUST)
        return why;
    struct sn_sdpa_shape s = sn_sdpa_shape_of(a, is_backward);
    return kept_scores(&s) > SN_SDPA_SCORES
               ? "to sum in order it would keep the gradients of all scores, more than 256 MiB"
               : NULL;
}

struct sn_sdpa_shape sn_sdpa_shape_of(const struct sn_args *a, bool is_backward)
{
    const struct sn_attr *t = &a->attr;
    struct sn_sdpa_shape s = {.is_backward = is_backward,
                              .in_order = is_backward && !t->any_order,
                              .dtype = (int64_t)a->in[SN_ATTENTION_Q].dtype,
                              .samples = a->in[SN_ATTENTION_Q].rows / t->position.seq,
                              .seq = t->position.seq,
                              .heads = t->attention.heads,
                              .kv_heads = t->attention.kv_heads,
                              .d = t->attention.head_dim,
                              .q = a->in[SN_ATTENTION_Q].ld,
                              .k = a->in[SN_ATTENTION_K].ld,
                              .v = a->in[SN_ATTENTION_V].ld,
                              .scale = (double)t->attention.scale};
    if (!is_backward) {
        s.o = a->out[SN_ATTENTION_O].ld;
        s.lse = a->out[SN_ATTENTION_LSE].ld;
        return s;
    }
    s.o = a->in[SN_ATTENTION_DX_O].ld;
    s.dy = a->in[SN_ATTENTION_DX_DO].ld;
    s.dq = a->out[SN_ATTENTION_DX_DQ].ld;
    s.dk = a->out[SN_ATTENTION_DX_DK].ld;
    s.dv = a->out[SN_ATTENTION_DX_DV].ld;
    return s;
}

/* --- memory ----------------------------------------------------------------------------------- */

size_t sn_sdpa_workspace(const struct sn_sdpa_shape *s)
{
    size_t each = (size_t)(s->samples * s->heads) * whole((size_t)s->seq, 128) * (size_t)s->d;
    size_t shared = s->heads == s->kv_heads ? 0 : 2 * 2 * each; /* dk and dv of each query head */
    size_t sums = s->in_order ? 0 : sizeof(float) * each;       /* dq, where it is summed twice */
    size_t some = (size_t)1 << 20;
    return whole(kept_scores(s) + (s->is_backward ? shared + sums : 0) + some, SN_SDPA_PIECE);
}

size_t sn_sdpa_bound(const struct sn_sdpa_shape *s)
{
    size_t rows = (size_t)(s->samples * s->seq * s->heads);
    size_t sums = s->in_order ? 0 : whole(rows * (size_t)s->d * sizeof(float), SN_SDPA_PIECE);
    size_t own = 2 * whole(rows * sizeof(float), SN_SDPA_PIECE) + sums;
    return SN_SDPA_PIECE + (s->is_backward ? own : 0) + sn_sdpa_workspace(s);
}

/* --- the library ------------------------------------------------------------------------------ */

int sn_sdpa_open(struct sn_sdpa *s, char *why, size_t room)
{
    const char *reason;
    memset(s, 0, sizeof(*s));
    const struct sn_cudnn *api = sn_cudnn_open(&reason);
    if (!api) {
        (void)snprintf(why, room, "%s", reason);
        return -1;
    }
    int rc = api->create(&s->handle);
    if (rc == 0) {
        s->api = api;
        return 0;
    }
    (void)snprintf(why, room, "%.200s does not begin: %.100s", sn_cudnn_path(), api->text(rc));
    return -1;
}

void sn_sdpa_close(struct sn_sdpa *s)
{
    if (!s || !s->api)
        return;
    while (s->n > 0)
        sn_cudnn_drop(&s->plan[--s->n].set);
    (void)s->api->destroy(s->handle); /* nothing is left to be done about it */
    memset(s, 0, sizeof(*s));
}

void sn_sdpa_say(const struct sn_sdpa *s, char *text, size_t room)
{
    size_t v = s->api->version();
    (void)snprintf(text, room, "cuDNN %zu.%zu.%zu (%.200s)", v / 10000, v % 10000 / 100, v % 100,
                   sn_cudnn_path());
}

int sn_sdpa_remember(struct sn_sdpa *s, bool is_backward, const char *why)
{
    char line[sizeof(s->note[0])];
    (void)snprintf(line, sizeof(line), "attention%s is computed without cuDNN: %.240s",
                   is_backward ? "'s backward" : "", why);
    for (int i = 0; i < s->n_notes; i++)
        if (strcmp(s->note[i], line) == 0)
            return 0;
    if (s->n_notes == SN_SDPA_REASONS)
        return 0;
    memcpy(s->note[s->n_notes++], line, sizeof(line));
    return s->n_notes;
}

/* --- plans ------------------------------------------------------------------------------------ */

enum { CONFIGS = 8 }; /* of cuDNN's proposals, the best first */

/* Take a proposal; false: it cannot be, or wants too much memory. */
static bool take(struct sn_sdpa *s, struct sn_sdpa_plan *p, void *config)
{
    int64_t n = 0, bytes = 0;
    size_t most = sn_sdpa_workspace(&p->shape);
    int rc = s->api->get(config, SN_CUDNN_CONFIG_WORKSPACE, SN_CUDNN_IS_INT64, 1, &n, &bytes);
    if (rc == 0 && (size_t)bytes > most) {
        (void)snprintf(p->set.why, sizeof(p->set.why),
                       "cuDNN's plan wants %lld bytes of workspace, and %zu were planned",
                       (long long)bytes, most);
        return false;
    }
    void *plan = sn_cudnn_make(&p->set, SN_CUDNN_PLAN);
    if (s->handle)
        sn_cudnn_put(&p->set, plan, SN_CUDNN_PLAN_HANDLE, SN_CUDNN_IS_HANDLE, 1, &s->handle);
    sn_cudnn_put_descriptor(&p->set, plan, SN_CUDNN_PLAN_CONFIG, config);
    sn_cudnn_finalize(&p->set, plan, "a plan");
    if (p->set.has_failed)
        return false;
    rc = s->api->get(plan, SN_CUDNN_PLAN_WORKSPACE, SN_CUDNN_IS_INT64, 1, &n, &bytes);
    if (rc != 0 || (size_t)bytes > most) {
        (void)snprintf(p->set.why, sizeof(p->set.why),
                       "cuDNN's plan wants %lld bytes of workspace, and %zu were planned",
                       (long long)bytes, most);
        return false;
    }
    p->plan = plan;
    p->workspace = (size_t)bytes;
    return true;
}

/* The first of cuDNN's proposals that can be had. */
static void choose(struct sn_sdpa *s, struct sn_sdpa_plan *p, void *graph)
{
    struct sn_cudnn_set *set = &p->set;
    void *config[CONFIGS];
    int64_t n = 0;
    void *ask = sn_cudnn_make(set, SN_CUDNN_HEURISTICS);
    sn_cudnn_put_descriptor(set, ask, SN_CUDNN_HEURISTICS_GRAPH, graph);
    sn_cudnn_put_enum(set, ask, SN_CUDNN_HEURISTICS_MODE, SN_CUDNN_IS_HEURISTIC,
                      SN_CUDNN_HEURISTIC_A);
    sn_cudnn_finalize(set, ask, "no engine");
    for (int i = 0; i < CONFIGS; i++)
        config[i] = sn_cudnn_make(set, SN_CUDNN_ENGINE_CONFIG);
    if (set->has_failed)
        return;
    int rc =
        s->api->get(ask, SN_CUDNN_HEURISTICS_RESULTS, SN_CUDNN_IS_DESCRIPTOR, CONFIGS, &n, config);
    if (rc != 0 || n == 0) {
        sn_cudnn_failed(set, rc, "no engine");
        return;
    }
    for (int64_t i = 0; i < n && !p->plan; i++) {
        set->has_failed = false; /* the next one may do */
        (void)take(s, p, config[i]);
    }
    if (p->plan)
        set->has_failed = false;
}

static struct sn_sdpa_plan *make(struct sn_sdpa *s, const struct sn_sdpa_shape *shape)
{
    struct sn_sdpa_plan *p = &s->plan[s->n++];
    memset(p, 0, sizeof(*p));
    p->shape = *shape;
    p->set.api = s->api;
    void *graph = sn_sdpa_graph(p, s->handle);
    if (graph)
        choose(s, p, graph);
    return p;
}

struct sn_sdpa_plan *sn_sdpa_find(struct sn_sdpa *s, const struct sn_sdpa_shape *shape,
                                  const char **why)
{
    struct sn_sdpa_plan *p = NULL;
    for (int i = 0; i < s->n && !p; i++)
        if (memcmp(&s->plan[i].shape, shape, sizeof(*shape)) == 0)
            p = &s->plan[i];
    if (!p && s->n < SN_SDPA_PLANS)
        p = make(s, shape);
    *why = p ? p->set.why : "there are more shapes than plans are kept";
    return p && p->plan ? p : NULL;
}

int sn_sdpa_run(struct sn_sdpa *s, struct sn_sdpa_plan *p, void *stream,
                void *const operand[SN_SDPA_NOPERANDS], void *workspace)
{
    float value[SN_SDPA_NSCALARS];
    int64_t id[SN_SDPA_NOPERANDS + SN_SDPA_NSCALARS];
    void *at[SN_SDPA_NOPERANDS + SN_SDPA_NSCALARS];
    unsigned used = sn_sdpa_operands(&p->shape);
    int n = 0, scalars = sn_sdpa_scalars(&p->shape, value);
    struct sn_cudnn_set *set = &p->set;
    for (int i = 0; i < SN_SDPA_NOPERANDS; i++)
        if (used & 1u << i) {
            id[n] = i + 1;
            at[n++] = operand[i];
        }
    for (int i = 0; i < scalars; i++) {
        id[n] = sn_sdpa_scalar_id[i];
        at[n++] = &value[i];
    }
    void *variant = sn_cudnn_make(set, SN_CUDNN_VARIANT); /* dropped at the end */
    sn_cudnn_put(set, variant, SN_CUDNN_VARIANT_IDS, SN_CUDNN_IS_INT64, n, id);
    sn_cudnn_put(set, variant, SN_CUDNN_VARIANT_POINTERS, SN_CUDNN_IS_POINTER, n, at);
    sn_cudnn_put(set, variant, SN_CUDNN_VARIANT_WORKSPACE, SN_CUDNN_IS_POINTER, 1, &workspace);
    sn_cudnn_finalize(set, variant, "the pointers of an execution");
    int rc = set->has_failed ? 0 : s->api->set_stream(s->handle, stream);
    rc = rc || set->has_failed ? rc : s->api->execute(s->handle, p->plan, variant);
    if (rc != 0)
        sn_cudnn_failed(set, rc, "an execution");
    if (variant)
        (void)s->api->drop(set->made[--set->n]);
    return set->has_failed ? -1 : 0;
}
