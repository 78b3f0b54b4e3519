/*
 * test_vigil.c - whose record stands still, as far as one can know; and whether a node answers.
 */
#include "lib/base/mem.h"
#include "slurm/scheduler/reach.h"
#include "slurm/supervisor/vigil.h"
#include "tests/lib/tap.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 6 };

/* Two ranks on each of n0 (this host), n1 and n2; `stopped` is a set of bits. */
static void look(struct sn_vigil *w, double now, uint64_t heartbeats, unsigned stopped)
{
    sn_vigil_look(w, now);
    for (int i = 0; i < RANKS; i++) {
        struct sn_flight_view v = {.rank = i, .n = 0, .is_here = i < 2, .is_alive = i < 2};
        (void)snprintf(v.host, sizeof(v.host), "n%d", i / 2);
        v.heartbeats = stopped >> i & 1 ? 7 : heartbeats;
        sn_vigil_see(w, i, &v);
    }
}

/* The ranks that stand still, as bits. */
static unsigned silent(const struct sn_vigil *w, double seconds)
{
    unsigned set = 0;
    for (int i = 0; i < RANKS; i++)
        set |= (unsigned)sn_vigil_is_silent(w, i, seconds) << i;
    return set;
}

static struct sn_vigil begun(void)
{
    struct sn_vigil w;
    (void)sn_vigil_init(&w, RANKS, NULL);
    return w;
}

static void one_is_stopped(void)
{
    struct sn_vigil w = begun();
    tap_ok(silent(&w, 3) == 0, "before the first look nobody stands still");
    for (int t = 0; t <= 4; t++)
        look(&w, 100 + t, 10 + (uint64_t)t, 1u << 3);
    tap_ok(silent(&w, 3) == 1u << 3,
           "a rank of another host, while others of other hosts heartbeat");
    tap_ok(!sn_vigil_host_is_silent(&w, "n1", 3), "its host does not");
    tap_ok(silent(&w, 5) == 0, "not yet, by a longer measure");
    sn_vigil_fini(&w);
}

static void a_host_is_gone(void)
{
    struct sn_vigil w = begun();
    for (int t = 0; t <= 4; t++)
        look(&w, 100 + t, 10 + (uint64_t)t, 0xc);
    tap_ok(silent(&w, 3) == 0xc && sn_vigil_host_is_silent(&w, "n1", 3), "all ranks of a host");
    tap_ok(sn_vigil_host_is_silent(&w, "n1.cluster.org", 3) && !sn_vigil_host_is_silent(&w, "n", 3),
           "whose name may have a domain behind it");
    tap_ok(!sn_vigil_host_is_silent(&w, "n7", 3), "of a host without records nothing is known");
    sn_vigil_fini(&w);
}

static void nothing_travels(void)
{
    struct sn_vigil w = begun();
    for (int t = 0; t <= 9; t++)
        look(&w, 100 + t, 10 + (uint64_t)t, 0x3c);
    tap_ok(silent(&w, 3) == 0, "where no record of another host moves, none stands still");
    for (int t = 10; t <= 12; t++)
        look(&w, 100 + t, 10 + (uint64_t)t, 0x0);
    for (int t = 13; t <= 20; t++)
        look(&w, 100 + t, 10 + (uint64_t)t, 0x3c);
    tap_ok(silent(&w, 3) == 0x3c, "unless they were seen to move before");
    for (int t = 21; t <= 30; t++)
        look(&w, 100 + t, 0, 0x3f);
    tap_ok(silent(&w, 3) == 0x3f, "of this host that is always known");
    sn_vigil_fini(&w);
}

static void then_they_end_each_other(void)
{
    struct sn_vigil w = begun();
    for (int t = 0; t <= 4; t++)
        look(&w, 100 + t, 10 + (uint64_t)t, 1u << 5);
    look(&w, 105, SN_FLIGHT_GAVE_UP, 1u << 5);
    for (int t = 6; t <= 60; t++)
        look(&w, 100 + t, 0, 0x3f);
    tap_ok(w.is_over && silent(&w, 3) == 1u << 5, "after one has given up nothing is learnt");
    sn_vigil_fini(&w);
}

/* A socket of this host that listens, or that nobody listens to. */
static int port_of(int fd, bool listens)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    if (bind(fd, (struct sockaddr *)&a, len) != 0 || (listens && listen(fd, 4) != 0) ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return -1;
    return ntohs(a.sin_port);
}

static void some_answer(void)
{
    int here = socket(AF_INET, SOCK_STREAM, 0), nobody = socket(AF_INET, SOCK_STREAM, 0);
    struct sn_reach r[4] = {{.address = "127.0.0.1", .port = port_of(here, true)},
                            {.address = "127.0.0.1", .port = port_of(nobody, false)},
                            {.address = ""},
                            {.address = "no-such-host.invalid", .port = 1}};
    sn_reach_try(r, 4, 20);
    tap_ok(r[0].answers, "a port that is listened to answers");
    tap_ok(!r[1].answers, "another one does not");
    tap_ok(r[2].answers && r[3].answers, "who cannot be asked is not accused");
    (void)close(here);
    (void)close(nobody);
}

static void addresses(void)
{
    struct sn_hostlist h = {0};
    struct sn_reach r[3];
    (void)sn_hostlist_parse(&h, "n[0-2]", "test", NULL);
    int found =
        sn_reach_parse(r, &h,
                       "NodeName=n1 Arch=x NodeAddr=10.0.0.2 NodeHostName=n1 State=IDLE\n"
                       "NodeName=n0 Arch=x NodeAddr=n0-ib Port=7000 State=IDLE\n"
                       "NodeName=n9 NodeAddr=10.0.0.9\n",
                       "SlurmctldPort           = 6817\nSlurmdPort              = 6900-6910\n");
    tap_ok(found == 2 && !strcmp(r[1].address, "10.0.0.2") && r[1].port == 6900,
           "a node's address, and the port of all");
    tap_ok(!strcmp(r[0].address, "n0-ib") && r[0].port == 7000, "or its own");
    tap_ok(!r[2].address[0], "of one that scontrol does not speak of none");
    sn_hostlist_fini(&h);
}

int main(void)
{
    one_is_stopped();
    a_host_is_gone();
    nothing_travels();
    then_they_end_each_other();
    some_answer();
    addresses();
    return tap_done();
}
