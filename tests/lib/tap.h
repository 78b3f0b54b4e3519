/*
 * tap.h - tests that print TAP: one header, no library.
 */
#ifndef TAP_H
#define TAP_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static bool tap_ok(bool good, const char *fmt, ...)
{
    char what[512];
    __builtin_va_list ap;
    __builtin_va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    __builtin_va_end(ap);
    tap_count++;
    tap_failed += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", tap_count, what);
    return good;
}

/* The same text, or both shown. */
__attribute__((unused)) static bool tap_text(const char *got, const char *want, const char *what)
{
    bool good = strcmp(got, want) == 0;
    tap_ok(good, "%s", what);
    if (!good)
        printf("#  got: %s\n# want: %s\n", got, want);
    return good;
}

/* |got - want| <= tol * max(|want|, floor) */
__attribute__((unused)) static bool tap_close(double got, double want, double tol, double floor,
                                              const char *what)
{
    double scale = fabs(want) > floor ? fabs(want) : floor;
    bool good = fabs(got - want) <= tol * scale; /* false for NaN */
    tap_ok(good, "%s", what);
    if (!good)
        printf("#  got %.9g, want %.9g, off by %.3g of %.3g\n", got, want, fabs(got - want), scale);
    return good;
}

/* A test that cannot run here says so aloud; the reason is printed. */
__attribute__((unused)) static void tap_skip(const char *what, const char *why)
{
    printf("ok %d - %s # SKIP %s\n", ++tap_count, what, why);
}

__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_count);
    if (tap_failed)
        printf("# %d of %d failed\n", tap_failed, tap_count);
    return tap_failed ? 1 : 0;
}

#endif
