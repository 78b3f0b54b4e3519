/*
 * bench_ceilings.c - the first words with a device, and what it can do at most: each line is a key
 * and a value, in bytes, FLOPs and seconds.
 *
 *   tests/gpu/bench_ceilings first          opens it: its name and memory
 *   tests/gpu/bench_ceilings pin [BYTES]    page-locks host memory (default: 1 GiB)
 *   tests/gpu/bench_ceilings copy           bytes a second of a large copy, read and written
 *   tests/gpu/bench_ceilings product [N]    FLOPs a second of a bf16 product N x N x N (8192)
 *
 * Exit 0: done, 1: it failed, 3: this host has no device. The plugin is that of the build
 * (SN_PLUGIN names another). Times are medians of seven, by the device's clock.
 */
#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "lib/exec/accelerator.h"
#include "lib/probe/calibrate.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 7, WARM = 2, STREAM = 0, FAILED = 1, NONE = 3 };

static void must(struct sn_accelerator *a, int rc, const char *what)
{
    if (rc == 0)
        return;
    printf("%s: %s\n", what, a->ops->explain(a->device));
    exit(FAILED);
}

static void open_device(struct sn_accelerator *a)
{
    struct sn_err err = {0};
    struct sn_device_options how = {0};
    char why[300] = "";
    if (sn_accelerator_load(a, &err) != SN_OK) {
        printf("%s\n", err.text);
        exit(FAILED);
    }
    int n = a->ops->count(why, sizeof(why));
    if (n < 1) {
        printf("%s\n", why);
        exit(n < 0 ? FAILED : NONE);
    }
    a->device = bench_room(a->ops->size);
    must(a, a->ops->open(a->device, 0, &how), "opening the device");
    a->ops->describe(a->device, &a->info);
}

static void pin(struct sn_accelerator *a, size_t bytes)
{
    void *p = bench_room(bytes);
    double began = sn_clock();
    must(a, a->ops->pin(a->device, p, bytes), "page-locking");
    printf("pin_bytes %zu\npin_seconds %.6f\n", bytes, sn_clock() - began);
    a->ops->unpin(a->device, p);
    free(p);
}

static void copy(struct sn_accelerator *a)
{
    struct sn_err err = {0};
    double rate;
    if (sn_calibrate_device_bandwidth(&rate, a, &err) != SN_OK) {
        printf("%s\n", err.text);
        exit(FAILED);
    }
    printf("copy_bytes_per_s %.6g\n", rate);
}

static void wait(struct sn_accelerator *a)
{
    int rc;
    while ((rc = a->ops->query(a->device, STREAM)) == 1)
        ;
    must(a, rc, "the device");
}

/* Values of either sign, 0.5 to 2: zeros would cost less power, and run at a higher clock. */
static void fill(struct sn_accelerator *a, void *there, size_t bytes)
{
    uint16_t *v = bench_room(bytes);
    for (size_t i = 0; i < bytes / sizeof(*v); i++) {
        uint64_t bits = sn_rng_bits(3, i);
        v[i] = (uint16_t)(0x3f00 | (bits & 0xff) | (bits >> 48 & 0x8000));
    }
    must(a, a->ops->copy(a->device, STREAM, there, v, bytes, SN_TO_DEVICE), "a copy");
    wait(a);
    free(v);
}

/* y = x w^T */
static void product(struct sn_accelerator *a, int64_t n)
{
    void *x, *w, *y, *scalars, *scratch;
    size_t bytes = (size_t)(n * n) * sizeof(uint16_t);
    struct sn_args g = {.in = {{NULL, SN_BF16, n, n, n}, {NULL, SN_BF16, n, n, n}},
                        .out = {{NULL, SN_BF16, n, n, n}}};
    double t[TIMES];
    g.attr.gemm.trans_b = true;
    must(a, a->ops->alloc(a->device, bytes, &x), "memory for x");
    must(a, a->ops->alloc(a->device, bytes, &w), "memory for w");
    must(a, a->ops->alloc(a->device, bytes, &y), "memory for y");
    must(a, a->ops->alloc(a->device, sizeof(struct sn_scalars), &scalars), "memory");
    fill(a, x, bytes);
    fill(a, w, bytes);
    g.in[0].p = x, g.in[1].p = w, g.out[0].p = y, g.scalars = scalars;
    must(a, a->ops->alloc(a->device, a->ops->ops->scratch(SN_OP_GEMM, &g, 1) + 256, &scratch),
         "memory for scratch");
    g.scratch = scratch;
    must(a, a->ops->make_clocks(a->device, 2), "clocks");
    for (int i = -WARM; i < TIMES; i++) {
        must(a, a->ops->stamp(a->device, STREAM, 0), "a stamp");
        must(a, a->ops->run(a->device, STREAM, SN_OP_GEMM, &g), "the product");
        must(a, a->ops->stamp(a->device, STREAM, 1), "a stamp");
        wait(a);
        if (i >= 0)
            must(a, a->ops->between(a->device, 0, 1, &t[i]), "the clock");
    }
    qsort(t, TIMES, sizeof(*t), bench_by_value);
    printf("product_n %lld\nproduct_flops_per_s %.6g\n", (long long)n,
           2.0 * (double)n * (double)n * (double)n / t[TIMES / 2]);
    void *all[] = {x, w, y, scalars, scratch};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        a->ops->release(a->device, all[i]);
}

int main(int argc, char **argv)
{
    struct sn_accelerator a = {0};
    const char *what = argc > 1 ? argv[1] : "";
    long long n = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    static const char *const all[] = {"first", "pin", "copy", "product"};
    bool is_known = false;
    for (int i = 0; i < 4; i++)
        is_known = is_known || strcmp(what, all[i]) == 0;
    if (!is_known || n < 0) {
        (void)fprintf(stderr,
                      "bench_ceilings: want first, pin [BYTES], copy or product [N], got '%s'\n",
                      what);
        return 2;
    }
    bench_plugin();
    open_device(&a);
    printf("name %s\nmemory_bytes %lld\nfree_bytes %lld\npeak_flops_per_s %.6g\n", a.info.name,
           (long long)a.info.bytes, (long long)a.info.free_bytes, a.info.peak[SN_BF16]);
    if (strcmp(what, "pin") == 0)
        pin(&a, n ? (size_t)n : (size_t)1 << 30);
    else if (strcmp(what, "copy") == 0)
        copy(&a);
    else if (strcmp(what, "product") == 0)
        product(&a, n ? n : 8192);
    a.ops->close(a.device);
    return 0;
}
