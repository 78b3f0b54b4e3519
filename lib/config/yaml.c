/*
 * yaml.c - the one file that knows libyaml.
 *
 * Events, not libyaml's documents: an event stream can be refused at the first node too many, so
 * hostile text costs no more memory than the limits in yaml.h.
 */
#include "lib/config/yaml.h"

#include "lib/base/mem.h"

#include <string.h>
#include <yaml.h>

enum { KEY_MAX = 64 };

struct builder {
    struct sn_yaml_doc *doc;
    struct sn_yaml_node *open; /* innermost map or list not yet ended */
    int depth;
    char *key; /* read, its value not yet */
    int key_line, key_col;
    int documents;
    struct sn_err *err;
};

__attribute__((format(printf, 3, 4))) static enum sn_status fail(struct builder *b, yaml_mark_t at,
                                                                 const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum sn_status st =
        sn_yaml_vfail(b->doc->path, (int)at.line + 1, (int)at.column + 1, b->err, fmt, ap);
    va_end(ap);
    return st;
}

static enum sn_status no_memory(struct builder *b)
{
    return sn_fail(b->err, SN_ENOMEM, "%s: no memory to read it", b->doc->path);
}

/* Would the character at s end a line or vanish when the value is written out again? */
static bool is_control(const unsigned char *s)
{
    if (*s < 0x20 || *s == 0x7f)
        return true;
    if (s[0] == 0xc2)
        return s[1] >= 0x80 && s[1] <= 0x9f; /* C1 controls, next line */
    if (s[0] == 0xe2 && s[1] == 0x80)
        return s[2] == 0xa8 || s[2] == 0xa9; /* line and paragraph separators */
    if (s[0] == 0xef && s[1] == 0xbb)
        return s[2] == 0xbf; /* byte order mark */
    return s[0] == 0xef && s[1] == 0xbf && (s[2] == 0xbe || s[2] == 0xbf);
}

static enum sn_status check_scalar(struct builder *b, const yaml_event_t *e)
{
    const unsigned char *s = e->data.scalar.value;
    if (memchr(s, 0, e->data.scalar.length))
        return fail(b, e->start_mark, "a NUL byte in a value; want text");
    for (; *s; s++) {
        if (is_control(s))
            return fail(b, e->start_mark, "a control character in a value; want one line of text");
    }
    return SN_OK;
}

static enum sn_status check_plain(struct builder *b, const yaml_event_t *e)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor)
        return fail(b, e->start_mark, "anchors are not read; write the value out");
    if (tag)
        return fail(b, e->start_mark, "tags are not read; leave the '!' out");
    return SN_OK;
}

static enum sn_status take_key(struct builder *b, const yaml_event_t *e)
{
    char shown[SN_CLIP_SIZE];
    if (e->type != YAML_SCALAR_EVENT)
        return fail(b, e->start_mark, "a key is a mapping or a list; want a word");
    const char *key = (const char *)e->data.scalar.value;
    if (e->data.scalar.length >= KEY_MAX)
        return fail(b, e->start_mark, "key '%s' is too long; want at most %d characters",
                    sn_clip(shown, key), KEY_MAX - 1);
    const struct sn_yaml_node *twin = sn_yaml_find(b->open, key);
    if (twin)
        return fail(b, e->start_mark, "key '%s' is given twice, first in line %d; keep one",
                    sn_clip(shown, key), twin->key_line);
    b->key = sn_strdup(key);
    if (!b->key)
        return no_memory(b);
    b->key_line = (int)e->start_mark.line + 1;
    b->key_col = (int)e->start_mark.column + 1;
    return SN_OK;
}

