#include "lib/base/text_file.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool write_to(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    bool good = f && fputs(text, f) >= 0;
    if (f && fclose(f) != 0)
        good = false;
    return good;
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
    else if (errnum == EEXIST)
        advice = "it is left over from an earlier run: remove it";
    return sn_fail(err, SN_EIO, "%s: cannot be written (%s); %s", path,
                   strerror_r(errnum, text, sizeof(text)), advice);
}

enum sn_status sn_text_save(const struct sn_str *text, const char *path, struct sn_err *err)
{
    const char *words = text->p ? text->p : "";
    struct stat there;
    char *aside = text->failed ? NULL : sn_format("%s.tmp", path);
    if (!aside)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write it", path);
    bool in_place = stat(path, &there) == 0 && !S_ISREG(there.st_mode);
    bool good = in_place ? write_to(path, words) : write_to(aside, words);
    good = good && (in_place || rename(aside, path) == 0);
    enum sn_status st = good ? SN_OK : sn_write_fail(err, path, errno);
    if (!good && !in_place)
        (void)remove(aside); /* it may not be there */
    sn_free(aside);
    return st;
}

enum sn_status sn_text_try(const char *path, struct sn_err *err)
{
    FILE *f = fopen(path, "ae");
    return f && fclose(f) == 0 ? SN_OK : sn_write_fail(err, path, errno);
}
