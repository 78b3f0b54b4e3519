/* Checkpoints: damage and other models are told by name, and never loaded. */
#include "checkpoint/store/look.h"
#include "checkpoint/store/model_text.h"
#include "checkpoint/store/store.h"
#include "tests/lib/checkpoint_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

/* Load step 100 must fail with this status and exactly this text,
 * where DIR stands for the folder. */
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

/* --- damage ---------------------------------------------------------------------------------- */

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
    int64_t step = -7;
    tap_ok(newest(&b) == -100 - SN_EIO && sn_store_newest(&step, b.dir, &b.err) == SN_EIO &&
               strstr(b.err.text, "none of its 2 checkpoints is whole") && step == -7,
           "only damaged ones: an error, not a start from scratch");
    printf("# %s\n", b.err.text);
    teardown(&b);
}

/* The newest is looked for by name: step 100 under the name of step 900 would go on as either. */
static void a_renamed_step_is_refused(void)
{
    struct bench b;
    char from[256];
    static const char *const renamed[] = {"step-00000900", "step-00000900/"};
    static const char *const other[] = {"kept", "step-00000900.damaged", "step-9"};
    struct sn_reader r;
    setup(&b, 0);
    (void)save(&b, 50);
    (void)save(&b, 100);
    (void)snprintf(from, sizeof(from), "%s", path_in(&b, "step-00000100"));
    (void)rename(from, path_in(&b, renamed[0]));
    tap_ok(newest(&b) == 50, "a renamed step is no newer one");
    for (int i = 0; i < 2; i++)
        tap_ok(sn_reader_open(&r, path_in(&b, renamed[i]), &b.err) == SN_EIO &&
                   strstr(b.err.text, "step-00000900") &&
                   strstr(b.err.text,
                          ": bears the name of step 900, but its manifest is of step 100; it was "
                          "renamed: call it step-00000100 again"),
               "'%s': %s", renamed[i], b.err.text);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(from, sizeof(from), "%s", path_in(&b, i ? other[i - 1] : renamed[0]));
        (void)rename(from, path_in(&b, other[i]));
        bool good = sn_reader_open(&r, path_in(&b, other[i]), &b.err) == SN_OK;
        tap_ok(good, "'%s' names no step, and is opened", other[i]);
        if (good)
            sn_reader_close(&r);
    }
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
    int64_t step = -1;
    (void)sn_store_newest(&step, b.dir, &b.err);
    (void)dup2(copy, 2);
    sn_log_set_level(SN_LOG_ERROR);
    (void)close(copy);
    (void)close(file);
    tap_ok(step == 100 && sn_file_load(&text, &len, path_in(&b, "stderr"), &b.err) == SN_OK &&
               strstr(text,
                      "step-00000200/COMMIT: cannot open: No such file or directory; looking for "
                      "an older checkpoint"),
           "a checkpoint passed over is warned of");
    sn_free(text);
    teardown(&b);
}

/* In a child that leaves with _exit: HDF5 1.10 loses memory when it meets a damaged object header,
 * and LeakSanitizer would tell us so. */
