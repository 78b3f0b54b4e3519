/* Checkpoints in the background: what is saved, when it may change, and how a failure is told. */
#include "tests/lib/checkpoint_test.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Two ranks with boxes of many blocks: columns with gaps, whole rows, and flat ranges. */
enum { TENSORS = 3, HALVES = 7 };
static const struct sn_state_shape large[TENSORS] = {{"model", "embed.weight", 1500, 700},
                                                     {"model", "layers.0.up.weight", 900, 800},
                                                     {"exp_avg", "embed.weight", 1500, 700}};

struct pair {
    struct sn_state rank[2];
    struct sn_state_tensor box[2][HALVES];
};

static uint64_t key_of(const struct sn_state_tensor *t, int64_t step)
{
    return sn_rng_key((uint64_t)step, t->group) + (uint64_t)t->name[0];
}

/* Of element (r, c) of the box. */
static uint32_t value(const struct sn_state_tensor *t, uint64_t key, int64_t r, int64_t c)
{
    return (uint32_t)sn_rng_bits(key, (uint64_t)((t->row + r) * t->cols + t->col + c));
}

static void set_values(struct sn_state *s, int64_t step)
{
    for (int i = 0; i < s->n_tensors; i++) {
        struct sn_state_tensor *t = &s->tensors[i];
        uint64_t key = key_of(t, step);
        for (int64_t r = 0; r < t->n_rows; r++)
            for (int64_t c = 0; c < t->n_cols; c++) {
                uint32_t bits = value(t, key, r, c);
                memcpy(&t->p[r * t->ld + c], &bits, 4);
            }
    }
    s->scalars = (struct sn_state_scalars){.step = step, .loss_scale = 1};
}

static bool has_values(const struct sn_state *s, int64_t step)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        uint64_t key = key_of(t, step);
        for (int64_t r = 0; r < t->n_rows; r++)
            for (int64_t c = 0; c < t->n_cols; c++) {
                uint32_t bits = value(t, key, r, c);
                if (memcmp(&t->p[r * t->ld + c], &bits, 4) != 0)
                    return false;
            }
    }
    return true;
}

static void add(struct pair *p, int rank, int tensor, const int64_t at[4], int gap)
{
    struct sn_state_tensor *t = &p->box[rank][p->rank[rank].n_tensors++];
    *t = sn_state_whole(&large[tensor], NULL);
    t->row = at[0], t->n_rows = at[1];
    t->col = at[2], t->n_cols = at[3];
    t->ld = t->n_cols + gap;
    t->p = sn_alloc_n((size_t)(t->n_rows * t->ld), sizeof(float));
}

static void make_pair(struct pair *p)
{
    *p = (struct pair){0};
    for (int r = 0; r < 2; r++)
        p->rank[r] = (struct sn_state){.model_text = MODEL,
                                       .layout_text = "layout:\n  data: 2\n",
                                       .rank = r,
                                       .ranks = 2,
                                       .tag = 4711,
                                       .tensors = p->box[r],
                                       .n_all = TENSORS,
                                       .all = (struct sn_state_shape *)large};
    add(p, 0, 0, (int64_t[]){0, 1500, 0, 301}, 9);
    add(p, 1, 0, (int64_t[]){0, 1500, 301, 399}, 0);
    add(p, 0, 1, (int64_t[]){0, 123, 0, 800}, 0);
    add(p, 1, 1, (int64_t[]){123, 777, 0, 800}, 3);
    add(p, 0, 2, (int64_t[]){0, 700, 0, 700}, 0);
    add(p, 0, 2, (int64_t[]){700, 1, 0, 77}, 0);
    add(p, 1, 2, (int64_t[]){700, 1, 77, 623}, 0);
    add(p, 1, 2, (int64_t[]){701, 799, 0, 700}, 0);
}

static void free_pair(struct pair *p)
{
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < p->rank[r].n_tensors; i++)
            sn_free(p->box[r][i].p);
}

static void set_pair(struct pair *p, int64_t step)
{
    set_values(&p->rank[0], step);
    set_values(&p->rank[1], step);
}

static bool pair_loads(struct bench *b, struct pair *p, int64_t step)
{
    bool good = true;
    set_pair(p, 0);
    for (int r = 0; r < 2 && good; r++) {
        b->err.text[0] = '\0';
        good = b->saver.load(b->saver.self, step, &p->rank[r], &b->err) == SN_OK &&
               has_values(&p->rank[r], step);
    }
    if (!good)
        printf("# %s\n", b->err.text);
    return good;
}

/* 11 MB: with room for it all, through a ring, and through a ring although some was reserved. */
static void reserve(struct bench *b, size_t bytes)
{
    if (b->saver.reserve(b->saver.self, (int64_t)bytes, &b->err) != SN_OK)
        exit(1);
}

