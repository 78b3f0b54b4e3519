#include "checkpoint/convert/beside.h"

#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/config/hfconfig.h"

enum sn_status sn_beside_tokens(struct sn_str *out, const char *from, struct sn_err *err)
{
    char *path = sn_format("%s/config.json", from), *text = NULL;
    size_t len = 0;
    enum sn_status st =
        path ? sn_file_load(&text, &len, path, err)
             : sn_fail(err, SN_ENOMEM, "%s: no memory to read its config.json", from);
    if (st == SN_OK)
        st = sn_hfconfig_tokens(out, text, len, path, err);
    sn_free(text);
    sn_free(path);
    return st;
}
