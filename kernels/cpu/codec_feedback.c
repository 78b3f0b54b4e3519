/*
 * codec_feedback.c - error feedback for any codec: what was lost of a message is added to the next.
 * kernels/codec.h says what encode_fed and keep promise.
 *
 * Chunks of whole granules pass through the first-level cache, so there is no scratch; a chunk's
 * part of the stream lies where it lies in that of all values. Chunks are dealt to threads.
 */
#include "kernels/cpu/codec_inner.h"

enum { CHUNK = 16 * SN_CODEC_BLOCK };
_Static_assert(CHUNK % SN_CODEC_BLOCK == 0 && CHUNK % SN_CODEC_ZFP_GRANULE == 0, "whole granules");

/* Values of x from `first` on, with e added. */
struct piece {
    int64_t first;
    int n;
    float sum[CHUNK];
};

static void take(struct piece *p, const struct sn_values *x, const float *e, int64_t chunk)
{
    p->first = chunk * CHUNK;
    p->n = (int)(x->n - p->first < CHUNK ? x->n - p->first : CHUNK);
    const float *from = sn_values_get(x, p->first, p->n, p->sum);
#pragma omp simd
    for (int i = 0; i < p->n; i++)
        p->sum[i] = from[i] + e[p->first + i];
}

static struct sn_stream part_of(const struct sn_codec *c, const struct sn_stream *s,
                                const struct piece *p)
{
    return (struct sn_stream){(char *)s->p + sn_codec_bytes(c, SN_F32, p->first),
                              sn_codec_bytes(c, SN_F32, p->n)};
}

static enum sn_codec_fault put_piece(const struct sn_codec *c, struct piece *p,
                                     const struct sn_codec_draw *draw, const struct sn_stream *to)
{
    struct sn_codec_draw here = draw ? *draw : (struct sn_codec_draw){0};
    struct sn_values values = {p->sum, SN_F32, p->n};
    struct sn_stream part = part_of(c, to, p);
    here.first += p->first;
    return SN_K(sn_codecs).encode(c, &values, &here, &part, 1);
}

/* e of the piece, value by value: blocks are NaN as a whole, so a value that is none has its block
 * in order. */
static enum sn_codec_fault keep_piece(const struct sn_codec *c, const struct piece *p,
                                      const struct sn_stream *from, float *e)
{
    float back[CHUNK];
    struct sn_values values = {back, SN_F32, p->n};
    struct sn_stream part = part_of(c, from, p);
    enum sn_codec_fault f = SN_K(sn_codecs).decode(c, &part, &values, SN_WRITE, 1);
    if (f != SN_CODEC_FINE)
        return f;
#pragma omp simd
    for (int i = 0; i < p->n; i++) {
        float lost = p->sum[i] - back[i];
        e[p->first + i] = sn_magnitude(lost) < 0x7f800000 ? lost : e[p->first + i];
    }
    return SN_CODEC_FINE;
}

/* Every chunk in turn: into the stream, or with `kept` what the stream has lost of it into that. */
static enum sn_codec_fault all_pieces(const struct sn_codec *c, const struct sn_values *x,
                                      const float *e, float *kept, const struct sn_codec_draw *draw,
                                      const struct sn_stream *stream, int threads)
{
    int fault = SN_CODEC_FINE;
    int64_t chunks = (x->n + CHUNK - 1) / CHUNK;
#pragma omp parallel num_threads(sn_team(threads, x->n)) reduction(max : fault)
    {
        struct piece p;
        enum sn_codec_fault f = SN_CODEC_FINE;
        int64_t chunk, end;
        sn_share(chunks, 1, omp_get_thread_num(), omp_get_num_threads(), &chunk, &end);
        for (; chunk < end && f == SN_CODEC_FINE; chunk++) {
            take(&p, x, e, chunk);
            f = kept ? keep_piece(c, &p, stream, kept) : put_piece(c, &p, draw, stream);
        }
        fault = (int)f;
    }
    return (enum sn_codec_fault)fault;
}

enum sn_codec_fault SN_K(sn_feedback_encode)(const struct sn_codec *c, const struct sn_values *x,
                                             const float *e, const struct sn_codec_draw *draw,
                                             struct sn_stream *to, int threads)
{
    if (!sn_codec_is_fixed(c))
        return SN_K(sn_codecs).encode(c, x, draw, to, threads);
    to->bytes = sn_codec_bytes(c, SN_F32, x->n);
    return all_pieces(c, x, e, NULL, draw, to, threads);
}

enum sn_codec_fault SN_K(sn_feedback_keep)(const struct sn_codec *c, const struct sn_values *x,
                                           float *e, const struct sn_stream *from, int threads)
{
    if (!sn_codec_is_fixed(c))
        return SN_CODEC_FINE;
    if (from->bytes != sn_codec_bytes(c, SN_F32, x->n))
        return SN_CODEC_BAD_LENGTH;
    return all_pieces(c, x, e, e, NULL, from, threads);
}
