#include "bin/ranks.h"

#include "bin/common.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum sn_status sn_ranks_create(struct sn_comm **out, const struct sn_ranks *r, struct sn_err *err)
{
    return r ? r->create(out, err) : sn_comm_create_self(out, err);
}

bool sn_ranks_are_launched(void)
{
    return sn_comm_launched_ranks() > 1;
}

/* PREFIX/bin/PROGRAM and PREFIX/libexec/sennit/sennit-mpi, in build/ as in what is installed. */
static void find_helper(char *path, size_t room)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    (void)snprintf(path, room, "%s/libexec/sennit/sennit-mpi", self);
}

int sn_ranks_exec(const char *verb, char **argv)
{
    char path[PATH_MAX + 64];
    struct sn_err err = {0};
    int n = 0;
    while (argv[n])
        n++;
    const char **word = sn_alloc_n((size_t)n + 2, sizeof(*word));
    if (!word) {
        (void)sn_fail(&err, SN_ENOMEM, "sennit-mpi: no memory for its command line");
    } else {
        find_helper(path, sizeof(path));
        word[0] = "sennit-mpi";
        word[1] = verb;
        for (int i = 1; i < n; i++)
            word[i + 1] = argv[i];
        (void)execv(path, (char *const *)word);
        (void)sn_fail(&err, SN_EINPUT,
                      "%s: cannot be started: %s; several ranks need it: `make` puts it there, and "
                      "`make install`",
                      path, strerror(errno));
    }
    sn_free(word);
    return sn_comm_launched_rank() == 0 ? sn_report(&err) : sn_exit_code(err.status);
}
