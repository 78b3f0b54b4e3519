/* First weights: what is taken, what is left over, and what does not fit. */
#include "checkpoint/store/checkpoint.h"
#include "lib/base/log.h"
#include "tests/lib/hf_test.h"

#include <math.h>

static void gpt2_may_have_prefix_head_and_masks(void)
{
    struct bench b;
    setup(&b, SN_GPT2);
    make_model(&b);
    list_gpt2(&b, "transformer.");
    (void)add(&b, S, S, "transformer.h.0.attn.bias");
    (void)add(&b, 1, 0, "transformer.h.1.attn.masked_bias");
    int head = add(&b, V, D, "lm_head.weight");
    write_file(&b, head, 0);
    init_says(&b, "");
    tap_ok(ours(&b, "layers.1.attn.k.weight")->p[1] ==
               theirs(&b, "transformer.h.1.attn.c_attn.weight", 3 * D + D),
           "also with a prefix");
    write_file(&b, -1, -1);
    init_says(
        &b, "DIR/model.safetensors: tensor 'lm_head.weight' differs from 'transformer.wte.weight', "
            "but the model ties them; set model.tied_embeddings: false");
    teardown(&b);
}

static void what_does_not_fit_is_named(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    int more = add(&b, D, 0, "model.layers.0.self_attn.q_proj.bias");
    (void)add(&b, V, D, "model.layers.2.mlp.up_proj.weight");
    write_file(&b, -1, -1);
    init_says(&b, "DIR: the model has no place for 2 of its tensors: "
                  "'model.layers.0.self_attn.q_proj.bias', 'model.layers.2.mlp.up_proj.weight'");
    b.n = more;
    b.entry[number(&b, "model.layers.1.self_attn.k_proj.weight")].rows = D;
    write_file(&b, -1, -1);
    init_says(
        &b,
        "DIR/model.safetensors: tensor 'model.layers.1.self_attn.k_proj.weight' has shape [8, 8]; "
        "the model's layers.1.attn.k.weight needs [4, 8]");
    b.entry[number(&b, "model.layers.1.self_attn.k_proj.weight")].rows = d;
    b.entry[number(&b, "model.norm.weight")].rows = D + 1;
    write_file(&b, -1, -1);
    init_says(&b, "DIR/model.safetensors: tensor 'model.norm.weight' has shape [9]; the model's "
                  "final_norm.weight needs [8]");
    b.entry[number(&b, "model.norm.weight")].rows = D;
    (void)strcpy(b.entry[number(&b, "lm_head.weight")].name, "lm_hat.weight");
    write_file(&b, -1, -1);
    init_says(&b, "DIR/model.safetensors: has no tensor 'lm_head.weight', which the model's "
                  "head.weight is read from; where the head is the embedding, want "
                  "tie_word_embeddings: true (model.tied_embeddings)");
    (void)strcpy(b.entry[number(&b, "model.norm.weight")].name, "module.model.norm.weight");
    write_file(&b, -1, -1);
    init_says(&b, "DIR/model.safetensors: has no tensor 'model.norm.weight', which the model's "
                  "final_norm.weight is read from; 'module.model.norm.weight' is there, want the "
                  "names that transformers has");
    float out[4];
    struct sn_safetensors *st = NULL;
    (void)sn_safetensors_open(&st, b.root, &b.err);
    struct sn_state_shape router = {"model", "layers.0.router.weight", 2, 2};
    struct sn_state_tensor whole = sn_state_whole(&router, out);
    tap_ok(sn_hf_read_box(st, &b.config, &whole, out, &b.err) == SN_EINPUT,
           "an unknown piece is refused");
    char want[512];
    (void)snprintf(want, sizeof(want),
                   "%s: no name is known for the model's layers.0.router.weight in files "
                   "of the family llama",
                   b.path);
    tap_text(b.err.text, want, "and named");
    sn_safetensors_close(st);
    teardown(&b);
}

