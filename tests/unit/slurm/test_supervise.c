/*
 * test_supervise.c - what the supervisor does about an attempt that runs, second by second.
 */
#include "slurm/supervisor/supervise.h"
#include "tests/lib/tap.h"

static const struct sn_supervise_limits usual = {
    .deadline = 100000, .hang_timeout = 100, .has_recorders = true};

static struct sn_seen at(double now)
{
    return (struct sn_seen){.now = now,
                            .wall = (int64_t)now,
                            .step = 5,
                            .step_seconds = 10,
                            .save_seconds = 20,
                            .motion = 1};
}

static struct sn_supervision begun(const struct sn_supervise_limits *limits)
{
    struct sn_supervision s;
    struct sn_seen first = at(1000);
    first.step = 0;
    first.motion = 0;
    sn_supervise_begin(&s, limits, &first);
    return s;
}

/* The first duty at one look a second between two times; *when it came. */
static enum sn_duty until(struct sn_supervision *s, double from, double to, double *when)
{
    for (double t = from; t <= to; t++) {
        struct sn_seen seen = at(t);
        enum sn_duty d = sn_supervise_look(s, &seen);
        *when = t;
        if (d != SN_DUTY_NONE)
            return d;
    }
    return SN_DUTY_NONE;
}

/* The first duty comes at a time; 0: there is none. */
static void first_is(struct sn_supervision *s, double from, double to, enum sn_duty want,
                     double want_when, const char *what)
{
    double when = 0;
    enum sn_duty got = until(s, from, to, &when);
    tap_ok(got == want && (want == SN_DUTY_NONE || when == want_when), "%s (at %g)", what, when);
}

static void deadline_asks_in_time(void)
{
    struct sn_supervise_limits l = usual;
    l.deadline = 2000;
    l.hang_timeout = 0;
    struct sn_supervision s = begun(&l);
    first_is(&s, 1001, 2000, SN_DUTY_SAVE, 1880,
             "a save is asked for 2 steps, 2 saves and a minute before the end");
    tap_ok(s.asked == SN_ASKED_DEADLINE, "because of the deadline");
    first_is(&s, 1881, 1909, SN_DUTY_NONE, 0, "once");
    first_is(&s, 1910, 1990, SN_DUTY_SAVE, 1911, "and again when half a minute led to nothing");
    l.deadline = 1100;
    s = begun(&l);
    first_is(&s, 1001, 1100, SN_DUTY_SAVE, 1075, "a job of 100 s keeps three quarters of them");
    l.deadline = 2000;
    l.margin = 300;
    s = begun(&l);
    first_is(&s, 1001, 2000, SN_DUTY_SAVE, 1700, "or as early as the run file says");
    l.deadline = 0;
    s = begun(&l);
    first_is(&s, 1001, 9000, SN_DUTY_NONE, 0, "without a deadline nobody is asked");
}

static void signals_ask_at_once(void)
{
    struct sn_supervision s = begun(&usual);
    struct sn_seen seen = at(1001);
    seen.asked = SN_ASKED_TERM;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_SAVE, "SIGTERM asks for a save");
    seen.asked = SN_ASKED_USR2;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_NONE, "a second signal asks nothing new");
    seen.asked = SN_ASKED_INT;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_NONE, "nor does Ctrl-C");
    seen.asked = SN_ASKED_INT_AGAIN;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_STOP, "but twice ends it");
    first_is(&s, 1002, 1100, SN_DUTY_KILL, 1017, "with force, if it does not go");
}

static void nothing_is_saved_of_a_preflight(void)
{
    struct sn_supervise_limits l = usual;
    l.saves_nothing = true;
    struct sn_supervision s = begun(&l);
    struct sn_seen seen = at(1001);
    seen.asked = SN_ASKED_TERM;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_STOP, "where nothing is to be saved it ends");
    first_is(&s, 1002, 1100, SN_DUTY_KILL, 1003, "at once");
}

static void hangs_are_seen(void)
{
    struct sn_supervision s = begun(&usual);
    first_is(&s, 1001, 2000, SN_DUTY_LOOK, 1102,
             "nothing has moved for hang_timeout: look who it is");
    first_is(&s, 1103, 2000, SN_DUTY_HANG, 1202, "for twice as long: end it");
    tap_ok(s.has_hung, "which is remembered");
    first_is(&s, 1203, 2000, SN_DUTY_KILL, 1218, "with force");
    s = begun(&usual);
    double when;
    (void)until(&s, 1001, 1150, &when);
    struct sn_seen moved = at(1151);
    moved.motion = 2;
    tap_ok(sn_supervise_look(&s, &moved) == SN_DUTY_NONE, "what moves again");
    moved.now = moved.wall = 1250;
    tap_ok(sn_supervise_still(&s, 1250) == 99, "begins to count anew");
}

