/*
 * preflight_device.c - is a rank's device well? Its products and its memory, with known results.
 *
 * As preflight_probe.c does on the processor. What is known is made here and copied there, what
 * came of it is copied back and checked here; only what the device does is timed, by its own clock.
 */
#include "lib/probe/preflight.h"

#include "kernels/half.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/probe/preflight_inner.h"

#include <math.h>
#include <string.h>

enum { SIDE = 256, SIDE_MOST = 4096, LEAST = 3, MEMORY = 512 << 20 };
/* Of a product; a shorter one does not fill the device. */
static const double long_enough = 5e-4;

static enum sn_status failed(const struct sn_accelerator *a, struct sn_err *err)
{
    return sn_fail(err, SN_EFAIL, "preflight: %s", a->ops->explain(a->device));
}

static enum sn_status copy(struct sn_accelerator *a, void *to, const void *from, size_t bytes,
                           enum sn_device_way way, struct sn_err *err)
{
    if (a->ops->copy(a->device, 0, to, from, bytes, way) != 0)
        return failed(a, err);
    return sn_accelerator_wait(a, "preflight", err);
}

/* One operation; what it took. */
static enum sn_status timed(double *seconds, struct sn_accelerator *a, enum sn_op_kind kind,
                            const struct sn_args *args, struct sn_err *err)
{
    if (a->ops->stamp(a->device, 0, 0) != 0 || a->ops->run(a->device, 0, kind, args) != 0 ||
        a->ops->stamp(a->device, 0, 1) != 0)
        return failed(a, err);
    SN_TRY(sn_accelerator_wait(a, "preflight", err));
    return a->ops->between(a->device, 0, 1, seconds) == 0 ? SN_OK : failed(a, err);
}

/* ---- products -------------------------------------------------------------------------------- */

/* What a product of a side needs, here and there. */
struct bench {
    struct sn_accelerator *a;
    struct sn_known_product known;
    struct sn_args args;
    char *here, *there;
    size_t bytes; /* here */
};

static void bench_fini(struct bench *b)
{
    sn_accelerator_release(b->a, b->there);
    if (b->here)
        sn_arena_unmap(b->here, b->bytes);
}

static enum sn_status bench_init(struct bench *b, struct sn_accelerator *a, int64_t n,
                                 enum sn_dtype t, struct sn_err *err)
{
    size_t matrix = (size_t)(n * n) * sizeof(float), vector = (size_t)n * sizeof(int64_t);
    *b = (struct bench){
        .a = a,
        .known = {.side = n},
        .args = {.in = {{NULL, t, n, n, n}, {NULL, t, n, n, n}}, .out = {{NULL, SN_F32, n, n, n}}},
        .bytes = 4 * matrix + 2 * vector};
    size_t scratch = a->ops->ops->scratch(SN_OP_GEMM, &b->args, 1);
    void *there = NULL;
    b->here = sn_arena_map(b->bytes);
    if (!b->here)
        return sn_fail(err, SN_ENOMEM, "preflight: no memory for a product of %d", (int)n);
    if (a->ops->alloc(a->device, 3 * matrix + scratch, &there) != 0)
        return failed(a, err);
    b->there = there;
    b->known.a = (float *)(void *)b->here;
    b->known.b = b->known.a + n * n;
    b->known.c = b->known.b + n * n;
    b->known.want = (int64_t *)(void *)(b->here + 4 * matrix);
    b->args.in[SN_GEMM_A].p = b->there;
    b->args.in[SN_GEMM_B].p = b->there + matrix;
    b->args.out[SN_GEMM_C].p = b->there + 2 * matrix;
    b->args.scratch = b->there + 3 * matrix;
    sn_known_product_fill(&b->known, b->known.want + n);
    uint16_t *half = (uint16_t *)(void *)(b->here + 3 * matrix);
    for (int i = 0; i < 2; i++) {
        const float *from = i ? b->known.b : b->known.a;
        for (int64_t k = 0; k < n * n; k++)
            half[k] = t == SN_BF16 ? sn_f32_to_bf16(from[k]) : sn_f32_to_f16(from[k]);
        SN_TRY(copy(a, b->args.in[i].p, half, matrix / 2, SN_TO_DEVICE, err));
    }
    return SN_OK;
}

