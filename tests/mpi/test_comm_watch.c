/*
 * test_comm_watch.c - what is said when a rank is waited for in vain.
 *
 * Started without arguments it runs itself under mpirun, once for each way to wait, and looks at
 * the exit code, at the time taken and at what was said.
 */
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

#include "lib/base/mem.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, TIMEOUT = 2, SECONDS = 12, LOST = 77 };

/* ---- what the ranks do ----------------------------------------------------------------------- */

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

/* data 4 on two nodes: rank 2 has posted the sum that 0 waits in, behind one that 3 leaves out. */
static enum sn_status wait_for_a_queue(struct sn_comm *c, float *x, struct sn_err *err)
{
    struct sn_transfer t = {.kind = SN_ALL_REDUCE, .n = 1000, .in = x, .out = x};
    sn_request before = 0;
    if (c->rank % 2)
        sleep_for(SECONDS);
    t.staging = x + 1000;
    if (c->rank == 2) {
        sleep_for(0.5); /* rank 0 complains first */
        t.group = SN_GROUP_REPLICA_NODE;
        t.label = "node.0";
        before = c->ops->post(c, &t);
    }
    t.group = SN_GROUP_REPLICA_RAIL;
    t.label = "bucket0";
    SN_TRY(c->ops->wait(c, c->ops->post(c, &t), err));
    return c->ops->wait(c, before, err);
}

/* data 2 x tensor 2: rank 0 is in two sums, and waits for that of tensor ranks, to which 1 does not
 * come. Nor has 2 come to the other; but that one nobody waits for. */
static enum sn_status wait_beside_another(struct sn_comm *c, float *x, struct sn_err *err)
{
    struct sn_transfer t = {.kind = SN_ALL_REDUCE, .n = 1000, .in = x, .out = x};
    if (c->rank == 1 || c->rank == 3)
        sleep_for(SECONDS);
    if (c->rank == 2)
        sleep_for(1); /* rank 0 complains first */
    if (c->rank == 0) {
        t.group = SN_GROUP_DATA;
        t.label = "bucket0";
        (void)c->ops->post(c, &t);
    }
    t.group = SN_GROUP_TENSOR;
    t.label = "tensor.0";
    t.out = x + 1000;
    t.staging = x + 2000;
    return c->ops->wait(c, c->ops->post(c, &t), err);
}

/* data 2 x tensor 2: 1 waits for 0, that for 2, that for 3, and 3 is stopped where it waits for 1,
 * which has sent long ago. */
static enum sn_status wait_in_a_circle(struct sn_comm *c, float *x, struct sn_err *err)
{
    static const struct {
        enum sn_collective kind;
        enum sn_group group;
        const char *label;
    } last[] = {{SN_ALL_REDUCE, SN_GROUP_DATA, "bucket0"},
                {SN_ALL_REDUCE, SN_GROUP_WORLD, "step_end"},
                {SN_ALL_REDUCE, SN_GROUP_TENSOR, "tensor.0"},
                {SN_RECV, SN_GROUP_DATA, "recv.act"}};
    struct itimerval soon = {.it_value = {.tv_usec = 500000}};
    struct sn_transfer t = {.kind = SN_SEND, .group = SN_GROUP_DATA, .n = 10, .peer = 1, .in = x};
    if (c->rank == 3 &&
        (signal(SIGALRM, stop_now) == SIG_ERR || setitimer(ITIMER_REAL, &soon, NULL) != 0))
        return sn_fail(err, SN_EFAIL, "no timer");
    if (c->rank == 1) {
        sleep_for(1);
        SN_TRY(c->ops->wait(c, c->ops->post(c, &t), err));
    } else if (c->rank != 3) {
        sleep_for(2.5); /* rank 1 complains first */
    }
    t = (struct sn_transfer){.kind = last[c->rank].kind,
                             .group = last[c->rank].group,
                             .label = last[c->rank].label,
                             .n = 10,
                             .out = x,
                             .staging = x + 1000};
    t.in = t.kind == SN_RECV ? NULL : x;
    return c->ops->wait(c, c->ops->post(c, &t), err);
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
        struct sn_flight_recorder *r;
        _exit(sn_flight_open(&r, folder, 1, err) != SN_OK);
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

/* The same of blocks whose lengths come first; and a gather of them that rank 1 leaves out. */
static enum sn_status wait_for_a_length(struct sn_comm *c, enum sn_collective kind, float *x,
                                        struct sn_err *err)
{
    struct sn_transfer t = {.kind = kind,
                            .group = SN_GROUP_TENSOR,
                            .dtype = SN_U8,
                            .n = 800,
                            .in = kind == SN_RECV ? NULL : x,
                            .out = x + 200,
                            .peer = 1,
                            .sized = true,
                            .label = "streams"};
    SN_TRY(transfer(c, SN_ALL_REDUCE, "l0.attn.qkv", x, err));
    memset(x, 0, 800);
    if (c->rank == 1 || (kind == SN_RECV && c->rank != 0))
        sleep_for(SECONDS);
    return c->ops->wait(c, c->ops->post(c, &t), err);
}

/* A receive that nobody waits for is no reason to complain, nor is a queue at rest. */
static enum sn_status post_early(struct sn_comm *c, float *x, struct sn_err *err)
{
    struct sn_transfer t = {.kind = SN_RECV, .n = 10, .peer = 1, .out = x, .label = "early"};
    sn_request request = 0;
    t.group = SN_GROUP_TENSOR;
    if (c->rank == 0)
        request = c->ops->post(c, &t);
    sleep_for(TIMEOUT + 1);
    if (c->rank == 1) {
        t.kind = SN_SEND;
        t.peer = 0;
        t.in = x;
        request = c->ops->post(c, &t);
    }
    SN_TRY(c->ops->wait(c, request, err));
    return c->ops->barrier(c, err);
}

/* The first rank that comes here leaves a file that says when. */
static void note(const char *folder, const char *what)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, what);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd >= 0)
        (void)close(fd);
}

