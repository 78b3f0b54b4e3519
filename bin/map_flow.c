#include "bin/map_flow.h"

#include "lib/exec/threads.h"

static enum sn_status arrange(int *process_of, struct sn_arrangement *out,
                              const struct sn_stages *s, const struct sn_places *p,
                              struct sn_err *err)
{
    struct sn_flow flow;
    SN_TRY(sn_flow_create(&flow, s, err));
    int wanted = s->job[0]->config->layout.placement == SN_PLACEMENT_AUTO;
    enum sn_status st = sn_arrange(process_of, out, &flow, &p->tree, wanted, err);
    sn_flow_fini(&flow);
    return st;
}

/* One node: nothing to choose, and nothing to compile for it. */
static enum sn_status keep_order(int *process_of, struct sn_arrangement *out, int ranks)
{
    for (int i = 0; i < ranks; i++)
        process_of[i] = i;
    *out = (struct sn_arrangement){.levels = 1, .is_identity = 1};
    return SN_OK;
}

enum sn_status sn_map_arrange(int *process_of, struct sn_arrangement *out, struct sn_grid *grid,
                              const struct sn_config *c, const struct sn_places *p,
                              struct sn_err *err)
{
    struct sn_model *model = NULL;
    SN_TRY(sn_model_create(&model, &c->model, &c->train, err));
    struct sn_job_env env = {
        .config = c, .model = model, .ops = sn_ops_cpu(), .threads = sn_threads(c, p->per_node)};
    struct sn_job *shards = NULL;
    struct sn_stages stages = {0};
    enum sn_status st = sn_job_create_shards(&shards, &env, err);
    if (st == SN_OK) {
        *grid = shards->grid;
        sn_job_destroy(shards);
    }
    if (st == SN_OK && p->tree.levels == 0)
        st = keep_order(process_of, out, p->n);
    else if (st == SN_OK) {
        st = sn_stages_create_text(&stages, &env, err);
        if (st == SN_OK)
            st = arrange(process_of, out, &stages, p, err);
        sn_stages_fini(&stages);
    }
    sn_model_destroy(model);
    return st;
}
