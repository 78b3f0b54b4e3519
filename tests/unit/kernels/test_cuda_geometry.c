/*
 * Launch shapes and shared memory of the CUDA kernels, over sizes up to the limits of devices.
 * Needs no GPU: kernels/cuda/geometry.h and its like are plain C.
 */
#include "kernels/codec.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/codec.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/grouped.h"
#include "kernels/cuda/tally.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static const int64_t rows_of[] = {0,    1,     2,     7,      31,      32,        33,
                                  4096, 65535, 65536, 131072, 1 << 24, 2147483648};
static const int64_t widths[] = {1,   2,   3,    31,   32,    33,     255,
                                 256, 257, 1024, 4096, 16384, 131072, 2147483648};
enum { NROWS = sizeof(rows_of) / sizeof(rows_of[0]), NWIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Shared memory that a block may ask for, by architecture. */
static const struct {
    int arch;
    size_t shared;
} devices[] = {{70, 96 * 1024},  {75, 64 * 1024},   {80, 163 * 1024}, {86, 99 * 1024},
               {90, 227 * 1024}, {100, 227 * 1024}, {120, 99 * 1024}};
enum { NDEVICES = sizeof(devices) / sizeof(devices[0]) };

static bool is_launchable(const struct sn_shape *g)
{
    return g->bx >= 1 && g->by >= 1 && g->bx * g->by <= SN_BLOCK_MOST && g->x <= 0x7fffffffu &&
           g->y >= 1 && g->y <= SN_GRID_Y_MOST && g->z >= 1 && g->z <= SN_GRID_Y_MOST &&
           (g->x > 0 || g->shared == 0);
}

static void grids_stay_within_limits(void)
{
    bool good = true;
    for (int r = 0; r < NROWS; r++)
        for (int w = 0; w < NWIDTHS; w++) {
            int64_t n = rows_of[r], width = widths[w];
            struct sn_shape g[] = {sn_shape_line(n), sn_shape_plane(n, width), sn_shape_rows(n, width),
                                   sn_shape_rope(n, width, 128), sn_shape_attention_rows(n, width, 96)};
            for (size_t i = 0; i < sizeof(g) / sizeof(g[0]); i++) {
                good = good && is_launchable(&g[i]);
                good = good && (g[i].x > 0) == (rows_of[r] > 0); /* nothing for nothing */
            }
            struct sn_shape s = sn_shape_sums(rows_of[r], widths[w]);
            good = good && (rows_of[r] == 0 ? s.y == 0 : is_launchable(&s));
        }
    tap_ok(good, "grids and blocks stay within every device's limits, up to 2^31 rows or columns");
}

/* What the strided walks of device.cuh visit, thread by thread: each item once. */
static bool walk_is_complete(int64_t rows, int64_t width)
{
    enum { MOST = 1 << 16 };
    static unsigned char seen[MOST];
    struct sn_shape g = sn_shape_plane(rows, width);
    if (rows * width > MOST)
        return false;
    memset(seen, 0, (size_t)(rows * width));
    for (int64_t row = 0; row < (int64_t)g.x * g.by; row++)
        for (int64_t col = 0; col < (int64_t)g.y * g.bx; col++)
            for (int64_t r = row; r < rows; r += (int64_t)g.x * g.by)
                for (int64_t v = col; v < width; v += (int64_t)g.y * g.bx)
                    seen[r * width + v]++;
    for (int64_t i = 0; i < rows * width; i++)
        if (seen[i] != 1)
            return false;
    return true;
}

static void every_item_is_visited_once(void)
{
    bool good = true;
    for (int64_t rows = 1; rows < 40; rows += 3)
        for (int64_t width = 1; width < 600; width += 37)
            good = good && walk_is_complete(rows, width);
    tap_ok(good, "the walk over rows x columns visits each item once");
    tap_ok(walk_is_complete(65536, 1) && walk_is_complete(1, 65536), "narrow and wide ones too");
}

static void rows_fit_their_registers(void)
{
    bool good = true;
    for (int w = 0; w < NWIDTHS; w++) {
        struct sn_shape g = sn_shape_rows(1000, widths[w]);
        bool fits = (int64_t)g.bx * SN_ROW_KEPT >= widths[w];
        good = good && fits == sn_row_is_kept(widths[w]);
        good = good && g.bx % SN_WARP == 0 && (g.bx == SN_WARP || g.by == 1);
        good = good && g.bx / SN_WARP <= SN_WARP; /* one warp adds the warps' sums */
    }
    tap_ok(good, "a row is kept in registers exactly when its threads have room for it");
}

static void sums_of_columns_cover_all_rows(void)
{
    bool good = true;
    for (int r = 1; r < NROWS; r++) {
        int64_t chunk = sn_sum_chunk(rows_of[r]), chunks = sn_sum_chunks(rows_of[r]);
        good = good && chunk % SN_SUM_ROWS == 0 && chunks >= 1 && chunks <= SN_SUM_CHUNKS;
        good = good && chunk * chunks >= rows_of[r] && chunk * (chunks - 1) < rows_of[r];
        /* what the kernel works out from its grid alone */
        int64_t again = sn_ceil_div(sn_ceil_div(rows_of[r], chunks), SN_SUM_ROWS) * SN_SUM_ROWS;
        good = good && again * chunks >= rows_of[r] && again <= chunk;
        good =
            good && sn_sum_scratch(rows_of[r], 16384, 2) <= (size_t)SN_SUM_CHUNKS * 16384 * 2 * 8;
    }
    tap_ok(good, "chunks of rows cover all rows, in whole groups, and scratch stays small");
    struct sn_shape g = sn_shape_sums(65536, 768 / 8);
    tap_ok(g.x * g.y >= 4 * 132,
           "65536 rows of 768 bf16 are four blocks for each of 132 processors");
}

static void sorted_rows_have_room(void)
{
    bool good = true;
    for (int r = 1; r < NROWS; r++) {
        int64_t tile = sn_embed_tile(rows_of[r]), tiles = sn_ceil_div(rows_of[r], tile);
        good = good && tile % SN_BLOCK_MOST == 0 && tiles >= 1 && tiles <= SN_EMBED_TILES;
        good = good && sn_embed_scratch(rows_of[r], 8, 100) >= (size_t)(2 * rows_of[r]) * 4;
    }
    tap_ok(good && sn_embed_tile(65536) == 1024 && sn_embed_tile(65537) == 2048,
           "EMBED_GRAD sorts rows in at most 64 tiles");
    /* 64 rows of 8 columns: 8 sums, 128 numbers of rows, 101 starts, 1024 blocks, 100 counts */
    tap_ok(sn_embed_scratch(64, 8, 100) == (8 + 128 + 101 + 1024 + 100) * 4,
           "its scratch is what its parts need");
}

static void chunks_of_norms_cover_all_rows(void)
{
    bool good = true;
    for (int r = 1; r < NROWS; r++)
        for (int w = 0; w < NWIDTHS; w++)
            for (int outputs = 1; outputs <= 2; outputs++) {
                if (!sn_norm_is_kept(widths[w], outputs))
                    continue;
                struct sn_shape g = sn_shape_norm_dx(rows_of[r], widths[w], outputs);
                int64_t chunk = sn_norm_chunk_rows(rows_of[r], widths[w], outputs);
                good = good && is_launchable(&g) && g.bx * g.by == SN_BLOCK && chunk % g.by == 0;
                good = good && (int64_t)g.bx * SN_NORM_KEPT(outputs) >= widths[w];
                good = good && chunk * g.x >= rows_of[r] && chunk * (g.x - 1) < rows_of[r];
                good = good && chunk / g.by <= SN_NORM_RUN;
                good = good && (g.x <= SN_NORM_CHUNKS || chunk / g.by == SN_NORM_RUN);
            }
    tap_ok(good, "a norm's gradients: chunks cover all rows, and threads have room for a row");
    /* bf16 at any address: 96 items of 16 bytes in chunks of 128 rows, or 768 elements in chunks of
     * 125 */
    tap_ok(sn_norm_scratch(65536, 768, SN_BF16, 2) == (size_t)525 * 768 * 2 * 4,
           "scratch is that of the larger number of chunks");
}

static void ranges_of_heads_cover_all_heads(void)
{
    bool good = true;
    for (int64_t heads = 1; heads <= 200; heads++)
        for (int r = 1; r < NROWS; r++) {
            struct sn_shape g = sn_shape_rope(rows_of[r], 16, heads);
            good = good && (int64_t)g.z * sn_rope_heads(heads, g.z) >= heads;
        }
    tap_ok(good, "ROPE's ranges of heads cover all heads");
    tap_ok(sn_rope_entries(1) == 65 && sn_rope_entries(131072) == 64 + 2048 + 1 &&
               sn_rope_entries(63) == 65 && sn_rope_entries(64) == 66,
           "the table of angles has an entry for every position below seq");
}

static void products_cover_their_result(void)
{
    static const int64_t sizes[] = {1, 63, 64, 65, 4096, 131072, 4194240};
    bool good = true;
    for (int m = 0; m < 7; m++)
        for (int n = 0; n < 7; n++)
            for (int64_t s = 0; s < 300; s += 17) {
                struct sn_shape g = sn_shape_product(sizes[m], sizes[n], s, 1);
                bool fits = sn_product_fits(sizes[m], sizes[n], s, 1);
                good = good && (!fits || is_launchable(&g));
                good = good && (int64_t)g.y * SN_PRODUCT_N >= sizes[n];
                /* each segment may end in a part of a tile */
                good =
                    good && (s == 0 || (int64_t)g.x >= sizes[m] / SN_PRODUCT_M + (s > 1 ? s : 0));
            }
    tap_ok(good, "products cover their result, one part of a tile for each segment");
    tap_ok(!sn_product_fits(1, SN_PRODUCT_N * 65536LL, 1, 1) &&
               !sn_product_fits((int64_t)SN_PRODUCT_M << 31, 1, 1, 1) &&
               !sn_product_fits(1, 1, 1, 65536),
           "what exceeds a grid is known before it is launched");
}

/* Every tile of a segment once, and neighbours in turn share rows or columns. */
static bool spots_are_all(int rows, int cols)
{
    static unsigned char seen[64][64];
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < rows * cols; i++) {
        struct sn_grouped_spot s = sn_grouped_spot(i, rows, cols);
        if (s.row < 0 || s.row >= rows || s.col < 0 || s.col >= cols || seen[s.row][s.col]++)
            return false;
    }
    return true;
}

