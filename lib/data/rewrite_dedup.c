/*
 * rewrite_dedup.c - documents without their doubles.
 *
 * Two documents are the same if XXH3's 128 bits of their tokens are, as the output's type has them: of
 * 10^10 different documents two are so with a chance of 10^-19. The hashes are all that is kept, in a
 * table of a power of two of places that is at most three quarters full: 21 to 43 bytes a document.
 */
#include "lib/data/rewrite_inner.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

struct seen {
    uint64_t (*slots)[2]; /* both 0: free */
    size_t n;             /* a power of two */
};

/* False: it was there. */
static bool put(struct seen *s, uint64_t hash[2])
{
    hash[1] |= (hash[0] | hash[1]) == 0; /* none is like a free place */
    for (size_t i = (size_t)hash[0];; i++) {
        uint64_t *slot = s->slots[i & (s->n - 1)];
        if (slot[0] == hash[0] && slot[1] == hash[1])
            return false;
        if ((slot[0] | slot[1]) == 0) {
            slot[0] = hash[0];
            slot[1] = hash[1];
            return true;
        }
    }
}

/* The tokens of a document as those of another type. */
static enum sn_status convert(const struct sn_source_document *d, int size, struct sn_bytes *out,
                              struct sn_err *err)
{
    enum { AT_ONCE = 4096 };
    int32_t block[AT_ONCE];
    int from = sn_token_type_find(d->code)->size;
    out->len = 0;
    if (!sn_bytes_room(out, (size_t)d->tokens * (size_t)size))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for document %lld of %lld tokens", d->prefix,
                       (long long)d->number, (long long)d->tokens);
    for (int64_t i = 0; i < d->tokens; i += AT_ONCE) {
        int64_t n = d->tokens - i < AT_ONCE ? d->tokens - i : AT_ONCE;
        sn_tokens_widen(d->code, d->p + i * from, n, block);
        for (int64_t k = 0; k < n; k++) {
            uint32_t le = htole32((uint32_t)block[k]);
            memcpy(out->p + out->len, &le, (size_t)size);
            out->len += (size_t)size;
        }
    }
    return SN_OK;
}

static enum sn_status hash_document(const struct sn_rewriting *r, int64_t i, struct sn_bytes *work,
                                    uint64_t hash[2], struct sn_err *err)
{
    struct sn_source_document d = sn_sources_get(&r->sources, i);
    int code = r->sources.info.dtype_code;
    if (d.code == code) {
        sn_hash128(d.p, d.bytes, hash);
        return SN_OK;
    }
    SN_TRY(convert(&d, sn_token_type_find(code)->size, work, err));
    sn_hash128(work->p, work->len, hash);
    return SN_OK;
}

enum sn_status sn_rewrite_dedup(struct sn_rewriting *r, struct sn_err *err)
{
    struct seen seen = {.n = 64};
    struct sn_bytes work = {0};
    uint64_t hash[2];
    int64_t documents = r->sources.info.documents;
    enum sn_status st = SN_OK;
    while (seen.n / 4 * 3 < (size_t)documents)
        seen.n *= 2;
    seen.slots = sn_alloc_n(seen.n, sizeof(*seen.slots));
    if (!seen.slots)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the hashes of %lld documents (%zu bytes)",
                       r->want->out, (long long)documents, seen.n * sizeof(*seen.slots));
    for (int64_t i = 0; i < documents && st == SN_OK; i++) {
        st = sn_rewrite_go_on(r, i, err);
        if (st == SN_OK)
            st = hash_document(r, i, &work, hash, err);
        if (st == SN_OK && put(&seen, hash))
            st = sn_sources_copy(&r->sources, i, NULL, r->writers[0], err);
    }
    sn_bytes_fini(&work);
    sn_free(seen.slots);
    return st;
}
