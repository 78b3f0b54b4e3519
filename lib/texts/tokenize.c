/*
 * tokenize.c - which parts there are, which are missing, and all of them put together.
 *
 * DIR/tokenize.jsonl is the record: its first line says of what the tokens are made, each other one
 * that a part is done. Several processes may share the parts: until all are put together, that a part is
 * done stands in a file of its own, DIR/part-N.jsonl, written when the part has its name; who puts them
 * together has the lock of DIR/join.lock, and gathers the lines.
 */
#include "lib/texts/tokenize.h"

#include "lib/base/directory.h"
#include "lib/base/hash.h"
#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"
#include "lib/texts/tokenize_part.h"

#include <errno.h>
#include <fcntl.h>
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
    bool *done, *noted;    /* by file, at the end the whole; noted: in the record */
    int *owner;            /* by file: which share */
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

/* Under its name only where nobody else was faster: the first of several processes begins it. */
static enum sn_status create_record(const struct job *j, struct sn_str *line, struct sn_err *err)
{
    char *tmp = sn_format("%s.tmp.%d", j->record, (int)getpid());
    if (!tmp)
        return no_memory(j, err);
    enum sn_status st = sn_jsonl_append(tmp, line, err);
    if (st == SN_OK && link(tmp, j->record) != 0 && errno != EEXIST &&
        rename(tmp, j->record) != 0) /* a file system without links */
        st = sn_write_fail(err, j->record, errno);
    (void)unlink(tmp);
    sn_free(tmp);
    return st;
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
    return create_record(j, &line, err);
}

static char *part_prefix(const struct job *j, int i)
{
    return sn_format("%s/part-%06d", j->want->out, i);
}

static char *part_note(const struct job *j, int i)
{
    return sn_format("%s/part-%06d.jsonl", j->want->out, i);
}

struct part_said {
    int64_t bytes, skipped;
};

static enum sn_status note(const struct job *j, const char *path, int part, struct part_said said,
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
static int read_part(const struct job *j, struct sn_json line, struct part_said *said)
{
    int64_t part = sn_json_get_integer(line, "part", -1);
    if (part < 0 || part > j->files.n)
        return -1;
    if (part < j->files.n &&
        sn_json_get_integer(line, "file_bytes", -1) != j->files.list[part].bytes)
        return -1; /* it is read anew */
    *said = (struct part_said){sn_json_get_integer(line, "bytes", 0),
                               sn_json_get_integer(line, "skipped", 0)};
    return (int)part;
}

static void take_part(struct job *j, int part, struct part_said said)
{
    j->out->bytes += j->done[part] ? 0 : said.bytes;
    j->out->skipped += j->done[part] ? 0 : said.skipped;
    j->done[part] = true;
}

static enum sn_status read_lines(struct job *j, struct sn_jsonl *f, bool *has_head,
                                 struct sn_err *err)
{
    struct sn_json line;
    struct part_said said;
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
        take_part(j, part, said);
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
static enum sn_status read_note(struct job *j, int i, struct sn_err *err)
{
    struct sn_jsonl f = {0};
    struct sn_json line;
    struct part_said said;
    char *path = part_note(j, i);
    enum sn_status st = path ? sn_jsonl_open(&f, path, err) : no_memory(j, err);
    while (st == SN_OK && sn_jsonl_next(&f, &line))
        if (read_part(j, line, &said) == i)
            take_part(j, i, said);
    sn_jsonl_close(&f);
    sn_free(path);
    return st;
}

/* Which parts are done, and what came of them; the record is begun where there is none. */
static enum sn_status look(struct job *j, struct sn_err *err)
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
            st = read_note(j, i, err);
    return st;
}

/* --- parts ------------------------------------------------------------------------------------ */

static enum sn_status write_part(struct job *j, int i, const char *prefix, const char *note_path,
                                 struct sn_err *err)
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
    if (st == SN_OK) {
        struct part_said said = {part.bytes, part.skipped};
        (void)unlink(note_path); /* of a file that has changed since */
        st = note(j, note_path, i, said, err);
        take_part(j, i, said);
    }
    sn_data_writer_destroy(part.writer);
    return st;
}

/* Each file to the share with the fewest bytes so far: all processes come to the same result. */
static enum sn_status share_out(struct job *j, struct sn_err *err)
{
    int shares = j->want->shares > 1 ? j->want->shares : 1;
    int64_t *bytes = sn_alloc_n((size_t)shares, sizeof(*bytes));
    if (!bytes)
        return no_memory(j, err);
    for (int i = 0; i < j->files.n; i++) {
        int least = 0;
        for (int k = 1; k < shares; k++)
            least = bytes[k] < bytes[least] ? k : least;
        j->owner[i] = least;
        bytes[least] += j->files.list[i].bytes + 1;
    }
    sn_free(bytes);
    return SN_OK;
}

