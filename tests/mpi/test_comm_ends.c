/*
 * test_comm_ends.c - how a job of several ranks ends when one of them does not do its part.
 *
 * Started without arguments it runs itself under mpirun, once for each way to end, and looks at
 * the exit code, at the time taken and at what is left behind.
 */
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "lib/comm/comm_engine.h"
#include "lib/layout/collective.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, SECONDS = 10, ABORTED = 77, UNDERSTOOD = 5 };

/* ---- what the ranks do ---------------------------------------------------------------------- */

/* Wait for an all-reduce in which rank 1 takes no part. */
static void wait_in_vain(struct sn_comm *c)
{
    struct sn_err err;
    float x[1000] = {0};
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    sn_request t = post_sum(c, x, 1000, SN_F32, staging);
    enum sn_status st = c->ops->wait(c, t, &err);
    printf("came back with %d\n", (int)st);
    exit(0);
}

/* Abort while the communication thread is busy: rank 2 takes no part. */
static void abort_in_the_middle(struct sn_comm *c)
{
    struct timespec moment = {.tv_nsec = 200000000}, long_time = {.tv_sec = SECONDS};
    if (c->rank == 0)
        wait_in_vain(c);
    if (c->rank == 2)
        (void)nanosleep(&long_time, NULL);
    float *x = sn_alloc(4000);
    (void)post_sum(c, x, 1000, SN_F32, sn_alloc((size_t)sn_collective_staging(c->size)));
    (void)nanosleep(&moment, NULL);
    sn_comm_abort_mpi(ABORTED);
}

/* Rank 1 sends more than the others expect: MPI tells them, in the words of Open MPI
 * ("MPI_ERR_TRUNCATE: ...") or MPICH ("Message truncated, ..."), or the shared memory does. */
static void disagree_on_the_length(struct sn_comm *c, bool shm)
{
    const char *want = shm ? "mpi: world all_reduce 'sum' (number 1) has "
                           : "mpi: world all_reduce 'sum' (number 1) failed: ";
    struct sn_err err = {.text = ""}, again = {.text = ""};
    float *x = sn_alloc(8000);
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    sn_engine_use_shm(c, shm);
    sn_request t = post_sum(c, x, c->rank == 1 ? 2000 : 1000, SN_F32, staging);
    enum sn_status st = c->ops->wait(c, t, &err);
    enum sn_status later = c->ops->agree(c, SN_OK, &again);
    if (st == SN_EFAIL && later == SN_EFAIL && strncmp(err.text, want, strlen(want)) == 0 &&
        (shm || strcasestr(err.text, "trunc")) && strcmp(err.text, again.text) == 0)
        sn_comm_abort_mpi(UNDERSTOOD);
    printf("status %d: %s\n", (int)st, err.text);
    exit(1);
}

static void end_as_told(struct sn_comm *c, const char *way)
{
    struct timespec moment = {.tv_nsec = 200000000};
    if (strcmp(way, "abort") == 0)
        abort_in_the_middle(c);
    if (strncmp(way, "lengths", 7) == 0)
        disagree_on_the_length(c, strcmp(way, "lengths-windows") == 0);
    if (c->rank != 1)
        wait_in_vain(c);
    (void)nanosleep(&moment, NULL); /* so that the others do wait */
    if (strcmp(way, "kill") == 0)
        (void)raise(SIGKILL);
    _exit(3);
}

/* Creation that fails on rank 1 must fail on all with its sentence. */
static int fail_to_create(const char *way)
{
    struct sn_comm *c;
    struct sn_err err;
    int rank = sn_comm_launched_rank();
    const char *want = "rank 1 (";
    enum sn_status expected = SN_ENOMEM;
    if (strcmp(way, "memory") == 0 && rank == 1)
        sn_mem_fail_at(3); /* the requests; without memory for names (2) it goes on */
    if (strcmp(way, "mismatch") == 0) {
        setenv("OMPI_COMM_WORLD_SIZE", "9", 1);
        expected = SN_EINPUT;
        want = "mpi: the launcher started 9 ranks but MPI sees 3; ";
    }
    enum sn_status st = sn_comm_create_mpi(&c, &err);
    if (st != expected || !strstr(err.text, want)) {
        printf("rank %d: status %d, %s\n", rank, (int)st, st == SN_OK ? "created" : err.text);
        return 1;
    }
    return UNDERSTOOD;
}

static int be_a_rank(const char *way)
{
    struct sn_comm *c;
    struct sn_err err;
    printf("pid %d\n", (int)getpid());
    (void)fflush(stdout);
    if (strcmp(way, "memory") == 0 || strcmp(way, "mismatch") == 0)
        return fail_to_create(way);
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("create: %s\n", err.text);
        return 1;
    }
    struct sn_grid g = test_grid(1, 1, c->size, 1);
    if (c->ops->set_grid(c, &g, &err) != SN_OK)
        return 1;
    end_as_told(c, way);
    return 1;
}

/* ---- what the one that looks on does --------------------------------------------------------- */

struct ending {
    int code; /* mpirun's exit code */
    double seconds;
    int started, left; /* ranks that started, ranks that still exist */
};

/* mpirun may end before a rank that it killed has given its memory back. */
static bool is_left(int pid)
{
    struct timespec moment = {.tv_nsec = 50000000};
    for (int i = 0; i < 100 && sn_process_is_alive(pid); i++)
        (void)nanosleep(&moment, NULL);
    return sn_process_is_alive(pid);
}

static void look_for_ranks(struct ending *e, const char *line)
{
    int pid;
    if (sscanf(line, "pid %d", &pid) == 1) {
        e->started++;
        e->left += is_left(pid);
    } else {
        printf("# %s", line);
    }
}

static struct ending watch(const char *self, const char *way)
{
    struct ending e = {.code = -1};
    struct timespec began, ended;
    char command[1024], out[64] = "/tmp/sennit-comm-ends-XXXXXX", line[512];
    int fd = mkstemp(out);
    if (fd < 0)
        return e;
    (void)snprintf(command, sizeof(command), "timeout -k 2 20 mpirun -n %d '%s' %s >%s 2>&1", RANKS,
                   self, way, out);
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    int rc = system(command);
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    e.code = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
    e.seconds =
        (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
    FILE *f = fdopen(fd, "r");
    while (f && fgets(line, sizeof(line), f))
        look_for_ranks(&e, line);
    if (f)
        (void)fclose(f);
    (void)unlink(out);
    return e;
}

static void ends(const char *self, const char *way, int code, const char *what)
{
    struct ending e = watch(self, way);
    bool right_code = code ? e.code == code : e.code != 0;
    if (!tap_ok(right_code && e.seconds < SECONDS && e.started == RANKS && e.left == 0, "%s", what))
        printf("# exit %d after %.1f s, %d ranks started, %d left\n", e.code, e.seconds, e.started,
               e.left);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_a_rank(argv[1]);
    ends(argv[0], "kill", 0, "a killed rank ends the job within seconds and nothing is left");
    ends(argv[0], "exit", 0, "a rank that leaves ends the job within seconds");
    ends(argv[0], "abort", ABORTED, "abort ends the job with its code, from the compute thread");
    ends(argv[0], "lengths", UNDERSTOOD, "what MPI reports is one sentence, for good");
    ends(argv[0], "lengths-windows", UNDERSTOOD, "what the window finds is one sentence, for good");
    ends(argv[0], "memory", UNDERSTOOD,
         "without memory on one rank, creation fails on all with its words");
    ends(argv[0], "mismatch", UNDERSTOOD, "ranks that MPI does not see are an error");
    return tap_done();
}
