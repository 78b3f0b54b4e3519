/* clang-format off */
/*
 * machine.h - what a machine can do: the rates by which a compiled step is priced.
 *
 * A machine file is YAML (docs/MACHINES.md has every key); templates/machines/ has the machines
 * that ship, each figure with its source, and `sennit-plan calibrate` writes one for the machine at
 * hand:
 *
 *   name: dgx-a100-80
 *   source: "where the figures come from, one sentence"
 *   device:
 *     name: A100-SXM4-80GB
 *     memory: 80GiB             # what a rank may fill; a run's memory_fraction scales it
 *     library: 1.2GiB           # context, libraries; of a CPU: what the process needs beside arenas
 *     communicator: 32MiB       # of each group of more than one rank
 *     bandwidth: 2.0e12         # of memory, bytes a second
 *     overhead: 4.0e-6          # of each operation, seconds
 *     peak: {fp32: 19.5e12, bf16: 312e12, fp16: 312e12}   # FLOP/s by which MFU is counted; fp8:
 *                               # with train.fp8, whose MFU is still counted by bf16
 *     gemm:                     # fractions of peak
 *       bf16: {most: 0.85, half_m: 100, half_n: 100, half_k: 100}
 *     tile: {m: 128, n: 256, units: 108}                  # wave quantisation; absent: none
 *     attention: {forward: 0.55, backward: 0.45, half_seq: 256}
 *     moved: {norm: 0.8, elementwise: 0.85, loss: 0.7, update: 0.85, half_bytes: 1.0e6}
 *     measured:                 # shapes that were measured (calibrate): see struct sn_measured
 *       - {op: gemm, type: bf16, m: 4096, n: 4096, k: 1024, seconds: 1.9e-4}
 *       - {op: gemm, type: bf16, epilogue: act, m: 4096, n: 4096, k: 1024, seconds: 2.1e-4}
 *     codecs:                   # how fast they are, in bytes of values: see codecs.h
 *       - {codec: int8, type: fp32, encode: 12.0e9, decode: 14.0e9}
 *   node: {devices: 8, cpus: 128, memory: 2048GiB, nics: 8, watts: 3300, mtbf_hours: 20000}
 *   links:                      # from inside outwards; ranks of a domain are consecutive
 *     - {name: node, ranks: 8, latency: 3.0e-6, device: 300e9, efficiency: 0.8}
 *     - {name: leaf, ranks: 160, latency: 5.0e-6, device: 25e9, domain: 200e9, efficiency: 0.9}
 *     - {name: spine, ranks: 0, latency: 7.0e-6, device: 25e9, domain: 2000e9}
 *   collectives: ring
 *   launch: 2.0e-5            # seconds, of each collective
 *   storage: {write: 100e9, node: 5e9}                    # bytes a second: all, of one node
 *   price: {device_hour: 2.5}                             # $; or node_hour
 *   choices: [...]            # algorithms of the device's libraries: see choices.h
 *
 * The short form {flops, memory_bandwidth, overhead, flops_of} is a machine of one device whose
 * rates do not depend on shape; sennit-train --pace takes both forms.
 *
 * Time of an operation (price.h):
 *   GEMM m x n x k      overhead + 2 m n k / (peak most / (1 + half_m/m + half_n/n + half_k/k)),
 *                       divided by the fraction of the last wave of tiles that is used; of operands
 *                       in 8 bits also what rounding them moves (price.h)
 *   attention           overhead + FLOPs (1 + half_seq/s) / (peak forward) or (peak backward)
 *   what moves memory   overhead + (bytes + half_bytes) / (bandwidth x its fraction)
 */
/* clang-format on */
#ifndef SN_MACHINE_H
#define SN_MACHINE_H

#include "kernels/ops.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/machine/choices.h"
#include "lib/machine/codecs.h"
#include "lib/machine/links.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SN_MACHINE_NAME = 64, SN_MACHINE_SOURCE = 256, SN_MAX_LEVELS = 5, SN_NPRECISIONS = 3 };

/* Kinds of operations that move memory: each reaches a fraction of the bandwidth of its own. */
enum sn_moved { SN_MOVED_NORM, SN_MOVED_ELEMENTWISE, SN_MOVED_LOSS, SN_MOVED_UPDATE, SN_NMOVED };

struct sn_gemm_rate {
    double peak;                   /* FLOP/s, dense; what MFU divides by */
    double most;                   /* fraction of it that a very large product reaches */
    double half_m, half_n, half_k; /* rows, columns, depth at which half of that is lost */
};

/* One measured operation. Where kind, type and shape are those of an operation, `seconds` is its
 * price; else the formula, times the measured-to-formula ratio of the nearest shape of the kind
 * (log distance), if `seconds` of any shape of the kind are known. What m, n, k are for each kind
 * is said at sn_op_shape (program.h). */
