/*
 * history_lost.c - which steps of an attempt had to be done again, once all files have been read.
 */
#include "slurm/history/history.h"

/* Of an attempt that had begun: its trainer's record, or its first step in the journal. */
static bool has_traces(const struct sn_history_attempt *a)
{
    return a->has_record || a->start_up > 0;
}

static bool keeps_traces(const struct sn_history *h)
{
    for (int i = 0; i < h->n_attempts; i++)
        if (has_traces(&h->attempt[i]))
            return true;
    return false;
}

/* Did its ranks end before they had begun? Then it has lost nothing, and where it was to go on from
 * says nothing of where the run went on. */
static bool never_began(const struct sn_history *h, int i)
{
    const struct sn_history_attempt *a = &h->attempt[i];
    return i > 0 && a->has_end && a->step <= a[-1].step && !has_traces(a) && keeps_traces(h);
}

/* The step that training goes on from after an attempt; -1: unknown. */
static int64_t kept_step(const struct sn_history *h, int i)
{
    const struct sn_history_attempt *a = &h->attempt[i];
    int next = i + 1;
    while (next < h->n_attempts && never_began(h, next))
        next++;
    if (next < h->n_attempts && h->attempt[next].from_step >= 0)
        return h->attempt[next].from_step;
    return a->saved > a->from_step ? a->saved : a->from_step;
}

void sn_history_conclude(struct sn_history *h)
{
    for (int i = 0; i < h->n_attempts; i++) {
        struct sn_history_attempt *a = &h->attempt[i];
        int64_t kept = kept_step(h, i);
        if (a->step >= 0 && kept >= 0)
            a->lost = a->step > kept && !never_began(h, i) ? a->step - kept : 0;
        if (h->step < 0 && a->step >= 0 && i + 1 == h->n_attempts)
            h->step = a->step; /* no metrics are left */
    }
    if (h->steps > 0 && h->step >= 0 && h->step_time > 0)
        h->eta = h->step_time * (double)(h->steps > h->step ? h->steps - h->step : 0);
}
