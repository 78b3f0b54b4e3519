/* Boxes of our tensors out of the field's files. */
#include "checkpoint/hf/hfnames.h"
#include "checkpoint/hf/hfrules.h"
#include "checkpoint/io/numbers.h"

#include <inttypes.h>
#include <string.h>
#include <stdio.h>

static enum sn_status want_shape(const struct sn_st_tensor *t, const struct sn_hf_rule *r,
                                 const struct sn_model_config *m, const struct sn_state_shape *ours,
                                 struct sn_err *err)
{
    char shape[SN_ST_SHAPE_MAX];
    struct sn_hf_size want = sn_hf_size(r->form, ours->rows, ours->cols);
    if (r->form == SN_HF_ROWS_QKV || r->form == SN_HF_ROWS_LATENT)
        want.rows = sn_hf_span(m, r, ours->rows).all;
    if (t->rank <= 2 && sn_st_rows(t) == want.rows && sn_st_cols(t) == want.cols)
        return SN_OK;
    if (want.cols == 1)
        return sn_fail(err, SN_EINPUT,
                       "%s: tensor '%s' has shape %s; the model's %s needs [%" PRId64 "]", t->file,
                       t->name, sn_st_shape(shape, t), ours->name, want.rows);
    return sn_fail(err, SN_EINPUT,
                   "%s: tensor '%s' has shape %s; the model's %s needs [%" PRId64 ", %" PRId64 "]",
                   t->file, t->name, sn_st_shape(shape, t), ours->name, want.rows, want.cols);
}

/* A stack is [experts, rows of all parts, columns]. */
static enum sn_status want_stack(const struct sn_st_tensor *t, const struct sn_hf_rule *r,
                                 int experts, const struct sn_state_shape *ours, struct sn_err *err)
{
    char shape[SN_ST_SHAPE_MAX];
    int64_t rows = sn_hf_parts(r->form) * ours->rows;
    if (t->rank == 3 && t->shape[0] == experts && t->shape[1] == rows && t->shape[2] == ours->cols)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: tensor '%s' has shape %s; the model's %s needs [%d, %" PRId64 ", %" PRId64
                   "]",
                   t->file, t->name, sn_st_shape(shape, t), ours->name, experts, rows, ours->cols);
}

/* A tensor of that name with another prefix, such as "module." of torch, and of no layer; NULL: none. */
static const char *find_longer(const struct sn_safetensors *st, const char *theirs)
{
    const char *end = strchr(theirs, '.'); /* with its dot */
    size_t len = end ? strlen(end) : 0;
    for (int i = 0; len > 0 && i < sn_safetensors_count(st); i++) {
        const char *name = sn_safetensors_get(st, i)->name;
        if (strlen(name) > len && strcmp(name + strlen(name) - len, end) == 0 &&
            strcspn(name, "0123456789") >= strlen(name) - len)
            return name;
    }
    return NULL;
}

/* What would work in place of a tensor that is not there. */
static const char *hint_of(char buf[192], const struct sn_safetensors *st,
                           const struct sn_model_config *m, const char *ours, const char *theirs,
                           int layer)
{
    bool is_head = strcmp(ours, "head.weight") == 0;
    const char *longer = is_head ? NULL : find_longer(st, theirs);
    (void)snprintf(buf, 192, "%s%.100s%s", longer ? "; '" : "", longer ? longer : "",
                   longer ? "' is there, want the names that transformers has" : "");
    return layer >= m->layers ? "; without blocks for multi-token prediction, want model.mtp: 0 "
                                "(sennit-convert: no --mtp)"
           : is_head          ? "; where the head is the embedding, want "
                                "tie_word_embeddings: true (model.tied_embeddings)"
                              : buf;
}

static enum sn_status no_source(const struct sn_safetensors *st, const struct sn_model_config *m,
                                const char *tensor, struct sn_err *err)
{
    struct sn_hf_at at = {0, 0};
    enum sn_family family = m->family;
    const struct sn_hf_rule *r = sn_hf_rule_of(family, tensor, &at);
    const char *file =
        sn_safetensors_count(st) > 0 ? sn_safetensors_get(st, 0)->file : "safetensors";
    if (!r)
        return sn_fail(err, SN_EINPUT,
                       "%s: no name is known for the model's %s in files of the family %s%s", file,
                       tensor, sn_family_name(family),
                       strstr(tensor, ".mtp.") ? "; want model.mtp: 0" : "");
    char hint[192];
    struct sn_hf_name theirs = sn_hf_theirs(family, r, at);
    return sn_fail(err, SN_EINPUT, "%s: has no tensor '%s', which the model's %s is read from%s",
                   file, theirs.text, tensor, hint_of(hint, st, m, tensor, theirs.text, at.layer));
}

enum sn_status sn_hf_check(const struct sn_safetensors *st, const struct sn_model_config *m,
                           const struct sn_state_shape *t, struct sn_err *err)
{
    struct sn_hf_at at;
    const struct sn_hf_rule *r;
    const struct sn_st_tensor *theirs = sn_hf_find(st, m->family, t->name, &r, &at);
    if (!theirs)
        return no_source(st, m, t->name, err);
    return sn_hf_is_stack(r->form) ? want_stack(theirs, r, m->experts.count, t, err)
                                   : want_shape(theirs, r, m, t, err);
}

