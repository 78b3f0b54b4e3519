/*
 * The sum of parts over ranks: order, rounding, and where the result goes.
 */
#include "kernels/half.h"
#include "lib/base/rng.h"
#include "lib/comm/comm_sum.h"
#include "tests/lib/tap.h"

enum { N = 1301, MOST = 5 }; /* more than two blocks, and a rest */

static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16, SN_F64};

static void put(void *p, enum sn_dtype t, int64_t i, double v)
{
    if (t == SN_F32)
        ((float *)p)[i] = (float)v;
    else if (t == SN_F64)
        ((double *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = t == SN_BF16 ? sn_f32_to_bf16((float)v) : sn_f32_to_f16((float)v);
}

static double get(const void *p, enum sn_dtype t, int64_t i)
{
    if (t == SN_F32)
        return (double)((const float *)p)[i];
    if (t == SN_F64)
        return ((const double *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return (double)(t == SN_BF16 ? sn_bf16_to_f32(h) : sn_f16_to_f32(h));
}

/* Is element i of type t the one nearest to v, the even one of two? Judged by its neighbours. */
static bool is_nearest(const void *p, enum sn_dtype t, int64_t i, double v)
{
    uint16_t h = ((const uint16_t *)p)[i], next[2] = {(uint16_t)(h + 1), (uint16_t)(h - 1)};
    double off = fabs(get(&h, t, 0) - v);
    bool good = true;
    for (int n = 0; n < 2; n++) {
        double other = fabs(get(next, t, n) - v);
        good =
            good && (off < other || (off == other && h % 2 == 0) || !((h + (n ? 0 : 1)) & 0x7fff));
    }
    return good;
}

struct sums {
    double part[MOST][N];                       /* as stored */
    double own[N], others[MOST - 1][N], out[N]; /* room for any type */
};

/* Parts of all sizes and signs, laid out as rank `rank` of `size` sees them. */
static struct sn_comm_parts lay_out(struct sums *s, enum sn_dtype t, int rank, int size)
{
    for (int p = 0; p < size; p++) {
        void *to = p == rank ? s->own : s->others[p < rank ? p : p - 1];
        for (int64_t i = 0; i < N; i++) {
            double u = sn_rng_uniform(7, (uint64_t)(p * N + i)) - 0.5;
            put(to, t, i, u * (double)(1 << (p * 7 + i) % 12));
            s->part[p][i] = get(to, t, i);
        }
    }
    return (struct sn_comm_parts){.own = (char *)s->own,
                                  .others = (char *)s->others,
                                  .stride = sizeof(s->others[0]),
                                  .rank = rank,
                                  .size = size,
                                  .out = (char *)s->out};
}

/* In rank order, in fp32 or, for fp64, double. */
static double serial_sum(const struct sums *s, enum sn_dtype t, int size, int64_t i)
{
    float narrow = (float)s->part[0][i];
    double wide = s->part[0][i];
    for (int p = 1; p < size; p++) {
        narrow += (float)s->part[p][i];
        wide += s->part[p][i];
    }
    return t == SN_F64 ? wide : (double)narrow;
}

static bool sum_case(struct sums *s, enum sn_dtype t, int rank, int size)
{
    struct sn_comm_parts parts = lay_out(s, t, rank, size);
    bool good = true;
    sn_comm_sum(&parts, N, t);
    for (int64_t i = 0; i < N; i++) {
        double want = serial_sum(s, t, size, i);
        bool whole = t == SN_F32 || t == SN_F64;
        good = good && get(s->own, t, i) == s->part[rank][i];
        good = good && (whole ? get(s->out, t, i) == want : is_nearest(s->out, t, i, want));
    }
    parts = lay_out(s, t, rank, size);
    parts.out = (char *)s->own;
    sn_comm_sum(&parts, N, t);
    return good && memcmp(s->own, s->out, N * sn_dtype_size(t)) == 0;
}

static void sums_are_taken_in_rank_order_and_rounded_once(void)
{
    static struct sums s;
    for (int t = 0; t < 4; t++) {
        bool good = true;
        for (int size = 1; size <= MOST; size++)
            for (int rank = 0; rank < size; rank++)
                good = sum_case(&s, types[t], rank, size) && good;
        tap_ok(good, "%s: rank order, rounded once; in place and elsewhere, where `own` stays",
               sn_dtype_name(types[t]));
    }
}

/* 1 + 2^-8 is half way between 1 and the next bf16: rounding after each addition would give 1. */
static void small_parts_are_not_lost(void)
{
    uint16_t own = sn_f32_to_bf16(1.0f), others[2], out;
    others[0] = others[1] = sn_f32_to_bf16(0x1p-8f);
    struct sn_comm_parts parts = {
        .own = (char *)&own, .others = (char *)others, .stride = 2, .size = 3, .out = (char *)&out};
    sn_comm_sum(&parts, 1, SN_BF16);
    tap_ok((double)sn_bf16_to_f32(out) == 1.0 + 0x1p-7, "bf16 parts are added in fp32");
    own = others[0] = others[1] = 0x8000;
    sn_comm_sum(&parts, 1, SN_F16);
    tap_ok(out == 0x8000, "zeros of one sign keep it");
    own = 0x7bff; /* 65504, the largest */
    others[0] = 0x7bff, others[1] = 0xfbff;
    sn_comm_sum(&parts, 1, SN_F16);
    tap_ok(out == 0x7bff, "an fp16 sum may pass through what fp16 cannot hold");
}

static void sums_are_added_to_what_is_there(void)
{
    static struct sums s;
    bool good = true;
    for (int size = 1; size <= MOST; size++)
        for (int rank = 0; rank < size; rank++) {
            struct sn_comm_parts parts = lay_out(&s, SN_F32, rank, size);
            parts.add = true;
            for (int64_t i = 0; i < N; i++)
                ((float *)s.out)[i] = (float)i * 0.37f;
            sn_comm_sum(&parts, N, SN_F32);
            for (int64_t i = 0; i < N; i++) {
                float want = (float)i * 0.37f + (float)serial_sum(&s, SN_F32, size, i);
                good = good && ((float *)s.out)[i] == want;
                good = good && get(s.own, SN_F32, i) == s.part[rank][i];
            }
        }
    tap_ok(good, "fp32: out += sum, the sum being complete before");
}

int main(void)
{
    sums_are_taken_in_rank_order_and_rounded_once();
    small_parts_are_not_lost();
    sums_are_added_to_what_is_there();
    return tap_done();
}
