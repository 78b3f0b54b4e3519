/*
 * replay.c - steps of a run again, from the checkpoint before them, held against what the run has
 * left: its losses, and its fingerprints where it kept some.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/mem.h"
#include "lib/replay/compare.h"
#include "lib/replay/losses.h"
#include "lib/replay/match.h"

#include <math.h>
#include <string.h>

struct replay {
    struct sn_trainer *t;
    const struct sn_replay_options *o;
    struct sn_step_loss *losses; /* rank 0: from step `first` on */
    int64_t first;
    struct sn_replay_finding mine, *all; /* all: on rank 0, of the recorded ranks */
    struct sn_match *match;              /* they had another layout; NULL: the same */
    struct sn_results *results;          /* for it */
    bool is_same_layout, differs;
};

static void say(const struct replay *r, struct sn_str *text)
{
    if (r->t->env.comm->rank == 0 && text->p)
        r->o->say(r->o->self, text->p);
    sn_str_fini(text);
}

/* --- losses ----------------------------------------------------------------------------------- */

/* Relative; as steps of 12 to 48 sequences in 61 layouts differ at most, and some more. */
static double rounding_of_loss(const struct sn_trainer *t)
{
    return t->env.config->train.precision == SN_F32 ? 1e-5 : 5e-3;
}

static double off(double x, double was)
{
    return fabs(x - was) / fmax(fabs(was), 1e-30);
}

/* On rank 0: does the step's loss differ? Other kernels, on another processor, leave rounding in the
 * same layout, too: whether every bit counts is for the fingerprints to say. */
static bool loss_differs(const struct replay *r, int64_t step)
{
    const struct sn_scalars *s = sn_exec_scalars(r->t->exec);
    const struct sn_step_loss *was = &r->losses[step - r->first];
    struct sn_str text = {0};
    double loss = s->loss_sum / s->targets_in_step;
    if (!was->is_there) {
        sn_str_add(&text, "step %lld: loss %.9g, gradient norm %.9g; the run recorded none\n",
                   (long long)step, loss, s->grad_norm);
        say(r, &text);
        return false;
    }
    bool same =
        sn_replay_is_written(loss, was->loss) && sn_replay_is_written(s->grad_norm, was->grad_norm);
    double most = fmax(off(loss, was->loss), off(s->grad_norm, was->grad_norm));
    bool near = !same && most <= rounding_of_loss(r->t);
    sn_str_add(&text, "step %lld: loss %.9g, gradient norm %.9g", (long long)step, loss,
               s->grad_norm);
    if (same)
        sn_str_add(&text, ", as recorded\n");
    else if (near)
        sn_str_add(&text, ", as recorded but for rounding (%.1e)%s\n", most,
                   r->is_same_layout ? ", which the same kernels do not leave" : "");
    else
        sn_str_add(&text, "; recorded are loss %.9g, gradient norm %.9g\n", was->loss,
                   was->grad_norm);
    say(r, &text);
    return !same && !near;
}

/* --- fingerprints ----------------------------------------------------------------------------- */

/* Those of this rank, held against what has been recorded; a failure is its own. */
static enum sn_status compare(struct replay *r, int64_t step, struct sn_err *err)
{
    struct sn_trainer *t = r->t;
    struct sn_recording *was = NULL;
    int rank = t->env.comm->rank;
    r->mine = (struct sn_replay_finding){0};
    if (r->o->rank >= 0 && r->o->rank != rank)
        return SN_OK;
    SN_TRY(sn_recording_load(&was, t->env.config->run.output, step, rank, err));
    enum sn_status st = SN_OK;
    if (was->head.ranks != t->env.comm->size || was->head.program != t->recording.of->head.program)
        st = sn_fail(
            err, SN_EINPUT,
            "step %lld: was recorded by %d ranks with other programs, before the run's last "
            "start; replay it in the layout that it had then",
            (long long)step, was->head.ranks);
    else
        sn_replay_compare(&r->mine, t->job, was, t->recording.of);
    sn_recording_destroy(was);
    return st;
}

static enum sn_status judge(struct replay *r, int64_t step, struct sn_err *err)
{
    struct sn_comm *c = r->t->env.comm;
    struct sn_str text = {0};
    int ranks = r->match ? sn_match_ranks(r->match) : c->size;
    if (r->match) {
        SN_TRY(sn_match_find(r->match, r->all, err));
    } else {
        SN_TRY(c->ops->agree(c, compare(r, step, err), err));
        SN_TRY(c->ops->gather(c, &r->mine, (int64_t)sizeof(r->mine), r->all, 0, err));
    }
    if (c->rank != 0)
        return SN_OK;
    r->differs |= sn_replay_judge(&text, r->all, ranks);
    say(r, &text);
    return SN_OK;
}

/* What the step gives is looked at in its own layout by the recording, in another one by the match. */
static enum sn_status begin_match(struct replay *r, int64_t step, struct sn_err *err)
{
    if (!r->match)
        return SN_OK;
    SN_TRY(sn_match_begin(r->match, r->t->env.config->run.output, step, r->o->rank, err));
    sn_exec_set_results(r->t->exec, r->results);
    return SN_OK;
}

/* --- steps ------------------------------------------------------------------------------------ */

