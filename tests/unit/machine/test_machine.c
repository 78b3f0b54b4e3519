/*
 * test_machine.c - machine files: what ships, what a file gives, what is wrong with a bad one, and
 * the way back to text. The short form and prices are in test_cost.c.
 */
#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/machine/named.h"
#include "lib/program/program.h"
#include "tests/lib/tap.h"

static const char small[] = "name: small\n"
                            "device: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1.0e9}}\n"
                            "node: {devices: 2}\n"
                            "links: [{name: all, ranks: 0, latency: 1.0e-6, device: 1.0e9}]\n";

/* Every key, with a value that is not its default. */
static const char full[] =
    "name: full\n"
    "source: 'here: \"and\" there'\n"
    "device:\n"
    "  name: one\n"
    "  memory: 80GiB\n"
    "  library: 1200MiB\n"
    "  communicator: 32MiB\n"
    "  bandwidth: 2.0e12\n"
    "  overhead: 4.0e-6\n"
    "  peak: {fp32: 19.5e12, bf16: 312e12, fp16: 311e12}\n"
    "  gemm:\n"
    "    fp32: {most: 0.9, half_m: 1, half_n: 2, half_k: 3}\n"
    "    bf16: {most: 0.8, half_m: 4, half_n: 5, half_k: 6}\n"
    "    fp16: {most: 0.7, half_m: 7, half_n: 8, half_k: 9}\n"
    "  tile: {m: 128, n: 256, units: 108}\n"
    "  attention: {forward: 0.55, backward: 0.45, half_seq: 256}\n"
    "  moved: {norm: 0.81, elementwise: 0.82, loss: 0.83, update: 0.84, half_bytes: 1.0e6}\n"
    "  measured:\n"
    "    - {op: gemm, type: bf16, m: 4096, n: 2048, k: 1024, seconds: 1.9e-4}\n"
    "    - {op: gemm, type: bf16, epilogue: act_dx, m: 4096, n: 2048, k: 1024, seconds: 2.1e-4}\n"
    "    - {op: adamw, type: fp32, m: 123456789012, seconds: 0.1}\n"
    "  codecs:\n"
    "    - {codec: int8-hadamard, type: fp32, encode: 4.7e9, decode: 7.6e9, feedback: 2.9e9}\n"
    "    - {codec: zfp-16, type: bf16, encode: 1.0e8, decode: 9.0e7}\n"
    "node: {devices: 8, cpus: 128, memory: 2048GiB, nics: 7, watts: 3300, mtbf_hours: 20000}\n"
    "collectives: direct\n"
    "launch: 2.0e-5\n"
    "links:\n"
    "  - {name: node, ranks: 8, latency: 3.0e-6, device: 300e9, peer: 100e9, efficiency: 0.8,\n"
    "     half_bytes: 1.0e6, all_reduce: 1.3, crowd: 0.9, processor: 0.5}\n"
    "  - {name: leaf, ranks: 160, latency: 5.0e-6, device: 25e9, domain: 200e9}\n"
    "  - {name: spine, ranks: 0, latency: 7.0e-6, device: 25e9, domain: 2000e9}\n"
    "price: {device_hour: 2.5}\n"
    "storage: {write: 100e9, node: 5e9, host: 25e9}\n";

static enum sn_status parse(struct sn_machine *m, const char *text, struct sn_err *err)
{
    return sn_machine_parse(m, text, strlen(text), "m.yaml", err);
}

static bool same(const struct sn_machine *a, const struct sn_machine *b)
{
    struct sn_machine x = *a, y = *b;
    bool shapes = a->device.n_measured == b->device.n_measured &&
                  (!a->device.n_measured ||
                   memcmp(a->device.measured, b->device.measured,
                          (size_t)a->device.n_measured * sizeof(*a->device.measured)) == 0);
    x.device.measured = y.device.measured = NULL;
    bool codecs = a->device.codecs.n == b->device.codecs.n;
    for (int i = 0; codecs && i < a->device.codecs.n; i++) {
        const struct sn_codec_rate *p = &a->device.codecs.of[i], *q = &b->device.codecs.of[i];
        codecs = sn_codec_same(&p->codec, &q->codec) && p->dtype == q->dtype &&
                 p->encode == q->encode && p->decode == q->decode && p->feedback == q->feedback;
    }
    x.device.codecs = y.device.codecs = (struct sn_codec_rates){0};
    return shapes && codecs && memcmp(&x, &y, sizeof(x)) == 0;
}

