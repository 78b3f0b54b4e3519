/* Ranks that work each for itself: they end together, slow is not stuck, and who is stuck is named. */
#include "lib/comm/solo.h"

#include "lib/base/clock.h"
#include "tests/lib/tap.h"
#include "tests/lib/thread_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS = 3, LIMIT = 1 };

struct world {
    struct thread_world *threads;
    void (*work)(struct world *w, int rank, struct sn_progress *p);
    bool moves;
    enum sn_status mine[RANKS], status[RANKS];
    struct sn_err err[RANKS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int gave_up; /* ranks that have ended their process, so to speak */
    struct sn_err why;
};

static void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    (void)nanosleep(&t, NULL);
}

/* In place of the process's end: the work comes back, which it would not have done. */
static void give_up(void *self, const struct sn_err *why)
{
    struct world *w = self;
    (void)pthread_mutex_lock(&w->lock);
    w->gave_up++;
    w->why = *why;
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

static void on_rank(void *arg, int rank)
{
    struct world *w = arg;
    struct sn_solo *v;
    struct sn_solo_env env = {.comm = thread_world_comm(w->threads, rank),
                              .timeout_s = LIMIT,
                              .give_up = give_up,
                              .self = w};
    if (sn_solo_create(&v, &env, &w->err[rank]) != SN_OK)
        exit(1);
    sn_solo_begin(v, "test: work", w->moves);
    w->work(w, rank, sn_solo_progress(v));
    if (w->mine[rank] != SN_OK)
        (void)sn_fail(&w->err[rank], w->mine[rank], "the reason of %d", rank);
    w->status[rank] = sn_solo_end(v, w->mine[rank], &w->err[rank]);
    sn_solo_destroy(v);
}

/* Seconds that it took. */
static double play(struct world *w)
{
    double began = sn_clock();
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
    w->threads = thread_world_create(RANKS);
    thread_world_run(w->threads, on_rank, w);
    thread_world_destroy(w->threads);
    return sn_clock() - began;
}

static bool all_have(const struct world *w, enum sn_status st, const char *text)
{
    bool good = true;
    for (int r = 0; r < RANKS; r++)
        good = good && w->status[r] == st && (st == SN_OK || strstr(w->err[r].text, text));
    return good;
}

static void nothing(struct world *w, int rank, struct sn_progress *p)
{
    (void)w, (void)rank, (void)p;
}

static void short_work_is_an_agreement(void)
{
    struct world w = {.work = nothing, .moves = true};
    double took = play(&w);
    tap_ok(all_have(&w, SN_OK, ""), "all are well (%.3f s)", took);
    w.mine[1] = SN_EINPUT;
    w.mine[2] = SN_EIO;
    (void)play(&w);
    tap_ok(all_have(&w, SN_EIO, "rank 2 (thread): the reason of 2") && w.gave_up == 0,
           "the worst is everybody's: %s", w.err[0].text);
}

/* Twice the limit in all, a mark every tenth of it, while the others have nothing to do. */
static void slow(struct world *w, int rank, struct sn_progress *p)
{
    (void)w;
    for (int i = 0; rank == 1 && i < 20; i++) {
        sleep_for(0.1 * LIMIT);
        sn_progress_mark(p);
    }
}

static void slow_is_not_stuck(void)
{
    struct world w = {.work = slow, .moves = true};
    double took = play(&w);
    tap_ok(all_have(&w, SN_OK, "") && took > 1.9 * LIMIT, "who moves is waited for: %.2f s", took);
}

static void silent(struct world *w, int rank, struct sn_progress *p)
{
    (void)w, (void)p;
    if (rank == 1)
        sleep_for(2 * LIMIT);
}

static void work_without_marks_takes_its_time(void)
{
    struct world w = {.work = silent};
    (void)play(&w);
    tap_ok(all_have(&w, SN_OK, ""), "work that has no marks is waited for, too");
}

/* Rank 1 does not come back until it has been given up. */
static void stuck(struct world *w, int rank, struct sn_progress *p)
{
    (void)p;
    (void)pthread_mutex_lock(&w->lock);
    while (rank == 1 && w->gave_up == 0)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
}

static void who_is_stuck_is_named(void)
{
    struct world w = {.work = stuck, .moves = true};
    double took = play(&w);
    tap_ok(all_have(&w, SN_ELOST, "rank 1 on ") &&
               all_have(&w, SN_ELOST, " has not moved for 1 s in 'test: work'"),
           "all ranks hear it: %s", w.err[0].text);
    tap_ok(w.gave_up == 1 && strstr(w.why.text, "rank 1 on "),
           "and rank 1 ends from beside its work, %.1f s after its begin", took);
}

/* Moves again while the others give up: comes back by itself. */
static void late(struct world *w, int rank, struct sn_progress *p)
{
    (void)w, (void)p;
    if (rank == 1)
        sleep_for(2 * LIMIT);
}

static void who_comes_back_needs_no_end(void)
{
    struct world w = {.work = late, .moves = true};
    (void)play(&w);
    tap_ok(all_have(&w, SN_ELOST, "rank 1 on ") && w.gave_up == 0,
           "who comes back returns with the sentence");
}

static void one_rank_waits_for_nobody(void)
{
    struct sn_comm *self;
    struct sn_solo *v;
    struct sn_err err = {.text = ""};
    (void)sn_comm_create_self(&self, &err);
    struct sn_solo_env env = {.comm = self, .timeout_s = LIMIT};
    if (sn_solo_create(&v, &env, &err) != SN_OK)
        exit(1);
    sn_solo_begin(v, "test", true);
    sleep_for(1.2 * LIMIT);
    tap_ok(sn_solo_end(v, SN_EIO, &err) == SN_EIO, "one rank has its own status");
    sn_solo_destroy(v);
    self->ops->destroy(self);
}

int main(void)
{
    short_work_is_an_agreement();
    slow_is_not_stuck();
    work_without_marks_takes_its_time();
    who_is_stuck_is_named();
    who_comes_back_needs_no_end();
    one_rank_waits_for_nobody();
    return tap_done();
}
