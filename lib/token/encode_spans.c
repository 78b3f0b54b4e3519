/*
 * encode_spans.c - which tokens of a text are of some of its bytes.
 *
 * Added tokens have their place. Between two of them a token is known by its number alone: as many are
 * before a byte as the text up to it has, if those are the first ones of the whole; where they are not,
 * a token goes across it, and begins where that holds last.
 */
#include "lib/token/tokenizer_inner.h"

enum { LONGEST_TOKEN = 256 }; /* characters that are looked back */

struct part {
    const char *p;
    size_t from, to; /* bytes of the text */
    bool first;
    const int32_t *ids;
    size_t n;
};

/* How many tokens end at or before byte `at` of a part; *crosses: the next one begins before it. */
static enum sn_status tokens_before(struct sn_encoder *e, const struct part *a, size_t at,
                                    struct sn_ids *work, size_t *n, bool *crosses,
                                    struct sn_err *err)
{
    size_t end = at;
    *n = 0;
    for (int i = 0; i < LONGEST_TOKEN; i++) {
        *crosses = end < at;
        if (end == 0)
            return SN_OK;
        work->len = 0;
        SN_TRY(sn_encode_part(e, a->p, end, a->first, work, err));
        *n = work->len;
        if (*n <= a->n && (*n == 0 || memcmp(work->p, a->ids, *n * sizeof(*a->ids)) == 0))
            return SN_OK;
        *n = 0;
        end -= sn_utf8_before(a->p, a->p + end);
    }
    return sn_fail(err, SN_EINPUT, "no token ends within %d characters before byte %zu",
                   LONGEST_TOKEN, a->from + at);
}

static enum sn_status mark_part(struct sn_encoder *e, const struct part *a,
                                const struct sn_text_span *span, struct sn_ids *work, char *counts,
                                struct sn_err *err)
{
    size_t from = span->from > a->from ? span->from - a->from : 0;
    size_t to = (span->to < a->to ? span->to : a->to) - a->from, first = 0, end = a->n;
    bool crosses = false;
    if (from > 0)
        SN_TRY(tokens_before(e, a, from, work, &first, &crosses, err));
    if (to < a->to - a->from) {
        SN_TRY(tokens_before(e, a, to, work, &end, &crosses, err));
        end += crosses && end < a->n;
    }
    if (end > first)
        memset(counts + first, 1, end - first);
    return SN_OK;
}

enum sn_status sn_encode_spans(struct sn_encoder *e, const char *p, size_t len,
                               const struct sn_text_spans *spans, struct sn_ids *out,
                               struct sn_bytes *counts, struct sn_err *err)
{
    const struct sn_text_span *list = spans->list;
    struct sn_added_walk walk;
    struct sn_ids work = {0};
    size_t from, to;
    int32_t id;
    int first = 0;
    SN_TRY(sn_encode_check(p, len, err));
    sn_encode_walk(e, &walk, p, len);
    enum sn_status st = SN_OK;
    while (st == SN_OK && sn_added_next(&walk, &from, &to, &id)) {
        size_t before = out->len;
        if (id < 0)
            st = sn_encode_part(e, p + from, to - from, from == 0, out, err);
        else if (!sn_ids_push(out, id))
            st = sn_fail(err, SN_ENOMEM, "no memory for tokens");
        size_t more = out->len - before;
        if (st == SN_OK && !sn_bytes_room(counts, more))
            st = sn_fail(err, SN_ENOMEM, "no memory for what counts");
        if (st != SN_OK || more == 0)
            continue;
        memset(counts->p + counts->len, 0, more);
        struct part a = {p + from, from, to, from == 0, out->p + before, more};
        while (first < spans->n && list[first].to <= from)
            first++;
        for (int i = first; i < spans->n && list[i].from < to && st == SN_OK; i++) {
            if (id >= 0)
                counts->p[counts->len] = 1;
            else
                st = mark_part(e, &a, &list[i], &work, counts->p + counts->len, err);
        }
        counts->len += more;
    }
    sn_ids_fini(&work);
    return st;
}
