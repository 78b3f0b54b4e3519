/* The field's files as a source, and the model of their config.json. */
#include "checkpoint/store/model_text.h"
#include "lib/base/log.h"
#include "lib/config/hfconfig.h"
#include "tests/lib/export_test.h"

/* --- config.json ------------------------------------------------------------------------------ */

static void config_json_gives_the_model_again(void)
{
    static const char *const all[] = {"gpt2",       "gpt-neox",    "llama",
                                      "llama-tied", "llama-share", "mixtral"};
    for (int f = 0; f < 6; f++) {
        struct place p;
        struct sn_source s;
        struct sn_model_config m;
        struct sn_config a, b;
        struct sn_str text = {0}, x = {0}, y = {0};
        char path[96];
        memset(&a, 0, sizeof(a));
        memset(&b, 0, sizeof(b));
        place_init(&p);
        bool good = open_fixture(&s, &m, all[f], &p.err);
        sn_source_close(&s);
        m.init_std = 0.015;
        m.dropout = f < 2 ? 0.125 : 0; /* llama's class drops elsewhere */
        m.experts.aux_loss = m.family == SN_MIXTRAL ? 0.375 : 0;
        (void)snprintf(path, sizeof(path), "%s/config.json", p.root);
        good = good && sn_hfconfig_format(&text, &m, SN_BF16, NULL, &p.err) == SN_OK &&
               sn_file_save(path, text.p, text.len, &p.err) == SN_OK &&
               sn_hf_load_model(&b.model, p.root, &p.err) == SN_OK;
        a.model = m;
        a.model.share_layers = 1; /* the field knows no sharing */
        sn_config_format_model(&x, &a);
        sn_config_format_model(&y, &b);
        tap_text(y.p, x.p, all[f]);
        tap_ok(good && b.model.init_std == m.init_std && b.model.dropout == m.dropout &&
                   (m.family != SN_MIXTRAL || b.model.experts.aux_loss == m.experts.aux_loss),
               "with init_std, dropout and the weight of the balancing loss");
        tap_ok(sn_model_text_parse(&b, x.p, all[f], &p.err) == SN_OK &&
                   b.model.experts.count == m.experts.count && b.model.ffn == m.ffn,
               "%s: a checkpoint's text of it is read %s", all[f], p.err.text);
        sn_str_fini(&text);
        sn_str_fini(&x);
        sn_str_fini(&y);
        place_fini(&p);
    }
}

static void a_llama_with_a_window_is_a_mistral(void)
{
    struct place p;
    struct sn_source s;
    struct sn_model_config m, back;
    struct sn_str text = {0};
    char path[96];
    place_init(&p);
    bool good = open_fixture(&s, &m, "llama", &p.err);
    sn_source_close(&s);
    m.sliding_window = m.seq + 3;
    (void)snprintf(path, sizeof(path), "%s/config.json", p.root);
    good = good && sn_hfconfig_format(&text, &m, SN_F32, NULL, &p.err) == SN_OK &&
           strstr(text.p, "\"model_type\": \"mistral\"") &&
           sn_file_save(path, text.p, text.len, &p.err) == SN_OK &&
           sn_hf_load_model(&back, p.root, &p.err) == SN_OK;
    tap_ok(good && back.family == SN_LLAMA && back.sliding_window == m.seq + 3 && back.seq == m.seq,
           "llama with a window is written as a mistral, and read so %s", p.err.text);
    sn_str_fini(&text);
    place_fini(&p);
}

