/*
 * kernel_test.h - runs a CPU kernel in every way that must not matter, and compares with doubles.
 *
 * A test builds operands with kt_in / kt_out, fills reference results with kt_ref, and calls
 * kt_check. That runs every instruction set of this processor with 1, 2, 3 and 4 threads, each time
 * from the same memory image, and wants: the reference within a tolerance, the same bits for every
 * number of threads, and not a byte changed outside the outputs. Memory around and between the rows
 * of inputs holds NaNs, so a kernel that reads there is found too.
 */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

/* Its conversions are wanted; tests are compiled without OpenMP. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "kernels/cpu/cpu.h"
#pragma GCC diagnostic pop

#include "kernels/isa.h"
#include "lib/base/rng.h"
#include "tests/lib/kernel_slack.h"
#include "tests/lib/tap.h"

#include <malloc.h>
#include <stdlib.h>

enum { KT_SLOTS = SN_MAX_IN + SN_MAX_OUT, KT_GUARD = 64, KT_SCRATCH_GUARD = 4096 };

struct kt {
    struct sn_args a;
    struct sn_scalars scalars;
    double set_losses[4]; /* sn_set_losses() of these */
    unsigned char *image[KT_SLOTS]; /* start of the operand's memory, with guards */
    unsigned char *saved[KT_SLOTS], *first_run[KT_SLOTS];
    size_t bytes[KT_SLOTS];
    double *ref[SN_MAX_OUT];
    double magnitude; /* error floor: tol * magnitude is always allowed */
    bool exact;       /* no rounding of a 16-bit product shows: the operands are small integers */
    double carried[SN_MAX_OUT]; /* added to the tolerance: what others rounded of a sum begun */
    double slack[SN_MAX_OUT];   /* and this, of the table that runs */
    uint64_t draws;
};

struct kt_shape {
    enum sn_dtype dtype;
    int64_t rows, cols, pad; /* pad: elements between rows */
};

extern const struct sn_ops sn_cpu_table_generic;

/* Another table than the CPU's (tests/gpu/other_table.h) may round what the CPU keeps in fp32: what
 * it says is added to a test's tolerance. */
extern double kt_slack(enum sn_op_kind kind, enum sn_dtype t) __attribute__((weak));

/* And where its sums are in any order, two runs need not have the same bits. */
extern bool kt_any_order(void) __attribute__((weak));

/* Another table that has threads says how many to try. */
extern int kt_threads(void) __attribute__((weak));

/* The tables that this processor can run, up to the one that SN_ISA names; where that is another
 * table than the CPU's (tests/isa, tests/gpu), it alone behind the generic one. Returns how many. */
enum { KT_TABLES = SN_ISA_MOST };
extern int sn_isa_list(struct sn_isa list[SN_ISA_MOST], const char **lacks) __attribute__((weak));
__attribute__((unused)) static int kt_tables(const struct sn_ops *table[KT_TABLES])
{
    struct sn_isa list[SN_ISA_MOST];
    const char *lacks, *named = getenv("SN_ISA");
    const struct sn_ops *best = sn_ops_cpu();
    int n = 0, found = sn_isa_list ? sn_isa_list(list, &lacks) : 0;
    for (int i = 0; i < found && !(named && n > 0 && table[n - 1] == best); i++)
        table[n++] = list[i].ops;
    if (!found)
        table[n++] = &sn_cpu_table_generic;
    if (!found && best != table[0])
        table[n++] = best;
    return n;
}

/* What is freed stays the process's: else much of a test's time were pages that are zeroed anew. */
static void *kt_alloc(size_t bytes)
{
    static bool kept;
    if (!kept)
        kept = mallopt(M_MMAP_THRESHOLD, 1 << 30) && mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!p)
        abort();
    return p;
}

static double kt_get(const struct sn_mat *m, int64_t r, int64_t c)
{
    const void *p = (const char *)m->p + (size_t)(r * m->ld + c) * sn_dtype_size(m->dtype);
    switch (m->dtype) {
    case SN_F32:
        return (double)*(const float *)p;
    case SN_BF16:
        return (double)sn_bf16_to_f32(*(const uint16_t *)p);
    case SN_F16:
        return (double)sn_f16_to_f32(*(const uint16_t *)p);
    case SN_F64:
        return *(const double *)p;
    case SN_I32:
        return *(const int32_t *)p;
    default:
        return *(const uint8_t *)p;
    }
}

static void kt_set(const struct sn_mat *m, int64_t r, int64_t c, double v)
{
    void *p = (char *)m->p + (size_t)(r * m->ld + c) * sn_dtype_size(m->dtype);
    switch (m->dtype) {
    case SN_F32:
        *(float *)p = (float)v;
        break;
    case SN_BF16:
        *(uint16_t *)p = sn_f32_to_bf16((float)v);
        break;
    case SN_F16:
        *(uint16_t *)p = sn_f32_to_f16((float)v);
        break;
    case SN_F64:
        *(double *)p = v;
        break;
    case SN_I32:
        *(int32_t *)p = (int32_t)v;
        break;
    default:
        *(uint8_t *)p = (uint8_t)v;
    }
}

