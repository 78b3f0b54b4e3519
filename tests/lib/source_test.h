/*
 * source_test.h - a source in memory, and readers of any source.
 */
#ifndef SOURCE_TEST_H
#define SOURCE_TEST_H

#include "checkpoint/store/source.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/model/model.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

enum { FAKE_MOST = 512 };

/* The test fills it by fake_add and hands out its source by fake_source. Closing the source only
 * counts, so that the test may look at the fake afterwards; fake_fini frees it. */
struct fake {
    int n;
    struct sn_source_tensor tensors[FAKE_MOST];
    float *values[FAKE_MOST];
    char names[FAKE_MOST][96];
    const struct sn_source_want *wants; /* of the last begin */
    int64_t n_wants, at, memory;
    int64_t begins, closes, read; /* how often; values handed out so far */
    int64_t fail_at;              /* the read of this number fails, 1 is the first; 0: none */
};

/* Room for one more tensor, zeroed: the caller fills it. */
__attribute__((unused)) static float *fake_add(struct fake *f, const char *group, const char *name,
                                               int64_t rows, int64_t cols)
{
    float *p = sn_alloc_n((size_t)(rows * cols) + 1, sizeof(*p));
    if (f->n == FAKE_MOST || !p)
        exit(1);
    (void)snprintf(f->names[f->n], sizeof(f->names[0]), "%s", name);
    f->tensors[f->n] = (struct sn_source_tensor){group, f->names[f->n], rows, cols, SN_F32};
    f->values[f->n] = p;
    return f->values[f->n++];
}

/* All tensors of a model, in the three groups, filled with random numbers (squares of them where
 * only positive ones make sense). */
__attribute__((unused)) static void fake_add_model(struct fake *f, const struct sn_model *m,
                                                   uint64_t seed)
{
    static const char *const groups[] = {"model", "exp_avg", "exp_avg_sq"};
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < m->n_params; i++)
            for (int k = 0; k < m->params[i].n_tensors; k++) {
                const struct sn_tensor *q = &m->params[i].tensor[k];
                int64_t n = q->rows * m->params[i].cols;
                float *p = fake_add(f, groups[g], q->name, q->rows, m->params[i].cols);
                sn_rng_normal(sn_rng_key(seed + (uint64_t)g, q->name), 0, (size_t)n, 0.1f, p);
                for (int64_t e = 0; e < n && g == 2; e++)
                    p[e] *= p[e];
            }
}

__attribute__((unused)) static void fake_fini(struct fake *f)
{
    for (int i = 0; i < f->n; i++)
        sn_free(f->values[i]);
    *f = (struct fake){0};
}

__attribute__((unused)) static enum sn_status fake_begin(void *self,
                                                         const struct sn_source_want *wants,
                                                         int64_t n, int64_t memory,
                                                         struct sn_err *err)
{
    struct fake *f = self;
    for (int64_t i = 0; i < n; i++) {
        const struct sn_source_want *w = &wants[i];
        if (w->tensor < 0 || w->tensor >= f->n ||
            !sn_box_fits(w->box, f->tensors[w->tensor].rows, f->tensors[w->tensor].cols))
            return sn_fail(err, SN_EFAIL, "fake: want %d is no box of a tensor", (int)i);
    }
    f->wants = wants;
    f->n_wants = n;
    f->memory = memory;
    f->at = 0;
    f->begins++;
    return SN_OK;
}

__attribute__((unused)) static enum sn_status fake_next(void *self, float *out, int64_t ld,
                                                        struct sn_err *err)
{
    struct fake *f = self;
    if (f->at == f->n_wants)
        return sn_fail(err, SN_EFAIL, "fake: only %d boxes were announced", (int)f->n_wants);
    if (f->fail_at && f->at + 1 == f->fail_at)
        return sn_fail(err, SN_EIO, "fake: read %d fails", (int)f->fail_at);
    const struct sn_source_want *w = &f->wants[f->at++];
    const float *p = f->values[w->tensor];
    int64_t cols = f->tensors[w->tensor].cols;
    for (int64_t r = 0; r < w->box.rows && w->box.cols > 0; r++)
        memcpy(out + r * ld, p + (w->box.row + r) * cols + w->box.col,
               (size_t)w->box.cols * sizeof(*p));
    f->read += sn_box_size(w->box);
    return SN_OK;
}

__attribute__((unused)) static void fake_close(void *self)
{
    ((struct fake *)self)->closes++;
}

/* Sorts the tensors; `model_text` is borrowed. */
__attribute__((unused)) static struct sn_source fake_source(struct fake *f, const char *model_text)
{
    for (int i = 1; i < f->n; i++)
        for (int k = i; k > 0; k--) {
            struct sn_source_tensor *a = &f->tensors[k - 1], *b = &f->tensors[k];
            int order = strcmp(a->group, b->group);
            if (order < 0 || (order == 0 && strcmp(a->name, b->name) < 0))
                break;
            struct sn_source_tensor t = *a;
            float *p = f->values[k - 1];
            *a = *b;
            *b = t;
            f->values[k - 1] = f->values[k];
            f->values[k] = p;
        }
    return (struct sn_source){.self = f,
                              .name = "fake",
                              .n_tensors = f->n,
                              .tensors = f->tensors,
                              .scalars = {7, 700, 6, 2, 1, 8.0f},
                              .model_text = model_text,
                              .identity = 42,
                              .begin = fake_begin,
                              .next = fake_next,
                              .close = fake_close};
}

/* The tensor's number, or -1. */
__attribute__((unused)) static int source_number(const struct sn_source *s, const char *group,
                                                 const char *name)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (!strcmp(s->tensors[i].group, group) && !strcmp(s->tensors[i].name, name))
            return i;
    return -1;
}

/* One box, rows without gaps. */
__attribute__((unused)) static enum sn_status
source_box(struct sn_source *s, int tensor, struct sn_box box, float *out, struct sn_err *err)
{
    struct sn_source_want w = {tensor, box};
    SN_TRY(s->begin(s->self, &w, 1, 1 << 20, err));
    return s->next(s->self, out, box.cols, err);
}

/* A whole tensor in fresh memory; NULL and a diagnosis when it fails. */
__attribute__((unused)) static float *source_whole(struct sn_source *s, const char *group,
                                                   const char *name)
{
    struct sn_err err = {0};
    int i = source_number(s, group, name);
    if (i < 0) {
        printf("# no tensor %s/%s\n", group, name);
        return NULL;
    }
    const struct sn_source_tensor *t = &s->tensors[i];
    float *p = sn_alloc_n((size_t)(t->rows * t->cols) + 1, sizeof(*p));
    struct sn_box all = {0, 0, t->rows, t->cols};
    if (p && source_box(s, i, all, p, &err) == SN_OK)
        return p;
    printf("# %s/%s: %s\n", group, name, err.text);
    sn_free(p);
    return NULL;
}

#endif
