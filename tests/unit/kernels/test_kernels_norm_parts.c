/*
 * Norms of rows whose features are cut into slices: NORM_PART and NORM_DX_PART of each slice, and
 * what the norms and their gradients make of all parts, against formulas in double for whole rows.
 */
#include "tests/lib/kernel_test.h"

static const double eps = 1e-5;

/* Rows of `slices` x `cols` features, values as they are stored, and what formulas say of them. */
struct whole {
    bool layer;
    enum sn_dtype dtype;
    int slices;
    int64_t rows, cols;
    double offset;              /* of x */
    double *x, *dy, *w, *b, *g; /* [rows][slices cols], w and b [1][slices cols] */
    double *y, *dx;
    double *stats, *parts, *dx_parts; /* [rows][K]; [slices rows][K], as kernels gave them */
};

/* Added to weights of RMSNORM. */
static double shift_of(const struct whole *w)
{
    return w->layer ? 0 : 0.75;
}

static int numbers(const struct whole *w)
{
    return w->layer ? 2 : 1;
}

static double *room(int64_t n)
{
    double *p = calloc((size_t)n, sizeof(*p));
    if (!p)
        abort();
    return p;
}

static double stored(enum sn_dtype t, double v)
{
    char bytes[sizeof(float)];
    struct sn_mat one = {bytes, t, 1, 1, 1};
    kt_set(&one, 0, 0, v);
    return kt_get(&one, 0, 0);
}

static double *draw(struct whole *w, uint64_t stream, int64_t rows, double offset)
{
    int64_t n = rows * w->slices * w->cols;
    double *v = room(n);
    for (int64_t i = 0; i < n; i++) {
        float z;
        sn_rng_normal(11 + stream, (uint64_t)i, 1, 1.0f, &z);
        v[i] = stored(w->dtype, (double)z + offset);
    }
    return v;
}

static void make(struct whole *w)
{
    int64_t n = w->rows * w->slices * w->cols;
    w->x = draw(w, 0, w->rows, w->offset);
    w->dy = draw(w, 1, w->rows, 0.0);
    w->g = draw(w, 2, w->rows, 0.0);
    w->w = draw(w, 3, 1, 0.0);
    w->b = draw(w, 4, 1, 0.0);
    w->y = room(n);
    w->dx = room(n);
    w->stats = room(w->rows * 2);
    w->parts = room(w->slices * w->rows * 2);
    w->dx_parts = room(w->slices * w->rows * 2);
}

static void drop(struct whole *w)
{
    double *all[] = {w->x, w->dy, w->g, w->w, w->b, w->y, w->dx, w->stats, w->parts, w->dx_parts};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* mean and variance; of RMSNORM: 0 and mean(x^2) */
static void moments(bool layer, const double *x, int64_t n, double m[2])
{
    m[0] = m[1] = 0.0;
    for (int64_t i = 0; i < n && layer; i++)
        m[0] += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        m[1] += (x[i] - m[0]) * (x[i] - m[0]) / (double)n;
}

/* mean(w dy) and mean(w dy h); of RMSNORM: 0 and mean(w dy x). With the statistics as stored. */
static void weighted(const struct whole *w, int64_t r, int64_t first, int64_t n, double m[2])
{
    int64_t width = w->slices * w->cols;
    double mean = w->layer ? w->stats[2 * r] : 0.0, scale = w->layer ? w->stats[2 * r + 1] : 1.0;
    m[0] = m[1] = 0.0;
    for (int64_t c = first; c < first + n; c++) {
        double u = (w->w[c] + shift_of(w)) * w->dy[r * width + c] / (double)n;
        m[0] += w->layer ? u : 0.0;
        m[1] += u * (w->x[r * width + c] - mean) * scale;
    }
}

/* Input i: columns `first` and on of `from`, whose rows are as long as whole ones. */
static void put(struct kt *k, int i, struct kt_shape s, const double *from, int64_t width)
{
    const struct sn_mat *m = kt_in(k, i, s);
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t c = 0; c < m->cols; c++)
            kt_set(m, r, c, from[r * width + c]);
}

