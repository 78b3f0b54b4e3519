/*
 * activations.c - rows of what is kept, from a program's places (activations.h).
 */
#include "lib/report/activations.h"

#include "lib/base/mem.h"
#include "lib/program/opinfo.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- what the paper counts -------------------------------------------------------------------- */

/* Of a layer, in units of T D bytes. `cut`: it stands within a block, divided by the tensor ranks with
 * or without sequence parallelism; what is between blocks is divided by those of tensor_x. */
enum tensor { INPUT, NORM_1, QKV, CORE, SUM, NORM_2, UP, ACT, MASKS, SCORES, TENSORS };
static const struct {
    const char *name;
    int units;
    bool cut;
} paper[TENSORS] = {
    [INPUT] = {"x", 2, false},      [NORM_1] = {"attn_norm", 2, false},
    [QKV] = {"attn.qkv", 6, true},  [CORE] = {"attn.core", 2, true},
    [SUM] = {"attn.add", 2, false}, [NORM_2] = {"ffn_norm", 2, false},
    [UP] = {"ffn.up", 8, true},     [ACT] = {"ffn.act", 8, true},
    [MASKS] = {"masks", 2, false},  [SCORES] = {"scores", 0, true}, /* units_of */
};

/* clang-format off */
/* Tensors of ours that are the paper's, and how many of its units; the last lines: with tensor_x. */
static const struct {
    const char *name;
    enum tensor tensor;
    int units;
} ours[] = {
    {"embed", INPUT, 2},      {"embed.sum", INPUT, 2},        {"embed.drop", INPUT, 2},
    {"module.x", INPUT, 2},   {"ffn.add", INPUT, 2}, /* of the next layer */
    {"attn_norm", NORM_1, 2}, {"attn_norm.all", NORM_1, 2},   {"attn.qkv", QKV, 6},
    {"attn.rope", QKV, 6},    {"attn.core.q", QKV, 2},        {"attn.core.k", QKV, 2},
    {"attn.core.v", QKV, 2},  {"attn.core", CORE, 2},         {"attn.add", SUM, 2},
    {"ffn_norm", NORM_2, 2},  {"ffn_norm.all", NORM_2, 2},    {"ffn.up", UP, 8},
    {"ffn.gate_up", UP, 8},   {"ffn.experts.gate_up", UP, 8}, {"ffn.act", ACT, 8},
    {"ffn.swiglu", ACT, 8},   {"ffn.experts.act", ACT, 8},
    {"embed.blocks.sum", INPUT, 2}, {"embed.sum.blocks.sum", INPUT, 2}, {"embed.blocks.sum.sum", INPUT, 2},
    {"attn.qkv.sum", QKV, 6}, {"attn.core.all", CORE, 2},
    {"ffn.up.sum", UP, 8},    {"ffn.gate_up.sum", UP, 8},
    {"ffn.act.all", ACT, 8},  {"ffn.swiglu.all", ACT, 8},
};
/* clang-format on */
enum { OURS = sizeof(ours) / sizeof(ours[0]) };

/* Rows while they are found. */
struct reading {
    const struct sn_job *job;
    struct sn_activations *a;
    int *left;           /* find_left's */
    int layer[TENSORS];  /* the last one of which the paper's tensor was found */
    int units[TENSORS];  /* of it in that layer */
    int all[TENSORS];    /* and in all layers */
    bool again[TENSORS]; /* computed again in backward */
};

static bool is_full(const struct sn_job *j)
{
    return j->config->layout.recompute == SN_RECOMPUTE_FULL;
}

/* Units of a layer; the full mode keeps its input alone, the selective one no scores. */
static double units_of(const struct sn_job *j, enum tensor t)
{
    const struct sn_model_config *m = &j->config->model;
    if (is_full(j) && t != INPUT)
        return 0;
    if (t != SCORES)
        return paper[t].units;
    bool selective = j->config->layout.recompute == SN_RECOMPUTE_SELECTIVE;
    return selective ? 0 : 5.0 * m->heads * m->seq / m->hidden;
}

/* Bytes of one unit. */
static double unit_bytes(const struct sn_job *j, enum tensor t)
{
    const struct sn_layout_config *y = &j->config->layout;
    bool cut = paper[t].cut || (y->sequence_parallel && !is_full(j));
    int features = paper[t].cut ? 1 : y->tensor_x;
    return (double)sn_config_tokens(j->config) * j->config->model.hidden / (cut ? y->tensor : 1) /
           features;
}

double sn_activations_literature(const struct sn_job *j, int layers)
{
    const struct sn_model_config *m = &j->config->model;
    const struct sn_layout_config *y = &j->config->layout;
    double t = y->tensor, sb = (double)sn_config_tokens(j->config);
    double scores = 5.0 * m->heads * m->seq / m->hidden;
    double between = 1.0 / y->tensor_x;
    double each = 10 * between + 24 / t + scores / t;
    if (y->recompute == SN_RECOMPUTE_SELECTIVE)
        each -= scores / t;
    if (y->sequence_parallel)
        each += (10 / t - 10) * between;
    if (y->recompute == SN_RECOMPUTE_FULL)
        each = 2 * between;
    return sb * m->hidden * layers * each;
}

