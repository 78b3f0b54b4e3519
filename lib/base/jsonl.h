/*
 * jsonl.h - files of JSON objects, one a line, appended to by one process at a time.
 *
 * A line is there as a whole or not at all for whoever reads: what a kill or a full disk cut off
 * is passed over, and the next append begins a line of its own behind it.
 */
#ifndef SN_JSONL_H
#define SN_JSONL_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"

/* ---- writing: members into a text, which begins empty ---------------------------------------- */

void sn_jsonl_text(struct sn_str *line, const char *name, const char *value); /* NULL: null */
/* Of so many bytes, which may hold NUL. */
void sn_jsonl_text_n(struct sn_str *line, const char *name, const char *value, size_t len);
void sn_jsonl_int(struct sn_str *line, const char *name, int64_t value);
void sn_jsonl_real(struct sn_str *line, const char *name, double value); /* not finite: null */
void sn_jsonl_bool(struct sn_str *line, const char *name, bool value);
void sn_jsonl_texts(struct sn_str *line, const char *name, const char *const *values, int n);
/* `value` is JSON already. */
void sn_jsonl_raw(struct sn_str *line, const char *name, const char *value);
/* Close the object, append it to the file (made where it lacks) with one write and sync it. `line`
 * is emptied in any case. SN_ENOMEM, SN_EIO. */
enum sn_status sn_jsonl_append(const char *path, struct sn_str *line, struct sn_err *err);

/* ---- a text that people wrote, an object a line ---------------------------------------------- */

struct sn_jsonl_lines {
    const char *text;
    size_t len, at;
    int64_t number; /* of the line at hand, from 1 */
};
/* The next line that is not blank; false at the end. */
bool sn_jsonl_line(struct sn_jsonl_lines *l, const char **line, size_t *len);
/* Members known[0 .. n - 1] of an object in value[0 .. n - 1], which begin as none. SN_EINPUT: another one, or
 * one twice; `want` says what would work. */
enum sn_status sn_jsonl_members(struct sn_json object, const char *const *known, int n,
                                struct sn_json *const *value, const char *want, struct sn_err *err);

/* ---- reading --------------------------------------------------------------------------------- */

struct sn_jsonl {
    char *text;
    size_t len, at;
    int64_t damaged; /* lines passed over so far: no whole objects */
};

/* A file that does not exist has no lines; what is no plain file, or has more than 1 GiB, is
 * refused. SN_ENOMEM, SN_EIO, SN_EINPUT. The caller ends with sn_jsonl_close. */
enum sn_status sn_jsonl_open(struct sn_jsonl *out, const char *path, struct sn_err *err);
/* The next object; false at the end. The view lives until the close. */
bool sn_jsonl_next(struct sn_jsonl *f, struct sn_json *object);
void sn_jsonl_close(struct sn_jsonl *f); /* a zeroed one is allowed */

#endif
