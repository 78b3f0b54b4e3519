/*
 * test_kept_line.c - what stages keep by micro-batch: taken from a line where a third point was on it, compiled
 * where it was not. That estimates are what is compiled is test_estimate.c's.
 */
#include "lib/search/kept.h"
#include "tests/lib/tap.h"

#include <string.h>

static struct sn_kept_pair pair(int64_t layer, int64_t late)
{
    return (struct sn_kept_pair){.slot = {10, {layer}}, .late = {0, {late, 3}}};
}

static void lines_hold_or_bend(void)
{
    struct sn_kept_line l = {0};
    struct sn_kept_pair x, at[] = {pair(100, 7), pair(200, 9), pair(400, 13), pair(500, 15)};
    sn_kept_tell_line(&l, 1, &at[0]);
    sn_kept_tell_line(&l, 2, &at[1]);
    tap_ok(!sn_kept_on_line(&x, &l, 4), "two points are no line yet");
    sn_kept_tell_line(&l, 4, &at[2]);
    tap_ok(sn_kept_on_line(&x, &l, 5) && memcmp(&x, &at[3], sizeof(x)) == 0,
           "a third on it: others are taken from it");
    tap_ok(sn_kept_on_line(&x, &l, 1) && memcmp(&x, &at[0], sizeof(x)) == 0, "and the first, too");

    struct sn_kept_line bent = {0};
    sn_kept_tell_line(&bent, 1, &at[0]);
    sn_kept_tell_line(&bent, 2, &at[1]);
    sn_kept_tell_line(&bent, 5, &at[2]);
    tap_ok(!sn_kept_on_line(&x, &bent, 4), "a third beside it: nothing is taken from it");
    sn_kept_tell_line(&bent, 4, &at[2]);
    tap_ok(!sn_kept_on_line(&x, &bent, 8), "whatever comes after that");

    struct sn_kept_line odd = {0};
    struct sn_kept_pair half = pair(101, 7), more = pair(204, 8);
    sn_kept_tell_line(&odd, 2, &half);
    sn_kept_tell_line(&odd, 4, &more);
    sn_kept_tell_line(&odd, 6, &more);
    tap_ok(!sn_kept_on_line(&x, &odd, 3), "half a byte is no place");
}

int main(void)
{
    lines_hold_or_bend();
    return tap_done();
}
