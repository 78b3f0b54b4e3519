/*
 * convert_plan.c - the pieces that a trainer of a layout would write, without the trainer: its
 * ranks' boxes come from the compiler, shards and datasets are named as shard.c names them.
 */
#include "checkpoint/convert/convert.h"
#include "checkpoint/format/hdf5.h"
#include "checkpoint/format/master.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"
#include "lib/program/boxes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_NAME = 32 };

/* A box that a rank writes. */
struct item {
    int tensor; /* of the source, and of the manifest */
    int rank;
    struct sn_box box;
};

struct planner {
    const struct sn_source *s;
    const struct sn_config *c;
    struct sn_model *model;
    bool has_moments;
    struct item *items;
    int n, cap;
};

/* --- are the source's tensors the model's? --------------------------------------------------- */

static enum sn_status check_tensor(const struct planner *p, enum sn_state_kind kind,
                                   const struct sn_tensor *piece, int64_t cols, bool *used,
                                   struct sn_err *err)
{
    const char *group = sn_state_kind_name(p->c, kind);
    int i = sn_source_find(p->s, group, piece->name);
    if (i < 0)
        return sn_fail(err, SN_EINPUT, "%s: has no tensor %s %s; the model needs it%s", p->s->name,
                       group, piece->name,
                       kind == SN_STATE_MODEL
                           ? ""
                           : " (if it is frozen, name it in train.freeze of the layout file)");
    const struct sn_source_tensor *t = &p->s->tensors[i];
    if (t->rows != piece->rows || t->cols != cols)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor %s %s is %" PRId64 " x %" PRId64 ", but the model's is %" PRId64
                       " x %" PRId64,
                       p->s->name, group, piece->name, t->rows, t->cols, piece->rows, cols);
    used[i] = true;
    return SN_OK;
}

static enum sn_status check_param(const struct planner *p, const struct sn_param *q, bool *used,
                                  struct sn_err *err)
{
    int kinds = p->has_moments && sn_param_trains(q) ? sn_state_plain(p->c) : 1;
    for (int kind = 0; kind < kinds; kind++)
        for (int k = 0; k < q->n_tensors; k++)
            SN_TRY(check_tensor(p, (enum sn_state_kind)kind, &q->tensor[k], q->cols, used, err));
    return SN_OK;
}

static enum sn_status check_left_over(const struct planner *p, const bool *used, struct sn_err *err)
{
    enum { SHOWN = 5 };
    char text[SHOWN * 128] = "";
    int n = 0;
    for (int i = 0; i < p->s->n_tensors; i++) {
        size_t at = strlen(text);
        bool is_extra = sn_state_is_extra(p->s->tensors[i].group); /* as sn_source_fold left it */
        if (!used[i] && !is_extra && n++ < SHOWN)
            (void)snprintf(text + at, sizeof(text) - at, "%s%.16s %.96s", n > 1 ? ", " : "",
                           p->s->tensors[i].group, p->s->tensors[i].name);
    }
    if (n == 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: the model has no place for %d of its tensors: %s%s",
                   p->s->name, n, text, n > SHOWN ? ", ..." : "");
}

static enum sn_status check_tensors(const struct planner *p, struct sn_err *err)
{
    bool *used = sn_alloc_n((size_t)p->s->n_tensors + 1, sizeof(*used));
    if (!used)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to compare its tensors", p->s->name);
    enum sn_status st = SN_OK;
    for (int i = 0; i < p->model->n_params && st == SN_OK; i++)
        st = check_param(p, &p->model->params[i], used, err);
    if (st == SN_OK)
        st = check_left_over(p, used, err);
    sn_free(used);
    return st;
}

static bool has_moments(const struct sn_source *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].group, "model") != 0)
            return true;
    return false;
}

static bool has_group(const void *of, const char *group)
{
    const struct sn_source *s = of;
    for (int i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].group, group) == 0)
            return true;
    return false;
}

/* --- what each rank writes ------------------------------------------------------------------- */

static enum sn_status add_item(struct planner *p, struct item item, struct sn_err *err)
{
    if (!sn_grow((void **)&p->items, p->n, &p->cap, sizeof(*p->items)))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a plan of %d pieces", p->s->name, p->n);
    p->items[p->n++] = item;
    return SN_OK;
}

