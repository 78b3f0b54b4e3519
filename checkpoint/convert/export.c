/*
 * export.c - the field's files, written in bands of their rows.
 *
 * Half of the memory is the source's, to fetch ahead; the other half is a band of theirs and a box
 * of ours on its way into one that lies the other way round.
 */
#include "checkpoint/convert/beside.h"
#include "checkpoint/convert/export.h"

#include "checkpoint/convert/export_plan.h"
#include "checkpoint/format/safetensors_write.h"
#include "checkpoint/io/files.h"
#include "checkpoint/io/numbers.h"
#include "checkpoint/store/tokenizer_files.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/config/hfconfig.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct export
{
    struct sn_source *source;
    const struct sn_export_options *o;
    struct sn_export_plan plan;
    struct sn_str config; /* config.json */
    char *dst, *parent, *aside;
    bool made;    /* rank 0: `aside` is there */
    int64_t room; /* elements of each of the two buffers */
    int64_t feed; /* bytes of the source's half */
    float *band, *turned;
};

/* --- values ---------------------------------------------------------------------------------- */

/* Element (r, c) of the box goes to out[r + c x step]. */
static void turn(const float *box, int64_t rows, int64_t cols, float *out, int64_t step)
{
    enum { TILE = 32 };
    for (int64_t r = 0; r < rows; r += TILE)
        for (int64_t c = 0; c < cols; c += TILE) {
            int64_t end_r = r + TILE < rows ? r + TILE : rows;
            int64_t end_c = c + TILE < cols ? c + TILE : cols;
            for (int64_t k = c; k < end_c; k++)
                for (int64_t i = r; i < end_r; i++)
                    out[i + k * step] = box[i * cols + k];
        }
}

static enum sn_status put_band(struct export *x, struct sn_st_writer *w, int64_t n,
                               const char *name, struct sn_err *err)
{
    enum sn_dtype dtype = x->plan.dtype;
    float lost;
    if (dtype != SN_F32 && !sn_narrow((uint16_t *)(void *)x->band, x->band, n, dtype, &lost))
        return sn_narrow_fail(x->source->name, name, dtype, lost, err);
    return sn_st_put(w, x->band, (size_t)n * sn_dtype_size(dtype), err);
}

static enum sn_status move_box(struct export *x, const struct sn_source_want *want,
                               const struct sn_export_move *move, struct sn_err *err)
{
    if (move->col_step == 1)
        return x->source->next(x->source->self, x->band + move->at, move->row_step, err);
    SN_TRY(x->source->next(x->source->self, x->turned, want->box.cols, err));
    turn(x->turned, want->box.rows, want->box.cols, x->band + move->at, move->col_step);
    return SN_OK;
}

/* --- a file ---------------------------------------------------------------------------------- */

/* Tensors of the file, where they begin in the plan, as entries; returns how many. */
static int list_file(const struct export *x, int file, struct sn_st_entry *list)
{
    int n = 0;
    for (int i = 0; i < x->plan.n; i++) {
        const struct sn_export_tensor *t = &x->plan.tensors[i];
        struct sn_hf_size size = sn_export_size(t);
        if (t->file != file)
            continue;
        list[n] = (struct sn_st_entry){.name = t->name.text,
                                       .dtype = x->plan.dtype,
                                       .rank = t->cols == 1 ? 1 : 2,
                                       .shape = {size.rows, size.cols},
                                       .tag = i};
        if (sn_hf_is_stack(t->form)) {
            list[n].rank = 3;
            list[n].shape[0] = t->experts;
            list[n].shape[1] = size.rows / t->experts;
            list[n].shape[2] = size.cols;
        }
        n++;
    }
    return n;
}

static enum sn_status stream(struct export *x, struct sn_st_writer *w,
                             const struct sn_st_entry *list, const struct sn_export_moves *l,
                             struct sn_err *err)
{
    int64_t left = list[0].bytes;
    SN_TRY(x->source->begin(x->source->self, l->wants, l->n, x->feed, err));
    for (int64_t i = 0; i < l->n; i++) {
        SN_TRY(move_box(x, &l->wants[i], &l->moves[i], err));
        if (!l->moves[i].ends)
            continue;
        SN_TRY(put_band(x, w, l->moves[i].ends, list->name, err));
        left -= l->moves[i].ends * (int64_t)sn_dtype_size(x->plan.dtype);
        if (left == 0 && i + 1 < l->n)
            left = (++list)->bytes;
    }
    return SN_OK;
}

static enum sn_status write_listed(struct export *x, const char *path, struct sn_st_entry *list,
                                   int n, struct sn_err *err)
{
    struct sn_export_moves moves = {0};
    struct sn_st_writer *w = NULL;
    int64_t bytes;
    enum sn_status st = sn_st_create(&w, path, list, n, err);
    for (int i = 0; i < n && st == SN_OK; i++)
        st = sn_export_moves_add(&moves, &x->plan.tensors[list[i].tag], x->room, err);
    if (st == SN_OK)
        st = stream(x, w, list, &moves, err);
    sn_export_moves_fini(&moves);
    if (st == SN_OK)
        return sn_st_finish(w, &bytes, err);
    sn_st_abandon(w);
    return st;
}

