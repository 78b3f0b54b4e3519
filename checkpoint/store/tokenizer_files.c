#include "checkpoint/store/tokenizer_files.h"

#include "checkpoint/io/files.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *sn_tokenizer_files_folder(const char *dir, uint64_t hash)
{
    return sn_format("%s/tokenizer-%016" PRIx64, dir, hash);
}

enum sn_status sn_tokenizer_files_of(struct sn_tokenizer_id *out,
                                     const struct sn_tokenizer_id *said, const char *step_dir,
                                     struct sn_err *err)
{
    char *dir = sn_path_parent(step_dir),
         *from = dir ? sn_tokenizer_files_folder(dir, said->hash) : NULL;
    enum sn_status st =
        from ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to open it", step_dir);
    *out = *said;
    if (from)
        (void)snprintf(out->folder, sizeof(out->folder), "%s", from);
    sn_free(dir);
    sn_free(from);
    return st;
}

static enum sn_status copy(const char *from, const char *file, const char *to, const char *name,
                           bool is_needed, struct sn_err *err)
{
    char *bytes = NULL, *source = sn_format("%s/%s", from, file),
         *copied = sn_format("%s/%s", to, name);
    size_t len;
    enum sn_status st = SN_OK;
    if (!source || !copied)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to copy %s", from, file);
    else if (is_needed || access(source, F_OK) == 0)
        st = sn_file_load(&bytes, &len, source, err);
    if (st == SN_OK && bytes)
        st = sn_file_save(copied, bytes, len, err);
    sn_free(bytes);
    sn_free(source);
    sn_free(copied);
    return st;
}

enum sn_status sn_tokenizer_files_copy(const char *from, const char *to, const char *file,
                                       const char *name, struct sn_err *err)
{
    for (int i = 0; sn_tokenizer_companions[i]; i++)
        SN_TRY(copy(from, sn_tokenizer_companions[i], to, sn_tokenizer_companions[i], false, err));
    return file ? copy(from, file, to, name, true, err) : SN_OK;
}

enum sn_status sn_tokenizer_files_verify(const struct sn_tokenizer_id *t, struct sn_err *err)
{
    char path[SN_TOKENIZER_FOLDER_MAX + SN_TOKENIZER_NAME_MAX];
    char *bytes;
    size_t len;
    (void)snprintf(path, sizeof(path), "%s/%s", t->folder, t->file);
    if (!t->folder[0] || access(path, F_OK) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s/%s: the tokenizer's file (xxh3 %016" PRIx64
                       ") is not there; put it in its place",
                       t->folder[0] ? t->folder : ".", t->file, t->hash);
    SN_TRY(sn_file_load(&bytes, &len, path, err));
    uint64_t hash = sn_hash64(bytes, len);
    sn_free(bytes);
    if (hash == t->hash)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: is not the tokenizer that the tokens are of (xxh3 %016" PRIx64
                   ", not %016" PRIx64 "); put that one in its place",
                   path, hash, t->hash);
}

/* All of it under another name first. */
static enum sn_status put(const struct sn_tokenizer_id *t, const char *to, const char *dir,
                          struct sn_err *err)
{
    struct sn_err ignored;
    char *tmp = sn_format("%s.tmp.%d", to, (int)getpid());
    if (!tmp)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", to);
    enum sn_status st = sn_dir_make(tmp, err);
    if (st == SN_OK)
        st = sn_tokenizer_files_copy(t->folder, tmp, t->file, t->file, err);
    if (st == SN_OK)
        st = sn_dir_sync(tmp, err);
    if (st == SN_OK && rename(tmp, to) != 0 && errno != EEXIST && errno != ENOTEMPTY)
        st = sn_file_fail(err, tmp, "rename to its final name");
    if (st == SN_OK)
        st = sn_dir_sync(dir, err);
    (void)sn_dir_remove(tmp, &ignored); /* after a failure, or where another was faster */
    sn_free(tmp);
    return st;
}

enum sn_status sn_tokenizer_files_keep(const struct sn_tokenizer_id *t, const char *dir,
                                       struct sn_err *err)
{
    char *to = sn_tokenizer_files_folder(dir, t->hash);
    enum sn_status st = SN_OK;
    if (!to)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to keep a tokenizer", dir);
    if (access(to, F_OK) != 0)
        st = sn_tokenizer_files_verify(t, err);
    if (st == SN_OK && access(to, F_OK) != 0)
        st = put(t, to, dir, err);
    sn_free(to);
    return st;
}

enum sn_status sn_tokenizer_files_check(const struct sn_tokenizer_id *had,
                                        const struct sn_tokenizer_id *has, const char *step_dir,
                                        struct sn_err *err)
{
    if (!had->file[0] || !has->file[0] || had->hash == has->hash)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: was trained with the tokenizer %s (xxh3 %016" PRIx64
                   "), but the data of this run is of %s (xxh3 %016" PRIx64
                   "); tokenize it with the first, or begin anew with another run.output",
                   step_dir, had->file, had->hash, has->file, has->hash);
}
