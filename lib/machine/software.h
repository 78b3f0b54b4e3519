/*
 * software.h - what a trainer's kernels and habits cost, as data: so that runs of other trainers,
 * whose figures are published, are priced by the same program as ours.
 *
 * A profile is YAML (templates/software/NAME.yaml; every key optional, the default is sennit: all
 * factors 1). It changes prices and memory of a compiled step, never the step: our program for the
 * row's layout is priced as that trainer would execute it. Constants are fitted on published rows
 * by tests/bench/ and name the command that fitted them.
 */
#ifndef SN_SOFTWARE_H
#define SN_SOFTWARE_H

#include "lib/base/err.h"
#include "lib/machine/machine.h"

/* Whether scores are kept, and how often they cross memory. */
enum sn_attention_kernel {
    SN_ATTENTION_FLASH2,
    SN_ATTENTION_FLASH1,
    SN_ATTENTION_FUSED,
    SN_ATTENTION_TORCH,
    SN_NATTENTIONS
};

struct sn_software {
    char name[SN_MACHINE_NAME];
    enum sn_attention_kernel attention;
    bool fused_norm;
    /* --- time: factors on what price.h says --- */
    double gemm; /* on seconds of GEMMs */
    double attention_forward[SN_NATTENTIONS], attention_backward[SN_NATTENTIONS];
    double norm_fused, norm_unfused; /* on bytes of norms */
    double elementwise;              /* on bytes of the other memory-bound operations */
    double overhead;                 /* on the seconds that each operation begins with */
    double step_fixed, layer_fixed;  /* seconds a step; a layer and micro-batch */
    double host;  /* seconds in which the host issues an operation: none begins before that */
    double stall; /* times of a micro-batch by which a pipeline is longer than its schedule */
    /* --- communication, by axis --- */
    double latency[8], bandwidth[8]; /* factors, index enum sn_axis */
    double per_node[8]; /* part by which each node of the job beside the first lengthens what
                           crosses between nodes */
    double hidden[8];   /* part of the axis' exposed time that computing hides although our program
                           would wait; 0: as compiled */
    bool data_overlaps; /* else gradients are reduced after the last
                           backward */
    /* Seconds that a billion parameters of a rank are reduced later for each node of their group
     * beside the first; for each node of the job, and for each quarter of the device's memory that
     * is full beyond three (sim.h). */
    double late, late_full;
    double grad_wire_bytes; /* an element of reduced gradients; 0: as compiled */
    bool logits_gathered;   /* the head's logits are whole on every tensor rank */
    /* --- memory: bytes --- */
    double param_bytes, grad_bytes, optimizer_bytes; /* an element; 0: as compiled */
    double kept_replicated, kept_sharded; /* a layer, token and feature; 0: as compiled */
    double kept_unfused;                  /* and more where norms are several kernels */
    double kept_scores;                   /* a score, of attention kernels that keep them */
    double recompute_live; /* layers whose activations are there at once when recomputing */
    double logits_bytes,
        logits_gathered_bytes; /* a token and word; and more on several tensor ranks */
    double fixed_bytes;
    double memory_cutoff; /* fraction of device memory that is usable */
    /* --- how good it is --- */
    double low, high; /* measured over planned, of nine in ten steps of each sheet, none of which a
                         constant was fitted to; 0: not known */
    double devices_least, devices_most, hidden_least, hidden_most, seq_least, seq_most; /* seen */
};

/* The default: sennit. */
void sn_software_default(struct sn_software *out);
/* What has to stand beside an MFU that is planned for *s on *m: "not measured on a GPU" of our own
 * trainer on a kind of GPU on which none of its operations were timed; NULL: nothing. A GPU is a
 * device whose collectives are rings (NCCL's): on processors our own trainer sends directly. */
const char *sn_software_mfu_note(const struct sn_software *s, const struct sn_machine *m);
/* In what the layout lies outside of what was measured of this trainer: a clause such as "1024
 * devices, measured 64 to 256"; false: in nothing, or nothing is known of it. */
bool sn_software_extrapolates(char *why, size_t room, const struct sn_software *s, int devices,
                              int hidden, int seq);
enum sn_status sn_software_load(struct sn_software *out, const char *path, struct sn_err *err);
enum sn_status sn_software_parse(struct sn_software *out, const char *text, size_t len,
                                 const char *path, struct sn_err *err);
/* What differs from the default, as a profile that reads back to *s. */
void sn_software_format(struct sn_str *out, const struct sn_software *s);
/* Every key of a profile, as a table in Markdown. */
void sn_software_help(struct sn_str *out);

#endif
