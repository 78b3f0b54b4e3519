/*
 * help.c - the key table as a page, a configuration as YAML, and its hash.
 */
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/text_file.h"
#include "lib/config/keys.h"

#include <stdio.h>
#include <string.h>

/* --- help ------------------------------------------------------------------------------------- */

static const char *takes(const struct sn_key *k, char buf[SN_WANT_SIZE])
{
    struct sn_key any = *k;
    any.only = NULL; /* what the key takes once its feature is built */
    if (k->type == SN_KEY_INCLUDE) {
        const char *dot = strrchr(k->name, '.');
        return strcmp(dot ? dot + 1 : k->name, "preset") == 0 ? "a name" : "a path";
    }
    return sn_key_want(&any, buf);
}

static void default_text(const struct sn_key *k, char buf[SN_WANT_SIZE])
{
    if (k->not_built)
        (void)snprintf(buf, SN_WANT_SIZE, "not built yet");
    else if (k->only)
        (void)snprintf(buf, SN_WANT_SIZE, "%s; others are not built yet", k->only);
    else if (k->value)
        (void)snprintf(buf, SN_WANT_SIZE, "%s", k->value);
    else if (k->derived)
        (void)snprintf(buf, SN_WANT_SIZE, "%s", k->derived);
    else if (k->type == SN_KEY_INCLUDE)
        (void)snprintf(buf, SN_WANT_SIZE, "none");
    else
        (void)snprintf(buf, SN_WANT_SIZE, "required");
}

static void names_not_built(const struct sn_key *k, struct sn_str *out)
{
    int n = 0;
    for (int i = 0; k->names && k->names[i]; i++) {
        if (k->later >> i & 1)
            sn_str_add(out, "%s%s", n++ ? ", " : " Not built yet: ", k->names[i]);
    }
    sn_str_add(out, n ? "." : "");
}

static void help_row(struct sn_str *out, const struct sn_key *k, bool markdown)
{
    char want[SN_WANT_SIZE], value[SN_WANT_SIZE];
    const char *what = takes(k, want);
    default_text(k, value);
    if (markdown)
        sn_str_add(out, "| `%s` | %s | %s | %s", k->name, what, value, k->sentence);
    else
        sn_str_add(out, "%s: %s (default: %s)\n    %s", k->name, what, value, k->sentence);
    names_not_built(k, out);
    sn_str_add(out, markdown ? " |\n" : "\n");
}

static const char intro_markdown[] =
    "# The run file\n\n"
    "Generated from the key table in `lib/config/keys.c` by\n"
    "`sennit-plan --help-keys=markdown > docs/RUNFILE.md`; do not edit.\n\n"
    "One YAML file is read by all programs. Unknown keys are errors. A key whose feature is not\n"
    "built yet is accepted only with the value that means \"off\". Paths are relative to the "
    "working\n"
    "directory, `checkpoint.dir` to `run.output`.\n\n"
    "`file: PATH` in any section, or at the top, takes that section's keys from another file (or\n"
    "from that section of another run file); `preset: NAME` takes a shipped one. Keys beside them\n"
    "override, wherever they stand; a section that starts from a file takes nothing else over.\n"
    "Anchors, aliases, tags and second documents are refused.\n";

static void help_section(struct sn_str *out, const struct sn_key *k, bool markdown)
{
    if (markdown)
        sn_str_add(out, "\n## %s\n\n%s%s| key | takes | default | meaning |\n|---|---|---|---|\n",
                   k ? k->name : "Starting from another file", k ? k->sentence : "",
                   !k             ? ""
                   : k->not_built ? " **Not built yet: leave it out.**\n\n"
                                  : "\n\n");
    else if (k)
        sn_str_add(out, "\n%s: %s%s\n", k->name, k->sentence,
                   k->not_built ? " (not built yet)" : "");
}

void sn_config_help(struct sn_str *out, bool markdown)
{
    if (markdown) {
        sn_str_add(out, "%s", intro_markdown);
        help_section(out, NULL, markdown);
    }
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        if (k->type != SN_KEY_MAP)
            help_row(out, k, markdown);
        else if (!strchr(k->name, '.'))
            help_section(out, k, markdown);
    }
}

/* --- format ----------------------------------------------------------------------------------- */

