/*
 * cudnn_plans.c - what the real cuDNN says to our graphs, for devices that are only described to
 * it.
 *
 * Without a GPU cuDNN finalizes a graph, proposes engines that support it, and says what workspace
 * they want, from a device's properties in JSON (since 9.8); only loading their kernels needs a
 * driver. It opens libcuda.so.1 for that: a toolkit's stub of the driver is enough.
 *
 * usage: cudnn_plans      a line for each device, shape and pass; exit 1 if one has no engine whose
 *                         workspace keeps to the bound of kernels/cuda/sdpa.h; 3: there is no cuDNN
 */
#include "kernels/cuda/sdpa.h"

#include <stdio.h>
#include <string.h>

/* Of NVIDIA's data sheets, and the CUDA C++ Programming Guide's table of limits. */
static const struct device {
    const char *name;
    int arch, processors, shared, l2;
} devices[] = {{"A100", 800, 108, 166912, 41943040}, {"H200", 900, 132, 232448, 62914560}};

static const struct {
    int64_t samples, heads, kv_heads, seq, d;
} shapes[] = {{64, 12, 12, 1024, 64}, {16, 25, 25, 1024, 64}, {1, 32, 8, 8192, 128},
              {3, 5, 5, 1000, 80},    {2, 6, 3, 77, 40},      {1, 2, 1, 1, 8}};

enum { CONFIGS = 8 };

static void *describe(struct sn_cudnn_set *set, const struct device *d)
{
    char text[1200];
    int n = snprintf(
        text, sizeof(text),
        "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
        "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
        "\"supportCoopLaunch\":1,\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1500000,"
        "\"memClockRateKHz\":2000000,\"l2CacheSize\":%d,\"cudaDeviceId\":0,\"deviceVer\":%d,"
        "\"driverVer\":13000,\"deviceName\":\"%s\"}",
        d->processors, d->shared, d->l2, d->arch, d->name);
    void *device = sn_cudnn_make(set, SN_CUDNN_DEVICE);
    sn_cudnn_put(set, device, SN_CUDNN_DEVICE_JSON, SN_CUDNN_IS_CHAR, n, text);
    sn_cudnn_finalize(set, device, "a device");
    return device;
}

/* The workspace of the first engine that keeps to the bound; -1: there is none. */
static int64_t ask(struct sn_sdpa_plan *p, void *device)
{
    struct sn_cudnn_set *set = &p->set;
    void *config[CONFIGS], *graph = sn_sdpa_graph(p, NULL);
    int64_t n = 0, one, bytes, found = -1;
    void *heuristics = sn_cudnn_make(set, SN_CUDNN_HEURISTICS);
    sn_cudnn_put_descriptor(set, heuristics, SN_CUDNN_HEURISTICS_GRAPH, graph);
    sn_cudnn_put_enum(set, heuristics, SN_CUDNN_HEURISTICS_MODE, SN_CUDNN_IS_HEURISTIC,
                      SN_CUDNN_HEURISTIC_A);
    sn_cudnn_put_descriptor(set, heuristics, SN_CUDNN_HEURISTICS_DEVICE, device);
    sn_cudnn_finalize(set, heuristics, "no engine");
    for (int i = 0; i < CONFIGS; i++)
        config[i] = sn_cudnn_make(set, SN_CUDNN_ENGINE_CONFIG);
    if (set->has_failed)
        return -1;
    int rc = set->api->get(heuristics, SN_CUDNN_HEURISTICS_RESULTS, SN_CUDNN_IS_DESCRIPTOR, CONFIGS,
                           &n, config);
    if (rc != 0 || n == 0)
        sn_cudnn_failed(set, rc, "no engine");
    for (int64_t i = n - 1; i >= 0; i--)
        if (set->api->get(config[i], SN_CUDNN_CONFIG_WORKSPACE, SN_CUDNN_IS_INT64, 1, &one,
                          &bytes) == 0 &&
            (size_t)bytes <= sn_sdpa_workspace(&p->shape))
            found = bytes;
    return found;
}

static int passes(const struct sn_cudnn *api, const struct device *d, int i)
{
    int64_t q = shapes[i].heads * shapes[i].d, row = q + 2 * shapes[i].kv_heads * shapes[i].d;
    int failed = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int type = 0; type < 2; type++) {
            struct sn_sdpa_plan p = {.set = {.api = api}};
            bool back = pass > 0;
            p.shape = (struct sn_sdpa_shape){back,
                                             pass == 1,
                                             type ? SN_F16 : SN_BF16,
                                             shapes[i].samples,
                                             shapes[i].seq,
                                             shapes[i].heads,
                                             shapes[i].kv_heads,
                                             shapes[i].d,
                                             row,
                                             row,
                                             row,
                                             q,
                                             back ? 0 : shapes[i].heads,
                                             back ? q : 0,
                                             back ? row : 0,
                                             back ? row : 0,
                                             back ? row : 0,
                                             0.125};
            void *device = describe(&p.set, d);
            int64_t bytes = ask(&p, device);
            printf(
                "%s %s, %lld x %lld of %lld heads (%lld) of %lld, %s: workspace %lld of %zu%s%s\n",
                bytes >= 0 ? "ok" : "not ok", d->name, (long long)shapes[i].samples,
                (long long)shapes[i].seq, (long long)shapes[i].heads, (long long)shapes[i].kv_heads,
                (long long)shapes[i].d,
                pass == 0   ? "forward"
                : pass == 1 ? "backward in order"
                            : "backward in any order",
                (long long)bytes, sn_sdpa_workspace(&p.shape), p.set.why[0] ? ": " : "", p.set.why);
            failed += bytes < 0;
            sn_cudnn_drop(&p.set);
        }
    return failed;
}

int main(void)
{
    const char *why;
    const struct sn_cudnn *api = sn_cudnn_open(&why);
    int failed = 0;
    if (!api) {
        printf("%s\n", why);
        return 3;
    }
    printf("cuDNN %zu (%s)\n", api->version(), sn_cudnn_path());
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++)
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            failed += passes(api, &devices[d], (int)i);
    return failed ? 1 : 0;
}
