/* Checkpoints of many ranks: what some ranks write in boxes, others read in other boxes. */
#include "tests/lib/boxes_test.h"

#include <signal.h>
#include <sys/wait.h>

/* --- any layout from any other --------------------------------------------------------------- */

static bool all_load(struct bench *b, struct party *p, int64_t step)
{
    bool good = true;
    set_party(p, 0);
    for (int r = 0; r < p->n && good; r++) {
        good = b->saver.load(b->saver.self, step, &p->rank[r], &b->err) == SN_OK &&
               holds(p, r, step) && p->rank[r].scalars.tokens == step * 10;
        if (!good)
            printf("# rank %d of %d: %s\n", r, p->n, b->err.text);
    }
    return good;
}

static void any_boxes_load_from_any_pieces(enum way way)
{
    enum { ROUNDS = 40 };
    struct bench b;
    setup_way(&b, 1, way);
    for (int round = 1; round <= ROUNDS; round++) {
        struct dice d = {sn_rng_key((uint64_t)round, "cuts"), 0};
        struct party w, l;
        make_party(&w, 1 + (int)roll(&d, RANKS));
        make_party(&l, 1 + (int)roll(&d, RANKS));
        cut_at_random(&w, &d);
        cut_at_random(&l, &d);
        set_party(&w, round);
        b.err.text[0] = '\0';
        bool saved = save_ranks(&b.saver, w.rank, w.n, &b.err) == SN_OK && newest(&b) == round;
        tap_ok(saved && all_load(&b, &l, round) && all_load(&b, &w, round),
               "%s, seed %d: %d ranks save, %d load bit for bit, and so do those that saved %s",
               way_name[way], round, w.n, l.n, b.err.text);
        free_party(&w);
        free_party(&l);
    }
    teardown(&b);
}

/* Two ranks: rank 0 has the upper rows of every tensor, rank 1 the others. */
static void make_halves(struct party *p)
{
    make_party(p, 2);
    for (int i = 0; i < N; i++) {
        int64_t half = shape[i].rows / 2;
        (void)give(p, 0, i, (struct sn_box){0, 0, half, shape[i].cols}, 0);
        (void)give(p, 1, i, (struct sn_box){half, 0, shape[i].rows - half, shape[i].cols}, 0);
    }
}

static void pieces_are_named_after_their_place(void)
{
    struct bench b;
    struct party p;
    char *text = NULL;
    size_t len = 0;
    setup(&b, 0);
    make_halves(&p);
    set_party(&p, 100);
    tap_ok(save_ranks(&b.saver, p.rank, 2, &b.err) == SN_OK, "two ranks save");
    tap_ok(exists(&b, "step-00000100/shard-00000.h5") &&
               exists(&b, "step-00000100/shard-00001.h5") &&
               !exists(&b, "step-00000100/pieces-00000.json") && count_entries(&b, ".tmp.") == 0,
           "a shard for each, and nothing else is left");
    (void)sn_file_load(&text, &len, path_in(&b, "step-00000100/manifest.json"), &b.err);
    tap_ok(strstr(text, "\"schema\": 3") && strstr(text, "\"/model/embed.weight@0,0\"") &&
               strstr(text, "\"row\": [150, 300], \"col\": [0, 64], \"shard\": 1, \"dataset\": "
                            "\"/model/embed.weight@150,0\", \"bytes\": 38400") &&
               strstr(text, "\"/optim/exp_avg_sq/layers.0.attn.q.weight\""),
           "a box is named with its place, a whole tensor without");
    sn_free(text);
    free_party(&p);
    teardown(&b);
}

