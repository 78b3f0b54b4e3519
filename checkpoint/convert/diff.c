/*
 * diff.c - two sources, value by value, in strips that both read in the same order.
 */
#include "checkpoint/convert/inspect.h"

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/source.h"
#include "lib/base/mem.h"
#include "lib/config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STRIP_MOST = 4 << 20, STRIP_LEAST = 64 << 10 }; /* bytes of a strip as fp32 */

/* A strip of a tensor that both sources have. */
struct pair {
    struct sn_source_want a, b;
};

struct compare {
    const struct sn_source *a, *b;
    struct sn_diff *result;
    struct sn_str *out;
    int64_t strip; /* values */
    int64_t n;     /* strips */
    struct sn_source_want *want_a, *want_b;
    float *value_a, *value_b;
};

/* What the strips of one tensor have shown so far. */
struct finding {
    int64_t different;
    double largest;
    int64_t row, col; /* of the first different value */
};

/* --- strips ---------------------------------------------------------------------------------- */

/* Whole rows, as many as fit; a row longer than a strip is cut by itself. */
static struct sn_box first_strip(const struct sn_source_tensor *t, int64_t strip)
{
    int64_t cols = t->cols < strip ? t->cols : strip;
    int64_t rows = cols == t->cols ? strip / (cols > 0 ? cols : 1) : 1;
    return (struct sn_box){0, 0, rows < t->rows ? rows : t->rows, cols};
}

/* The one after it, row by row; false after the last. */
static bool next_strip(struct sn_box *b, const struct sn_source_tensor *t, int64_t strip)
{
    struct sn_box first = first_strip(t, strip);
    b->col += b->cols;
    if (b->col >= t->cols) {
        b->col = 0;
        b->row += b->rows;
    }
    if (b->row >= t->rows)
        return false;
    b->rows = first.rows < t->rows - b->row ? first.rows : t->rows - b->row;
    b->cols = first.cols < t->cols - b->col ? first.cols : t->cols - b->col;
    return true;
}

static bool is_empty(const struct sn_source_tensor *t)
{
    return t->rows == 0 || t->cols == 0;
}

/* The tensor of b that tensor i of a is to be compared with, or -1: none of that name and shape. */
static int partner(const struct compare *c, int i)
{
    const struct sn_source_tensor *t = &c->a->tensors[i];
    int j = sn_source_find(c->b, t->group, t->name);
    bool fits = j >= 0 && c->b->tensors[j].rows == t->rows && c->b->tensors[j].cols == t->cols;
    return fits ? j : -1;
}

/* List the strips, or only count them where there is no list yet. */
static void list_strips(struct compare *c)
{
    c->n = 0;
    for (int i = 0; i < c->a->n_tensors; i++) {
        const struct sn_source_tensor *t = &c->a->tensors[i];
        int j = partner(c, i);
        if (j < 0 || is_empty(t))
            continue;
        struct sn_box box = first_strip(t, c->strip);
        do {
            if (c->want_a) {
                c->want_a[c->n] = (struct sn_source_want){i, box};
                c->want_b[c->n] = (struct sn_source_want){j, box};
            }
            c->n++;
        } while (next_strip(&box, t, c->strip));
    }
}

/* --- values ---------------------------------------------------------------------------------- */

/* Bits decide: -0 is not 0, and a NaN equals the same NaN. */
static void compare_strip(const struct compare *c, struct sn_box box, struct finding *f)
{
    int64_t n = sn_box_size(box);
    if (memcmp(c->value_a, c->value_b, (size_t)n * sizeof(float)) == 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&c->value_a[i], &c->value_b[i], sizeof(float)) == 0)
            continue;
        double d = fabs((double)c->value_a[i] - (double)c->value_b[i]);
        d = isnan(d) ? INFINITY : d;
        f->largest = d > f->largest ? d : f->largest;
        if (f->different++ == 0) {
            f->row = box.row + i / box.cols;
            f->col = box.col + i % box.cols;
        }
    }
}

static void add_finding(struct compare *c, const struct sn_source_tensor *t,
                        const struct sn_source_tensor *u, const struct finding *f)
{
    int64_t n = t->rows * t->cols;
    c->result->tensors++;
    c->result->values += n;
    if (f->different == 0)
        return;
    c->result->different++;
    c->result->different_values += f->different;
    c->result->largest = f->largest > c->result->largest ? f->largest : c->result->largest;
    sn_str_add(c->out,
               "%s %s: %" PRId64 " of %" PRId64
               " values differ, by at most %.9g, the first at row %" PRId64 ", column %" PRId64,
               t->group, t->name, f->different, n, f->largest, f->row, f->col);
    if (t->dtype != u->dtype)
        sn_str_add(c->out, " (%s against %s)", sn_dtype_name(t->dtype), sn_dtype_name(u->dtype));
    sn_str_add(c->out, "\n");
}

static enum sn_status compare_tensors(struct compare *c, struct sn_source *a, struct sn_source *b,
                                      struct sn_err *err)
{
    int64_t at = 0;
    for (int i = 0; i < a->n_tensors; i++) {
        int j = partner(c, i);
        struct finding f = {0};
        if (j < 0)
            continue;
        for (; at < c->n && c->want_a[at].tensor == i; at++) {
            struct sn_box box = c->want_a[at].box;
            SN_TRY(a->next(a->self, c->value_a, box.cols, err));
            SN_TRY(b->next(b->self, c->value_b, box.cols, err));
            compare_strip(c, box, &f);
        }
        add_finding(c, &a->tensors[i], &b->tensors[j], &f);
    }
    return SN_OK;
}

