/*
 * tokenize_record.c - what is written down of a work: of what the tokens are made, and which parts are
 * done.
 */
#include "lib/texts/tokenize_inner.h"

#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum sn_status sn_job_no_memory(const struct sn_tokenize_job *j, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for the work", j->want->out);
}

const char *sn_job_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The token behind each document: the one that was asked for, or the post-processor's; -1: none. */
static int32_t last_token(const struct sn_tokenize_job *j)
{
    const struct sn_ids *before, *behind;
    sn_tokenizer_around(j->tokenizer, &before, &behind);
    const char *end = j->chat ? sn_chat_end_token(j->chat) : NULL;
    if (j->how.end < 0 && end)
        return sn_tokenizer_find(j->tokenizer, end, strlen(end)); /* that of a turn */
    return j->how.end >= 0                     ? j->how.end
           : j->how.special && behind->len > 0 ? behind->p[behind->len - 1]
                                               : -1;
}

/* Under its name only where nobody else was faster: the first of several processes begins it. */
static enum sn_status create_record(const struct sn_tokenize_job *j, struct sn_str *line, struct sn_err *err)
{
    char *tmp = sn_format("%s.tmp.%d", j->record, (int)getpid());
    if (!tmp)
        return sn_job_no_memory(j, err);
    enum sn_status st = sn_jsonl_append(tmp, line, err);
    if (st == SN_OK && link(tmp, j->record) != 0 && errno != EEXIST &&
        rename(tmp, j->record) != 0) /* a file system without links */
        st = sn_write_fail(err, j->record, errno);
    (void)unlink(tmp);
    sn_free(tmp);
    return st;
}

static enum sn_status begin_record(struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_str line = {0};
    char hash[20], made[20];
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, sn_tokenizer_hash(j->tokenizer));
    (void)snprintf(made, sizeof(made), "%016" PRIx64, j->made_of);
    sn_jsonl_text(&line, "tokenizer", sn_job_base_name(j->want->tokenizer));
    sn_jsonl_text(&line, "tokenizer_xxh3", hash);
    sn_jsonl_int(&line, "vocab", sn_tokenizer_size(j->tokenizer));
    sn_jsonl_int(&line, "begin", j->how.begin);
    sn_jsonl_int(&line, "end", last_token(j));
    sn_jsonl_bool(&line, "special", j->how.special);
    sn_jsonl_text(&line, "made_of", made);
    return create_record(j, &line, err);
}

char *sn_job_part_prefix(const struct sn_tokenize_job *j, int i)
{
    return sn_format("%s/part-%06d", j->want->out, i);
}

char *sn_job_part_note(const struct sn_tokenize_job *j, int i)
{
    return sn_format("%s/part-%06d.jsonl", j->want->out, i);
}

enum sn_status sn_job_note(const struct sn_tokenize_job *j, const char *path, int part, struct sn_part_said said,
                           struct sn_err *err)
{
    struct sn_str line = {0};
    bool is_file = part < j->files.n;
    sn_jsonl_int(&line, "part", part);
    sn_jsonl_text(&line, "file", is_file ? j->files.list[part].path : j->prefix);
    sn_jsonl_int(&line, "file_bytes", is_file ? j->files.list[part].bytes : 0);
    sn_jsonl_int(&line, "bytes", said.bytes);
    sn_jsonl_int(&line, "skipped", said.skipped);
    return sn_jsonl_append(path, &line, err);
}

/* What a line says of a part; -1: it is of none, or of a file that has changed since. */
static int read_part(const struct sn_tokenize_job *j, struct sn_json line, struct sn_part_said *said)
{
    int64_t part = sn_json_get_integer(line, "part", -1);
    if (part < 0 || part > j->files.n)
        return -1;
    if (part < j->files.n &&
        sn_json_get_integer(line, "file_bytes", -1) != j->files.list[part].bytes)
        return -1; /* it is read anew */
    *said = (struct sn_part_said){sn_json_get_integer(line, "bytes", 0),
                               sn_json_get_integer(line, "skipped", 0)};
    return (int)part;
}

void sn_job_take(struct sn_tokenize_job *j, int part, struct sn_part_said said)
{
    j->out->bytes += j->done[part] ? 0 : said.bytes;
    j->out->skipped += j->done[part] ? 0 : said.skipped;
    j->done[part] = true;
}

static enum sn_status read_lines(struct sn_tokenize_job *j, struct sn_jsonl *f, bool *has_head,
                                 struct sn_err *err)
{
    struct sn_json line;
    struct sn_part_said said;
    char made[20], want[20];
    int lines = 0;
    (void)snprintf(want, sizeof(want), "%016" PRIx64, j->made_of);
    *has_head = sn_jsonl_next(f, &line);
    if (!*has_head)
        return SN_OK;
    sn_json_get_text(line, "made_of", made, sizeof(made));
    if (strcmp(made, want) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: was begun with another tokenizer, other files or other options; name "
                       "another --out, or remove it",
                       j->want->out);
    for (int part; sn_jsonl_next(f, &line); lines++) {
        part = read_part(j, line, &said);
        if (part < 0)
            continue;
        sn_job_take(j, part, said);
        j->noted[part] = true;
    }
    for (int i = 0; i < j->files.n; i++)
        if (j->done[j->files.n] && !j->done[i])
            return sn_fail(err, SN_EINPUT,
                           "%s: is done, and files changed since; name another --out, or remove it",
                           j->want->out);
    return SN_OK;
}

/* What a process that wrote part i has left. */
enum sn_status sn_job_read_note(struct sn_tokenize_job *j, int i, struct sn_err *err)
{
    struct sn_jsonl f = {0};
    struct sn_json line;
    struct sn_part_said said;
    char *path = sn_job_part_note(j, i);
    enum sn_status st = path ? sn_jsonl_open(&f, path, err) : sn_job_no_memory(j, err);
    while (st == SN_OK && sn_jsonl_next(&f, &line))
        if (read_part(j, line, &said) == i)
            sn_job_take(j, i, said);
    sn_jsonl_close(&f);
    sn_free(path);
    return st;
}

/* Which parts are done, and what came of them; the record is begun where there is none. */
enum sn_status sn_job_look(struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_jsonl f = {0};
    bool has_head = false;
    j->out->bytes = j->out->skipped = 0;
    for (int i = 0; i <= j->files.n; i++)
        j->done[i] = j->noted[i] = false;
    SN_TRY(sn_jsonl_open(&f, j->record, err));
    enum sn_status st = read_lines(j, &f, &has_head, err);
    sn_jsonl_close(&f);
    if (st == SN_OK && !has_head)
        st = begin_record(j, err);
    for (int i = 0; i < j->files.n && st == SN_OK && !j->done[j->files.n]; i++)
        if (!j->done[i])
            st = sn_job_read_note(j, i, err);
    return st;
}
