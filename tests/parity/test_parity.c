/*
 * test_parity.c - the same weights and batches as an independent implementation.
 *
 * tests/parity/fixtures/NAME holds weights, tokens, the gradients of step 1 and the losses of 20
 * AdamW steps, computed by PyTorch in float64 (make_fixtures.py). Held here, in fp32:
 *   loss of every step        1e-6 relative at step 1, 1e-5 after updates
 *   every gradient tensor     |g - want| <= 1e-4 max(|want|, 1e-3 global norm)
 *   the global norm           1e-5 relative
 *   scores of texts           1e-5 relative, behind prompts
 *   weights after 3 steps     of some; |w - want| <= 1e-5 max |want|, and 0 where that is 0
 *   biases of routers         after 20 steps, 1e-6
 *   routers' balancing losses 1e-5 relative
 * Those that end in -theirs are by transformers' own classes, from its own files; of routers with its
 * balancing loss: config.json says its weight (make_theirs.py). What the field has no name for (shared experts, biases, prompts) is in
 * own.safetensors, by our names.
 */
#include "checkpoint/format/safetensors.h"
#include "checkpoint/hf/hfnames.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/data/corpus.h"
#include "lib/data/features.h"
#include "lib/data/score.h"
#include "lib/train/trainer.h"
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 20 };

struct expected {
    double loss[STEPS], grad_norm[STEPS], balance[STEPS];
    bool has_balance;
    double mtp[STEPS]; /* 0: no block predicts a token further on */
};

/* A saver without a disk: weights come from init_from, nothing is saved. */
static enum sn_status no_save(void *self, const struct sn_state *s, enum sn_save_phase phase,
                              struct sn_err *err)
{
    (void)self, (void)s, (void)phase, (void)err;
    return SN_OK;
}

static enum sn_status is_over(void *self, bool wait, bool *ended, struct sn_err *err)
{
    (void)self, (void)wait, (void)err;
    *ended = true;
    return SN_OK;
}

static void no_times(void *self, struct sn_save_times *out)
{
    (void)self;
    *out = (struct sn_save_times){0};
}

static enum sn_status no_find(void *self, int64_t before, int64_t *step, struct sn_err *err)
{
    (void)self, (void)before, (void)err;
    *step = -1;
    return SN_OK;
}

/* Take what `own` holds, all of it, and leave the rest in the lists of s. */
static enum sn_status take_own(const struct sn_safetensors *own, struct sn_state *s,
                               struct sn_err *err)
{
    int n = 0, n_all = 0, taken = 0;
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        const struct sn_st_tensor *from = sn_safetensors_find(own, t->name);
        if (!from || t->group[0] != 'm') {
            s->tensors[n++] = *t;
            continue;
        }
        struct sn_st_box all = {0, t->rows, 0, t->cols};
        SN_TRY(sn_safetensors_read(from, &all, t->p, t->ld, err));
        taken++;
    }
    for (int i = 0; i < s->n_all; i++)
        if (s->all[i].group[0] != 'm' || !sn_safetensors_find(own, s->all[i].name))
            s->all[n_all++] = s->all[i];
    s->n_tensors = n;
    s->n_all = n_all;
    return taken == sn_safetensors_count(own)
               ? SN_OK
               : sn_fail(err, SN_EINPUT, "own.safetensors: too much");
}

static enum sn_status from_files(const char *own_path, const struct sn_config *config,
                                 struct sn_state *s, struct sn_err *err)
{
    struct sn_safetensors *own = NULL;
    SN_TRY(sn_safetensors_open(&own, own_path, err));
    enum sn_status st = take_own(own, s, err);
    if (st == SN_OK)
        st = sn_init_from(config, s, err);
    sn_safetensors_close(own);
    return st;
}

