/* Looking at a checkpoint: the table for people, the object for programs. */
#include "checkpoint/convert/inspect.h"
#include "checkpoint/store/store.h"
#include "tests/lib/checkpoint_test.h"

#include <sys/stat.h>

/* The text with DIR for the folder. */
static const char *inspect(struct bench *b, struct sn_str *out, const char *path, bool json)
{
    sn_str_fini(out);
    if (sn_inspect(out, path, json, &b->err) != SN_OK)
        return b->err.text;
    for (char *at; (at = strstr(out->p, b->dir));) {
        size_t dir = strlen(b->dir);
        memcpy(at, "DIR", 3);
        memmove(at + 3, at + dir, strlen(at + dir) + 1);
    }
    return out->p;
}

/* HDF5 decides how long a shard is. */
static int64_t shard_bytes(struct bench *b)
{
    struct stat sb;
    return stat(path_in(b, "step-00000100/shard-00000.h5"), &sb) == 0 ? (int64_t)sb.st_size : -1;
}

static void people_get_a_table(void)
{
    struct bench b;
    struct sn_str out = {0};
    char want[2048], size[16];
    setup(&b, 0);
    b.state.layout_text = "layout:\n  tensor: 2\n  zero: 1\n";
    (void)save(&b, 100);
    (void)snprintf(want, sizeof(want),
                   "checkpoint  DIR/step-00000100\n"
                   "step        100, 1234567890100 tokens seen\n"
                   "model       family: llama, hidden: 64, heads: 4\n"
                   "layout      tensor: 2, zero: 1\n"
                   "parameters  40064\n"
                   "tensors     7 in 7 pieces, 307 KiB\n"
                   "shards      1, %s\n"
                   "schema      3, a hash for each 1.00 MiB\n"
                   "\n"
                   "group       name                        shape  dtype  pieces        size\n"
                   "exp_avg     embed.weight             300 x 64  fp32        1   75.00 KiB\n"
                   "exp_avg     final_norm.weight              64  fp32        1       256 B\n"
                   "exp_avg_sq  embed.weight             300 x 64  fp32        1   75.00 KiB\n"
                   "exp_avg_sq  layers.0.attn.q.weight      1 x 3  fp32        1        12 B\n"
                   "model       embed.weight             300 x 64  fp32        1   75.00 KiB\n"
                   "model       final_norm.weight              64  fp32        1       256 B\n"
                   "model       layers.0.attn.q.weight  160 x 130  fp32        1   81.25 KiB\n",
                   sn_str_bytes(size, shard_bytes(&b)));
    tap_text(inspect(&b, &out, b.dir, false), want, "a header and a line a tensor");
    tap_text(inspect(&b, &out, path_in(&b, "step-00000100"), false), want,
             "the same by its own name");
    sn_str_fini(&out);
    teardown(&b);
}

