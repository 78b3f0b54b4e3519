/*
 * test_grow.c - growing and delinking as sources: boxes, names, texts, refusals. What the models
 * compute is asked in test_grow_train.c.
 */
#include "checkpoint/convert/tile.h"
#include "checkpoint/store/model_text.h"
#include "tests/lib/dice.h"
#include "tests/lib/source_test.h"
#include "tests/lib/tap.h"

#define TEXT(family, hidden, heads, kv, ffn, tied, share)                                          \
    "model:\n  family: " family "\n  layers: 12\n  hidden: " hidden "\n  heads: " heads            \
    "\n  kv_heads: " kv "\n  ffn: " ffn                                                            \
    "\n  activation: silu\n  vocab: 50\n  seq: 8\n  tied_embeddings: " tied                        \
    "\n  rope_theta: 10000\n  rotary_pct: 1\n  parallel_residual: false\n  norm_eps: 1e-05\n"      \
    "  init_std: 0\n  dropout: 0\n  share_layers: " share "\n"

static const char llama[] = TEXT("llama", "16", "4", "2", "20", "false", "1");
static const char tied[] = TEXT("llama", "16", "4", "2", "20", "true", "1");
static const char shared[] = TEXT("llama", "16", "4", "2", "20", "false", "3");

/* Some tensors of such a model. */
static void add_some(struct fake *f)
{
    static const char *const groups[] = {"model", "exp_avg", "exp_avg_sq"};
    for (int g = 0; g < 3; g++) {
        (void)fake_add(f, groups[g], "embed.weight", 50, 16);
        (void)fake_add(f, groups[g], "head.weight", 50, 16);
        (void)fake_add(f, groups[g], "final_norm.weight", 16, 1);
        (void)fake_add(f, groups[g], "layers.9.attn.k.weight", 8, 16);
        (void)fake_add(f, groups[g], "layers.9.attn_norm.weight", 16, 1);
        (void)fake_add(f, groups[g], "layers.0.ffn.down.weight", 16, 20);
        (void)fake_add(f, groups[g], "layers.0.ffn.down.bias", 16, 1);
    }
    for (int i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->tensors[i].rows * f->tensors[i].cols; k++)
            f->values[i][k] = (float)(1000 * i + k);
}

static struct sn_box some_box(struct dice *d, int64_t rows, int64_t cols)
{
    struct sn_box b = {.row = roll(d, rows + 1), .col = roll(d, cols + 1)};
    b.rows = roll(d, rows - b.row + 1);
    b.cols = roll(d, cols - b.col + 1);
    return b;
}

/* --- boxes ------------------------------------------------------------------------------------ */

enum { WANTS = 40, LD = 90, ROWS = 90 };

/* The box in memory is what the definition of a tile says, and nothing around it was touched. */
static bool is_right(const struct fake *f, const struct sn_tensor_tile *tile, struct sn_box box,
                     const float *out)
{
    const struct sn_source_tensor *small = &f->tensors[tile->from];
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < LD; c++) {
            float want = -1;
            if (r < box.rows && c < box.cols)
                want = f->values[tile->from][(box.row + r) % small->rows * small->cols +
                                             (box.col + c) % small->cols] /
                       tile->divisor;
            if (out[r * LD + c] != want)
                return false;
        }
    return true;
}