static bool child_says(struct bench *b, bool (*question)(struct bench *b))
{
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(!question(b));
    int how = -1;
    return waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static bool names_lost_tensor(struct bench *b)
{
    return b->saver.load(b->saver.self, 100, &b->state, &b->err) == SN_EIO &&
           strstr(b->err.text, "step-00000100/shard-00000.h5: ") &&
           strstr(b->err.text, "embed.weight");
}

static void a_lost_shard_is_named(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    char shard[256];
    (void)snprintf(shard, sizeof(shard), "%s", path_in(&b, "step-00000100/shard-00000.h5"));
    struct stat sb;
    tap_ok(stat(shard, &sb) == 0 && truncate(shard, 100000) == 0, "a shard is cut");
    (void)b.saver.load(b.saver.self, 100, &b.state, &b.err);
    tap_ok(strstr(b.err.text, "step-00000100/shard-00000.h5: has 100000 bytes where ") &&
               strstr(b.err.text, " were saved; the file was cut or altered, use another "
                                  "checkpoint (reading tensor exp_avg embed.weight)"),
           "a cut shard is named");
    printf("# %s\n", b.err.text);
    tap_ok(truncate(shard, sb.st_size) == 0, "a shard of zeros from there on");
    tap_ok(child_says(&b, names_lost_tensor), "what it lost is named");
    flip(shard, 0);
    load_says(&b, SN_EIO,
              "DIR/step-00000100/shard-00000.h5: is no HDF5 file "
              "(reading tensor exp_avg embed.weight)",
              "a shard that is no HDF5 file is named");
    (void)unlink(shard);
    tap_ok(newest(&b) == 100, "a checkpoint without its shard is still found: resuming must not "
                              "silently start from another");
    load_says(&b, SN_EIO,
              "DIR/step-00000100/shard-00000.h5: cannot open: No such file or directory "
              "(reading tensor exp_avg embed.weight)",
              "a missing shard is named");
    teardown(&b);
}

/* Flips a bit in each seventh byte of what is HDF5's own, loads, and flips it back. */
static bool loads_no_wrong_number(struct bench *b)
{
    bool right = true;
    char shard[256];
    struct sn_state got;
    struct sn_state_tensor t[N];
    (void)snprintf(shard, sizeof(shard), "%s", path_in(b, "step-00000100/shard-00000.h5"));
    make_state(&got, t);
    for (long at = 0; at < 4096; at += 7) {
        flip(shard, at);
        enum sn_status st = b->saver.load(b->saver.self, 100, &got, &b->err);
        for (int i = 0; i < N && st == SN_OK; i++)
            right = right && memcmp(t[i].p, b->tensors[i].p, bytes_of(&t[i])) == 0;
        flip(shard, at);
    }
    free_state(&got);
    return right;
}

static void hdf5_metadata_damage_never_loads_wrong_numbers(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    tap_ok(child_says(&b, loads_no_wrong_number),
           "586 flips in HDF5's own bytes: an error or the right numbers");
    teardown(&b);
}

/* --- another model --------------------------------------------------------------------------- */

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
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100: holds another model: it has 'heads: 4', which the run "
              "file lacks; use another checkpoint.dir, or train.init_from to take only its weights",
              "a line less is named");
    b.state.model_text = "model:\n  family: llama\n  hidden: 64\n  heads: 4\n  mtp: 1\n";
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100: holds another model: it lacks 'mtp: 1', which the run file has; "
              "use another checkpoint.dir, or train.init_from to take only its weights",
              "a line more is named");
    teardown(&b);
}

/* A checkpoint from before a key was there is of the key's default. */
static void a_younger_key_has_its_default(void)
{
    static const char old[] = "model:\n  family: llama\n  layers: 2\n  hidden: 64\n  heads: 4\n"
                              "  ffn: 128\n  vocab: 96\n  seq: 16\n";
    struct sn_manifest m = {.model_text = old};
    struct sn_config c;
    struct sn_str now = {0};
    struct sn_err err = {0};
    enum sn_status st = sn_model_text_parse(&c, old, "old", &err);
    sn_config_format_model(&now, &c);
    tap_ok(st == SN_OK && strstr(now.p, "  activation: silu\n") &&
               sn_look_model(&m, "DIR", now.p, &err) == SN_OK,
           "a checkpoint without a younger key is of its default");
    sn_str_fini(&now);
    c.model.rope_theta = 5e5;
    sn_config_format_model(&now, &c);
    st = sn_look_model(&m, "DIR", now.p, &err);
    tap_text(st == SN_EINPUT ? err.text : "",
             "DIR: holds another model: it has 'rope_theta: 10000' where the run file has "
             "'rope_theta: 500000'; use another checkpoint.dir, or train.init_from to take only "
             "its weights",
             "another value is named");
    sn_str_fini(&now);
}

