/*
 * unicode_none.c - stands where utf8proc is not: what asks for classes of characters or normal
 * forms is refused with a sentence. See unicode.h.
 */
#include "lib/token/unicode.h"

enum sn_status sn_unicode_create(struct sn_unicode **out, const char *why, struct sn_err *err)
{
    (void)out;
    return sn_fail(err, SN_EINPUT,
                   "%s: this build has no utf8proc; install libutf8proc-dev and make again", why);
}

void sn_unicode_destroy(struct sn_unicode *u)
{
    (void)u;
}

enum sn_status sn_unicode_normalize(const struct sn_unicode *u, enum sn_form form, const char *p,
                                    size_t len, struct sn_bytes *out, struct sn_err *err)
{
    (void)u, (void)form, (void)p, (void)len, (void)out;
    return sn_fail(err, SN_EFAIL, "no utf8proc");
}

enum sn_status sn_unicode_lower(const struct sn_unicode *u, const char *p, size_t len,
                                struct sn_bytes *out, struct sn_err *err)
{
    (void)u, (void)p, (void)len, (void)out;
    return sn_fail(err, SN_EFAIL, "no utf8proc");
}

size_t sn_unicode_cluster(const char *p, size_t len)
{
    (void)len;
    return sn_utf8_length((unsigned char)*p);
}
