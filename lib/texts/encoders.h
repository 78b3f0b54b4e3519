/*
 * encoders.h - threads that make tokens of batches of documents, in a ring: batches go in and come
 * out in one order, whatever the number of threads.
 */
#ifndef SN_ENCODERS_H
#define SN_ENCODERS_H

#include "lib/base/err.h"
#include "lib/chat/chat.h"
#include "lib/token/tokenizer.h"

#include <pthread.h>

struct sn_document {
    size_t from, to; /* bytes of the batch's text */
    int64_t line;    /* of its file; 0: the file is one document */
    size_t tokens;   /* where its tokens end */
    bool is_bad;     /* it has none; the batch's next sentence says why */
};
struct sn_bad_document {
    int64_t line;
    char why[200];
};
struct sn_document_batch {
    struct sn_bytes text;
    struct sn_document *documents;
    int n, cap;
    struct sn_ids ids;
    struct sn_bytes counts; /* of chats: for each of them, 1 where it counts */
    struct sn_bad_document *bad;
    int n_bad, bad_cap;
    struct sn_err err; /* what ended the work: not a document's fault */
    enum { SN_BATCH_FREE, SN_BATCH_FULL, SN_BATCH_TAKEN, SN_BATCH_DONE } state;
};

/* How a document becomes tokens. Or what else is made of its text, which is valid UTF-8 and not empty:
 * with `see` no tokens are made, and thread i has states[i]. */
struct sn_encoding {
    const struct sn_tokenizer *tokenizer; /* NULL with `see` */
    enum sn_status (*see)(void *state, const char *p, size_t len, struct sn_err *err);
    void *const *states;
    const struct sn_chat *chat; /* NULL: documents are texts */
    const char *field;          /* of JSON lines; NULL: the document is the text */
    bool special;       /* with what the post-processor puts around it */
    int32_t begin, end; /* a token before and behind it; -1: none */
};

struct sn_encoders;
enum sn_status sn_encoders_create(struct sn_encoders **out, const struct sn_encoding *how,
                                  int threads, struct sn_err *err);
/* Ends the threads, whatever they have not done. NULL is allowed. */
void sn_encoders_destroy(struct sn_encoders *e);
/* Between files: when no batch is full. */
void sn_encoders_field(struct sn_encoders *e, const char *field);

/* The batch to fill next, empty; NULL: the oldest must be taken out first. */
struct sn_document_batch *sn_encoders_fill(struct sn_encoders *e);
/* It is full: threads may take it. */
void sn_encoders_put(struct sn_encoders *e);
/* Wait for the oldest batch that was put; NULL: there is none. */
struct sn_document_batch *sn_encoders_take(struct sn_encoders *e);
/* Its tokens were used. */
void sn_encoders_free(struct sn_encoders *e);

#endif
