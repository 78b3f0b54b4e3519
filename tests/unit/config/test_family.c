/*
 * test_family.c - the rows of families: what is built of their traits, and that nothing about one
 * is missing elsewhere.
 */
#include "lib/config/family.h"

#include "checkpoint/hf/hfrules.h"
#include "lib/config/hfkeys.h"
#include "lib/model/model.h"
#include "tests/lib/tap.h"

#include <string.h>

static bool is_gated(enum sn_family f)
{
    return sn_family_traits(f)->gated;
}

static bool has_experts(enum sn_family f)
{
    return sn_family_traits(f)->experts;
}

static bool is_nothing(enum sn_family f)
{
    (void)f;
    return false;
}

static void lists_name_who_has_a_trait(void)
{
    char buf[SN_FAMILIES_SIZE];
    tap_text(sn_families_that(buf, has_experts), "mixtral, qwen2-moe, qwen3-moe, dots1, deepseek-v2 or deepseek-v3", "six");
    tap_text(sn_families_that(buf, is_nothing), "", "none");
    (void)sn_families_that(buf, is_gated);
    tap_ok(strstr(buf, "llama") && strstr(buf, " or ") && !strstr(buf, "gpt2"), "several: %s", buf);
}

static void some_have_twins_with_experts(void)
{
    enum sn_family with = SN_GPT2;
    tap_ok(sn_family_with_experts(SN_LLAMA, &with) && with == SN_MIXTRAL, "llama has a twin");
    tap_ok(sn_family_with_experts(SN_QWEN3, &with) && with == SN_QWEN3_MOE, "qwen3 has one");
    tap_ok(sn_family_with_experts(SN_PHI3, &with) && with == SN_MIXTRAL, "phi3 has that of llama");
    for (int f = 0; f < SN_NFAMILIES; f++)
        tap_ok(f == SN_LLAMA || f == SN_QWEN3 || f == SN_PHI3 ||
                   !sn_family_with_experts((enum sn_family)f, &with),
               "%s has one only if it is one of these", sn_family_names[f]);
}

/* What lib/model can build. */
static void traits_go_together(enum sn_family f)
{
    const struct sn_traits *t = sn_family_traits(f);
    const char *name = sn_family_name(f);
    tap_ok(t->gated ? t->activation != SN_GELU : t->activation != SN_SILU,
           "%s: gates are those of SiLU or of GELU with tanh", name);
    tap_ok(t->gated == (t->ffn == 0), "%s: a gated width is to be named", name);
    tap_ok((t->positions == SN_ROTARY) == (t->rotary_pct > 0), "%s: rotates or learns", name);
    tap_ok(!t->experts || t->gated, "%s: experts are gated", name);
}

static struct sn_model_config tiny(enum sn_family f)
{
    const struct sn_traits *t = sn_family_traits(f);
    return (struct sn_model_config){
        .family = f,
        .layers = 2,
        .hidden = 8,
        .heads = 2,
        .kv_heads = 2,
        .latent = {.kv = t->latents ? 5 : 0, .q = f == SN_DEEPSEEK_V3 ? 3 : 0, .nope = 2, .rope = 2, .v = 3},
        .ffn = 12,
        .vocab = 10,
        .seq = 6,
        .rope_theta = 10000,
        .rotary_pct = t->rotary_pct > 0 ? 1 : 0,
        .parallel_residual = t->parallel_residual,
        .norm_eps = 1e-5,
        .init_std = 0.02,
        .share_layers = 1,
        .experts = {.count = t->experts ? 2 : 0, .top_k = 1, .every = 1}};
}

static int tensors_that_end(const struct sn_model *m, const char *end)
{
    int n = 0;
    for (int i = 0; i < m->n_params; i++)
        for (int k = 0; k < m->params[i].n_tensors; k++) {
            const char *name = m->params[i].tensor[k].name;
            size_t len = strlen(name);
            n += len > strlen(end) && strcmp(name + len - strlen(end), end) == 0;
        }
    return n;
}

