/*
 * data_index.c - is an index true to the format and to the size of its token file?
 *
 * Works on bytes in memory and opens nothing, so that it can be fuzzed.
 */
#include "lib/data/data_format.h"

/* clang-format off */
static const struct sn_token_type token_types[] = {
    /* code       size  max        name */
    {SN_TOK_U8,   1,    UINT8_MAX,  "u8"},
    {SN_TOK_I8,   1,    INT8_MAX,   "i8"},
    {SN_TOK_I16,  2,    INT16_MAX,  "i16"},
    {SN_TOK_I32,  4,    INT32_MAX,  "i32"},
    {SN_TOK_I64,  8,    INT32_MAX,  "i64"},
    {SN_TOK_U16,  2,    UINT16_MAX, "u16"},
};
/* clang-format on */
enum { N_TOKEN_TYPES = sizeof(token_types) / sizeof(token_types[0]) };

struct index_view {
    const unsigned char *bytes;
    size_t len;
    const char *name;
    int token_size;
    int64_t sequences, bounds; /* bounds: documents + 1 */
    size_t offsets_at, bounds_at;
};

const struct sn_token_type *sn_token_type_find(int code)
{
    for (int i = 0; i < N_TOKEN_TYPES; i++)
        if (token_types[i].code == code)
            return &token_types[i];
    return NULL;
}

const struct sn_token_type *sn_token_type_named(const char *name)
{
    if (strcmp(name, "u32") == 0) /* the same bytes for every token that sennit can train on */
        name = "i32";
    for (int i = 0; i < N_TOKEN_TYPES; i++)
        if (strcmp(token_types[i].name, name) == 0)
            return &token_types[i];
    return NULL;
}

static enum sn_status check_header(struct index_view *v, struct sn_data_info *info,
                                   struct sn_err *err)
{
    enum { MAGIC = 9 };
    size_t have = v->len < MAGIC ? v->len : MAGIC;
    if (memcmp(v->bytes, SN_IDX_MAGIC, have) != 0)
        return sn_fail(
            err, SN_EINPUT,
            "%s: byte 0: this is no index, which begins with MMIDIDX; name the .idx file "
            "that belongs to the .bin",
            v->name);
    if (v->len < SN_IDX_HEADER_BYTES)
        return sn_fail(
            err, SN_EINPUT,
            "%s: byte %zu: the file ends inside the header of %d bytes; copy or build it "
            "again",
            v->name, v->len, SN_IDX_HEADER_BYTES);
    uint64_t version = (uint64_t)sn_le_i64(v->bytes + 9);
    if (version != 1)
        return sn_fail(err, SN_EINPUT, "%s: byte 9: version %llu of the format; want version 1",
                       v->name, (unsigned long long)version);
    info->dtype_code = v->bytes[17];
    const struct sn_token_type *type = sn_token_type_find(info->dtype_code);
    if (!type)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte 17: dtype code %d does not stand for tokens; want 1 (u8), 2 (i8), "
                       "3 (i16), 4 (i32), 5 (i64) or 8 (u16)",
                       v->name, info->dtype_code);
    v->token_size = type->size;
    return SN_OK;
}

/* Do the counts fill the file exactly? Leaves the places of the three arrays in *v. */
static enum sn_status check_counts(struct index_view *v, struct sn_err *err)
{
    uint64_t sequences = (uint64_t)sn_le_i64(v->bytes + 18);
    uint64_t bounds = (uint64_t)sn_le_i64(v->bytes + 26);
    size_t room = v->len - SN_IDX_HEADER_BYTES;
    if (sequences > room / 12)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte 18: %llu sequences do not fit into an index of %zu bytes; copy or "
                       "build it again",
                       v->name, (unsigned long long)sequences, v->len);
    room -= (size_t)sequences * 12;
    if (bounds > room / 8)
        return sn_fail(
            err, SN_EINPUT,
            "%s: byte 26: %llu document bounds do not fit into an index of %zu bytes with "
            "%llu sequences; copy or build it again",
            v->name, (unsigned long long)bounds, v->len, (unsigned long long)sequences);
    if (bounds == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte 26: 0 document bounds; want one more than there are documents",
                       v->name);
    room -= (size_t)bounds * 8;
    if (room != 0 && room != sequences)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte %zu: %zu bytes follow the document bounds; want none, or one mode "
                       "byte for each of the %llu sequences",
                       v->name, v->len - room, room, (unsigned long long)sequences);
    v->sequences = (int64_t)sequences;
    v->bounds = (int64_t)bounds;
    v->offsets_at = SN_IDX_HEADER_BYTES + (size_t)sequences * 4;
    v->bounds_at = v->offsets_at + (size_t)sequences * 8;
    return SN_OK;
}

