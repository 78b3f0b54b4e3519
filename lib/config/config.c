/*
 * config.c - from a run file to struct sn_config: read, then values and defaults, then rules.
 */
#include "lib/config/config.h"

#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/config/settings.h"

#include <stdio.h>
#include <string.h>

static enum sn_status missing(const struct sn_settings *s, const struct sn_key *k,
                              struct sn_err *err)
{
    char want[SN_WANT_SIZE];
    return sn_settings_fail(s, k->name, err, "missing; want %s", sn_key_want(k, want));
}

static enum sn_status take_values(struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        union sn_scratch unkept;
        void *at = sn_key_at(k, c);
        if (k->type == SN_KEY_MAP || k->type == SN_KEY_INCLUDE || k->not_built)
            continue;
        if (s->set[i])
            SN_TRY(sn_key_parse(k, s->set[i], at ? at : &unkept, err));
        else if (k->value && at)
            SN_TRY(sn_key_parse_default(k, at));
        else if (!k->value && !k->derived)
            return missing(s, k, err);
    }
    return SN_OK;
}

const char *sn_layout_key_name(enum sn_layout_key k)
{
#define NAME(ID, key) [SN_KEY_##ID] = #key,
    static const char *const name[SN_NLAYOUT_KEYS] = {SN_LAYOUT_KEYS(NAME)};
#undef NAME
    return name[k];
}

/* Which keys of the layout stand in the file; `auto` names nothing. */
static void note_layout(struct sn_config *c, const struct sn_settings *s)
{
    const struct sn_yaml_node *n = sn_settings_get(s, "layout");
    c->layout_auto = n && n->kind == SN_YAML_SCALAR && !sn_yaml_is_null(n);
    for (int k = 0; k < SN_NLAYOUT_KEYS; k++) {
        char key[64];
        (void)snprintf(key, sizeof(key), "layout.%s", sn_layout_key_name((enum sn_layout_key)k));
        n = sn_settings_get(s, key);
        bool free =
            !n || sn_yaml_is_null(n) || (n->kind == SN_YAML_SCALAR && strcmp(n->text, "auto") == 0);
        c->layout_named |= free ? 0 : 1u << k;
    }
    c->layout_named |= sn_settings_grid_z(s) && c->layout.zero_node > 0 ? 1u << SN_KEY_ZERO : 0;
}

static enum sn_status parse(struct sn_config *out, struct sn_settings *s, struct sn_err *err)
{
    struct sn_config c;
    memset(&c, 0, sizeof(c)); /* padding too: equal files give equal bytes */
    (void)snprintf(c.path, sizeof(c.path), "%s", s->path);
    SN_TRY(take_values(&c, s, err));
    SN_TRY(sn_rules_apply(&c, s, err));
    note_layout(&c, s);
    memcpy(out, &c, sizeof(c));
    return SN_OK;
}

static enum sn_status read_and_parse(struct sn_config *out, struct sn_settings *s, const char *text,
                                     size_t len, const struct stat *id, struct sn_err *err)
{
    enum sn_status st = sn_settings_read(s, text, len, id, err);
    if (st == SN_OK)
        st = parse(out, s, err);
    sn_settings_fini(s);
    return st;
}

enum sn_status sn_config_parse(struct sn_config *out, const char *text, size_t len,
                               const char *path, const char *share_dir, struct sn_err *err)
{
    struct sn_settings s = {.path = path, .share_dir = share_dir};
    return read_and_parse(out, &s, text, len, NULL, err);
}

enum sn_status sn_config_load(struct sn_config *out, const char *path, const char *share_dir,
                              struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    struct sn_settings s = {.path = path, .share_dir = share_dir};
    enum sn_status st = read_and_parse(out, &s, text, len, &id, err);
    sn_free(text);
    return st;
}

/* --- the layout for a known model ------------------------------------------------------------ */

/* The file must not say another thing than the model: in the keys that it sets, or with `all` also
 * in those that it leaves to their defaults. */
