/* Checkpoints are whole or not there, and say so. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"
#include "checkpoint/store.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 7 };
#define MODEL "model:\n  family: llama\n  hidden: 64\n  heads: 4\n"

static const struct sn_state_tensor shape[N] = {
    {"model", "embed.weight", 300, 64, NULL},
    {"model", "final_norm.weight", 64, 1, NULL},
    {"model", "layers.0.attn.q.weight", 160, 130, NULL},
    {"exp_avg", "embed.weight", 300, 64, NULL},
    {"exp_avg", "final_norm.weight", 64, 1, NULL},
    {"exp_avg_sq", "embed.weight", 300, 64, NULL},
    {"exp_avg_sq", "layers.0.attn.q.weight", 1, 3, NULL},
};

/* A temporary directory, a saver in its folder "ckpt", and a state to save. */
struct bench {
    char root[64], dir[96];
    struct sn_saver saver;
    struct sn_state state;
    struct sn_state_tensor tensors[N];
    struct sn_err err;
};

static size_t bytes_of(const struct sn_state_tensor *t)
{
    return (size_t)t->rows * (size_t)t->cols * sizeof(float);
}

static void make_state(struct sn_state *s, struct sn_state_tensor *t)
{
    memcpy(t, shape, sizeof(shape));
    for (int i = 0; i < N; i++)
        t[i].p = sn_alloc(bytes_of(&t[i]));
    *s = (struct sn_state){.model_text = MODEL, .config_hash = 7, .n_tensors = N, .tensors = t};
}

static void free_state(struct sn_state *s)
{
    for (int i = 0; i < N; i++)
        sn_free(s->tensors[i].p);
}

/* What the state is at a step: random bits, so that NaN, infinities and subnormals are there too.
 */
static void set_state(struct sn_state *s, int64_t step)
{
    s->scalars = (struct sn_state_scalars){step, step * 12345678901, step - 1, 3, 1, 0.1f};
    for (int i = 0; i < N; i++) {
        uint64_t key = sn_rng_key((uint64_t)step * N + (uint64_t)i, "state");
        for (size_t k = 0; k < bytes_of(&s->tensors[i]) / 4; k++) {
            uint32_t bits = (uint32_t)sn_rng_bits(key, k);
            memcpy(&s->tensors[i].p[k], &bits, 4);
        }
    }
}

static bool open_saver(struct bench *b, int keep)
{
    return sn_checkpoint_open(&b->saver, b->dir, keep, &b->err) == SN_OK;
}

static void setup(struct bench *b, int keep)
{
    *b = (struct bench){.root = "/tmp/sn-ckpt-XXXXXX"};
    if (!mkdtemp(b->root)) {
        perror(b->root);
        exit(1);
    }
    (void)snprintf(b->dir, sizeof(b->dir), "%s/runs/ckpt", b->root);
    make_state(&b->state, b->tensors);
    if (!open_saver(b, keep))
        exit(1);
}

static void teardown(struct bench *b)
{
    sn_checkpoint_close(&b->saver);
    free_state(&b->state);
    (void)sn_dir_remove(b->root, &b->err);
}

static enum sn_status save(struct bench *b, int64_t step)
{
    set_state(&b->state, step);
    return b->saver.save(b->saver.self, &b->state, &b->err);
}

static int64_t newest(struct bench *b)
{
    int64_t step = -7;
    enum sn_status st = b->saver.find(b->saver.self, &step, &b->err);
    return st == SN_OK ? step : -100 - (int64_t)st;
}

/* Loads `step` into fresh memory and compares every bit with what set_state(want) makes. */
static bool loads_as(struct bench *b, int64_t step, int64_t want)
{
    struct sn_state got, expect;
    struct sn_state_tensor t[N], e[N];
    make_state(&got, t);
    make_state(&expect, e);
    set_state(&expect, want);
    bool same = b->saver.load(b->saver.self, step, &got, &b->err) == SN_OK;
    if (!same)
        printf("# %s\n", b->err.text);
    for (int i = 0; i < N && same; i++)
        same = memcmp(t[i].p, e[i].p, bytes_of(&t[i])) == 0;
    same = same && got.scalars.step == want && got.scalars.tokens == want * 12345678901 &&
           got.scalars.adam_count == want - 1 && got.scalars.scale_age == 3 &&
           got.scalars.skipped == 1 && got.scalars.loss_scale == 0.1f;
    free_state(&got);
    free_state(&expect);
    return same;
}

