/*
 * scan.h - the patterns by which GPT-2, Llama 3, Qwen 2 and cl100k cut a text, as loops.
 *
 * They cover every text, so a piece begins where the one before it ended. tests/unit/token/test_scan.c
 * holds them to PCRE2 on random texts.
 */
#ifndef SN_TOKEN_SCAN_H
#define SN_TOKEN_SCAN_H

#include "lib/token/unicode.h"

enum sn_scan { SN_SCAN_NONE, SN_SCAN_GPT2, SN_SCAN_LLAMA3, SN_SCAN_QWEN2, SN_SCAN_CL100K };

/* Which one a pattern is, letter by letter; SN_SCAN_NONE: none of them. */
enum sn_scan sn_scan_find(const char *pattern, size_t len);
const char *sn_scan_pattern(enum sn_scan scan);

/* Where the piece ends that begins at `at` < len, in valid UTF-8. */
size_t sn_scan_next(enum sn_scan scan, const struct sn_unicode *u, const char *p, size_t len,
                    size_t at);

#endif
