/*
 * read_json.c - Hugging Face's tokenizer.json: the whole, added tokens, post-processors, decoders.
 */
#include "lib/base/mem.h"
#include "lib/token/members.h"
#include "lib/token/read_inner.h"

#include <stdio.h>

#define N(fields) ((int)(sizeof(fields) / sizeof((fields)[0])))

static enum sn_status no_memory(const char *where, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for it", where);
}

/* --- added tokens ----------------------------------------------------------------------------- */

static enum sn_status read_added_one(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    struct sn_added *a = sn_added_add(&t->added);
    int64_t id = -1;
    if (!a)
        return no_memory("added_tokens", err);
    a->normalized = true; /* where it is not said, unless the token is special */
    const struct sn_member fields[] = {
        {"id", SN_MEMBER_INTEGER, &id},
        {"content", SN_MEMBER_TEXT, &a->text},
        {"single_word", SN_MEMBER_BOOL, &a->single_word},
        {"lstrip", SN_MEMBER_BOOL, &a->left},
        {"rstrip", SN_MEMBER_BOOL, &a->right},
        {"normalized", SN_MEMBER_BOOL, &a->normalized},
        {"special", SN_MEMBER_BOOL, &a->special},
    };
    SN_TRY(sn_members_read(v, "added_tokens", fields, N(fields), err));
    if (id < 0 || id >= SN_TOKEN_IDS || a->text.len == 0)
        return sn_fail(err, SN_EINPUT,
                       "added_tokens: one of id %lld; want a text and an id of 0 "
                       ".. %d",
                       (long long)id, SN_TOKEN_IDS - 1);
    /* The model's word goes before the list's, as in tokenizers. */
    int32_t known = sn_vocab_find(&t->model.vocab, a->text.p, a->text.len);
    if (known >= 0 && known != id)
        return sn_fail(err, SN_EINPUT,
                       "added_tokens: '%.*s' is %lld, and %d in the model; make "
                       "them one",
                       (int)(a->text.len < 60 ? a->text.len : 60), a->text.p, (long long)id,
                       (int)known);
    a->id = (int32_t)id;
    return SN_OK;
}

static enum sn_status read_added(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    struct sn_json none, one;
    for (size_t at = 0; sn_json_next(v, &at, &none, &one);)
        SN_TRY(read_added_one(t, one, err));
    return SN_OK;
}

/* --- post-processors -------------------------------------------------------------------------- */

static const char post[] = "post_processor";

static enum sn_status put_before(struct sn_ids *ids, int32_t id, struct sn_err *err)
{
    if (!sn_ids_push(ids, 0))
        return no_memory(post, err);
    memmove(ids->p + 1, ids->p, (ids->len - 1) * sizeof(*ids->p));
    ids->p[0] = id;
    return SN_OK;
}

/* ["[CLS]", 101] */
static enum sn_status read_pair(struct sn_json v, int32_t *id, struct sn_err *err)
{
    struct sn_json none, text, number;
    size_t at = 0;
    int64_t value = -1;
    if (!sn_json_next(v, &at, &none, &text) || !sn_json_next(v, &at, &none, &number) ||
        !sn_json_integer(number, &value) || value < 0 || value >= SN_TOKEN_IDS)
        return sn_fail(err, SN_EINPUT, "%s: want sep and cls as pairs of a text and an id", post);
    *id = (int32_t)value;
    return SN_OK;
}

static enum sn_status read_bert_processing(struct sn_tokenizer *t, struct sn_json v,
                                           struct sn_err *err)
{
    struct sn_json sep = {0}, cls = {0};
    int32_t first, last;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"sep", SN_MEMBER_ANY, &sep},
        {"cls", SN_MEMBER_ANY, &cls},
        {"trim_offsets", SN_MEMBER_NOTHING, NULL},
        {"add_prefix_space", SN_MEMBER_NOTHING, NULL},
    };
    SN_TRY(sn_members_read(v, post, fields, N(fields), err));
    SN_TRY(read_pair(cls, &first, err));
    SN_TRY(read_pair(sep, &last, err));
    SN_TRY(put_before(&t->before, first, err));
    return sn_ids_push(&t->behind, last) ? SN_OK : no_memory(post, err);
}

