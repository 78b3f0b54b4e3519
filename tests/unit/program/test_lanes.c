/*
 * test_lanes.c - what is under way side by side, worked out by hand: lanes that share links, those
 * that do not, and what is posted meanwhile.
 */
#include "lib/program/lanes.h"

#include "tests/lib/tap.h"

#include <math.h>

enum { POSTS = 8 };

struct ends {
    double begin[POSTS], end[POSTS];
    int n, order[POSTS];
};

static void note(void *arg, int64_t id, double begin, double end)
{
    struct ends *e = arg;
    e->begin[id] = begin;
    e->end[id] = end;
    e->order[e->n++] = (int)id;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

static void post(struct sn_lanes *l, int lane, double now, int id, double seconds, float outer,
                 float inner)
{
    struct sn_link_post p = {id, seconds, {{inner, outer}, 1}};
    (void)sn_lanes_post(l, lane, now, &p);
}

static void post_many(struct sn_lanes *l, int lane, int id, double seconds, float use,
                      float messages)
{
    struct sn_link_post p = {id, seconds, {{use}, messages}};
    (void)sn_lanes_post(l, lane, 0, &p);
}

static void drain(struct sn_lanes *l)
{
    while (sn_lanes_next(l))
        continue;
}

/* Four seconds of data, one of tensor from time 1 on, over the same links: half as fast from 1 to 3,
 * so that they end at 5 and 3. */
static void a_link_is_not_used_twice(void)
{
    struct ends e = {.n = 0};
    struct sn_lanes l = {.ended = note, .arg = &e};
    post(&l, 2, 0, 0, 4, 1, 0);
    post(&l, 0, 1, 1, 1, 1, 0);
    drain(&l);
    tap_ok(near(e.end[1], 3) && near(e.end[0], 5) && e.order[0] == 1,
           "two that want a whole link each are half as fast while both are there");
    tap_ok(near(e.begin[1], 1) && l.busy == 0, "the small one overtakes, and begins at once");
    sn_lanes_fini(&l);
}

static void other_links_are_others(void)
{
    struct ends e = {.n = 0};
    struct sn_lanes l = {.ended = note, .arg = &e};
    post(&l, 2, 0, 0, 4, 1, 0);
    post(&l, 0, 1, 1, 1, 0, 1);
    post(&l, 0, 1, 2, 1, 0, 1);
    drain(&l);
    tap_ok(e.end[1] == 2 && e.end[2] == 3 && e.end[0] == 4,
           "who uses other levels goes on as if alone; those of one lane follow each other");
    post(&l, 2, 10, 3, 3, 0.5F, 0);
    post(&l, 0, 10, 4, 2, 0.5F, 1);
    drain(&l);
    tap_ok(e.end[3] == 13 && e.end[4] == 12, "halves of a link fit side by side");
    post(&l, 2, 20, 5, 3, 0.75F, 0);
    post(&l, 0, 20, 6, 2, 0.75F, 0);
    drain(&l);
    tap_ok(near(e.end[6], 23) && near(e.end[5], 24), "three quarters each are half as slow again");
    sn_lanes_fini(&l);
}

/* Three messages beside one: a quarter of the link for the one, so that it ends at 4, when the three have
 * had three of their six seconds. */
static void messages_have_equal_parts(void)
{
    struct ends e = {.n = 0};
    struct sn_lanes l = {.ended = note, .arg = &e};
    post_many(&l, 2, 0, 6, 1, 3);
    post_many(&l, 0, 1, 1, 1, 1);
    drain(&l);
    tap_ok(near(e.end[1], 4) && near(e.end[0], 7),
           "a message beside three has a quarter of the link");
    sn_lanes_fini(&l);
}

/* A quarter is asked for and had, three quarters are left to two: of them one asks for an eighth. */
static void who_asks_for_little_is_not_slowed(void)
{
    struct ends e = {.n = 0};
    struct sn_lanes l = {.ended = note, .arg = &e};
    post_many(&l, 0, 0, 5, 1, 1);
    post_many(&l, 1, 1, 8, 0.25F, 1);
    post_many(&l, 2, 2, 8, 0.125F, 1);
    drain(&l);
    tap_ok(near(e.end[1], 8) && near(e.end[2], 8) && near(e.end[0], 8),
           "who asks for less than its part goes on as if alone, what it leaves is the others'");
    sn_lanes_fini(&l);
}

static void time_goes_as_far_as_is_asked(void)
{
    struct ends e = {.n = 0}, f = {.n = 0};
    struct sn_lanes l = {.ended = note, .arg = &e}, k = {.ended = note, .arg = &f};
    post(&l, 2, 0, 0, 4, 1, 0);
    post(&l, 0, 0, 1, 2, 1, 0);
    sn_lanes_until(&l, 1);
    tap_ok(e.n == 0 && l.busy == 2 && sn_lanes_has(&l, 0), "nothing has ended after a second");
    tap_ok(sn_lanes_copy(&k, &l, 100), "a copy goes on later");
    drain(&k);
    drain(&l);
    tap_ok(near(e.end[1], 4) && near(e.end[0], 6) && near(f.end[1], 104) && near(f.end[0], 106) &&
               near(f.begin[0], 100),
           "and as the first does");
    sn_lanes_until(&l, 50);
    post(&l, 1, 7, 2, 1, 1, 0);
    drain(&l);
    tap_ok(e.end[2] == 8, "lanes at rest let what comes begin when it comes");
    sn_lanes_fini(&l);
    sn_lanes_fini(&k);
}

int main(void)
{
    a_link_is_not_used_twice();
    other_links_are_others();
    messages_have_equal_parts();
    who_asks_for_little_is_not_slowed();
    time_goes_as_far_as_is_asked();
    return tap_done();
}