/* --- what a file gives ------------------------------------------------------------------------ */

static void every_key_arrives(void)
{
    struct sn_machine m;
    struct sn_err err = {0};
    tap_ok(parse(&m, full, &err) == SN_OK, "a file with every key is read%s", err.text);
    const struct sn_machine_device *d = &m.device;
    tap_ok(!strcmp(m.name, "full") && !strcmp(m.source, "here: \"and\" there") &&
               !strcmp(d->name, "one"),
           "texts");
    tap_ok(d->memory == 80LL << 30 && d->library == 1200LL << 20 && d->communicator == 32 << 20 &&
               d->bandwidth == 2e12 && d->overhead == 4e-6,
           "device");
    const struct sn_gemm_rate *g = d->gemm;
    tap_ok(g[SN_F32].peak == 19.5e12 && g[SN_BF16].peak == 312e12 && g[SN_F16].peak == 311e12,
           "peaks");
    tap_ok(g[SN_F32].most == 0.9 && g[SN_F32].half_m == 1 && g[SN_F32].half_n == 2 &&
               g[SN_F32].half_k == 3 && g[SN_BF16].most == 0.8 && g[SN_BF16].half_m == 4 &&
               g[SN_BF16].half_n == 5 && g[SN_BF16].half_k == 6 && g[SN_F16].most == 0.7 &&
               g[SN_F16].half_m == 7 && g[SN_F16].half_n == 8 && g[SN_F16].half_k == 9,
           "products, by type");
    tap_ok(d->tile_m == 128 && d->tile_n == 256 && d->units == 108, "tiles");
    tap_ok(d->attention_forward == 0.55 && d->attention_backward == 0.45 &&
               d->attention_half_seq == 256,
           "attention");
    tap_ok(d->moved[SN_MOVED_NORM] == 0.81 && d->moved[SN_MOVED_ELEMENTWISE] == 0.82 &&
               d->moved[SN_MOVED_LOSS] == 0.83 && d->moved[SN_MOVED_UPDATE] == 0.84 &&
               d->half_bytes == 1e6,
           "what moves memory");
    tap_ok(d->n_measured == 3 && d->measured[0].kind == SN_OP_GEMM &&
               d->measured[0].dtype == SN_BF16 && d->measured[0].m == 4096 &&
               d->measured[0].n == 2048 && d->measured[0].k == 1024 &&
               d->measured[0].seconds == 1.9e-4 && d->measured[0].epilogue == SN_EPILOGUE_NONE &&
               d->measured[1].epilogue == SN_EPILOGUE_ACT_DX && d->measured[1].seconds == 2.1e-4 &&
               d->measured[2].kind == SN_OP_ADAMW && d->measured[2].m == 123456789012 &&
               d->measured[2].n == 0,
           "measured shapes");
    const struct sn_codec_rate *z = d->codecs.of;
    tap_ok(d->codecs.n == 2 && z[0].codec.kind == SN_CODEC_INT8 && z[0].codec.hadamard &&
               !z[0].codec.stochastic && z[0].dtype == SN_F32 && z[0].encode == 4.7e9 &&
               z[0].decode == 7.6e9 && z[0].feedback == 2.9e9 && z[1].codec.rate == 16 &&
               z[1].dtype == SN_BF16 && z[1].feedback == 0,
           "codecs");
    tap_ok(m.devices == 8 && m.cpus == 128 && m.nics == 7 && m.node_memory == 2048LL << 30 &&
               m.mtbf_hours == 20000 && m.node_watts == 3300 && m.price_device == 2.5 &&
               m.price_node == 0,
           "node");
    tap_ok(m.algorithm == SN_ALGORITHM_DIRECT && m.launch == 2e-5, "collectives");
    const struct sn_level *l = m.level;
    tap_ok(m.n_levels == 3 && !strcmp(l[0].name, "node") && l[0].ranks == 8 &&
               l[0].latency == 3e-6 && l[0].device == 300e9 && l[0].peer == 100e9 &&
               l[0].domain == 0 && l[0].efficiency == 0.8 && l[0].half_bytes == 1e6 &&
               l[0].all_reduce == 1.3 && l[0].crowd == 0.9 && l[0].processor == 0.5,
           "the innermost level");
    tap_ok(l[1].ranks == 160 && l[1].domain == 200e9 && l[1].efficiency == 1 &&
               l[1].all_reduce == 1 && l[1].crowd == 1 && l[2].ranks == 0,
           "the others, with defaults");
    tap_ok(m.storage_write == 100e9 && m.storage_node == 5e9 && m.storage_host == 25e9, "storage");
    sn_machine_fini(&m);
}

