#include "checkpoint/store/look.h"
#include "checkpoint/store/store.h"
#include "checkpoint/store/tokenizer_files.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/config/optimizer.h"

#include <stdio.h>
#include <string.h>

static bool is_weight(const char *group)
{
    return strcmp(group, "model") == 0;
}

/* A checkpoint of weights alone, as --from safetensors makes it, is whole, but no run stopped
 * there.
 */
static enum sn_status check_moments(const struct sn_reader *r, const struct sn_state *s,
                                    struct sn_err *err)
{
    bool has = false, wants = false;
    for (int i = 0; i < r->manifest.n_tensors; i++)
        has = has || !is_weight(r->manifest.tensors[i].group);
    for (int i = 0; i < s->n_all; i++)
        wants = wants || !is_weight(s->all[i].group);
    if (has || !wants)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: holds weights alone, and no run goes on without the optimizer's state; use "
                   "another checkpoint.dir, and train.init_from: %s to begin with these weights",
                   r->dir, r->dir);
}

static bool manifest_has(const void *of, const char *group)
{
    const struct sn_manifest *m = of;
    for (int i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].group, group) == 0)
            return true;
    return false;
}

static bool state_has(const void *of, const char *group)
{
    const struct sn_state *s = of;
    for (int i = 0; i < s->n_all; i++)
        if (strcmp(s->all[i].group, group) == 0)
            return true;
    return false;
}

/* Moments of another optimizer are of no use to this one. */
static enum sn_status check_optimizer(const struct sn_reader *r, const struct sn_state *s,
                                      struct sn_err *err)
{
    enum sn_optimizer had, has;
    if (!sn_optimizer_of_groups(&had, manifest_has, &r->manifest) ||
        !sn_optimizer_of_groups(&has, state_has, s) || had == has)
        return SN_OK; /* what is missing is told tensor by tensor */
    return sn_fail(err, SN_EINPUT,
                   "%s: holds the state of optimizer %s, and this run's is %s; set "
                   "train.optimizer.kind: %s, or use another checkpoint.dir, and train.init_from: "
                   "%s to begin with these weights",
                   r->dir, sn_optimizer_row(had)->name, sn_optimizer_row(has)->name,
                   sn_optimizer_row(had)->name, r->dir);
}

/* What layout.compress or train.ema has added fits the weights, and no holder is missing before another. */
static enum sn_status check_added(const struct sn_reader *r, const struct sn_manifest_tensor *t,
                                  struct sn_err *err)
{
    const struct sn_manifest_tensor *of = sn_manifest_find(&r->manifest, "model", t->name);
    int holder = sn_state_holder(t->group);
    char before[32];
    if (!of || of->rows != t->rows || of->cols != t->cols)
        return sn_fail(err, SN_EINPUT, "%s/manifest.json: tensor %s %s is not of the model's shape",
                       r->dir, t->group, t->name);
    (void)snprintf(before, sizeof(before), "feedback.%d", holder - 1);
    if (holder > 0 && !sn_manifest_find(&r->manifest, before, t->name))
        return sn_fail(err, SN_EINPUT, "%s/manifest.json: has tensor %s %s, but not %s", r->dir,
                       t->group, t->name, before);
    return SN_OK;
}

/* The model is the same, so that what a run trains and has beside it is another. */
static enum sn_status refuse_other(const struct sn_reader *r, const char *does, const char *group,
                                   const char *name, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT,
                   "%s: %s %s %s; want train.freeze, train.lora and train.prompt as they were, or "
                   "another checkpoint.dir, and train.init_from: %s to begin with these weights",
                   r->dir, does, group, name, r->dir);
}

static enum sn_status check_lacking(const struct sn_reader *r, const struct sn_state *s,
                                    struct sn_err *err)
{
    for (int i = 0; i < s->n_all; i++)
        if (!sn_state_may_lack(s->all[i].group) &&
            !sn_manifest_find(&r->manifest, s->all[i].group, s->all[i].name))
            return refuse_other(r, "lacks what this run trains,", s->all[i].group, s->all[i].name,
                                err);
    return SN_OK;
}

static enum sn_status check_extra(const struct sn_reader *r, const bool *used, struct sn_err *err)
{
    for (int i = 0; i < r->manifest.n_tensors; i++) {
        const struct sn_manifest_tensor *t = &r->manifest.tensors[i];
        if (sn_state_may_lack(t->group))
            SN_TRY(check_added(r, t, err));
        else if (!used[i])
            return refuse_other(r, "holds what this run does not train,", t->group, t->name, err);
    }
    return SN_OK;
}

/* All tensors of the model, not only those that this rank holds: what no rank could want is refused
 * by every rank. */
static enum sn_status check_tensors(const struct sn_reader *r, const struct sn_state *s,
                                    struct sn_err *err)
{
    bool *used = sn_alloc_n((size_t)r->manifest.n_tensors, sizeof(*used));
    if (!used)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to compare its tensors", r->dir);
    enum sn_status st = check_lacking(r, s, err);
    if (st == SN_OK)
        st = sn_reader_match(r, s, NULL, used, err);
    if (st == SN_OK)
        st = check_extra(r, used, err);
    sn_free(used);
    return st;
}

