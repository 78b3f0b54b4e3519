/*
 * test_config.c - what a run file gives: values, defaults, presets, inclusions, ranks, and the way
 * back to text. The sentences for bad files are in test_config_errors.c.
 */
#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "lib/config/files.h"
#include "lib/config/keys.h"
#include "tests/lib/tap.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL                                                                                      \
    "model: {family: llama, layers: 4, hidden: 256, heads: 4, ffn: 688, vocab: 256, seq: 128}\n"
#define TRAIN "train: {steps: 200, global_batch: 32}\n"

struct place {
    char share[SN_PATH_MAX]; /* the shipped templates */
    char dir[64];            /* a scratch directory */
};

static enum sn_status parse(const struct place *p, const char *text, struct sn_config *c,
                            struct sn_err *err)
{
    *err = (struct sn_err){0};
    return sn_config_parse(c, text, strlen(text), "run.yaml", p->share, err);
}

/* The configuration of a text that must be good. */
static struct sn_config good(const struct place *p, const char *text)
{
    struct sn_config c = {0};
    struct sn_err err;
    if (parse(p, text, &c, &err) != SN_OK)
        tap_ok(false, "is good: %s", err.text);
    return c;
}

/* `fmt` holds %s for the scratch directory, up to three times. */
__attribute__((format(printf, 2, 0))) static char *at_place(const struct place *p, const char *fmt)
{
    char *text = sn_format(fmt, p->dir, p->dir, p->dir);
    if (!text)
        abort();
    return text;
}

