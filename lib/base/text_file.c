#include "lib/base/text_file.h"

#include "lib/base/mem.h"
#include "lib/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(FILE *f, const char *text)
{
    bool good = f && fputs(text, f) >= 0;
    if (f && fclose(f) != 0)
        good = false;
    return good;
}

/* A fresh file of this name. */
static bool write_fresh(const char *path, const char *text)
{
    int fd = sn_output_open(path, O_WRONLY | O_EXCL, 0666);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0 && !f)
        (void)close(fd); /* nothing was written */
    return write_all(f, text);
}

enum sn_status sn_write_fail(struct sn_err *err, const char *path, int errnum)
{
    char text[128];
    const char *advice = "check its file system";
    if (errnum == ENOENT || errnum == ENOTDIR)
        advice = "create its folder first";
    else if (errnum == EACCES || errnum == EPERM || errnum == EROFS)
        advice = "choose a folder that you may write to";
    else if (errnum == ENOSPC || errnum == EDQUOT)
        advice = "free some space or choose another place";
    else if (errnum == EFBIG)
        advice = "raise the limit on file sizes (ulimit -f)";
    else if (errnum == EISDIR || errnum == ENAMETOOLONG)
        advice = "choose another name";
    else if (errnum == EMLINK || errnum == EMEDIUMTYPE)
        advice = "remove it, if it is not needed";
    else if (errnum == EEXIST)
        advice = "it is left over from an earlier run: remove it";
    bool is_odd = errnum == EMLINK || errnum == EMEDIUMTYPE;
    return sn_fail(err, SN_EIO, "%s: cannot be written (%s); %s", path,
                   is_odd ? sn_output_why(errnum) : strerror_r(errnum, text, sizeof(text)), advice);
}

/* Written beside it first, under a name that this takes. */
static enum sn_status keep(const struct sn_str *text, const char *path, char *aside,
                           struct sn_err *err)
{
    if (!aside)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write it", path);
    bool good = write_fresh(aside, text->p ? text->p : "") && rename(aside, path) == 0;
    enum sn_status st = good ? SN_OK : sn_write_fail(err, path, errno);
    if (!good)
        (void)remove(aside); /* it may not be there */
    sn_free(aside);
    return st;
}

enum sn_status sn_text_keep(const struct sn_str *text, const char *path, struct sn_err *err)
{
    return keep(text, path, text->failed ? NULL : sn_format("%s.tmp", path), err);
}

enum sn_status sn_text_keep_by(const struct sn_str *text, const char *path, int writer,
                               struct sn_err *err)
{
    return keep(text, path, text->failed ? NULL : sn_format("%s.tmp.%d", path, writer), err);
}

enum sn_status sn_text_save(const struct sn_str *text, const char *path, struct sn_err *err)
{
    struct stat there;
    if (text->failed || stat(path, &there) != 0 || S_ISREG(there.st_mode))
        return sn_text_keep(text, path, err);
    bool good = write_all(fopen(path, "we"), text->p ? text->p : "");
    return good ? SN_OK : sn_write_fail(err, path, errno);
}

enum sn_status sn_text_try(const char *path, struct sn_err *err)
{
    FILE *f = fopen(path, "ae");
    return f && fclose(f) == 0 ? SN_OK : sn_write_fail(err, path, errno);
}
