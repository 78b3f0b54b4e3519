/*
 * rows.c - rows as run files, compiled.
 */
#include "tests/bench/foreign/rows.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sn_status rows_add(struct rows *rows, struct row **out, struct sn_err *err)
{
    if (rows->n == rows->cap) {
        int cap = rows->cap ? 2 * rows->cap : 64;
        struct row *more = sn_realloc(rows->row, (size_t)cap * sizeof(*more));
        if (!more)
            return sn_fail(err, SN_ENOMEM, "no memory for %d rows", cap);
        rows->row = more;
        rows->cap = cap;
    }
    *out = &rows->row[rows->n];
    memset(*out, 0, sizeof(**out));
    (*out)->twin = rows->n++;
    return SN_OK;
}

/* ", split: [5, 6, 6, 5]"; nothing where our own way of dealing layers is meant. */
static void add_split(struct sn_str *text, const struct row_layout *l)
{
    int pieces = l->pipeline * l->virtual_stages, with_ends = (l->layers + 2) / pieces;
    const char *at = l->stages;
    if (pieces == 1 || !(l->even_split || l->ends || l->stages))
        return;
    for (int i = 0; i < pieces; i++) {
        int end = (i == 0) + (i == pieces - 1);
        long n = l->stages ? strtol(at, NULL, 10) - end
                 : l->ends ? with_ends - end
                           : l->layers / pieces + (i < l->layers % pieces);
        sn_str_add(text, "%s%ld", i ? ", " : ", split: [", n);
        at = l->stages ? at + strcspn(at, "-") + 1 : NULL;
    }
    sn_str_add(text, "]");
}

enum sn_status row_configure(struct row *r, const struct row_layout *l, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_str_add(&text,
               "model: {family: %s, layers: %d, hidden: %d, heads: %d, kv_heads: %d, ffn: %d, "
               "vocab: %d, seq: %d, tied_embeddings: %s}\n",
               l->family ? l->family : "llama", l->layers, l->hidden, l->heads, l->kv_heads, l->ffn,
               l->vocab, l->seq, l->tied ? "true" : "false");
    sn_str_add(&text, "data: {train: none}\ntrain: {global_batch: %d, precision: %s, steps: 10}\n",
               l->batch, l->precision ? l->precision : "bf16");
    sn_str_add(&text,
               "layout: {data: %d, tensor: %d, pipeline: %d, context: %d, micro_batch: %d, "
               "virtual_stages: %d, schedule: %s, zero: %d, sequence_parallel: %s, recompute: "
               "%s",
               l->data, l->tensor, l->pipeline, l->context, l->micro_batch, l->virtual_stages,
               l->virtual_stages > 1 ? "interleaved" : "1f1b", l->zero,
               l->sequence_parallel ? "true" : "false", l->recompute ? "full" : "none");
    add_split(&text, l);
    if (l->bucket)
        sn_str_add(&text, ", bucket: %s", l->bucket);
    sn_str_add(&text, "}\n");
    enum sn_status st = text.failed
                            ? sn_fail(err, SN_ENOMEM, "no memory for a run file")
                            : sn_config_parse(&r->config, text.p, text.len, r->id, NULL, err);
    sn_str_fini(&text);
    if (st == SN_OK)
        st = sn_config_resolve_ranks(&r->config, sn_config_ranks(&r->config), err);
    return st;
}

/* Kernels are no part of a program. */
static bool same_program(const struct row *a, const struct row *b)
{
    return memcmp(&a->config.model, &b->config.model, sizeof(a->config.model)) == 0 &&
           memcmp(&a->config.layout, &b->config.layout, sizeof(a->config.layout)) == 0 &&
           a->config.train.global_batch == b->config.train.global_batch &&
           a->config.train.precision == b->config.train.precision;
}

static enum sn_status compile(struct row *r, struct sn_err *err)
{
    SN_TRY(sn_model_create(&r->model, &r->config.model, &r->config.train, err));
    struct sn_job_env env = {
        .config = &r->config, .model = r->model, .ops = sn_ops_cpu(), .threads = 1};
    return sn_stages_create(&r->stages, &env, err);
}

enum sn_status rows_compile(struct rows *rows, struct sn_err *err)
{
    for (int i = 0; i < rows->n; i++) {
        struct row *r = &rows->row[i];
        for (int k = 0; k < i && r->twin == i; k++) {
            if (same_program(&rows->row[k], r))
                r->twin = k;
        }
        enum sn_status st = r->twin == i ? compile(r, err) : SN_OK;
        if (st != SN_OK)
            return sn_err_prefix(err, "%s, run %s: ", r->sheet, r->id);
    }
    return SN_OK;
}

void rows_fini(struct rows *rows)
{
    for (int i = 0; i < rows->n; i++) {
        sn_stages_fini(&rows->row[i].stages);
        sn_model_destroy(rows->row[i].model);
    }
    sn_free(rows->row);
    *rows = (struct rows){0};
}