/* "[3, 5]" of value number n of the tensor, as its dimensions count it. */
static const char *place_of(char buf[SN_ST_SHAPE_MAX], const struct sn_st_tensor *t, int64_t n)
{
    int at = snprintf(buf, SN_ST_SHAPE_MAX, "[");
    for (int i = 0; i < t->rank; i++) {
        int64_t below = 1;
        for (int k = i + 1; k < t->rank; k++)
            below *= t->shape[k];
        at += snprintf(buf + at, (size_t)(SN_ST_SHAPE_MAX - at), "%s%" PRId64, i ? ", " : "",
                       n / below % t->shape[i]);
    }
    (void)snprintf(buf + at, (size_t)(SN_ST_SHAPE_MAX - at), "]");
    return buf;
}

/* A box of the file, whose values must be numbers: one that is none would be met in training as a
 * loss that is none, with nothing to say where it came from. */
static enum sn_status read_numbers(const struct sn_st_tensor *t, const struct sn_st_box *box,
                                   float *out, int64_t ld, struct sn_err *err)
{
    char place[SN_ST_SHAPE_MAX];
    SN_TRY(sn_safetensors_read(t, box, out, ld, err));
    for (int64_t r = 0; r < box->rows; r++) {
        int64_t c = sn_find_nonfinite(out + r * ld, box->cols);
        if (c >= 0)
            return sn_fail(err, SN_EINPUT,
                           "%s: tensor '%s' is %g at %s; want weights that are all numbers",
                           t->file, t->name, (double)out[r * ld + c],
                           place_of(place, t, (box->row + r) * sn_st_cols(t) + box->col + c));
    }
    return SN_OK;
}

/* Element (r, c) of the box is theirs (theirs.row + c, theirs.col + r). */
static enum sn_status read_turned(const struct sn_st_tensor *t, struct sn_st_box theirs,
                                  const struct sn_state_tensor *box, float *out, struct sn_err *err)
{
    enum { TALL = 16, WIDE = 1024 }; /* rows and columns of theirs that are turned at once */
    float tile[TALL * WIDE];
    for (int64_t c = 0; c < theirs.rows; c += TALL)
        for (int64_t r = 0; r < theirs.cols; r += WIDE) {
            int64_t tall = theirs.rows - c < TALL ? theirs.rows - c : TALL;
            int64_t wide = theirs.cols - r < WIDE ? theirs.cols - r : WIDE;
            struct sn_st_box part = {theirs.row + c, tall, theirs.col + r, wide};
            SN_TRY(read_numbers(t, &part, tile, wide, err));
            for (int64_t i = 0; i < wide; i++)
                for (int64_t k = 0; k < tall; k++)
                    out[(r + i) * box->ld + c + k] = tile[k * wide + i];
        }
    return SN_OK;
}

/* Row r of ours is row r % d of head r / d; read are the rows of one head at a time. */
static enum sn_status read_heads(const struct sn_st_tensor *t, int64_t d, int part,
                                 const struct sn_state_tensor *box, float *out, struct sn_err *err)
{
    for (int64_t r = box->row, n; r < box->row + box->n_rows; r += n) {
        int64_t left = box->row + box->n_rows - r;
        n = d - r % d < left ? d - r % d : left;
        struct sn_st_box theirs = {(3 * (r / d) + part) * d + r % d, n, box->col, box->n_cols};
        SN_TRY(read_numbers(t, &theirs, out + (r - box->row) * box->ld, box->ld, err));
    }
    return SN_OK;
}

/* Rows of one expert: as a matrix a stack has an expert in each row. */
static enum sn_status read_stack(const struct sn_st_tensor *t, int expert, int64_t first,
                                 const struct sn_state_tensor *box, float *out, struct sn_err *err)
{
    bool whole = box->n_cols == box->cols && box->ld == box->cols;
    int64_t step = whole ? box->n_rows : 1;
    for (int64_t r = 0; r < box->n_rows; r += step) {
        struct sn_st_box theirs = {expert, 1, (first + r) * box->cols + box->col,
                                   step * box->n_cols};
        SN_TRY(read_numbers(t, &theirs, out + r * box->ld, theirs.cols, err));
    }
    return SN_OK;
}

enum sn_status sn_hf_read_box(const struct sn_safetensors *st, const struct sn_model_config *m,
                              const struct sn_state_tensor *t, float *out, struct sn_err *err)
{
    SN_TRY(sn_hf_check(st, m, &(struct sn_state_shape){t->group, t->name, t->rows, t->cols}, err));
    struct sn_hf_at at;
    const struct sn_hf_rule *r = NULL;
    const struct sn_st_tensor *theirs = sn_hf_find(st, m->family, t->name, &r, &at);
    int64_t first = sn_hf_span(m, r, t->rows).first + t->row; /* of q | k | v, or others */
    switch (r->form) {
    case SN_HF_CONV:
    case SN_HF_CONV_QKV:
        return read_turned(theirs, (struct sn_st_box){t->col, t->n_cols, first, t->n_rows}, t, out,
                           err);
    case SN_HF_HEADS_QKV:
        return read_heads(theirs, t->rows / m->heads, r->part, t, out, err);
    case SN_HF_STACK:
    case SN_HF_STACK_GATE_UP:
        return read_stack(theirs, at.expert, first, t, out, err);
    case SN_HF_COLS_PAIR:
        return read_numbers(theirs,
                            &(struct sn_st_box){t->row, t->n_rows, r->part * t->cols + t->col,
                                                t->n_cols},
                            out, t->ld, err);
    case SN_HF_SAME:
    case SN_HF_ROWS_QKV:
    case SN_HF_ROWS_GATE_UP:
    case SN_HF_ROWS_LATENT:
        break;
    }
    return read_numbers(theirs, &(struct sn_st_box){first, t->n_rows, t->col, t->n_cols}, out,
                        t->ld, err);
}
