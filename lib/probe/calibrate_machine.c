/*
 * calibrate_machine.c - what is measured, for how long, and what becomes of it.
 */
#include "lib/probe/calibrate_machine.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"
#include "lib/cost/fit_links.h"
#include "lib/exec/peak.h"
#include "lib/probe/calibrate.h"
#include "lib/probe/calibrate_codecs.h"
#include "lib/probe/calibrate_links.h"
#include "lib/sim/plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_ROUNDS = 3 };

/* Shares of the time: the rest goes to kernels. */
static const double links_part = 0.25;

/* Shapes for a machine of which no run is known: narrow and wide, short and long, both families of
 * blocks; one layer, because every layer has the same shapes. */
static const struct shape {
    const char *family;
    int hidden, heads, ffn, vocab, seq, micro;
} shapes[] = {
    {"llama", 128, 4, 344, 512, 64, 1},    {"llama", 256, 8, 688, 1024, 128, 2},
    {"llama", 512, 8, 1376, 4096, 256, 1}, {"gpt2", 768, 12, 3072, 8192, 64, 2},
    {"llama", 128, 2, 344, 512, 1024, 1},  {"gpt2", 1024, 16, 4096, 2048, 128, 1},
};
static const char *const precisions[] = {"fp32", "bf16"};

/* The same for a device, which needs much more to be busy; in the halves that it computes in. */
static const struct shape large[] = {
    {"gpt2", 768, 12, 3072, 50304, 1024, 8},    {"gpt2", 1600, 25, 6400, 50304, 1024, 4},
    {"llama", 2048, 16, 5632, 32000, 2048, 2},  {"llama", 4096, 32, 14336, 32000, 2048, 2},
    {"llama", 4096, 32, 11008, 32000, 8192, 1}, {"llama", 1024, 16, 2816, 32000, 4096, 1},
};
static const char *const halves[] = {"bf16", "fp16"};
enum {
    SHAPES = sizeof(shapes) / sizeof(shapes[0]),
    PRECISIONS = sizeof(precisions) / sizeof(precisions[0])
};
_Static_assert(sizeof(large) == sizeof(shapes) && sizeof(halves) == sizeof(precisions), "as many");

