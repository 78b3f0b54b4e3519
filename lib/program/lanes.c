#include "lib/program/lanes.h"

#include "lib/base/mem.h"

#include <math.h>
#include <string.h>

void sn_lanes_fini(struct sn_lanes *l)
{
    sn_free(l->post);
    *l = (struct sn_lanes){.ended = l->ended, .arg = l->arg};
}

void sn_lanes_clear(struct sn_lanes *l)
{
    *l = (struct sn_lanes){.ended = l->ended, .arg = l->arg, .post = l->post, .cap = l->cap};
}

static struct sn_lane_post *front(const struct sn_lanes *l, int lane)
{
    return l->first[lane] ? &l->post[l->first[lane] - 1] : NULL;
}

/* Divide the links of a level among those under way: slow[lane] becomes how much slower its front is than
 * alone, where that is more. Whoever asks for less than its messages' part leaves the rest to the others. */
static void divide(const struct sn_lanes *l, int level, double slow[SN_LINK_LANES])
{
    double asked = 0, left = 1, messages = 0;
    bool wants[SN_LINK_LANES] = {false}, found = true;
    for (int k = 0; k < SN_LINK_LANES; k++) {
        const struct sn_lane_post *p = front(l, k);
        wants[k] = p && p->what.use.of[level] > 0;
        asked += wants[k] ? (double)p->what.use.of[level] : 0;
        messages += wants[k] ? (double)p->what.use.messages : 0;
    }
    if (asked <= 1)
        return;
    while (found) {
        found = false;
        for (int k = 0; k < SN_LINK_LANES; k++) {
            const struct sn_link_use *u = wants[k] ? &front(l, k)->what.use : NULL;
            if (!u || (double)u->of[level] * messages > (double)u->messages * left)
                continue;
            left -= (double)u->of[level];
            messages -= (double)u->messages;
            wants[k] = false;
            found = true;
        }
    }
    for (int k = 0; k < SN_LINK_LANES; k++) {
        const struct sn_link_use *u = wants[k] ? &front(l, k)->what.use : NULL;
        if (u)
            slow[k] = fmax(slow[k], (double)u->of[level] * messages / ((double)u->messages * left));
    }
}

/* What is under way has changed. Times of those whose parts are as before stay as they are, to the last
 * bit. */
static void share(struct sn_lanes *l)
{
    double slow[SN_LINK_LANES];
    for (int k = 0; k < SN_LINK_LANES; k++)
        slow[k] = 1;
    for (int i = 0; i < SN_LINK_LEVELS && l->busy > 1; i++)
        divide(l, i, slow);
    for (int k = 0; k < SN_LINK_LANES; k++) {
        struct sn_lane_post *p = front(l, k);
        if (!p || slow[k] == p->slow)
            continue;
        p->left -= p->slow > 0 ? (l->at - p->since) / p->slow : 0;
        p->since = l->at;
        p->slow = slow[k];
        p->end = p->since + p->left * slow[k];
    }
}

/* It comes to its turn. */
static void begin(struct sn_lanes *l, struct sn_lane_post *p)
{
    p->begin = p->since = l->at;
    p->left = p->what.seconds;
    p->slow = 0;
}

static int get_place(struct sn_lanes *l)
{
    int place = l->free - 1;
    if (place >= 0) {
        l->free = l->post[place].next + 1;
        return place;
    }
    if (!sn_grow((void **)&l->post, l->n, &l->cap, sizeof(*l->post)))
        return -1;
    return l->n++;
}

bool sn_lanes_post(struct sn_lanes *l, int lane, double now, const struct sn_link_post *p)
{
    sn_lanes_until(l, now);
    l->at = fmax(l->at, now);
    int place = get_place(l);
    if (place < 0)
        return false;
    l->post[place] = (struct sn_lane_post){.what = *p, .next = -1};
    if (l->first[lane]) {
        l->post[l->last[lane] - 1].next = place;
        l->last[lane] = place + 1;
        return true;
    }
    l->first[lane] = l->last[lane] = place + 1;
    l->busy++;
    begin(l, &l->post[place]);
    share(l);
    return true;
}

/* The lane whose front ends first; -1: all are empty. */
static int first_to_end(const struct sn_lanes *l)
{
    int found = -1;
    for (int k = 0; k < SN_LINK_LANES && l->busy; k++)
        if (front(l, k) && (found < 0 || front(l, k)->end < front(l, found)->end))
            found = k;
    return found;
}

static void end(struct sn_lanes *l, int lane)
{
    int place = l->first[lane] - 1;
    struct sn_lane_post was = l->post[place];
    l->at = l->ended_at[lane] = was.end;
    l->first[lane] = was.next + 1;
    l->post[place].next = l->free - 1;
    l->free = place + 1;
    if (l->first[lane])
        begin(l, front(l, lane));
    else {
        l->last[lane] = 0;
        l->busy--;
    }
    share(l);
    l->ended(l->arg, was.what.id, was.begin, was.end);
}

bool sn_lanes_next(struct sn_lanes *l)
{
    int lane = first_to_end(l);
    if (lane >= 0)
        end(l, lane);
    return lane >= 0;
}

void sn_lanes_until(struct sn_lanes *l, double t)
{
    for (int lane; (lane = first_to_end(l)) >= 0 && front(l, lane)->end <= t;)
        end(l, lane);
    if (l->busy) /* else what comes next may come sooner */
        l->at = fmax(l->at, t);
}

bool sn_lanes_copy(struct sn_lanes *to, const struct sn_lanes *from, double later)
{
    struct sn_lane_post *post = to->post;
    int cap = to->cap;
    while (cap < from->n)
        if (!sn_grow((void **)&post, cap, &cap, sizeof(*post))) {
            to->post = post;
            to->cap = cap;
            return false;
        }
    sn_lanes_ended *ended = to->ended;
    void *arg = to->arg;
    *to = *from;
    to->ended = ended;
    to->arg = arg;
    to->post = post;
    to->cap = cap;
    to->at += later;
    for (int k = 0; k < SN_LINK_LANES; k++)
        to->ended_at[k] += later;
    if (from->n > 0)
        memcpy(post, from->post, (size_t)from->n * sizeof(*post));
    for (int i = 0; i < to->n; i++) {
        post[i].begin += later;
        post[i].since += later;
        post[i].end += later;
    }
    return true;
}
