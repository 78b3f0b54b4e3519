#include "lib/base/err.h"

#include "lib/base/exit_code.h"
#include "lib/base/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum sn_status sn_fail(struct sn_err *err, enum sn_status st, const char *fmt, ...)
{
    if (err) {
        char said[sizeof(err->text)];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(said, sizeof(said), fmt, ap); /* a cut sentence is still useful */
        va_end(ap);
        sn_plain(err->text, sizeof(err->text), said);
        err->status = st;
        err->agreed = 0;
    }
    return st;
}

enum sn_status sn_err_prefix(struct sn_err *err, const char *fmt, ...)
{
    char said[256], where[256];
    char what[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
    sn_plain(where, sizeof(where), said);
    memcpy(what, err->text, sizeof(what));
    (void)snprintf(err->text, sizeof(err->text), "%s: %.*s", where, (int)(sizeof(what) - 260),
                   what);
    return err->status;
}

int sn_exit_code(enum sn_status st)
{
    return st == SN_OK       ? SN_EXIT_DONE
           : st == SN_EINPUT ? SN_EXIT_INPUT
           : st == SN_ELOST  ? SN_EXIT_LOST
                             : SN_EXIT_FAILED;
}
