/*
 * logits.h - what a model says: the logits of given tokens, by the compiled program in fp32, with
 * the weights that a source holds.
 */
#ifndef LOGITS_H
#define LOGITS_H

#include "checkpoint/store/source.h"
#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "tests/lib/job_test.h"

#include <stdio.h>
#include <string.h>

/* The model that a checkpoint's or a source's model_text says. */
__attribute__((unused)) static enum sn_status model_of(struct sn_model_config *out,
                                                       const char *model_text, struct sn_err *err)
{
    struct sn_config c;
    char *text = sn_format("%s\ntrain: {steps: 1, global_batch: 1}\n", model_text);
    enum sn_status st = text ? sn_config_parse(&c, text, strlen(text), "model_text", NULL, err)
                             : sn_fail(err, SN_ENOMEM, "model_text: no memory");
    sn_free(text);
    if (st == SN_OK)
        *out = c.model;
    return st;
}

/* One rank on the CPU that runs a model forward. */
struct speaker {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_comm *comm;
    struct sn_exec *exec;
    struct sn_state state;
};

/* One rank of model m on batches of n samples; `t` may be NULL. */
__attribute__((unused)) static enum sn_status speaker_create(struct speaker *p,
                                                             const struct sn_model_config *m, int n,
                                                             const struct sn_optimizer_config *t,
                                                             struct sn_err *err)
{
    *p = (struct speaker){0};
    p->config.run.seed = 1;
    p->config.model = *m;
    p->config.train.precision = SN_F32;
    p->config.train.global_batch = n;
    if (t)
        p->config.train.optimizer = *t;
    p->config.layout = (struct sn_layout_config){.data = 1,
                                                 .tensor = 1,
                                                 .tensor_x = 1,
                                                 .tensor_pieces = 1,
                                                 .pipeline = 1,
                                                 .expert = 1,
                                                 .context = 1,
                                                 .micro_batch = n,
                                                 .virtual_stages = 1,
                                                 .bucket = 1 << 20};
    SN_TRY(sn_model_create(&p->model, &p->config.model, &p->config.train, err));
    SN_TRY(job_create(&p->job, &p->config, p->model, 1, err));
    SN_TRY(sn_comm_create_self(&p->comm, err));
    SN_TRY(sn_exec_create(&p->exec, p->job, p->comm, err));
    return sn_state_create(&p->state, p->exec, p->job, err);
}

__attribute__((unused)) static void speaker_destroy(struct speaker *p)
{
    sn_state_fini(&p->state);
    sn_exec_destroy(p->exec);
    if (p->comm)
        p->comm->ops->destroy(p->comm);
    sn_job_destroy(p->job);
    sn_model_destroy(p->model);
}

__attribute__((unused)) static int number_in(const struct sn_source *s,
                                             const struct sn_state_tensor *t)
{
    for (int i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].group, t->group) == 0 && strcmp(s->tensors[i].name, t->name) == 0)
            return i;
    return -1;
}

/* Take the weights of the source. */
__attribute__((unused)) static enum sn_status speaker_fill(struct speaker *p, struct sn_source *s,
                                                           struct sn_err *err)
{
    enum { MEMORY = 64 << 20 };
    struct sn_source_want *wants = sn_alloc_n((size_t)p->state.n_tensors, sizeof(*wants));
    int n = 0;
    enum sn_status st = wants ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory", s->name);
    for (int i = 0; i < p->state.n_tensors && st == SN_OK; i++) {
        const struct sn_state_tensor *t = &p->state.tensors[i];
        if (strcmp(t->group, "model") != 0)
            continue;
        wants[n] = (struct sn_source_want){number_in(s, t), {t->row, t->col, t->n_rows, t->n_cols}};
        if (wants[n++].tensor < 0)
            st = sn_fail(err, SN_EINPUT, "%s: has no tensor %s", s->name, t->name);
    }
    if (st == SN_OK)
        st = s->begin(s->self, wants, n, MEMORY, err);
    for (int i = 0; i < p->state.n_tensors && st == SN_OK; i++)
        if (strcmp(p->state.tensors[i].group, "model") == 0)
            st = s->next(s->self, p->state.tensors[i].p, p->state.tensors[i].ld, err);
    sn_free(wants);
    return st == SN_OK ? sn_weights_publish(p->exec, p->job, p->comm, err) : st;
}

/* out[i][v] = logit of token v after tokens[0..i]; 1 <= n <= seq. */
__attribute__((unused)) static enum sn_status
speaker_logits(struct speaker *p, float *out, const int32_t *tokens, int n, struct sn_err *err)
{
    const struct sn_model_config *m = &p->config.model;
    int32_t *window = sn_exec_address(p->exec, &p->job->train, p->job->ids);
    const float *row = sn_exec_address(p->exec, &p->job->generate, p->job->generate.logits);
    if (n < 1 || n > m->seq)
        return sn_fail(err, SN_EINPUT, "logits: %d tokens; want 1..%d", n, m->seq);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->vocab)
            return sn_fail(err, SN_EINPUT, "logits: token %d; want 0..%d", tokens[i], m->vocab - 1);
    for (int i = 0; i < m->seq; i++)
        window[i] = i < n ? tokens[i] : 0;
    SN_TRY(sn_exec_segment(p->exec, &p->job->generate, 0, (struct sn_at){.micros = 1}, err));
    for (int i = 0; i < n; i++) {
        struct sn_at at = {.micros = 1, .row = i};
        SN_TRY(sn_exec_segment(p->exec, &p->job->generate, 1, at, err));
        for (int k = 0; k < m->vocab; k++)
            out[(size_t)i * (size_t)m->vocab + (size_t)k] = (float)sn_model_logit(m, row[k]);
    }
    return SN_OK;
}

/* All of it: out is n x m->vocab. */
__attribute__((unused)) static enum sn_status logits_of(float *out, struct sn_source *s,
                                                        const struct sn_model_config *m,
                                                        const int32_t *tokens, int n,
                                                        struct sn_err *err)
{
    struct speaker p;
    enum sn_status st = speaker_create(&p, m, 1, NULL, err);
    if (st == SN_OK)
        st = speaker_fill(&p, s, err);
    if (st == SN_OK)
        st = speaker_logits(&p, out, tokens, n, err);
    speaker_destroy(&p);
    return st;
}

#endif
