#include "lib/layout/edge.h"

#include <stdbool.h>

static enum sn_move move(struct sn_layout_form have, struct sn_layout_form want)
{
    static const enum sn_move table[SN_NFORMS][SN_NFORMS] = {
        /* clang-format off */
        /* have \ want    SAME                SHARED              SPLIT                   PARTIAL */
        [SN_SAME]    = { SN_KEEP,            SN_KEEP,            SN_SLICE,               SN_NEVER },
        [SN_SHARED]  = { SN_NEVER,           SN_KEEP,            SN_NEVER,               SN_NEVER },
        [SN_SPLIT]   = { SN_MOVE_ALL_GATHER, SN_MOVE_ALL_GATHER, SN_KEEP,                SN_NEVER },
        [SN_PARTIAL] = { SN_MOVE_ALL_REDUCE, SN_MOVE_ALL_REDUCE, SN_MOVE_REDUCE_SCATTER, SN_KEEP },
        /* clang-format on */
    };
    bool turns = have.form == SN_SPLIT && want.form == SN_SPLIT && have.dim != want.dim;
    return turns ? SN_MOVE_ALL_TO_ALL : table[have.form][want.form];
}

static struct sn_layout_form gradient_of(struct sn_layout_form f)
{
    static const enum sn_form form[SN_NFORMS] = {[SN_SAME] = SN_SAME,
                                                 [SN_SHARED] = SN_PARTIAL,
                                                 [SN_SPLIT] = SN_SPLIT,
                                                 [SN_PARTIAL] = SN_SHARED};
    return (struct sn_layout_form){form[f.form], f.dim};
}

enum sn_move sn_edge_forward(struct sn_layout_form have, struct sn_layout_form want)
{
    return move(have, want);
}

enum sn_move sn_edge_backward(struct sn_layout_form have, struct sn_layout_form want)
{
    return move(gradient_of(want), gradient_of(have));
}
