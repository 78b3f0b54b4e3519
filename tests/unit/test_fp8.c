/*
 * 8-bit floats against what PyTorch rounds to (tests/parity/make_fp8.py), and the scale of a
 * tensor.
 */
#include "kernels/fp8.h"
#include "kernels/half.h"
#include "tests/lib/tap.h"

#include <math.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static bool is_nan(unsigned code, enum sn_fp8_format t)
{
    return t == SN_E4M3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c;
}

static void rounding_is_pytorch_s(void)
{
    static const char *const names[] = {"e4m3", "e5m2"};
    unsigned bits, want[2];
    int n = 0, wrong[2] = {0, 0};
    FILE *f = fopen("tests/parity/fixtures/fp8", "r");
    tap_ok(f != NULL, "the fixture is there");
    while (f && fscanf(f, "%x %x %x", &bits, &want[0], &want[1]) == 3) {
        n++;
        for (int t = 0; t < 2; t++) {
            unsigned got = sn_f32_to_fp8(sn_fp8_bits(bits), (enum sn_fp8_format)t);
            if (t == SN_E4M3 && (bits & 0x7fffffffu) > 0x43e80000u) /* 464, and beyond: see fp8.h */
                want[t] = 0x7f;
            bool same = got == want[t] || (is_nan(got, (enum sn_fp8_format)t) &&
                                           is_nan(want[t], (enum sn_fp8_format)t));
            if (!same && wrong[t]++ < 5)
                printf("# %08x in %s is %02x, want %02x\n", bits, names[t], got, want[t]);
        }
    }
    if (f)
        (void)fclose(f);
    for (int t = 0; t < 2; t++)
        tap_ok(n > 3000 && wrong[t] == 0, "%s: %d numbers are rounded as PyTorch does", names[t],
               n);
}

static void every_code_comes_back(void)
{
    for (int t = 0; t < 2; t++) {
        bool good = true, halves = true;
        for (unsigned c = 0; c < 256; c++) {
            float x = sn_fp8_to_f32((uint8_t)c, (enum sn_fp8_format)t);
            if (is_nan(c, (enum sn_fp8_format)t)) {
                good = good && isnan(x);
                continue;
            }
            good = good && sn_f32_to_fp8(x, (enum sn_fp8_format)t) == c;
            halves = halves && bits_of(sn_bf16_to_f32(sn_f32_to_bf16(x))) == bits_of(x);
            if (t == SN_E5M2) /* fp16 cut short */
                halves = halves && bits_of(sn_f16_to_f32((uint16_t)(c << 8))) == bits_of(x);
        }
        tap_ok(good && halves, "%s: every code is its own rounding, and exact in bf16",
               t ? "e5m2" : "e4m3");
    }
}

static void scales_fill_the_range(void)
{
    static const float most[] = {448.0f, 57344.0f};
    bool good = true, alike = true;
    for (int t = 0; t < 2; t++)
        for (float amax = 0x1p-70f; amax < 0x1p100f; amax *= 1.37f) {
            int e = sn_fp8_exponent(bits_of(amax), (enum sn_fp8_format)t);
            float top = amax * sn_power_of_two(e);
            good = good && top <= most[t] && 2 * top > most[t];
            /* what is not far below amax is rounded alike whatever the scale */
            for (float x = amax; x > amax * 0x1p-10f; x *= 0.71f)
                alike = alike && sn_fp8_round(x, e, (enum sn_fp8_format)t) ==
                                     sn_fp8_round(x, e - 3, (enum sn_fp8_format)t);
        }
    tap_ok(good, "the largest value is within the format, and twice it is not");
    tap_ok(alike, "a scale that is a power of two does not change what it does not push out");
    tap_ok(sn_fp8_exponent(0, SN_E4M3) == 0 && sn_fp8_exponent(0x7f800000, SN_E4M3) == 0 &&
               sn_fp8_exponent(0x7fc00000, SN_E5M2) == 0 && sn_fp8_exponent(1, SN_E4M3) == 100,
           "zeros and what is not finite have no scale, and none exceeds 2^100");
    tap_ok(isnan(sn_fp8_round(INFINITY, 0, SN_E4M3)) && isinf(sn_fp8_round(INFINITY, 0, SN_E5M2)) &&
               isnan(sn_fp8_round(NAN, 0, SN_E4M3)) && isnan(sn_fp8_round(NAN, 0, SN_E5M2)),
           "what is not finite stays so");
}

int main(void)
{
    rounding_is_pytorch_s();
    every_code_comes_back();
    scales_fill_the_range();
    return tap_done();
}
