/*
 * reference.h - results of operations on the processor, kept in files: a machine with a GPU need
 * not compute them again.
 *
 * A file is of one case of test_kernels_cuda.c: a hash of all operands as they were before, the
 * scalars after, and of each output up to KT_SAMPLES elements, one drawn from each of as many equal
 * stretches, so that every tile of a product has some. What is not kept is compared with nothing
 * (but a NaN is found anywhere). A file that is of other operands is stale, and refused.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "lib/base/hash.h"
#include "tests/gpu/other_table.h"
#include "tests/lib/kernel_test.h"

enum { KT_SAMPLES = 8192, KT_PATH = 1024 };

struct kt_reference_head {
    char magic[8]; /* "snref 1" */
    uint64_t operands;
    double loss_sum, sq_norm;
    int64_t nonfinite;
    uint64_t outputs; /* bit o: output o is there */
};

static const char kt_reference_magic[8] = "snref 1";

/* Of all operands, with their shapes. */
static uint64_t kt_hash_operands(const struct kt *k)
{
    uint64_t h = 0;
    for (int s = 0; s < KT_SLOTS; s++) {
        const struct sn_mat *m = kt_mat((struct kt *)(uintptr_t)k, s);
        if (!k->image[s])
            continue;
        uint64_t part[] = {h,
                           (uint64_t)s,
                           (uint64_t)m->dtype,
                           (uint64_t)m->rows,
                           (uint64_t)m->cols,
                           sn_hash64(k->image[s], k->bytes[s])};
        h = sn_hash64(part, sizeof(part));
    }
    return h;
}

static int64_t kt_samples(const struct sn_mat *m)
{
    int64_t all = m->rows * m->cols;
    return all < KT_SAMPLES ? all : KT_SAMPLES;
}

/* The element of sample i. */
static int64_t kt_sample(const struct sn_mat *m, int64_t i)
{
    int64_t all = m->rows * m->cols, n = kt_samples(m);
    int64_t first = all / n * i + all % n * i / n, next = all / n * (i + 1) + all % n * (i + 1) / n;
    return first + (int64_t)(sn_rng_bits(11, (uint64_t)i) % (uint64_t)(next - first));
}

static FILE *kt_reference_open(const char *folder, const char *name, const char *mode)
{
    char path[KT_PATH];
    (void)snprintf(path, sizeof(path), "%s/%s.ref", folder, name);
    FILE *f = fopen(path, mode);
    if (!f)
        printf("# %s: not there, or cannot be written\n", path);
    return f;
}

/* What the processor made of operands whose hash was `operands`. */
static bool kt_reference_write(const struct kt *k, const char *folder, const char *name,
                               uint64_t operands)
{
    struct kt_reference_head h = {.operands = operands,
                                  .loss_sum = k->scalars.loss_sum,
                                  .sq_norm = k->scalars.sq_norm,
                                  .nonfinite = k->scalars.nonfinite};
    memcpy(h.magic, kt_reference_magic, sizeof(h.magic));
    for (int o = 0; o < SN_MAX_OUT; o++)
        h.outputs |= (uint64_t)(k->a.out[o].p != NULL) << o;
    FILE *f = kt_reference_open(folder, name, "wb");
    if (!f)
        return false;
    bool good = fwrite(&h, sizeof(h), 1, f) == 1;
    for (int o = 0; o < SN_MAX_OUT; o++) {
        const struct sn_mat *m = &k->a.out[o];
        size_t size = sn_dtype_size(m->dtype);
        for (int64_t i = 0; m->p && i < kt_samples(m); i++) {
            int64_t at = kt_sample(m, i), r = at / m->cols, c = at % m->cols;
            good = fwrite((const char *)m->p + (size_t)(r * m->ld + c) * size, size, 1, f) == 1 &&
                   good;
        }
    }
    return fclose(f) == 0 && good;
}

/* Into k->ref: the samples of the file, and everywhere else what the outputs hold now;
 * and scalars. */
