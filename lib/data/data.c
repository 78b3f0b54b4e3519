/*
 * data.c - token files: samples are read, what people look at is mapped.
 *
 * Knows nothing of ranks: who reads which sample is the caller's arithmetic.
 */
#include "lib/data/data_format.h"

#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/base/open_files.h"
#include "lib/base/rng.h"
#include "lib/data/features.h"
#include "lib/data/mask.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sn_data {
    struct sn_data_mapped bin, idx;
    int fd; /* of the .bin */
    struct sn_data_mask *mask; /* or NULL */
    struct sn_features *features; /* or NULL */
    struct sn_data_info info;
    int token_size;
};

/* --- opening ----------------------------------------------------------------------------- */

size_t sn_data_prefix_length(const char *prefix)
{
    size_t n = strlen(prefix);
    bool has_suffix = n > 4 && prefix[n - 5] != '/' &&
                      (strcmp(prefix + n - 4, ".bin") == 0 || strcmp(prefix + n - 4, ".idx") == 0);
    return has_suffix ? n - 4 : n;
}

char *sn_data_file_path(const char *prefix, const char *suffix)
{
    return sn_format("%.*s.%s", (int)sn_data_prefix_length(prefix), prefix, suffix);
}

enum sn_status sn_data_read_fail(struct sn_err *err, const char *path, int errnum)
{
    char text[128];
    if (sn_input_is_odd(errnum) && errnum != EISDIR)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read: %s; name a file", path,
                       sn_input_why(errnum));
    switch (errnum) {
    case ELOOP:
        return sn_fail(err, SN_EINPUT, "%s: a link that leads nowhere; name a file", path);
    case ENOENT:
    case ENOTDIR:
        return sn_fail(err, SN_EINPUT, "%s: there is no such file; check the name", path);
    case EISDIR:
        return sn_fail(err, SN_EINPUT, "%s: this is a folder; name a file", path);
    case EACCES:
    case EPERM:
        return sn_fail(err, SN_EINPUT, "%s: permission denied; make the file readable", path);
    case ENOMEM:
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path);
    default:
        return sn_fail(err, SN_EIO, "%s: cannot be read (%s); check its file system", path,
                       strerror_r(errnum, text, sizeof(text)));
    }
}

enum sn_status sn_data_map(struct sn_data_mapped *m, const char *prefix, const char *suffix,
                           const char *hint, struct sn_open_files *files, int *keep,
                           struct sn_err *err)
{
    m->path = suffix ? sn_data_file_path(prefix, suffix) : sn_format("%s", prefix);
    if (!m->path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a file name", prefix);
    struct stat info;
    int fd = sn_open_files_get(files, m->path, &info);
    if (fd < 0 && errno == ENOENT)
        return sn_fail(err, SN_EINPUT, "%s: there is no such file; %s", m->path, hint);
    if (fd < 0)
        return sn_data_read_fail(err, m->path, errno);
    int failure = 0;
    if (info.st_size > 0) {
        void *p = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        failure = p == MAP_FAILED ? errno : 0;
        if (failure == 0) {
            m->bytes = p;
            m->len = (size_t)info.st_size;
        }
    }
    if (keep && failure == 0)
        *keep = fd;
    else
        (void)close(fd); /* the mapping stays, and reading leaves nothing to flush */
    return failure ? sn_data_read_fail(err, m->path, failure) : SN_OK;
}

void sn_data_unmap(struct sn_data_mapped *m)
{
    if (m->bytes)
        (void)munmap(m->bytes, m->len); /* our own mapping: cannot fail */
    sn_free(m->path);
}

typedef enum sn_status sn_check_index(const void *idx, size_t len, int64_t bin_bytes,
                                      const char *name, struct sn_data_info *out,
                                      struct sn_err *err);

enum sn_status sn_data_open_shared(struct sn_data **out, const char *prefix, bool checks,
                                   struct sn_open_files *files, struct sn_err *err)
{
    sn_check_index *check = checks ? sn_data_check_index : sn_data_look_index;
    struct sn_data *d = sn_alloc(sizeof(*d));
    if (!d)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", prefix);
    d->fd = -1;
    const char *hint = "'sennit-data build -o PREFIX' writes PREFIX.bin and PREFIX.idx";
    enum sn_status st = sn_data_map(&d->idx, prefix, "idx", hint, files, NULL, err);
    if (st == SN_OK)
        st = sn_data_map(&d->bin, prefix, "bin", hint, files, &d->fd, err);
    if (st == SN_OK)
        st = check(d->idx.bytes, d->idx.len, (int64_t)d->bin.len, d->idx.path, &d->info, err);
    if (st != SN_OK) {
        sn_data_close(d);
        return st;
    }
    d->token_size = sn_token_type_find(d->info.dtype_code)->size;
    *out = d;
    return SN_OK;
}

enum sn_status sn_data_open(struct sn_data **out, const char *prefix, struct sn_err *err)
{
    return sn_data_open_shared(out, prefix, true, NULL, err);
}

void sn_data_close(struct sn_data *d)
{
    if (!d)
        return;
    if (d->fd >= 0)
        (void)close(d->fd); /* only read */
    sn_features_close(d->features);
    sn_data_unmap(&d->bin);
    sn_data_unmap(&d->idx);
    sn_data_mask_close(d->mask);
    sn_free(d);
}

enum sn_status sn_data_open_mask(struct sn_data *d, struct sn_open_files *files, struct sn_err *err)
{
    return sn_data_mask_open(&d->mask, d->bin.path, d->info.tokens, files, err);
}

enum sn_status sn_data_open_features(struct sn_data *d, struct sn_features_shape want,
                                     struct sn_open_files *files, struct sn_err *err)
{
    char *path = sn_data_file_path(d->bin.path, "npy");
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open its features", d->bin.path);
    enum sn_status st = sn_features_open(&d->features, path, want, files, err);
    sn_free(path);
    return st;
}

const struct sn_features *sn_data_features(const struct sn_data *d)
{
    return d->features;
}

const struct sn_data_mask *sn_data_mask(const struct sn_data *d)
{
    return d->mask;
}

void sn_data_info(const struct sn_data *d, struct sn_data_info *out)
{
    *out = d->info;
}

/* --- samples ----------------------------------------------------------------------------- */

int64_t sn_data_samples(const struct sn_data *d, int64_t seq)
{
    return d->info.tokens > 0 && seq > 0 ? (d->info.tokens - 1) / seq : 0;
}

static enum sn_status bad_token(const struct sn_data *d, int64_t position, int64_t token,
                                int32_t vocab, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT,
                   "%s: byte %lld: token %lld is %lld, outside the vocabulary 0 .. %d; raise "
                   "model.vocab or build the data with this model's tokenizer",
                   d->bin.path, (long long)(position * d->token_size), (long long)position,
                   (long long)token, (int)vocab - 1);
}

