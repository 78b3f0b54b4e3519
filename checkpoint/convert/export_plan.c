#include "checkpoint/convert/export_plan.h"

#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* --- the tensors ----------------------------------------------------------------------------- */

/* The source's tensor of that name, if it is as the model's. */
static enum sn_status find_ours(int *out, const struct sn_source *s, const struct sn_hf_list *l,
                                const char *name, struct sn_err *err)
{
    const struct sn_state_shape *want = sn_hf_list_find(l, name);
    int i = sn_source_find(s, "model", name);
    if (!want)
        return sn_fail(err, SN_EFAIL, "%s: the model has no tensor %s to write", s->name, name);
    if (i < 0)
        return sn_fail(err, SN_EINPUT, "%s: has no tensor model %s, which the model needs", s->name,
                       name);
    const struct sn_source_tensor *t = &s->tensors[i];
    if (t->rows != want->rows || t->cols != want->cols)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor model %s is %" PRId64 " x %" PRId64
                       ", but the model's is %" PRId64 " x %" PRId64,
                       s->name, name, t->rows, t->cols, want->rows, want->cols);
    *out = i;
    return SN_OK;
}

struct planner {
    struct sn_export_plan *plan;
    const struct sn_source *source;
    const struct sn_model_config *model;
    struct sn_hf_list list;
    bool *used; /* tensors of the source */
    bool later;
    int n_sources;
};

/* Parts of which those behind the first have rows as many as the second. */
static bool is_uneven(enum sn_hf_form form)
{
    return form == SN_HF_ROWS_QKV || form == SN_HF_ROWS_LATENT;
}

struct sn_hf_size sn_export_size(const struct sn_export_tensor *t)
{
    struct sn_hf_size size = sn_hf_size(t->form, t->rows, t->cols);
    if (is_uneven(t->form))
        size.rows = t->rows + (sn_hf_parts(t->form) - 1) * t->kv_rows;
    size.rows *= t->experts;
    return size;
}

/* The row by which ours is written. */
static const struct sn_hf_rule *written_by(const struct planner *p, const struct sn_hf_rule *r)
{
    const struct sn_hf_rule *l;
    for (int i = 0; p->later && (l = sn_hf_later_rule_at(p->model->family, i)); i++)
        if (strcmp(l->ours, r->ours) == 0)
            return l;
    return r;
}

/* The layer whose weights a layer has. */
static int owner(const struct sn_model_config *m, int layer)
{
    return layer < m->layers ? layer - layer % m->share_layers : layer;
}

/* The tensor of theirs that begins with rule r, for one layer and expert. Layers that share weights
 * are written each: the field knows no sharing. */
static enum sn_status add_tensor(struct planner *p, const struct sn_hf_rule *r, struct sn_hf_at at,
                                 struct sn_err *err)
{
    const struct sn_model_config *m = p->model;
    struct sn_export_tensor *t = &p->plan->tensors[p->plan->n++];
    int parts = sn_hf_parts(r->form);
    *t = (struct sn_export_tensor){.name = sn_hf_theirs(m->family, r, at),
                                   .form = r->form,
                                   .heads = m->heads,
                                   .experts = sn_hf_is_stack(r->form) ? m->experts.count : 1,
                                   .source = p->plan->sources + p->n_sources};
    for (int i = 0; i < parts * (int)t->experts; i++) {
        struct sn_hf_at own = {owner(m, at.layer), at.expert + i / parts};
        SN_TRY(find_ours(&t->source[i], p->source, &p->list, sn_hf_ours(r + i % parts, own).text,
                         err));
        p->used[t->source[i]] = true;
        t->n_source++;
        p->n_sources++;
    }
    t->rows = p->source->tensors[t->source[0]].rows;
    t->cols = p->source->tensors[t->source[0]].cols;
    t->kv_rows = p->source->tensors[t->source[t->n_source > 1]].rows;
    return SN_OK;
}

/* Tensors of theirs that a rule gives in one layer. */
static int copies_of(const struct planner *p, const struct sn_hf_rule *r)
{
    if (r->part != 0)
        return 0;
    return sn_hf_is_expert(r) && !sn_hf_is_stack(r->form) ? p->model->experts.count : 1;
}

static bool is_of_layer(const struct sn_hf_rule *r)
{
    return strchr(r->ours, '#');
}

/* Has the layer the tensor? Some have experts and some not, some models biases. */
static bool is_there(const struct planner *p, const struct sn_hf_rule *r, int layer)
{
    struct sn_hf_at own = {owner(p->model, layer), 0};
    return sn_hf_list_find(&p->list, sn_hf_ours(r, own).text) != NULL;
}

static enum sn_status add_layer(struct planner *p, int layer, struct sn_err *err)
{
    const struct sn_hf_rule *r;
    for (int i = 0; (r = sn_hf_rule_at(p->model->family, i)); i++) {
        const struct sn_hf_rule *by = written_by(p, r);
        for (int k = 0; is_of_layer(r) && is_there(p, by, layer) && k < copies_of(p, by); k++)
            SN_TRY(add_tensor(p, by, (struct sn_hf_at){layer, k}, err));
    }
    return SN_OK;
}