static enum sn_status once(struct bench *b, double *seconds, bool *wrong, struct sn_err *err)
{
    size_t matrix = (size_t)(b->known.side * b->known.side) * sizeof(float);
    memset(b->known.c, 0xff, matrix); /* NaNs: what is not written is seen */
    SN_TRY(copy(b->a, b->args.out[SN_GEMM_C].p, b->known.c, matrix, SN_TO_DEVICE, err));
    SN_TRY(timed(seconds, b->a, SN_OP_GEMM, &b->args, err));
    SN_TRY(copy(b->a, b->known.c, b->args.out[SN_GEMM_C].p, matrix, SN_TO_HOST, err));
    *wrong = !sn_known_product_holds(&b->known);
    return SN_OK;
}

/* Products of one side, for a while; the best. */
static enum sn_status repeat(double *best, bool *wrong, struct bench *b, double seconds,
                             struct sn_err *err)
{
    double began = sn_clock();
    *best = INFINITY;
    for (int i = 0; !*wrong && (i < LEAST || sn_clock() - began < seconds); i++) {
        double t = INFINITY;
        SN_TRY(once(b, &t, wrong, err));
        *best = fmin(*best, t);
    }
    return SN_OK;
}

enum sn_status sn_probe_device_product(double *rate, bool *wrong,
                                       const struct sn_preflight_env *env, double seconds,
                                       struct sn_err *err)
{
    struct sn_accelerator *a = env->accelerator;
    enum sn_dtype t = a->ops->refuses(a->device, SN_BF16) ? SN_F16 : SN_BF16;
    if (a->ops->make_clocks(a->device, 2) != 0)
        return failed(a, err);
    for (int64_t n = SIDE; !*wrong; n *= 2) {
        struct bench b;
        double best = INFINITY;
        enum sn_status st = bench_init(&b, a, n, t, err);
        if (st == SN_OK)
            st = repeat(&best, wrong, &b, 0, err);
        bool is_last = best >= long_enough || n == SIDE_MOST;
        if (st == SN_OK && is_last && !*wrong)
            st = repeat(&best, wrong, &b, seconds, err);
        bench_fini(&b);
        SN_TRY(st);
        *rate = fmax(*rate, 2.0 * (double)n * (double)n * (double)n / best);
        if (is_last)
            break;
    }
    return SN_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The lower half, filled from here, is copied to the upper one by the device, and read back. */
static enum sn_status halves(double *rate, bool *wrong, struct sn_accelerator *a, char *there,
                             uint64_t *here, size_t half, struct sn_err *err)
{
    size_t n = half / sizeof(uint64_t);
    int64_t floats = (int64_t)(half / sizeof(float));
    struct sn_args args = {.in = {{there, SN_F32, 1, floats, floats}},
                           .out = {{there + half, SN_F32, 1, floats, floats}}};
    for (int pass = 0; pass < 2 && !*wrong; pass++) { /* each bit is written as 0 and as 1 */
        double seconds = 0;
        sn_pattern_fill(here, n, 1);
        for (size_t i = 0; pass == 1 && i < n; i++)
            here[i] = ~here[i];
        SN_TRY(copy(a, there, here, half, SN_TO_DEVICE, err));
        SN_TRY(timed(&seconds, a, SN_OP_COPY, &args, err));
        memset(here, 0, half);
        SN_TRY(copy(a, here, there + half, half, SN_TO_HOST, err));
        for (size_t i = 0; pass == 1 && i < n; i++)
            here[i] = ~here[i];
        *wrong = !sn_pattern_holds(here, n, 1);
        if (seconds > 0)
            *rate = fmax(*rate, 2 * (double)half / seconds);
    }
    return SN_OK;
}

enum sn_status sn_probe_device_memory(double *rate, bool *wrong, const struct sn_preflight_env *env,
                                      struct sn_err *err)
{
    struct sn_accelerator *a = env->accelerator;
    size_t fitting = (size_t)a->info.bytes / 8, bytes = fitting < MEMORY ? fitting : MEMORY;
    size_t half = bytes / 2 / sizeof(uint64_t) * sizeof(uint64_t);
    void *there = NULL;
    if (a->ops->make_clocks(a->device, 2) != 0 || a->ops->alloc(a->device, 2 * half, &there) != 0)
        return failed(a, err);
    char *here = sn_arena_map(half);
    enum sn_status st = here ? halves(rate, wrong, a, there, (uint64_t *)(void *)here, half, err)
                             : sn_fail(err, SN_ENOMEM, "preflight: no memory for %zu bytes", half);
    if (here)
        sn_arena_unmap(here, half);
    sn_accelerator_release(a, there);
    return st;
}
