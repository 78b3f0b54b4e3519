/*
 * machine_file.c - machine files on the disk.
 */
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/config/files.h"
#include "lib/machine/machine.h"

enum sn_status sn_machine_load(struct sn_machine *out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_machine_parse(out, text, len, path, err);
    sn_free(text);
    return st;
}

enum sn_status sn_machine_save(const struct sn_machine *m, const char *path, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_machine_format(&text, m);
    enum sn_status st = sn_text_save(&text, path, err);
    sn_str_fini(&text);
    return st;
}
