/*
 * test_comm_watch.c - what is said when a rank is waited for in vain.
 *
 * Started without arguments it runs itself under mpirun, once for each way to wait, and looks at
 * the exit code, at the time taken and at what was said.
 */
#include "lib/run/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

#include "lib/base/mem.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, TIMEOUT = 2, SECONDS = 12, LOST = 77 };

/* ---- what the ranks do -------------------------------------------------------------------------
 */

static void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    (void)nanosleep(&t, NULL);
}

static enum sn_status transfer(struct sn_comm *c, enum sn_collective kind, const char *label,
                               float *x, struct sn_err *err)
{
    struct sn_transfer t = {.kind = kind, .group = SN_GROUP_TENSOR, .n = 1000, .label = label};
    t.in = kind == SN_SEND ? x : NULL;
    t.out = x;
    t.peer = c->rank == 1 ? 0 : 1;
    t.staging = x + 1000;
    return c->ops->wait(c, c->ops->post(c, &t), err);
}

/* Rank 1 leaves the second sum out. */
static enum sn_status wait_for_a_sum(struct sn_comm *c, float *x, struct sn_err *err)
{
    SN_TRY(transfer(c, SN_ALL_REDUCE, "l0.attn.qkv", x, err));
    if (c->rank == 1)
        sleep_for(SECONDS);
    return transfer(c, SN_ALL_REDUCE, "l0.attn.o", x, err);
}

static void stop_now(int signal_number)
{
    (void)signal_number;
    (void)raise(SIGSTOP);
}

/* Rank 1 stops while it waits in the second sum for rank 2, which comes to it later. */
static enum sn_status wait_for_the_stopped(struct sn_comm *c, float *x, struct sn_err *err)
{
    struct itimerval soon = {.it_value = {.tv_usec = 500000}};
    SN_TRY(transfer(c, SN_ALL_REDUCE, "l0.attn.qkv", x, err));
    if (c->rank == 1 &&
        (signal(SIGALRM, stop_now) == SIG_ERR || setitimer(ITIMER_REAL, &soon, NULL) != 0))
        return sn_fail(err, SN_EFAIL, "no timer");
    if (c->rank == 2)
        sleep_for(1.2);
    return transfer(c, SN_ALL_REDUCE, "l0.attn.o", x, err);
}

/* As if rank 1 had died: its record is that of a process that exists no more. */
static enum sn_status wait_for_the_dead(struct sn_comm *c, const char *folder, float *x,
                                        struct sn_err *err)
{
    SN_TRY(transfer(c, SN_ALL_REDUCE, "l0.attn.qkv", x, err));
    if (c->rank != 1)
        return transfer(c, SN_ALL_REDUCE, "l0.attn.o", x, err);
    sn_comm_set_watch(c, NULL, 0);
    pid_t child = fork();
    if (child == 0) {
        struct sn_ring *r;
        _exit(sn_ring_open(&r, folder, 1, err) != SN_OK);
    }
    (void)waitpid(child, NULL, 0);
    sleep_for(SECONDS);
    return SN_OK;
}

/* Rank 0 receives what rank 1 does not send. */
static enum sn_status wait_for_a_message(struct sn_comm *c, float *x, struct sn_err *err)
{
    SN_TRY(transfer(c, SN_ALL_REDUCE, "l0.attn.qkv", x, err));
    if (c->rank != 0)
        sleep_for(SECONDS);
    return transfer(c, SN_RECV, "recv.act", x, err);
}

/* A receive that nobody waits for is no reason to complain, nor is a queue at rest. */
static enum sn_status post_early(struct sn_comm *c, float *x, struct sn_err *err)
{
    struct sn_transfer t = {.kind = SN_RECV, .n = 10, .peer = 1, .out = x, .label = "early"};
    sn_ticket ticket = 0;
    t.group = SN_GROUP_TENSOR;
    if (c->rank == 0)
        ticket = c->ops->post(c, &t);
    sleep_for(TIMEOUT + 1);
    if (c->rank == 1) {
        t.kind = SN_SEND;
        t.peer = 0;
        t.in = x;
        ticket = c->ops->post(c, &t);
    }
    SN_TRY(c->ops->wait(c, ticket, err));
    return c->ops->barrier(c, err);
}

/* Before any record: one does not come to the meeting. */
static int meet_but(int missing)
{
    struct sn_comm *c;
    struct sn_err err;
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("begin: %s\n", err.text);
        return 1;
    }
    sn_comm_set_watch(c, NULL, TIMEOUT);
    if (c->rank == missing)
        (void)raise(SIGSTOP);
    enum sn_status st = sn_comm_meet(c, &err);
    if (st != SN_OK) {
        printf("rank %d: %s\n", c->rank, err.text);
        (void)fflush(stdout);
        if (c->rank != 0)
            sleep_for(2); /* rank 0 knows more */
        sn_comm_abort_mpi(sn_exit_code(st));
    }
    c->ops->destroy(c);
    return 0;
}

