/*
 * save.c - a save as rank 0 leads it: make room, let every rank write, join what they wrote,
 * rename.
 */
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One phase of a save under way. */
struct save {
    struct sn_store *store;
    const struct sn_state *state;
    char *tmp, *final; /* paths */
};

static void stage(const struct save *v, enum sn_checkpoint_stage done)
{
    sn_store_stage(v->store, done);
}

static void fini(struct save *v)
{
    sn_free(v->tmp);
    sn_free(v->final);
}

static enum sn_status init(struct save *v, struct sn_store *store, const struct sn_state *s,
                           struct sn_err *err)
{
    char suffix[32];
    (void)snprintf(suffix, sizeof(suffix), ".tmp.%" PRId64, s->tag);
    *v = (struct save){.store = store, .state = s};
    v->tmp = sn_store_path(store, s->scalars.step, suffix);
    v->final = sn_store_path(store, s->scalars.step, "");
    if (v->tmp && v->final)
        return SN_OK;
    fini(v);
    return sn_fail(err, SN_ENOMEM, "%s: no memory to save %d tensors", store->dir, s->n_tensors);
}

/* --- joining --------------------------------------------------------------------------------- */

/* Is the shard there, and as long as its writer says? */
static enum sn_status check_shard(const struct save *v, const struct sn_manifest *list,
                                  struct sn_err *err)
{
    for (int i = 0; i < list->n_shards; i++)
        SN_TRY(sn_shard_check(v->tmp, &list->shards[i], err));
    return SN_OK;
}

/* The list of one rank; without one, which is how a rank that owns nothing leaves it, *found is
 * false. */
static enum sn_status read_list(const struct save *v, int rank, struct sn_manifest *out,
                                bool *found, struct sn_err *err)
{
    char name[SN_SHARD_NAME_MAX], *text = NULL;
    size_t len = 0;
    char *path = sn_format("%s/%s", v->tmp, sn_shard_list_name(name, rank));
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read the list of rank %d", v->tmp, rank);
    enum sn_status st = SN_OK;
    *found = access(path, F_OK) == 0 || errno != ENOENT;
    if (*found)
        st = sn_file_load(&text, &len, path, err);
    if (*found && st == SN_OK)
        st = sn_manifest_parse(out, text, len, path, err);
    sn_free(text);
    sn_free(path);
    return st;
}

/* No tensor of the model may be missing, and none may be there that is not the model's. */
static enum sn_status check_all(const struct save *v, const struct sn_manifest *m,
                                struct sn_err *err)
{
    const struct sn_state *s = v->state;
    for (int i = 0; i < s->n_all; i++) {
        const struct sn_state_shape *a = &s->all[i];
        const struct sn_manifest_tensor *t = sn_manifest_find(m, a->group, a->name);
        if (!t)
            return sn_fail(err, SN_EFAIL, "%s: no rank wrote tensor %s %s", v->tmp, a->group,
                           a->name);
        if (t->rows != a->rows || t->cols != a->cols)
            return sn_fail(err, SN_EFAIL,
                           "%s: tensor %s %s was written as %" PRId64 " x %" PRId64
                           ", but the model's is %" PRId64 " x %" PRId64,
                           v->tmp, a->group, a->name, t->rows, t->cols, a->rows, a->cols);
    }
    if (m->n_tensors != s->n_all)
        return sn_fail(err, SN_EFAIL, "%s: %d tensors were written, but the model has %d", v->tmp,
                       m->n_tensors, s->n_all);
    return sn_manifest_check_cover(m, v->tmp, err);
}

/* The manifest says all that they say. */
static enum sn_status remove_lists(const struct save *v, struct sn_err *err)
{
    char name[SN_SHARD_NAME_MAX];
    for (int r = 0; r < v->state->ranks; r++) {
        char *path = sn_format("%s/%s", v->tmp, sn_shard_list_name(name, r));
        if (!path)
            return sn_fail(err, SN_ENOMEM, "%s: no memory to remove its lists", v->tmp);
        enum sn_status st = SN_OK;
        if (unlink(path) != 0 && errno != ENOENT)
            st = sn_file_fail(err, path, "remove");
        sn_free(path);
        SN_TRY(st);
        sn_store_mark(v->store);
    }
    return SN_OK;
}

