/*
 * two_shot.c - see two_shot.h.
 */
#include "kernels/two_shot.h"

#include <string.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t sn_two_shot_at(const struct sn_two_shot *t, int r)
{
    /* 1, 64 or 128: the larger is a multiple of the other */
    int64_t g = larger(sn_codec_granule(&t->scatter), sn_codec_granule(&t->gather));
    int64_t at = (t->n + g - 1) / g * r / t->ranks * g;
    return at < t->n ? at : t->n;
}

static int64_t share_of(const struct sn_two_shot *t, int s)
{
    return sn_two_shot_at(t, s + 1) - sn_two_shot_at(t, s);
}

int64_t sn_two_shot_scattered(const struct sn_two_shot *t, int r)
{
    int64_t bytes = 0;
    for (int s = 0; s < t->ranks; s++)
        bytes += s == r ? 0 : sn_codec_bytes(&t->scatter, SN_F32, share_of(t, s));
    return bytes;
}

int64_t sn_two_shot_gathered(const struct sn_two_shot *t, int r)
{
    return (t->ranks - 1) * sn_codec_bytes(&t->gather, SN_F32, share_of(t, r));
}

int64_t sn_two_shot_room(const struct sn_two_shot *t)
{
    int64_t most = 0;
    for (int s = 0; s < t->ranks; s++) {
        most = larger(most, sn_codec_bytes(&t->scatter, SN_F32, share_of(t, s)));
        most = larger(most, sn_codec_bytes(&t->gather, SN_F32, share_of(t, s)));
    }
    return most;
}

/* The draws of a share of message + `which`. */
static struct sn_codec_draw drawn(const struct sn_codec_draw *draw, int which, int64_t first)
{
    struct sn_codec_draw d = draw ? *draw : (struct sn_codec_draw){0};
    d.message += (uint64_t)which;
    d.first += first;
    return d;
}

enum sn_codec_fault sn_two_shot_put(const struct sn_two_shot *t, const struct sn_codecs *of,
                                    const struct sn_values *x, const struct sn_codec_draw *draw,
                                    int r, int s, struct sn_stream *to, int threads)
{
    int64_t first = sn_two_shot_at(t, s);
    struct sn_values share = {(char *)x->p + (size_t)first * sn_dtype_size(x->dtype), x->dtype,
                              share_of(t, s)};
    struct sn_codec_draw d = drawn(draw, r, first);
    return of->encode(&t->scatter, &share, &d, to, threads);
}

static enum sn_codec_fault sum_share(const struct sn_two_shot *t, const struct sn_codecs *of,
                                     const struct sn_values *x, const struct sn_codec_draw *draw,
                                     int s, const struct sn_values *sum, void *room)
{
    memset(sum->p, 0, (size_t)sum->n * sizeof(float));
    for (int r = 0; r < t->ranks; r++) {
        struct sn_stream stream = {room, 0};
        enum sn_codec_fault f = sn_two_shot_put(t, of, &x[r], draw, r, s, &stream, 1);
        if (f == SN_CODEC_FINE)
            f = of->decode(&t->scatter, &stream, sum, SN_ADD, 1);
        if (f != SN_CODEC_FINE)
            return f;
    }
    return SN_CODEC_FINE;
}

enum sn_codec_fault sn_two_shot_reduce_scatter(const struct sn_two_shot *t,
                                               const struct sn_codecs *of,
                                               const struct sn_values *x,
                                               const struct sn_codec_draw *draw, float *sums,
                                               void *room)
{
    enum sn_codec_fault f = SN_CODEC_FINE;
    for (int s = 0; s < t->ranks && f == SN_CODEC_FINE; s++) {
        struct sn_values sum = {sums + sn_two_shot_at(t, s), SN_F32, share_of(t, s)};
        f = sum_share(t, of, x, draw, s, &sum, room);
    }
    return f;
}

enum sn_codec_fault sn_two_shot_all_reduce(const struct sn_two_shot *t, const struct sn_codecs *of,
                                           const struct sn_values *x,
                                           const struct sn_codec_draw *draw, float *sums,
                                           void *room)
{
    enum sn_codec_fault f = sn_two_shot_reduce_scatter(t, of, x, draw, sums, room);
    for (int s = 0; s < t->ranks && f == SN_CODEC_FINE; s++) {
        int64_t first = sn_two_shot_at(t, s);
        struct sn_values sum = {sums + first, SN_F32, share_of(t, s)};
        struct sn_stream stream = {room, 0};
        struct sn_codec_draw d = drawn(draw, t->ranks, first);
        f = of->encode(&t->gather, &sum, &d, &stream, 1);
        if (f == SN_CODEC_FINE)
            f = of->decode(&t->gather, &stream, &sum, SN_WRITE, 1);
    }
    return f;
}