static void shared_layers_take_the_first(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    b.config.share_layers = 2;
    make_model(&b);
    tap_ok(ours(&b, "layers.0.attn.q.weight") && !ours(&b, "layers.1.attn.q.weight"),
           "the model has the first layer of each group only");
    list_llama(&b);
    write_file(&b, -1, -1);
    init_says(&b,
              "DIR/model.safetensors: tensor 'model.layers.1.input_layernorm.weight' differs from "
              "'model.layers.0.input_layernorm.weight', but the model's layers share them "
              "(model.share_layers: 2)");
    teardown(&b);
    setup(&b, SN_LLAMA);
    b.config.share_layers = 2;
    b.config.layers = 1; /* list the first layer only ... */
    list_llama(&b);
    b.config.layers = 2;
    make_model(&b);
    int twin = add(&b, D, D, "model.layers.1.self_attn.o_proj.weight");
    write_file(&b, twin, number(&b, "model.layers.0.self_attn.o_proj.weight"));
    init_says(&b, ""); /* ... and an equal copy for the second */
    teardown(&b);
}

/* --- our own checkpoints --------------------------------------------------------------------- */

static void our_checkpoints_give_weights_too(void)
{
    struct bench b;
    struct sn_saver saver;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    write_file(&b, -1, -1);
    init_says(&b, "");
    char ckpt[96], step[128];
    (void)snprintf(ckpt, sizeof(ckpt), "%s/ckpt", b.root);
    (void)snprintf(step, sizeof(step), "%s/step-00000003", ckpt);
    struct sn_state_tensor *extra = &b.tensors[b.state.n_tensors];
    add_whole(&b, "exp_avg", "final_norm.weight", D, 1);
    b.state.scalars.step = 3;
    struct sn_str model = {0};
    struct sn_config config = {.model = b.config};
    sn_config_format_model(&model, &config);
    b.state.model_text = model.p;
    bool good =
        sn_checkpoint_open(&saver, ckpt, &(struct sn_checkpoint_options){0}, &b.err) == SN_OK;
    for (int phase = SN_SAVE_PREPARE; phase <= SN_SAVE_COMMIT && good; phase++)
        good = sn_saver_phase(&saver, &b.state, (enum sn_save_phase)phase, &b.err) == SN_OK;
    tap_ok(good, "a checkpoint is saved");
    struct sn_state_tensor *q = &b.tensors[3];
    float first = q->p[0];
    q->p[0] = -1;
    extra->p[0] = 5;
    (void)snprintf(config.train.init_from, sizeof(config.train.init_from), "%s", ckpt);
    tap_ok(saver.init(saver.self, &config, &b.state, &b.err) == SN_OK && q->p[0] == first,
           "its directory gives the newest weights");
    q->p[0] = -1;
    tap_ok(init_at(&b, step, &b.state) == SN_OK && q->p[0] == first,
           "a step's directory gives its weights");
    tap_ok(extra->p[0] == 5, "the optimizer's moments are left alone");
    struct sn_state_tensor box = *q;
    struct sn_state part = b.state;
    float few[2] = {0, 0};
    box.row = 1, box.col = 2, box.n_rows = 2, box.n_cols = 1, box.ld = 1, box.p = few;
    part.tensors = &box;
    part.n_tensors = 1;
    tap_ok(init_at(&b, step, &part) == SN_OK && few[0] == q->p[q->cols + 2] &&
               few[1] == q->p[2 * q->cols + 2],
           "a rank that holds a box takes the box");
    b.tensors[0].group = b.all[0].group = "exp_avg";
    tap_ok(init_at(&b, step, &b.state) == SN_EINPUT &&
               strstr(b.err.text, "the model has no place for 1 of its tensors: 'embed.weight'"),
           "a tensor left over is named");
    b.tensors[0].group = b.all[0].group = "model";
    b.all[0].rows++;
    tap_ok(init_at(&b, step, &b.state) == SN_EINPUT &&
               strstr(b.err.text, "tensor model embed.weight is 10 x 8, but the model's is 11 x 8"),
           "another shape is named");
    b.all[0].rows--;
    b.config.seq = S - 1;
    tap_ok(init_at(&b, step, &b.state) == SN_OK, "a shorter sequence is the same model");
    b.config.rope_theta = 200;
    char want[512];
    (void)snprintf(want, sizeof(want),
                   "%s: these weights come with 'rope_theta: 10000', but the run file has "
                   "'rope_theta: 200'; want the same model, or train.init_changes: [rope_theta] to "
                   "begin as another one",
                   step);
    (void)init_at(&b, step, &b.state);
    tap_text(b.err.text, want, "weights of another model are refused");
    b.state.model_text = "";
    sn_str_fini(&model);
    sn_checkpoint_close(&saver);
    teardown(&b);
}

