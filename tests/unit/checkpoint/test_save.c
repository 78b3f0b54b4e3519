/*
 * test_save.c - how the ranks of a run save together: in step, beside the step loop, and when one
 * of them fails.
 *
 * Ranks are threads. Their savers write nothing: they note what they are asked for, end when the
 * case says so, and look whether values stay as they are until `copied`.
 */
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/data/data.h"
#include "lib/train/trainer.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"
#include "tests/lib/thread_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 3, NEVER = 1 << 20 };

/* What goes wrong, and what comes of it. */
enum fault { NOTHING, ENDS_BADLY, CANNOT_BEGIN, FLIPS_A_BIT };
struct scene {
    const char *name;
    bool async;
    int every, steps;
    int delay[RANKS]; /* how often a phase is asked after in vain */
    enum fault fault;
    int rank, step; /* of the fault */
    enum sn_save_phase phase;
    const char *log[2]; /* of rank 0 and of the others: phases and the steps they save */
    const char *words;  /* of every rank's sentence; NULL: it ends well */
    int last;           /* step that is still made */
};

struct world;

struct saver {
    struct sn_saver base;
    struct world *world;
    int rank;
    bool is_under_way, is_copied;
    enum sn_save_phase phase;
    int asked;
    struct sn_state state;
    uint64_t values; /* when WRITE began */
    char log[200];
    const char *complaint;
};

struct world {
    const struct scene *scene;
    struct sn_config config;
    struct thread_world *threads;
    struct saver saver[RANKS];
    enum sn_status status[RANKS];
    struct sn_err err[RANKS];
    pthread_mutex_t lock;
    int under_way, written; /* phases of any rank; ranks that have ended WRITE */
};

/* --- a saver that writes nothing ------------------------------------------------------------- */

static uint64_t hash_of(const struct sn_state *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        sum = 31 * sum + sn_hash64_rows(t->p, t->n_rows, t->n_cols, t->ld);
    }
    return sum;
}

static bool goes_wrong(const struct saver *v, enum fault fault)
{
    const struct scene *s = v->world->scene;
    return s->fault == fault && s->rank == v->rank && s->step == v->state.scalars.step &&
           s->phase == v->phase;
}

static enum sn_status begin(void *self, const struct sn_state *s, enum sn_save_phase phase,
                            struct sn_err *err)
{
    static const char letter[] = "PWCA";
    struct saver *v = self;
    struct world *w = v->world;
    size_t len = strlen(v->log);
    (void)snprintf(v->log + len, sizeof(v->log) - len, "%s%c%lld", len ? " " : "", letter[phase],
                   (long long)s->scalars.step);
    if (v->is_under_way)
        v->complaint = "a phase began before the end of the one before";
    v->state = *s;
    v->phase = phase;
    v->asked = 0;
    v->is_copied = false;
    v->values = hash_of(s);
    if (goes_wrong(v, CANNOT_BEGIN))
        return sn_fail(err, SN_EFAIL, "rank %d has no thread", v->rank);
    (void)pthread_mutex_lock(&w->lock);
    if (phase == SN_SAVE_PREPARE)
        w->written = 0;
    if (phase == SN_SAVE_COMMIT && w->written != RANKS)
        v->complaint = "the commit began before all had written";
    if (phase == SN_SAVE_ABANDON && w->under_way > 0)
        v->complaint = "the save was abandoned while a rank was writing";
    w->under_way++;
    (void)pthread_mutex_unlock(&w->lock);
    v->is_under_way = true;
    return SN_OK;
}

static void copied(void *self)
{
    struct saver *v = self;
    if (!v->is_under_way || v->is_copied)
        return;
    v->is_copied = true;
    if (hash_of(&v->state) != v->values)
        v->complaint = "values changed before they were copied";
    if (goes_wrong(v, FLIPS_A_BIT))
        *(unsigned char *)v->state.tensors[0].p ^= 1;
}

static enum sn_status finish(void *self, bool wait, bool *ended, struct sn_err *err)
{
    struct saver *v = self;
    struct world *w = v->world;
    *ended = wait || !v->is_under_way || v->asked++ >= w->scene->delay[v->rank];
    if (!*ended || !v->is_under_way)
        return SN_OK;
    v->is_under_way = false;
    (void)pthread_mutex_lock(&w->lock);
    w->under_way--;
    w->written += v->phase == SN_SAVE_WRITE;
    (void)pthread_mutex_unlock(&w->lock);
    if (goes_wrong(v, ENDS_BADLY))
        return sn_fail(err, SN_EIO, "the disk of rank %d is full", v->rank);
    return SN_OK;
}

