/*
 * vmath.h against libm in double: within 2 ulp for floats of every exponent, and the special cases.
 */
#include "kernels/cpu/vmath.h"
#include "tests/lib/tap.h"

/* Error in units in the last place of a float; results below the smallest normal
 * float count as it. */
static double ulps(float got, double want)
{
    if (isnan(want) || isinf((float)want))
        return (isnan(want) && isnan(got)) || got == (float)want ? 0.0 : INFINITY;
    int exponent;
    (void)frexp(want, &exponent);
    exponent = exponent < -125 ? -125 : exponent;
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

/* The exponential is 0 where the true value is below e^-87.33. */
static double flushed_exp(double x)
{
    return x < -87.33 ? 0.0 : exp(x);
}

struct function {
    const char *name;
    float (*ours)(float);
    double (*theirs)(double);
    float from, to; /* finite arguments between these are tried */
};

static void stays_within_two_ulp(const struct function *f)
{
    double worst = 0;
    float at = 0;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 4093) {
        float x = sn_bits_float((uint32_t)bits);
        if (!(x >= f->from && x <= f->to))
            continue;
        double off = ulps(f->ours(x), f->theirs((double)x));
        if (!(off <= worst)) {
            worst = off;
            at = x;
        }
    }
    tap_ok(worst <= 2, "%s is within 2 ulp: %.2f at %g", f->name, worst, (double)at);
}

static void special_values_are_right(void)
{
    tap_ok(sn_expf(-INFINITY) == 0 && sn_expf(INFINITY) == INFINITY && sn_expf(88.73f) == INFINITY,
           "exp of infinities, and overflow");
    tap_ok(sn_expf_low(-INFINITY) == 0 && sn_expf_low(0) == 1, "exp below a maximum");
    tap_ok(sn_logf(0) == -INFINITY && isnan(sn_logf(-1)) && sn_logf(INFINITY) == INFINITY,
           "log of 0, of a negative number, of infinity");
    tap_ok(sn_tanhf(INFINITY) == 1 && sn_tanhf(-INFINITY) == -1 && sn_erff(INFINITY) == 1 &&
               sn_erff(-INFINITY) == -1,
           "tanh and erf of infinities");
    tap_ok(isnan(sn_expf(NAN)) && isnan(sn_expf_low(NAN)) && isnan(sn_logf(NAN)) &&
               isnan(sn_tanhf(NAN)) && isnan(sn_erff(NAN)),
           "NaN gives NaN");
}

int main(void)
{
    static const float most = 3.4e38f;
    const struct function functions[] = {
        {"exp", sn_expf, flushed_exp, -most, most},
        {"exp below a maximum", sn_expf_low, flushed_exp, -most, 88.0f},
        {"log", sn_logf, log, -most, most},
        {"tanh", sn_tanhf, tanh, -most, most},
        {"erf", sn_erff, erf, -most, most},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        stays_within_two_ulp(&functions[i]);
    special_values_are_right();
    return tap_done();
}
