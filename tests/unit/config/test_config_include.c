/*
 * test_config_include.c - run files that start from presets, other files or a Hugging Face
 * config.json, and what happens when there is no memory for them.
 */
#include "tests/unit/config/config_place.h"

/* --- presets and inclusions ------------------------------------------------------------------- */

/* Those of a model of latents, whose first layers are dense. */
static int64_t count_of_latents(const struct sn_model_config *m)
{
    const struct sn_latent_config *a = &m->latent;
    int64_t D = m->hidden, E = m->experts.count, H = m->heads, dense = m->experts.from;
    int64_t q = H * (a->nope + a->rope), kv = H * (a->nope + a->v);
    int64_t block = 2 * D + D * H * a->v + D * (a->kv + a->rope) + a->kv + a->kv * kv;
    block += a->q > 0 ? D * a->q + a->q + a->q * q : D * q;
    int64_t moe = 3 * D * m->ffn * (E + m->experts.shared) + D * E;
    moe += m->experts.bias == SN_BIAS_NONE ? 0 : E;
    return 2 * D * m->vocab + D + m->layers * block + dense * 3 * D * m->dense_ffn +
           (m->layers - dense) * moe;
}

/* Published parameter counts, from the dimensions alone. */
/* Weights of a model, counted by hand. */
static int64_t count(const struct sn_model_config *m)
{
    const struct sn_traits *t = sn_family_traits(m->family);
    if (t->latents)
        return count_of_latents(m);
    int64_t D = m->hidden, F = m->ffn, V = m->vocab, L = m->layers, E = m->experts.count;
    int64_t width = m->head_dim > 0 ? m->head_dim : D / m->heads;
    int64_t q = width * m->heads, kv = width * m->kv_heads;
    int64_t norm = t->norm == SN_LAYERNORM ? 2 * D : D, head = m->tied_embeddings ? 0 : V * D;
    int64_t ffn = (t->gated ? 3 : 2) * D * F,
            block = 2 * D * q + 2 * D * kv + (t->norm_at == SN_NORM_AROUND ? 4 : 2) * norm;
    block += E > 0 ? E * (ffn + D) : ffn;
    block += 3 * D * (m->experts.shared_ffn > 0 ? m->experts.shared_ffn : m->experts.shared * F);
    block += t->shared_gate ? D : 0;
    block += t->biases & SN_LINEAR_QKV ? q + 2 * kv : 0;
    block += t->biases & SN_LINEAR_O ? F + 2 * D : 0; /* and those of the feed-forward part */
    block += t->head_norms ? 2 * width : 0;
    block += t->wide_norms ? q + kv : 0;
    return V * D + head + norm + L * block + (t->positions == SN_LEARNED ? (int64_t)m->seq * D : 0);
}

