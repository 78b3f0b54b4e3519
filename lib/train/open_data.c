/*
 * open_data.c - the token files of a run: rank 0 checks them, the first rank of each host opens them
 * for all of that host.
 */
#include "lib/train/trainer_state.h"

#include "lib/base/log.h"
#include "lib/comm/pass_files.h"
#include "lib/data/data_tokenizer.h"

enum { PATIENCE = 5 }; /* seconds for the ranks of a host to come, which have just agreed */

/* On rank 0: what of the data may surprise. */
static enum sn_status warn_of_data(const struct sn_trainer *t, struct sn_err *err)
{
    struct sn_str lines = {0};
    sn_data_fit_warn(&lines, &t->fit, t->env.config);
    enum sn_status st = lines.failed ? sn_fail(err, SN_ENOMEM, "trainer: no memory") : SN_OK;
    sn_log_lines(SN_LOG_WARN, lines.p);
    sn_str_fini(&lines);
    return st;
}

struct opening {
    struct sn_trainer *t;
    bool is_run; /* not a step of it on its own: its tokenizer and validation, too */
    struct sn_open_files files;
    struct sn_pass_socket pass;
};

static bool is_first_here(const struct sn_trainer *t)
{
    return t->env.comm->rank == t->env.comm->node_first;
}

/* One rank looks at indices and for foreign tokens; each checks the samples that it takes. */
static enum sn_status open_sets(struct opening *o, struct sn_open_files *files, struct sn_err *err)
{
    struct sn_trainer *t = o->t;
    const struct sn_config *c = t->env.config;
    bool checks = t->env.comm->rank == 0;
    SN_TRY(sn_corpus_open_train(&t->train_data, c, checks, files, err));
    if (o->is_run && !t->env.pace && c->train.eval_every > 0)
        SN_TRY(sn_corpus_open_valid(&t->valid_data, c, checks, files, err));
    SN_TRY(sn_data_fit_of(&t->fit, c, &t->train_data, &t->valid_data, err));
    t->train = sn_trainer_loader(t, &t->train_data);
    t->valid = sn_trainer_loader(t, &t->valid_data);
    t->valid.further = NULL; /* which evaluation does not read */
    SN_TRY(sn_trainer_check_evaluation(t, err));
    return sn_exec_has_idle(t->exec) ? sn_ahead_open(&t->ahead, &t->train, t->exec, t->job, err)
                                     : SN_OK;
}

static enum sn_status open_first(struct opening *o, struct sn_err *err)
{
    struct sn_trainer *t = o->t;
    const struct sn_config *c = t->env.config;
    if (o->is_run && t->env.comm->rank == 0)
        SN_TRY(sn_data_tokenizer_of_run(&t->state.tokenizer, c, err));
    if (c->data.train.n == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: data.train: missing; want the prefix of token files that sennit-data "
                       "build has made",
                       c->path);
    return is_first_here(t) ? open_sets(o, &o->files, err) : SN_OK;
}

static enum sn_status open_others(struct opening *o, struct sn_err *err)
{
    struct sn_trainer *t = o->t;
    const struct sn_comm *c = t->env.comm;
    int missing = c->node_size > 1 ? sn_pass_files(&o->pass, c, &o->files, PATIENCE) : 0;
    if (!is_first_here(t))
        return open_sets(o, o->files.is_given ? &o->files : NULL, err);
    if (missing > 0)
        sn_log(SN_LOG_WARN,
               "%d of %d ranks of this host open the token files themselves: they did not get them "
               "from rank %d",
               missing, c->node_size - 1, c->rank);
    return o->is_run && c->rank == 0 ? warn_of_data(t, err) : SN_OK;
}

static enum sn_status open_data(struct sn_trainer *t, bool is_run, struct sn_err *err)
{
    struct opening o = {.t = t, .is_run = is_run};
    sn_pass_open(&o.pass, t->env.comm);
    sn_solo_begin(t->solo, "start: data", false);
    enum sn_status st = sn_solo_end(t->solo, open_first(&o, err), err);
    if (st == SN_OK) {
        sn_solo_begin(t->solo, "start: data of each host", false);
        st = sn_solo_end(t->solo, open_others(&o, err), err);
    }
    sn_open_files_close(&o.files);
    sn_pass_close(&o.pass);
    return st;
}

enum sn_status sn_trainer_open_train(struct sn_trainer *t, struct sn_err *err)
{
    return open_data(t, false, err);
}

enum sn_status sn_trainer_open_data(struct sn_trainer *t, struct sn_err *err)
{
    return open_data(t, true, err);
}