static const struct sn_ops *ops_of(const struct sn_calibrate_order *o)
{
    return o->accelerator->device ? o->accelerator->ops->ops : o->ops;
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* Rank 0 says when it is enough: all measure at the same time. */
struct watch {
    struct sn_comm *comm;
    double seconds;
};

static bool more(void *arg, int rounds, double seconds)
{
    struct watch *w = arg;
    bool is_wanted = rounds < LEAST_ROUNDS || seconds < w->seconds;
    struct sn_err err;
    if (w->comm->ops->broadcast(w->comm, &is_wanted, (int64_t)sizeof(is_wanted), 0, &err) != SN_OK)
        return false; /* whoever communicates next says why */
    return is_wanted;
}

/* Every stage of a run's pipeline: the first and the last have kernels of their own. */
static enum sn_status measure_stages(struct sn_samples *out, const struct sn_calibrate_order *o,
                                     const struct sn_config *c, double seconds, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    struct sn_job_env env = {.config = c, .ops = ops_of(o), .threads = o->threads};
    struct sn_accelerator *a = o->accelerator->device ? o->accelerator : NULL;
    enum sn_status st = sn_model_create(&model, &c->model, &c->train, err);
    env.model = model;
    if (st == SN_OK)
        st = sn_stages_create(&stages, &env, err);
    st = o->comm->ops->agree(o->comm, st, err);
    for (int i = 0; st == SN_OK && i < stages.n; i++) {
        struct watch w = {o->comm, seconds / stages.n};
        st = sn_calibrate_job(out, stages.job[i], a, &(struct sn_calibrate_turn){more, &w}, err);
        st = o->comm->ops->agree(o->comm, st, err);
    }
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return st;
}

/* Codecs are measured apart: what stands in for other ranks sends no streams. */
static enum sn_status measure_run(struct sn_samples *out, const struct sn_calibrate_order *o,
                                  const struct sn_config *c, double seconds, struct sn_err *err)
{
    struct sn_config *plain = sn_alloc(sizeof(*plain)); /* large for a stack */
    enum sn_status st = plain ? SN_OK : sn_fail(err, SN_ENOMEM, "calibrate: no memory");
    st = o->comm->ops->agree(o->comm, st, err);
    if (st == SN_OK) {
        *plain = *c;
        sn_compress_nothing(&plain->layout);
        st = measure_stages(out, o, plain, seconds, err);
    }
    sn_free(plain);
    return st;
}

static enum sn_status config_of(struct sn_config *c, const struct shape *s, const char *precision,
                                struct sn_err *err)
{
    char *text = sn_format("model: {family: %s, layers: 1, hidden: %d, heads: %d, kv_heads: %d, "
                           "ffn: %d, vocab: %d, seq: %d}\n"
                           "train: {steps: 1, global_batch: %d, precision: %s}\n"
                           "layout: {micro_batch: %d, data: 1}\n",
                           s->family, s->hidden, s->heads, s->heads, s->ffn, s->vocab, s->seq,
                           s->micro, precision, s->micro);
    if (!text)
        return sn_fail(err, SN_ENOMEM, "calibrate: no memory");
    enum sn_status st = sn_config_parse(c, text, strlen(text), "calibrate", NULL, err);
    sn_free(text);
    return st == SN_OK ? sn_config_resolve_ranks(c, 1, err) : st;
}

static enum sn_status measure_kernels(struct sn_samples *out, const struct sn_calibrate_order *o,
                                      double seconds, struct sn_err *err)
{
    for (int i = 0; i < o->n_runs; i++)
        SN_TRY(measure_run(out, o, &o->runs[i], seconds / o->n_runs, err));
    if (o->n_runs)
        return SN_OK;
    struct sn_config *c = sn_alloc(sizeof(*c));
    enum sn_status st = c ? SN_OK : sn_fail(err, SN_ENOMEM, "calibrate: no memory");
    st = o->comm->ops->agree(o->comm, st, err);
    bool on_device = o->accelerator->device != NULL;
    for (int i = 0; st == SN_OK && i < SHAPES * PRECISIONS; i++) {
        const struct shape *s = &(on_device ? large : shapes)[i / PRECISIONS];
        st = config_of(c, s, (on_device ? halves : precisions)[i % PRECISIONS], err);
        if (st == SN_OK && on_device &&
            o->accelerator->ops->refuses(o->accelerator->device, c->train.precision))
            continue; /* it has the other one */
        if (st == SN_OK)
            st = measure_run(out, o, c, seconds / (SHAPES * PRECISIONS), err);
    }
    sn_free(c);
    return st;
}

static enum sn_status measure_rates(struct sn_machine_device *d, const struct sn_calibrate_order *o,
                                    struct sn_err *err)
{
    struct sn_accelerator *a = o->accelerator;
    enum sn_status st = a->device ? sn_calibrate_device_bandwidth(&d->bandwidth, a, err)
                                  : sn_calibrate_bandwidth(&d->bandwidth, o->ops, o->threads, err);
    for (int t = 0; a->device && t < SN_NPRECISIONS; t++) /* what MFU is counted by */
        d->gemm[t].peak = a->info.peak[t];
    if (a->device)
        d->fp8.peak = a->info.peak[SN_U8];
    for (int t = 0; st == SN_OK && !a->device && t < SN_NPRECISIONS; t++)
        st = sn_peak_measure(&d->gemm[t].peak, o->ops, (enum sn_dtype)t, o->threads, err);
    return o->comm->ops->agree(o->comm, st, err);
}

/* --- codecs ----------------------------------------------------------------------------------- */

/* Those that the runs name, in all their levels; without runs, or where they are
 * to be chosen, all. */
static int codecs_of(struct sn_codec *out, int room, const struct sn_calibrate_order *o)
{
    int all, n = 0;
    const struct sn_codec *any = sn_codec_all(&all);
    bool open = o->n_runs == 0;
    for (int r = 0; r < o->n_runs; r++)
        open = open || o->runs[r].layout.compress.scheme == SN_SCHEME_AUTO;
    for (int i = 0; open && i < all && n < room; i++)
        out[n++] = any[i];
    for (int r = 0; r < o->n_runs; r++)
        for (int k = 0; k < SN_NCODED; k++) {
            struct sn_codec level[SN_CODEC_LEVELS];
            int levels = o->runs[r].layout.compress.coding[k].on
                             ? sn_coding_levels(&o->runs[r], (enum sn_coded)k, level)
                             : 0;
            for (int i = 0; i < levels && n < room; i++)
                out[n++] = level[i];
        }
    return n;
}

static enum sn_status measure_codecs(struct sn_machine_device *d,
                                     const struct sn_calibrate_order *o, struct sn_err *err)
{
    struct sn_codec codec[64];
    struct sn_codec_bench how = {.ops = o->ops,
                                 .threads = o->threads,
                                 .on = o->accelerator->device ? o->accelerator : NULL,
                                 .codec = codec,
                                 .n = codecs_of(codec, 64, o)};
    return o->comm->ops->agree(o->comm, sn_calibrate_codecs(&d->codecs, &how, err), err);
}

/* --- links ------------------------------------------------------------------------------------ */

/* Ranks of a host are neighbours on the tensor axis, hosts on the data axis. */
static enum sn_status grid_of(struct sn_grid *g, const struct sn_comm *c, struct sn_err *err)
{
    if (c->size % c->node_size)
        return sn_fail(err, SN_EINPUT,
                       "calibrate: %d ranks on this host of %d in all; want as many on each host",
                       c->node_size, c->size);
    int size[SN_NGRID_AXES];
    enum sn_axis order[SN_NGRID_AXES];
    for (int a = 0; a < SN_NGRID_AXES; a++) {
        size[a] = 1;
        order[a] = (enum sn_axis)a;
    }
    size[SN_AXIS_TENSOR] = c->node_size;
    size[SN_AXIS_DATA] = c->size / c->node_size;
    return sn_grid_init(g, c->size, size, order, err);
}

static enum sn_status measure_level(struct sn_level *level, struct sn_link_bench *how,
                                    enum sn_group group, struct sn_err *err)
{
    how->group = group;
    SN_TRY(sn_calibrate_links(&level->measured, &level->processor, how, err));
    sn_fit_level(level);
    return SN_OK;
}

static enum sn_status measure_links(struct sn_machine *m, const struct sn_calibrate_order *o,
                                    double seconds, struct sn_err *err)
{
    struct sn_comm *c = o->comm;
    struct sn_grid grid;
    enum sn_status st = c->ops->agree(c, grid_of(&grid, c, err), err);
    SN_TRY(st);
    SN_TRY(c->ops->set_grid(c, &grid, err));
    int hosts = c->size / c->node_size, levels = (c->node_size > 1) + (hosts > 1);
    struct sn_link_bench how = {.comm = c,
                                .grid = &grid,
                                .ops = o->ops,
                                .threads = o->threads,
                                .seconds = seconds / levels};
    how.on_host = true;
    if (c->node_size > 1)
        SN_TRY(measure_level(&m->level[0], &how, SN_GROUP_TENSOR, err));
    if (hosts == 1)
        return SN_OK;
    m->level[0].ranks = c->node_size;
    m->level[1] =
        (struct sn_level){.name = "network", .efficiency = 1, .all_reduce = 1, .crowd = 1};
    m->n_levels = 2;
    how.on_host = false;
    return measure_level(&m->level[1], &how, SN_GROUP_DATA, err);
}

/* --- the machine ------------------------------------------------------------------------------ */

static void name_processor(char name[SN_MACHINE_NAME])
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    (void)snprintf(name, SN_MACHINE_NAME, "CPU");
    while (f && fgets(line, sizeof(line), f)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += strspn(value, ": ");
        value[strcspn(value, "\n")] = 0;
        (void)snprintf(name, SN_MACHINE_NAME, "%.*s", SN_MACHINE_NAME - 1, value);
        break;
    }
    if (f)
        (void)fclose(f);
}