/* `lists` has room for one list a rank; *n counts them, for the caller to free. */
static enum sn_status join_lists(const struct save *v, struct sn_manifest *lists, int *n,
                                 struct sn_err *err)
{
    struct sn_manifest m;
    for (int r = 0; r < v->state->ranks; r++) {
        bool found = false;
        SN_TRY(read_list(v, r, &lists[*n], &found, err));
        *n += found;
        sn_store_mark(v->store);
    }
    for (int i = 0; i < *n; i++) {
        SN_TRY(check_shard(v, &lists[i], err));
        sn_store_mark(v->store);
    }
    SN_TRY(sn_manifest_merge(&m, lists, *n, v->tmp, err));
    m.scalars = v->state->scalars;
    m.model_text = v->state->model_text;
    m.layout_text = v->state->layout_text;
    m.config_hash = v->state->config_hash;
    m.tokenizer = v->state->tokenizer;
    enum sn_status st = check_all(v, &m, err);
    if (st == SN_OK)
        st = remove_lists(v, err);
    if (st == SN_OK)
        st = sn_commit_write(v->tmp, &m, v->store, err);
    sn_manifest_fini(&m);
    return st;
}

static enum sn_status join(const struct save *v, struct sn_err *err)
{
    int n = 0, ranks = v->state->ranks;
    struct sn_manifest *lists = sn_alloc_n((size_t)ranks, sizeof(*lists));
    if (!lists)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the lists of %d ranks", v->tmp, ranks);
    enum sn_status st = join_lists(v, lists, &n, err);
    for (int i = 0; i < n; i++)
        sn_manifest_fini(&lists[i]);
    sn_free(lists);
    return st;
}

/* --- publishing ------------------------------------------------------------------------------ */

/* A checkpoint of the same step stands in the way: exchange them, so that one is always there; then
 * the old one bears the temporary name. File systems that cannot exchange get two renames. */
