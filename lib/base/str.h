/*
 * str.h - a growing text buffer and small text questions.
 */
#ifndef SN_STR_H
#define SN_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_str {
    char *p; /* NUL-terminated once anything was added; NULL before */
    size_t len, cap;
    bool failed; /* an allocation failed: everything after it was dropped */
};

void sn_str_add(struct sn_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append text as a JSON string with its quotes; what a terminal obeys (plain.h) is escaped, so that
 * nobody has to change it on its way out. */
void sn_str_add_json(struct sn_str *s, const char *text);
/* The same of so many bytes, which may hold NUL. */
void sn_str_add_json_n(struct sn_str *s, const char *text, size_t len);
void sn_str_fini(struct sn_str *s);

/* Levenshtein distance of two short words; anything over 64 characters counts as far (99). */
int sn_str_distance(const char *a, const char *b);
/* "1.5 GiB", "12 B"; buf of at least 16 bytes; returns buf. */
const char *sn_str_bytes(char buf[16], int64_t bytes);
/* "12.3 ms"; the same. */
const char *sn_str_seconds(char buf[16], double seconds);
/* "a, b or c": of names[0], names[1] ... (at most 32, then NULL) those whose bit is set, as many as
 * fit; returns buf. */
const char *sn_str_names(char *buf, size_t size, const char *const *names, unsigned bits);
/* Shell pattern with * and ? only. */
bool sn_str_glob(const char *pattern, const char *text);

#endif
