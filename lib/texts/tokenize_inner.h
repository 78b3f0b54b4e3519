/*
 * tokenize_inner.h - the work of sn_tokenize, and its record; for tokenize.c and tokenize_record.c alone.
 */
#ifndef SN_TOKENIZE_INNER_H
#define SN_TOKENIZE_INNER_H

#include "lib/base/json.h"
#include "lib/texts/texts.h"
#include "lib/texts/tokenize_part.h"

struct sn_tokenize_job {
    const struct sn_tokenize *want;
    struct sn_tokenizer *tokenizer;
    struct sn_chat *chat;
    struct sn_texts_list files;
    struct sn_encoding how;
    struct sn_encoders *encoders;
    struct sn_tokenized *out;
    char *record, *prefix; /* DIR/tokenize.jsonl, DIR/tokens */
    bool *done, *noted;    /* by file, at the end the whole; noted: in the record */
    int *owner;            /* by file: which share */
    uint64_t made_of;      /* hash of all that decides the tokens */
    int dtype;
};

enum sn_status sn_job_no_memory(const struct sn_tokenize_job *j, struct sn_err *err);
const char *sn_job_base_name(const char *path);

/* --- the record, DIR/tokenize.jsonl ----------------------------------------------------------- */

struct sn_part_said {
    int64_t bytes, skipped;
};
/* Which parts are done, and what came of them; the record is begun where there is none. */
enum sn_status sn_job_look(struct sn_tokenize_job *j, struct sn_err *err);
/* A line that a part is done, into a file. */
enum sn_status sn_job_note(const struct sn_tokenize_job *j, const char *path, int part,
                           struct sn_part_said said, struct sn_err *err);
/* What a process that wrote part i has left. */
enum sn_status sn_job_read_note(struct sn_tokenize_job *j, int i, struct sn_err *err);
void sn_job_take(struct sn_tokenize_job *j, int part, struct sn_part_said said);
/* Names of part i's pair and of its note, on the heap; NULL: no memory. */
char *sn_job_part_prefix(const struct sn_tokenize_job *j, int i);
char *sn_job_part_note(const struct sn_tokenize_job *j, int i);

#endif
