/*
 * data_copy.c - documents from token files to others, of the same type or another.
 */
#include "lib/data/data_format.h"

enum { AT_ONCE = 4096 };

#define WIDEN(type, load)                                                                          \
    for (int64_t i = 0; i < n; i++)                                                                \
        out[i] = (int32_t)(type)load(p + (int64_t)sizeof(type) * i);                               \
    break;

void sn_tokens_widen(int code, const unsigned char *p, int64_t n, int32_t *out)
{
    switch (code) {
    case SN_TOK_U8:
        WIDEN(uint8_t, *)
    case SN_TOK_I8:
        WIDEN(int8_t, *)
    case SN_TOK_I16:
        WIDEN(int16_t, sn_le_u16)
    case SN_TOK_I32:
        WIDEN(int32_t, sn_le_i32)
    case SN_TOK_I64:
        for (int64_t i = 0; i < n; i++) {
            int64_t token = sn_le_i64(p + 8 * i);
            out[i] = token < 0 || token > INT32_MAX ? -1 : (int32_t)token;
        }
        break;
    default:
        WIDEN(uint16_t, sn_le_u16)
    }
}

struct copying {
    struct sn_data_writer *to;
    const struct sn_token_type *type; /* of the output */
    const struct sn_data_mask *mask;
    int64_t first; /* the document's first token */
    int code;      /* of the tokens */
    bool as_they_are;
};

static enum sn_status check_tokens(const struct copying *c, const unsigned char *p,
                                   const int32_t *tokens, int64_t first, int64_t n,
                                   struct sn_err *err)
{
    int size = sn_token_type_find(c->code)->size;
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] > c->type->max)
            return sn_fail(
                err, SN_EINPUT, "token %lld of it is %lld, which %s does not hold; want 0 .. %lld",
                (long long)(first + i - c->first), (long long)sn_token_load(c->code, p + i * size),
                c->type->name, (long long)c->type->max);
    return SN_OK;
}

/* n tokens, of which the first is number `first` of its file. */
static enum sn_status copy_block(const struct copying *c, const unsigned char *p, int64_t first,
                                 int64_t n, struct sn_err *err)
{
    uint8_t counts[AT_ONCE];
    int32_t tokens[AT_ONCE];
    if (c->mask)
        sn_data_mask_read(c->mask, first, n, counts);
    const uint8_t *which = c->mask ? counts : NULL;
    if (c->as_they_are)
        return sn_data_writer_append_bytes(c->to, p, which, n, err);
    sn_tokens_widen(c->code, p, n, tokens);
    SN_TRY(check_tokens(c, p, tokens, first, n, err));
    return sn_data_writer_append_masked(c->to, tokens, which, n, err);
}

static enum sn_status copy_sequence(const struct copying *c, const unsigned char *p, int64_t first,
                                    int64_t n, struct sn_err *err)
{
    int size = sn_token_type_find(c->code)->size;
    if (c->as_they_are && !c->mask)
        return sn_data_writer_append_bytes(c->to, p, NULL, n, err);
    for (int64_t i = 0; i < n; i += AT_ONCE) {
        int64_t block = n - i < AT_ONCE ? n - i : AT_ONCE;
        SN_TRY(copy_block(c, p + i * size, first + i, block, err));
    }
    return SN_OK;
}

enum sn_status sn_data_writer_copy(struct sn_data_writer *w, const struct sn_data_document *d,
                                   struct sn_err *err)
{
    struct sn_data_info from, to;
    int64_t first, end;
    sn_data_info(d->data, &from);
    sn_data_writer_info(w, &to);
    sn_data_document(d->data, d->number, &first, &end);
    int size = sn_token_type_find(from.dtype_code)->size;
    const unsigned char *begin = sn_data_sequence_bytes(d->data, 0);
    const unsigned char *there = sn_data_sequence_bytes(d->data, first), *p = d->p ? d->p : there;
    int64_t token = there ? (there - begin) / size : 0;
    struct copying c = {.to = w, .mask = d->mask, .code = from.dtype_code, .first = token};
    c.type = sn_token_type_find(to.dtype_code);
    c.as_they_are = from.dtype_code == to.dtype_code;
    for (int64_t s = first; s < end; s++) {
        int64_t n = sn_data_sequence_tokens(d->data, s);
        SN_TRY(copy_sequence(&c, p, token, n, err));
        if (s < end - 1)
            SN_TRY(sn_data_writer_end_sequence(w, err));
        p += n * size;
        token += n;
    }
    return sn_data_writer_end(w, err); /* a document without sequences gets an empty one */
}
