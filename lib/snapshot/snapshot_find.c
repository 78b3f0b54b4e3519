/*
 * snapshot_find.c - which snapshot shards there are, and the newest step of which all are there and
 * whole.
 *
 * Each file is looked at by one process of its host, if possible by the one that has the snapshot
 * shard's rank. What all have found is gathered, so that every process makes the same choice; then
 * those who hold the chosen snapshot shards read them, and what proves altered is struck out and
 * chosen again.
 */
#include "lib/snapshot/snapshot_inner.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* --- the choice ------------------------------------------------------------------------------- */

/* The newest step first; then by series and rank; then the copy that is best to read. */
static int by_worth(const void *a, const void *b)
{
    const struct sn_snapshot_shard_record *x = a, *y = b;
    int64_t of_x[] = {-x->step, 0, x->rank, x->is_bad, x->holder != x->rank, x->holder, x->number};
    int64_t of_y[] = {-y->step, 0, y->rank, y->is_bad, y->holder != y->rank, y->holder, y->number};
    of_x[1] = x->series > y->series;
    of_y[1] = x->series < y->series;
    for (size_t i = 0; i < sizeof(of_x) / sizeof(of_x[0]); i++)
        if (of_x[i] != of_y[i])
            return of_x[i] < of_y[i] ? -1 : 1;
    return 0;
}

static bool belongs(const struct sn_snapshot_shard_record *x,
                    const struct sn_snapshot_shard_record *first)
{
    return x->step == first->step && x->series == first->series && x->world == first->world;
}

/* The first rank without a good snapshot shard among the n records of one snapshot; its world if
 * none. */
static int lacking(const struct sn_snapshot_shard_record *r, int n, int *of, int base)
{
    int rank = 0;
    for (int i = 0; i < n && r[i].rank <= rank; i++)
        if (r[i].rank == rank && !r[i].is_bad)
            of[rank++] = base + i;
    return rank;
}

bool sn_snapshot_choose(struct sn_snapshot_choice *out, struct sn_snapshot_shard_record *r, int n,
                        int64_t after)
{
    out->step = out->partly = -1;
    if (n > 0)
        qsort(r, (size_t)n, sizeof(*r), by_worth);
    for (int i = 0, end; i < n && r[i].step > after; i = end) {
        for (end = i + 1; end < n && belongs(&r[end], &r[i]);)
            end++;
        int rank = lacking(&r[i], end - i, out->of, i);
        if (rank == r[i].world) {
            out->step = r[i].step;
            out->series = r[i].series;
            out->world = r[i].world;
            return true;
        }
        if (out->partly < 0) {
            out->partly = r[i].step;
            out->lacks = rank;
        }
    }
    return false;
}

/* --- looking ---------------------------------------------------------------------------------- */

/* The process of this host that looks at snapshot shards of a rank. */
static bool is_mine(const struct sn_snapshot *s, int rank)
{
    const struct sn_comm *c = s->env.comm;
    int mine = s->host_of[c->rank], number = 0, before = 0;
    if (rank < c->size && s->host_of[rank] == mine)
        return rank == c->rank;
    for (int r = 0; r < c->size; r++) {
        before += r < c->rank && s->host_of[r] == mine;
        number += s->host_of[r] == mine;
    }
    return rank % number == before;
}

/* What cannot be opened or is no snapshot shard of this run is kept too, to be removed. */
static void hold(struct sn_snapshot *s, const struct sn_snapshot_name *name)
{
    struct sn_held *h = &s->held[s->n_held++];
    struct sn_err err;
    *h = (struct sn_held){.name = *name};
    if (sn_snapshot_file_open(&h->file, s->dir, name, &err) != SN_OK) {
        sn_log(SN_LOG_WARN, "%s", err.text);
        return;
    }
    h->is_shard = sn_snapshot_shard_look(&h->head, h->file.p, h->file.bytes) && s->run &&
                  h->head.tag.run == s->run && h->head.tag.series == name->series &&
                  h->head.tag.rank == name->rank;
    if (h->is_shard && h->head.tag.model != s->model) {
        sn_log(SN_LOG_WARN, "%s: is of another model; it is not used", h->file.path);
        h->is_shard = false;
    }
}

