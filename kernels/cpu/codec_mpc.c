/*
 * codec_mpc.c - mpc: lossless, after Yang, Mukka, Hesaaraki, Burtscher, "MPC: a massively parallel
 * compression algorithm for scientific data" (2015), its stages LNV-D, BIT, LNV-1, ZE.
 *
 * Values are taken as integers, of which a chunk has 1024 words: 1024 of fp32 or 2048 of 16 bits.
 *
 *   1  each minus that `dim` places before it in the chunk, in the integers of its width
 *   2  words: 32 after 32 make a group; of 16 bits, values j and j + 32 of 64 are the halves of
 *      word j, the first the low one; what is behind the last value is 0
 *
 *   3  the bits of a group turned: word p has bit 31 - p of all 32, word j's at 31 - j
 *
 *   4  each word of a group minus the one before it
 *
 *   5  what is not zero is kept, in order; bit p of the group's map says whether word p is
 *
 * Stream: header of 16 bytes, maps of 4 bytes a group, words. Neither would help, or it helps
 * nothing: then the header says so and the values follow as they are, so that a stream is never
 * longer than the values and the header.
 *
 *   header: "MPC1", 1 coded or 0 as they are, storage type, dim (2 bytes), n (8 bytes)
 *
 * Groups lie side by side in a chunk's table, t[p][g], so that every step but 5 works on vectors.
 */
#include "kernels/cpu/codec_inner.h"

enum { GROUP = 32, WORDS = GROUP * GROUP /* of a chunk */, HEADER = SN_CODEC_MPC_HEADER };

struct header {
    char magic[4];
    uint8_t coded, dtype;
    uint16_t dim;
    uint64_t n;
};
_Static_assert(sizeof(struct header) == HEADER, "the header has no gaps");

/* n values of one storage type, cut into chunks. */
struct plan {
    const struct sn_codec *codec;
    enum sn_dtype dtype;
    int64_t n, chunk; /* values */
    int64_t groups, chunks;
    uint32_t *map;
};

typedef uint32_t table[GROUP][GROUP];

static struct plan plan_of(const struct sn_codec *c, enum sn_dtype t, int64_t n, void *stream)
{
    int64_t a_word = t == SN_F32 ? 1 : 2;
    struct plan p = {.codec = c, .dtype = t, .n = n, .chunk = WORDS * a_word};
    p.groups = (n + GROUP * a_word - 1) / (GROUP * a_word);
    p.chunks = (n + p.chunk - 1) / p.chunk;
    p.map = (uint32_t *)(void *)((char *)stream + HEADER);
    return p;
}

static int values_of(const struct plan *p, int64_t chunk)
{
    int64_t left = p->n - chunk * p->chunk;
    return (int)(left < p->chunk ? left : p->chunk);
}

static int groups_of(const struct plan *p, int64_t chunk)
{
    int64_t left = p->groups - chunk * GROUP;
    return (int)(left < GROUP ? left : GROUP);
}

/* --- steps 1 and 2, and back ------------------------------------------------------------------ */

static void deltas32(const uint32_t *x, int m, int dim, uint32_t d[WORDS])
{
    int before = m < dim ? m : dim;
    memcpy(d, x, (size_t)before * sizeof(*d));
    for (int i = before; i < m; i++)
        d[i] = x[i] - x[i - dim];
    memset(d + m, 0, (size_t)(WORDS - m) * sizeof(*d));
}

static void sums32(const uint32_t d[WORDS], int m, int dim, uint32_t *x)
{
    int before = m < dim ? m : dim;
    memcpy(x, d, (size_t)before * sizeof(*d));
    for (int i = before; i < m; i++)
        x[i] = d[i] + x[i - dim];
}

