#include "lib/data/rewrite_inner.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/data_build.h"
#include "lib/data/features.h"

#include <math.h>
#include <poll.h>
#include <unistd.h>

static const char *const part_names[SN_REWRITE_PARTS] = {"train", "valid", "test"};

static enum sn_status no_memory(const struct sn_rewriting *r, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory to write it", r->want->out);
}

enum sn_status sn_rewrite_go_on(const struct sn_rewriting *r, int64_t document, struct sn_err *err)
{
    enum { OFTEN = 256 };
    struct pollfd fd = {.fd = r->want->stop_fd, .events = POLLIN};
    if (fd.fd < 0 || document % OFTEN != 0 || poll(&fd, 1, 0) <= 0)
        return SN_OK;
    return sn_fail(err, SN_EFAIL, "%s: interrupted; nothing was written", r->want->out);
}

/* --- splitting -------------------------------------------------------------------------------- */

/* How many documents each part has. */
static enum sn_status count_parts(const struct sn_rewriting *r, int64_t counts[SN_REWRITE_PARTS],
                                  struct sn_err *err)
{
    int64_t all = r->sources.info.documents, left = all;
    for (int i = 1; i < SN_REWRITE_PARTS; i++) {
        double part = r->want->part[i - 1];
        counts[i] = part < 1 ? llround((double)all * part) : (int64_t)part;
        if (part > 0 && (counts[i] < 1 || counts[i] >= left))
            return sn_fail(err, SN_EINPUT,
                           "%s: --%s %g of %lld documents leaves nothing on one side; give more "
                           "documents or another number",
                           r->want->out, part_names[i], part, (long long)all);
        left -= counts[i];
    }
    counts[0] = left;
    return left > 0 ? SN_OK : sn_fail(err, SN_EINPUT, "%s: no documents to split", r->want->out);
}

static enum sn_status split(struct sn_rewriting *r, struct sn_err *err)
{
    int64_t counts[SN_REWRITE_PARTS], all = r->sources.info.documents;
    uint64_t key = sn_rng_key(r->want->seed, "data.split");
    SN_TRY(count_parts(r, counts, err));
    for (int64_t i = 0; i < all; i++) {
        int64_t place = (int64_t)sn_rng_permute(key, (uint64_t)all, (uint64_t)i);
        int to = place < counts[1] ? 1 : place < counts[1] + counts[2] ? 2 : 0;
        SN_TRY(sn_rewrite_go_on(r, i, err));
        SN_TRY(sn_sources_copy(&r->sources, i, NULL, r->writers[to], err));
    }
    return SN_OK;
}

static enum sn_status merge(struct sn_rewriting *r, struct sn_err *err)
{
    for (int64_t i = 0; i < r->sources.info.documents; i++) {
        SN_TRY(sn_rewrite_go_on(r, i, err));
        SN_TRY(sn_sources_copy(&r->sources, i, NULL, r->writers[0], err));
    }
    return SN_OK;
}

/* --- outputs ---------------------------------------------------------------------------------- */

static enum sn_status refuse_old(const struct sn_rewriting *r, const char *prefix, const char *end,
                                 struct sn_err *err)
{
    char *path = sn_data_file_path(prefix, end);
    if (!path)
        return no_memory(r, err);
    bool is_there = access(path, F_OK) == 0;
    enum sn_status st = is_there ? sn_fail(err, SN_EINPUT,
                                           "%s: is there already; name another -o, or say --force "
                                           "to replace it",
                                           path)
                                 : SN_OK;
    sn_free(path);
    return st;
}

/* Documents in another order would have others' features. */
static enum sn_status refuse_features(const char *prefix, struct sn_err *err)
{
    char *path;
    SN_TRY(sn_features_find(&path, prefix, err));
    if (!path)
        return SN_OK;
    (void)sn_fail(err, SN_EINPUT,
                  "%s: features are of documents in their order, which would change; build "
                  "tokens and features anew, or move it away",
                  path);
    sn_free(path);
    return SN_EINPUT;
}

static enum sn_status open_part(struct sn_rewriting *r, int i, struct sn_err *err)
{
    const char *out = r->want->out;
    int length = (int)sn_data_prefix_length(out);
    bool is_split = r->want->kind == SN_REWRITE_SPLIT;
    if (i > 0 && r->want->part[i - 1] == 0)
        return SN_OK;
    r->names[i] = is_split ? sn_format("%.*s-%s", length, out, part_names[i])
                           : sn_format("%.*s", length, out);
    if (!r->names[i])
        return no_memory(r, err);
    SN_TRY(refuse_features(r->names[i], err));
    if (!r->want->force) {
        SN_TRY(refuse_old(r, r->names[i], "bin", err));
        SN_TRY(refuse_old(r, r->names[i], "idx", err));
    }
    SN_TRY(sn_data_writer_create(&r->writers[i], r->names[i], r->sources.info.dtype_code, err));
    return r->sources.has_mask ? sn_data_writer_add_mask(r->writers[i], r->names[i], err) : SN_OK;
}

