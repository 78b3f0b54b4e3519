/*
 * thread_result.c - what a collective of thread_comm gives to a member, from what all have brought.
 */
#include "kernels/half.h"
#include "tests/lib/thread_comm_inner.h"

#include <stdlib.h>
#include <string.h>

void *thread_need(void *p)
{
    if (!p)
        abort();
    return p;
}

static double get(const void *p, enum sn_dtype t, int64_t i)
{
    if (t == SN_F32)
        return (double)((const float *)p)[i];
    if (t == SN_F64)
        return ((const double *)p)[i];
    uint16_t x = ((const uint16_t *)p)[i];
    return (double)(t == SN_BF16 ? sn_bf16_to_f32(x) : sn_f16_to_f32(x));
}

static void put(void *p, enum sn_dtype t, int64_t i, double x)
{
    if (t == SN_F32)
        ((float *)p)[i] = (float)x;
    else if (t == SN_F64)
        ((double *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = t == SN_BF16 ? sn_f32_to_bf16((float)x) : sn_f32_to_f16((float)x);
}

const struct sn_transfer *thread_brought(const struct meeting *m, int member)
{
    return m->of[member];
}

static const char *input(const struct sn_transfer *t)
{
    return t->in ? t->in : t->out;
}

/* Element `at` of the members' inputs, added in member order in fp32 (fp64 for fp64). */
static double sum(const struct meeting *m, int size, int64_t at)
{
    enum sn_dtype t = thread_brought(m, 0)->dtype;
    double s = get(input(thread_brought(m, 0)), t, at);
    for (int i = 1; i < size; i++) {
        double x = get(input(thread_brought(m, i)), t, at);
        s = t == SN_F64 ? s + x : (double)((float)s + (float)x);
    }
    return s;
}

/* Rows, into a copy of what was there. */
static void *exchanged(const struct meeting *m, int size, int me, int64_t *n)
{
    const struct sn_transfer *t = thread_brought(m, me);
    const struct sn_exchange *x = t->exchange;
    size_t row = (size_t)t->n * sn_dtype_size(t->dtype);
    struct sn_exchange_rows from, to;
    int64_t rows = 0;
    for (int i = 0; i < size; i++)
        for (struct sn_exchange_walk w = {.member = i, .arrives = true};
             sn_exchange_next(x, &w, &to);)
            rows = to.n > 0 && to.at + to.n > rows ? to.at + to.n : rows;
    *n = rows * t->n;
    char *out = thread_need(malloc((size_t)rows * row + 1));
    memcpy(out, t->out, (size_t)rows * row);
    for (int i = 0; i < size; i++) {
        struct sn_exchange_walk lands = {.member = i, .arrives = true}, leaves = {.member = me};
        while (sn_exchange_next(x, &lands, &to)) {
            if (!sn_exchange_next(thread_brought(m, i)->exchange, &leaves, &from) || from.n != to.n)
                abort();
            memcpy(out + (size_t)to.at * row, input(thread_brought(m, i)) + (size_t)from.at * row,
                   (size_t)to.n * row);
        }
    }
    return out;
}

/* Shares of a window: all of them, or the sum of the own one. */
static void *shared(const struct meeting *m, int size, int me, int64_t *n)
{
    const struct sn_transfer *t = thread_brought(m, me);
    size_t width = sn_dtype_size(t->dtype);
    struct sn_comm_block own = sn_transfer_block(t, me), last = sn_transfer_block(t, size - 1);
    bool spreads = t->kind == SN_ALL_GATHER;
    *n = spreads ? last.at + last.n : own.n;
    char *out = thread_need(malloc((size_t)*n * width + 1));
    for (int i = 0; spreads && i < size; i++) {
        struct sn_comm_block b = sn_transfer_block(thread_brought(m, i), i);
        memcpy(out + (size_t)b.at * width, input(thread_brought(m, i)), (size_t)b.n * width);
    }
    for (int64_t i = 0; !spreads && i < *n; i++)
        put(out, t->dtype, i, sum(m, size, own.at + i));
    return out;
}

/* Elements. */
static void *elements(const struct meeting *m, int size, int me, int64_t *n)
{
    const struct sn_transfer *t = thread_brought(m, me);
    size_t width = sn_dtype_size(t->dtype);
    bool spreads = t->kind == SN_ALL_GATHER || t->kind == SN_ALL_TO_ALL;
    *n = spreads ? t->n * size : t->n;
    char *out = thread_need(malloc((size_t)*n * width + 1));
    int64_t first = t->kind == SN_REDUCE_SCATTER ? me * t->n : 0;
    for (int i = 0; spreads && i < size; i++)
        memcpy(out + (size_t)(i * t->n) * width,
               input(thread_brought(m, i)) +
                   (t->kind == SN_ALL_TO_ALL ? (size_t)(me * t->n) * width : 0),
               (size_t)t->n * width);
    for (int64_t i = 0; !spreads && i < *n; i++) {
        double s = sum(m, size, first + i);
        if (t->add)
            s = (double)((float)s + ((const float *)t->out)[i]);
        put(out, t->dtype, i, s);
    }
    return out;
}

void *thread_result(const struct meeting *m, int size, int me, int64_t *n)
{
    const struct sn_transfer *t = thread_brought(m, me);
    if (!t->exchange)
        return elements(m, size, me, n);
    return t->kind == SN_ALL_TO_ALL ? exchanged(m, size, me, n) : shared(m, size, me, n);
}
