#include "lib/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 32, WORD = 64 };

static const char *skip_value(const char *p, const char *end, int depth);

static const char *blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

/* ---- where a value ends; NULL: it is none ---------------------------------------------------- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static const char *skip_escape(const char *p, const char *end)
{
    if (p == end || !strchr("\"\\/bfnrtu", *p) || *p == '\0')
        return NULL;
    if (*p != 'u')
        return p + 1;
    for (int i = 1; i <= 4; i++)
        if (p + i >= end || !is_hex(p[i]))
            return NULL;
    return p + 5;
}

static const char *skip_string(const char *p, const char *end)
{
    if (p == end || *p != '"')
        return NULL;
    for (p++; p && p < end && *p != '"';) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        p = *p == '\\' ? skip_escape(p + 1, end) : p + 1;
    }
    return p && p < end ? p + 1 : NULL;
}

/* A number, true, false or null, copied with a NUL; 0: none. */
static size_t copy_word(char out[WORD], const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && n + 1 < WORD &&
           (strchr("+-.", p[n]) || (p[n] >= '0' && p[n] <= '9') || (p[n] >= 'a' && p[n] <= 'z') ||
            p[n] == 'E') &&
           p[n] != '\0') {
        out[n] = p[n];
        n++;
    }
    out[n] = '\0';
    return n;
}

static bool is_number(const char *word)
{
    char *stop;
    if (*word != '-' && !(*word >= '0' && *word <= '9'))
        return false; /* no nan, inf, 0x: those are not JSON */
    if (strpbrk(word, "xXpPnN"))
        return false;
    (void)strtod(word, &stop);
    return stop != word && *stop == '\0';
}

static const char *skip_word(const char *p, const char *end)
{
    char word[WORD];
    size_t n = copy_word(word, p, end);
    if (n && (is_number(word) || !strcmp(word, "true") || !strcmp(word, "false") ||
              !strcmp(word, "null")))
        return p + n;
    return NULL;
}

static const char *skip_name(const char *p, const char *end)
{
    p = skip_string(blanks(p, end), end);
    p = p ? blanks(p, end) : NULL;
    return p && p < end && *p == ':' ? p + 1 : NULL;
}