static void grouped_products_cover_their_result(void)
{
    bool all = true, fit = true;
    for (int rows = 1; rows <= 64; rows += 7)
        for (int cols = 1; cols <= 64; cols += 9)
            all = all && spots_are_all(rows, cols);
    tap_ok(all, "each tile of a segment of a grouped product comes once");
    for (int i = 0; i < NDEVICES; i++) {
        if (devices[i].arch < 80)
            continue;
        int stages = devices[i].arch == 90 ? 4 : 3;
        int n = sn_grouped_columns(4096, stages, devices[i].shared);
        struct sn_shape g = sn_shape_grouped(1 << 20, 132, n, stages);
        fit = fit && n == (devices[i].shared < 163 * 1024 ? 128 : 256) && is_launchable(&g) &&
              g.x == 132 && g.shared <= devices[i].shared;
    }
    tap_ok(fit, "its ring of stages fits every device from sm_80 on: wide tiles, or narrow ones");
    tap_ok(sn_grouped_columns(128, 3, 163 * 1024) == 128 &&
               sn_grouped_columns(384, 3, 163 * 1024) == 128 &&
               sn_grouped_columns(400, 3, 163 * 1024) == 256 &&
               sn_grouped_columns(2688, 3, 163 * 1024) == 256 &&
               sn_grouped_columns(4096, 3, 64 * 1024) == 0,
           "tiles are narrow where wide ones were half empty, and none where there is no room");
    tap_ok(sn_grouped_tiles(4096, 512, 8, 1, 256) == (32 + 8) * 2 &&
               sn_grouped_tiles(1024, 512, 0, 8, 256) == 8 * 8 * 2,
           "each segment may end in a part of a tile");
}

