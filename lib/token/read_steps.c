/*
 * read_steps.c - the normalizer and the pre-tokenizer of a tokenizer.json, a Sequence as its steps.
 */
#include "lib/base/mem.h"
#include "lib/token/members.h"
#include "lib/token/read_inner.h"

#define N(fields) ((int)(sizeof(fields) / sizeof((fields)[0])))

static enum sn_status no_memory(const char *where, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for it", where);
}

enum sn_status sn_read_pattern(struct sn_json v, const char *where, struct sn_bytes *text,
                               struct sn_regex **regex, enum sn_scan *scan, struct sn_err *err)
{
    struct sn_json string = sn_json_get(v, "String"), pattern = sn_json_get(v, "Regex");
    struct sn_bytes written = {0};
    if (string.at)
        return sn_members_text(string, where, text, err);
    if (!pattern.at)
        return sn_fail(err, SN_EINPUT, "%s: want a String or a Regex", where);
    enum sn_status st = sn_members_text(pattern, where, &written, err);
    if (st == SN_OK && scan)
        *scan = sn_scan_find(written.p, written.len);
    if (st == SN_OK && !(scan && *scan != SN_SCAN_NONE)) {
        st = sn_regex_create(regex, written.p, written.len, SN_ONIGURUMA, err);
        if (st != SN_OK)
            (void)sn_err_prefix(err, "%s", where);
    }
    sn_bytes_fini(&written);
    return st;
}

/* --- normalizers ------------------------------------------------------------------------------ */

static const char normalizer[] = "normalizer";

static enum sn_status add_normalizer(struct sn_tokenizer *t, enum sn_normalizer_kind kind,
                                     struct sn_normalizer **out, struct sn_err *err)
{
    *out = sn_normalizers_add(&t->normalizers);
    if (!*out)
        return no_memory(normalizer, err);
    (*out)->kind = kind;
    return SN_OK;
}

static enum sn_status read_bert(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    bool clean = true, chinese = true, lower = true, strip = false;
    struct sn_json accents = {0};
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"clean_text", SN_MEMBER_BOOL, &clean},
        {"handle_chinese_chars", SN_MEMBER_BOOL, &chinese},
        {"strip_accents", SN_MEMBER_ANY, &accents},
        {"lowercase", SN_MEMBER_BOOL, &lower},
    };
    struct sn_normalizer *n;
    SN_TRY(sn_members_read(v, normalizer, fields, N(fields), err));
    if (!sn_json_bool(accents, &strip))
        strip = lower;
    if (clean)
        SN_TRY(add_normalizer(t, SN_NORMALIZE_CLEAN, &n, err));
    if (chinese)
        SN_TRY(add_normalizer(t, SN_NORMALIZE_CHINESE, &n, err));
    if (strip) {
        SN_TRY(add_normalizer(t, SN_NORMALIZE_FORM, &n, err));
        n->form = SN_NFD;
        SN_TRY(add_normalizer(t, SN_NORMALIZE_NONSPACING, &n, err));
    }
    return lower ? add_normalizer(t, SN_NORMALIZE_LOWER, &n, err) : SN_OK;
}

static enum sn_status read_charsmap(struct sn_normalizer *n, struct sn_json v, struct sn_err *err)
{
    struct sn_bytes text = {0}, raw = {0};
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"precompiled_charsmap", SN_MEMBER_TEXT, &text},
    };
    enum sn_status st = sn_members_read(v, normalizer, fields, N(fields), err);
    if (st == SN_OK && !sn_bytes_room(&raw, text.len + 3))
        st = no_memory(normalizer, err);
    int64_t len = st == SN_OK ? sn_base64(text.p ? text.p : "", text.len, raw.p) : 0;
    if (st == SN_OK && len < 0)
        st = sn_fail(err, SN_EINPUT, "normalizer.precompiled_charsmap: is no base64");
    if (st == SN_OK)
        st = sn_charsmap_init(&n->charsmap, raw.p, (size_t)len, err);
    sn_bytes_fini(&text);
    sn_bytes_fini(&raw);
    return st;
}