static enum sn_status from_file(void *self, const struct sn_config *config, struct sn_state *s,
                                struct sn_err *err)
{
    char own[SN_PATH_MAX];
    const char *path = config->train.init_from;
    const char *name = strrchr(path, '/');
    (void)self;
    (void)snprintf(own, sizeof(own), "%.*s/own.safetensors", (int)(name - path), path);
    if (access(own, F_OK) != 0)
        return sn_init_from(config, s, err);
    struct sn_state rest = *s; /* with lists of its own over the same memory */
    size_t n = (size_t)s->n_tensors * sizeof(*rest.tensors);
    size_t n_all = (size_t)s->n_all * sizeof(*rest.all);
    rest.tensors = malloc(n);
    rest.all = malloc(n_all);
    memcpy(rest.tensors, s->tensors, n);
    memcpy(rest.all, s->all, n_all);
    enum sn_status st = from_files(own, config, &rest, err);
    free(rest.tensors);
    free(rest.all);
    return st;
}

static bool read_series(const json_t *root, const char *key, double *out)
{
    const json_t *a = json_object_get(root, key);
    for (size_t i = 0; i < STEPS; i++)
        out[i] = json_number_value(json_array_get(a, i));
    return json_array_size(a) == STEPS;
}

static bool read_expected(const char *name, struct expected *e)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "tests/parity/fixtures/%s/expected.json", name);
    json_t *root = json_load_file(path, 0, NULL);
    bool good =
        root && read_series(root, "loss", e->loss) && read_series(root, "grad_norm", e->grad_norm);
    e->has_balance = good && json_object_get(root, "balance");
    good = good && (!e->has_balance || read_series(root, "balance", e->balance));
    memset(e->mtp, 0, sizeof(e->mtp));
    if (good && json_object_get(root, "mtp_loss"))
        good = read_series(root, "mtp_loss", e->mtp);
    json_decref(root);
    return good;
}

/* metrics.jsonl of the run */
static bool read_metrics(const struct sn_config *c, struct expected *got)
{
    char path[SN_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", c->run.output);
    FILE *f = fopen(path, "r");
    int n = 0;
    char line[4096];
    while (f && n < STEPS && fgets(line, sizeof(line), f)) {
        json_t *o = json_loads(line, 0, NULL);
        got->loss[n] = json_number_value(json_object_get(o, "loss"));
        got->balance[n] = json_number_value(json_object_get(o, "aux_loss"));
        got->mtp[n] = json_number_value(json_object_get(o, "mtp_loss")); /* 0: it says none */
        got->grad_norm[n++] = json_number_value(json_object_get(o, "grad_norm"));
        json_decref(o);
    }
    if (f)
        fclose(f);
    return n == STEPS;
}

/* What the trainer holds of a tensor, its gradient or itself, beside what it is to be. */
struct beside {
    int64_t n;
    const float *got;
    float *want;
    double off, norm; /* of their difference, and of want */
};

static void check_gradient(const struct beside *b, const char *name, double global)
{
    double scale = b->norm > 1e-3 * global ? b->norm : 1e-3 * global;
    tap_ok(b->off <= 1e-4 * scale, "gradient of %s (off by %.1e of %.1e)", name, b->off / scale, scale);
}

static void check_weight(const struct beside *b, const char *name)
{
    double far = 0, most = 0;
    int64_t gone = 0, zeros = 0;
    for (int64_t i = 0; i < b->n; i++) {
        far = fmax(far, fabs((double)b->got[i] - (double)b->want[i]));
        most = fmax(most, fabs((double)b->want[i]));
        zeros += b->want[i] == 0;
        gone += b->want[i] == 0 && b->got[i] != 0;
    }
    tap_ok(far <= 1e-5 * most && gone == 0, "%s after 3 steps (off by %.1e of %.1e; %lld of %lld zeros gone)", name,
           far / most, most, (long long)gone, (long long)zeros);
}

static void check_tensor_of(struct sn_trainer *t, const struct sn_safetensors *want, int param,
                            const struct sn_tensor *tensor, double global)
{
    const struct sn_job *j = sn_trainer_job(t);
    const struct sn_param *p = &j->model->params[param];
    bool is_weight = global < 0;
    const float *all_of = is_weight ? job_weight(sn_trainer_exec(t), j, param) : job_grad(sn_trainer_exec(t), j, param);
    struct beside b = {.n = tensor->rows * p->cols, .got = all_of + tensor->row * p->cols};
    b.want = malloc((size_t)b.n * sizeof(*b.want));
    struct sn_err err = {0};
    struct sn_state_shape shape = {"model", tensor->name, tensor->rows, p->cols};
    struct sn_state_tensor whole = sn_state_whole(&shape, b.want);
    const struct sn_st_tensor *own = sn_safetensors_find(want, tensor->name);
    struct sn_st_box all = {0, tensor->rows, 0, p->cols};
    enum sn_status st = own ? sn_safetensors_read(own, &all, b.want, p->cols, &err)
                            : sn_hf_read_box(want, &j->config->model, &whole, b.want, &err);
    for (int64_t i = 0; i < b.n && st == SN_OK; i++) {
        b.off = hypot(b.off, (double)b.got[i] - (double)b.want[i]);
        b.norm = hypot(b.norm, (double)b.want[i]);
    }
    if (st != SN_OK)
        tap_ok(false, "%s: %s", tensor->name, err.text);
    else if (is_weight)
        check_weight(&b, tensor->name);
    else
        check_gradient(&b, tensor->name, global);
    free(b.want);
}

/* Gradients of a norm beside those of the file, or weights (norm -1). */
static void check_tensors(struct sn_trainer *t, const char *name, const char *file, double global)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "tests/parity/fixtures/%s/%s.safetensors", name, file);
    struct sn_safetensors *want = NULL;
    struct sn_err err = {0};
    if (!tap_ok(sn_safetensors_open(&want, path, &err) == SN_OK, "%s opens", path)) {
        printf("# %s\n", err.text);
        return;
    }
    const struct sn_job *j = sn_trainer_job(t);
    for (int i = 0; i < j->model->n_params; i++)
        for (int k = 0; k < j->model->params[i].n_tensors && sn_param_trains(&j->model->params[i]);
             k++)
            check_tensor_of(t, want, i, &j->model->params[i].tensor[k], global);
    sn_safetensors_close(want);
}

