/*
 * score.h - continuations whose probability is asked for: a file of them, and how they share samples.
 *
 * One JSON object a line. {"context": C, "continuation": X}: X behind C. {"text": X}: all of X, behind the
 * token that begins documents, in windows as long as samples, each token predicted once ("rolling"). C and
 * X are both texts or both arrays of token numbers; "id" is any value, given back. Texts are cut into tokens as
 * EleutherAI's harness does it: blanks at the end of C are moved to X, and X's tokens are those of C X
 * behind as many as C has alone. Other members are refused. With train.prompt all C and X are behind what it fills:
 * nothing else begins them, and a piece begins with the last place of it.
 *
 * Knows nothing of ranks and models.
 */
#ifndef SN_DATA_SCORE_H
#define SN_DATA_SCORE_H

#include "lib/token/tokenizer.h"

/* Tokens in a row, at most a sample's and one: those from `first` on are to be predicted. */
struct sn_score_piece {
    int64_t at; /* of the set's tokens */
    int32_t n, first;
    int32_t request; /* that it is of, from 0 */
    int32_t prompt;  /* of them what a text begins behind, and the context of a continuation */
};
struct sn_score_request {
    char *id;         /* as JSON; NULL: has none */
    int64_t tokens;   /* to be predicted */
    int64_t left_out; /* of the context, at its begin: it is too long */
};
struct sn_score_set {
    struct sn_ids tokens;
    struct sn_score_piece *piece;
    int n_pieces, cap_pieces;
    struct sn_score_request *request; /* in the order of lines */
    int n_requests, cap_requests;
};

struct sn_score_by {
    const struct sn_tokenizer *tokenizer; /* NULL: nobody knows one */
    bool bytes;                           /* without one: a token is a byte */
    int vocab;
    int64_t seq;   /* of a sample */
    int places;    /* of it that train.prompt fills */
    int32_t begin; /* behind which a text or an empty context begins; -1: nobody knows it */
};
/* Read a file's text. SN_EINPUT: "NAME:LINE: what is wrong". The set begins zeroed and is ended by fini,
 * also after a failure. */
enum sn_status sn_score_parse(struct sn_score_set *out, const char *text, size_t len,
                              const char *name, const struct sn_score_by *by, struct sn_err *err);
void sn_score_set_fini(struct sn_score_set *s); /* a zeroed one is allowed */

/* Which pieces share a sample: piece[order[k]] for k = first[r] .. first[r + 1] - 1, one behind the other,
 * are sample r's. */
struct sn_score_rows {
    int *order, *first;
    int n;
};
/* Each piece where the least room is left, the longest first; with `alone` each in a sample of its own. A
 * function of the set and seq alone. SN_ENOMEM. Caller ends with fini. */
enum sn_status sn_score_pack(struct sn_score_rows *out, const struct sn_score_set *s, int64_t seq,
                             bool alone, struct sn_err *err);
void sn_score_rows_fini(struct sn_score_rows *r);

#endif
