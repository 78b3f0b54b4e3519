/*
 * machine.c - the machine file: rows of keys, lists of links and of measured shapes, and what has
 * to hold between them.
 */
#include "lib/machine/machine.h"

#include "lib/base/mem.h"
#include "lib/machine/fields.h"
#include "lib/machine/software.h"
#include "lib/program/program.h"

#include <stdio.h>
#include <string.h>

/* --- rows ------------------------------------------------------------------------------------- */

static const char *const types[] = {"fp32", "bf16", "fp16", "fp64", "int32", "fp8", NULL};

static const char *const epilogues[] = {"none", "act", "act_dx", "colsum", NULL};
static const char *const transfers[] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "recv", NULL};
static const char *const algorithms[] = {"ring", "direct", NULL};

/* Bounds refuse units that were mistaken (1000 for 1000 GFLOP/s), not machines. */
#define RATE   .min = 1e6L, .max = 1e18L, .unit = "FLOP/s"
#define WIDTH  .min = 1e5L, .max = 1e16L, .unit = "B/s"
#define TIME   .min = 0, .max = 1, .unit = "seconds"
#define POWER  .min = 0, .max = 1e6L, .unit = "watts"
#define PRICE  .min = 0, .max = 1e6L, .unit = "$"
#define PART   .min = 1e-4L, .max = 2   /* above 1: timed below the nominal figure's assumptions */
#define CACHED .min = 1e-4L, .max = 100 /* above 1: from a cache */
#define HALF   .min = 0, .max = 1e9L
#define COUNT  .min = 0, .max = 1e9L
#define ROOM   .min = 0, .max = 1LL << 50

#define ROW(key, kind, member, what)                                                               \
    .name = (key), .type = SN_KEY_##kind, .offset = offsetof(struct OF, member), .sentence = (what)
#define MAP(key)   .name = (key), .type = SN_KEY_MAP, .offset = SN_NOWHERE
#define LIST(key)  .name = (key), .type = SN_KEY_INCLUDE, .offset = SN_NOWHERE
#define DEFAULT(v) .value = (v)
#define ABSENT(v)  .derived = (v)
#define SIZE(n)    .max = (n)

/* Rates of products of one precision. */
#define GEMM(word, of)                                                                             \
    {MAP("device.gemm." word)},                                                                    \
        {ROW("device.gemm." word ".most", FLOAT, device.of.most,                                   \
             "Part of the peak that a very large product reaches."),                               \
         PART, DEFAULT("1")},                                                                      \
        {ROW("device.gemm." word ".half_m", FLOAT, device.of.half_m,                               \
             "Rows at which half of that is lost."),                                               \
         HALF, DEFAULT("0")},                                                                      \
        {ROW("device.gemm." word ".half_n", FLOAT, device.of.half_n, "The same of columns."),      \
         HALF, DEFAULT("0")},                                                                      \
    {                                                                                              \
        ROW("device.gemm." word ".half_k", FLOAT, device.of.half_k, "The same of depth."), HALF,   \
            DEFAULT("0")                                                                           \
    }