static void presets_have_the_published_sizes(const struct place *p)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } all[] = {
        {"gpt2-124m", 124439808},          {"gpt2-350m", 354823168},
        {"gpt2-774m", 774030080},          {"gpt2-1.5b", 1557611200},
        {"pythia-160m", 162322944},        {"pythia-1b", 1011781632},
        {"pythia-6.9b", 6857302016},       {"pythia-12b", 11846072320},
        {"gpt-neox-20b", 20554567680},     {"llama-tiny", 3295488},
        {"llama-1b", 1100048384},          {"llama-7b", 6738415616},
        {"llama-13b", 13015864320},        {"llama-30b", 32528943616},
        {"llama-65b", 65285660672},        {"llama3-8b", 8030261248},
        {"llama3-70b", 70553706496},       {"mixtral-8x7b", 46702792704},
        {"olmo2-7b", 7298617344},          {"olmo2-13b", 13716198400},
        {"qwen2-0.5b", 494032768},         {"qwen2.5-7b", 7615616512},
        {"llama3.1-8b", 8030261248},       {"llama3.1-70b", 70553706496},
        {"llama3.1-405b", 405853388800},   {"llama3.2-1b", 1235814400},
        {"llama3.2-3b", 3212749824},       {"mistral-7b", 7241732096},
        {"mistral-nemo-12b", 12247782400}, {"qwen2.5-1.5b", 1543714304},
        {"qwen2.5-3b", 3085938688},        {"qwen2.5-14b", 14770033664},
        {"qwen2.5-32b", 32763876352},      {"qwen2.5-72b", 72706203648},
        {"qwen3-0.6b", 596049920},         {"qwen3-1.7b", 1720574976},
        {"qwen3-4b", 4022468096},          {"qwen3-8b", 8190735360},
        {"qwen3-14b", 14768307200},        {"qwen3-32b", 32762123264},
        {"qwen3-30b-a3b", 30532122624},    {"qwen3-235b-a22b", 235093634560},
        {"deepseek-v2-lite", 15706484224},  {"deepseek-v2", 235741434880},
        {"deepseek-v3", 671026419200},
        {"qwen1.5-moe-a2.7b", 14315784192}, {"qwen2-57b-a14b", 57408658944},
        {"smollm3-3b", 3075098624},        {"phi3-mini", 3821079552},
        {"starcoder2-3b", 3030371328},     {"starcoder2-7b", 7173923840},
        {"granite3.1-8b", 8170848256},     {"gemma2-2b", 2614341888},
        {"gemma2-9b", 9241705984},         {"gemma2-27b", 27227128320},
        {"gemma3-270m", 268098176},        {"gemma3-1b", 999885952},
        {"gemma3-4b", 3880263168},         {"gemma3-12b", 11766034176},
        {"gemma3-27b", 27009346304},
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

static void a_named_machine_replaces_that_of_the_file(const struct place *p)
{
    write_file(p, "on-lassen.yaml",
               "model: {preset: llama-tiny}\n" TRAIN
               "machine: {preset: lassen, nodes: 4, software: {profile: x, attention: torch}}\n");
    char *same = at_place(p, "file: %s/on-lassen.yaml\nmachine: {nodes: 8}\n");
    char *other = at_place(p, "file: %s/on-lassen.yaml\nmachine: {file: m.yaml, preset: ~}\n");
    char *brief = at_place(p, "file: %s/on-lassen.yaml\nmachine: summit\n");
    char *trainer = at_place(p, "file: %s/on-lassen.yaml\nmachine: {software: {file: s}}\n");
    struct sn_config c = good(p, same);
    tap_ok(!strcmp(c.machine.preset, "lassen") && c.machine.nodes == 8 &&
               c.machine.software.attention == 4,
           "the same machine with more nodes");
    c = good(p, other);
    tap_ok(!strcmp(c.machine.file, "m.yaml") && !c.machine.preset[0] && c.machine.nodes == 0 &&
               !c.machine.software.profile[0],
           "another machine, of which nothing is known yet");
    c = good(p, brief);
    tap_ok(!strcmp(c.machine.preset, "summit") && c.machine.nodes == 0, "the same in short");
    c = good(p, trainer);
    tap_ok(!strcmp(c.machine.preset, "lassen") && !strcmp(c.machine.software.file, "s") &&
               !c.machine.software.profile[0] && c.machine.software.attention == 0,
           "another trainer on the same machine");
    sn_free(same);
    sn_free(other);
    sn_free(brief);
    sn_free(trainer);
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

/* What the run file itself says without effect is refused (test_config_errors.c). */
static void what_a_file_brings_may_have_no_effect(const struct place *p)
{
    struct sn_str text = {0};
    write_file(p, "moe.yaml",
               "{preset: llama-tiny, family: mixtral, experts: {count: 4, top_k: 3, every: 2, "
               "balance: sequence}, dense_ffn: 96}\n");
    char *dense = at_place(p, "model: {file: %s/moe.yaml, family: llama, experts: {count: 0, top_k: 2}}\n" TRAIN);
    char *plain = at_place(p, "model: {file: %s/moe.yaml, experts: {aux_loss: 0}}\n" TRAIN);
    struct sn_config c = good(p, dense);
    tap_ok(c.model.experts.count == 0 && c.model.dense_ffn == 0, "a dense model of a file with experts");
    c = good(p, plain);
    sn_config_format(&text, &c);
    struct sn_config again = good(p, text.p);
    tap_ok(c.model.experts.count == 4 && again.model.experts.top_k == 3 && !strstr(text.p, "balance:") &&
               sn_config_hash(&c) == sn_config_hash(&again),
           "a loss without weight, whose tokens the run's own file does not name");
    sn_str_fini(&text);
    sn_free(dense);
    sn_free(plain);
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
    static const struct {
        const char *theirs;
        enum sn_activation ours;
    } acts[] = {{"gelu_new", SN_GELU_TANH},
                {"gelu_pytorch_tanh", SN_GELU_TANH},
                {"gelu_fast", SN_GELU_TANH},
                {"gelu", SN_GELU},
                {"gelu_python", SN_GELU}};
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        char json[96];
        (void)snprintf(json, sizeof(json),
                       "{\"model_type\": \"gpt2\", \"activation_function\": \"%s\"}",
                       acts[i].theirs);
        write_file(p, "config.json", json);
        tap_ok(good(p, text).model.activation == acts[i].ours, "gpt2 with %s", acts[i].theirs);
    }
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

#define QWEN2                                                                                      \
    "{\"model_type\": \"qwen2\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "                  \
    "\"num_attention_heads\": 8, \"intermediate_size\": 96, \"vocab_size\": 500, "                 \
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 64"

static void a_window_of_qwen2_is_that_of_its_later_layers(const struct place *p)
{
    /* What follows, and the window that is kept, for a model.seq that is raised. */
    static const struct {
        const char *text;
        int window;
    } cases[] = {
        {"", 0},
        {", \"use_sliding_window\": false, \"sliding_window\": 8, \"max_window_layers\": 1", 0},
        {", \"use_sliding_window\": true, \"sliding_window\": 64, \"max_window_layers\": 0", 64},
        {", \"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 3", 0},
        {", \"use_sliding_window\": true, \"sliding_window\": 8", 0}, /* 28 layers are without it */
        {", \"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"]", 0},
        {", \"use_sliding_window\": true, \"sliding_window\": 64, \"max_window_layers\": 0, "
         "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]",
         64},
        {", \"use_sliding_window\": true, \"sliding_window\": 63, \"max_window_layers\": 2", 63},
        {", \"use_sliding_window\": true, \"sliding_window\": null, \"max_window_layers\": 2", 0},
        {", \"rope_scaling\": null, \"layer_types\": null", 0},
    };
    char *text = at_place(p, "model: {config: %s/config.json}\n" TRAIN);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char json[512];
        (void)snprintf(json, sizeof(json),
                       "{\"model_type\": \"qwen2\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "
                       "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
                       "\"intermediate_size\": 96, \"vocab_size\": 500, \"rope_theta\": 1e6, "
                       "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true%s}",
                       cases[i].text);
        write_file(p, "config.json", json);
        struct sn_model_config m = good(p, text).model;
        tap_ok(m.family == SN_QWEN2 && m.kv_heads == 2 && m.seq == 64 &&
                   m.sliding_window == cases[i].window && m.rope_theta == 1e6 &&
                   m.norm_eps == 1e-6 && m.tied_embeddings,
               "qwen2's config.json%s", cases[i].text);
    }
    char *longer = at_place(p, "model: {config: %s/config.json, seq: 65}\n" TRAIN);
    write_file(p, "config.json",
               QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 64, "
                     "\"max_window_layers\": 2}");
    struct sn_model_config m = good(p, longer).model;
    tap_ok(m.seq == 65 && sn_layer_window(&m, 1) == 0 && sn_layer_window(&m, 2) == 64,
           "in a longer sequence it cuts, from the layer on that has it");
    sn_free(longer);
    sn_free(text);
}

#define LLAMA                                                                                      \
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "                  \
    "\"num_attention_heads\": 8, \"intermediate_size\": 96, \"vocab_size\": 500"

static void config_json_is_refused_by_name(const struct place *p)
{
    static const char *const cases[][2] = {
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}",
         "factor is missing, which rope_type: linear is by; want a complete config.json"},
        {LLAMA ", \"rope_interleaved\": true}", "rope_interleaved: true is not supported: halves "
                                                "of a head are turned here, not neighbours; "
                                                "want false"},
        {LLAMA ", \"hidden_act\": \"gelu\"}",
         "hidden_act: gelu is not supported: the feed-forward part is SwiGLU here; want silu"},
        {QWEN2
         ", \"sliding_window\": 8, \"layer_types\": [\"full_attention\", \"sliding_attention\", "
         "\"sliding_attention\"]}",
         "layer_types: sliding_attention, but use_sliding_window: false and sliding_window: 8; "
         "want "
         "full_attention for all layers"},
        {QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 3, "
               "\"layer_types\": [\"sliding_attention\"]}",
         "layer_types: want sliding_attention for each layer from one on, but for every n-th, and "
         "full_attention for the others, 3 words in all"},
        {QWEN2 ", \"sliding_window\": 8, \"layer_types\": []}",
         "layer_types: want sliding_attention for each layer from one on, but for every n-th, and "
         "full_attention for the others, 3 words in all"},
        {QWEN2 ", \"rope_scaling\": {\"type\": \"su\", \"factor\": 4.0}}",
         "rope_scaling.type: su is not supported; want default, linear, dynamic, yarn, llama3 or "
         "longrope"},
        {QWEN2 ", \"attention_bias\": [false]}",
         "unknown key 'attention_bias': it may change what the model computes; want a copy of the "
         "file without it if it does not (docs/HUGGINGFACE.md has those that are known)"},
        {LLAMA ", \"attention_bias\": [false]}",
         "model.attention_bias: got a list; want true or false"},
        {LLAMA ", \"head_dim\": 15}", "model.heads: a head is 15 wide, but the rotary embedding "
                                      "turns pairs; want an even width"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"longrope\", \"short_factor\": [1], "
               "\"long_factor\": [2]}}",
         "model.rope_scaling.type: longrope takes a number for each pair of features that is "
         "rotated, which are 4; short_factor has 1 and long_factor 1"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"yarn\"}}",
         "factor is missing, which rope_type: yarn is by; want a complete config.json"},
        {LLAMA ", \"max_position_embeddings\": \"many\"}",
         "model.seq: got the text 'many'; want a whole number in 1..16777216 tokens"},
        {LLAMA ", \"num_key_value_heads\": 3}",
         "model.kv_heads: 3 does not divide model.heads (8); nearest that do: 2 or 4"},
        {"{\"model_type\": \"dots1\", \"num_hidden_layers\": 63}",
         "max_window_layers: is left out, which means 62, but num_hidden_layers is 63; want the key "
         "with the same number"},
        {"{\"model_type\": \"llama\"}",
         "num_hidden_layers is missing; want a complete config.json"},
        {"{\"model_type\": \"bert\"}", "model_type: 'bert' is not supported; want gpt2, gpt_neox, "
                                       "llama, mistral, smollm3, granite, mixtral, qwen2, qwen3, "
                                       "qwen3_moe, qwen2_moe, dots1, deepseek_v2, deepseek_v3, olmo2, phi3, gemma2, "
                                       "gemma3_text or starcoder2"},
        {"{}", "no model_type; want a Hugging Face config.json"},
        {"[]", "no model_type; want a Hugging Face config.json"},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": 0.0}",
         "attn_pdrop: 0 differs from resid_pdrop (0.1); want one dropout"},
        {"{\"model_type\": \"mistral\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "
         "\"num_attention_heads\": 8, \"intermediate_size\": 96, \"vocab_size\": 500, "
         "\"sliding_window\": \"none\"}",
         "sliding_window: none is not supported; want null, or a number"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}",
         "activation_function: relu is not supported; want gelu_new, gelu_pytorch_tanh, gelu_fast, "
         "gelu or gelu_python"},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"gelu_tanh\"}",
         "activation_function: gelu_tanh is not supported; want gelu_new, gelu_pytorch_tanh, "
         "gelu_fast, gelu or gelu_python"},
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

