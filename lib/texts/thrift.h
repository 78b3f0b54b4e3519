/*
 * thrift.h - Thrift's compact protocol, read in place: in it Parquet says what its files hold.
 *
 * A struct is read field by field; who does not know one skips it:
 *
 *   for (struct sn_thrift_field f = {0}; sn_thrift_next(&t, &f);)
 *       if (f.id == 3)
 *           rows = sn_thrift_int(&t, f.type);
 *       else
 *           sn_thrift_skip(&t, f.type);
 *
 * What is damaged or cut short makes t.is_bad, and every later value 0.
 */
#ifndef SN_THRIFT_H
#define SN_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sn_thrift_type {
    SN_THRIFT_TRUE = 1,
    SN_THRIFT_FALSE,
    SN_THRIFT_BYTE,
    SN_THRIFT_I16,
    SN_THRIFT_I32,
    SN_THRIFT_I64,
    SN_THRIFT_DOUBLE,
    SN_THRIFT_BINARY,
    SN_THRIFT_LIST,
    SN_THRIFT_SET,
    SN_THRIFT_MAP,
    SN_THRIFT_STRUCT
};

/* A number of 7 bits a byte, the lowest first, and such a one with its sign in the lowest bit; *p moves
 * behind it. False: it is cut short, or longer than 64 bits. */
bool sn_varint(const unsigned char **p, const unsigned char *end, uint64_t *out);
bool sn_zigzag(const unsigned char **p, const unsigned char *end, int64_t *out);

struct sn_thrift {
    const unsigned char *p, *end;
    bool is_bad;
};
struct sn_thrift_field {
    int64_t id;
    int type;
};

/* The next field of a struct; false behind its last, and where it is damaged. */
bool sn_thrift_next(struct sn_thrift *t, struct sn_thrift_field *f);
/* A number or a truth value of this type; another type is damage. */
int64_t sn_thrift_int(struct sn_thrift *t, int type);
/* The bytes of a text, in place. */
const char *sn_thrift_text(struct sn_thrift *t, int type, size_t *len);
/* A list's length, at most the bytes that are left, and the type of its elements. */
int64_t sn_thrift_list(struct sn_thrift *t, int type, int *of);
/* A value that nobody wants. */
void sn_thrift_skip(struct sn_thrift *t, int type);

#endif
