/*
 * test_config.c - what a run file gives: values, defaults, ranks, and the way back to text.
 *
 * The layout has test_config_layout.c, presets have test_config_include.c; the sentences for bad
 * files are in test_config_errors.c.
 */
#include "lib/config/keys.h"
#include "tests/unit/config/config_place.h"

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
    tap_ok(c.model.activation == SN_GELU && good(p, MODEL TRAIN).model.activation == SN_SILU,
           "the activation is the family's");
    c = good(p, "model: {family: gpt2, layers: 2, hidden: 64, heads: 4, vocab: 256, seq: 8,\n"
                "  activation: gelu}\n" TRAIN);
    tap_ok(c.model.activation == SN_GELU, "unless the run file says another");
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
    tap_ok(c.data.order == SN_ORDER_SEQUENTIAL && c.data.valid.n == 0, "data");
    tap_ok(c.layout.data == 2 && c.layout.bucket == 3 << 19, "layout, a size with a fraction");
}

static void sets_of_data_are_read(const struct place *p)
{
    double w[SN_SETS_MAX];
    struct sn_config c = good(
        p, MODEL "train: {steps: 9, global_batch: 8, eval_every: 3}\n"
                 "data:\n"
                 "  train:\n"
                 "    - {path: x/web.bin, weight: 0.7, valid: x/web-valid}\n"
                 "    - {path: \"y z/tok\", name: code, weight: 3e-1, epochs: 2.5, valid: q}\n"
                 "    - {path: late}\n"
                 "  valid: v/all\n"
                 "  phases: [{from_step: 5, weights: {late: 2, web: 1}}]\n");
    const struct sn_data_sets *t = &c.data.train;
    tap_ok(t->n == 3 && t->is_list && t->set[1].weight == 0.3 && t->set[1].epochs == 2.5 &&
               t->set[2].weight == 0,
           "sets, their weights and limits");
    tap_text(sn_set_name(t, 0), "web", "a name is the path's last part");
    tap_text(sn_set_path(t, 1), "y z/tok", "or its own, beside any path");
    tap_ok(sn_valid_sets(&c.data) == 3 && strcmp(sn_valid_set(&c.data, 0).name, "valid") == 0 &&
               strcmp(sn_valid_set(&c.data, 1).name, "web") == 0 &&
               strcmp(sn_valid_set(&c.data, 2).path, "q") == 0,
           "what is validated is data.valid, and what sets have");
    tap_ok(sn_phase_weights(&c.data, -1, w) && w[0] == 0.7 && w[2] == 0 &&
               sn_phase_weights(&c.data, 0, w) && w[0] == 1 && w[1] == 0 && w[2] == 2,
           "a phase has the weights that it names");
    struct sn_str text = {0};
    sn_config_format(&text, &c);
    struct sn_config back = good(p, text.p);
    tap_ok(memcmp(&back.data, &c.data, sizeof(c.data)) == 0, "what is written is read again");
    sn_str_fini(&text);
}

static void a_decay_is_a_tenth_of_the_steps(const struct place *p)
{
    static const struct {
        const char *text;
        int64_t decay;
    } cases[] = {{"{kind: wsd}", 6},
                 {"{kind: wsd, decay: 40}", 40},
                 {"{kind: wsd, warmup: 58}", 2},
                 {"{kind: wsd, warmup: 60}", 0},
                 {"{kind: cosine}", 0},
                 {"{kind: wsd, warmup: 20, decay: 40}", 40}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text),
                       MODEL "train: {steps: 60, global_batch: 8, schedule: %s}\n", cases[i].text);
        struct sn_config c = good(p, text);
        tap_ok(c.train.schedule.decay == cases[i].decay, "%s of 60 steps: decay %d", cases[i].text,
               (int)cases[i].decay);
    }
}

/* A run file with every section, with what is not built yet at the value that means "off". */
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
             "   drop_duplicates: auto, comm_aware_recompute: false, optimizer_tile: 0,\n"
             "   expert_buffer: 2.0, offload: none, compress: none}\n"
             "checkpoint: {dir: ckpt, every: 100, keep: 2, async: false}\n");
    tap_ok(c.layout.tensor == 1 && c.layout.data == 0, "off is accepted");
}

static void gathered_weights_stay_in_some_layers(const struct place *p)
{
    struct sn_config some = good(p, MODEL TRAIN "layout: {data: 2, zero: 3, zero_cache: 2}\n");
    tap_ok(some.layout.zero_cache == 2 && sn_config_zero_cache(&some) == 2 &&
               some.layout_named >> SN_KEY_ZERO_CACHE & 1u,
           "of two layers, which is named");
    struct sn_config open = good(p, MODEL TRAIN "layout: {data: 2, zero: 3, zero_cache: auto}\n");
    struct sn_str text = {0};
    sn_config_format(&text, &open);
    tap_ok(open.layout.zero_cache == SN_CACHE_AUTO && sn_config_zero_cache(&open) == 0 &&
               !(open.layout_named >> SN_KEY_ZERO_CACHE & 1u),
           "auto is left open: none");
    tap_ok(strstr(text.p, "zero_cache: auto\n") != NULL, "and written so");
    sn_str_fini(&text);
    struct sn_config one = good(p, MODEL TRAIN "layout: {data: 1, zero: 3, zero_cache: 2}\n");
    struct sn_config none = good(p, MODEL TRAIN "layout: {data: 2, zero: 1, zero_cache: auto}\n");
    tap_ok(sn_config_zero_cache(&one) == 0 && sn_config_zero_cache(&none) == 0,
           "none where one replica holds all weights, or all do");
    tap_ok(sn_config_hash(&some) == sn_config_hash(&open),
           "which does not decide what is computed");
}

/* --- the machine ------------------------------------------------------------------------------ */

