#include "lib/data/stats.h"

#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "lib/data/data_build.h"
#include "lib/data/sources.h"

#include <assert.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>

enum { AT_ONCE = 1 << 14 };
static const int64_t most_text_tokens = 1 << 24, most_of_one = 1 << 20;
static const int percents[SN_STATS_PERCENTILES] = {1, 5, 10, 25, 50, 75, 90, 95, 99};

struct counting {
    struct sn_sources sources;
    struct sn_stats *out;
    const struct sn_stats_want *want;
    int64_t *counts; /* of tokens 0 .. largest */
    size_t counts_bytes;
    int64_t *lengths; /* of documents */
};

static enum sn_status go_on(int stop_fd, struct sn_err *err)
{
    struct pollfd fd = {.fd = stop_fd, .events = POLLIN};
    return stop_fd < 0 || poll(&fd, 1, 0) <= 0 ? SN_OK : sn_fail(err, SN_EFAIL, "interrupted");
}

/* --- tokens ----------------------------------------------------------------------------------- */

typedef enum sn_status see_block(struct counting *c, const char *path, int64_t first,
                                 const int32_t *tokens, int64_t n, struct sn_err *err);

static enum sn_status each_block(struct counting *c, see_block *see, struct sn_err *err)
{
    int32_t block[AT_ONCE];
    for (int i = 0; i < c->sources.n; i++) {
        struct sn_data *d = c->sources.data[i];
        struct sn_data_info info;
        sn_data_info(d, &info);
        const unsigned char *p = sn_data_sequence_bytes(d, 0);
        int size = sn_token_type_find(info.dtype_code)->size;
        for (int64_t k = 0; k < info.tokens; k += AT_ONCE) {
            int64_t n = info.tokens - k < AT_ONCE ? info.tokens - k : AT_ONCE;
            sn_tokens_widen(info.dtype_code, p + k * size, n, block);
            SN_TRY(see(c, sn_data_path(d), k, block, n, err));
            SN_TRY(go_on(c->want->stop_fd, err));
        }
    }
    return SN_OK;
}

static enum sn_status see_largest(struct counting *c, const char *path, int64_t first,
                                  const int32_t *tokens, int64_t n, struct sn_err *err)
{
    int32_t most = 0, least = 0;
    for (int64_t i = 0; i < n; i++) {
        most = tokens[i] > most ? tokens[i] : most;
        least = tokens[i] < least ? tokens[i] : least;
    }
    if (least < 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: one of the tokens %lld .. %lld is no number of 0 .. %d; sennit-data "
                       "check names it",
                       path, (long long)first, (long long)(first + n - 1), INT32_MAX);
    c->out->largest = most > c->out->largest ? most : c->out->largest;
    return SN_OK;
}

static enum sn_status see_counts(struct counting *c, const char *path, int64_t first,
                                 const int32_t *tokens, int64_t n, struct sn_err *err)
{
    (void)path, (void)first, (void)err;
    for (int64_t i = 0; i < n; i++)
        c->counts[tokens[i]]++;
    return SN_OK;
}

/* Into the list of the most frequent, which is in order; of two alike the smaller token first. */
static void put_frequent(struct sn_stats *s, int want, int64_t token, int64_t count)
{
    int at = s->n_frequent;
    while (at > 0 && s->frequent[at - 1].count < count)
        at--;
    if (at >= want)
        return;
    s->n_frequent += s->n_frequent < want;
    for (int i = s->n_frequent - 1; i > at; i--)
        s->frequent[i] = s->frequent[i - 1];
    s->frequent[at].token = token;
    s->frequent[at].count = count;
}

