/*
 * tokenize.c - which parts there are, which are missing, and all of them put together.
 *
 * DIR/tokenize.jsonl is the record: its first line says of what the tokens are made, each other one
 * that a part is done. It is appended to when the part has its name.
 */
#include "lib/data/tokenize.h"

#include "lib/base/directory.h"
#include "lib/base/hash.h"
#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"
#include "lib/data/tokenize_part.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    const struct sn_tokenize *want;
    struct sn_tokenizer *tokenizer;
    struct sn_texts_list files;
    struct sn_encoding how;
    struct sn_encoders *encoders;
    struct sn_tokenized *out;
    char *record, *prefix; /* DIR/tokenize.jsonl, DIR/tokens */
    bool *done;            /* by file */
    uint64_t made_of;      /* hash of all that decides the tokens */
    int dtype;
};

static enum sn_status no_memory(const struct job *j, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for the work", j->want->out);
}

/* --- what the tokens are made of -------------------------------------------------------------- */

static enum sn_status find_token(const struct job *j, const char *text, int32_t *id,
                                 struct sn_err *err)
{
    *id = text ? sn_tokenizer_find(j->tokenizer, text, strlen(text)) : -1;
    if (text && *id < 0)
        return sn_fail(err, SN_EINPUT, "%s: has no token '%s'", j->want->tokenizer, text);
    return SN_OK;
}

static enum sn_status hash_work(struct job *j, struct sn_err *err)
{
    const struct sn_encoding *how = &j->how;
    struct sn_str text = {0};
    sn_str_add(&text, "%016" PRIx64 " %d %d %d %d %s\n", sn_tokenizer_hash(j->tokenizer),
               how->special, how->begin, how->end, (int)j->want->documents, j->want->field);
    for (int i = 0; i < j->files.n; i++)
        sn_str_add(&text, "%s\n", j->files.list[i].path);
    if (text.failed) {
        sn_str_fini(&text);
        return no_memory(j, err);
    }
    j->made_of = sn_hash64(text.p, text.len);
    sn_str_fini(&text);
    return SN_OK;
}

/* --- the record ------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The token behind each document: the one that was asked for, or the post-processor's; -1: none. */
static int32_t last_token(const struct job *j)
{
    const struct sn_ids *before, *behind;
    sn_tokenizer_around(j->tokenizer, &before, &behind);
    return j->how.end >= 0                     ? j->how.end
           : j->how.special && behind->len > 0 ? behind->p[behind->len - 1]
                                               : -1;
}

static enum sn_status begin_record(struct job *j, struct sn_err *err)
{
    struct sn_str line = {0};
    char hash[20], made[20];
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, sn_tokenizer_hash(j->tokenizer));
    (void)snprintf(made, sizeof(made), "%016" PRIx64, j->made_of);
    sn_jsonl_text(&line, "tokenizer", base_name(j->want->tokenizer));
    sn_jsonl_text(&line, "tokenizer_xxh3", hash);
    sn_jsonl_int(&line, "vocab", sn_tokenizer_size(j->tokenizer));
    sn_jsonl_int(&line, "begin", j->how.begin);
    sn_jsonl_int(&line, "end", last_token(j));
    sn_jsonl_bool(&line, "special", j->how.special);
    sn_jsonl_text(&line, "made_of", made);
    return sn_jsonl_append(j->record, &line, err);
}

static enum sn_status note(struct job *j, int part, int64_t bytes, int64_t skipped,
                           struct sn_err *err)
{
    struct sn_str line = {0};
    sn_jsonl_int(&line, "part", part);
    sn_jsonl_text(&line, "file", part < j->files.n ? j->files.list[part].path : j->prefix);
    sn_jsonl_int(&line, "file_bytes", part < j->files.n ? j->files.list[part].bytes : 0);
    sn_jsonl_int(&line, "bytes", bytes);
    sn_jsonl_int(&line, "skipped", skipped);
    return sn_jsonl_append(j->record, &line, err);
}