static void copies_in_8_bits_have_room(void)
{
    static const int64_t sizes[] = {1, 15, 16, 17, 100, 4096};
    bool good = true;
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            for (int turned = 0; turned < 2; turned++) {
                struct sn_mat x = {NULL, SN_BF16, sizes[r], sizes[c], sizes[c] + 3};
                int64_t rows = turned ? x.cols : x.rows, k = turned ? x.rows : x.cols;
                size_t room = sn_fp8_room(&x, turned);
                good = good && sn_fp8_depth(k) % 16 == 0 && sn_fp8_depth(k) - k < 16 &&
                       sn_fp8_depth(k) >= k && room % 256 == 0 &&
                       room >= (size_t)(rows * sn_fp8_depth(k)) &&
                       room >= (size_t)(x.rows * x.cols) * 2;
            }
    tap_ok(good, "copies of operands in 8 bits, and in bf16, have room");
    struct sn_args a = {.in = {{NULL, SN_BF16, 100, 40, 40}, {NULL, SN_BF16, 30, 40, 40}}};
    a.attr.gemm.trans_b = true;
    tap_ok(sn_gemm_room(&a) == SN_GEMM_WORKSPACE, "without, a product has its workspace alone");
    a.attr.gemm.fp8 = SN_FP8_FORWARD;
    tap_ok(sn_gemm_room(&a) == SN_GEMM_WORKSPACE + SN_FP8_HEAD + 8192 + 2560,
           "with, both copies lie behind it");
    /* A in lines: [1, 100] factors, 400 bytes; B in a block: [1, 4]; in lines: [1, 30] */
    a.attr.gemm.fp8 = SN_FP8_BLOCKS;
    size_t copies = SN_GEMM_WORKSPACE + SN_FP8_HEAD + 8192 + 2560;
    bool blocks = sn_gemm_room(&a) == copies + 512 + 256;
    a.attr.gemm.fp8 = SN_FP8_LINES;
    tap_ok(blocks && sn_gemm_room(&a) == copies + 512 + 256, "and factors of blocks and lines");
    struct sn_mat wide = {NULL, SN_BF16, 300, 1100, 1100};
    struct sn_fp8_parts lines = sn_fp8_parts_of(SN_FP8_BLOCKS, 0, false),
                        block = sn_fp8_parts_of(SN_FP8_BLOCKS, 1, false),
                        turned = sn_fp8_parts_of(SN_FP8_LINES, 1, true);
    tap_ok(sn_fp8_scales(&wide, false, lines) == (9 * 300 * 4 + 255) / 256 * 256 &&
               sn_fp8_scales(&wide, false, block) == (3 * 12 * 4 + 255) / 256 * 256 &&
               sn_fp8_scales(&wide, true, block) == (9 * 4 * 4 + 255) / 256 * 256 &&
               sn_fp8_scales(&wide, true, turned) == (3 * 1100 * 4 + 255) / 256 * 256,
           "as many as the library wants, rows of blocks filled up to whole 4");
}

