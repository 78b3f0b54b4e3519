#include "lib/base/str.h"

#include "lib/base/mem.h"
#include "lib/base/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(struct sn_str *s, size_t extra)
{
    if (s->failed)
        return false;
    if (s->len + extra + 1 <= s->cap)
        return true;
    size_t cap = (s->len + extra + 1) * 2;
    char *p = sn_realloc(s->p, cap);
    if (!p) {
        s->failed = true;
        return false;
    }
    s->p = p;
    s->cap = cap;
    return true;
}

void sn_str_add(struct sn_str *s, const char *fmt, ...)
{
    va_list ap;
    size_t room = s->cap - s->len;
    if (s->failed)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(room ? s->p + s->len : NULL, room, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n >= room) {
        if (room)
            s->p[s->len] = '\0'; /* what did not fit was cut off */
        if (!reserve(s, (size_t)n))
            return;
        va_start(ap, fmt);
        (void)vsnprintf(s->p + s->len, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    s->len += n > 0 ? (size_t)n : 0;
}

void sn_str_add_json_n(struct sn_str *s, const char *text, size_t len)
{
    unsigned character;
    int n;
    const unsigned char *end = (const unsigned char *)text + len;
    sn_str_add(s, "\"");
    for (const unsigned char *c = (const unsigned char *)text; c < end; c++) {
        if (*c == '"' || *c == '\\')
            sn_str_add(s, "\\%c", *c);
        else if (*c == '\0')
            sn_str_add(s, "\\u0000");
        else if (*c == '\n')
            sn_str_add(s, "\\n");
        else if (*c >= 0xc0 && end - c < (*c < 0xe0 ? 2 : *c < 0xf0 ? 3 : 4))
            sn_str_add(s, "%c", *c); /* cut off */
        else if ((n = sn_plain_decode((const char *)c, &character)) > 0 &&
                 sn_plain_is_obeyed(character)) {
            sn_str_add(s, "\\u%04x", character); /* all of them lie below 0x10000 */
            c += n - 1;
        } else
            sn_str_add(s, "%c", *c);
    }
    sn_str_add(s, "\"");
}

void sn_str_add_json(struct sn_str *s, const char *text)
{
    sn_str_add_json_n(s, text, strlen(text));
}

void sn_str_fini(struct sn_str *s)
{
    sn_free(s->p);
    *s = (struct sn_str){0};
}

int sn_str_distance(const char *a, const char *b)
{
    enum { LONGEST = 64, FAR = 99 };
    int row[LONGEST + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return FAR;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[nb];
}

const char *sn_str_bytes(char buf[16], int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024.0 && u + 1 < sizeof(unit) / sizeof(unit[0])) {
        v /= 1024.0;
        u++;
    }
    (void)snprintf(buf, 16, u && v < 100 ? "%.2f %s" : "%.0f %s", v, unit[u]);
    return buf;
}

const char *sn_str_seconds(char buf[16], double seconds)
{
    const char *unit = seconds >= 1 ? "s" : seconds >= 1e-3 ? "ms" : "us";
    double scale = seconds >= 1 ? 1 : seconds >= 1e-3 ? 1e3 : 1e6;
    (void)snprintf(buf, 16, "%.4g %s", seconds * scale, unit);
    return buf;
}

const char *sn_str_names(char *buf, size_t size, const char *const *names, unsigned bits)
{
    size_t len = 0;
    buf[0] = '\0';
    for (int i = 0; bits != 0 && len < size; i++, bits >>= 1) {
        if (!(bits & 1u))
            continue;
        unsigned rest = bits >> 1; /* what is named after this one */
        const char *then = rest == 0 ? "" : (rest & (rest - 1)) == 0 ? " or " : ", ";
        len += (size_t)snprintf(buf + len, size - len, "%s%s", names[i], then);
    }
    return buf;
}

bool sn_str_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '?' || (*pattern == *text && *pattern != '*')) {
            pattern++;
            text++;
        } else if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