static void check_losses(const struct sn_config *c, const struct expected *want)
{
    struct expected got;
    if (!tap_ok(read_metrics(c, &got), "%s: metrics of 20 steps", c->run.name))
        return;
    double worst = 0, worst_norm = 0, worst_balance = 0, worst_mtp = 0;
    for (int i = 0; i < STEPS; i++) {
        worst = fmax(worst, fabs(got.loss[i] / want->loss[i] - 1));
        worst_norm = fmax(worst_norm, fabs(got.grad_norm[i] / want->grad_norm[i] - 1));
        worst_balance = fmax(worst_balance, fabs(got.balance[i] / want->balance[i] - 1));
        worst_mtp = fmax(worst_mtp, fabs(got.mtp[i] - want->mtp[i]) / fmax(want->mtp[i], 1));
    }
    double first = fabs(got.loss[0] / want->loss[0] - 1);
    tap_ok(first <= 1e-6, "%s: loss of step 1 (%.1e relative)", c->run.name, first);
    tap_ok(worst <= 1e-5, "%s: losses of 20 steps (%.1e relative)", c->run.name, worst);
    if (want->mtp[0] > 0 || got.mtp[0] > 0)
        tap_ok(worst_mtp <= 1e-5, "%s: losses of tokens further on (%.1e)", c->run.name, worst_mtp);
    tap_ok(worst_norm <= 1e-5, "%s: gradient norms of 20 steps (%.1e)", c->run.name, worst_norm);
    if (want->has_balance)
        tap_ok(worst_balance <= 1e-5, "%s: balancing losses of 20 steps (%.1e)", c->run.name, worst_balance);
}