static void our_checkpoints_hold_numbers(void)
{
    struct bench b;
    struct sn_saver saver;
    struct sn_str model = {0};
    setup(&b, SN_LLAMA);
    make_model(&b);
    struct sn_config config = {.model = b.config};
    sn_config_format_model(&model, &config);
    b.state.model_text = model.p;
    b.tensors[3].p[1 * D + 2] = NAN;
    char want[512];
    bool good =
        sn_checkpoint_open(&saver, b.root, &(struct sn_checkpoint_options){0}, &b.err) == SN_OK;
    for (int phase = SN_SAVE_PREPARE; phase <= SN_SAVE_COMMIT && good; phase++)
        good = sn_saver_phase(&saver, &b.state, (enum sn_save_phase)phase, &b.err) == SN_OK;
    (void)snprintf(
        want, sizeof(want),
        "%s/step-00000000: tensor %s is nan at [1, 2]; want weights that are all numbers", b.root,
        b.tensors[3].name);
    tap_ok(good && init(&b) == SN_EINPUT, "a checkpoint with a value that is no number is refused");
    tap_text(b.err.text, want, "and the value is named");
    sn_str_fini(&model);
    sn_checkpoint_close(&saver);
    teardown(&b);
}

/* --- the model beside the field's weights ----------------------------------------------------- */

/* The config.json of the bench's llama, with one key set to something, or added. */
static void write_config(struct bench *b, const char *key, const char *value)
{
    static const char *const own[][2] = {{"model_type", "\"llama\""},
                                         {"hidden_size", "8"},
                                         {"num_hidden_layers", "2"},
                                         {"num_attention_heads", "2"},
                                         {"num_key_value_heads", "1"},
                                         {"intermediate_size", "12"},
                                         {"vocab_size", "10"},
                                         {"rms_norm_eps", "1e-05"},
                                         {"max_position_embeddings", "6"}};
    char path[96];
    bool is_own = false;
    struct sn_str text = {0};
    (void)snprintf(path, sizeof(path), "%s/config.json", b->root);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        bool is_it = strcmp(own[i][0], key) == 0;
        is_own = is_own || is_it;
        sn_str_add(&text, "%s\"%s\": %s", i ? ", " : "{", own[i][0], is_it ? value : own[i][1]);
    }
    if (!is_own)
        sn_str_add(&text, ", \"%s\": %s", key, value);
    sn_str_add(&text, "}\n");
    (void)sn_file_save(path, text.p, text.len, &b->err);
    sn_str_fini(&text);
}

static void weights_of_another_model_are_refused(void)
{
    static const char *const other[][3] = {
        {"rope_theta", "200.0", "'rope_theta: 200', but the run file has 'rope_theta: 10000'"},
        {"rms_norm_eps", "1e-2", "'norm_eps: 0.01', but the run file has 'norm_eps: 1e-05'"},
        {"num_attention_heads", "4", "'heads: 4', but the run file has 'heads: 2'"},
        {"tie_word_embeddings", "true",
         "'tied_embeddings: true', but the run file has 'tied_embeddings: false'"},
        {"max_position_embeddings", "5", "'seq: 5', but the run file has 'seq: 6'"},
        {"hidden_act", "\"gelu\"", "hidden_act: gelu is not supported"},
        {"rope_scaling", "{\"rope_type\": \"llama3\"}",
         "factor is missing, which rope_type: llama3 is by; want a complete config.json"},
        {"model_type", "\"gemma\"", "model_type: 'gemma' is not supported"},
        {"embedding_multiplier", "12.0", "unknown key 'embedding_multiplier'"},
    };
    static const char *const same[][2] = {{"max_position_embeddings", "7"},
                                          {"dtype", "\"bfloat16\""},
                                          {"initializer_range", "0.5"},
                                          {"rope_scaling", "{\"rope_type\": \"default\"}"}};
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    write_file(&b, -1, -1);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        write_config(&b, same[i][0], same[i][1]);
        init_says(&b, "");
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        write_config(&b, other[i][0], other[i][1]);
        tap_ok(init(&b) == SN_EINPUT && strstr(b.err.text, other[i][2]), "%s (%s)", other[i][2],
               b.err.text);
    }
    write_config(&b, "rope_theta", "200.0");
    init_says(&b,
              "DIR/config.json: these weights come with 'rope_theta: 200', but the run file has "
              "'rope_theta: 10000'; want the same model (model: {config: DIR/config.json}), or "
              "train.init_changes: [rope_theta] to begin as another one");
    teardown(&b);
}