static enum sn_status read_lines(struct job *j, struct sn_jsonl *f, struct sn_err *err)
{
    struct sn_json line;
    char made[20], want[20];
    (void)snprintf(want, sizeof(want), "%016" PRIx64, j->made_of);
    if (!sn_jsonl_next(f, &line))
        return begin_record(j, err);
    sn_json_get_text(line, "made_of", made, sizeof(made));
    if (strcmp(made, want) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: was begun with another tokenizer, other files or other options; name "
                       "another --out, or remove it",
                       j->want->out);
    bool changed = false;
    while (sn_jsonl_next(f, &line)) {
        int64_t part = sn_json_get_integer(line, "part", -1);
        if (part < 0 || part > j->files.n)
            continue;
        bool is_file = part < j->files.n;
        if (is_file && sn_json_get_integer(line, "file_bytes", -1) != j->files.list[part].bytes) {
            changed = true; /* it is read anew */
            continue;
        }
        j->out->bytes += sn_json_get_integer(line, "bytes", 0);
        j->out->skipped += sn_json_get_integer(line, "skipped", 0);
        j->out->kept += is_file && !j->done[part];
        j->done[part] = true;
    }
    if (changed && j->done[j->files.n])
        return sn_fail(err, SN_EINPUT,
                       "%s: is done, and files changed since; name another --out, or remove it",
                       j->want->out);
    return SN_OK;
}

static enum sn_status read_record(struct job *j, struct sn_err *err)
{
    struct sn_jsonl f = {0};
    SN_TRY(sn_jsonl_open(&f, j->record, err));
    enum sn_status st = read_lines(j, &f, err);
    sn_jsonl_close(&f);
    return st;
}

/* --- parts ------------------------------------------------------------------------------------ */

static enum sn_status write_part(struct job *j, int i, const char *prefix, struct sn_err *err)
{
    struct sn_part part = {.want = j->want,
                           .file = &j->files.list[i],
                           .encoders = j->encoders,
                           .may_skip = j->want->skip_bad - j->out->skipped};
    sn_encoders_field(j->encoders, part.file->is_json ? j->want->field : NULL);
    SN_TRY(sn_data_writer_create(&part.writer, prefix, j->dtype, err));
    enum sn_status st = sn_part_write(&part, err);
    if (st == SN_OK)
        st = sn_data_writer_finish(part.writer, err);
    if (st == SN_OK)
        st = note(j, i, part.bytes, part.skipped, err);
    j->out->bytes += part.bytes;
    j->out->skipped += part.skipped;
    sn_data_writer_destroy(part.writer);
    return st;
}

static char *part_prefix(const struct job *j, int i)
{
    return sn_format("%s/part-%06d", j->want->out, i);
}

static enum sn_status write_parts(struct job *j, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    for (int i = 0; i < j->files.n && st == SN_OK; i++) {
        if (j->done[i])
            continue;
        char *prefix = part_prefix(j, i);
        st = prefix ? write_part(j, i, prefix, err) : no_memory(j, err);
        sn_free(prefix);
    }
    return st;
}

static void remove_pair(const char *prefix)
{
    char *bin = sn_format("%s.bin", prefix), *idx = sn_format("%s.idx", prefix);
    if (idx)
        (void)unlink(idx); /* what stays does no harm */
    if (bin)
        (void)unlink(bin);
    sn_free(bin);
    sn_free(idx);
}

/* --- putting parts together ------------------------------------------------------------------- */

static enum sn_status copy_part(const struct job *j, int i, struct sn_data_writer *to,
                                struct sn_err *err)
{
    struct sn_data *d = NULL;
    struct sn_data_info info;
    char *prefix = part_prefix(j, i);
    enum sn_status st = prefix ? sn_data_open(&d, prefix, err) : no_memory(j, err);
    sn_free(prefix);
    if (st != SN_OK)
        return st;
    sn_data_info(d, &info);
    sn_data_read_in_order(d);
    for (int64_t k = 0; k < info.documents && st == SN_OK; k++)
        st = sn_data_writer_copy(to, &(struct sn_data_document){.data = d, .number = k}, err);
    sn_data_close(d);
    return st;
}

