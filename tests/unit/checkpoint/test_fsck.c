/* Verifying: every fault of a checkpoint is one line that names shard and tensor, and the report is
 * the same for any number of ranks. */
#include "checkpoint/convert/inspect.h"
#include "checkpoint/store/reader.h"
#include "tests/lib/checkpoint_test.h"
#include "tests/lib/thread_comm.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { ROWS = 1000, COLS = 700, SETS = 3, HALVES = 2 };
#define STEP "step-00000100"

static const struct sn_state_shape big[SETS] = {
    {"exp_avg", "big", ROWS, COLS}, {"model", "big", ROWS, COLS}, {"model", "norm", COLS, 1}};

/* n ranks with equal parts of the rows. By two there are two blocks in each half
 * of a big tensor. */
static void save_cut(struct bench *b, int64_t step, int n)
{
    struct sn_state rank[HALVES];
    struct sn_state_tensor t[HALVES][SETS];
    for (int r = 0; r < n; r++) {
        rank[r] = b->state;
        rank[r].scalars.step = step;
        rank[r].rank = r;
        rank[r].ranks = n;
        rank[r].n_tensors = rank[r].n_all = SETS;
        rank[r].tensors = t[r];
        rank[r].all = (struct sn_state_shape *)big;
        for (int i = 0; i < SETS; i++) {
            int64_t part = big[i].rows / n;
            t[r][i] = sn_state_whole(&big[i], sn_alloc_n((size_t)(part * big[i].cols), 4));
            t[r][i].row = r * part;
            t[r][i].n_rows = part;
            for (int64_t e = 0; e < part * big[i].cols; e++)
                t[r][i].p[e] = (float)((e + i) * (r + 1) + step);
        }
    }
    if (save_ranks(&b->saver, rank, n, &b->err) != SN_OK) {
        printf("# %s\n", b->err.text);
        exit(1);
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < SETS; i++)
            sn_free(t[r][i].p);
}

static void save_halves(struct bench *b, int64_t step)
{
    save_cut(b, step, HALVES);
}

/* --- verifying by one rank and by several ----------------------------------------------------- */

struct verify {
    struct thread_world *world;
    const char *path;
    enum sn_status st;
    struct sn_fsck result[4];
    struct sn_str out[4];
    struct sn_err err;
};

static void on_rank(void *arg, int rank)
{
    struct verify *v = arg;
    struct sn_err err = {.text = ""};
    enum sn_status st = sn_fsck(&v->result[rank], &v->out[rank], v->path, 8 << 20,
                                thread_world_comm(v->world, rank), &err);
    if (rank == 0) {
        v->st = st;
        v->err = err;
    }
}

static void on_one(struct verify *v)
{
    struct sn_comm *self;
    if (sn_comm_create_self(&self, &v->err) != SN_OK)
        exit(1);
    v->st = sn_fsck(&v->result[0], &v->out[0], v->path, 8 << 20, self, &v->err);
    self->ops->destroy(self);
}

static void on_many(struct verify *v, int ranks)
{
    v->world = thread_world_create(ranks);
    thread_world_run(v->world, on_rank, v);
    thread_world_destroy(v->world);
}

/* The report with DIR/ for the folder, equal on all of `ranks` ranks. */
static void verify(struct verify *v, struct bench *b, const char *path, int ranks)
{
    *v = (struct verify){.path = path};
    if (ranks == 1)
        on_one(v);
    else
        on_many(v, ranks);
    size_t dir = strlen(b->dir);
    for (int r = 0; r < ranks; r++) {
        struct sn_str *s = &v->out[r];
        for (char *at; s->p && (at = strstr(s->p, b->dir));) {
            memcpy(at, "DIR", 3);
            memmove(at + 3, at + dir, strlen(at + dir) + 1);
        }
        if (r > 0 && (strcmp(s->p ? s->p : "", v->out[0].p ? v->out[0].p : "") != 0 ||
                      memcmp(&v->result[r], &v->result[0], sizeof(v->result[0])) != 0))
            tap_ok(false, "rank %d of %d has the report of rank 0", r, ranks);
    }
}

static void forget(struct verify *v)
{
    for (int r = 0; r < 4; r++)
        sn_str_fini(&v->out[r]);
}