static void other_tensors_are_refused(void)
{
    struct bench b;
    struct sn_state_shape all[N];
    setup(&b, 0);
    (void)save(&b, 100);
    memcpy(all, shape, sizeof(all));
    b.state.all = all;
    all[2].name = "layers.1.attn.q.weight";
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100: lacks what this run trains, model layers.1.attn.q.weight; want "
              "train.freeze, train.lora and train.prompt as they were, or another "
              "checkpoint.dir, and train.init_from: DIR/step-00000100 to begin with these weights",
              "a missing tensor is named");
    all[2].name = shape[2].name;
    all[2].rows = 161;
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100/manifest.json: tensor model layers.0.attn.q.weight is "
              "160 x 130, but the model's is 161 x 130",
              "another shape is named");
    all[2].rows = shape[2].rows;
    b.state.n_all--;
    load_says(&b, SN_EINPUT,
              "DIR/step-00000100: holds what this run does not train, exp_avg_sq "
              "layers.0.attn.q.weight; want train.freeze, train.lora and train.prompt as they "
              "were, or another checkpoint.dir, and train.init_from: DIR/step-00000100 to begin "
              "with these weights",
              "an extra tensor is named");
    b.state.n_all++;
    b.state.n_tensors--;
    tap_ok(b.saver.load(b.saver.self, 100, &b.state, &b.err) == SN_OK,
           "a tensor that another rank holds is not extra");
    b.state.n_tensors++;
    tap_ok(loads_as(&b, 100, 100), "the right ones load");
    b.tensors[2].name = "a/b";
    tap_ok(save_as_is(&b) == SN_EINPUT, "a name with a slash is refused");
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
    sn_commit_format(commit, fresh, strlen(fresh), 1);
    (void)sn_file_save(path_in(b, "step-00000100/COMMIT"), commit, strlen(commit), &b->err);
    sn_free(text);
    sn_free(fresh);
}

