/* Checkpoints: a save is whole or not there, whatever ends it. */
#include "checkpoint/format/hdf5.h"
#include "tests/lib/checkpoint_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- what a save gives ----------------------------------------------------------------------- */

static void a_round_trip_is_bit_for_bit(void)
{
    struct bench b;
    setup(&b, 0);
    tap_ok(newest(&b) == -1, "an empty directory has no checkpoint");
    tap_ok(save(&b, 100) == SN_OK, "a state is saved");
    tap_ok(newest(&b) == 100, "it is found");
    tap_ok(loads_as(&b, 100, 100), "it loads bit for bit, scalars too");
    sn_checkpoint_close(&b.saver);
    tap_ok(open_saver(&b, 0) && newest(&b) == 100, "another opening finds it");
    tap_ok(count_entries(&b, "tmp") == 0, "nothing temporary is left");
    char *text = NULL;
    size_t len = 0;
    tap_ok(sn_file_load(&text, &len, path_in(&b, "LATEST"), &b.err) == SN_OK &&
               strcmp(text, "step-00000100\n") == 0,
           "LATEST names it");
    sn_free(text);
    teardown(&b);
}

static void equal_states_give_equal_files(void)
{
    struct bench b;
    setup(&b, 0);
    char *x = NULL, *y = NULL;
    size_t nx = 0, ny = 0;
    (void)save(&b, 100);
    bool good = sn_file_load(&x, &nx, path_in(&b, "step-00000100/shard-00000.h5"), &b.err) == SN_OK;
    (void)save(&b, 100);
    good =
        good && sn_file_load(&y, &ny, path_in(&b, "step-00000100/shard-00000.h5"), &b.err) == SN_OK;
    tap_ok(good && nx == ny && memcmp(x, y, nx) == 0, "equal states give equal shards");
    sn_free(x);
    sn_free(y);
    teardown(&b);
}

static void a_checkpoint_of_the_same_step_is_replaced(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    set_state(&b.state, 50);
    b.state.scalars.step = 100;
    tap_ok(save_as_is(&b) == SN_OK, "a step is saved once more");
    struct sn_state got;
    struct sn_state_tensor t[N];
    make_state(&got, t);
    tap_ok(b.saver.load(b.saver.self, 100, &got, &b.err) == SN_OK &&
               memcmp(t[0].p, b.tensors[0].p, bytes_of(&t[0])) == 0,
           "the later save counts");
    tap_ok(count_entries(&b, "step-") == 1, "the earlier one is gone");
    free_state(&got);
    teardown(&b);
}

static void only_the_newest_are_kept(void)
{
    struct bench b;
    setup(&b, 2);
    for (int step = 100; step <= 400; step += 100)
        (void)save(&b, step);
    tap_ok(count_entries(&b, "step-") == 2 && exists(&b, "step-00000300") &&
               exists(&b, "step-00000400"),
           "keep: 2 keeps the newest two");
    sn_checkpoint_close(&b.saver);
    (void)open_saver(&b, 0);
    for (int step = 500; step <= 700; step += 100)
        (void)save(&b, step);
    tap_ok(count_entries(&b, "step-") == 5, "keep: 0 keeps all");
    teardown(&b);
}

static void a_left_course_is_set_aside(void)
{
    struct bench b;
    setup(&b, 1);
    (void)save(&b, 500);
    tap_ok(save(&b, 100) == SN_OK && newest(&b) == 100,
           "after a fresh start, the new course is found");
    tap_ok(count_entries(&b, "step-00000500.aside.") == 1, "the old one is set aside, not removed");
    (void)save(&b, 200);
    tap_ok(count_entries(&b, "aside") == 1 && newest(&b) == 200, "and stays there");
    teardown(&b);
}

static void a_fresh_start_sets_all_aside(void)
{
    struct bench b;
    setup(&b, 0);
    tap_ok(b.saver.set_aside(b.saver.self, &b.err) == SN_OK, "nothing to set aside is fine");
    for (int round = 1; round <= 2; round++) {
        (void)save(&b, 100);
        (void)save(&b, 200);
        tap_ok(b.saver.set_aside(b.saver.self, &b.err) == SN_OK && newest(&b) == -1,
               "round %d: after setting aside none is found", round);
        tap_ok(count_entries(&b, ".aside.") == 2 * round && !exists(&b, "LATEST"),
               "round %d: and none is lost, also under a name that was taken", round);
    }
    teardown(&b);
}