/* Sequences must lie back to back, because a sample is a range of the concatenated file. */
static enum sn_status check_sequences(const struct index_view *v, int64_t bin_bytes,
                                      struct sn_data_info *info, struct sn_err *err)
{
    int64_t end = 0;
    for (int64_t i = 0; i < v->sequences; i++) {
        size_t length_at = SN_IDX_HEADER_BYTES + (size_t)i * 4;
        size_t offset_at = v->offsets_at + (size_t)i * 8;
        int32_t length = sn_le_i32(v->bytes + length_at);
        int64_t offset = sn_le_i64(v->bytes + offset_at);
        if (length < 0)
            return sn_fail(err, SN_EINPUT,
                           "%s: byte %zu: sequence %lld has length %d; want 0 or more", v->name,
                           length_at, (long long)i, (int)length);
        if (offset != end)
            return sn_fail(
                err, SN_EINPUT,
                "%s: byte %zu: sequence %lld starts at byte %lld of the .bin, but the one "
                "before it ends at %lld; sennit needs sequences back to back, as "
                "'sennit-data build' writes them",
                v->name, offset_at, (long long)i, (long long)offset, (long long)end);
        if (__builtin_add_overflow(end, (int64_t)length * v->token_size, &end) || end > bin_bytes)
            return sn_fail(
                err, SN_EINPUT,
                "%s: byte %zu: sequence %lld needs more than the %lld bytes of the .bin; "
                "copy or build both files again",
                v->name, length_at, (long long)i, (long long)bin_bytes);
    }
    if (end != bin_bytes)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte %zu: the sequences end at byte %lld of the .bin, which has %lld "
                       "bytes; copy or build both files again",
                       v->name, v->offsets_at, (long long)end, (long long)bin_bytes);
    info->tokens = end / v->token_size;
    return SN_OK;
}

static enum sn_status check_documents(const struct index_view *v, struct sn_err *err)
{
    int64_t before = 0;
    for (int64_t i = 0; i < v->bounds; i++) {
        size_t at = v->bounds_at + (size_t)i * 8;
        int64_t bound = sn_le_i64(v->bytes + at);
        if (i == 0 && bound != 0)
            return sn_fail(err, SN_EINPUT,
                           "%s: byte %zu: the first document begins at sequence %lld; want 0",
                           v->name, at, (long long)bound);
        if (bound < before || bound > v->sequences)
            return sn_fail(err, SN_EINPUT,
                           "%s: byte %zu: document bound %lld is sequence %lld; want %lld .. %lld",
                           v->name, at, (long long)i, (long long)bound, (long long)before,
                           (long long)v->sequences);
        before = bound;
    }
    if (before != v->sequences)
        return sn_fail(
            err, SN_EINPUT,
            "%s: byte %zu: the last document ends at sequence %lld; want %lld, the number "
            "of sequences",
            v->name, v->bounds_at + (size_t)(v->bounds - 1) * 8, (long long)before,
            (long long)v->sequences);
    return SN_OK;
}

/* Mode 0 is text; other modes mark images, which are no tokens. */
static enum sn_status check_modes(const struct index_view *v, struct sn_err *err)
{
    for (size_t at = v->bounds_at + (size_t)v->bounds * 8; at < v->len; at++)
        if (v->bytes[at] != 0)
            return sn_fail(
                err, SN_EINPUT,
                "%s: byte %zu: sequence %zu has mode %d, which is not text; sennit trains "
                "on text alone (mode 0)",
                v->name, at, at - v->bounds_at - (size_t)v->bounds * 8,
                (int)(signed char)v->bytes[at]);
    return SN_OK;
}

static enum sn_status look(struct index_view *v, struct sn_data_info *info, struct sn_err *err)
{
    if (v->len == 0)
        return sn_fail(err, SN_EINPUT, "%s: byte 0: the file is empty; build it again", v->name);
    SN_TRY(check_header(v, info, err));
    SN_TRY(check_counts(v, err));
    info->sequences = v->sequences;
    info->documents = v->bounds - 1;
    return SN_OK;
}

enum sn_status sn_data_check_index(const void *idx, size_t len, int64_t bin_bytes, const char *name,
                                   struct sn_data_info *out, struct sn_err *err)
{
    struct index_view v = {.bytes = idx, .len = len, .name = name};
    struct sn_data_info info = {0};
    SN_TRY(look(&v, &info, err));
    SN_TRY(check_sequences(&v, bin_bytes, &info, err));
    SN_TRY(check_documents(&v, err));
    SN_TRY(check_modes(&v, err));
    if (out)
        *out = info;
    return SN_OK;
}

enum sn_status sn_data_look_index(const void *idx, size_t len, int64_t bin_bytes, const char *name,
                                  struct sn_data_info *out, struct sn_err *err)
{
    struct index_view v = {.bytes = idx, .len = len, .name = name};
    struct sn_data_info info = {0};
    SN_TRY(look(&v, &info, err));
    info.tokens = bin_bytes / v.token_size;
    *out = info;
    return SN_OK;
}
