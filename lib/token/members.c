#include "lib/token/members.h"

#include <stdio.h>

enum { NAME = 64 };

enum sn_status sn_members_text(struct sn_json v, const char *where, struct sn_bytes *out,
                               struct sn_err *err)
{
    if (!v.at || *v.at != '"')
        return sn_fail(err, SN_EINPUT, "%s: is no text", where);
    if (!sn_bytes_room(out, v.len))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for it", where);
    int64_t n = sn_json_unescape(v, out->p + out->len);
    if (sn_utf8_check(out->p + out->len, (size_t)n) != (size_t)n)
        return sn_fail(err, SN_EINPUT, "%s: is no valid UTF-8", where);
    out->len += (size_t)n;
    return SN_OK;
}

static bool is_null(struct sn_json v)
{
    return v.at && *v.at == 'n';
}

static enum sn_status read_field(struct sn_json v, const char *where, const struct sn_member *f,
                                 struct sn_err *err)
{
    char place[192];
    (void)snprintf(place, sizeof(place), "%s.%s", where, f->name);
    if (f->type == SN_MEMBER_ANY)
        *(struct sn_json *)f->to = v;
    if (f->type == SN_MEMBER_ANY || f->type == SN_MEMBER_NOTHING || is_null(v))
        return SN_OK;
    if (f->type == SN_MEMBER_TEXT)
        return sn_members_text(v, place, f->to, err);
    if (f->type == SN_MEMBER_BOOL && !sn_json_bool(v, f->to))
        return sn_fail(err, SN_EINPUT, "%s: want true or false", place);
    if (f->type == SN_MEMBER_INTEGER && !sn_json_integer(v, f->to))
        return sn_fail(err, SN_EINPUT, "%s: want a whole number", place);
    return SN_OK;
}

enum sn_status sn_members_read(struct sn_json object, const char *where,
                               const struct sn_member *fields, int n, struct sn_err *err)
{
    struct sn_json name, value;
    if (!object.at || *object.at != '{')
        return sn_fail(err, SN_EINPUT, "%s: want an object", where);
    for (size_t at = 0; sn_json_next(object, &at, &name, &value);) {
        char text[NAME];
        int i = 0;
        (void)sn_json_text(name, text, sizeof(text));
        while (i < n && strcmp(fields[i].name, text) != 0)
            i++;
        if (i == n)
            return sn_fail(err, SN_EINPUT,
                           "%s: '%s' is not known; a member that is passed over may change tokens",
                           where, text);
        SN_TRY(read_field(value, where, &fields[i], err));
    }
    return SN_OK;
}

enum sn_status sn_members_type(struct sn_json object, const char *where, const char *const *names,
                               int n, int *which, struct sn_err *err)
{
    char text[NAME];
    sn_json_get_text(object, "type", text, sizeof(text));
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], text) == 0) {
            *which = i;
            return SN_OK;
        }
    if (!text[0])
        return sn_fail(err, SN_EINPUT, "%s: has no type", where);
    return sn_fail(err, SN_EINPUT, "%s: type '%s' is not done here", where, text);
}

static int digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

int64_t sn_base64(const char *p, size_t len, char *out)
{
    int64_t n = 0;
    uint32_t bits = 0;
    size_t i = 0, padding = 0;
    if (len % 4 != 0)
        return -1;
    while (padding < 2 && padding < len && p[len - 1 - padding] == '=')
        padding++;
    for (; i < len - padding; i++) {
        int d = digit(p[i]);
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 != 0)
            out[n++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    return n;
}