static void what_is_left_out_has_no_cost(void)
{
    struct sn_machine m;
    struct sn_err err = {0};
    tap_ok(parse(&m, small, &err) == SN_OK, "the smallest file is read%s", err.text);
    const struct sn_machine_device *d = &m.device;
    tap_ok(d->gemm[SN_F32].most == 1 && d->gemm[SN_F32].half_m == 0 && d->attention_forward == 1 &&
               d->attention_backward == 1 && d->moved[SN_MOVED_NORM] == 1 &&
               d->moved[SN_MOVED_UPDATE] == 1 && d->units == 0 && d->library == 0 &&
               d->overhead == 0 && d->measured == NULL && m.launch == 0 &&
               m.algorithm == SN_ALGORITHM_RING,
           "nothing is lost where the file does not say so");
    tap_ok(sn_machine_check_precision(&m, SN_F32, &err) == SN_OK, "it computes in fp32");
    tap_ok(sn_machine_check_precision(&m, SN_BF16, &err) == SN_EINPUT &&
               !strcmp(err.text, "train.precision: the machine's device has no bf16; use fp32"),
           "%s", err.text);
    sn_machine_fini(&m);
    sn_machine_fini(&m);
    tap_ok(m.n_levels == 0, "ended twice");
}

/* --- back to text ----------------------------------------------------------------------------- */

static void check_round_trip(const char *what, const struct sn_machine *m)
{
    struct sn_machine again = {0};
    struct sn_str text = {0};
    struct sn_err err = {0};
    sn_machine_format(&text, m);
    bool read = !text.failed && parse(&again, text.p, &err) == SN_OK;
    tap_ok(read && same(m, &again), "%s is written and read again%s", what, err.text);
    sn_str_fini(&text);
    sn_machine_fini(&again);
}

static void format_and_parse_are_inverse(void)
{
    static const char short_form[] = "flops: 1.0e12\nmemory_bandwidth: 1.0e11\noverhead: 0\n"
                                     "flops_of: {attention: 5.0e11}\n";
    const char *text[] = {small, full, short_form};
    const char *what[] = {"the smallest", "the largest", "the short form"};
    for (int i = 0; i < 3; i++) {
        struct sn_machine m;
        tap_ok(parse(&m, text[i], NULL) == SN_OK, "%s", what[i]);
        check_round_trip(what[i], &m);
        sn_machine_fini(&m);
    }
}

/* --- what ships ------------------------------------------------------------------------------- */

static const char *const shipped[] = {
    "lassen",        "sierra",   "summit",         "marconi100",  "perlmutter-40",
    "perlmutter-80", "leonardo", "juwels-booster", "dgx-a100-80", "dgx-h100",
    "dgx-h200",      "gh200-4",  "laptop-cpu",     "delta",       "h800-8"};
enum { N_SHIPPED = sizeof(shipped) / sizeof(shipped[0]) };

static void shipped_machines_load(void)
{
    for (int i = 0; i < N_SHIPPED; i++) {
        struct sn_machine m;
        struct sn_err err = {0};
        enum sn_status st = sn_machine_preset(&m, shipped[i], "templates", &err);
        tap_ok(st == SN_OK, "%s%s", shipped[i], err.text);
        if (st != SN_OK)
            continue;
        tap_ok(!strcmp(m.name, shipped[i]) && m.source[0] && m.device.name[0],
               "%s: its name and its source", shipped[i]);
        bool node = false;
        for (int l = 0; l < m.n_levels; l++)
            node = node || m.level[l].ranks == m.devices;
        tap_ok(node, "%s: a level of links ends where its nodes end", shipped[i]);
        check_round_trip(shipped[i], &m);
        sn_machine_fini(&m);
    }
}

