/*
 * snapshot.c - partners, the memory of snapshot shards, and the exchange.
 */
#include "lib/snapshot/snapshot_inner.h"

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/input.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 30 };

/* --- all ranks -------------------------------------------------------------------------------- */

enum sn_status sn_snapshot_agree(struct sn_snapshot *s, enum sn_status mine, struct sn_err *err)
{
    return s->env.comm->ops->agree(s->env.comm, mine, err);
}

void sn_snapshot_work(struct sn_snapshot *s, const char *what)
{
    if (s->env.solo)
        sn_solo_begin(s->env.solo, what, false);
}

enum sn_status sn_snapshot_worked(struct sn_snapshot *s, enum sn_status mine, struct sn_err *err)
{
    return s->env.solo ? sn_solo_end(s->env.solo, mine, err) : sn_snapshot_agree(s, mine, err);
}

enum sn_status sn_snapshot_gather(struct sn_snapshot *s, const void *mine, void *all, int64_t words,
                                  struct sn_err *err)
{
    struct sn_comm *c = s->env.comm;
    int64_t dropped[SN_NAXES] = {0}; /* no step's traffic */
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F64, /* 8-byte words */
                            .n = words,
                            .in = mine,
                            .out = all,
                            .staging = s->env.staging,
                            .label = "snapshots"};
    SN_TRY(c->ops->wait(c, c->ops->post(c, &t), err));
    c->ops->take_sent_bytes(c, dropped);
    return SN_OK;
}

bool sn_snapshot_leads(const struct sn_snapshot *s)
{
    return s->host_of[s->env.comm->rank] == s->env.comm->rank;
}

int sn_snapshot_ranks_here(const struct sn_snapshot *s)
{
    int n = 0;
    for (int r = 0; r < s->env.comm->size; r++)
        n += s->host_of[r] == s->host_of[s->env.comm->rank];
    return n;
}

/* --- partners --------------------------------------------------------------------------------- */

struct rank_host {
    uint64_t host;
    int64_t bytes;
};

/* Rank number p in the order of hosts, and the most ranks of one host. `order` has room for all. */
static int order_ranks(const struct sn_snapshot *s, int *order)
{
    int n = 0, most = 0, size = s->env.comm->size;
    for (int first = 0; first < size; first++) {
        int before = n;
        for (int r = first; s->host_of[first] == first && r < size; r++)
            if (s->host_of[r] == first)
                order[n++] = r;
        most = n - before > most ? n - before : most;
    }
    return most;
}

static void find_partners(struct sn_snapshot *s, const int *order, int most)
{
    int size = s->env.comm->size, shift = 2 * most <= size ? most : size / 2;
    for (int p = 0; p < size; p++) {
        int other = order[(p + shift) % size];
        s->exposed += s->host_of[order[p]] == s->host_of[other];
        if (order[p] == s->env.comm->rank)
            s->to = other;
        if (other == s->env.comm->rank)
            s->from = order[p];
    }
}

static void find_hosts(struct sn_snapshot *s, const struct rank_host *all)
{
    for (int r = 0; r < s->env.comm->size; r++) {
        int first = 0;
        while (all[first].host != all[r].host)
            first++;
        s->host_of[r] = first;
        s->total += all[r].bytes;
    }
}

static enum sn_status gather_hosts(struct sn_snapshot *s, struct rank_host *all, int *order,
                                   struct sn_err *err)
{
    const char *host = s->env.host;
    struct rank_host mine = {sn_hash64(host, strlen(host)), sn_snapshot_shard_bytes(&s->env.room)};
    SN_TRY(sn_snapshot_gather(s, &mine, all, sizeof(mine) / 8, err));
    find_hosts(s, all);
    find_partners(s, order, order_ranks(s, order));
    s->from_bytes = all[s->from].bytes;
    return SN_OK;
}

/* --- which run this is ------------------------------------------------------------------------ */

static uint64_t new_number(const struct sn_snapshot *s)
{
    struct timespec now;
    uint64_t x[4] = {(uint64_t)getpid(), sn_hash64(s->env.host, strlen(s->env.host))};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    x[2] = (uint64_t)now.tv_sec;
    x[3] = (uint64_t)now.tv_nsec;
    uint64_t h = sn_hash64(x, sizeof(x));
    return h ? h : 1; /* 0 is none */
}

