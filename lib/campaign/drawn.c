#include "lib/campaign/drawn.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>
#include <stdlib.h>

/* One run. Times are seconds that nodes have been held. */
struct world {
    const struct sn_terms *t;
    uint64_t key, drawn;
    double now, failure, limit; /* the next failure; the moment at which this job saves and ends */
    double slow, slow_end;      /* the next slow node comes, the last one goes */
    double safe;                /* work that is saved */
    int64_t jobs, failures;
};

static double exponential(struct world *w, double mean)
{
    return -mean * log1p(-sn_rng_uniform(w->key, w->drawn++));
}

/* Slow nodes up to now. */
static void come(struct world *w)
{
    const struct sn_slow *s = &w->t->slow;
    while (s->every > 0 && w->slow <= w->now) {
        w->slow_end = fmax(w->slow_end, w->slow + s->lasts);
        w->slow += exponential(w, s->every);
    }
}

static double pace_until(struct world *w, double *until)
{
    come(w);
    bool is_slow = w->now < w->slow_end;
    *until = w->t->slow.every > 0 ? is_slow ? fmin(w->slow_end, w->slow) : w->slow : INFINITY;
    return is_slow ? 1 / w->t->slow.factor : 1;
}

/* How an attempt, or a part of it, ended. */
enum how { DONE, FAILED, LIMIT };

/* Nothing is computed for `seconds`. */
static enum how stand(struct world *w, double seconds)
{
    double end = w->now + seconds;
    if (w->failure < end) {
        w->now = w->failure;
        return FAILED;
    }
    w->now = end;
    return DONE;
}

/* Works until *left is done, a failure or the job's last save; *left is then what was not. */
static enum how work(struct world *w, double *left)
{
    while (*left > 0) {
        double until, pace = pace_until(w, &until);
        double end = w->now + *left / pace, stop = fmin(fmin(until, w->failure), w->limit);
        if (end <= stop) {
            w->now = end;
            *left = 0;
            break;
        }
        *left -= (stop - w->now) * pace;
        w->now = stop;
        if (stop == w->failure)
            return FAILED;
        if (stop == w->limit)
            return LIMIT;
    }
    return DONE;
}

/* Whole intervals at one pace are passed over at once: those that end before anything happens. */
static double pass_over(struct world *w, double done)
{
    const struct sn_failures *f = &w->t->failures;
    double until, pace = pace_until(w, &until), cycle = w->t->interval / pace + f->pause;
    double stop = fmin(fmin(until, w->failure), w->limit);
    double n = floor((stop - w->now - f->write) / cycle);
    n = fmin(n, floor((w->t->work - done) / w->t->interval) - 1);
    if (n < 1)
        return done;
    w->now += n * cycle;
    done += n * w->t->interval;
    w->safe = done;
    return done;
}

/* From a start to a failure, the limit of the job or the end of the run. */
static enum how attempt(struct world *w)
{
    const struct sn_failures *f = &w->t->failures;
    double done = w->safe, last_save = f->pause + f->write;
    double pending = w->safe, counts = 0; /* a save under way, and when it counts */
    enum how how = stand(w, f->restart);
    if (how == DONE && w->now >= w->limit)
        return LIMIT;
    while (how == DONE && done < w->t->work) {
        double before = pass_over(w, done), part = fmin(w->t->interval, w->t->work - before);
        double left = part;
        done = before;
        how = work(w, &left);
        done += part - left;
        if (how == DONE && done < w->t->work)
            how = stand(w, f->pause);
        if (how == DONE) {
            w->safe = counts <= w->now - f->pause ? fmax(w->safe, pending) : w->safe;
            pending = done;
            counts = w->now + f->write;
        }
        if (how == DONE && w->now >= w->limit && done < w->t->work)
            how = LIMIT;
    }
    if (how != FAILED && stand(w, last_save) == FAILED)
        how = FAILED;
    else if (how != FAILED)
        w->safe = done;
    if (how == FAILED && counts > 0 && counts <= w->now)
        w->safe = fmax(w->safe, pending);
    return how;
}

static void play(struct world *w)
{
    const struct sn_terms *t = w->t;
    double last_save = t->failures.pause + t->failures.write;
    w->failure = exponential(w, t->failures.mtbf);
    w->slow = t->slow.every > 0 ? exponential(w, t->slow.every) : INFINITY;
    bool begins = true;
    while (w->safe < t->work) {
        if (begins) {
            w->jobs++;
            w->limit = t->limit > 0 ? w->now + t->limit - last_save : INFINITY;
        }
        enum how how = attempt(w);
        begins = how != FAILED || !t->in_place || w->now >= w->limit;
        if (how == FAILED) {
            w->failures++;
            w->failure = w->now + exponential(w, t->failures.mtbf);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct sn_drawn_of summary(double *v, int n)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++)
        sum += v[i];
    for (int i = 0; i < n; i++)
        squares += (v[i] - sum / n) * (v[i] - sum / n);
    qsort(v, (size_t)n, sizeof(*v), by_size);
    return (struct sn_drawn_of){.mean = sum / n,
                                .error = sqrt(squares / (n - 1) / n),
                                .low = v[(int)(0.05 * (n - 1))],
                                .high = v[(int)(0.95 * (n - 1) + 0.5)]};
}

enum sn_status sn_drawn_play(struct sn_drawn *out, const struct sn_terms *t, uint64_t seed,
                             int trials, struct sn_err *err)
{
    struct sn_held_time held;
    SN_TRY(sn_held_find(&held, t, err)); /* so that every run ends */
    double *v = sn_alloc_n(2 * (size_t)trials, sizeof(*v));
    if (!v)
        return sn_fail(err, SN_ENOMEM, "no memory for %d drawn campaigns", trials);
    *out = (struct sn_drawn){.trials = trials};
    for (int i = 0; i < trials; i++) {
        struct world w = {.t = t, .key = sn_rng_mix(sn_rng_key(seed, "campaign"), (uint64_t)i)};
        play(&w);
        v[i] = w.now;
        v[trials + i] = (w.now + (double)w.jobs * t->queue) / 86400;
        out->failures += (double)w.failures / trials;
        out->jobs += (double)w.jobs / trials;
    }
    out->held = summary(v, trials);
    out->days = summary(v + trials, trials);
    sn_free(v);
    return SN_OK;
}
