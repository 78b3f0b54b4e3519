#include "checkpoint/format/manifest.h"

#include "lib/base/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- value to text: one line per tensor, so that people can grep it ------------------------- */

static void format_scalars(struct sn_str *out, const struct sn_state_scalars *s)
{
    sn_str_add(out,
               "  \"scalars\": {\"step\": %" PRId64 ", \"tokens\": %" PRId64
               ", \"adam_count\": %" PRId64 ", \"scale_age\": %" PRId64 ", \"skipped\": %" PRId64
               ", \"loss_scale\": \"%a\"",
               s->step, s->tokens, s->adam_count, s->scale_age, s->skipped, (double)s->loss_scale);
    for (int i = 0; sn_state_has_levels(s) && i < SN_NCODED; i++)
        sn_str_add(out, "%s%d%s", i ? ", " : ", \"codec_level\": [", (int)s->codec_level[i],
                   i + 1 < SN_NCODED ? "" : "]");
    if (s->adapter_scale != 0)
        sn_str_add(out, ", \"adapter_scale\": \"%a\"", (double)s->adapter_scale);
    if (s->blend != 0)
        sn_str_add(out, ", \"blend\": \"%016" PRIx64 "\"", s->blend);
    sn_str_add(out, "},\n");
}

/* Where the box lies in a dataset that is larger. */
static void format_place(struct sn_str *out, const struct sn_manifest_piece *p)
{
    if (p->set_rows != p->box.rows || p->set_cols != p->box.cols)
        sn_str_add(out, ", \"at\": [%" PRId64 ", %" PRId64 "], \"set\": [%" PRId64 ", %" PRId64 "]",
                   p->at_row, p->at_col, p->set_rows, p->set_cols);
}

static void format_piece(struct sn_str *out, const struct sn_manifest_tensor *t,
                         const struct sn_manifest_piece *p)
{
    sn_str_add(out,
               "{\"row\": [%" PRId64 ", %" PRId64 "], \"col\": [%" PRId64 ", %" PRId64
               "], \"shard\": %d, \"dataset\": ",
               p->box.row, p->box.row + p->box.rows, p->box.col, p->box.col + p->box.cols,
               p->shard);
    sn_str_add_json(out, p->dataset);
    format_place(out, p);
    sn_str_add(out, ", \"bytes\": %" PRId64 ", \"xxh3\": \"", sn_manifest_bytes(t, p->box));
    for (int64_t k = 0; k < p->n_blocks; k++)
        sn_str_add(out, "%016" PRIx64, p->hashes[k]);
    sn_str_add(out, "\"}");
}

static void format_tensor(struct sn_str *out, const struct sn_manifest_tensor *t)
{
    sn_str_add(out, "    {\"group\": ");
    sn_str_add_json(out, t->group);
    sn_str_add(out, ", \"name\": ");
    sn_str_add_json(out, t->name);
    sn_str_add(out, ", \"shape\": [%" PRId64 ", %" PRId64 "], \"dtype\": \"%s\", \"pieces\": [",
               t->rows, t->cols, sn_dtype_name(t->dtype));
    for (int i = 0; i < t->n_pieces; i++) {
        sn_str_add(out, "%s", i ? ",\n      " : "");
        format_piece(out, t, &t->pieces[i]);
    }
    sn_str_add(out, "]}");
}

void sn_manifest_format_tokenizer(struct sn_str *out, const struct sn_tokenizer_id *t)
{
    if (!t->file[0])
        return;
    sn_str_add(out, "  \"tokenizer\": {\"file\": ");
    sn_str_add_json(out, t->file);
    sn_str_add(out,
               ", \"xxh3\": \"%016" PRIx64 "\", \"vocab\": %" PRId64
               ", \"begin\": %d, \"end\": %d, \"special\": %s},\n",
               t->hash, t->vocab, (int)t->begin, (int)t->end, t->special ? "true" : "false");
}

