#include "checkpoint/format/safetensors_file.h"

#include "checkpoint/io/files.h"
#include "lib/base/input.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum sn_status sn_st_file_open(struct sn_st_file *f, char *path, struct sn_err *err)
{
    struct stat id;
    *f = (struct sn_st_file){.path = path, .fd = sn_input_open(path, &id)};
    if (f->fd < 0 && sn_input_is_odd(errno))
        return sn_fail(err, SN_EINPUT, "%s: is not a plain file", path);
    if (f->fd < 0)
        return sn_file_fail(err, path, "open");
    f->len = (uint64_t)id.st_size;
    return SN_OK;
}

enum sn_status sn_st_file_get(const struct sn_st_file *f, uint64_t at, void *out, size_t n,
                              struct sn_err *err)
{
    if (f->fd < 0 && n > 0)
        memcpy(out, f->p + at, n);
    for (size_t done = 0; f->fd >= 0 && done < n;) {
        ssize_t got = pread(f->fd, (char *)out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sn_file_fail(err, f->path, "read");
        if (got == 0)
            return sn_fail(err, SN_EIO,
                           "%s: ends after %" PRIu64 " bytes; it had %" PRIu64
                           " when it was opened",
                           f->path, at + done, f->len);
        done += (size_t)got;
    }
    return SN_OK;
}

void sn_st_file_close(struct sn_st_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd); /* read only: nothing can be lost */
    sn_free(f->path);
}

/* --- in a directory -------------------------------------------------------------------------- */

static enum sn_status has_file(bool *out, const char *dir, const char *name, struct sn_err *err)
{
    char *path = sn_format("%s/%s", dir, name);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    *out = access(path, F_OK) == 0;
    sn_free(path);
    return SN_OK;
}

/* No weights that are read here: what else is there in their place? */
static enum sn_status no_weights(const char *dir, struct sn_err *err)
{
    static const char torchs[] = "a file of torch, which may hold code; want model.safetensors, as "
                                 "transformers' save_pretrained writes it";
    static const struct {
        const char *name, *what;
    } all[] = {
        {"pytorch_model.bin", torchs},
        {"pytorch_model.bin.index.json", torchs},
        {"adapter_model.safetensors",
         "a file of adapters; want the directory of the weights that they adapt, "
         "and this one as train.lora.init_from"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        bool is_there;
        SN_TRY(has_file(&is_there, dir, all[i].name, err));
        if (is_there)
            return sn_fail(err, SN_EINPUT, "%s: has no model.safetensors, but %s, %s", dir,
                           all[i].name, all[i].what);
    }
    return sn_fail(err, SN_EINPUT,
                   "%s: has neither model.safetensors nor model.safetensors.index.json", dir);
}

enum sn_status sn_st_file_choose(char **out, const char *dir, struct sn_err *err)
{
    static const char single[] = "model.safetensors", index[] = "model.safetensors.index.json";
    bool has_single, has_index;
    SN_TRY(has_file(&has_single, dir, single, err));
    SN_TRY(has_file(&has_index, dir, index, err));
    if (!has_single && !has_index)
        return no_weights(dir, err);
    if (has_single && has_index)
        return sn_fail(err, SN_EINPUT,
                       "%s: has both %s and %s, and other programs take one or the other; want one "
                       "of them, or its path",
                       dir, single, index);
    *out = sn_format("%s/%s", dir, has_single ? single : index);
    return *out ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
}