static void a_machine_is_named_in_short_or_with_its_keys(const struct place *p)
{
    struct sn_config c = good(p, MODEL TRAIN);
    tap_ok(!c.machine.preset[0] && !c.machine.file[0] && c.machine.nodes == 0 &&
               c.machine.memory_fraction == 1 && !c.machine.software.profile[0] &&
               c.machine.software.attention == 0 && c.machine.software.fused_norm == 0,
           "no machine, our own software");
    c = good(p, MODEL TRAIN "machine: lassen\n");
    tap_ok(!strcmp(c.machine.preset, "lassen"), "a name alone is a preset");
    c = good(p, MODEL TRAIN "machine: {preset: lassen, nodes: 48, memory_fraction: 0.9, software: "
                            "megatron-2023}\n");
    tap_ok(!strcmp(c.machine.preset, "lassen") && c.machine.nodes == 48 &&
               c.machine.memory_fraction == 0.9 &&
               !strcmp(c.machine.software.profile, "megatron-2023"),
           "with nodes and a software profile");
    c = good(p, MODEL TRAIN "machine: {file: m.yaml, software: {file: s.yaml, attention: torch, "
                            "fused_norm: false}}\n");
    tap_ok(!strcmp(c.machine.file, "m.yaml") && !strcmp(c.machine.software.file, "s.yaml") &&
               c.machine.software.attention == 4 && c.machine.software.fused_norm == 1,
           "files, with an attention kernel and norms of several kernels");
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
    a.layout_named = b.layout_named = 0; /* the text names every key, in places of its own */
    a.machine.preset_at = b.machine.preset_at = (struct sn_text_place){0};
    a.slurm.site_at = b.slurm.site_at = (struct sn_text_place){0};
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
    check_round_trip(p, "a machine",
                     MODEL TRAIN "machine: {preset: lassen, nodes: 3, memory_fraction: 0.3,\n"
                                 "  software: {file: a b, attention: fused, fused_norm: true}}\n");
    check_round_trip(p, "a decay of no step",
                     MODEL "train: {steps: 3, global_batch: 1, schedule: {kind: wsd, warmup: 3}}");
    check_round_trip(p, "odd names",
                     MODEL "train: {steps: 3, global_batch: 1, precision: fp16, loss_scale: 0.1e1,"
                           " freeze: ['a\"b', '[', 'null', \"\\u20ac\"], eval_every: 1}\n"
                           "data: {train: 'null', valid: '~'}\n");
}

static void hash_ignores_what_decides_no_number(const struct place *p)
{
    struct sn_config a = good(p, MODEL TRAIN);
    uint64_t hash = sn_config_hash(&a);
    struct sn_config b = good(p, MODEL "run: {name: x, output: y, threads: 2, hang_timeout: 9}\n"
                                       "train: {steps: 300, global_batch: 32, eval_every: 3}\n"
                                       "data: {valid: v}\n"
                                       "machine: {preset: lassen, nodes: 2, software: x}\n"
                                       "checkpoint: {every: 5, keep: 1, async: true}\n");
    tap_ok(sn_config_hash(&b) == hash,
           "name, output, threads, time limit, steps, eval, machine, checkpoint: same hash");
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

/* In a run file of its own it gives the same layout. */
static void layout_section_is_formatted_alone(const struct place *p)
{
    struct sn_config a =
        good(p, MODEL TRAIN "layout: {tensor: 2, data: 4, zero: 2, axis_order: [data, tensor, "
                            "context, pipeline]}\n");
    struct sn_str out = {0}, file = {0};
    sn_config_format_layout(&out, &a);
    tap_ok(strncmp(out.p, "layout:\n  data: 4\n  tensor: 2\n", 30) == 0 &&
               !strstr(out.p, "checkpoint") && !strstr(out.p, "train"),
           "the layout section alone");
    sn_str_add(&file, "%s%s", MODEL TRAIN, out.p);
    struct sn_config b = good(p, file.p);
    tap_ok(memcmp(&a.layout, &b.layout, sizeof(a.layout)) == 0, "which is read as the same layout");
    sn_str_fini(&out);
    sn_str_fini(&file);
}

static void checkpoints_are_asynchronous_or_one_file_when_asked(const struct place *p)
{
    struct sn_config c = good(p, MODEL TRAIN);
    tap_ok(!c.checkpoint.async && !c.checkpoint.single_file, "neither unless asked for");
    c = good(p, MODEL TRAIN "checkpoint: {async: true}\n");
    tap_ok(c.checkpoint.async && !c.checkpoint.single_file, "asynchronous");
    c = good(p, MODEL TRAIN "checkpoint: {single_file: true}\n");
    tap_ok(!c.checkpoint.async && c.checkpoint.single_file, "one file");
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
                     (k->type == SN_KEY_RANKING && !k->names) ||
                     (k->type == SN_KEY_INTS && !k->word) ||
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

int main(void)
{
    struct place p = make_place();
    defaults_follow_the_family(&p);
    defaults_are_those_of_the_table(&p);
    values_arrive(&p);
    sets_of_data_are_read(&p);
    a_decay_is_a_tenth_of_the_steps(&p);
    keys_not_built_accept_off(&p);
    gathered_weights_stay_in_some_layers(&p);
    a_machine_is_named_in_short_or_with_its_keys(&p);
    ranks_fill_or_refuse_data(&p);
    format_and_parse_are_inverse(&p);
    hash_ignores_what_decides_no_number(&p);
    model_section_is_formatted_alone(&p);
    layout_section_is_formatted_alone(&p);
    checkpoints_are_asynchronous_or_one_file_when_asked(&p);
    help_mentions_every_key();
    table_rows_are_consistent();
    page_is_up_to_date(&p);
    remove_place(&p);
    return tap_done();
}