/* --- kills ----------------------------------------------------------------------------------- */

static bool dies_in_save(struct bench *b, int64_t step, int state_of,
                         enum sn_checkpoint_stage stage)
{
    (void)fflush(stdout); /* or the child's copy of the buffer would be printed too */
    pid_t pid = fork();
    if (pid == 0) {
        set_state(&b->state, state_of);
        b->state.scalars.step = step;
        sn_checkpoint_die_at(&b->saver, stage);
        (void)save_as_is(b);
        _exit(0);
    }
    int how = 0;
    return waitpid(pid, &how, 0) == pid && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
}

static void a_kill_leaves_the_checkpoint_before(enum way way)
{
    for (int stage = SN_STAGE_NONE + 1; stage < SN_NSTAGES; stage++) {
        struct bench b;
        setup_way(&b, 2, way);
        (void)save(&b, 100);
        tap_ok(dies_in_save(&b, 200, 200, (enum sn_checkpoint_stage)stage),
               "%s: killed at stage %d", way_name[way], stage);
        int64_t want = stage < SN_STAGE_VISIBLE ? 100 : 200;
        tap_ok(newest(&b) == want && loads_as(&b, want, want), "%s, stage %d: step %d is whole",
               way_name[way], stage, (int)want);
        tap_ok(save(&b, 300) == SN_OK && newest(&b) == 300 && loads_as(&b, 300, 300),
               "%s, stage %d: the next save works", way_name[way], stage);
        tap_ok(count_entries(&b, ".") == 0, "%s, stage %d: it removes what was left", way_name[way],
               stage);
        teardown(&b);
    }
}

static void a_kill_while_replacing_leaves_one_of_both(enum way way)
{
    for (int stage = SN_STAGE_NONE + 1; stage < SN_NSTAGES; stage++) {
        struct bench b;
        setup_way(&b, 2, way);
        struct sn_state got;
        struct sn_state_tensor t[N];
        make_state(&got, t);
        (void)save(&b, 100);
        bool killed = dies_in_save(&b, 100, 50, (enum sn_checkpoint_stage)stage);
        bool good = b.saver.load(b.saver.self, 100, &got, &b.err) == SN_OK;
        set_state(&b.state, stage < SN_STAGE_VISIBLE ? 100 : 50);
        for (int i = 0; i < N && good; i++)
            good = memcmp(t[i].p, b.tensors[i].p, bytes_of(&t[i])) == 0;
        tap_ok(killed && good && newest(&b) == 100, "%s: replaced, stage %d: one of both is whole",
               way_name[way], stage);
        free_state(&got);
        teardown(&b);
    }
}

/* --- no space, no memory --------------------------------------------------------------------- */

static void a_full_disk_leaves_the_checkpoint_before(void)
{
    struct bench b;
    setup(&b, 2);
    (void)save(&b, 100);
    struct rlimit old, tight;
    (void)getrlimit(RLIMIT_FSIZE, &old);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 400000; limit += 45000) {
        tight = (struct rlimit){limit, old.rlim_max};
        (void)setrlimit(RLIMIT_FSIZE, &tight);
        enum sn_status st = save(&b, 200);
        (void)setrlimit(RLIMIT_FSIZE, &old);
        char want[300];
        (void)snprintf(want, sizeof(want),
                       "%s/step-00000200.tmp.%ld/shard-00000.h5: cannot reserve "
                       "space: File too large; free some space, or lower checkpoint.keep",
                       b.dir, (long)getpid());
        tap_ok(st == SN_EIO, "a limit of %d bytes: the save fails", (int)limit);
        tap_text(b.err.text, want, "and says where and why");
        tap_ok(count_entries(&b, ".") == 0 && newest(&b) == 100 && loads_as(&b, 100, 100),
               "and the checkpoint before is whole, nothing else is left");
    }
    tap_ok(save(&b, 200) == SN_OK && loads_as(&b, 200, 200), "with space again the save works");
    teardown(&b);
}

