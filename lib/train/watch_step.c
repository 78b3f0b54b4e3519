/*
 * watch_step.c - the plan as the monitor (lib/monitor) in the step loop.
 *
 * What a step took on a rank goes to rank 0 with the next one, right before its agreement: there all
 * ranks meet anyway, so that nobody waits for a message that is late. Rank 0 judges when that step
 * is over, so one step late. Short steps are put together to looks of LOOK seconds: what holds a
 * rank up for less is no news, and a message costs the same whatever the step takes.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/cost/price.h"
#include "lib/machine/named.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 8 }; /* those of snapshots have another */
static const double LOOK = 0.1;

/* In words that stand in JSON as they are. */
static void name(char to[SN_MONITOR_NAME], const char *from)
{
    (void)snprintf(to, SN_MONITOR_NAME, "%s", from);
    for (char *c = to; *c; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f || *c == '"' || *c == '\\')
            *c = '?';
}

static void name_place(struct sn_monitor_plan *p, const struct sn_trainer *t)
{
    char host[SN_MONITOR_NAME] = "unknown host";
    if (t->env.host)
        (void)snprintf(host, sizeof(host), "%s", t->env.host);
    else
        (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
    name(p->host, host);
    const char *leaf = t->env.switches ? strrchr(t->env.switches, '.') : NULL;
    name(p->leaf, leaf ? leaf + 1 : t->env.switches ? t->env.switches : "");
}

/* On this rank: its text on the run's machine; where a paced run names none, on the paced one. */
static enum sn_status plan(struct sn_trainer *t, struct sn_monitor_plan *out, struct sn_err *err)
{
    struct sn_watching *w = &t->watching;
    struct sn_machine of_run = {0};
    struct sn_software software;
    struct sn_pricer pricer;
    enum sn_status st = sn_software_of(&software, t->env.config, NULL, err);
    bool of_pace = t->env.pace && !sn_names_machine(t->env.config);
    if (st == SN_OK && !of_pace)
        st = sn_machine_of(&of_run, t->env.config, NULL, err);
    if (st == SN_OK) {
        sn_pricer_init(&pricer, of_pace ? t->env.pace : &of_run, &software, t->job);
        st = sn_meter_create(&w->meter, t->exec, &pricer, err);
    }
    sn_machine_fini(&of_run);
    if (st != SN_OK)
        return st;
    sn_meter_plan(w->meter, out);
    name_place(out, t);
    return SN_OK;
}

/* On rank 0. */
static enum sn_status make_monitor(struct sn_trainer *t, const struct sn_monitor_plan *plans,
                                   struct sn_err *err)
{
    struct sn_watching *w = &t->watching;
    w->all = sn_alloc_n((size_t)t->env.comm->size, sizeof(*w->all));
    if (!w->all)
        return sn_fail(err, SN_ENOMEM, "monitor: no memory for records");
    return sn_monitor_create(&w->monitor, plans, t->env.comm->size, err);
}

static enum sn_status open(struct sn_trainer *t, struct sn_monitor_plan *plans, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    struct sn_monitor_plan mine = {0};
    enum sn_status st = plans ? plan(t, &mine, err) : sn_fail(err, SN_ENOMEM, "monitor: no memory");
    SN_TRY(c->ops->agree(c, st, err));
    SN_TRY(c->ops->gather(c, &mine, (int64_t)sizeof(mine), c->rank == 0 ? plans : NULL, 0, err));
    st = c->rank == 0 ? make_monitor(t, plans, err) : SN_OK;
    SN_TRY(c->ops->agree(c, st, err));
    t->watching.is_on = true;
    sn_exec_set_meter(t->exec, t->watching.meter);
    return SN_OK;
}

enum sn_status sn_trainer_watch_open(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    if (!t->env.config->run.monitor || c->size == 1 || !sn_exec_has_times(t->exec))
        return SN_OK;
    struct sn_monitor_plan *plans = sn_alloc_n(c->rank == 0 ? (size_t)c->size : 1, sizeof(*plans));
    enum sn_status st = open(t, plans, err);
    sn_free(plans);
    return st;
}

void sn_trainer_watch_close(struct sn_trainer *t)
{
    sn_meter_destroy(t->watching.meter);
    sn_monitor_destroy(t->watching.monitor);
    sn_free(t->watching.all);
}

/* --- a step ----------------------------------------------------------------------------------- */

static void post(struct sn_trainer *t, enum sn_collective kind, int peer,
                 struct sn_monitor_record *r)
{
    struct sn_transfer x = {.kind = kind,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_U8,
                            .n = (int64_t)sizeof(*r),
                            .in = kind == SN_SEND ? r : NULL,
                            .out = kind == SN_SEND ? NULL : r,
                            .peer = peer,
                            .tag = TAG,
                            .staging = sn_exec_address(t->exec, &t->job->train, t->job->staging),
                            .label = "monitor"};
    (void)t->env.comm->ops->post(t->env.comm, &x); /* complete when the run is */
}

void sn_trainer_watch_fence(struct sn_trainer *t)
{
    struct sn_watching *w = &t->watching;
    if (!w->is_on || !w->has_record)
        return;
    w->is_posted = true;
    if (t->env.comm->rank != 0) {
        post(t, SN_SEND, 0, &w->mine);
        return;
    }
    w->all[0] = w->mine;
    for (int r = 1; r < t->env.comm->size; r++)
        post(t, SN_RECV, r, &w->all[r]);
}

int64_t sn_trainer_watch_sent(const struct sn_trainer *t)
{
    const struct sn_watching *w = &t->watching;
    return w->is_posted && t->env.comm->rank != 0 ? (int64_t)sizeof(w->mine) : 0;
}

static void say_news(struct sn_trainer *t, int64_t step)
{
    char text[512];
    const struct sn_finding *f;
    int n = sn_monitor_findings(t->watching.monitor, &f);
    for (int i = 0; i < n; i++) {
        if (!f[i].is_new)
            continue;
        sn_finding_say(text, sizeof(text), &f[i]);
        sn_log(SN_LOG_WARN, "step %lld: %s", (long long)step, text);
        if (!t->env.pace)
            sn_health_note_finding(&t->health, step, &f[i]);
    }
    n = sn_monitor_ended(t->watching.monitor, &f);
    for (int i = 0; i < n; i++) {
        sn_finding_say(text, sizeof(text), &f[i]);
        sn_log(SN_LOG_INFO, "step %lld: no longer so: %s", (long long)step, text);
    }
}

/* Add the step to those that the record is of; all but sums is as of the last one. */
static void add_step(struct sn_watching *w, int64_t step)
{
    struct sn_monitor_record before = w->mine;
    sn_meter_read(w->meter, &w->mine);
    w->mine.step = step;
    w->mine.ran += before.ran;
    for (int i = 0; i < SN_NWORKS; i++)
        w->mine.work[i] += before.work[i];
    w->steps++;
}

/* Once, all ranks alike: how many steps rank 0 needs for a look. */
static enum sn_status choose_look(struct sn_trainer *t, double seconds, struct sn_err *err)
{
    struct sn_watching *w = &t->watching;
    w->look = seconds > 0 && seconds < LOOK ? (int64_t)(LOOK / seconds) + 1 : 1;
    w->steps = 0;
    w->mine = (struct sn_monitor_record){0};
    return t->env.comm->ops->broadcast(t->env.comm, &w->look, (int64_t)sizeof(w->look), 0, err);
}

enum sn_status sn_trainer_watch_end(struct sn_trainer *t, int64_t step, double seconds,
                                    struct sn_err *err)
{
    struct sn_watching *w = &t->watching;
    if (!w->is_on)
        return SN_OK;
    if (w->monitor && w->is_posted) {
        sn_monitor_take(w->monitor, w->all);
        say_news(t, step);
    }
    if (w->is_posted) {
        w->mine = (struct sn_monitor_record){0};
        w->has_record = w->is_posted = false;
    }
    add_step(w, step);
    if (w->look == 0)
        return w->steps < SN_MONITOR_SKIPPED ? SN_OK : choose_look(t, seconds, err);
    w->has_record = w->steps % w->look == 0;
    return SN_OK;
}

int sn_trainer_watch_findings(const struct sn_trainer *t, const struct sn_finding **out)
{
    *out = NULL;
    return t->watching.monitor ? sn_monitor_findings(t->watching.monitor, out) : 0;
}
