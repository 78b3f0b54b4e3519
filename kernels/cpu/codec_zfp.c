/*
 * codec_zfp.c - zfp: 64 values after 64 to and from the library (kernels/zfp.h). Threads have whole
 * granules, which are whole words of the stream.
 */
#include "kernels/cpu/codec_inner.h"
#include "kernels/zfp.h"

enum { GRANULE = SN_CODEC_ZFP_GRANULE };

/* The granules of one thread and the words that they have. */
struct share {
    int64_t first, end; /* granules */
    unsigned char *words;
    int64_t bytes;
};

static struct share share_of(const struct sn_codec *c, int64_t n, const struct sn_stream *s)
{
    struct share mine;
    int64_t stride = (int64_t)GRANULE * c->rate / 8;
    sn_share((n + GRANULE - 1) / GRANULE, 1, omp_get_thread_num(), omp_get_num_threads(),
             &mine.first, &mine.end);
    int64_t to = mine.end * stride < s->bytes ? mine.end * stride : s->bytes;
    mine.words = (unsigned char *)s->p + mine.first * stride;
    mine.bytes = to - mine.first * stride;
    return mine;
}

static int64_t granule(int64_t n, int64_t g)
{
    return n - g * GRANULE < GRANULE ? n - g * GRANULE : GRANULE;
}

static enum sn_codec_fault put_share(const struct sn_codec *c, const struct sn_values *x,
                                     const struct share *mine)
{
    struct sn_zfp z;
    float buf[GRANULE];
    if (!sn_zfp_init(&z, mine->words, mine->bytes, c->rate))
        return SN_CODEC_NO_MEMORY;
    for (int64_t g = mine->first; g < mine->end; g++) {
        int64_t m = granule(x->n, g);
        sn_zfp_put(&z, sn_values_get(x, g * GRANULE, m, buf), (int)m);
    }
    sn_zfp_end(&z);
    sn_zfp_fini(&z);
    return SN_CODEC_FINE;
}

static enum sn_codec_fault get_share(const struct sn_codec *c, const struct sn_values *y,
                                     enum sn_acc acc, const struct share *mine)
{
    struct sn_zfp z;
    float buf[GRANULE];
    bool good = true;
    if (!sn_zfp_init(&z, mine->words, mine->bytes, c->rate))
        return SN_CODEC_NO_MEMORY;
    for (int64_t g = mine->first; good && g < mine->end; g++) {
        int64_t m = granule(y->n, g);
        float *to = sn_values_room(y, acc, g * GRANULE, buf);
        good = sn_zfp_get(&z, to, (int)m);
        if (good)
            sn_values_put(y, acc, g * GRANULE, m, to);
    }
    sn_zfp_fini(&z);
    return good ? SN_CODEC_FINE : SN_CODEC_BAD_CODE;
}

enum sn_codec_fault SN_K(sn_zfp_encode)(const struct sn_codec *c, const struct sn_values *x,
                                        const struct sn_codec_draw *draw, struct sn_stream *to,
                                        int threads)
{
    int fault = SN_CODEC_FINE;
    (void)draw;
#pragma omp parallel num_threads(sn_team(threads, x->n)) reduction(max : fault)
    {
        struct share mine = share_of(c, x->n, to);
        fault = mine.first < mine.end ? (int)put_share(c, x, &mine) : (int)SN_CODEC_FINE;
    }
    return (enum sn_codec_fault)fault;
}

enum sn_codec_fault SN_K(sn_zfp_decode)(const struct sn_codec *c, const struct sn_stream *from,
                                        const struct sn_values *y, enum sn_acc acc, int threads)
{
    int fault = SN_CODEC_FINE;
#pragma omp parallel num_threads(sn_team(threads, y->n)) reduction(max : fault)
    {
        struct share mine = share_of(c, y->n, from);
        fault = mine.first < mine.end ? (int)get_share(c, y, acc, &mine) : (int)SN_CODEC_FINE;
    }
    return (enum sn_codec_fault)fault;
}