static void give_up(const char *folder, enum sn_status st)
{
    note(folder, "gave_up");
    sn_comm_abort_mpi(sn_exit_code(st));
}

/* Before any record: one does not come to the meeting. */
static int meet_but(int missing, const char *folder)
{
    struct sn_comm *c;
    struct sn_err err;
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("begin: %s\n", err.text);
        return 1;
    }
    note(folder, "began");
    sn_comm_set_watch(c, NULL, TIMEOUT);
    if (c->rank == missing)
        (void)raise(SIGSTOP);
    enum sn_status st = sn_comm_handshake(c, &err);
    if (st != SN_OK) {
        printf("rank %d: %s\n", c->rank, err.text);
        (void)fflush(stdout);
        if (c->rank != 0)
            sleep_for(2); /* rank 0 knows more */
        give_up(folder, st);
    }
    c->ops->destroy(c);
    return 0;
}

static bool is_of_nodes(const char *way)
{
    return strncmp(way, "queue", 5) == 0;
}

/* On a grid of data 2 x tensor 2, or of data 4. */
static bool is_of_four(const char *way)
{
    return is_of_nodes(way) || strcmp(way, "circle") == 0 || strcmp(way, "beside") == 0;
}

static struct sn_grid grid_of(const char *way)
{
    struct sn_grid nodes = test_grid(1, 1, 4, 1);
    nodes.replica_node = 2;
    if (is_of_nodes(way))
        return nodes;
    return is_of_four(way) ? test_grid(2, 1, 2, 1) : test_grid(RANKS, 1, 1, 1);
}

static int be_a_rank(const char *way, const char *folder)
{
    if (strncmp(way, "meet", 4) == 0)
        return meet_but(atoi(way + 4), folder);
    struct sn_comm *c;
    struct sn_flight_recorder *recorder;
    struct sn_err err;
    struct sn_grid g = grid_of(way);
    if (sn_comm_create_mpi(&c, &err) != SN_OK || c->ops->set_grid(c, &g, &err) != SN_OK ||
        sn_flight_open(&recorder, folder, c->rank, &err) != SN_OK) {
        printf("begin: %s\n", err.text);
        return 1;
    }
    float *x = sn_alloc(8000 + (size_t)sn_collective_staging(RANKS + 1));
    enum sn_status st;
    note(folder, "began");
    sn_comm_set_watch(c, recorder, TIMEOUT);
    sn_engine_use_shm(c, strstr(way, "messages") == NULL);
    if (strcmp(way, "recv") == 0)
        st = wait_for_a_message(c, x, &err);
    else if (strcmp(way, "recv-sized") == 0)
        st = wait_for_a_length(c, SN_RECV, x, &err);
    else if (strncmp(way, "sized", 5) == 0)
        st = wait_for_a_length(c, SN_ALL_GATHER, x, &err);
    else if (strcmp(way, "early") == 0)
        st = post_early(c, x, &err);
    else if (strncmp(way, "stopped", 7) == 0)
        st = wait_for_the_stopped(c, x, &err);
    else if (strcmp(way, "circle") == 0)
        st = wait_in_a_circle(c, x, &err);
    else if (strcmp(way, "beside") == 0)
        st = wait_beside_another(c, x, &err);
    else if (is_of_nodes(way))
        st = wait_for_a_queue(c, x, &err);
    else if (strcmp(way, "dead") == 0)
        st = wait_for_the_dead(c, folder, x, &err);
    else
        st = wait_for_a_sum(c, x, &err);
    if (st != SN_OK) {
        printf("rank %d: %s\n", c->rank, err.text);
        (void)fflush(stdout);
        give_up(folder, st);
    }
    c->ops->destroy(c);
    sn_flight_close(recorder);
    sn_free(x);
    return 0;
}

