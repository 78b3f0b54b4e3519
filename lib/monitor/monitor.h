/*
 * monitor.h - the plan as the monitor: which rank, link or switch departs from what its text plans?
 *
 * Fed with what all ranks say of each step (record.h). Knows neither programs nor how records come.
 *
 * Computing. Of each rank the seconds that it computed, waits left out, over those planned for its
 * text: ranks of different stages compare. What all have in common (the price of this machine) goes
 * with the median over ranks, and what is left is followed by departure.h.
 *
 * Links. In a collective everybody waits for the slowest, so how long it took says nothing of who is
 * to blame. Here a transfer takes from when the last member had come until the last had all of it:
 *
 *   max over members of end - max over members of begin
 *
 * and who comes late makes it no longer. Times of different hosts are compared by the moments when
 * their ranks left the last agreements of all ranks, of which the median counts. Those are apart by
 * what a message and a wake-up take; how they scatter tells by how much, and what takes longer by
 * less than three times that is as long as it was. The sum over what is sampled of a path, over the
 * planned one, is followed by departure.h; a price that is off goes with its base. Which link
 * explains the paths that depart is localise.h's.
 *
 * A departure of paths is named one step after the last of them has joined, so that all that belong
 * to it are there: NEEDED steps of departure.h and one.
 */
#ifndef SN_MONITOR_H
#define SN_MONITOR_H

#include "lib/base/err.h"
#include "lib/monitor/record.h"

#include <stddef.h>

/* Less is never told: computing by a fifth, links by a third. From the start on only computing is told
 * of, of three ranks with the same work at least: links that are slow then are the preflight's
 * (lib/probe). */
#define SN_MONITOR_CORE_TOLERANCE 0.20
#define SN_MONITOR_LINK_TOLERANCE 0.30
/* Steps of a start that are not recorded: they make plans, fault pages in. */
enum { SN_MONITOR_SKIPPED = 2 };

enum sn_finding_kind {
    SN_FINDING_CORE,      /* `rank` computes slowly */
    SN_FINDING_NODE,      /* so do all `members` ranks of `host` */
    SN_FINDING_HOST_LINK, /* all that crosses the link of `host` is slow */
    SN_FINDING_PAIR_LINK, /* what goes between `host` and `other` */
    SN_FINDING_LEAF,      /* what leaves switch `host` */
    SN_FINDING_PATH,      /* what `members` ranks exchange, from `rank` to `other_rank` */
    SN_FINDING_LINKS,     /* everything */
    SN_NFINDINGS
};
const char *sn_finding_name(enum sn_finding_kind k); /* "core" */

struct sn_finding {
    enum sn_finding_kind kind;
    int rank, other_rank; /* -1: none alone */
    int members;
    int core; /* of the rank's host; -1: not known */
    char host[SN_MONITOR_NAME], other[SN_MONITOR_NAME];
    double ratio;  /* times the planned time, beside its peers */
    int64_t since; /* the first step */
    int work;      /* enum sn_work in which it departs most; -1: in all alike */
    double work_ratio;
    double had; /* part of its computing for which it had a core; 1: all, or not known */
    bool is_new;
};
/* "rank 5 (n2, core 7) computes 1.33 times as long as the plan says beside its peers since step 120,
 * most in backward (1.41)" */
void sn_finding_say(char *out, size_t room, const struct sn_finding *f);

struct sn_monitor;
/* plans[r] is that of rank r. Allocates all it ever needs. Caller destroys. */
enum sn_status sn_monitor_create(struct sn_monitor **out, const struct sn_monitor_plan *plans,
                                 int ranks, struct sn_err *err);
void sn_monitor_destroy(struct sn_monitor *m); /* NULL is allowed */
/* A step, or some short ones together: records[r] is that of rank r. */
void sn_monitor_take(struct sn_monitor *m, const struct sn_monitor_record *records);
/* What departs now; those that the last step has brought are new. Borrowed until the next step. */
int sn_monitor_findings(const struct sn_monitor *m, const struct sn_finding **out);
/* Those that departed before the last step and do no more. */
int sn_monitor_ended(const struct sn_monitor *m, const struct sn_finding **out);

#endif
