/*
 * split.c - the backward segment cut into input gradients and weight gradients.
 *
 * Weight gradients, and the reductions of their buckets, are what only gradient buffers depend on;
 * a schedule may run their segment later (zero-bubble pipelines, Qi et al., arXiv 2401.10241). What
 * they read lives until then: place.c keeps it in the slot because two segments touch it.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <string.h>

bool sn_weights_delayed(const struct sn_job *j)
{
    const struct sn_layout_config *l = &j->config->layout;
    return sn_schedule_traits(l->schedule)->delays_weights || l->split_backward;
}

/* The last segment, BACKWARD, becomes INPUT_GRAD and WEIGHT_GRAD; order inside each is kept. */
void sn_pass_split(struct sn_program *p)
{
    int first = p->segments[p->n_segments - 1].first, n = p->n_ops - first;
    struct sn_op *delayed = sn_alloc_n((size_t)n + 1, sizeof(*delayed));
    if (!delayed) {
        p->failed = true;
        return;
    }
    int kept = 0, later = 0;
    for (int i = first; i < first + n; i++) {
        if (p->ops[i].is_weight_grad)
            delayed[later++] = p->ops[i];
        else
            p->ops[first + kept++] = p->ops[i];
    }
    p->segments[p->n_segments - 1].kind = SN_SEGMENT_INPUT_GRAD;
    p->n_ops = first + kept;
    sn_segment_begin(p, SN_SEGMENT_WEIGHT_GRAD);
    memcpy(p->ops + p->n_ops, delayed, (size_t)later * sizeof(*delayed)); /* the room is there */
    p->n_ops += later;
    for (int i = first; i < p->n_ops; i++)
        p->op_of_id[p->ops[i].id] = i;
    sn_free(delayed);
}