static enum sn_status replace(struct save *v, struct sn_err *err)
{
    struct sn_err why;
    char *old = sn_format("%s.del.%ld", v->final, (long)getpid());
    sn_store_wait_sweep(v->store); /* it may be removing one of that name */
    if (!old)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to replace it", v->final);
    enum sn_status st = SN_OK;
    bool exchanged = renameat2(AT_FDCWD, v->tmp, AT_FDCWD, v->final, RENAME_EXCHANGE) == 0;
    if (!exchanged && (rename(v->final, old) != 0 || rename(v->tmp, v->final) != 0))
        st = sn_file_fail(err, v->final, "replace");
    else if (sn_dir_remove_marked(exchanged ? v->tmp : old, v->store->progress, &why) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", why.text); /* the next save tries again */
    sn_free(old);
    return st;
}

static enum sn_status publish(struct save *v, struct sn_err *err)
{
    if (rename(v->tmp, v->final) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return sn_file_fail(err, v->tmp, "rename to its final name");
        SN_TRY(replace(v, err));
    }
    SN_TRY(sn_dir_sync(v->store->dir, err));
    stage(v, SN_STAGE_VISIBLE);
    return SN_OK;
}

/* A hint for people; the checkpoint is there without it, so a failure is only warned of. */
static void point_latest(const struct save *v)
{
    char text[64];
    struct sn_err err = {.text = "no memory"};
    (void)snprintf(text, sizeof(text), "step-%08" PRId64 "\n", v->state->scalars.step);
    char *to = sn_format("%s/LATEST", v->store->dir),
         *from = sn_format("%s/LATEST.tmp", v->store->dir);
    enum sn_status st = SN_ENOMEM;
    if (to && from)
        st = sn_file_save(from, text, strlen(text), &err);
    if (st == SN_OK && rename(from, to) != 0)
        st = sn_file_fail(&err, to, "replace");
    if (st == SN_OK)
        st = sn_dir_sync(v->store->dir, &err);
    if (st != SN_OK)
        sn_log(SN_LOG_WARN, "%s: LATEST was not written: %s", v->store->dir, err.text);
    sn_free(to);
    sn_free(from);
    stage(v, SN_STAGE_LATEST);
}

/* --- phases ---------------------------------------------------------------------------------- */

static enum sn_status check_space(struct save *v, struct sn_err *err)
{
    uint64_t need = 0, have;
    bool has_room;
    for (int i = 0; i < v->state->n_all; i++)
        need += (uint64_t)(v->state->all[i].rows * v->state->all[i].cols) * sizeof(float);
    SN_TRY(sn_dir_has_room(v->store->dir, need, &has_room, &have, err));
    if (!has_room) {
        sn_store_wait_sweep(v->store);
        SN_TRY(sn_dir_has_room(v->store->dir, need, &has_room, &have, err));
    }
    if (has_room)
        return SN_OK;
    char needed[16], is_free[16];
    return sn_fail(err, SN_EIO,
                   "%s: the checkpoint of step %" PRId64
                   " has %s, but only %s are free; free some space, or lower checkpoint.keep",
                   v->store->dir, v->state->scalars.step, sn_str_bytes(needed, (int64_t)need),
                   sn_str_bytes(is_free, (int64_t)have));
}

static enum sn_status prepare(struct save *v, struct sn_err *err)
{
    v->store->times = (struct sn_save_times){0};
    sn_store_tidy(v->store);
    if (access(v->tmp, F_OK) == 0) /* its lists would be taken for those of this save */
        return sn_fail(err, SN_EIO,
                       "%s: is left from another save and cannot be removed; remove it by hand",
                       v->tmp);
    SN_TRY(check_space(v, err));
    SN_TRY(sn_dir_make(v->tmp, err));
    stage(v, SN_STAGE_DIRECTORY);
    double began = sn_clock();
    if (v->store->options.single_file)
        SN_TRY(sn_shard_layout_single(v->store, v->state, v->tmp, err));
    v->store->times.layout = sn_clock() - began;
    return SN_OK;
}

static enum sn_status write_part(struct save *v, struct sn_err *err)
{
    if (v->state->rank != 0) /* rank 0 has begun to count in `prepare` */
        v->store->times = (struct sn_save_times){0};
    return sn_shard_write(v->store, v->state, v->tmp, err);
}

static enum sn_status commit(struct save *v, struct sn_err *err)
{
    double began = sn_clock();
    SN_TRY(join(v, err));
    sn_store_mark(v->store);
    SN_TRY(sn_store_move_damaged(v->store, v->state->scalars.step, err));
    SN_TRY(publish(v, err));
    sn_store_mark(v->store);
    point_latest(v);
    sn_store_mark(v->store);
    sn_store_rotate(v->store, v->state->scalars.step);
    stage(v, SN_STAGE_ROTATED);
    sn_store_begin_sweep(v->store);
    v->store->times.commit = sn_clock() - began;
    return SN_OK;
}

static enum sn_status run(struct save *v, enum sn_save_phase phase, struct sn_err *err)
{
    switch (phase) {
    case SN_SAVE_PREPARE:
        return prepare(v, err);
    case SN_SAVE_WRITE:
        return write_part(v, err);
    case SN_SAVE_COMMIT:
        return commit(v, err);
    case SN_SAVE_ABANDON:
        break;
    }
    return sn_dir_remove_marked(v->tmp, v->store->progress, err);
}

enum sn_status sn_store_save(struct sn_store *store, const struct sn_state *s,
                             enum sn_save_phase phase, struct sn_err *err)
{
    struct save v;
    if (s->scalars.step < 0 || s->scalars.step > INT64_C(999999999999999999))
        return sn_fail(err, SN_EINPUT, "%s: %" PRId64 " is no step to save", store->dir,
                       s->scalars.step);
    SN_TRY(init(&v, store, s, err));
    store->progress = s->progress;
    enum sn_status st = run(&v, phase, err);
    store->progress = NULL; /* the state may go before the store */
    fini(&v);
    return st;
}
