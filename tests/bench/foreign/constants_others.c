/*
 * constants_others.c - what is fitted on the sources beside the A100 sweep: one profile a trainer.
 *
 * A prior is what the machine file says (factor 1) or nothing lost (0); its spread is the usual
 * factor by which such figures are off.
 */
#include "tests/bench/foreign/bench.h"

#include "lib/layout/grid.h"

#define F(label, member, off)                                                                      \
    {                                                                                              \
        OF_TIME, label, offsetof(struct sn_software, member), 1, true, 1, off, 1e-3, 1e3           \
    }
#define N(label, member, off, most)                                                                \
    {                                                                                              \
        OF_TIME, label, offsetof(struct sn_software, member), 1, false, 0, off, 0, most            \
    }

/* Seconds: fitted as a factor of a usual figure. */
#define S(label, member, usual, off, most)                                                         \
    {                                                                                              \
        OF_TIME, label, offsetof(struct sn_software, member), 1, true, usual, off, 1e-8, most      \
    }

#define ATTENTION(name, kernel)                                                                    \
    F("attention_forward." name, attention_forward[kernel], 0.5),                                  \
        F("attention_backward." name, attention_backward[kernel], 0.5)
#define COMPUTING                                                                                  \
    F("gemm", gemm, 0.2), F("norm_fused", norm_fused, 0.7), F("elementwise", elementwise, 0.7),    \
        S("host", host, 2e-5, 1, 1e-2), S("layer_fixed", layer_fixed, 2e-4, 2, 1),                 \
        S("step_fixed", step_fixed, 2e-2, 2, 10)
#define TENSOR                                                                                     \
    F("bandwidth.tensor", bandwidth[SN_AXIS_TENSOR], 0.5),                                         \
        F("latency.tensor", latency[SN_AXIS_TENSOR], 0.7)
#define DATA                                                                                       \
    F("bandwidth.data", bandwidth[SN_AXIS_DATA], 0.7), N("hidden.data", hidden[SN_AXIS_DATA], 1, 1)
#define PIPELINE F("bandwidth.pipeline", bandwidth[SN_AXIS_PIPELINE], 1), N("stall", stall, 1, 20)

static const struct constant megatron[] = {ATTENTION("fused", SN_ATTENTION_FUSED), COMPUTING,
                                           TENSOR, DATA, PIPELINE};
static const struct constant sailor[] = {ATTENTION("torch", SN_ATTENTION_TORCH), COMPUTING, TENSOR,
                                         DATA, PIPELINE};
static const struct constant foundry[] = {ATTENTION("flash1", SN_ATTENTION_FLASH1), COMPUTING,
                                          DATA};
static const struct constant nemo[] = {ATTENTION("flash2", SN_ATTENTION_FLASH2),
                                       COMPUTING,
                                       TENSOR,
                                       N("hidden.tensor", hidden[SN_AXIS_TENSOR], 0.5, 1),
                                       DATA,
                                       N("hidden.context", hidden[SN_AXIS_CONTEXT], 0.5, 1)};
static const struct constant internevo[] = {ATTENTION("flash2", SN_ATTENTION_FLASH2), COMPUTING,
                                            TENSOR, DATA,
                                            F("latency.data", latency[SN_AXIS_DATA], 1)};

#define SOURCE(id, file, constants)                                                                \
    static const char *const profiles_##id[] = {file, NULL};                                       \
    const struct source source_##id = {#id, rows_read_##id, profiles_##id, constants,              \
                                       sizeof(constants) / sizeof((constants)[0])}

SOURCE(vtrain, "vtrain-2023", megatron);
SOURCE(vtrain_many, "vtrain-2023-many", megatron);
SOURCE(bigscience, "megatron-deepspeed-2022", megatron);
SOURCE(sc21, "megatron-2021", megatron);
SOURCE(foundry, "llm-foundry-2023", foundry);
SOURCE(nemo, "nemo-2025", nemo);
SOURCE(sailor, "sailor-2025", sailor);
SOURCE(internevo, "internevo-2024", internevo);