static bool kt_reference_read(struct kt *k, struct sn_scalars *want, const char *folder,
                              const char *name, uint64_t operands)
{
    struct kt_reference_head h;
    FILE *f = kt_reference_open(folder, name, "rb");
    bool good = f && fread(&h, sizeof(h), 1, f) == 1 &&
                memcmp(h.magic, kt_reference_magic, sizeof(h.magic)) == 0;
    if (f && (!good || h.operands != operands)) {
        printf("# %s/%s.ref is stale: it is of other operands; make it again "
               "(tests/gpu/references)\n",
               folder, name);
        good = false;
    }
    for (int o = 0; good && o < SN_MAX_OUT; o++) {
        const struct sn_mat *m = &k->a.out[o];
        double held[1];
        struct sn_mat one = {held, m->dtype, 1, 1, 1};
        good = ((h.outputs >> o) & 1) == (m->p != NULL);
        for (int64_t i = 0; k->ref[o] && i < m->rows * m->cols; i++)
            k->ref[o][i] = kt_get(m, i / m->cols, i % m->cols);
        for (int64_t i = 0; good && m->p && i < kt_samples(m); i++) {
            good = fread(held, sn_dtype_size(m->dtype), 1, f) == 1;
            if (k->ref[o])
                k->ref[o][kt_sample(m, i)] = kt_get(&one, 0, 0);
        }
    }
    if (good) {
        want->loss_sum = h.loss_sum;
        want->sq_norm = h.sq_norm;
        want->nonfinite = h.nonfinite;
    }
    if (f)
        (void)fclose(f);
    return good;
}

/* --- one case --------------------------------------------------------------------------------- */

struct kt_case {
    const char *name; /* of its file */
    enum sn_op_kind kind;
    enum sn_dtype type;
    double tolerance;
    const char *references; /* a folder; NULL: the CPU computes */
};

/* Both scalars alike, to the rounding of sums in double. */
static bool kt_scalars_agree(const struct sn_scalars *a, const struct sn_scalars *b)
{
    return fabs(a->loss_sum - b->loss_sum) <= 1e-5 * fabs(b->loss_sum) + 1e-9 &&
           fabs(a->sq_norm - b->sq_norm) <= 1e-12 * fabs(b->sq_norm) &&
           a->nonfinite == b->nonfinite;
}

/* The CPU's results, into k->ref and *want; operands are as before then. */
static bool kt_compute(struct kt *k, enum sn_op_kind kind, struct sn_scalars *want)
{
    struct sn_scalars before = k->scalars;
    bool good = kt_run(k, sn_ops_cpu(), kind, 2);
    *want = k->scalars;
    for (int o = 0; o < SN_MAX_OUT; o++) {
        const struct sn_mat *m = &k->a.out[o];
        for (int64_t i = 0; k->ref[o] && i < m->rows * m->cols; i++)
            k->ref[o][i] = kt_get(m, i / m->cols, i % m->cols);
    }
    for (int s = 0; s < KT_SLOTS; s++)
        if (k->image[s])
            memcpy(k->image[s], k->saved[s], k->bytes[s]);
    k->scalars = before;
    return good;
}

/* Does the other table make what the CPU made? */
static bool kt_agrees(struct kt *k, const struct kt_case *x)
{
    static const double units[SN_NDTYPES] = {1e-7, 0x1p-8, 0x1p-11, 0, 0, 0};
    struct sn_scalars want = k->scalars;
    uint64_t operands = x->references ? kt_hash_operands(k) : 0;
    for (int s = 0; s < KT_SLOTS; s++)
        if (k->image[s])
            memcpy(k->saved[s], k->image[s], k->bytes[s]);
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (k->a.out[o].p)
            k->ref[o] = calloc((size_t)(k->a.out[o].rows * k->a.out[o].cols) + 1, sizeof(double));
    bool good = x->references || kt_compute(k, x->kind, &want);
    good = kt_run(k, &kt_other_table, x->kind, 1) && good;
    if (x->references)
        good = kt_reference_read(k, &want, x->references, x->name, operands) && good;
    int o = 0;
    int64_t r = 0, c = 0;
    double tol = x->tolerance + kt_slack_of(x->kind, x->type);
    double worst = kt_worst(k, tol + (x->tolerance > 0 ? units[x->type] : 0), &o, &r, &c);
    if (!(worst <= 1.0))
        printf("# out %d (%ld, %ld) is %.9g, want %.9g\n", o, (long)r, (long)c,
               kt_get(&k->a.out[o], r, c), k->ref[o][r * k->a.out[o].cols + c]);
    return good && worst <= 1.0 && kt_untouched(k) && kt_scalars_agree(&k->scalars, &want);
}

/* The CPU's results into a file. */
static bool kt_keep(struct kt *k, const struct kt_case *x, const char *folder)
{
    uint64_t operands = kt_hash_operands(k);
    return kt_run(k, sn_ops_cpu(), x->kind, 2) && kt_reference_write(k, folder, x->name, operands);
}

#endif