static enum sn_status one(struct replay *r, int64_t step, struct sn_err *err)
{
    struct sn_trainer *t = r->t;
    struct sn_comm *c = t->env.comm;
    bool looks = t->recording.of || r->match;
    int8_t has[2] = {looks && sn_recording_is_there(t->env.config->run.output, step), 0};
    SN_TRY(c->ops->broadcast(c, has, (int64_t)sizeof(has), 0, err));
    if (has[0])
        SN_TRY(begin_match(r, step, err));
    SN_TRY(sn_trainer_step(t, step, err));
    if (r->match)
        sn_exec_set_results(t->exec, NULL);
    sn_codec_monitor_end(t);
    if (c->rank == 0)
        r->differs = loss_differs(r, step);
    if (has[0])
        SN_TRY(judge(r, step, err));
    struct sn_str text = {0};
    if (r->differs && looks && !has[0]) {
        sn_str_add(&text,
                   "step %lld: the run kept no fingerprints of it, so that no operation can be "
                   "named; run.fingerprints: 1 keeps those of every step\n",
                   (long long)step);
        say(r, &text);
    }
    has[1] = (int8_t)r->differs;
    SN_TRY(c->ops->broadcast(c, has, (int64_t)sizeof(has), 0, err));
    r->differs = has[1];
    return SN_OK;
}

static bool has_same_layout(const struct sn_config *a, const struct sn_config *b, bool *failed)
{
    struct sn_str x = {0}, y = {0};
    sn_config_format_layout(&x, a);
    sn_config_format_layout(&y, b);
    *failed = x.failed || y.failed;
    bool same = !*failed && strcmp(x.p, y.p) == 0;
    sn_str_fini(&x);
    sn_str_fini(&y);
    return same;
}

/* Who looks at results. */
static enum sn_status open_results(struct replay *r, struct sn_err *err)
{
    struct sn_trainer *t = r->t;
    const struct sn_config *was = r->o->recorded ? r->o->recorded : t->env.config;
    bool failed;
    r->is_same_layout = has_same_layout(was, t->env.config, &failed);
    if (failed)
        return sn_fail(err, SN_ENOMEM, "--replay: no memory");
    if (!sn_exec_has_results(t->exec))
        return SN_OK;
    if (r->is_same_layout)
        return sn_trainer_record_open(t, 0, err);
    struct sn_str text = {0};
    const char *why = t->env.comm->size > 1 ? "only one rank alone holds results against another "
                                              "layout's"
                                            : sn_match_gap(was);
    if (why) {
        sn_str_add(&text, "the run had another layout: losses alone are compared, because %s\n",
                   why);
        say(r, &text);
        return SN_OK;
    }
    SN_TRY(sn_match_create(&r->match, was, t->job, err));
    return sn_results_create(&r->results, t->exec, sn_match_take, r->match, err);
}

static enum sn_status prepare(struct replay *r, struct sn_err *err)
{
    struct sn_trainer *t = r->t;
    int64_t n = r->o->step - r->first + 1;
    for (int i = 0; i < t->job->n_buckets; i++)
        if (t->job->buckets[i].factors >= 0)
            return sn_fail(
                err, SN_EINPUT,
                "--replay: the factors of layout.compress.data: powersgd begin anew with "
                "every start, so that no step of such a run can be made again");
    SN_TRY(open_results(r, err));
    if (t->env.comm->rank != 0)
        return SN_OK;
    int ranks = r->match ? sn_match_ranks(r->match) : t->env.comm->size;
    r->losses = sn_alloc_n((size_t)n, sizeof(*r->losses));
    r->all = sn_alloc_n((size_t)ranks, sizeof(*r->all));
    if (!r->losses || !r->all)
        return sn_fail(err, SN_ENOMEM, "--replay: no memory for %lld steps", (long long)n);
    return sn_replay_losses(r->losses, t->env.config->run.output, r->first, r->o->step, err);
}

enum sn_status sn_trainer_replay(struct sn_trainer *t, const struct sn_replay_options *o,
                                 bool *differs, struct sn_err *err)
{
    struct replay r = {.t = t, .o = o};
    struct sn_comm *c = t->env.comm;
    t->state.config_hash = 0; /* another layout is another configuration */
    SN_TRY(sn_trainer_restore_before(t, o->step, sn_trainer_open_train(t, err), err));
    SN_TRY(c->ops->agree(c, sn_trainer_publish(t, err), err));
    r.first = t->state.scalars.step + 1;
    struct sn_str text = {0};
    sn_str_add(&text,
               r.first > 1 ? "replaying steps %lld to %lld from the checkpoint of step %lld\n"
                           : "replaying steps %lld to %lld from the run's begin\n",
               (long long)r.first, (long long)o->step, (long long)r.first - 1);
    say(&r, &text);
    enum sn_status st = c->ops->agree(c, prepare(&r, err), err);
    for (int64_t step = r.first; step <= o->step && st == SN_OK && !r.differs; step++)
        st = one(&r, step, err);
    sn_results_destroy(r.results);
    sn_match_destroy(r.match);
    sn_free(r.losses);
    sn_free(r.all);
    *differs = r.differs;
    return st;
}
