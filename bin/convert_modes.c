/*
 * convert_modes.c - what sennit-convert does once its command line is understood.
 */
#include "bin/convert.h"

#include "checkpoint/convert/convert.h"
#include "checkpoint/convert/export.h"
#include "checkpoint/convert/inspect.h"
#include "checkpoint/convert/peft.h"
#include "checkpoint/format/hdf5.h"
#include "checkpoint/hf/hfnames.h"
#include "checkpoint/store/model_text.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/plain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN = 1024 };

/* --- the source ------------------------------------------------------------------------------ */

/* The files say how many blocks for multi-token prediction a model may have, not whether they are there. */
static enum sn_status open_foreign(struct sn_source *out, const char *path, int mtp,
                                   struct sn_err *err)
{
    struct sn_model_config m;
    SN_TRY(sn_hf_load_model(&m, path, err));
    m.mtp = mtp > 0 ? mtp : 0;
    return sn_source_open_safetensors(out, path, &m, err);
}

/* *s with the first `mtp` of its blocks for multi-token prediction alone. */
static enum sn_status drop_further(struct sn_source *s, int mtp, bool says, struct sn_err *err)
{
    struct sn_source changed;
    int dropped;
    SN_TRY(sn_source_further(&changed, s, mtp, &dropped, err));
    *s = changed;
    if (says && dropped > 0)
        sn_log(SN_LOG_INFO, "%s: %d of %d blocks for multi-token prediction (model.mtp) are dropped",
               s->name, dropped, dropped + mtp);
    return SN_OK;
}