static void many_blocks_arrive(void)
{
    for (int k = 0; k < WAYS + 1; k++) {
        enum way way = k < WAYS ? (enum way)k : IN_TURN;
        struct bench b;
        struct pair p;
        struct sn_save_times t;
        setup_in(&b, 0, way, "/tmp");
        if (way == ASIDE || k == WAYS)
            reserve(&b, k == WAYS ? 4096 : 16 << 20);
        make_pair(&p);
        set_pair(&p, 100);
        tap_ok(save_ranks(&b.saver, p.rank, 2, &b.err) == SN_OK && pair_loads(&b, &p, 100),
               "%s: boxes of many blocks are saved and load bit for bit", way_name[way]);
        b.saver.times(b.saver.self, &t);
        tap_ok(t.bytes == 4 * (1500 * 399 + 777 * 800 + 623 + 799 * 700) && t.copy > 0 &&
                   t.copy <= t.write && t.commit > 0,
               "%s: the report counts the bytes of the last writer, and its time", way_name[way]);
        free_pair(&p);
        teardown(&b);
    }
}

/* --- in the background ----------------------------------------------------------------------- */

static bool begin(struct bench *b, const struct sn_state *s, enum sn_save_phase phase)
{
    return b->saver.begin(b->saver.self, s, phase, &b->err) == SN_OK;
}

static bool ends(struct bench *b)
{
    bool ended = false;
    return b->saver.finish(b->saver.self, true, &ended, &b->err) == SN_OK && ended;
}

static void what_changes_after_copied_is_not_saved(void)
{
    for (int way = 0; way < WAYS; way++) {
        struct bench b;
        struct pair p;
        setup_in(&b, 0, (enum way)way, "/tmp");
        if (way == ASIDE)
            reserve(&b, 16 << 20);
        make_pair(&p);
        set_pair(&p, 100);
        struct sn_state first = p.rank[0]; /* its scalars; the boxes are shared */
        bool good = begin(&b, &p.rank[0], SN_SAVE_PREPARE) && ends(&b);
        for (int r = 0; r < 2 && good; r++) {
            good = begin(&b, &p.rank[r], SN_SAVE_WRITE);
            b.saver.copied(b.saver.self);
            set_values(&p.rank[r], 300);
            good = good && ends(&b);
        }
        good = good && begin(&b, &first, SN_SAVE_COMMIT);
        first.scalars.step = 300; /* the step loop goes on */
        tap_ok(good && ends(&b) && newest(&b) == 100 && pair_loads(&b, &p, 100),
               "%s: values that change after `copied` do not reach the file", way_name[way]);
        free_pair(&p);
        teardown(&b);
    }
}

static void an_end_is_told_once(void)
{
    struct bench b;
    struct sn_err ignored;
    bool ended = false;
    setup(&b, 0);
    set_state(&b.state, 100);
    const struct sn_saver *s = &b.saver;
    s->copied(s->self);
    tap_ok(s->finish(s->self, true, &ended, &b.err) == SN_OK && ended,
           "with nothing under way nobody waits");
    (void)sn_saver_phase(s, &b.state, SN_SAVE_PREPARE, &b.err);
    tap_ok(begin(&b, &b.state, SN_SAVE_WRITE), "a phase begins");
    tap_ok(s->begin(s->self, &b.state, SN_SAVE_WRITE, &ignored) == SN_EFAIL,
           "no other can begin before its end is told");
    int asked = 0;
    for (ended = false; !ended && asked < 100000; asked++) {
        if (s->finish(s->self, false, &ended, &b.err) != SN_OK)
            break;
        (void)usleep(100);
    }
    tap_ok(ended, "asking without waiting finds its end");
    tap_ok(begin(&b, &b.state, SN_SAVE_COMMIT), "then the next begins");
    sn_checkpoint_close(&b.saver);
    tap_ok(open_saver(&b, 0) && newest(&b) == 100 && loads_as(&b, 100, 100),
           "closing waits for what is under way");
    teardown(&b);
}

static void a_failure_is_told_at_the_end(void)
{
    for (int way = 0; way < WAYS; way++) {
        struct bench b;
        struct rlimit old, tight;
        bool ended = false;
        setup_in(&b, 0, (enum way)way, "/tmp");
        (void)save(&b, 100);
        set_state(&b.state, 200);
        (void)getrlimit(RLIMIT_FSIZE, &old);
        tight = (struct rlimit){100000, old.rlim_max};
        const struct sn_saver *s = &b.saver;
        (void)sn_saver_phase(s, &b.state, SN_SAVE_PREPARE, &b.err);
        (void)setrlimit(RLIMIT_FSIZE, &tight);
        bool begun = begin(&b, &b.state, SN_SAVE_WRITE);
        s->copied(s->self); /* or a writer that fails would hold up the step loop for ever */
        enum sn_status st = s->finish(s->self, true, &ended, &b.err);
        (void)setrlimit(RLIMIT_FSIZE, &old);
        tap_ok(begun && ended && st == SN_EIO && strstr(b.err.text, "File too large"),
               "%s: the write fails in the background: %s", way_name[way], b.err.text);
        tap_ok(s->finish(s->self, true, &ended, &b.err) == SN_OK && ended, "%s: that is told once",
               way_name[way]);
        (void)sn_saver_phase(s, &b.state, SN_SAVE_ABANDON, &b.err);
        tap_ok(count_entries(&b, "step-") == 1 && newest(&b) == 100 && loads_as(&b, 100, 100),
               "%s: the checkpoint before is whole, and all there is", way_name[way]);
        tap_ok(save(&b, 200) == SN_OK && loads_as(&b, 200, 200), "%s: with space again it works",
               way_name[way]);
        teardown(&b);
    }
}

