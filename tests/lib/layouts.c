#include "tests/lib/layouts.h"

#include "lib/layout/grid.h"

#include <string.h>

enum { KEYS_MAX = 64, LINE_MAX_BYTES = 512 };

enum section { MODEL, DATA, TRAIN, LAYOUT, NSECTIONS };

struct key {
    enum section section;
    const char *name, *value; /* NULL: left to the run file's default */
};

struct keys {
    struct key key[KEYS_MAX];
    int n;
};

/* What the head of the table says. */
static const struct key defaults[] = {
    {MODEL, "family", "llama"},
    {MODEL, "layers", "4"},
    {MODEL, "hidden", "48"},
    {MODEL, "heads", "12"},
    {MODEL, "kv_heads", NULL},
    {MODEL, "latent", NULL},
    {MODEL, "ffn", "80"},
    {MODEL, "vocab", "61"},
    {MODEL, "seq", "48"},
    {MODEL, "dropout", NULL},
    {MODEL, "init_std", "0.05"},
    {MODEL, "rotary_pct", NULL},
    {MODEL, "tied_embeddings", NULL},
    {MODEL, "head_dim", NULL},
    {MODEL, "rope_scaling", NULL},
    {MODEL, "no_rope_every", NULL},
    {MODEL, "embed_scale", NULL},
    {MODEL, "residual_scale", NULL},
    {MODEL, "logits_divisor", NULL},
    {MODEL, "attention_scale", NULL},
    {MODEL, "logit_cap", NULL},
    {MODEL, "attention_bias", NULL},
    {MODEL, "mlp_bias", NULL},
    {MODEL, "dense_ffn", NULL},
    {MODEL, "rope_local_theta", NULL},
    {MODEL, "experts", NULL},
    {MODEL, "share_layers", NULL},
    {TRAIN, "steps", "20"},
    {MODEL, "sliding_window", NULL},
    {MODEL, "global_every", NULL},
    {MODEL, "score_cap", NULL},
    {DATA, "documents", NULL},
    {DATA, "loss", NULL},
    {DATA, "prefix", NULL},
    {DATA, "curriculum", NULL},
    {TRAIN, "global_batch", "12"},
    {TRAIN, "ramp", NULL},
    {TRAIN, "z_loss", NULL},
    {MODEL, "mtp", NULL},
    {TRAIN, "mtp_loss", NULL},
    {TRAIN, "ema", NULL},
    {TRAIN, "groups", NULL},
    {TRAIN, "sparse", NULL},
    {TRAIN, "mup", NULL},
    {TRAIN, "precision", NULL},
    {TRAIN, "freeze", NULL},
    {TRAIN, "lora", NULL},
    {TRAIN, "prompt", NULL},
    {TRAIN, "optimizer", NULL},
    {LAYOUT, "data", "1"},
    {LAYOUT, "bucket", "20KiB"},
};

static struct key *find(struct keys *k, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->key[i].name, name) == 0)
            return &k->key[i];
    if (k->n == KEYS_MAX)
        return NULL;
    k->key[k->n] = (struct key){LAYOUT, name, NULL}; /* the parser knows whether it exists */
    return &k->key[k->n++];
}

static enum sn_status take(struct layouts_line *l, struct keys *k, char *token, struct sn_err *err)
{
    char *value = strchr(token, '=');
    if (!value) {
        bool *mark = strcmp(token, "fast") == 0    ? &l->fast
                     : strcmp(token, "smoke") == 0 ? &l->smoke
                     : strcmp(token, "twice") == 0 ? &l->twice
                                                   : NULL;
        if (!mark)
            return sn_fail(err, SN_EINPUT, "%s: '%s' is no mark; want fast, smoke or twice",
                           l->name, token);
        *mark = true;
        return SN_OK;
    }
    *value++ = '\0';
    if (strcmp(token, "blend") == 0) { /* of token files, which are those of processes alone */
        l->blends = true;
        return SN_OK;
    }
    if (strcmp(token, "resume") == 0) {
        (void)snprintf(l->resume, sizeof(l->resume), "%s", value);
        return SN_OK;
    }
    struct key *key = find(k, token);
    if (!key)
        return sn_fail(err, SN_EINPUT, "%s: more than %d keys", l->name, KEYS_MAX);
    key->value = value;
    return SN_OK;
}

