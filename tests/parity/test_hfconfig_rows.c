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

int main(void)
{
    rope_scaling_is_rope_parameters();
    a_window_is_kept();
    the_balancing_loss_is_rescaled();
    return tap_done();
}
