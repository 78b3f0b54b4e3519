/*
 * test_hfconfig_rows.c - what single rows of the table of config.json do.
 */
#include "tests/parity/hfconfig_test.h"

#include <math.h>

/* rope_scaling is rope_parameters; its keys are tried under both names. */
static void rope_scaling_is_rope_parameters(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "llama");
    tap_ok(read_with(&b, "rope_scaling.rope_type", json_string("default"), &m) == SN_OK &&
               is_same_model(&b, &m),
           "rope_scaling of type default is taken");
    struct sn_model_config want;
    bool good = read_with(&b, "rope_parameters", rope_of(&b, 2, "rope_type"), &want) == SN_OK;
    tap_ok(good && read_with(&b, "rope_scaling", rope_of(&b, 2, "rope_type"), &m) == SN_OK &&
               memcmp(&m, &want, sizeof(m)) == 0 && m.rope_scaling.kind == SN_ROPE_YARN,
           "yarn is yarn under both");
    tap_ok(read_with(&b, "rope_scaling", rope_of(&b, 2, "type"), &m) == SN_OK &&
               memcmp(&m, &want, sizeof(m)) == 0,
           "and by the older name of its type");
    json_t *two = rope_of(&b, 2, "type");
    (void)json_object_set_new(two, "rope_type", json_string("linear"));
    tap_ok(read_with(&b, "rope_scaling", two, &m) == SN_EINPUT &&
               strstr(b.err.text, "another name"),
           "two types are refused");
    (void)json_object_set_new(b.base, "original_max_position_embeddings", json_integer(16));
    tap_ok(read_with(&b, "rope_scaling", rope_of(&b, 2, "type"), &m) == SN_OK &&
               memcmp(&m, &want, sizeof(m)) == 0,
           "what it was scaled from may stand outside, too");
    (void)json_object_del(b.base, "original_max_position_embeddings");
    tap_ok(read_with(&b, "rope_scaling.rope_type", json_string("proportional"), &m) == SN_EINPUT &&
               strstr(b.err.text, "rope_scaling.rope_type: proportional is not supported"),
           "an unknown type is named");
    tap_ok(
        read_with(&b, "rope_scaling.rope_theta", json_integer(7), &m) == SN_EINPUT &&
            strstr(b.err.text, "rope_theta: 20000, but rope_scaling.rope_theta: 7, another name"),
        "two wavelengths are refused");
    tap_ok(read_with(&b, "rope_parameters.partial_rotary_factor", json_real(0.5), &m) == SN_EINPUT,
           "llama rotates whole heads");
    teardown(&b);
}

static void a_window_is_kept(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "mistral");
    tap_ok(b.model.sliding_window == 64 && b.model.seq == 32, "a window past the sequence");
    tap_ok(read_with(&b, "sliding_window", json_integer(8), &m) == SN_OK && m.seq == 32 &&
               m.sliding_window == 8,
           "and a smaller one");
    (void)json_object_del(b.base, "sliding_window");
    tap_ok(read_with(&b, "max_position_embeddings", json_integer(10000), &m) == SN_OK &&
               m.seq == 10000 && m.sliding_window == 4096,
           "mistral has one where its file does not say so");
    teardown(&b);
}

/* E sum f P over all layers' tokens, top_k when balanced, against 1 for each layer. */
static void the_balancing_loss_is_rescaled(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "mixtral");
    tap_ok(fabs(b.model.experts.aux_loss - 0.25 * 2 / 4) < 1e-15, "by top_k over layers");
    tap_ok(read_with(&b, "num_hidden_layers", json_integer(32), &m) == SN_OK &&
               fabs(m.experts.aux_loss - 0.25 * 2 / 32) < 1e-15,
           "of as many layers as there are");
    tap_ok(read_with(&b, "num_experts_per_tok", json_integer(1), &m) == SN_OK &&
               fabs(m.experts.aux_loss - 0.25 / 4) < 1e-15,
           "and as many choices");
    teardown(&b);
}

/* Where no list says which layers have a window, the number in its place must. */
static void a_pattern_of_no_layers_is_refused(void)
{
    static const char *const none[] = {"0", "-1", "null", "2.5"};
    struct bench b;
    struct sn_model_config m;
    setup(&b, "gemma3_text");
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        json_t *v = json_loads(none[i], JSON_DECODE_ANY, NULL);
        char want[80];
        (void)snprintf(want, sizeof(want), "sliding_window_pattern: %s is not supported; want 1 or",
                       none[i]);
        tap_ok(read_with(&b, "sliding_window_pattern", v, &m) == SN_EINPUT &&
                   strstr(b.err.text, want),
               "%s (%s)", want, b.err.text);
    }
    tap_ok(read_with(&b, "sliding_window_pattern", json_integer(3), &m) == SN_OK &&
               m.global_every == 3,
           "and one of three is taken");
    teardown(&b);
}

/* transformers reads a word of each layer, and stumbles where there is none. */
static void a_list_shorter_than_the_layers_is_refused(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "smollm3");
    (void)json_object_set_new(b.base, "no_rope_layer_interval", json_integer(2));
    (void)json_object_set_new(b.base, "num_hidden_layers", json_integer(4));
    const struct {
        const char *list;
        bool good;
    } all[] = {{"[1, 0, 1, 0]", true}, {"[1, 0, 1, 0, 1]", true},
               {"null", true},         {"[1, 0, 1]", false},
               {"[]", false},          {"[1, 0, 0, 0]", false}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        enum sn_status st =
            read_with(&b, "no_rope_layers", json_loads(all[i].list, JSON_DECODE_ANY, NULL), &m);
        tap_ok(all[i].good
                   ? st == SN_OK
                   : st == SN_EINPUT && strstr(b.err.text, "4 or more in all, n by no_rope"),
               "no_rope_layers: %s is %s", all[i].list, all[i].good ? "taken" : "refused");
    }
    teardown(&b);
}

static void numbers_are_shown_as_they_are_written(void)
{
    struct bench b;
    struct sn_model_config m;
    setup(&b, "granite");
    tap_ok(read_with(&b, "attention_dropout", json_real(0.1), &m) == SN_EINPUT &&
               strstr(b.err.text, "attention_dropout: 0.1 is not supported"),
           "0.1 is 0.1 (%s)", b.err.text);
    teardown(&b);
}

int main(void)
{
    rope_scaling_is_rope_parameters();
    a_window_is_kept();
    the_balancing_loss_is_rescaled();
    a_pattern_of_no_layers_is_refused();
    a_list_shorter_than_the_layers_is_refused();
    numbers_are_shown_as_they_are_written();
    return tap_done();
}
