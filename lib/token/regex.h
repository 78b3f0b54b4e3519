/*
 * regex.h - regular expressions of tokenizers, from PCRE2 (regex.c), or a refusal (regex_none.c).
 *
 * Files of tokenizers are written for Oniguruma (Ruby's syntax) or for Rust's fancy-regex
 * (tiktoken). What these mean otherwise than PCRE2 is translated, or refused by name:
 *   \s \d \w and their opposites: properties of Unicode, the same in all versions of PCRE2;
 *   ^ $: ends of lines in Oniguruma, of the text in fancy-regex;
 *   {n,m}+: "again" in Oniguruma, possessive in fancy-regex; \h, \K, \y and calls: refused.
 */
#ifndef SN_TOKEN_REGEX_H
#define SN_TOKEN_REGEX_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct sn_regex;        /* compiled, shared by all threads */
struct sn_regex_search; /* a thread's own memory */

enum sn_dialect { SN_ONIGURUMA, SN_FANCY };

/* SN_EINPUT names the pattern and what of it is not understood, or that the build has no PCRE2. */
enum sn_status sn_regex_create(struct sn_regex **out, const char *pattern, size_t len,
                               enum sn_dialect dialect, struct sn_err *err);
void sn_regex_destroy(struct sn_regex *r); /* NULL is allowed */

enum sn_status sn_regex_search_create(struct sn_regex_search **out, struct sn_err *err);
void sn_regex_search_destroy(struct sn_regex_search *s); /* NULL is allowed */

/* The first match at or after `at` in valid UTF-8. 1: found, 0: none; -1: the library gave up (its
 * limits, memory). */
int sn_regex_find(const struct sn_regex *r, struct sn_regex_search *s, const char *text, size_t len,
                  size_t at, size_t match[2]);

#endif
