/*
 * rules_bits.c - run.bits: all, and what it does not go with yet (docs/BITS.md).
 */
#include "lib/config/settings.h"

bool sn_config_exact(const struct sn_config *c)
{
    return c->run.bits == SN_BITS_ALL;
}

enum { LEAST = 8, MOST = 512, PARTS = 4 };

static int divisor_up_to(int n, int most)
{
    int d = most < n ? most : n;
    while (n % d)
        d--;
    return d;
}

/* Several to a sequence, so that ranks may share it out; but not so small that their sums cost much. */
int sn_config_token_block(const struct sn_config *c)
{
    int seq = c->model.seq, quarter = seq / PARTS < MOST ? seq / PARTS : MOST;
    int block = quarter >= LEAST ? divisor_up_to(seq, quarter) : 0;
    return block >= LEAST ? block : divisor_up_to(seq, MOST);
}

int sn_config_term_parts(int64_t n, int64_t units)
{
    enum { RANKS = 16, FEW = 4, WIDE = 512, DEEP = 256 };
    int parts = RANKS;
    while (units % parts || (n >= WIDE && n / parts < DEEP && parts > FEW))
        parts /= 2;
    return parts;
}

/* Without parts they may end anywhere. */
int sn_config_term_depth(int64_t n, int64_t units)
{
    int parts = sn_config_term_parts(n, units);
    if (parts == 1)
        return n < MOST ? (int)n : MOST;
    return divisor_up_to((int)(n / parts), MOST);
}

/* Tensor ranks hold whole terms of what they share out. */
static enum sn_status terms_fit_tensor(const struct sn_config *c, const struct sn_settings *s,
                                       struct sn_err *err)
{
    const struct sn_model_config *m = &c->model;
    const struct {
        const char *key;
        int units, n;
    } all[] = {{"model.kv_heads", m->kv_heads, m->kv_heads * sn_model_head_dim(m)},
               {"model.kv_heads", m->kv_heads, sn_model_query_width(m)},
               {"model.ffn", m->ffn, m->ffn},
               {"model.dense_ffn", m->dense_ffn > 0 ? m->dense_ffn : m->ffn,
                m->dense_ffn > 0 ? m->dense_ffn : m->ffn},
               {"model.vocab", m->vocab, m->vocab}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int parts = sn_config_term_parts(all[i].n, all[i].units);
        if (parts % c->layout.tensor)
            return sn_settings_fail(s, "layout.tensor", err,
                                    "%d ranks cannot share %s (%d) out in whole terms of run.bits: "
                                    "all, of which there are %d; use a divisor of that, or bits: "
                                    "layout",
                                    c->layout.tensor, all[i].key, all[i].units, parts);
    }
    return SN_OK;
}

/* Context ranks hold whole blocks of tokens. */
static enum sn_status blocks_fit_context(const struct sn_config *c, const struct sn_settings *s,
                                         struct sn_err *err)
{
    int context = c->layout.context, block = sn_config_token_block(c);
    if (context == 1 || c->model.seq / context % block == 0)
        return SN_OK;
    return sn_settings_fail(
        s, "layout.context", err,
        "%d ranks cannot share sequences of %d out in whole blocks of %d tokens, "
        "as run.bits: all needs; use a divisor of %d, or bits: layout",
        context, c->model.seq, block, c->model.seq / block);
}

/* Slices of rows are whole blocks, too, where ranks multiply them by whole weights: those of model.mtp
 * between blocks. */
static enum sn_status blocks_fit_slices(const struct sn_config *c, const struct sn_settings *s,
                                        struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int block = sn_config_token_block(c);
    if (c->model.mtp == 0 || l->tensor == 1 || !l->sequence_parallel ||
        sn_config_tokens(c) % ((int64_t)l->tensor * l->tensor_pieces * block) == 0)
        return SN_OK;
    return sn_settings_fail(
        s, "layout.tensor", err,
        "%d ranks slice %lld tokens (micro_batch x seq / context%s) into less than whole blocks of %d, "
        "which run.bits: all and model.mtp need; use fewer ranks, another micro_batch, "
        "sequence_parallel: false, or bits: layout",
        l->tensor, (long long)sn_config_tokens(c) / l->tensor_pieces,
        l->tensor_pieces > 1 ? " / tensor_pieces" : "", block);
}

/* What stands against it: the key, and what it says. */
struct obstacle {
    bool is_there;
    const char *key, *says, *use;
};

enum sn_status sn_rule_bits(const struct sn_config *c, const struct sn_settings *s,
                            struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    const struct sn_experts_config *m = &c->model.experts;
    bool experts = m->count > 0;
    const struct obstacle all[] = {
        {c->run.backend != SN_BACKEND_CPU, "run.backend",
         "other than cpu has kernels that sum in an order of their own", "run.backend: cpu"},
        {c->train.precision == SN_F16, "train.precision", "fp16 scales gradients", "fp32 or bf16"},
        {c->train.fp8 != SN_FP8_OFF, "train.fp8", "scales operands by what a rank holds of them",
         "off"},
        {c->train.grad_dtype != SN_F32, "train.grad_dtype", "bf16 rounds partial sums", "fp32"},
        {c->train.z_loss > 0, "train.z_loss", "is summed in the order of rows", "0"},
        {sn_config_compresses(c), "layout.compress", "rounds what ranks send", "none"},
        {experts && m->aux_loss > 0 && m->balance == SN_BALANCE_BATCH, "model.experts.aux_loss",
         "balances what a micro-batch holds", "balance: sequence, bias: loss-free, or 0"},
        {experts && m->router == SN_ROUTER_DENSE, "model.experts.router", "dense is not built yet",
         "softmax"},
        {experts && l->tensor > 1, "layout.tensor", "with experts is not built yet", "1"},
        {experts && l->context > 1, "layout.context", "with experts is not built yet", "1"},
        {experts && l->micro_batch > 1, "layout.micro_batch",
         "of more than 1 joins sequences in an expert's sums", "1"},
        {experts && l->expert > 1 && l->expert_chunks != 1, "layout.expert_chunks",
         "other than 1 parts an expert's sums", "1"},
        {experts && l->expert > 1 && l->expert_node > 1, "layout.expert_node",
         "other than 1 is not built yet", "1"},
        {experts && l->expert > 1 && l->expert_buffer < l->expert, "layout.expert_buffer",
         "below layout.expert leaves rows for further rounds", "layout.expert"},
        {l->context > 1 && l->context_kind == SN_CONTEXT_RING, "layout.context_kind",
         "ring adds up keys in the order of the ring", "all-to-all"},
    };
    for (size_t i = 0; sn_config_exact(c) && i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].is_there)
            return sn_settings_fail(s, "run.bits", err, "all: %s %s; use %s, or bits: layout",
                                    all[i].key, all[i].says, all[i].use);
    int block = sn_config_token_block(c);
    if (sn_config_exact(c) && block < LEAST && block < c->model.seq)
        return sn_settings_fail(s, "run.bits", err,
                                "all: sums are over blocks of tokens, and no number of %d to %d "
                                "divides model.seq (%d); use another length, or bits: layout",
                                LEAST, MOST, c->model.seq);
    if (!sn_config_exact(c))
        return SN_OK;
    SN_TRY(terms_fit_tensor(c, s, err));
    SN_TRY(blocks_fit_context(c, s, err));
    return blocks_fit_slices(c, s, err);
}