static void a_model_is_what_the_row_says(enum sn_family f)
{
    struct sn_model_config c = tiny(f);
    struct sn_train_config train = {.global_batch = 1};
    const struct sn_traits *t = sn_family_traits(f);
    const char *name = sn_family_name(f);
    struct sn_err err = {0};
    struct sn_model *m;
    if (sn_model_create(&m, &c, &train, &err) != SN_OK) {
        tap_ok(false, "%s: is built: %s", name, err.text);
        return;
    }
    int bits[] = {SN_LINEAR_QKV, SN_LINEAR_O, SN_LINEAR_UP, SN_LINEAR_DOWN};
    const char *ends[] = {".attn.k.bias", ".attn.o.bias", ".ffn.up.bias", ".ffn.down.bias"};
    for (int i = 0; i < 4; i++)
        tap_ok(tensors_that_end(m, ends[i]) == (t->biases & (unsigned)bits[i] ? c.layers : 0),
               "%s: %s is there if its bit is", name, ends[i] + 1);
    int unnamed = 0;
    struct sn_hf_at at = {0, 0};
    for (int i = 0; i < m->n_params; i++)
        for (int k = 0; k < m->params[i].n_tensors; k++)
            unnamed += !sn_hf_rule_of(f, m->params[i].tensor[k].name, &at);
    tap_ok(unnamed == 0, "%s: the field has a name for each tensor", name);
    const char *alien;
    const struct sn_hf_type *type = sn_hf_type_of(&c, &alien);
    tap_ok(type && type->family == f, "%s: the field has a type for it", name);
    sn_model_destroy(m);
}

/* Blocks behind the last layer, which predict further tokens, of families that have them. */
static void further_blocks_have_names(void)
{
    tap_ok(sn_hf_further(SN_DEEPSEEK_V3, "model.layers.2.eh_proj.weight", 2) == 0 &&
               sn_hf_further(SN_DEEPSEEK_V3, "layers.3.eh_proj.weight", 2) == 1 &&
               sn_hf_further(SN_DEEPSEEK_V3, "model.layers.1.eh_proj.weight", 2) < 0 &&
               sn_hf_further(SN_DEEPSEEK_V3, "model.norm.weight", 0) < 0 &&
               sn_hf_further(SN_DEEPSEEK_V2, "model.layers.2.eh_proj.weight", 2) < 0,
           "deepseek-v3: blocks behind the last layer are known by their numbers");
    struct sn_hf_at at = {0, 0};
    const struct sn_hf_rule *r = sn_hf_rule_of(SN_DEEPSEEK_V3, "layers.61.mtp.hidden_proj.weight", &at);
    struct sn_hf_size size = sn_hf_size(r->form, 7, 5);
    tap_ok(r->part == 1 && size.rows == 7 && size.cols == 10 &&
               strcmp(sn_hf_theirs(SN_DEEPSEEK_V3, r, at).text, "model.layers.61.eh_proj.weight") == 0,
           "deepseek-v3: what the embedding and the hidden state are projected by is one matrix");
    r = sn_hf_copy_rule_at(SN_DEEPSEEK_V3, 1);
    tap_ok(strcmp(sn_hf_theirs(SN_DEEPSEEK_V3, r, at).text, "model.layers.61.shared_head.head.weight") == 0 &&
               !sn_hf_copy_rule_at(SN_DEEPSEEK_V3, 2) && !sn_hf_copy_rule_at(SN_LLAMA, 0),
           "deepseek-v3: and copies of the embedding and the head have names");
}

int main(void)
{
    further_blocks_have_names();
    lists_name_who_has_a_trait();
    some_have_twins_with_experts();
    for (int f = 0; f < SN_NFAMILIES; f++) {
        traits_go_together((enum sn_family)f);
        a_model_is_what_the_row_says((enum sn_family)f);
    }
    return tap_done();
}
