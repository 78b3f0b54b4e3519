#include "bin/inputs.h"

#include "checkpoint/store/tokenizer_files.h"
#include "lib/base/mem.h"
#include "lib/config/batch.h"

#include <unistd.h>

static enum sn_status look_for_checkpoint(struct sn_inputs *in, const struct sn_config *c,
                                          struct sn_err *err)
{
    bool absolute = c->checkpoint.dir[0] == '/';
    char *dir =
        sn_format("%s%s%s", absolute ? "" : c->run.output, absolute ? "" : "/", c->checkpoint.dir);
    struct sn_str model = {0};
    sn_config_format_model(&model, c);
    enum sn_status st = dir && !model.failed
                            ? sn_look_resume(&in->start, dir, model.p, err)
                            : sn_fail(err, SN_ENOMEM, "checkpoint.dir: no memory to look at it");
    if (st == SN_OK)
        st = sn_tokenizer_files_check(&in->start.tokenizer, &in->data.tokenizer, dir, err);
    sn_str_fini(&model);
    sn_free(dir);
    return st;
}

/* What a run without a checkpoint of its own begins with. */
static const char *start_of(const struct sn_config *c)
{
    return c->train.continue_from[0] ? c->train.continue_from : c->train.init_from;
}

static enum sn_status look_at_start(struct sn_inputs *in, const struct sn_config *c,
                                    struct sn_err *err)
{
    struct sn_str model = {0};
    sn_config_format_model(&model, c);
    enum sn_status st =
        model.failed ? sn_fail(err, SN_ENOMEM, "train.continue_from: no memory to look at it")
                     : sn_look_continue(&in->start, c->train.continue_from, model.p, err);
    sn_str_fini(&model);
    SN_TRY(st);
    return sn_tokenizer_files_check(&in->start.tokenizer, &in->data.tokenizer,
                                    c->train.continue_from, err);
}

enum sn_status sn_inputs_look(struct sn_inputs *out, const struct sn_config *c, struct sn_err *err)
{
    struct sn_inputs in = {.start = {.step = -1}};
    const char *weights = start_of(c);
    SN_TRY(sn_data_fit_find(&in.data, c, err));
    SN_TRY(look_for_checkpoint(&in, c, err));
    if (in.start.step < 0 && weights[0]) {
        in.has_weights = access(weights, F_OK) == 0;
        in.lacks_weights = !in.has_weights;
    }
    if (in.has_weights)
        SN_TRY(c->train.continue_from[0] ? look_at_start(&in, c, err) : sn_look_weights(c, err));
    if (in.start.is_read && in.data.has_train)
        SN_TRY(sn_blend_goes_on(&in.data.blend, c, in.start.step, in.start.blend, err));
    *out = in;
    return SN_OK;
}

int sn_inputs_absent(const struct sn_inputs *in)
{
    return sn_data_fit_absent(&in->data) + in->lacks_weights;
}

static double times_read(const struct sn_data_fit *f, int set, const struct sn_config *c)
{
    int64_t end = sn_samples_before(&c->train, c->train.steps + 1);
    return (double)sn_blend_given(&f->blend, set, end) / (double)f->train[set].samples;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* "60.0 %", and what it is in later phases. */
static void add_shares(struct sn_str *out, const struct sn_data_fit *f, int set,
                       const struct sn_config *c)
{
    const struct sn_data_phases *p = &c->data.phases;
    int before = f->blend.n_phases - p->n; /* the phase of data.train's own weights, if it is one */
    for (int i = 0; i < f->blend.n_phases; i++) {
        const uint64_t *end = f->blend.phase[i].end;
        uint64_t share = end[set] - (set ? end[set - 1] : 0);
        sn_str_add(out, i ? ", %.4g %%" : "%.4g %%", (double)share * 100 / 0x1p32);
        if (i >= before && p->from_step[i - before] > 1)
            sn_str_add(out, " from step %lld", (long long)p->from_step[i - before]);
    }
}

static void add_sets(struct sn_str *out, const struct sn_data_fit *f, const struct sn_config *c)
{
    sn_str_add(out, "data: %d sets; %lld steps of %d read\n", f->n_train, (long long)c->train.steps,
               c->train.global_batch);
    for (int i = 0; i < f->n_train; i++) {
        const struct sn_set_fit *s = &f->train[i];
        sn_str_add(out, "  %s: ", s->name);
        add_shares(out, f, i, c);
        sn_str_add(out, " of %s, %lld tokens, %lld sequence%s of %d, %.3g times\n", s->path,
                   (long long)s->tokens, (long long)s->samples, plural(s->samples), c->model.seq,
                   times_read(f, i, c));
    }
}

void sn_inputs_text(struct sn_str *out, const struct sn_inputs *in, const struct sn_config *c)
{
    const struct sn_data_fit *f = &in->data;
    if (f->has_train && c->data.train.is_list)
        add_sets(out, f, c);
    else if (f->has_train)
        sn_str_add(out,
                   "data: %s has %lld tokens, %lld sequence%s of %d; %lld steps of %d read it %.3g "
                   "times\n",
                   f->train[0].path, (long long)f->train[0].tokens, (long long)f->train[0].samples,
                   plural(f->train[0].samples), c->model.seq, (long long)c->train.steps,
                   c->train.global_batch, times_read(f, 0, c));
    for (int i = 0; i < f->n_valid; i++) {
        const struct sn_set_fit *v = &f->valid[i];
        if (v->is_here)
            sn_str_add(out, "validation: %s%s%s has %lld sequence%s, an evaluation takes %lld\n",
                       v->name, *v->name ? ": " : "", v->path, (long long)v->samples,
                       plural(v->samples), (long long)sn_data_eval_sequences(c, v->samples));
    }
    if (in->start.step >= 0)
        sn_str_add(out, "start: goes on from the checkpoint of step %lld%s%s\n",
                   (long long)in->start.step, in->has_weights ? " in " : "",
                   in->has_weights ? c->train.continue_from : "");
    else if (in->has_weights)
        sn_str_add(out, "start: weights come from %s\n", c->train.init_from);
}

void sn_inputs_warn(struct sn_str *out, const struct sn_inputs *in, const struct sn_config *c)
{
    sn_data_fit_warn(out, &in->data, c);
    if (in->lacks_weights)
        sn_str_add(out,
                   "%s: train.%s: %s is not on this host, so the weights were not looked "
                   "at\n",
                   c->path, c->train.continue_from[0] ? "continue_from" : "init_from", start_of(c));
}
