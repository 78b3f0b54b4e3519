/*
 * test_model.c - the model of bf16 products (model/immintrin.h) beside the processor's instructions,
 * bit for bit, where it has them: numbers of every kind, denormals, infinities and NaN among them.
 * What it lacks is skipped aloud.
 */
#include "tests/isa/model/immintrin.h"

#include "kernels/isa.h"
#include "lib/base/rng.h"
#include "tests/lib/tap.h"

enum { ROUNDS = 20000, PAIRS = 16, SEED = 2026 };

static bool has(const char *set)
{
    struct sn_isa list[SN_ISA_MOST];
    const char *lacks;
    (void)sn_ops_cpu(); /* the tables are linked with what chooses one */
    for (int i = 0, n = sn_isa_list(list, &lacks); i < n; i++)
        if (strcmp(list[i].ops->name, set) == 0)
            return true;
    return false;
}

/*
 * 16 upper bits of a float. Of eight: one is denormal or zero, one near the least normal number,
 * one infinity or NaN where `all`, the rest within 2^-8 .. 2^8, where sums cancel and round.
 */
static uint16_t number(uint64_t draw, bool all)
{
    uint32_t sign = draw & 0x8000u, fraction = draw & 0x7fu, exponent = 119 + (draw >> 16) % 16;
    switch (draw >> 32 & 7) {
    case 0:
        exponent = 0;
        break;
    case 1:
        exponent = 56 + (draw >> 16) % 16; /* products of two lie about 2^-126 */
        break;
    case 2:
        exponent = all ? 255 : exponent;
        break;
    default:
        break;
    }
    return (uint16_t)(sign | exponent << 7 | fraction);
}

static float sum_of(uint64_t draw, bool all)
{
    uint32_t u = (uint32_t)number(draw, all) << 16 | (uint32_t)(draw >> 48);
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

static void dot(float sum[16], const uint16_t *a, const uint16_t *b)
{
    __asm__ volatile("vmovups (%0), %%zmm0\n\tvmovups (%1), %%zmm1\n\t"
                     "vdpbf16ps (%2), %%zmm1, %%zmm0\n\tvmovups %%zmm0, (%0)\n\tvzeroupper"
                     :
                     : "r"(sum), "r"(a), "r"(b)
                     : "memory", "xmm0", "xmm1");
}

static void dots_are_as_modelled(void)
{
    if (!has("cpu/avx512bf16")) {
        tap_skip("VDPBF16PS is as modelled", "this processor has no AVX512-BF16");
        return;
    }
    int wrong = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint16_t a[32], b[32];
        __m512 want;
        float real[16];
        for (uint64_t j = 0; j < 32; j++) {
            a[j] = number(sn_rng_bits(SEED, i * 128 + j), i % 2);
            b[j] = number(sn_rng_bits(SEED, i * 128 + 32 + j), i % 2);
        }
        for (uint64_t j = 0; j < 16; j++)
            want.lane[j] = real[j] = sum_of(sn_rng_bits(SEED, i * 128 + 64 + j), i % 2);
        want = model_dpbf16_ps(want, a, b);
        dot(real, a, b);
        for (int j = 0; j < 16; j++)
            if (!same(want.lane[j], real[j]) && wrong++ < 5)
                printf("# (%04x %04x) (%04x %04x): %a, model %a\n", a[2 * j], a[2 * j + 1],
                       b[2 * j], b[2 * j + 1], (double)real[j], (double)want.lane[j]);
    }
    tap_ok(wrong == 0, "VDPBF16PS is as modelled: %d sums, seed %d", ROUNDS * 16, SEED);
}

/* What LDTILECFG reads (palette 1), of three tiles of 16 rows and 64 bytes. */
static const struct {
    unsigned char palette, row, zero[14];
    uint16_t bytes[16];
    unsigned char rows[16];
} config = {.palette = 1, .bytes = {64, 64, 64}, .rows = {16, 16, 16}};

static void tile_product(float c[16][16], uint16_t a[16][32], uint16_t b[16][32])
{
    __asm__ volatile("ldtilecfg (%0)\n\ttileloadd (%1,%4,1), %%tmm0\n\t"
                     "tileloadd (%2,%4,1), %%tmm1\n\ttileloadd (%3,%4,1), %%tmm2\n\t"
                     "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\ttilestored %%tmm0, (%1,%4,1)\n\t"
                     "tilerelease"
                     :
                     : "r"(&config), "r"(c), "r"(a), "r"(b), "r"((size_t)64)
                     : "memory");
}

static void tiles_are_as_modelled(void)
{
    if (!has("cpu/amx")) {
        tap_skip("TDPBF16PS is as modelled", "this processor has no AMX");
        return;
    }
    int wrong = 0;
    for (uint64_t i = 0; i < ROUNDS / 100; i++) {
        uint16_t a[16][32], b[16][32];
        float real[16][16], model_c[16][16];
        for (uint64_t j = 0; j < 512; j++) {
            a[j / 32][j % 32] = number(sn_rng_bits(SEED, i * 2048 + j), false);
            b[j / 32][j % 32] = number(sn_rng_bits(SEED, i * 2048 + 512 + j), false);
        }
        for (uint64_t j = 0; j < 256; j++)
            real[j / 16][j % 16] = sum_of(sn_rng_bits(SEED, i * 2048 + 1024 + j), false);
        _tile_loadconfig(&config);
        _tile_loadd(0, real, 64);
        _tile_loadd(1, a, 64);
        _tile_loadd(2, b, 64);
        _tile_dpbf16ps(0, 1, 2);
        _tile_stored(0, model_c, 64);
        _tile_release();
        tile_product(real, a, b);
        for (int j = 0; j < 256; j++)
            wrong += !same(real[j / 16][j % 16], model_c[j / 16][j % 16]);
    }
    tap_ok(wrong == 0, "TDPBF16PS is as modelled: seed %d", SEED);
}

int main(void)
{
    dots_are_as_modelled();
    tiles_are_as_modelled();
    return tap_done();
}