static const char *group_of(char buf[GROUP_NAME], const struct sn_config *c,
                            const struct sn_job_box *b)
{
    const char *kind = sn_state_kind_name(c, b->kind);
    if (b->kind == SN_STATE_FEEDBACK)
        (void)snprintf(buf, GROUP_NAME, "%s.%d", kind, b->holder);
    return b->kind == SN_STATE_FEEDBACK ? buf : kind;
}

static enum sn_status add_boxes(struct planner *p, const struct sn_job *j, int rank,
                                struct sn_err *err)
{
    struct sn_job_box *boxes;
    char group[GROUP_NAME];
    int n;
    SN_TRY(sn_job_boxes(&boxes, &n, j, err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < n && st == SN_OK; i++) {
        const struct sn_job_box *b = &boxes[i];
        struct sn_box box = {b->row, b->col, b->n_rows, b->n_cols};
        if (!b->owned || sn_box_size(box) == 0 || (b->kind != SN_STATE_MODEL && !p->has_moments))
            continue;
        const char *name = p->model->params[b->param].tensor[b->tensor].name;
        int tensor = sn_source_find(p->s, group_of(group, p->c, b), name);
        if (tensor >= 0) /* else one of those that may be absent */
            st = add_item(p, (struct item){tensor, rank, box}, err);
    }
    sn_free(boxes);
    return st;
}

static enum sn_status add_rank(struct planner *p, int rank, struct sn_err *err)
{
    struct sn_job *j;
    struct sn_job_env env = {
        .config = p->c, .model = p->model, .ops = sn_ops_cpu(), .threads = 1, .rank = rank};
    SN_TRY(sn_job_create_shards(&j, &env, err));
    enum sn_status st = add_boxes(p, j, rank, err);
    sn_job_destroy(j);
    return st;
}

static int by_place(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    return sn_box_order(a->box, b->box);
}

/* --- the manifest ---------------------------------------------------------------------------- */

/* Texts one after the other in one block; the first time without a block, to count. */
struct strings {
    char *block;
    size_t used;
};

static const char *keep(struct strings *s, const char *text)
{
    size_t len = strlen(text) + 1;
    char *to = s->block ? s->block + s->used : NULL;
    if (to)
        memcpy(to, text, len);
    s->used += len;
    return to;
}

/* Ranks that write something, in order; shard[rank] is the number of its shard. */
static void list_shards(const struct planner *p, struct sn_manifest *m, int ranks, int *shard,
                        struct strings *s)
{
    char name[SN_SHARD_NAME_MAX];
    bool is_single = p->c->checkpoint.single_file;
    for (int i = 0; i < ranks; i++)
        shard[i] = -1;
    for (int i = 0; i < p->n; i++)
        shard[p->items[i].rank] = 0;
    m->n_shards = 0;
    for (int i = 0; i < ranks; i++) {
        if (shard[i] < 0 || (is_single && m->n_shards > 0))
            continue; /* in the single file, all are shard 0 */
        const char *file = is_single ? SN_MASTER_NAME : sn_shard_name(name, i);
        m->shards[m->n_shards] = (struct sn_manifest_shard){keep(s, file), 0};
        shard[i] = m->n_shards++;
    }
}

static enum sn_status list_pieces(const struct planner *p, struct sn_manifest *m, const int *shard,
                                  struct strings *s, struct sn_err *err)
{
    char dataset[SN_H5_NAME_MAX];
    bool is_single = p->c->checkpoint.single_file;
    for (int i = 0; i < m->n_tensors; i++) {
        const struct sn_source_tensor *t = &p->s->tensors[i];
        m->tensors[i] = (struct sn_manifest_tensor){
            .group = t->group, .name = t->name, .rows = t->rows, .cols = t->cols, .dtype = SN_F32};
    }
    for (int i = 0; i < p->n; i++) {
        const struct item *item = &p->items[i];
        struct sn_manifest_tensor *t = &m->tensors[item->tensor];
        /* what the dataset holds: the box, or all of the tensor */
        struct sn_box set = is_single ? (struct sn_box){0, 0, t->rows, t->cols} : item->box;
        SN_TRY(sn_manifest_dataset(dataset, sizeof(dataset), t, set, err));
        m->pieces[i] = (struct sn_manifest_piece){.box = item->box,
                                                  .dataset = keep(s, dataset),
                                                  .shard = shard[item->rank],
                                                  .at_row = item->box.row - set.row,
                                                  .at_col = item->box.col - set.col,
                                                  .set_rows = set.rows,
                                                  .set_cols = set.cols};
        if (t->n_pieces++ == 0)
            t->pieces = &m->pieces[i];
    }
    return SN_OK;
}

static enum sn_status list_all(const struct planner *p, struct sn_manifest *m, const char *layout,
                               int *shard, struct sn_err *err)
{
    for (int pass = 0; pass < 2; pass++) {
        struct strings s = {.block = m->strings};
        m->layout_text = keep(&s, layout);
        list_shards(p, m, sn_config_ranks(p->c), shard, &s);
        SN_TRY(list_pieces(p, m, shard, &s, err));
        if (pass == 0)
            m->strings = sn_alloc(s.used);
        if (!m->strings)
            return sn_fail(err, SN_ENOMEM, "%s: no memory for the names of %d pieces", p->s->name,
                           p->n);
    }
    return SN_OK;
}

static enum sn_status make_manifest(const struct planner *p, struct sn_manifest *out,
                                    struct sn_err *err)
{
    int ranks = sn_config_ranks(p->c);
    struct sn_str layout = {0};
    struct sn_manifest m = {.scalars = p->s->scalars,
                            .model_text = p->s->model_text,
                            .config_hash = sn_config_hash(p->c),
                            .tokenizer = p->s->tokenizer,
                            .block = SN_BLOCK_BYTES,
                            .n_tensors = p->s->n_tensors,
                            .n_pieces = p->n,
                            .shards = sn_alloc_n((size_t)ranks, sizeof(*m.shards)),
                            .tensors = sn_alloc_n((size_t)p->s->n_tensors, sizeof(*m.tensors)),
                            .pieces = sn_alloc_n((size_t)p->n, sizeof(*m.pieces))};
    int *shard = sn_alloc_n((size_t)ranks, sizeof(*shard));
    enum sn_status st = SN_OK;
    sn_config_format_layout(&layout, p->c);
    if (!m.shards || !m.tensors || !m.pieces || !shard || layout.failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for a plan of %d pieces", p->s->name, p->n);
    if (st == SN_OK)
        st = list_all(p, &m, layout.p, shard, err);
    if (st == SN_OK)
        st = sn_manifest_check_cover(&m, p->s->name, err);
    sn_str_fini(&layout);
    sn_free(shard);
    if (st == SN_OK)
        *out = m;
    else
        sn_manifest_fini(&m);
    return st;
}

static enum sn_status make_plan(struct sn_manifest *out, const struct sn_source *s,
                                const struct sn_config *c, struct sn_err *err)
{
    struct planner p = {.s = s, .c = c, .has_moments = has_moments(s)};
    if (sn_source_has_adapters(s) && c->train.lora.r == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: has adapters, of which the layout file says nothing; give it the run's "
                       "train.lora, or use --merge",
                       s->name);
    if (sn_source_has_prompts(s) && sn_prompt_positions(&c->train.prompt) == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: has prompts, of which the layout file says nothing; give it the run's "
                       "train.prompt",
                       s->name);
    SN_TRY(sn_model_create(&p.model, &c->model, &c->train, err));
    enum sn_status st = check_tensors(&p, err);
    for (int r = 0; r < sn_config_ranks(c) && st == SN_OK; r++)
        st = add_rank(&p, r, err);
    if (st == SN_OK && p.n > 1)
        qsort(p.items, (size_t)p.n, sizeof(*p.items), by_place);
    if (st == SN_OK)
        st = make_manifest(&p, out, err);
    sn_free(p.items);
    sn_model_destroy(p.model);
    return st;
}

/* The optimizer, and whether weights are averaged, is that of the source, whatever the layout's file says: conversion keeps
 * moments. */
enum sn_status sn_convert_plan(struct sn_manifest *out, const struct sn_source *s,
                               const struct sn_config *c, struct sn_err *err)
{
    struct sn_config *own = sn_alloc(sizeof(*own)); /* large for a stack */
    if (!own)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a configuration", s->name);
    *own = *c;
    (void)sn_optimizer_of_groups(&own->train.optimizer.kind, has_group, s); /* else c's */
    own->train.ema.decay = has_group(s, SN_STATE_EMA) ? 0.5 : 0;            /* likewise, some */
    enum sn_status st = make_plan(out, s, own, err);
    sn_free(own);
    return st;
}