static void what_is_meant_may_change(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    write_file(&b, -1, -1);
    struct sn_config c = {.model = b.config, .train = {.n_init_changes = 2}};
    (void)snprintf(c.train.init_from, sizeof(c.train.init_from), "%s", b.root);
    (void)snprintf(c.train.init_changes[0], sizeof(c.train.init_changes[0]), "seq");
    (void)snprintf(c.train.init_changes[1], sizeof(c.train.init_changes[1]), "rope_theta");
    write_config(&b, "rope_theta", "200.0");
    tap_ok(sn_init_from(&c, &b.state, &b.err) == SN_OK, "a key in train.init_changes may differ");
    write_config(&b, "rms_norm_eps", "1e-3");
    tap_ok(sn_init_from(&c, &b.state, &b.err) == SN_EINPUT && strstr(b.err.text, "norm_eps"),
           "another one may not");
    teardown(&b);
}

/* transformers would take other weights, those which adapter_config.json names. */
static void adapters_beside_weights_are_refused(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    list_llama(&b);
    write_file(&b, -1, -1);
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/adapter_config.json", b.root);
    init_says(&b, "");
    tap_ok(sn_file_save(path, "{}", 2, &b.err) == SN_OK, "adapters are put beside weights");
    init_says(&b, "DIR: has adapter_config.json beside the weights, by which transformers adds "
                  "adapters to others; want it in a directory of its own, such as "
                  "train.lora.init_from names");
    teardown(&b);
}

static void no_number_is_named(void)
{
    struct bench b;
    setup(&b, SN_GPT2);
    make_model(&b);
    list_gpt2(&b, "");
    b.not_a_number = number(&b, "h.1.attn.c_attn.weight");
    write_file(&b, -1, -1);
    init_says(&b, "DIR/model.safetensors: tensor 'h.1.attn.c_attn.weight' is nan at [2, 5]; want "
                  "weights that are all numbers");
    b.not_a_number = number(&b, "ln_f.bias");
    write_file(&b, -1, -1);
    init_says(&b,
              "DIR/model.safetensors: tensor 'ln_f.bias' is nan at [5]; want weights that are all "
              "numbers");
    teardown(&b);
}

static void a_path_that_is_not_there_is_bad_input(void)
{
    struct bench b;
    setup(&b, SN_LLAMA);
    make_model(&b);
    tap_ok(init_at(&b, "/none", &b.state) == SN_EINPUT, "no such path: exit code 2");
    tap_text(
        b.err.text,
        "/none: cannot open: No such file or directory; train.init_from wants a safetensors file "
        "or directory, or a checkpoint",
        "and named");
    init_says(&b, "DIR: has neither model.safetensors nor model.safetensors.index.json");
    teardown(&b);
}

static void no_memory_is_told(void)
{
    struct bench b;
    setup(&b, SN_GPT2);
    make_model(&b);
    list_gpt2(&b, "");
    write_file(&b, -1, -1);
    enum sn_status st = SN_ENOMEM;
    int n = 0;
    while (st == SN_ENOMEM && n < 10000) {
        sn_mem_fail_at((uint64_t)++n);
        st = init(&b);
        sn_mem_fail_at(0);
    }
    if (!tap_ok(st == SN_OK && n > 20, "%d allocations fail, each is told", n - 1))
        printf("# %s\n", b.err.text);
    teardown(&b);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    gpt2_may_have_prefix_head_and_masks();
    what_does_not_fit_is_named();
    shared_layers_take_the_first();
    our_checkpoints_give_weights_too();
    our_checkpoints_hold_numbers();
    weights_of_another_model_are_refused();
    what_is_meant_may_change();
    adapters_beside_weights_are_refused();
    no_number_is_named();
    a_path_that_is_not_there_is_bad_input();
    no_memory_is_told();
    return tap_done();
}