static void deltas16(const uint16_t *x, int m, int dim, uint32_t d[WORDS])
{
    uint16_t low[2 * WORDS];
    int before = m < dim ? m : dim;
    memcpy(low, x, (size_t)before * sizeof(*low));
    for (int i = before; i < m; i++)
        low[i] = (uint16_t)(x[i] - x[i - dim]);
    memset(low + m, 0, (size_t)(2 * WORDS - m) * sizeof(*low));
    for (int g = 0; g < GROUP; g++)
        for (int j = 0; j < GROUP; j++) {
            const uint16_t *at = low + g * 2 * GROUP + j;
            d[g * GROUP + j] = at[0] | (uint32_t)at[GROUP] << 16;
        }
}

static void sums16(const uint32_t d[WORDS], int m, int dim, uint16_t *x)
{
    uint16_t low[2 * WORDS];
    int before = m < dim ? m : dim;
    uint32_t sum = 0;
    for (int g = 0; g < GROUP; g++)
        for (int j = 0; j < GROUP; j++) {
            uint16_t *at = low + g * 2 * GROUP + j;
            at[0] = (uint16_t)d[g * GROUP + j];
            at[GROUP] = (uint16_t)(d[g * GROUP + j] >> 16);
        }
    if (dim == 1) { /* in a register: through memory a sum of 16 bits would come twice as late */
        for (int i = 0; i < m; i++)
            x[i] = (uint16_t)(sum += low[i]);
        return;
    }
    memcpy(x, low, (size_t)before * sizeof(*low));
    for (int i = before; i < m; i++)
        x[i] = (uint16_t)(low[i] + x[i - dim]);
}

/* --- steps 3 and 4, and back ------------------------------------------------------------------ */

/* Rows k and k + by, in the columns of `mask`, change places (Warren, Hacker's Delight, 7-3). */
static inline __attribute__((always_inline)) void turn_by(table t, int by, uint32_t mask)
{
    for (int k = 0; k < GROUP; k = (k + by + 1) & ~by)
#pragma omp simd
        for (int g = 0; g < GROUP; g++) {
            uint32_t x = (t[k][g] ^ t[k + by][g] >> by) & mask;
            t[k][g] ^= x;
            t[k + by][g] ^= x << by;
        }
}

static void turn_bits(table t)
{
    turn_by(t, 16, 0x0000ffffu);
    turn_by(t, 8, 0x00ff00ffu);
    turn_by(t, 4, 0x0f0f0f0fu);
    turn_by(t, 2, 0x33333333u);
    turn_by(t, 1, 0x55555555u);
}

static void code_words(const uint32_t d[WORDS], table t, uint32_t map[GROUP])
{
    for (int g = 0; g < GROUP; g++)
        for (int j = 0; j < GROUP; j++)
            t[j][g] = d[g * GROUP + j];
    turn_bits(t);
    memset(map, 0, GROUP * sizeof(*map));
    for (int p = GROUP - 1; p >= 0; p--) {
        const uint32_t *before = t[p > 0 ? p - 1 : 0];
        uint32_t keep = p > 0 ? UINT32_MAX : 0;
#pragma omp simd
        for (int g = 0; g < GROUP; g++) {
            t[p][g] -= before[g] & keep;
            map[g] |= (uint32_t)(t[p][g] != 0) << p;
        }
    }
}

static void decode_words(table t, uint32_t d[WORDS])
{
    for (int p = 1; p < GROUP; p++)
#pragma omp simd
        for (int g = 0; g < GROUP; g++)
            t[p][g] += t[p - 1][g];
    turn_bits(t);
    for (int g = 0; g < GROUP; g++)
        for (int j = 0; j < GROUP; j++)
            d[g * GROUP + j] = t[j][g];
}

/* --- chunks ----------------------------------------------------------------------------------- */

static void code_chunk(const struct plan *p, const struct sn_values *x, int64_t chunk, table t,
                       uint32_t map[GROUP])
{
    uint32_t d[WORDS];
    const void *at = sn_value_at(x, chunk * p->chunk);
    int m = values_of(p, chunk);
    if (p->dtype == SN_F32)
        deltas32(at, m, p->codec->dim, d);
    else
        deltas16(at, m, p->codec->dim, d);
    code_words(d, t, map);
}