static void a_rank_that_owns_nothing_writes_nothing(void)
{
    struct bench b;
    struct party p;
    setup(&b, 0);
    make_party(&p, 3);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < 3; r++)
            give(&p, r, i, (struct sn_box){0, 0, shape[i].rows, shape[i].cols}, 0)->owned = r == 2;
    set_party(&p, 100);
    tap_ok(save_ranks(&b.saver, p.rank, 3, &b.err) == SN_OK && all_load(&b, &p, 100),
           "only the last rank owns what all hold");
    tap_ok(!exists(&b, "step-00000100/shard-00000.h5") &&
               exists(&b, "step-00000100/shard-00002.h5"),
           "so there is only its shard");
    free_party(&p);
    teardown(&b);
}

/* The fixture was written by the last version that wrote schema 1; the values of a tensor are
 * sn_rng_bits(sn_rng_key(1, "GROUP NAME"), element) as bits. */
static void the_layout_of_one_rank_before_still_loads(void)
{
    static const struct sn_state_shape old[] = {{"model", "embed.weight", 9, 5},
                                                {"model", "final_norm.weight", 5, 1},
                                                {"exp_avg", "embed.weight", 9, 5},
                                                {"exp_avg_sq", "embed.weight", 9, 5}};
    struct sn_saver s;
    struct sn_checkpoint_options all = {.keep = 0};
    struct sn_err err = {.text = ""};
    float values[4][45];
    struct sn_state_tensor t[5];
    struct sn_state state = {.model_text = "model:\n  family: llama\n",
                             .config_hash = 7,
                             .ranks = 1,
                             .n_tensors = 5,
                             .tensors = t,
                             .n_all = 4,
                             .all = (struct sn_state_shape *)old};
    for (int i = 0; i < 4; i++)
        t[i] = sn_state_whole(&old[i], values[i]);
    t[4] = t[0]; /* the first tensor apart: columns 0 to 1, and the others */
    t[0].n_cols = t[4].col = 2;
    t[4].n_cols = 3;
    t[4].p += 2;
    int64_t step = -1;
    bool good =
        sn_checkpoint_open(&s, "tests/unit/fixtures/checkpoints/schema-1", &all, &err) == SN_OK &&
        s.find(s.self, INT64_MAX, &step, &err) == SN_OK && step == 100 &&
        s.load(s.self, 100, &state, &err) == SN_OK && state.scalars.tokens == 4096;
    for (int i = 0; i < 4 && good; i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "%s %s", old[i].group, old[i].name);
        for (int64_t e = 0; e < old[i].rows * old[i].cols && good; e++) {
            uint32_t want = (uint32_t)sn_rng_bits(sn_rng_key(1, name), (uint64_t)e);
            good = memcmp(&values[i][e], &want, 4) == 0;
        }
    }
    tap_ok(good, "a checkpoint of schema 1 loads bit for bit, also into boxes %s", err.text);
    sn_checkpoint_close(&s);
}

/* --- what is missing or altered -------------------------------------------------------------- */

static void a_lost_or_altered_shard_is_named_by_who_needs_it(void)
{
    struct bench b;
    struct party p;
    char text[512];
    setup(&b, 0);
    make_halves(&p);
    set_party(&p, 100);
    (void)save_ranks(&b.saver, p.rank, 2, &b.err);
    const char *shard = path_in(&b, "step-00000100/shard-00001.h5");
    FILE *f = fopen(shard, "r+b");
    (void)fseek(f, -5, SEEK_END);
    int c = fgetc(f);
    (void)fseek(f, -5, SEEK_END);
    tap_ok(fputc(c ^ 1, f) != EOF && fclose(f) == 0, "a bit of the second shard is flipped");
    (void)snprintf(text, sizeof(text),
                   "%s: the bytes of /model/layers.0.attn.q.weight@80,0 are not those that were "
                   "saved (their hash differs); the file was altered, use another checkpoint",
                   shard);
    tap_ok(b.saver.load(b.saver.self, 100, &p.rank[1], &b.err) == SN_EIO, "it does not load");
    tap_text(b.err.text, text, "and the piece is named");
    shard = path_in(&b, "step-00000100/shard-00001.h5");
    tap_ok(unlink(shard) == 0, "the second shard is lost");
    (void)snprintf(text, sizeof(text),
                   "%s: cannot open: No such file or directory (reading tensor exp_avg "
                   "embed.weight)",
                   shard);
    set_party(&p, 0);
    tap_ok(b.saver.load(b.saver.self, 100, &p.rank[1], &b.err) == SN_EIO, "it does not load");
    tap_text(b.err.text, text, "and the file is named");
    tap_ok(holds(&p, 1, 0) && p.rank[1].scalars.step == 0, "and nothing was overwritten");
    tap_ok(b.saver.load(b.saver.self, 100, &p.rank[0], &b.err) == SN_OK && holds(&p, 0, 100),
           "the rank that does not need it has its boxes");
    free_party(&p);
    teardown(&b);
}