static const char *path_in(struct bench *b, const char *rest)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", b->dir, rest);
    return path;
}

static bool exists(struct bench *b, const char *rest)
{
    return access(path_in(b, rest), F_OK) == 0;
}

/* Number of entries whose name contains `part`. */
static int count_entries(struct bench *b, const char *part)
{
    char command[256], line[32] = "";
    (void)snprintf(command, sizeof(command), "ls %s | grep -c -F -e '%s'", b->dir, part);
    FILE *f = popen(command, "r");
    if (!f || !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        (void)pclose(f);
    return atoi(line);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    int c = EOF;
    if (f && fseek(f, at, SEEK_SET) == 0)
        c = fgetc(f);
    if (c == EOF || fseek(f, at, SEEK_SET) != 0 || fputc(c ^ 16, f) == EOF || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

/* Load step 100 must fail with this status and exactly this text, where DIR stands for the folder.
 */
static void load_says(struct bench *b, enum sn_status want, const char *text, const char *what)
{
    char full[1024] = "";
    for (const char *c = text; *c; c++) {
        bool is_dir = strncmp(c, "DIR", 3) == 0;
        (void)snprintf(full + strlen(full), sizeof(full) - strlen(full), "%.*s",
                       is_dir ? (int)strlen(b->dir) : 1, is_dir ? b->dir : c);
        c += is_dir ? 2 : 0;
    }
    b->err.text[0] = '\0';
    enum sn_status st = b->saver.load(b->saver.self, 100, &b->state, &b->err);
    tap_ok(st == want, "%s: the status is right", what);
    tap_text(b->err.text, full, what);
}

/* --- what a save gives ------------------------------------------------------------------------ */

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
    tap_ok(b.saver.save(b.saver.self, &b.state, &b.err) == SN_OK, "a step is saved once more");
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

/* --- kills ------------------------------------------------------------------------------------ */

static bool dies_in_save(struct bench *b, int64_t step, int state_of,
                         enum sn_checkpoint_stage stage)
{
    (void)fflush(stdout); /* or the child's copy of the buffer would be printed too */
    pid_t pid = fork();
    if (pid == 0) {
        set_state(&b->state, state_of);
        b->state.scalars.step = step;
        sn_checkpoint_die_at(&b->saver, stage);
        (void)b->saver.save(b->saver.self, &b->state, &b->err);
        _exit(0);
    }
    int how = 0;
    return waitpid(pid, &how, 0) == pid && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
}

static void a_kill_leaves_the_checkpoint_before(void)
{
    for (int stage = SN_STAGE_NONE + 1; stage < SN_NSTAGES; stage++) {
        struct bench b;
        setup(&b, 2);
        (void)save(&b, 100);
        tap_ok(dies_in_save(&b, 200, 200, (enum sn_checkpoint_stage)stage), "killed at stage %d",
               stage);
        int64_t want = stage < SN_STAGE_VISIBLE ? 100 : 200;
        tap_ok(newest(&b) == want && loads_as(&b, want, want), "stage %d: step %d is whole", stage,
               (int)want);
        tap_ok(save(&b, 300) == SN_OK && newest(&b) == 300 && loads_as(&b, 300, 300),
               "stage %d: the next save works", stage);
        tap_ok(count_entries(&b, ".") == 0, "stage %d: it removes what was left", stage);
        teardown(&b);
    }
}

static void a_kill_while_replacing_leaves_one_of_both(void)
{
    for (int stage = SN_STAGE_NONE + 1; stage < SN_NSTAGES; stage++) {
        struct bench b;
        setup(&b, 2);
        struct sn_state got;
        struct sn_state_tensor t[N];
        make_state(&got, t);
        (void)save(&b, 100);
        bool killed = dies_in_save(&b, 100, 50, (enum sn_checkpoint_stage)stage);
        bool good = b.saver.load(b.saver.self, 100, &got, &b.err) == SN_OK;
        set_state(&b.state, stage < SN_STAGE_VISIBLE ? 100 : 50);
        for (int i = 0; i < N && good; i++)
            good = memcmp(t[i].p, b.tensors[i].p, bytes_of(&t[i])) == 0;
        tap_ok(killed && good && newest(&b) == 100, "replaced, stage %d: one of both is whole",
               stage);
        free_state(&got);
        teardown(&b);
    }
}

/* --- damage ----------------------------------------------------------------------------------- */

static long find_bytes(const char *path, const void *p, size_t len)
{
    char *text = NULL;
    size_t n = 0;
    struct sn_err err;
    if (sn_file_load(&text, &n, path, &err) != SN_OK)
        return -1;
    char *at = memmem(text, n, p, len);
    long offset = at ? (long)(at - text) : -1;
    sn_free(text);
    return offset;
}

static void a_flipped_bit_is_found_by_name(void)
{
    struct bench b;
    setup(&b, 0);
    for (int i = 0; i < N; i++) {
        (void)save(&b, 100);
        const char *shard = path_in(&b, "step-00000100/shard-00000.h5");
        long at = find_bytes(shard, b.tensors[i].p, bytes_of(&b.tensors[i]));
        tap_ok(at > 0, "the bytes of tensor %d lie in the shard as they are in memory", i);
        flip(shard, at + (long)bytes_of(&b.tensors[i]) - 1);
        char text[512];
        bool model = strcmp(shape[i].group, "model") == 0;
        (void)snprintf(
            text, sizeof(text),
            "DIR/step-00000100/shard-00000.h5: the bytes of %s%s/%s are not those that "
            "were saved (their hash differs); the file was altered, use another checkpoint",
            model ? "/" : "/optim/", shape[i].group, shape[i].name);
        load_says(&b, SN_EIO, text, shape[i].name);
    }
    teardown(&b);
}

static void a_damaged_manifest_is_passed_over(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    (void)save(&b, 200);
    struct stat sb;
    (void)stat(path_in(&b, "step-00000200/manifest.json"), &sb);
    bool good = true;
    for (long at = 0; at < sb.st_size; at += 1 + at / 8) {
        flip(path_in(&b, "step-00000200/manifest.json"), at);
        good = good && newest(&b) == 100;
        flip(path_in(&b, "step-00000200/manifest.json"), at);
    }
    tap_ok(good, "a flipped bit anywhere in the manifest: the older checkpoint is found");
    tap_ok(newest(&b) == 200, "the bits flipped back: the newer one is found");
    flip(path_in(&b, "step-00000200/COMMIT"), 40);
    tap_ok(newest(&b) == 100, "a flipped bit in COMMIT: the older checkpoint is found");
    (void)unlink(path_in(&b, "step-00000200/COMMIT"));
    tap_ok(newest(&b) == 100, "no COMMIT: the older checkpoint is found");
    (void)unlink(path_in(&b, "step-00000200/manifest.json"));
    tap_ok(newest(&b) == 100, "no manifest: the older checkpoint is found");
    flip(path_in(&b, "step-00000100/manifest.json"), 5);
    load_says(&b, SN_EIO,
              "DIR/step-00000100/manifest.json: is not what COMMIT was written for; one of "
              "them was altered",
              "loading it says why");
    tap_ok(newest(&b) == -100 - SN_EIO && strstr(b.err.text, "none of its 2 checkpoints is whole"),
           "only damaged ones: an error, not a start from scratch");
    printf("# %s\n", b.err.text);
    teardown(&b);
}

static void the_warning_is_printed(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    (void)save(&b, 200);
    (void)unlink(path_in(&b, "step-00000200/COMMIT"));
    char *text = NULL;
    size_t len = 0;
    int copy = dup(2), file = open(path_in(&b, "stderr"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    sn_log_set_level(SN_LOG_WARN);
    (void)dup2(file, 2);
    (void)newest(&b);
    (void)dup2(copy, 2);
    sn_log_set_level(SN_LOG_ERROR);
    (void)close(copy);
    (void)close(file);
    tap_ok(sn_file_load(&text, &len, path_in(&b, "stderr"), &b.err) == SN_OK &&
               strstr(text,
                      "step-00000200/COMMIT: cannot open: No such file or directory; looking for "
                      "an older checkpoint"),
           "a checkpoint passed over is warned of");
    sn_free(text);
    teardown(&b);
}

static void a_lost_shard_is_named(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    char shard[256];
    (void)snprintf(shard, sizeof(shard), "%s", path_in(&b, "step-00000100/shard-00000.h5"));
    tap_ok(truncate(shard, 100000) == 0, "a shard is cut");
    (void)b.saver.load(b.saver.self, 100, &b.state, &b.err);
    tap_ok(strstr(b.err.text, "step-00000100/shard-00000.h5: cannot open: truncated file") &&
               strstr(b.err.text, "(reading tensor model embed.weight)"),
           "a cut shard is named");
    printf("# %s\n", b.err.text);
    tap_ok(truncate(shard, 0) == 0, "a shard is emptied");
    load_says(&b, SN_EIO,
              "DIR/step-00000100/shard-00000.h5: cannot open: file signature not found "
              "(reading tensor model embed.weight)",
              "an empty shard is named");
    (void)unlink(shard);
    tap_ok(newest(&b) == 100, "a checkpoint without its shard is still found: resuming must not "
                              "silently start from another");
    load_says(&b, SN_EIO,
              "DIR/step-00000100/shard-00000.h5: cannot open: No such file or directory "
              "(reading tensor model embed.weight)",
              "a missing shard is named");
    teardown(&b);
}

static void hdf5_metadata_damage_never_loads_wrong_numbers(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    const char *shard = path_in(&b, "step-00000100/shard-00000.h5");
    bool wrong = false;
    struct sn_state got;
    struct sn_state_tensor t[N];
    make_state(&got, t);
    for (long at = 0; at < 4096; at += 7) {
        flip(shard, at);
        enum sn_status st = b.saver.load(b.saver.self, 100, &got, &b.err);
        for (int i = 0; i < N && st == SN_OK; i++)
            wrong = wrong || memcmp(t[i].p, b.tensors[i].p, bytes_of(&t[i])) != 0;
        flip(shard, at);
    }
    tap_ok(!wrong, "585 flips in HDF5's own bytes: an error or the right numbers");
    free_state(&got);
    teardown(&b);
}

/* --- another model ---------------------------------------------------------------------------- */

static void another_model_is_refused(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    b.state.model_text = "model:\n  family: llama\n  hidden: 128\n  heads: 4\n";
    load_says(
        &b, SN_EINPUT,
        "DIR/step-00000100: holds another model: it has 'hidden: 64' where the run "
        "file has 'hidden: 128'; use another checkpoint.dir, or train.init_from to take only its "
        "weights",
        "another width is named");
    b.state.model_text = "model:\n  family: llama\n  hidden: 64\n";
    load_says(
        &b, SN_EINPUT,
        "DIR/step-00000100: holds another model: it has 'heads: 4' where the run "
        "file has ''; use another checkpoint.dir, or train.init_from to take only its weights",
        "a line less is named");
    teardown(&b);
}

static void other_tensors_are_refused(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    b.tensors[2].name = "layers.1.attn.q.weight";
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100/manifest.json: has no tensor model "
              "layers.1.attn.q.weight; the model needs it",
              "a missing tensor is named");
    b.tensors[2].name = shape[2].name;
    b.tensors[2].rows = 161;
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100/manifest.json: tensor model layers.0.attn.q.weight is "
              "160 x 130, but the model's is 161 x 130",
              "another shape is named");
    b.tensors[2].rows = shape[2].rows;
    b.state.n_tensors--;
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100/manifest.json: has a tensor exp_avg_sq "
              "layers.0.attn.q.weight that the model lacks",
              "an extra tensor is named");
    b.state.n_tensors++;
    tap_ok(loads_as(&b, 100, 100), "the right ones load");
    b.tensors[2].name = "a/b";
    tap_ok(b.saver.save(b.saver.self, &b.state, &b.err) == SN_EINPUT,
           "a name with a slash is refused");
    tap_text(b.err.text, "checkpoint: 'model a/b' is no name for a tensor", "and named");
    b.tensors[2].name = shape[2].name;
    teardown(&b);
}

/* Replace `from` in the manifest of step 100 and write the COMMIT that belongs to it. */
static void edit_manifest(struct bench *b, const char *from, const char *to)
{
    char *text = NULL, *fresh, commit[SN_COMMIT_MAX];
    size_t len = 0;
    if (sn_file_load(&text, &len, path_in(b, "step-00000100/manifest.json"), &b->err) != SN_OK)
        exit(1);
    char *at = strstr(text, from);
    if (!at)
        exit(1);
    fresh = sn_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    (void)sn_file_save(path_in(b, "step-00000100/manifest.json"), fresh, strlen(fresh), &b->err);
    sn_commit_format(commit, fresh, strlen(fresh));
    (void)sn_file_save(path_in(b, "step-00000100/COMMIT"), commit, strlen(commit), &b->err);
    sn_free(text);
    sn_free(fresh);
}

static void strange_manifests_are_explained(void)
{
    static const struct {
        const char *from, *to, *says;
        enum sn_status st;
    } row[] = {
        {"\"schema\": 1", "\"schema\": 2",
         "has schema version 2, but this version of sennit reads 1; use "
         "the version that wrote it",
         SN_EINPUT},
        {"\"schema\": 1,", "", "a 'schema' is missing; the file is damaged", SN_EIO},
        {"\"schema\": 1", "\"schema\": 1, \"schema\": 1", "duplicate object key", SN_EIO},
        {"\"step\": 100", "\"step\": \"100\"", "'step' is not a number from 0 up", SN_EIO},
        {"0x1.99999ap-4", "big", "'loss_scale' is 'big', not a number", SN_EIO},
        {"\"shard-00000.h5\"", "\"../x.h5\"", "'../x.h5' is no shard's file name", SN_EIO},
        {"\"shape\": [300", "\"shape\": [301", "do not belong together", SN_EIO},
        {"\"shape\": [300", "\"shape\": [-300", "its shape is not two sizes", SN_EIO},
        {"\"shape\": [300, 64]", "\"shape\": [4294967296, 4294967296]", "do not belong together",
         SN_EIO},
        {"\"dtype\": \"fp32\"", "\"dtype\": \"bf16\"", "has dtype 'bf16'; this version reads fp32",
         SN_EINPUT},
        {"\"row\": [0, 300]", "\"row\": [0, 299]", "the piece is not the whole tensor", SN_EIO},
        {"\"shard\": 0", "\"shard\": 1", "do not belong together", SN_EIO},
        {"\"xxh3\": \"", "\"xxh3\": \"0", "not 16 hexadecimal digits", SN_EIO},
        {"\"name\": \"final_norm.weight\"", "\"name\": \"embed.weight\"",
         "embed.weight is listed twice", SN_EIO},
        {"\"tensors\": [", "\"tensors\": [7, ", "a 'group' is missing", SN_EIO},
        {"\"tensors\": [", "\"tensors\": {", "is not JSON", SN_EIO},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct bench b;
        setup(&b, 0);
        (void)save(&b, 100);
        edit_manifest(&b, row[i].from, row[i].to);
        enum sn_status st = b.saver.load(b.saver.self, 100, &b.state, &b.err);
        if (!tap_ok(st == row[i].st && strstr(b.err.text, row[i].says), "manifest: %s",
                    row[i].says))
            printf("# got: %s\n", b.err.text);
        tap_ok(newest(&b) == -100 - (int64_t)row[i].st, "and find refuses it too");
        teardown(&b);
    }
}

/* --- no space, no memory ---------------------------------------------------------------------- */

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
                       "%s/step-00000200.tmp.%ld/shard-00000.h5: cannot make it large "
                       "enough: File too large; free some space, or lower checkpoint.keep",
                       b.dir, (long)getpid());
        tap_ok(st == SN_EIO, "a limit of %d bytes: the save fails", (int)limit);
        tap_text(b.err.text, want, "and says where and why");
        tap_ok(count_entries(&b, ".") == 0 && newest(&b) == 100 && loads_as(&b, 100, 100),
               "and the checkpoint before is whole, nothing else is left");
    }
    tap_ok(save(&b, 200) == SN_OK && loads_as(&b, 200, 200), "with space again the save works");
    teardown(&b);
}