static enum sn_status add_node(struct builder *b, const yaml_event_t *e)
{
    bool scalar = e->type == YAML_SCALAR_EVENT;
    SN_TRY(check_plain(b, e));
    if (scalar)
        SN_TRY(check_scalar(b, e));
    if (b->open && b->open->kind == SN_YAML_MAP && !b->key)
        return take_key(b, e);
    if (b->doc->n_nodes >= SN_YAML_MAX_NODES)
        return fail(b, e->start_mark, "more than %d values; want a smaller file",
                    SN_YAML_MAX_NODES);
    if (!scalar && ++b->depth > SN_YAML_MAX_DEPTH)
        return fail(b, e->start_mark, "more than %d levels deep; want fewer", SN_YAML_MAX_DEPTH);
    enum sn_yaml_kind kind = scalar                                ? SN_YAML_SCALAR
                             : e->type == YAML_MAPPING_START_EVENT ? SN_YAML_MAP
                                                                   : SN_YAML_LIST;
    struct sn_yaml_node *n = sn_yaml_add(b->doc, b->open, kind, NULL,
                                         scalar ? (const char *)e->data.scalar.value : NULL);
    if (!n)
        return no_memory(b);
    n->line = (int)e->start_mark.line + 1;
    n->col = (int)e->start_mark.column + 1;
    n->quoted = scalar && e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->key = b->key;
    n->key_line = b->key_line;
    n->key_col = b->key_col;
    b->key = NULL;
    if (!scalar)
        b->open = n;
    return SN_OK;
}

static enum sn_status take_event(struct builder *b, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++)
            return fail(b, e->start_mark, "a second document; want one per file");
        return SN_OK;
    case YAML_ALIAS_EVENT:
        return fail(b, e->start_mark, "aliases are not read; write the value out");
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return add_node(b, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->open = b->open->parent;
        b->depth--;
        return SN_OK;
    default:
        return SN_OK;
    }
}

/* libyaml's reader gives a byte offset, its scanner and parser a mark. */
static yaml_mark_t mark_of_offset(const char *text, size_t len, size_t offset)
{
    yaml_mark_t at = {0};
    for (size_t i = 0; i < len && i < offset; i++) {
        bool newline = text[i] == '\n';
        at.line += newline;
        at.column = newline ? 0 : at.column + 1;
    }
    return at;
}

/* Is the mark's line indented with a tab? */
static bool is_tab(const char *text, size_t len, yaml_mark_t at)
{
    size_t i = 0;
    for (size_t line = 0; line < at.line && i < len; i++)
        line += text[i] == '\n';
    while (i < len && text[i] == ' ')
        i++;
    return i < len && text[i] == '\t';
}

static enum sn_status fail_parser(struct builder *b, const yaml_parser_t *p, const char *text,
                                  size_t len)
{
    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(b);
    bool reader = p->error == YAML_READER_ERROR;
    yaml_mark_t at = reader ? mark_of_offset(text, len, p->problem_offset) : p->problem_mark;
    if (!reader && is_tab(text, len, at))
        return fail(b, at, "a tab in the indentation; YAML wants blanks");
    return fail(b, at, "not YAML: %s; %s", p->problem ? p->problem : "unreadable",
                reader ? "want printable UTF-8 text"
                       : "check indentation, quotes and brackets here");
}

static enum sn_status build(struct builder *b, const char *text, size_t len)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return no_memory(b);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    enum sn_status st = SN_OK;
    bool ended = false;
    while (st == SN_OK && !ended) {
        yaml_event_t e;
        if (!yaml_parser_parse(&parser, &e)) {
            st = fail_parser(b, &parser, text, len);
            break;
        }
        st = take_event(b, &e);
        ended = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&parser);
    sn_free(b->key);
    return st;
}

enum sn_status sn_yaml_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                             const char *path, struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    SN_TRY(sn_yaml_create(&doc, path, err));
    struct builder b = {.doc = doc, .err = err};
    yaml_mark_t start = {0};
    enum sn_status st = SN_OK;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* what some editors put before UTF-8 */
        text += 3;
        len -= 3;
    }
    const char *nul = len ? memchr(text, 0, len) : NULL;
    if (len > SN_YAML_MAX_BYTES)
        st = fail(&b, start, "%zu bytes; want at most %d", len, SN_YAML_MAX_BYTES);
    else if (nul)
        st = fail(&b, mark_of_offset(text, len, (size_t)(nul - text)),
                  "a NUL byte; want a text file");
    else
        st = build(&b, text, len);
    if (st != SN_OK) {
        sn_yaml_destroy(doc);
        return st;
    }
    *out = doc;
    return SN_OK;
}
