#include "checkpoint/convert/several.h"

#include "lib/base/mem.h"

#include <inttypes.h>

static enum sn_status announce(struct sn_several *s, sn_several_parts *parts_of, const void *arg,
                               int64_t *n_parts, int64_t *most)
{
    *n_parts = *most = 0;
    for (int64_t i = 0; i < s->n_wants; i++) {
        int64_t aside = 0;
        *n_parts += parts_of(arg, &s->wants[i], NULL, &aside);
        *most = aside > *most ? aside : *most;
    }
    s->parts = sn_alloc_n((size_t)*n_parts + 1, sizeof(*s->parts));
    s->aside = sn_alloc_n((size_t)*most + 1, sizeof(*s->aside));
    if (!s->parts || !s->aside)
        return SN_ENOMEM;
    struct sn_source_want *at = s->parts;
    int64_t aside;
    for (int64_t i = 0; i < s->n_wants; i++)
        at += parts_of(arg, &s->wants[i], at, &aside);
    return SN_OK;
}

enum sn_status sn_several_begin(struct sn_several *s, const struct sn_source_want *wants, int64_t n,
                                int64_t memory, sn_several_parts *parts_of, const void *arg,
                                struct sn_err *err)
{
    struct sn_source_want *before = s->parts;
    int64_t n_parts, most;
    sn_free(s->aside);
    s->parts = NULL;
    s->aside = NULL;
    s->wants = wants;
    s->n_wants = n;
    s->at = 0;
    enum sn_status st = announce(s, parts_of, arg, &n_parts, &most);
    if (st != SN_OK)
        st = sn_fail(err, st, "%s: no memory to list %" PRId64 " boxes", s->inner.name, n);
    int64_t taken = most * (int64_t)sizeof(*s->aside);
    if (st == SN_OK)
        st = s->inner.begin(s->inner.self, s->parts, n_parts, memory > taken ? memory - taken : 0,
                            err);
    sn_free(s->before); /* the inner source has let go of it */
    s->before = before;
    s->n_wants = st == SN_OK ? n : 0;
    return st;
}

enum sn_status sn_several_next(struct sn_several *s, const struct sn_source_want **want,
                               struct sn_err *err)
{
    if (s->at == s->n_wants)
        return sn_fail(err, SN_EFAIL, "%s: a box was asked for that was not announced",
                       s->inner.name);
    *want = &s->wants[s->at++];
    return SN_OK;
}

void sn_several_free(struct sn_several *s)
{
    sn_free(s->parts);
    sn_free(s->before);
    sn_free(s->aside);
}
