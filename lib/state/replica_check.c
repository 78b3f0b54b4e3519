/*
 * copies.c - one hash for each array of each parameter that has copies elsewhere.
 */
#include "lib/state/replica_check.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/program/boxes.h"

#include <string.h>

/* What this rank keeps of a shard, padding included: padding is computed alike too. What all
 * replicas compute with, where that is not the rounded masters, is compared whole. */
struct item {
    int shard;
    enum sn_state_kind kind;
    unsigned groups; /* bit g: the members of group g hold the same */
    const char *p;
    int64_t bytes;
    uint64_t hash;
};

struct sn_replica_check {
    const struct sn_job *job;
    void *staging;
    struct item *items;
    int n;
    uint64_t *mine, *all; /* hashes of one group's items, and those of all of its members */
    pthread_t thread;
    bool is_hashing;
};

static bool is_whole(const struct sn_bucket *b, enum sn_state_kind k)
{
    return !sn_updates_are_slices(&b->held) || k == SN_STATE_REPLICA || k == SN_STATE_FEEDBACK;
}

static unsigned groups_of(const struct sn_job *j, const struct sn_bucket *b, enum sn_state_kind k)
{
    unsigned groups = is_whole(b, k) ? sn_state_copies(b, k) : b->alike;
    if (is_whole(b, k) && k != SN_STATE_FEEDBACK)
        groups |= 1u << b->replicas;
    for (int g = 0; g < SN_NGROUPS; g++)
        if (j->group_size[g] == 1)
            groups &= ~(1u << g);
    return groups;
}

/* The shard's elements in the array, as far as they are in this rank's slice of the bucket. */
static void add_item(struct sn_replica_check *c, struct sn_exec *x, int shard, enum sn_state_kind k)
{
    const struct sn_job *j = c->job;
    const struct sn_shard *q = &j->shards[shard];
    const struct sn_bucket *b = &j->buckets[q->bucket];
    int buf = sn_state_buffer(j, b, k);
    int64_t slice = is_whole(b, k) ? 0 : sn_bucket_slice_at(j, b);
    int64_t end = is_whole(b, k) ? b->n : slice + b->slice;
    int64_t lo = q->offset > slice ? q->offset : slice;
    int64_t hi = q->offset + q->rows * q->cols;
    hi = hi < end ? hi : end;
    if (buf < 0 || lo >= hi || !groups_of(j, b, k))
        return;
    bool has_slice = sn_bucket_elements(j, b, buf) < b->n; /* and nothing else */
    int64_t bytes = sn_bucket_bytes(j, b, buf, hi - lo);
    const char *p = sn_exec_address(x, &j->train, buf);
    p += sn_bucket_bytes(j, b, buf, lo - (has_slice ? slice : 0));
    c->items[c->n++] = (struct item){shard, k, groups_of(j, b, k), p, bytes, 0};
}

static size_t largest_group(const struct sn_job *j)
{
    int most = 1;
    for (int g = 0; g < SN_NGROUPS; g++)
        most = g != SN_GROUP_WORLD && j->group_size[g] > most ? j->group_size[g] : most;
    return (size_t)most;
}

enum sn_status sn_replica_check_create(struct sn_replica_check **out, struct sn_exec *x,
                                       const struct sn_job *j, struct sn_err *err)
{
    size_t most = SN_NSTATE_KINDS * (size_t)j->n_shards + 1;
    struct sn_replica_check *c = sn_alloc(sizeof(*c));
    if (c) {
        c->job = j;
        c->staging = sn_exec_address(x, &j->train, j->staging);
        c->items = sn_alloc_n(most, sizeof(*c->items));
        c->mine = sn_alloc_n(most, sizeof(*c->mine));
        c->all = sn_alloc_n(most * largest_group(j), sizeof(*c->all));
    }
    if (!c || !c->items || !c->mine || !c->all) {
        sn_replica_check_destroy(c);
        return sn_fail(err, SN_ENOMEM, "copies: no memory for hashes of %d parameters",
                       j->n_shards);
    }
    for (int i = 0; i < j->n_shards; i++)
        for (int k = 0; k < SN_NSTATE_KINDS; k++)
            add_item(c, x, i, (enum sn_state_kind)k);
    *out = c;
    return SN_OK;
}

