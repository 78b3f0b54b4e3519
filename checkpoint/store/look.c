#include "checkpoint/store/look.h"

#include "checkpoint/hf/hfnames.h"
#include "checkpoint/hf/hfrules.h"
#include "checkpoint/store/init_model.h"
#include "checkpoint/store/model_text.h"
#include "checkpoint/store/reader.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the model of a checkpoint ---------------------------------------------------------------- */

int sn_look_line(const char **p, const char **line)
{
    *line = *p + strspn(*p, " \t");
    size_t len = strcspn(*line, "\n");
    *p = *line + len + ((*line)[len] == '\n');
    return (int)len;
}

/* A text as this version writes it: a key that is younger than the checkpoint has its default. What
 * cannot be read stays as it is. */
static char *as_written_now(const char *text, const char *where)
{
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    struct sn_str now = {0};
    struct sn_err unread;
    if (c && sn_model_text_parse(c, text, where, &unread) == SN_OK)
        sn_config_format_model(&now, c);
    else
        sn_str_add(&now, "%s", text);
    sn_free(c);
    if (!now.failed)
        return now.p;
    sn_str_fini(&now);
    return NULL;
}

enum sn_status sn_look_model(const struct sn_manifest *m, const char *dir, const char *want,
                             struct sn_err *err)
{
    if (strcmp(m->model_text, want) == 0)
        return SN_OK;
    char *text = as_written_now(m->model_text, dir);
    if (!text)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to compare its model", dir);
    enum sn_status st = SN_OK;
    if (strcmp(text, want) != 0) {
        const char *have = text, *h, *w;
        int nh, nw;
        do {
            nh = sn_look_line(&have, &h);
            nw = sn_look_line(&want, &w);
        } while (nh == nw && strncmp(h, w, (size_t)nh) == 0 && (*have || *want));
        bool both = nh > 0 && nw > 0;
        st =
            sn_fail(err, SN_EINPUT,
                    "%s: holds another model: it %s '%.*s'%s%.*s%s; use another checkpoint.dir, or "
                    "train.init_from to take only its weights",
                    dir, nh > 0 ? "has" : "lacks", nh > 0 ? nh : nw, nh > 0 ? h : w,
                    both     ? " where the run file has '"
                    : nh > 0 ? ", which the run file lacks"
                             : ", which the run file has",
                    both ? nw : 0, w, both ? "'" : "");
    }
    sn_free(text);
    return st;
}

/* --- which one -------------------------------------------------------------------------------- */

static bool has_file(const char *dir, const char *name, bool *known)
{
    char *path = sn_format("%s/%s", dir, name);
    bool there = path && access(path, F_OK) == 0;
    *known = *known && path;
    sn_free(path);
    return there;
}

/* "DIR/step-00000100" of the greatest step with a COMMIT; NULL for none. */
static enum sn_status find_newest(char **out, int64_t *step, const char *dir, struct sn_err *err)
{
    DIR *d = opendir(dir);
    bool known = true;
    *out = NULL;
    *step = -1;
    for (struct dirent *e; d && known && (e = readdir(d));) {
        size_t digits =
            strncmp(e->d_name, "step-", 5) == 0 ? strspn(e->d_name + 5, "0123456789") : 0;
        int64_t n = digits >= 8 && digits <= 18 ? strtoll(e->d_name + 5, NULL, 10) : -1;
        if (n <= *step || e->d_name[5 + digits])
            continue;
        char *path = sn_format("%s/%s", dir, e->d_name);
        known = path != NULL;
        if (!path || !has_file(path, "COMMIT", &known)) {
            sn_free(path);
            continue;
        }
        sn_free(*out);
        *out = path;
        *step = n;
    }
    if (d)
        (void)closedir(d); /* read only */
    return known ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to list it", dir);
}

/* The model of one that a run would go on from, and what it says of itself. */
static enum sn_status look_at_one(struct sn_look *out, const char *step_dir, const char *model_text,
                                  struct sn_err *err)
{
    struct sn_manifest m;
    struct sn_err damage;
    enum sn_status st = sn_manifest_load(&m, step_dir, &damage);
    if (st != SN_OK)
        return st == SN_ENOMEM ? sn_fail(err, st, "%s", damage.text) : SN_OK;
    *out = (struct sn_look){.step = m.scalars.step,
                            .is_read = true,
                            .blend = m.scalars.blend,
                            .tokenizer = m.tokenizer};
    st = sn_look_model(&m, step_dir, model_text, err);
    sn_manifest_fini(&m);
    return st;
}

