/*
 * test_meaning_aimed.c - faults planted in operations of one kind, which dice rarely find
 * (test_meaning_faults.c), are refuted: prompts and their features, sums of sequences, masks.
 */
#include "tests/lib/layouts.h"
#include "tests/lib/meaning_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

/* A fault in an operation. */
typedef void plant(struct sn_op *op);

/* --- prompts ---------------------------------------------------------------------------------- */

static struct sn_view *features(struct sn_op *op)
{
    return &op->in[op->kind == SN_OP_PROMPT ? SN_PROMPT_F : SN_PROMPT_DW_F];
}

static void next_row(struct sn_op *op)
{
    features(op)->offset += features(op)->cols;
}

static void next_column(struct sn_op *op)
{
    features(op)->offset++;
}

static void fewer_columns(struct sn_op *op)
{
    features(op)->cols--;
}

static void fewer_samples(struct sn_op *op)
{
    features(op)->rows -= (int64_t)op->attr.prompt.rows * op->attr.prompt.levels;
}

static void first_micro_batch(struct sn_op *op)
{
    features(op)->stride = 0;
}

static void every_second_row(struct sn_op *op)
{
    features(op)->ld *= 2;
}

static void no_features(struct sn_op *op)
{
    *features(op) = (struct sn_view){.buf = -1};
}

static void other_level(struct sn_op *op)
{
    op->attr.prompt.level = 1 - op->attr.prompt.level;
}

static void next_position(struct sn_op *op)
{
    op->attr.prompt.first++;
}

/* --- balance within sequences ----------------------------------------------------------------- */

static void sums_of_the_batch(struct sn_op *op)
{
    op->attr.experts.by_sequence = false;
}

static void counts_of_the_next_sequence(struct sn_op *op)
{
    op->in[SN_ROUTE_DX_COUNTS].offset += op->in[SN_ROUTE_DX_COUNTS].cols;
    op->in[SN_ROUTE_DX_COUNTS].rows--;
}

static void sums_of_the_next_sequence(struct sn_op *op)
{
    op->out[SN_ROUTE_SEQUENCES].offset += op->out[SN_ROUTE_SEQUENCES].cols;
    op->out[SN_ROUTE_SEQUENCES].rows--;
}

static void one_sum_of_all(struct sn_op *op)
{
    op->attr.position.seq *= 2;
}

/* --- masks ------------------------------------------------------------------------------------ */

static void mask_of_the_gradient(struct sn_op *op)
{
    op->in[SN_PRUNE_P] = op->out[SN_PRUNE_G];
}

static void mask_of_other_weights(struct sn_op *op)
{
    struct sn_view *p = &op->in[SN_PRUNE_P], *g = &op->out[SN_PRUNE_G];
    p->cols -= 64;
    g->cols -= 64;
    p->offset += 64;
}

static void mask_of_a_part(struct sn_op *op)
{
    op->in[SN_PRUNE_P].cols -= 64;
    op->out[SN_PRUNE_G].cols -= 64;
}

/* An operation that does nothing is in its place. */
static void is_not_done(struct sn_op *op)
{
    op->in[SN_PRUNE_P] = op->out[SN_PRUNE_G];
    op->kind = SN_OP_ALIAS;
}

