/*
 * data_build.h - from text or tokens to a pair of token files; and a look at such a pair.
 */
#ifndef SN_DATA_BUILD_H
#define SN_DATA_BUILD_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/data/data.h"

enum sn_data_source { SN_SOURCE_BYTES, SN_SOURCE_DECIMAL, SN_SOURCE_BINARY };
enum sn_data_documents { SN_DOCUMENTS_FILES, SN_DOCUMENTS_LINES, SN_DOCUMENTS_PARAGRAPHS };

struct sn_data_build {
    const char *prefix;
    char *const *files; /* "-" is standard input */
    int n_files;
    enum sn_data_source source;
    int binary_code; /* dtype code of a SN_SOURCE_BINARY */
    enum sn_data_documents documents;
    int64_t vocab; /* 0: not known */
    bool masked;   /* of decimal tokens: those behind a '-' do not count (lib/data/mask.h) */
    bool raw;      /* take files that are packed or structured as they are */
    double valid;  /* share of the tokens, 0 .. 1, that goes to PREFIX-valid; 0: none */
    int stop_fd;   /* the work ends when this becomes readable; -1: never */
};

/* dtype code of a binary source: u8, i8, u16, i16, i32, i64, and u32, which is read as i32; 0 when
 * there is no such type. */
int sn_data_binary_code(const char *name);
/* Read the files once, in constant memory, and write PREFIX and perhaps PREFIX-valid. No file gets
 * its name before all of them are on the disk.
 * info[0] tells of PREFIX, info[1] of PREFIX-valid. */
enum sn_status sn_data_build(const struct sn_data_build *b, struct sn_data_info info[2],
                             struct sn_err *err);
/* What was built, as text or as one JSON object. */
void sn_data_built_format(const struct sn_data_build *b, const struct sn_data_info info[2],
                          bool as_json, struct sn_str *out);

/* Counts of PREFIX + suffix as a line, or as members of a JSON object. */
void sn_data_counts(struct sn_str *s, const char *prefix, const char *suffix,
                    const struct sn_data_info *info);
void sn_data_counts_json(struct sn_str *s, const char *prefix, const char *suffix,
                         const struct sn_data_info *info);

/* Text in one line, as in C: \n, \t, \\, and \xff for what is no UTF-8. What a terminal obeys is
 * \u200d, but in a text that becomes one of JSON, which escapes it itself. */
void sn_data_text(struct sn_str *s, const char *text, size_t n, bool as_json);

struct sn_data_view {
    const char *prefix;
    int64_t document; /* which one to show */
    int64_t tokens;   /* how many of its tokens */
    bool as_text;     /* show them as text too; they must be bytes */
    bool as_json;
};
/* Counts, and the first tokens of one document. */
enum sn_status sn_data_view_format(const struct sn_data *d, const struct sn_data_view *view,
                                   struct sn_str *out, struct sn_err *err);

#endif
