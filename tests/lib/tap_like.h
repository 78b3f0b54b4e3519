/*
 * tap_like.h - a text that matches an extended regular expression, as `like` of tap.sh.
 */
#ifndef TAP_LIKE_H
#define TAP_LIKE_H

#include "tests/lib/tap.h"

#include <regex.h>

__attribute__((unused)) static bool tap_like(const char *text, const char *pattern,
                                             const char *what)
{
    regex_t r;
    bool good = regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB) == 0;
    if (good) {
        good = regexec(&r, text, 0, NULL, 0) == 0;
        regfree(&r);
    }
    tap_ok(good, "%s", what);
    if (!good)
        printf("# got: %s\n# want: %s\n", text, pattern);
    return good;
}

#endif