static void write_file(const struct place *p, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static void remove_place(const struct place *p)
{
    char path[512];
    DIR *d = opendir(p->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        (void)snprintf(path, sizeof(path), "%s/%s", p->dir, e->d_name);
        (void)unlink(path); /* "." and ".." refuse, which is right */
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(p->dir);
}

/* --- values and defaults ---------------------------------------------------------------------- */

static void defaults_follow_the_family(const struct place *p)
{
    struct sn_config c = good(p, MODEL TRAIN);
    tap_ok(c.model.kv_heads == 4 && !c.model.tied_embeddings && c.model.rotary_pct == 1 &&
               !c.model.parallel_residual,
           "llama: kv_heads as heads, untied, rotated whole");
    c = good(p,
             "model: {family: gpt2, layers: 2, hidden: 64, heads: 4, vocab: 256, seq: 8}\n" TRAIN);
    tap_ok(c.model.ffn == 256 && c.model.tied_embeddings && c.model.rotary_pct == 0,
           "gpt2: ffn 4 x hidden, tied, nothing rotated");
    c = good(
        p,
        "model: {family: gpt-neox, layers: 2, hidden: 64, heads: 4, vocab: 256, seq: 8}\n" TRAIN);
    tap_ok(c.model.ffn == 256 && !c.model.tied_embeddings && c.model.rotary_pct == 0.25 &&
               c.model.parallel_residual,
           "gpt-neox: ffn 4 x hidden, untied, a quarter rotated, parallel");
}

static void defaults_are_those_of_the_table(const struct place *p)
{
    struct sn_config c = good(p, MODEL TRAIN);
    const struct sn_optimizer_config *o = &c.train.optimizer;
    tap_text(c.run.output, "runs/run", "run.output follows from run.name");
    tap_ok(c.run.seed == 1234 && c.run.threads == 0 && c.run.hang_timeout == 300, "run");
    tap_ok(o->lr == 3e-4 && o->beta1 == 0.9 && o->beta2 == 0.95 && o->eps == 1e-8 &&
               o->weight_decay == 0.1 && o->clip == 1,
           "train.optimizer");
    tap_ok(c.train.schedule.kind == SN_LR_COSINE && c.train.schedule.warmup == 0, "train.schedule");
    tap_ok(c.train.precision == SN_F32 && c.train.loss_scale == 0 && c.train.n_freeze == 0 &&
               !c.train.init_from[0] && c.train.eval_every == 0 && c.train.eval_sequences == 64,
           "train");
    tap_ok(c.layout.data == 0 && c.layout.tensor == 1 && c.layout.pipeline == 1 &&
               c.layout.expert == 1 && c.layout.context == 1 && c.layout.micro_batch == 1 &&
               c.layout.zero == 0 && c.layout.bucket == 25 << 20,
           "layout");
    tap_ok(!strcmp(c.checkpoint.dir, "ckpt") && c.checkpoint.every == 100 && c.checkpoint.keep == 2,
           "checkpoint");
}

static void values_arrive(const struct place *p)
{
    struct sn_config c =
        good(p, MODEL "run: {name: a b, seed: 9223372036854775807, threads: 3}\n"
                      "train: {steps: 7, global_batch: 8, precision: fp16, loss_scale: 65536,\n"
                      "  freeze: ['*.norm?.*', \"\\u00e9\"], schedule: {kind: linear, warmup: 7}}\n"
                      "data: {train: x/y, order: sequential}\n"
                      "layout: {data: 2, micro_batch: 4, bucket: 1.5 MiB}\n");
    tap_text(c.run.name, "a b", "a name");
    tap_ok(c.run.seed == INT64_MAX && c.run.threads == 3, "the largest seed");
    tap_ok(c.train.precision == SN_F16 && c.train.loss_scale == 65536, "precision and loss scale");
    tap_ok(c.train.n_freeze == 2, "two names to freeze");
    tap_text(c.train.freeze[0], "*.norm?.*", "the first");
    tap_text(c.train.freeze[1], "\xc3\xa9", "the second");
    tap_ok(c.train.schedule.kind == SN_LR_LINEAR && c.train.schedule.warmup == 7, "schedule");
    tap_ok(c.data.order == SN_ORDER_SEQUENTIAL && !c.data.valid[0], "data");
    tap_ok(c.layout.data == 2 && c.layout.bucket == 3 << 19, "layout, a size with a fraction");
}

/* DESIGN.md's own run file, with what is not built yet at the value that means "off". */
static void keys_not_built_accept_off(const struct place *p)
{
    struct sn_config c =
        good(p, MODEL TRAIN
             "data: {train: data/demo, valid: null, order: shuffled}\n"
             "layout:\n"
             "  {data: null, tensor: 1, pipeline: 1, expert: 1, expert_tensor: null, context: 1,\n"
             "   micro_batch: 1, virtual_stages: 1, sequence_parallel: true, schedule: 1f1b,\n"
             "   recompute: none, zero: 0, context_kind: ring, split: auto,\n"
             "   axis_order: [tensor, context, expert, data, pipeline], bucket: 25MiB,\n"
             "   drop_duplicates: false, comm_aware_recompute: false, optimizer_tile: 0,\n"
             "   expert_buffer: 2.0, offload: none, compress: none}\n"
             "checkpoint: {dir: ckpt, every: 100, keep: 2, async: false}\n");
    tap_ok(c.layout.tensor == 1 && c.layout.data == 0, "off is accepted");
}

/* --- presets and inclusions ------------------------------------------------------------------- */

/* Published parameter counts, from the dimensions alone. */
static int64_t count(const struct sn_model_config *m)
{
    int64_t D = m->hidden, F = m->ffn, V = m->vocab, L = m->layers;
    int64_t kv = D / m->heads * m->kv_heads, head = m->tied_embeddings ? 0 : V * D;
    if (m->family == SN_LLAMA)
        return V * D + head + D + L * (2 * D * D + 2 * D * kv + 3 * D * F + 2 * D);
    int64_t block = 3 * D * D + 3 * D + D * D + D + 2 * D * F + F + D + 4 * D;
    return V * D + head + 2 * D + L * block + (m->family == SN_GPT2 ? (int64_t)m->seq * D : 0);
}

static void presets_have_the_published_sizes(const struct place *p)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } all[] = {
        {"gpt2-124m", 124439808},    {"gpt2-350m", 354823168},    {"gpt2-774m", 774030080},
        {"gpt2-1.5b", 1557611200},   {"pythia-160m", 162322944},  {"pythia-1b", 1011781632},
        {"pythia-6.9b", 6857302016}, {"pythia-12b", 11846072320}, {"llama-tiny", 3295488},
        {"llama-1b", 1100048384},    {"llama-7b", 6738415616},    {"llama-13b", 13015864320},
        {"llama-30b", 32528943616},  {"llama-65b", 65285660672},  {"llama3-8b", 8030261248},
        {"llama3-70b", 70553706496},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "model: {preset: %s}\n" TRAIN, all[i].name);
        struct sn_config c = good(p, text);
        if (!tap_ok(count(&c.model) == all[i].parameters, "%s has %lld parameters", all[i].name,
                    (long long)all[i].parameters))
            printf("#  got %lld\n", (long long)count(&c.model));
    }
}

