/*
 * optimizer.h - what an optimizer is: one row.
 *
 * An optimizer is an operation of kernels/ops.h of the same name, what it keeps of each parameter
 * from step to step (moments: fp32 arrays, the groups of a checkpoint), and the keys that it reads.
 * Who places, saves, converts, prices or compares moments reads the row, and never asks which
 * optimizer it is. It runs once a step, when the gradients of all ranks are finite
 * (scalars.ok).
 */
#ifndef SN_OPTIMIZER_H
#define SN_OPTIMIZER_H

#include <stdbool.h>

enum { SN_MAX_MOMENTS = 2, SN_MAX_KEPT = 3 }; /* kept: moments, and an average of weights */

struct sn_moment {
    const char *name; /* the group of a checkpoint; no two optimizers have the same set of them */
    int power;        /* of the gradient, in which it is linear: 1 a mean, 2 a mean of squares */
};

struct sn_optimizer_row {
    const char *name;
    int n_moments;
    struct sn_moment moment[SN_MAX_MOMENTS];
    unsigned uses; /* bits of enum sn_hyper; every optimizer has lr, weight_decay and clip */
};

/* clang-format off */
/* Keys of train.optimizer that only some read: member of struct sn_optimizer_config and of the
 * operation's attributes, least and largest value, default, sentence. */
#define SN_HYPERS(ROW)                                                                             \
    ROW(BETA1, beta1, 0, 0.999999L, "0.9", "Decay of the first moment.")                           \
    ROW(BETA2, beta2, 0, 0.999999L, "0.95", "Decay of the second moment.")                         \
    ROW(EPS, eps, 1e-30L, 1, "1e-8", "Added to the root of the second moment.")    \
    ROW(MOMENTUM, momentum, 0, 0.999999L, "0.9", "Of sgd: what stays of the sum of gradients.")

#define SN_USES(HYPER) (1u << SN_HYPER_##HYPER)

/* Kind of operation, name, number of moments, and the rest of the row. */
#define SN_OPTIMIZERS(ROW)                                                                         \
    /* Loshchilov & Hutter 2019 (arXiv 1711.05101, algorithm 2) */                                 \
    ROW(ADAMW, adamw, 2,                                                                           \
        .moment = {{"exp_avg", 1}, {"exp_avg_sq", 2}},                                             \
        .uses = SN_USES(BETA1) | SN_USES(BETA2) | SN_USES(EPS))                                    \
    /* Chen et al. 2023 (arXiv 2302.06675, algorithm 2) */                                         \
    ROW(LION, lion, 1,                                                                             \
        .moment = {{"exp_avg", 1}},                                                                \
        .uses = SN_USES(BETA1) | SN_USES(BETA2))                                                   \
    /* Sutskever et al. 2013, as torch.optim.SGD; decay as arXiv 1711.05101, algorithm 1 */        \
    ROW(SGD, sgd, 1,                                                                               \
        .moment = {{"momentum_buffer", 1}},                                                        \
        .uses = SN_USES(MOMENTUM))
/* clang-format on */

#define SN_HYPER_ID(KIND, ...) SN_HYPER_##KIND,
enum sn_hyper { SN_HYPERS(SN_HYPER_ID) SN_NHYPERS };
#undef SN_HYPER_ID

#define SN_OPTIMIZER_ID(KIND, ...) SN_OPTIMIZER_##KIND,
enum sn_optimizer { SN_OPTIMIZERS(SN_OPTIMIZER_ID) SN_NOPTIMIZERS };
#undef SN_OPTIMIZER_ID

extern const char *const sn_optimizer_names[SN_NOPTIMIZERS + 1]; /* the last is NULL */

const struct sn_optimizer_row *sn_optimizer_row(enum sn_optimizer o);
/* Is the key one of train.optimizer that this optimizer does not read? */
bool sn_optimizer_ignores(enum sn_optimizer o, const char *key);
/* The power of the gradient in which the moment called `group` is linear; 0: none is called so. */
int sn_moment_power(const char *group);
/* Whose moments they are: of the optimizers all of whose groups are there, the one with the most.
 * False: those of none. */
bool sn_optimizer_of_groups(enum sn_optimizer *out, bool (*has)(const void *of, const char *group),
                            const void *of);

#endif
