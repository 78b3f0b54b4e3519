#include "lib/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum sn_status sn_fail(struct sn_err *err, enum sn_status st, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* a cut sentence is still useful */
        va_end(ap);
        err->status = st;
        err->agreed = 0;
    }
    return st;
}

enum sn_status sn_err_prefix(struct sn_err *err, const char *fmt, ...)
{
    char where[256];
    char what[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(where, sizeof(where), fmt, ap);
    va_end(ap);
    memcpy(what, err->text, sizeof(what));
    (void)snprintf(err->text, sizeof(err->text), "%s: %.*s", where, (int)(sizeof(what) - 260),
                   what);
    return err->status;
}

int sn_exit_code(enum sn_status st)
{
    return st == SN_OK ? 0 : st == SN_EINPUT ? 2 : st == SN_ELOST ? 77 : 1;
}