/* --- names ------------------------------------------------------------------------------------ */

/* A buffer's name, taken apart. */
struct named {
    char text[64]; /* without layer and number: "d.ffn_norm", "attn.core.kv" */
    bool again;    /* of what is computed again */
    int layer;     /* -1: of none */
};

/* "d.r.l3.ffn.gate_up": a gradient, of what was computed again, in layer 3. */
static struct named name_of(const char *from)
{
    struct named x = {.layer = -1};
    size_t n = 0;
    for (; from[0] && from[1] == '.'; from += 2) {
        x.again = x.again || from[0] == 'r';
        if (from[0] == 'd')
            n += (size_t)snprintf(x.text + n, sizeof(x.text) - n, "d.");
    }
    int skip = 0;
    if (sscanf(from, "l%d.%n", &x.layer, &skip) == 1 && skip > 0)
        from += skip;
    for (; *from && n + 1 < sizeof(x.text); from++)
        if (!isdigit((unsigned char)*from)) /* of a stage module, a bucket, a round of a ring */
            x.text[n++] = *from;
    return x;
}

/* The entry of `ours` that has this name; OURS: none. */
static int find(const char *name)
{
    int i = 0;
    while (i < OURS && strcmp(ours[i].name, name) != 0)
        i++;
    return i;
}

/* --- places ----------------------------------------------------------------------------------- */

/* Where the segment ends that has this operation. */
static int segment_end(const struct sn_program *p, int op)
{
    int c = 0;
    while (c + 1 < p->n_segments && op >= p->segments[c + 1].first)
        c++;
    return p->segments[c].first + p->segments[c].n;
}

static bool is_kept(const struct sn_buffer *x)
{
    return x->cls == SN_CLASS_SLOT || x->cls == SN_CLASS_LATE;
}

/* What lies in each place that is kept when the segment that writes it first is over: by the
 * place's number, that of a buffer. */
static void find_left(int *left, const struct sn_program *p)
{
    for (int b = 0; b < p->n_bufs; b++)
        left[b] = b;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        int place = x->place;
        if (is_kept(&p->bufs[place]) && x->first > p->bufs[left[place]].first &&
            x->first < segment_end(p, p->bufs[place].first))
            left[place] = b;
    }
}

/* May the paper count this one too? Of an input one for each layer of the virtual stage: what the
 * last layer gives is another virtual stage's. Of the others one for each layer that is not counted
 * yet. */
static bool takes(struct reading *r, int i, int layer)
{
    enum tensor t = ours[i].tensor;
    int before = r->layer[t] == layer ? r->units[t] : 0;
    if (units_of(r->job, t) <= 0 || r->all[t] >= paper[t].units * r->a->layers ||
        before + ours[i].units > paper[t].units)
        return false;
    r->layer[t] = layer;
    r->units[t] = before + ours[i].units;
    r->all[t] += ours[i].units;
    return true;
}

static struct sn_kept *row_of(struct sn_activations *a, const struct named *name,
                              const struct sn_buffer *x)
{
    bool late = x->cls == SN_CLASS_LATE;
    for (int i = 0; i < a->n; i++) {
        struct sn_kept *k = &a->kept[i];
        if (k->late == late && k->rows == x->rows && k->cols == x->cols && k->dtype == x->dtype &&
            strcmp(k->name, name->text) == 0)
            return k;
    }
    assert(a->n < SN_KEPT_MAX);
    struct sn_kept *k = &a->kept[a->n++];
    *k = (struct sn_kept){.dtype = x->dtype, .rows = x->rows, .cols = x->cols, .late = late};
    memcpy(k->name, name->text, sizeof(k->name));
    return k;
}

/* --- reasons ---------------------------------------------------------------------------------- */

