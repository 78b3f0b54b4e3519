#include "lib/replay/match_inner.h"

#include <math.h>
#include <string.h>

/* What is off by more than this part of what rounding may do may be wrong. An operation that reads
 * nothing of the kind is the cause for sure where it is off by so many times as much: sums that nearly
 * cancel make small differences large. Updates read the norm of all ranks' gradients. */
enum { DOUBT = 10, SURE = 10 };

/* --- create ----------------------------------------------------------------------------------- */

static enum sn_status compile(struct sn_match *m, const struct sn_config *c, struct sn_err *err)
{
    struct sn_job_env env = {.config = c, .ops = m->mine->ops, .threads = m->mine->threads};
    SN_TRY(sn_model_create(&m->model, &c->model, &c->train, err));
    env.model = m->model;
    for (env.rank = 0; env.rank < m->ranks; env.rank++)
        SN_TRY(sn_job_create(&m->jobs[env.rank], &env, err));
    return SN_OK;
}

const char *sn_match_gap(const struct sn_config *c)
{
    bool experts = c->model.experts.count > 0;
    if (experts && c->layout.drop_duplicates == SN_DUPLICATES_DROPPED)
        return "tensor ranks share out rows of tokens, and which these are is known when it runs";
    if (experts && c->train.precision != SN_F32)
        return "rounding to 16 bits sends tokens to other experts";
    if (c->train.lora.r > 0 && c->train.precision != SN_F32)
        return "adapters begin at 0 and follow the signs of gradients, which rounding to 16 bits "
               "turns";
    if (c->train.ramp.n_batches > 0)
        return "its batches have several sizes (train.ramp)";
    for (int i = 0; i < SN_NCODED; i++)
        if (sn_coding_loses(&c->layout.compress.coding[i]))
            return "codecs lose something of what its ranks send";
    return sn_meaning_gap(c);
}

static enum sn_status gap(const char *why, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT,
                   "--replay: the run was recorded in another layout, whose results cannot be told "
                   "from their texts, because %s; replay it in that layout",
                   why);
}

static enum sn_status follow_both(struct sn_match *m, const struct sn_config *recorded,
                                  struct sn_err *err)
{
    struct sn_config one;
    struct sn_job *reference = NULL;
    struct sn_job_env env = {.config = &one, .model = m->model, .ops = m->mine->ops, .threads = 1};
    const struct sn_job *const own[] = {m->mine};
    const char *why = sn_match_gap(recorded);
    why = why ? why : sn_meaning_gap(m->mine->config);
    for (int i = 0; i < m->ranks && !why; i++)
        why = sn_meaning_gap_of(&m->jobs[i]->train);
    why = why ? why : sn_meaning_gap_of(&m->mine->train);
    if (why)
        return gap(why, err);
    sn_meaning_reference(&one, recorded);
    SN_TRY(sn_job_create_text(&reference, &env, err));
    const struct sn_meaning_world worlds[] = {
        {(const struct sn_job *const *)m->jobs, m->ranks, reference}, {own, 1, reference}};
    enum sn_status st = sn_meaning_follow(worlds, 2, sn_match_follow, m, err);
    sn_job_destroy(reference);
    return st == SN_OK && m->failed ? sn_match_no_memory(err) : st;
}

static enum sn_status make(struct sn_match *m, const struct sn_config *recorded, struct sn_err *err)
{
    size_t n = (size_t)m->ranks + 1;
    m->jobs = sn_alloc_n(n, sizeof(struct sn_job *));
    m->was = sn_alloc_n(n, sizeof(struct sn_recording *));
    m->first_target = sn_alloc_n(n + 1, sizeof(int));
    if (!m->jobs || !m->was || !m->first_target)
        return sn_match_no_memory(err);
    SN_TRY(compile(m, recorded, err));
    SN_TRY(follow_both(m, recorded, err));
    return sn_match_join(m, err);
}

enum sn_status sn_match_create(struct sn_match **out, const struct sn_config *recorded,
                               const struct sn_job *mine, struct sn_err *err)
{
    struct sn_match *m = sn_alloc(sizeof(*m));
    if (!m)
        return sn_match_no_memory(err);
    m->mine = mine;
    m->ranks = sn_config_ranks(recorded);
    sn_signs_init(&m->signs);
    enum sn_status st = make(m, recorded, err);
    if (st != SN_OK) {
        sn_match_destroy(m);
        return st;
    }
    *out = m;
    return SN_OK;
}

static void forget_recordings(struct sn_match *m)
{
    for (int r = 0; m->was && r < m->ranks; r++) {
        sn_recording_destroy(m->was[r]);
        m->was[r] = NULL;
    }
}

void sn_match_destroy(struct sn_match *m)
{
    if (!m)
        return;
    forget_recordings(m);
    for (int r = 0; m->jobs && r < m->ranks; r++)
        sn_job_destroy(m->jobs[r]);
    sn_model_destroy(m->model);
    sn_free(m->jobs);
    sn_free(m->was);
    sn_free(m->first_target);
    sn_free(m->theirs.t);
    sn_free(m->own.t);
    sn_free(m->targets);
    sn_free(m->items);
    sn_free(m);
}

int sn_match_ranks(const struct sn_match *m)
{
    return m->ranks;
}

/* --- a step ----------------------------------------------------------------------------------- */