static struct sn_attn_heads alike(int d)
{
    return (struct sn_attn_heads){d, d};
}

static void narrower_values_take_less(void)
{
    struct sn_attn_heads w = {20, 4}; /* rows of 32 + 4, and of 16 + 4 */
    size_t q = 8 * 36 * 4, v = 8 * 20 * 4, rest = 2 * 8 * 12 * 4 + 2 * 128;
    tap_ok(sn_attn_tile_shared(SN_ATTN_SIMT, SN_ATTN_FORWARD, 8, w) == 2 * q + 2 * v + rest - 384 &&
               sn_attn_tile_shared(SN_ATTN_SIMT, SN_ATTN_DQ, 8, w) == 3 * q + 2 * v + rest &&
               sn_attn_tile_shared(SN_ATTN_SIMT, SN_ATTN_DKV, 8, w) == 3 * q + 3 * v + rest &&
               sn_attn_walked(SN_ATTN_ONCE, 10, w, 1, 2) == 10 * (24 * 2 + 8 + 20 * 4),
           "rows of v, o and do are as wide as those");
}

static void attention_fits_every_device(void)
{
    bool good = true, largest = true;
    for (int i = 0; i < NDEVICES; i++)
        for (int d = 1; d <= 256; d++)
            for (int pass = SN_ATTN_FORWARD; pass <= SN_ATTN_DKV; pass++) {
                struct sn_attn_tile simt =
                    sn_attn_tile_of(SN_ATTN_SIMT, (enum sn_attn_pass)pass, alike(d), devices[i].shared);
                good = good && simt.family == SN_ATTN_SIMT && simt.t >= 8 &&
                       simt.shared <= devices[i].shared;
                struct sn_attn_tile w =
                    sn_attn_tile_of(SN_ATTN_WMMA, (enum sn_attn_pass)pass, alike(d), devices[i].shared);
                good = good && (w.family == SN_ATTN_NONE || w.t >= 16);
                good = good && (d > 128 || w.family == SN_ATTN_WMMA); /* Volta and Turing too */
                size_t twice =
                    sn_attn_tile_shared(SN_ATTN_SIMT, (enum sn_attn_pass)pass, simt.t * 2, alike(d));
                largest = largest && (simt.t == 64 || twice > devices[i].shared);
            }
    tap_ok(good, "tiles of attention fit every device for heads of up to 256 columns");
    tap_ok(largest, "and none could be larger");
    tap_ok(sn_attn_tile_of(SN_ATTN_SIMT, SN_ATTN_DKV, alike(4096), 227 * 1024).family == SN_ATTN_NONE,
           "a head that fits nowhere is said to");
}