static struct sn_mat *kt_mat(struct kt *k, int slot)
{
    return slot < SN_MAX_IN ? &k->a.in[slot] : &k->a.out[slot - SN_MAX_IN];
}

static struct sn_mat *kt_new(struct kt *k, int slot, struct kt_shape s)
{
    struct sn_mat *m = kt_mat(k, slot);
    *m = (struct sn_mat){NULL, s.dtype, s.rows, s.cols, s.cols + s.pad};
    size_t bytes = (size_t)(s.rows * m->ld) * sn_dtype_size(s.dtype) + 2 * KT_GUARD;
    k->bytes[slot] = bytes;
    k->image[slot] = kt_alloc(bytes);
    k->saved[slot] = kt_alloc(bytes);
    k->first_run[slot] = kt_alloc(bytes);
    /* inputs: NaN in every float type; outputs: no NaN, so that one written there shows */
    memset(k->image[slot], slot < SN_MAX_IN ? 0xff : 0xfb, bytes);
    m->p = k->image[slot] + KT_GUARD;
    return m;
}

/* In runs, since four of them come from one draw. */
static void kt_fill_normal(struct kt *k, const struct sn_mat *m)
{
    enum { RUN = 256 };
    float z[RUN];
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t c = 0; c < m->cols; c++) {
            if (c % RUN == 0)
                sn_rng_normal(0x5e417, k->draws + (uint64_t)c,
                              (size_t)(m->cols - c < RUN ? m->cols - c : RUN), 1.0f, z);
            kt_set(m, r, c, (double)z[c % RUN]);
            if (c == m->cols - 1)
                k->draws += (uint64_t)m->cols;
        }
}

/* Input i, standard normals. */
__attribute__((unused)) static struct sn_mat *kt_in(struct kt *k, int i, struct kt_shape s)
{
    struct sn_mat *m = kt_new(k, i, s);
    kt_fill_normal(k, m);
    return m;
}

/* Output o: junk when it is to be written, normals when it is added to. */
__attribute__((unused)) static struct sn_mat *kt_out(struct kt *k, int o, struct kt_shape s,
                                                     enum sn_acc acc)
{
    struct sn_mat *m = kt_new(k, SN_MAX_IN + o, s);
    k->a.acc[o] = acc;
    if (acc == SN_ADD)
        kt_fill_normal(k, m);
    return m;
}

/* Output o is the memory of input i. */
__attribute__((unused)) static void kt_take(struct kt *k, int o, int i)
{
    k->a.out[o] = k->a.in[i];
}

/* Reference of output o, row-major without gaps; starts as what an addition begins with. */
__attribute__((unused)) static double *kt_ref(struct kt *k, int o)
{
    const struct sn_mat *m = &k->a.out[o];
    k->ref[o] = calloc((size_t)(m->rows * m->cols) + 1, sizeof(double));
    if (!k->ref[o])
        abort();
    for (int64_t r = 0; r < m->rows && k->a.acc[o] == SN_ADD; r++)
        for (int64_t c = 0; c < m->cols; c++)
            k->ref[o][r * m->cols + c] = kt_get(m, r, c);
    return k->ref[o];
}

__attribute__((unused)) static void kt_free(struct kt *k)
{
    for (int s = 0; s < KT_SLOTS; s++) {
        free(k->image[s]);
        free(k->saved[s]);
        free(k->first_run[s]);
    }
    for (int o = 0; o < SN_MAX_OUT; o++)
        free(k->ref[o]);
}

/* Worst error of the outputs in units of tol * max(|ref|, magnitude), plus rounding to storage. */
static double kt_worst(const struct kt *k, double tol, int *out, int64_t *row, int64_t *col)
{
    static const double rounding[SN_NDTYPES] = {6e-8, 0x1.01p-8, 0x1.01p-11, 0, 0, 0};
    double worst = 0.0;
    for (int o = 0; o < SN_MAX_OUT; o++) {
        const struct sn_mat *m = &k->a.out[o];
        for (int64_t i = 0; k->ref[o] && i < m->rows * m->cols; i++) {
            int64_t r = i / m->cols, c = i % m->cols;
            double want = k->ref[o][i], size = fabs(want);
            double allowed = (tol + k->slack[o]) * (size > k->magnitude ? size : k->magnitude);
            allowed += rounding[m->dtype] * size + (m->dtype == SN_F16 ? 3e-8 : 0.0);
            double got = kt_get(m, r, c), off = got == want ? 0.0 : fabs(got - want) / allowed;
            if (off > worst || off != off) {
                worst = off == off ? off : INFINITY;
                *out = o, *row = r, *col = c;
            }
        }
    }
    return worst;
}