static enum sn_status read_replace(struct sn_normalizer *n, struct sn_json v, struct sn_err *err)
{
    struct sn_json pattern = {0};
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"pattern", SN_MEMBER_ANY, &pattern},
        {"content", SN_MEMBER_TEXT, &n->text},
    };
    SN_TRY(sn_members_read(v, normalizer, fields, N(fields), err));
    return sn_read_pattern(pattern, "normalizer.pattern", &n->pattern, &n->regex, NULL, err);
}

/* Rows: a type and its step; forms are steps of one kind. */
static const struct {
    const char *name;
    enum sn_normalizer_kind kind;
    enum sn_form form;
} normalizers[] = {
    {"NFC", SN_NORMALIZE_FORM, SN_NFC},
    {"NFD", SN_NORMALIZE_FORM, SN_NFD},
    {"NFKC", SN_NORMALIZE_FORM, SN_NFKC},
    {"NFKD", SN_NORMALIZE_FORM, SN_NFKD},
    {"Lowercase", SN_NORMALIZE_LOWER, SN_NFC},
    {"StripAccents", SN_NORMALIZE_ACCENTS, SN_NFC},
    {"Nmt", SN_NORMALIZE_NMT, SN_NFC},
    {"Strip", SN_NORMALIZE_STRIP, SN_NFC},
    {"Prepend", SN_NORMALIZE_PREPEND, SN_NFC},
    {"Replace", SN_NORMALIZE_REPLACE, SN_NFC},
    {"Precompiled", SN_NORMALIZE_CHARSMAP, SN_NFC},
};

static enum sn_status read_members(struct sn_normalizer *n, struct sn_json v, struct sn_err *err)
{
    const struct sn_member strip[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"strip_left", SN_MEMBER_BOOL, &n->left},
        {"strip_right", SN_MEMBER_BOOL, &n->right},
    };
    const struct sn_member prepend[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"prepend", SN_MEMBER_TEXT, &n->text},
    };
    if (n->kind == SN_NORMALIZE_REPLACE)
        return read_replace(n, v, err);
    if (n->kind == SN_NORMALIZE_CHARSMAP)
        return read_charsmap(n, v, err);
    if (n->kind == SN_NORMALIZE_STRIP)
        return sn_members_read(v, normalizer, strip, N(strip), err);
    if (n->kind == SN_NORMALIZE_PREPEND)
        return sn_members_read(v, normalizer, prepend, N(prepend), err);
    return sn_members_read(v, normalizer, strip, 1, err);
}

enum sn_status sn_read_normalizer(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    char type[64];
    struct sn_json list = {0}, none, step;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"normalizers", SN_MEMBER_ANY, &list},
    };
    struct sn_normalizer *n;
    sn_json_get_text(v, "type", type, sizeof(type));
    if (strcmp(type, "BertNormalizer") == 0)
        return read_bert(t, v, err);
    if (strcmp(type, "Sequence") == 0) {
        SN_TRY(sn_members_read(v, normalizer, fields, N(fields), err));
        for (size_t at = 0; sn_json_next(list, &at, &none, &step);)
            SN_TRY(sn_read_normalizer(t, step, err));
        return SN_OK;
    }
    for (int i = 0; i < N(normalizers); i++)
        if (strcmp(type, normalizers[i].name) == 0) {
            SN_TRY(add_normalizer(t, normalizers[i].kind, &n, err));
            n->form = normalizers[i].form;
            return read_members(n, v, err);
        }
    return sn_fail(err, SN_EINPUT, "%s: type '%s' is not done here", normalizer, type);
}

/* --- pre-tokenizers --------------------------------------------------------------------------- */

static const char pre[] = "pre_tokenizer";

static enum sn_status add_splitter(struct sn_tokenizer *t, enum sn_splitter_kind kind,
                                   struct sn_splitter **out, struct sn_err *err)
{
    if (t->model.byte_level)
        return sn_fail(err, SN_EINPUT, "%s: a step behind ByteLevel is not done here", pre);
    *out = sn_splitters_add(&t->splitters);
    if (!*out)
        return no_memory(pre, err);
    (*out)->kind = kind;
    return SN_OK;
}

