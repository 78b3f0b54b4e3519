/*
 * rewrite.h - token files made of token files: merged, split, shuffled, without doubles.
 *
 * Documents stay whole. Everything is written under temporary names and synced; the new files get their
 * names together at the end. Masks, the tokenizer's file and its record go along.
 */
#ifndef SN_DATA_REWRITE_H
#define SN_DATA_REWRITE_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/data/data.h"

#include <stdbool.h>

/* MERGE: the documents of all, in their order. SPLIT: OUT-train, OUT-valid, OUT-test, each document
 * in one of them by the seed, in the order of the input. SHUFFLE: document i of the output is number
 * j of the input with permute(key(seed, "data.shuffle"), documents, j) = i (lib/base/rng.h). DEDUP:
 * of documents with the same tokens the first. */
enum sn_rewrite_kind { SN_REWRITE_MERGE, SN_REWRITE_SPLIT, SN_REWRITE_SHUFFLE, SN_REWRITE_DEDUP };
enum { SN_REWRITE_PARTS = 3 }; /* train, valid, test */

struct sn_rewrite {
    enum sn_rewrite_kind kind;
    char *const *prefixes;
    int n_prefixes;
    const char *out;
    bool force; /* files of that name are replaced */
    uint64_t seed;
    /* SPLIT, of valid and test: less than 1 a share of the documents, else how many; 0: none. */
    double part[2];
    int64_t memory; /* SHUFFLE: bytes of documents that are put in order at once */
    int stop_fd;    /* the work ends when this becomes readable; -1: never */
};
struct sn_rewritten {
    struct sn_data_info in, out[SN_REWRITE_PARTS]; /* out: what has documents */
    int parts;
};
enum sn_status sn_rewrite(const struct sn_rewrite *want, struct sn_rewritten *out,
                          struct sn_err *err);
/* What was done, as text or as one JSON object. */
void sn_rewritten_format(const struct sn_rewrite *want, const struct sn_rewritten *done,
                         bool as_json, struct sn_str *out);

#endif