static enum sn_status write_file(struct export *x, int file, struct sn_err *err)
{
    char name[SN_EXPORT_NAME_MAX];
    char *path = sn_format("%s/%s", x->aside, sn_export_file_name(name, &x->plan, file));
    struct sn_st_entry *list = sn_alloc_n((size_t)x->plan.n, sizeof(*list));
    enum sn_status st = SN_OK;
    if (!path || !list)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to write a file", x->aside);
    if (st == SN_OK)
        st = write_listed(x, path, list, list_file(x, file, list), err);
    sn_free(path);
    sn_free(list);
    return st;
}

static enum sn_status write_own(struct export *x, struct sn_err *err)
{
    for (int f = x->o->comm->rank; f < x->plan.n_files; f += x->o->comm->size)
        SN_TRY(write_file(x, f, err));
    return SN_OK;
}

/* --- what stands beside the weights ---------------------------------------------------------- */

static enum sn_status put_text(const struct export *x, const char *name, const struct sn_str *text,
                               struct sn_err *err)
{
    char *path = sn_format("%s/%s", x->aside, name);
    if (!path || text->failed) {
        sn_free(path);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write %s", x->aside, name);
    }
    enum sn_status st = sn_file_save(path, text->p, text->len, err);
    sn_free(path);
    return st;
}

static int by_name(const void *a, const void *b)
{
    const struct sn_export_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name.text, (*y)->name.text);
}

static enum sn_status write_index(const struct export *x, struct sn_err *err)
{
    const struct sn_export_plan *p = &x->plan;
    struct sn_str s = {0};
    const struct sn_export_tensor **sorted = sn_alloc_n((size_t)p->n, sizeof(*sorted));
    if (!sorted)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for an index of %d tensors", x->aside, p->n);
    for (int i = 0; i < p->n; i++)
        sorted[i] = &p->tensors[i];
    qsort(sorted, (size_t)p->n, sizeof(*sorted), by_name);
    sn_str_add(&s, "{\n  \"metadata\": {\n    \"total_size\": %" PRId64 "\n  },\n", p->bytes);
    sn_str_add(&s, "  \"weight_map\": {");
    for (int i = 0; i < p->n; i++) {
        char name[SN_EXPORT_NAME_MAX];
        sn_str_add(&s, "%s\n    \"%s\": \"%s\"", i ? "," : "", sorted[i]->name.text,
                   sn_export_file_name(name, p, sorted[i]->file));
    }
    sn_str_add(&s, "\n  }\n}\n");
    sn_free(sorted);
    enum sn_status st = put_text(x, "model.safetensors.index.json", &s, err);
    sn_str_fini(&s);
    return st;
}

/* --- the directory --------------------------------------------------------------------------- */

static enum sn_status make_aside(struct export *x, struct sn_err *err)
{
    struct stat sb;
    if (lstat(x->dst, &sb) == 0)
        return sn_fail(err, SN_EINPUT, "%s: is there already; name a new directory", x->dst);
    SN_TRY(sn_dir_make(x->aside, err));
    x->made = true;
    return SN_OK;
}

/* That of the run, under the name by which the field finds it. Lost files are none of the weights'. */
static enum sn_status put_tokenizer(const struct export *x, struct sn_err *err)
{
    const struct sn_tokenizer_id *t = &x->source->tokenizer;
    size_t n = strlen(t->file);
    const char *name = n > 5 && strcmp(t->file + n - 5, ".json") == 0    ? "tokenizer.json"
                       : n > 6 && strcmp(t->file + n - 6, ".model") == 0 ? "tokenizer.model"
                                                                         : t->file;
    if (!t->file[0])
        return SN_OK;
    enum sn_status st = sn_tokenizer_files_verify(t, err);
    if (st == SN_EINPUT) {
        sn_log(SN_LOG_WARN, "%s", err->text);
        return SN_OK;
    }
    return st == SN_OK ? sn_tokenizer_files_copy(t->folder, x->aside, t->file, name, err) : st;
}

static enum sn_status publish(struct export *x, struct sn_err *err)
{
    if (x->plan.n_files > 1)
        SN_TRY(write_index(x, err));
    SN_TRY(put_text(x, "config.json", &x->config, err));
    SN_TRY(x->o->beside ? sn_tokenizer_files_copy(x->o->beside, x->aside, NULL, NULL, err)
                        : put_tokenizer(x, err));
    SN_TRY(sn_dir_sync(x->aside, err));
    if (rename(x->aside, x->dst) != 0)
        return sn_file_fail(err, x->dst, "rename the finished directory to it");
    x->made = false;
    return sn_dir_sync(x->parent, err);
}

/* --- the whole ------------------------------------------------------------------------------- */