#define OF sn_machine
/* clang-format off */
static const struct sn_key machine_rows[] = {
    {ROW("name", TEXT, name, "Name of the machine."), SIZE(SN_MACHINE_NAME)},
    {ROW("source", TEXT, source, "Where the figures come from."), SIZE(SN_MACHINE_SOURCE), ABSENT("none")},
    {MAP("device")},
    {ROW("device.name", TEXT, device.name, "What a rank computes on."), SIZE(SN_MACHINE_NAME), ABSENT("none")},
    {ROW("device.memory", BYTES, device.memory, "Memory of one."), .min = 1 << 20, .max = 1LL << 50},
    {ROW("device.library", BYTES, device.library, "Of that, what the context and libraries take; of a CPU: what a process takes beside its arenas."), ROOM, DEFAULT("0B")},
    {ROW("device.communicator", BYTES, device.communicator, "And what a communicator of more than one rank takes."), ROOM, DEFAULT("0B")},
    {ROW("device.bandwidth", FLOAT, device.bandwidth, "Of its memory."), WIDTH},
    {ROW("device.watts", FLOAT, device.watts, "What it draws while it trains, at most (TDP); 0: not known."), POWER, DEFAULT("0")},
    {ROW("device.overhead", FLOAT, device.overhead, "What each operation begins with."), TIME, DEFAULT("0")},
    {MAP("device.peak")},
    {ROW("device.peak.fp32", FLOAT, device.gemm[SN_F32].peak, "Peak of dense products in fp32, by which MFU is counted."), RATE, ABSENT("it cannot")},
    {ROW("device.peak.bf16", FLOAT, device.gemm[SN_BF16].peak, "The same in bf16."), RATE, ABSENT("it cannot")},
    {ROW("device.peak.fp16", FLOAT, device.gemm[SN_F16].peak, "The same in fp16."), RATE, ABSENT("it cannot")},
    {ROW("device.peak.fp8", FLOAT, device.fp8.peak, "The same of operands in 8 bits (train.fp8); MFU is counted by bf16's."), RATE, ABSENT("as bf16")},
    {MAP("device.gemm")},
    GEMM("fp32", gemm[SN_F32]),
    GEMM("bf16", gemm[SN_BF16]),
    GEMM("fp16", gemm[SN_F16]),
    GEMM("fp8", fp8),
    {MAP("device.tile")},
    {ROW("device.tile.m", LONG, device.tile_m, "Rows of the tile that one unit computes at a time."), COUNT, DEFAULT("0")},
    {ROW("device.tile.n", LONG, device.tile_n, "Its columns."), COUNT, DEFAULT("0")},
    {ROW("device.tile.units", LONG, device.units, "Units that compute tiles at the same time; 0: the last wave costs nothing extra."), COUNT, DEFAULT("0")},
    {MAP("device.attention")},
    {ROW("device.attention.forward", FLOAT, device.attention_forward, "Part of the peak that attention reaches."), PART, DEFAULT("1")},
    {ROW("device.attention.backward", FLOAT, device.attention_backward, "The same of its gradient."), PART, DEFAULT("1")},
    {ROW("device.attention.half_seq", FLOAT, device.attention_half_seq, "Tokens of a sequence at which half of that is lost."), HALF, DEFAULT("0")},
    {MAP("device.moved")},
    {ROW("device.moved.norm", FLOAT, device.moved[SN_MOVED_NORM], "Part of the bandwidth that norms reach."), CACHED, DEFAULT("1")},
    {ROW("device.moved.elementwise", FLOAT, device.moved[SN_MOVED_ELEMENTWISE], "The same of other operations that move memory."), CACHED, DEFAULT("1")},
    {ROW("device.moved.loss", FLOAT, device.moved[SN_MOVED_LOSS], "The same of the loss."), CACHED, DEFAULT("1")},
    {ROW("device.moved.update", FLOAT, device.moved[SN_MOVED_UPDATE], "The same of the optimizer's update."), CACHED, DEFAULT("1")},
    {ROW("device.moved.half_bytes", FLOAT, device.half_bytes, "Bytes of an operation at which half of that is lost."), .min = 0, .max = 1e12L, DEFAULT("0")},
    {LIST("device.measured"), .unit = "a list of measured operations", ABSENT("none"), .sentence = "Shapes whose time is known: see below."},
    {LIST("device.codecs"), .unit = "a list of codecs", ABSENT("none"), .sentence = "How fast codecs are (layout.compress); one that is not in it is priced by the bytes that it moves: see below."},
    {MAP("node")},
    {ROW("node.devices", INT, devices, "Devices of a node."), .min = 1, .max = 4096, .unit = "devices"},
    {ROW("node.cpus", INT, cpus, "Its processor cores; 0: not known."), .min = 0, .max = 1 << 20, DEFAULT("0")},
    {ROW("node.nics", INT, nics, "Its network adapters; 0: not known."), .min = 0, .max = 4096, DEFAULT("0")},
    {ROW("node.memory", BYTES, node_memory, "Its memory; 0: not known."), ROOM, DEFAULT("0B")},
    {ROW("node.watts", FLOAT, node_watts, "What a node draws beside its devices: processors, memory, adapters, fans; 0: not known."), POWER, DEFAULT("0")},
    {ROW("node.mtbf_hours", FLOAT, mtbf_hours, "Mean time between failures of one node; 0: not known."), .min = 0, .max = 1e9L, .unit = "hours", DEFAULT("0")},
    {ROW("collectives", ENUM, algorithm, "ring: the links of all levels work at the same time, 2 (n-1)/n of an all-reduce crosses each border (NCCL); direct: everybody sends 1/n to everybody (our own, on CPUs)."), .names = algorithms, DEFAULT("ring")},
    {ROW("launch", FLOAT, launch, "What each collective or transfer begins with."), TIME, DEFAULT("0")},
    {LIST("links"), .unit = "a list of levels", .sentence = "How devices are joined, from inside outwards: see below."},
    {LIST("choices"), .unit = "a list of lines", ABSENT("none"), .sentence = "Algorithms for products that `sennit-train --tune` found to be fastest on a device, in the words of its library; runs on the same kind of device, with the same version of the library, take them."},
    {MAP("price")},
    {ROW("price.device_hour", FLOAT, price_device, "What an hour of one device costs, those of a node that have no rank too; 0: not known."), PRICE, DEFAULT("0")},
    {ROW("price.node_hour", FLOAT, price_node, "In its place: what an hour of a node costs."), PRICE, DEFAULT("0")},
    {MAP("storage")},
    {ROW("storage.write", FLOAT, storage_write, "What the file system takes from all nodes together; 0: not known."), .min = 0, .max = 1e16L, .unit = "B/s", DEFAULT("0")},
    {ROW("storage.node", FLOAT, storage_node, "And from one node; 0: not known."), .min = 0, .max = 1e16L, .unit = "B/s", DEFAULT("0")},
    {ROW("storage.host", FLOAT, storage_host, "From a device to the memory of its host, which a snapshot takes; 0: not known."), .min = 0, .max = 1e16L, .unit = "B/s", DEFAULT("0")},
};