static void keys_beside_override(const struct place *p)
{
    struct sn_config c = good(p, "model: {seq: 64, preset: llama-tiny, layers: 2}\n" TRAIN);
    tap_ok(c.model.seq == 64 && c.model.layers == 2 && c.model.hidden == 256,
           "keys beside a preset override it, before and after");
    c = good(p, "preset: example\ntrain: {optimizer: {lr: 1e-3}}\n");
    tap_ok(c.train.optimizer.lr == 1e-3 && c.train.steps == 200 && c.train.schedule.warmup == 20,
           "a whole run file can be a preset, and a nested key overrides it alone");
}

static void files_are_pulled_in(const struct place *p)
{
    struct sn_config c;
    struct sn_err err;
    write_file(p, "model.yaml", "{preset: llama-tiny, seq: 32}\n");
    write_file(p, "other-run.yaml", "run: {seed: 5}\nmodel: {preset: llama-tiny, seq: 16}\n" TRAIN);
    char *own = at_place(p, "model: {file: %s/model.yaml, layers: 3}\n" TRAIN);
    char *part = at_place(p, "model: {file: %s/other-run.yaml}\n" TRAIN);
    char *whole = at_place(p, "file: %s/other-run.yaml\n");
    c = good(p, own);
    tap_ok(c.model.seq == 32 && c.model.layers == 3, "a file with a section's keys");
    c = good(p, part);
    tap_ok(c.model.seq == 16 && c.run.seed == 1234, "a section of another run file");
    c = good(p, whole);
    tap_ok(c.model.seq == 16 && c.run.seed == 5, "another run file");
    c = good(p, "preset: example\nmodel: {preset: gpt2-124m}\n");
    tap_ok(c.model.family == SN_GPT2 && c.model.ffn == 3072 && c.train.schedule.warmup == 20,
           "a section that starts from a preset takes nothing of the including file's section");
    write_file(p, "model.yaml", "layers: 4\nhiden: 3\n");
    (void)parse(p, own, &c, &err);
    char *want =
        at_place(p, "%s/model.yaml:2:1: unknown key 'model.hiden'; did you mean 'model.hidden'?");
    tap_text(err.text, want, "an error in an included file names that file");
    sn_free(own);
    sn_free(part);
    sn_free(whole);
    sn_free(want);
}

static void cycles_and_depth_are_refused(const struct place *p)
{
    struct sn_config c;
    struct sn_err err;
    char *text = at_place(p, "file: %s/a.yaml\n"), name[32], line[128];
    char *b = at_place(p, "file: %s/b.yaml\n");
    write_file(p, "a.yaml", b);
    write_file(p, "b.yaml", text);
    (void)parse(p, text, &c, &err);
    tap_ok(strstr(err.text, "/b.yaml:1:7: file: '") &&
               strstr(err.text, "a.yaml' includes itself; "
                                "remove one of the inclusions"),
           "a cycle of files is refused");
    write_file(p, "b.yaml", b);
    (void)sn_config_load(&c, strchr(b, '/'), p->share, &err); /* no such file: ends in a newline */
    tap_ok(strstr(err.text, "cannot be opened: No such file") != NULL, "a missing file is named");
    for (int i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof(name), "d%d.yaml", i);
        (void)snprintf(line, sizeof(line), "file: %s/d%d.yaml\n", p->dir, i + 1);
        write_file(p, name, line);
    }
    (void)snprintf(line, sizeof(line), "%s/d0.yaml", p->dir);
    tap_ok(sn_config_load(&c, line, p->share, &err) == SN_EINPUT, "too deep is refused");
    tap_ok(strstr(err.text, "/d4.yaml:1:7: file: '") &&
               strstr(err.text, "' is more than 4 files deep; include fewer"),
           "with this sentence");
    sn_free(text);
    sn_free(b);
}

static void a_file_that_includes_itself_is_refused(const struct place *p)
{
    struct sn_config c;
    struct sn_err err = {0};
    char path[128];
    char *text = at_place(p, "file: %s/self.yaml\n");
    write_file(p, "self.yaml", text);
    (void)snprintf(path, sizeof(path), "%s/self.yaml", p->dir);
    (void)sn_config_load(&c, path, p->share, &err);
    char *want =
        at_place(p, "%s/self.yaml:1:7: file: '%s/self.yaml' includes itself; remove one of "
                    "the inclusions");
    tap_text(err.text, want, "a file that includes itself is refused");
    sn_free(text);
    sn_free(want);
}

/* --- config.json ------------------------------------------------------------------------------ */