static enum sn_status count_tokens(struct counting *c, int frequent, struct sn_err *err)
{
    struct sn_stats *s = c->out;
    SN_TRY(each_block(c, see_largest, err));
    c->counts_bytes = ((size_t)s->largest + 1) * sizeof(*c->counts);
    c->counts = sn_arena_reserve(c->counts_bytes); /* what no token touches takes no memory */
    if (!c->counts)
        return sn_fail(err, SN_ENOMEM, "no memory to count tokens up to %lld",
                       (long long)s->largest);
    SN_TRY(each_block(c, see_counts, err));
    for (int64_t i = 0; i <= s->largest; i++) {
        s->used += c->counts[i] > 0;
        if (c->counts[i] > 0)
            put_frequent(s, frequent, i, c->counts[i]);
    }
    return SN_OK;
}

/* --- documents -------------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Tokens of a document before the first one that is to be predicted and counts; its first one never is. */
static int64_t prompt_of(const struct sn_source_document *d)
{
    int64_t begin = sn_data_document_token(d->data, d->number);
    if (!d->mask || d->tokens < 2)
        return d->tokens > 0;
    return sn_data_mask_first(d->mask, begin + 1, d->tokens - 1) - begin;
}

/* Squares of the pieces that samples of seq tokens cut out of the tokens first .. end - 1 of a file. */
static double squares_cut(int64_t first, int64_t end, int64_t seq)
{
    double sum = 0;
    for (int64_t next; first < end; first = next) {
        int64_t whole = (end - first) / seq;
        if (first % seq == 0 && whole > 0) {
            next = first + whole * seq;
            sum += (double)whole * (double)seq * (double)seq;
            continue;
        }
        next = (first / seq + 1) * seq < end ? (first / seq + 1) * seq : end;
        sum += (double)(next - first) * (double)(next - first);
    }
    return sum;
}

/* Tokens of a file that are in its samples. */
static int64_t in_samples(const struct sn_data *d, int64_t seq)
{
    struct sn_data_info info;
    sn_data_info(d, &info);
    return info.tokens > 0 ? (info.tokens - 1) / seq * seq : 0;
}

/* The keys of a document, cut: of half the pairs of each piece. */
static void add_keys(struct sn_stats *s, const struct sn_source_document *d, int64_t prompt)
{
    int64_t first = sn_data_document_token(d->data, d->number), all = in_samples(d->data, s->seq);
    int64_t end = first + d->tokens, behind = first + prompt;
    s->keys += squares_cut(first, end < all ? end : all, s->seq) / 2;
    if (d->mask)
        s->prompt_keys += squares_cut(first, behind < all ? behind : all, s->seq) / 2;
}

static enum sn_status measure_samples(struct counting *c, struct sn_err *err)
{
    struct sn_stats *s = c->out;
    int64_t tokens = 0;
    for (int i = 0; s->seq > 0 && i < c->sources.n; i++)
        tokens += in_samples(c->sources.data[i], s->seq);
    if (s->seq > 0 && tokens == 0)
        return sn_fail(err, SN_EINPUT,
                       "--seq: %lld tokens are no sample of %lld, which wants one more; use more "
                       "text, or a shorter one",
                       (long long)s->info.tokens, (long long)s->seq);
    if (tokens > 0) {
        s->keys /= (double)tokens;
        s->prompt_keys /= (double)tokens;
    }
    return SN_OK;
}