/* The report of 1, 2 and 4 ranks on step 100 must be exactly this. */
static void verify_says(struct bench *b, int64_t faults, const char *text, const char *what)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s", path_in(b, STEP));
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        struct verify v;
        verify(&v, b, path, ranks);
        tap_ok(v.st == SN_OK && v.result[0].faults == faults,
               "%s: %lld faults to %d ranks (%lld) %s", what, (long long)faults, ranks,
               (long long)v.result[0].faults, v.err.text);
        tap_text(v.out[0].p ? v.out[0].p : "", text, what);
        forget(&v);
    }
}

static void a_whole_checkpoint_has_no_faults(void)
{
    struct bench b;
    setup(&b, 0);
    save_halves(&b, 100);
    verify_says(&b, 0, "", "whole");
    struct verify v;
    verify(&v, &b, path_in(&b, STEP), 4);
    tap_ok(v.result[0].checkpoints == 1 && v.result[0].blocks == 10 &&
               v.result[0].bytes == 4 * (2 * ROWS * COLS + COLS),
           "every block is read once: %lld blocks, %lld bytes", (long long)v.result[0].blocks,
           (long long)v.result[0].bytes);
    forget(&v);
    teardown(&b);
}

#define ALTERED                                                                                    \
    " are not those that were saved (their hash differs); the file was altered, use another "      \
    "checkpoint\n"
#define HOLDS " (it holds 3 pieces, of tensors exp_avg big to model norm)\n"

/* --- damage ---------------------------------------------------------------------------------- */

static void flip(const char *path, uint64_t at)
{
    char c = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pread(fd, &c, 1, (off_t)at) != 1)
        exit(1);
    c ^= 16;
    if (pwrite(fd, &c, 1, (off_t)at) != 1 || close(fd) != 0)
        exit(1);
}

static uint64_t offset_of(struct bench *b, int tensor, int piece)
{
    struct sn_reader r;
    struct sn_aio_request at = {0};
    if (sn_reader_open(&r, path_in(b, STEP), &b->err) != SN_OK)
        exit(1);
    const struct sn_manifest_tensor *t = &r.manifest.tensors[tensor];
    if (sn_reader_locate(&r, t, &t->pieces[piece], &at, &b->err) != SN_OK)
        exit(1);
    sn_reader_close(&r);
    return at.offset;
}

static void bad_blocks_are_named_with_their_rows(void)
{
    struct bench b;
    setup(&b, 0);
    save_halves(&b, 100);
    uint64_t at = offset_of(&b, 0, 0), norm = offset_of(&b, 2, 1);
    char first[256];
    (void)snprintf(first, sizeof(first), "%s", path_in(&b, STEP "/shard-00000.h5"));
    flip(first, at);
    flip(first, at + SN_BLOCK_BYTES - 1);
    verify_says(&b, 1,
                "DIR/" STEP "/shard-00000.h5: the bytes of /optim/exp_avg/big@0,0, block 1 of 2 "
                "(rows 0 to 374)," ALTERED,
                "two bits of one block");
    flip(first, at + SN_BLOCK_BYTES);
    flip(path_in(&b, STEP "/shard-00001.h5"), norm + COLS / 2 * 4 - 1);
    verify_says(&b, 3,
                "DIR/" STEP "/shard-00000.h5: the bytes of /optim/exp_avg/big@0,0, block 1 of 2 "
                "(rows 0 to 374)," ALTERED "DIR/" STEP
                "/shard-00000.h5: the bytes of /optim/exp_avg/big@0,0, block 2 of 2 "
                "(rows 374 to 499)," ALTERED "DIR/" STEP
                "/shard-00001.h5: the bytes of /model/norm@350,0" ALTERED,
                "bits of three blocks");
    teardown(&b);
}

