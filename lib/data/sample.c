/*
 * sample.c - see sample.h. A document is found by bisection of the index, the ones behind it follow.
 */
#include "lib/data/sample.h"

#include "kernels/mask.h"
#include "lib/config/batch.h"
#include "lib/data/mask.h"

bool sn_samples_are_plain(const struct sn_config *c)
{
    return c->data.documents == SN_DOCUMENTS_TOGETHER && c->data.loss == SN_LOSS_ALL &&
           sn_prompt_positions(&c->train.prompt) == 0;
}

/* Parts of the tokens first .. end - 1 of a file that see nothing before them: pieces and, where documents are
 * apart, these and their parts. */
struct walk {
    const struct sn_data *data;
    int64_t first, end, length; /* of pieces */
    int64_t document, document_end;
    int64_t from, to; /* the part here */
    bool begins;      /* a document */
};

static void next_document(struct walk *w)
{
    w->begins = true;
    do /* documents may be empty */
        w->document_end = sn_data_document_token(w->data, ++w->document);
    while (w->document_end == w->from);
}

static bool walk_next(struct walk *w)
{
    if (w->to == w->end)
        return false;
    w->from = w->to;
    w->begins = false;
    if (w->from == w->document_end)
        next_document(w);
    int64_t piece_end = w->from + w->length - (w->from - w->first) % w->length;
    w->to = piece_end < w->document_end ? piece_end : w->document_end;
    w->to = w->to < w->end ? w->to : w->end;
    return true;
}

/* Before the first of them; walk_next() goes to it. */
static struct walk walk_begin(const struct sn_config *c, const struct sn_data *d, int64_t first,
                              int64_t end, int length)
{
    struct walk w = {.data = d, .first = first, .end = end, .length = length, .to = first};
    bool together = c->data.documents == SN_DOCUMENTS_TOGETHER;
    w.document = together ? 0 : sn_data_document_of(d, first);
    w.document_end = together ? end : first;
    return w;
}

/* The first token of the part that is not of its document's prefix, or `end`. A document's first token is no
 * target, nor is what train.prompt fills. */
static int64_t prefix_end(const struct sn_config *c, const struct walk *w, int64_t end)
{
    if (c->data.prefix == SN_PREFIX_NONE)
        return w->from;
    int places = sn_prompt_positions(&c->train.prompt);
    int64_t begin =
        sn_data_document_token(w->data, w->document - 1) + (places > 1 ? places : 1);
    int64_t at = begin < end ? sn_data_mask_first(sn_data_mask(w->data), begin, end - begin) : end;
    return at > w->from ? at : w->from;
}

/* Of a causal text, and of one that sees itself in both directions what that adds. */
static void count_keys(const struct sn_config *c, int64_t tokens, struct sn_sample_count *sum)
{
    sum->keys += (double)tokens * sn_mask_keys(tokens, 0);
    sum->window_keys += (double)tokens * sn_mask_keys(tokens, c->model.sliding_window);
}

struct sn_sample_count sn_plain_count(const struct sn_config *c, int length, int64_t n)
{
    int64_t seq = c->model.seq, window = c->model.sliding_window;
    double tokens = (double)(n * seq);
    return (struct sn_sample_count){.targets = n * seq,
                                    .keys = tokens * sn_mask_keys_cut(seq, length, 0),
                                    .window_keys = tokens * sn_mask_keys_cut(seq, length, window)};
}

static int64_t counted(const struct sn_config *c, const struct sn_data *d, int64_t first, int64_t n)
{
    return c->data.loss == SN_LOSS_MASK ? sn_data_mask_count(sn_data_mask(d), first, n) : n;
}

/* Of a sample's targets those that a prompt takes the place of, all but its first token; and the last, which is
 * the first token of the next sample. */
static int64_t counted_prompt(const struct sn_config *c, const struct sn_data *d, int64_t first)
{
    int64_t n = sn_prompt_positions(&c->train.prompt);
    bool apart = c->data.documents == SN_DOCUMENTS_APART;
    return n == 0 ? 0
                  : counted(c, d, first + 1, n - 1) +
                        (apart ? 0 : counted(c, d, first + c->model.seq, 1));
}