/* The save of step 200 fails with the sentence, in which TMP stands for the temporary directory;
 * step 100 stays, and nothing else is there. */
static void save_says(struct bench *b, struct party *p, const char *want, const char *what)
{
    char tmp[160], text[1024] = "";
    (void)snprintf(tmp, sizeof(tmp), "%s/step-00000200.tmp.4711", b->dir);
    set_party(p, 200);
    b->err.text[0] = '\0';
    tap_ok(save_ranks(&b->saver, p->rank, p->n, &b->err) != SN_OK, "%s: the save fails", what);
    for (const char *c = b->err.text; *c; c++) {
        bool is_tmp = strncmp(c, tmp, strlen(tmp)) == 0;
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s", is_tmp ? 3 : 1,
                       is_tmp ? "TMP" : c);
        c += is_tmp ? strlen(tmp) - 1 : 0;
    }
    tap_text(text, want, what);
    tap_ok(newest(b) == 100 && count_entries(b, "step-") == 1 && loads_as(b, 100, 100),
           "%s: the checkpoint before is whole, nothing else is left", what);
}

static void what_does_not_cover_is_not_committed(void)
{
    struct bench b;
    struct party p;
    setup(&b, 0);
    (void)save(&b, 100);
    make_halves(&p);
    struct sn_state_tensor *upper = &p.box[0][0], *lower = &p.box[1][0];
    lower->row -= 10;
    save_says(&b, &p,
              "TMP: tensor model embed.weight: rows 140 to 149, columns 0 to 63 are stored twice, "
              "as /model/embed.weight@0,0 of shard-00000.h5 and as /model/embed.weight@140,0 of "
              "shard-00001.h5",
              "rows that two ranks own");
    lower->row += 10;
    upper->n_cols = 60;
    save_says(&b, &p,
              "TMP: tensor model embed.weight (300 x 64) has 600 of its 19200 values in no piece, "
              "the first at row 0, column 60",
              "columns that no rank owns");
    upper->n_cols = 64;
    upper->owned = lower->owned = false;
    save_says(&b, &p, "TMP: no rank wrote tensor model embed.weight", "a tensor without an owner");
    upper->owned = lower->owned = true;
    lower->rows = 301;
    save_says(&b, &p,
              "TMP: tensor model embed.weight is 300 x 64 to one rank and 301 x 64 to another",
              "ranks of two models");
    upper->rows = 301;
    save_says(&b, &p,
              "TMP: tensor model embed.weight was written as 301 x 64, but the model's is 300 x 64",
              "all of another model");
    upper->rows = lower->rows = 300;
    upper->name = lower->name = "more.weight";
    p.rank[0].n_all = 1;
    p.rank[0].all = (struct sn_state_shape[]){{"model", "more.weight", 300, 64}};
    save_says(&b, &p, "TMP: 7 tensors were written, but the model has 1",
              "more than the model has");
    free_party(&p);
    teardown(&b);
}

