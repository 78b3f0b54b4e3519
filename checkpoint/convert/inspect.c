/* What a checkpoint holds, for people and for programs. */
#include "checkpoint/convert/inspect.h"

#include "checkpoint/store/reader.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- sums ------------------------------------------------------------------------------------ */

struct sums {
    int64_t parameters; /* values of group "model" */
    int64_t bytes;      /* of all values */
    int64_t file_bytes; /* of all shards */
};

static int64_t tensor_bytes(const struct sn_manifest_tensor *t)
{
    return sn_manifest_bytes(t, (struct sn_box){0, 0, t->rows, t->cols});
}

/* Each tensor and shard was bounded when it was parsed; their sums may still exceed all numbers, so
 * they stop at the largest. */
static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static struct sums sums_of(const struct sn_manifest *m)
{
    struct sums s = {0};
    for (int i = 0; i < m->n_tensors; i++) {
        const struct sn_manifest_tensor *t = &m->tensors[i];
        s.bytes = add(s.bytes, tensor_bytes(t));
        if (strcmp(t->group, "model") == 0)
            s.parameters = add(s.parameters, t->rows * t->cols);
    }
    for (int i = 0; i < m->n_shards; i++)
        s.file_bytes = add(s.file_bytes, m->shards[i].bytes);
    return s;
}

/* --- for people ------------------------------------------------------------------------------ */