/* --- space ----------------------------------------------------------------------------------- */

static void what_cannot_fit_is_not_begun(void)
{
    struct bench b;
    struct sn_state_shape all = {"model", "x", INT64_C(1) << 40, 1 << 10};
    setup(&b, 0);
    set_state(&b.state, 100);
    b.state.n_all = 1;
    b.state.all = &all;
    char want[300];
    (void)snprintf(want, sizeof(want), "%s: the checkpoint of step 100 has 4.00 PiB, but only ",
                   b.dir);
    tap_ok(save_as_is(&b) == SN_EIO && strncmp(b.err.text, want, strlen(want)) == 0 &&
               strstr(b.err.text, " are free; free some space, or lower checkpoint.keep"),
           "a checkpoint larger than the disk: %s", b.err.text);
    tap_ok(count_entries(&b, "step-") == 0, "nothing of it is there");
    b.state.n_all = N;
    b.state.all = (struct sn_state_shape *)shape;
    teardown(&b);
}

/* A disk that is really full, where this process may mount one. */
static void a_small_disk_fills_up(void)
{
    struct bench b;
    struct pair p;
    setup(&b, 0);
    if (mount("none", b.dir, "tmpfs", 0, "size=1M") != 0) {
        tap_skip("a disk of 1 MiB fills up", "this user cannot mount one");
        teardown(&b);
        return;
    }
    make_pair(&p);
    set_pair(&p, 200);
    (void)save(&b, 100);
    tap_ok(save_ranks(&b.saver, p.rank, 2, &b.err) == SN_EIO &&
               strstr(b.err.text, "the checkpoint of step 200 has 10.76 MiB, but only "),
           "a disk of 1 MiB: %s", b.err.text);
    for (int r = 0; r < 2; r++) { /* what is asked for fits, what is written does not */
        p.rank[r].n_all = 0;
    }
    tap_ok(save_ranks(&b.saver, p.rank, 2, &b.err) == SN_EIO &&
               strstr(b.err.text, "cannot reserve space: No space left on device"),
           "and where that is found late: %s", b.err.text);
    tap_ok(newest(&b) == 100 && loads_as(&b, 100, 100) && count_entries(&b, "tmp") == 0,
           "the checkpoint before is whole");
    free_pair(&p);
    (void)umount(b.dir);
    teardown(&b);
}

/* --- one file -------------------------------------------------------------------------------- */

static void a_single_file_holds_the_tensors_themselves(void)
{
    struct bench b;
    struct pair p;
    char *text = NULL;
    size_t len = 0;
    setup_way(&b, 0, SINGLE);
    make_pair(&p);
    set_pair(&p, 100);
    tap_ok(save_ranks(&b.saver, p.rank, 2, &b.err) == SN_OK, "two ranks save into one file %s",
           b.err.text);
    (void)snprintf(b.dir, sizeof(b.dir), "%s/runs/ckpt/step-00000100", b.root);
    tap_ok(count_entries(&b, "") == 3 && exists(&b, "master.h5") && exists(&b, "manifest.json") &&
               exists(&b, "COMMIT"),
           "it, the manifest and COMMIT are all there is");
    (void)sn_file_load(&text, &len, path_in(&b, "manifest.json"), &b.err);
    tap_ok(text &&
               strstr(text, "\"dataset\": \"/model/embed.weight\", \"at\": [0, 301], \"set\": "
                            "[1500, 700]") &&
               !strstr(text, "shard-"),
           "a piece says where in its tensor it lies");
    tap_ok(text && strstr(text, "\"layout\": \"layout:\\n  data: 2\\n\""),
           "and the manifest the layout");
    sn_free(text);
    free_pair(&p);
    teardown(&b);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    (void)signal(SIGXFSZ, SIG_IGN);
    many_blocks_arrive();
    what_changes_after_copied_is_not_saved();
    an_end_is_told_once();
    a_failure_is_told_at_the_end();
    what_cannot_fit_is_not_begun();
    a_small_disk_fills_up();
    a_single_file_holds_the_tensors_themselves();
    return tap_done();
}