/* Output o as it is, K numbers of a row after those of the one before. */
static void take(const struct kt *k, int o, double *to)
{
    const struct sn_mat *m = &k->a.out[o];
    for (int64_t i = 0; i < m->rows * m->cols; i++)
        to[i] = kt_get(m, i / m->cols, i % m->cols);
}

/* Slice p's operands are these shapes: rows with gaps, a vector, K numbers of each row. */
struct shapes {
    struct kt_shape rows, vector, few, parts;
};

static struct shapes shapes_of(const struct whole *w)
{
    struct kt_shape few = {SN_F32, w->rows, numbers(w), 3}, parts = few;
    parts.rows *= w->slices;
    return (struct shapes){
        {w->dtype, w->rows, w->cols, w->cols % 2 ? 5 : 0}, {w->dtype, 1, w->cols, 0}, few, parts};
}

/* fp32 sums of a few terms around an offset, in double beyond; results are fp32 */
static double close_to(const struct whole *w)
{
    return 2e-7 * fmax(fabs(w->offset), 10.0);
}

static bool part_of_slice(struct whole *w, int p)
{
    struct shapes s = shapes_of(w);
    int64_t width = w->slices * w->cols;
    struct kt k = {.magnitude = 1.0};
    put(&k, SN_NORM_PART_X, s.rows, w->x + p * w->cols, width);
    kt_out(&k, SN_NORM_PART_PART, s.few, SN_WRITE);
    double *ref = kt_ref(&k, SN_NORM_PART_PART), m[2];
    for (int64_t r = 0; r < w->rows; r++) {
        moments(w->layer, w->x + r * width + p * w->cols, w->cols, m);
        memcpy(ref + r * numbers(w), m + 2 - numbers(w), sizeof(*m) * (size_t)numbers(w));
    }
    bool good = kt_check(&k, SN_OP_NORM_PART, close_to(w));
    take(&k, SN_NORM_PART_PART, w->parts + p * w->rows * numbers(w));
    kt_free(&k);
    return good;
}

/* Leaves the statistics that the kernel stored. */
static bool norm_of_slice(struct whole *w, int p)
{
    struct shapes s = shapes_of(w);
    int64_t width = w->slices * w->cols, first = p * w->cols;
    struct kt k = {.magnitude = 1.0, .a.attr = {.eps = (float)eps, .shift = (float)shift_of(w)}};
    put(&k, SN_NORM_X, s.rows, w->x + first, width);
    put(&k, SN_NORM_W, s.vector, w->w + first, width);
    if (w->layer)
        put(&k, SN_NORM_B, s.vector, w->b + first, width);
    put(&k, SN_NORM_PARTS, s.parts, w->parts, numbers(w));
    kt_out(&k, SN_NORM_Y, s.rows, SN_WRITE);
    kt_out(&k, SN_NORM_STATS, s.few, SN_WRITE);
    double *y = kt_ref(&k, SN_NORM_Y), *stats = kt_ref(&k, SN_NORM_STATS), m[2], largest = 1.0;
    for (int64_t r = 0; r < w->rows; r++) {
        moments(w->layer, w->x + r * width, width, m);
        double scale = 1.0 / sqrt(m[1] + eps);
        largest = fmax(largest, scale);
        stats[numbers(w) * r] = w->layer ? m[0] : scale;
        stats[numbers(w) * r + numbers(w) - 1] = scale;
        for (int64_t c = 0; c < w->cols; c++)
            y[r * w->cols + c] =
                (w->x[r * width + first + c] - m[0]) * scale * (w->w[first + c] + shift_of(w)) +
                (w->layer ? w->b[first + c] : 0.0);
    }
    k.magnitude = largest; /* multiplies what was rounded of the mean */
    bool good = kt_check(&k, w->layer ? SN_OP_LAYERNORM : SN_OP_RMSNORM, close_to(w));
    take(&k, SN_NORM_STATS, w->stats);
    for (int64_t r = 0; r < w->rows; r++) { /* whatever the mean is */
        double want = stats[numbers(w) * (r + 1) - 1], got = w->stats[numbers(w) * (r + 1) - 1];
        good = good && (width < 64 || fabs(got - want) <= 1e-5 * want);
    }
    kt_free(&k);
    return good;
}

