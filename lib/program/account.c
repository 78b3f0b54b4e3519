/*
 * account.c - what the compiled programs occupy and send. Exact: the executor and the saver map
 * these arenas, and the communicator's counters must give these bytes.
 */
#include "lib/program/boxes.h"

#include "lib/layout/collective.h"
#include "lib/program/opinfo.h"

int64_t sn_job_arena_bytes(const struct sn_job *j)
{
    int64_t bytes = 0;
    for (int a = 0; a < SN_NARENAS; a++)
        bytes += j->arena_bytes[a];
    return bytes;
}

void sn_memory_add_up(struct sn_memory_plan *m)
{
    m->total = 0;
    for (int u = 0; u < SN_NMEMORY_USES; u++)
        m->total += m->of[u];
}

void sn_job_memory(const struct sn_job *j, struct sn_memory_plan *out)
{
    const struct sn_programs set = sn_job_programs(j);
    int64_t arenas = sn_job_arena_bytes(j), told = 0;
    *out = (struct sn_memory_plan){0};
    for (int c = 0; c < SN_NSTATE_CLASSES; c++)
        out->of[sn_class_row((enum sn_class)c)->use] += j->class_bytes[c];
    /* The scratch arena is as large as the largest program needs; its workspace counts apart. */
    for (int i = 0; i < SN_NPROGRAMS; i++)
        if (set.of[i]->workspace_bytes > out->workspace)
            out->workspace = set.of[i]->workspace_bytes;
    for (int u = 0; u < SN_NMEMORY_USES; u++)
        told += out->of[u];
    out->activations += arenas - told; /* what else is in scratch, and page rounding of classes */
    out->comm += j->shm_bytes;
    out->snapshot = j->config->checkpoint.async ? sn_job_snapshot_bytes(j) : 0;
    out->snapshot += SN_SNAPSHOT_SHARD_COPIES * j->snapshot_shard_bytes;
    out->library = SN_LIBRARY_BYTES;
    sn_memory_add_up(out);
}

int sn_program_runs(const struct sn_program *p, int segment, enum sn_when when)
{
    return p->segments[segment].runs[when];
}

/* Bytes of one run of an operation: of one member of its group, or of all. */
static int64_t sent_by_op(const struct sn_job *j, const struct sn_op *op, bool all)
{
    struct sn_communication c;
    int size = j->group_size[op->group], index = j->group_index[op->group];
    bool counted = sn_op_row(op->kind)->counts_rows;
    if (op->extra || (counted && !all) || !sn_op_communication(&c, &j->train, op))
        return 0;
    if (!all)
        return sn_collective_bytes(c.kind, c.n, c.dtype, size, index);
    int64_t total = sn_collective_total(c.kind, c.n, c.dtype, size);
    return op->kind == SN_OP_SHIFT ? total * size : total; /* every member sends */
}

static void traffic(const struct sn_job *j, bool stage, int64_t bytes[SN_NAXES])
{
    const struct sn_program *p = &j->train;
    int64_t ranks = sn_grid_ranks(&j->grid) / j->stages;
    for (int c = 0; c < p->n_segments; c++)
        for (int i = p->segments[c].first; i < p->segments[c].first + p->segments[c].n; i++) {
            const struct sn_op *op = &p->ops[i];
            int64_t one = sent_by_op(j, op, stage);
            if (one == 0)
                continue;
            int64_t runs = sn_program_runs(p, c, op->when);
            int64_t share = 1; /* groups of this stage */
            if (stage && op->group == SN_GROUP_WORLD)
                share = j->stage == 0; /* counted once, by the first stage */
            else if (stage && op->group == SN_GROUP_TIED) {
                share = ranks;
                one /= j->group_size[op->group]; /* the other half is the other stage's */
            } else if (stage)
                share = op->group == SN_GROUP_PIPELINE ? ranks : ranks / j->group_size[op->group];
            bytes[sn_group_axis(op->group)] += runs * one * share;
        }
}

void sn_job_traffic(const struct sn_job *j, int64_t bytes[SN_NAXES])
{
    for (int a = 0; a < SN_NAXES; a++)
        bytes[a] = 0;
    traffic(j, false, bytes);
}

void sn_job_traffic_of_stage(const struct sn_job *j, int64_t bytes[SN_NAXES])
{
    for (int a = 0; a < SN_NAXES; a++)
        bytes[a] = 0;
    traffic(j, true, bytes);
}

int64_t sn_job_snapshot_traffic_of_stage(const struct sn_job *j)
{
    struct sn_snapshot_shard_room room;
    if (!j->config->checkpoint.snapshot_every)
        return 0;
    sn_job_snapshot_shard_room(j, &room);
    return sn_snapshot_shard_bytes(&room) * (sn_grid_ranks(&j->grid) / j->stages);
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 0x100000001b3ull;
    return h;
}

static uint64_t mix_view(uint64_t h, const struct sn_view *v)
{
    int64_t x[] = {v->buf, v->offset, v->rows, v->cols, v->ld, (int64_t)v->index, v->stride};
    return v->buf < 0 ? mix(h, x, sizeof(x[0])) : mix(h, x, sizeof(x));
}

bool sn_job_is_first(const struct sn_job *j, unsigned groups)
{
    for (int q = 0; q < SN_NGROUPS; q++)
        if (groups >> q & 1u && j->group_index[q] != 0)
            return false;
    return true;
}

uint64_t sn_certificate(const uint64_t *stages, int n)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (int i = 0; i < n; i++) {
        int64_t x[] = {i, (int64_t)stages[i]};
        h = mix(h, x, sizeof(x));
    }
    return h ? h : 1;
}

static uint64_t mix_schedule(uint64_t h, const struct sn_sched *s, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t x[] = {s[i].segment, s[i].micro, s[i].slot, s[i].late, s[i].first, s[i].n};
        h = mix(h, x, sizeof(x));
    }
    return h;
}

uint64_t sn_program_hash(const struct sn_program *p)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        int64_t x[] = {op->kind,    (int64_t)op->when, (int64_t)op->group,
                       op->peer,    (int64_t)op->only, op->tag,
                       op->id,      op->waits_for,     (int64_t)op->in_first,
                       op->first_of};
        h = mix(h, x, sizeof(x));
        for (int k = 0; k < SN_MAX_IN; k++)
            h = mix_view(h, &op->in[k]);
        for (int k = 0; k < SN_MAX_OUT; k++)
            h = mix_view(h, &op->out[k]);
    }
    for (int b = 0; b < p->n_bufs; b++) {
        int64_t x[] = {p->bufs[b].offset, p->bufs[b].bytes, (int64_t)p->bufs[b].cls};
        h = mix(h, x, sizeof(x));
    }
    for (int k = 0; k < p->n_orders; k++)
        h = mix_schedule(h, p->orders[k].sched, p->orders[k].n_sched);
    return p->orders ? h : mix_schedule(h, p->sched, p->n_sched);
}
