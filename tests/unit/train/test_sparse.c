/*
 * test_sparse.c - train.sparse: what is 0 when a run begins is 0 behind every step, and nothing else is, in every
 * layout; and all layouts begin with the same zeros.
 */
#include "lib/base/mem.h"
#include "lib/exec/exec.h"
#include "lib/program/boxes.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 4, VALUES = 1 << 19 };

/* By element of all tensors: was it 0 behind the first step, and was it ever other than that? */
struct zeros {
    pthread_mutex_t lock;
    bool *is_zero;
    int64_t owned, sparse, zero, moved, lost;
};

static int64_t first_of(const struct sn_model *m, int param, int tensor)
{
    int64_t at = 0;
    for (int i = 0; i <= param; i++)
        for (int k = 0; k < m->params[i].n_tensors && (i < param || k < tensor); k++)
            at += m->params[i].tensor[k].rows * m->params[i].cols;
    return at;
}

static void look(struct zeros *z, const struct sn_job *j, const struct sn_job_box *b,
                 const float *values, int step)
{
    const struct sn_param *q = &j->model->params[b->param];
    int64_t first = first_of(j->model, b->param, b->tensor);
    for (int64_t r = 0; r < b->n_rows; r++)
        for (int64_t c = 0; c < b->n_cols; c++) {
            bool *was = &z->is_zero[first + (b->row + r) * q->cols + b->col + c];
            bool is = values[r * b->ld + c] == 0;
            if (step == 0) {
                *was = is;
                z->owned++;
                z->sparse += q->keep > 0;
                z->zero += q->keep > 0 && is;
            }
            z->moved += q->keep > 0 && *was && !is;
            z->lost += q->keep > 0 && !*was && is;
        }
}

static void see(void *seen, struct sn_exec *x, const struct sn_job *j, int step)
{
    struct zeros *z = seen;
    struct sn_job_box *box;
    struct sn_err err;
    int n;
    (void)pthread_mutex_lock(&z->lock);
    if (sn_job_boxes(&box, &n, j, &err) == SN_OK) {
        for (int i = 0; i < n; i++)
            if (box[i].owned && box[i].kind == SN_STATE_MODEL)
                look(z, j, &box[i],
                     (const float *)sn_exec_address(x, &j->train, box[i].buf) + box[i].at, step);
        sn_free(box);
    }
    (void)pthread_mutex_unlock(&z->lock);
}

static bool zeros_of(struct zeros *z, const struct sn_config *c)
{
    struct layout_run run = {.steps = STEPS, .see = see, .seen = z};
    *z = (struct zeros){.is_zero = sn_alloc_n(VALUES, sizeof(bool))};
    (void)pthread_mutex_init(&z->lock, NULL);
    layout_train(&run, c);
    (void)pthread_mutex_destroy(&z->lock);
    if (run.fault[0])
        tap_ok(false, "%s", run.fault);
    return !run.fault[0] && run.traffic_is_planned;
}

struct layout {
    const char *name;
    enum sn_family family;
    int data, tensor, pipeline, expert, zero;
    enum sn_dtype precision, grads;
};

static struct sn_config config_of(const struct layout *l, enum sn_sparse_kind kind, double density)
{
    struct sn_config c = layout_config(l->family);
    c.train.sparse.n_targets = 2;
    (void)snprintf(c.train.sparse.targets[0], SN_NAME_MAX,
                   l->family == SN_MIXTRAL ? "*.ffn.experts.*" : "*.ffn.*.weight");
    (void)snprintf(c.train.sparse.targets[1], SN_NAME_MAX, "layers.1.attn.*.weight");
    c.train.sparse.kind = kind;
    c.train.sparse.density = density;
    c.train.precision = l->precision;
    c.train.grad_dtype = l->grads;
    if (l->family == SN_MIXTRAL)
        c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
    c.layout.data = l->data;
    c.layout.tensor = l->tensor;
    c.layout.pipeline = l->pipeline;
    c.layout.expert = l->expert;
    c.layout.zero = l->zero;
    return c;
}

