/*
 * calibrate_codecs.c - ENCODE, with and without feedback, and DECODE of one stream, timed.
 */
#include "lib/probe/calibrate_codecs.h"

#include "kernels/codec.h"
#include "kernels/half.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <string.h>

enum { VALUES = 1 << 20, ROUNDS = 5, SCRATCH = 64 << 20 };
enum way { ENCODE, DECODE, FEEDBACK, WAYS };

/* Memory of the processor, or of the device. */
struct bench {
    const struct sn_codec_bench *how;
    char *x, *e, *s, *scratch;
    struct sn_scalars *scalars;
    int64_t room;  /* bytes of the stream */
    bool has_none; /* the backend refused the first of them */
};

/* --- memory ----------------------------------------------------------------------------------- */

static enum sn_status no_memory(const struct bench *b, struct sn_err *err)
{
    struct sn_accelerator *a = b->how->on;
    return sn_fail(err, SN_ENOMEM, "calibrate: no memory for %d values of a codec%s%s", VALUES,
                   a ? ": " : "", a ? a->ops->explain(a->device) : "");
}

static char *alloc(const struct bench *b, size_t bytes)
{
    void *p = NULL;
    if (!b->how->on)
        return sn_arena_map(bytes);
    return b->how->on->ops->alloc(b->how->on->device, bytes, &p) == 0 ? p : NULL;
}

static void release(const struct bench *b, void *p, size_t bytes)
{
    if (b->how->on)
        sn_accelerator_release(b->how->on, p);
    else if (p)
        sn_arena_unmap(p, bytes);
}

static const size_t value_bytes = VALUES * sizeof(float);

static void fini(struct bench *b)
{
    release(b, b->x, value_bytes);
    release(b, b->e, value_bytes);
    release(b, b->s, (size_t)b->room);
    release(b, b->scratch, SCRATCH);
    release(b, b->scalars, sizeof(*b->scalars));
}

static enum sn_status init(struct bench *b, const struct sn_codec_bench *how, struct sn_err *err)
{
    *b = (struct bench){.how = how};
    for (int i = 0; i < how->n; i++) {
        int64_t bytes = sn_coded_bytes(&how->codec[i], SN_F32, VALUES);
        b->room = bytes > b->room ? bytes : b->room;
    }
    b->x = alloc(b, value_bytes);
    b->e = alloc(b, value_bytes);
    b->s = alloc(b, (size_t)b->room);
    b->scratch = alloc(b, SCRATCH);
    b->scalars = (void *)alloc(b, sizeof(*b->scalars));
    if (b->x && b->e && b->s && b->scratch && b->scalars)
        return SN_OK;
    enum sn_status st = no_memory(b, err);
    fini(b);
    return st;
}

/* `bytes` of the processor's to `to`, which may be the device's. */
static enum sn_status put(const struct bench *b, char *to, const void *from, size_t bytes,
                          struct sn_err *err)
{
    struct sn_accelerator *a = b->how->on;
    if (!a) {
        memcpy(to, from, bytes);
        return SN_OK;
    }
    if (a->ops->copy(a->device, 0, to, from, bytes, SN_TO_DEVICE) != 0)
        return sn_fail(err, SN_EFAIL, "calibrate: %s", a->ops->explain(a->device));
    return sn_accelerator_wait(a, "calibrate", err);
}

