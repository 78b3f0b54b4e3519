/*
 * bench_search.c - how fast layouts are bounded and compiled, over a whole search.
 *
 *   bench_search [MODEL [MACHINE [GPUS [BATCH [SEQ [TOP]]]]]]
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/search/search.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double cpu_seconds(void)
{
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_utime.tv_sec + 1e-6 * (double)use.ru_utime.tv_usec +
           (double)use.ru_stime.tv_sec + 1e-6 * (double)use.ru_stime.tv_usec;
}

static int search(const char *const a[])
{
    struct sn_config c;
    struct sn_machine m = {0};
    struct sn_software soft;
    struct sn_search s;
    struct sn_err err = {0};
    int gpus = atoi(a[2]);
    char *text = sn_format("model: {preset: %s, seq: %s}\ntrain: {steps: 1, global_batch: %s, "
                           "precision: bf16}\nmachine: {preset: %s}\nlayout: auto\n",
                           a[0], a[4], a[3], a[1]);
    enum sn_status st = sn_config_parse(&c, text, strlen(text), "bench.yaml", NULL, &err);
    sn_free(text);
    sn_software_default(&soft);
    if (st == SN_OK)
        st = sn_machine_of(&m, &c, NULL, &err);
    struct sn_search_want w = {.config = &c,
                               .machine = &m,
                               .software = &soft,
                               .ops = sn_ops_cpu(),
                               .threads = 1,
                               .ranks = gpus,
                               .top = atoi(a[5]),
                               .limit = sn_memory_limit(&m, &c)};
    double begin = sn_clock(), cpu = cpu_seconds();
    if (st == SN_OK)
        st = sn_search_run(&s, &w, &err);
    double took = sn_clock() - begin;
    cpu = cpu_seconds() - cpu;
    if (st != SN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    (void)printf(
        "%s on %d x %s, %s sequences of %s: %lld layouts, %lld over the memory, %lld "
        "compiled; %.3f s, %.3f s of CPU (%.0f layouts/s bounded, %.1f ms compiled), %ld MiB\n",
        a[0], gpus, a[1], a[3], a[4], (long long)s.valid, (long long)s.too_big, (long long)s.exact,
        took, cpu, (double)s.valid / (cpu - s.compile_seconds),
        1e3 * s.compile_seconds / (double)s.exact, use.ru_maxrss / 1024);
    for (int i = 0; i < s.n; i++) {
        const struct sn_layout_config *l = &s.found[i].layout;
        (void)printf(
            "  %2d  d%d t%dx%d c%d p%d v%d mb%d sp%d sched%d rc%d z%d: %.3f s, MFU %.1f %%, "
            "%.4f GiB\n",
            i + 1, l->data, l->tensor, l->tensor_x, l->context, l->pipeline, l->virtual_stages,
            l->micro_batch, l->sequence_parallel, (int)l->schedule, (int)l->recompute, l->zero,
            s.found[i].plan.step_time, 100 * s.found[i].plan.mfu,
            (double)s.found[i].plan.memory.total / (1 << 30));
    }
    sn_search_fini(&s);
    sn_machine_fini(&m);
    return 0;
}

int main(int argc, char **argv)
{
    bench_head();
    const char *a[] = {"llama-65b", "dgx-a100-80", "1024", "2048", "2048", "10"};
    for (int i = 1; i < argc && i <= 6; i++)
        a[i - 1] = argv[i];
    return search(a);
}