void sn_sample_count(const struct sn_config *c, const struct sn_data *d, int64_t i, int length,
                     struct sn_sample_count *sum)
{
    int64_t seq = c->model.seq, first = i * seq;
    sum->targets += counted(c, d, first + 1, seq) - counted_prompt(c, d, first);
    for (struct walk w = walk_begin(c, d, first, first + seq + 1, length); walk_next(&w);) {
        if (w.begins && w.from > first) /* no document's first token is a target */
            sum->targets -= counted(c, d, w.from, 1);
        int64_t end = w.to - (w.to == w.end); /* the last token is a target alone */
        count_keys(c, end - w.from, sum);
        count_keys(c, prefix_end(c, &w, end) - w.from, sum);
    }
}

void sn_sample_targets(const struct sn_config *c, const struct sn_data *d, int64_t i,
                       int32_t *targets)
{
    int64_t seq = c->model.seq, first = i * seq;
    for (int64_t k = 0; k < seq && c->data.loss == SN_LOSS_MASK; k++)
        if (sn_data_mask_count(sn_data_mask(d), first + 1 + k, 1) == 0)
            targets[k] = SN_NO_TARGET;
    int64_t n = sn_prompt_positions(&c->train.prompt);
    for (int64_t k = 0; k < n; k++) /* counted_prompt() */
        targets[k + 1 < n ? k : seq - 1] = SN_NO_TARGET;
    if (c->data.documents == SN_DOCUMENTS_TOGETHER)
        return;
    for (struct walk w = walk_begin(c, d, first, first + seq + 1, c->model.seq); walk_next(&w);)
        if (w.begins && w.from > first)
            targets[w.from - first - 1] = SN_NO_TARGET;
}

/* Of depth k: for tokens from .. to - 1 of the sample, which are of one document. */
static void further_of_part(const struct sn_config *c, const struct sn_data *d,
                            const struct sn_raw_sample *s, int k, const int64_t part[2],
                            int32_t *further)
{
    int64_t seq = c->model.seq, first = s->number * seq;
    int32_t *ids = further + (k - 1) * seq, *targets = ids + c->model.mtp * seq;
    for (int64_t t = part[0]; t < part[1] && t < seq; t++) {
        int64_t id = t + k < seq ? t + k : seq, next = t + k + 1;
        int64_t piece_end = (t / s->length + 1) * s->length;
        ids[t] = id == seq ? s->targets[seq - 1] : s->ids[id];
        bool is_there = next < part[1] && next <= piece_end && next <= seq;
        targets[t] = is_there && counted(c, d, first + next, 1) > 0 ? s->targets[next - 1]
                                                                     : SN_NO_TARGET;
    }
}

void sn_sample_further(const struct sn_config *c, const struct sn_data *d,
                       const struct sn_raw_sample *s, int32_t *further)
{
    int64_t seq = c->model.seq, first = s->number * seq, end = first + seq + 1;
    for (struct walk w = walk_begin(c, d, first, end, c->model.seq + 1); walk_next(&w);)
        for (int k = 1; k <= c->model.mtp; k++)
            further_of_part(c, d, s, k, (const int64_t[2]){w.from - first, w.to - first}, further);
}

void sn_sample_starts(const struct sn_config *c, const struct sn_data *d, int64_t i, int length,
                      int32_t *starts)
{
    int64_t seq = c->model.seq, first = i * seq;
    int columns = sn_starts_columns(c);
    for (struct walk w = walk_begin(c, d, first, first + seq, length); walk_next(&w);) {
        int64_t prefix = prefix_end(c, &w, w.to);
        for (int64_t t = w.from; t < w.to; t++) {
            int32_t *row = starts + (t - first) * columns;
            row[0] = (int32_t)(w.from - first);
            if (columns > 1)
                row[1] = (int32_t)((t < prefix ? prefix - 1 : t) - first);
        }
    }
}