static enum sn_status put_normals(const struct bench *b, char *to, enum sn_dtype t,
                                  struct sn_err *err)
{
    float *x = sn_alloc_n(VALUES, sizeof(*x));
    uint16_t *half = sn_alloc_n(VALUES, sizeof(*half));
    enum sn_status st = x && half ? SN_OK : no_memory(b, err);
    if (st == SN_OK) {
        sn_rng_normal(1, 0, VALUES, 1.0f, x);
        for (int i = 0; i < VALUES; i++)
            half[i] = sn_f32_to_bf16(x[i]);
        st = put(b, to, t == SN_F32 ? (const void *)x : half, VALUES * sn_dtype_size(t), err);
    }
    sn_free(x);
    sn_free(half);
    return st;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static struct sn_args args_of(const struct bench *b, const struct sn_codec *c, enum sn_dtype t,
                              enum way way)
{
    struct sn_mat values = {b->x, t, 1, VALUES, VALUES};
    struct sn_mat streams = {b->s, SN_U8, 1, b->room, b->room};
    struct sn_args a = {.scalars = b->scalars, .scratch = b->scratch};
    a.attr = (struct sn_attr){.stream.codec = {*c},
                              .stream.levels = 1,
                              .blocks_a = 1,
                              .stream.type = t,
                              .stream.share = VALUES};
    streams.cols = streams.ld = sn_coded_bytes(c, t, VALUES);
    a.in[0] = way == DECODE ? streams : values;
    a.out[0] = way == DECODE ? values : streams;
    if (way == FEEDBACK)
        a.out[1] = (struct sn_mat){b->e, SN_F32, 1, VALUES, VALUES};
    return a;
}

static enum sn_op_kind kind_of(enum way way)
{
    return way == DECODE ? SN_OP_DECODE : SN_OP_ENCODE;
}

/* Another number than 0: the backend cannot, or it hangs. */
static int time_on_device(double t[ROUNDS], struct sn_accelerator *a, const struct sn_args *x,
                          enum way way, struct sn_err *err)
{
    int rc = a->ops->make_clocks(a->device, 2 * ROUNDS);
    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        rc = a->ops->stamp(a->device, 0, 2 * i);
        rc = rc ? rc : a->ops->run(a->device, 0, kind_of(way), x);
        rc = rc ? rc : a->ops->stamp(a->device, 0, 2 * i + 1);
    }
    rc = rc ? rc : (int)sn_accelerator_wait(a, "calibrate", err);
    for (int i = 0; i < ROUNDS && rc == 0; i++)
        rc = a->ops->between(a->device, 2 * i, 2 * i + 1, &t[i]);
    return rc;
}

static int time_here(double t[ROUNDS], const struct sn_codec_bench *how, const struct sn_args *x,
                     enum way way)
{
    int rc = 0;
    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        double began = sn_clock();
        rc = how->ops->run[kind_of(way)](x, how->threads);
        t[i] = sn_clock() - began;
    }
    return rc;
}

static double median(double t[ROUNDS])
{
    for (int i = 1; i < ROUNDS; i++)
        for (int k = i; k > 0 && t[k - 1] > t[k]; k--) {
            double x = t[k];
            t[k] = t[k - 1];
            t[k - 1] = x;
        }
    return t[ROUNDS / 2];
}

static enum sn_status measure_way(double *rate, struct bench *b, const struct sn_codec *c,
                                  enum sn_dtype t, enum way way, struct sn_err *err)
{
    const struct sn_codec_bench *how = b->how;
    struct sn_args a = args_of(b, c, t, way);
    double seconds[ROUNDS];
    const struct sn_ops *ops = how->on ? how->on->ops->ops : how->ops;
    if (ops->scratch(kind_of(way), &a, how->threads) > SCRATCH)
        return sn_fail(err, SN_EFAIL,
                       "calibrate: a codec wants more than 64 MiB of scratch memory");
    int rc =
        how->on ? time_on_device(seconds, how->on, &a, way, err) : time_here(seconds, how, &a, way);
    if (rc && how->on && how->on->is_hung)
        return err->status;
    if (rc && how->on) {
        b->has_none = true;
        return SN_OK;
    }
    if (rc)
        return sn_fail(err, SN_EFAIL, "calibrate: a codec: %s",
                       sn_codec_explain((enum sn_codec_fault)rc));
    *rate = VALUES * (double)sn_dtype_size(t) / median(seconds);
    return SN_OK;
}

/* Feedback makes sense of what loses something. */
static enum sn_status measure_codec(struct sn_codec_rates *out, struct bench *b,
                                    const struct sn_codec *c, enum sn_dtype t, struct sn_err *err)
{
    double rate[WAYS] = {0};
    for (int w = ENCODE; w < WAYS && !b->has_none; w++)
        if (w != FEEDBACK || (c->kind != SN_CODEC_MPC && t == SN_F32))
            SN_TRY(measure_way(&rate[w], b, c, t, (enum way)w, err));
    if (b->has_none)
        return SN_OK;
    struct sn_codec_rate x = {*c, t, rate[ENCODE], rate[DECODE], rate[FEEDBACK]};
    return sn_codec_rates_add(out, &x, err);
}

enum sn_status sn_calibrate_codecs(struct sn_codec_rates *out, const struct sn_codec_bench *how,
                                   struct sn_err *err)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16};
    struct bench b;
    if (how->n == 0)
        return SN_OK;
    SN_TRY(init(&b, how, err));
    enum sn_status st = SN_OK;
    for (int k = 0; st == SN_OK && k < 2; k++)
        for (int i = 0; st == SN_OK && i < how->n && !b.has_none; i++) {
            st = put_normals(&b, b.x, types[k], err); /* decoding has changed them */
            if (st == SN_OK && !sn_codec_missing(&how->codec[i]))
                st = measure_codec(out, &b, &how->codec[i], types[k], err);
        }
    fini(&b);
    return st;
}