static int64_t count(const uint32_t *map, int64_t groups)
{
    int64_t n = 0;
    for (int64_t g = 0; g < groups; g++)
        n += __builtin_popcount(map[g]);
    return n;
}

/* Words that are kept of `groups` groups; returns where the next go. */
static uint32_t *put_words(uint32_t *to, table t, const uint32_t *map, int groups)
{
    for (int g = 0; g < groups; g++)
        for (uint32_t left = map[g]; left; left &= left - 1)
            *to++ = t[__builtin_ctz(left)][g];
    return to;
}

/* The reverse; *zero grows where a word is 0, which none that is kept is. */
static const uint32_t *get_words(const uint32_t *from, table t, const uint32_t *map, int groups,
                                 int *zero)
{
    memset(t, 0, sizeof(table));
    for (int g = 0; g < groups; g++)
        for (uint32_t left = map[g]; left; left &= left - 1) {
            *zero += *from == 0;
            t[__builtin_ctz(left)][g] = *from++;
        }
    return from;
}

/* --- encode ----------------------------------------------------------------------------------- */

/* One thread: words are written as they come. Returns how many, or -1 when more than `most`. */
static int64_t code_alone(const struct plan *p, const struct sn_values *x, int64_t most)
{
    table t;
    uint32_t map[GROUP], *words = p->map + p->groups;
    int64_t n = 0;
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        int groups = groups_of(p, chunk);
        code_chunk(p, x, chunk, t, map);
        int64_t more = count(map, groups);
        if (n + more > most)
            return -1;
        memcpy(p->map + chunk * GROUP, map, (size_t)groups * sizeof(*map));
        (void)put_words(words + n, t, map, groups);
        n += more;
    }
    return n;
}

/* The chunks of one thread: their maps, or with `words` what they keep. */
static void code_share(const struct plan *p, const struct sn_values *x, uint32_t *words)
{
    table t;
    uint32_t map[GROUP];
    int64_t chunk, end;
    sn_share(p->chunks, 1, omp_get_thread_num(), omp_get_num_threads(), &chunk, &end);
    if (words)
        words += count(p->map, chunk * GROUP < p->groups ? chunk * GROUP : p->groups);
    for (; chunk < end; chunk++) {
        int groups = groups_of(p, chunk);
        code_chunk(p, x, chunk, t, map);
        if (words)
            words = put_words(words, t, map, groups);
        else
            memcpy(p->map + chunk * GROUP, map, (size_t)groups * sizeof(*map));
    }
}

/* Several: all maps, which say where each chunk's words go, then the words. */
static int64_t code_together(const struct plan *p, const struct sn_values *x, int64_t most,
                             int threads)
{
#pragma omp parallel num_threads(threads)
    code_share(p, x, NULL);
    int64_t n = count(p->map, p->groups);
    if (n > most)
        return -1;
#pragma omp parallel num_threads(threads)
    code_share(p, x, p->map + p->groups);
    return n;
}

enum sn_codec_fault SN_K(sn_mpc_encode)(const struct sn_codec *c, const struct sn_values *x,
                                        const struct sn_codec_draw *draw, struct sn_stream *to,
                                        int threads)
{
    struct plan p = plan_of(c, x->dtype, x->n, to->p);
    int64_t raw = x->n * (int64_t)sn_dtype_size(x->dtype), words = -1;
    int64_t most = (raw - 4 * p.groups) / 4; /* words */
    int team = sn_team(threads, x->n);
    (void)draw;
    if (raw >= 4 * p.groups && raw > 0)
        words = team > 1 ? code_together(&p, x, most, team) : code_alone(&p, x, most);
    struct header h = {
        {'M', 'P', 'C', '1'}, words >= 0, (uint8_t)x->dtype, (uint16_t)c->dim, (uint64_t)x->n};
    memcpy(to->p, &h, HEADER);
    if (words < 0 && raw > 0)
        memcpy((char *)to->p + HEADER, x->p, (size_t)raw);
    to->bytes = HEADER + (words < 0 ? raw : 4 * (p.groups + words));
    return SN_CODEC_FINE;
}