/* What is not measured: what the system says, and links of which nothing is known. */
static void describe(struct sn_machine *m, const struct sn_calibrate_order *o)
{
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int here = o->comm->node_size;
    *m = (struct sn_machine){.devices = here,
                             .cpus = (int)sysconf(_SC_NPROCESSORS_ONLN),
                             .node_memory = memory,
                             .n_levels = 1,
                             .algorithm = SN_ALGORITHM_DIRECT};
    (void)snprintf(m->name, sizeof(m->name), "calibrated");
    (void)snprintf(m->source, sizeof(m->source), "%s", o->source);
    name_processor(m->device.name);
    m->device.memory = memory / here;
    m->device.library = SN_LIBRARY_BYTES;
    if (o->accelerator->device) {
        const struct sn_device_info *info = &o->accelerator->info;
        (void)snprintf(m->device.name, sizeof(m->device.name), "%.*s", SN_MACHINE_NAME - 1,
                       info->name);
        m->device.memory = info->bytes;
        m->device.library = info->bytes - info->free_bytes; /* its context, and others' */
        m->algorithm = o->accelerator->is_shared ? SN_ALGORITHM_DIRECT : SN_ALGORITHM_RING;
    }
    m->device.attention_forward = m->device.attention_backward = 1;
    for (int k = 0; k < SN_NMOVED; k++)
        m->device.moved[k] = 1;
    for (int t = 0; t < SN_NPRECISIONS; t++)
        m->device.gemm[t].most = 1;
    m->device.fp8.most = 1;
    m->level[0] = (struct sn_level){.name = "host", .efficiency = 1, .all_reduce = 1, .crowd = 1};
}

