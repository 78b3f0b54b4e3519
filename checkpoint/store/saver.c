#include "checkpoint/store/saver.h"

#include "checkpoint/store/checkpoint.h"
#include "lib/base/mem.h"

#include <stdio.h>

enum sn_status sn_saver_open(struct sn_saver *out, const struct sn_config *c, struct sn_err *err)
{
    bool absolute = c->checkpoint.dir[0] == '/';
    char *dir = absolute ? sn_strdup(c->checkpoint.dir)
                         : sn_format("%s/%s", c->run.output, c->checkpoint.dir);
    if (!dir)
        return sn_fail(err, SN_ENOMEM, "checkpoint.dir: no memory");
    struct sn_checkpoint_options o = {c->checkpoint.keep, c->checkpoint.single_file};
    enum sn_status st = sn_checkpoint_open(out, dir, &o, err);
    sn_free(dir);
    return st;
}

void sn_saver_close(struct sn_saver *s)
{
    if (s->self)
        sn_checkpoint_close(s);
}