/* clang-format off */
static const struct {
    const char *line; /* of tests/equiv/layouts */
    int kind;
    plant *plant;
    const char *what, *said; /* NULL: found where gradients are compared */
} faults[] = {
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT, next_row, "features a row further on", "takes features 1 of sample "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DW, next_row, "features a row further on in a gradient", "takes features 1 of sample "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT, next_column, "features a column further on", "for rows of 6 features"},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DW, next_column, "features a column further on in a gradient", "for rows of 6 features"},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT, fewer_columns, "fewer features", "rows of 5 features for "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DW, fewer_columns, "fewer features in a gradient", "rows of 5 features for "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT, first_micro_batch, "features of another micro-batch", " for features 0 of sample "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DW, first_micro_batch, "features of another micro-batch in a gradient", " for features 0 of sample "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT, every_second_row, "every second row of features", "takes features 2 of sample "},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DW, no_features, "a gradient without features", NULL},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT, other_level, "features of another layer", NULL},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DW, other_level, "features of another layer in a gradient", NULL},
    {"prompt-cp2-dp2-z3", SN_OP_PROMPT_DX, next_position, "a gradient past other positions", NULL},
    {"prompt-dp2-z2-micro3", SN_OP_PROMPT, fewer_samples, "features of fewer samples", "takes 8 rows of 6 features for 12 of 6"},
    {"prompt-dp2-z2-micro3", SN_OP_PROMPT_DW, fewer_samples, "features of fewer samples in a gradient", "takes 8 rows of 6 features for 12 of 6"},
    {"seqbal-cp2-dp2", SN_OP_ROUTE_DX, sums_of_the_batch, "a gradient by sums of all sequences", NULL},
    {"seqbal-cp2-dp2", SN_OP_ROUTE_LOSS, sums_of_the_batch, "a loss by sums of all sequences", NULL},
    {"seqbal-cp2-dp2", SN_OP_ROUTE_DX, counts_of_the_next_sequence, "a gradient by the next sequence's sums", "by counts of"},
    {"seqbal-cp2-dp2", SN_OP_ROUTE, sums_of_the_next_sequence, "sums in the next sequence's place", NULL},
    {"seqbal-cp2-dp2", SN_OP_ROUTE, one_sum_of_all, "sums over two sequences", NULL},
    {"sparse-dp2-z1", SN_OP_PRUNE, is_not_done, "no mask", NULL},
    {"sparse-dp2-z1", SN_OP_PRUNE, mask_of_the_gradient, "a mask of the gradient's own zeros", NULL},
    {"sparse-dp2-z1", SN_OP_PRUNE, mask_of_other_weights, "a mask of other weights", NULL},
    {"sparse-dp2-z1", SN_OP_PRUNE, mask_of_a_part, "a mask of a part", NULL},
    {"sparse-z3-cp2", SN_OP_PRUNE, is_not_done, "no mask of a slice", NULL},
};
/* clang-format on */
enum { FAULTS = sizeof(faults) / sizeof(*faults) };

/* Soft tokens have no features. */
static bool is_aimed_at(struct sn_op *op, int kind)
{
    bool reads = kind == SN_OP_PROMPT || kind == SN_OP_PROMPT_DW;
    return op->kind == kind && !(reads && features(op)->buf < 0);
}

/* In every rank's first operation of the kind. */
static int plant_fault(struct verify_world *w, int fault)
{
    int planted = 0;
    for (int i = 0; i < w->ranks; i++)
        for (int k = 0; k < w->spoilt[i].n_ops; k++)
            if (is_aimed_at(&w->spoilt[i].ops[k], faults[fault].kind)) {
                faults[fault].plant(&w->spoilt[i].ops[k]);
                planted++;
                break;
            }
    return planted;
}

static void restore(struct verify_world *w)
{
    for (int i = 0; i < w->ranks; i++)
        memcpy(w->spoilt[i].ops, w->jobs[i]->train.ops, (size_t)w->jobs[i]->train.n_ops * sizeof(*w->spoilt[i].ops));
}

static void try_line(const struct layouts_line *line, int *tried)
{
    struct verify_world w;
    struct sn_err err = {0};
    if (!verify_world_compile(&w, &line->config))
        return;
    tap_ok(meaning_of(&w, true, &err) == SN_OK, "%s is proven", line->name);
    for (int i = 0; i < FAULTS; i++) {
        if (strcmp(faults[i].line, line->name) != 0)
            continue;
        int planted = plant_fault(&w, i);
        enum sn_status st = meaning_of(&w, true, &err);
        bool said = !faults[i].said || strstr(err.text, faults[i].said);
        tap_ok(planted == w.ranks && st == SN_EFAIL && said, "%s: %s", line->name, faults[i].what);
        if (st != SN_EFAIL || !said || getenv("SAY"))
            printf("# %d ranks: %s\n", planted, st == SN_EFAIL ? err.text : "not refuted");
        restore(&w);
        ++*tried;
    }
    verify_world_fini(&w);
}

int main(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    int tried = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && layouts_next(f, &line, &err) > 0)
        for (int i = 0; i < FAULTS; i++)
            if (strcmp(faults[i].line, line.name) == 0) {
                try_line(&line, &tried);
                break;
            }
    if (f)
        (void)fclose(f);
    tap_ok(tried == FAULTS, "%d faults in lines that are there", tried);
    return tap_done();
}