static void shards_that_are_no_shards_are_one_fault_each(void)
{
    struct bench b;
    char shard[256], aside[256];
    struct stat sb;
    setup(&b, 0);
    save_halves(&b, 100);
    (void)snprintf(shard, sizeof(shard), "%s", path_in(&b, STEP "/shard-00000.h5"));
    (void)snprintf(aside, sizeof(aside), "%s", path_in(&b, "aside"));
    (void)rename(shard, aside);
    verify_says(&b, 1, "DIR/" STEP "/shard-00000.h5: cannot open: No such file or directory" HOLDS,
                "missing");
    (void)mkdir(shard, 0777);
    verify_says(&b, 1, "DIR/" STEP "/shard-00000.h5: is not a plain file" HOLDS, "a directory");
    (void)rmdir(shard);
    (void)mkfifo(shard, 0666);
    verify_says(&b, 1, "DIR/" STEP "/shard-00000.h5: is not a plain file" HOLDS, "a fifo");
    (void)unlink(shard);
    (void)symlink(aside, shard);
    verify_says(&b, 0, "", "a symbolic link to the shard");
    (void)unlink(shard);
    (void)rename(aside, shard);
    flip(shard, 0);
    verify_says(&b, 1, "DIR/" STEP "/shard-00000.h5: is no HDF5 file" HOLDS, "garbage");
    flip(shard, 0);
    (void)stat(shard, &sb);
    (void)truncate(shard, sb.st_size - 1);
    verify_says(&b, 1,
                "DIR/" STEP "/shard-00000.h5: has 2804927 bytes where 2804928 were saved; the file "
                "was cut or altered, use another checkpoint" HOLDS,
                "truncated");
    (void)truncate(shard, sb.st_size);
    (void)rename(shard, aside);
    (void)rename(path_in(&b, STEP "/shard-00001.h5"), shard);
    char other[256];
    (void)snprintf(other, sizeof(other), "%s", path_in(&b, STEP "/shard-00001.h5"));
    (void)rename(aside, other);
    verify_says(
        &b, 6,
        "DIR/" STEP "/shard-00000.h5: cannot open /optim/exp_avg/big@0,0: name doesn't exist "
        "(reading tensor exp_avg big)\n"
        "DIR/" STEP "/shard-00000.h5: cannot open /model/big@0,0: name doesn't exist "
        "(reading tensor model big)\n"
        "DIR/" STEP "/shard-00000.h5: cannot open /model/norm@0,0: name doesn't exist "
        "(reading tensor model norm)\n"
        "DIR/" STEP "/shard-00001.h5: cannot open /optim/exp_avg/big@500,0: name doesn't exist "
        "(reading tensor exp_avg big)\n"
        "DIR/" STEP "/shard-00001.h5: cannot open /model/big@500,0: name doesn't exist "
        "(reading tensor model big)\n"
        "DIR/" STEP "/shard-00001.h5: cannot open /model/norm@350,0: name doesn't exist "
        "(reading tensor model norm)\n",
        "swapped");
    teardown(&b);
}

/* A bad block is found when its read comes in, a lost shard at once. */
static void faults_are_listed_in_the_order_of_the_shards(void)
{
    struct bench b;
    setup(&b, 0);
    save_halves(&b, 100);
    uint64_t at = offset_of(&b, 2, 0);
    flip(path_in(&b, STEP "/shard-00000.h5"), at);
    (void)unlink(path_in(&b, STEP "/shard-00001.h5"));
    verify_says(&b, 2,
                "DIR/" STEP "/shard-00000.h5: the bytes of /model/norm@0,0" ALTERED "DIR/" STEP
                "/shard-00001.h5: cannot open: No such file or directory" HOLDS,
                "a bad block before a lost shard");
    teardown(&b);
}

static void without_a_manifest_nothing_is_read(void)
{
    struct bench b;
    setup(&b, 0);
    save_halves(&b, 100);
    flip(path_in(&b, STEP "/manifest.json"), 20);
    struct verify v;
    verify(&v, &b, path_in(&b, STEP), 1);
    tap_text(v.out[0].p,
             "DIR/" STEP "/manifest.json: is not what COMMIT was written for; one of them was "
             "altered\n",
             "one fault");
    tap_ok(v.result[0].faults == 1 && v.result[0].blocks == 0, "and no block");
    forget(&v);
    verify(&v, &b, path_in(&b, STEP), 2);
    tap_ok(v.result[0].faults == 1 && strstr(v.out[0].p, "manifest.json: is not what COMMIT"),
           "two ranks agree on it");
    forget(&v);
    teardown(&b);
}