static unsigned why(bool holds, enum sn_why w)
{
    return holds ? 1u << w : 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Of what the paper does not count. */
static enum sn_why why_ours(const struct reading *r, const struct sn_buffer *x,
                            const struct named *name)
{
    bool gradient = begins(name->text, "d.");
    if (x->bucket >= 0)
        return SN_WHY_TABLE;
    if (x->dtype == SN_U8)
        return SN_WHY_CODED;
    if (x->cls == SN_CLASS_LATE)
        return name->again && !gradient ? SN_WHY_DELAYED_AGAIN : SN_WHY_DELAYED;
    int i = find(name->text);
    if (name->layer < 0 || gradient || (i < OURS && ours[i].tensor == INPUT))
        return SN_WHY_END;
    const struct sn_op *from = &r->job->train.ops[x->first];
    if (is_full(r->job) && (sn_op_communicates(from) || sn_op_row(from->kind)->codes))
        return SN_WHY_SENT;
    if (strcmp(name->text, "attn.core.lse") == 0)
        return SN_WHY_FLASH;
    bool routed = begins(name->text, "ffn.experts") || begins(name->text, "ffn.router") ||
                  begins(name->text, "ffn.shared");
    return routed ? SN_WHY_EXPERTS : SN_WHY_OURS;
}

/* Of what it counts. */
static unsigned why_both(const struct reading *r, const struct sn_buffer *x, int i)
{
    const struct sn_job *j = r->job;
    enum tensor t = ours[i].tensor;
    double theirs = ours[i].units * unit_bytes(j, t) / 2, here = (double)x->rows * (double)x->cols;
    unsigned w = why(x->dtype == SN_F32, SN_WHY_FP32);
    if (here == theirs)
        return w;
    if (begins(ours[i].name, "ffn.experts"))
        return w | why(true, SN_WHY_EXPERTS);
    if (sn_model_has_latents(&j->config->model) && (t == QKV || t == CORE))
        return w | why(true, SN_WHY_LATENTS);
    if (paper[t].cut)
        return w | why(true, t == QKV ? SN_WHY_HEADS : SN_WHY_WIDTH);
    return w | why(true, here > theirs ? SN_WHY_GATHERED : SN_WHY_SLICED);
}

/* Of what only the paper has. */
static enum sn_why why_theirs(const struct reading *r, enum tensor t)
{
    if (t == MASKS)
        return SN_WHY_MASKS;
    if (t == SCORES)
        return SN_WHY_FLASH;
    if (r->again[t])
        return SN_WHY_AGAIN;
    bool sum = t == SUM && r->job->config->model.parallel_residual;
    return sum ? SN_WHY_PARALLEL : SN_WHY_THEIRS;
}

/* --- all -------------------------------------------------------------------------------------- */

static void read_place(struct reading *r, int place)
{
    const struct sn_buffer *root = &r->job->train.bufs[place];
    const struct sn_buffer *x = &r->job->train.bufs[r->left[place]];
    struct named name = name_of(x->name);
    struct sn_kept *k = row_of(r->a, &name, x);
    int i = root->cls == SN_CLASS_SLOT ? find(name.text) : OURS;
    bool both = i < OURS && takes(r, i, name.layer);
    k->copies++;
    k->counted += both;
    k->bytes += root->bytes;
    k->literature += both ? ours[i].units * unit_bytes(r->job, ours[i].tensor) : 0;
    k->why |= both ? why_both(r, x, i) : why(true, why_ours(r, x, &name));
    k->why |=
        why(root->bytes != x->rows * x->cols * (int64_t)sn_dtype_size(x->dtype), SN_WHY_ROUNDED);
}

static void read_places(struct reading *r, int vstage)
{
    const struct sn_program *p = &r->job->train;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        const struct sn_buffer *x = &p->bufs[b];
        if (x->vstage != vstage)
            continue;
        if (is_kept(x) && x->place == b)
            read_place(r, b);
        struct named name = name_of(x->name);
        int i = name.again ? find(name.text) : OURS;
        if (i < OURS)
            r->again[ours[i].tensor] = true;
    }
}

/* What the paper counts beyond what was found. */
static void add_the_rest(struct reading *r)
{
    struct sn_activations *a = r->a;
    for (int t = 0; t < TENSORS; t++) {
        double units = units_of(r->job, (enum tensor)t) * a->layers - r->all[t];
        if (units <= 0)
            continue;
        assert(a->n < SN_KEPT_MAX);
        struct sn_kept *k = &a->kept[a->n++];
        *k = (struct sn_kept){.dtype = r->job->dtype,
                              .literature = units * unit_bytes(r->job, (enum tensor)t),
                              .why = 1u << why_theirs(r, (enum tensor)t)};
        (void)snprintf(k->name, sizeof(k->name), "%s", paper[t].name);
    }
}

static int layers_of(const struct sn_job *j, int vstage)
{
    int layers = 0, module = vstage * j->stages + j->stage;
    for (int i = 0; i < j->model->n_nodes; i++)
        layers += j->model->nodes[i].kind == SN_NODE_ATTENTION && j->module_of_node[i] == module;
    return layers;
}

bool sn_activations(struct sn_activations *out, const struct sn_job *j, int vstage)
{
    const struct sn_program *p = &j->train;
    struct reading r = {.job = j, .a = out};
    r.left = sn_alloc_n((size_t)p->n_bufs, sizeof(*r.left));
    if (!r.left)
        return false;
    find_left(r.left, p);
    *out = (struct sn_activations){.layers = layers_of(j, vstage)};
    for (int t = 0; t < TENSORS; t++)
        r.layer[t] = -2; /* none; -1 is before the first */
    read_places(&r, vstage);
    add_the_rest(&r);
    sn_free(r.left);
    return true;
}
