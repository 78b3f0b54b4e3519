/*
 * state.c - the buffers that live as long as the job: weights, gradients, optimizer state, the
 * token batch, the scalars, staging of collectives.
 *
 * fp32: the weights are the master copy. bf16, fp16: the forward pass reads a copy in that type,
 * and the fp32 master is optimizer state, as is the average of weights (train.ema). A frozen parameter has no master, gradient or moments; the
 * bias of a router has counts in place of a gradient, and no moments. Where weights are gathered
 * with a codec that loses something, replicas compute with what it gives back, and the master is
 * apart in fp32 too; with error feedback a rank keeps what was lost of its gradients. ZeRO
 * (Rajbhandari et al., arXiv 1910.02054): stage 1 divides master and moments over the replicas,
 * stage 2 the gradients too, stage 3 the weights too, of which some are kept
 * gathered (layout.zero_cache).
 */
#include "lib/program/build.h"

#include "kernels/codec.h"
#include "lib/config/batch.h"
#include "lib/layout/collective.h"

static int add(struct sn_program *p, const struct sn_bucket *b, int number, enum sn_class cls,
               enum sn_dtype dtype, const char *what, int64_t n)
{
    int i = sn_buffer_add(p, cls, dtype, 1, n, "%s.%.80s", what, b->name);
    if (!p->failed)
        p->bufs[i].bucket = number;
    return i;
}

static int64_t held(const struct sn_bucket *b, enum sn_hold h)
{
    return h == SN_HOLD_ALL ? b->n : h == SN_HOLD_SLICE ? b->slice : 0;
}

/* Elements of the array that holds so many weights. */
static int64_t stored(const struct sn_job *j, const struct sn_bucket *b, int64_t weights)
{
    return b->is_coded ? sn_codec_bytes(sn_bucket_codec(j, b), SN_F32, weights) : weights;
}

static void one_bucket(struct sn_job *j, struct sn_program *p, int i)
{
    struct sn_bucket *b = &j->buckets[i];
    enum sn_dtype dtype = b->is_bias ? SN_F32 : b->is_coded ? SN_U8 : j->dtype;
    b->weight =
        add(p, b, i, SN_CLASS_PARAM, dtype, "weight", stored(j, b, held(b, b->held.weights)));
    b->master = b->weight;
    if ((dtype != SN_F32 && b->trains) || sn_bucket_coding(j, b))
        b->master = add(p, b, i, SN_CLASS_OPTIM, SN_F32, "master", b->slice);
    b->cache = b->cached ? add(p, b, i, SN_CLASS_CACHE, dtype, "gathered", stored(j, b, b->n)) : -1;
    b->grad = b->feedback = b->factors = -1;
    for (int k = 0; k < SN_MAX_KEPT; k++)
        b->moment[k] = -1;
    int64_t gradients = held(b, b->held.gradients);
    if (gradients > 0)
        b->grad = add(p, b, i, SN_CLASS_GRAD, b->grad_type, "grad", gradients);
    if (!b->trains)
        return;
    const struct sn_optimizer_row *o = sn_optimizer_row(j->config->train.optimizer.kind);
    for (int k = 0; k < o->n_moments; k++)
        b->moment[k] = add(p, b, i, SN_CLASS_OPTIM, SN_F32, o->moment[k].name, b->slice);
    if (j->config->train.ema.decay > 0)
        b->moment[o->n_moments] = add(p, b, i, SN_CLASS_OPTIM, SN_F32, "ema", b->slice);
    int64_t rows[2], rank = sn_low_rank_of(j, b);
    bool low_rank = sn_low_rank_sizes(j, i, rows);
    if (low_rank)
        b->factors =
            sn_buffer_add(p, SN_CLASS_OPTIM, SN_F32, rows[1], rank, "factors.%.80s", b->name);
    if (j->config->layout.compress.coding[SN_CODED_DATA].feedback &&
        j->group_size[b->replicas] > 1 && (low_rank || rank == 0))
        b->feedback = add(p, b, i, SN_CLASS_OPTIM, SN_F32, "feedback", b->n);
}

/* What the queue of an axis needs. */
static int64_t staging_of(const struct sn_job *j, enum sn_axis a)
{
    int64_t most = 0;
    for (int q = 0; q < SN_NGROUPS; q++) {
        int64_t need = sn_collective_staging(j->group_size[q]);
        most = sn_group_queue((enum sn_group)q) == a && need > most ? need : most;
    }
    return most;
}