/* Is every byte that is no output element what it was? */
static bool kt_untouched(const struct kt *k)
{
    for (int s = 0; s < KT_SLOTS; s++) {
        struct sn_mat m = {0}; /* the output that lives in this image, if any */
        for (int o = 0; o < SN_MAX_OUT; o++)
            if (k->image[s] && k->a.out[o].p == (void *)(k->image[s] + KT_GUARD))
                m = k->a.out[o];
        size_t size = sn_dtype_size(m.dtype);
        for (size_t b = 0; b < k->bytes[s]; b++) {
            bool is_element = false;
            if (m.p && b >= KT_GUARD && b < k->bytes[s] - KT_GUARD)
                is_element = (int64_t)((b - KT_GUARD) / size) % m.ld < m.cols;
            if (!is_element && k->image[s][b] != k->saved[s][b])
                return false;
        }
    }
    return true;
}

/* One run; the scratch is exactly as large as asked for. */
__attribute__((unused)) static bool kt_run(struct kt *k, const struct sn_ops *ops,
                                           enum sn_op_kind kind, int threads)
{
    size_t bytes = ops->scratch(kind, &k->a, threads);
    unsigned char *room = kt_alloc(bytes + KT_SCRATCH_GUARD);
    memset(room, 0xff, bytes + KT_SCRATCH_GUARD);
    k->a.scratch = room;
    k->a.scalars = &k->scalars;
    int rc = ops->run[kind](&k->a, threads);
    bool good = rc == 0;
    for (int i = 0; i < KT_SCRATCH_GUARD; i++)
        good = good && room[bytes + (size_t)i] == 0xff;
    free(room);
    return good;
}

/* More threads must leave the same memory as one thread did; what one thread left is judged. */
static bool kt_check_run(struct kt *k, const struct sn_ops *ops, int threads, double tol)
{
    bool same = true;
    for (int s = 0; s < KT_SLOTS; s++)
        if (k->image[s] && threads == 1)
            memcpy(k->first_run[s], k->image[s], k->bytes[s]);
        else if (k->image[s] && !(kt_any_order && kt_any_order()))
            same = same && memcmp(k->first_run[s], k->image[s], k->bytes[s]) == 0;
    if (threads > 1 && same && !(kt_any_order && kt_any_order()))
        return true;
    int o = 0;
    int64_t r = 0, c = 0;
    double worst = kt_worst(k, tol, &o, &r, &c);
    bool untouched = kt_untouched(k);
    if (worst <= 1.0 && same && untouched)
        return true;
    const struct sn_mat *m = &k->a.out[o];
    printf("# %s, %d threads, %s %ld x %ld ld %ld:", ops->name, threads, sn_dtype_name(m->dtype),
           (long)m->rows, (long)m->cols, (long)m->ld);
    if (!(worst <= 1.0))
        printf(" out %d (%ld, %ld) is %.9g, want %.9g;", o, (long)r, (long)c, kt_get(m, r, c),
               k->ref[o][r * m->cols + c]);
    printf("%s%s\n", same ? "" : " differs from 1 thread;",
           untouched ? "" : " wrote outside its outputs");
    return false;
}

/* What a table that multiplies 16-bit operands rounds: in o, not in the log of the sum, whose
 * probabilities are not multiplied. */
static void kt_set_slack(struct kt *k, const struct sn_ops *ops, enum sn_op_kind kind)
{
    enum sn_dtype t = k->a.in[0].dtype;
    double other = kt_slack ? kt_slack(kind, t) : 0.0;
    double own = ops->multiplies && ops->multiplies(t) && !k->exact ? kt_slack_of(kind, t) : 0.0;
    for (int o = 0; o < SN_MAX_OUT; o++)
        k->slack[o] = k->carried[o] + other + (kind == SN_OP_ATTENTION && o > 0 ? 0.0 : own);
}

/* Everything described at the head of this file. */
__attribute__((unused)) static bool kt_check(struct kt *k, enum sn_op_kind kind, double tol)
{
    const struct sn_ops *table[KT_TABLES];
    int n = kt_tables(table);
    bool good = true;
    struct sn_scalars before = k->scalars;
    /* another table may have no threads, but may vary from run to run */
    int most = kt_threads ? kt_threads() : kt_slack ? 2 : 4;
    for (int s = 0; s < KT_SLOTS; s++)
        if (k->image[s])
            memcpy(k->saved[s], k->image[s], k->bytes[s]);
    for (int t = 0; t < n; t++) {
        if (t > 0 && table[t]->run[kind] == table[t - 1]->run[kind])
            continue; /* a set that takes this kernel from the one before it */
        kt_set_slack(k, table[t], kind);
        for (int threads = 1; threads <= most; threads++) {
            for (int s = 0; s < KT_SLOTS; s++)
                if (k->image[s])
                    memcpy(k->image[s], k->saved[s], k->bytes[s]);
            k->scalars = before;
            bool ran = kt_run(k, table[t], kind, threads);
            if (!ran)
                printf("# %s failed or wrote past its scratch\n", table[t]->name);
            good = kt_check_run(k, table[t], threads, tol) && ran && good;
        }
    }
    return good;
}

#endif
