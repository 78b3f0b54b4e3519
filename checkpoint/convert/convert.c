/*
 * convert.c - a conversion from the first file to the last rename.
 *
 *   DST.tmp.convert/   shards (all laid out before the first journal), journal-RRRRR
 *   then               manifest.json, master.h5, COMMIT; journals removed; renamed to DST
 *
 * A killed conversion leaves the first form, and the next one goes on with the tensors that no
 * journal has. Every step that another rank relies on ends with the ranks agreeing.
 */
#include "checkpoint/convert/convert.h"

#include "checkpoint/convert/conversion.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "checkpoint/store/tokenizer_files.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* --- the plan's blocks ----------------------------------------------------------------------- */

static enum sn_status plan_blocks(struct sn_conversion *v, struct sn_err *err)
{
    struct sn_manifest *m = v->plan;
    uint64_t *hashes;
    size_t n = 0;
    for (int i = 0; i < m->n_tensors; i++) {
        struct sn_manifest_tensor *t = &m->tensors[i];
        t->dtype = strcmp(t->group, "model") == 0 ? v->o->dtype : SN_F32;
        for (int k = 0; k < t->n_pieces; k++) {
            struct sn_manifest_piece *p = &t->pieces[k];
            p->n_blocks = sn_manifest_blocks(sn_manifest_bytes(t, p->box), m->block);
            n += (size_t)p->n_blocks;
        }
    }
    for (int i = 0; i < m->n_shards; i++)
        m->shards[i].bytes = 0;
    sn_free(m->hashes);
    m->hashes = hashes = sn_alloc_n(n, sizeof(*hashes));
    m->n_hashes = n;
    if (!hashes)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %zu hashes", v->o->dst, n);
    for (int i = 0; i < m->n_pieces; i++) {
        m->pieces[i].hashes = hashes;
        hashes += m->pieces[i].n_blocks;
    }
    return SN_OK;
}

/* A name for this source and this plan: the manifest's text while its hashes and sizes are 0. */
static enum sn_status identify(struct sn_conversion *v, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_manifest_format(&text, v->plan);
    sn_str_add(&text, "%016" PRIx64, v->source->identity);
    enum sn_status st =
        text.failed ? sn_fail(err, SN_ENOMEM, "%s: no memory for the plan's text", v->o->dst)
                    : SN_OK;
    if (st == SN_OK)
        v->id = sn_hash64(text.p, text.len);
    sn_str_fini(&text);
    return st;
}

static enum sn_status check_memory(const struct sn_conversion *v, struct sn_err *err)
{
    char have[16], least[16];
    if (v->o->memory >= sn_conversion_least(v))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "--memory: %s is too little to convert %s; the least is %s (%" PRId64 " bytes)",
                   sn_str_bytes(have, v->o->memory), v->source->name,
                   sn_str_bytes(least, sn_conversion_least(v)), sn_conversion_least(v));
}

/* --- the directory --------------------------------------------------------------------------- */

/* The new name is durable, and so is that of its directory. */
static enum sn_status sync_parent(const struct sn_conversion *v, struct sn_err *err)
{
    SN_TRY(sn_dir_sync(v->parent, err));
    char *above = v->made_parent ? sn_path_parent(v->parent) : NULL;
    if (v->made_parent && !above)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to sync it", v->parent);
    enum sn_status st = above ? sn_dir_sync(above, err) : SN_OK;
    sn_free(above);
    return st;
}

static int64_t total_bytes(const struct sn_manifest *m)
{
    int64_t bytes = 0;
    for (int i = 0; i < m->n_tensors; i++)
        bytes += sn_conversion_tensor_bytes(&m->tensors[i]);
    return bytes;
}

static enum sn_status check_space(const struct sn_conversion *v, struct sn_err *err)
{
    char want[16], have[16];
    bool has_room;
    uint64_t bytes = (uint64_t)total_bytes(v->plan), left;
    SN_TRY(sn_dir_has_room(v->tmp, bytes, &has_room, &left, err));
    if (has_room)
        return SN_OK;
    return sn_fail(err, SN_EIO, "%s: needs %s, but its file system has %s left; make room", v->tmp,
                   sn_str_bytes(want, (int64_t)bytes), sn_str_bytes(have, (int64_t)left));
}

/* Two conversions to one place would take each other's journals for their own. Where the file
 * system has no locks, the user must see to it. */
