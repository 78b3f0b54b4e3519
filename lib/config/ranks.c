/*
 * ranks.c - does the layout fit this many ranks? Fills layout.data when it was left out.
 */
#include "lib/config/settings.h"

#include "lib/base/str.h"
#include "lib/config/batch.h"

#include <stdio.h>
#include <string.h>

enum { HINT_SIZE = 200 };

int sn_config_copy_ranks(const struct sn_layout_config *l)
{
    return l->tensor * l->tensor_x * l->context *
           l->pipeline; /* rules_layout.c has seen to it that it fits */
}

int sn_config_least_ranks(const struct sn_layout_config *l)
{
    return sn_config_copy_ranks(l) * (l->data ? l->data : 1);
}

int sn_config_ranks(const struct sn_config *c)
{
    return sn_config_copy_ranks(&c->layout) * c->layout.data;
}

int64_t sn_config_tokens(const struct sn_config *c)
{
    return (int64_t)c->layout.micro_batch * c->model.seq / c->layout.context;
}

const char *sn_config_axes(char buf[SN_AXES_SIZE], const struct sn_layout_config *l)
{
    char x[24] = "";
    if (l->tensor_x > 1)
        (void)snprintf(x, sizeof(x), " x tensor_x %d", l->tensor_x);
    (void)snprintf(buf, SN_AXES_SIZE, "data %d x tensor %d%s x context %d x pipeline %d", l->data,
                   l->tensor, x, l->context, l->pipeline);
    return buf;
}

/* Sequences that a step must hold a multiple of: one micro-batch for each rank that has data of its
 * own; as many of those as there are stages where the schedule takes them in groups. */
static int64_t batch_unit(const struct sn_config *c, int64_t data)
{
    const struct sn_layout_config *l = &c->layout;
    return data * l->micro_batch *
           (sn_schedule_traits(l->schedule)->whole_groups ? l->pipeline : 1);
}

static bool allows(const struct sn_config *c, int64_t data)
{
    return data > 0 && sn_batch_misfit(&c->train, batch_unit(c, data)) == 0;
}

/* "start 2 or 4 ranks": the nearest numbers of ranks whose `data` divides the batch; one does:
 * rules.c has seen to it. */
static const char *near_ranks(const struct sn_config *c, int64_t ranks, char buf[HINT_SIZE])
{
    int64_t copy = sn_config_copy_ranks(&c->layout);
    int64_t most = sn_batch_divisor(&c->train) / c->layout.micro_batch;
    int64_t below = ranks / copy < most ? ranks / copy : most;
    int64_t above = below + 1;
    while (below > 0 && !allows(c, below))
        below--;
    while (above <= most && !allows(c, above))
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
    int64_t copy = sn_config_copy_ranks(l), need = copy * l->data;
    char hint[HINT_SIZE];
    if (need == ranks)
        return SN_OK;
    if (ranks % copy == 0 && allows(c, ranks / copy))
        (void)snprintf(hint, sizeof(hint), "start %lld or use layout.data: %lld", (long long)need,
                       (long long)(ranks / copy));
    else
        (void)snprintf(hint, sizeof(hint), "start %lld, or leave layout.data out and %s",
                       (long long)need, near_ranks(c, ranks, (char[HINT_SIZE]){0}));
    return sn_fail(err, SN_EINPUT, "%s: layout.%s is %lld rank%s, but the job has %d; %s", c->path,
                   sn_config_axes((char[SN_AXES_SIZE]){0}, l), (long long)need,
                   need == 1 ? "" : "s", ranks, hint);
}

/* With `data` known: do the ranks that share the experts out divide the replicas? */
static enum sn_status check_experts(const struct sn_config *c, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int slices = sn_config_slices(c), blocks = sn_config_fold(c) / slices;
    int64_t replicas = (int64_t)l->data * l->context * blocks;
    int count = c->model.experts.count, of = count;
    char near[SN_NEAR_SIZE];
    if (l->expert <= 1 || replicas % l->expert == 0)
        return SN_OK;
    while (replicas % of != 0 || count % of != 0) /* experts are dealt out evenly, too */
        of--;
    if (blocks > 1)
        return sn_fail(err, SN_EINPUT,
                       "%s: layout.expert: %d does not divide data x %s x context (%d x %d x "
                       "%d); nearest that do: %s",
                       c->path, l->expert, slices > 1 ? "tensor / expert_tensor" : "tensor",
                       l->data, blocks, l->context, sn_near_divisors(near, of, l->expert));
    return sn_fail(err, SN_EINPUT,
                   "%s: layout.expert: %d does not divide data x context (%d x %d); nearest that "
                   "do: %s",
                   c->path, l->expert, l->data, l->context, sn_near_divisors(near, of, l->expert));
}

