#include "lib/texts/train_tokenizer.h"

#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/texts/tokenize_part.h"

#include <unistd.h>

/* A thread's own. */
struct counter {
    const struct sn_unicode *unicode;
    enum sn_scan pattern;
    struct sn_word_counts words;
};
struct job {
    const struct sn_train_tokenizer *want;
    struct sn_trained_tokenizer *out;
    struct sn_unicode *unicode;
    struct sn_texts_list files;
    struct counter *counters;
    void **states;
    struct sn_encoders *readers;
    struct sn_bpe_trained trained;
    bool is_fresh; /* the file was made by us, empty */
};

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory for the words of the texts; take fewer --workers");
}

static enum sn_status count_words(void *state, const char *p, size_t len, struct sn_err *err)
{
    struct counter *c = state;
    for (size_t at = 0, end; at < len; at = end) {
        end = sn_scan_next(c->pattern, c->unicode, p, len, at);
        if (!sn_word_counts_add(&c->words, p + at, end - at, 1))
            return no_memory(err);
    }
    return SN_OK;
}

static enum sn_status start_readers(struct job *j, struct sn_err *err)
{
    int threads = j->want->texts.workers;
    j->counters = sn_alloc_n((size_t)threads, sizeof(*j->counters));
    j->states = sn_alloc_n((size_t)threads, sizeof(*j->states));
    if (!j->counters || !j->states)
        return no_memory(err);
    for (int i = 0; i < threads; i++) {
        j->counters[i] = (struct counter){.unicode = j->unicode, .pattern = j->want->pattern};
        j->states[i] = &j->counters[i];
    }
    struct sn_encoding how = {.see = count_words, .states = j->states, .begin = -1, .end = -1};
    return sn_encoders_create(&j->readers, &how, threads, err);
}

static enum sn_status read_file(struct job *j, const struct sn_texts_file *file, struct sn_err *err)
{
    const struct sn_tokenize *texts = &j->want->texts;
    struct sn_part part = {.want = texts,
                           .file = file,
                           .encoders = j->readers,
                           .may_skip = texts->skip_bad - j->out->skipped};
    sn_encoders_field(j->readers, file->is_json ? texts->field : NULL);
    SN_TRY(sn_part_write(&part, err));
    j->out->bytes += part.bytes;
    j->out->skipped += part.skipped;
    return SN_OK;
}

/* All into the first thread's. */
static enum sn_status join_words(struct job *j, struct sn_err *err)
{
    struct sn_word_counts *all = &j->counters[0].words;
    for (int i = 1; i < j->want->texts.workers; i++) {
        if (!sn_word_counts_join(all, &j->counters[i].words))
            return no_memory(err);
        sn_word_counts_fini(&j->counters[i].words);
    }
    j->out->different_words = (int64_t)all->n;
    for (size_t i = 0; i < all->n; i++)
        j->out->words += all->list[i].count;
    if (all->n == 0)
        return sn_fail(err, SN_EINPUT, "%s: no words in any of the files", j->want->texts.out);
    return SN_OK;
}

static enum sn_status save(struct job *j, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_bpe_trained_format(&j->trained, &j->want->how, j->want->pattern, &text);
    enum sn_status st = sn_text_save(&text, j->want->texts.out, err);
    sn_str_fini(&text);
    j->out->vocab = (int64_t)j->trained.vocab.n_tokens;
    j->out->merges = (int64_t)j->trained.merges.len / 2;
    return st;
}

static enum sn_status work(struct job *j, struct sn_err *err)
{
    const struct sn_tokenize *texts = &j->want->texts;
    bool is_there = access(texts->out, F_OK) == 0;
    if (!j->want->force && is_there)
        return sn_fail(err, SN_EINPUT,
                       "%s: is there already; name another -o, or say --force to replace it",
                       texts->out);
    SN_TRY(sn_text_try(texts->out, err));
    j->is_fresh = !is_there;
    SN_TRY(sn_unicode_create(&j->unicode, "a training of a vocabulary", err));
    SN_TRY(sn_texts_find(&j->files, texts->inputs, texts->n_inputs, err));
    SN_TRY(start_readers(j, err));
    for (int i = 0; i < j->files.n; i++)
        SN_TRY(read_file(j, &j->files.list[i], err));
    j->out->files = j->files.n;
    SN_TRY(join_words(j, err));
    SN_TRY(sn_bpe_train(&j->counters[0].words, &j->want->how, &j->trained, err));
    return save(j, err);
}

enum sn_status sn_train_tokenizer(const struct sn_train_tokenizer *want,
                                  struct sn_trained_tokenizer *out, struct sn_err *err)
{
    struct job j = {.want = want, .out = out};
    *out = (struct sn_trained_tokenizer){0};
    enum sn_status st = work(&j, err);
    if (st != SN_OK && j.is_fresh)
        (void)unlink(want->texts.out);
    sn_encoders_destroy(j.readers);
    for (int i = 0; j.counters && i < want->texts.workers; i++)
        sn_word_counts_fini(&j.counters[i].words);
    sn_free(j.counters);
    sn_free(j.states);
    sn_bpe_trained_fini(&j.trained);
    sn_texts_list_fini(&j.files);
    sn_unicode_destroy(j.unicode);
    return st;
}
