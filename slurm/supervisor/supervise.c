#include "slurm/supervisor/supervise.h"

#include <stddef.h>

enum {
    GAP = 15,          /* seconds between two looks that mean that the supervisor stood still too */
    REPEAT = 30,       /* seconds after which a request that led to nothing is made again */
    GRACE = 15,        /* seconds that the launcher has to end what it started; */
    GRACE_LOST = 5,    /* one that waits for a dead node would take KillWait and more; */
    GRACE_NOTHING = 1, /* where nothing is to be saved, the rest of KillWait is for the record */
    LINGER = 10,       /* seconds that it may stay when the ranks have given up */
    ASK_AFTER = 10,    /* seconds, */
    ASK_STEPS = 5,     /* and steps, without motion; */
    ASK_START = 30,    /* seconds before the first step */
    SLOW = 6,          /* times hang_timeout, while loading and saving */
    SLOW_LEAST = 120   /* seconds */
};

double sn_save_margin(double step_seconds, double save_seconds, double most)
{
    double margin = 2 * step_seconds + 2 * save_seconds + 60;
    return margin < most ? margin : most;
}

double sn_supervise_margin(double step_seconds, double save_seconds, double whole)
{
    return sn_save_margin(step_seconds, save_seconds, whole / 4);
}

void sn_supervise_begin(struct sn_supervision *s, const struct sn_supervise_limits *limits,
                        const struct sn_seen *first)
{
    *s = (struct sn_supervision){.limits = *limits,
                                 .began = first->now,
                                 .last_look = first->now,
                                 .moved = first->now,
                                 .began_wall = first->wall,
                                 .first_step = first->step,
                                 .motion = first->motion};
}

double sn_supervise_still(const struct sn_supervision *s, double now)
{
    return now - s->moved;
}

static void follow_motion(struct sn_supervision *s, const struct sn_seen *seen)
{
    double gap = seen->now - s->last_look;
    s->last_look = seen->now;
    if (gap > GAP)
        s->moved += gap; /* the whole job stood still: it was suspended, or this host was */
    if (seen->motion == s->motion)
        return;
    s->motion = seen->motion;
    s->moved = seen->now;
    s->has_looked = false;
}

static bool is_near_end(const struct sn_supervision *s, const struct sn_seen *seen)
{
    const struct sn_supervise_limits *l = &s->limits;
    if (l->deadline == 0)
        return false;
    double whole = (double)(l->deadline - s->began_wall);
    double margin = sn_supervise_margin(seen->step_seconds, seen->save_seconds, whole);
    if (l->margin)
        margin = l->margin;
    return (double)(l->deadline - seen->wall) <= margin;
}

double sn_supervise_asks_after(const struct sn_supervision *s, const struct sn_seen *seen)
{
    double steps = ASK_STEPS * seen->step_seconds;
    if (seen->step == s->first_step)
        return ASK_START > steps ? ASK_START : steps;
    return ASK_AFTER > steps ? ASK_AFTER : steps;
}

/* Seconds without any motion that mean a hang. */
static double patience(const struct sn_supervision *s, const struct sn_seen *seen)
{
    double limit = 2.0 * s->limits.hang_timeout;
    if (seen->step != s->first_step && !seen->is_saving)
        return limit;
    limit = (double)SLOW * s->limits.hang_timeout;
    return limit > SLOW_LEAST ? limit : SLOW_LEAST;
}

static enum sn_duty watch_motion(struct sn_supervision *s, const struct sn_seen *seen)
{
    double still = sn_supervise_still(s, seen->now), limit = patience(s, seen);
    if (s->limits.hang_timeout == 0 || !s->limits.has_recorders)
        return SN_DUTY_NONE;
    if (still > limit) {
        s->has_hung = true;
        s->ended_at = seen->now;
        return SN_DUTY_HANG;
    }
    if (still > limit / 2 && !s->has_looked) {
        s->has_looked = true;
        return SN_DUTY_LOOK;
    }
    return SN_DUTY_NONE;
}

static enum sn_duty order_end(struct sn_supervision *s, double now, enum sn_duty duty)
{
    s->ended_at = now;
    return duty;
}

enum sn_duty sn_supervise_look(struct sn_supervision *s, const struct sn_seen *seen)
{
    unsigned asked = seen->asked & ~s->asked;
    bool was_asked = s->asked != 0;
    follow_motion(s, seen);
    if (is_near_end(s, seen) && !(s->asked & SN_ASKED_DEADLINE))
        asked |= SN_ASKED_DEADLINE;
    s->asked |= asked;
    if (seen->has_given_up && s->gave_up_at <= 0)
        s->gave_up_at = seen->now;
    if (s->ended_at > 0) {
        bool is_short = s->has_lost || s->gave_up_at > 0;
        double grace = s->limits.saves_nothing ? GRACE_NOTHING : is_short ? GRACE_LOST : GRACE;
        bool stays = seen->now - s->ended_at > grace;
        return stays ? order_end(s, seen->now, SN_DUTY_KILL) : SN_DUTY_NONE;
    }
    if (seen->lost_node) {
        s->has_lost = true;
        return order_end(s, seen->now, SN_DUTY_LOST);
    }
    bool overdue = s->limits.most_seconds && seen->now - s->began > s->limits.most_seconds;
    bool lingers = s->gave_up_at > 0 && seen->now - s->gave_up_at > LINGER;
    if ((asked & SN_ASKED_INT_AGAIN) || overdue || lingers)
        return order_end(s, seen->now, SN_DUTY_STOP);
    if (asked && s->limits.saves_nothing)
        return order_end(s, seen->now, SN_DUTY_STOP);
    bool again = was_asked && seen->now - s->asked_at > REPEAT;
    if ((asked && !was_asked) || again) {
        s->asked_at = seen->now;
        return SN_DUTY_SAVE;
    }
    return watch_motion(s, seen);
}