#undef OF
#define OF sn_level
static const struct sn_key level_rows[] = {
    {ROW("links.name", TEXT, name, "Name of the level; each has one of its own."), SIZE(sizeof(((struct sn_level *)0)->name))},
    {ROW("links.ranks", LONG, ranks, "Devices of one domain of this level, which are consecutive ranks; 0: all, and so the last level."), .min = 0, .max = 1 << 24, .unit = "devices"},
    {ROW("links.latency", FLOAT, latency, "Of one message."), TIME},
    {ROW("links.message", FLOAT, message, "For which each message of an all-to-all (where collectives are direct, of all) keeps its sender from the next one, whatever its length: a rank sends one to every other, or in two hops one to every node (layout.expert_node)."), .min = 0, .max = 1, .unit = "s", DEFAULT("0")},
    {ROW("links.hop", FLOAT, hop, "Of one step of a ring, of which a gather or a scatter over n members takes n - 1; 0: they take log2 n of the latency, as an all-reduce."), .min = 0, .max = 1, .unit = "s", DEFAULT("0")},
    {ROW("links.device", FLOAT, device, "What one device can send at this level, in each direction."), WIDTH},
    {ROW("links.peer", FLOAT, peer, "And what it can send to one other alone, where pairs of devices have links of their own; 0: the same (a switch)."), .min = 0, .max = 1e16L, .unit = "B/s", DEFAULT("0")},
    {ROW("links.domain", FLOAT, domain, "What all devices of one domain of the level below can send together (shared adapters, taper); 0: no other limit."), .min = 0, .max = 1e18L, .unit = "B/s", DEFAULT("0")},
    {ROW("links.efficiency", FLOAT, efficiency, "Part of both that large messages reach."), PART, DEFAULT("1")},
    {ROW("links.half_bytes", FLOAT, half_bytes, "Bytes of a message at which half of that is lost."), .min = 0, .max = 1e12L, DEFAULT("0")},
    {ROW("links.all_reduce", FLOAT, all_reduce, "Rate of an all-reduce over that of other collectives, where switches sum (NVLS, SHARP) and a group has more than half of a domain."), .min = 0.1L, .max = 10, DEFAULT("1")},
    {ROW("links.crowd", FLOAT, crowd, "Part of the rate that is left where more than two domains exchange with each other directly (collectives: direct, all-to-all): their messages meet at the receivers."), PART, DEFAULT("1")},
    {ROW("links.processor", FLOAT, processor, "Part of a rank's computing that a transfer takes away while it is under way: 1 where a communication thread has no core of its own."), .min = 0, .max = 1, DEFAULT("0")},
    {LIST("links.measured"), .unit = "a list of measured collectives", ABSENT("none"), .sentence = "Collectives whose time is known: see below."},
};