static enum sn_status lock(const struct sn_conversion *v, int *fd, struct sn_err *err)
{
    *fd = open(v->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return sn_file_fail(err, v->tmp, "open");
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return sn_fail(err, SN_EINPUT,
                       "%s: another conversion is writing there; wait for its end, or use "
                       "another name",
                       v->tmp);
    return SN_OK;
}

/* Nothing of this conversion stays. */
static void discard(const struct sn_conversion *v)
{
    struct sn_err ignored; /* there is a failure before, which matters more */
    if (sn_dir_remove(v->tmp, &ignored) == SN_OK && v->made_parent)
        (void)rmdir(v->parent);
}

/* A fresh directory in place of the one that is locked as *fd, whose lock is held until the new one
 * is. */
static enum sn_status begin_anew(struct sn_conversion *v, int *fd, struct sn_err *err)
{
    int old = *fd;
    *fd = -1;
    enum sn_status st = sn_dir_remove(v->tmp, err);
    if (st == SN_OK)
        st = sn_dir_make(v->tmp, err);
    if (st == SN_OK)
        st = lock(v, fd, err);
    (void)close(old);
    SN_TRY(st);
    st = check_space(v, err);
    if (st != SN_OK)
        discard(v);
    return st;
}

/* Rank 0: the temporary directory is there, locked, and empty unless a journal is in it. */
static enum sn_status prepare(struct sn_conversion *v, int *fd, struct sn_err *err)
{
    bool found = false;
    if (access(v->o->dst, F_OK) == 0)
        return sn_fail(err, SN_EINPUT, "%s: is there already; use another name, or remove it",
                       v->o->dst);
    v->made_parent = access(v->parent, F_OK) != 0;
    SN_TRY(sn_dir_make(v->tmp, err));
    SN_TRY(lock(v, fd, err));
    if (!v->o->fresh)
        SN_TRY(sn_journal_read(v, &found, err));
    return found ? SN_OK : begin_anew(v, fd, err);
}

/* Rank 0, after a failure: what was finished stays for the next try, if that can do better: what
 * the values themselves forbid fails again. */
static void leave(struct sn_conversion *v, enum sn_status why)
{
    struct sn_err ignored;
    bool found, some = false;
    if (sn_journal_read(v, &found, &ignored) != SN_OK)
        return; /* not ours to remove */
    for (int i = 0; i < v->plan->n_tensors; i++)
        some = some || v->done[i];
    if (!some || why == SN_EINPUT)
        discard(v);
    else
        sn_log(SN_LOG_INFO,
               "%s: keeps what was converted; the same command goes on there, --fresh begins anew",
               v->tmp);
}

/* --- the work -------------------------------------------------------------------------------- */

struct load {
    int tensor;
    int64_t bytes;
};

static int largest_first(const void *pa, const void *pb)
{
    const struct load *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->tensor - b->tensor;
}

/* The largest tensor that is left goes to the rank with the least to do; all ranks come to the same
 * result. */
static void assign(const struct sn_conversion *v, struct load *loads, int64_t *busy, bool *mine)
{
    const struct sn_manifest *m = v->plan;
    int n = 0;
    for (int i = 0; i < m->n_tensors; i++)
        if (!v->done[i])
            loads[n++] = (struct load){i, sn_conversion_tensor_bytes(&m->tensors[i])};
    if (n > 1)
        qsort(loads, (size_t)n, sizeof(*loads), largest_first);
    for (int i = 0; i < n; i++) {
        int to = 0;
        for (int r = 1; r < v->o->comm->size; r++)
            to = busy[r] < busy[to] ? r : to;
        busy[to] += loads[i].bytes;
        mine[loads[i].tensor] = to == v->o->comm->rank;
    }
}

static enum sn_status write_mine(struct sn_conversion *v, struct sn_convert_report *report,
                                 struct sn_err *err)
{
    size_t n = (size_t)v->plan->n_tensors;
    struct load *loads = sn_alloc_n(n, sizeof(*loads));
    int64_t *busy = sn_alloc_n((size_t)v->o->comm->size, sizeof(*busy));
    bool *mine = sn_alloc_n(n, sizeof(*mine));
    struct sn_conversion_journal *journal = NULL;
    enum sn_status st = SN_OK;
    if (!loads || !busy || !mine)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to share out %zu tensors", v->tmp, n);
    if (st == SN_OK) {
        assign(v, loads, busy, mine);
        st = sn_journal_open(&journal, v, err);
    }
    if (st == SN_OK)
        st = sn_conversion_write(v, mine, journal, &report->peak_buffers, err);
    sn_journal_close(journal);
    sn_free(loads);
    sn_free(busy);
    sn_free(mine);
    return st;
}

/* --- the end --------------------------------------------------------------------------------- */

/* Rank 0: the hashes of all ranks are in their journals. */
static enum sn_status collect(struct sn_conversion *v, struct sn_err *err)
{
    bool found;
    SN_TRY(sn_journal_read(v, &found, err));
    for (int i = 0; i < v->plan->n_tensors; i++)
        if (!v->done[i])
            return sn_fail(err, SN_EFAIL, "%s: no rank wrote tensor %s %s", v->tmp,
                           v->plan->tensors[i].group, v->plan->tensors[i].name);
    return sn_conversion_sizes(v, err);
}

/* The tokenizer goes along; where its files are lost, its name does. */
static enum sn_status keep_tokenizer(const struct sn_conversion *v, struct sn_err *err)
{
    const struct sn_tokenizer_id *t = &v->source->tokenizer;
    enum sn_status st = t->file[0] ? sn_tokenizer_files_keep(t, v->parent, err) : SN_OK;
    if (st == SN_EINPUT)
        sn_log(SN_LOG_WARN, "%s", err->text);
    return st == SN_EINPUT ? SN_OK : st;
}

static enum sn_status commit(struct sn_conversion *v, struct sn_err *err)
{
    SN_TRY(collect(v, err));
    SN_TRY(keep_tokenizer(v, err));
    SN_TRY(sn_commit_write(v->tmp, v->plan, NULL, err));
    SN_TRY(sn_journal_remove(v, err));
    SN_TRY(sn_dir_sync(v->tmp, err));
    if (rename(v->tmp, v->o->dst) != 0)
        return sn_file_fail(err, v->tmp, "rename to its final name");
    return sync_parent(v, err);
}

/* Everything after rank 0 has prepared the directory. */
static enum sn_status work(struct sn_conversion *v, struct sn_convert_report *report,
                           struct sn_err *err)
{
    struct sn_comm *comm = v->o->comm;
    bool found = false;
    SN_TRY(comm->ops->agree(comm, sn_journal_read(v, &found, err), err));
    for (int i = 0; i < v->plan->n_tensors; i++)
        if (v->done[i])
            report->resumed_bytes += sn_conversion_tensor_bytes(&v->plan->tensors[i]);
    if (report->resumed_bytes > 0 && comm->rank == 0) {
        char bytes[16];
        sn_log(SN_LOG_INFO, "%s: goes on; %s were converted before", v->tmp,
               sn_str_bytes(bytes, report->resumed_bytes));
    }
    SN_TRY(sn_conversion_shards(v, found, err));
    SN_TRY(comm->ops->agree(comm, write_mine(v, report, err), err));
    return comm->ops->agree(comm, comm->rank == 0 ? commit(v, err) : SN_OK, err);
}

static enum sn_status init(struct sn_conversion *v, struct sn_err *err)
{
    v->tmp = sn_format("%s.tmp.convert", v->o->dst);
    v->parent = sn_path_parent(v->o->dst);
    v->offsets = sn_alloc_n((size_t)v->plan->n_pieces, sizeof(*v->offsets));
    v->done = sn_alloc_n((size_t)v->plan->n_tensors, sizeof(*v->done));
    if (!v->tmp || !v->parent || !v->offsets || !v->done)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a plan of %d pieces", v->o->dst,
                       v->plan->n_pieces);
    SN_TRY(plan_blocks(v, err));
    SN_TRY(check_memory(v, err));
    return identify(v, err);
}

enum sn_status sn_convert_run(struct sn_source *s, struct sn_manifest *plan,
                              const struct sn_convert_options *o, struct sn_convert_report *report,
                              struct sn_err *err)
{
    struct sn_conversion v = {.source = s, .plan = plan, .o = o};
    struct sn_comm *comm = o->comm;
    double begun = sn_clock();
    int fd = -1;
    *report = (struct sn_convert_report){.tensors = plan->n_tensors};
    enum sn_status st = comm->ops->agree(comm, init(&v, err), err);
    if (st == SN_OK) {
        st = comm->rank == 0 ? prepare(&v, &fd, err) : SN_OK;
        st = comm->ops->agree(comm, st, err);
        bool begins = st == SN_OK;
        if (begins)
            st = work(&v, report, err);
        if (begins && st != SN_OK && comm->rank == 0)
            leave(&v, st);
    }
    if (fd >= 0)
        (void)close(fd);
    report->bytes = total_bytes(plan);
    report->seconds = sn_clock() - begun;
    sn_free(v.tmp);
    sn_free(v.parent);
    sn_free(v.offsets);
    sn_free(v.done);
    return st;
}