/* ---- what the one that looks on does --------------------------------------------------------- */

static bool moment(const char *folder, const char *what, double *out)
{
    char path[128];
    struct stat s;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, what);
    if (stat(path, &s) != 0)
        return false;
    *out = (double)s.st_mtim.tv_sec + 1e-9 * (double)s.st_mtim.tv_nsec;
    return true;
}

/* What the ranks took until one gave up; infinity: none did. How long mpirun starts and ends is not theirs. */
static double seconds_taken(const char *folder)
{
    double began, gave_up;
    bool both = moment(folder, "began", &began) && moment(folder, "gave_up", &gave_up);
    return both ? gave_up - began : INFINITY;
}

static void says(const char *self, const char *way, int code, const char *want, const char *what)
{
    char folder[] = "/tmp/sennit-watch-XXXXXX", command[1024], out[4096], error[64];
    if (!mkdtemp(folder)) {
        tap_ok(false, "a folder for records");
        return;
    }
    (void)snprintf(command, sizeof(command), "timeout -k 2 60 mpirun -n %d '%s' %s %s 2>&1",
                   is_of_four(way) ? RANKS + 1 : RANKS, self, way, folder);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(out, 1, sizeof(out) - 1, f) : 0;
    out[n] = '\0';
    int rc = f ? pclose(f) : -1;
    double seconds = seconds_taken(folder);
    rc = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
    /* mpirun itself, of Open MPI 4.1.4, at times dies in PMIx_server_finalize when all is over, or
     * stays there (124 of timeout); of a rank that dies it says so, and of one that gave up. */
    (void)snprintf(error, sizeof(error), "with errorcode %d.", code);
    bool mpirun_failed = (rc == 128 + SIGSEGV && !strstr(out, "signal 11")) ||
                         (rc == 124 && strstr(out, error) != NULL);
    bool good = (rc == code || (mpirun_failed && code)) &&
                (want ? strstr(out, want) != NULL : strstr(out, "rank ") == NULL);
    if (!tap_ok(good && (code == 0 || seconds < SECONDS), "%s", what))
        printf("# exit %d, %.1f s until one gave up\n# %s\n", rc, seconds, out);
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
    says(argv[0], "recv-sized", LOST,
         "rank 0: tensor recv 'streams' (number 1) has waited 2 s; rank 1 (tensor 1) has posted no "
         "send, last seen in 'l0.attn.qkv'\n",
         "also where a length is waited for");
    says(argv[0], "sized-messages", LOST,
         "tensor all_gather 'streams' (number 2) has waited 2 s; rank 1 (tensor 1) is behind at "
         "number 1, last seen in 'l0.attn.qkv'\n",
         "and where lengths are gathered");
    says(argv[0], "stopped", LOST,
         "tensor all_reduce 'l0.attn.o' (number 2) has waited 2 s; rank 1 (tensor 1) has come to "
         "it and stands still, last seen in 'l0.attn.o'\n",
         "a rank that is stopped where all wait is named");
    says(argv[0], "stopped-messages", LOST, "; rank 1 (tensor 1) has come to it and stands still",
         "and when sums are messages");
    says(argv[0], "queue", LOST,
         "rank 0: data rail all_reduce 'bucket0' (number 1) has waited 2 s; rank 2 (data 2) is "
         "still in an earlier one, last seen in 'node.0'; it waits for rank 3 (data 3) in the end, "
         "last seen in 'the start'\n",
         "who is held up by another one is not to blame");
    says(argv[0], "queue-messages", LOST, "it waits for rank 3 (data 3) in the end",
         "nor when sums are messages");
    says(
        argv[0], "beside", LOST,
        "rank 0: tensor all_reduce 'tensor.0' (number 1) has waited 2 s; rank 1 (tensor 1, data 0) "
        "is behind at number 0, last seen in 'the start'\n",
        "of two that are under way the one that is waited for is told of");
    says(argv[0], "circle", LOST,
         "rank 1: world all_reduce 'step_end' (number 1) has waited 2 s; rank 0 (tensor 0, data 0) "
         "is behind at number 0, last seen in 'bucket0'; it waits for rank 3 (tensor 1, data 1) in "
         "the end",
         "of ranks that wait in a circle the stopped one is named");
    says(argv[0], "dead", LOST, "; its process ", "a process that is gone is said to be");
    says(argv[0], "early", 0, NULL, "a receive that nobody waits for may take its time");
    return tap_done();
}