#undef OF
#define OF sn_measured
static const struct sn_key measured_rows[] = {
    {LIST("device.measured.op"), .unit = "a kind of operation", .sentence = "Its name in sennit-plan --explain: gemm, attention, rmsnorm ..."},
    {ROW("device.measured.type", ENUM, dtype, "Type of its first operand; fp8: of products that round theirs (train.fp8), with the time for that."), .names = types},
    {ROW("device.measured.epilogue", ENUM, epilogue, "What a gemm has in one with it, and in its time: an activation, the slope of one, sums of columns."), .names = epilogues, DEFAULT("none")},
    {ROW("device.measured.m", LONG, m, "Its shape: rows of a product or of attention, elements of the largest operand of others."), .min = 1, .max = 1LL << 50},
    {ROW("device.measured.n", LONG, n, "Columns; heads x head_dim of attention; 0 of others."), .min = 0, .max = 1LL << 50, DEFAULT("0")},
    {ROW("device.measured.k", LONG, k, "Depth; keys of attention; 0 of others."), .min = 0, .max = 1LL << 50, DEFAULT("0")},
    {ROW("device.measured.seconds", FLOAT, seconds, "What it takes."), .min = 1e-12L, .max = 1e5L, .unit = "seconds"},
};
#undef OF
#define OF sn_measured_link
static const struct sn_key link_rows[] = {
    {ROW("links.measured.op", ENUM, kind, "What was measured; send: one way; recv: the same of a sender that computes, as between stages."), .names = transfers},
    {ROW("links.measured.members", INT, members, "Of the group."), .min = 2, .max = 1 << 24, .unit = "ranks"},
    {ROW("links.measured.bytes", LONG, bytes, "Of the whole of an all-reduce, of a block of the others."), .min = 1, .max = 1LL << 50, .unit = "bytes"},
    {ROW("links.measured.seconds", FLOAT, seconds, "What it takes."), .min = 1e-12L, .max = 1e5L, .unit = "seconds"},
};
#undef OF

/* The short form. flops and memory_bandwidth lie in their first places; short_form completes. */
#define OF sn_machine
static const struct sn_key short_rows[] = {
    {ROW("flops", FLOAT, device.gemm[SN_F32].peak, "Products, whatever their shape and type."), RATE},
    {ROW("memory_bandwidth", FLOAT, device.bandwidth, "Of memory."), WIDTH},
    {ROW("overhead", FLOAT, device.overhead, "Of each operation."), TIME},
    {MAP("flops_of"), .sentence = "Kinds with another rate."},
    {ROW("flops_of.gemm", FLOAT, device.rate_of[SN_OP_GEMM], "Products."), RATE, ABSENT("flops")},
    {ROW("flops_of.attention", FLOAT, device.rate_of[SN_OP_ATTENTION], "Attention."), RATE, ABSENT("flops")},
    {ROW("flops_of.attention_dx", FLOAT, device.rate_of[SN_OP_ATTENTION_DX], "Its gradient."), RATE, ABSENT("flops")},
};
#undef OF
/* clang-format on */

