/*
 * convert_shards.c - the files of a conversion before anything is in them: laid out, their space
 * reserved, and where every piece belongs.
 */
#include "checkpoint/convert/conversion.h"
#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pieces by shard: those of shard s are list[first[s]] .. list[first[s + 1] - 1],
 * in their order. */
struct table {
    int *first, *list;
    const struct sn_manifest_tensor **of; /* by piece */
    struct sn_h5_slot *slots;             /* for the largest shard */
};

static void fini(struct table *t)
{
    sn_free(t->first);
    sn_free(t->list);
    sn_free(t->of);
    sn_free(t->slots);
}

static enum sn_status init(struct table *t, const struct sn_conversion *v, struct sn_err *err)
{
    const struct sn_manifest *m = v->plan;
    int most = 0;
    *t = (struct table){.first = sn_alloc_n((size_t)m->n_shards + 2, sizeof(*t->first)),
                        .list = sn_alloc_n((size_t)m->n_pieces, sizeof(*t->list)),
                        .of = sn_alloc_n((size_t)m->n_pieces, sizeof(*t->of))};
    if (!t->first || !t->list || !t->of)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to lay out %d pieces", v->tmp, m->n_pieces);
    for (int i = 0; i < m->n_pieces; i++)
        t->first[m->pieces[i].shard + 2]++;
    for (int s = 0; s < m->n_shards; s++) {
        most = t->first[s + 2] > most ? t->first[s + 2] : most;
        t->first[s + 2] += t->first[s + 1];
    }
    for (int i = 0; i < m->n_pieces; i++)
        t->list[t->first[m->pieces[i].shard + 1]++] = i;
    for (int i = 0; i < m->n_tensors; i++)
        for (int k = 0; k < m->tensors[i].n_pieces; k++)
            t->of[&m->tensors[i].pieces[k] - m->pieces] = &m->tensors[i];
    t->slots = sn_alloc_n((size_t)most, sizeof(*t->slots));
    return t->slots ? SN_OK
                    : sn_fail(err, SN_ENOMEM, "%s: no memory to lay out a shard of %d pieces",
                              v->tmp, most);
}

static enum sn_status lay_out(const char *path, int n, struct sn_h5_slot *slots, struct sn_err *err)
{
    SN_TRY(sn_shard_layout(path, n, slots, err));
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sn_file_fail(err, path, "open");
    enum sn_status st = fsync(fd) == 0 ? SN_OK : sn_file_fail(err, path, "sync");
    (void)close(fd); /* synced */
    return st;
}

/* Pieces of one dataset follow each other: is piece i of the shard the first of its own? */
static bool is_first(const struct sn_manifest *m, const int *list, int i)
{
    return i == 0 || strcmp(m->pieces[list[i]].dataset, m->pieces[list[i - 1]].dataset) != 0;
}

static enum sn_status do_shard(struct sn_conversion *v, const struct table *t, int shard,
                               bool again, struct sn_err *err)
{
    const struct sn_manifest *m = v->plan;
    const int *list = t->list + t->first[shard];
    int n = t->first[shard + 1] - t->first[shard], n_slots = 0;
    for (int i = 0; i < n; i++) {
        const struct sn_manifest_piece *p = &m->pieces[list[i]];
        if (!is_first(m, list, i))
            continue;
        struct sn_h5_slot *slot = &t->slots[n_slots++];
        *slot = (struct sn_h5_slot){
            .rows = p->set_rows, .cols = p->set_cols, .dtype = t->of[list[i]]->dtype};
        memcpy(slot->dataset, p->dataset, strlen(p->dataset) + 1); /* the plan has checked it */
    }
    char *path = sn_format("%s/%s", v->tmp, m->shards[shard].file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to lay out its shards", v->tmp);
    enum sn_status st = again ? sn_h5_locate_all(path, n_slots, t->slots, err)
                              : lay_out(path, n_slots, t->slots, err);
    sn_free(path);
    for (int i = 0, slot = -1; i < n && st == SN_OK; i++) {
        slot += is_first(m, list, i);
        v->offsets[list[i]] = t->slots[slot].offset;
    }
    if (st == SN_EIO && again)
        (void)sn_err_prefix(err, "taking up a conversion that was killed (--fresh begins anew)");
    return st;
}

/* Every rank learns the offsets from the rank that laid the shard out. */
static enum sn_status share(struct sn_conversion *v, const struct table *t, uint64_t *buffer,
                            struct sn_err *err)
{
    struct sn_comm *comm = v->o->comm;
    for (int root = 0; root < comm->size; root++) {
        int64_t n = 0;
        for (int s = root; s < v->plan->n_shards; s += comm->size)
            for (int i = t->first[s]; i < t->first[s + 1]; i++)
                buffer[n++] = v->offsets[t->list[i]];
        SN_TRY(comm->ops->broadcast(comm, buffer, n * (int64_t)sizeof(*buffer), root, err));
        n = 0;
        for (int s = root; s < v->plan->n_shards; s += comm->size)
            for (int i = t->first[s]; i < t->first[s + 1]; i++)
                v->offsets[t->list[i]] = buffer[n++];
    }
    return SN_OK;
}

enum sn_status sn_conversion_shards(struct sn_conversion *v, bool again, struct sn_err *err)
{
    struct sn_comm *comm = v->o->comm;
    struct table t;
    uint64_t *buffer = sn_alloc_n((size_t)v->plan->n_pieces, sizeof(*buffer));
    enum sn_status st = init(&t, v, err);
    if (st == SN_OK && !buffer)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for %d offsets", v->tmp, v->plan->n_pieces);
    for (int s = comm->rank; s < v->plan->n_shards && st == SN_OK; s += comm->size)
        st = do_shard(v, &t, s, again, err);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = share(v, &t, buffer, err);
    sn_free(buffer);
    fini(&t);
    return st;
}

enum sn_status sn_conversion_sizes(struct sn_conversion *v, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    for (int s = 0; s < v->plan->n_shards && st == SN_OK; s++) {
        struct stat sb;
        struct sn_manifest_shard *shard = &v->plan->shards[s];
        char *path = sn_format("%s/%s", v->tmp, shard->file);
        if (!path)
            return sn_fail(err, SN_ENOMEM, "%s: no memory to measure its shards", v->tmp);
        if (stat(path, &sb) != 0)
            st = sn_file_fail(err, path, "stat");
        else
            shard->bytes = sb.st_size;
        sn_free(path);
    }
    return st;
}