static bool dx_part_of_slice(struct whole *w, int p)
{
    struct shapes s = shapes_of(w);
    int64_t width = w->slices * w->cols, first = p * w->cols;
    struct kt k = {.magnitude = 1.0, .a.attr.shift = (float)shift_of(w)};
    put(&k, SN_NORM_DX_PART_DY, s.rows, w->dy + first, width);
    put(&k, SN_NORM_DX_PART_X, s.rows, w->x + first, width);
    put(&k, SN_NORM_DX_PART_W, s.vector, w->w + first, width);
    put(&k, SN_NORM_DX_PART_STATS, s.few, w->stats, numbers(w));
    kt_out(&k, SN_NORM_DX_PART_PART, s.few, SN_WRITE);
    double *ref = kt_ref(&k, SN_NORM_DX_PART_PART), m[2];
    for (int64_t r = 0; r < w->rows; r++) {
        weighted(w, r, first, w->cols, m);
        memcpy(ref + r * numbers(w), m + 2 - numbers(w), sizeof(*m) * (size_t)numbers(w));
    }
    bool good = kt_check(&k, SN_OP_NORM_DX_PART, 4e-6);
    take(&k, SN_NORM_DX_PART_PART, w->dx_parts + p * w->rows * numbers(w));
    kt_free(&k);
    return good;
}

/* dw and db, which are of the slice's columns alone. */
static void sums_of_slice(struct kt *k, const struct whole *w, int64_t first, enum sn_acc acc)
{
    struct kt_shape sums = {SN_F32, 1, w->cols, 0};
    double *ref[2] = {NULL, NULL};
    for (int o = 0; o < numbers(w); o++) {
        kt_out(k, SN_NORM_DX_DW + o, sums, acc);
        ref[o] = kt_ref(k, SN_NORM_DX_DW + o);
    }
    for (int64_t i = 0; i < w->rows * w->cols; i++) {
        int64_t r = i / w->cols, c = i % w->cols, at = r * w->slices * w->cols + first + c;
        const double *st = w->stats + r * numbers(w);
        double mean = w->layer ? st[0] : 0.0;
        ref[0][c] += w->dy[at] * (w->x[at] - mean) * st[numbers(w) - 1];
        if (ref[1])
            ref[1][c] += w->dy[at];
    }
}

/* turn: what of dx and its addend are in one place, and whether there are sums */
static bool dx_of_slice(struct whole *w, int p, int turn)
{
    struct shapes s = shapes_of(w);
    int64_t width = w->slices * w->cols, first = p * w->cols;
    struct kt k = {.magnitude = 1.0, .a.attr.shift = (float)shift_of(w)};
    bool adds = turn % 3 == 2;
    put(&k, SN_NORM_DX_DY, s.rows, w->dy + first, width);
    put(&k, SN_NORM_DX_X, s.rows, w->x + first, width);
    put(&k, SN_NORM_DX_W, s.vector, w->w + first, width);
    put(&k, SN_NORM_DX_STATS, s.few, w->stats, numbers(w));
    if (adds)
        put(&k, SN_NORM_DX_ADDEND, s.rows, w->g + first, width);
    put(&k, SN_NORM_DX_PARTS, s.parts, w->dx_parts, numbers(w));
    if (turn % 3)
        kt_take(&k, SN_NORM_DX_DX, adds ? SN_NORM_DX_ADDEND : SN_NORM_DX_DY);
    else
        kt_out(&k, SN_NORM_DX_DX, s.rows, SN_WRITE);
    double *dx = kt_ref(&k, SN_NORM_DX_DX), m[2], largest = 1.0;
    for (int64_t r = 0; r < w->rows; r++) {
        double mean = w->layer ? w->stats[2 * r] : 0.0;
        double scale = w->stats[numbers(w) * (r + 1) - 1];
        weighted(w, r, 0, width, m);
        m[1] *= w->layer ? scale : scale * scale; /* of h, or of x */
        for (int64_t c = 0; c < w->cols; c++) {
            int64_t at = r * width + first + c;
            dx[r * w->cols + c] = scale * ((w->w[first + c] + shift_of(w)) * w->dy[at] - m[0] -
                                           (w->x[at] - mean) * m[1]) +
                                  (adds ? w->g[at] : 0.0);
        }
        largest = fmax(largest, scale);
    }
    if (turn % 2)
        sums_of_slice(&k, w, first, turn % 4 == 1 ? SN_WRITE : SN_ADD);
    /* the terms that cancel are ten times as large as what is left */
    k.magnitude = 10.0 * largest * sqrt((double)w->rows);
    bool good = kt_check(&k, w->layer ? SN_OP_LAYERNORM_DX : SN_OP_RMSNORM_DX, 2e-6);
    kt_free(&k);
    return good;
}

