/*
 * test_journal.c - what is written is read back, and what earlier attempts mean for the bounds.
 */
#include "slurm/supervisor/journal.h"
#include "slurm/supervisor/platform.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

static void begin(const struct sn_journal *j)
{
    struct sn_str line;
    sn_journal_line(j, &line, "begin");
    (void)sn_journal_write(j, &line, NULL);
}

static void leave(const struct sn_journal *j, int code)
{
    struct sn_str line;
    sn_journal_line(j, &line, "leave");
    sn_jsonl_int(&line, "exit_code", code);
    (void)sn_journal_write(j, &line, NULL);
}

static void attempt(const struct sn_journal *j, int n, int64_t from, int64_t saved,
                    enum sn_cause cause)
{
    static const struct sn_layout_config layout = {
        .data = 2, .tensor = 4, .tensor_x = 1, .context = 1, .pipeline = 1};
    const char *const nodes[] = {"n0", "n1"}, *const command[] = {"srun", "it's"};
    struct sn_journal_launch l = {.attempt = n,
                                  .nodes = nodes,
                                  .n_nodes = 2,
                                  .ranks = 8,
                                  .layout = &layout,
                                  .from_step = from,
                                  .command = command,
                                  .n_command = 2};
    struct sn_journal_end e = {.attempt = n,
                               .exit_code = 77,
                               .cause = cause,
                               .step = saved,
                               .saved_step = saved,
                               .snapshot_step = -1,
                               .rank = 3,
                               .host = "n1",
                               .says = "rank 3 said \"no\""};
    (void)sn_journal_launch(j, &l, NULL);
    (void)sn_journal_end(j, &e, NULL);
}

static void past_is(const struct sn_journal *j, int failures, int idle, int attempts,
                    const char *what)
{
    struct sn_journal_past p = {0};
    (void)sn_journal_past_load(&p, j->path, NULL);
    tap_ok(p.failures == failures && p.idle == idle && p.attempts == attempts,
           "%s: %d failures, %d idle, %d attempts", what, p.failures, p.idle, p.attempts);
}

static void in_a_job(const struct sn_journal *j)
{
    past_is(j, 0, 0, 0, "nothing happened yet");
    begin(j);
    attempt(j, 1, -1, 10, SN_CAUSE_NODE);
    past_is(j, 1, 0, 1, "a failure with progress");
    attempt(j, 2, 10, 10, SN_CAUSE_PEER);
    attempt(j, 3, 10, 10, SN_CAUSE_PREEMPTED);
    past_is(j, 2, 1, 3, "no newer checkpoint; preemption is no failure");
    leave(j, 75);
    begin(j);
    past_is(j, 2, 1, 3, "a requeued job goes on counting");
    attempt(j, 4, 10, 20, SN_CAUSE_UNKNOWN);
    past_is(j, 3, 0, 4, "progress ends the row of idle ones");
    attempt(j, 5, -1, 5, SN_CAUSE_UNKNOWN);
    past_is(j, 4, 0, 5, "a run begun anew is judged by its own checkpoints");
    leave(j, 93);
    past_is(j, 0, 0, 5, "after a stop a person begins to count anew, attempts keep their numbers");
}

static void starts_fail_by_chance(const struct sn_journal *j)
{
    struct sn_journal_end e = {.exit_code = 139,
                               .cause = SN_CAUSE_PEER,
                               .step = 5,
                               .saved_step = 5,
                               .host = "",
                               .says = ""};
    begin(j);
    for (int i = 0; i < 12; i++) {
        struct sn_str line;
        sn_journal_line(j, &line, "launch");
        sn_jsonl_int(&line, "from_step", 5);
        (void)sn_journal_write(j, &line, NULL);
        (void)sn_journal_end(j, &e, NULL);
        if (i == 9)
            past_is(j, 10, 0, 5, "ten crashes before the first step");
    }
    past_is(j, 12, 2, 5, "more of them are idle attempts");
    leave(j, 0);
}

static void snapshots_are_progress(const struct sn_journal *j)
{
    struct sn_journal_end e = {.exit_code = 137,
                               .cause = SN_CAUSE_PEER,
                               .step = 9,
                               .saved_step = 5,
                               .host = "",
                               .says = ""};
    begin(j);
    for (int i = 0; i < 3; i++) {
        struct sn_str line;
        e.snapshot_step = 7 + (i > 0);
        sn_journal_line(j, &line, "launch");
        sn_jsonl_int(&line, "from_step", 5);
        (void)sn_journal_write(j, &line, NULL);
        (void)sn_journal_end(j, &e, NULL);
    }
    past_is(j, 3, 1, 5, "a newer step in memory is progress, the same step again is none");
    leave(j, 0);
}

