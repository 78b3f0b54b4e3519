/*
 * json.h - reading JSON in place: values are views of the text, nothing is allocated.
 *
 * For what sennit itself wrote, a line at a time (lib/base/jsonl.h), and for what is cut off or
 * damaged: such a text is no value. It builds no tree and changes nothing.
 */
#ifndef SN_BASE_JSON_H
#define SN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value, borrowed from the text it was found in; at NULL: there is none. */
struct sn_json {
    const char *at;
    size_t len;
};

/* Is the text one whole value (blanks around it are fine), at most 32 levels deep? Every view below
 * comes from one that passed. */
bool sn_json_parse(struct sn_json *out, const char *text, size_t len);

/* A member of an object by name; none if there is no such member, or `object` is none. */
struct sn_json sn_json_get(struct sn_json object, const char *name);
/* The members of an object or the items of an array one after another: *at begins as 0; `name` is
 * none in an array. False at the end, and for what is neither. */
bool sn_json_next(struct sn_json group, size_t *at, struct sn_json *name, struct sn_json *value);

/* Each is false, and *out untouched, if the value is of another kind (or none, or null). */
bool sn_json_number(struct sn_json v, double *out);
bool sn_json_integer(struct sn_json v, int64_t *out);
bool sn_json_bool(struct sn_json v, bool *out);
/* Unescaped, as UTF-8; what does not fit is cut off. */
bool sn_json_text(struct sn_json v, char *out, size_t room);

/* All of a text, which may hold NUL, unescaped into `out` of at least v.len bytes: its bytes; -1: it
 * is no text. A surrogate without its other half becomes bytes that are no valid UTF-8. */
int64_t sn_json_unescape(struct sn_json v, char *out);

/* The same for a member: its value, or `otherwise`. The text is "" otherwise. */
double sn_json_get_number(struct sn_json object, const char *name, double otherwise);
int64_t sn_json_get_integer(struct sn_json object, const char *name, int64_t otherwise);
void sn_json_get_text(struct sn_json object, const char *name, char *out, size_t room);

#endif
