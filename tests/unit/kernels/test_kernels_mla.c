/*
 * MLA_JOIN and MLA_JOIN_DX: each element is where the contract says, and r's gradient is the sum over heads.
 */
#include "tests/lib/kernel_test.h"

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

/* d: of a head of q and k; shared: of these the columns of r; e: of v, 0 as d. */
struct join {
    int32_t heads, d, e;
    int64_t shared, rows, pad;
};

static const struct join cases[] = {
    {1, 2, 1, 1, 1, 0},     {3, 24, 16, 8, 33, 0}, {3, 24, 16, 8, 33, 8}, {2, 12, 7, 5, 40, 3},
    {4, 192, 128, 64, 9, 0}, {2, 16, 0, 16, 21, 0}, {5, 8, 24, 0, 13, 1},  {2, 1100, 40, 1090, 3, 0},
};

static int64_t v_dim(const struct join *p)
{
    return p->e ? p->e : p->d;
}

/* Whose column of y it is: 0 q, 1 k | v of heads, 2 r; and which of that. */
static int source(const struct join *p, int64_t c, int64_t *from)
{
    int64_t q = (int64_t)p->heads * p->d, n = p->d - p->shared, each = n + v_dim(p);
    *from = c;
    if (c < q)
        return 0;
    if (c >= 2 * q) {
        int64_t h = (c - 2 * q) / v_dim(p);
        *from = h * each + n + c - 2 * q - h * v_dim(p);
        return 1;
    }
    int64_t h = (c - q) / p->d, i = c - q - h * p->d;
    *from = i < n ? h * each + i : i - n;
    return i < n ? 1 : 2;
}

static struct kt_shape shape_of(const struct join *p, enum sn_dtype t, int which)
{
    int64_t n = p->d - p->shared;
    int64_t cols[] = {(int64_t)p->heads * p->d, p->heads * (n + v_dim(p)), p->shared};
    int64_t all = 2 * (int64_t)p->heads * p->d + p->heads * v_dim(p);
    return (struct kt_shape){t, p->rows, which < 3 ? cols[which] : all, p->pad};
}

static struct kt begin(const struct join *p)
{
    struct kt k = {.magnitude = sqrt((double)p->heads)};
    k.a.attr.attention.heads = k.a.attr.attention.kv_heads = p->heads;
    k.a.attr.attention.head_dim = p->d;
    k.a.attr.attention.v_dim = p->e;
    return k;
}

static bool join_case(const struct join *p, enum sn_dtype t)
{
    struct kt k = begin(p);
    for (int i = 0; i < 3; i++)
        kt_in(&k, i, shape_of(p, t, i));
    const struct sn_mat *m = kt_out(&k, 0, shape_of(p, t, 3), SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        int64_t from = 0;
        int which = source(p, i % m->cols, &from);
        y[i] = kt_get(&k.a.in[which], i / m->cols, from);
    }
    bool good = kt_check(&k, SN_OP_MLA_JOIN, 0.0);
    kt_free(&k);
    return good;
}

/* sums: the type of dr */
static bool join_dx_case(const struct join *p, enum sn_dtype t, enum sn_dtype sums)
{
    struct kt k = begin(p);
    const struct sn_mat *dy = kt_in(&k, 0, shape_of(p, t, 3));
    double *ref[3];
    for (int o = 0; o < 3; o++) {
        kt_out(&k, o, shape_of(p, o == 2 ? sums : t, o), SN_WRITE);
        ref[o] = kt_ref(&k, o);
    }
    for (int64_t i = 0; i < dy->rows * dy->cols; i++) {
        int64_t from = 0;
        int which = source(p, i % dy->cols, &from);
        ref[which][i / dy->cols * k.a.out[which].cols + from] +=
            kt_get(dy, i / dy->cols, i % dy->cols);
    }
    bool good = kt_check(&k, SN_OP_MLA_JOIN_DX, 3e-7);
    kt_free(&k);
    return good;
}

/* Heads one after the other: a head that undoes the one before leaves the rounding of that order. */
static void heads_are_summed_in_order(void)
{
    static const struct join p = {4, 1, 1, 1, 1, 0};
    static const double of[] = {1.0, 0x1p24, -0x1p24, 3.0}; /* 1 is lost: 3, not 4 */
    struct kt k = begin(&p);
    kt_in(&k, 0, shape_of(&p, SN_F32, 3));
    for (int o = 0; o < 3; o++)
        kt_out(&k, o, shape_of(&p, SN_F32, o), SN_WRITE);
    for (int h = 0; h < 4; h++)
        kt_set(&k.a.in[0], 0, 4 + h, of[h]);
    bool ran = kt_run(&k, sn_ops_cpu(), SN_OP_MLA_JOIN_DX, 1);
    double got = kt_get(&k.a.out[SN_MLA_JOIN_DX_DR], 0, 0);
    tap_ok(ran && got == 3.0, "r's gradient is summed head after head (%g)", got);
    kt_free(&k);
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        enum sn_dtype t = dtypes[i];
        bool there = true, back = true;
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            there = join_case(&cases[c], t) && there;
            back = join_dx_case(&cases[c], t, t) && join_dx_case(&cases[c], t, SN_F32) && back;
        }
        tap_ok(there, "MLA_JOIN of %s moves each element to its place", sn_dtype_name(t));
        tap_ok(back, "MLA_JOIN_DX of %s moves it back, and sums over heads", sn_dtype_name(t));
    }
    heads_are_summed_in_order();
    return tap_done();
}
