/*
 * The update of a bucket in tiles, and gradients of two bytes: the same bits however it is cut, and
 * scratch that a tile bounds, whatever the experts' size.
 */
#include "tests/lib/accounting.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <string.h>

enum { STEPS = 4, TILE = SN_TILE_VALUES };

static struct sn_config config_of(int ffn)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.experts = (struct sn_experts_config){.count = 8, .top_k = 1, .every = 1};
    c.model.layers = 2;
    c.model.ffn = ffn;
    c.train.global_batch = 4;
    c.layout.bucket = 1 << 20;
    return c;
}

static struct layout_run train(const struct sn_config *c)
{
    struct layout_run r = {.steps = STEPS};
    layout_train(&r, c);
    return r;
}

struct variant {
    const char *name;
    int data, tensor, expert, zero;
    enum sn_dtype precision, grads;
};

static struct sn_config config_like(const struct variant *v)
{
    struct sn_config c = config_of(256);
    c.layout.data = v->data;
    c.layout.tensor = v->tensor;
    c.layout.expert = v->expert;
    c.layout.expert_buffer = 2;
    c.layout.zero = v->zero;
    c.train.precision = v->precision;
    c.train.grad_dtype = v->grads;
    return c;
}

static void tiles_change_no_bit(const struct variant *v)
{
    struct sn_config whole = config_like(v), tiled = whole;
    tiled.layout.optimizer_tile = TILE;
    struct layout_run a = train(&whole), b = train(&tiled);
    bool same = memcmp(a.loss, b.loss, sizeof(a.loss)) == 0 &&
                memcmp(a.norm, b.norm, sizeof(a.norm)) == 0 && a.val_loss == b.val_loss;
    tap_ok(!a.fault[0] && !b.fault[0] && same && a.traffic_is_planned && b.traffic_is_planned,
           "%s, in tiles of %d values: the bits of the update at once %s%s", v->name, TILE, a.fault,
           b.fault);
}

static void a_tile_bounds_the_scratch(void)
{
    struct sn_err err = {0};
    for (int ffn = 512; ffn <= 2048; ffn *= 2) {
        struct sn_config c = config_of(ffn);
        struct sn_memory_plan whole, tiled;
        int64_t slice = 0;
        c.layout.data = 2;
        c.layout.expert = 2;
        c.layout.expert_buffer = 2;
        c.train.grad_dtype = SN_BF16;
        int64_t all = account_update(&c, &slice, &whole, &err);
        c.layout.optimizer_tile = TILE;
        int64_t one = account_update(&c, &slice, &tiled, &err);
        tap_ok(all == 4 * slice && one == 4 * TILE && slice > TILE,
               "width %d: %lld bytes of fp32 gradients at once, want 4 x %lld; in tiles %lld, want "
               "4 x %d %s",
               ffn, (long long)all, (long long)slice, (long long)one, TILE, err.text);
        tap_ok(tiled.total < whole.total && whole.grads == tiled.grads,
               "and the plan is %lld bytes smaller", (long long)(whole.total - tiled.total));
    }
}

/* Half the bytes of every gradient that is a matrix of a block or the head. */
static void gradients_of_two_bytes_are_half(void)
{
    struct sn_err err = {0};
    struct sn_config c = config_of(512);
    struct sn_memory_plan fp32, bf16;
    int64_t slice = 0, d = c.model.hidden, layers = c.model.layers;
    (void)account_update(&c, &slice, &fp32, &err);
    c.train.grad_dtype = SN_BF16;
    (void)account_update(&c, &slice, &bf16, &err);
    int64_t block = 4 * d * d + 3 * d * c.model.ffn * c.model.experts.count;
    int64_t matrices = layers * block + c.model.vocab * d;
    int64_t saved = fp32.grads - bf16.grads;
    tap_ok(saved > 2 * matrices - 4096 && saved < 2 * matrices + 4096,
           "%lld bytes of gradients less; 2 of each of %lld values of matrices are %lld %s",
           (long long)saved, (long long)matrices, (long long)(2 * matrices), err.text);
}

static void losses_stay_near(void)
{
    struct variant v = {"", 2, 1, 2, 1, SN_F32, SN_F32};
    struct sn_config fp32 = config_like(&v);
    v.grads = SN_BF16;
    struct sn_config bf16 = config_like(&v);
    struct layout_run a = train(&fp32), b = train(&bf16);
    double off = layout_difference(&b, &a);
    /* a rounding of 2^-9 for each of a few contributions */
    tap_ok(!a.fault[0] && !b.fault[0] && off > 0 && off < 4e-3,
           "bf16 gradients: losses and norms off by %.1e %s%s", off, a.fault, b.fault);
}

int main(void)
{
    static const struct variant variants[] = {
        {"fp32 gradients", 1, 1, 1, 0, SN_F32, SN_F32},
        {"fp32 gradients, 2 tensor and 2 expert ranks, ZeRO 1", 2, 2, 2, 1, SN_F32, SN_F32},
        {"ZeRO 3", 2, 1, 1, 3, SN_F32, SN_F32},
        {"bf16 gradients", 1, 1, 1, 0, SN_F32, SN_BF16},
        {"bf16 weights and gradients, ZeRO 1", 2, 1, 1, 1, SN_BF16, SN_BF16},
        {"bf16 gradients, 2 expert ranks of 4 replicas, ZeRO 1", 4, 1, 2, 1, SN_F32, SN_BF16},
    };
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        tiles_change_no_bit(&variants[i]);
    a_tile_bounds_the_scratch();
    gradients_of_two_bytes_are_half();
    losses_stay_near();
    return tap_done();
}