static enum sn_status reserve(void *self, int64_t bytes, struct sn_err *err)
{
    struct saver *v = self;
    (void)err;
    if (!v->world->scene->async || bytes <= 0)
        v->complaint = "memory was reserved for nothing";
    return SN_OK;
}

static void times(void *self, struct sn_save_times *out)
{
    (void)self;
    *out = (struct sn_save_times){.bytes = 1, .write = 1};
}

static enum sn_status find_none(void *self, int64_t before, int64_t *step, struct sn_err *err)
{
    (void)self, (void)before, (void)err;
    *step = -1;
    return SN_OK;
}

/* --- a run ----------------------------------------------------------------------------------- */

static void body(void *arg, int rank)
{
    struct world *w = arg;
    struct saver *v = &w->saver[rank];
    struct sn_trainer *t = NULL;
    struct sn_trainer_options o = {0};
    int code = -1;
    *v = (struct saver){.base = {.self = v,
                                 .reserve = reserve,
                                 .begin = begin,
                                 .copied = copied,
                                 .finish = finish,
                                 .times = times,
                                 .find = find_none},
                        .world = w,
                        .rank = rank};
    struct sn_trainer_env env = {.config = &w->config,
                                 .comm = thread_world_comm(w->threads, rank),
                                 .ops = sn_ops_cpu(),
                                 .saver = &v->base,
                                 .threads = 1};
    w->status[rank] = sn_trainer_create(&t, &env, &w->err[rank]);
    if (w->status[rank] == SN_OK)
        w->status[rank] = sn_trainer_run(t, &o, &code, &w->err[rank]);
    sn_trainer_destroy(t);
    if (v->is_under_way)
        v->complaint = "the run left while a phase was under way";
}

static bool make_data(const char *prefix)
{
    struct sn_data_writer *w = NULL;
    struct sn_err err = {0};
    int32_t tokens[4000];
    for (int i = 0; i < 4000; i++)
        tokens[i] = (i * 31 + i / 7) % 61;
    bool good = sn_data_writer_create(&w, prefix, 1, &err) == SN_OK &&
                sn_data_writer_add(w, tokens, 4000, &err) == SN_OK &&
                sn_data_writer_finish(w, &err) == SN_OK;
    sn_data_writer_destroy(w);
    return good;
}

static int lines(const char *dir, const char *name)
{
    char path[128], line[4096];
    int n = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        n++;
    if (f)
        (void)fclose(f);
    return n;
}

static int commits(const char *log)
{
    int n = 0;
    for (const char *c = log; *c; c++)
        n += *c == 'C';
    return n;
}

static struct sn_config config_of(const struct scene *s, const char *dir)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.data = RANKS;
    c.model.layers = 1;
    c.model.seq = 16;
    c.train.global_batch = RANKS;
    c.train.steps = s->steps;
    c.checkpoint.every = s->every;
    c.checkpoint.async = s->async;
    (void)snprintf(c.run.output, sizeof(c.run.output), "%s", dir);
    char prefix[SN_PATH_MAX];
    (void)snprintf(prefix, sizeof(prefix), "%s/tok", dir);
    sn_sets_take(&c.data.train, prefix);
    return c;
}

static void play(const struct scene *s, const char *dir)
{
    struct world w = {.scene = s, .config = config_of(s, dir)};
    char file[128];
    (void)snprintf(file, sizeof(file), "%s/checkpoints.jsonl", dir);
    (void)unlink(file);
    (void)pthread_mutex_init(&w.lock, NULL);
    w.threads = thread_world_create(RANKS);
    thread_world_run(w.threads, body, &w);
    thread_world_destroy(w.threads);
    (void)pthread_mutex_destroy(&w.lock);
    bool good = true;
    for (int r = 0; r < RANKS; r++) {
        const char *text = w.status[r] == SN_OK ? NULL : w.err[r].text;
        bool fits = s->words ? text && strstr(text, s->words) && w.err[r].agreed : !text;
        if (!fits || w.saver[r].complaint)
            printf("# rank %d: %s; %s\n", r, text ? text : "ended well",
                   w.saver[r].complaint ? w.saver[r].complaint : "no complaint");
        good = good && fits && !w.saver[r].complaint;
    }
    tap_ok(good, "%s: %s", s->name, s->words ? "all ranks leave with the sentence" : "all is well");
    tap_text(w.saver[0].log, s->log[0], "what rank 0 did");
    for (int r = 1; r < RANKS; r++)
        tap_text(w.saver[r].log, s->log[1], "what the others did");
    tap_ok(lines(dir, "metrics.jsonl") == s->last, "%d steps are made", s->last);
    bool commit_failed = s->fault == ENDS_BADLY && s->phase == SN_SAVE_COMMIT;
    tap_ok(lines(dir, "checkpoints.jsonl") == commits(s->log[0]) - commit_failed,
           "each commit is recorded");
}

