/*
 * prompt.h - train.prompt: positions at the begin of each sample that are filled in front of some layers
 * (lib/model/prompt.c).
 */
#ifndef SN_PROMPT_H
#define SN_PROMPT_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_SPLIT_MAX = 512 }; /* numbers of a list */

struct sn_prompt_config {
    int soft;                 /* tokens of the layer's own, that are learnt */
    int rows, size;           /* rows of features behind them, and numbers of each */
    bool levels;              /* each layer has features of its own in an entry */
    int n_layers;             /* 0: in front of the first */
    int layers[SN_SPLIT_MAX]; /* rising */
};
/* How many positions; 0: there are no prompts. */
static inline int sn_prompt_positions(const struct sn_prompt_config *p)
{
    return p->soft + p->rows;
}
static inline int sn_prompt_layers(const struct sn_prompt_config *p)
{
    return p->n_layers > 0 ? p->n_layers : 1;
}
/* Which of its layers this is; -1: none, or there are no prompts. */
int sn_prompt_level(const struct sn_prompt_config *p, int layer);
/* Rows of a sample's features. */
static inline int64_t sn_prompt_entry(const struct sn_prompt_config *p)
{
    return (int64_t)p->rows * (p->levels ? sn_prompt_layers(p) : 1);
}

#endif