static enum sn_status measure(struct counting *c, struct sn_err *err)
{
    struct sn_stats *s = c->out;
    int64_t n = s->info.documents;
    c->lengths = sn_alloc_n((size_t)n + 1, sizeof(*c->lengths));
    if (!c->lengths)
        return sn_fail(err, SN_ENOMEM, "no memory for the lengths of %lld documents", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (i % AT_ONCE == 0)
            SN_TRY(go_on(c->want->stop_fd, err));
        struct sn_source_document d = sn_sources_get(&c->sources, i);
        c->lengths[i] = d.tokens;
        s->empty += d.tokens == 0;
        int64_t prompt = prompt_of(&d);
        s->squares += (double)d.tokens * (double)d.tokens;
        s->prompt_squares += (double)prompt * (double)prompt;
        if (s->seq > 0)
            add_keys(s, &d, prompt);
        s->bin_bytes += (int64_t)d.bytes;
    }
    if (n == 0)
        return SN_OK;
    qsort(c->lengths, (size_t)n, sizeof(*c->lengths), by_length);
    s->shortest = c->lengths[0];
    s->longest = c->lengths[n - 1];
    for (int i = 0; i < SN_STATS_PERCENTILES; i++) /* the smallest that so many are not above */
        s->percentiles[i] = c->lengths[(n * percents[i] + 99) / 100 - 1];
    return SN_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

static enum sn_status add_text(struct counting *c, const struct sn_tokenizer *t, int64_t document,
                               struct sn_ids *ids, struct sn_bytes *text, struct sn_err *err)
{
    struct sn_source_document d = sn_sources_get(&c->sources, document);
    int64_t n = d.tokens < most_of_one ? d.tokens : most_of_one;
    ids->len = text->len = 0;
    if (!sn_ids_room(ids, (size_t)n))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a document's text", d.prefix);
    sn_tokens_widen(d.code, d.p, n, ids->p);
    SN_TRY(sn_decode(t, ids->p, (size_t)n, true, text, err));
    c->out->text_documents++;
    c->out->text_tokens += n;
    c->out->text_bytes += (int64_t)text->len;
    return SN_OK;
}

/* Documents spread evenly, as many as have about so many tokens. */
static enum sn_status measure_text(struct counting *c, struct sn_err *err)
{
    struct sn_stats *s = c->out;
    const struct sn_tokenizer_id *of = &c->sources.tokenizer;
    struct sn_tokenizer *t = NULL;
    struct sn_ids ids = {0};
    struct sn_bytes text = {0};
    if (!of->file[0] || s->info.tokens == 0)
        return SN_OK;
    SN_TRY(sn_data_tokenizer_load(&t, of, err));
    s->vocab = sn_tokenizer_size(t);
    int64_t all = s->info.documents, step = (s->info.tokens - 1) / most_text_tokens + 1;
    enum sn_status st = SN_OK;
    for (int64_t i = 0; i < all && st == SN_OK; i += step) {
        st = go_on(c->want->stop_fd, err);
        if (st == SN_OK)
            st = add_text(c, t, i, &ids, &text, err);
    }
    sn_ids_fini(&ids);
    sn_bytes_fini(&text);
    sn_tokenizer_destroy(t);
    return st;
}

/* --- all -------------------------------------------------------------------------------------- */

static void subtract_masked(struct counting *c, int i)
{
    struct sn_data_info info;
    sn_data_info(c->sources.data[i], &info);
    if (c->sources.masks[i])
        c->out->counted -= info.tokens - sn_data_mask_counted(c->sources.masks[i]);
}

static enum sn_status count(struct counting *c, char *const *prefixes, int n, struct sn_err *err)
{
    SN_TRY(sn_sources_open(&c->sources, prefixes, n, err));
    c->out->info = c->sources.info;
    c->out->seq = c->want->seq;
    for (int i = 0; i < c->sources.n; i++)
        sn_data_read_in_order(c->sources.data[i]);
    c->out->counted = c->sources.has_mask ? c->sources.info.tokens : -1;
    for (int i = 0; i < c->sources.n; i++)
        subtract_masked(c, i);
    SN_TRY(measure(c, err));
    SN_TRY(measure_samples(c, err));
    SN_TRY(count_tokens(c, c->want->frequent, err));
    return measure_text(c, err);
}

enum sn_status sn_stats(char *const *prefixes, int n, const struct sn_stats_want *want,
                        struct sn_stats *out, struct sn_err *err)
{
    struct counting c = {.out = out, .want = want};
    assert(want->frequent >= 0 && want->frequent <= SN_STATS_FREQUENT);
    *out = (struct sn_stats){0};
    enum sn_status st = count(&c, prefixes, n, err);
    sn_arena_unmap(c.counts, c.counts_bytes);
    sn_free(c.lengths);
    sn_sources_close(&c.sources);
    return st;
}

/* --- said ------------------------------------------------------------------------------------- */

/* The text of a token alone; "" where nobody knows. */
static void add_token_text(struct sn_str *out, const struct sn_tokenizer *t, int64_t token,
                           bool as_json)
{
    struct sn_bytes text = {0};
    struct sn_err err;
    int32_t id = (int32_t)token;
    struct sn_str shown = {0};
    if (sn_decode(t, &id, 1, false, &text, &err) == SN_OK)
        sn_data_text(&shown, text.p, text.len, as_json);
    else
        out->failed = true;
    if (as_json) {
        sn_str_add(out, ", \"text\": ");
        sn_str_add_json(out, shown.p ? shown.p : "");
    } else {
        sn_str_add(out, " '%s'", shown.p ? shown.p : "");
    }
    out->failed = out->failed || shown.failed;
    sn_str_fini(&shown);
    sn_bytes_fini(&text);
}

/* As data.document_length and data.prefix_length may be. */
static int64_t expected(double tokens)
{
    return llround(fmin(tokens, SN_EXPECTED_TOKENS_MOST));
}

/* Of documents as long as this, with prompts as long as this, so many tokens have as many pairs of query and key. */
static int64_t plan_length(const struct sn_stats *s)
{
    if (s->seq > 0)
        return s->plan_length;
    return s->info.tokens > 0 ? expected(s->squares / (double)s->info.tokens) : 0;
}

static int64_t plan_prompt(const struct sn_stats *s)
{
    if (s->seq > 0)
        return s->plan_prompt;
    return s->squares > 0 ? expected(sqrt(s->prompt_squares * s->squares) / (double)s->info.tokens)
                          : 0;
}

static void format_json(const struct sn_stats *s, const struct sn_tokenizer *t, struct sn_str *out)
{
    sn_str_add(out,
               "{\"dtype\": \"%s\", \"documents\": %lld, \"sequences\": %lld, \"tokens\": %lld, "
               "\"bin_bytes\": %lld, \"empty_documents\": %lld, \"document_tokens\": {\"least\": "
               "%lld, \"mean\": ",
               sn_token_type_find(s->info.dtype_code)->name, (long long)s->info.documents,
               (long long)s->info.sequences, (long long)s->info.tokens, (long long)s->bin_bytes,
               (long long)s->empty, (long long)s->shortest);
    sn_str_add(out, "%.6g, \"most\": %lld",
               s->info.documents ? (double)s->info.tokens / (double)s->info.documents : 0.0,
               (long long)s->longest);
    for (int i = 0; i < SN_STATS_PERCENTILES; i++)
        sn_str_add(out, ", \"p%d\": %lld", percents[i], (long long)s->percentiles[i]);
    sn_str_add(out, "}, \"plan\": {\"document_length\": %lld, \"prefix_length\": ",
               (long long)plan_length(s));
    sn_str_add(out, s->counted < 0 ? "null" : "%lld", (long long)plan_prompt(s));
    if (s->seq > 0)
        sn_str_add(out, ", \"seq\": %lld", (long long)s->seq);
    sn_str_add(out, "}, \"counted_tokens\": ");
    sn_str_add(out, s->counted < 0 ? "null" : "%lld", (long long)s->counted);
    sn_str_add(out, ", \"different_tokens\": %lld, \"largest_token\": %lld, \"vocab\": ",
               (long long)s->used, (long long)s->largest);
    sn_str_add(out, s->vocab ? "%lld" : "null", (long long)s->vocab);
    sn_str_add(out, ", \"frequent\": [");
    for (int i = 0; i < s->n_frequent; i++) {
        sn_str_add(out, "%s{\"token\": %lld, \"count\": %lld", i ? ", " : "",
                   (long long)s->frequent[i].token, (long long)s->frequent[i].count);
        if (t)
            add_token_text(out, t, s->frequent[i].token, true);
        sn_str_add(out, "}");
    }
    sn_str_add(out, "], \"text\": ");
    if (s->text_tokens > 0)
        sn_str_add(out,
                   "{\"documents\": %lld, \"tokens\": %lld, \"bytes\": %lld, "
                   "\"bytes_per_token\": %.6g}}\n",
                   (long long)s->text_documents, (long long)s->text_tokens,
                   (long long)s->text_bytes, (double)s->text_bytes / (double)s->text_tokens);
    else
        sn_str_add(out, "null}\n");
}

static void format_text(const struct sn_stats *s, const struct sn_tokenizer *t, struct sn_str *out)
{
    sn_str_add(out,
               "%lld documents, %lld of them empty; %lld sequences; %lld tokens (%s, %lld bytes)\n",
               (long long)s->info.documents, (long long)s->empty, (long long)s->info.sequences,
               (long long)s->info.tokens, sn_token_type_find(s->info.dtype_code)->name,
               (long long)s->bin_bytes);
    if (s->info.documents == 0)
        return;
    sn_str_add(out, "tokens of a document: %lld to %lld, mean %.1f\n", (long long)s->shortest,
               (long long)s->longest, (double)s->info.tokens / (double)s->info.documents);
    if (s->counted >= 0)
        sn_str_add(out, "targets by the mask: %lld tokens (%.2f%%)\n", (long long)s->counted,
                   100.0 * (double)s->counted / (double)s->info.tokens);
    sn_str_add(out, "to plan with: data.document_length: %lld", (long long)plan_length(s));
    if (s->counted >= 0)
        sn_str_add(out, ", data.prefix_length: %lld", (long long)plan_prompt(s));
    if (s->seq > 0)
        sn_str_add(out, " (samples of %lld tokens)", (long long)s->seq);
    sn_str_add(out, "\npercentiles:");
    for (int i = 0; i < SN_STATS_PERCENTILES; i++)
        sn_str_add(out, "%s %d%%: %lld", i ? "," : "", percents[i], (long long)s->percentiles[i]);
    sn_str_add(out, "\ndifferent tokens: %lld, the largest %lld", (long long)s->used,
               (long long)s->largest);
    if (s->vocab)
        sn_str_add(out, "; %.1f%% of a vocabulary of %lld",
                   100.0 * (double)s->used / (double)s->vocab, (long long)s->vocab);
    sn_str_add(out, "\n");
    for (int i = 0; i < s->n_frequent; i++) {
        sn_str_add(out, "%s%lld", i ? "" : "most frequent:\n", (long long)s->frequent[i].token);
        if (t)
            add_token_text(out, t, s->frequent[i].token, false);
        sn_str_add(out, " %lld times (%.2f%%)\n", (long long)s->frequent[i].count,
                   100.0 * (double)s->frequent[i].count / (double)s->info.tokens);
    }
    if (s->text_tokens > 0)
        sn_str_add(out, "text: %.3f bytes a token, of %lld bytes in %lld documents\n",
                   (double)s->text_bytes / (double)s->text_tokens, (long long)s->text_bytes,
                   (long long)s->text_documents);
}

enum sn_status sn_stats_format(char *const *prefixes, int n, const struct sn_stats *stats,
                               bool as_json, struct sn_str *out, struct sn_err *err)
{
    struct sn_tokenizer *t = NULL;
    struct sn_tokenizer_id of = {0};
    for (int i = 0; stats->vocab > 0 && !of.file[0] && i < n; i++)
        SN_TRY(sn_data_tokenizer_find(&of, prefixes[i], err));
    if (of.file[0])
        SN_TRY(sn_data_tokenizer_load(&t, &of, err));
    if (as_json)
        format_json(stats, t, out);
    else
        format_text(stats, t, out);
    sn_tokenizer_destroy(t);
    return SN_OK;
}