/* clang-format off */
static const struct scene scenes[] = {
    {"each phase waited for", false, 2, 5, {0}, NOTHING, .last = 5, .log = {"P2 W2 C2 P4 W4 C4 P5 W5 C5", "W2 W4 W5"}},
    {"beside the loop", true, 3, 9, {0}, NOTHING, .last = 9, .log = {"P3 W3 C3 P6 W6 C6 P9 W9 C9", "W3 W6 W9"}},
    {"beside the loop, ranks of different speed", true, 4, 8, {1, 0, 2}, NOTHING, .last = 8, .log = {"P4 W4 C4 P8 W8 C8", "W4 W8"}},
    {"a save at every step", true, 1, 4, {0}, NOTHING, .last = 4, .log = {"P1 W1 C1 P2 W2 C2 P3 W3 C3 P4 W4 C4", "W1 W2 W3 W4"}},
    {"a rank slower than the steps", true, 2, 6, {0, NEVER, 0}, NOTHING, .last = 6, .log = {"P2 W2 C2 P4 W4 C4 P6 W6 C6", "W2 W4 W6"}},
    {"a write fails, waited for", false, 2, 9, {0}, ENDS_BADLY, 1, 4, SN_SAVE_WRITE, .last = 4, .log = {"P2 W2 C2 P4 W4 A4", "W2 W4"},
     .words = "rank 1 (thread): the disk of rank 1 is full"},
    {"a write fails beside the loop", true, 4, 20, {NEVER, 0, 3}, ENDS_BADLY, 1, 8, SN_SAVE_WRITE, .last = 9, .log = {"P4 W4 C4 P8 W8 A8", "W4 W8"},
     .words = "rank 1 (thread): the disk of rank 1 is full"},
    {"a late failure", true, 10, 20, {0, 0, 4}, ENDS_BADLY, 2, 10, SN_SAVE_WRITE, .last = 15, .log = {"P10 W10 A10", "W10"},
     .words = "rank 2 (thread): the disk of rank 2 is full"},
    {"the last write fails", true, 0, 3, {0}, ENDS_BADLY, 2, 3, SN_SAVE_WRITE, .last = 3, .log = {"P3 W3 A3", "W3"},
     .words = "rank 2 (thread): the disk of rank 2 is full"},
    {"a write cannot begin", true, 4, 20, {0}, CANNOT_BEGIN, 2, 4, SN_SAVE_WRITE, .last = 5, .log = {"P4 W4 A4", "W4"},
     .words = "rank 2 (thread): rank 2 has no thread"},
    {"the preparation fails", true, 4, 20, {0}, ENDS_BADLY, 0, 4, SN_SAVE_PREPARE, .last = 4, .log = {"P4 A4", ""},
     .words = "rank 0 (thread): the disk of rank 0 is full"},
    {"the commit fails", true, 4, 20, {0}, ENDS_BADLY, 0, 4, SN_SAVE_COMMIT, .last = 6, .log = {"P4 W4 C4 A4", "W4"},
     .words = "rank 0 (thread): the disk of rank 0 is full"},
    {"a bit flips", true, 2, 20, {0, NEVER, 0}, FLIPS_A_BIT, 1, 2, SN_SAVE_WRITE, .last = 5, .log = {"P2 W2 C2 P4 W4 A4", "W2 W4"},
     .words = "differ"},
    {"a bit flips, found at the end", true, 2, 4, {0, 1, 0}, FLIPS_A_BIT, 1, 2, SN_SAVE_WRITE, .last = 4, .log = {"P2 W2 C2 P4 W4 A4", "W2 W4"},
     .words = "differ"},
};
/* clang-format on */

int main(void)
{
    char dir[] = "/tmp/sn-save-XXXXXX", prefix[64], command[64];
    if (!mkdtemp(dir))
        return 1;
    sn_log_set_level(SN_LOG_ERROR);
    (void)snprintf(prefix, sizeof(prefix), "%s/tok", dir);
    if (tap_ok(make_data(prefix), "token files"))
        for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
            play(&scenes[i], dir);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    (void)!system(command);
    return tap_done();
}