static void ranks_that_do_not_fit_together_save_nothing(void)
{
    struct bench b;
    struct party p;
    setup(&b, 0);
    (void)save(&b, 100);
    make_halves(&p);
    p.rank[1].tag = 4712;
    char want[400];
    (void)snprintf(want, sizeof(want),
                   "%s/step-00000200.tmp.4712: rank 1 cannot see it, and rank 0 has made the "
                   "directory of this save; check that all ranks see one file system and have one "
                   "tag",
                   b.dir);
    save_says(&b, &p, want, "a rank with another tag");
    p.rank[1].tag = 4711;
    p.box[1][0].row++;
    save_says(&b, &p,
              "checkpoint: model embed.weight: a box of 150 x 64 (leading dimension 64) at row "
              "151, column 0 is not in the 300 x 64 tensor",
              "a box that is not in its tensor");
    tap_ok(b.saver.load(b.saver.self, 100, &p.rank[1], &b.err) == SN_EFAIL,
           "nor is anything loaded into such a box");
    free_party(&p);
    teardown(&b);
}

/* One rank's failed phase: its shard cannot be made, because a directory has the name. */
static void a_writer_that_fails_leaves_the_checkpoint_before(void)
{
    struct bench b;
    struct party p;
    struct sn_err ignored;
    setup(&b, 0);
    (void)save(&b, 100);
    make_halves(&p);
    set_party(&p, 200);
    const struct sn_saver *s = &b.saver;
    bool good = sn_saver_phase(s, &p.rank[0], SN_SAVE_PREPARE, &b.err) == SN_OK &&
                sn_saver_phase(s, &p.rank[0], SN_SAVE_WRITE, &b.err) == SN_OK;
    (void)sn_dir_make(path_in(&b, "step-00000200.tmp.4711/shard-00001.h5"), &b.err);
    tap_ok(good && sn_saver_phase(s, &p.rank[1], SN_SAVE_WRITE, &b.err) == SN_EIO &&
               strstr(b.err.text, "step-00000200.tmp.4711/shard-00001.h5: cannot create: File "
                                  "exists"),
           "the second rank cannot write: %s", b.err.text);
    tap_ok(sn_saver_phase(s, &p.rank[0], SN_SAVE_ABANDON, &ignored) == SN_OK &&
               count_entries(&b, "step-") == 1 && newest(&b) == 100 && loads_as(&b, 100, 100),
           "rank 0 abandons the save: the checkpoint before is all there is");
    free_party(&p);
    teardown(&b);
}

/* A shard that was cut between its writing and the commit. */
static void a_shard_lost_before_the_commit_is_found(void)
{
    struct bench b;
    struct party p;
    setup(&b, 0);
    make_halves(&p);
    set_party(&p, 200);
    const struct sn_saver *s = &b.saver;
    (void)sn_saver_phase(s, &p.rank[0], SN_SAVE_PREPARE, &b.err);
    for (int r = 0; r < 2; r++)
        (void)sn_saver_phase(s, &p.rank[r], SN_SAVE_WRITE, &b.err);
    tap_ok(truncate(path_in(&b, "step-00000200.tmp.4711/shard-00001.h5"), 5000) == 0,
           "a shard is cut");
    tap_ok(sn_saver_phase(s, &p.rank[0], SN_SAVE_COMMIT, &b.err) == SN_EIO &&
               strstr(b.err.text, "shard-00001.h5: has 5000 bytes where ") && newest(&b) == -1,
           "the commit refuses it: %s", b.err.text);
    free_party(&p);
    teardown(&b);
}

/* --- kills and memory ------------------------------------------------------------------------ */

/* A child saves step 200 and dies at the stage, in the last rank's write if the stage is one of
 * writing. */
