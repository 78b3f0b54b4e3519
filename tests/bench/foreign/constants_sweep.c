/*
 * constants_sweep.c - what is fitted on the A100 sweep, from where and how far.
 *
 * A prior is what the machine file says (factor 1) or nothing lost (0); its spread is the usual
 * factor by which such figures are off.
 */
#include "tests/bench/foreign/bench.h"

#include "lib/layout/grid.h"

enum { ALL = 1 };

#define F(label, member, who, off)                                                                 \
    {                                                                                              \
        OF_TIME, label, offsetof(struct sn_software, member), who, true, 1, off, 1e-3, 1e3         \
    }
#define N(label, member, who, off, most)                                                           \
    {                                                                                              \
        OF_TIME, label, offsetof(struct sn_software, member), who, false, 0, off, 0, most          \
    }
#define M(label, member, usual, off)                                                               \
    {                                                                                              \
        OF_MEMORY, label, offsetof(struct sn_software, member), ALL, true, usual, off, 1e-2, 1e3   \
    }

static const struct constant constants[] = {
    F("gemm", gemm, ALL, 0.15),
    F("attention_forward.flash2", attention_forward[SN_ATTENTION_FLASH2], ALL, 0.3),
    F("attention_backward.flash2", attention_backward[SN_ATTENTION_FLASH2], ALL, 0.3),
    F("attention_forward.flash1", attention_forward[SN_ATTENTION_FLASH1], ALL, 0.5),
    F("attention_backward.flash1", attention_backward[SN_ATTENTION_FLASH1], ALL, 0.5),
    F("attention_forward.fused", attention_forward[SN_ATTENTION_FUSED], ALL, 0.5),
    F("attention_backward.fused", attention_backward[SN_ATTENTION_FUSED], ALL, 0.5),
    F("attention_forward.torch", attention_forward[SN_ATTENTION_TORCH], ALL, 0.5),
    F("attention_backward.torch", attention_backward[SN_ATTENTION_TORCH], ALL, 0.5),
    F("norm_fused", norm_fused, ALL, 0.7),
    F("norm_unfused", norm_unfused, ALL, 1.5),
    F("elementwise", elementwise, ALL, 0.5),
    F("bandwidth.tensor", bandwidth[SN_AXIS_TENSOR], ALL, 0.5),
    F("bandwidth.pipeline", bandwidth[SN_AXIS_PIPELINE], ALL, 1),
    F("bandwidth.data", bandwidth[SN_AXIS_DATA], ALL, 1),
    N("per_node.data", per_node[SN_AXIS_DATA], ALL, 0.2, 10),
    N("late", late, ALL, 0.03, 10),
    N("late_full", late_full, ALL, 0.03, 10),
    N("layer_fixed", layer_fixed, ALL, 1e-3, 1),
    /* Priors: 2205.05198, section 4, for norms and an activation of this model: two inputs of
     * norms (kept in fp32 and again as norms of several kernels do) and two of products; inputs
     * of attention and of the products behind it, 4 h and 4 f; scores, their softmax. Logits: in
     * 16 bits, in fp32, their softmax, its gradient. */
    M("optimizer_bytes", optimizer_bytes, 12, 0.2),
    M("kept_replicated", kept_replicated, 8, 0.3),
    M("kept_unfused", kept_unfused, 12, 0.3),
    M("kept_sharded", kept_sharded, 33.6, 0.3),
    M("kept_scores", kept_scores, 5, 0.5),
    M("recompute_live", recompute_live, 1, 0.7),
    M("logits_bytes", logits_bytes, 14, 0.3),
    M("logits_gathered_bytes", logits_gathered_bytes, 6, 0.7),
};

static const char *const profiles[] = {"aleph-alpha-2023", NULL};

const struct source source_sweep = {.name = "sweep",
                                    .read = rows_read_sweep,
                                    .profiles = profiles,
                                    .constant = constants,
                                    .n_constants = sizeof(constants) / sizeof(constants[0])};
