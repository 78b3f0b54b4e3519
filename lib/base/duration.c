#include "lib/base/duration.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 3, DIGITS = 7 };
static const int64_t minute = 60, hour = 3600, day = 86400, longest = 3653 * INT64_C(86400);

/* Digits, at most 7 of them; *text moves behind them. */
static bool take_number(const char **text, int64_t *out)
{
    size_t n = strspn(*text, "0123456789");
    if (n == 0 || n > DIGITS)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = *out * 10 + (*text)[i] - '0';
    *text += n;
    return true;
}

bool sn_duration_parse(const char *text, int64_t *seconds)
{
    /* What the parts are worth: with days, without, and without but two of them. */
    static const int64_t with_days[PARTS] = {hour, minute, 1}, three[PARTS] = {hour, minute, 1},
                         fewer[PARTS] = {minute, 1, 0};
    int64_t days = 0, part[PARTS], sum = 0;
    int n = 0;
    const char *at = text, *dash = strchr(text, '-');
    if (dash && !(take_number(&at, &days) && at == dash))
        return false;
    at = dash ? dash + 1 : at;
    do {
        if (n == PARTS || !take_number(&at, &part[n++]))
            return false;
    } while (*at == ':' && *++at);
    const int64_t *worth = dash ? with_days : n == PARTS ? three : fewer;
    for (int i = 0; i < n; i++)
        sum += part[i] * worth[i];
    sum += days * day;
    if (*at || at[-1] == ':' || sum <= 0 || sum > longest)
        return false;
    *seconds = sum;
    return true;
}

const char *sn_duration_format(char buf[SN_DURATION_SIZE], int64_t seconds)
{
    long long s = seconds, days = s / day;
    long long h = s % day / hour, m = s % hour / minute;
    if (days)
        (void)snprintf(buf, SN_DURATION_SIZE, "%lld-%02lld:%02lld:%02lld", days, h, m, s % minute);
    else
        (void)snprintf(buf, SN_DURATION_SIZE, "%lld:%02lld:%02lld", h, m, s % minute);
    return buf;
}