#define FIELDS(what_, prefix_, rows)                                                               \
    {                                                                                              \
        .what = (what_), .prefix = (prefix_), .row = (rows),                                       \
        .n = (int)(sizeof(rows) / sizeof((rows)[0]))                                               \
    }
static const char what[] = "a machine file";
static const struct sn_fields machine_fields = FIELDS(what, "", machine_rows);
static const struct sn_fields level_fields = FIELDS(what, "links", level_rows);
static const struct sn_fields measured_fields = FIELDS(what, "device.measured", measured_rows);
static const struct sn_fields link_fields = FIELDS(what, "links.measured", link_rows);
static const struct sn_fields short_fields =
    FIELDS("a machine file in its short form", "", short_rows);
_Static_assert(sizeof(machine_rows) / sizeof(machine_rows[0]) <= SN_KEYS_MAX, "too many rows");

/* --- reading ---------------------------------------------------------------------------------- */

static int count(const struct sn_yaml_node *list)
{
    int n = 0;
    for (const struct sn_yaml_node *i = list->first; i; i = i->next)
        n++;
    return n;
}

static enum sn_status read_links(struct sn_links *out, const struct sn_yaml_node *level,
                                 struct sn_err *err)
{
    const struct sn_yaml_node *list = sn_yaml_find(level, "measured");
    if (!list || sn_yaml_is_null(list))
        return SN_OK;
    if (list->kind != SN_YAML_LIST)
        return sn_yaml_fail(list, err, "links.measured: want a list of measured collectives");
    for (const struct sn_yaml_node *i = list->first; i; i = i->next) {
        struct sn_measured_link x;
        memset(&x, 0, sizeof(x));
        SN_TRY(sn_fields_read(&link_fields, i, &x, err));
        SN_TRY(sn_links_add(out, x, err));
    }
    return SN_OK;
}

static enum sn_status read_levels(struct sn_machine *m, const struct sn_yaml_node *root,
                                  struct sn_err *err)
{
    const struct sn_yaml_node *list = sn_yaml_find(root, "links");
    if (!list)
        return sn_yaml_fail(root, err,
                            "links: missing; want a list of levels such as {name: node, "
                            "ranks: 0, latency: 3.0e-6, device: 300e9}");
    if (list->kind != SN_YAML_LIST || !list->first || count(list) > SN_MAX_LEVELS)
        return sn_yaml_fail(list, err, "links: want a list of 1 to %d levels", SN_MAX_LEVELS);
    for (const struct sn_yaml_node *n = list->first; n; n = n->next) {
        struct sn_level *l = &m->level[m->n_levels];
        int64_t inner = m->n_levels ? l[-1].ranks : 1;
        SN_TRY(sn_fields_read(&level_fields, n, l, err));
        m->n_levels++;
        SN_TRY(read_links(&l->measured, n, err));
        for (const struct sn_level *other = m->level; other < l; other++)
            if (strcmp(other->name, l->name) == 0)
                return sn_yaml_fail(n, err,
                                    "links.name: two levels are called '%s'; want a name for each",
                                    l->name);
        if (!l->ranks != !n->next)
            return sn_yaml_fail(n, err,
                                "links.ranks: %s level is of %lld devices; want 0 (all devices) in "
                                "the last level and only there",
                                n->next ? "an inner" : "the last", (long long)l->ranks);
        if (l->ranks && (l->ranks <= inner || l->ranks % inner != 0) && m->n_levels > 1)
            return sn_yaml_fail(n, err,
                                "links.ranks: %lld is no multiple of the level below, of %lld "
                                "devices; want whole domains",
                                (long long)l->ranks, (long long)inner);
    }
    return SN_OK;
}