static enum sn_status write_parts(struct job *j, struct sn_err *err)
{
    enum sn_status st = share_out(j, err);
    for (int i = 0; i < j->files.n && st == SN_OK; i++) {
        if (j->done[i] || j->owner[i] != j->want->share)
            continue;
        char *prefix = part_prefix(j, i), *said = part_note(j, i);
        st = prefix && said ? write_part(j, i, prefix, said, err) : no_memory(j, err);
        sn_free(prefix);
        sn_free(said);
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

/* The note of the first part goes last: while it is there, others may be. */
static void remove_parts(const struct job *j)
{
    for (int i = j->files.n - 1; i >= 0; i--) {
        char *prefix = part_prefix(j, i), *said = part_note(j, i);
        if (prefix)
            remove_pair(prefix);
        if (said)
            (void)unlink(said);
        sn_free(prefix);
        sn_free(said);
    }
}

/* The lines of all parts, then that all is done. */
static enum sn_status gather_notes(struct job *j, struct sn_err *err)
{
    for (int i = 0; i < j->files.n; i++) {
        struct part_said before = {j->out->bytes, j->out->skipped};
        if (j->noted[i])
            continue;
        j->done[i] = false; /* so that it counts once more, which tells what it is */
        SN_TRY(read_note(j, i, err));
        struct part_said said = {j->out->bytes - before.bytes, j->out->skipped - before.skipped};
        j->out->bytes = before.bytes;
        j->out->skipped = before.skipped;
        SN_TRY(note(j, j->record, i, said, err));
    }
    return note(j, j->record, j->files.n, (struct part_said){0}, err);
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
        st = gather_notes(j, err);
    j->done[j->files.n] = st == SN_OK;
    if (st == SN_OK)
        remove_parts(j);
    sn_data_writer_destroy(to);
    return st;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status finished(struct job *j, struct sn_err *err)
{
    struct sn_data *d = NULL;
    char *left = part_note(j, 0);
    if (left && access(left, F_OK) == 0) /* who put them together was killed */
        remove_parts(j);
    sn_free(left);
    SN_TRY(sn_data_open(&d, j->prefix, err));
    sn_data_info(d, &j->out->info);
    sn_data_close(d);
    j->out->was_done = true;
    return SN_OK;
}

static int count_done(const struct job *j)
{
    int n = 0;
    for (int i = 0; i < j->files.n; i++)
        n += j->done[i];
    return n;
}

/* With the lock, which only they try to get who have seen that no part lacks: so whoever has it joins
 * them. Where the file system has no locks, two may, and write the same. */
static enum sn_status join_locked(struct job *j, int fd, struct sn_err *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    j->out->is_joined_by_other =
        fcntl(fd, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN);
    if (j->out->is_joined_by_other)
        return SN_OK;
    SN_TRY(look(j, err)); /* another may have been faster */
    if (j->done[j->files.n])
        return finished(j, err);
    if (j->out->skipped > j->want->skip_bad)
        return sn_fail(
            err, SN_EINPUT,
            "%s: %lld documents were left out in all; allow as many with --skip-bad, and "
            "the same command puts the parts together",
            j->want->out, (long long)j->out->skipped);
    return join_parts(j, err);
}

/* Put the parts together, unless some lack. */
static enum sn_status join(struct job *j, struct sn_err *err)
{
    SN_TRY(look(j, err));
    j->out->left = j->files.n - count_done(j);
    if (j->out->left > 0)
        return SN_OK;
    char *path = sn_format("%s/join.lock", j->want->out);
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    enum sn_status st = fd >= 0 ? join_locked(j, fd, err)
                        : path  ? sn_write_fail(err, path, errno)
                                : no_memory(j, err);
    if (st == SN_OK && !j->out->is_joined_by_other)
        (void)unlink(path);
    if (fd >= 0)
        (void)close(fd);
    sn_free(path);
    return st;
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
    j->noted = sn_alloc_n((size_t)j->files.n + 1, sizeof(*j->noted));
    j->owner = sn_alloc_n((size_t)j->files.n + 1, sizeof(*j->owner));
    if (!j->record || !j->prefix || !j->done || !j->noted || !j->owner)
        return no_memory(j, err);
    SN_TRY(hash_work(j, err));
    SN_TRY(sn_directory_make(j->want->out, "--out", err));
    SN_TRY(look(j, err));
    j->out->kept = count_done(j);
    if (j->done[j->files.n])
        return finished(j, err);
    SN_TRY(sn_data_tokenizer_keep(j->want->tokenizer, j->want->out, err));
    SN_TRY(sn_encoders_create(&j->encoders, &j->how, j->want->workers, err));
    SN_TRY(write_parts(j, err));
    return join(j, err);
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
    sn_free(j.noted);
    sn_free(j.owner);
    return st;
}