/* The layout for a model that is known: sn_config_load_layout. */
static void a_model_section_means_its_defaults(const struct place *p)
{
    static const char model[] = "model:\n  family: llama\n  layers: 4\n  hidden: 256\n  heads: 4\n"
                                "  ffn: 688\n  vocab: 256\n  seq: 128\n  rope_theta: 200.0\n";
    struct sn_config c;
    struct sn_err err = {0};
    char *path = at_place(p, "%s/run.yaml"), want[512];
    write_file(p, "run.yaml", "run: {seed: 1}\n" MODEL TRAIN);
    (void)snprintf(want, sizeof(want),
                   "%s:2:1: model.rope_theta: is left out, which means 10000, but it is 200 in the "
                   "weights; write it, or leave the model section out",
                   path);
    tap_ok(sn_config_load_layout(&c, path, model, "the weights", &err) == SN_EINPUT,
           "a model section without a key in which the model is another");
    tap_text(err.text, want, "is named");
    write_file(p, "run.yaml",
               "model: {rope_theta: 200.0, ffn: 688, dropout: 0.1}\nlayout: {tensor: 2}");
    tap_ok(sn_config_load_layout(&c, path, model, "the weights", &err) == SN_OK &&
               c.model.rope_theta == 200 && c.model.layers == 4 && c.model.dropout == 0.1,
           "one that has it is of this model %s", err.text);
    write_file(p, "run.yaml", "model:\nlayout: {tensor: 2}");
    tap_ok(sn_config_load_layout(&c, path, model, "the weights", &err) == SN_OK &&
               c.model.rope_theta == 200,
           "an empty one says nothing");
    sn_free(path);
}

int main(void)
{
    struct place p = make_place();
    presets_have_the_published_sizes(&p);
    keys_beside_override(&p);
    a_named_machine_replaces_that_of_the_file(&p);
    files_are_pulled_in(&p);
    what_a_file_brings_may_have_no_effect(&p);
    cycles_and_depth_are_refused(&p);
    a_file_that_includes_itself_is_refused(&p);
    config_json_is_read(&p);
    a_window_of_qwen2_is_that_of_its_later_layers(&p);
    config_json_is_refused_by_name(&p);
    a_model_section_means_its_defaults(&p);
    no_memory_is_reported(&p);
    remove_place(&p);
    return tap_done();
}