struct sn_measured {
    enum sn_op_kind kind;
    enum sn_dtype dtype;
    int64_t m, n, k;
    double seconds;
    enum sn_epilogue epilogue; /* of a product: `seconds` has that in it */
};

struct sn_machine_device {
    char name[SN_MACHINE_NAME];
    int64_t memory, library, communicator; /* bytes */
    double bandwidth, overhead;
    double watts;                             /* at most, while it trains; 0: unknown */
    struct sn_gemm_rate gemm[SN_NPRECISIONS]; /* by SN_F32, SN_BF16, SN_F16; peak 0: it cannot */
    struct sn_gemm_rate fp8;                  /* of operands in 8 bits; peak 0: as bf16 */
    int64_t tile_m, tile_n, units;            /* 0: no waves */
    double attention_forward, attention_backward, attention_half_seq;
    double moved[SN_NMOVED], half_bytes;
    double rate_of[SN_NKERNELS]; /* FLOP/s of kinds in the short form's flops_of; 0: as above */
    struct sn_measured *measured;
    int n_measured;
    struct sn_codec_rates codecs;
};

/* Ring: the links of all levels work at the same time and 2 (n-1)/n of an all-reduce crosses each
 * domain's border (NCCL). Direct: everybody sends 1/n to everybody (our own trainer on CPUs). */
enum sn_algorithm { SN_ALGORITHM_RING, SN_ALGORITHM_DIRECT };

/* A level of links joins domains of the level below (level 0 joins devices). `device` is what one
 * device can send at this level, `domain` what all devices of one domain of the level below can
 * send out together: NICs that are shared, and taper. Bytes a second and direction. */
struct sn_level {
    char name[16];
    int64_t ranks;  /* devices of a domain of this level; 0: all (the outermost) */
    double latency; /* seconds of one message */
    double message; /* seconds for which each message of an all-to-all, or of what is direct, keeps
                       its sender from the next one, whatever its length (the gap of LogP) */
    double hop; /* of a step of a ring, of which a gather or scatter over n members takes n - 1; 0:
                   its rounds are a tree's, log2 n of `latency` */
    double device;
    double peer;   /* and to one other alone, where pairs have links of their own; 0: as device */
    double domain; /* 0: no limit but the devices' */
    double efficiency; /* of both, that large messages reach */
    double half_bytes; /* message at which half of that is reached */
    double all_reduce; /* rate of an all-reduce over that of the others, where switches sum (NVLS,
                          SHARP) and the group has more than half of a domain; else 1 */
    double crowd;      /* part of the rate that is left where more than two domains exchange with
                          each other directly and their messages meet at the receivers; else 1 */
    double processor;  /* part of a rank's computing that a transfer here takes away while it is
                          under way: a communication thread without a core of its own 1, a NIC 0 */
    struct sn_links measured; /* collectives whose time is known; they go before the formula */
};

struct sn_machine {
    char name[SN_MACHINE_NAME];
    char source[SN_MACHINE_SOURCE]; /* where the figures come from */
    struct sn_machine_device device;
    int devices; /* of a node */
    int cpus, nics;
    int64_t node_memory;
    double mtbf_hours;               /* of one node; 0: unknown */
    double node_watts;               /* beside its devices; 0: unknown */
    double price_device, price_node; /* $ an hour, one of them at most; 0: unknown */
    struct sn_level level[SN_MAX_LEVELS];
    int n_levels;                /* at least 1, unless it came from the short form: 0 */
    enum sn_algorithm algorithm; /* of collectives */
    double launch;               /* seconds that each collective and transfer begins with */
    /* bytes a second; 0: unknown. To the file system from all nodes and from one; from a device to
     * its host's memory, which a snapshot takes. */
    double storage_write, storage_node, storage_host;
    struct sn_choices choices; /* of the device's libraries: sennit-train --tune */
};

/* SN_EINPUT with "FILE:LINE:COL: what is wrong; what would work". On failure *out is as it was.
 * The caller ends with sn_machine_fini. */
enum sn_status sn_machine_load(struct sn_machine *out, const char *path, struct sn_err *err);
/* The same from memory; `path` is used in messages only. */
enum sn_status sn_machine_parse(struct sn_machine *out, const char *text, size_t len,
                                const char *path, struct sn_err *err);
void sn_machine_fini(struct sn_machine *m); /* a zeroed one is allowed */
/* The file again: reading it gives *m. */
void sn_machine_format(struct sn_str *out, const struct sn_machine *m);
enum sn_status sn_machine_save(const struct sn_machine *m, const char *path, struct sn_err *err);
/* Every key of machine files and software profiles, as docs/MACHINES.md. */
void sn_machine_help(struct sn_str *out);

#endif