static enum sn_status compare_all(struct compare *c, struct sn_source *a, struct sn_source *b,
                                  int64_t memory, struct sn_err *err)
{
    list_strips(c);
    SN_TRY(a->begin(a->self, c->want_a, c->n, memory, err));
    SN_TRY(b->begin(b->self, c->want_b, c->n, memory, err));
    return compare_tensors(c, a, b, err);
}

/* --- everything else ------------------------------------------------------------------------- */

static void add_missing(struct compare *c, const struct sn_source *in, const struct sn_source *of)
{
    for (int i = 0; i < of->n_tensors; i++) {
        const struct sn_source_tensor *t = &of->tensors[i];
        int j = sn_source_find(in, t->group, t->name);
        if (j < 0) {
            sn_str_add(c->out, "%s %s: only in %s\n", t->group, t->name, of->name);
            c->result->missing++;
        } else if (of == c->a && partner(c, i) < 0) {
            const struct sn_source_tensor *u = &in->tensors[j];
            sn_str_add(c->out,
                       "%s %s: is %" PRId64 " x %" PRId64 " in %s and %" PRId64 " x %" PRId64
                       " in %s\n",
                       t->group, t->name, t->rows, t->cols, of->name, u->rows, u->cols, in->name);
            c->result->tensors++;
            c->result->different++;
        }
    }
}

static void add_scalar(struct compare *c, const char *name, double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return;
    sn_str_add(c->out, "%s: %.9g against %.9g\n", name, a, b);
    c->result->scalars++;
}

static void add_number(struct compare *c, const char *name, int64_t a, int64_t b)
{
    if (a == b)
        return;
    sn_str_add(c->out, "%s: %" PRId64 " against %" PRId64 "\n", name, a, b);
    c->result->scalars++;
}

/* The first line that differs: the others follow from it as often as not. */
static void compare_models(struct compare *c)
{
    const char *a = c->a->model_text, *b = c->b->model_text;
    size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
    if (strcmp(a, b) == 0)
        return;
    while (na == nb && strncmp(a, b, na) == 0 && a[na] && b[nb]) {
        a += na + 1;
        b += nb + 1;
        na = strcspn(a, "\n");
        nb = strcspn(b, "\n");
    }
    size_t ia = strspn(a, " "), ib = strspn(b, " ");
    sn_str_add(c->out, "model: '%.*s' against '%.*s'\n", (int)(na - ia), a + ia, (int)(nb - ib),
               b + ib);
    c->result->scalars++;
}

static void compare_scalars(struct compare *c)
{
    const struct sn_state_scalars *a = &c->a->scalars, *b = &c->b->scalars;
    add_number(c, "step", a->step, b->step);
    add_number(c, "tokens", a->tokens, b->tokens);
    add_number(c, "adam_count", a->adam_count, b->adam_count);
    add_number(c, "scale_age", a->scale_age, b->scale_age);
    add_number(c, "skipped", a->skipped, b->skipped);
    add_scalar(c, "loss_scale", (double)a->loss_scale, (double)b->loss_scale);
    add_scalar(c, "adapter_scale", (double)a->adapter_scale, (double)b->adapter_scale);
    add_number(c, "blend", (int64_t)a->blend, (int64_t)b->blend);
    for (int i = 0; i < SN_NCODED; i++) {
        char name[48];
        (void)snprintf(name, sizeof(name), "codec_level of %s", sn_coded_name((enum sn_coded)i));
        add_number(c, name, a->codec_level[i], b->codec_level[i]);
    }
    compare_models(c);
}

enum sn_status sn_diff_sources(struct sn_diff *result, struct sn_str *out, struct sn_source *a,
                               struct sn_source *b, int64_t memory, struct sn_err *err)
{
    int64_t bytes = memory / 8 > STRIP_MOST ? STRIP_MOST : memory / 8;
    bytes = bytes < STRIP_LEAST ? STRIP_LEAST : bytes;
    struct compare c = {
        .a = a, .b = b, .result = result, .out = out, .strip = bytes / (int64_t)sizeof(float)};
    *result = (struct sn_diff){0};
    compare_scalars(&c);
    add_missing(&c, b, a);
    add_missing(&c, a, b);
    list_strips(&c);
    c.want_a = sn_alloc_n((size_t)c.n + 1, sizeof(*c.want_a));
    c.want_b = sn_alloc_n((size_t)c.n + 1, sizeof(*c.want_b));
    c.value_a = sn_alloc((size_t)bytes);
    c.value_b = sn_alloc((size_t)bytes);
    enum sn_status st = SN_OK;
    if (!c.want_a || !c.want_b || !c.value_a || !c.value_b)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to compare %" PRId64 " strips of it", a->name,
                     c.n);
    if (st == SN_OK)
        st = compare_all(&c, a, b, memory > 2 * bytes ? (memory - 2 * bytes) / 2 : 0, err);
    sn_free(c.value_b);
    sn_free(c.value_a);
    sn_free(c.want_b);
    sn_free(c.want_a);
    if (st == SN_OK && out->failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to say how it differs", a->name);
    return st;
}

enum sn_status sn_diff(struct sn_diff *result, struct sn_str *out, const char *a, const char *b,
                       int64_t memory, struct sn_err *err)
{
    struct sn_source of_a = {0}, of_b = {0};
    enum sn_status st = sn_source_open_checkpoint(&of_a, a, err);
    if (st == SN_OK)
        st = sn_source_open_checkpoint(&of_b, b, err);
    if (st == SN_OK)
        st = sn_diff_sources(result, out, &of_a, &of_b, memory, err);
    sn_source_close(&of_b);
    sn_source_close(&of_a);
    return st;
}