/* Data's comes first: who communicates outside of programs has it. */
int64_t sn_job_staging_at(const struct sn_job *j, enum sn_group q)
{
    enum sn_axis queue = sn_group_queue(q);
    int64_t at = queue == SN_AXIS_DATA ? 0 : staging_of(j, SN_AXIS_DATA);
    for (int a = 0; a < (int)queue && queue != SN_AXIS_DATA; a++)
        at += a == SN_AXIS_DATA ? 0 : staging_of(j, (enum sn_axis)a);
    return at;
}

static int64_t staging(const struct sn_job *j)
{
    int64_t bytes = 0;
    for (int a = 0; a < SN_NAXES; a++)
        bytes += staging_of(j, (enum sn_axis)a);
    return bytes;
}

/* Behind the scalars, with which they go to a device and back. */
static void experts_load(struct sn_job *j, struct sn_program *p)
{
    const struct sn_model_config *m = &j->config->model;
    int words = sn_expert_load_words(m), sets = sn_told_sets(&j->config->data);
    j->expert_load = j->agreed = -1;
    if (words > 0)
        j->expert_load = sn_buffer_add(p, SN_CLASS_SCALARS, SN_F32, sn_expert_layers(m),
                                       m->experts.count, "load");
    if (words + sets == 0)
        return;
    j->agreed =
        sn_buffer_add(p, SN_CLASS_SCALARS, SN_F64, 1,
                      SN_NAGREE + words + sets + (sn_job_agrees_on_codecs(j) ? SN_NAGREE_CODED : 0) +
                          (sn_config_exact(j->config) ? SN_NAGREE_EXACT : 0) +
                          (j->config->train.z_loss > 0 ? SN_NAGREE_HEAD_Z : 0) +
                          (j->config->model.mtp > 0 ? SN_NAGREE_BESIDE : 0),
                      "agreed");
}

/* Of one sample, which is what text is generated in, and of the attentions here. */
static void past(struct sn_job *j, struct sn_program *p)
{
    const struct sn_model *m = j->model;
    int64_t heads = sn_heads_here(j).kv;
    j->past = j->keeps_past ? p->n_bufs : -1;
    for (int i = 0; i < m->n_nodes && j->keeps_past; i++) {
        const struct sn_attention_attr *a = &m->nodes[i].attr.attention;
        bool here = m->nodes[i].layer < j->config->model.layers &&
                    j->module_of_node[i] % j->stages == j->stage;
        if (m->nodes[i].kind == SN_NODE_ATTENTION && here)
            (void)sn_buffer_add(p, SN_CLASS_PAST, j->dtype, j->config->model.seq,
                                heads * (a->head_dim + sn_v_dim(a)), "%s.past", m->nodes[i].point);
    }
}

void sn_state_buffers(struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < j->n_buckets; i++)
        one_bucket(j, p, i);
    past(j, p);
    int64_t batch = j->rows * p->micros;
    j->ids = sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, batch, 1, "ids");
    j->targets = sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, batch, 1, "targets");
    j->starts = j->sets = j->features = j->further = -1;
    if (j->config->train.prompt.rows > 0)
        j->features = sn_buffer_add(p, SN_CLASS_BATCH, SN_F32, sn_job_feature_rows(j) * p->micros,
                                    j->config->train.prompt.size, "features");
    if (sn_job_further(j) > 0)
        j->further =
            sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, batch * sn_job_further(j), 1, "further");
    if (sn_told_sets(&j->config->data) > 0)
        j->sets = sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, batch, 1, "sets");
    int columns = sn_starts_columns(j->config);
    if (columns > 0)
        j->starts = sn_buffer_add(p, SN_CLASS_BATCH, SN_I32, sn_job_starts(j) * p->micros, columns,
                                  "starts");
    int64_t scalars = sn_scalars_bytes(j->config);
    j->scalars = sn_buffer_add(p, SN_CLASS_SCALARS, SN_U8, 1, scalars, "scalars");
    experts_load(j, p);
    j->staging = sn_buffer_add(p, SN_CLASS_COMM, SN_U8, 1, staging(j), "staging");
    p->n_state_bufs = p->n_bufs;
}