static bool dies_in_save(struct bench *b, struct party *p, enum sn_checkpoint_stage at)
{
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        bool in_write =
            at > (b->way == SINGLE ? SN_STAGE_LAYOUT : SN_STAGE_DIRECTORY) && at <= SN_STAGE_LIST;
        const struct sn_saver *s = &b->saver;
        set_party(p, 200);
        if (!in_write)
            sn_checkpoint_die_at(&b->saver, at);
        (void)sn_saver_phase(s, &p->rank[0], SN_SAVE_PREPARE, &b->err);
        (void)sn_saver_phase(s, &p->rank[0], SN_SAVE_WRITE, &b->err);
        sn_checkpoint_die_at(&b->saver, at);
        (void)sn_saver_phase(s, &p->rank[1], SN_SAVE_WRITE, &b->err);
        (void)sn_saver_phase(s, &p->rank[0], SN_SAVE_COMMIT, &b->err);
        _exit(0);
    }
    int how = 0;
    return waitpid(pid, &how, 0) == pid && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
}

static void a_kill_of_one_rank_leaves_the_checkpoint_before(enum way way)
{
    for (int at = SN_STAGE_NONE + 1; at < SN_NSTAGES; at++) {
        struct bench b;
        struct party p;
        setup_way(&b, 2, way);
        make_halves(&p);
        set_party(&p, 100);
        bool good = save_ranks(&b.saver, p.rank, 2, &b.err) == SN_OK;
        good = good && dies_in_save(&b, &p, (enum sn_checkpoint_stage)at);
        int64_t want = at < SN_STAGE_VISIBLE ? 100 : 200;
        tap_ok(good && newest(&b) == want && all_load(&b, &p, want),
               "%s, killed at stage %d: step %d is whole", way_name[way], at, (int)want);
        set_party(&p, 300);
        tap_ok(save_ranks(&b.saver, p.rank, 2, &b.err) == SN_OK && all_load(&b, &p, 300) &&
                   count_entries(&b, ".") == 0,
               "%s, killed at stage %d: the next save works and tidies", way_name[way], at);
        free_party(&p);
        teardown(&b);
    }
}

static void no_memory_is_told_at_every_allocation(void)
{
    struct bench b;
    struct party w, l;
    struct dice d = {sn_rng_key(5, "memory"), 0};
    setup(&b, 1);
    make_party(&w, 3);
    make_party(&l, 2);
    cut_at_random(&w, &d);
    cut_at_random(&l, &d);
    (void)save(&b, 100);
    for (int what = 0; what < 2; what++) {
        enum sn_status st = SN_ENOMEM;
        int n = 0, tried = 0;
        set_party(&w, 200);
        set_party(&l, 0);
        while (st == SN_ENOMEM && n < 10000) {
            sn_mem_fail_at((uint64_t)(n += 1 + n / 16)); /* test_checkpoint tries every one */
            tried++;
            st = what == 0 ? save_ranks(&b.saver, w.rank, w.n, &b.err)
                           : b.saver.load(b.saver.self, 200, &l.rank[0], &b.err);
            sn_mem_fail_at(0);
            if (st == SN_ENOMEM && what == 0 && newest(&b) != 100)
                st = SN_EFAIL;
        }
        tap_ok(st == SN_OK && n > 20, "%s: %d of some %d allocations fail, each is told",
               what ? "load" : "save", tried - 1, n);
    }
    tap_ok(holds(&l, 0, 200), "and the load that had memory is right");
    free_party(&w);
    free_party(&l);
    teardown(&b);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    for (int way = 0; way < WAYS; way++) {
        any_boxes_load_from_any_pieces((enum way)way);
        a_kill_of_one_rank_leaves_the_checkpoint_before((enum way)way);
    }
    pieces_are_named_after_their_place();
    a_rank_that_owns_nothing_writes_nothing();
    the_layout_of_one_rank_before_still_loads();
    a_lost_or_altered_shard_is_named_by_who_needs_it();
    what_does_not_cover_is_not_committed();
    ranks_that_do_not_fit_together_save_nothing();
    a_writer_that_fails_leaves_the_checkpoint_before();
    a_shard_lost_before_the_commit_is_found();
    no_memory_is_told_at_every_allocation();
    return tap_done();
}