static void attention_takes_the_fastest_family(void)
{
    tap_ok(sn_attn_family_of(70, 163 * 1024, SN_F16, 64, true) == SN_ATTN_WMMA &&
               sn_attn_family_of(75, 163 * 1024, SN_F16, 80, false) == SN_ATTN_WMMA,
           "fp16 on Volta and Turing: warp matrix functions");
    tap_ok(sn_attn_family_of(80, 163 * 1024, SN_BF16, 128, true) == SN_ATTN_MMA &&
               sn_attn_family_of(90, 163 * 1024, SN_F16, 64, true) == SN_ATTN_MMA,
           "16-bit types from sm_80 on: mma");
    tap_ok(sn_attn_family_of(90, 163 * 1024, SN_F32, 64, true) == SN_ATTN_SIMT &&
               sn_attn_family_of(80, 163 * 1024, SN_BF16, 20, true) == SN_ATTN_SIMT &&
               sn_attn_family_of(80, 163 * 1024, SN_BF16, 64, false) == SN_ATTN_SIMT &&
               sn_attn_family_of(80, 163 * 1024, SN_BF16, 264, true) == SN_ATTN_SIMT,
           "fp32, odd widths, unaligned rows: plain arithmetic");
}

static void mma_tiles_fit_every_device_that_has_them(void)
{
    bool narrow = true, wide = true;
    for (int i = 0; i < NDEVICES; i++) {
        if (devices[i].arch < 80)
            continue;
        for (int d = 8; d <= 128; d += 8)
            narrow = narrow && sn_attn_mma_fits(sn_attn_mma_width(d), devices[i].shared);
        if (devices[i].shared >= 163 * 1024)
            wide = wide && sn_attn_mma_fits(256, devices[i].shared);
    }
    tap_ok(sn_attn_wgmma_shared(SN_ATTN_FORWARD, 64) <= 113 * 1024 &&
               sn_attn_wgmma_shared(SN_ATTN_FORWARD, 128) <= 227 * 1024,
           "warpgroup tiles: two blocks of narrow heads a multiprocessor, one of wide ones");
    tap_ok(sn_attn_wgmma_shared(SN_ATTN_DQ, 128) <= 227 * 1024 &&
               sn_attn_wgmma_shared(SN_ATTN_DKV, 128) <= 227 * 1024 &&
               sn_attn_wgmma_other(SN_ATTN_DKV, 64) == 128,
           "warpgroup tiles of the backward: a block a multiprocessor");
    tap_ok(narrow, "heads of up to 128 columns take mma on every device from sm_80 on");
    tap_ok(wide, "heads of up to 256 columns where shared memory is large");
    tap_ok(sn_attn_family_of(86, 99 * 1024, SN_BF16, 256, true) == SN_ATTN_SIMT,
           "and plain arithmetic where it is not");
}

/* Each tile of each head once; a group's heads are walked before the next one's, longest tiles
 * first, and their operands fit half of L2 unless one head alone does not. */
