/*
 * lr.h - the learning rate of a step.
 */
#ifndef SN_LR_H
#define SN_LR_H

#include "lib/config/config.h"

/* Steps count from 1. Warm-up: lr s / warmup. Afterwards, with x = (s - warmup) / (steps - warmup):
 *   constant  lr
 *   linear    lr + (min_lr - lr) x
 *   cosine    min_lr + (lr - min_lr) (1 + cos(pi x)) / 2
 *   rsqrt     max(min_lr, lr sqrt(max(warmup, 1) / s)), whatever steps is
 *   wsd       lr + (min_lr - lr) y, y = (s - (steps - decay)) / decay, 0 before
 *   wsd-sqrt  lr + (min_lr - lr) sqrt(y)
 *   wsd-cosine  min_lr + (lr - min_lr) (1 + cos(pi y)) / 2 */
double sn_lr_at(const struct sn_train_config *t, int64_t step);

#endif
