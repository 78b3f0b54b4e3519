/*
 * sim_init.c - what a stage of the simulation knows before it starts: prices, who waits for what,
 * and how much of a segment depends on more than the segment.
 */
#include "lib/sim/sim_stage.h"

#include "lib/base/mem.h"

/* --- collectives over stages ------------------------------------------------------------------ */

bool sn_sim_spans_stages(const struct sn_job *j, const struct sn_op *op)
{
    bool collective = op->kind == SN_OP_AGREE || op->kind == SN_OP_ALL_REDUCE;
    return collective && j->stages > 1 &&
           (op->group == SN_GROUP_WORLD ||
            (op->group == SN_GROUP_TIED && j->group_size[op->group] > 1));
}

/* The k-th of a group is the same on all members: rows 2k are of the world, 2k+1 of tied copies. */
static int row_of(const struct sn_op *op, int of_group[2])
{
    int tied = op->group == SN_GROUP_TIED;
    return 2 * of_group[tied]++ + tied;
}

int sn_sim_rows(const struct sn_job *j)
{
    int n[2] = {0}, rows = 0;
    for (int i = 0; i < j->train.n_ops; i++)
        if (sn_sim_spans_stages(j, &j->train.ops[i])) {
            int row = row_of(&j->train.ops[i], n);
            rows = row >= rows ? row + 1 : rows;
        }
    return rows;
}

int sn_sim_tags(const struct sn_job *j)
{
    int tags = 0;
    for (int i = 0; i < j->train.n_ops; i++) {
        const struct sn_op *op = &j->train.ops[i];
        if (sn_op_is_transfer(op) && op->tag >= tags)
            tags = op->tag + 1;
    }
    return tags;
}

/* --- one table each --------------------------------------------------------------------------- */

/* The level that takes most. */
static double share_of(const struct sn_pricer *p, enum sn_group q)
{
    double share = 0;
    for (int l = 0; l < p->machine->n_levels; l++)
        if (p->span[q].at[l] > 1 && p->machine->level[l].processor > share)
            share = p->machine->level[l].processor;
    return share;
}

static void price(struct sn_sim_player *g, const struct sn_pricer *p)
{
    const struct sn_program *prog = &g->job->train;
    g->host = p->software->host;
    for (int q = 0; q < SN_NGROUPS; q++)
        g->share[q] = share_of(p, (enum sn_group)q);
    for (int i = 0; i < prog->n_ops; i++) {
        const struct sn_op *op = &prog->ops[i];
        g->seconds[i] = sn_price_shown(p, prog, op);
        sn_price_uses(&g->use[i], p, prog, op);
        if (op->kind == SN_OP_SEND)
            g->board->seconds[op->tag] = g->seconds[i];
        g->is_lazy[i] =
            !p->software->data_overlaps && op->is_weight_grad && sn_op_row(op->kind)->is_sum;
    }
}

static int most_slots(const struct sn_program *p)
{
    int most = 1;
    for (int v = 0; v < p->vstages; v++)
        most = p->slots[v] > most ? p->slots[v] : most;
    return most;
}

/* `of_id` has room for the program's ids. */
static void number(struct sn_sim_player *g, int *of_id)
{
    const struct sn_program *p = &g->job->train;
    int places = 0, of_group[2] = {0};
    for (int i = 0; i < p->n_ops; i++)
        of_id[p->ops[i].id] = i;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        if (op->kind == SN_OP_WAIT)
            g->index[i] = of_id[op->waits_for];
        else if (sn_sim_spans_stages(g->job, op))
            g->index[i] = row_of(op, of_group);
        else if (sn_op_is_transfer(op)) {
            g->index[i] = places;
            places += most_slots(p);
        }
    }
    for (int k = 0; k < places; k++)
        g->micro[k] = -1;
}

/* Behind the last operation that waits for what another segment, another use of the slot or another
 * stage does. Receiving is a segment with nothing else; an update runs but once. */
static int head_of(const struct sn_sim_player *g, const struct sn_segment *c)
{
    const struct sn_op *ops = g->job->train.ops;
    int head = c->first, end = c->first + c->n;
    if (c->kind < SN_SEGMENT_FORWARD || c->kind == SN_SEGMENT_UPDATE)
        return end;
    for (int i = c->first; i < end; i++)
        if (sn_sim_spans_stages(g->job, &ops[i]) ||
            (ops[i].kind == SN_OP_WAIT && (g->index[i] < c->first || g->index[i] >= i)))
            head = i + 1;
    return head;
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool allocate(struct sn_sim_player *g)
{
    const struct sn_program *p = &g->job->train;
    size_t ops = (size_t)p->n_ops, segments = (size_t)p->n_segments, posts = 0, places = 0;
    for (int i = 0; i < p->n_ops; i++) {
        posts += sn_op_is_posted(&p->ops[i]) && !p->ops[i].extra;
        places += sn_op_is_transfer(&p->ops[i]);
    }
    g->seconds = sn_alloc_n(ops, sizeof(*g->seconds));
    g->done = sn_alloc_n(ops, sizeof(*g->done));
    g->use = sn_alloc_n(ops, sizeof(*g->use));
    g->is_lazy = sn_alloc_n(ops, sizeof(*g->is_lazy));
    g->index = sn_alloc_n(ops, sizeof(*g->index));
    g->micro = sn_alloc_n(places * (size_t)most_slots(p) + 1, sizeof(*g->micro));
    g->head = sn_alloc_n(segments, sizeof(*g->head));
    g->run = sn_alloc_n(SN_SIM_WAYS * segments, sizeof(*g->run));
    g->left = sn_alloc_n(SN_SIM_WAYS * posts + 1, sizeof(*g->left));
    return g->seconds && g->done && g->use && g->is_lazy && g->index && g->micro && g->head &&
           g->run && g->left;
}

enum sn_status sn_sim_player_init(struct sn_sim_player *out, const struct sn_job *j,
                                  const struct sn_pricer *p, struct sn_sim_board *board,
                                  struct sn_err *err)
{
    struct sn_sim_player g = {.job = j, .board = board};
    int *of_id = sn_alloc_n((size_t)j->train.next_id + 1, sizeof(*of_id));
    bool good = allocate(&g) && of_id;
    if (good) {
        price(&g, p);
        number(&g, of_id);
        for (int c = 0; c < j->train.n_segments; c++)
            g.head[c] = head_of(&g, &j->train.segments[c]);
        *out = g;
        out->events = &out->recorded;
        sn_sim_player_listen(out);
    } else
        sn_sim_player_fini(&g);
    sn_free(of_id);
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "simulation: no memory for stage %d", j->stage);
}

void sn_sim_player_fini(struct sn_sim_player *g)
{
    for (int i = 0; g->run && i < SN_SIM_WAYS * g->job->train.n_segments; i++)
        sn_lanes_fini(&g->run[i].lanes);
    sn_lanes_fini(&g->lanes);
    void *const owned[] = {g->seconds,        g->done,        g->use,  g->is_lazy,
                           g->index,          g->micro,       g->head, g->run,
                           g->recorded.event, g->model.event, g->left, g->watch.span,
                           g->watch.ended};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        sn_free(owned[i]);
    *g = (struct sn_sim_player){0};
}