/* What kinds were called in 0.1.0: files of that time stay right. */
static const char *name_today(const char *name)
{
    static const char *const was[] = {"place", "arrive", "decide", "balance", "swap"};
    static const enum sn_op_kind is[] = {SN_OP_MOE_PERMUTE, SN_OP_RECV_OFFSETS, SN_OP_CLIP_SCALE,
                                         SN_OP_ROUTER_BIAS, SN_OP_TRANSPOSE};
    for (size_t i = 0; i < sizeof(was) / sizeof(was[0]); i++)
        if (strcmp(name, was[i]) == 0)
            return sn_op_name(is[i]);
    return name;
}

static enum sn_status read_kind(struct sn_measured *s, const struct sn_yaml_node *item,
                                struct sn_err *err)
{
    const struct sn_yaml_node *n = sn_yaml_find(item, "op");
    char shown[SN_CLIP_SIZE];
    int near = 0, best = 99;
    if (!n || n->kind != SN_YAML_SCALAR)
        return sn_yaml_fail(n ? n : item, err,
                            "device.measured.op: want a kind of operation, such as gemm");
    for (int k = 0; k < SN_NKERNELS && best; k++) {
        int d = sn_str_distance(name_today(n->text), sn_op_name(k));
        near = d < best ? k : near;
        best = d < best ? d : best;
    }
    s->kind = (enum sn_op_kind)near;
    return best == 0 ? SN_OK
                     : sn_yaml_fail(n, err,
                                    "device.measured.op: '%s' is no kind of operation; did you "
                                    "mean '%s'?",
                                    sn_clip(shown, n->text), sn_op_name(near));
}

static enum sn_status read_measured(struct sn_machine *m, const struct sn_yaml_node *root,
                                    struct sn_err *err)
{
    const struct sn_yaml_node *device = sn_yaml_find(root, "device");
    const struct sn_yaml_node *list = device ? sn_yaml_find(device, "measured") : NULL;
    if (!list || sn_yaml_is_null(list))
        return SN_OK;
    if (list->kind != SN_YAML_LIST)
        return sn_yaml_fail(list, err, "device.measured: want a list of measured operations");
    int n = count(list);
    if (!n)
        return SN_OK;
    m->device.measured = sn_alloc_n((size_t)n, sizeof(*m->device.measured));
    if (!m->device.measured)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %d measured operations", list->file, n);
    for (const struct sn_yaml_node *i = list->first; i; i = i->next) {
        struct sn_measured *s = &m->device.measured[m->device.n_measured++];
        SN_TRY(sn_fields_read(&measured_fields, i, s, err));
        SN_TRY(read_kind(s, i, err));
    }
    return SN_OK;
}

static enum sn_status check(const struct sn_machine *m, const struct sn_yaml_node *root,
                            struct sn_err *err)
{
    const struct sn_machine_device *d = &m->device;
    int precisions = 0;
    for (int t = 0; t < SN_NPRECISIONS; t++)
        precisions += d->gemm[t].peak > 0;
    if (!precisions)
        return sn_yaml_fail(root, err,
                            "device.peak: missing; want the peak of one precision at "
                            "least, such as {fp32: 19.5e12}");
    if (d->library >= d->memory)
        return sn_yaml_fail(root, err,
                            "device.library: leaves nothing of device.memory; want less");
    if (!d->tile_m != !d->units || !d->tile_n != !d->units)
        return sn_yaml_fail(root, err,
                            "device.tile: m %lld, n %lld, units %lld; want all of them or none",
                            (long long)d->tile_m, (long long)d->tile_n, (long long)d->units);
    if (m->price_device > 0 && m->price_node > 0)
        return sn_yaml_fail(root, err,
                            "price: device_hour %g and node_hour %g both say what a node costs; "
                            "want one of them",
                            m->price_device, m->price_node);
    return SN_OK;
}