/* Through memory: what is sent is copied in and out, read and written each time. */
static void guess_links(struct sn_machine *m)
{
    m->level[0].latency = 20e-6;
    m->level[0].device = m->device.bandwidth / 4;
}

static enum sn_status keep_measured(struct sn_machine_device *d, const struct sn_samples *s,
                                    struct sn_err *err)
{
    d->measured = sn_alloc_n((size_t)s->n, sizeof(*d->measured));
    if (!d->measured)
        return sn_fail(err, SN_ENOMEM, "calibrate: no memory for %d measurements", s->n);
    for (int i = 0; i < s->n; i++)
        if (s->v[i].what.m > 0) /* without operands it is the overhead */
            d->measured[d->n_measured++] = s->v[i].what;
    return SN_OK;
}

static enum sn_status measure(struct sn_machine *m, struct sn_samples *s,
                              const struct sn_calibrate_order *o, struct sn_err *err)
{
    bool has_links = o->comm->size > 1 && (!o->accelerator->device || o->accelerator->is_shared);
    double kernels = o->seconds * (has_links ? 1 - links_part : 1);
    SN_TRY(measure_rates(&m->device, o, err));
    SN_TRY(measure_kernels(s, o, kernels, err));
    sn_fit_device(&m->device, s);
    if (m->device.fp8.peak > 0) { /* the parts of bf16; measured shapes correct them */
        double peak = m->device.fp8.peak;
        m->device.fp8 = m->device.gemm[SN_BF16];
        m->device.fp8.peak = peak;
    }
    SN_TRY(keep_measured(&m->device, s, err));
    SN_TRY(measure_codecs(&m->device, o, err));
    if (has_links)
        return measure_links(m, o, o->seconds * links_part, err);
    guess_links(m);
    return SN_OK;
}

enum sn_status sn_calibrate_machine(struct sn_machine *out, const struct sn_calibrate_order *o,
                                    struct sn_err *err)
{
    struct sn_machine m;
    struct sn_samples s = {0};
    describe(&m, o);
    enum sn_status st = measure(&m, &s, o, err);
    sn_samples_fini(&s);
    if (st == SN_OK)
        *out = m;
    else
        sn_machine_fini(&m);
    return st;
}
