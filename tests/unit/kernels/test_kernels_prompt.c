/*
 * PROMPT, PROMPT_DX, PROMPT_DW against loops in double, whole and as ranks of a context ring have their rows.
 */
#include "kernels/position.h"
#include "tests/lib/kernel_test.h"

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

enum { SAMPLES = 3, SEQ = 8, LEVELS = 2, ROWS = 2, FIRST = 1, SIZE = 19 };

/* Features are of the second of two levels; without them W has a column for each row, and one more. */
struct of {
    enum sn_dtype type;
    int64_t cols, pad;
    bool features, zigzag;
    int context, rank;
};

static struct sn_attr attr_of(const struct of *o)
{
    struct sn_attr a = {.position = {.seq = SEQ,
                                     .context = o->context,
                                     .context_rank = o->rank,
                                     .key_rank = o->rank,
                                     .zigzag = o->zigzag},
                        .prompt = {.first = FIRST, .rows = ROWS}};
    if (o->features) {
        a.prompt.level = 1;
        a.prompt.levels = LEVELS;
    }
    return a;
}

static int64_t rows_of(const struct of *o)
{
    return SAMPLES * SEQ / (o->context > 1 ? o->context : 1);
}

/* Which of the filled positions a row has, by the definition of where rows lie; -1. */
static int64_t filled(const struct of *o, int64_t r, int64_t *sample)
{
    struct sn_position_attr p = attr_of(o).position;
    int64_t each = SEQ / (o->context > 1 ? o->context : 1);
    int64_t at = sn_position(&p, o->rank, r % each) - FIRST;
    *sample = r / each;
    return at >= 0 && at < ROWS ? at : -1;
}

static double feature(const struct sn_mat *f, int64_t sample, int64_t i, int64_t k)
{
    return kt_get(f, (sample * LEVELS + 1) * ROWS + i, k);
}

static bool forward(const struct of *o, bool in_place)
{
    struct kt k = {.magnitude = 8.0};
    struct kt_shape s = {o->type, rows_of(o), o->cols, o->pad};
    const struct sn_mat *x = kt_in(&k, 0, s);
    const struct sn_mat *w =
        kt_in(&k, 1, (struct kt_shape){o->type, o->cols, o->features ? SIZE : ROWS + 1, 0});
    const struct sn_mat *f =
        o->features ? kt_in(&k, 2, (struct kt_shape){SN_F32, SAMPLES * LEVELS * ROWS, SIZE, 0})
                    : NULL;
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    k.a.attr = attr_of(o);
    double *y = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++) {
            int64_t sample, i = filled(o, r, &sample);
            double *to = &y[r * s.cols + c];
            *to = i < 0 ? kt_get(x, r, c) : f ? 0 : kt_get(w, c, i);
            for (int64_t n = 0; n < SIZE && i >= 0 && f; n++)
                *to += kt_get(w, c, n) * feature(f, sample, i, n);
        }
    bool good = kt_check(&k, SN_OP_PROMPT, 1e-6);
    kt_free(&k);
    return good;
}

static bool backward(const struct of *o, bool in_place)
{
    struct kt k = {.magnitude = 1.0};
    struct kt_shape s = {o->type, rows_of(o), o->cols, o->pad};
    const struct sn_mat *dy = kt_in(&k, 0, s);
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    k.a.attr = attr_of(o);
    double *dx = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++) {
            int64_t sample;
            dx[r * s.cols + c] = filled(o, r, &sample) < 0 ? kt_get(dy, r, c) : 0;
        }
    bool good = kt_check(&k, SN_OP_PROMPT_DX, 0);
    kt_free(&k);
    return good;
}

static bool weights(const struct of *o, enum sn_acc acc)
{
    struct kt k = {.magnitude = 8.0};
    int64_t rows = rows_of(o), width = o->features ? SIZE : ROWS + 1;
    const struct sn_mat *dy = kt_in(&k, 0, (struct kt_shape){o->type, rows, o->cols, o->pad});
    const struct sn_mat *f =
        o->features ? kt_in(&k, 1, (struct kt_shape){SN_F32, SAMPLES * LEVELS * ROWS, SIZE, 0})
                    : NULL;
    kt_out(&k, 0, (struct kt_shape){SN_F32, o->cols, width, 0}, acc);
    k.a.attr = attr_of(o);
    double *dw = kt_ref(&k, 0);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < o->cols; c++) {
            int64_t sample, i = filled(o, r, &sample);
            for (int64_t n = 0; n < SIZE && i >= 0 && f; n++)
                dw[c * width + n] += kt_get(dy, r, c) * feature(f, sample, i, n);
            if (i >= 0 && !f)
                dw[c * width + i] += kt_get(dy, r, c);
        }
    bool good = kt_check(&k, SN_OP_PROMPT_DW, 1e-6);
    kt_free(&k);
    return good;
}

static void are_those_of_loops(enum sn_dtype t, int context, bool zigzag)
{
    static const int64_t widths[] = {1, 24, 1027};
    bool y = true, dx = true, dw = true;
    for (int rank = 0; rank < context; rank++)
        for (int i = 0; i < 3; i++)
            for (int features = 0; features < 2; features++) {
                struct of o = {t, widths[i], i % 2 ? 8 : 0, features, zigzag, context, rank};
                y = forward(&o, false) && forward(&o, true) && y;
                dx = backward(&o, false) && backward(&o, true) && dx;
                dw = weights(&o, SN_WRITE) && weights(&o, SN_ADD) && dw;
            }
    const char *type = sn_dtype_name(t), *how = zigzag        ? " of a ring"
                                                : context > 1 ? " of shares"
                                                              : "";
    tap_ok(y, "PROMPT of %s%s fills its positions, and no others", type, how);
    tap_ok(dx, "PROMPT_DX of %s%s is 0 there", type, how);
    tap_ok(dw, "PROMPT_DW of %s%s adds up their rows", type, how);
}

int main(void)
{
    for (int t = 0; t < 3; t++) {
        are_those_of_loops(dtypes[t], 1, false);
        are_those_of_loops(dtypes[t], 2, false);
        are_those_of_loops(dtypes[t], 2, true);
    }
    return tap_done();
}