static enum sn_status look(struct sn_snapshot *s, struct sn_err *err)
{
    struct sn_snapshot_name *list;
    int n;
    SN_TRY(sn_snapshot_list(&list, &n, s->dir, err));
    s->held = sn_alloc_n((size_t)n + 1, sizeof(*s->held));
    for (int i = 0; s->held && i < n; i++)
        if (is_mine(s, list[i].rank))
            hold(s, &list[i]);
    sn_free(list);
    return s->held ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to look at it", s->dir);
}

enum sn_status sn_snapshot_discard(struct sn_snapshot *s, bool all, bool removes,
                                   struct sn_err *err)
{
    enum sn_status st = SN_OK;
    const struct sn_snapshot_choice *c = &s->choice;
    int kept = 0;
    for (int i = 0; i < s->n_held; i++) {
        struct sn_held *h = &s->held[i];
        if (!all && h->is_shard && h->head.scalars.step == c->step &&
            h->head.tag.series == c->series) {
            s->held[kept++] = *h;
            continue;
        }
        enum sn_status this = removes ? sn_snapshot_file_remove(s->dir, &h->name, err) : SN_OK;
        st = st == SN_OK ? this : st;
        sn_snapshot_file_close(&h->file);
    }
    s->n_held = kept;
    if (all) {
        sn_free(s->held);
        sn_free(s->record);
        sn_free(s->choice.of);
        s->held = NULL;
        s->record = NULL;
        s->choice.of = NULL;
    }
    return st;
}

/* --- gathering -------------------------------------------------------------------------------- */

static int list_own(const struct sn_snapshot *s, struct sn_snapshot_shard_record *out)
{
    int n = 0;
    for (int i = 0; i < s->n_held; i++) {
        const struct sn_snapshot_shard_head *h = &s->held[i].head;
        if (s->held[i].is_shard)
            out[n++] = (struct sn_snapshot_shard_record){.series = h->tag.series,
                                                         .step = h->scalars.step,
                                                         .n_boxes = h->n_boxes,
                                                         .rank = h->tag.rank,
                                                         .world = h->tag.world,
                                                         .holder = s->env.comm->rank,
                                                         .number = i,
                                                         .is_kept = s->held[i].name.is_kept};
    }
    return n;
}