/* OUTPUT/snapshots.id: an output directory that was removed and made anew is another run, and so is
 * one that went on from something else than memory: snapshot shards of the course before may be
 * left on hosts that it is not on. */
static enum sn_status read_number(struct sn_snapshot *s, const char *path, struct sn_err *err)
{
    char text[17] = "";
    int fd = sn_input_open(path, NULL);
    if (fd < 0 && errno != ENOENT)
        return sn_fail(err, SN_EIO, "%s: cannot be read: %s", path, sn_input_why(errno));
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (n < (ssize_t)sizeof(text) - 1 || sscanf(text, "%16" SCNx64, &s->run) != 1)
        s->run = 0; /* no snapshot shard has it */
    if (fd >= 0)
        (void)close(fd); /* only read */
    return SN_OK;
}

static enum sn_status write_number(struct sn_snapshot *s, const char *path, struct sn_err *err)
{
    struct sn_str text = {0};
    s->run = new_number(s);
    sn_str_add(&text, "%016" PRIx64 "\n", s->run);
    enum sn_status st = sn_text_keep(&text, path, err);
    sn_str_fini(&text);
    return st;
}

/* As rank 0 finds or makes it. */
static enum sn_status number_run(struct sn_snapshot *s, bool anew, struct sn_err *err)
{
    struct sn_comm *c = s->env.comm;
    char *path = sn_format("%s/snapshots.id", s->env.output);
    enum sn_status st = path ? SN_OK : sn_fail(err, SN_ENOMEM, "snapshots: no memory for a path");
    if (st == SN_OK && c->rank == 0)
        st = anew ? write_number(s, path, err) : read_number(s, path, err);
    sn_free(path);
    SN_TRY(sn_snapshot_agree(s, st, err));
    uint64_t x[2] = {s->run, new_number(s)};
    SN_TRY(c->ops->broadcast(c, x, sizeof(x), 0, err));
    s->run = x[0];
    s->series = x[1];
    return SN_OK;
}

/* --- begin and end ---------------------------------------------------------------------------- */

static enum sn_status prepare(struct sn_snapshot *s, struct sn_err *err)
{
    const struct sn_state *state = s->env.state;
    s->tensor = sn_alloc_n((size_t)state->n_tensors + 1, sizeof(*s->tensor));
    s->host_of = sn_alloc_n((size_t)s->env.comm->size, sizeof(*s->host_of));
    s->head = sn_alloc(SN_SNAPSHOT_SHARD_HEAD);
    if (!s->tensor || !s->host_of || !s->head)
        return sn_fail(err, SN_ENOMEM, "snapshots: no memory to list them");
    if (s->env.comm->size < 2)
        return sn_fail(err, SN_EINPUT,
                       "checkpoint.snapshot_every needs ranks on two hosts, and this run has one "
                       "rank; start more, or leave the key out");
    s->model = sn_state_hash(state);
    SN_TRY(sn_state_index(state, s->tensor, err));
    return sn_snapshot_dir(&s->dir, s->env.root, s->env.output, err);
}

static enum sn_status begin_together(struct sn_snapshot *s, struct sn_err *err)
{
    size_t size = (size_t)s->env.comm->size;
    struct rank_host *all = sn_alloc_n(size, sizeof(*all));
    int *order = sn_alloc_n(size, sizeof(*order));
    enum sn_status st = all && order
                            ? prepare(s, err)
                            : sn_fail(err, SN_ENOMEM, "snapshots: no memory for %zu ranks", size);
    st = sn_snapshot_agree(s, st, err);
    if (st == SN_OK)
        st = gather_hosts(s, all, order, err);
    if (st == SN_OK)
        st = number_run(s, s->env.fresh, err);
    sn_free(all);
    sn_free(order);
    return st;
}

enum sn_status sn_snapshot_create(struct sn_snapshot **out, const struct sn_snapshot_env *env,
                                  struct sn_err *err)
{
    struct sn_snapshot *s = sn_alloc(sizeof(*s));
    enum sn_status st = s ? SN_OK : sn_fail(err, SN_ENOMEM, "snapshots: no memory");
    st = env->comm->ops->agree(env->comm, st, err);
    if (st == SN_OK) {
        s->env = *env;
        st = begin_together(s, err);
    }
    if (st != SN_OK) {
        sn_snapshot_close(s);
        return st;
    }
    *out = s;
    return SN_OK;
}