enum { READ_BYTES = 1 << 15 }; /* at once, on the stack */

static enum sn_status read_tokens(const struct sn_data *d, unsigned char *out, int64_t first,
                                  int64_t n, struct sn_err *err)
{
    return sn_data_bytes(d->fd, d->bin.path, out, (size_t)(n * d->token_size),
                         first * d->token_size, err);
}

enum sn_status sn_data_read(const struct sn_data *d, int64_t i, int64_t seq, int32_t vocab,
                            int32_t *inputs, int32_t *targets, struct sn_err *err)
{
    int64_t samples = sn_data_samples(d, seq);
    if (i < 0 || i >= samples)
        return sn_fail(
            err, SN_EINPUT,
            "%s: sample %lld of %lld tokens is not there; the file has %lld such samples",
            d->bin.path, (long long)i, (long long)seq, (long long)samples);
    unsigned char block[READ_BYTES];
    int64_t first = i * seq, room = (int64_t)sizeof(block) / d->token_size, n;
    for (int64_t k = 0; k <= seq; k += n) {
        n = seq + 1 - k < room ? seq + 1 - k : room;
        SN_TRY(read_tokens(d, block, first + k, n, err));
        for (int64_t b = 0; b < n; b++) {
            int64_t token = sn_token_load(d->info.dtype_code, block + b * d->token_size);
            if (token < 0 || token >= vocab)
                return bad_token(d, first + k + b, token, vocab, err);
            if (k + b < seq)
                inputs[k + b] = (int32_t)token;
            if (k + b > 0)
                targets[k + b - 1] = (int32_t)token;
        }
    }
    return SN_OK;
}

/* Is one of n tokens outside the vocabulary? Unsigned, a negative one is larger than all. */
#define SCAN(type, wide, load)                                                                     \
    for (int64_t k = 0; k < n; k++)                                                                \
        outside |= (wide)(type)load(p + (int64_t)sizeof(type) * k) >= (wide)vocab;                 \
    break;

static bool is_outside(int code, const unsigned char *p, int64_t n, int32_t vocab)
{
    int outside = 0;
    switch (code) {
    case SN_TOK_U8:
        SCAN(uint8_t, uint32_t, *)
    case SN_TOK_I8:
        SCAN(int8_t, uint32_t, *)
    case SN_TOK_I16:
        SCAN(int16_t, uint32_t, sn_le_u16)
    case SN_TOK_I32:
        SCAN(int32_t, uint32_t, sn_le_i32)
    case SN_TOK_I64:
        SCAN(int64_t, uint64_t, sn_le_i64)
    default:
        SCAN(uint16_t, uint32_t, sn_le_u16)
    }
    return outside != 0;
}

