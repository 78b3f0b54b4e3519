/*
 * tokenize.h - texts into a pair of token files, by a tokenizer.
 *
 * Several processes may each take a share of the files; who is done last puts the parts together.
 * Each input file becomes a part, a pair of files of its own; when all are there, they are put
 * together as DIR/tokens. What was interrupted goes on with the first file that has no part. Parts
 * hold documents in the order of the input, so the number of workers changes nothing.
 */
#ifndef SN_TOKENIZE_H
#define SN_TOKENIZE_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/chat/chat.h"
#include "lib/data/data.h"
#include "lib/data/data_build.h"

#include <stdbool.h>

struct sn_tokenize {
    char *const *inputs; /* files, directories, patterns */
    int n_inputs;
    const char *tokenizer;   /* its file */
    const char *out;         /* a directory, made where it lacks */
    const char *field;       /* of JSON lines; of chats NULL: messages or conversations */
    const char *begin, *end; /* tokens by their text; NULL: none */
    bool special;
    const struct sn_chat_want *chat; /* NULL: documents are texts; its tokenizer and field are these */
    enum sn_data_documents documents; /* of plain text */
    int workers;
    int share, shares; /* of the input files: this process's, from 0; 0 or 1 share: all are its */
    int64_t skip_bad;  /* how many documents may be left out */
    int stop_fd;       /* the work ends when this becomes readable; -1: never */
};
struct sn_tokenized {
    struct sn_data_info info;
    int files, kept; /* kept: parts that were there already */
    int64_t bytes, skipped;
    int64_t counted; /* of chats: tokens that count */
    bool was_done;           /* all of it was there already */
    int left;                /* files that other shares have not done yet: there are no tokens, */
    bool is_joined_by_other; /* or another process is putting the parts together */
};
enum sn_status sn_tokenize(const struct sn_tokenize *want, struct sn_tokenized *out,
                           struct sn_err *err);

#endif
