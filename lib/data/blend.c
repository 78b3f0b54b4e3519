#include "lib/data/blend.h"

#include <assert.h>
#include <math.h>

static const uint64_t all = (uint64_t)1 << 32;

/* --- shares ----------------------------------------------------------------------------------- */

/* Largest remainders: whole parts, and one more for those that lose most by them. */
bool sn_blend_shares(uint64_t share[], const double weight[], int n)
{
    double sum = 0, lost[SN_SETS_MAX];
    uint64_t given = 0;
    bool good = true;
    for (int i = 0; i < n; i++)
        sum += weight[i];
    for (int i = 0; i < n; i++) {
        double exact = weight[i] / sum * 0x1p32;
        share[i] = (uint64_t)exact;
        lost[i] = exact - floor(exact);
        given += share[i];
    }
    for (; given < all; given++) {
        int most = -1;
        for (int i = 0; i < n; i++)
            most = weight[i] > 0 && (most < 0 || lost[i] > lost[most]) ? i : most;
        share[most]++;
        lost[most] -= 1;
    }
    for (int most = 0; given > all; given--) { /* quotients were rounded up */
        for (int i = 0; i < n; i++)
            most = share[i] > share[most] ? i : most;
        share[most]--;
    }
    for (int i = 0; i < n; i++)
        good = good && (share[i] > 0 || weight[i] == 0);
    return good;
}

/* --- counts ------------------------------------------------------------------------------------ */

static uint32_t reversed(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

/* Of 0 .. n-1 those that are below `end` (0 .. 2^32) when read backwards. The numbers below n fall apart,
 * one part for each bit of n that is set: those which agree with n above it and have 0 there. Below it they
 * are free, so backwards they lie 2^(32 - bit) apart, from what the bits above give. */
static int64_t count_below(uint64_t n, uint64_t end)
{
    uint64_t count = (n >> 32) * end, low = n & (all - 1);
    for (int bit = 0; bit < 32; bit++) {
        if (!(low >> bit & 1))
            continue;
        uint64_t first = reversed((uint32_t)(low >> bit & ~(uint64_t)1) << bit);
        uint64_t apart = all >> bit;
        count += end / apart + (first < end % apart);
    }
    return (int64_t)count;
}

static uint64_t begin_of(const struct sn_blend_phase *p, int set)
{
    return set > 0 ? p->end[set - 1] : 0;
}

static int64_t given_in(const struct sn_blend_phase *p, int set, int64_t number)
{
    uint64_t n = (uint64_t)(number - p->first);
    return p->given[set] + count_below(n, p->end[set]) - count_below(n, begin_of(p, set));
}

static const struct sn_blend_phase *phase_of(const struct sn_blend *b, int64_t number)
{
    int i = b->n_phases - 1;
    while (i > 0 && b->phase[i].first > number)
        i--;
    return &b->phase[i];
}

void sn_blend_add_phase(struct sn_blend *b, int64_t first, const uint64_t share[])
{
    assert(b->n_phases <= SN_PHASES_MAX);
    struct sn_blend_phase *p = &b->phase[b->n_phases];
    uint64_t end = 0;
    p->first = first;
    for (int i = 0; i < b->n; i++) {
        p->given[i] = b->n_phases > 0 ? sn_blend_given(b, i, first) : 0;
        p->end[i] = end += share[i];
    }
    b->n_phases++;
}

struct sn_blend_pick sn_blend_pick(const struct sn_blend *b, int64_t number)
{
    const struct sn_blend_phase *p = phase_of(b, number);
    uint64_t at = reversed((uint32_t)(number - p->first));
    int low = 0, high = b->n - 1; /* the first whose interval ends behind `at` */
    while (low < high) {
        int middle = (low + high) / 2;
        if (p->end[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return (struct sn_blend_pick){low, given_in(p, low, number)};
}

int64_t sn_blend_given(const struct sn_blend *b, int set, int64_t number)
{
    return given_in(phase_of(b, number), set, number);
}

int64_t sn_blend_exceeds(const struct sn_blend *b, int set, int64_t limit, int64_t end)
{
    int64_t low = 0, high = end;
    if (sn_blend_given(b, set, end) <= limit)
        return -1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sn_blend_given(b, set, middle) > limit)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