static bool walk_is_right(size_t l2, size_t walked, int64_t tiles, int64_t kv_heads, int each)
{
    struct sn_attn_walk w = sn_attn_walk_of(l2, walked, tiles, kv_heads, each);
    uint32_t blocks = w.tiles * w.heads, group = 0, tile = 0;
    size_t half = (l2 ? l2 : (size_t)SN_ATTN_L2) / 2;
    uint8_t *seen = calloc(blocks + 1, 1);
    bool good = seen && w.tiles == tiles && w.heads == kv_heads * each;
    good = good && w.group >= (uint32_t)each && w.group % (uint32_t)each == 0;
    good = good && (w.group == (uint32_t)each || w.group / (uint32_t)each * walked <= half);
    for (uint32_t n = 0; good && n < blocks; n++) {
        struct sn_attn_step s = sn_attn_step_of(w, n);
        uint32_t g = s.head / w.group;
        good = s.tile < w.tiles && s.head < w.heads && !seen[s.tile * w.heads + s.head]++;
        good = good && (g == group ? s.tile >= tile : g == group + 1 && s.tile == 0);
        group = g;
        tile = s.tile;
    }
    free(seen);
    return good;
}

static void attention_walks_what_fits_l2(void)
{
    static const int64_t tiles[] = {0, 1, 2, 7, 16, 61}, heads[] = {0, 1, 2, 3, 11, 12, 97};
    static const size_t l2[] = {0, 1, 1 << 20, (50 << 20) + 1};
    bool good = true;
    for (size_t i = 0; i < 6 * 7 * 4; i++)
        for (size_t walked = 0; walked < 1 << 26; walked = walked * 5 + 1009)
            for (int each = 1; each <= 8; each += each == 1 ? 2 : 5)
                good =
                    good && walk_is_right(l2[i % 4], walked, tiles[i / 4 % 6], heads[i / 24], each);
    tap_ok(good, "blocks of attention: every tile of every head once, in groups that fit L2");
    size_t once = sn_attn_walked(SN_ATTN_FORWARD, 1024, alike(64), 1, 2);
    size_t keys = sn_attn_walked(SN_ATTN_DKV, 1024, alike(64), 4, 2);
    size_t all = sn_attn_walked(SN_ATTN_ONCE, 1024, alike(64), 4, 2);
    tap_ok(once == 2 * 1024 * 64 * 2 && keys == 4 * (once + 1024 * 8) &&
               all == keys + 4 * 1024 * 64 * 4 &&
               sn_attn_walked(SN_ATTN_DQ, 1024, alike(64), 4, 2) == once,
           "they walk k and v, or q and do of all heads that share a kv head, and dq's sums");
    struct sn_attn_walk w = sn_attn_walk_of(50 << 20, once, 8, 64 * 12, 1);
    tap_ok(w.heads == 768 && w.group == 96, "64 samples of GPT-2 in 50 MiB: 8 groups of 96 heads");
}

static void alignment_is_seen(void)
{
    struct sn_mat m = {(void *)(uintptr_t)0x1000, SN_BF16, 4, 64, 64}, n = m, none = {0};
    const struct sn_mat *both[] = {&m, &n, &none};
    tap_ok(sn_common(both, 3) == SN_BF16, "operands of one type at 16-byte addresses: that type");
    n.ld = 65;
    tap_ok(sn_common(both, 3) == SN_NDTYPES, "a row at an odd address: one element at a time");
    n.rows = 1;
    tap_ok(sn_common(both, 3) == SN_BF16, "the distance of rows does not matter to one row");
    n.cols = 63;
    tap_ok(sn_common(both, 3) == SN_NDTYPES, "a row that is no whole pieces");
    n = m;
    n.dtype = SN_F16;
    tap_ok(sn_common(both, 3) == SN_NDTYPES, "two types");
    m.dtype = n.dtype = SN_I32;
    tap_ok(sn_common(both, 3) == SN_NDTYPES, "a type that is no small float");
}

static bool places_agree(const struct sn_codec *c, enum sn_dtype t, int64_t n)
{
    struct sn_attr a = {.stream.type = t, .stream.share = n}, marked = a;
    marked.stream.marked = true;
    return sn_stream_bytes(c, t, n) == sn_codec_bytes(c, t, n) &&
           sn_place_bytes(&a, c) == sn_coded_bytes(c, t, n) &&
           sn_place_bytes(&marked, c) == sn_coded_row_bytes(c, t, n);
}

