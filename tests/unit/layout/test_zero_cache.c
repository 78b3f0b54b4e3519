/*
 * test_zero_cache.c - which units of a stage keep their gathered weights, as one more is kept after the
 * other.
 */
#include "lib/layout/zero_cache.h"
#include "tests/lib/tap.h"

#include <string.h>

enum { MOST = 40 };

/* Letters of a stage: e embedding, h head, a digit a layer of that stage module. */
static struct sn_cache_stage stage_of(const char *text, int *module)
{
    struct sn_cache_stage s = {.units = (int)strlen(text), .module = module};
    s.first = text[0] == 'e';
    s.last = text[s.units - 1] == 'h';
    for (int i = 0; i < s.units; i++)
        module[i] = text[i] == 'e'   ? text[i + 1] - '0'
                    : text[i] == 'h' ? text[i - 1] - '0'
                                     : text[i] - '0';
    return s;
}

/* By unit: the n with which it comes to be kept, as a letter from a on; '.': never. */
static void order_of(char out[MOST + 1], const struct sn_cache_stage *s)
{
    bool keeps[MOST], before[MOST] = {false};
    memset(out, '.', (size_t)s->units);
    out[s->units] = '\0';
    for (int n = 1; n <= s->units; n++) {
        int kept = sn_cache_choose(keeps, s, n);
        for (int i = 0, all = 0; i < s->units; i++) {
            all += keeps[i];
            if (before[i] && !keeps[i])
                out[i] = '!'; /* none goes as others come */
            if (keeps[i] && !before[i])
                out[i] = (char)('a' + n - 1);
            if (i + 1 == s->units && all != kept)
                out[0] = '?';
        }
        memcpy(before, keeps, sizeof(before));
    }
}

static void ends_come_first_then_the_widest_gaps(void)
{
    static const struct {
        const char *units, *order;
        bool first_again, last_again;
    } cases[] = {
        {"e000000h",
         "cbfdega"
         "h",
         true, true},
        {"e000000h", ".becdfa.", false, false},
        {"e000000h",
         "cbfdega"
         ".",
         true, false},
        {"00000000", "befcgdha", true, true},
        {"000111", "cebdfa", true, true},
        {"e0", "ba", true, true},
        {"0h", "ab", true, true},
        {"0", "a", true, true},
        {"e01h", "cbad", true, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int module[MOST];
        char got[MOST + 1];
        struct sn_cache_stage s = stage_of(cases[i].units, module);
        s.first_again = cases[i].first_again;
        s.last_again = cases[i].last_again;
        order_of(got, &s);
        tap_ok(strcmp(got, cases[i].order) == 0, "of %s in the order %s: %s", cases[i].units,
               cases[i].order, got);
    }
}

static void none_and_more_than_all_are_good(void)
{
    int module[MOST];
    bool keeps[MOST];
    struct sn_cache_stage s = stage_of("e00000h", module);
    s.first_again = true;
    tap_ok(sn_cache_choose(keeps, &s, 0) == 0 && !keeps[0] && !keeps[5], "none");
    tap_ok(sn_cache_choose(keeps, &s, 1000) == 6 && keeps[0] && keeps[5] && !keeps[6],
           "all that are gathered more than once");
}

int main(void)
{
    ends_come_first_then_the_widest_gaps();
    none_and_more_than_all_are_good();
    return tap_done();
}
