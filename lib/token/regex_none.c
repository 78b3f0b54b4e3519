/*
 * regex_none.c - stands where PCRE2 is not: a tokenizer whose pattern is none of those that scan.h
 * knows is refused with a sentence. See regex.h.
 */
#include "lib/token/regex.h"

enum sn_status sn_regex_create(struct sn_regex **out, const char *pattern, size_t len,
                               enum sn_dialect dialect, struct sn_err *err)
{
    (void)out, (void)dialect;
    return sn_fail(err, SN_EINPUT,
                   "pattern '%.*s': this build has no PCRE2; install libpcre2-dev and make again",
                   (int)(len < 100 ? len : 100), pattern);
}

void sn_regex_destroy(struct sn_regex *r)
{
    (void)r;
}

enum sn_status sn_regex_search_create(struct sn_regex_search **out, struct sn_err *err)
{
    (void)err;
    *out = NULL;
    return SN_OK;
}

void sn_regex_search_destroy(struct sn_regex_search *s)
{
    (void)s;
}

int sn_regex_find(const struct sn_regex *r, struct sn_regex_search *s, const char *text, size_t len,
                  size_t at, size_t match[2])
{
    (void)r, (void)s, (void)text, (void)len, (void)at, (void)match;
    return -1;
}
