#include "bin/train/score.h"

#include "bin/train/features.h"
#include "bin/train/words.h"
#include "lib/base/jsonl.h"
#include "lib/data/score.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct scorer {
    const struct sn_config *config;
    const struct sn_train_score *want;
    struct sn_tokenizer_id of;
    struct sn_tokenizer *tokenizer; /* NULL: none is known */
    struct sn_train_features features;
};

/* Behind which a text begins: as --begin says, as documents of the data do, or as the tokenizer's file does;
 * or what ends documents, which is before each, too. Without a tokenizer its number. */
static enum sn_status find_begin(const struct scorer *s, int32_t *out, struct sn_err *err)
{
    const struct sn_ids *before = NULL, *behind = NULL;
    if (s->want->begin)
        return sn_train_find_token(out, s->tokenizer, s->config->model.vocab, "--begin",
                                   s->want->begin, err);
    *out = s->of.begin >= 0 ? s->of.begin : -1;
    if (!s->tokenizer)
        return SN_OK;
    sn_tokenizer_around(s->tokenizer, &before, &behind);
    if (*out < 0 && before->len > 0)
        *out = before->p[before->len - 1];
    if (*out < 0)
        *out = s->of.end >= 0 ? s->of.end : -1;
    return SN_OK;
}

static enum sn_status read_requests(void *self, struct sn_score_set *out, struct sn_err *err)
{
    struct scorer *s = self;
    const struct sn_config *c = s->config;
    struct sn_bytes text = {0};
    SN_TRY(sn_train_find_tokenizer(&s->tokenizer, &s->of, c, s->want->tokenizer, err));
    struct sn_score_by by = {.tokenizer = s->tokenizer,
                             .bytes = c->model.vocab == 256,
                             .vocab = c->model.vocab,
                             .seq = c->model.seq,
                             .places = sn_prompt_positions(&c->train.prompt),
                             .begin = -1};
    SN_TRY(find_begin(s, &by.begin, err));
    SN_TRY(sn_train_features_open(&s->features, c, s->want->features, err));
    enum sn_status st = sn_tokenizer_read(&text, s->want->file, "a file of requests", err);
    if (st == SN_OK)
        st = sn_score_parse(out, text.p, text.len, s->want->file, &by, err);
    sn_bytes_fini(&text);
    return st == SN_OK ? sn_train_features_count(&s->features, s->want->file, out->n_requests,
                                                 "requests", err)
                       : st;
}

static enum sn_status read_features(void *self, int request, float *out, struct sn_err *err)
{
    struct scorer *s = self;
    return sn_features_read(s->features.file, request, out, err);
}

static enum sn_status print_scores(void *self, const struct sn_score_set *set,
                                   const struct sn_score *scores, struct sn_err *err)
{
    (void)self;
    for (int i = 0; i < set->n_requests; i++) {
        struct sn_str line = {0};
        if (set->request[i].id)
            sn_jsonl_raw(&line, "id", set->request[i].id);
        sn_jsonl_real(&line, "logprob", scores[i].logprob);
        sn_jsonl_bool(&line, "greedy", scores[i].greedy);
        sn_jsonl_int(&line, "tokens", set->request[i].tokens);
        sn_jsonl_int(&line, "left_out", set->request[i].left_out);
        bool good = !line.failed && printf("%s}\n", line.p) > 0;
        bool failed = line.failed;
        sn_str_fini(&line);
        if (failed)
            return sn_fail(err, SN_ENOMEM, "--score: no memory for the answers");
        if (!good)
            break;
    }
    if (fflush(stdout) != 0 || ferror(stdout))
        return sn_fail(err, SN_EIO, "--score: stdout cannot be written: %s", strerror(errno));
    return SN_OK;
}

enum sn_status sn_train_score(struct sn_trainer *t, const struct sn_config *c, struct sn_comm *comm,
                              const struct sn_train_score *want, struct sn_err *err)
{
    struct scorer s = {.config = c, .want = want};
    struct sn_score_options o = {.read = read_requests,
                                 .features = read_features,
                                 .give = print_scores,
                                 .self = &s};
    enum sn_status st = comm->rank == 0 ? sn_data_tokenizer_of_run(&s.of, c, err) : SN_OK;
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = sn_trainer_generate_open(t, &s.of, err);
    if (st == SN_OK)
        st = sn_trainer_score(t, &o, err);
    sn_tokenizer_destroy(s.tokenizer);
    sn_train_features_close(&s.features);
    return st;
}
