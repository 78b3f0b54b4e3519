/*
 * sample.c - see sample.h. A document is found by bisection of the index, the ones behind it follow.
 */
#include "lib/data/sample.h"

#include "kernels/mask.h"
#include "lib/data/mask.h"

bool sn_samples_are_plain(const struct sn_config *c)
{
    return c->data.documents == SN_DOCUMENTS_TOGETHER && c->data.loss == SN_LOSS_ALL;
}

/* Documents, or parts of them, of the tokens first .. end - 1 of a file. */
struct walk {
    const struct sn_data *data;
    int64_t first, end;
    int64_t document, from, to; /* the one here, and its tokens within those */
};

static bool walk_next(struct walk *w)
{
    if (w->to == w->end)
        return false;
    w->from = w->to;
    do /* documents may be empty */
        w->to = sn_data_document_token(w->data, ++w->document);
    while (w->to == w->from);
    w->to = w->to < w->end ? w->to : w->end;
    return true;
}

/* Before the first of them; walk_next() goes to it. */
static struct walk walk_begin(const struct sn_data *d, int64_t first, int64_t end)
{
    return (struct walk){.data = d,
                         .first = first,
                         .end = end,
                         .document = sn_data_document_of(d, first),
                         .to = first};
}

/* A sample is one document where they are together. */
static void count_keys(const struct sn_config *c, int64_t tokens, struct sn_sample_count *sum)
{
    sum->keys += (double)tokens * sn_mask_keys(tokens, 0);
    sum->window_keys += (double)tokens * sn_mask_keys(tokens, c->model.sliding_window);
}

static int64_t counted(const struct sn_config *c, const struct sn_data *d, int64_t first, int64_t n)
{
    return c->data.loss == SN_LOSS_MASK ? sn_data_mask_count(sn_data_mask(d), first, n) : n;
}

void sn_sample_count(const struct sn_config *c, const struct sn_data *d, int64_t i,
                     struct sn_sample_count *sum)
{
    int64_t seq = c->model.seq, first = i * seq;
    sum->targets += counted(c, d, first + 1, seq);
    if (c->data.documents == SN_DOCUMENTS_TOGETHER) {
        count_keys(c, seq, sum);
        return;
    }
    for (struct walk w = walk_begin(d, first, first + seq + 1); walk_next(&w);) {
        if (w.from > first) /* no document's first token is a target */
            sum->targets -= counted(c, d, w.from, 1);
        int64_t inputs = w.to - w.from - (w.to == w.end); /* the last token is a target alone */
        count_keys(c, inputs, sum);
    }
}

void sn_sample_targets(const struct sn_config *c, const struct sn_data *d, int64_t i,
                       int32_t *targets)
{
    int64_t seq = c->model.seq, first = i * seq;
    for (int64_t k = 0; k < seq && c->data.loss == SN_LOSS_MASK; k++)
        if (sn_data_mask_count(sn_data_mask(d), first + 1 + k, 1) == 0)
            targets[k] = SN_NO_TARGET;
    if (c->data.documents == SN_DOCUMENTS_TOGETHER)
        return;
    for (struct walk w = walk_begin(d, first, first + seq + 1); walk_next(&w);)
        if (w.from > first)
            targets[w.from - first - 1] = SN_NO_TARGET;
}

void sn_sample_starts(const struct sn_config *c, const struct sn_data *d, int64_t i,
                      int32_t *starts)
{
    int64_t seq = c->model.seq, first = i * seq;
    for (struct walk w = walk_begin(d, first, first + seq); walk_next(&w);)
        for (int64_t t = w.from; t < w.to; t++)
            starts[t - first] = (int32_t)(w.from - first);
}