static int holders_in(const char *group, int most)
{
    int holder = sn_state_holder(group);
    return holder >= most ? holder + 1 : most;
}

/* Averages of weights that are there alone, or wanted alone. */
static void say_averages(const struct sn_reader *r, const struct sn_state *s)
{
    bool had = manifest_has(&r->manifest, "ema"), has = state_has(s, "ema");
    if (s->rank != 0 || had == has)
        return;
    if (had)
        sn_log(SN_LOG_INFO, "%s: its averages of weights are dropped: this run has no train.ema",
               r->dir);
    else
        sn_log(SN_LOG_INFO, "%s: has no averages of weights; train.ema begins with its weights",
               r->dir);
}

/* What of compression's state goes another way than it came. */
static void say_changed(const struct sn_reader *r, const struct sn_state *s)
{
    int had = 0, has = 0, replicas = 0;
    for (int i = 0; i < r->manifest.n_tensors; i++) {
        had = holders_in(r->manifest.tensors[i].group, had);
        replicas += strcmp(r->manifest.tensors[i].group, "replica") == 0;
    }
    for (int i = 0; i < s->n_all; i++) {
        has = holders_in(s->all[i].group, has);
        replicas -= strcmp(s->all[i].group, "replica") == 0;
    }
    if (replicas > 0 && s->rank == 0)
        sn_log(SN_LOG_INFO,
               "%s: the weights that ranks computed with are dropped: they are the rounded masters "
               "in this layout",
               r->dir);
    if (had == has || s->rank != 0)
        return;
    if (has == 0)
        sn_log(SN_LOG_INFO, "%s: its error feedback is dropped: layout.compress has none any more",
               r->dir);
    else if (had == 0)
        sn_log(SN_LOG_INFO, "%s: has no error feedback; it begins with zeros", r->dir);
    else
        sn_log(SN_LOG_INFO,
               "%s: error feedback of %d holders becomes that of %d, the sum unchanged", r->dir,
               had, has);
}

/* "data: 2 (now 1), micro_batch: 8 (now 1)": what two layouts of the same keys differ in. */
static void compare_layouts(struct sn_str *out, const char *had, const char *has)
{
    while (*had && *has) {
        const char *h, *w;
        int nh = sn_look_line(&had, &h), nw = sn_look_line(&has, &w);
        if (nh == nw && strncmp(h, w, (size_t)nh) == 0)
            continue;
        int key = (int)strcspn(w, ":");
        if (key + 2 > nw || strncmp(h, w, (size_t)key) != 0)
            return; /* another format */
        sn_str_add(out, "%s%.*s (now %.*s)", out->len ? ", " : "", nh, h, nw - key - 2,
                   w + key + 2);
    }
}

/* What else is not as it was when the checkpoint was saved: no error, but no surprise either. */
static void say_settings(const struct sn_reader *r, const struct sn_state *s)
{
    struct sn_str layout = {0};
    if (s->rank != 0 || !s->config_hash || r->manifest.config_hash == s->config_hash)
        return;
    if (s->layout_text)
        compare_layouts(&layout, r->manifest.layout_text, s->layout_text);
    if (layout.len && !layout.failed)
        sn_log(SN_LOG_INFO, "%s: was saved in another layout: %s", r->dir, layout.p);
    else
        sn_log(SN_LOG_INFO,
               "%s: was saved under other settings of run, data or train; going on under the new "
               "ones",
               r->dir);
    sn_str_fini(&layout);
}

static enum sn_status load_all(struct sn_reader *r, struct sn_state *s, struct sn_err *err)
{
    SN_TRY(sn_look_model(&r->manifest, r->dir, s->model_text, err));
    SN_TRY(sn_tokenizer_files_check(&r->manifest.tokenizer, &s->tokenizer, r->dir, err));
    SN_TRY(check_moments(r, s, err));
    SN_TRY(check_optimizer(r, s, err));
    SN_TRY(check_tensors(r, s, err));
    SN_TRY(sn_reader_fill(r, s, NULL, err));
    say_changed(r, s);
    say_averages(r, s);
    s->scalars = r->manifest.scalars;
    say_settings(r, s);
    if (s->tokenizer.file[0])
        return SN_OK;
    return sn_tokenizer_files_of(&s->tokenizer, &r->manifest.tokenizer, r->dir, err);
}

static enum sn_status load_at(const char *path, struct sn_state *s, struct sn_err *err)
{
    struct sn_reader r;
    SN_TRY(sn_reader_open(&r, path, err));
    r.progress = s->progress;
    sn_progress_mark(r.progress);
    enum sn_status st = load_all(&r, s, err);
    sn_reader_close(&r);
    return st;
}

enum sn_status sn_store_load(const struct sn_store *store, int64_t step, struct sn_state *s,
                             struct sn_err *err)
{
    char *path = sn_store_path(store, step, "");
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open a checkpoint", store->dir);
    enum sn_status st = load_at(path, s, err);
    sn_free(path);
    return st;
}

enum sn_status sn_store_load_from(const char *path, struct sn_state *s, struct sn_err *err)
{
    char *step_dir;
    SN_TRY(sn_store_find(&step_dir, path, err));
    enum sn_status st = load_at(step_dir, s, err);
    sn_free(step_dir);
    return st;
}