enum { PART, NORM, DX_PART, DX, N_STEPS };

static void add_case(struct whole w, int turn, bool good[N_STEPS])
{
    make(&w);
    for (int p = 0; p < w.slices; p++)
        good[PART] = part_of_slice(&w, p) && good[PART];
    for (int p = 0; p < w.slices; p++)
        good[NORM] = norm_of_slice(&w, p) && good[NORM];
    for (int p = 0; p < w.slices; p++)
        good[DX_PART] = dx_part_of_slice(&w, p) && good[DX_PART];
    for (int p = 0; p < w.slices; p++)
        good[DX] = dx_of_slice(&w, p, turn + p) && good[DX];
    drop(&w);
}

/* Widths of slices that fill vectors exactly, partly and not at all; more than one piece; more than
 * a block of a GPU keeps in registers where it moves single elements. */
static const int64_t widths[] = {1, 7, 64, 257, 1033, 4099};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

static void slices_make_a_row(bool layer, enum sn_dtype t)
{
    static const char *const what[2][N_STEPS] = {
        {"mean(x^2) of a slice", "RMSNORM", "mean(w dy x) of a slice", "RMSNORM_DX and sums"},
        {"moments of a slice", "LAYERNORM", "means of w dy of a slice", "LAYERNORM_DX and sums"}};
    bool good[N_STEPS] = {true, true, true, true};
    int turn = 0;
    for (int i = 0; i < N_WIDTHS; i++)
        for (int slices = 1; slices <= 3; slices++)
            for (int64_t rows = 1; rows <= (widths[i] > 2000 ? 1 : 12); rows += 11)
                add_case((struct whole){.layer = layer,
                                        .dtype = t,
                                        .slices = slices,
                                        .rows = rows,
                                        .cols = widths[i],
                                        .offset = i % 2 ? 0.5 : 0.0},
                         turn++, good);
    for (int i = 0; i < N_STEPS; i++)
        tap_ok(good[i], "%s of %s, of 1, 2 and 3 slices", what[layer][i], sn_dtype_name(t));
}

/* Squares of x are a million, of which a difference to the variance 1 would keep nothing in fp32. */
static void a_large_mean_cancels_nothing(void)
{
    bool good[N_STEPS] = {true, true, true, true};
    for (int slices = 1; slices <= 3; slices++)
        add_case((struct whole){.layer = true,
                                .dtype = SN_F32,
                                .slices = slices,
                                .rows = 12,
                                .cols = 512,
                                .offset = 1000.0},
                 slices, good);
    tap_ok(good[PART] && good[NORM], "a mean of 1000 leaves a variance of 1 as exact as it is");
    tap_ok(good[DX_PART] && good[DX], "and so the gradients");
}

int main(void)
{
    static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};
    for (int layer = 0; layer < 2; layer++)
        for (int t = 0; t < 3; t++)
            slices_make_a_row(layer, dtypes[t]);
    a_large_mean_cancels_nothing();
    return tap_done();
}