/* The master of a checkpoint that one rank has written shows other shards and other boxes. */
static void a_wrong_master_is_one_fault(void)
{
    struct bench b;
    char master[256], other[256];
    setup(&b, 0);
    save_halves(&b, 100);
    save_cut(&b, 200, 1);
    (void)snprintf(master, sizeof(master), "%s", path_in(&b, STEP "/master.h5"));
    (void)snprintf(other, sizeof(other), "%s", path_in(&b, "step-00000200/master.h5"));
    (void)rename(other, master);
    struct verify v;
    verify(&v, &b, path_in(&b, STEP), 2);
    tap_ok(v.result[0].faults == 1 && v.result[0].blocks == 10,
           "another's master is one fault, and the blocks are read all the same");
    tap_text(v.out[0].p,
             "DIR/" STEP
             "/master.h5: its bytes are not those that were saved (their hash differs); "
             "it was altered, and no value is read from it\n",
             "which says so");
    forget(&v);
    (void)unlink(master);
    verify_says(&b, 1, "DIR/" STEP "/master.h5: cannot open: No such file or directory\n",
                "no master");
    (void)mkfifo(master, 0666);
    verify_says(&b, 1, "DIR/" STEP "/master.h5: is not a plain file\n", "a fifo as master");
    teardown(&b);
}

/* Bytes of the global heap, which has no checksum of its own: what HDF5 1.10 dies of. */
static void a_flipped_master_stops_nothing(void)
{
    struct bench b;
    char master[256];
    struct stat sb;
    struct verify v;
    int64_t missed = 0, n = 0;
    setup(&b, 0);
    save_halves(&b, 100);
    save_halves(&b, 200);
    (void)snprintf(master, sizeof(master), "%s", path_in(&b, "step-00000200/master.h5"));
    if (stat(master, &sb) != 0)
        exit(1);
    for (off_t at = 0; at < sb.st_size; at += 97, n++) {
        flip(master, (uint64_t)at);
        verify(&v, &b, b.dir, 1);
        missed += v.st != SN_OK || v.result[0].faults != 1 || v.result[0].checkpoints != 2 ||
                  v.result[0].blocks != 20 || !strstr(v.out[0].p, "step-00000200/master.h5: ");
        forget(&v);
        flip(master, (uint64_t)at);
    }
    tap_ok(n > 50 && missed == 0,
           "each of %lld flips in a master is named, and the other checkpoint verified: %lld not",
           (long long)n, (long long)missed);
    teardown(&b);
}

static void every_schema_is_verified(void)
{
    struct bench b;
    struct sn_comm *self;
    struct sn_fsck result;
    char command[512];
    static const struct {
        const char *folder, *shard;
    } golden[] = {{"schema-1", STEP "/shard-00000.h5"},
                  {"schema-2", STEP "/shard-00000.h5"},
                  {"schema-3", STEP "/shard-00000.h5"},
                  {"schema-3-single", STEP "/master.h5"},
                  {"schema-3-master", STEP "/shard-00001.h5"}};
    setup(&b, 0);
    (void)sn_comm_create_self(&self, &b.err);
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        struct sn_str out = {0};
        (void)snprintf(command, sizeof(command),
                       "rm -rf %s/" STEP " && cp -r tests/unit/fixtures/checkpoints/%s/" STEP " %s",
                       b.dir, golden[i].folder, b.dir);
        enum sn_status st = SN_EIO;
        if (system(command) == 0)
            st = sn_fsck(&result, &out, b.dir, 1 << 20, self, &b.err);
        tap_ok(st == SN_OK && result.faults == 0 && result.blocks > 0, "%s is whole: %lld blocks",
               golden[i].folder, (long long)result.blocks);
        const uint64_t at = offset_of(&b, 0, 0);
        flip(path_in(&b, golden[i].shard), at);
        st = sn_fsck(&result, &out, b.dir, 1 << 20, self, &b.err);
        tap_ok(st == SN_OK && result.faults == 1 && strstr(out.p, golden[i].shard),
               "a flipped bit is found");
        sn_str_fini(&out);
    }
    self->ops->destroy(self);
    teardown(&b);
}

static void strangers_are_noted(void)
{
    struct bench b;
    setup(&b, 0);
    save_halves(&b, 100);
    (void)sn_file_save(path_in(&b, STEP "/core.123"), "x", 1, &b.err);
    verify_says(&b, 0, "note: DIR/" STEP "/core.123: is no part of the checkpoint\n", "a note");
    teardown(&b);
}

