/*
 * Attention by cuDNN (kernels/cuda/sdpa.h), on a cuDNN that computes any graph on the host
 * (tests/gpu/fake_cudnn.c): graphs, sizes and strides give what the CPU's kernel gives. And what
 * cuDNN is not asked for, the memory that it gets, and what is said when it has nothing.
 */
#include "kernels/cuda/sdpa.h"
#include "kernels/half.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    int64_t samples, seq;
    int32_t heads, kv_heads, d;
    int64_t pad; /* elements between rows */
};

/* One attention, its operands in one block each; q, k and v are columns of one matrix, and so are
 * their gradients. */
struct problem {
    struct sn_args forward, backward;
    void *qkv, *o, *lse, *dy, *grads;
    int64_t rows, wide, fused; /* columns of o; elements of a row of qkv */
    enum sn_dtype t;
    struct sn_scalars scalars;
};

static void set(void *p, enum sn_dtype t, int64_t i, float x)
{
    if (t == SN_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = t == SN_BF16 ? sn_f32_to_bf16(x) : sn_f32_to_f16(x);
}

static double get(const void *p, enum sn_dtype t, int64_t i)
{
    return t == SN_F32    ? (double)((const float *)p)[i]
           : t == SN_BF16 ? (double)sn_bf16_to_f32(((const uint16_t *)p)[i])
                          : (double)sn_f16_to_f32(((const uint16_t *)p)[i]);
}

static void *filled(int64_t n, enum sn_dtype t, uint32_t seed)
{
    void *p = aligned_alloc(64, ((size_t)n * sn_dtype_size(t) + 63) / 64 * 64);
    if (!p)
        abort();
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        set(p, t, i, (float)(seed >> 8) / (1 << 23) - 1.0f);
    }
    return p;
}

static struct sn_mat columns(void *p, enum sn_dtype t, int64_t rows, int64_t cols, int64_t ld,
                             int64_t first)
{
    struct sn_mat m = {.p = (char *)p + (size_t)first * sn_dtype_size(t),
                       .dtype = t,
                       .rows = rows,
                       .cols = cols,
                       .ld = ld};
    return m;
}

static void make(struct problem *x, const struct shape *s, enum sn_dtype t)
{
    int64_t q = (int64_t)s->heads * s->d, kv = (int64_t)s->kv_heads * s->d;
    *x = (struct problem){
        .rows = s->samples * s->seq, .wide = q, .fused = q + 2 * kv + s->pad, .t = t};
    x->qkv = filled(x->rows * x->fused, t, 1);
    x->o = filled(x->rows * q, t, 2);
    x->lse = filled(x->rows * s->heads, SN_F32, 3);
    x->dy = filled(x->rows * q, t, 4);
    x->grads = filled(x->rows * x->fused, t, 5);
    struct sn_args a = {.attr = {.attention.heads = s->heads,
                                 .attention.kv_heads = s->kv_heads,
                                 .attention.head_dim = s->d,
                                 .position.seq = s->seq,
                                 .attention.library = SN_LIBRARY_MAY,
                                 .attention.scale = 1.0f / sqrtf((float)s->d)},
                        .scalars = &x->scalars};
    a.in[0] = columns(x->qkv, t, x->rows, q, x->fused, 0);
    a.in[1] = columns(x->qkv, t, x->rows, kv, x->fused, q);
    a.in[2] = columns(x->qkv, t, x->rows, kv, x->fused, q + kv);
    x->forward = x->backward = a;
    x->forward.out[0] = x->backward.in[3] = columns(x->o, t, x->rows, q, q, 0);
    x->forward.out[1] = x->backward.in[5] = columns(x->lse, SN_F32, x->rows, s->heads, s->heads, 0);
    x->backward.in[4] = columns(x->dy, t, x->rows, q, q, 0);
    x->backward.out[0] = columns(x->grads, t, x->rows, q, x->fused, 0);
    x->backward.out[1] = columns(x->grads, t, x->rows, kv, x->fused, q);
    x->backward.out[2] = columns(x->grads, t, x->rows, kv, x->fused, q + kv);
}

static void drop(struct problem *x)
{
    free(x->qkv), free(x->o), free(x->lse), free(x->dy), free(x->grads);
}

static bool by_processor(const struct sn_args *a, enum sn_op_kind kind)
{
    const struct sn_ops *ops = sn_ops_cpu();
    struct sn_args b = *a;
    b.scratch = malloc(ops->scratch(kind, &b, 1) + 1);
    bool good = b.scratch && ops->run[kind](&b, 1) == 0;
    free(b.scratch);
    return good;
}

