/*
 * two_shot.c - see two_shot.h.
 */
#include "tests/lib/two_shot.h"

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

/* The values of ranks: a list, or fp32 arrays that lie `apart` values from each other. */
struct source {
    const struct sn_values *list;
    float *first;
    int64_t apart, n;
};

static struct sn_values values_of(const struct source *x, int r)
{
    return x->list ? x->list[r] : (struct sn_values){x->first + r * x->apart, SN_F32, x->n};
}

/* What goes with every share. */
struct way {
    const struct sn_two_shot *t;
    const struct sn_codecs *of;
    const struct sn_codec_draw *draw;
    void *room;
};

static enum sn_codec_fault sum_share(const struct way *w, const struct source *x, int s,
                                     const struct sn_values *sum)
{
    memset(sum->p, 0, (size_t)sum->n * sizeof(float));
    for (int r = 0; r < w->t->ranks; r++) {
        struct sn_values values = values_of(x, r);
        struct sn_stream stream = {w->room, 0};
        enum sn_codec_fault f = sn_two_shot_put(w->t, w->of, &values, w->draw, r, s, &stream, 1);
        if (f == SN_CODEC_FINE)
            f = w->of->decode(&w->t->scatter, &stream, sum, SN_ADD, 1);
        if (f != SN_CODEC_FINE)
            return f;
    }
    return SN_CODEC_FINE;
}

/* The second shot of a share: every rank, its owner too, has what the stream decodes to. */
static enum sn_codec_fault round_share(const struct way *w, int s, const struct sn_values *sum)
{
    struct sn_stream stream = {w->room, 0};
    struct sn_codec_draw d = drawn(w->draw, w->t->ranks, sn_two_shot_at(w->t, s));
    enum sn_codec_fault f = w->of->encode(&w->t->gather, sum, &d, &stream, 1);
    return f == SN_CODEC_FINE ? w->of->decode(&w->t->gather, &stream, sum, SN_WRITE, 1) : f;
}

static enum sn_codec_fault reduce(const struct way *w, const struct source *x, float *sums,
                                  bool rounds)
{
    enum sn_codec_fault f = SN_CODEC_FINE;
    for (int s = 0; s < w->t->ranks && f == SN_CODEC_FINE; s++) {
        struct sn_values sum = {sums + sn_two_shot_at(w->t, s), SN_F32, share_of(w->t, s)};
        f = sum_share(w, x, s, &sum);
        if (rounds && f == SN_CODEC_FINE)
            f = round_share(w, s, &sum);
    }
    return f;
}

enum sn_codec_fault sn_two_shot_reduce_scatter(const struct sn_two_shot *t,
                                               const struct sn_codecs *of,
                                               const struct sn_values *x,
                                               const struct sn_codec_draw *draw, float *sums,
                                               void *room)
{
    return reduce(&(struct way){t, of, draw, room}, &(struct source){.list = x}, sums, false);
}

enum sn_codec_fault sn_two_shot_all_reduce(const struct sn_two_shot *t, const struct sn_codecs *of,
                                           const struct sn_values *x,
                                           const struct sn_codec_draw *draw, float *sums,
                                           void *room)
{
    return reduce(&(struct way){t, of, draw, room}, &(struct source){.list = x}, sums, true);
}

/* --- two levels ------------------------------------------------------------------------------- */

struct sn_two_shot sn_two_level_inside(const struct sn_two_level *t)
{
    return (struct sn_two_shot){t->inside, t->between, t->n, t->local};
}

struct sn_two_shot sn_two_level_between(const struct sn_two_level *t, int l)
{
    const struct sn_two_shot in = sn_two_level_inside(t);
    return (struct sn_two_shot){t->between, t->between, share_of(&in, l), t->nodes};
}

int64_t sn_two_level_room(const struct sn_two_level *t)
{
    const struct sn_two_shot in = sn_two_level_inside(t);
    int64_t most = sn_two_shot_room(&in);
    for (int l = 0; l < t->local; l++) {
        const struct sn_two_shot out = sn_two_level_between(t, l);
        most = larger(most, sn_two_shot_room(&out));
    }
    return most;
}

enum sn_codec_fault sn_two_level_all_reduce(const struct sn_two_level *t,
                                            const struct sn_codecs *of, const struct sn_values *x,
                                            const struct sn_codec_draw *draw, float *sums,
                                            float *partial, void *room)
{
    const struct sn_two_shot in = sn_two_level_inside(t);
    enum sn_codec_fault f = SN_CODEC_FINE;
    for (int k = 0; k < t->nodes && f == SN_CODEC_FINE; k++) {
        struct sn_codec_draw d = drawn(draw, k * t->local, 0);
        f = sn_two_shot_reduce_scatter(&in, of, x + k * t->local, &d, partial + k * t->n, room);
    }
    for (int l = 0; l < t->local && f == SN_CODEC_FINE; l++) {
        const struct sn_two_shot out = sn_two_level_between(t, l);
        int64_t first = sn_two_shot_at(&in, l);
        struct sn_codec_draw d = drawn(draw, t->nodes * t->local, first);
        f = reduce(&(struct way){&out, of, &d, room},
                   &(struct source){NULL, partial + first, t->n, out.n}, sums + first, true);
    }
    return f;
}