static void a_directory_is_verified_with_all_its_checkpoints(void)
{
    struct bench b;
    struct verify v;
    char from[256];
    setup(&b, 0);
    save_halves(&b, 100);
    save_halves(&b, 200);
    flip(path_in(&b, STEP "/shard-00001.h5"), offset_of(&b, 1, 1));
    (void)unlink(path_in(&b, "step-00000200/COMMIT"));
    save_halves(&b, 300);
    (void)snprintf(from, sizeof(from), "%s", path_in(&b, "step-00000300"));
    (void)rename(from, path_in(&b, "step-00000400"));
    verify(&v, &b, b.dir, 1);
    tap_text(v.out[0].p,
             "DIR/step-00000400: bears the name of step 400, but its manifest is of step 300; it "
             "was renamed: call it step-00000300 again\n"
             "DIR/step-00000200/COMMIT: cannot open: No such file or directory\n"
             "DIR/" STEP "/shard-00001.h5: the bytes of /model/big@500,0, block 1 of 2 "
             "(rows 500 to 874)," ALTERED,
             "newest first");
    tap_ok(v.result[0].checkpoints == 3 && v.result[0].faults == 3, "all are counted");
    forget(&v);
    verify(&v, &b, path_in(&b, "nothing"), 1);
    tap_ok(v.st == SN_EINPUT && strstr(v.err.text, "nothing: cannot open: No such file"),
           "a path that is not there");
    verify(&v, &b, b.root, 1);
    tap_ok(v.st == SN_EINPUT && strstr(v.err.text, "holds no checkpoint; want a directory"),
           "a directory without any");
    verify(&v, &b, path_in(&b, "LATEST"), 1);
    tap_ok(v.st == SN_EINPUT && strstr(v.err.text, "LATEST: is no directory"), "a file");
    teardown(&b);
}

static void little_memory_is_enough(void)
{
    struct bench b;
    struct sn_comm *comm;
    struct sn_fsck result;
    struct sn_str out = {0};
    setup(&b, 0);
    save_halves(&b, 100);
    (void)sn_comm_create_self(&comm, &b.err);
    tap_ok(sn_fsck(&result, &out, path_in(&b, STEP), 1, comm, &b.err) == SN_OK &&
               result.faults == 0 && result.blocks == 10,
           "one block at a time");
    comm->ops->destroy(comm);
    sn_str_fini(&out);
    teardown(&b);
}

static void every_allocation_may_fail(void)
{
    struct bench b;
    struct sn_comm *comm;
    setup(&b, 0);
    save_halves(&b, 100);
    flip(path_in(&b, STEP "/shard-00000.h5"), offset_of(&b, 0, 0));
    (void)sn_comm_create_self(&comm, &b.err);
    int failed = 0;
    bool good = true, done = false;
    for (uint64_t n = 1; !done; n++) {
        struct sn_fsck result;
        struct sn_str out = {0};
        sn_mem_fail_at(n);
        enum sn_status st = sn_fsck(&result, &out, b.dir, 4 << 20, comm, &b.err);
        sn_mem_fail_at(0);
        done = st == SN_OK;
        failed += !done;
        if (done ? result.faults != 1 : st != SN_ENOMEM) {
            printf("# allocation %d: %s\n", (int)n, done ? out.p : b.err.text);
            good = false;
        }
        sn_str_fini(&out);
    }
    tap_ok(good && failed > 20, "%d allocations fail in turn, each with a sentence", failed);
    comm->ops->destroy(comm);
    teardown(&b);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    a_whole_checkpoint_has_no_faults();
    bad_blocks_are_named_with_their_rows();
    shards_that_are_no_shards_are_one_fault_each();
    faults_are_listed_in_the_order_of_the_shards();
    without_a_manifest_nothing_is_read();
    a_wrong_master_is_one_fault();
    a_flipped_master_stops_nothing();
    every_schema_is_verified();
    strangers_are_noted();
    a_directory_is_verified_with_all_its_checkpoints();
    little_memory_is_enough();
    every_allocation_may_fail();
    return tap_done();
}