static enum sn_status open_parts(struct sn_rewriting *r, struct sn_err *err)
{
    for (int i = 0; i < r->want->n_prefixes; i++)
        SN_TRY(refuse_features(r->want->prefixes[i], err));
    r->parts = r->want->kind == SN_REWRITE_SPLIT ? SN_REWRITE_PARTS : 1;
    SN_TRY(sn_data_tokenizer_take_along(&r->sources.tokenizer, r->want->out, true, err));
    for (int i = 0; i < r->parts; i++)
        SN_TRY(open_part(r, i, err));
    return SN_OK;
}

static enum sn_status finish(struct sn_rewriting *r, struct sn_rewritten *out, struct sn_err *err)
{
    for (int i = 0; i < r->parts; i++) {
        if (!r->writers[i])
            continue;
        sn_data_writer_info(r->writers[i], &out->out[i]);
        SN_TRY(sn_data_writer_seal(r->writers[i], err));
    }
    SN_TRY(sn_data_tokenizer_take_along(&r->sources.tokenizer, r->want->out, false, err));
    for (int i = 0; i < r->parts; i++)
        if (r->writers[i])
            SN_TRY(sn_data_writer_finish(r->writers[i], err));
    return SN_OK;
}

static enum sn_status work(struct sn_rewriting *r, struct sn_rewritten *out, struct sn_err *err)
{
    static enum sn_status (*const kinds[])(struct sn_rewriting *, struct sn_err *) = {
        [SN_REWRITE_MERGE] = merge,
        [SN_REWRITE_SPLIT] = split,
        [SN_REWRITE_SHUFFLE] = sn_rewrite_shuffle,
        [SN_REWRITE_DEDUP] = sn_rewrite_dedup,
    };
    SN_TRY(sn_sources_open(&r->sources, r->want->prefixes, r->want->n_prefixes, err));
    SN_TRY(open_parts(r, err));
    for (int i = 0; i < r->sources.n; i++)
        sn_data_read_in_order(r->sources.data[i]);
    SN_TRY(kinds[r->want->kind](r, err));
    out->in = r->sources.info;
    out->parts = r->parts;
    return finish(r, out, err);
}

enum sn_status sn_rewrite(const struct sn_rewrite *want, struct sn_rewritten *out,
                          struct sn_err *err)
{
    struct sn_rewriting r = {.want = want};
    *out = (struct sn_rewritten){0};
    enum sn_status st = work(&r, out, err);
    for (int i = 0; i < SN_REWRITE_PARTS; i++) {
        sn_data_writer_destroy(r.writers[i]);
        sn_free(r.names[i]);
    }
    sn_sources_close(&r.sources);
    return st;
}

/* --- what was done ---------------------------------------------------------------------------- */

static void format_json(const struct sn_rewrite *want, const struct sn_rewritten *done,
                        struct sn_str *out)
{
    sn_str_add(out, "{");
    for (int i = 0; i < done->parts; i++) {
        if (done->parts == 1) {
            sn_data_counts_json(out, want->out, "", &done->out[i]);
        } else if (i == 0 || want->part[i - 1] > 0) {
            sn_str_add(out, "%s\"%s\": {", i ? ", " : "", part_names[i]);
            sn_data_counts_json(out, want->out,
                                i == 0   ? "-train"
                                : i == 1 ? "-valid"
                                         : "-test",
                                &done->out[i]);
            sn_str_add(out, "}");
        }
    }
    if (want->kind == SN_REWRITE_DEDUP)
        sn_str_add(out, ", \"dropped\": {\"documents\": %lld, \"tokens\": %lld}",
                   (long long)(done->in.documents - done->out[0].documents),
                   (long long)(done->in.tokens - done->out[0].tokens));
    sn_str_add(out, "}\n");
}

void sn_rewritten_format(const struct sn_rewrite *want, const struct sn_rewritten *done,
                         bool as_json, struct sn_str *out)
{
    if (as_json) {
        format_json(want, done, out);
        return;
    }
    if (done->parts == 1)
        sn_data_counts(out, want->out, "", &done->out[0]);
    for (int i = 0; i < done->parts && done->parts > 1; i++)
        if (i == 0 || want->part[i - 1] > 0)
            sn_data_counts(out, want->out,
                           i == 0   ? "-train"
                           : i == 1 ? "-valid"
                                    : "-test",
                           &done->out[i]);
    if (want->kind == SN_REWRITE_DEDUP)
        sn_str_add(out, "dropped: %lld of %lld documents, %lld of %lld tokens\n",
                   (long long)(done->in.documents - done->out[0].documents),
                   (long long)done->in.documents,
                   (long long)(done->in.tokens - done->out[0].tokens), (long long)done->in.tokens);
}