void sn_replica_check_destroy(struct sn_replica_check *c)
{
    if (!c)
        return;
    sn_replica_check_wait(c);
    sn_free(c->items);
    sn_free(c->mine);
    sn_free(c->all);
    sn_free(c);
}

/* --- hashing ---------------------------------------------------------------------------------- */

static void *hash(void *arg)
{
    struct sn_replica_check *c = arg;
    for (int i = 0; i < c->n; i++)
        c->items[i].hash = sn_hash64(c->items[i].p, (size_t)c->items[i].bytes);
    return NULL;
}

enum sn_status sn_replica_check_begin(struct sn_replica_check *c, struct sn_err *err)
{
    if (c->n == 0)
        return SN_OK;
    int rc = sn_thread_start(&c->thread, 0, hash, c);
    if (rc)
        return sn_fail(err, SN_EIO, "copies: no thread to hash with: %s", strerror(rc));
    c->is_hashing = true;
    return SN_OK;
}

void sn_replica_check_wait(struct sn_replica_check *c)
{
    if (c->is_hashing)
        (void)pthread_join(c->thread, NULL);
    c->is_hashing = false;
}

/* --- comparing -------------------------------------------------------------------------------- */

static enum sn_status gather(struct sn_replica_check *c, struct sn_comm *comm, enum sn_group g,
                             int n, struct sn_err *err)
{
    int64_t dropped[SN_NAXES] = {0}; /* not a step's traffic */
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = g,
                            .dtype = SN_F64, /* 8-byte words */
                            .n = n,
                            .in = c->mine,
                            .out = c->all,
                            .staging = c->staging,
                            .label = "hashes of copies"};
    SN_TRY(comm->ops->wait(comm, comm->ops->post(comm, &t), err));
    comm->ops->take_sent_bytes(comm, dropped);
    return SN_OK;
}

/* Item `i` is the k-th of the group's n: have all members the hash of member 0? */
static enum sn_status compare_item(const struct sn_replica_check *c, enum sn_group g, int i, int k,
                                   int n, struct sn_err *err)
{
    const struct sn_job *j = c->job;
    for (int m = 1; m < j->group_size[g]; m++)
        if (c->all[(int64_t)m * n + k] != c->all[k])
            return sn_fail(err, SN_EIO,
                           "%s of '%s' differs between ranks %d and %d, which hold copies of it "
                           "(%s): a memory or network error is likely; nothing is saved, so look "
                           "at the hardware of both and resume from the checkpoint before",
                           sn_state_kind_name(c->job->config, c->items[i].kind),
                           j->model->params[j->shards[c->items[i].shard].param].name,
                           sn_group_member(&j->grid, j->rank, g, 0),
                           sn_group_member(&j->grid, j->rank, g, m), sn_group_name(g));
    return SN_OK;
}

static enum sn_status compare_group(struct sn_replica_check *c, struct sn_comm *comm,
                                    enum sn_group g, struct sn_err *err)
{
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (c->items[i].groups >> g & 1u)
            c->mine[n++] = c->items[i].hash;
    if (n == 0)
        return SN_OK;
    SN_TRY(gather(c, comm, g, n, err));
    for (int i = 0, k = 0; i < c->n; i++)
        if (c->items[i].groups >> g & 1u)
            SN_TRY(compare_item(c, g, i, k++, n, err));
    return SN_OK;
}

/* Every rank meets in all of its groups, whatever the first of them says. */
enum sn_status sn_replica_check_compare(struct sn_replica_check *c, struct sn_comm *comm,
                                        struct sn_err *err)
{
    struct sn_err first = {0}, other;
    enum sn_status st = SN_OK;
    for (int g = 0; g < SN_NGROUPS; g++) {
        enum sn_status mine =
            compare_group(c, comm, (enum sn_group)g, st == SN_OK ? &first : &other);
        st = st == SN_OK ? mine : st;
    }
    if (st != SN_OK)
        *err = first;
    return comm->ops->agree(comm, st, err);
}

enum sn_status sn_replica_check_check(struct sn_exec *x, const struct sn_job *j,
                                      struct sn_comm *comm, struct sn_err *err)
{
    struct sn_replica_check *c = NULL;
    enum sn_status st = comm->ops->agree(comm, sn_replica_check_create(&c, x, j, err), err);
    if (st == SN_OK) {
        (void)hash(c);
        st = sn_replica_check_compare(c, comm, err);
    }
    sn_replica_check_destroy(c);
    return st;
}
