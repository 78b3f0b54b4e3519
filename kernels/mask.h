/*
 * mask.h - which keys a query sees: the one place that says so. Kernels, prices and counts of FLOPs
 * ask here.
 *
 * A query at position p of its sample sees the keys at positions sn_mask_first(..) .. sn_mask_last(..),
 * an interval with p in it, neither end of which moves back as p grows:
 *
 *   causal         0 .. p
 *   window W > 0   p - W + 1 .. p (what Hugging Face calls sliding_window)
 *   starts         from the first token of the query's document on: row n S + p of the operand, of the
 *                  n-th sample here, has its position in the sample; 0 where the document began before
 *   prefix         where the operand has a second column, up to the position there if it is behind p:
 *                  of a query in the prefix of its document that of the prefix's last token. A prefix is
 *                  seen in both directions by itself, and by what follows it (T5's and UL2's prefix-LM,
 *                  arXiv 1910.10683, 2205.05131; PaliGemma). A window cuts it at both sides, up to
 *                  p + W - 1 (Hugging Face's sliding window of bidirectional layers)
 *
 * So of a tile of queries the first one has the first key that any of them sees, and the last one
 * the last; and of keys the queries that see them are an interval, too.
 */
#ifndef SN_MASK_H
#define SN_MASK_H

#include "kernels/both.h"
#include "kernels/ops.h"

struct sn_mask {
    int64_t seq, window;
    const int32_t *starts; /* NULL: samples are of one document */
    int64_t columns;       /* of it; 2: there are prefixes */
};

/* Of an operation whose operand `starts` is this one; it may be absent. */
SN_BOTH struct sn_mask sn_mask_of(const struct sn_attr *a, const struct sn_mat *starts)
{
    struct sn_mask m;
    m.seq = a->position.seq;
    m.window = a->attention.window;
    m.starts = (const int32_t *)starts->p;
    m.columns = m.starts ? starts->cols : 0;
    return m;
}

/* May a query see keys behind itself? */
SN_BOTH bool sn_mask_has_prefix(const struct sn_mask *m)
{
    return m->columns > 1;
}

/* Position of the first key that the query at position p of a sample here sees. */
SN_BOTH int64_t sn_mask_first(const struct sn_mask *m, int64_t sample, int64_t p)
{
    int64_t first = m->window > 0 && p >= m->window ? p - m->window + 1 : 0;
    int64_t start = m->starts ? m->starts[(sample * m->seq + p) * m->columns] : 0;
    return first > start ? first : start;
}

/* Position of the last one. */
SN_BOTH int64_t sn_mask_last(const struct sn_mask *m, int64_t sample, int64_t p)
{
    int64_t last = sn_mask_has_prefix(m) ? m->starts[(sample * m->seq + p) * m->columns + 1] : p;
    if (m->window > 0 && last > p + m->window - 1)
        last = p + m->window - 1;
    return last > p ? last : p;
}

/* Keys that a query of a sequence of `seq` tokens sees on average, its own counted half, as half of
 * S x S scores are counted without a window: W - W^2 / 2 S. Of a prefix those behind its queries are
 * as many as those before them, so P tokens of prefix add P sn_mask_keys(P, W) pairs. */
static inline double sn_mask_keys(int64_t seq, int64_t window)
{
    double s = (double)seq, w = window > 0 && window < seq ? (double)window : s;
    return seq > 0 ? w - w * w / (2 * s) : 0;
}

/* The same of one that is cut into pieces of `length` tokens, the last of which may be shorter. */
static inline double sn_mask_keys_cut(int64_t seq, int64_t length, int64_t window)
{
    int64_t rest = seq % length;
    return ((double)(seq - rest) * sn_mask_keys(length, window) +
            (double)rest * sn_mask_keys(rest, window)) /
           (double)seq;
}

#endif