enum sn_status sn_look_resume(struct sn_look *out, const char *dir, const char *model_text,
                              struct sn_err *err)
{
    char *newest = NULL;
    *out = (struct sn_look){.step = -1};
    SN_TRY(find_newest(&newest, &out->step, dir, err));
    enum sn_status st = newest ? look_at_one(out, newest, model_text, err) : SN_OK;
    sn_free(newest);
    return st;
}

enum sn_status sn_look_continue(struct sn_look *out, const char *path, const char *model_text,
                                struct sn_err *err)
{
    bool known = true, is_step = has_file(path, "manifest.json", &known);
    *out = (struct sn_look){.step = -1};
    if (!known)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    SN_TRY(is_step ? look_at_one(out, path, model_text, err)
                   : sn_look_resume(out, path, model_text, err));
    if (out->step < 0 && !is_step)
        return sn_fail(err, SN_EINPUT,
                       "%s: train.continue_from: holds no checkpoint; want one, or a directory "
                       "with some",
                       path);
    return SN_OK;
}

/* --- weights to begin with -------------------------------------------------------------------- */

/* Routers' biases begin at 0 in weights that were trained without them. */
static void leave_out_biases(struct sn_hf_list *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        if (!sn_str_glob("*.ffn.router.bias", l->shapes[i].name))
            l->shapes[n++] = l->shapes[i];
    l->n = n;
}

/* What is trained beside weights, of which a source may have all or none. */
static bool is_beside(const struct sn_train_config *t, const char *name)
{
    return (t->lora.r > 0 && sn_hf_is_adapter(name)) ||
           (sn_prompt_positions(&t->prompt) > 0 && sn_hf_is_prompt(name));
}

/* `l`: without adapters and prompts. */
static enum sn_status match(const struct sn_manifest *m, const char *dir, const struct sn_config *c,
                            const struct sn_hf_list *l, struct sn_err *err)
{
    struct sn_left_over left = {0};
    for (int i = 0; i < l->n; i++) {
        const struct sn_manifest_tensor *ignored;
        SN_TRY(sn_manifest_want(m, dir, &l->shapes[i], &ignored, err));
    }
    for (int i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].group, "model") == 0 && !sn_hf_list_find(l, m->tensors[i].name) &&
            !is_beside(&c->train, m->tensors[i].name))
            sn_left_over_add(&left, m->tensors[i].name);
    return sn_left_over_explain(&left, dir, err);
}

static enum sn_status look_at_ours(const char *step_dir, const struct sn_config *c,
                                   struct sn_hf_list *l, struct sn_err *err)
{
    struct sn_manifest m;
    bool has_biases = false;
    SN_TRY(sn_manifest_load(&m, step_dir, err));
    enum sn_status st = sn_init_check_text(m.model_text, step_dir, c, 0, err);
    if (st == SN_OK)
        st = sn_init_check_adapters(&m, step_dir, c, err);
    for (int i = 0; i < m.n_tensors; i++)
        has_biases = has_biases || sn_str_glob("*.ffn.router.bias", m.tensors[i].name);
    if (!has_biases)
        leave_out_biases(l);
    if (st == SN_OK)
        st = match(&m, step_dir, c, l, err);
    sn_manifest_fini(&m);
    return st;
}

static enum sn_status look_at_theirs(const struct sn_config *c, struct sn_hf_list *l,
                                     struct sn_err *err)
{
    const char *path = c->train.init_from;
    struct sn_safetensors *st;
    leave_out_biases(l);
    SN_TRY(sn_safetensors_open(&st, path, err));
    enum sn_status status = sn_init_check_field(path, c, 0, err);
    if (status == SN_OK)
        status = sn_hf_fit(st, path, &c->model, l->shapes, l->n, err);
    sn_safetensors_close(st);
    return status;
}

enum sn_status sn_look_weights(const struct sn_config *c, struct sn_err *err)
{
    const char *path = c->train.init_from;
    struct sn_hf_list l;
    bool known = true;
    char *newest = NULL;
    int64_t step;
    SN_TRY(sn_init_check_path(path, err));
    bool is_step = has_file(path, "manifest.json", &known);
    if (!known)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    SN_TRY(sn_hf_list_create(&l, &c->model, err));
    enum sn_status st = is_step ? SN_OK : find_newest(&newest, &step, path, err);
    if (st == SN_OK)
        st = is_step  ? look_at_ours(path, c, &l, err)
             : newest ? look_at_ours(newest, c, &l, err)
                      : look_at_theirs(c, &l, err);
    sn_free(newest);
    sn_hf_list_fini(&l);
    return st;
}