/* Of the embedding and the head, in a block for multi-token prediction; tied ones have one table. */
static enum sn_status add_copies(struct planner *p, int layer, struct sn_err *err)
{
    const struct sn_hf_rule *r;
    for (int i = 0; (r = sn_hf_copy_rule_at(p->model->family, i)); i++)
        if (!p->model->tied_embeddings || strcmp(r->ours, "head.weight") != 0)
            SN_TRY(add_tensor(p, r, (struct sn_hf_at){layer, 0}, err));
    return SN_OK;
}

/* What stands before the layers, the layers, what stands behind them. */
static enum sn_status add_all(struct planner *p, struct sn_err *err)
{
    const struct sn_hf_rule *r;
    const struct sn_hf_at none = {0, 0};
    int i = 0;
    for (; (r = sn_hf_rule_at(p->model->family, i)) && !is_of_layer(r); i++)
        SN_TRY(add_tensor(p, r, none, err));
    for (int layer = 0; layer < sn_model_blocks(p->model); layer++) {
        SN_TRY(add_layer(p, layer, err));
        if (layer >= p->model->layers)
            SN_TRY(add_copies(p, layer, err));
    }
    for (; (r = sn_hf_rule_at(p->model->family, i)); i++)
        if (!is_of_layer(r) && !(p->model->tied_embeddings && strcmp(r->ours, "head.weight") == 0))
            SN_TRY(add_tensor(p, r, none, err));
    return SN_OK;
}

static enum sn_status check_left_over(const struct planner *p, struct sn_err *err)
{
    struct sn_left_over left = {0};
    for (int i = 0; i < p->source->n_tensors; i++)
        if (!p->used[i] && strcmp(p->source->tensors[i].group, "model") == 0)
            sn_left_over_add(&left, p->source->tensors[i].name);
    return sn_left_over_explain(&left, p->source->name, err);
}

/* --- the files ------------------------------------------------------------------------------- */

static void assign_files(struct sn_export_plan *p, int64_t shard_bytes)
{
    int64_t in_file = 0;
    for (int i = 0; i < p->n; i++) {
        struct sn_export_tensor *t = &p->tensors[i];
        struct sn_hf_size size = sn_export_size(t);
        int64_t bytes = size.rows * size.cols * (int64_t)sn_dtype_size(p->dtype);
        if (i == 0 || in_file + bytes > shard_bytes) {
            p->n_files++;
            in_file = 0;
        }
        in_file += bytes;
        t->file = p->n_files - 1;
        p->bytes += bytes;
        p->longest = size.cols > p->longest ? size.cols : p->longest;
        p->largest = size.rows * size.cols > p->largest ? size.rows * size.cols : p->largest;
    }
}

static enum sn_status fill(struct planner *p, struct sn_err *err)
{
    const struct sn_hf_rule *r;
    size_t most = 0, ours = 0; /* of theirs, and of the tensors of ours that they are */
    for (int i = 0; (r = sn_hf_rule_at(p->model->family, i)); i++) {
        size_t times = is_of_layer(r) ? (size_t)sn_model_blocks(p->model) : 1;
        most += times * (size_t)copies_of(p, written_by(p, r));
        ours += times * (size_t)(sn_hf_is_expert(r) ? p->model->experts.count : 1);
    }
    for (int i = 0; sn_hf_copy_rule_at(p->model->family, i); i++) {
        most += (size_t)p->model->mtp;
        ours += (size_t)p->model->mtp;
    }
    p->plan->tensors = sn_alloc_n(most, sizeof(*p->plan->tensors));
    p->plan->sources = sn_alloc_n(ours, sizeof(*p->plan->sources));
    p->used = sn_alloc_n((size_t)p->source->n_tensors + 1, sizeof(*p->used));
    if (!p->plan->tensors || !p->plan->sources || !p->used)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %zu tensors", p->source->name, most);
    SN_TRY(sn_hf_list_create(&p->list, p->model, err));
    SN_TRY(add_all(p, err));
    return check_left_over(p, err);
}

enum sn_status sn_export_plan_init(struct sn_export_plan *out, const struct sn_source *s,
                                   const struct sn_model_config *m,
                                   const struct sn_export_want *want, struct sn_err *err)
{
    struct sn_export_plan plan = {.dtype = want->dtype};
    struct planner p = {.plan = &plan, .source = s, .model = m, .later = want->later};
    enum sn_status st = fill(&p, err);
    sn_hf_list_fini(&p.list);
    sn_free(p.used);
    if (st != SN_OK) {
        sn_export_plan_fini(&plan);
        return st;
    }
    assign_files(&plan, want->shard_bytes);
    *out = plan;
    return SN_OK;
}

void sn_export_plan_fini(struct sn_export_plan *p)
{
    sn_free(p->tensors);
    sn_free(p->sources);
    *p = (struct sn_export_plan){0};
}