/* --- it computes attention -------------------------------------------------------------------- */

/* Operands as attention_cudnn.cu gives them; the scratch is as large as the bound says, and not
 * written beyond. */
static bool by_cudnn(struct sn_sdpa *s, const struct sn_args *a, bool is_backward)
{
    const char *why = sn_sdpa_refuses(a, is_backward, 90);
    struct sn_sdpa_shape shape = sn_sdpa_shape_of(a, is_backward);
    struct sn_sdpa_plan *p = why ? NULL : sn_sdpa_find(s, &shape, &why);
    size_t bound = sn_sdpa_bound(&shape), guard = 64;
    unsigned char *scratch = p ? malloc(bound + guard) : NULL;
    int64_t n = a->in[0].rows * a->attr.attention.heads;
    if (!scratch) {
        printf("# no plan: %s\n", why);
        return false;
    }
    memset(scratch, 0xa5, bound + guard);
    size_t part = ((size_t)n * sizeof(float) + SN_SDPA_PIECE - 1) / SN_SDPA_PIECE * SN_SDPA_PIECE;
    float *packed = (float *)(void *)scratch;
    void *operand[SN_SDPA_NOPERANDS] = {a->in[0].p, a->in[1].p, a->in[2].p, a->out[0].p,
                                        a->out[1].p};
    void *work = scratch;
    if (is_backward) {
        for (int64_t i = 0; i < n; i++) {
            int64_t row =
                i / a->attr.position.seq / a->attr.attention.heads * a->attr.position.seq +
                i % a->attr.position.seq;
            int64_t head = i / a->attr.position.seq % a->attr.attention.heads;
            packed[i] = ((const float *)a->in[5].p)[row * a->in[5].ld + head];
        }
        void *all[] = {a->in[0].p,  a->in[1].p,     a->in[2].p,        a->in[3].p,
                       packed,      a->in[4].p,     a->out[0].p,       a->out[1].p,
                       a->out[2].p, scratch + part, scratch + 2 * part};
        memcpy(operand, all, sizeof(all));
        size_t sums = shape.in_order ? 0 : (size_t)(n * a->attr.attention.head_dim) * sizeof(float);
        work = scratch + 2 * part + (sums + SN_SDPA_PIECE - 1) / SN_SDPA_PIECE * SN_SDPA_PIECE;
    }
    bool good = sn_sdpa_run(s, p, NULL, operand, work) == 0;
    if (!good)
        printf("# %s\n", p->set.why);
    for (size_t i = 0; i < guard; i++)
        good = good && scratch[bound + i] == 0xa5;
    free(scratch);
    return good;
}

/* Largest difference, where the first is not a number too. */
static double apart(const void *a, const void *b, enum sn_dtype t, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double off = fabs(get(a, t, i) - get(b, t, i));
        worst = !(off <= worst) ? off : worst;
    }
    return worst;
}

