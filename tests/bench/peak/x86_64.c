/*
 * x86_64.c - chains of the instructions with which the sets for x86-64 multiply (kernels/isa).
 *
 * Twelve sums in registers, more than the latency of any of these instructions times the two that
 * begin in a cycle. Zeros: nothing overflows, and these instructions take no longer for others.
 */
#include "kernels/ops.h"
#include "lib/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/peak/peak.h"

#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS = 12 };

#define SUM(op, r, n)           op " %%" r "0, %%" r "1, %%" r #n "\n\t"
#define SUM4(op, r, a, b, c, d) SUM(op, r, a) SUM(op, r, b) SUM(op, r, c) SUM(op, r, d)
#define CHAINS(name, op, r)                                                                        \
    static void name(int rounds)                                                                   \
    {                                                                                              \
        __asm__ volatile("vpxor %%xmm0, %%xmm0, %%xmm0\n\tvpxor %%xmm1, %%xmm1, %%xmm1\n\t"        \
                         "1:\n\t" SUM4(op, r, 2, 3, 4, 5) SUM4(op, r, 6, 7, 8, 9)                  \
                             SUM4(op, r, 10, 11, 12, 13) "dec %0\n\t"                              \
                                                         "jnz 1b\n\t"                              \
                                                         "vzeroupper"                              \
                         : "+r"(rounds)                                                            \
                         :                                                                         \
                         : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",   \
                           "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13");                    \
    }
CHAINS(fma_256, "vfmadd231ps", "ymm")
CHAINS(fma_512, "vfmadd231ps", "zmm")
CHAINS(dot_512, "vdpbf16ps", "zmm")

/* What LDTILECFG reads: palette 1, eight tiles of 16 rows of 64 bytes. */
static const struct {
    unsigned char palette, row, zero[14];
    uint16_t bytes[16];
    unsigned char rows[16];
} tile_config = {.palette = 1,
                 .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                 .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Four sums of 16 x 16; operands are shared in pairs, as in a tile of 32 x 32. */
static void tiles(int rounds)
{
    __asm__ volatile("ldtilecfg (%1)\n\t"
                     "1:\n\t"
                     "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                     "dec %0\n\tjnz 1b\n\ttilerelease"
                     : "+r"(rounds)
                     : "r"(&tile_config)
                     : "cc", "memory");
}

enum { TILE_BYTES = 4096 }; /* operands of four products */

/* The same with the operands of each round loaded from the next 4 KiB of `from`, `times` over. */
static void tiles_from(const char *from, size_t room, int times)
{
    __asm__ volatile("ldtilecfg (%0)" : : "r"(&tile_config) : "memory");
    for (int t = 0; t < times; t++)
        for (size_t at = 0; at < room; at += TILE_BYTES)
            __asm__ volatile("tileloadd (%0,%1,1), %%tmm4\n\ttileloadd 1024(%0,%1,1), %%tmm6\n\t"
                             "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                             "tileloadd 2048(%0,%1,1), %%tmm7\n\t"
                             "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                             "tileloadd 3072(%0,%1,1), %%tmm5\n\t"
                             "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                             "tdpbf16ps %%tmm7, %%tmm5, %%tmm3"
                             :
                             : "r"(from + at), "r"((size_t)64)
                             : "memory");
    __asm__ volatile("tilerelease");
}

struct chains {
    const char *set, *instruction;
    bool of_bf16; /* else of fp32, to which everything is widened */
    void (*run)(int rounds);
    double flops; /* of a round */
};

static const struct chains known[] = {
    {"cpu/amx", "TDPBF16PS", true, tiles, 4.0 * 2 * 16 * 16 * 32},
    {"cpu/avx512bf16", "VDPBF16PS zmm", true, dot_512, 2.0 * SUMS * 32},
    {"cpu/amx", "VFMADD231PS zmm", false, fma_512, 2.0 * SUMS * 16},
    {"cpu/avx512bf16", "VFMADD231PS zmm", false, fma_512, 2.0 * SUMS * 16},
    {"cpu/avx512", "VFMADD231PS zmm", false, fma_512, 2.0 * SUMS * 16},
    {"cpu/avx2", "VFMADD231PS ymm", false, fma_256, 2.0 * SUMS * 8},
};

static const struct chains *chains_of(enum sn_dtype t)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].set, sn_ops_cpu()->name) == 0 && (t == SN_BF16 || !known[i].of_bf16))
            return &known[i];
    return NULL;
}

const char *bench_peak_instruction(enum sn_dtype t)
{
    const struct chains *c = chains_of(t);
    return c ? c->instruction : NULL;
}

double bench_peak(enum sn_dtype t, int threads)
{
    enum { ROUNDS_OF_FMA = 1 << 20 };
    const struct chains *c = chains_of(t);
    if (!c)
        return 0;
    int rounds = (int)(ROUNDS_OF_FMA * (2.0 * SUMS * 16) / c->flops);
    double start = sn_clock();
#pragma omp parallel num_threads(threads)
    c->run(rounds);
    return c->flops * rounds * threads / (sn_clock() - start);
}

double bench_peak_from(enum sn_dtype t, size_t room)
{
    enum { BYTES = 1 << 28 };
    const struct chains *c = chains_of(t);
    if (!c || c->run != tiles)
        return 0;
    char *from = bench_room(room);
    memset(from, 0, room);
    tiles_from(from, room, 1);
    int times = (int)(BYTES / room);
    double start = sn_clock();
    tiles_from(from, room, times);
    double seconds = sn_clock() - start;
    free(from);
    return c->flops * times * (double)(room / TILE_BYTES) / seconds;
}