static void any_box_of_a_repeated_tensor_is_read_once(void)
{
    static float out[ROWS * LD];
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_config c;
    struct sn_source s, tiled = {0};
    struct sn_source_want wants[WANTS];
    struct sn_tensor_tile tile[3] = {{0, 5, 4, 3, 0}, {0, 1, 6, 1, 0}, {0, 8, 1, 49, 0}};
    struct sn_tiled *t = NULL;
    struct dice d = {.key = 11};
    float *p = fake_add(&f, "model", "w", 7, 11);
    for (int i = 0; i < 77; i++)
        p[i] = (float)i;
    s = fake_source(&f, llama);
    bool good = sn_model_text_parse(&c, llama, "test", &err) == SN_OK &&
                sn_tiled_create(&t, &s, 3, &err) == SN_OK &&
                sn_tiled_add(t, "a", tile[0], &err) == SN_OK &&
                sn_tiled_add(t, "b", tile[1], &err) == SN_OK &&
                sn_tiled_add(t, "c", tile[2], &err) == SN_OK &&
                sn_tiled_finish(&tiled, t, &s, &c, "test", &err) == SN_OK;
    tap_ok(good && tiled.tensors[0].rows == 35 && tiled.tensors[0].cols == 44 &&
               tiled.tensors[1].rows == 7 && tiled.tensors[1].cols == 66 &&
               tiled.tensors[2].rows == 56 && tiled.tensors[2].cols == 11,
           "copies along rows, along columns, along both %s", err.text);
    for (int round = 0; round < 100 && good; round++) {
        int64_t most = 0;
        for (int i = 0; i < WANTS; i++) {
            int k = (int)roll(&d, 3);
            struct sn_box box = some_box(&d, tiled.tensors[k].rows, tiled.tensors[k].cols);
            wants[i] = (struct sn_source_want){k, box};
            most += (box.rows < 7 ? box.rows : 7) * (box.cols < 11 ? box.cols : 11);
        }
        f.read = 0;
        good = tiled.begin(tiled.self, wants, WANTS, 1 << 20, &err) == SN_OK;
        for (int i = 0; i < WANTS && good; i++) {
            for (int k = 0; k < ROWS * LD; k++)
                out[k] = -1;
            good = tiled.next(tiled.self, out, LD, &err) == SN_OK &&
                   is_right(&f, &tile[wants[i].tensor], wants[i].box, out);
        }
        good = good && f.read == most;
    }
    tap_ok(good, "4000 random boxes (key 11) are right, each read at most one copy's worth %s",
           err.text);
    tap_ok(good && tiled.next(tiled.self, out, LD, &err) == SN_EFAIL,
           "a box that was not announced is our own mistake");
    f.fail_at = 1;
    wants[0] = (struct sn_source_want){0, {3, 3, 20, 20}};
    tap_ok(good && tiled.begin(tiled.self, wants, 1, 0, &err) == SN_OK &&
               tiled.next(tiled.self, out, LD, &err) == SN_EIO,
           "a read that fails is passed on");
    sn_source_close(&tiled);
    tap_ok(f.closes == 1, "closing it closes the source within");
    fake_fini(&f);
}

static void noise_cancels_and_knows_no_boxes(void)
{
    enum { SMALL = 70, COPIES = 5, ALL = SMALL * COPIES, HIGH = 6 };
    static float whole[HIGH * ALL], part[HIGH * ALL];
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_config c;
    struct sn_source s, tiled = {0};
    struct sn_tiled *t = NULL;
    struct dice d = {.key = 12};
    float *p = fake_add(&f, "model", "w", 3, SMALL);
    for (int i = 0; i < 3 * SMALL; i++)
        p[i] = (float)(1 + i);
    s = fake_source(&f, llama);
    bool good =
        sn_model_text_parse(&c, llama, "test", &err) == SN_OK &&
        sn_tiled_create(&t, &s, 1, &err) == SN_OK &&
        sn_tiled_add(t, "w", (struct sn_tensor_tile){0, 2, COPIES, 2, 0.25f}, &err) == SN_OK &&
        sn_tiled_finish(&tiled, t, &s, &c, "test", &err) == SN_OK &&
        source_box(&tiled, 0, (struct sn_box){0, 0, HIGH, ALL}, whole, &err) == SN_OK;
    bool sums = true, sizes = true, last = true;
    int more = 0, same = 0;
    for (int i = 0; i < HIGH * SMALL; i++) {
        int r = i / SMALL, k = i % SMALL;
        float w = p[r % 3 * SMALL + k] / 2;
        const float *x = &whole[r * ALL + k];
        for (int pair = 0; pair < 2; pair++) {
            float a = x[2 * pair * SMALL], b = x[(2 * pair + 1) * SMALL];
            sums = sums && a + b == 2 * w;
            sizes = sizes && (a == 1.25f * w || a == 0.75f * w);
            more += a > b;
        }
        last = last && x[4 * SMALL] == w;
        same += (x[0] > w) == (x[2 * SMALL] > w);
        same += r < 3 && (x[0] > w) == (x[3 * ALL] > w);
    }
    tap_ok(good && sums && sizes, "noise: two copies are 1 + x and 1 - x times the weight");
    tap_ok(good && last, "the last of an odd number of copies has none");
    /* 840 and 630 coins: 5 standard deviations */
    tap_ok(abs(more - 420) < 73 && abs(same - 315) < 63,
           "which is which is a coin for every element of every pair (%d of 840, %d of 630)", more,
           same);
    for (int round = 0; round < 500 && good; round++) {
        struct sn_box b = some_box(&d, HIGH, ALL);
        good = source_box(&tiled, 0, b, part, &err) == SN_OK;
        for (int64_t r = 0; r < b.rows && good; r++)
            good = b.cols == 0 || !memcmp(&part[r * b.cols], &whole[(b.row + r) * ALL + b.col],
                                          (size_t)b.cols * sizeof(*part));
    }
    tap_ok(good, "the same values in any of 500 random boxes (key 12) %s", err.text);
    sn_source_close(&tiled);
    fake_fini(&f);
}

