#include "lib/data/loader.h"

#include "lib/config/batch.h"

int sn_loader_micros(const struct sn_loader *l, int64_t step)
{
    return sn_batch_of(&l->config->train, step) / (l->ranks * l->sequences);
}

int sn_loader_first(const struct sn_loader *l, int micro)
{
    return (micro * l->ranks + l->rank) * l->sequences;
}

static enum sn_status read_row(const struct sn_loader *l, int set, int64_t sample, int64_t row,
                               struct sn_err *err)
{
    const struct sn_data *d = l->corpus->set[set];
    int64_t seq = l->config->model.seq, rows = sn_rows_per_sample(&l->place);
    int32_t *ids = l->ids + row * rows, *targets = l->targets + row * rows;
    if (rows == seq)
        return sn_data_read(d, sample, seq, l->config->model.vocab, ids, targets, err);
    SN_TRY(sn_data_read(d, sample, seq, l->config->model.vocab, l->whole, l->whole + seq, err));
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = sn_position(&l->place, l->place.context_rank, i);
        ids[i] = l->whole[at];
        targets[i] = l->whole[seq + at];
    }
    return SN_OK;
}

enum sn_status sn_loader_step(const struct sn_loader *l, int64_t step, int micros,
                              int64_t *first_sample, struct sn_err *err)
{
    const struct sn_config *c = l->config;
    int64_t before = sn_samples_before(&c->train, step);
    for (int m = 0; m < micros; m++) {
        int64_t first = before + sn_loader_first(l, m);
        first_sample[m] = first;
        for (int i = 0; i < l->sequences; i++) {
            struct sn_blend_pick p = sn_blend_pick(l->blend, first + i);
            int64_t s = sn_data_sample_of(c->data.order, c->run.seed, p.set,
                                          l->blend->samples[p.set], p.number);
            SN_TRY(read_row(l, p.set, s, (int64_t)m * l->sequences + i, err));
        }
    }
    return SN_OK;
}

/* Ids that are some, of a sample that is there; nothing is to be predicted from them. */
static enum sn_status fill_row(const struct sn_loader *l, int set, int64_t row, struct sn_err *err)
{
    int64_t rows = sn_rows_per_sample(&l->place);
    SN_TRY(read_row(l, set, 0, row, err));
    for (int64_t i = 0; i < rows; i++)
        l->targets[row * rows + i] = SN_NO_TARGET;
    return SN_OK;
}

enum sn_status sn_loader_range(const struct sn_loader *l, int set, int64_t first, int64_t end,
                               struct sn_err *err)
{
    for (int i = 0; i < l->sequences; i++)
        SN_TRY(first + i < end ? read_row(l, set, first + i, i, err) : fill_row(l, set, i, err));
    return SN_OK;
}