/* What only the shard can tell. */
static void a_manifest_of_another_shard_is_refused(void)
{
    static const struct {
        const char *from, *to, *says;
    } row[] = {
        {"\"bytes\": 76800", "\"at\": [0, 0], \"set\": [301, 64], \"bytes\": 76800",
         "exp_avg/embed.weight is 300 x 64, but the manifest says 301 x 64 (reading tensor "
         "exp_avg "},
        {"/optim/exp_avg/embed.weight", "/optim/exp_avg/embed.weigh",
         "cannot open /optim/exp_avg/embed.weigh"},
        {"/optim/exp_avg/embed.weight", "/optim/exp_avg", "cannot open /optim/exp_avg"},
        {"/optim/exp_avg/embed.weight", "/", "cannot open /"},
        {"/optim/exp_avg/embed.weight", "//", "cannot open /"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct bench b;
        setup(&b, 0);
        (void)save(&b, 100);
        edit_manifest(&b, row[i].from, row[i].to);
        enum sn_status st = b.saver.load(b.saver.self, 100, &b.state, &b.err);
        tap_ok(st == SN_EIO && strstr(b.err.text, row[i].says), "%s: %s", row[i].to, b.err.text);
        teardown(&b);
    }
}

static void strange_manifests_are_explained(void)
{
    static const struct {
        const char *from, *to, *says;
        enum sn_status st;
    } row[] = {
        {"\"schema\": 3", "\"schema\": 4",
         "has schema version 4, but this version of sennit reads 1 to 3; use "
         "the version that wrote it",
         SN_EINPUT},
        {"\"schema\": 3", "\"schema\": 0", "has schema version 0", SN_EINPUT},
        {"\"schema\": 3,", "", "a 'schema' is missing; the file is damaged", SN_EIO},
        {"\"schema\": 3", "\"schema\": 3, \"schema\": 3", "duplicate object key", SN_EIO},
        {"\"step\": 100", "\"step\": \"100\"", "'step' is not a number from 0 up", SN_EIO},
        {"0x1.99999ap-4", "big", "'loss_scale' is 'big', not a number", SN_EIO},
        {"\"loss_scale\"", "\"adapter_scale\": \"nan\", \"loss_scale\"",
         "'adapter_scale' is nan, not a number from 0 on", SN_EIO},
        {"\"shard-00000.h5\"", "\"../x.h5\"", "'../x.h5' is no shard's file name", SN_EIO},
        {"\"shape\": [300", "\"shape\": [301",
         "has 64 of its 19264 values in no piece, the first at row 300, column 0", SN_EIO},
        {"\"shape\": [300", "\"shape\": [299", "not two ranges inside its shape", SN_EIO},
        {"\"shape\": [300", "\"shape\": [-300", "its shape is not two sizes", SN_EIO},
        {"\"shape\": [300, 64]", "\"shape\": [4294967296, 4294967296]", "is no size", SN_EIO},
        {"\"dtype\": \"fp32\"", "\"dtype\": \"fp64\"",
         "has dtype 'fp64'; this version reads fp32, bf16 and fp16", SN_EINPUT},
        {"\"dtype\": \"fp32\"", "\"dtype\": \"bf16\"", "do not belong together", SN_EIO},
        {"\"row\": [0, 300]", "\"row\": [0, 299]", "do not belong together", SN_EIO},
        {"\"row\": [0, 300]", "\"row\": [-1, 299]", "not two ranges inside", SN_EIO},
        {"\"row\": [0, 300]", "\"row\": [1, 0]", "not two ranges inside", SN_EIO},
        {"\"bytes\": 76800", "\"bytes\": 76801", "do not belong together", SN_EIO},
        {"\"shard\": 0", "\"shard\": 1", "do not belong together", SN_EIO},
        {"\"bytes\": 76800, \"xxh3\": \"", "\"bytes\": 76800, \"xxh3\": \"0",
         "not 16 hexadecimal digits for each of 1 ", SN_EIO},
        {"\"master\": {\"bytes\": ", "\"master\": {\"bytes\": -",
         "'bytes' is not a number from 0 up", SN_EIO},
        {"\"block\": ",
         "\"tokenizer\": {\"file\": \"../a\", \"xxh3\": \"0123456789abcdef\", \"vocab\": "
         "1, \"begin\": -1, \"end\": 0}, \"block\": ",
         "'../a' is no name of a tokenizer's file", SN_EIO},
        {"\"block\": ",
         "\"tokenizer\": {\"file\": \"a\", \"xxh3\": \"0123456789abcdef\", \"vocab\": "
         "1, \"begin\": -2, \"end\": 0}, \"block\": ",
         "'begin' is no token", SN_EIO},
        {"\"block\": 1048576", "\"block\": 4095", "a 'block' of 4095 bytes is no multiple", SN_EIO},
        {"\"block\": 1048576", "\"block\": 1073741825", "is no multiple of 4096 up to 1073741824",
         SN_EIO},
        {"\"block\": 1048576", "\"block\": 4096", "digits for each of 19 blocks", SN_EIO},
        {"\"layout\": \"\",", "", "a 'layout' is missing; the file is damaged", SN_EIO},
        {"\"dataset\": \"/", "\"dataset\": \"", "is no name of a dataset", SN_EIO},
        {"\"bytes\": 76800", "\"at\": [0, 0], \"bytes\": 76800", "'at' and 'set' are not", SN_EIO},
        {"\"bytes\": 76800", "\"at\": [1, 0], \"set\": [300, 64], \"bytes\": 76800",
         "are not a place of 300 x 64 values in a dataset", SN_EIO},
        {"\"bytes\": 76800",
         "\"at\": [9223372036854775807, 0], \"set\": [300, 64], \"bytes\": 76800",
         "are not a place", SN_EIO},
        {"\"bytes\": 76800", "\"at\": [0, 0], \"set\": [4294967296, 4294967296], \"bytes\": 76800",
         "are not a place", SN_EIO},
        {"\"name\": \"final_norm.weight\"", "\"name\": \"embed.weight\"",
         "embed.weight is listed twice", SN_EIO},
        {"\"pieces\": [", "\"pieces\": [], \"x\": [", "values in no piece", SN_EIO},
        {"embed.weight\"", "embed\\u001b[2J\"", "a 'name' has the byte 0x1b", SN_EIO},
        {"\"shard-00000.h5\"", "\"shard\\u007f\"",
         "a 'file' has the byte 0x7f, which is no printable ASCII", SN_EIO},
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

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    a_flipped_bit_is_found_by_name();
    a_damaged_manifest_is_passed_over();
    a_renamed_step_is_refused();
    the_warning_is_printed();
    a_lost_shard_is_named();
    hdf5_metadata_damage_never_loads_wrong_numbers();
    another_model_is_refused();
    a_younger_key_has_its_default();
    other_tensors_are_refused();
    a_manifest_of_another_shard_is_refused();
    strange_manifests_are_explained();
    return tap_done();
}