static const struct layout alone = {"one rank", SN_LLAMA, 1, 1, 1, 1, 0, SN_F32, SN_F32};
static const struct layout layouts[] = {
    {"data 2, ZeRO 1", SN_LLAMA, 2, 1, 1, 1, 1, SN_F32, SN_F32},
    {"tensor 2, pipeline 2", SN_LLAMA, 1, 2, 2, 1, 0, SN_F32, SN_F32},
    {"data 2, tensor 2, ZeRO 3, bf16", SN_LLAMA, 2, 2, 1, 1, 3, SN_BF16, SN_F32},
    {"data 2, ZeRO 1, bf16 and its gradients", SN_LLAMA, 2, 1, 1, 1, 1, SN_BF16, SN_BF16},
};

static void follow(enum sn_sparse_kind kind, double density, double share)
{
    struct zeros one, of;
    struct sn_config c = config_of(&alone, kind, density);
    bool ran = zeros_of(&one, &c);
    double is = one.sparse ? (double)one.zero / (double)one.sparse : 0;
    tap_ok(ran && is > 1 - share - 0.02 && is <= 1 - share + 1e-9, "%.4f of the values are 0", is);
    tap_ok(one.moved == 0 && one.lost == 0, "and stay so: %lld moved, %lld more",
           (long long)one.moved, (long long)one.lost);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        const struct layout *l = &layouts[i];
        c = config_of(l, kind, density);
        ran = zeros_of(&of, &c);
        tap_ok(ran && of.owned == one.owned && of.moved == 0 && of.lost == 0,
               "%s: zeros stay: %lld moved, %lld more", l->name, (long long)of.moved,
               (long long)of.lost);
        tap_ok(of.zero == one.zero && memcmp(of.is_zero, one.is_zero, VALUES) == 0,
               "%s: those of one rank", l->name);
        sn_free(of.is_zero);
    }
    sn_free(one.is_zero);
}

static void experts_are_sparse(void)
{
    static const struct layout l = {"experts", SN_MIXTRAL, 2, 1, 1, 2, 0, SN_F32, SN_F32};
    struct zeros z;
    struct sn_config c = config_of(&l, SN_SPARSE_UNSTRUCTURED, 0.25);
    bool ran = zeros_of(&z, &c);
    tap_ok(ran && z.zero > 0 && z.moved == 0 && z.lost == 0, "experts: %lld zeros stay",
           (long long)z.zero);
    sn_free(z.is_zero);
}

/* Rows of a parameter alone are those of it whole; of each four neighbours two. */
static void rows_are_their_own(void)
{
    struct sn_tensor tensor = {.name = "layers.0.ffn.up.weight", .rows = 9};
    struct sn_param p = {
        .rows = 9, .cols = 70, .std = 1, .keep = 2, .of = 4, .n_tensors = 1, .tensor = &tensor};
    float all[9 * 70], row[70];
    bool same = true, two = true;
    sn_param_init(&p, 5, 0, 9, all);
    for (int r = 0; r < 9; r++) {
        sn_param_init(&p, 5, r, 1, row);
        same = same && memcmp(row, all + r * 70, sizeof(row)) == 0;
        for (int at = 0; at < 70; at += 4) {
            int n = 0, m = 70 - at < 4 ? 70 - at : 4;
            for (int k = 0; k < m; k++)
                n += row[at + k] != 0;
            two = two && n == (m < 4 ? 1 : 2);
        }
    }
    tap_ok(same, "rows alone are those of the whole");
    tap_ok(two, "two of each four are not 0, one of the last two");
}

int main(void)
{
    rows_are_their_own();
    follow(SN_SPARSE_UNSTRUCTURED, 0.25, 0.25);
    follow(SN_SPARSE_2_4, 0.5, 0.5);
    experts_are_sparse();
    return tap_done();
}