void sn_manifest_format(struct sn_str *out, const struct sn_manifest *m)
{
    sn_str_add(out, "{\n  \"schema\": %d,\n  \"model\": ", SN_MANIFEST_SCHEMA);
    sn_str_add_json(out, m->model_text);
    sn_str_add(out, ",\n  \"layout\": ");
    sn_str_add_json(out, m->layout_text ? m->layout_text : "");
    sn_str_add(out, ",\n  \"config_hash\": \"%016" PRIx64 "\",\n", m->config_hash);
    format_scalars(out, &m->scalars);
    sn_manifest_format_tokenizer(out, &m->tokenizer);
    sn_str_add(out, "  \"block\": %" PRId64 ",\n  \"shards\": [\n", m->block);
    for (int i = 0; i < m->n_shards; i++) {
        sn_str_add(out, "    {\"file\": ");
        sn_str_add_json(out, m->shards[i].file);
        sn_str_add(out, ", \"bytes\": %" PRId64 "}%s\n", m->shards[i].bytes,
                   i + 1 < m->n_shards ? "," : "");
    }
    sn_str_add(out, "  ],\n");
    if (m->master.bytes > 0)
        sn_str_add(out, "  \"master\": {\"bytes\": %" PRId64 ", \"xxh3\": \"%016" PRIx64 "\"},\n",
                   m->master.bytes, m->master.hash);
    sn_str_add(out, "  \"tensors\": [\n");
    for (int i = 0; i < m->n_tensors; i++) {
        format_tensor(out, &m->tensors[i]);
        sn_str_add(out, "%s\n", i + 1 < m->n_tensors ? "," : "");
    }
    sn_str_add(out, "  ]\n}\n");
}

/* --- names and their order ------------------------------------------------------------------- */

/* One member of a path; '@' separates a name from a place, and '%' is a format to HDF5's virtual
 * datasets. */
static bool is_name(const char *s)
{
    return *s && !strpbrk(s, "/@%") && strcmp(s, ".") != 0;
}

enum sn_status sn_manifest_dataset(char *out, size_t size, const struct sn_manifest_tensor *t,
                                   struct sn_box box, struct sn_err *err)
{
    bool is_model = strcmp(t->group, "model") == 0;
    bool is_whole = box.rows == t->rows && box.cols == t->cols;
    char origin[48] = "";
    if (!is_whole)
        (void)snprintf(origin, sizeof(origin), "@%" PRId64 ",%" PRId64, box.row, box.col);
    int n = snprintf(out, size, "%s%s/%s%s", is_model ? "/" : "/optim/", t->group, t->name, origin);
    if (n < 0 || (size_t)n >= size || !is_name(t->group) || !is_name(t->name))
        return sn_fail(err, SN_EINPUT, "checkpoint: '%s %s' is no name for a tensor", t->group,
                       t->name);
    return SN_OK;
}

int sn_manifest_order(const char *group_a, const char *name_a, const char *group_b,
                      const char *name_b)
{
    int order = strcmp(group_a, group_b);
    return order ? order : strcmp(name_a, name_b);
}

static int by_name(const void *pa, const void *pb)
{
    const struct sn_manifest_tensor *a = pa, *b = pb;
    return sn_manifest_order(a->group, a->name, b->group, b->name);
}

const struct sn_manifest_tensor *sn_manifest_find(const struct sn_manifest *m, const char *group,
                                                  const char *name)
{
    struct sn_manifest_tensor key = {.group = group, .name = name};
    return bsearch(&key, m->tensors, (size_t)m->n_tensors, sizeof(key), by_name);
}

void sn_manifest_fini(struct sn_manifest *m)
{
    sn_free(m->shards);
    sn_free(m->tensors);
    sn_free(m->pieces);
    sn_free(m->hashes);
    sn_free(m->strings);
    json_decref(m->json);
    *m = (struct sn_manifest){0};
}

enum sn_status sn_manifest_want(const struct sn_manifest *m, const char *dir,
                                const struct sn_state_shape *t,
                                const struct sn_manifest_tensor **out, struct sn_err *err)
{
    const struct sn_manifest_tensor *have = sn_manifest_find(m, t->group, t->name);
    if (!have)
        return sn_fail(err, SN_EINPUT, "%s/manifest.json: has no tensor %s %s; the model needs it",
                       dir, t->group, t->name);
    if (have->rows != t->rows || have->cols != t->cols)
        return sn_fail(err, SN_EINPUT,
                       "%s/manifest.json: tensor %s %s is %" PRId64 " x %" PRId64
                       ", but the model's is %" PRId64 " x %" PRId64,
                       dir, t->group, t->name, have->rows, have->cols, t->rows, t->cols);
    *out = have;
    return SN_OK;
}