enum action { SAVE, LOAD, FIND };

/* One action with the n-th allocation failing; what it found must be whole, or step 100 for a save. */
static enum sn_status with_failure(struct bench *b, enum action what, int n)
{
    int64_t step = 200;
    enum sn_status st;
    set_state(&b->state, 200);
    sn_mem_fail_at((uint64_t)n);
    if (what == SAVE)
        st = b->saver.save(b->saver.self, &b->state, &b->err);
    else if (what == LOAD)
        st = b->saver.load(b->saver.self, 200, &b->state, &b->err);
    else
        st = b->saver.find(b->saver.self, &step, &b->err);
    sn_mem_fail_at(0);
    if (st != SN_OK && what == SAVE && newest(b) != 100)
        st = SN_EFAIL;
    return step == 200 ? st : SN_EFAIL;
}

static void no_memory_is_an_error_at_every_allocation(void)
{
    static const char *const name[] = {"save", "load", "find"};
    struct bench b;
    setup(&b, 2);
    (void)save(&b, 100);
    for (int what = SAVE; what <= FIND; what++) {
        int n = 1;
        enum sn_status st = SN_ENOMEM;
        while (st == SN_ENOMEM && n < 10000)
            st = with_failure(&b, (enum action)what, n++);
        if (!tap_ok(st == SN_OK && n > 5, "%s: %d allocations fail, each is told", name[what], n - 2))
            printf("# status %d: %s\n", (int)st, b.err.text);
    }
    tap_ok(newest(&b) == 200 && loads_as(&b, 200, 200), "and afterwards all is well");
    teardown(&b);
}