void sn_snapshot_close(struct sn_snapshot *s)
{
    if (!s)
        return;
    (void)sn_snapshot_discard(s, true, false, NULL); /* nothing is removed */
    if (s->is_under_way)
        return; /* after a failure: the communicator may write there as long as the process lives */
    for (int g = 0; g < 2; g++) {
        sn_snapshot_file_close(&s->own[g]);
        sn_snapshot_file_close(&s->kept[g]);
    }
    sn_free(s->head);
    sn_free(s->tensor);
    sn_free(s->host_of);
    sn_free(s->dir);
    sn_free(s);
}

int sn_snapshot_exposed(const struct sn_snapshot *s)
{
    return s->exposed;
}

int64_t sn_snapshot_traffic(const struct sn_snapshot *s)
{
    return s->total;
}

int64_t sn_snapshot_sent(const struct sn_snapshot *s)
{
    return sn_snapshot_shard_bytes(&s->env.room);
}

void sn_snapshot_get_times(const struct sn_snapshot *s, struct sn_snapshot_times *out)
{
    *out = s->times;
}

bool sn_snapshot_is_under_way(const struct sn_snapshot *s)
{
    return s->is_under_way;
}

enum sn_status sn_snapshot_forget(struct sn_snapshot *s, struct sn_err *err)
{
    SN_TRY(sn_snapshot_agree(s, SN_OK, err)); /* nobody looks for anything any more */
    enum sn_status st = sn_snapshot_discard(s, true, false, err);
    if (st == SN_OK && sn_snapshot_leads(s))
        st = sn_snapshot_remove(s->dir, 0, err);
    return sn_snapshot_agree(s, st, err);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* All of this host's ranks, before any takes its part. */
static enum sn_status check_space(const struct sn_snapshot *s, bool retake, struct sn_err *err)
{
    int64_t is_free, taken, half = 2 * s->env.capacity * sn_snapshot_ranks_here(s);
    char need[16], has[16];
    SN_TRY(sn_snapshot_space(s->dir, &is_free, &taken, err));
    if (is_free >= half && is_free + (retake ? taken : 0) >= 2 * half)
        return SN_OK;
    return sn_fail(
        err, SN_EIO,
        "%s: checkpoint.snapshot_every takes %s (%" PRId64
        " bytes) of the memory there for the %d ranks of this host, but only %s (%" PRId64
        " bytes) are free; make it larger, use more hosts, or leave the key out",
        s->dir, sn_str_bytes(need, 2 * half), 2 * half, sn_snapshot_ranks_here(s),
        sn_str_bytes(has, is_free), is_free);
}

static enum sn_status make_generation(struct sn_snapshot *s, int g, struct sn_err *err)
{
    struct sn_snapshot_name own = {s->series, s->env.comm->rank, false, g};
    struct sn_snapshot_name kept = {s->series, s->from, true, g};
    sn_snapshot_work(s, "start: memory of snapshots");
    enum sn_status st = sn_snapshot_file_create(&s->own[g], s->dir, &own, s->env.capacity, err);
    if (st == SN_OK)
        st = sn_snapshot_file_create(&s->kept[g], s->dir, &kept, s->env.capacity, err);
    return sn_snapshot_worked(s, st, err);
}

static enum sn_status take_again(struct sn_snapshot *s, struct sn_err *err)
{
    enum sn_status st = sn_snapshot_begin(s, err);
    if (st == SN_OK)
        st = sn_snapshot_wait(s, err);
    SN_TRY(sn_snapshot_agree(s, st, err));
    st = sn_snapshot_discard(s, true, false, err);
    if (st == SN_OK && sn_snapshot_leads(s))
        st = sn_snapshot_remove(s->dir, s->series, err);
    return sn_snapshot_agree(s, st, err);
}

enum sn_status sn_snapshot_open(struct sn_snapshot *s, bool retake, struct sn_err *err)
{
    int64_t dropped[SN_NAXES] = {0};
    enum sn_status st = sn_snapshot_discard(s, !retake, true, err);
    SN_TRY(sn_snapshot_agree(s, st, err));
    if (sn_snapshot_leads(s))
        st = sn_snapshot_dir_make(s->dir, err);
    if (st == SN_OK && sn_snapshot_leads(s))
        st = check_space(s, retake, err);
    SN_TRY(sn_snapshot_agree(s, st, err));
    if (!retake)
        SN_TRY(number_run(s, true, err));
    SN_TRY(make_generation(s, 0, err));
    if (retake)
        SN_TRY(take_again(s, err));
    SN_TRY(make_generation(s, 1, err));
    s->env.comm->ops->take_sent_bytes(s->env.comm, dropped);
    s->times = (struct sn_snapshot_times){0};
    return SN_OK;
}

/* --- one snapshot ----------------------------------------------------------------------------- */

sn_request sn_snapshot_post(struct sn_snapshot *s, enum sn_collective kind, int peer, void *p,
                            int64_t bytes)
{
    struct sn_transfer t = {.kind = kind,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_U8,
                            .n = bytes,
                            .in = kind == SN_SEND ? p : NULL,
                            .out = kind == SN_SEND ? NULL : p,
                            .peer = peer,
                            .tag = SN_SNAPSHOT_TAG,
                            .staging = s->env.staging,
                            .label = "snapshots"};
    return bytes ? s->env.comm->ops->post(s->env.comm, &t) : 0;
}

static void post(struct sn_snapshot *s, enum sn_collective kind, int peer, char *p, int64_t bytes)
{
    s->request[s->n_requests++] = sn_snapshot_post(s, kind, peer, p, bytes);
}

/* A snapshot shard behind its head, in pieces of which both sides know the size. */
static void post_body(struct sn_snapshot *s, enum sn_collective kind, int peer, char *shard,
                      int64_t bytes)
{
    int64_t each = (bytes + SN_SNAPSHOT_PIECES - 1) / SN_SNAPSHOT_PIECES;
    each = each > PIECE ? each : PIECE;
    for (int64_t at = SN_SNAPSHOT_SHARD_HEAD; at < bytes; at += each)
        post(s, kind, peer, shard + at, bytes - at < each ? bytes - at : each);
}

enum sn_status sn_snapshot_begin(struct sn_snapshot *s, struct sn_err *err)
{
    int g = s->generation;
    double began = sn_clock();
    struct sn_snapshot_shard_source source = {
        .state = s->env.state,
        .tensor = s->tensor,
        .tag = {s->run, s->series, s->model, s->env.comm->rank, s->env.comm->size},
        .room = s->env.room};
    SN_TRY(sn_snapshot_wait(s, err));
    SN_TRY(sn_snapshot_shard_write(s->own[g].p, &source, err));
    sn_snapshot_shard_break(s->kept[g].p);
    s->n_requests = 0;
    post(s, SN_RECV, s->from, s->head, SN_SNAPSHOT_SHARD_HEAD);
    post_body(s, SN_RECV, s->from, s->kept[g].p, s->from_bytes);
    post(s, SN_SEND, s->to, s->own[g].p, SN_SNAPSHOT_SHARD_HEAD);
    post_body(s, SN_SEND, s->to, s->own[g].p, sn_snapshot_shard_bytes(&s->env.room));
    s->is_under_way = true;
    s->times =
        (struct sn_snapshot_times){.step = s->env.state->scalars.step, .copy = sn_clock() - began};
    return SN_OK;
}

enum sn_status sn_snapshot_wait(struct sn_snapshot *s, struct sn_err *err)
{
    struct sn_snapshot_shard_head h;
    double began = sn_clock();
    if (!s->is_under_way)
        return SN_OK;
    for (int i = 0; i < s->n_requests; i++)
        SN_TRY(s->env.comm->ops->wait(s->env.comm, s->request[i], err));
    if (!sn_snapshot_shard_look(&h, s->head, s->from_bytes) || h.tag.rank != s->from ||
        h.scalars.step != s->times.step)
        return sn_fail(
            err, SN_EFAIL,
            "snapshot of step %lld: what came from rank %d is not its snapshot shard; this is a "
            "defect of sennit, please report it with the run file",
            (long long)s->times.step, s->from);
    s->is_under_way = false;
    sn_snapshot_shard_seal(s->kept[s->generation].p, s->head);
    s->generation ^= 1;
    s->times.waited = sn_clock() - began;
    return SN_OK;
}
