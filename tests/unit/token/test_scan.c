/*
 * test_scan.c - the scanners of known patterns cut random texts as PCRE2 does by the patterns.
 */
#include "lib/token/regex.h"
#include "lib/token/scan.h"
#include "tests/lib/tap.h"
#include "tests/lib/dice.h"

enum { TEXTS = 20000, LONGEST = 24 };

/* What the patterns tell apart: blanks, ends of lines, letters, marks, numbers, apostrophes. */
static const char *const parts[] = {" ",
                                    "  ",
                                    "\t",
                                    "\n",
                                    "\r",
                                    "\r\n",
                                    "\xc2\xa0",
                                    "\xe2\x80\xa8",
                                    "\xc2\x85",
                                    "a",
                                    "B",
                                    "s",
                                    "'s",
                                    "'S",
                                    "'T",
                                    "'re",
                                    "'VE",
                                    "'ll",
                                    "'",
                                    "''",
                                    "'\xc5\xbf",
                                    "\xc3\xa9",
                                    "\xd7\x90",
                                    "\xe4\xb8\xad",
                                    "\xe0\xa4\xbf",
                                    "e\xcc\x81",
                                    "1",
                                    "23",
                                    "\xd9\xa3",
                                    "\xc2\xbd",
                                    "_",
                                    ".",
                                    "!!",
                                    "\xf0\x9f\x99\x82",
                                    "\xe2\x80\x8b",
                                    "\x01"};

static size_t make_text(struct dice *d, char *out)
{
    size_t len = 0;
    int n = 1 + (int)roll(d, LONGEST);
    for (int i = 0; i < n; i++) {
        const char *part = parts[roll(d, (int64_t)(sizeof(parts) / sizeof(parts[0])))];
        memcpy(out + len, part, strlen(part));
        len += strlen(part);
    }
    return len;
}

static bool cuts_alike(enum sn_scan scan, const struct sn_unicode *u, const struct sn_regex *r,
                       struct sn_regex_search *s, const char *text, size_t len)
{
    size_t match[2];
    for (size_t at = 0; at < len; at = match[1])
        if (sn_regex_find(r, s, text, len, at, match) != 1 || match[0] != at ||
            sn_scan_next(scan, u, text, len, at) != match[1])
            return false;
    return true;
}

static void one_pattern(enum sn_scan scan, const struct sn_unicode *u, struct sn_regex_search *s)
{
    struct dice d = {.key = 28, .i = (uint64_t)scan << 32};
    struct sn_regex *r = NULL;
    struct sn_err err = {0};
    const char *pattern = sn_scan_pattern(scan);
    char text[LONGEST * 8];
    int bad = 0;
    enum sn_dialect dialect = scan == SN_SCAN_CL100K ? SN_FANCY : SN_ONIGURUMA;
    (void)tap_ok(sn_regex_create(&r, pattern, strlen(pattern), dialect, &err) == SN_OK,
                 "pattern %d is taken by PCRE2", (int)scan);
    for (int i = 0; r && i < TEXTS; i++) {
        size_t len = make_text(&d, text);
        bad += !cuts_alike(scan, u, r, s, text, len);
    }
    (void)tap_ok(r && bad == 0, "pattern %d: %d texts are cut alike, %d are not", (int)scan, TEXTS,
                 bad);
    sn_regex_destroy(r);
}

int main(void)
{
    struct sn_unicode *u = NULL;
    struct sn_regex_search *s = NULL;
    struct sn_regex *probe = NULL;
    struct sn_err err = {0};
    if (sn_unicode_create(&u, "test", &err) != SN_OK ||
        sn_regex_create(&probe, "a", 1, SN_FANCY, &err) != SN_OK) {
        tap_skip("scanners beside PCRE2", "this build has no utf8proc or no PCRE2");
    } else if (tap_ok(sn_regex_search_create(&s, &err) == SN_OK, "there is a search")) {
        for (int scan = SN_SCAN_GPT2; scan <= SN_SCAN_CL100K; scan++)
            one_pattern((enum sn_scan)scan, u, s);
    }
    sn_regex_destroy(probe);
    sn_regex_search_destroy(s);
    sn_unicode_destroy(u);
    return tap_done();
}