static void a_directory_that_cannot_be_made_is_named(void)
{
    struct sn_saver s = {0};
    struct sn_err err;
    tap_ok(sn_checkpoint_open(&s, "/proc/none/ckpt", 2, &err) == SN_EIO, "no directory in /proc");
    tap_text(err.text, "/proc/none: cannot make the directory: No such file or directory", "named");
    tap_ok(sn_checkpoint_open(&s, "/dev/null", 2, &err) == SN_EINPUT, "a file is no directory");
    tap_text(err.text, "/dev/null: is not a directory", "named");
    tap_ok(sn_checkpoint_open(&s, "/tmp", -1, &err) == SN_EINPUT, "keep: -1 is refused");
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    a_round_trip_is_bit_for_bit();
    equal_states_give_equal_files();
    a_checkpoint_of_the_same_step_is_replaced();
    only_the_newest_are_kept();
    a_left_course_is_set_aside();
    a_kill_leaves_the_checkpoint_before();
    a_kill_while_replacing_leaves_one_of_both();
    a_flipped_bit_is_found_by_name();
    a_damaged_manifest_is_passed_over();
    the_warning_is_printed();
    a_lost_shard_is_named();
    hdf5_metadata_damage_never_loads_wrong_numbers();
    another_model_is_refused();
    other_tensors_are_refused();
    strange_manifests_are_explained();
    a_full_disk_leaves_the_checkpoint_before();
    no_memory_is_an_error_at_every_allocation();
    a_directory_that_cannot_be_made_is_named();
    return tap_done();
}
