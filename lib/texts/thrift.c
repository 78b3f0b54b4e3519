#include "lib/texts/thrift.h"

enum { DEPTH = 32 };

static int64_t bad(struct sn_thrift *t)
{
    t->is_bad = true;
    t->p = t->end;
    return 0;
}

static int byte_of(struct sn_thrift *t)
{
    return t->p < t->end ? *t->p++ : (int)bad(t);
}

bool sn_varint(const unsigned char **p, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        int b = *(*p)++;
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return true;
    }
    return false;
}

bool sn_zigzag(const unsigned char **p, const unsigned char *end, int64_t *out)
{
    uint64_t v;
    if (!sn_varint(p, end, &v))
        return false;
    *out = (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
    return true;
}

static uint64_t varint(struct sn_thrift *t)
{
    uint64_t v;
    return sn_varint(&t->p, t->end, &v) ? v : (uint64_t)bad(t);
}

static int64_t zigzag(struct sn_thrift *t)
{
    int64_t v;
    return sn_zigzag(&t->p, t->end, &v) ? v : bad(t);
}

bool sn_thrift_next(struct sn_thrift *t, struct sn_thrift_field *f)
{
    int head = byte_of(t);
    f->type = head & 15;
    if (t->is_bad || f->type == 0)
        return false;
    f->id = head >> 4 ? f->id + (head >> 4) : zigzag(t);
    return !t->is_bad;
}

int64_t sn_thrift_int(struct sn_thrift *t, int type)
{
    switch (type) {
    case SN_THRIFT_TRUE:
        return 1;
    case SN_THRIFT_FALSE:
        return 0;
    case SN_THRIFT_BYTE:
        return (int8_t)byte_of(t);
    case SN_THRIFT_I16:
    case SN_THRIFT_I32:
    case SN_THRIFT_I64:
        return zigzag(t);
    default:
        return bad(t);
    }
}

static const char *take(struct sn_thrift *t, uint64_t n)
{
    const unsigned char *p = t->p;
    if (n > (uint64_t)(t->end - t->p))
        (void)bad(t);
    else
        t->p += n;
    return t->is_bad ? "" : (const char *)p;
}

const char *sn_thrift_text(struct sn_thrift *t, int type, size_t *len)
{
    uint64_t n = type == SN_THRIFT_BINARY ? varint(t) : (uint64_t)bad(t);
    const char *p = take(t, n);
    *len = t->is_bad ? 0 : (size_t)n;
    return p;
}

int64_t sn_thrift_list(struct sn_thrift *t, int type, int *of)
{
    int head = type == SN_THRIFT_LIST || type == SN_THRIFT_SET ? byte_of(t) : (int)bad(t);
    uint64_t n = head >> 4 == 15 ? varint(t) : (uint64_t)(head >> 4);
    *of = head & 15;
    if (n > (uint64_t)(t->end - t->p)) /* each element has a byte at least */
        return bad(t);
    return (int64_t)n;
}

static void skip(struct sn_thrift *t, int type, bool is_element, int depth);

static void skip_all(struct sn_thrift *t, int type, int depth)
{
    int of;
    int64_t n = sn_thrift_list(t, type, &of);
    for (int64_t i = 0; i < n && !t->is_bad; i++)
        skip(t, of, true, depth);
}

static void skip_map(struct sn_thrift *t, int depth)
{
    uint64_t n = varint(t);
    int types = n > 0 ? byte_of(t) : 0;
    for (uint64_t i = 0; i < n && !t->is_bad; i++) {
        skip(t, types >> 4, true, depth);
        skip(t, types & 15, true, depth);
    }
}

/* As an element a truth value has a byte of its own; as a field it is its type. */
static void skip(struct sn_thrift *t, int type, bool is_element, int depth)
{
    size_t len;
    if (depth > DEPTH)
        (void)bad(t);
    else if (type == SN_THRIFT_TRUE || type == SN_THRIFT_FALSE)
        (void)(is_element && byte_of(t));
    else if (type == SN_THRIFT_DOUBLE)
        (void)take(t, 8);
    else if (type == SN_THRIFT_BINARY)
        (void)sn_thrift_text(t, type, &len);
    else if (type == SN_THRIFT_LIST || type == SN_THRIFT_SET)
        skip_all(t, type, depth + 1);
    else if (type == SN_THRIFT_MAP)
        skip_map(t, depth + 1);
    else if (type == SN_THRIFT_STRUCT)
        for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);)
            skip(t, f.type, false, depth + 1);
    else
        (void)sn_thrift_int(t, type);
}

void sn_thrift_skip(struct sn_thrift *t, int type)
{
    skip(t, type, false, 0);
}