/* One device, whose rates depend neither on shape nor on type. */
static void complete_short(struct sn_machine *m)
{
    struct sn_machine_device *d = &m->device;
    double flops = d->gemm[SN_F32].peak;
    for (int t = 0; t < SN_NPRECISIONS; t++)
        d->gemm[t] = (struct sn_gemm_rate){.peak = flops, .most = 1};
    d->fp8 = d->gemm[SN_BF16];
    d->attention_forward = d->attention_backward = 1;
    for (int k = 0; k < SN_NMOVED; k++)
        d->moved[k] = 1;
    m->devices = 1;
}

static bool is_short(const struct sn_yaml_node *root)
{
    return sn_yaml_find(root, "flops") || sn_yaml_find(root, "memory_bandwidth");
}

static enum sn_status read_tree(struct sn_machine *m, const struct sn_yaml_node *root,
                                struct sn_err *err)
{
    if (is_short(root)) {
        SN_TRY(sn_fields_read(&short_fields, root, m, err));
        complete_short(m);
        return SN_OK;
    }
    SN_TRY(sn_fields_read(&machine_fields, root, m, err));
    SN_TRY(read_levels(m, root, err));
    SN_TRY(read_measured(m, root, err));
    SN_TRY(sn_codec_rates_read(&m->device.codecs,
                               sn_yaml_find(sn_yaml_find(root, "device"), "codecs"), err));
    SN_TRY(sn_choices_read(&m->choices, sn_yaml_find(root, "choices"), err));
    return check(m, root, err);
}

enum sn_status sn_machine_parse(struct sn_machine *out, const char *text, size_t len,
                                const char *path, struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    struct sn_machine m;
    memset(&m, 0, sizeof(m)); /* padding too: equal files give equal bytes */
    SN_TRY(sn_fields_parse(&doc, text, len, path,
                           "a machine file: the keys name, device, node and links (docs/"
                           "MACHINES.md), or flops, memory_bandwidth and overhead",
                           err));
    enum sn_status st = read_tree(&m, doc->root, err);
    sn_yaml_destroy(doc);
    if (st == SN_OK)
        memcpy(out, &m, sizeof(m));
    else
        sn_machine_fini(&m);
    return st;
}

void sn_machine_fini(struct sn_machine *m)
{
    sn_free(m->device.measured);
    sn_codec_rates_fini(&m->device.codecs);
    sn_choices_fini(&m->choices);
    for (int i = 0; i < m->n_levels; i++)
        sn_links_fini(&m->level[i].measured);
    *m = (struct sn_machine){0};
}

/* --- writing ---------------------------------------------------------------------------------- */

static void format_measured(struct sn_str *out, const struct sn_machine_device *d)
{
    char value[SN_VALUE_SIZE];
    const struct sn_key *seconds = &measured_rows[measured_fields.n - 1];
    for (int i = 0; i < d->n_measured; i++) {
        const struct sn_measured *s = &d->measured[i];
        sn_str_add(out, "%s    - {op: %s, type: %s", i ? "" : "  measured:\n", sn_op_name(s->kind),
                   types[s->dtype]);
        if (s->epilogue)
            sn_str_add(out, ", epilogue: %s", epilogues[s->epilogue]);
        sn_str_add(out, ", m: %lld", (long long)s->m);
        if (s->n || s->k)
            sn_str_add(out, ", n: %lld, k: %lld", (long long)s->n, (long long)s->k);
        sn_str_add(out, ", seconds: %s}\n", sn_key_format(seconds, &s->seconds, value));
    }
}

