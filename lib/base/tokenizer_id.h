/*
 * tokenizer_id.h - which tokenizer tokens are of: what a data set, a checkpoint and an export say of it.
 */
#ifndef SN_BASE_TOKENIZER_ID_H
#define SN_BASE_TOKENIZER_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SN_TOKENIZER_NAME_MAX = 200, SN_TOKENIZER_FOLDER_MAX = 1280 };

struct sn_tokenizer_id {
    char file[SN_TOKENIZER_NAME_MAX];     /* its file's name, printable ASCII; "": nobody knows */
    char folder[SN_TOKENIZER_FOLDER_MAX]; /* where it lies here, with files that belong to it */
    uint64_t hash;                        /* XXH3 of the file */
    int64_t vocab;                        /* one more than its largest id */
    int32_t begin, end;                   /* the tokens around each document; -1: none */
    bool special; /* before each document is, too, what the file's post-processor puts there */
};

/* A name that every place can hold: one member of a path, printable ASCII, no leading dot. */
bool sn_tokenizer_id_is_name(const char *file);

/* Files of the field that stand beside a tokenizer.json or tokenizer.model, and belong to it, ended
 * by NULL. */
extern const char *const sn_tokenizer_companions[];

#endif
