/*
 * test_localise.c - from paths that are slow and paths that are not to a link, a host or a switch.
 */
#include "lib/monitor/localise.h"
#include "tests/lib/tap.h"

enum { MOST = 16, MEMBERS = 8 };

struct scene {
    struct sn_slow_path path[MOST];
    int host[MOST][MEMBERS];
    double votes[MOST][MEMBERS];
    int n, hosts;
    int leaf[MOST];
};

static void add(struct scene *s, int kind, bool is_slow, int n, const int *host)
{
    int i = s->n++;
    for (int m = 0; m < n; m++)
        s->host[i][m] = host[m];
    s->path[i] = (struct sn_slow_path){
        .kind = kind, .is_slow = is_slow, .n = n, .host = s->host[i], .votes = s->votes[i]};
}

static void add_pair(struct scene *s, int kind, bool is_slow, int a, int b)
{
    add(s, kind, is_slow, 2, (const int[]){a, b});
}

static struct scene scene(int hosts)
{
    struct scene s = {.hosts = hosts};
    for (int h = 0; h < MOST; h++)
        s.leaf[h] = -1;
    return s;
}

/* The paths point into the scene that they were made in. */
static int localise(struct sn_blamed *out, struct scene *s)
{
    struct sn_localise_room room = {0};
    struct sn_err err;
    for (int i = 0; i < s->n; i++) {
        s->path[i].is_quiet = !s->path[i].is_slow;
        s->path[i].host = s->host[i];
        s->path[i].votes = s->votes[i];
    }
    if (sn_localise_init(&room, s->n, s->hosts, &err) != SN_OK)
        return -1;
    int n = sn_localise(out, &(struct sn_paths){s->path, s->n, s->leaf, s->hosts}, &room);
    sn_localise_fini(&room);
    return n;
}

static void a_host_is_what_its_paths_share(void)
{
    struct scene s = scene(4);
    struct sn_blamed b[MOST];
    for (int h = 0; h < 4; h++) /* a ring of a pipeline */
        add_pair(&s, 3, h == 1 || h == 2, h, (h + 1) % 4);
    int n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_HOST && b[0].host == 2,
           "paths 1-2 and 2-3 are slow, 0-1 and 3-0 are not: the link of host 2");
}

static void two_hosts_share_a_link(void)
{
    struct scene s = scene(2);
    struct sn_blamed b[MOST];
    for (int i = 0; i < 4; i++)
        add_pair(&s, 2, true, 0, 1);
    int n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_PAIR && b[0].host == 0 && b[0].other == 1,
           "of two hosts the link between them");
}

static void in_one_group_parts_that_come_last_tell(void)
{
    struct scene s = scene(8);
    struct sn_blamed b[MOST];
    add(&s, 2, true, 8, (const int[]){0, 1, 2, 3, 4, 5, 6, 7});
    for (int m = 0; m < 8; m++)
        s.votes[0][m] = m == 5 ? 30 : 2;
    int n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_HOST && b[0].host == 5,
           "one group of eight: the host whose parts come last at the others");
    for (int m = 0; m < 8; m++)
        s.votes[0][m] = 3;
    n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_PATH && b[0].path == 0,
           "or the group, where nobody's do");
}

static void a_switch_is_what_all_leave(void)
{
    struct scene s = scene(8);
    struct sn_blamed b[MOST];
    for (int h = 0; h < 8; h++)
        s.leaf[h] = h / 4;
    for (int h = 0; h < 4; h++)
        add_pair(&s, 2, true, h, h + 4);
    add_pair(&s, 1, false, 0, 1);
    int n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_LEAF, "all paths between two switches: a switch");
    add_pair(&s, 2, false, 0, 1);
    n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_LEAF,
           "quiet paths of the same kind within it clear hosts, not the switch");
    s.path[3].is_slow = false;
    n = localise(b, &s);
    bool has_leaf = false;
    for (int i = 0; i < n; i++)
        has_leaf = has_leaf || b[i].what == SN_BLAME_LEAF;
    tap_ok(n > 0 && !has_leaf, "a quiet path that leaves it does");
}

static void quiet_paths_clear_their_hosts(void)
{
    struct scene s = scene(4);
    struct sn_blamed b[MOST];
    add_pair(&s, 3, true, 1, 2);
    add_pair(&s, 3, false, 0, 1);
    add_pair(&s, 3, false, 2, 3);
    int n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_PATH && b[0].path == 0,
           "one slow path whose hosts have quiet ones: the path");
}

static void two_faults_are_two_findings(void)
{
    struct scene s = scene(8);
    struct sn_blamed b[MOST];
    for (int h = 0; h < 8; h++)
        add_pair(&s, 3, h == 0 || h == 1 || h == 4 || h == 5, h, (h + 1) % 8);
    int n = localise(b, &s);
    tap_ok(n == 2 && b[0].what == SN_BLAME_HOST && b[1].what == SN_BLAME_HOST &&
               b[0].host + b[1].host == 6,
           "hosts 1 and 5 of a ring of eight");
}

static void where_all_is_slow_all_is_told(void)
{
    struct scene s = scene(6);
    struct sn_blamed b[MOST];
    for (int h = 0; h < 6; h++)
        add_pair(&s, 3, true, h, (h + 1) % 6);
    int n = localise(b, &s);
    tap_ok(n == 1 && b[0].what == SN_BLAME_ALL, "a ring of which every path is slow: all links");
    for (int i = 0; i < s.n; i++)
        s.path[i].is_slow = false;
    tap_ok(localise(b, &s) == 0, "and none where none is");
}

int main(void)
{
    a_host_is_what_its_paths_share();
    two_hosts_share_a_link();
    in_one_group_parts_that_come_last_tell();
    a_switch_is_what_all_leave();
    quiet_paths_clear_their_hosts();
    two_faults_are_two_findings();
    where_all_is_slow_all_is_told();
    return tap_done();
}