/* Replicas of a node are neighbours of a sequence, or whole sequences. */
static enum sn_status check_replicas(const struct sn_config *c, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int replicas = l->data * l->context, node = l->compress.node;
    char near[SN_NEAR_SIZE];
    if (node == 0 || sn_replica_node_fits(l, node))
        return SN_OK;
    if (replicas % node != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: layout.compress.node: %d does not divide data x context (%d x %d); "
                       "nearest that do: %s",
                       c->path, node, l->data, l->context, sn_near_divisors(near, replicas, node));
    return sn_fail(err, SN_EINPUT,
                   "%s: layout.compress.node: %d is neither a divisor nor a multiple of "
                   "layout.context (%d); nearest that are: %s, or multiples of %d",
                   c->path, node, l->context, sn_near_divisors(near, l->context, node), l->context);
}

/* Why this many copies do not work. */
static enum sn_status refuse_data(const struct sn_config *c, int ranks, struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int64_t data = ranks / sn_config_copy_ranks(l);
    char hint[HINT_SIZE], near[SN_NEAR_SIZE], stages[32] = "";
    bool waves = sn_schedule_traits(l->schedule)->whole_groups;
    int size = sn_batch_misfit(&c->train, batch_unit(c, data));
    const char *key = sn_batch_key(&c->train, size);
    if (waves)
        (void)snprintf(stages, sizeof(stages), " x %d", l->pipeline);
    return sn_fail(err, SN_EINPUT,
                   "%s: %d ranks make layout.data %lld, but %s (%d) is not a "
                   "multiple of data x micro_batch%s (%lld x %d%s); %s, or use %s %s",
                   c->path, ranks, (long long)data, key, size,
                   waves ? " x pipeline" : "", (long long)data, l->micro_batch, stages,
                   near_ranks(c, ranks, hint), strrchr(key, '.') + 1,
                   sn_near_multiples(near, batch_unit(c, data), size));
}

static enum sn_status fill_data(struct sn_config *c, int ranks, struct sn_err *err)
{
    struct sn_layout_config *l = &c->layout;
    int64_t copy = sn_config_copy_ranks(l);
    bool has_y = l->tensor_x > 1;
    char hint[HINT_SIZE], y[24] = "";
    if (has_y)
        (void)snprintf(y, sizeof(y), " x %d", l->tensor_x);
    if (ranks % copy != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: the job has %d ranks, which is not a multiple of tensor%s x context x "
                       "pipeline (%d%s x %d x %d); %s",
                       c->path, ranks, has_y ? " x tensor_x" : "", l->tensor, y, l->context,
                       l->pipeline, near_ranks(c, ranks, hint));
    if (!allows(c, ranks / copy))
        return refuse_data(c, ranks, err);
    l->data = (int)(ranks / copy);
    return SN_OK;
}

enum sn_status sn_config_resolve_ranks(struct sn_config *c, int ranks, struct sn_err *err)
{
    if (ranks < 1)
        return sn_fail(err, SN_EINPUT, "%s: %d ranks; want at least 1", c->path, ranks);
    if (ranks == 1 && c->checkpoint.snapshot_every)
        return sn_fail(err, SN_EINPUT,
                       "%s: checkpoint.snapshot_every needs ranks on two hosts, and this run has "
                       "one rank; start more, or leave the key out",
                       c->path);
    SN_TRY(c->layout.data ? check_given(c, ranks, err) : fill_data(c, ranks, err));
    SN_TRY(check_replicas(c, err));
    return check_experts(c, err);
}

void sn_config_settle_tokens(struct sn_layout_config *l)
{
    if (l->expert_tokens == SN_TOKENS_AUTO)
        l->expert_tokens = SN_TOKENS_GATHERED;
    if (l->drop_duplicates == SN_DUPLICATES_AUTO)
        l->drop_duplicates = SN_DUPLICATES_SENT;
}

enum sn_status sn_config_check_layout(const struct sn_config *c, int ranks, struct sn_err *err)
{
    const struct sn_settings s = {.path = c->path};
    SN_TRY(sn_rules_layout(c, &s, err));
    SN_TRY(check_given(c, ranks, err));
    SN_TRY(check_experts(c, err));
    SN_TRY(check_replicas(c, err));
    return allows(c, c->layout.data) ? SN_OK : refuse_data(c, ranks, err);
}