static void config_json_is_read(const struct place *p)
{
    char *text = at_place(p, "model: {config: %s/config.json, seq: 99}\n" TRAIN);
    write_file(
        p, "config.json",
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 3,\n"
        " \"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"intermediate_size\": 96,\n"
        " \"vocab_size\": 500, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05,\n"
        " \"rope_theta\": 500000.0, \"rope_scaling\": null, \"tie_word_embeddings\": true,\n"
        " \"torch_dtype\": \"bfloat16\", \"architectures\": [\"LlamaForCausalLM\"]}\n");
    struct sn_model_config m = good(p, text).model;
    tap_ok(m.family == SN_LLAMA && m.hidden == 64 && m.layers == 3 && m.heads == 8 &&
               m.kv_heads == 2 && m.ffn == 96 && m.vocab == 500 && m.seq == 99 &&
               m.norm_eps == 1e-5 && m.rope_theta == 5e5 && m.tied_embeddings && m.dropout == 0,
           "llama's config.json, with a key beside it");
    write_file(p, "config.json", "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_inner\": null}");
    m = good(p, text).model;
    tap_ok(m.family == SN_GPT2 && m.layers == 2 && m.hidden == 768 && m.ffn == 3072 &&
               m.vocab == 50257 && m.dropout == 0.1 && m.tied_embeddings,
           "gpt2's config.json, with that library's defaults");
    write_file(
        p, "config.json",
        "{\"model_type\": \"gpt_neox\", \"hidden_size\": 64, \"num_hidden_layers\": 3,\n"
        " \"num_attention_heads\": 2, \"intermediate_size\": 256, \"vocab_size\": 500,\n"
        " \"use_parallel_residual\": false, \"rotary_emb_base\": 10000,\n"
        " \"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}}\n");
    m = good(p, text).model;
    tap_ok(m.family == SN_GPT_NEOX && !m.parallel_residual && m.rotary_pct == 0.5 &&
               !m.tied_embeddings,
           "gpt_neox's config.json");
    sn_free(text);
}