static void open_section(struct sn_str *out, const struct sn_key *k)
{
    const char *dot = strrchr(k->name, '.');
    sn_str_add(out, "%s%s:\n", dot ? "  " : "", dot ? dot + 1 : k->name);
}

/* Does any key of the section have a place in the struct? */
static bool is_kept(const struct sn_key *section)
{
    size_t n = strlen(section->name);
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        if (k->offset != SN_NOWHERE && !k->only && !strncmp(k->name, section->name, n) &&
            k->name[n] == '.')
            return true;
    }
    return false;
}

/* Has it its default, or nothing yet? A section: have all of its keys? */
static bool is_usual(const struct sn_key *k, const struct sn_config *c)
{
    union sn_scratch usual;
    char have[SN_VALUE_SIZE], want[SN_VALUE_SIZE];
    const char *word;
    for (int i = 0; k->type == SN_KEY_MAP && i < sn_n_keys; i++)
        if (sn_key_in(&sn_keys[i], k->name, &word) && !is_usual(&sn_keys[i], c))
            return false;
    if (k->type == SN_KEY_MAP || (k->type == SN_KEY_FLOAT && *(double *)sn_key_get(k, c) == 0))
        return true;
    if (strstr(k->name, ".experts.") && strstr(k->name, "groups") && *(int *)sn_key_get(k, c) == 0)
        return true; /* nothing yet, where a number is at least 1 */
    return sn_key_parse_default(k, &usual) == SN_OK &&
           strcmp(sn_key_format(k, sn_key_get(k, c), have), sn_key_format(k, &usual, want)) == 0;
}

/* A dense model says nothing of experts, and one without shared experts, noise, a bias or another
 * router than softmax nothing of those: its text and its hash are what they always were. */

bool sn_key_is_said(const struct sn_key *k, const struct sn_config *c)
{
    const struct sn_experts_config *x = &c->model.experts;
    if (strncmp(k->name, "train.lora", 10) == 0 && c->train.lora.r == 0)
        return false;
    if (strcmp(k->name, "model.experts.shared") == 0 && x->shared == 0)
        return false;
    if (strcmp(k->name, "model.experts.jitter") == 0 && x->jitter == 0)
        return false;
    if (strncmp(k->name, "model.experts.bias", 18) == 0 && x->bias == SN_BIAS_NONE)
        return false;
    if (strcmp(k->name, "model.experts.balance") == 0 && x->aux_loss == 0)
        return false;
    if (strcmp(k->name, "model.experts.router") == 0 && x->router == SN_ROUTER_SOFTMAX)
        return false;
    if (strcmp(k->name, "model.experts.mixer_range") == 0 && x->router != SN_ROUTER_SPARSEMIXER)
        return false;
    if (strcmp(k->name, "model.sliding_window") == 0 && c->model.sliding_window == 0)
        return false;
    if (strcmp(k->name, "model.window_from") == 0 && c->model.window_from == 0)
        return false;
    if (strcmp(k->name, "model.global_every") == 0 && c->model.global_every == 0)
        return false;
    if (strcmp(k->name, "model.score_cap") == 0 && c->model.score_cap == 0)
        return false;
    if (strncmp(k->name, "model.latent", 12) == 0)
        return sn_model_has_latents(&c->model);
    bool scales = c->model.rope_scaling.kind != 0; /* else nothing reads how */
    if (strncmp(k->name, "model.rope_scaling.", 19) == 0 && !scales)
        return false;
    if (k->is_quiet && is_usual(k, c))
        return false;
    if (sn_optimizer_ignores(c->train.optimizer.kind, k->name))
        return false;
    if (strcmp(k->name, "train.optimizer.kind") == 0 &&
        c->train.optimizer.kind == SN_OPTIMIZER_ADAMW)
        return false; /* texts and hashes from before there were others */
    if (strcmp(k->name, "train.schedule.decay") == 0 && !sn_lr_has_decay(c->train.schedule.kind))
        return false;
    if (strcmp(k->name, "train.init_changes") == 0 && c->train.n_init_changes == 0)
        return false;
    if (strcmp(k->name, "layout.expert_tokens") == 0 && /* to be read again where it says much */
        (c->layout.expert == 1 || c->layout.tensor == 1) &&
        c->layout.expert_tokens != SN_TOKENS_SPLIT)
        return false;
    if (strcmp(k->name, "layout.compress.node") == 0 && c->layout.compress.node == 0)
        return false;
    return c->model.experts.count > 0 || (strncmp(k->name, "model.experts", 13) != 0 &&
                                          strcmp(k->name, "layout.expert_buffer") != 0 &&
                                          strcmp(k->name, "layout.expert_node") != 0 &&
                                          strcmp(k->name, "layout.expert_chunks") != 0);
}

