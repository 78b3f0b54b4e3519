/*
 * sim.c - the stages of a step, played against each other.
 */
#include "lib/sim/sim.h"

#include "lib/base/mem.h"
#include "lib/sim/sim_stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct play {
    struct sn_sim_board board;
    struct sn_sim_player *player; /* [stages] */
    int stages;
};

/* --- the board -------------------------------------------------------------------------------- */

static enum sn_status no_memory(int stages, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "simulation: no memory for %d stages", stages);
}

static double *nothing_yet(size_t n)
{
    double *times = sn_alloc_n(n + 1, sizeof(*times));
    for (size_t i = 0; times && i < n; i++)
        times[i] = SN_SIM_NOT_YET;
    return times;
}

static enum sn_status board_init(struct sn_sim_board *b, const struct sn_stages *s,
                                 struct sn_err *err)
{
    const struct sn_job *j = s->job[0];
    *b = (struct sn_sim_board){.stages = s->n, .micros = j->train.micros};
    for (int i = 0; i < s->n; i++) {
        int rows = sn_sim_rows(s->job[i]), tags = sn_sim_tags(s->job[i]);
        b->rows = rows > b->rows ? rows : b->rows;
        b->tags = tags > b->tags ? tags : b->tags;
    }
    size_t posts = (size_t)b->tags * (size_t)b->micros;
    b->sent = nothing_yet(posts);
    b->received = nothing_yet(posts);
    b->arrived = nothing_yet((size_t)b->rows * (size_t)s->n);
    b->seconds = sn_alloc_n((size_t)b->tags + 1, sizeof(*b->seconds));
    return b->sent && b->received && b->arrived && b->seconds ? SN_OK : no_memory(s->n, err);
}

static void play_fini(struct play *y)
{
    sn_free(y->board.sent);
    sn_free(y->board.received);
    sn_free(y->board.arrived);
    sn_free(y->board.seconds);
    for (int i = 0; y->player && i < y->stages; i++)
        sn_sim_player_fini(&y->player[i]);
    sn_free(y->player);
}

/* What is asked for beside the sums. */
struct ask {
    bool events;
    const struct sn_sim_waits *waits; /* NULL: not asked */
};

static enum sn_status play_init(struct play *y, const struct sn_stages *s,
                                const struct sn_pricer *p, const struct ask *ask,
                                struct sn_err *err)
{
    *y = (struct play){.stages = s->n};
    y->player = sn_alloc_n((size_t)s->n, sizeof(*y->player));
    if (!y->player)
        return no_memory(s->n, err);
    SN_TRY(board_init(&y->board, s, err));
    for (int i = 0; i < s->n; i++) {
        SN_TRY(sn_sim_player_init(&y->player[i], s->job[i], p, &y->board, err));
        y->player[i].records = ask->events;
        if (ask->waits && ask->waits->stage == i)
            sn_sim_player_watch(&y->player[i], ask->waits->of);
    }
    return SN_OK;
}

/* --- to the end ------------------------------------------------------------------------------- */

static enum sn_status explain_standstill(const struct play *y, struct sn_err *err)
{
    int s = 0;
    while (sn_sim_player_is_done(&y->player[s]))
        s++;
    const struct sn_sim_player *g = &y->player[s];
    const struct sn_program *p = &g->job->train;
    const struct sn_sched *at = &p->sched[g->entry];
    return sn_fail(err, SN_EFAIL, "simulation: stage %d waits for ever at '%s' of micro-batch %d",
                   s, p->ops[at->first + g->op].label, at->micro);
}

static enum sn_status play(struct play *y, struct sn_err *err)
{
    for (;;) {
        bool moved = false, done = true;
        for (int i = 0; i < y->stages; i++) {
            moved = sn_sim_player_advance(&y->player[i]) || moved;
            if (y->player[i].failed)
                return sn_fail(err, SN_ENOMEM, "simulation: no memory for the events of stage %d",
                               i);
            done = done && sn_sim_player_is_done(&y->player[i]);
        }
        if (done)
            return SN_OK;
        if (!moved)
            return explain_standstill(y, err);
    }
}

/* --- what came of it -------------------------------------------------------------------------- */

static int order(const void *left, const void *right)
{
    const struct sn_event *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->stage != b->stage)
        return a->stage - b->stage;
    if (a->end != b->end) /* what encloses others comes first */
        return a->end > b->end ? -1 : 1;
    if (a->kind != b->kind)
        return (int)a->kind - (int)b->kind;
    if (a->micro != b->micro)
        return a->micro - b->micro;
    return strcmp(a->label, b->label);
}