static void config_json_is_refused_by_name(const struct place *p)
{
#define LLAMA                                                                                      \
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "                  \
    "\"num_attention_heads\": 8, \"intermediate_size\": 96, \"vocab_size\": 500"
    static const char *const cases[][2] = {
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}",
         "rope_scaling: this object is not supported; want null"},
        {LLAMA ", \"attention_bias\": true}", "attention_bias: true is not supported; want false"},
        {LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act: gelu is not supported; want silu"},
        {LLAMA ", \"head_dim\": 16}",
         "head_dim: 16 is not supported; want hidden_size / num_attention_heads (8)"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"yarn\"}}",
         "rope_parameters.rope_type: yarn is not supported; want default"},
        {LLAMA ", \"max_position_embeddings\": \"many\"}",
         "model.seq: got the text 'many'; want a whole number in 1..16777216 tokens"},
        {LLAMA ", \"num_key_value_heads\": 3}",
         "model.kv_heads: 3 does not divide model.heads (8); nearest that do: 2 or 4"},
        {"{\"model_type\": \"llama\"}",
         "num_hidden_layers is missing; want a complete config.json"},
        {"{\"model_type\": \"bert\"}",
         "model_type: 'bert' is not supported; want gpt2, gpt_neox or llama"},
        {"{}", "no model_type; want a Hugging Face config.json"},
        {"[]", "no model_type; want a Hugging Face config.json"},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": 0.0}",
         "attn_pdrop: 0 differs from resid_pdrop (0.1); want one dropout"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}",
         "activation_function: relu is not supported; want gelu_new"},
    };
    char *text = at_place(p, "model: {config: %s/config.json}\n" TRAIN);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sn_config c;
        struct sn_err err;
        char want[512];
        write_file(p, "config.json", cases[i][0]);
        (void)snprintf(want, sizeof(want), "%s/config.json: %s", p->dir, cases[i][1]);
        (void)parse(p, text, &c, &err);
        tap_text(err.text, want, cases[i][1]);
    }
    sn_free(text);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void ranks_fill_or_refuse_data(const struct place *p)
{
    static const struct {
        const char *layout;
        int ranks, data;
        const char *want;
    } cases[] = {
        {"", 1, 1, ""},
        {"", 8, 8, ""},
        {"layout: {data: 4}\n", 4, 4, ""},
        {"layout: {micro_batch: 8}\n", 4, 4, ""},
        {"", 0, 0, "run.yaml: 0 ranks; want at least 1"},
        {"", 3, 0,
         "run.yaml: 3 ranks make layout.data 3, but train.global_batch (32) is not a multiple of "
         "data "
         "x micro_batch (3 x 1); start 2 or 4 ranks, or use global_batch 30 or 33"},
        {"", 40, 0,
         "run.yaml: 40 ranks make layout.data 40, but train.global_batch (32) is not a multiple of "
         "data x micro_batch (40 x 1); start 32 ranks, or use global_batch 40"},
        {"layout: {data: 2}\n", 4, 2,
         "run.yaml: layout.data 2 x tensor 1 x context 1 x pipeline 1 is 2 ranks, but the job has "
         "4; "
         "start 2 or use layout.data: 4"},
        {"layout: {data: 2}\n", 3, 2,
         "run.yaml: layout.data 2 x tensor 1 x context 1 x pipeline 1 is 2 ranks, but the job has "
         "3; "
         "start 2, or leave layout.data out and start 2 or 4 ranks"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        struct sn_err err = {0};
        (void)snprintf(text, sizeof(text), MODEL TRAIN "%s", cases[i].layout);
        struct sn_config c = good(p, text);
        enum sn_status st = sn_config_resolve_ranks(&c, cases[i].ranks, &err);
        tap_ok(st == (*cases[i].want ? SN_EINPUT : SN_OK) && c.layout.data == cases[i].data,
               "%d ranks", cases[i].ranks);
        tap_text(err.text, cases[i].want, *cases[i].want ? cases[i].want : "fit");
    }
}

/* --- back to text ----------------------------------------------------------------------------- */

static void check_round_trip(const struct place *p, const char *what, const char *text)
{
    struct sn_config a = good(p, text);
    struct sn_str out = {0};
    sn_config_format(&out, &a);
    struct sn_config b = good(p, out.p);
    tap_ok(memcmp(&a, &b, sizeof(a)) == 0, "round trip of %s", what);
    tap_ok(sn_config_hash(&a) == sn_config_hash(&b), "with the same hash");
    sn_str_fini(&out);
}

static void format_and_parse_are_inverse(const struct place *p)
{
    check_round_trip(p, "the example", "preset: example\n");
    check_round_trip(p, "a gpt2", "model: {preset: gpt2-124m}\n" TRAIN);
    check_round_trip(
        p, "a pythia",
        "model: {preset: pythia-12b, rotary_pct: 0.3333333333333333, init_std: 0.1}\n" TRAIN);
    check_round_trip(p, "odd texts",
                     MODEL TRAIN "layout: {data: 4, micro_batch: 2, bucket: 4097}\n"
                                 "run: {name: 'a \"b\" \\ # c: d', output: ' x '}\n");
    check_round_trip(p, "odd names",
                     MODEL "train: {steps: 3, global_batch: 1, precision: fp16, loss_scale: 0.1e1,"
                           " freeze: ['a\"b', '[', 'null', \"\\u20ac\"], eval_every: 1}\n"
                           "data: {train: 'null', valid: '~'}\n");
}

static void hash_ignores_what_decides_no_number(const struct place *p)
{
    struct sn_config a = good(p, MODEL TRAIN);
    uint64_t hash = sn_config_hash(&a);
    struct sn_config b = good(p, MODEL "run: {name: x, output: y, threads: 2}\n"
                                       "train: {steps: 300, global_batch: 32, eval_every: 3}\n"
                                       "data: {valid: v}\ncheckpoint: {every: 5, keep: 1}\n");
    tap_ok(sn_config_hash(&b) == hash, "name, output, threads, steps, eval, checkpoint: same hash");
    b = good(p, MODEL TRAIN "run: {seed: 1235}\n");
    tap_ok(sn_config_hash(&b) != hash, "another seed: another hash");
    b = good(p, MODEL TRAIN "layout: {data: 2}\n");
    tap_ok(sn_config_hash(&b) != hash, "another layout: another hash");
    b = good(p, MODEL TRAIN "data: {train: x}\n");
    tap_ok(sn_config_hash(&b) != hash, "other data: another hash");
}

static void model_section_is_formatted_alone(const struct place *p)
{
    struct sn_config a = good(p, MODEL TRAIN);
    struct sn_str out = {0};
    sn_config_format_model(&out, &a);
    tap_ok(strncmp(out.p, "model:\n  family: llama\n  layers: 4\n", 35) == 0 &&
               !strstr(out.p, "train"),
           "the model section alone");
    sn_str_fini(&out);
}

/* --- the table and its page ------------------------------------------------------------------- */

static void help_mentions_every_key(void)
{
    struct sn_str text = {0}, page = {0};
    sn_config_help(&text, false);
    sn_config_help(&page, true);
    int missing = 0;
    for (int i = 0; i < sn_n_keys; i++) {
        char row[128];
        (void)snprintf(row, sizeof(row), "| `%s` |", sn_keys[i].name);
        bool section = sn_keys[i].type == SN_KEY_MAP;
        missing += !section && (!strstr(text.p, sn_keys[i].name) || !strstr(page.p, row));
        missing += !sn_keys[i].sentence;
    }
    tap_ok(missing == 0, "help and page mention each of %d keys", sn_n_keys);
    sn_str_fini(&text);
    sn_str_fini(&page);
}

static void table_rows_are_consistent(void)
{
    int bad = 0;
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        union sn_scratch at;
        bool kept = k->offset != SN_NOWHERE;
        bool wrong = (k->decides && !kept) || sn_key_find(k->name, strlen(k->name)) != i ||
                     (k->type == SN_KEY_ENUM && !k->names) ||
                     (k->value && sn_key_parse_default(k, &at) != SN_OK);
        if (wrong)
            printf("#  row %s\n", k->name);
        bad += wrong;
    }
    tap_ok(bad == 0, "each row is found by its name and its default is good");
}

