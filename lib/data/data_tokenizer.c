#include "lib/data/data_tokenizer.h"

#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/data/data_format.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the record ------------------------------------------------------------------------------- */

static enum sn_status read_head(struct sn_tokenizer_id *out, struct sn_json line,
                                const char *record, struct sn_err *err)
{
    char hash[20], *end;
    sn_json_get_text(line, "tokenizer", out->file, sizeof(out->file));
    sn_json_get_text(line, "tokenizer_xxh3", hash, sizeof(hash));
    out->hash = strtoull(hash, &end, 16);
    out->vocab = sn_json_get_integer(line, "vocab", -1);
    out->begin = (int32_t)sn_json_get_integer(line, "begin", -1);
    out->end = (int32_t)sn_json_get_integer(line, "end", -1);
    (void)sn_json_bool(sn_json_get(line, "special"), &out->special);
    if (!sn_tokenizer_id_is_name(out->file) || strlen(hash) != 16 || *end || out->vocab < 1)
        return sn_fail(err, SN_EINPUT,
                       "%s: its first line names no tokenizer; tokenize anew, or move it away",
                       record);
    return SN_OK;
}

enum sn_status sn_data_tokenizer_find(struct sn_tokenizer_id *out, const char *prefix,
                                      struct sn_err *err)
{
    struct sn_jsonl f = {0};
    struct sn_json line;
    char record[SN_TOKENIZER_FOLDER_MAX + 32];
    const char *slash = strrchr(prefix, '/');
    *out = (struct sn_tokenizer_id){.begin = -1, .end = -1};
    (void)snprintf(out->folder, sizeof(out->folder), "%.*s", slash ? (int)(slash - prefix) : 1,
                   slash ? prefix : ".");
    (void)snprintf(record, sizeof(record), "%s/tokenize.jsonl", out->folder);
    enum sn_status st = sn_jsonl_open(&f, record, err);
    if (st == SN_OK && sn_jsonl_next(&f, &line))
        st = read_head(out, line, record, err);
    sn_jsonl_close(&f);
    return st;
}

/* --- a run ------------------------------------------------------------------------------------ */

/* The first one known is the run's, found by `first`; every other is the same. */
static enum sn_status take(struct sn_tokenizer_id *out, const char **first, const char *key,
                           const char *prefix, const struct sn_config *c, struct sn_err *err)
{
    struct sn_tokenizer_id t;
    SN_TRY(sn_data_tokenizer_find(&t, prefix, err));
    if (t.file[0] && out->file[0] && t.hash != out->hash)
        return sn_fail(err, SN_EINPUT,
                       "%s: %s: %s is of the tokenizer %s (xxh3 %016" PRIx64
                       "), but %s is of %s (xxh3 %016" PRIx64 "); tokenize both with one",
                       c->path, key, prefix, t.file, t.hash, *first, out->file, out->hash);
    if (t.file[0] && !out->file[0]) {
        *out = t;
        *first = c->data.train.is_list ? prefix : key;
    }
    return SN_OK;
}

enum sn_status sn_data_tokenizer_of_run(struct sn_tokenizer_id *out, const struct sn_config *c,
                                        struct sn_err *err)
{
    const char *first = "";
    *out = (struct sn_tokenizer_id){.begin = -1, .end = -1};
    for (int i = 0; i < c->data.train.n; i++)
        SN_TRY(take(out, &first, "data.train", sn_set_path(&c->data.train, i), c, err));
    for (int i = 0; i < sn_valid_sets(&c->data); i++)
        SN_TRY(take(out, &first, "data.valid", sn_valid_set(&c->data, i).path, c, err));
    if (out->file[0] && out->vocab > c->model.vocab)
        return sn_fail(err, SN_EINPUT,
                       "%s: model.vocab: %d, but the tokenizer of %s, %s, has %" PRId64
                       " tokens; want at least as many",
                       c->path, c->model.vocab, first, out->file, out->vocab);
    return SN_OK;
}