static enum sn_status read_behavior(struct sn_json v, enum sn_behavior *out, struct sn_err *err)
{
    static const char *const names[] = {[SN_REMOVED] = "Removed",
                                        [SN_ISOLATED] = "Isolated",
                                        [SN_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SN_WITH_NEXT] = "MergedWithNext",
                                        [SN_CONTIGUOUS] = "Contiguous"};
    char text[32] = "";
    (void)sn_json_text(v, text, sizeof(text));
    for (int i = 0; i < N(names); i++)
        if (strcmp(names[i], text) == 0) {
            *out = (enum sn_behavior)i;
            return SN_OK;
        }
    return sn_fail(err, SN_EINPUT, "pre_tokenizer.behavior: '%s' is not known", text);
}

static enum sn_status read_split(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    struct sn_json pattern = {0}, behavior = {0};
    struct sn_splitter *s;
    SN_TRY(add_splitter(t, SN_SPLIT_REGEX, &s, err));
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"pattern", SN_MEMBER_ANY, &pattern},
        {"behavior", SN_MEMBER_ANY, &behavior},
        {"invert", SN_MEMBER_BOOL, &s->invert},
    };
    SN_TRY(sn_members_read(v, pre, fields, N(fields), err));
    SN_TRY(read_behavior(behavior, &s->behavior, err));
    /* A scanner covers the text: all is matched. */
    bool covers = s->behavior == SN_ISOLATED || (s->behavior == SN_REMOVED && s->invert);
    SN_TRY(sn_read_pattern(pattern, "pre_tokenizer.pattern", &s->text, &s->regex,
                           covers ? &s->scan : NULL, err));
    s->kind = s->scan != SN_SCAN_NONE ? SN_SPLIT_SCAN : s->regex ? SN_SPLIT_REGEX : SN_SPLIT_TEXT;
    return SN_OK;
}

static enum sn_status read_byte_level(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    bool prefix = true, by_regex = true;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"add_prefix_space", SN_MEMBER_BOOL, &prefix},
        {"trim_offsets", SN_MEMBER_NOTHING, NULL},
        {"use_regex", SN_MEMBER_BOOL, &by_regex},
    };
    struct sn_splitter *s;
    SN_TRY(sn_members_read(v, pre, fields, N(fields), err));
    if (prefix)
        SN_TRY(add_splitter(t, SN_SPLIT_PREFIX, &s, err));
    if (by_regex) {
        SN_TRY(add_splitter(t, SN_SPLIT_SCAN, &s, err));
        s->scan = SN_SCAN_GPT2;
    }
    if (t->model.kind != SN_MODEL_BPE)
        return sn_fail(err, SN_EINPUT, "%s: ByteLevel is done for models of type BPE alone", pre);
    t->model.byte_level = true;
    return SN_OK;
}

static enum sn_status read_metaspace(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    static const char *const schemes[] = {
        [SN_PREPEND_NEVER] = "never", [SN_PREPEND_FIRST] = "first", [SN_PREPEND_ALWAYS] = "always"};
    struct sn_json scheme = {0}, prefix = {0};
    struct sn_splitter *s, *cut;
    bool splits = true, has_prefix = true;
    char text[16] = "always";
    SN_TRY(add_splitter(t, SN_SPLIT_META, &s, err));
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},          {"replacement", SN_MEMBER_TEXT, &s->text},
        {"str_rep", SN_MEMBER_NOTHING, NULL},       {"add_prefix_space", SN_MEMBER_ANY, &prefix},
        {"prepend_scheme", SN_MEMBER_ANY, &scheme}, {"split", SN_MEMBER_BOOL, &splits},
    };
    SN_TRY(sn_members_read(v, pre, fields, N(fields), err));
    (void)sn_json_text(scheme, text, sizeof(text));
    if (sn_json_bool(prefix, &has_prefix) && !has_prefix)
        (void)memcpy(text, "never", 6);
    int i = 0;
    while (i < 3 && strcmp(schemes[i], text) != 0)
        i++;
    if (i == 3 || s->text.len == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: Metaspace wants a replacement, and a prepend_scheme of "
                       "never, first or always",
                       pre);
    s->scheme = (enum sn_meta_scheme)i;
    if (!splits)
        return SN_OK;
    SN_TRY(add_splitter(t, SN_SPLIT_TEXT, &cut, err));
    cut->behavior = SN_WITH_NEXT;
    s = &t->splitters.list[t->splitters.n - 2]; /* the list may have moved */
    return sn_bytes_add(&cut->text, s->text.p, s->text.len) ? SN_OK : no_memory(pre, err);
}