static enum sn_status parse(struct layouts_line *l, const struct keys *k, struct sn_err *err)
{
    static const char *const names[] = {"model", "data", "train", "layout"};
    struct sn_str text = {0};
    for (int s = 0; s < NSECTIONS; s++) {
        sn_str_add(&text, "%s:\n", names[s]);
        for (int i = 0; i < k->n; i++)
            if ((int)k->key[i].section == s && k->key[i].value)
                sn_str_add(&text, "  %s: %s\n", k->key[i].name, k->key[i].value);
    }
    enum sn_status st = text.failed
                            ? sn_fail(err, SN_ENOMEM, "%s: no memory", l->name)
                            : sn_config_parse(&l->config, text.p, text.len, l->name, NULL, err);
    sn_str_fini(&text);
    if (st == SN_OK && l->config.layout.overlap != SN_OVERLAP_NONE)
        layouts_overlap(&l->config); /* no machine is named that would have rates */
    return st;
}

enum sn_status layouts_read(struct layouts_line *l, char *text, struct sn_err *err)
{
    struct keys k = {.n = sizeof(defaults) / sizeof(defaults[0])};
    memcpy(k.key, defaults, sizeof(defaults));
    char *rest, *token = strtok_r(text, " \n", &rest);
    *l = (struct layouts_line){0};
    (void)snprintf(l->name, sizeof(l->name), "%s", token);
    while ((token = strtok_r(NULL, " \n", &rest)))
        SN_TRY(take(l, &k, token, err));
    struct key *rotary = find(&k, "rotary_pct");
    if (!rotary->value && strcmp(find(&k, "family")->value, "gpt-neox") == 0)
        rotary->value = "0.5"; /* a quarter of a head of 4 is no pair */
    SN_TRY(parse(l, &k, err));
    if (l->blends)
        l->config.data.train.n = 2; /* what programs know of it */
    return SN_OK;
}

int layouts_next(FILE *f, struct layouts_line *out, struct sn_err *err)
{
    char text[LINE_MAX_BYTES];
    while (fgets(text, sizeof(text), f))
        if (text[0] != '#' && text[0] != '\n')
            return layouts_read(out, text, err) == SN_OK ? 1 : -1;
    return 0;
}

/* With what a kind adds to a line. False: it is none. */
static bool add_codecs(char *text, size_t room, const char *kind)
{
    size_t n = strcspn(text, "\n");
    if (strncmp(kind, "near=", 5) == 0)
        return true;
    if (strcmp(kind, "same") == 0)
        (void)snprintf(text + n, room - n,
                       " compress={\"data\":\"mpc\",\"zero\":\"mpc\",\"tensor\":\"mpc\","
                       "\"pipeline\":\"mpc\"}");
    else if (strcmp(kind, "rows") == 0)
        (void)snprintf(text + n, room - n, " compress={\"expert\":\"bf16\"}");
    else if (strncmp(kind, "levels=", 7) == 0)
        (void)snprintf(text + n, room - n,
                       " compress={\"data\":\"mpc/mpc\",\"zero\":\"mpc\",\"node\":%s}", kind + 7);
    else
        return false;
    return true;
}

int layouts_next_coded(FILE *f, char kind[LAYOUTS_KIND], struct layouts_line *l, struct sn_err *err)
{
    char text[LINE_MAX_BYTES + 128];
    while (fgets(text, LINE_MAX_BYTES, f)) {
        int at = 0;
        if (text[0] == '#' || text[0] == '\n')
            continue;
        if (sscanf(text, "%31s %n", kind, &at) != 1 || !add_codecs(text, sizeof(text), kind)) {
            (void)sn_fail(err, SN_EINPUT, "%.40s: want same, rows, levels=N or near=LIMIT", text);
            return -1;
        }
        return layouts_read(l, text + at, err) == SN_OK ? 1 : -1;
    }
    return 0;
}

void layouts_overlap(struct sn_config *c)
{
    c->layout.overlap = SN_OVERLAP_AUTO;
    c->overlap_rates = (struct sn_overlap_rates){.flops = 1e9, .bytes = 1e9};
    for (int q = 0; q < SN_NGROUPS; q++) {
        c->overlap_rates.start[q] = 1e-5;
        c->overlap_rates.link[q] = 1e8;
    }
}

struct sn_config layouts_reference(const struct sn_config *c)
{
    struct sn_config one = *c;
    struct sn_layout_config *l = &one.layout;
    /* Routers are balanced over the tokens that are computed at once. */
    bool batch = c->model.experts.aux_loss > 0 && c->model.experts.balance == SN_BALANCE_BATCH;
    int together = batch ? l->data * l->micro_batch : 1;
    l->data = l->tensor = l->tensor_pieces = l->tensor_x = l->context = l->pipeline = l->expert = 1;
    l->virtual_stages = 1;
    l->micro_batch = together;
    l->schedule = SN_1F1B;
    l->recompute = SN_RECOMPUTE_NONE;
    l->comm_aware_recompute = false;
    l->drop_duplicates = SN_DUPLICATES_SENT;
    l->expert_tensor = 0;
    l->zero = l->n_split = 0;
    return one;
}