/* The ids of a special token of a template, before or behind the sequence. */
static enum sn_status put_special(struct sn_tokenizer *t, struct sn_json special,
                                  struct sn_json tokens, bool is_behind, int *n_before,
                                  struct sn_err *err)
{
    char name[256];
    struct sn_json none, id;
    sn_json_get_text(special, "id", name, sizeof(name));
    struct sn_json ids = sn_json_get(sn_json_get(tokens, name), "ids");
    if (!ids.at)
        return sn_fail(err, SN_EINPUT, "post_processor.special_tokens: '%s' is missing", name);
    for (size_t at = 0; sn_json_next(ids, &at, &none, &id);) {
        int64_t value = -1;
        if (!sn_json_integer(id, &value) || value < 0 || value >= SN_TOKEN_IDS)
            return sn_fail(err, SN_EINPUT, "post_processor.special_tokens: '%s' has no id", name);
        struct sn_ids *to = is_behind ? &t->behind : &t->before;
        if (!sn_ids_push(to, 0))
            return no_memory(post, err);
        size_t place = is_behind ? to->len - 1 : (size_t)(*n_before)++;
        memmove(to->p + place + 1, to->p + place, (to->len - 1 - place) * sizeof(*to->p));
        to->p[place] = (int32_t)value;
    }
    return SN_OK;
}

static enum sn_status read_template(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    struct sn_json single = {0}, tokens = {0}, none, piece;
    int sequences = 0, n_before = 0;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"single", SN_MEMBER_ANY, &single},
        {"pair", SN_MEMBER_NOTHING, NULL},
        {"special_tokens", SN_MEMBER_ANY, &tokens},
    };
    SN_TRY(sn_members_read(v, post, fields, N(fields), err));
    for (size_t at = 0; sn_json_next(single, &at, &none, &piece);) {
        struct sn_json special = sn_json_get(piece, "SpecialToken");
        if (special.at)
            SN_TRY(put_special(t, special, tokens, sequences > 0, &n_before, err));
        else
            sequences += sn_json_get(piece, "Sequence").at != NULL;
    }
    if (sequences != 1)
        return sn_fail(err, SN_EINPUT,
                       "post_processor.single: want the sequence once, not %d times", sequences);
    return SN_OK;
}

enum sn_status sn_read_processor(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    static const char *const names[] = {"ByteLevel", "TemplateProcessing", "BertProcessing",
                                        "RobertaProcessing", "Sequence"};
    struct sn_json list = {0}, none, one;
    int which = 0;
    const struct sn_member nothing[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"add_prefix_space", SN_MEMBER_NOTHING, NULL}, /* moves offsets, no token */
        {"trim_offsets", SN_MEMBER_NOTHING, NULL},
        {"use_regex", SN_MEMBER_NOTHING, NULL},
    };
    const struct sn_member sequence[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"processors", SN_MEMBER_ANY, &list},
    };
    SN_TRY(sn_members_type(v, post, names, N(names), &which, err));
    if (which == 0)
        return sn_members_read(v, post, nothing, N(nothing), err);
    if (which == 1)
        return read_template(t, v, err);
    if (which < 4)
        return read_bert_processing(t, v, err);
    SN_TRY(sn_members_read(v, post, sequence, N(sequence), err));
    for (size_t at = 0; sn_json_next(list, &at, &none, &one);)
        SN_TRY(sn_read_processor(t, one, err));
    return SN_OK;
}

/* --- decoders --------------------------------------------------------------------------------- */

static const char decoder[] = "decoder";

static enum sn_status read_decoder_members(struct sn_decoder *d, struct sn_json v,
                                           struct sn_err *err)
{
    struct sn_json pattern = {0}, scheme = {0}, prefix = {0};
    struct sn_regex *regex = NULL;
    bool is_meta = d->kind == SN_DECODE_META, has_prefix = true;
    bool is_replace = d->kind == SN_DECODE_REPLACE;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"add_prefix_space", SN_MEMBER_ANY, &prefix},
        {"trim_offsets", SN_MEMBER_NOTHING, NULL},
        {"use_regex", SN_MEMBER_NOTHING, NULL},
        {"str_rep", SN_MEMBER_NOTHING, NULL},
        {"split", SN_MEMBER_NOTHING, NULL},
        {"replacement", SN_MEMBER_TEXT, &d->text},
        {"prepend_scheme", SN_MEMBER_ANY, &scheme},
        {"prefix", SN_MEMBER_TEXT, &d->text},
        {"suffix", SN_MEMBER_TEXT, &d->text},
        {"cleanup", SN_MEMBER_BOOL, &d->cleanup},
        {"content", SN_MEMBER_TEXT, is_replace ? &d->content : &d->text},
        {"start", SN_MEMBER_INTEGER, &d->start},
        {"stop", SN_MEMBER_INTEGER, &d->stop},
        {"pattern", SN_MEMBER_ANY, &pattern},
    };
    char text[16] = "always";
    SN_TRY(sn_members_read(v, decoder, fields, N(fields), err));
    (void)sn_json_text(scheme, text, sizeof(text));
    (void)sn_json_bool(prefix, &has_prefix);
    d->drops_first = is_meta && has_prefix && strcmp(text, "never") != 0;
    if (!is_replace)
        return SN_OK;
    SN_TRY(sn_read_pattern(pattern, "decoder.pattern", &d->text, &regex, NULL, err));
    sn_regex_destroy(regex);
    if (regex)
        return sn_fail(err, SN_EINPUT, "decoder.pattern: a Regex is not done here; want a String");
    return SN_OK;
}

