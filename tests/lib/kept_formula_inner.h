/*
 * kept_formula_inner.h - the formula's letters and how a tensor is counted. Internal to
 * kept_formula*.c.
 */
#ifndef TESTS_LIB_KEPT_FORMULA_INNER_H
#define TESTS_LIB_KEPT_FORMULA_INNER_H

#include "tests/lib/kept_formula.h"

/* What a virtual stage holds. */
struct vstage_place {
    int layers, experts; /* all, and those of them that have experts */
    bool first, last;    /* holds the embedding, the head */
    bool alone;          /* there is one pipeline stage */
    int zero, members;   /* stage in effect, replicas */
};

/* The letters of the header, and the switches of the formula. */
struct letters {
    const struct sn_config *config;
    const struct vstage_place *at;
    struct kept_formula *a;
    enum sn_dtype dtype;
    int n, m, t, c; /* layers of the virtual stage, those with experts; ranks of the axes */
    int64_t T, region, D, q, g; /* region: T' */
    int y;                      /* ranks that share the features between blocks */
    int64_t G;                  /* D / y */
    int64_t f, heads;           /* heads: H / t */
    int shared, C;
    int64_t E, k, P, M, R, W;  /* of experts */
    bool dense;                /* all of them for every token */
    int fold;                  /* tensor ranks that have tokens of their own for them; 1: none */
    int u;                     /* ranks that share each expert */
    int64_t U;                 /* tokens that a rank routes: T / fold */
    bool rms, gated, parallel; /* the family */
    bool sp, dropout, split, exchange;
    bool selective, full, aware;
    int64_t stream; /* bytes of one, of what goes to another stage; 0: values go */
};

enum { ANYWAY = 0, UNLESS_FULL = 1, UNLESS_ANY = 2 }; /* kept unless recomputation is ... */

struct tensor {
    const char *name;
    int copies;
    int64_t rows, cols;
    bool fp32;    /* whatever the storage type is */
    bool bytes;   /* neither: a stream */
    int dropped;  /* ANYWAY ... */
    bool delayed; /* weight gradients read it: split backward keeps what is computed again */
    bool late;    /* made in backward for delayed weight gradients */
    bool sent;    /* result of a collective */
};

/* Count a tensor. */
void kept_add(const struct letters *l, struct tensor x);
/* kept_formula_experts.c: the tensors of layers with experts, and the letters for them. */
void kept_experts(const struct letters *l);
void letters_of_experts(struct letters *l);

#endif