/* The kernels' own formulas, because the plugin has none of kernels/codec.c. */
static void streams_have_the_format_s_bytes(void)
{
    static const char *const names[] = {"bf16",  "fp8",           "int8",          "int4",
                                        "nf4",   "int8-hadamard", "int4-hadamard", "mpc",
                                        "mpc-3", "fp8-e5m2"};
    bool good = true;
    for (int i = 0; i < 10 + SN_CODEC_ZFP_MOST - SN_CODEC_ZFP_LEAST + 1; i++) {
        struct sn_codec c = {.kind = SN_CODEC_ZFP, .rate = SN_CODEC_ZFP_LEAST + i - 10};
        good = good && (i >= 10 || sn_codec_parse(&c, names[i]));
        for (int k = 0; k < 700 * (SN_F16 - SN_F32 + 1); k++)
            good = good && places_agree(&c, (enum sn_dtype)(SN_F32 + k / 700), k % 700);
        for (int64_t n = (INT64_C(1) << 33) - 3; n < (INT64_C(1) << 33) + 200; n++)
            good = good && places_agree(&c, SN_BF16, n);
    }
    tap_ok(good, "streams of codecs have as many bytes as the format says");
}

static void tiles_and_chunks_are_launchable(void)
{
    bool good = true;
    for (int r = 0; r < NROWS; r++)
        for (int64_t streams = 1; streams < 70000; streams *= 3) {
            struct sn_shape g = sn_shape_tiles(streams, rows_of[r]);
            struct sn_shape m = sn_shape_chunks(streams, sn_ceil_div(rows_of[r], SN_MPC_WORDS));
            good = good && is_launchable(&g) && is_launchable(&m) && g.x <= SN_CODEC_GRID &&
                   (g.x > 0) == (rows_of[r] > 0) && (m.x > 0) == (rows_of[r] > 0);
        }
    struct sn_attr a = {
        .blocks_a = 3, .stream.share = 2049, .stream.levels = 2, .stream.type = SN_BF16};
    a.stream.codec[0].kind = SN_CODEC_INT8;
    tap_ok(good, "tiles and chunks stay within every device's limits");
    size_t without = sn_codec_scratch(&a);
    a.stream.codec[1].kind = SN_CODEC_MPC;
    tap_ok(without == (size_t)SN_CODEC_GRID * 16 && sn_codec_scratch(&a) == without + 3 * 3 * 8,
           "scratch: two sums of a block; with mpc a number for each chunk and stream");
}

static void tiles_of_choices_cover_them(void)
{
    bool good = true;
    for (int r = 0; r < NROWS; r++)
        for (int64_t experts = 1; experts <= 1024; experts *= 4) {
            struct sn_tally t = sn_tally_of(3, rows_of[r], experts);
            struct sn_shape g = sn_shape_tally(&t), sums = sn_shape_tally_sums(&t);
            good = good && t.tile % SN_BLOCK == 0 && t.tile * t.tiles >= rows_of[r] &&
                   t.tile * (t.tiles - 1) < rows_of[r] && t.tiles <= SN_TALLY_TILES;
            good = good && (g.x == 0 || is_launchable(&g)) && is_launchable(&sums);
            good = good && g.shared + (size_t)(experts + 1) * 4 <= SN_SHARED_PLAIN;
            good = good && sn_tally_scratch(&t) >=
                               (size_t)(3 * experts * t.tiles + 3 * experts) * sizeof(int32_t);
        }
    struct sn_tally few = sn_tally_of(1, 65536, 8);
    tap_ok(good, "tiles of choices cover them, and their counts have room");
    tap_ok(few.tiles == 128, "65,536 choices of 8 experts keep 128 blocks busy");
}

int main(void)
{
    tiles_of_choices_cover_them();
    streams_have_the_format_s_bytes();
    tiles_and_chunks_are_launchable();
    grids_stay_within_limits();
    every_item_is_visited_once();
    rows_fit_their_registers();
    sums_of_columns_cover_all_rows();
    sorted_rows_have_room();
    chunks_of_norms_cover_all_rows();
    ranges_of_heads_cover_all_heads();
    products_cover_their_result();
    grouped_products_cover_their_result();
    copies_in_8_bits_have_room();
    narrower_values_take_less();
    attention_fits_every_device();
    attention_takes_the_fastest_family();
    mma_tiles_fit_every_device_that_has_them();
    attention_walks_what_fits_l2();
    alignment_is_seen();
    return tap_done();
}