/* In a child, because HDF5 1.10 kills the process at exit when it could not close a file. */
static void hdf5_survives_a_full_disk(void)
{
    struct bench b;
    setup(&b, 0);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit tight;
        struct sn_h5_slot slot = {.dataset = "/model/x", .rows = 300, .cols = 300};
        (void)getrlimit(RLIMIT_FSIZE, &tight);
        tight.rlim_cur = 1000;
        (void)setrlimit(RLIMIT_FSIZE, &tight);
        enum sn_status st = sn_h5_layout(path_in(&b, "x.h5"), 1, &slot, &b.err);
        exit(st == SN_EIO && strstr(b.err.text, "x.h5: cannot write: ") ? 0 : 1);
    }
    int how = -1;
    tap_ok(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0,
           "HDF5 cannot write: a sentence, and an orderly exit");
    teardown(&b);
}

enum action { SAVE, LOAD, FIND };

/* One action with the n-th allocation failing; what it found must be whole,
 * or step 100 for a save. */
static enum sn_status with_failure(struct bench *b, enum action what, int n)
{
    int64_t step = 200;
    enum sn_status st;
    set_state(&b->state, 200);
    sn_mem_fail_at((uint64_t)n);
    if (what == SAVE)
        st = save_as_is(b);
    else if (what == LOAD)
        st = b->saver.load(b->saver.self, 200, &b->state, &b->err);
    else
        st = b->saver.find(b->saver.self, INT64_MAX, &step, &b->err);
    sn_mem_fail_at(0);
    if (st != SN_OK && what == SAVE && newest(b) != 100)
        st = SN_EFAIL;
    return st != SN_OK || step == 200 ? st : SN_EFAIL;
}

static void no_memory_is_an_error_at_every_allocation(enum way way)
{
    static const char *const name[] = {"save", "load", "find"};
    struct bench b;
    setup_way(&b, 2, way);
    (void)save(&b, 100);
    for (int what = SAVE; what <= (way == IN_TURN ? FIND : SAVE); what++) {
        int n = 1;
        enum sn_status st = SN_ENOMEM;
        while (st == SN_ENOMEM && n < 10000)
            st = with_failure(&b, (enum action)what, n++);
        if (!tap_ok(st == SN_OK && n > 5, "%s, %s: %d allocations fail, each is told",
                    way_name[way], name[what], n - 2))
            printf("# status %d: %s\n", (int)st, b.err.text);
    }
    tap_ok(newest(&b) == 200 && loads_as(&b, 200, 200), "and afterwards all is well");
    teardown(&b);
}

static void a_directory_that_cannot_be_made_is_named(void)
{
    struct sn_saver s = {0};
    struct sn_err err;
    struct sn_checkpoint_options two = {.keep = 2}, wrong = {.keep = -1};
    tap_ok(sn_checkpoint_open(&s, "/proc/none/ckpt", &two, &err) == SN_EIO,
           "no directory in /proc");
    tap_text(err.text, "/proc/none: cannot make the directory: No such file or directory", "named");
    tap_ok(sn_checkpoint_open(&s, "/dev/null", &two, &err) == SN_EINPUT, "a file is no directory");
    tap_text(err.text, "/dev/null: is not a directory", "named");
    tap_ok(sn_checkpoint_open(&s, "/tmp", &wrong, &err) == SN_EINPUT, "keep: -1 is refused");
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    a_round_trip_is_bit_for_bit();
    equal_states_give_equal_files();
    a_checkpoint_of_the_same_step_is_replaced();
    only_the_newest_are_kept();
    a_left_course_is_set_aside();
    a_fresh_start_sets_all_aside();
    for (int way = 0; way < WAYS; way++) {
        a_kill_leaves_the_checkpoint_before((enum way)way);
        a_kill_while_replacing_leaves_one_of_both((enum way)way);
        no_memory_is_an_error_at_every_allocation((enum way)way);
    }
    a_full_disk_leaves_the_checkpoint_before();
    hdf5_survives_a_full_disk();
    a_directory_that_cannot_be_made_is_named();
    return tap_done();
}