enum sn_status sn_read_decoder(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    static const char *const names[] = {
        [SN_DECODE_BYTES] = "ByteLevel",
        [SN_DECODE_META] = "Metaspace",
        [SN_DECODE_WORDPIECE] = "WordPiece",
        [SN_DECODE_BPE] = "BPEDecoder",
        [SN_DECODE_FUSE] = "Fuse",
        [SN_DECODE_STRIP] = "Strip",
        [SN_DECODE_REPLACE] = "Replace",
        [SN_DECODE_FALLBACK] = "ByteFallback",
        [SN_DECODE_FALLBACK + 1] = "Sequence",
    };
    struct sn_json list = {0}, none, one;
    int which = 0;
    const struct sn_member sequence[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"decoders", SN_MEMBER_ANY, &list},
    };
    SN_TRY(sn_members_type(v, decoder, names, N(names), &which, err));
    if (which == SN_DECODE_FALLBACK + 1) {
        SN_TRY(sn_members_read(v, decoder, sequence, N(sequence), err));
        for (size_t at = 0; sn_json_next(list, &at, &none, &one);)
            SN_TRY(sn_read_decoder(t, one, err));
        return SN_OK;
    }
    struct sn_decoder *d = sn_decoders_add(&t->decoders);
    if (!d)
        return no_memory(decoder, err);
    d->kind = (enum sn_decoder_kind)which;
    return read_decoder_members(d, v, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

enum sn_status sn_read_tokenizer_json(struct sn_tokenizer *t, const char *bytes, size_t len,
                                      struct sn_err *err)
{
    struct sn_json v, version = {0}, truncation = {0}, padding = {0}, added = {0};
    struct sn_json normalizer = {0}, pre = {0}, processor = {0}, decode = {0}, model = {0};
    const struct sn_member fields[] = {
        {"version", SN_MEMBER_ANY, &version},
        {"truncation", SN_MEMBER_ANY, &truncation},
        {"padding", SN_MEMBER_ANY, &padding},
        {"added_tokens", SN_MEMBER_ANY, &added},
        {"normalizer", SN_MEMBER_ANY, &normalizer},
        {"pre_tokenizer", SN_MEMBER_ANY, &pre},
        {"post_processor", SN_MEMBER_ANY, &processor},
        {"decoder", SN_MEMBER_ANY, &decode},
        {"model", SN_MEMBER_ANY, &model},
    };
    char text[16] = "";
    if (!sn_json_parse(&v, bytes, len))
        return sn_fail(err, SN_EINPUT, "is no JSON, or it is cut short; download it again");
    SN_TRY(sn_members_read(v, "tokenizer", fields, N(fields), err));
    (void)sn_json_text(version, text, sizeof(text));
    if (!model.at || strcmp(text, "1.0") != 0)
        return sn_fail(err, SN_EINPUT, "has %s; want the tokenizer.json of tokenizers, version 1.0",
                       model.at ? "another version" : "no model");
    if (sn_read_is_there(truncation) || sn_read_is_there(padding))
        return sn_fail(err, SN_EINPUT,
                       "%s: documents are neither cut nor filled up here; set it to null",
                       sn_read_is_there(truncation) ? "truncation" : "padding");
    SN_TRY(sn_read_model(t, model, err));
    SN_TRY(read_added(t, added, err));
    if (sn_read_is_there(normalizer))
        SN_TRY(sn_read_normalizer(t, normalizer, err));
    if (sn_read_is_there(pre))
        SN_TRY(sn_read_pre_tokenizer(t, pre, err));
    if (sn_read_is_there(processor))
        SN_TRY(sn_read_processor(t, processor, err));
    t->decoders.joins_by_blanks = !sn_read_is_there(decode);
    return sn_read_is_there(decode) ? sn_read_decoder(t, decode, err) : SN_OK;
}