static enum sn_status compare_model(const struct sn_config *c, const struct sn_config *model,
                                    const struct sn_settings *file, bool all, struct sn_err *err)
{
    struct sn_model_difference d;
    for (int i = 0; (i = sn_model_differs(&d, i, &c->model, &model->model)) >= 0; i++) {
        if (file->set[i])
            return sn_settings_fail(file, d.key, err,
                                    "is %s, but %s in %s; name the model's layout, without the "
                                    "model or with the same one",
                                    d.ours, d.theirs, model->path);
        if (all)
            return sn_settings_fail(file, d.key, err,
                                    "is left out, which means %s, but it is %s in %s; write it, or "
                                    "leave the model section out",
                                    d.ours, d.theirs, model->path);
    }
    return SN_OK;
}

/* A batch that every schedule can deal out. */
static enum sn_status make_up_batch(struct sn_config *c, const struct sn_settings *s,
                                    struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int64_t batch = (int64_t)(l->data ? l->data : 1) * l->micro_batch * l->pipeline;
    if (batch > INT32_MAX)
        return sn_settings_fail(s, "layout", err,
                                "data x micro_batch x pipeline (%d x %d x %d) is more than %d; "
                                "want less",
                                l->data, l->micro_batch, l->pipeline, INT32_MAX);
    c->train.global_batch = (int)batch;
    return SN_OK;
}

static bool has_model(const struct sn_settings *file)
{
    const struct sn_yaml_node *n = sn_settings_get(file, "model");
    return n && !sn_yaml_is_null(n);
}

/* Is what the file lacks the model's? In a model section of its own a key that is left out has its
 * default, as when the run is trained. */
static bool is_completed(const struct sn_key *k, const struct sn_settings *file)
{
    bool has_default = k->value || k->derived;
    return !k->is_free && !(has_default && strncmp(k->name, "model.", 6) == 0 && has_model(file));
}

/* `file` is completed by what `base` sets. */
static enum sn_status join(struct sn_config *c, struct sn_settings *file,
                           const struct sn_settings *base, const struct sn_config *model,
                           struct sn_err *err)
{
    struct sn_settings all = *file;
    for (int i = 0; i < sn_n_keys; i++)
        if (!all.set[i] && is_completed(&sn_keys[i], file))
            all.set[i] = base->set[i];
    memset(c, 0, sizeof(*c));
    (void)snprintf(c->path, sizeof(c->path), "%s", file->path);
    SN_TRY(take_values(c, &all, err));
    SN_TRY(compare_model(c, model, file, false, err));
    if (!sn_settings_get(file, "train.global_batch"))
        SN_TRY(make_up_batch(c, file, err));
    c->train.eval_every = 0; /* its rules want data */
    SN_TRY(sn_rules_apply(c, &all, err));
    if (has_model(file))
        SN_TRY(compare_model(c, model, file, true, err));
    sn_config_settle_tokens(&c->layout); /* who converts has no machine that could say */
    return sn_config_resolve_ranks(c, sn_config_least_ranks(&c->layout), err);
}

static enum sn_status read_layout(struct sn_settings *s, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, s->path, err));
    enum sn_status st = sn_settings_read(s, text, len, &id, err);
    sn_free(text);
    return st;
}

enum sn_status sn_config_load_layout(struct sn_config *out, const char *path,
                                     const char *model_text, const char *model_name,
                                     struct sn_err *err)
{
    struct sn_settings file = {.path = path ? path : model_name}, base = {.path = model_name};
    struct sn_config *c = sn_alloc_n(2, sizeof(*c)); /* large for a stack; [1]: the model's */
    char *text = sn_format("%s\ntrain: {steps: 1, global_batch: 1}\n", model_text);
    enum sn_status st = SN_OK;
    if (!c || !text)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to read a layout", file.path);
    if (st == SN_OK)
        st = sn_settings_read(&base, text, strlen(text), NULL, err);
    if (st == SN_OK)
        st = parse(&c[1], &base, err);
    if (st == SN_OK && path)
        st = read_layout(&file, err);
    if (st == SN_OK)
        st = join(c, &file, &base, &c[1], err);
    if (st == SN_OK)
        *out = *c;
    sn_settings_fini(&file);
    sn_settings_fini(&base);
    sn_free(text);
    sn_free(c);
    return st;
}
