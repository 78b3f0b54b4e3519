/*
 * ATTENTION_ROWS against the rows of ATTENTION's double loops: a few queries, at a place of their own in
 * their sample, over kept keys. Rows of the cache that no query sees hold NaN.
 */
#include "tests/lib/attention_ref.h"

struct rows {
    struct attn p; /* seq: rows of the cache */
    int64_t row0, rows;
};

static void hide(const struct rows *c, const struct sn_mat *m)
{
    int64_t first = c->p.window > 0 && c->row0 >= c->p.window ? c->row0 - c->p.window + 1 : 0;
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t k = 0; k < m->cols && (r < first || r >= c->row0 + c->rows); k++)
            kt_set(m, r, k, (double)NAN);
}

static struct kt prepare(const struct rows *c, enum sn_dtype t)
{
    const struct attn *p = &c->p;
    struct kt k = {.magnitude = 1.0};
    kt_in(&k, 0, (struct kt_shape){t, c->rows, p->heads * p->d, p->pad});
    kt_in(&k, 1, (struct kt_shape){t, p->seq, p->kv_heads * p->d, p->pad});
    kt_in(&k, 2, (struct kt_shape){t, p->seq, p->kv_heads * attn_e(p), p->pad});
    kt_out(&k, 0, (struct kt_shape){t, c->rows, p->heads * attn_e(p), p->pad}, SN_WRITE);
    k.a.attr = (struct sn_attr){.attention.heads = p->heads,
                                .attention.kv_heads = p->kv_heads,
                                .attention.head_dim = p->d,
                                .attention.v_dim = p->e,
                                .position.seq = p->seq,
                                .position.row0 = c->row0,
                                .attention.scale = 1.0f / sqrtf((float)p->d),
                                .attention.window = p->window,
                                .attention.cap = p->cap};
    return k;
}

static bool one_case(const struct rows *c, enum sn_dtype t)
{
    const struct attn *p = &c->p;
    struct kt k = prepare(c, t);
    double *o = kt_ref(&k, 0);
    struct head h;
    double *memory = head_alloc(&h, p);
    for (int64_t head = 0; head < p->heads; head++) {
        int64_t kv = head * p->kv_heads / p->heads;
        head_get(h.k, &k.a.in[1], p->seq, 0, kv, h.d);
        head_get(h.v, &k.a.in[2], p->seq, 0, kv, h.e);
        head_get(h.q + c->row0 * h.d, &k.a.in[0], c->rows, 0, head, h.d);
        head_mask(&h, p, 0, head);
        for (int64_t i = 0; i < p->seq; i++)
            h.asks[i] = i >= c->row0 && i < c->row0 + c->rows;
        head_forward(&h, (double)k.a.attr.attention.scale);
        for (int64_t r = 0; r < c->rows; r++)
            memcpy(o + (r * p->heads + head) * h.e, h.o + (c->row0 + r) * h.e,
                   (size_t)h.e * sizeof(double));
    }
    hide(c, &k.a.in[1]);
    hide(c, &k.a.in[2]);
    bool good = kt_check(&k, SN_OP_ATTENTION_ROWS, 2e-6);
    free(memory);
    kt_free(&k);
    return good;
}

/* Blocks are 128 keys. Of struct attn: seq, samples, heads, kv_heads, d, pad, drop, head0, window,
 * document, cap, e. */
static const struct rows cases[] = {
    {{1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 1},
    {{40, 1, 3, 1, 64, 5, 0, 0, 0, 0, 0, 0, 0}, 39, 1},
    {{300, 1, 4, 2, 16, 16, 0, 0, 0, 0, 0, 0, 0}, 127, 3},
    {{300, 1, 4, 4, 80, 0, 0, 0, 0, 0, 0, 0, 0}, 256, 1},
    {{280, 1, 6, 2, 32, 3, 0, 0, 1, 0, 0, 0, 0}, 200, 2},
    {{280, 1, 2, 1, 128, 0, 0, 0, 130, 0, 0, 0, 0}, 270, 4},
    {{280, 1, 2, 2, 20, 7, 0, 0, 60, 0, 0.75f, 0, 0}, 20, 5},
    {{140, 1, 5, 5, 192, 0, 0, 0, 0, 0, 0, 128, 0}, 139, 1},
    {{140, 1, 2, 1, 7, 3, 0, 0, 0, 0, 1.5f, 24, 0}, 100, 1},
    {{30, 1, 1, 1, 16, 0, 0, 0, 0, 0, 0, 2048, 0}, 29, 1}, /* fewer warps of a device */
};

int main(void)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};
    for (int t = 0; t < 3; t++) {
        bool good = true;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            if (!one_case(&cases[i], types[t])) {
                printf("# case %d\n", (int)i);
                good = false;
            }
        tap_ok(good, "ATTENTION_ROWS of %s is the rows of attention over the keys that they see",
               sn_dtype_name(types[t]));
    }
    return tap_done();
}