/* --- what grows into what --------------------------------------------------------------------- */

static void expect(struct sn_source *s, const char *group, const char *name, int64_t rows,
                   int64_t cols, float second)
{
    int i = source_number(s, group, name);
    float *p = i >= 0 ? source_whole(s, group, name) : NULL;
    bool good = p && s->tensors[i].rows == rows && s->tensors[i].cols == cols && p[1] == second;
    tap_ok(good, "%s %s: [%d, %d]", group, name, (int)rows, (int)cols);
    if (!good && p)
        printf("# [%d, %d], second value %g instead of %g\n", (int)s->tensors[i].rows,
               (int)s->tensors[i].cols, (double)p[1], (double)second);
    sn_free(p);
}

/* Noise of 0.25 in 3 copies: the first two differ from the last, which is as without. */
static void only_divided_weights_have_noise(struct fake *f, struct sn_source *grown)
{
    bool good = true;
    for (int i = 0; i < grown->n_tensors && good; i++) {
        const struct sn_source_tensor *t = &grown->tensors[i];
        bool noisy = !strcmp(t->group, "model") &&
                     (!strcmp(t->name, "head.weight") || strstr(t->name, "attn.k.weight") ||
                      strstr(t->name, "ffn.down.weight"));
        float *p = source_whole(grown, t->group, t->name);
        int64_t third = f->tensors[i].cols;
        good = p && (t->cols == 1 || t->cols == 3 * third);
        for (int64_t c = 0; c < third && t->cols > 1 && good; c++)
            good = (p[c] != p[2 * third + c]) == (noisy && p[c] != 0);
        sn_free(p);
    }
    tap_ok(good, "in weights that are divided, in no other and in no moment");
}

static void every_kind_grows_in_its_way(void)
{
    struct fake f = {0};
    struct sn_err err = {0};
    add_some(&f);
    struct sn_source s = fake_source(&f, llama), grown = {0};
    s.least = 77;
    f.tensors[source_number(&s, "model", "head.weight")].dtype = SN_BF16;
#define OLD(group, name) f.values[source_number(&old, group, name)][1]
    struct sn_source old = s;
    if (!tap_ok(sn_source_grow(&grown, &s, 3, 0, &err) == SN_OK, "grown 3 times %s", err.text))
        return;
    tap_ok(!s.self && !s.close, "the source within has a new owner");
    tap_text(grown.model_text, TEXT("llama", "48", "12", "6", "60", "false", "1"),
             "hidden, heads, kv_heads and ffn are wider, the rest is as before");
    tap_ok(grown.n_tensors == 21 && !strcmp(grown.name, "fake") && grown.least == 77 &&
               !memcmp(&grown.scalars, &old.scalars, sizeof(old.scalars)),
           "name, scalars and the number of tensors stay");
    tap_ok(grown.tensors[source_number(&grown, "model", "head.weight")].dtype == SN_BF16,
           "and types");
    expect(&grown, "model", "embed.weight", 50, 48, OLD("model", "embed.weight"));
    expect(&grown, "model", "head.weight", 50, 48, OLD("model", "head.weight") / 3);
    expect(&grown, "model", "final_norm.weight", 48, 1, OLD("model", "final_norm.weight"));
    expect(&grown, "model", "layers.9.attn.k.weight", 24, 48,
           OLD("model", "layers.9.attn.k.weight") / 3);
    expect(&grown, "model", "layers.9.attn_norm.weight", 48, 1,
           OLD("model", "layers.9.attn_norm.weight"));
    expect(&grown, "model", "layers.0.ffn.down.weight", 48, 60,
           OLD("model", "layers.0.ffn.down.weight") / 3);
    expect(&grown, "model", "layers.0.ffn.down.bias", 48, 1,
           OLD("model", "layers.0.ffn.down.bias"));
    expect(&grown, "exp_avg", "embed.weight", 50, 48, OLD("exp_avg", "embed.weight") / 3);
    expect(&grown, "exp_avg", "head.weight", 50, 48, OLD("exp_avg", "head.weight"));
    expect(&grown, "exp_avg_sq", "head.weight", 50, 48, OLD("exp_avg_sq", "head.weight"));
    expect(&grown, "exp_avg_sq", "layers.0.ffn.down.weight", 48, 60,
           OLD("exp_avg_sq", "layers.0.ffn.down.weight") / 9);
    uint64_t exact = grown.identity;
    sn_source_close(&grown);
    s = fake_source(&f, llama);
    tap_ok(sn_source_grow(&grown, &s, 3, 0.25, &err) == SN_OK && grown.identity != exact,
           "noise makes another source %s", err.text);
    only_divided_weights_have_noise(&f, &grown);
    sn_source_close(&grown);
    s = fake_source(&f, tied);
    tap_ok(sn_source_grow(&grown, &s, 3, 0, &err) == SN_OK, "the same with a tied head %s",
           err.text);
    expect(&grown, "model", "embed.weight", 50, 48, OLD("model", "embed.weight"));
    expect(&grown, "model", "final_norm.weight", 48, 1, OLD("model", "final_norm.weight") / 3);
    expect(&grown, "exp_avg_sq", "embed.weight", 50, 48, OLD("exp_avg_sq", "embed.weight") / 9);
    expect(&grown, "exp_avg", "final_norm.weight", 48, 1, OLD("exp_avg", "final_norm.weight"));
    sn_source_close(&grown);
    fake_fini(&f);
}

