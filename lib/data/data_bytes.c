/*
 * data_bytes.c - reading a part of a token file, so that a file system that fails for a while ends no job.
 *
 * A mapped file would: what cannot be read, or is there no more, is a bus error.
 */
#include "lib/data/data_format.h"

#include "lib/base/log.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

/* Seconds before the next try: half a minute in all. */
static const double waits[] = {0.1, 0.4, 1.6, 6.4, 25.6};
enum { WAITS = sizeof(waits) / sizeof(waits[0]) };

/* May it go well later? Not where the file is another one by now. */
static bool may_pass(int errnum)
{
    return errnum == EIO || errnum == ETIMEDOUT || errnum == EAGAIN || errnum == ENOMEM ||
           errnum == ENOTCONN || errnum == ECONNRESET || errnum == EHOSTDOWN ||
           errnum == EHOSTUNREACH || errnum == ESHUTDOWN || errnum == EREMOTEIO;
}

static void wait_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    (void)nanosleep(&t, NULL); /* a signal ends it sooner: the next try comes sooner */
}

static enum sn_status fail(const char *path, int64_t at, int errnum, int tries, struct sn_err *err)
{
    char text[128];
    return sn_fail(
        err, SN_EIO, "%s: byte %lld: cannot be read (%s), in %d tr%s; check its file system", path,
        (long long)at, strerror_r(errnum, text, sizeof(text)), tries, tries == 1 ? "y" : "ies");
}

enum sn_status sn_data_bytes(int fd, const char *path, void *out, size_t n, int64_t at,
                             struct sn_err *err)
{
    unsigned char *p = out;
    char text[128];
    for (int tries = 0; n > 0;) {
        ssize_t done = pread(fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            return sn_fail(err, SN_EIO,
                           "%s: ends at byte %lld, which it did not when it was opened; do not "
                           "change it while a run reads it",
                           path, (long long)at);
        if (done < 0) {
            int errnum = errno;
            if (tries == WAITS || !may_pass(errnum))
                return fail(path, at, errnum, tries + 1, err);
            sn_log(SN_LOG_WARN, "%s: byte %lld: cannot be read (%s); trying again in %g s", path,
                   (long long)at, strerror_r(errnum, text, sizeof(text)), waits[tries]);
            wait_for(waits[tries++]);
            continue;
        }
        p += done;
        at += done;
        n -= (size_t)done;
        tries = 0;
    }
    return SN_OK;
}