const char *sn_export_file_name(char buf[SN_EXPORT_NAME_MAX], const struct sn_export_plan *p,
                                int file)
{
    if (p->n_files == 1)
        (void)snprintf(buf, SN_EXPORT_NAME_MAX, "model.safetensors");
    else
        (void)snprintf(buf, SN_EXPORT_NAME_MAX, "model-%05d-of-%05d.safetensors", file + 1,
                       p->n_files);
    return buf;
}

/* --- the boxes ------------------------------------------------------------------------------- */

static enum sn_status add_move(struct sn_export_moves *l, struct sn_source_want want,
                               struct sn_export_move move, struct sn_err *err)
{
    if (l->n == l->cap) {
        int64_t cap = l->cap ? 2 * l->cap : 256;
        struct sn_source_want *wants = sn_realloc(l->wants, (size_t)cap * sizeof(*wants));
        l->wants = wants ? wants : l->wants;
        struct sn_export_move *moves = sn_realloc(l->moves, (size_t)cap * sizeof(*moves));
        l->moves = moves ? moves : l->moves;
        if (!wants || !moves)
            return sn_fail(err, SN_ENOMEM, "export: no memory to list %" PRId64 " boxes", cap);
        l->cap = cap;
    }
    l->wants[l->n] = want;
    l->moves[l->n++] = move;
    return SN_OK;
}

/* Rows first .. first + n - 1 of theirs are columns of ours. */
static enum sn_status add_turned(struct sn_export_moves *l, const struct sn_export_tensor *t,
                                 int64_t first, int64_t n, struct sn_err *err)
{
    int parts = sn_hf_parts(t->form);
    for (int i = 0; i < parts; i++) {
        struct sn_source_want want = {t->source[i], {0, first, t->rows, n}};
        struct sn_export_move move = {
            .at = i * t->rows, .row_step = 1, .col_step = parts * t->rows};
        SN_TRY(add_move(l, want, move, err));
    }
    return SN_OK;
}

/* Rows of theirs are those of two of ours, side by side. */
static enum sn_status add_pair(struct sn_export_moves *l, const struct sn_export_tensor *t,
                               int64_t first, int64_t n, struct sn_err *err)
{
    for (int i = 0; i < 2; i++) {
        struct sn_source_want want = {t->source[i], {first, 0, n, t->cols}};
        struct sn_export_move move = {
            .at = i * t->cols, .row_step = 2 * t->cols, .col_step = 1};
        SN_TRY(add_move(l, want, move, err));
    }
    return SN_OK;
}

/* Row f of theirs: row *row of which part, and how many rows of it follow each other there. */
static int part_at(const struct sn_export_tensor *t, int64_t f, int64_t *row, int64_t *run)
{
    if (is_uneven(t->form) && f >= t->rows) {
        *row = (f - t->rows) % t->kv_rows;
        *run = t->kv_rows - *row;
        return 1 + (int)((f - t->rows) / t->kv_rows);
    }
    int64_t d = t->form == SN_HF_HEADS_QKV ? t->rows / t->heads : t->rows;
    int64_t parts = t->n_source;
    *row = f / (parts * d) * d + f % d;
    *run = d - f % d;
    return (int)(f / d % parts);
}

static enum sn_status add_rows(struct sn_export_moves *l, const struct sn_export_tensor *t,
                               int64_t first, int64_t n, struct sn_err *err)
{
    for (int64_t f = first, row, run; f < first + n; f += run) {
        int part = part_at(t, f, &row, &run);
        run = run < first + n - f ? run : first + n - f;
        struct sn_source_want want = {t->source[part], {row, 0, run, t->cols}};
        struct sn_export_move move = {
            .at = (f - first) * t->cols, .row_step = t->cols, .col_step = 1};
        SN_TRY(add_move(l, want, move, err));
    }
    return SN_OK;
}

enum sn_status sn_export_moves_add(struct sn_export_moves *l, const struct sn_export_tensor *t,
                                   int64_t room, struct sn_err *err)
{
    enum { BAND = 4 << 20 }; /* elements: reading and writing take turns, not too seldom */
    struct sn_hf_size size = sn_export_size(t);
    bool turned = t->form == SN_HF_CONV || t->form == SN_HF_CONV_QKV;
    if (!turned && room > BAND) /* a turned band touches every row of ours: the fewer the better */
        room = BAND;
    int64_t most = room > size.cols ? room / size.cols : 1;
    for (int64_t f = 0, n; f < size.rows; f += n) {
        n = size.rows - f < most ? size.rows - f : most;
        SN_TRY(turned                         ? add_turned(l, t, f, n, err)
               : t->form == SN_HF_COLS_PAIR ? add_pair(l, t, f, n, err)
                                            : add_rows(l, t, f, n, err));
        l->moves[l->n - 1].ends = n * size.cols;
    }
    return SN_OK;
}

void sn_export_moves_fini(struct sn_export_moves *l)
{
    sn_free(l->wants);
    sn_free(l->moves);
    *l = (struct sn_export_moves){0};
}