static void remove_parts(const struct job *j)
{
    for (int i = 0; i < j->files.n; i++) {
        char *prefix = part_prefix(j, i);
        if (prefix)
            remove_pair(prefix);
        sn_free(prefix);
    }
}

static enum sn_status join_parts(struct job *j, struct sn_err *err)
{
    struct sn_data_writer *to = NULL;
    enum sn_status st = sn_data_writer_create(&to, j->prefix, j->dtype, err);
    for (int i = 0; i < j->files.n && st == SN_OK; i++)
        st = copy_part(j, i, to, err);
    if (st == SN_OK) {
        sn_data_writer_info(to, &j->out->info);
        if (j->out->info.tokens == 0)
            st = sn_fail(err, SN_EINPUT, "%s: no tokens in any of the files", j->want->out);
    }
    if (st == SN_OK)
        st = sn_data_writer_finish(to, err);
    if (st == SN_OK)
        st = note(j, j->files.n, 0, 0, err);
    if (st == SN_OK)
        remove_parts(j);
    sn_data_writer_destroy(to);
    return st;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status finished(struct job *j, struct sn_err *err)
{
    struct sn_data *d = NULL;
    SN_TRY(sn_data_open(&d, j->prefix, err));
    sn_data_info(d, &j->out->info);
    sn_data_close(d);
    j->out->was_done = true;
    return SN_OK;
}

static enum sn_status work(struct job *j, struct sn_err *err)
{
    SN_TRY(sn_tokenizer_load(&j->tokenizer, j->want->tokenizer, err));
    if (!sn_tokenizer_id_is_name(base_name(j->want->tokenizer)))
        return sn_fail(err, SN_EINPUT,
                       "--tokenizer: '%s' is no name that goes along with the tokens; rename it, "
                       "with letters, digits and signs of ASCII",
                       base_name(j->want->tokenizer));
    SN_TRY(sn_texts_find(&j->files, j->want->inputs, j->want->n_inputs, err));
    SN_TRY(find_token(j, j->want->begin, &j->how.begin, err));
    SN_TRY(find_token(j, j->want->end, &j->how.end, err));
    j->how.tokenizer = j->tokenizer;
    j->how.special = j->want->special;
    int64_t vocab = sn_tokenizer_size(j->tokenizer);
    j->dtype = vocab <= 256 ? SN_TOK_U8 : vocab < 65500 ? SN_TOK_U16 : SN_TOK_I32;
    j->out->files = j->files.n;
    j->record = sn_format("%s/tokenize.jsonl", j->want->out);
    j->prefix = sn_format("%s/tokens", j->want->out);
    j->done = sn_alloc_n((size_t)j->files.n + 1, sizeof(*j->done));
    if (!j->record || !j->prefix || !j->done)
        return no_memory(j, err);
    SN_TRY(hash_work(j, err));
    SN_TRY(sn_directory_make(j->want->out, "--out", err));
    SN_TRY(read_record(j, err));
    if (j->done[j->files.n])
        return finished(j, err);
    SN_TRY(sn_data_tokenizer_keep(j->want->tokenizer, j->want->out, err));
    SN_TRY(sn_encoders_create(&j->encoders, &j->how, j->want->workers, err));
    SN_TRY(write_parts(j, err));
    return join_parts(j, err);
}

enum sn_status sn_tokenize(const struct sn_tokenize *want, struct sn_tokenized *out,
                           struct sn_err *err)
{
    struct job j = {.want = want, .out = out};
    *out = (struct sn_tokenized){0};
    enum sn_status st = work(&j, err);
    sn_encoders_destroy(j.encoders);
    sn_tokenizer_destroy(j.tokenizer);
    sn_texts_list_fini(&j.files);
    sn_free(j.record);
    sn_free(j.prefix);
    sn_free(j.done);
    return st;
}

/* --- text of tokens --------------------------------------------------------------------------- */

enum sn_status sn_tokenize_text(const char *prefix, const int64_t *tokens, int64_t n,
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