static void programs_get_an_object(void)
{
    struct bench b;
    struct sn_str out = {0};
    char want[1024];
    setup(&b, 0);
    b.state.layout_text = "layout:\n  tensor: 2\n";
    (void)save(&b, 100);
    long long bytes = (long long)shard_bytes(&b);
    (void)snprintf(want, sizeof(want),
                   "{\n"
                   "  \"checkpoint\": \"DIR/step-00000100\",\n"
                   "  \"schema\": 3,\n"
                   "  \"step\": 100,\n"
                   "  \"tokens\": 1234567890100,\n"
                   "  \"adam_count\": 99,\n"
                   "  \"scale_age\": 3,\n"
                   "  \"skipped\": 1,\n"
                   "  \"loss_scale\": 0.100000001,\n"
                   "  \"model\": \"model:\\n  family: llama\\n  hidden: 64\\n  heads: 4\\n\",\n"
                   "  \"layout\": \"layout:\\n  tensor: 2\\n\",\n"
                   "  \"config_hash\": \"0000000000000007\",\n"
                   "  \"parameters\": 40064,\n"
                   "  \"bytes\": 314124,\n"
                   "  \"file_bytes\": %lld,\n"
                   "  \"block\": 1048576,\n"
                   "  \"shards\": [\n"
                   "    {\"file\": \"shard-00000.h5\", \"bytes\": %lld}],\n"
                   "  \"tensors\": [\n"
                   "    {\"group\": \"exp_avg\", \"name\": \"embed.weight\", \"shape\": [300, 64], "
                   "\"dtype\": \"fp32\", \"bytes\": 76800, \"pieces\": [\n"
                   "      {\"row\": [0, 300], \"col\": [0, 64], \"shard\": 0, \"dataset\": "
                   "\"/optim/exp_avg/embed.weight\", \"blocks\": 1}]},\n",
                   bytes, bytes);
    const char *text = inspect(&b, &out, b.dir, true);
    if (!tap_ok(strncmp(text, want, strlen(want)) == 0, "with everything but the hashes"))
        printf("# got: %s\n# want: %s\n", text, want);
    const char *end = "      {\"row\": [0, 160], \"col\": [0, 130], \"shard\": 0, \"dataset\": "
                      "\"/model/layers.0.attn.q.weight\", \"blocks\": 1}]}]\n}\n";
    tap_text(text + strlen(text) - strlen(end), end, "to the last piece");
    sn_str_fini(&out);
    teardown(&b);
}

static void what_is_no_checkpoint_is_told(void)
{
    struct bench b;
    struct sn_str out = {0};
    setup(&b, 0);
    (void)save(&b, 100);
    tap_ok(strstr(inspect(&b, &out, b.root, false),
                  ": holds no checkpoint; want a directory with manifest.json and COMMIT, or one "
                  "with directories step-00000100"),
           "a directory without any");
    (void)unlink(path_in(&b, "step-00000100/COMMIT"));
    tap_ok(strstr(inspect(&b, &out, path_in(&b, "step-00000100"), false),
                  "/COMMIT: cannot open: No such file or directory"),
           "a checkpoint without its COMMIT");
    (void)save(&b, 50);
    tap_ok(strstr(inspect(&b, &out, b.dir, false), "checkpoint  DIR/step-00000050\n"),
           "of several, the newest whole one is shown");
    sn_str_fini(&out);
    teardown(&b);
}

/* The terminal is not the file's to command. */
static void control_characters_do_not_reach_the_table(void)
{
    struct bench b;
    struct sn_str out = {0};
    setup(&b, 0);
    b.state.model_text = "model:\n  family: \033[2J\n  hidden: 64\n";
    (void)save(&b, 100);
    const char *text = inspect(&b, &out, b.dir, false);
    tap_ok(strstr(text, "model       family: ?[2J, hidden: 64\n") && !strchr(text, '\033'),
           "they are shown as '?'");
    text = inspect(&b, &out, b.dir, true);
    tap_ok(strstr(text, "family: \\u001b[2J\\n") && !strchr(text, '\033'), "and escaped in JSON");
    sn_str_fini(&out);
    teardown(&b);
}

static void every_allocation_may_fail(void)
{
    struct bench b;
    setup(&b, 0);
    (void)save(&b, 100);
    for (int json = 0; json < 2; json++) {
        int failed = 0;
        bool good = true, done = false;
        for (uint64_t n = 1; !done; n++) {
            struct sn_str out = {0};
            sn_mem_fail_at(n);
            enum sn_status st = sn_inspect(&out, b.dir, json, &b.err);
            sn_mem_fail_at(0);
            done = st == SN_OK;
            failed += !done;
            good = good && (done || st == SN_ENOMEM);
            sn_str_fini(&out);
        }
        tap_ok(good && failed > 5, "%d allocations fail in turn, each with a sentence", failed);
    }
    teardown(&b);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    people_get_a_table();
    programs_get_an_object();
    what_is_no_checkpoint_is_told();
    control_characters_do_not_reach_the_table();
    every_allocation_may_fail();
    return tap_done();
}
