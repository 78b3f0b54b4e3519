#include "lib/base/plain.h"

#include <stdio.h>
#include <string.h>

int sn_plain_decode(const char *text, unsigned *out)
{
    const unsigned char *s = (const unsigned char *)text;
    int n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned c = n < 2 ? *s : *s & (0x7fU >> n);
    for (int i = 1; i < n; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        c = c << 6 | (s[i] & 0x3fU);
    }
    *out = c;
    return n > 0 && c >= least[n] && c <= 0x10ffff ? n : 0;
}

bool sn_plain_is_obeyed(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff ||
           (c >= 0xd800 && c <= 0xdfff);
}

void sn_plain(char *to, size_t room, const char *from)
{
    const unsigned char *s = (const unsigned char *)from;
    size_t at = 0;
    while (*s) {
        char shown[5] = {0};
        unsigned c = 0;
        int n = sn_plain_decode((const char *)s, &c);
        if (n > 0 && !sn_plain_is_obeyed(c))
            memcpy(shown, s, (size_t)n);
        else if (*s == '\n' || *s == '\t')
            (void)snprintf(shown, sizeof(shown), "\\%c", *s == '\n' ? 'n' : 't');
        else
            (void)snprintf(shown, sizeof(shown), "\\x%02x", *s);
        size_t length = strlen(shown);
        if (at + length >= room)
            break;
        memcpy(to + at, shown, length);
        at += length;
        s += n > 0 && !sn_plain_is_obeyed(c) ? n : 1;
    }
    if (room > 0)
        to[at] = '\0';
}

void sn_plain_lines(char *text)
{
    for (unsigned char *s = (unsigned char *)text; s && *s;) {
        unsigned c = 0;
        int n = sn_plain_decode((const char *)s, &c);
        if (n == 0 || (sn_plain_is_obeyed(c) && c != '\n' && c != '\t'))
            memset(s, '?', n > 0 ? (size_t)n : 1);
        s += n > 0 ? n : 1;
    }
}
