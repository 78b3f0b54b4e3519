#include "bin/common.h"

#include "lib/base/log.h"
#include "lib/base/str.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

int sn_report(const struct sn_err *err)
{
    sn_log(SN_LOG_ERROR, "%s", err->text);
    return sn_exit_code(err->status);
}

enum sn_status sn_parse_number(const char *option, const char *text, long long least,
                               long long most, long long *out, struct sn_err *err)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < least || v > most)
        return sn_fail(err, SN_EINPUT, "%s: '%s' is no number from %lld to %lld", option, text,
                       least, most);
    *out = v;
    return SN_OK;
}

enum sn_status sn_parse_real(const char *option, const char *text, double least, double most,
                             double *out, struct sn_err *err)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        return sn_fail(err, SN_EINPUT, "%s: '%s' is no number from %g to %g", option, text, least,
                       most);
    *out = v;
    return SN_OK;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

enum sn_status sn_plan_parse_ranks(struct sn_plan_ranks *out, const char *text, struct sn_err *err)
{
    const char *at = text;
    out->n = 0;
    for (;;) {
        char *end;
        long long v = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || v < 1 || v > 1 << 24)
            return sn_fail(err, SN_EINPUT,
                           "--gpus: '%s' is no number from 1 to %d, and no list of some such as "
                           "64,128,256",
                           text, 1 << 24);
        if (out->n == SN_PLAN_MOST_RANKS)
            return sn_fail(err, SN_EINPUT, "--gpus: '%s' has more than %d numbers; want fewer",
                           text, SN_PLAN_MOST_RANKS);
        out->v[out->n++] = (int)v;
        if (!*end)
            break;
        at = end + 1;
    }
    qsort(out->v, (size_t)out->n, sizeof(*out->v), by_number);
    return SN_OK;
}

enum sn_status sn_parse_bytes(const char *option, const char *text, int64_t least, int64_t *out,
                              struct sn_err *err)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } unit[] = {{"", 1},
                {"KiB", INT64_C(1) << 10},
                {"MiB", INT64_C(1) << 20},
                {"GiB", INT64_C(1) << 30},
                {"TiB", INT64_C(1) << 40},
                {"kB", 1000},
                {"MB", 1000000},
                {"GB", 1000000000},
                {"TB", INT64_C(1000000000000)}};
    char *end, shown[16];
    double n = strtod(text, &end), most = 0x1p60;
    for (size_t i = 0; end != text && i < sizeof(unit) / sizeof(unit[0]); i++) {
        double bytes = n * (double)unit[i].bytes;
        if (strcmp(end, unit[i].name) != 0 || !(bytes >= (double)least && bytes <= most))
            continue;
        *out = (int64_t)bytes;
        return SN_OK;
    }
    return sn_fail(err, SN_EINPUT, "%s: '%s' is no size of at least %s; want one such as 4GiB",
                   option, text, sn_str_bytes(shown, least));
}

enum sn_status sn_refuse_option(const char *program, int code, char **argv, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "%s: %s %s; see %s --help", program,
                   code == ':' ? "no value after" : "unknown option", argv[optind - 1], program);
}

enum sn_status sn_parse_operand(const char **out, const char *program, const char *what, int argc,
                                char **argv, struct sn_err *err)
{
    if (argc - optind != 1)
        return sn_fail(err, SN_EINPUT, "%s: want one %s, got %d; see %s --help", program, what,
                       argc - optind, program);
    *out = argv[optind];
    return SN_OK;
}