/* An end that comes again as it was, and one for lack of room. */
static void ends_that_are_alike(const struct sn_journal *j)
{
    struct sn_journal_end e = {.exit_code = 1,
                               .cause = SN_CAUSE_UNKNOWN,
                               .step = 5,
                               .saved_step = 5,
                               .snapshot_step = -1,
                               .host = "",
                               .says = "rank 0 (n0): no"};
    struct sn_journal_past p;
    struct sn_str line;
    begin(j);
    sn_journal_line(j, &line, "launch");
    sn_jsonl_int(&line, "from_step", 5);
    (void)sn_journal_write(j, &line, NULL);
    for (int i = 0; i < 3; i++)
        (void)sn_journal_end(j, &e, NULL);
    (void)sn_journal_past_load(&p, j->path, NULL);
    tap_ok(p.equal == 3 && p.disk_since == 0, "three ends with the same words (%d)", p.equal);
    e.says = "rank 0 (n0): something else";
    (void)sn_journal_end(j, &e, NULL);
    (void)sn_journal_past_load(&p, j->path, NULL);
    tap_ok(p.equal == 1 && p.idle == 4, "then another one (%d)", p.equal);
    e.cause = SN_CAUSE_DISK;
    for (int i = 0; i < 2; i++) {
        e.says = i ? "1 MiB are free" : "2 MiB are free";
        (void)sn_journal_end(j, &e, NULL);
    }
    (void)sn_journal_past_load(&p, j->path, NULL);
    tap_ok(p.equal == 2 && p.idle == 4 && p.failures == 4 && p.disk_since > 0,
           "a full disk counts as no failure, but since when (%d, %d)", p.equal, p.failures);
    e.saved_step = 9;
    (void)sn_journal_end(j, &e, NULL);
    (void)sn_journal_past_load(&p, j->path, NULL);
    tap_ok(p.equal == 1 && p.idle == 0, "progress begins a new row");
    leave(j, 0);
}

static void outside(const struct sn_journal *j)
{
    begin(j);
    attempt(j, 6, 5, 5, SN_CAUSE_PEER);
    past_is(j, 1, 1, 6, "outside of a job");
    begin(j);
    past_is(j, 0, 0, 6, "every start is a person's");
}

static void members(const struct sn_journal *j)
{
    struct sn_jsonl f;
    struct sn_json line;
    char text[64];
    bool found = false;
    (void)sn_jsonl_open(&f, j->path, NULL);
    while (sn_jsonl_next(&f, &line)) {
        sn_json_get_text(line, "event", text, sizeof(text));
        if (found || strcmp(text, "launch") != 0)
            continue;
        found = true;
        tap_ok(sn_json_get_integer(sn_json_get(line, "layout"), "tensor", 0) == 4, "the layout");
        tap_ok(sn_json_get_number(line, "time", 0) == 1800000000.25, "the time is the platform's");
        tap_ok(sn_json_get_integer(line, "restart", -1) == 2, "the requeues");
        sn_json_get_text(line, "job", text, sizeof(text));
        tap_text(text, "41", "the job");
    }
    tap_ok(found && f.damaged == 0, "every line is an object");
    sn_jsonl_close(&f);
}

static double date(void *self)
{
    (void)self;
    return 1800000000.25;
}

int main(void)
{
    char dir[] = "/tmp/sn-journal-XXXXXX";
    struct sn_allocation a = {.job = "41", .restarts = 2}, none = {0};
    struct sn_journal j, alone;
    static const struct sn_platform_clock clock = {.date = date};
    static const struct sn_platform platform = {.clock = &clock};
    if (!mkdtemp(dir))
        return 1;
    sn_journal_init(&j, dir, &a, &platform);
    sn_journal_init(&alone, dir, &none, &platform);
    in_a_job(&j);
    starts_fail_by_chance(&j);
    snapshots_are_progress(&j);
    ends_that_are_alike(&j);
    outside(&alone);
    members(&j);
    (void)unlink(j.path);
    (void)rmdir(dir);
    return tap_done();
}
