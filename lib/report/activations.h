/*
 * activations.h - what a stage keeps from forward to backward, read off its compiled program, and
 * what the literature counts for the same.
 *
 * A row is one kind of tensor: the places that a virtual stage's slots and late copies have
 * (program.h, SN_CLASS_SLOT and SN_CLASS_LATE), those of all layers together. A place is named
 * after what lies in it when the segment that writes it first is over: "attn.add", not the product
 * that the sum took the place of. Bytes of rows add up to program.slot_bytes and late_bytes.
 *
 * The literature is Korthikanti et al. (arXiv 2205.05198, sections 4 and 5), which counts 2 bytes
 * for an element. What it counts for one tensor of a layer stands beside the tensor of that name;
 * what it counts and is not kept here, in rows of no copies. So its column adds up to its equation.
 */
#ifndef SN_REPORT_ACTIVATIONS_H
#define SN_REPORT_ACTIVATIONS_H

#include "lib/program/program.h"

enum { SN_KEPT_MAX = 128 };

/* Why a figure is not the paper's. */
enum sn_why {
    SN_WHY_FP32,
    SN_WHY_HEADS,
    SN_WHY_LATENTS,
    SN_WHY_WIDTH,
    SN_WHY_GATHERED,
    SN_WHY_SLICED,
    SN_WHY_AGAIN,
    SN_WHY_DELAYED,
    SN_WHY_DELAYED_AGAIN,
    SN_WHY_FLASH,
    SN_WHY_MASKS,
    SN_WHY_PARALLEL,
    SN_WHY_END,
    SN_WHY_TABLE,
    SN_WHY_SENT,
    SN_WHY_CODED,
    SN_WHY_EXPERTS,
    SN_WHY_OURS,
    SN_WHY_THEIRS,
    SN_WHY_ROUNDED,
    SN_NWHYS
};
/* "fp32: 4 bytes an element, not 2" */
const char *sn_why_text(enum sn_why w);

struct sn_kept {
    char name[64]; /* "attn.qkv": without the layer */
    int copies;    /* in one slot: layers, mostly */
    int counted;   /* those of them that the paper has */
    enum sn_dtype dtype;
    int64_t rows, cols;
    bool late;         /* from a backward segment to its delayed weight gradients only */
    int64_t bytes;     /* of all copies, each rounded up to 64 */
    double literature; /* bytes that the paper counts for the same */
    unsigned why;      /* bit w: the two differ for reason w of enum sn_why */
};

/* One slot of a virtual stage. */
struct sn_activations {
    int layers; /* blocks whose attention is here */
    int n;      /* rows, in the order of the program; behind them those that only the paper has */
    struct sn_kept kept[SN_KEPT_MAX];
};

/* Of virtual stage `vstage` of the train program; `j` is compiled, with offsets. False: no
 * memory. */
bool sn_activations(struct sn_activations *out, const struct sn_job *j, int vstage);
/* The paper's figure for these layers and a micro-batch: T D n (34 + 5 a s / D) bytes with one
 * tensor rank, (10 + 24/t + 5 a s / (D t)) with t, (34 + 5 a s / D)/t with sequence parallelism;
 * without the scores' term for selective recomputation, 2 T D n for full. The paper's s b is T:
 * context ranks have a part of each sequence. It has one axis of tensor ranks: with tensor_x, which
 * cuts the features between blocks (Singh et al., arXiv 2305.13525), its 10 and the 2 of full are
 * divided by that. */
double sn_activations_literature(const struct sn_job *j, int layers);

/* A table of one stage's virtual stages as text, and as a JSON object. Without memory *out has
 * failed. */
void sn_activations_text(struct sn_str *out, const struct sn_job *j);
void sn_activations_json(struct sn_str *out, const struct sn_job *j);

#endif