static void delinked_layers_have_names_of_their_own(void)
{
    static const char *const names[] = {"embed.weight",
                                        "final_norm.weight",
                                        "head.weight",
                                        "layers.0.ffn.down.bias",
                                        "layers.0.ffn.down.weight",
                                        "layers.1.ffn.down.bias",
                                        "layers.1.ffn.down.weight",
                                        "layers.10.attn.k.weight",
                                        "layers.10.attn_norm.weight",
                                        "layers.11.attn.k.weight",
                                        "layers.11.attn_norm.weight",
                                        "layers.2.ffn.down.bias",
                                        "layers.2.ffn.down.weight",
                                        "layers.9.attn.k.weight",
                                        "layers.9.attn_norm.weight"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    struct fake f = {0};
    struct sn_err err = {0};
    add_some(&f);
    struct sn_source s = fake_source(&f, shared), own = {0}, grown = {0};
    struct sn_source old = s;
    if (!tap_ok(sn_source_delink(&own, &s, &err) == SN_OK, "delinked %s", err.text))
        return;
    bool good = own.n_tensors == 3 * NAMES;
    for (int i = 0; i < NAMES && good; i++)
        good = !strcmp(own.tensors[2 * NAMES + i].name, names[i]) &&
               !strcmp(own.tensors[2 * NAMES + i].group, "model") &&
               !strcmp(own.tensors[i].name, names[i]) && !strcmp(own.tensors[i].group, "exp_avg");
    tap_ok(good, "each layer of three has its tensors, sorted by name");
    tap_text(own.model_text, TEXT("llama", "16", "4", "2", "20", "false", "1"),
             "share_layers is 1");
    expect(&own, "model", "layers.11.attn.k.weight", 8, 16, OLD("model", "layers.9.attn.k.weight"));
    expect(&own, "exp_avg_sq", "layers.2.ffn.down.weight", 16, 20,
           OLD("exp_avg_sq", "layers.0.ffn.down.weight"));
    uint64_t before = own.identity;
    tap_ok(sn_source_grow(&grown, &own, 2, 0, &err) == SN_OK, "delinked, then grown %s", err.text);
    tap_ok(before != old.identity && grown.identity != before, "each step is another identity");
    expect(&grown, "model", "layers.1.ffn.down.weight", 32, 40,
           OLD("model", "layers.0.ffn.down.weight") / 2);
    sn_source_close(&grown);
    fake_fini(&f);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refused(struct fake *f, const char *text, int n, const char *want)
{
    struct sn_err err = {0};
    struct sn_source s = fake_source(f, text), out = {0};
    enum sn_status st = n ? sn_source_grow(&out, &s, n, 0, &err) : sn_source_delink(&out, &s, &err);
    tap_ok(st == SN_EINPUT && s.self == f, "refused, and the source stays open");
    tap_text(err.text, want, want);
    sn_source_close(&s);
}

static void what_cannot_be_done_is_refused(void)
{
    struct fake f = {0};
    refused(&f, llama, 1, "grow: 1 times is outside 2..64; want a whole number such as 2");
    refused(&f, llama, 65, "grow: 65 times is outside 2..64; want a whole number such as 2");
    struct sn_err err = {0};
    struct sn_source s = fake_source(&f, llama), out = {0};
    tap_ok(sn_source_grow(&out, &s, 2, 1.5, &err) == SN_EINPUT &&
               sn_source_grow(&out, &s, 2, NAN, NULL) == SN_EINPUT,
           "noise that turns weights around is refused");
    tap_text(err.text, "grow: noise of 1.5 is outside 0..0.9; want a number such as 0.3",
             "with a sentence");
    refused(&f, llama, 0, "fake: delink: no layers share weights (model.share_layers is 1)");
    refused(&f, TEXT("llama", "786432", "4", "2", "20", "false", "1"), 2,
            "fake: model section:4:11: model.hidden: 1572864 is outside 1..1048576 features");
    refused(
        &f,
        "model:\n  family: mixtral\n  layers: 1\n  hidden: 8\n  heads: 2\n  ffn: 8\n  vocab: 8\n"
        "  seq: 8\n  experts:\n    count: 4\n",
        2, "grow: fake has experts, and growing those is not built yet; want a dense model");
    refused(&f, "model:\n  family: mixtral\n  experts:\n    file: m.yaml\n", 2,
            "fake: line 4 of its model section is none of ours; want 'model:', then lines such as "
            "'  layers: 12'");
    refused(&f, "", 2,
            "fake: model section: model.family: missing; want gpt2, gpt-neox, llama, mixtral, "
            "qwen2, qwen2-moe, qwen3, qwen3-moe, dots1, deepseek-v2, deepseek-v3, olmo2, phi3, gemma2, gemma3 or starcoder2");
    refused(&f, "model:\n  family: llama\n  file: /etc/passwd\n", 2,
            "fake: line 3 of its model section is none of ours; want 'model:', then lines such as "
            "'  layers: 12'");
    refused(&f, "model: {file: /etc/passwd}\n", 0,
            "fake: line 1 of its model section is none of ours; want 'model:', then lines such as "
            "'  layers: 12'");
    (void)fake_add(&f, "model", "layers.9.router", 4, 16);
    refused(&f, llama, 2, "fake: grow: nothing is known about tensors such as 'layers.9.router'");
    fake_fini(&f);
    (void)fake_add(&f, "momentum", "embed.weight", 4, 16);
    refused(&f, llama, 2,
            "fake: grow: 'embed.weight' is of group 'momentum', and no optimizer has such "
            "moments; known are model and the moments of optimizers");
    fake_fini(&f);
    (void)fake_add(&f, "model", "layers.8.attn.k.weight", 4, 16);
    refused(
        &f, shared, 0,
        "fake: tensor 'layers.8.attn.k.weight' has no place in a model of 12 layers, of which 3 "
        "at a time share theirs");
    fake_fini(&f);
    (void)fake_add(&f, "model", "layers.00.attn.k.weight", 4, 16);
    (void)fake_add(&f, "model", "layers.0.attn.k.weight", 4, 16);
    refused(&f, shared, 0, "fake: delink: two tensors would be named 'layers.0.attn.k.weight'");
    fake_fini(&f);
    (void)fake_add(&f, "model", "embed.weight", 4, 16);
    f.tensors[0].cols = INT64_MAX / 3;
    refused(&f, llama, 2, "fake: embed.weight would have more elements than can be counted");
    fake_fini(&f);
}

static void a_failed_allocation_is_a_sentence(void)
{
    struct fake f = {0};
    float out[64];
    bool good = true;
    int n = 0;
    add_some(&f);
    for (enum sn_status st = SN_ENOMEM; st != SN_OK && good; n++) {
        struct sn_err err = {0};
        struct sn_source s = fake_source(&f, shared), own = {0}, grown = {0};
        sn_mem_fail_at((uint64_t)n + 1);
        st = sn_source_delink(&own, &s, &err);
        if (st == SN_OK)
            st = sn_source_grow(&grown, &own, 2, 0, &err);
        if (st == SN_OK)
            st = source_box(&grown, 0, (struct sn_box){0, 0, 8, 8}, out, &err);
        sn_mem_fail_at(0);
        good = st == SN_OK || (st == SN_ENOMEM && strstr(err.text, "no memory"));
        sn_source_close(&grown);
        sn_source_close(&own);
        sn_source_close(&s);
        good = good && f.closes == n + 1;
    }
    tap_ok(good && n > 40, "each of %d allocations may fail: one sentence, nothing lost", n - 1);
    fake_fini(&f);
}

int main(void)
{
    any_box_of_a_repeated_tensor_is_read_once();
    noise_cancels_and_knows_no_boxes();
    every_kind_grows_in_its_way();
    delinked_layers_have_names_of_their_own();
    what_cannot_be_done_is_refused();
    a_failed_allocation_is_a_sentence();
    return tap_done();
}