/* What the biases of routers are now, if the model has any. */
static void check_biases(struct sn_trainer *t, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "tests/parity/fixtures/%s/expected.json", name);
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *biases = json_object_get(root, "router_bias");
    const struct sn_job *j = sn_trainer_job(t);
    size_t found = 0;
    for (int i = 0; i < j->model->n_params; i++) {
        const struct sn_param *p = &j->model->params[i];
        const json_t *want = json_object_get(biases, p->tensor[0].name);
        if (!p->is_bias)
            continue;
        const float *b = job_weight(sn_trainer_exec(t), j, i);
        double off = json_array_size(want) == (size_t)p->rows ? 0 : 1;
        for (size_t e = 0; e < json_array_size(want); e++)
            off = fmax(off, fabs((double)b[e] - json_number_value(json_array_get(want, e))));
        found++;
        tap_ok(off <= 1e-6, "%s after 20 steps (off by %.1e)", p->name, off);
    }
    if (found != json_object_size(biases))
        tap_ok(false, "%s: %zu biases, want %zu", name, found, json_object_size(biases));
    json_decref(root);
}

/* `scores`: it may score texts afterwards. */
static struct sn_trainer *train(struct sn_config *c, struct sn_comm *comm, int64_t stop_after,
                                bool scores)
{
    static const struct sn_saver saver = {
        .begin = no_save, .finish = is_over, .times = no_times, .find = no_find, .init = from_file};
    struct sn_trainer_env env = {
        .config = c, .comm = comm, .ops = sn_ops_cpu(), .saver = &saver, .threads = 2, .scores = scores};
    struct sn_trainer_options o = {.stop_after = stop_after};
    struct sn_trainer *t = NULL;
    struct sn_err err = {0};
    int code = 0;
    if (sn_trainer_create(&t, &env, &err) != SN_OK || sn_trainer_run(t, &o, &code, &err) != SN_OK ||
        code != 0)
        tap_ok(false, "%s trains: %s (code %d)", c->run.name, err.text, code);
    return t;
}

/* The samples of step 2, behind what train.prompt fills. */
struct asked {
    const struct sn_config *config;
    struct sn_data *data;
    double loss; /* of a token, as they were scored */
};

static enum sn_status ask(void *self, struct sn_score_set *out, struct sn_err *err)
{
    const struct asked *a = self;
    const struct sn_config *c = a->config;
    int seq = c->model.seq, places = sn_prompt_positions(&c->train.prompt);
    int32_t ids[64], targets[64];
    struct sn_str text = {0};
    for (int64_t i = 0; i < c->train.global_batch; i++) {
        SN_TRY(sn_data_read(a->data, c->train.global_batch + i, seq, c->model.vocab, ids, targets, err));
        for (int k = places; k < seq; k++)
            sn_str_add(&text, "%s%d", k == places ? "{\"context\": [], \"continuation\": [" : ",", ids[k]);
        sn_str_add(&text, "]}\n");
    }
    struct sn_score_by by = {.vocab = c->model.vocab, .seq = seq, .places = places, .begin = -1};
    enum sn_status st = sn_score_parse(out, text.p, strlen(text.p), "samples", &by, err);
    sn_str_fini(&text);
    return st;
}

static enum sn_status features_of(void *self, int request, float *out, struct sn_err *err)
{
    const struct asked *a = self;
    return sn_features_read(sn_data_features(a->data), a->config->train.global_batch + request, out, err);
}

static enum sn_status take_scores(void *self, const struct sn_score_set *s, const struct sn_score *scores,
                                  struct sn_err *err)
{
    struct asked *a = self;
    double sum = 0, tokens = 0;
    (void)err;
    for (int i = 0; i < s->n_requests; i++) {
        sum -= scores[i].logprob;
        tokens += (double)s->request[i].tokens;
    }
    a->loss = sum / tokens;
    return SN_OK;
}

