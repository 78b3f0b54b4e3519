#include "lib/data/loader.h"

#include "lib/config/batch.h"
#include "lib/data/features.h"

int sn_loader_micros(const struct sn_loader *l, int64_t step)
{
    return sn_batch_of(&l->config->train, step) / (l->ranks * l->sequences);
}

int sn_loader_first(const struct sn_loader *l, int micro)
{
    return (micro * l->ranks + l->rank) * l->sequences;
}

int64_t sn_loader_features(const struct sn_loader *l)
{
    const struct sn_prompt_config *p = &l->config->train.prompt;
    return sn_prompt_entry(p) * p->size;
}

void sn_loader_spread(const struct sn_loader *l, int64_t row)
{
    int64_t seq = l->config->model.seq, rows = sn_rows_per_sample(&l->place);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = sn_position(&l->place, l->place.context_rank, i);
        l->ids[row * rows + i] = l->whole[at];
        l->targets[row * rows + i] = l->whole[seq + at];
    }
}

/* What blocks of model.mtp read of the sample that becomes a row. */
static void spread_further(const struct sn_loader *l, int64_t row, const int32_t *of_sample)
{
    int64_t seq = l->config->model.seq, rows = sn_rows_per_sample(&l->place);
    int64_t kinds = 2 * (int64_t)l->config->model.mtp, tokens = l->sequences * rows;
    int32_t *to = l->further + row / l->sequences * kinds * tokens + row % l->sequences * rows;
    for (int64_t k = 0; k < kinds; k++)
        for (int64_t i = 0; i < rows; i++)
            to[k * tokens + i] = of_sample[k * seq + sn_position(&l->place, l->place.context_rank, i)];
}

/* A row of the buffers, and what goes there. */
struct row {
    int64_t row, sample;
    int set, length;
};

static enum sn_status read_row(const struct sn_loader *l, struct row w, struct sn_err *err)
{
    const struct sn_data *d = l->corpus->set[w.set];
    int64_t seq = l->config->model.seq, rows = sn_rows_per_sample(&l->place);
    int32_t *ids = l->ids + w.row * rows, *targets = l->targets + w.row * rows;
    int32_t *all_ids = rows == seq ? ids : l->whole;
    int32_t *all_targets = rows == seq ? targets : l->whole + seq;
    SN_TRY(sn_data_read(d, w.sample, seq, l->config->model.vocab, all_ids, all_targets, err));
    for (int i = 0; i < sn_prompt_positions(&l->config->train.prompt); i++)
        all_ids[i] =
            0; /* layers before the first prompt see the same ones in texts of any origin */
    if (l->further) {
        struct sn_raw_sample raw = {w.sample, w.length, all_ids, all_targets};
        sn_sample_further(l->config, d, &raw, l->whole + 2 * seq);
        spread_further(l, w.row, l->whole + 2 * seq);
    }
    sn_sample_targets(l->config, d, w.sample, all_targets);
    for (int64_t i = 0; i < rows && l->sets; i++)
        l->sets[w.row * rows + i] = w.set;
    if (l->starts)
        sn_sample_starts(l->config, d, w.sample, w.length,
                         l->starts + w.row * seq * sn_starts_columns(l->config));
    int64_t numbers = sn_loader_features(l);
    if (l->features)
        SN_TRY(sn_features_read(sn_data_features(d), w.sample, l->features + w.row * numbers, err));
    if (rows < seq)
        sn_loader_spread(l, w.row);
    return SN_OK;
}

/* The sample of its set that the run's sample `number` is. */
static struct sn_blend_pick sample_of(const struct sn_loader *l, int64_t number)
{
    const struct sn_config *c = l->config;
    struct sn_blend_pick p = sn_blend_pick(l->blend, number);
    p.number =
        sn_data_sample_of(c->data.order, c->run.seed, p.set, l->blend->samples[p.set], p.number);
    return p;
}

/* Every rank looks at the samples of all: no message tells what each of them has. */
static struct sn_sample_count count_step(const struct sn_loader *l, int64_t before, int64_t n,
                                         int length)
{
    const struct sn_config *c = l->config;
    struct sn_sample_count sum = {0};
    if (sn_samples_are_plain(c)) {
        sum = sn_plain_count(c, length, n);
        for (int i = 0; i < l->blend->n; i++)
            sum.of_set[i] = c->model.seq * (sn_blend_given(l->blend, i, before + n) -
                                            sn_blend_given(l->blend, i, before));
        return sum;
    }
    for (int64_t i = 0; i < n; i++) {
        struct sn_blend_pick p = sample_of(l, before + i);
        int64_t targets = sum.targets;
        sn_sample_count(c, l->corpus->set[p.set], p.number, length, &sum);
        sum.of_set[p.set] += sum.targets - targets;
    }
    return sum;
}

struct sn_sample_count sn_loader_count(const struct sn_loader *l, int set, int64_t n)
{
    struct sn_sample_count sum = {0};
    int whole = l->config->model.seq;
    if (sn_samples_are_plain(l->config))
        return sn_plain_count(l->config, whole, n);
    for (int64_t i = 0; i < n; i++)
        sn_sample_count(l->config, l->corpus->set[set], i, whole, &sum);
    return sum;
}

enum sn_status sn_loader_step(const struct sn_loader *l, int64_t step, int micros,
                              int64_t *first_sample, struct sn_sample_count *count,
                              struct sn_err *err)
{
    const struct sn_config *c = l->config;
    int64_t before = sn_samples_before(&c->train, step);
    int length = sn_length_of(c, step);
    *count = count_step(l, before, sn_batch_of(&c->train, step), length);
    for (int m = 0; m < micros; m++) {
        int64_t first = before + sn_loader_first(l, m);
        first_sample[m] = first;
        for (int i = 0; i < l->sequences; i++) {
            struct sn_blend_pick p = sample_of(l, first + i);
            struct row row = {(int64_t)m * l->sequences + i, p.number, p.set, length};
            SN_TRY(read_row(l, row, err));
        }
    }
    return SN_OK;
}

/* Ids that are some, of a sample that is there; nothing is to be predicted from them. */
static enum sn_status fill_row(const struct sn_loader *l, int set, int64_t row, struct sn_err *err)
{
    int64_t rows = sn_rows_per_sample(&l->place);
    SN_TRY(read_row(l, (struct row){row, 0, set, l->config->model.seq}, err));
    for (int64_t i = 0; i < rows; i++)
        l->targets[row * rows + i] = SN_NO_TARGET;
    return SN_OK;
}

enum sn_status sn_loader_range(const struct sn_loader *l, int set, int64_t first, int64_t end,
                               struct sn_err *err)
{
    for (int i = 0; i < l->sequences; i++) {
        struct row row = {i, first + i, set, l->config->model.seq};
        SN_TRY(first + i < end ? read_row(l, row, err) : fill_row(l, set, i, err));
    }
    return SN_OK;
}