/* Of n tokens from `first` on. */
static enum sn_status scan(const struct sn_data *d, int32_t vocab, int64_t first, int64_t n,
                           struct sn_err *err)
{
    unsigned char block[READ_BYTES];
    int code = d->info.dtype_code, size = d->token_size;
    for (int64_t room = (int64_t)sizeof(block) / size, part; n > 0; first += part, n -= part) {
        part = n < room ? n : room;
        SN_TRY(read_tokens(d, block, first, part, err));
        if (!is_outside(code, block, part, vocab))
            continue;
        int64_t k = 0;
        while (!is_outside(code, block + k * size, 1, vocab))
            k++;
        return bad_token(d, first + k, sn_token_load(code, block + k * size), vocab, err);
    }
    return SN_OK;
}

enum sn_status sn_data_scan(const struct sn_data *d, int32_t vocab, int64_t bytes,
                            struct sn_err *err)
{
    enum { BLOCK = 1 << 16 }; /* tokens */
    int code = d->info.dtype_code;
    int64_t all = (d->info.tokens + BLOCK - 1) / BLOCK;
    int64_t most = bytes / ((int64_t)BLOCK * d->token_size), blocks = all < most ? all : most;
    if ((code == SN_TOK_U8 || code == SN_TOK_U16) && sn_token_type_find(code)->max < vocab)
        return SN_OK; /* there can be none */
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first = (blocks > 1 ? i * (all - 1) / (blocks - 1) : 0) * BLOCK;
        int64_t left = d->info.tokens - first;
        SN_TRY(scan(d, vocab, first, left < BLOCK ? left : BLOCK, err));
    }
    return SN_OK;
}

int64_t sn_data_sample_of(enum sn_order order, uint64_t seed, int set, int64_t samples,
                          int64_t number)
{
    assert(samples > 0 && number >= 0);
    uint64_t n = (uint64_t)samples, key = sn_rng_key(seed, "data.order");
    uint64_t epoch = (uint64_t)number / n, place = (uint64_t)number % n;
    if (order == SN_ORDER_SEQUENTIAL)
        return (int64_t)place;
    if (set > 0) /* the first set's order is that of a run with one */
        key = sn_rng_mix(key, ~(uint64_t)set);
    return (int64_t)sn_rng_permute(sn_rng_mix(key, epoch), n, place);
}

/* --- entries of the index ---------------------------------------------------------------- */

int64_t sn_data_sequence_tokens(const struct sn_data *d, int64_t index)
{
    return sn_le_i32(d->idx.bytes + SN_IDX_HEADER_BYTES + 4 * index);
}

const unsigned char *sn_data_sequence_bytes(const struct sn_data *d, int64_t index)
{
    const unsigned char *offsets = d->idx.bytes + SN_IDX_HEADER_BYTES + 4 * d->info.sequences;
    if (!d->bin.bytes)
        return NULL;
    return d->bin.bytes +
           (index < d->info.sequences ? sn_le_i64(offsets + 8 * index) : (int64_t)d->bin.len);
}

const char *sn_data_path(const struct sn_data *d)
{
    return d->bin.path;
}

void sn_data_read_in_order(const struct sn_data *d)
{
    if (d->bin.bytes)
        (void)madvise(d->bin.bytes, d->bin.len, MADV_SEQUENTIAL); /* a hint */
}

int64_t sn_data_sequence(const struct sn_data *d, int64_t index, int64_t *tokens, int64_t cap)
{
    int64_t n = sn_data_sequence_tokens(d, index);
    if (n > cap)
        n = cap;
    if (n <= 0)
        return 0;
    const unsigned char *p = sn_data_sequence_bytes(d, index);
    for (int64_t k = 0; k < n; k++)
        tokens[k] = sn_token_load(d->info.dtype_code, p + k * d->token_size);
    return n;
}

void sn_data_document(const struct sn_data *d, int64_t doc, int64_t *first, int64_t *end)
{
    const unsigned char *bounds = d->idx.bytes + SN_IDX_HEADER_BYTES + 12 * d->info.sequences;
    *first = sn_le_i64(bounds + 8 * doc);
    *end = sn_le_i64(bounds + 8 * (doc + 1));
}

int64_t sn_data_document_token(const struct sn_data *d, int64_t doc)
{
    const unsigned char *lengths = d->idx.bytes + SN_IDX_HEADER_BYTES;
    int64_t n = d->info.sequences, sequence = sn_le_i64(lengths + 12 * n + 8 * doc);
    if (sequence == n)
        return d->info.tokens;
    return sn_le_i64(lengths + 4 * n + 8 * sequence) / d->token_size;
}

int64_t sn_data_document_of(const struct sn_data *d, int64_t token)
{
    int64_t low = 0, high = d->info.documents; /* low's first token is not behind it, high's is */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (sn_data_document_token(d, middle) <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}