/* Written as the field says it, and read as what it was. */
static void activations_are_written_in_the_field_s_words(void)
{
    static const struct {
        const char *fixture, *line;
        enum sn_activation activation;
    } all[] = {{"gpt2", "\"activation_function\": \"gelu_new\",", SN_GELU_TANH},
               {"gpt2", "\"activation_function\": \"gelu\",", SN_GELU},
               {"gpt-neox", "\"hidden_act\": \"gelu_new\",", SN_GELU_TANH},
               {"gpt-neox", "\"hidden_act\": \"gelu\",", SN_GELU},
               {"llama", "\"hidden_act\": \"silu\",", SN_SILU}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct place p;
        struct sn_source s;
        struct sn_model_config m, back = {0};
        struct sn_str text = {0};
        char path[96];
        place_init(&p);
        (void)snprintf(path, sizeof(path), "%s/config.json", p.root);
        bool good = open_fixture(&s, &m, all[i].fixture, &p.err);
        sn_source_close(&s);
        m.activation = all[i].activation;
        good = good && sn_hfconfig_format(&text, &m, SN_F32, NULL, &p.err) == SN_OK &&
               strstr(text.p, all[i].line) &&
               sn_file_save(path, text.p, text.len, &p.err) == SN_OK &&
               sn_hf_load_model(&back, p.root, &p.err) == SN_OK;
        tap_ok(good && back.activation == all[i].activation, "%s: %s %s", all[i].fixture,
               all[i].line, p.err.text);
        sn_str_fini(&text);
        place_fini(&p);
    }
}

/* transformers 5 takes neither a whole number nor a word for one with a point. */
static void numbers_have_the_field_s_types(void)
{
    struct sn_model_config m = {.family = SN_MIXTRAL,
                                .layers = 32,
                                .heads = 4,
                                .kv_heads = 2,
                                .rotary_pct = 1,
                                .rope_theta = 10000,
                                .experts = {.count = 4, .top_k = 2, .aux_loss = 0.0625}};
    struct sn_str text = {0};
    struct sn_err err = {0};
    m.experts.every = 1;
    bool good = sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_OK;
    tap_ok(good && strstr(text.p, "\"router_aux_loss_coef\": 1.0,") &&
               strstr(text.p, "\"rope_theta\": 10000.0,") &&
               strstr(text.p, "\"router_jitter_noise\": 0.0,") &&
               strstr(text.p, "\"num_local_experts\": 4,") &&
               strstr(text.p, "\"attention_dropout\": 0.0,"),
           "numbers that are not counted have a point %s", err.text);
    sn_str_fini(&text);
}

static void what_the_field_cannot_compute_is_refused(void)
{
    struct sn_model_config m = {.family = SN_GPT_NEOX, .heads = 4, .kv_heads = 2};
    struct sn_str text = {0};
    struct sn_err err;
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT,
           "gpt-neox with fewer kv heads");
    tap_text(err.text,
             "config.json: model.kv_heads: 2 differs from model.heads (4), which the field's "
             "gpt-neox does not know",
             "is named");
    m = (struct sn_model_config){.family = SN_LLAMA, .heads = 4, .kv_heads = 2, .rotary_pct = 0.5};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT,
           "llama with half a rotation");
    m = (struct sn_model_config){.family = SN_LLAMA, .rotary_pct = 1, .dropout = 0.125};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT, "llama with dropout");
    tap_text(err.text,
             "config.json: model.dropout: 0.125, but the field's llama drops probabilities of "
             "attention alone; want 0",
             "is named");
    m = (struct sn_model_config){
        .family = SN_GPT_NEOX, .hidden = 200, .heads = 2, .kv_heads = 2, .rotary_pct = 0.58};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT,
           "a part of a head that transformers cuts elsewhere");
    tap_text(err.text,
             "config.json: model.rotary_pct: 0.58 of 100 features is 58, but the field's gpt-neox "
             "takes 57; want a factor slightly larger",
             "is named");
    m = (struct sn_model_config){.family = SN_GPT2, .sliding_window = 64};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT, "gpt2 with a window");
    m = (struct sn_model_config){.family = SN_LLAMA, .rotary_pct = 1, .score_cap = 50};
    struct sn_str capped = {0};
    (void)sn_hfconfig_format(&capped, &m, SN_F32, NULL, &err);
    tap_text(err.text, "config.json: model.score_cap: the field's llama does not know it",
             "a cap of scores that llama has not");
    sn_str_fini(&capped);
    m = (struct sn_model_config){.family = SN_QWEN3_MOE, .sliding_window = 64};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT, "qwen3-moe with a window");
    tap_text(err.text,
             "config.json: model.sliding_window: 64, which the field's qwen3-moe does not know",
             "is named");
    m = (struct sn_model_config){.family = SN_GPT2, .activation = SN_SILU};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT, "gpt2 with silu");
    tap_text(err.text, "config.json: model.activation: silu, which the field's gpt2 does not know",
             "is named");
    m = (struct sn_model_config){.family = SN_MIXTRAL};
    tap_ok(sn_hfconfig_format(&text, &m, SN_F32, NULL, &err) == SN_EINPUT, "and an unknown family");
    sn_str_fini(&text);
}