/* The source, seen through what is to be changed. */
static enum sn_status open_source(struct sn_source *out, const struct sn_convert_line *l, bool says,
                                  struct sn_err *err)
{
    struct sn_source s, changed;
    int dropped;
    SN_TRY(l->is_foreign ? open_foreign(&s, l->src, l->mtp, err)
                         : sn_source_open_checkpoint(&s, l->src, err));
    enum sn_status st = SN_OK;
    if (l->ema) {
        st = sn_source_average(&changed, &s, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK && !l->is_foreign && l->mtp >= 0)
        st = drop_further(&s, l->mtp, says, err);
    if (st == SN_OK && l->merge) {
        st = sn_source_merge(&changed, &s, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK &&
        (l->delink || l->grow > 0 || l->upcycle > 0)) { /* of another model's gradients */
        st = sn_source_fold(&changed, &s, NULL, &dropped, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK && l->delink) {
        st = sn_source_delink(&changed, &s, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK && l->grow > 0) {
        st = sn_source_grow(&changed, &s, l->grow, l->noise, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK && l->upcycle > 0) {
        st = sn_source_upcycle(&changed, &s, l->upcycle, l->top_k, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK && l->prune.n_targets > 0) {
        st = sn_source_prune(&changed, &s, &l->prune, err);
        s = st == SN_OK ? changed : s;
    }
    if (st == SN_OK)
        *out = s;
    else
        sn_source_close(&s);
    return st;
}

/* The one type of all weights of the source, fp32 when they differ. */
static enum sn_dtype dtype_of(const struct sn_source *s)
{
    int common = -1;
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_source_tensor *t = &s->tensors[i];
        if (strcmp(t->group, "model") != 0)
            continue;
        bool same = common < 0 || common == (int)t->dtype;
        common = same ? (int)t->dtype : (int)SN_F32;
        if (!same)
            break;
    }
    return common == SN_BF16 || common == SN_F16 ? (enum sn_dtype)common : SN_F32;
}

/* --- reports --------------------------------------------------------------------------------- */

static void report(const struct sn_convert_line *l, const char *dst,
                   const struct sn_convert_report *r, const struct sn_comm *comm)
{
    char bytes[16], rate[16];
    int64_t moved = r->bytes - r->resumed_bytes;
    if (comm->rank != 0)
        return;
    if (l->json) {
        struct sn_str path = {0};
        sn_str_add_json(&path, dst);
        (void)printf("{\"output\": %s, \"tensors\": %" PRId64 ", \"bytes\": %" PRId64
                     ", \"resumed_bytes\": %" PRId64 ", \"peak_buffers\": %" PRId64
                     ", \"ranks\": %d, \"seconds\": %.6f}\n",
                     path.failed ? "null" : path.p, r->tensors, r->bytes, r->resumed_bytes,
                     r->peak_buffers, comm->size, r->seconds);
        sn_str_fini(&path);
        return;
    }
    double speed = r->seconds > 0 ? (double)moved / r->seconds : 0;
    char shown[PATH_SHOWN];
    sn_plain(shown, sizeof(shown), dst);
    (void)printf("%s: %" PRId64 " tensors, %s in %.2f s (%s/s)\n", shown, r->tensors,
                 sn_str_bytes(bytes, r->bytes), r->seconds, sn_str_bytes(rate, (int64_t)speed));
}

static enum sn_status print(struct sn_str *text, enum sn_status st, struct sn_err *err)
{
    if (st == SN_OK && text->failed)
        st = sn_fail(err, SN_ENOMEM, "sennit-convert: no memory for its report");
    sn_plain_lines(text->p);
    if (st == SN_OK && text->p)
        (void)fputs(text->p, stdout);
    sn_str_fini(text);
    return st;
}

/* --- modes ----------------------------------------------------------------------------------- */

/* Is this the name of one checkpoint? *step is its number. */
static bool is_step_name(const char *name, size_t len, long long *step)
{
    return len >= 13 && len <= 23 && strncmp(name, "step-", 5) == 0 &&
           strspn(name + 5, "0123456789") == len - 5 && sscanf(name + 5, "%lld", step) == 1;
}

/* Where the checkpoint will be; caller frees *out. */
static enum sn_status name_output(char **out, const char *dst, int64_t step, struct sn_err *err)
{
    size_t len = strlen(dst), at;
    long long named = 0;
    while (len > 1 && dst[len - 1] == '/')
        len--;
    for (at = len; at > 0 && dst[at - 1] != '/';)
        at--;
    bool is_step = is_step_name(dst + at, len - at, &named);
    if (is_step && named != step)
        return sn_fail(err, SN_EINPUT,
                       "%s: is the name of step %lld, but the source is of step %" PRId64
                       "; name it step-%08" PRId64 ", or the directory that will hold it",
                       dst, named, step, step);
    *out = is_step ? sn_strndup(dst, len) : sn_format("%.*s/step-%08" PRId64, (int)len, dst, step);
    return *out ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for its name", dst);
}

/* What a codec has left in the state, for the layout's ranks. */
static enum sn_status fold(struct sn_source *s, const struct sn_config *c, bool says,
                           struct sn_err *err)
{
    struct sn_source folded;
    int dropped;
    SN_TRY(sn_source_fold(&folded, s, c, &dropped, err));
    *s = folded;
    if (dropped > 0 && says)
        sn_log(SN_LOG_INFO,
               "%s: %d tensors of compression's state are left out: the layout does not have them",
               s->name, dropped);
    return SN_OK;
}

/* *s becomes what the layout wants of it. */
static enum sn_status plan(struct sn_manifest *out, const struct sn_convert_line *l,
                           struct sn_source *s, bool says, struct sn_err *err)
{
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    char *name = sn_format("the model of %s", s->name);
    enum sn_status st = SN_OK;
    if (!c || !name)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to read its layout", l->dst);
    if (st == SN_OK) /* a hostile one must not name files to include */
        st = sn_model_text_parse(c, s->model_text, name, err);
    if (st == SN_OK)
        st = sn_config_load_layout(c, l->layout, s->model_text, name, err);
    if (st == SN_OK)
        st = fold(s, c, says, err);
    if (st == SN_OK)
        st = sn_convert_plan(out, s, c, err);
    sn_free(name);
    sn_free(c);
    return st;
}

static enum sn_status convert(const struct sn_convert_line *l, struct sn_source *s,
                              struct sn_comm *comm, struct sn_err *err)
{
    struct sn_manifest m = {0};
    struct sn_convert_report r = {0};
    char *dst = NULL;
    enum sn_status st = name_output(&dst, l->dst, s->scalars.step, err);
    if (st == SN_OK)
        st = plan(&m, l, s, comm->rank == 0, err);
    st = comm->ops->agree(comm, st, err);
    struct sn_convert_options o = {.dst = dst,
                                   .memory = l->memory,
                                   .dtype = l->dtype < 0 ? dtype_of(s) : (enum sn_dtype)l->dtype,
                                   .comm = comm,
                                   .fresh = l->fresh,
                                   .is_quiet = l->json};
    if (st == SN_OK)
        st = sn_convert_run(s, &m, &o, &r, err);
    if (st == SN_OK)
        report(l, dst, &r, comm);
    sn_manifest_fini(&m);
    sn_free(dst);
    return st;
}

/* The type of adapters is their own: weights may be of a smaller one. */
static enum sn_status peft(const struct sn_convert_line *l, struct sn_source *s,
                           const struct sn_model_config *m, struct sn_convert_report *r,
                           struct sn_err *err)
{
    enum sn_dtype dtype = l->dtype < 0 ? SN_F32 : (enum sn_dtype)l->dtype;
    return sn_peft_write(s, m, l->dst, dtype, r, err);
}

static enum sn_status export(const struct sn_convert_line *l, struct sn_source *s,
                             struct sn_comm *comm, struct sn_err *err) {
    struct sn_convert_report r = {0};
    struct sn_export_options o = {.dst = l->dst,
                                  .memory = l->memory,
                                  .shard_bytes = l->shard_bytes,
                                  .later_names = l->later_names,
                                  .beside = l->beside,
                                  .dtype = l->dtype < 0 ? dtype_of(s) : (enum sn_dtype)l->dtype,
                                  .comm = comm};
    struct sn_config *c = sn_alloc(sizeof(*c));
    enum sn_status st = c ? sn_model_text_parse(c, s->model_text, s->name, err)
                          : sn_fail(err, SN_ENOMEM, "%s: no memory to read its model", s->name);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK && sn_source_has_prompts(s))
        st = sn_fail(err, SN_EINPUT,
                     "%s: has prompts (train.prompt), which the field's files have no names for; "
                     "read 'prompt.projection' and 'layers.*.prompt.soft' from the checkpoint's HDF5",
                     s->name);
    if (st == SN_OK && !l->is_peft && sn_source_has_adapters(s))
        st = sn_fail(err, SN_EINPUT,
                     "%s: has adapters; want --merge to put them into the weights, or --to peft to "
                     "write them alone",
                     s->name);
    if (st == SN_OK && l->is_peft)
        st = comm->ops->agree(comm, comm->rank == 0 ? peft(l, s, &c->model, &r, err) : SN_OK, err);
    else if (st == SN_OK) st = sn_export_run(s, &c->model, &o, &r, err);
    if (st == SN_OK) report(l, l->dst, &r, comm);
    sn_free(c);
    return st;
}

static enum sn_status from_source(const struct sn_convert_line *l, struct sn_comm *comm,
                                  struct sn_err *err)
{
    struct sn_source s;
    enum sn_status st = open_source(&s, l, comm->rank == 0, err), all = comm->ops->agree(comm, st, err);
    if (all == SN_OK)
        all = l->mode == SN_CONVERT_EXPORT ? export(l, &s, comm, err) : convert(l, &s, comm, err);
    if (st == SN_OK)
        sn_source_close(&s);
    return all;
}

static enum sn_status inspect(const struct sn_convert_line *l, struct sn_err *err)
{
    struct sn_str text = {0};
    enum sn_status st = sn_inspect(&text, l->src, l->json, err);
    return print(&text, st, err);
}

/* The lines of a look at a checkpoint: as they are, or as a member of a JSON object, which it
 * closes. */
static void add_lines(struct sn_str *out, struct sn_str *lines, bool json)
{
    out->failed = out->failed || lines->failed;
    if (!json)
        sn_str_add(out, "%s", lines->p ? lines->p : "");
    else
        sn_str_add(out, ", \"lines\": [");
    for (char *line = json ? lines->p : NULL; line && *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = '\0';
        sn_str_add_json(out, line);
        sn_str_add(out, "%s", *next ? ", " : "");
        line = next;
    }
    if (json)
        sn_str_add(out, "]}\n");
    sn_str_fini(lines);
}

static enum sn_status diff(const struct sn_convert_line *l, bool *found, struct sn_err *err)
{
    struct sn_str text = {0}, lines = {0};
    struct sn_diff d = {0};
    enum sn_status st = sn_diff(&d, &lines, l->src, l->dst, l->memory, err);
    *found = st == SN_OK && (d.different > 0 || d.missing > 0 || d.scalars > 0);
    if (l->json) {
        sn_str_add(&text,
                   "{\"tensors\": %" PRId64 ", \"different\": %" PRId64 ", \"missing\": %" PRId64
                   ", \"scalars\": %" PRId64 ", \"values\": %" PRId64
                   ", \"different_values\": %" PRId64 ", \"largest\": ",
                   d.tensors, d.different, d.missing, d.scalars, d.values, d.different_values);
        if (isfinite(d.largest))
            sn_str_add(&text, "%.9g", d.largest);
        else
            sn_str_add(&text, "null");
    }
    add_lines(&text, &lines, l->json);
    if (!l->json)
        sn_str_add(&text,
                   "%" PRId64 " tensors in both: %" PRId64 " differ; %" PRId64
                   " in one only; %" PRId64 " scalars differ\n",
                   d.tensors, d.different, d.missing, d.scalars);
    return print(&text, st, err);
}

/* Every rank has the same lines. */
static enum sn_status verify(const struct sn_convert_line *l, struct sn_comm *comm, bool *found,
                             struct sn_err *err)
{
    struct sn_str text = {0}, lines = {0};
    struct sn_fsck r = {0};
    char bytes[16];
    enum sn_status st = sn_fsck(&r, &lines, l->src, l->memory, comm, err);
    *found = st == SN_OK && r.faults > 0;
    if (l->json)
        sn_str_add(&text,
                   "{\"checkpoints\": %" PRId64 ", \"blocks\": %" PRId64 ", \"bytes\": %" PRId64
                   ", \"faults\": %" PRId64,
                   r.checkpoints, r.blocks, r.bytes, r.faults);
    add_lines(&text, &lines, l->json);
    if (!l->json)
        sn_str_add(&text, "%s: %" PRId64 " blocks, %s: %" PRId64 " fault%s\n", l->src, r.blocks,
                   sn_str_bytes(bytes, r.bytes), r.faults, r.faults == 1 ? "" : "s");
    if (comm->rank == 0)
        return print(&text, st, err);
    sn_str_fini(&text);
    return st;
}

enum sn_status sn_convert_do(const struct sn_convert_line *l, struct sn_comm *comm, bool *found,
                             struct sn_err *err)
{
    enum sn_status st = SN_OK;
    sn_h5_setup();
    switch (l->mode) {
    case SN_CONVERT_LAYOUT:
    case SN_CONVERT_EXPORT:
        return from_source(l, comm, err);
    case SN_CONVERT_VERIFY:
        return verify(l, comm, found, err);
    case SN_CONVERT_INSPECT: /* the work of one */
        st = comm->rank == 0 ? inspect(l, err) : SN_OK;
        break;
    case SN_CONVERT_DIFF:
        st = comm->rank == 0 ? diff(l, found, err) : SN_OK;
        break;
    }
    return comm->ops->agree(comm, st, err);
}
