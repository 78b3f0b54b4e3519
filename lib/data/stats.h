/*
 * stats.h - what token files hold, counted; and whether all of it is what it should be.
 */
#ifndef SN_DATA_STATS_H
#define SN_DATA_STATS_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/data/data.h"

#include <stdbool.h>

enum { SN_STATS_PERCENTILES = 9, SN_STATS_FREQUENT = 64 };

struct sn_stats {
    struct sn_data_info info;
    int64_t bin_bytes; /* of tokens, each as its file's type has it */
    int64_t empty;     /* documents without tokens */
    int64_t shortest, longest, percentiles[SN_STATS_PERCENTILES]; /* tokens of a document */
    double squares,
        prompt_squares; /* sums over documents of their tokens squared, of their prompts' (data.prefix) */
    /* Of samples of `seq` tokens, which cut documents (0: none are said): the keys that a token sees of its document
     * before itself, and those of its prompt behind itself, on average; and what a plan should expect that sees as many,
     * which the caller has worked out (lib/model/keys.c). */
    int64_t seq, plan_length, plan_prompt;
    double keys, prompt_keys;
    int64_t counted;       /* tokens that count as targets, by the masks; -1: there is none */
    int64_t used, largest; /* different tokens, and the largest */
    int64_t vocab;         /* of the tokenizer beside; 0: none */
    int n_frequent;
    struct {
        int64_t token, count;
    } frequent[SN_STATS_FREQUENT];
    /* By the tokenizer beside: of documents spread evenly, all of them where there are few. */
    int64_t text_documents, text_tokens, text_bytes;
};
struct sn_stats_want {
    int frequent; /* how many of the most frequent tokens, at most SN_STATS_FREQUENT */
    int64_t seq;  /* of samples; 0: documents are whole */
    int stop_fd;
};
/* Memory: 8 bytes a document, and 8 for each number up to the largest token. SN_EINPUT: no token files, a token below 0,
 * or not one sample. */
enum sn_status sn_stats(char *const *prefixes, int n, const struct sn_stats_want *want,
                        struct sn_stats *out, struct sn_err *err);
enum sn_status sn_stats_format(char *const *prefixes, int n, const struct sn_stats *stats,
                               bool as_json, struct sn_str *out, struct sn_err *err);

/* Are the whole index, a mask beside it and every token right? vocab 0: that of the tokenizer beside, which is checked,
 * too; where there is none the tokens cannot be judged. SN_EINPUT names file, document and token. */
struct sn_data_checked {
    struct sn_data_info info;
    int64_t vocab; /* that tokens were held to; 0: none is known */
    bool has_tokenizer, has_mask;
};
enum sn_status sn_data_check(const char *prefix, int64_t vocab, int stop_fd,
                             struct sn_data_checked *out, struct sn_err *err);

#endif
