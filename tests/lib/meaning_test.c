#include "tests/lib/meaning_test.h"

enum sn_status meaning_of(const struct verify_world *w, bool spoilt, struct sn_err *err)
{
    struct sn_config one;
    struct sn_job *reference;
    *err = (struct sn_err){0};
    sn_meaning_reference(&one, &w->config);
    struct sn_job_env env = {
        .config = &one, .model = w->model, .ops = w->jobs[0]->ops, .threads = 1, .rank = 0};
    enum sn_status st = sn_job_create_text(&reference, &env, err);
    if (st != SN_OK)
        return st;
    struct sn_meaning_world m = {(const struct sn_job *const *)w->jobs, w->ranks, reference};
    st = sn_meaning_check(&m, spoilt ? w->programs : NULL, err);
    sn_job_destroy(reference);
    return st;
}
