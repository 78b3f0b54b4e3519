#include "lib/token/bytes.h"

#include "lib/base/mem.h"

/* Room for `more` items of `size` bytes behind len: twice as much at least. */
static void *grown(void *p, size_t len, size_t *cap, size_t more, size_t size)
{
    size_t want = *cap < 64 ? 64 : *cap * 2;
    if (more > SIZE_MAX / 4 / size || len > SIZE_MAX / 4 / size)
        return NULL;
    if (want < len + more)
        want = len + more;
    void *q = sn_realloc(p, want * size);
    if (q)
        *cap = want;
    return q;
}

bool sn_bytes_grow(struct sn_bytes *b, size_t more)
{
    char *p = grown(b->p, b->len, &b->cap, more, 1);
    b->p = p ? p : b->p;
    return p != NULL;
}

bool sn_text_spans_add(struct sn_text_spans *s, size_t from, size_t to)
{
    if (!sn_grow((void **)&s->list, s->n, &s->cap, sizeof(*s->list)))
        return false;
    s->list[s->n++] = (struct sn_text_span){from, to};
    return true;
}

void sn_text_spans_fini(struct sn_text_spans *s)
{
    sn_free(s->list);
    *s = (struct sn_text_spans){0};
}

void sn_bytes_fini(struct sn_bytes *b)
{
    sn_free(b->p);
    *b = (struct sn_bytes){0};
}

bool sn_ids_grow(struct sn_ids *v, size_t more)
{
    int32_t *p = grown(v->p, v->len, &v->cap, more, sizeof(*p));
    v->p = p ? p : v->p;
    return p != NULL;
}

void sn_ids_fini(struct sn_ids *v)
{
    sn_free(v->p);
    *v = (struct sn_ids){0};
}

/* The bytes of a character that is not ASCII, 0: none is here (Unicode 15, table 3-7). */
static size_t check_char(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = sn_utf8_length(p[0]);
    if (n > left)
        return 0;
    low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : low;
    high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : high;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

size_t sn_utf8_check(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < len;) {
        uint64_t eight;
        if (len - i >= 8 && (memcpy(&eight, p + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        size_t n = p[i] < 0x80 ? 1 : check_char(p + i, len - i);
        if (n == 0)
            return i;
        i += n;
    }
    return len;
}