static enum sn_status collect_events(struct sn_sim *out, const struct play *y, struct sn_err *err)
{
    int64_t n = 0;
    for (int i = 0; i < y->stages; i++)
        n += y->player[i].recorded.n;
    out->event = sn_alloc_n((size_t)n + 1, sizeof(*out->event));
    if (!out->event)
        return sn_fail(err, SN_ENOMEM, "simulation: no memory for %lld events", (long long)n);
    for (int i = 0; i < y->stages; i++) {
        const struct sn_sim_events *recorded = &y->player[i].recorded;
        if (recorded->n > 0)
            memcpy(out->event + out->n_events, recorded->event,
                   (size_t)recorded->n * sizeof(*out->event));
        out->n_events += recorded->n;
    }
    qsort(out->event, (size_t)n, sizeof(*out->event), order);
    return SN_OK;
}

/* What a trainer's pipeline loses beside its schedule (software.h): idle time of every stage. */
static double stall(const struct play *y, const struct sn_pricer *p)
{
    double most = 0;
    for (int i = 0; i < y->stages; i++)
        most = fmax(most, y->player[i].clock.busy - y->player[i].update);
    return y->stages > 1 ? p->software->stall * most / y->board.micros : 0;
}

static enum sn_status collect(struct sn_sim *out, const struct play *y, const struct sn_stages *of,
                              const struct sn_pricer *p, struct sn_err *err)
{
    double late = sn_sim_late(of, p);
    out->stages = y->stages;
    out->stage = sn_alloc_n((size_t)y->stages, sizeof(*out->stage));
    if (!out->stage)
        return no_memory(y->stages, err);
    for (int i = 0; i < y->stages; i++)
        out->step = y->player[i].clock.now > out->step ? y->player[i].clock.now : out->step;
    out->step += stall(y, p) + late;
    for (int i = 0; i < y->stages; i++) {
        const struct sn_sim_clock *c = &y->player[i].clock;
        struct sn_sim_stage *s = &out->stage[i];
        *s = (struct sn_sim_stage){
            .busy = c->busy, .idle = out->step - c->busy, .update = y->player[i].update};
        for (int a = 0; a < SN_NAXES; a++) {
            s->exposed[a] = c->exposed[a] + (a == SN_AXIS_DATA ? late : 0);
            s->idle -= s->exposed[a];
        }
        if (s->idle < 0 || s->idle < 1e-12 * out->step) /* rounding of a sum */
            s->idle = 0;
        out->bubble += out->step > 0 ? s->idle / out->step / y->stages : 0;
        out->longest = s->busy > out->stage[out->longest].busy ? i : out->longest;
    }
    memcpy(out->exposed, out->stage[out->longest].exposed, sizeof(out->exposed));
    return SN_OK;
}

/* Who waits for whom, of stages that stand still; memory has no places in a mere text. */
static enum sn_status blame(const struct sn_stages *s, struct sn_err *err)
{
    struct sn_proof proof = {.holds = true};
    if (!s->job[0]->text_only)
        SN_TRY(sn_stages_prove(&proof, s, err));
    if (!proof.holds)
        *err = proof.fault;
    return SN_EFAIL;
}

static enum sn_status run(struct sn_sim *out, const struct sn_stages *s, const struct sn_pricer *p,
                          const struct ask *ask, struct sn_err *err)
{
    struct play y;
    struct sn_sim sim = {0};
    enum sn_status st = play_init(&y, s, p, ask, err);
    if (st == SN_OK)
        st = play(&y, err);
    if (st == SN_EFAIL)
        st = blame(s, err);
    if (st == SN_OK)
        st = collect(&sim, &y, s, p, err);
    if (st == SN_OK && ask->events)
        st = collect_events(&sim, &y, err);
    play_fini(&y);
    if (st != SN_OK) {
        sn_sim_fini(&sim);
        return st;
    }
    *out = sim;
    return SN_OK;
}

enum sn_status sn_sim_run(struct sn_sim *out, const struct sn_stages *s, const struct sn_pricer *p,
                          bool record, struct sn_err *err)
{
    return run(out, s, p, &(struct ask){.events = record}, err);
}

enum sn_status sn_sim_waits(struct sn_sim *out, const struct sn_stages *s,
                            const struct sn_pricer *p, const struct sn_sim_waits *waits,
                            struct sn_err *err)
{
    return run(out, s, p, &(struct ask){.waits = waits}, err);
}

void sn_sim_fini(struct sn_sim *s)
{
    sn_free(s->stage);
    sn_free(s->event);
    *s = (struct sn_sim){0};
}