enum sn_status sn_match_begin(struct sn_match *m, const char *output, int64_t step, int rank,
                              struct sn_err *err)
{
    forget_recordings(m);
    for (int r = 0; r < m->ranks; r++) {
        if (rank >= 0 && r != rank)
            continue;
        SN_TRY(sn_recording_load(&m->was[r], output, step, r, err));
        const struct sn_recording_head *h = &m->was[r]->head;
        if (h->ranks != m->ranks || h->program != sn_program_hash(&m->jobs[r]->train))
            return sn_fail(
                err, SN_EINPUT,
                "step %lld: was recorded with other programs than those of the layout in "
                "run.resolved.yaml, which is that of the run's last start",
                (long long)step);
    }
    for (int i = 0; i < m->n_targets; i++)
        m->targets[i].made = (struct sn_fingerprint){0, 0, 0};
    return SN_OK;
}

/* Row by row: each lies in one row of both operands. */
static void add(struct sn_match *m, const struct sn_match_item *x, const struct sn_mat *all)
{
    struct sn_fingerprint *f = &m->targets[x->target].made;
    for (int64_t i = 0; i < x->rows; i++) {
        int64_t from = x->mine + i * x->mine_ld, to = x->theirs + i * x->their_ld;
        int64_t element = from / x->mine_cols * all->ld + from % x->mine_cols;
        struct sn_mat row = {(char *)all->p + element * (int64_t)sn_dtype_size(all->dtype),
                             all->dtype, 1, x->cols, x->cols};
        sn_fingerprint_add(f, &m->signs, &row, to / x->their_cols, to % x->their_cols);
    }
}

void sn_match_take(void *match, const struct sn_result *r)
{
    struct sn_match *m = match;
    const struct sn_match_item key = {.at = {r->entry, r->op, r->out}};
    int low = 0, high = m->n_items;
    if (r->round != 0 || r->part != 0 || r->out < 0)
        return;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (sn_match_compare_at(&m->items[mid].at, &key.at) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < m->n_items && sn_match_compare_at(&m->items[low].at, &key.at) == 0; low++)
        add(m, &m->items[low], &r->m);
}

/* Does an operation read what may be wrong: buffers that could not be compared, or are more than a
 * little off? */
static bool reads_doubtful(const struct sn_op *op, const bool *is_doubtful)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    for (int i = 0; i < SN_MAX_IN; i++)
        if (op->in[i].buf >= 0 && is_doubtful[op->in[i].buf])
            return true;
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (op->out[o].buf >= 0 && is_doubtful[op->out[o].buf] &&
            (op->acc[o] != SN_ACC_WRITE || sn_operand_is(&row->out[o], SN_ROLE_UPDATED)))
            return true;
    return false;
}

/* The target of a recorded result, from `next` on; -1: it is of rows that texts do not tell of. */
static int target_of(const struct sn_match *m, int rank, int next, const struct sn_recorded *x)
{
    const struct sn_match_at at = {x->entry, x->op, x->out};
    if (x->entry == SN_BEGIN || x->round != 0 || x->part != 0 || x->out < 0)
        return -1;
    for (int i = next; i < m->first_target[rank + 1] && m->targets[i].at.entry <= x->entry; i++)
        if (sn_match_compare_at(&m->targets[i].at, &at) == 0)
            return i;
    return -1;
}

/* What was recorded of a rank, beside what was made of it here. is_doubtful: by buffer, all false. */
static void find(const struct sn_match *m, int rank, bool *is_doubtful, struct sn_replay_finding *f)
{
    const struct sn_recording *was = m->was[rank];
    const struct sn_program *p = &m->jobs[rank]->train;
    int next = m->first_target[rank];
    double most = sn_replay_rounding(m->mine->config->train.precision);
    for (int64_t i = 0; was && i < was->head.n; i++) {
        const struct sn_recorded *x = &was->t[i];
        int at = target_of(m, rank, next, x);
        if (at < 0)
            continue;
        next = at + 1;
        const struct sn_op *op = &p->ops[x->op];
        bool is_whole = m->targets[at].is_whole;
        double off = is_whole ? sn_fingerprint_off(&x->print, &m->targets[at].made) : 0;
        f->apart += !is_whole;
        f->results += is_whole;
        if (off > most) {
            f->off = off;
            sn_replay_part(f, m->jobs[rank], x);
            f->doubt = sn_op_row(op->kind)->cost == SN_COST_UPDATE ? 2 : off <= SURE * most;
            if (f->parting == SN_PARTS_COMPUTING && reads_doubtful(op, is_doubtful))
                f->parting = SN_PARTS_RECEIVING;
            return;
        }
        is_doubtful[op->out[x->out].buf] = !is_whole || off > most / DOUBT;
        f->near += is_whole;
        f->nearest = fmax(f->nearest, off);
    }
}

enum sn_status sn_match_find(const struct sn_match *m, struct sn_replay_finding *out,
                             struct sn_err *err)
{
    for (int r = 0; r < m->ranks; r++) {
        bool *is_doubtful = sn_alloc_n((size_t)m->jobs[r]->train.n_bufs + 1, sizeof(bool));
        if (!is_doubtful)
            return sn_match_no_memory(err);
        out[r] = (struct sn_replay_finding){.is_other_layout = true};
        find(m, r, is_doubtful, &out[r]);
        sn_free(is_doubtful);
    }
    return SN_OK;
}