enum sn_status sn_data_tokenizer_load(struct sn_tokenizer **out, const struct sn_tokenizer_id *t,
                                      struct sn_err *err)
{
    struct sn_tokenizer *loaded = NULL;
    char path[SN_TOKENIZER_FOLDER_MAX + SN_TOKENIZER_NAME_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", t->folder, t->file);
    SN_TRY(sn_tokenizer_load(&loaded, path, err));
    if (sn_tokenizer_hash(loaded) != t->hash) {
        uint64_t now = sn_tokenizer_hash(loaded);
        sn_tokenizer_destroy(loaded);
        return sn_fail(err, SN_EINPUT,
                       "%s: is not the tokenizer that the tokens are of (xxh3 %016" PRIx64
                       ", not %016" PRIx64 "); put that one in its place",
                       path, now, t->hash);
    }
    *out = loaded;
    return SN_OK;
}

/* --- text of tokens --------------------------------------------------------------------------- */

enum sn_status sn_data_tokenizer_text(const char *prefix, const int64_t *tokens, int64_t n,
                                      bool *has_text, struct sn_bytes *out, struct sn_err *err)
{
    struct sn_tokenizer_id of;
    struct sn_tokenizer *t = NULL;
    struct sn_ids ids = {0};
    SN_TRY(sn_data_tokenizer_find(&of, prefix, err));
    *has_text = of.file[0] != '\0';
    if (!*has_text)
        return SN_OK;
    SN_TRY(sn_data_tokenizer_load(&t, &of, err));
    enum sn_status st = SN_OK;
    for (int64_t i = 0; i < n && st == SN_OK; i++)
        if (!sn_ids_push(&ids, (int32_t)tokens[i]))
            st = sn_fail(err, SN_ENOMEM, "%s: no memory for its text", prefix);
    if (st == SN_OK)
        st = sn_decode(t, ids.p, ids.len, false, out, err);
    sn_ids_fini(&ids);
    sn_tokenizer_destroy(t);
    return st;
}

/* --- going along ------------------------------------------------------------------------------ */

static enum sn_status copy_stream(FILE *from, const char *to, struct sn_err *err)
{
    char block[4096];
    size_t n;
    FILE *f = fopen(to, "w");
    bool good = f != NULL;
    while (good && (n = fread(block, 1, sizeof(block), from)) > 0)
        good = fwrite(block, 1, n, f) == n;
    good = good && !ferror(from);
    if (f)
        good = fclose(f) == 0 && good;
    return good ? SN_OK : sn_write_fail(err, to, errno);
}

static enum sn_status keep_file(const char *path, const char *directory, struct sn_err *err)
{
    const char *slash = strrchr(path, '/');
    char *to = sn_format("%s/%s", directory, slash ? slash + 1 : path);
    struct stat a, b;
    enum sn_status st = to ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for a name", path);
    bool is_same = to && stat(path, &a) == 0 && stat(to, &b) == 0 && a.st_dev == b.st_dev &&
                   a.st_ino == b.st_ino;
    FILE *from = to && !is_same ? fopen(path, "r") : NULL;
    if (st == SN_OK && !is_same)
        st = from ? copy_stream(from, to, err) : sn_data_read_fail(err, path, errno);
    if (from)
        (void)fclose(from); /* only read from */
    sn_free(to);
    return st;
}

/* With what stands beside it and is of it, where its name is the field's. */
enum sn_status sn_data_tokenizer_keep(const char *path, const char *directory, struct sn_err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    enum sn_status st = keep_file(path, directory, err);
    bool is_fields = strcmp(name, "tokenizer.json") == 0 || strcmp(name, "tokenizer.model") == 0;
    for (int i = 0; is_fields && sn_tokenizer_companions[i] && st == SN_OK; i++) {
        char *beside = sn_format("%.*s%s", (int)(name - path), path, sn_tokenizer_companions[i]);
        if (!beside)
            st = sn_fail(err, SN_ENOMEM, "%s: no memory for a name", path);
        else if (access(beside, F_OK) == 0)
            st = keep_file(beside, directory, err);
        sn_free(beside);
    }
    return st;
}

/* The record's head alone: what it says of parts is of other files. */
static enum sn_status write_head(const struct sn_tokenizer_id *t, const char *folder,
                                 struct sn_err *err)
{
    struct sn_str line = {0};
    char hash[20], record[SN_PATH_MAX + 32];
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, t->hash);
    (void)snprintf(record, sizeof(record), "%s/tokenize.jsonl", folder);
    sn_jsonl_text(&line, "tokenizer", t->file);
    sn_jsonl_text(&line, "tokenizer_xxh3", hash);
    sn_jsonl_int(&line, "vocab", t->vocab);
    sn_jsonl_int(&line, "begin", t->begin);
    sn_jsonl_int(&line, "end", t->end);
    sn_jsonl_bool(&line, "special", t->special);
    return sn_jsonl_append(record, &line, err);
}

/* Is it PREFIX.idx, or that of a part of it (split)? */
static bool is_own(const char *name, const char *base)
{
    size_t n = strlen(base);
    return strncmp(name, base, n) == 0 && (name[n] == '.' || name[n] == '-');
}

/* A record is one for all token files of its folder. */
static enum sn_status refuse_strangers(const struct sn_tokenizer_id *t, const char *folder,
                                       const char *base, struct sn_err *err)
{
    DIR *d = opendir(folder);
    enum sn_status st = SN_OK;
    for (struct dirent *e; d && st == SN_OK && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 4 && strcmp(e->d_name + n - 4, ".idx") == 0 && !is_own(e->d_name, base))
            st = sn_fail(err, SN_EINPUT,
                         "%s/%s: tokens of a tokenizer that nobody knows are there, and these are of "
                         "%s; name another folder",
                         folder, e->d_name, t->file);
    }
    if (d)
        (void)closedir(d);
    return st;
}

enum sn_status sn_data_tokenizer_take_along(const struct sn_tokenizer_id *t, const char *prefix,
                                            bool try, struct sn_err *err)
{
    struct sn_tokenizer_id there;
    char folder[SN_PATH_MAX];
    const char *slash = strrchr(prefix, '/');
    SN_TRY(sn_data_tokenizer_find(&there, prefix, err));
    if (t->file[0] && there.file[0] && t->hash != there.hash)
        return sn_fail(err, SN_EINPUT,
                       "%s: tokens of the tokenizer %s (xxh3 %016" PRIx64
                       ") are there, and these are of %s (xxh3 %016" PRIx64
                       "); name another folder",
                       prefix, there.file, there.hash, t->file, t->hash);
    if (!t->file[0] && there.file[0])
        return sn_fail(err, SN_EINPUT,
                       "%s: tokens of the tokenizer %s are there, and nobody knows whose these are; "
                       "name another folder",
                       prefix, there.file);
    if (!t->file[0] || there.file[0])
        return SN_OK;
    (void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - prefix) : 1,
                   slash ? prefix : ".");
    SN_TRY(refuse_strangers(t, folder, slash ? slash + 1 : prefix, err));
    if (try)
        return SN_OK;
    char path[SN_TOKENIZER_FOLDER_MAX + SN_TOKENIZER_NAME_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", t->folder, t->file);
    SN_TRY(sn_data_tokenizer_keep(path, folder, err));
    return write_head(t, folder, err);
}