static const char *skip_group(const char *p, const char *end, int depth)
{
    bool named = *p == '{';
    char close = named ? '}' : ']';
    p = blanks(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    for (;;) {
        if (named && !(p = skip_name(p, end)))
            return NULL;
        p = skip_value(p, end, depth + 1);
        p = p ? blanks(p, end) : end;
        if (p == end || (*p != close && *p != ','))
            return NULL;
        if (*p++ == close)
            return p;
    }
}

static const char *skip_value(const char *p, const char *end, int depth)
{
    p = blanks(p, end);
    if (p == end || depth > DEPTH)
        return NULL;
    if (*p == '"')
        return skip_string(p, end);
    return *p == '{' || *p == '[' ? skip_group(p, end, depth) : skip_word(p, end);
}

bool sn_json_parse(struct sn_json *out, const char *text, size_t len)
{
    const char *end = text + len, *at = blanks(text, end), *stop = skip_value(at, end, 0);
    if (!stop || blanks(stop, end) != end)
        return false;
    *out = (struct sn_json){at, (size_t)(stop - at)};
    return true;
}

/* ---- inside ---------------------------------------------------------------------------------- */

bool sn_json_next(struct sn_json group, size_t *at, struct sn_json *name, struct sn_json *value)
{
    if (!group.at || (*group.at != '{' && *group.at != '['))
        return false;
    const char *end = group.at + group.len, *p = group.at + (*at ? *at : 1);
    p = blanks(p, end);
    if (p < end && *p == ',')
        p = blanks(p + 1, end);
    if (p == end || *p == '}' || *p == ']')
        return false;
    *name = (struct sn_json){0};
    if (*group.at == '{') {
        const char *stop = skip_string(p, end);
        *name = (struct sn_json){p, (size_t)(stop - p)};
        p = blanks(skip_name(p, end), end);
    }
    const char *stop = skip_value(p, end, 0);
    *value = (struct sn_json){p, (size_t)(stop - p)};
    *at = (size_t)(stop - group.at);
    return true;
}

struct sn_json sn_json_get(struct sn_json object, const char *name)
{
    char text[128];
    struct sn_json n, v;
    if (!object.at || *object.at != '{')
        return (struct sn_json){0};
    for (size_t at = 0; sn_json_next(object, &at, &n, &v);)
        if (sn_json_text(n, text, sizeof(text)) && strcmp(text, name) == 0)
            return v;
    return (struct sn_json){0};
}

bool sn_json_number(struct sn_json v, double *out)
{
    char word[WORD];
    if (!v.at || !copy_word(word, v.at, v.at + v.len) || !is_number(word))
        return false;
    *out = strtod(word, NULL);
    return true;
}

bool sn_json_integer(struct sn_json v, int64_t *out)
{
    char word[WORD], *stop;
    if (!v.at || !copy_word(word, v.at, v.at + v.len) || !is_number(word))
        return false;
    errno = 0;
    long long n = strtoll(word, &stop, 10);
    if (errno || *stop)
        return false;
    *out = n;
    return true;
}

bool sn_json_bool(struct sn_json v, bool *out)
{
    if (!v.at || (*v.at != 't' && *v.at != 'f'))
        return false;
    *out = *v.at == 't';
    return true;
}

static unsigned hex4(const char *p)
{
    char digits[5] = {p[0], p[1], p[2], p[3], '\0'};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* The bytes of one escape at p (after the backslash); returns how many, *used what was read. */
static int unescape(char out[4], const char *p, const char *end, size_t *used)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    *used = 1;
    if (*p != 'u') {
        out[0] = to[strchr(from, *p) - from];
        return 1;
    }
    unsigned code = hex4(p + 1);
    *used = 5;
    if (code >= 0xd800 && code < 0xdc00 && p + 11 <= end && p[5] == '\\' && p[6] == 'u' &&
        hex4(p + 7) >> 10 == 0xdc00 >> 10) {
        code = 0x10000 + ((code - 0xd800) << 10) + ((hex4(p + 7) - 0xdc00) & 0x3ff);
        *used = 11;
    }
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | code);
    return n;
}

bool sn_json_text(struct sn_json v, char *out, size_t room)
{
    if (!v.at || *v.at != '"')
        return false;
    const char *p = v.at + 1, *end = v.at + v.len - 1;
    size_t n = 0;
    while (p < end) {
        char bytes[4] = {*p};
        size_t used = 0;
        int count = *p == '\\' ? unescape(bytes, p + 1, end, &used) : 1;
        p += used + 1;
        if (n + (size_t)count >= room)
            break;
        memcpy(out + n, bytes, (size_t)count);
        n += (size_t)count;
    }
    if (room)
        out[n] = '\0';
    return true;
}

int64_t sn_json_unescape(struct sn_json v, char *out)
{
    if (!v.at || *v.at != '"')
        return -1;
    char *to = out;
    for (const char *p = v.at + 1, *end = v.at + v.len - 1; p < end;) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        size_t used, plain = (size_t)((slash ? slash : end) - p);
        memcpy(to, p, plain);
        to += plain;
        p += plain;
        if (slash) {
            char bytes[4];
            int n = unescape(bytes, p + 1, end, &used);
            memcpy(to, bytes, (size_t)n);
            to += n;
            p += used + 1;
        }
    }
    return to - out;
}

double sn_json_get_number(struct sn_json object, const char *name, double otherwise)
{
    (void)sn_json_number(sn_json_get(object, name), &otherwise);
    return otherwise;
}

int64_t sn_json_get_integer(struct sn_json object, const char *name, int64_t otherwise)
{
    (void)sn_json_integer(sn_json_get(object, name), &otherwise);
    return otherwise;
}

void sn_json_get_text(struct sn_json object, const char *name, char *out, size_t room)
{
    if (room)
        out[0] = '\0';
    (void)sn_json_text(sn_json_get(object, name), out, room);
}
