/*
 * ranks.c - does the layout fit this many ranks? Fills layout.data when it was left out.
 */
#include "lib/config/settings.h"

#include "lib/base/str.h"

#include <stdio.h>

enum { HINT_SIZE = 200 };

/* Ranks of one copy of the model. */
static int64_t ranks_per_copy(const struct sn_layout_config *l)
{
    return (int64_t)l->tensor * l->context * l->pipeline;
}

static bool batch_allows(const struct sn_config *c, int64_t data)
{
    return data > 0 && c->train.global_batch % (data * c->layout.micro_batch) == 0;
}

/* "start 2 or 4 ranks": the nearest numbers of ranks whose `data` divides the batch. */
static const char *near_ranks(const struct sn_config *c, int64_t ranks, char buf[HINT_SIZE])
{
    int64_t copy = ranks_per_copy(&c->layout);
    int64_t most = c->train.global_batch / c->layout.micro_batch;
    int64_t below = ranks / copy < most ? ranks / copy : most;
    int64_t above = below + 1;
    while (below > 0 && !batch_allows(c, below))
        below--;
    while (above <= most && !batch_allows(c, above))
        above++;
    int64_t fewer = below * copy, more = above * copy;
    if (below > 0 && above <= most)
        (void)snprintf(buf, HINT_SIZE, "start %lld or %lld ranks", (long long)fewer,
                       (long long)more);
    else if (below > 0)
        (void)snprintf(buf, HINT_SIZE, "start %lld rank%s", (long long)fewer,
                       fewer == 1 ? "" : "s");
    else
        (void)snprintf(buf, HINT_SIZE, "start %lld ranks", (long long)more);
    return buf;
}

static enum sn_status check_given(const struct sn_config *c, int ranks, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int64_t copy = ranks_per_copy(l), need = copy * l->data;
    char hint[HINT_SIZE];
    if (need == ranks)
        return SN_OK;
    if (ranks % copy == 0 && batch_allows(c, ranks / copy))
        (void)snprintf(hint, sizeof(hint), "start %lld or use layout.data: %lld", (long long)need,
                       (long long)(ranks / copy));
    else
        (void)snprintf(hint, sizeof(hint), "start %lld, or leave layout.data out and %s",
                       (long long)need, near_ranks(c, ranks, (char[HINT_SIZE]){0}));
    return sn_fail(err, SN_EINPUT,
                   "%s: layout.data %d x tensor %d x context %d x pipeline %d is %lld rank%s, but "
                   "the job has %d; %s",
                   c->path, l->data, l->tensor, l->context, l->pipeline, (long long)need,
                   need == 1 ? "" : "s", ranks, hint);
}

static enum sn_status fill_data(struct sn_config *c, int ranks, struct sn_err *err)
{
    struct sn_layout_config *l = &c->layout;
    int64_t copy = ranks_per_copy(l), data = ranks / copy;
    char hint[HINT_SIZE], near[SN_NEAR_SIZE];
    if (ranks % copy != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: the job has %d ranks, which is not a multiple of tensor x context x "
                       "pipeline (%d x %d x %d); %s",
                       c->path, ranks, l->tensor, l->context, l->pipeline,
                       near_ranks(c, ranks, hint));
    if (!batch_allows(c, data))
        return sn_fail(err, SN_EINPUT,
                       "%s: %d ranks make layout.data %lld, but train.global_batch (%d) is not a "
                       "multiple of data x micro_batch (%lld x %d); %s, or use global_batch %s",
                       c->path, ranks, (long long)data, c->train.global_batch, (long long)data,
                       l->micro_batch, near_ranks(c, ranks, hint),
                       sn_near_multiples(near, data * l->micro_batch, c->train.global_batch));
    l->data = (int)data;
    return SN_OK;
}

enum sn_status sn_config_resolve_ranks(struct sn_config *c, int ranks, struct sn_err *err)
{
    if (ranks < 1)
        return sn_fail(err, SN_EINPUT, "%s: %d ranks; want at least 1", c->path, ranks);
    return c->layout.data ? check_given(c, ranks, err) : fill_data(c, ranks, err);
}
