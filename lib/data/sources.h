/*
 * sources.h - several pairs of token files as one list of documents.
 */
#ifndef SN_DATA_SOURCES_H
#define SN_DATA_SOURCES_H

#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"

struct sn_sources {
    char *const *prefixes; /* borrowed */
    int n;
    struct sn_data **data;
    struct sn_data_mask **masks;      /* NULL: this one has none */
    bool has_mask;                    /* one of them */
    int64_t *begin;                   /* n + 1: the number of each one's first document among all */
    struct sn_data_info info;         /* of all; its type holds the tokens of each one's type */
    struct sn_tokenizer_id tokenizer; /* of those that say theirs */
};
/* SN_EINPUT: a pair that is none, or two that different tokenizers made. Close it in any case. */
enum sn_status sn_sources_open(struct sn_sources *out, char *const *prefixes, int n,
                               struct sn_err *err);
void sn_sources_close(struct sn_sources *s);

/* A document by its number among all. */
struct sn_source_document {
    const struct sn_data *data;
    const struct sn_data_mask *mask;
    const char *prefix;
    int64_t number; /* in data */
    int code;       /* its tokens' type */
    int64_t tokens;
    size_t bytes;
    const unsigned char *p; /* where they lie */
};
struct sn_source_document sn_sources_get(const struct sn_sources *s, int64_t document);
/* Put it behind what the writer has; from p, where that is not NULL. Of a writer with a mask the tokens
 * of files without one all count. */
enum sn_status sn_sources_copy(const struct sn_sources *s, int64_t document, const unsigned char *p,
                               struct sn_data_writer *w, struct sn_err *err);

#endif
