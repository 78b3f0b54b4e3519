#include "lib/base/directory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum sn_status sn_directory_make(const char *path, const char *what, struct sn_err *err)
{
    char part[PATH_MAX];
    if (strlen(path) >= sizeof(part))
        return sn_fail(err, SN_EIO, "%s: %.100s... is too long for a path", what, path);
    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *c = *part ? part + 1 : part;; c++) {
        if (*c != '/' && *c != '\0')
            continue;
        char end = *c;
        *c = '\0';
        if (*part && mkdir(part, 0777) != 0 && errno != EEXIST)
            return sn_fail(err, SN_EIO,
                           "%s: cannot make the directory %s: %s; want a path in one that you may "
                           "write to",
                           what, part, strerror(errno));
        *c = end;
        if (end == '\0')
            return SN_OK;
    }
}
