/*
 * score_pack.c - which pieces share a sample.
 */
#include "lib/base/mem.h"
#include "lib/data/score.h"

/* Inputs of a piece: its last token is a target alone. */
static int64_t inputs(const struct sn_score_piece *p)
{
    return p->n - 1;
}

/* Numbers of pieces by length, the longest first, those of one length in their order. `count` is room for
 * seq + 1 numbers. */
static void by_length(const struct sn_score_set *s, int64_t seq, int *count, int *out)
{
    for (int64_t l = 0; l <= seq; l++)
        count[l] = 0;
    for (int i = 0; i < s->n_pieces; i++)
        count[inputs(&s->piece[i])]++;
    for (int64_t l = seq, at = 0; l >= 0; l--) {
        int n = count[l];
        count[l] = (int)at;
        at += n;
    }
    for (int i = 0; i < s->n_pieces; i++)
        out[count[inputs(&s->piece[i])]++] = i;
}

/* row[i]: the sample of piece i; their number. head[room] is the last sample with so much room left, next[]
 * the one before it; both begin as -1. */
static int choose(const struct sn_score_set *s, int64_t seq, bool alone, const int *sorted,
                  int *row, int *head, int *next)
{
    int rows = 0;
    for (int k = 0; k < s->n_pieces; k++) {
        int64_t need = inputs(&s->piece[sorted[k]]), room = need;
        while (room <= seq && head[room] < 0)
            room++;
        int r = room <= seq && !alone ? head[room] : rows;
        if (r == rows) {
            room = seq;
            rows++;
        } else {
            head[room] = next[r];
        }
        row[sorted[k]] = r;
        next[r] = head[room - need];
        head[room - need] = r;
    }
    return rows;
}

/* From each piece's sample to each sample's pieces, the longest first. */
static void collect(struct sn_score_rows *out, int pieces, const int *sorted, const int *row)
{
    for (int i = 0; i < pieces; i++)
        out->first[row[i] + 1]++;
    for (int r = 0; r < out->n; r++)
        out->first[r + 1] += out->first[r];
    for (int k = 0; k < pieces; k++)
        out->order[out->first[row[sorted[k]]]++] = sorted[k];
    for (int r = out->n; r > 0; r--)
        out->first[r] = out->first[r - 1];
    out->first[0] = 0;
}

enum sn_status sn_score_pack(struct sn_score_rows *out, const struct sn_score_set *s, int64_t seq,
                             bool alone, struct sn_err *err)
{
    size_t n = (size_t)s->n_pieces + 1, lengths = (size_t)seq + 1;
    int *sorted = sn_alloc_n(n, sizeof(int)), *row = sn_alloc_n(n, sizeof(int));
    int *head = sn_alloc_n(lengths, sizeof(int)), *next = sn_alloc_n(n, sizeof(int));
    *out = (struct sn_score_rows){.order = sn_alloc_n(n, sizeof(int)),
                                  .first = sn_alloc_n(n, sizeof(int))};
    bool good = sorted && row && head && next && out->order && out->first;
    if (good) {
        by_length(s, seq, head, sorted);
        for (int64_t l = 0; l <= seq; l++)
            head[l] = -1;
        out->n = choose(s, seq, alone, sorted, row, head, next);
        collect(out, s->n_pieces, sorted, row);
    }
    sn_free(sorted);
    sn_free(row);
    sn_free(head);
    sn_free(next);
    return good ? SN_OK
                : sn_fail(err, SN_ENOMEM, "--score: no memory to pack %d pieces", s->n_pieces);
}

void sn_score_rows_fini(struct sn_score_rows *r)
{
    sn_free(r->order);
    sn_free(r->first);
    *r = (struct sn_score_rows){0};
}
