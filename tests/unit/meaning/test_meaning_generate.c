/*
 * test_meaning_generate.c - a row over what was kept computes what the whole window does, of every model of
 * tests/equiv/layouts; and programs that do not are refuted.
 */
#include "lib/base/mem.h"
#include "lib/meaning/meaning.h"
#include "tests/lib/layouts.h"
#include "tests/lib/models.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

struct one {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *job;
};

static enum sn_status open_one(struct one *x, const struct sn_config *c, struct sn_err *err)
{
    *x = (struct one){0};
    sn_meaning_reference(&x->config, c);
    struct sn_job_env env = {
        .config = &x->config, .ops = sn_ops_cpu(), .threads = 1, .keeps_past = true};
    SN_TRY(sn_model_create(&x->model, &x->config.model, &x->config.train, err));
    env.model = x->model;
    return sn_job_create(&x->job, &env, err);
}

static void close_one(struct one *x)
{
    sn_job_destroy(x->job);
    sn_model_destroy(x->model);
}

static void every_model_is_proven(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    struct models seen = {0};
    int more = 1, proven = 0, gaps = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        struct one x;
        if (!models_add(&seen, &line.config))
            continue;
        if (sn_meaning_gap(&line.config)) {
            gaps++;
            continue;
        }
        enum sn_status st = open_one(&x, &line.config, &err);
        int seq = line.config.model.seq;
        if (st == SN_OK)
            st = sn_meaning_generates(x.job, NULL, proven % 2 ? seq - 1 : 1 + proven % (seq - 1), &err);
        proven += st == SN_OK;
        if (st != SN_OK)
            tap_ok(false, "%s: %s", line.name, err.text);
        close_one(&x);
    }
    tap_ok(f && more == 0 && proven + gaps == seen.n && proven > 40,
           "%d of %d models give a row's logits over what was kept, %d not looked into %s", proven, seen.n,
           gaps, err.text);
    if (f)
        (void)fclose(f);
}

/* --- faults ----------------------------------------------------------------------------------- */

typedef void spoil(struct sn_program *p, int i);

static void forget_the_row(struct sn_program *p, int i)
{
    p->ops[i].at_row = false;
}

static void keep_in_the_first_row(struct sn_program *p, int i)
{
    p->ops[i].out[SN_COPY_Y].index = SN_AT_FIXED;
}

static void keep_nothing(struct sn_program *p, int i)
{
    memmove(&p->ops[i], &p->ops[i + 1], (size_t)(--p->n_ops - i) * sizeof(p->ops[0]));
}

static void see_fewer(struct sn_program *p, int i)
{
    p->ops[i].attr.attention.window = 8;
}

static void read_values_as_keys(struct sn_program *p, int i)
{
    p->ops[i].in[SN_ATTENTION_ROWS_K] = p->ops[i].in[SN_ATTENTION_ROWS_V];
}

static void read_another_layer(struct sn_program *p, int i)
{
    p->ops[i].in[SN_ATTENTION_ROWS_K].buf++;
}

static const struct {
    const char *what;
    int kind;
    spoil *spoil;
    enum sn_family family;
} faults[] = {
    {"a rotation that is always of position 0", SN_OP_ROPE, forget_the_row, SN_LLAMA},
    {"learned positions of the first row", SN_OP_EMBED, forget_the_row, SN_GPT2},
    {"a query at position 0", SN_OP_ATTENTION_ROWS, forget_the_row, SN_GPT2},
    {"keys kept in the first row", SN_OP_COPY, keep_in_the_first_row, SN_LLAMA},
    {"keys of the row that are not kept", SN_OP_COPY, keep_nothing, SN_LLAMA},
    {"a window that the model does not have", SN_OP_ATTENTION_ROWS, see_fewer, SN_LLAMA},
    {"values in place of keys", SN_OP_ATTENTION_ROWS, read_values_as_keys, SN_GPT2},
    {"keys of another layer", SN_OP_ATTENTION_ROWS, read_another_layer, SN_LLAMA},
};

static void faults_are_refuted(void)
{
    for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
        struct one x = {0};
        struct sn_err err = {0};
        struct layouts_line line;
        char text[] = "fault layers=3", gpt2[] = "fault layers=3 family=gpt2";
        enum sn_status st = layouts_read(&line, faults[k].family == SN_GPT2 ? gpt2 : text, &err);
        if (st == SN_OK)
            st = open_one(&x, &line.config, &err);
        if (st == SN_OK) {
            struct sn_program p = x.job->generate_row;
            p.ops = sn_alloc_n((size_t)p.n_ops, sizeof(*p.ops));
            int i = 0;
            if (!p.ops)
                abort();
            memcpy(p.ops, x.job->generate_row.ops, (size_t)p.n_ops * sizeof(*p.ops));
            while (i + 1 < p.n_ops && p.ops[i].kind != faults[k].kind)
                i++;
            faults[k].spoil(&p, i);
            st = sn_meaning_generates(x.job, &p, 11, &err);
            sn_free(p.ops);
        }
        tap_ok(st == SN_EFAIL, "%s: %s", faults[k].what, err.text);
        close_one(&x);
    }
}

int main(void)
{
    every_model_is_proven();
    faults_are_refuted();
    return tap_done();
}