/* --- sources ---------------------------------------------------------------------------------- */

static void what_an_import_cannot_place_is_refused(void)
{
    struct place p;
    struct sn_source s = {0};
    struct sn_model_config m;
    place_init(&p);
    (void)open_fixture(&s, &m, "llama", &p.err);
    sn_source_close(&s);
    m.layers = 1;
    tap_ok(sn_source_open_safetensors(&s, "tests/parity/fixtures/llama/model.safetensors", &m,
                                      &p.err) == SN_EINPUT &&
               strstr(p.err.text, "the model has no place for 9 of its tensors: "),
           "a layer too many is refused");
    m.layers = 3;
    tap_ok(sn_source_open_safetensors(&s, "tests/parity/fixtures/llama/model.safetensors", &m,
                                      &p.err) == SN_EINPUT &&
               strstr(p.err.text, "has no tensor 'model.layers.2."),
           "a layer too few is refused");
    tap_ok(sn_source_open_safetensors(&s, "/none", &m, &p.err) == SN_EINPUT, "no such file");
    tap_text(p.err.text,
             "/none: cannot be opened: No such file or directory; want a safetensors file or "
             "directory",
             "is named");
    tap_ok(sn_hf_load_model(&m, "tests/parity/fixtures/llama", &p.err) == SN_EINPUT,
           "no config.json");
    tap_text(p.err.text,
             "tests/parity/fixtures/llama/config.json: cannot be opened: No such file or "
             "directory; the field keeps it by its weights",
             "is named");
    place_fini(&p);
}

static void a_source_says_what_it_is(void)
{
    struct place p;
    struct sn_source s = {0}, t = {0};
    struct sn_model_config m;
    struct sn_convert_report r;
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    (void)export_fixture(&p, "llama", &o, &r);
    (void)sn_hf_load_model(&m, p.dst, &p.err);
    bool good = sn_source_open_safetensors(&s, p.dst, &m, &p.err) == SN_OK &&
                sn_source_open_safetensors(&t, p.dst, &m, &p.err) == SN_OK;
    tap_ok(good && s.identity == t.identity, "the same files are the same source");
    tap_ok(s.scalars.loss_scale == 1 && s.scalars.step == 0 && s.scalars.tokens == 0 &&
               strstr(s.model_text, "family: llama"),
           "at step 0");
    sn_source_close(&t);
    (void)export_fixture(&p, "llama", &o, &r);
    good = sn_source_open_safetensors(&t, p.dst, &m, &p.err) == SN_OK;
    tap_ok(good && s.identity != t.identity, "files written anew are another");
    sn_source_close(&s);
    sn_source_close(&t);
    place_fini(&p);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    config_json_gives_the_model_again();
    a_llama_with_a_window_is_a_mistral();
    activations_are_written_in_the_field_s_words();
    numbers_have_the_field_s_types();
    what_the_field_cannot_compute_is_refused();
    what_an_import_cannot_place_is_refused();
    a_source_says_what_it_is();
    return tap_done();
}