static int64_t largest(const int64_t *x, int n)
{
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* Each rank has `most` places, of which it fills count[rank]: without the others. */
static void close_up(struct sn_snapshot *s, const int64_t *count, int64_t most)
{
    for (int r = 0; r < s->env.comm->size; r++)
        for (int64_t i = 0; i < count[r]; i++)
            s->record[s->n_records++] = s->record[r * most + i];
}

static enum sn_status gather_records(struct sn_snapshot *s, struct sn_snapshot_shard_record *mine,
                                     int64_t *count, struct sn_err *err)
{
    int size = s->env.comm->size;
    int64_t n = list_own(s, mine);
    SN_TRY(sn_snapshot_gather(s, &n, count, 1, err));
    int64_t most = largest(count, size);
    struct sn_snapshot_shard_record *padded = sn_alloc_n((size_t)most + 1, sizeof(*padded));
    s->record = sn_alloc_n((size_t)(most * size) + 1, sizeof(*s->record));
    s->choice.of = sn_alloc_n((size_t)(most * size) + 1, sizeof(*s->choice.of));
    enum sn_status st = padded && s->record && s->choice.of
                            ? SN_OK
                            : sn_fail(err, SN_ENOMEM, "snapshots: no memory to list them");
    st = sn_snapshot_agree(s, st, err);
    if (st == SN_OK && most) {
        memcpy(padded, mine, (size_t)n * sizeof(*mine));
        st = sn_snapshot_gather(s, padded, s->record,
                                most * (int64_t)(sizeof(*padded) / sizeof(double)), err);
    }
    sn_free(padded);
    SN_TRY(st);
    s->n_records = 0;
    close_up(s, count, most);
    return SN_OK;
}

static enum sn_status gather(struct sn_snapshot *s, struct sn_err *err)
{
    struct sn_snapshot_shard_record *mine = sn_alloc_n((size_t)s->n_held + 1, sizeof(*mine));
    int64_t *count = sn_alloc_n((size_t)s->env.comm->size, sizeof(*count));
    enum sn_status st =
        mine && count ? SN_OK : sn_fail(err, SN_ENOMEM, "snapshots: no memory to list them");
    st = sn_snapshot_agree(s, st, err);
    if (st == SN_OK)
        st = gather_records(s, mine, count, err);
    sn_free(mine);
    sn_free(count);
    return st;
}

/* --- proof ------------------------------------------------------------------------------------ */

/* Of the chosen snapshot shards that this process holds, the first that is altered: its number
 * here; -1. */
static int64_t first_altered(struct sn_snapshot *s)
{
    for (int r = 0; r < s->choice.world; r++) {
        const struct sn_snapshot_shard_record *x = &s->record[s->choice.of[r]];
        struct sn_held *h = &s->held[x->number];
        struct sn_err why;
        if (x->holder != s->env.comm->rank || h->is_checked)
            continue;
        if (sn_snapshot_shard_check(h->file.p, &h->head, &why) != SN_OK) {
            sn_log(SN_LOG_WARN, "%s: %s; it is not used", h->file.path, why.text);
            return x->number;
        }
        h->is_checked = true;
    }
    return -1;
}

/* Returns how many. */
static int strike(struct sn_snapshot *s, const int64_t *altered)
{
    int n = 0;
    for (int i = 0; i < s->n_records; i++) {
        struct sn_snapshot_shard_record *x = &s->record[i];
        if (!x->is_bad && altered[x->holder] == x->number) {
            x->is_bad = 1;
            n++;
        }
    }
    return n;
}

static enum sn_status choose(struct sn_snapshot *s, int64_t after, int64_t *altered,
                             struct sn_err *err)
{
    while (sn_snapshot_choose(&s->choice, s->record, s->n_records, after)) {
        sn_snapshot_work(s, "load: proving snapshot shards in memory");
        int64_t mine = first_altered(s);
        SN_TRY(sn_snapshot_worked(s, SN_OK, err));
        SN_TRY(sn_snapshot_gather(s, &mine, altered, 1, err));
        if (strike(s, altered) == 0)
            return SN_OK;
    }
    return SN_OK;
}

static void describe(const struct sn_snapshot *s, struct sn_snapshot_found *out)
{
    const struct sn_snapshot_choice *c = &s->choice;
    *out = (struct sn_snapshot_found){.step = c->step, .partly = c->partly, .lacks = c->lacks};
    if (c->step < 0)
        return;
    out->world = c->world;
    for (int r = 0; r < s->env.comm->size; r++) {
        bool holds = false;
        for (int i = 0; i < c->world; i++)
            holds = holds || s->host_of[s->record[c->of[i]].holder] == r;
        out->hosts += holds;
    }
    for (int i = 0; i < c->world; i++)
        out->kept += s->record[c->of[i]].is_kept;
}

enum sn_status sn_snapshot_find(struct sn_snapshot *s, int64_t after, struct sn_snapshot_found *out,
                                struct sn_err *err)
{
    int64_t *altered = sn_alloc_n((size_t)s->env.comm->size, sizeof(*altered));
    bool is_first = !s->record; /* on all ranks, or on none */
    enum sn_status st =
        altered ? SN_OK : sn_fail(err, SN_ENOMEM, "snapshots: no memory to list them");
    if (st == SN_OK && is_first)
        st = look(s, err);
    st = sn_snapshot_agree(s, st, err);
    if (st == SN_OK && is_first)
        st = gather(s, err);
    if (st == SN_OK)
        st = choose(s, after, altered, err);
    if (st == SN_OK)
        describe(s, out);
    sn_free(altered);
    return st;
}