static void page_is_up_to_date(const struct place *p)
{
    char path[SN_PATH_MAX + 32];
    char *text = NULL;
    size_t len = 0;
    struct stat id;
    struct sn_err err = {0};
    struct sn_str page = {0};
    (void)snprintf(path, sizeof(path), "%s/../docs/RUNFILE.md", p->share);
    sn_config_help(&page, true);
    enum sn_status st = sn_file_read(&text, &len, &id, path, &err);
    if (!tap_ok(st == SN_OK && !strcmp(text, page.p), "docs/RUNFILE.md is what the table says"))
        printf("#  run: make docs (sennit-plan --help-keys=markdown > docs/RUNFILE.md)\n");
    sn_free(text);
    sn_str_fini(&page);
}

/* --- no memory -------------------------------------------------------------------------------- */

static void no_memory_is_reported(const struct place *p)
{
    struct sn_config c;
    struct sn_err err;
    write_file(p, "config.json",
               "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 3,\n"
               " \"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 500}");
    char *text = at_place(p, "file: %s/base.yaml\nmodel: {config: %s/config.json}\n" TRAIN);
    write_file(p, "base.yaml", "preset: example\ntrain: {freeze: [a, b]}\n");
    enum sn_status st = SN_ENOMEM;
    int n = 0, other = 0;
    while (st != SN_OK && n < 10000) {
        sn_mem_fail_at((uint64_t)++n);
        st = parse(p, text, &c, &err);
        sn_mem_fail_at(0);
        other += st != SN_OK && (st != SN_ENOMEM || !strstr(err.text, "no memory"));
    }
    tap_ok(st == SN_OK && n > 100 && !other, "each of %d allocations may fail", n - 1);
    struct sn_str out = {0};
    sn_mem_fail_at(1);
    sn_config_format(&out, &c);
    sn_mem_fail_at(0);
    tap_ok(out.failed, "a text that did not fit says so");
    sn_str_fini(&out);
    sn_free(text);
}

int main(void)
{
    struct place p = {.dir = "/tmp/test_config.XXXXXX"};
    struct sn_err err = {0};
    if (!mkdtemp(p.dir) || sn_share_find(p.share, sizeof(p.share), &err) != SN_OK)
        abort();
    defaults_follow_the_family(&p);
    defaults_are_those_of_the_table(&p);
    values_arrive(&p);
    keys_not_built_accept_off(&p);
    presets_have_the_published_sizes(&p);
    keys_beside_override(&p);
    files_are_pulled_in(&p);
    cycles_and_depth_are_refused(&p);
    a_file_that_includes_itself_is_refused(&p);
    config_json_is_read(&p);
    config_json_is_refused_by_name(&p);
    ranks_fill_or_refuse_data(&p);
    format_and_parse_are_inverse(&p);
    hash_ignores_what_decides_no_number(&p);
    model_section_is_formatted_alone(&p);
    help_mentions_every_key();
    table_rows_are_consistent();
    page_is_up_to_date(&p);
    no_memory_is_reported(&p);
    remove_place(&p);
    return tap_done();
}
