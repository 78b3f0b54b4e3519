/*
 * search.h - the best layouts of a run on a number of ranks, and how far the others are from them.
 *
 * Best-first branch and bound. Valid layouts (variants.h) that differ in recomputation and in what
 * replicas hold alone are a group with one lower bound: at first a floor, from the FLOPs of a whole layer, then,
 * if the floor is the least bound that is left, one from a compiled layer. The group with the least is opened: each
 * of its layouts gets a lower bound for all orders of its axes at once (estimate.h). The layout with the least
 * bound is taken up: replaced by its orders, each with its schedule played through, and then by its
 * compiled and simulated self. A family is
 * all layouts on the same grid (tensor, context, pipeline, expert; data follows). Once `top` families have
 * members whose exact time is at most the least bound that is left, nothing that was not compiled
 * can be better than what was found, in any of these families or outside of them: what is pruned is
 * provably worse, or provably does not fit (tests/unit/search/test_search.c compares with pricing all).
 * With ZeRO 3 as many units keep their gathered weights as fit (layout.zero_cache, fit_cache.h), unless
 * the run file names how many; the bound is that of as many as may fit.
 *
 * The result depends on the run, the number of ranks and the machine alone: equal times are ordered
 * by the order of variants.h, then by the order of the axes.
 */
#ifndef SN_SEARCH_H
#define SN_SEARCH_H

#include "lib/machine/named.h"
#include "lib/sim/plan.h"

struct sn_search_want {
    const struct sn_config *config; /* keys of the layout that it names stand */
    const struct sn_machine *machine;
    const struct sn_software *software;
    const struct sn_ops *ops;
    int threads, ranks, top;
    int64_t limit; /* bytes that a rank may fill; 0: no limit */
    /* 0: all that it takes. Of more layouts nothing is searched; after so many seconds of compiling what
     * was found by then is the result, and not proven. */
    int64_t most;
    double seconds;
    bool front; /* look for what less memory costs, too */
};

struct sn_found {
    struct sn_layout_config layout;
    struct sn_plan plan;
    int64_t rest; /* layouts of the same grid that fit, or may, and are not better */
};

enum { SN_SEARCH_FRONT = 10 };
struct sn_search {
    struct sn_found *found; /* best first, one of each grid */
    int n;
    int64_t valid;          /* layouts, orders of axes apart */
    int64_t too_big;        /* of these: known to need more memory than the limit */
    int64_t bounded;        /* bounds of single layouts computed, orders apart */
    int64_t exact;          /* layouts compiled and simulated */
    bool too_many, stopped; /* as wanted: not searched; ended before it was proven */
    double compile_seconds; /* CPU time that these took */
    /* If wanted: the best layout, the fastest that needs a fifth less memory than it, and so on down to the
     * least, or as many as have room. Empty with layout.overlap and codecs that are chosen for what was found. */
    struct sn_found *front;
    int n_front;
    bool front_stopped; /* there may be more */
    /* When nothing fits: the layouts that need least, compiled. */
    struct sn_found near[3];
    int n_near;
};

/* With layout.overlap: auto layouts are ranked as if messages were waited for where they are posted;
 * the best of each grid, of a few grids more than asked for, is then compiled in its order and with
 * schedules whose segments take turns (hiding.h), stays as it is where that gains nothing, and is
 * ranked again: of those the best, but another
 * layout may hide more.
 *
 * Where codecs are to be chosen (layout.compress.scheme: auto), layouts are ranked as if nothing were
 * compressed; each of those found then gets its codecs (codings.h), and they are ranked again: of
 * codecs for a layout the best, but another layout may gain more by them.
 * SN_EINPUT, with what would work, when no layout is valid. Nothing that fits is a result: n is 0.
 * Caller runs sn_search_fini. */
enum sn_status sn_search_run(struct sn_search *out, const struct sn_search_want *w,
                             struct sn_err *err);
void sn_search_fini(struct sn_search *s); /* a zeroed one is allowed */
/* Ranks to search for: those asked for (0: none are), or those of the machine's nodes, or of the run
 * file's layout. */
enum sn_status sn_search_ranks(int *ranks, int64_t asked, const struct sn_config *c,
                               const struct sn_machine *m, struct sn_err *err);
/* Of one that found none: how many layouts do not fit, and what the nearest needs. */
enum { SN_SEARCH_WHY = 112 };
const char *sn_search_why(char text[SN_SEARCH_WHY], const struct sn_search *s, int64_t limit);
/* No key of the layout is named: all of them are searched. */
void sn_search_free(struct sn_config *c);

struct sn_search_auto_want {
    const struct sn_ops *ops;
    int ranks, threads;
    int64_t host_limit; /* bytes of a rank, where no machine is known */
    const char
        *machine; /* the shipped one of the site, for a run that names none; NULL, "": none */
};
/* The `top` best layouts of a run for so many ranks, by the machine that c names, else the site's, else the
 * shipped laptop-cpu with this host's memory over the ranks, by which no run on GPUs is judged.
 * SN_EINPUT where nothing fits. Caller runs sn_search_fini. */
enum sn_status sn_search_best(struct sn_search *out, const struct sn_config *c,
                              const struct sn_search_auto_want *w, int top, struct sn_err *err);
/* What a run with `layout: auto` runs: the best layout for so many ranks, put into c->layout; the
 * same on every rank that asks. */
enum sn_status sn_search_auto(struct sn_config *c, const struct sn_search_auto_want *w,
                              struct sn_err *err);
/* SN_EINPUT, with what would work: it runs on GPUs and no machine is known. */
enum sn_status sn_search_check_machine(const struct sn_config *c, const char *machine,
                                       struct sn_err *err);

#endif
