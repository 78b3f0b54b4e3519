/*
 * source_safetensors.c - the field's weight files as a source, and the model that their config.json
 * describes.
 */
#include "checkpoint/hf/hfnames.h"
#include "checkpoint/hf/hfrules.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/source.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct theirs {
    char *path;
    struct sn_safetensors *st;
    struct sn_model_config model;
    struct sn_hf_list list;
    struct sn_source_tensor *tensors;
    struct sn_str model_text;
    const struct sn_source_want *wants; /* of the last begin */
    int64_t n, at;
};

/* --- reading --------------------------------------------------------------------------------- */

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct theirs *h = self;
    (void)memory; /* boxes go straight from the file to the caller */
    (void)err;
    h->wants = wants;
    h->n = n;
    h->at = 0;
    return SN_OK;
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct theirs *h = self;
    if (h->at == h->n)
        return sn_fail(err, SN_EFAIL, "%s: more boxes are read than were announced", h->path);
    const struct sn_source_want *w = &h->wants[h->at++];
    const struct sn_source_tensor *t = &h->tensors[w->tensor];
    struct sn_state_tensor box = {.group = t->group,
                                  .name = t->name,
                                  .rows = t->rows,
                                  .cols = t->cols,
                                  .row = w->box.row,
                                  .col = w->box.col,
                                  .n_rows = w->box.rows,
                                  .n_cols = w->box.cols,
                                  .ld = ld};
    return sn_hf_read_box(h->st, &h->model, &box, out, err);
}

static void close_theirs(void *self)
{
    struct theirs *h = self;
    sn_safetensors_close(h->st);
    sn_hf_list_fini(&h->list);
    sn_str_fini(&h->model_text);
    sn_free(h->tensors);
    sn_free(h->path);
    sn_free(h);
}

/* --- opening --------------------------------------------------------------------------------- */

static enum sn_dtype dtype_of(const struct sn_st_tensor *t)
{
    if (strcmp(t->dtype, "BF16") == 0)
        return SN_BF16;
    return strcmp(t->dtype, "F16") == 0 ? SN_F16 : SN_F32; /* F64 is read as fp32 */
}

static enum sn_status list_tensors(struct theirs *h, struct sn_err *err)
{
    h->tensors = sn_alloc_n((size_t)h->list.n, sizeof(*h->tensors));
    if (!h->tensors)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %d tensors", h->path, h->list.n);
    for (int i = 0; i < h->list.n; i++) {
        const struct sn_state_shape *s = &h->list.shapes[i];
        const struct sn_st_tensor *t = sn_hf_source(h->st, h->model.family, s->name);
        h->tensors[i] = (struct sn_source_tensor){s->group, s->name, s->rows, s->cols, dtype_of(t)};
    }
    return SN_OK;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    return sn_hash64((uint64_t[]){a, b}, 2 * sizeof(a));
}

/* Names, shapes and types, and each file's size and time of writing: what changes when the content
 * does, without reading all of it. */
static enum sn_status identify(uint64_t *out, const struct theirs *h, struct sn_err *err)
{
    uint64_t id = 0;
    const char *file = NULL;
    for (int i = 0; i < sn_safetensors_count(h->st); i++) {
        const struct sn_st_tensor *t = sn_safetensors_get(h->st, i);
        struct stat sb;
        id = mix(id, sn_hash64(t->name, strlen(t->name)));
        id = mix(id, sn_hash64(t->dtype, strlen(t->dtype)));
        id = mix(id, sn_hash64(t->shape, (size_t)t->rank * sizeof(t->shape[0])));
        if (t->file == file)
            continue;
        file = t->file;
        if (stat(file, &sb) != 0)
            return sn_file_fail(err, file, "read");
        id = mix(id, (uint64_t)sb.st_size);
        id = mix(id, (uint64_t)sb.st_mtim.tv_sec);
        id = mix(id, (uint64_t)sb.st_mtim.tv_nsec);
    }
    *out = id;
    return SN_OK;
}

static enum sn_status open_theirs(struct theirs *h, const char *path,
                                  const struct sn_model_config *m, uint64_t *id, struct sn_err *err)
{
    struct sn_config c = {.model = *m};
    h->model = *m;
    h->path = sn_strdup(path);
    sn_config_format_model(&h->model_text, &c);
    if (!h->path || h->model_text.failed)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    SN_TRY(sn_hf_no_adapters(path, err));
    SN_TRY(sn_safetensors_open(&h->st, path, err));
    SN_TRY(sn_hf_list_create(&h->list, m, err));
    SN_TRY(sn_hf_fit(h->st, path, m, h->list.shapes, h->list.n, err));
    SN_TRY(list_tensors(h, err));
    return identify(id, h, err);
}

enum sn_status sn_source_open_safetensors(struct sn_source *out, const char *path,
                                          const struct sn_model_config *m, struct sn_err *err)
{
    uint64_t id = 0;
    if (access(path, F_OK) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: cannot be opened: %s; want a safetensors file or directory", path,
                       strerror(errno));
    struct theirs *h = sn_alloc(sizeof(*h));
    if (!h)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    enum sn_status st = open_theirs(h, path, m, &id, err);
    if (st != SN_OK) {
        close_theirs(h);
        return st;
    }
    *out = (struct sn_source){.self = h,
                              .name = h->path,
                              .n_tensors = h->list.n,
                              .tensors = h->tensors,
                              .scalars = {.loss_scale = 1},
                              .model_text = h->model_text.p,
                              .identity = id,
                              .begin = begin,
                              .next = next,
                              .close = close_theirs};
    return SN_OK;
}

/* --- config.json ----------------------------------------------------------------------------- */

char *sn_hf_config_path(const char *path)
{
    struct stat sb;
    const char *slash = strrchr(path, '/');
    if (stat(path, &sb) == 0 && S_ISDIR(sb.st_mode))
        return sn_format("%s/config.json", path);
    return sn_format("%.*sconfig.json", slash ? (int)(slash + 1 - path) : 0, path);
}

enum sn_status sn_hf_load_model(struct sn_model_config *out, const char *path, struct sn_err *err)
{
    struct sn_config c;
    struct sn_str text = {0};
    char *config = sn_hf_config_path(path);
    enum sn_status st = SN_OK;
    if (config && access(config, F_OK) != 0)
        st = sn_fail(err, SN_EINPUT, "%s: cannot be opened: %s; the field keeps it by its weights",
                     config, strerror(errno));
    sn_str_add(&text, "model:\n  config: ");
    sn_str_add_json(&text, config ? config : "");
    sn_str_add(&text, "\ntrain: {steps: 1, global_batch: 1}\n");
    if (st == SN_OK && (!config || text.failed))
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to read its config.json", path);
    if (st == SN_OK)
        st = sn_config_parse(&c, text.p, text.len, config, NULL, err);
    if (st == SN_OK)
        *out = c.model;
    sn_str_fini(&text);
    sn_free(config);
    return st;
}