/* A dead node is no hang: the end comes when it is known. */
static void dead_nodes_end_it(void)
{
    struct sn_supervision s = begun(&usual);
    struct sn_seen seen = at(1001);
    tap_ok(sn_supervise_asks_after(&s, &seen) == 50, "nodes are asked for after five steps (%g s)",
           sn_supervise_asks_after(&s, &seen));
    seen.step_seconds = 0.1;
    tap_ok(sn_supervise_asks_after(&s, &seen) == 10, "after ten seconds of short ones");
    seen.step = 0;
    tap_ok(sn_supervise_asks_after(&s, &seen) == 30, "later before the first step");
    seen = at(1020);
    seen.lost_node = true;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_LOST && s.has_lost && !s.has_hung,
           "a node that is lost ends the attempt");
    first_is(&s, 1021, 1100, SN_DUTY_KILL, 1026, "with force, soon: the launcher waits for it");
    s = begun(&usual);
    seen = at(1020);
    seen.has_given_up = true;
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_NONE, "ranks that gave up leave by themselves");
    enum sn_duty duty = SN_DUTY_NONE;
    for (double t = 1021; t < 1100 && duty == SN_DUTY_NONE; t++) {
        seen = at(t);
        seen.has_given_up = true;
        duty = sn_supervise_look(&s, &seen);
    }
    tap_ok(duty == SN_DUTY_STOP && seen.now == 1031, "a launcher that stays is ended (%g)",
           seen.now);
}

static void slow_phases_are_no_hangs(void)
{
    struct sn_supervise_limits patient = usual;
    patient.hang_timeout = 300;
    struct sn_supervision s = begun(&patient);
    struct sn_seen seen = at(1001);
    bool none = true;
    for (double t = 1001; t < 1000 + 899; t++) {
        seen = at(t);
        seen.step = 0;
        none = none && sn_supervise_look(&s, &seen) == SN_DUTY_NONE;
    }
    tap_ok(none, "before the first step half an hour may pass");
    s = begun(&patient);
    none = true;
    for (double t = 1001; t < 1000 + 899; t++) {
        seen = at(t);
        seen.is_saving = true;
        none = none && sn_supervise_look(&s, &seen) == SN_DUTY_NONE;
    }
    tap_ok(none, "so it may while a checkpoint is written");
    struct sn_supervise_limits hasty = usual;
    hasty.hang_timeout = 4;
    s = begun(&hasty);
    enum sn_duty duty = SN_DUTY_NONE;
    double t = 1001;
    for (; t < 9000 && duty != SN_DUTY_HANG; t++) {
        seen = at(t);
        seen.is_saving = true;
        duty = sn_supervise_look(&s, &seen);
    }
    tap_ok(duty == SN_DUTY_HANG && t > 1120 && t < 1125,
           "with a short limit a checkpoint has two minutes (%g)", t);
    struct sn_supervise_limits l = usual;
    l.has_recorders = false;
    s = begun(&l);
    first_is(&s, 1001, 9000, SN_DUTY_NONE, 0, "one rank alone is not judged");
    l = usual;
    l.hang_timeout = 0;
    s = begun(&l);
    first_is(&s, 1001, 9000, SN_DUTY_NONE, 0, "nor is anybody with hang_timeout: 0");
}

static void suspended_jobs_are_no_hangs(void)
{
    struct sn_supervision s = begun(&usual);
    double when;
    (void)until(&s, 1001, 1050, &when);
    struct sn_seen seen = at(5050); /* an hour in which nobody ran */
    tap_ok(sn_supervise_look(&s, &seen) == SN_DUTY_NONE, "a job that was suspended goes on");
    first_is(&s, 5051, 9000, SN_DUTY_LOOK, 5102,
             "and its limits are those of the time that it ran");
}

int main(void)
{
    deadline_asks_in_time();
    signals_ask_at_once();
    nothing_is_saved_of_a_preflight();
    hangs_are_seen();
    dead_nodes_end_it();
    slow_phases_are_no_hangs();
    suspended_jobs_are_no_hangs();
    return tap_done();
}