static int be_a_rank(const char *way, const char *folder)
{
    if (strncmp(way, "meet", 4) == 0)
        return meet_but(atoi(way + 4));
    struct sn_comm *c;
    struct sn_ring *ring;
    struct sn_err err;
    struct sn_grid g = test_grid(RANKS, 1, 1, 1);
    if (sn_comm_create_mpi(&c, &err) != SN_OK || c->ops->set_grid(c, &g, &err) != SN_OK ||
        sn_ring_open(&ring, folder, c->rank, &err) != SN_OK) {
        printf("begin: %s\n", err.text);
        return 1;
    }
    float *x = sn_alloc(4000 + (size_t)sn_collective_staging(RANKS));
    enum sn_status st;
    sn_comm_set_watch(c, ring, TIMEOUT);
    sn_engine_use_windows(c, strstr(way, "messages") == NULL);
    if (strcmp(way, "recv") == 0)
        st = wait_for_a_message(c, x, &err);
    else if (strcmp(way, "early") == 0)
        st = post_early(c, x, &err);
    else if (strncmp(way, "stopped", 7) == 0)
        st = wait_for_the_stopped(c, x, &err);
    else if (strcmp(way, "dead") == 0)
        st = wait_for_the_dead(c, folder, x, &err);
    else
        st = wait_for_a_sum(c, x, &err);
    if (st != SN_OK) {
        printf("rank %d: %s\n", c->rank, err.text);
        (void)fflush(stdout);
        sn_comm_abort_mpi(sn_exit_code(st));
    }
    c->ops->destroy(c);
    sn_ring_close(ring);
    sn_free(x);
    return 0;
}

/* ---- what the one that looks on does -----------------------------------------------------------
 */

static void says(const char *self, const char *way, int code, const char *want, const char *what)
{
    char folder[] = "/tmp/sennit-watch-XXXXXX", command[1024], out[4096];
    struct timespec began, ended;
    if (!mkdtemp(folder)) {
        tap_ok(false, "a folder for records");
        return;
    }
    (void)snprintf(command, sizeof(command), "timeout -k 2 30 mpirun -n %d '%s' %s %s 2>&1", RANKS,
                   self, way, folder);
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(out, 1, sizeof(out) - 1, f) : 0;
    out[n] = '\0';
    int rc = f ? pclose(f) : -1;
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    double seconds = (double)(ended.tv_sec - began.tv_sec);
    rc = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
    /* mpirun itself, of Open MPI 4.1.4, at times dies in PMIx_server_finalize when all is over; of
     * a rank that dies it says so. */
    bool mpirun_died = rc == 128 + SIGSEGV && !strstr(out, "signal 11");
    bool good = (rc == code || (mpirun_died && code)) &&
                (want ? strstr(out, want) != NULL : strstr(out, "rank ") == NULL);
    if (!tap_ok(good && seconds < SECONDS, "%s", what))
        printf("# exit %d after %.0f s\n# %s\n", rc, seconds, out);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0)
        printf("# %s stays behind\n", folder);
}

int main(int argc, char **argv)
{
    char want[256], host[64] = "";
    if (argc > 2)
        return be_a_rank(argv[1], argv[2]);
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(want, sizeof(want),
                   "rank 0: world gather (number 1) has waited 2 s; process 1 on %s has not "
                   "answered\n",
                   host);
    says(argv[0], "meet1", LOST, want, "a rank that is stopped before the meeting is named");
    (void)snprintf(want, sizeof(want),
                   "rank 2: world broadcast (number 2) has waited 2 s; process 0 on %s has not "
                   "answered, or waits for others\n",
                   host);
    says(argv[0], "meet0", LOST, want, "rank 0 too");
    says(argv[0], "meet9", 0, NULL, "nothing is said when all come");
    says(argv[0], "windows", LOST,
         "tensor all_reduce 'l0.attn.o' (number 2) has waited 2 s; rank 1 (tensor 1) is behind at "
         "number 1, last seen in 'l0.attn.qkv'\n",
         "a rank that never posts is named, when sums go through the window");
    says(argv[0], "messages", LOST,
         "tensor all_reduce 'l0.attn.o' (number 2) has waited 2 s; rank 1 (tensor 1) is behind at "
         "number 1, last seen in 'l0.attn.qkv'\n",
         "and when they are messages");
    says(
        argv[0], "recv", LOST,
        "rank 0: tensor recv 'recv.act' (number 1) has waited 2 s; rank 1 (tensor 1) has posted no "
        "send, last seen in 'l0.attn.qkv'\n",
        "a rank that does not send is named");
    says(argv[0], "stopped", LOST,
         "tensor all_reduce 'l0.attn.o' (number 2) has waited 2 s; rank 1 (tensor 1) has come to "
         "it and stands still, last seen in 'l0.attn.o'\n",
         "a rank that is stopped where all wait is named");
    says(argv[0], "stopped-messages", LOST, "; rank 1 (tensor 1) has come to it and stands still",
         "and when sums are messages");
    says(argv[0], "dead", LOST, "; its process ", "a process that is gone is said to be");
    says(argv[0], "early", 0, NULL, "a receive that nobody waits for may take its time");
    return tap_done();
}