static enum sn_status read_delimiter(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    struct sn_splitter *s;
    SN_TRY(add_splitter(t, SN_SPLIT_TEXT, &s, err));
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"delimiter", SN_MEMBER_TEXT, &s->text},
    };
    return sn_members_read(v, pre, fields, N(fields), err);
}

static enum sn_status read_length(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    struct sn_splitter *s;
    SN_TRY(add_splitter(t, SN_SPLIT_LENGTH, &s, err));
    s->behavior = SN_ISOLATED;
    s->length = 5;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"length", SN_MEMBER_INTEGER, &s->length},
    };
    SN_TRY(sn_members_read(v, pre, fields, N(fields), err));
    if (s->length < 1)
        return sn_fail(err, SN_EINPUT, "pre_tokenizer.length: want 1 or more");
    return SN_OK;
}

static enum sn_status split_by(struct sn_tokenizer *t, unsigned classes, enum sn_behavior behavior,
                               struct sn_err *err)
{
    struct sn_splitter *s;
    SN_TRY(add_splitter(t, SN_SPLIT_CLASSES, &s, err));
    s->classes = classes;
    s->behavior = behavior;
    return SN_OK;
}

static enum sn_status read_whitespace(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    static const char pattern[] = "\\w+|[^\\w\\s]+";
    const struct sn_member fields[] = {{"type", SN_MEMBER_NOTHING, NULL}};
    struct sn_splitter *s;
    SN_TRY(sn_members_read(v, pre, fields, 1, err));
    SN_TRY(add_splitter(t, SN_SPLIT_REGEX, &s, err));
    s->behavior = SN_REMOVED;
    s->invert = true;
    return sn_regex_create(&s->regex, pattern, sizeof(pattern) - 1, SN_FANCY, err);
}

static enum sn_status read_classes(struct sn_tokenizer *t, struct sn_json v, const char *type,
                                   struct sn_err *err)
{
    struct sn_json behavior = {0};
    bool digits = false;
    enum sn_behavior how = SN_ISOLATED;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"behavior", SN_MEMBER_ANY, &behavior},
        {"individual_digits", SN_MEMBER_BOOL, &digits},
    };
    SN_TRY(sn_members_read(v, pre, fields, N(fields), err));
    if (behavior.at)
        SN_TRY(read_behavior(behavior, &how, err));
    if (strcmp(type, "Digits") == 0)
        return split_by(t, SN_CHAR_NUMBER, digits ? SN_ISOLATED : SN_CONTIGUOUS, err);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return split_by(t, SN_CHAR_SPACE, SN_REMOVED, err);
    if (strcmp(type, "BertPreTokenizer") == 0)
        SN_TRY(split_by(t, SN_CHAR_SPACE, SN_REMOVED, err));
    return split_by(t, SN_CHAR_PUNCTUATION, how, err); /* Punctuation, too */
}

enum sn_status sn_read_pre_tokenizer(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    static const struct {
        const char *name;
        enum sn_status (*read)(struct sn_tokenizer *, struct sn_json, struct sn_err *);
    } readers[] = {
        {"ByteLevel", read_byte_level},         {"Split", read_split},
        {"Metaspace", read_metaspace},          {"Whitespace", read_whitespace},
        {"CharDelimiterSplit", read_delimiter}, {"FixedLength", read_length},
    };
    static const char *const classes[] = {"Digits", "WhitespaceSplit", "BertPreTokenizer",
                                          "Punctuation"};
    char type[64];
    struct sn_json list = {0}, none, step;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"pretokenizers", SN_MEMBER_ANY, &list},
    };
    sn_json_get_text(v, "type", type, sizeof(type));
    if (strcmp(type, "Sequence") == 0) {
        SN_TRY(sn_members_read(v, pre, fields, N(fields), err));
        for (size_t at = 0; sn_json_next(list, &at, &none, &step);)
            SN_TRY(sn_read_pre_tokenizer(t, step, err));
        return SN_OK;
    }
    for (int i = 0; i < N(readers); i++)
        if (strcmp(type, readers[i].name) == 0)
            return readers[i].read(t, v, err);
    for (int i = 0; i < N(classes); i++)
        if (strcmp(type, classes[i]) == 0)
            return read_classes(t, v, type, err);
    return sn_fail(err, SN_EINPUT, "%s: type '%s' is not done here", pre, type);
}