/* The sections whose names begin with `prefix`. */
static void format_sections(struct sn_str *out, const struct sn_config *c, const char *prefix)
{
    char value[SN_VALUE_SIZE];
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        if (strncmp(k->name, prefix, strlen(prefix)) != 0 || !sn_key_is_said(k, c))
            continue;
        if (k->type == SN_KEY_MAP && is_kept(k))
            open_section(out, k);
        if (k->offset == SN_NOWHERE || k->only)
            continue;
        const char *first = strchr(k->name, '.'), *last = strrchr(k->name, '.');
        sn_str_add(out, "%s%s: %s\n", first == last ? "  " : "    ", last + 1,
                   sn_key_format(k, sn_key_get(k, c), value));
    }
}

void sn_config_format(struct sn_str *out, const struct sn_config *c)
{
    format_sections(out, c, "");
}

enum sn_status sn_config_save(const struct sn_config *c, const char *path, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_config_format(&text, c);
    enum sn_status st = sn_text_save(&text, path, err);
    sn_str_fini(&text);
    return st;
}

static bool is_of_model(const struct sn_key *k)
{
    return strncmp(k->name, "model.", 6) == 0;
}

/* Of the model what a checkpoint carries: how it is trained a run may change. */
static void keep_carried(struct sn_config *c)
{
    for (int i = 0; i < sn_n_keys; i++)
        if (sn_keys[i].is_free && sn_keys[i].type == SN_KEY_ENUM)
            *(int *)sn_key_at(&sn_keys[i], c) = 0;
        else if (sn_keys[i].is_free)
            *(double *)sn_key_at(&sn_keys[i], c) = 0;
    struct sn_model_config *m = &c->model; /* as read, before rules.c derives the same */
    if (m->head_dim > 0 && (int64_t)m->head_dim * m->heads == m->hidden)
        m->head_dim = 0;
    if (c->model.experts.router == SN_ROUTER_DENSE) /* what was trained so may go on sparse */
        c->model.experts.router = SN_ROUTER_SOFTMAX;
}

void sn_config_format_model(struct sn_str *out, const struct sn_config *c)
{
    struct sn_config tensors = *c;
    keep_carried(&tensors);
    format_sections(out, &tensors, "model");
}

int sn_model_differs(struct sn_model_difference *out, int from, const struct sn_model_config *ours,
                     const struct sn_model_config *theirs)
{
    char value[2][SN_VALUE_SIZE];
    struct sn_config a = {.model = *ours}, b = {.model = *theirs};
    keep_carried(&a);
    keep_carried(&b);
    for (int i = from; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        if (!is_of_model(k) || !k->decides || (!sn_key_is_said(k, &a) && !sn_key_is_said(k, &b)) ||
            strcmp(sn_key_format(k, sn_key_get(k, &a), value[0]),
                   sn_key_format(k, sn_key_get(k, &b), value[1])) == 0)
            continue;
        (void)snprintf(out->key, sizeof(out->key), "%s", k->name);
        (void)snprintf(out->ours, sizeof(out->ours), "%.60s", value[0]);
        (void)snprintf(out->theirs, sizeof(out->theirs), "%.60s", value[1]);
        return i;
    }
    return -1;
}

void sn_config_format_layout(struct sn_str *out, const struct sn_config *c)
{
    format_sections(out, c, "layout");
}

uint64_t sn_config_hash(const struct sn_config *c)
{
    uint64_t hash = 0;
    char value[SN_VALUE_SIZE];
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        if (!k->decides || !sn_key_is_said(k, c))
            continue;
        hash = sn_rng_key(hash, k->name);
        hash = sn_rng_key(hash, sn_key_format(k, sn_key_get(k, c), value));
    }
    return hash;
}
