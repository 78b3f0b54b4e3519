/* Values that are none are found, and values that a smaller type cannot hold. */
#include "checkpoint/io/numbers.h"
#include "kernels/half.h"
#include "tests/lib/tap.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 3000 };

static void what_is_no_number_is_found(void)
{
    static const float none[] = {NAN, INFINITY, -INFINITY};
    static const int64_t at[] = {0, 1, 1023, 1024, 2047, 2999};
    static float p[N];
    int wrong = 0;
    for (int64_t i = 0; i < N; i++)
        p[i] = i % 2 ? FLT_MAX : -0x1p-149f;
    tap_ok(sn_find_nonfinite(p, N) == -1 && sn_find_nonfinite(p, 0) == -1,
           "the largest and the smallest numbers are numbers");
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 6; k++) {
            float kept = p[at[k]];
            p[at[k]] = none[i];
            wrong += sn_find_nonfinite(p, N) != at[k] || sn_find_nonfinite(p, at[k]) != -1;
            p[at[k]] = kept;
        }
    tap_ok(wrong == 0, "NaN and infinities are found where they are");
    p[2000] = NAN;
    p[1500] = INFINITY;
    tap_ok(sn_find_nonfinite(p, N) == 1500, "the first of them");
}

static void what_does_not_fit_is_found(void)
{
    static float p[N], lost;
    static uint16_t half[N];
    for (int64_t i = 0; i < N; i++)
        p[i] = (float)i * 0.25f - 300.0f;
    p[7] = INFINITY;
    p[8] = NAN;
    p[9] = nextafterf(65520.0f, 0.0f);
    bool good = sn_narrow(half, p, N, SN_F16, &lost);
    tap_ok(good && half[7] == 0x7c00 && (half[8] & 0x7c00) == 0x7c00 && half[9] == 0x7bff,
           "what is no number stays so, and what rounds down fits");
    int wrong = 0;
    for (int64_t i = 0; i < N; i++)
        wrong += half[i] != sn_f32_to_f16(p[i]);
    tap_ok(wrong == 0, "all are rounded to nearest even");
    p[2500] = -65520.0f;
    p[2600] = 1e30f;
    tap_ok(!sn_narrow(half, p, N, SN_F16, &lost) && lost == -65520.0f, "fp16: the first is told");
    tap_ok(sn_narrow(half, p, N, SN_BF16, &lost), "bf16 holds them");
    p[2500] = FLT_MAX;
    tap_ok(!sn_narrow(half, p, N, SN_BF16, &lost) && lost == FLT_MAX, "but not the largest");
    p[2500] = 1;
    (void)sn_narrow(half, p, N, SN_BF16, &lost);
    (void)sn_narrow((uint16_t *)(void *)p, p, N, SN_BF16, &lost);
    tap_ok(memcmp(p, half, sizeof(half)) == 0, "in place, too");
}

int main(void)
{
    what_is_no_number_is_found();
    what_does_not_fit_is_found();
    return tap_done();
}