static void format_links(struct sn_str *out, const struct sn_links *l)
{
    char value[SN_VALUE_SIZE];
    const struct sn_key *seconds = &link_rows[link_fields.n - 1];
    for (int i = 0; i < l->n; i++) {
        const struct sn_measured_link *x = &l->v[i];
        sn_str_add(out, "%s      - {op: %s, members: %d, bytes: %lld, seconds: %s}\n",
                   i ? "" : "    measured:\n", transfers[x->kind], x->members, (long long)x->bytes,
                   sn_key_format(seconds, &x->seconds, value));
    }
}

/* The rows of machine_rows before or from "node" on: lists go between. */
static struct sn_fields half_of(bool second)
{
    struct sn_fields f = machine_fields;
    int at = 0;
    while (strcmp(f.row[at].name, "node") != 0)
        at++;
    f.row += second ? at : 0;
    f.n = second ? f.n - at : at;
    return f;
}

void sn_machine_format(struct sn_str *out, const struct sn_machine *m)
{
    if (!m->n_levels) {
        sn_fields_format(out, &short_fields, m, 0, "");
        return;
    }
    struct sn_fields first = half_of(false), second = half_of(true);
    sn_fields_format(out, &first, m, 0, "");
    format_measured(out, &m->device);
    sn_codec_rates_format(out, &m->device.codecs);
    sn_fields_format(out, &second, m, 0, "");
    sn_str_add(out, "links:\n");
    for (int i = 0; i < m->n_levels; i++) {
        sn_fields_format(out, &level_fields, &m->level[i], 4, "- ");
        format_links(out, &m->level[i].measured);
    }
    sn_choices_format(out, &m->choices);
}

static const char intro[] =
    "# Machine files and software profiles\n\n"
    "Generated from the key tables in `lib/machine/machine.c` and `lib/machine/software.c` by\n"
    "`sennit-plan --help-keys=machines > docs/MACHINES.md`; do not edit.\n\n"
    "A run file names a machine (`machine: dgx-a100-80`, or `machine: {file: PATH, nodes: 8}`):\n"
    "the planner prices the run for it. `templates/machines` has those that ship, each figure\n"
    "with its source or marked as an estimate; `sennit-plan calibrate` writes a file for the\n"
    "machine at hand. What is left out costs nothing. Unknown keys are errors.\n\n"
    "## Machine files\n\n"
    "Ranks are dealt out to devices in order: ranks of a domain of `links` are consecutive. A\n"
    "product of m x n x k takes `overhead` + 2 m n k / (peak x most / (1 + half_m / m +\n"
    "half_n / n + half_k / k)), or as long as its operands take to cross memory, and with\n"
    "`train.fp8` what rounding them moves; attention takes FLOPs (1 + half_seq / tokens) /\n"
    "(peak x part); other operations (bytes + half_bytes) / (bandwidth x part).\n\n";

void sn_machine_help(struct sn_str *out)
{
    sn_str_add(out, "%s", intro);
    sn_fields_help(out, &machine_fields);
    sn_str_add(out, "\nEach level of `links`:\n\n");
    sn_fields_help(out, &level_fields);
    sn_str_add(out, "\nEach collective of a level's `measured`:\n\n");
    sn_fields_help(out, &link_fields);
    sn_str_add(out, "\nEach operation of `device.measured`:\n\n");
    sn_fields_help(out, &measured_fields);
    sn_str_add(out,
               "\nEach codec of `device.codecs`; rates are bytes of values, not of streams:\n\n");
    sn_codec_rates_help(out);
    sn_str_add(out, "\nThe short form, of one device whose rates depend on nothing:\n\n");
    sn_fields_help(out, &short_fields);
    sn_str_add(out,
               "\n## Software profiles\n\n"
               "What the kernels and habits of a trainer cost, as differences from ours: so that "
               "published runs of\nothers are priced by the same program. A run file names one "
               "with `machine.software`;\n`templates/software` has those that ship.\n\n");
    sn_software_help(out);
}