static enum sn_status share_memory(struct export *x, struct sn_err *err)
{
    enum { BUFFERS = 2 };
    int64_t memory = x->o->memory, least = x->source->least;
    int64_t row = BUFFERS * (int64_t)sizeof(float) * x->plan.longest;
    if (memory < least + row)
        return sn_fail(err, SN_EINPUT,
                       "%s: %" PRId64 " bytes of memory are too few to export it; want at least "
                       "%" PRId64,
                       x->source->name, memory, least + row);
    int64_t own = memory / 2 < memory - least ? memory / 2 : memory - least;
    own = own > row ? own : row;
    x->feed = memory - own;
    x->room = own / (BUFFERS * (int64_t)sizeof(float));
    x->room = x->room < x->plan.largest ? x->room : x->plan.largest;
    x->band = sn_alloc_n((size_t)x->room, sizeof(float));
    x->turned = sn_alloc_n((size_t)x->room, sizeof(float));
    if (!x->band || !x->turned)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for 2 buffers of %" PRId64 " values",
                       x->source->name, x->room);
    return SN_OK;
}

static void add_token(struct sn_str *out, const char *key, int32_t id)
{
    if (id >= 0)
        sn_str_add(out, ",\n  \"%s\": %d", key, (int)id);
    else
        sn_str_add(out, ",\n  \"%s\": null", key);
}

/* What stands around documents, as lines of a config.json. */
static void add_tokens(struct sn_str *out, const struct sn_tokenizer_id *t)
{
    if (!t->file[0])
        return;
    add_token(out, "bos_token_id", t->begin);
    add_token(out, "eos_token_id", t->end);
    add_token(out, "pad_token_id", -1);
}

/* Everything that may be refused before a file is touched. */
static enum sn_status prepare(struct export *x, const struct sn_model_config *m, struct sn_err *err)
{
    const struct sn_export_options *o = x->o;
    size_t len = strlen(o->dst);
    while (len > 1 && o->dst[len - 1] == '/')
        len--;
    if (len == 0 || o->shard_bytes < 1)
        return sn_fail(err, SN_EINPUT,
                       "export: want the name of a new directory, and files of at "
                       "least 1 byte");
    if (o->dtype != SN_F32 && o->dtype != SN_BF16 && o->dtype != SN_F16)
        return sn_fail(err, SN_EINPUT, "export: weights are written as fp32, bf16 or fp16, not %s",
                       sn_dtype_name(o->dtype));
    x->dst = sn_strndup(o->dst, len);
    x->parent = sn_path_parent(o->dst);
    if (!x->dst || !x->parent)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", o->dst);
    struct sn_str tokens = {0};
    enum sn_status st = o->beside ? sn_beside_tokens(&tokens, o->beside, err) : SN_OK;
    if (!o->beside)
        add_tokens(&tokens, &x->source->tokenizer);
    if (st == SN_OK)
        st = sn_hfconfig_format(&x->config, m, o->dtype, tokens.p, err);
    sn_str_fini(&tokens);
    SN_TRY(st);
    struct sn_export_want want = {o->dtype, o->shard_bytes, o->later_names};
    SN_TRY(sn_export_plan_init(&x->plan, x->source, m, &want, err));
    return share_memory(x, err);
}

/* All ranks take the name that rank 0 gives. */
static enum sn_status name_aside(struct export *x, struct sn_err *err)
{
    int64_t pid = getpid();
    SN_TRY(x->o->comm->ops->broadcast(x->o->comm, &pid, (int64_t)sizeof(pid), 0, err));
    x->aside = sn_format("%s.tmp.%" PRId64, x->dst, pid);
    return x->aside ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for its name", x->dst);
}

/* After each phase all ranks leave together, or none. */
static enum sn_status run(struct export *x, const struct sn_model_config *m, struct sn_err *err)
{
    struct sn_comm *c = x->o->comm;
    SN_TRY(c->ops->agree(c, prepare(x, m, err), err));
    SN_TRY(c->ops->agree(c, name_aside(x, err), err));
    SN_TRY(c->ops->agree(c, c->rank == 0 ? make_aside(x, err) : SN_OK, err));
    SN_TRY(c->ops->agree(c, write_own(x, err), err));
    return c->ops->agree(c, c->rank == 0 ? publish(x, err) : SN_OK, err);
}

enum sn_status sn_export_run(struct sn_source *s, const struct sn_model_config *m,
                             const struct sn_export_options *o, struct sn_convert_report *report,
                             struct sn_err *err)
{
    double begin = sn_clock();
    struct sn_err ignored;
    struct export x = {.source = s, .o = o};
    enum sn_status st = run(&x, m, err);
    if (x.made)
        (void)sn_dir_remove(x.aside, &ignored); /* the first failure is the one to tell */
    if (st == SN_OK)
        *report =
            (struct sn_convert_report){.tensors = x.plan.n,
                                       .bytes = x.plan.bytes,
                                       .peak_buffers = x.feed + 2 * x.room * (int64_t)sizeof(float),
                                       .seconds = sn_clock() - begin};
    sn_export_plan_fini(&x.plan);
    sn_str_fini(&x.config);
    sn_free(x.band);
    sn_free(x.turned);
    sn_free(x.dst);
    sn_free(x.parent);
    sn_free(x.aside);
    return st;
}