/* --- decode ----------------------------------------------------------------------------------- */

/* m values of the stream's storage type become those of y from i on. */
static void deliver(const struct plan *p, const void *from, int64_t i, int m,
                    const struct sn_values *y, enum sn_acc acc)
{
    float buf[WORDS];
    if (p->dtype == y->dtype && acc == SN_WRITE) {
        memcpy(sn_value_at(y, i), from, (size_t)m * sn_dtype_size(y->dtype));
        return;
    }
    for (int done = 0; done < m; done += WORDS) {
        int piece = m - done < WORDS ? m - done : WORDS;
        sn_row_load(buf, (const char *)from + (size_t)done * sn_dtype_size(p->dtype), p->dtype,
                    piece);
        sn_values_put(y, acc, i + done, piece, buf);
    }
}

static int decode_share(const struct plan *p, const struct sn_values *y, enum sn_acc acc)
{
    table t;
    uint32_t d[WORDS];
    union {
        uint32_t whole[WORDS];
        uint16_t half[2 * WORDS];
    } x;
    int64_t chunk, end;
    int zero = 0;
    sn_share(p->chunks, 1, omp_get_thread_num(), omp_get_num_threads(), &chunk, &end);
    const uint32_t *words = p->map + p->groups;
    words += count(p->map, chunk * GROUP < p->groups ? chunk * GROUP : p->groups);
    for (; chunk < end; chunk++) {
        int m = values_of(p, chunk);
        words = get_words(words, t, p->map + chunk * GROUP, groups_of(p, chunk), &zero);
        decode_words(t, d);
        if (p->dtype == SN_F32)
            sums32(d, m, p->codec->dim, x.whole);
        else
            sums16(d, m, p->codec->dim, x.half);
        deliver(p, &x, chunk * p->chunk, m, y, acc);
    }
    return zero;
}

enum sn_codec_fault SN_K(sn_mpc_decode)(const struct sn_codec *c, const struct sn_stream *from,
                                        const struct sn_values *y, enum sn_acc acc, int threads)
{
    struct header h;
    int zero = 0;
    if (from->bytes < HEADER)
        return SN_CODEC_BAD_LENGTH;
    memcpy(&h, from->p, HEADER);
    if (memcmp(h.magic, "MPC1", 4) != 0 || h.coded > 1 || h.dtype > SN_F16 ||
        h.dim != (uint16_t)c->dim || h.n != (uint64_t)y->n)
        return SN_CODEC_BAD_HEADER;
    struct plan p = plan_of(c, (enum sn_dtype)h.dtype, y->n, from->p);
    if (!h.coded) {
        if (from->bytes != HEADER + p.n * (int64_t)sn_dtype_size(p.dtype))
            return SN_CODEC_BAD_LENGTH;
        for (int64_t i = 0; i < p.chunks; i++)
            deliver(&p,
                    (const char *)from->p + HEADER + i * p.chunk * (int64_t)sn_dtype_size(p.dtype),
                    i * p.chunk, values_of(&p, i), y, acc);
        return SN_CODEC_FINE;
    }
    if (from->bytes < HEADER + 4 * p.groups ||
        from->bytes != HEADER + 4 * (p.groups + count(p.map, p.groups)))
        return SN_CODEC_BAD_LENGTH;
#pragma omp parallel num_threads(sn_team(threads, y->n)) reduction(+ : zero)
    zero += decode_share(&p, y, acc);
    return zero ? SN_CODEC_BAD_CODE : SN_CODEC_FINE;
}
