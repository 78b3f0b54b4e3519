/*
 * test_activations_rows.c - rows of what is kept, and the paper's figures beside them, by hand.
 * test_activations.c holds their sums to the arena over many layouts.
 */
#include "lib/base/mem.h"
#include "lib/report/activations.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <string.h>

/* Bytes of one slot of a single rank's model. */
static int64_t slot_of(struct sn_config *c)
{
    struct sn_model *model = NULL;
    struct sn_job *j = NULL;
    struct sn_err err = {0};
    int64_t bytes = -1;
    if (sn_model_create(&model, &c->model, &c->train, &err) == SN_OK) {
        struct sn_job_env env = {.config = c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
        if (sn_job_create(&j, &env, &err) == SN_OK)
            bytes = j->train.slot_bytes[0];
    }
    sn_job_destroy(j);
    sn_model_destroy(model);
    return bytes;
}

/* What one more block costs, against the paper's own count for a GPT in 2-byte numbers: 34 s b h,
 * of which 2 s b h are masks, and instead of the scores a log-sum-exp for each head. */
static void a_block_of_the_paper_s_gpt_keeps_32_sbh(void)
{
    struct sn_config c = layout_config(SN_GPT2);
    c.train.precision = SN_BF16;
    c.model.dropout = 0.1;
    c.model.ffn = 4 * c.model.hidden;
    c.model.seq = 64; /* nothing to round */
    c.model.layers = 3;
    int64_t three = slot_of(&c), T = 64, D = c.model.hidden, H = c.model.heads;
    c.model.layers = 2;
    int64_t one = three - slot_of(&c), want = 32 * T * D + 4 * T * H + 2 * 8 * T;
    tap_ok(one == want, "a block keeps %lld bytes of %lld", (long long)one, (long long)want);
    c.layout.recompute = SN_RECOMPUTE_FULL;
    int64_t two = slot_of(&c);
    c.model.layers = 3;
    one = slot_of(&c) - two;
    tap_ok(one == 2 * T * D, "recomputed, its input: %lld of %lld", (long long)one,
           (long long)(2 * T * D));
}

struct want {
    const char *name;
    int copies, counted;
    int64_t rows, cols;
    bool late;
    unsigned why;
};

static bool row_is(const struct sn_activations *a, const struct want *w)
{
    for (int i = 0; i < a->n; i++) {
        const struct sn_kept *k = &a->kept[i];
        if (strcmp(k->name, w->name) == 0 && k->late == w->late)
            return k->copies == w->copies && k->counted == w->counted && k->rows == w->rows &&
                   k->cols == w->cols && k->why == w->why;
    }
    return false;
}

static void without_memory_the_text_says_so(const struct sn_job *j)
{
    struct sn_str text = {0}, json = {0};
    static struct sn_activations a;
    sn_mem_fail_at(1);
    tap_ok(!sn_activations(&a, j, 0), "no memory, no rows");
    sn_mem_fail_at(1);
    sn_activations_text(&text, j);
    tap_ok(text.failed, "nor a table");
    sn_str_add(&json, "{");
    sn_mem_fail_at(1);
    sn_activations_json(&json, j);
    tap_ok(json.failed, "nor an object");
    sn_mem_fail_at(0);
    sn_str_fini(&text);
    sn_str_fini(&json);
}

/* Rows of one stage, in any order; there are no others. */
static void rows_are(struct sn_config *c, const struct want *w, int n, const char *what)
{
    struct sn_model *model = NULL;
    struct sn_job *j = NULL;
    struct sn_err err = {0};
    static struct sn_activations a;
    a.n = 0;
    if (sn_model_create(&model, &c->model, &c->train, &err) == SN_OK) {
        struct sn_job_env env = {.config = c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
        if (sn_job_create(&j, &env, &err) == SN_OK && !sn_activations(&a, j, 0))
            a.n = 0;
    }
    tap_ok(a.n == n, "%s: %d rows of %d", what, a.n, n);
    if (j)
        without_memory_the_text_says_so(j);
    for (int i = 0; i < n; i++)
        tap_ok(row_is(&a, &w[i]), "%s: %s", what, w[i].name);
    sn_job_destroy(j);
    sn_model_destroy(model);
}

enum { WHY_END = 1u << SN_WHY_END, WHY_OURS = 1u << SN_WHY_OURS, WHY_FLASH = 1u << SN_WHY_FLASH };

static void rows_are_named_after_what_a_place_holds(void)
{
    struct sn_config c = layout_config(SN_GPT2);
    c.train.precision = SN_BF16;
    c.model.dropout = 0.1;
    c.model.ffn = 4 * c.model.hidden;
    c.model.seq = 64;
    c.model.layers = 3;
    const struct want plain[] = {
        {"embed.drop", 1, 1, 64, 48, false, 0},
        {"attn_norm", 3, 3, 64, 48, false, 0},
        {"attn_norm.stats", 3, 0, 64, 2, false, WHY_OURS},
        {"attn.qkv", 3, 3, 64, 144, false, 0},
        {"attn.core", 3, 3, 64, 48, false, 0},
        {"attn.core.lse", 3, 0, 64, 12, false, WHY_FLASH},
        {"attn.add", 3, 3, 64, 48, false, 0},
        {"ffn_norm", 3, 3, 64, 48, false, 0},
        {"ffn_norm.stats", 3, 0, 64, 2, false, WHY_OURS},
        {"ffn.up", 3, 3, 64, 192, false, 0},
        {"ffn.act", 3, 3, 64, 192, false, 0},
        {"ffn.add", 3, 2, 64, 48, false, WHY_END},
        {"final_norm.stats", 1, 0, 64, 2, false, WHY_END},
        {"d.final_norm", 1, 0, 64, 48, false, WHY_END},
        {"masks", 0, 0, 0, 0, false, 1u << SN_WHY_MASKS},
        {"scores", 0, 0, 0, 0, false, WHY_FLASH},
    };
    rows_are(&c, plain, sizeof(plain) / sizeof(plain[0]), "one rank");
    c.layout.recompute = SN_RECOMPUTE_FULL;
    c.layout.comm_aware_recompute = true;
    c.layout.tensor = 2;
    c.layout.sequence_parallel = true;
    c.train.precision = SN_F32;
    const struct want again[] = {
        {"embed.drop", 1, 1, 32, 48, false, 1u << SN_WHY_FP32 | 1u << SN_WHY_SLICED},
        {"attn_norm.all", 3, 0, 64, 48, false, 1u << SN_WHY_SENT},
        {"attn.o.sum", 3, 0, 32, 48, false, 1u << SN_WHY_SENT},
        {"ffn_norm.all", 3, 0, 64, 48, false, 1u << SN_WHY_SENT},
        {"ffn.add", 3, 2, 32, 48, false, 1u << SN_WHY_FP32 | 1u << SN_WHY_SLICED | WHY_END},
        {"final_norm.stats", 1, 0, 32, 2, false, WHY_END},
        {"d.final_norm", 1, 0, 32, 48, false, WHY_END},
    };
    rows_are(&c, again, sizeof(again) / sizeof(again[0]), "collectives alone");
}

static void delayed_weight_gradients_read_late_copies(void)
{
    struct sn_config c = layout_config(SN_GPT_NEOX);
    c.train.precision = SN_BF16;
    c.model.ffn = 200;
    c.model.seq = 63;
    c.model.layers = 2;
    c.layout.split_backward = true;
    c.layout.recompute = SN_RECOMPUTE_SELECTIVE;
    const unsigned late = 1u << SN_WHY_DELAYED, again = 1u << SN_WHY_DELAYED_AGAIN;
    const unsigned rounded = 1u << SN_WHY_ROUNDED, drops = 1u << SN_WHY_AGAIN;
    const struct want rows[] = {
        {"embed", 1, 1, 63, 48, false, rounded},
        {"attn.rope", 2, 2, 63, 144, false, rounded},
        {"attn.core", 2, 2, 63, 48, false, rounded},
        {"attn.core.lse", 2, 0, 63, 12, false, WHY_FLASH | rounded},
        {"ffn.up", 2, 2, 63, 200, false, 1u << SN_WHY_WIDTH | rounded},
        {"ffn.add", 2, 1, 63, 48, false, WHY_END | rounded},
        {"final_norm.stats", 1, 0, 63, 2, false, WHY_END | rounded},
        {"d.final_norm", 1, 0, 63, 48, false, WHY_END | rounded},
        {"attn_norm", 2, 0, 63, 48, true, again | rounded},
        {"attn_norm.stats", 2, 0, 63, 2, true, again | rounded},
        {"ffn_norm", 2, 0, 63, 48, true, again | rounded},
        {"ffn_norm.stats", 2, 0, 63, 2, true, again | rounded},
        {"ffn.act", 2, 0, 63, 200, true, again | rounded},
        {"d.ffn.add", 2, 0, 63, 48, true, late | rounded},
        {"d.attn.qkv", 2, 0, 63, 144, true, late | rounded},
        {"d.ffn_norm", 2, 0, 63, 48, true, late | rounded},
        {"d.attn_norm", 2, 0, 63, 48, true, late | rounded},
        {"d.embed", 1, 0, 63, 48, true, late | rounded},
        {"attn_norm", 0, 0, 0, 0, false, drops},
        {"ffn_norm", 0, 0, 0, 0, false, drops},
        {"attn.add", 0, 0, 0, 0, false, 1u << SN_WHY_PARALLEL},
        {"ffn.act", 0, 0, 0, 0, false, drops},
        {"masks", 0, 0, 0, 0, false, 1u << SN_WHY_MASKS},
    };
    rows_are(&c, rows, sizeof(rows) / sizeof(rows[0]), "split backward");
}

static void the_paper_s_equations_are_those(void)
{
    static const struct {
        int tensor, recompute;
        bool sp;
        double fixed, cut, scores; /* (fixed + cut / t + scores 5 a s / (h t)) s b h */
    } rows[] = {
        {1, SN_RECOMPUTE_NONE, false, 10, 24, 1},      {3, SN_RECOMPUTE_NONE, false, 10, 24, 1},
        {3, SN_RECOMPUTE_NONE, true, 0, 34, 1},        {3, SN_RECOMPUTE_SELECTIVE, true, 0, 34, 0},
        {3, SN_RECOMPUTE_SELECTIVE, false, 10, 24, 0}, {3, SN_RECOMPUTE_FULL, true, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sn_config c = layout_config(SN_GPT2);
        c.layout.micro_batch = 2;
        c.layout.context = 1;
        c.layout.tensor = rows[i].tensor;
        c.layout.recompute = (enum sn_recompute)rows[i].recompute;
        c.layout.sequence_parallel = rows[i].sp;
        struct sn_job j = {.config = &c};
        double sbh = 48.0 * 2 * 48, scores = 5.0 * 12 * 48 / 48;
        double each = rows[i].fixed + (rows[i].cut + rows[i].scores * scores) / rows[i].tensor;
        tap_close(sn_activations_literature(&j, 6), 6 * sbh * each, 1e-12, 1, "the paper's sum");
    }
}

int main(void)
{
    a_block_of_the_paper_s_gpt_keeps_32_sbh();
    rows_are_named_after_what_a_place_holds();
    delayed_weight_gradients_read_late_copies();
    the_paper_s_equations_are_those();
    return tap_done();
}