/* Behind the weights of step 1 the loss of step 2 is what --score says of its samples. */
static void check_scores(struct sn_config c, struct sn_comm *comm, const struct expected *want)
{
    struct asked a = {.config = &c};
    struct sn_score_options o = {.read = ask, .features = features_of, .give = take_scores, .self = &a};
    struct sn_err err = {0};
    c.data.documents = SN_DOCUMENTS_APART;
    struct sn_trainer *t = train(&c, comm, 1, true);
    bool good = t && sn_data_open_shared(&a.data, sn_set_path(&c.data.train, 0), true, NULL, &err) == SN_OK &&
                sn_corpus_open_prompt(a.data, &c, true, NULL, &err) == SN_OK &&
                sn_trainer_score(t, &o, &err) == SN_OK;
    double off = fabs(a.loss / want->loss[1] - 1);
    tap_ok(good && off <= 1e-5, "%s: scores of what step 2 reads (%.1e relative) %s", c.run.name, off, err.text);
    sn_data_close(a.data);
    sn_trainer_destroy(t);
}

static void parity(const char *name)
{
    char path[256];
    struct expected want;
    struct sn_config c;
    struct sn_err err = {0};
    struct sn_comm *comm = NULL;
    (void)snprintf(path, sizeof(path), "tests/parity/fixtures/%s/run.yaml", name);
    if (!tap_ok(read_expected(name, &want), "%s: expected numbers", name) ||
        !tap_ok(sn_config_load(&c, path, NULL, &err) == SN_OK &&
                    sn_config_resolve_ranks(&c, 1, &err) == SN_OK &&
                    sn_comm_create_self(&comm, &err) == SN_OK,
                "%s: run file %s", name, err.text))
        return;
    (void)mkdir("build/parity", 0777);
    (void)mkdir(c.run.output, 0777);
    struct sn_trainer *t = train(&c, comm, 1, false);
    if (t)
        check_tensors(t, name, "grads", want.grad_norm[0]);
    sn_trainer_destroy(t);
    (void)snprintf(path, sizeof(path), "tests/parity/fixtures/%s/after.safetensors", name);
    if (access(path, F_OK) == 0) {
        t = train(&c, comm, 3, false);
        if (t)
            check_tensors(t, name, "after", -1);
        sn_trainer_destroy(t);
    }
    if (sn_prompt_positions(&c.train.prompt) > 0)
        check_scores(c, comm, &want);
    t = train(&c, comm, 0, false);
    if (t) {
        check_losses(&c, &want);
        check_biases(t, name);
    }
    sn_trainer_destroy(t);
    comm->ops->destroy(comm);
}

/* usage: test_parity [NAME...] */
int main(int argc, char **argv)
{
    static const char *const names[] = {"gpt2",
                                        "gpt2-erf",
                                        "gpt-neox",
                                        "llama",
                                        "llama-tied",
                                        "llama-share",
                                        "llama-freeze",
                                        "llama-window",
                                        "llama-prefix",
                                        "llama-ramp",
                                        "llama-z",
                                        "llama-mtp",
                                        "llama-groups",
                                        "llama-documents",
                                        "llama-mup",
                                        "llama-sparse",
                                        "llama-sparse-2-4",
                                        "llama-prompt",
                                        "mixtral",
                                        "mixtral-capacity",
                                        "mixtral-bias",
                                        "mixtral-shared",
                                        "mixtral-jitter",
                                        "mixtral-mixer",
                                        "mixtral-dense",
                                        "mixtral-sequence",
                                        "mixtral-theirs",
                                        "qwen2",
                                        "lora-all",
                                        "lora-some",
                                        "llama3-theirs",
                                        "longrope-theirs",
                                        "smollm3-theirs",
                                        "granite-theirs",
                                        "qwen3-theirs",
                                        "qwen3-moe-theirs",
                                        "qwen2-moe-theirs",
                                        "starcoder2-theirs",
                                        "mistral-theirs",
                                        "phi3-theirs",
                                        "olmo2-theirs",
                                        "gemma2-theirs",
                                        "gemma3-theirs"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && argc == 1; i++)
        parity(names[i]);
    for (int i = 1; i < argc; i++)
        parity(argv[i]);
    return tap_done();
}