/* --- bad files -------------------------------------------------------------------------------- */

#define DEVICE "device: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1.0e9}}\n"
#define LINKS  "links: [{name: all, ranks: 0, latency: 0, device: 1.0e9}]\n"
#define NODE   "node: {devices: 2}\n"
#define LEVEL  "latency: 0, device: 1.0e9}"

static const struct {
    const char *text, *want;
} bad[] = {
    {"x", "m.yaml: want a machine file: the keys name, device, node and links"},
    {"{}", "m.yaml:1:1: name: missing; want a word"},
    {"name: []\n", "m.yaml:1:7: name: got a list or mapping; want a text"},
    {"name: null\n", "m.yaml:1:7: name: got nothing; want a text"},
    {"name: 0123456789012345678901234567890123456789012345678901234567890123\n",
     "m.yaml:1:7: name: '0123456789012345678901234567890123456789...' has 64 bytes; want at most "
     "63"},
    {"nme: x\n", "m.yaml:1:1: unknown key 'nme' of a machine file; did you mean 'name'?"},
    {"frequency: x\n", "m.yaml:1:1: unknown key 'frequency' of a machine file; want name, source, "
                       "device, node, collectives, launch, links, choices, price, storage"},
    {"name: x\ndevice: {memroy: 1GiB}\n",
     "m.yaml:2:10: unknown key 'device.memroy' of a machine file; did you mean 'device.memory'?"},
    {"name: x\ndevice: 3\n", "m.yaml:2:9: device: want a mapping of keys"},
    {"name: x\ndevice: {memory: 80}\n",
     "m.yaml:2:18: device.memory: 80 is outside 1MiB..1048576GiB"},
    {"name: x\ndevice: {memory: much}\n", "m.yaml:2:18: device.memory: got 'much'; want a size"},
    {"name: x\n" NODE LINKS, "m.yaml:1:1: device.memory: missing; want a size like 25MiB in "},
    {"name: x\n" DEVICE LINKS, "m.yaml:1:1: node.devices: missing; want a whole number in 1..4096"},
    {"name: x\n" DEVICE NODE, "m.yaml:1:1: links: missing; want a list of levels"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9}\n" NODE LINKS,
     "m.yaml:1:1: device.peak: missing; want the peak of one precision at least"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {bf16: 312}}\n",
     "m.yaml:2:55: device.peak.bf16: 312 is outside 1e+06..1e+18 FLOP/s"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp4: 1e12}}\n",
     "m.yaml:2:49: unknown key 'device.peak.fp4' of a machine file"},
    {"name: x\ndevice: {memory: 1GiB, library: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}}\n" NODE
         LINKS,
     "m.yaml:1:1: device.library: leaves nothing of device.memory; want less"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, tile: {m: 4}}\n" NODE
         LINKS,
     "m.yaml:1:1: device.tile: m 4, n 0, units 0; want all of them or none"},
    {"name: x\n" DEVICE NODE "links: []\n", "m.yaml:4:8: links: want a list of 1 to 5 levels"},
    {"name: x\n" DEVICE NODE "links: {}\n", "m.yaml:4:8: links: want a list of 1 to 5 levels"},
    {"name: x\n" DEVICE NODE "links: [3]\n", "m.yaml:4:9: links: want a mapping of keys"},
    {"name: x\n" DEVICE NODE "links: [{name: a, ranks: 2, " LEVEL "]\n",
     "m.yaml:4:9: links.ranks: the last level is of 2 devices; want 0 (all devices) in the last"},
    {"name: x\n" DEVICE NODE "links: [{name: a, ranks: 0, " LEVEL ", {name: b, ranks: 0, " LEVEL
     "]\n",
     "m.yaml:4:9: links.ranks: an inner level is of 0 devices; want 0 (all devices) in the last"},
    {"name: x\n" DEVICE NODE "links: [{name: a, ranks: 4, " LEVEL ", {name: b, ranks: 6, " LEVEL
     ", {name: c, ranks: 0, " LEVEL "]\n",
     "m.yaml:4:57: links.ranks: 6 is no multiple of the level below, of 4 devices; want whole"},
    {"name: x\n" DEVICE NODE "links: [{name: a, ranks: 4, " LEVEL ", {name: a, ranks: 0, " LEVEL
     "]\n",
     "m.yaml:4:57: links.name: two levels are called 'a'; want a name for each"},
    {"name: x\n" DEVICE NODE "links: [{name: a, ranks: 0, device: 1.0e9}]\n",
     "m.yaml:4:9: links.latency: missing; want a number in 0..1 seconds"},
    {"name: x\n" DEVICE NODE "links: [{name: a, ranks: 0, latency: 3, device: 1.0e9}]\n",
     "m.yaml:4:38: links.latency: 3 is outside 0..1 seconds"},
    {"name: x\n" DEVICE NODE "links: [{nam: a}]\n",
     "m.yaml:4:10: unknown key 'links.nam' of a machine file; did you mean 'links.name'?"},
    {"name: x\n" DEVICE NODE LINKS "collectives: tree\n",
     "m.yaml:5:14: collectives: unknown name 'tree'; want ring or direct"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, measured: 3}\n" NODE
         LINKS,
     "m.yaml:2:71: device.measured: want a list of measured operations"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, measured: [{type: fp32, "
     "m: "
     "1, seconds: 1}]}\n" NODE LINKS,
     "m.yaml:2:72: device.measured.op: want a kind of operation, such as gemm"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, measured: [{op: gem, "
     "type: "
     "fp32, m: 1, seconds: 1}]}\n" NODE LINKS,
     "m.yaml:2:77: device.measured.op: 'gem' is no kind of operation; did you mean 'gemm'?"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, measured: [{op: gemm, "
     "type: "
     "fp32, m: 0, seconds: 1}]}\n" NODE LINKS,
     "m.yaml:2:98: device.measured.m: 0 is outside 1..1125899906842624"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, codecs: 3}\n" NODE LINKS,
     "m.yaml:2:69: device.codecs: want a list of codecs and their rates"},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, codecs: [{codec: int7, "
     "type: fp32, encode: 1e9, decode: 1e9}]}\n" NODE LINKS,
     "m.yaml:2:78: device.codecs.codec: 'int7' is no codec; want "},
    {"name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, codecs: [{codec: int8, "
     "type: fp32, encode: 1e9}]}\n" NODE LINKS,
     "m.yaml:2:70: device.codecs.decode: missing; want a number in 100000..1e+16 B/s"},
    {"name: x\nflops: 1.0e12\n", "m.yaml:1:1: unknown key 'name' of a machine file in its short"},
};

static void bad_files_are_explained(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_machine m = {.devices = 42};
        struct sn_err err = {0};
        bool refused = parse(&m, bad[i].text, &err) == SN_EINPUT && m.devices == 42;
        if (!tap_ok(refused && !strncmp(err.text, bad[i].want, strlen(bad[i].want)), "%s",
                    bad[i].want))
            printf("#  got: %s\n", err.text);
    }
}

/* Operations had other names in 0.1.0. */
static void old_names_of_operations_are_read(void)
{
    static const char *const was[] = {"place", "arrive", "decide", "balance", "swap"};
    static const enum sn_op_kind is[] = {SN_OP_MOE_PERMUTE, SN_OP_RECV_OFFSETS, SN_OP_CLIP_SCALE,
                                         SN_OP_ROUTER_BIAS, SN_OP_TRANSPOSE};
    for (int i = 0; i < 5; i++) {
        char text[400];
        struct sn_machine m = {0};
        struct sn_err err = {0};
        (void)snprintf(text, sizeof(text),
                       "name: x\ndevice: {memory: 1GiB, bandwidth: 1.0e9, peak: {fp32: 1e9}, "
                       "measured: [{op: %s, type: fp32, m: 1, seconds: 1}]}\n" NODE LINKS,
                       was[i]);
        bool good = parse(&m, text, &err) == SN_OK;
        tap_ok(good && m.device.n_measured == 1 && m.device.measured[0].kind == is[i],
               "device.measured.op: %s is %s %s", was[i], sn_op_name((int)is[i]), err.text);
        if (good)
            sn_machine_fini(&m);
    }
}

/* --- what a run file names -------------------------------------------------------------------- */

#define MODEL                                                                                      \
    "model: {family: llama, layers: 4, hidden: 256, heads: 4, ffn: 688, vocab: 256, seq: 128}\n"
#define TRAIN "train: {steps: 200, global_batch: 32, precision: fp16}\n"

static struct sn_config config_of(const char *text)
{
    struct sn_config c;
    struct sn_err err = {0};
    if (sn_config_parse(&c, text, strlen(text), "run.yaml", "templates", &err) != SN_OK)
        printf("#  %s\n", err.text);
    return c;
}

static void a_run_names_its_machine(void)
{
    struct sn_err err = {0};
    struct sn_machine m;
    struct sn_config c = config_of(MODEL TRAIN "machine: {preset: lassen, nodes: 3}\n");
    tap_ok(sn_names_machine(&c) && sn_machine_of(&m, &c, "templates", &err) == SN_OK &&
               !strcmp(m.name, "lassen"),
           "a shipped machine%s", err.text);
    tap_ok(sn_machine_ranks(&m, &c) == 12 && sn_memory_limit(&m, &c) == m.device.memory,
           "its nodes and its memory");
    c.machine.memory_fraction = 0.5;
    tap_ok(sn_memory_limit(&m, &c) == m.device.memory / 2, "half of the memory");
    sn_machine_fini(&m);
    c = config_of(MODEL TRAIN);
    tap_ok(!sn_names_machine(&c) && sn_machine_of(&m, &c, "templates", &err) == SN_OK &&
               !strcmp(m.name, "laptop-cpu"),
           "none: laptop-cpu");
    sn_machine_fini(&m);
    c = config_of(MODEL TRAIN "machine: {file: templates/machines/summit.yaml}\n");
    tap_ok(sn_names_machine(&c) && sn_machine_of(&m, &c, NULL, &err) == SN_OK && m.devices == 6,
           "a file");
    sn_machine_fini(&m);
}

static void a_machine_that_does_not_suit_is_refused(void)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {MODEL TRAIN "machine: lasen\n",
         "run.yaml:3:10: machine.preset: no preset 'lasen'; did you mean 'lassen'?"},
        {MODEL TRAIN "machine: ../models/gpt2\n",
         "run.yaml:3:10: machine.preset: '../models/gpt2' is not a preset's name"},
        {MODEL TRAIN "machine: {file: nowhere.yaml}\n",
         "nowhere.yaml: cannot be opened: No such file or directory"},
        {MODEL "train: {steps: 1, global_batch: 4, precision: bf16}\nmachine: lassen\n",
         "run.yaml: train.precision: V100-SXM2-16GB has no bf16; use fp16 or fp32"},
        {MODEL TRAIN "layout: {data: 4, tensor: 4}\nmachine: {preset: lassen, nodes: 3}\n",
         "run.yaml: machine.nodes: 3 nodes of lassen have 12 devices, but the layout has 16 ranks; "
         "want at least 4 nodes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sn_machine m = {.devices = 42};
        struct sn_err err = {0};
        struct sn_config c = config_of(cases[i].text);
        bool refused = sn_machine_of(&m, &c, "templates", &err) == SN_EINPUT && m.devices == 42;
        if (!tap_ok(refused && !strncmp(err.text, cases[i].want, strlen(cases[i].want)), "%s",
                    cases[i].want))
            printf("#  got: %s\n", err.text);
    }
}

/* --- no memory -------------------------------------------------------------------------------- */

static void allocations_may_fail(void)
{
    uint64_t before = sn_mem_count();
    struct sn_machine m;
    tap_ok(parse(&m, full, NULL) == SN_OK, "a file to run out of memory with");
    sn_machine_fini(&m);
    uint64_t n = sn_mem_count() - before;
    int wrong = 0;
    for (uint64_t i = 1; i <= n; i++) {
        struct sn_machine kept = {.devices = 42};
        struct sn_err err = {0};
        sn_mem_fail_at(i);
        wrong += parse(&kept, full, &err) != SN_ENOMEM || kept.devices != 42 || !err.text[0];
    }
    sn_mem_fail_at(0);
    tap_ok(wrong == 0, "each of %d failing allocations is reported", (int)n);
}

int main(void)
{
    every_key_arrives();
    what_is_left_out_has_no_cost();
    format_and_parse_are_inverse();
    shipped_machines_load();
    bad_files_are_explained();
    old_names_of_operations_are_read();
    a_run_names_its_machine();
    a_machine_that_does_not_suit_is_refused();
    allocations_may_fail();
    return tap_done();
}