static const struct shape shapes[] = {
    {1, 1, 1, 1, 8, 0},    {2, 7, 3, 3, 8, 8},    {3, 40, 4, 2, 16, 0},
    {1, 65, 6, 2, 64, 16}, {2, 33, 2, 1, 128, 0}, {1, 128, 1, 1, 40, 24},
};
enum { NSHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void results_are_the_processors(struct sn_sdpa *s, enum sn_dtype t)
{
    double unit = t == SN_BF16 ? 1.0 / 256 : 1.0 / 2048, worst[4] = {0};
    bool ran = true;
    for (int c = 0; c < NSHAPES; c++) {
        struct problem x;
        make(&x, &shapes[c], t);
        int64_t n = x.rows * x.wide, all = x.rows * x.fused, heads = x.rows * shapes[c].heads;
        ran = ran && by_cudnn(s, &x.forward, false);
        void *o = memcpy(malloc((size_t)n * 2), x.o, (size_t)n * 2);
        void *lse = memcpy(malloc((size_t)heads * 4), x.lse, (size_t)heads * 4);
        ran = ran && by_processor(&x.forward, SN_OP_ATTENTION);
        worst[0] = fmax(worst[0], apart(o, x.o, t, n));
        worst[1] = fmax(worst[1], apart(lse, x.lse, SN_F32, heads));
        ran = ran && by_processor(&x.backward, SN_OP_ATTENTION_DX);
        void *grads = memcpy(malloc((size_t)all * 2), x.grads, (size_t)all * 2);
        for (int any = 0; any < 2; any++) {
            for (int64_t i = 0; i < x.rows; i++) /* what lies between rows stays */
                for (int64_t k = 0; k < x.fused - shapes[c].pad; k++)
                    set(x.grads, t, i * x.fused + k, NAN);
            x.backward.attr.any_order = any;
            ran = ran && by_cudnn(s, &x.backward, true);
            worst[2 + any] = fmax(worst[2 + any], apart(grads, x.grads, t, all));
        }
        free(o), free(lse), free(grads);
        drop(&x);
    }
    tap_ok(ran, "%s: cuDNN is asked for every shape", sn_dtype_name(t));
    tap_ok(worst[0] <= 4 * unit, "%s: its results are the processor's (%g)", sn_dtype_name(t),
           worst[0]);
    tap_ok(worst[1] <= 1e-5, "%s: its statistics too (%g)", sn_dtype_name(t), worst[1]);
    tap_ok(worst[2] <= 24 * unit, "%s: its gradients in order too (%g)", sn_dtype_name(t),
           worst[2]);
    tap_ok(worst[3] <= 24 * unit, "%s: its gradients in any order too (%g)", sn_dtype_name(t),
           worst[3]);
}

/* --- what it is not asked for ----------------------------------------------------------------- */

static void refuses(const struct sn_args *a, bool is_backward, int arch, const char *words)
{
    const char *why = sn_sdpa_refuses(a, is_backward, arch);
    tap_ok(why && strstr(why, words), "not asked for: %s", words);
    if (why && !strstr(why, words))
        printf("# %s\n", why);
}

#define WITHOUT(from, change, is_backward, arch, words)                                            \
    do {                                                                                           \
        struct sn_args a = from;                                                                   \
        change;                                                                                    \
        refuses(&a, is_backward, arch, words);                                                     \
    } while (0)

static void the_rest_is_refused(void)
{
    static const struct shape s = {2, 16, 4, 2, 16, 0};
    struct problem x;
    make(&x, &s, SN_BF16);
    tap_ok(!sn_sdpa_refuses(&x.forward, false, 0) && !sn_sdpa_refuses(&x.backward, true, 90),
           "asked for: bf16, causal, grouped heads, forward and backward");
    WITHOUT(x.forward, (void)a, false, 75, "older than sm_80");
    WITHOUT(x.backward, (void)a, true, 100, "from sm_100 on");
    WITHOUT(x.forward, a.attr.random.drop = 0.1f, false, 90, "dropout");
    WITHOUT(x.forward, a.attr.position.context = 2, false, 90, "context ranks");
    WITHOUT(x.forward, a.attr.position.key_rank = 1, false, 90, "context ranks");
    WITHOUT(x.forward, a.acc[1] = SN_ADD, false, 90, "added to another");
    WITHOUT(x.backward, a.acc[2] = SN_ADD, true, 90, "added to another");
    WITHOUT(x.forward, a.attr.attention.head_dim = 12, false, 90, "multiple of 8");
    WITHOUT(x.forward, a.attr.attention.head_dim = 136, false, 90, "128 at most");
    WITHOUT(x.forward, a.attr.attention.v_dim = 8, false, 90, "two widths");
    WITHOUT(x.forward, a.attr.attention.kv_heads = 3, false, 90, "same number of query heads");
    WITHOUT(x.forward, a.attr.position.seq = 5, false, 90, "no whole samples");
    WITHOUT(x.forward, a.attr.position.row0 = 3, false, 90, "no whole samples");
    WITHOUT(x.forward, a.in[0].dtype = SN_F32, false, 90, "bf16 and fp16 alone");
    WITHOUT(x.forward, a.in[2].dtype = SN_F16, false, 90, "two types");
    WITHOUT(x.forward, a.out[0].dtype = SN_F32, false, 90, "another type");
    WITHOUT(x.forward, a.in[1].ld++, false, 90, "16 bytes");
    WITHOUT(x.backward, a.out[1].p = (char *)a.out[1].p + 2, true, 90, "16 bytes");
    struct sn_args a = x.backward;
    a.attr.position.seq = 8192;
    for (int i = 0; i < 5; i++)
        a.in[i].rows = a.out[i % 3].rows = 8192;
    refuses(&a, true, 90, "the gradients of all scores");
    a.attr.attention.library = SN_LIBRARY_MUST;
    tap_ok(!sn_sdpa_refuses(&a, true, 90), "where it must be cuDNN they are kept");
    drop(&x);
}

/* --- when it has nothing ---------------------------------------------------------------------- */

static struct sn_sdpa_shape of(int64_t seq)
{
    struct sn_sdpa_shape s = {.dtype = SN_BF16,
                              .samples = 1,
                              .seq = seq,
                              .heads = 1,
                              .kv_heads = 1,
                              .d = 8,
                              .q = 8,
                              .k = 8,
                              .v = 8,
                              .o = 8,
                              .lse = 1,
                              .scale = 1};
    return s;
}

/* With these habits there is no plan, and these words say why. */
static void none(struct sn_sdpa *s, int64_t seq, const char *habits, const char *words)
{
    const char *why = NULL;
    struct sn_sdpa_shape shape = of(seq);
    (void)setenv("FAKE_CUDNN", habits, 1);
    struct sn_sdpa_plan *p = sn_sdpa_find(s, &shape, &why);
    (void)setenv("FAKE_CUDNN", "", 1);
    tap_ok(!p && why && strstr(why, words), "%s: %s", habits, words);
    if (p || !why || !strstr(why, words))
        printf("# %s\n", p ? "there is a plan" : why);
    tap_ok(!sn_sdpa_find(s, &shape, &why), "%s: it is not asked again", habits);
}

static void what_is_missing_is_said(struct sn_sdpa *s)
{
    const char *why = NULL;
    struct sn_sdpa_shape shape = of(100);
    none(s, 101, "engines=0", "no engine");
    none(s, 102, "engines=-1", "no engine: CUDNN_STATUS_NOT_SUPPORTED, no engine knows this graph");
    none(s, 103, "plans=0", "a plan: CUDNN_STATUS_NOT_SUPPORTED, the kernel was not loaded");
    none(s, 104, "first=99000000 workspace=99000000",
         "wants 99000000 bytes of workspace, and 1048576 were planned");
    (void)setenv("FAKE_CUDNN", "first=99000000", 1);
    struct sn_sdpa_plan *p = sn_sdpa_find(s, &shape, &why);
    tap_ok(p && p->workspace == 4096, "a plan that wants too much is passed over for the next");
    (void)setenv("FAKE_CUDNN", "fails=1", 1);
    char room[64] = {0};
    void *operand[SN_SDPA_NOPERANDS] = {room, room, room, room, room};
    tap_ok(p && sn_sdpa_run(s, p, NULL, operand, room) != 0 &&
               strstr(p->set.why, "an execution: CUDNN_STATUS_NOT_SUPPORTED, the launch failed"),
           "an execution that fails says so in cuDNN's words");
    (void)setenv("FAKE_CUDNN", "", 1);
    for (int i = 0; i < SN_SDPA_PLANS + 1; i++) {
        shape = of(200 + i);
        p = sn_sdpa_find(s, &shape, &why);
    }
    tap_ok(!p && strstr(why, "more shapes than plans"), "beyond %d shapes there are no plans",
           SN_SDPA_PLANS);
    tap_ok(sn_sdpa_remember(s, true, "one") == 1 && sn_sdpa_remember(s, true, "one") == 0 &&
               sn_sdpa_remember(s, false, "one") == 2,
           "what is said is said once for each pass");
    tap_ok(strcmp(s->note[0], "attention's backward is computed without cuDNN: one") == 0 &&
               strcmp(s->note[1], "attention is computed without cuDNN: one") == 0,
           "and is a sentence");
}

int main(void)
{
    static struct sn_sdpa sdpa, *s = &sdpa;
    char why[400] = "", text[300];
    (void)setenv("FAKE_CUDNN", "create=1", 1);
    tap_ok(sn_sdpa_open(s, why, sizeof(why)) != 0 &&
               strstr(why, "does not begin: CUDNN_STATUS_NOT_INITIALIZED"),
           "a cuDNN that does not begin says so");
    sn_sdpa_close(s);
    (void)setenv("FAKE_CUDNN", "", 1);
    tap_ok(sn_sdpa_open(s, why, sizeof(why)) == 0, "cuDNN opens");
    if (!s->api)
        return tap_done();
    sn_sdpa_say(s, text, sizeof(text));
    tap_ok(strncmp(text, "cuDNN 9.19.0 (/", 15) == 0, "it says its version and path: %s", text);
    the_rest_is_refused();
    results_are_the_processors(s, SN_BF16);
    sn_sdpa_close(s);
    tap_ok(sn_sdpa_open(s, why, sizeof(why)) == 0, "it opens again");
    results_are_the_processors(s, SN_F16);
    sn_sdpa_close(s);
    tap_ok(sn_sdpa_open(s, why, sizeof(why)) == 0, "and again");
    what_is_missing_is_said(s);
    sn_sdpa_close(s);
    sn_sdpa_close(NULL);
    return tap_done();
}
