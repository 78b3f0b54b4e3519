/*
 * tokenize.c - which parts there are, which are missing, and all of them put together.
 *
 * DIR/tokenize.jsonl is the record: its first line says of what the tokens are made, each other one
 * that a part is done. Several processes may share the parts: until all are put together, that a part is
 * done stands in a file of its own, DIR/part-N.jsonl, written when the part has its name; who puts them
 * together has the lock of DIR/join.lock, and gathers the lines.
 */
#include "lib/texts/tokenize_inner.h"

#include "lib/base/directory.h"
#include "lib/base/hash.h"
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

/* --- what the tokens are made of -------------------------------------------------------------- */

static enum sn_status find_token(const struct sn_tokenize_job *j, const char *text, int32_t *id,
                                 struct sn_err *err)
{
    *id = text ? sn_tokenizer_find(j->tokenizer, text, strlen(text)) : -1;
    if (text && *id < 0)
        return sn_fail(err, SN_EINPUT, "%s: has no token '%s'", j->want->tokenizer, text);
    return SN_OK;
}

static enum sn_status hash_work(struct sn_tokenize_job *j, struct sn_err *err)
{
    const struct sn_encoding *how = &j->how;
    struct sn_str text = {0};
    sn_str_add(&text, "%016" PRIx64 " %d %d %d %d %s\n", sn_tokenizer_hash(j->tokenizer),
               how->special, how->begin, how->end, (int)j->want->documents,
               j->want->field ? j->want->field : "");
    if (j->chat)
        sn_str_add(&text, "chat %016" PRIx64 "\n", sn_chat_hash(j->chat));
    for (int i = 0; i < j->files.n; i++)
        sn_str_add(&text, "%s\n", j->files.list[i].path);
    if (text.failed) {
        sn_str_fini(&text);
        return sn_job_no_memory(j, err);
    }
    j->made_of = sn_hash64(text.p, text.len);
    sn_str_fini(&text);
    return SN_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

static enum sn_status write_part(struct sn_tokenize_job *j, int i, const char *prefix, const char *note_path,
                                 struct sn_err *err)
{
    struct sn_part part = {.want = j->want,
                           .file = &j->files.list[i],
                           .encoders = j->encoders,
                           .may_skip = j->want->skip_bad - j->out->skipped};
    sn_encoders_field(j->encoders, part.file->is_json ? j->want->field : NULL);
    SN_TRY(sn_data_writer_create(&part.writer, prefix, j->dtype, err));
    enum sn_status st = j->chat ? sn_data_writer_add_mask(part.writer, prefix, err) : SN_OK;
    if (st == SN_OK)
        st = sn_part_write(&part, err);
    if (st == SN_OK)
        st = sn_data_writer_finish(part.writer, err);
    if (st == SN_OK) {
        struct sn_part_said said = {part.bytes, part.skipped};
        (void)unlink(note_path); /* of a file that has changed since */
        st = sn_job_note(j, note_path, i, said, err);
        sn_job_take(j, i, said);
    }
    sn_data_writer_destroy(part.writer);
    return st;
}

/* Each file to the share with the fewest bytes so far: all processes come to the same result. */
static enum sn_status share_out(struct sn_tokenize_job *j, struct sn_err *err)
{
    int shares = j->want->shares > 1 ? j->want->shares : 1;
    int64_t *bytes = sn_alloc_n((size_t)shares, sizeof(*bytes));
    if (!bytes)
        return sn_job_no_memory(j, err);
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

static enum sn_status write_parts(struct sn_tokenize_job *j, struct sn_err *err)
{
    enum sn_status st = share_out(j, err);
    for (int i = 0; i < j->files.n && st == SN_OK; i++) {
        if (j->done[i] || j->owner[i] != j->want->share)
            continue;
        char *prefix = sn_job_part_prefix(j, i), *said = sn_job_part_note(j, i);
        st = prefix && said ? write_part(j, i, prefix, said, err) : sn_job_no_memory(j, err);
        sn_free(prefix);
        sn_free(said);
    }
    return st;
}

static void remove_pair(const char *prefix)
{
    char *bin = sn_format("%s.bin", prefix), *idx = sn_format("%s.idx", prefix);
    char *mask = sn_format("%s.mask", prefix);
    if (mask)
        (void)unlink(mask);
    if (idx)
        (void)unlink(idx); /* what stays does no harm */
    if (bin)
        (void)unlink(bin);
    sn_free(mask);
    sn_free(bin);
    sn_free(idx);
}

/* --- putting parts together ------------------------------------------------------------------- */

static enum sn_status copy_part(const struct sn_tokenize_job *j, int i, struct sn_data_writer *to,
                                struct sn_err *err)
{
    struct sn_data *d = NULL;
    struct sn_data_info info;
    char *prefix = sn_job_part_prefix(j, i);
    enum sn_status st = prefix ? sn_data_open(&d, prefix, err) : sn_job_no_memory(j, err);
    sn_free(prefix);
    if (st != SN_OK)
        return st;
    if (j->chat)
        st = sn_data_open_mask(d, NULL, err);
    sn_data_info(d, &info);
    sn_data_read_in_order(d);
    struct sn_data_document document = {.data = d, .mask = sn_data_mask(d)};
    for (; document.number < info.documents && st == SN_OK; document.number++)
        st = sn_data_writer_copy(to, &document, err);
    sn_data_close(d);
    return st;
}

/* The note of the first part goes last: while it is there, others may be. */
static void remove_parts(const struct sn_tokenize_job *j)
{
    for (int i = j->files.n - 1; i >= 0; i--) {
        char *prefix = sn_job_part_prefix(j, i), *said = sn_job_part_note(j, i);
        if (prefix)
            remove_pair(prefix);
        if (said)
            (void)unlink(said);
        sn_free(prefix);
        sn_free(said);
    }
}

/* The lines of all parts, then that all is done. */
static enum sn_status gather_notes(struct sn_tokenize_job *j, struct sn_err *err)
{
    for (int i = 0; i < j->files.n; i++) {
        struct sn_part_said before = {j->out->bytes, j->out->skipped};
        if (j->noted[i])
            continue;
        j->done[i] = false; /* so that it counts once more, which tells what it is */
        SN_TRY(sn_job_read_note(j, i, err));
        struct sn_part_said said = {j->out->bytes - before.bytes, j->out->skipped - before.skipped};
        j->out->bytes = before.bytes;
        j->out->skipped = before.skipped;
        SN_TRY(sn_job_note(j, j->record, i, said, err));
    }
    return sn_job_note(j, j->record, j->files.n, (struct sn_part_said){0}, err);
}

/* Of chats, how many count. */
static enum sn_status count_tokens(struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_data_mask *m = NULL;
    if (!j->chat)
        return SN_OK;
    SN_TRY(sn_data_mask_open(&m, j->prefix, j->out->info.tokens, NULL, err));
    j->out->counted = sn_data_mask_counted(m);
    sn_data_mask_close(m);
    return SN_OK;
}

static enum sn_status join_parts(struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_data_writer *to = NULL;
    enum sn_status st = sn_data_writer_create(&to, j->prefix, j->dtype, err);
    if (st == SN_OK && j->chat)
        st = sn_data_writer_add_mask(to, j->prefix, err);
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
        st = count_tokens(j, err);
    if (st == SN_OK)
        st = gather_notes(j, err);
    j->done[j->files.n] = st == SN_OK;
    if (st == SN_OK)
        remove_parts(j);
    sn_data_writer_destroy(to);
    return st;
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status finished(struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_data *d = NULL;
    char *left = sn_job_part_note(j, 0);
    if (left && access(left, F_OK) == 0) /* who put them together was killed */
        remove_parts(j);
    sn_free(left);
    SN_TRY(sn_data_open(&d, j->prefix, err));
    sn_data_info(d, &j->out->info);
    sn_data_close(d);
    j->out->was_done = true;
    return count_tokens(j, err);
}

static int count_done(const struct sn_tokenize_job *j)
{
    int n = 0;
    for (int i = 0; i < j->files.n; i++)
        n += j->done[i];
    return n;
}

/* With the lock, which only they try to get who have seen that no part lacks: so whoever has it joins
 * them. Where the file system has no locks, two may, and write the same. */
static enum sn_status join_locked(struct sn_tokenize_job *j, int fd, struct sn_err *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    j->out->is_joined_by_other =
        fcntl(fd, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN);
    if (j->out->is_joined_by_other)
        return SN_OK;
    SN_TRY(sn_job_look(j, err)); /* another may have been faster */
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
static enum sn_status join(struct sn_tokenize_job *j, struct sn_err *err)
{
    SN_TRY(sn_job_look(j, err));
    j->out->left = j->files.n - count_done(j);
    if (j->out->left > 0)
        return SN_OK;
    char *path = sn_format("%s/join.lock", j->want->out);
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    enum sn_status st = fd >= 0 ? join_locked(j, fd, err)
                        : path  ? sn_write_fail(err, path, errno)
                                : sn_job_no_memory(j, err);
    if (st == SN_OK && !j->out->is_joined_by_other)
        (void)unlink(path);
    if (fd >= 0)
        (void)close(fd);
    sn_free(path);
    return st;
}

/* The template goes along: the tokens are of it, whatever lies beside the tokenizer. */
static enum sn_status keep_template(const struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_chat_value text = j->chat ? sn_chat_template_text(j->chat) : (struct sn_chat_value){0};
    struct sn_str copy = {0};
    if (text.kind != SN_V_TEXT || !j->want->chat->template_file)
        return SN_OK;
    char *path = sn_format("%s/chat_template.jinja", j->want->out);
    sn_str_add(&copy, "%.*s", (int)text.len, text.p);
    enum sn_status st = path ? sn_text_keep(&copy, path, err) : sn_job_no_memory(j, err);
    sn_str_fini(&copy);
    sn_free(path);
    return st;
}

static enum sn_status load_chat(struct sn_tokenize_job *j, struct sn_err *err)
{
    struct sn_chat_want want;
    if (!j->want->chat)
        return SN_OK;
    want = *j->want->chat;
    want.tokenizer = j->want->tokenizer;
    want.field = j->want->field;
    for (int i = 0; i < j->files.n; i++)
        if (!j->files.list[i].is_json)
            return sn_fail(err, SN_EINPUT, "%s: is plain text, and --chat wants JSON lines (.jsonl)",
                           j->files.list[i].path);
    SN_TRY(sn_chat_load(&j->chat, &want, err));
    j->how.chat = j->chat;
    return SN_OK;
}

static enum sn_status work(struct sn_tokenize_job *j, struct sn_err *err)
{
    SN_TRY(sn_tokenizer_load(&j->tokenizer, j->want->tokenizer, err));
    if (!sn_tokenizer_id_is_name(sn_job_base_name(j->want->tokenizer)))
        return sn_fail(err, SN_EINPUT,
                       "--tokenizer: '%s' is no name that goes along with the tokens; rename it, "
                       "with letters, digits and signs of ASCII",
                       sn_job_base_name(j->want->tokenizer));
    SN_TRY(sn_texts_find(&j->files, j->want->inputs, j->want->n_inputs, err));
    SN_TRY(load_chat(j, err));
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
        return sn_job_no_memory(j, err);
    SN_TRY(hash_work(j, err));
    SN_TRY(sn_directory_make(j->want->out, "--out", err));
    SN_TRY(sn_job_look(j, err));
    j->out->kept = count_done(j);
    if (j->done[j->files.n])
        return finished(j, err);
    SN_TRY(sn_data_tokenizer_keep(j->want->tokenizer, j->want->out, err));
    SN_TRY(keep_template(j, err));
    SN_TRY(sn_encoders_create(&j->encoders, &j->how, j->want->workers, err));
    SN_TRY(write_parts(j, err));
    return join(j, err);
}

enum sn_status sn_tokenize(const struct sn_tokenize *want, struct sn_tokenized *out,
                           struct sn_err *err)
{
    struct sn_tokenize_job j = {.want = want, .out = out};
    *out = (struct sn_tokenized){0};
    enum sn_status st = work(&j, err);
    sn_encoders_destroy(j.encoders);
    sn_tokenizer_destroy(j.tokenizer);
    sn_chat_destroy(j.chat);
    sn_texts_list_fini(&j.files);
    sn_free(j.record);
    sn_free(j.prefix);
    sn_free(j.done);
    sn_free(j.noted);
    sn_free(j.owner);
    return st;
}