/* Text of the file on one line of a terminal: whatever could move its cursor becomes '?'. */
static void add_plain(struct sn_str *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sn_str_add(out, "%c", (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
}

/* A section of YAML ("model:\n  family: llama\n  hidden: 64\n") as "family: llama, hidden: 64". */
static void add_section(struct sn_str *out, const char *label, const char *yaml)
{
    const char *line = strchr(yaml, '\n'), *comma = "";
    if (!line || !line[1])
        return; /* an older schema without it */
    sn_str_add(out, "%-10s  ", label);
    while (line && line[1]) {
        line++;
        line += strspn(line, " ");
        sn_str_add(out, "%s", comma);
        size_t len = strcspn(line, "\n");
        add_plain(out, line, len);
        comma = len > 0 && line[len - 1] == ':' ? " " : ", "; /* a section inside */
        line = strchr(line, '\n');
    }
    sn_str_add(out, "\n");
}

static const char *shape_text(char buf[48], const struct sn_manifest_tensor *t)
{
    if (t->cols == 1)
        (void)snprintf(buf, 48, "%" PRId64, t->rows);
    else
        (void)snprintf(buf, 48, "%" PRId64 " x %" PRId64, t->rows, t->cols);
    return buf;
}

static void add_header(struct sn_str *out, const struct sn_reader *r)
{
    const struct sn_manifest *m = &r->manifest;
    struct sums s = sums_of(m);
    char bytes[16], block[16];
    sn_str_add(out, "checkpoint  %s\n", r->dir);
    sn_str_add(out, "step        %" PRId64 ", %" PRId64 " tokens seen\n", m->scalars.step,
               m->scalars.tokens);
    add_section(out, "model", m->model_text);
    add_section(out, "layout", m->layout_text);
    if (m->tokenizer.file[0])
        sn_str_add(out, "tokenizer   %s, %" PRId64 " tokens, xxh3 %016" PRIx64 "\n",
                   m->tokenizer.file, m->tokenizer.vocab, m->tokenizer.hash);
    sn_str_add(out, "parameters  %" PRId64 "\n", s.parameters);
    sn_str_add(out, "tensors     %d in %d pieces, %s\n", m->n_tensors, m->n_pieces,
               sn_str_bytes(bytes, s.bytes));
    sn_str_add(out, "shards      %d, %s\n", m->n_shards, sn_str_bytes(bytes, s.file_bytes));
    sn_str_add(out, "schema      %d, ", m->schema);
    if (m->schema < 3)
        sn_str_add(out, "a hash for each piece\n\n");
    else
        sn_str_add(out, "a hash for each %s\n\n", sn_str_bytes(block, m->block));
}

static int longest(int a, size_t b)
{
    return b > 200 ? 200 : (int)b > a ? (int)b : a;
}

static void add_padded(struct sn_str *out, const char *text, int width)
{
    add_plain(out, text, strlen(text));
    sn_str_add(out, "%*s  ", width > (int)strlen(text) ? width - (int)strlen(text) : 0, "");
}

static void add_table(struct sn_str *out, const struct sn_manifest *m)
{
    int group = 5, name = 4, shape = 5; /* widths; of the titles at least */
    char text[48], bytes[16];
    for (int i = 0; i < m->n_tensors; i++) {
        group = longest(group, strlen(m->tensors[i].group));
        name = longest(name, strlen(m->tensors[i].name));
        shape = longest(shape, strlen(shape_text(text, &m->tensors[i])));
    }
    sn_str_add(out, "%-*s  %-*s  %*s  dtype  pieces        size\n", group, "group", name, "name",
               shape, "shape");
    for (int i = 0; i < m->n_tensors; i++) {
        const struct sn_manifest_tensor *t = &m->tensors[i];
        add_padded(out, t->group, group);
        add_padded(out, t->name, name);
        sn_str_add(out, "%*s  %-5s  %6d  %10s\n", shape, shape_text(text, t),
                   sn_dtype_name(t->dtype), t->n_pieces, sn_str_bytes(bytes, tensor_bytes(t)));
    }
}

/* --- for programs: the manifest's own words, without its hashes ------------------------------ */

static void add_json_text(struct sn_str *out, const char *key, const char *text)
{
    sn_str_add(out, "  \"%s\": ", key);
    sn_str_add_json(out, text);
    sn_str_add(out, ",\n");
}

static void add_json_pieces(struct sn_str *out, const struct sn_manifest_tensor *t)
{
    for (int i = 0; i < t->n_pieces; i++) {
        const struct sn_manifest_piece *p = &t->pieces[i];
        sn_str_add(out,
                   "%s\n      {\"row\": [%" PRId64 ", %" PRId64 "], \"col\": [%" PRId64 ", %" PRId64
                   "], \"shard\": %d, \"dataset\": ",
                   i ? "," : "", p->box.row, p->box.row + p->box.rows, p->box.col,
                   p->box.col + p->box.cols, p->shard);
        sn_str_add_json(out, p->dataset);
        sn_str_add(out, ", \"blocks\": %" PRId64 "}", p->n_blocks);
    }
}

static void add_json_lists(struct sn_str *out, const struct sn_manifest *m)
{
    sn_str_add(out, "  \"shards\": [");
    for (int i = 0; i < m->n_shards; i++) {
        sn_str_add(out, "%s\n    {\"file\": ", i ? "," : "");
        sn_str_add_json(out, m->shards[i].file);
        sn_str_add(out, ", \"bytes\": %" PRId64 "}", m->shards[i].bytes);
    }
    sn_str_add(out, "],\n  \"tensors\": [");
    for (int i = 0; i < m->n_tensors; i++) {
        const struct sn_manifest_tensor *t = &m->tensors[i];
        sn_str_add(out, "%s\n    {\"group\": ", i ? "," : "");
        sn_str_add_json(out, t->group);
        sn_str_add(out, ", \"name\": ");
        sn_str_add_json(out, t->name);
        sn_str_add(out,
                   ", \"shape\": [%" PRId64 ", %" PRId64 "], \"dtype\": \"%s\", \"bytes\": %" PRId64
                   ", \"pieces\": [",
                   t->rows, t->cols, sn_dtype_name(t->dtype), tensor_bytes(t));
        add_json_pieces(out, t);
        sn_str_add(out, "]}");
    }
    sn_str_add(out, "]\n}\n");
}

static void add_json(struct sn_str *out, const struct sn_reader *r)
{
    const struct sn_manifest *m = &r->manifest;
    const struct sn_state_scalars *c = &m->scalars;
    struct sums s = sums_of(m);
    sn_str_add(out, "{\n");
    add_json_text(out, "checkpoint", r->dir);
    sn_str_add(out,
               "  \"schema\": %d,\n  \"step\": %" PRId64 ",\n  \"tokens\": %" PRId64
               ",\n  \"adam_count\": %" PRId64 ",\n  \"scale_age\": %" PRId64
               ",\n  \"skipped\": %" PRId64 ",\n",
               m->schema, c->step, c->tokens, c->adam_count, c->scale_age, c->skipped);
    if (isfinite(c->loss_scale)) /* JSON has no word for the others */
        sn_str_add(out, "  \"loss_scale\": %.9g,\n", (double)c->loss_scale);
    else
        sn_str_add(out, "  \"loss_scale\": null,\n");
    for (int i = 0; sn_state_has_levels(c) && i < SN_NCODED; i++)
        sn_str_add(out, "%s%d%s", i ? ", " : "  \"codec_level\": [", (int)c->codec_level[i],
                   i + 1 < SN_NCODED ? "" : "],\n");
    if (c->adapter_scale != 0)
        sn_str_add(out, "  \"adapter_scale\": %.9g,\n", (double)c->adapter_scale);
    if (c->blend != 0)
        sn_str_add(out, "  \"blend\": \"%016" PRIx64 "\",\n", c->blend);
    add_json_text(out, "model", m->model_text);
    add_json_text(out, "layout", m->layout_text);
    sn_str_add(out, "  \"config_hash\": \"%016" PRIx64 "\",\n", m->config_hash);
    sn_manifest_format_tokenizer(out, &m->tokenizer);
    sn_str_add(out,
               "  \"parameters\": %" PRId64 ",\n  \"bytes\": %" PRId64
               ",\n  \"file_bytes\": %" PRId64 ",\n",
               s.parameters, s.bytes, s.file_bytes);
    if (m->schema >= 3)
        sn_str_add(out, "  \"block\": %" PRId64 ",\n", m->block);
    add_json_lists(out, m);
}

enum sn_status sn_inspect(struct sn_str *out, const char *path, bool json, struct sn_err *err)
{
    struct sn_reader r;
    char *dir;
    SN_TRY(sn_store_find(&dir, path, err));
    enum sn_status st = sn_reader_open(&r, dir, err);
    sn_free(dir);
    SN_TRY(st);
    if (json) {
        add_json(out, &r);
    } else {
        add_header(out, &r);
        add_table(out, &r.manifest);
    }
    sn_reader_close(&r);
    return out->failed ? sn_fail(err, SN_ENOMEM, "%s: no memory for its table", path) : SN_OK;
}
