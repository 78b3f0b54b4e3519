/*
 * others.c - readers of the sources beside the A100 sweep: their trainers, machines and layouts.
 *
 * `group` is the part of a source's models that is left out together when its profile is checked
 * (never row by row). A row whose layout our rules refuse is counted as unused.
 */
#include "tests/bench/foreign/rows.h"

#include <stdio.h>
#include <string.h>

static int or_one(long n)
{
    return n > 0 ? (int)n : 1;
}

/* What all tables name alike; the rest is the reader's. */
static struct row_layout layout_of(const struct table *t)
{
    int hidden = (int)table_int(t, "hidden"), heads = (int)table_int(t, "heads");
    return (struct row_layout){.layers = (int)table_int(t, "layers"),
                               .hidden = hidden,
                               .heads = heads,
                               .kv_heads = heads,
                               .ffn = (int)table_int(t, "ffn"),
                               .vocab = (int)table_int(t, "vocab"),
                               .seq = (int)table_int(t, "seq"),
                               .batch = (int)table_int(t, "gbs"),
                               .tensor = or_one(table_int(t, "tp")),
                               .pipeline = or_one(table_int(t, "pp")),
                               .context = or_one(table_int(t, "cp")),
                               .data = or_one(table_int(t, "dp")),
                               .micro_batch = or_one(table_int(t, "mbs")),
                               .virtual_stages = 1,
                               .family = "gpt2",
                               .tied = true};
}

/* The row that is read now. */
struct reading {
    struct rows *rows;
    const struct table *t;
    const char *sheet, *software, *machine;
    enum sn_attention_kernel attention;
};

static enum sn_status add(const struct reading *in, const char *group, double seconds,
                          const struct row_layout *l, struct sn_err *err)
{
    struct row *r;
    struct sn_err refused = {0};
    if (seconds <= 0 || l->layers <= 0 || l->heads <= 0) {
        in->rows->unused++;
        return SN_OK;
    }
    SN_TRY(rows_add(in->rows, &r, err));
    (void)snprintf(r->sheet, sizeof(r->sheet), "%s", in->sheet);
    (void)snprintf(r->id, sizeof(r->id), "%dx%d on %ld", l->layers, l->hidden,
                   table_int(in->t, "gpus"));
    (void)snprintf(r->group, sizeof(r->group), "%s", group);
    r->machine = in->machine;
    r->software = in->software;
    r->attention = in->attention;
    r->fused_norm = true;
    r->outcome = ROW_TIMED;
    r->seconds = seconds;
    if (row_configure(r, l, &refused) != SN_OK) {
        (void)fprintf(stderr, "%s, %s: left out: %s\n", r->sheet, r->id, refused.text);
        in->rows->n--;
        in->rows->unused++;
    }
    return SN_OK;
}

/* vTrain's own measurements with Megatron-DeepSpeed: fp16, 1F1B, recomputation on, vocabulary 50257
 * (their config). On one node many small models whose steps wait for the host; on many nodes large
 * ones: two campaigns, each with a profile. Left out together: models by depth, and by width. */
static enum sn_status add_vtrain(void *rows, const struct table *t, bool many, struct sn_err *err)
{
    struct reading in = {rows,
                         t,
                         many ? "vTrain many nodes" : "vTrain one node",
                         many ? "vtrain-2023-many" : "vtrain-2023",
                         "a100-800g",
                         SN_ATTENTION_FUSED};
    struct row_layout l = layout_of(t);
    bool wanted = (strcmp(table_text(t, "set"), "multi") == 0) == many;
    l.vocab = 50304; /* 50257, padded as Megatron does */
    l.precision = "fp16";
    l.recompute = true;
    const char *group = many                               ? l.hidden > 7000 ? "8192 up" : "to 6144"
                        : l.layers == 12 || l.layers == 20 ? "12, 20"
                                                           : "16, 24";
    return add(&in, group, wanted ? table_number(t, "iter_time_s") : 0, &l, err);
}

static enum sn_status take_vtrain(void *rows, const struct table *t, struct sn_err *err)
{
    return add_vtrain(rows, t, false, err);
}

static enum sn_status take_vtrain_many(void *rows, const struct table *t, struct sn_err *err)
{
    return add_vtrain(rows, t, true, err);
}

/* BLOOM's search for a layout: Jean Zay, Megatron-DeepSpeed, ZeRO 1, fused softmax, GPT with tied
 * words. Where layers do not divide, embedding and head count as layers. */
static enum sn_status take_bigscience(void *rows, const struct table *t, struct sn_err *err)
{
    struct reading in = {
        rows, t, "BigScience 176B", "megatron-deepspeed-2022", "jean-zay-a100", SN_ATTENTION_FUSED};
    struct row_layout l = layout_of(t);
    l.precision = strncmp(table_text(t, "precision"), "bf16", 4) == 0 ? "bf16" : "fp16";
    l.recompute = true;
    l.zero = 1;
    l.ends = l.layers % l.pipeline != 0 && (l.layers + 2) % l.pipeline == 0;
    return add(&in, l.hidden > 13500 ? "hidden 13824 up" : "hidden to 13312",
               table_number(t, "step_time_s"), &l, err);
}

/* Megatron-LM at SC21 and MT-NLG. Chunks a stage are not published: as many of 2, 3 as divide its
 * layers in the paper's interleaved runs, 1 in MT-NLG. Its ZeRO 3 rows are another trainer. */
static enum sn_status take_sc21(void *rows, const struct table *t, struct sn_err *err)
{
    bool mt_nlg = strncmp(table_text(t, "set"), "mt_nlg", 6) == 0;
    struct reading in = {rows,
                         t,
                         mt_nlg ? "MT-NLG 530B" : "Megatron SC21",
                         "megatron-2021",
                         "dgx-a100-80",
                         SN_ATTENTION_FUSED};
    struct row_layout l = layout_of(t);
    l.precision = mt_nlg ? "bf16" : "fp16";
    l.recompute = true;
    int each = l.layers / l.pipeline;
    if (l.pipeline > 1 && !mt_nlg)
        l.virtual_stages = each % 2 == 0 ? 2 : each % 3 == 0 ? 3 : 1;
    double seconds = table_int(t, "zero") == 3 ? 0 : table_number(t, "step_time_s");
    return add(&in, l.hidden > 11000 ? "145B up" : "to 76B", seconds, &l, err);
}

/* MosaicML: MPT models, FSDP, flash attention. The 40 GB devices stand in nodes
 * of the same kind. */
static enum sn_status take_foundry(void *rows, const struct table *t, struct sn_err *err)
{
    bool small = strcmp(table_text(t, "gpu"), "a100_40gb") == 0;
    struct reading in = {rows,
                         t,
                         small ? "llm-foundry A100-40" : "llm-foundry A100-80",
                         "llm-foundry-2023",
                         small ? "dgx-a100-40" : "dgx-a100-80",
                         SN_ATTENTION_FLASH1};
    static const char *const other[] = {"mpt_125m", "mpt_760m", "mpt_3b", "mpt_13b", "mpt_70b"};
    const char *model = table_text(t, "model"), *group = "350m, 1b, 7b, 30b";
    for (int i = 0; i < 5; i++)
        group = strcmp(model, other[i]) == 0 ? "125m, 760m, 3b, 13b, 70b" : group;
    struct row_layout l = layout_of(t);
    l.data = (int)table_int(t, "gpus");
    l.zero = 3;
    l.bucket = "4GiB"; /* a block at a time */
    l.recompute = strcmp(table_text(t, "act_ckpt"), "True") == 0;
    return add(&in, group, table_number(t, "step_time_s"), &l, err);
}

/* NVIDIA's recipes on H100, bf16, dense models trained from the beginning by NeMo: distributed
 * optimizer, sequence parallelism, no recomputation. Nemotron's ungated layers of width f are
 * priced as gated ones of 2/3 f: the same products. */
static enum sn_status take_nemo(void *rows, const struct table *t, struct sn_err *err)
{
    struct reading in = {rows, t, "NeMo H100", "nemo-2025", "dgx-h100", SN_ATTENTION_FLASH2};
    const char *model = table_text(t, "model");
    bool nemotron = strncmp(model, "Nemotron4", 9) == 0, wanted = strncmp(model, "Llama", 5) == 0;
    wanted = (wanted || nemotron) && strcmp(table_text(t, "gpu"), "H100") == 0 &&
             strcmp(table_text(t, "precision"), "BF16") == 0 &&
             strcmp(table_text(t, "task"), "pretrain") == 0;
    struct row_layout l = layout_of(t);
    l.kv_heads = (int)table_int(t, "kv_heads");
    l.data = (int)table_int(t, "gpus") / (l.tensor * l.pipeline * l.context);
    l.virtual_stages = or_one(table_int(t, "vp"));
    l.ends = l.layers % (l.pipeline * l.virtual_stages) != 0;
    l.family = "llama";
    l.tied = false;
    l.ffn = nemotron ? l.ffn * 2 / 3 : l.ffn;
    l.zero = 1;
    l.sequence_parallel = l.tensor > 1;
    l.bucket = l.data > 128 ? "2GiB" : "256MiB"; /* Megatron: at least 40 M elements, 1 M a rank */
    wanted = wanted && (l.pipeline == 1 || table_int(t, "vp") > 0); /* else not stated */
    const char *group = nemotron ? "nemotron 15b, 340b" : l.hidden > 9000 ? "405b" : "8b, 70b";
    return add(&in, group, wanted ? table_number(t, "step_time_s") : 0, &l, err);
}

/* Sailor's validation on Alps: Megatron-DeepSpeed, 1F1B. Neither precision nor kernels are
 * published: fp16 and torch's attention foretell a model that was left out best. */
static enum sn_status take_sailor(void *rows, const struct table *t, struct sn_err *err)
{
    struct reading in = {rows, t, "Sailor GH200", "sailor-2025", "gh200-4", SN_ATTENTION_TORCH};
    struct row_layout l = layout_of(t);
    l.precision = "fp16";
    bool here = strcmp(table_text(t, "cluster"), "clariden") == 0;
    l.stages = table_text(t, "layers_per_stage");
    return add(&in, table_text(t, "model"), here ? table_number(t, "iter_time_s") : 0, &l, err);
}

/* InternEvo, one model of 7B: rows whose optimizer is sharded over all data ranks. */
static enum sn_status take_internevo(void *rows, const struct table *t, struct sn_err *err)
{
    struct reading in = {
        rows, t, "InternEvo 7B", "internevo-2024", "a100-400g", SN_ATTENTION_FLASH2};
    int gpus = (int)table_int(t, "gpus"), shards = (int)table_int(t, "zero1_group");
    struct row_layout l = {.layers = 32,
                           .hidden = 4096,
                           .heads = 32,
                           .kv_heads = 32,
                           .ffn = 11008,
                           .vocab = 103168,
                           .seq = (int)table_int(t, "seq"),
                           .tensor = or_one(table_int(t, "tp")),
                           .pipeline = or_one(table_int(t, "pp")),
                           .context = 1,
                           .micro_batch = or_one(table_int(t, "mbs")),
                           .virtual_stages = 1,
                           .zero = 1,
                           .family = "llama"};
    l.data = gpus / (l.tensor * l.pipeline);
    l.batch = l.data * l.micro_batch * (int)table_int(t, "grad_accum");
    l.recompute = table_int(t, "act_ckpt") != 0;
    l.bucket = "512MiB"; /* its reduce_bucket_size */
    bool wanted = table_number(t, "tokens_per_s_gpu") > 0 && (shards == -1 || shards == l.data);
    double seconds =
        wanted ? l.batch * (double)l.seq / (table_number(t, "tokens_per_s_gpu") * gpus) : 0;
    return add(&in, l.tensor > 1 ? "tensor 2" : "tensor 1", seconds, &l, err);
}

static enum sn_status read(struct rows *rows, const char *folder, const char *file,
                           table_take *take, struct sn_err *err)
{
    char path[SN_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s.csv", folder, file);
    return table_read(path, take, rows, err);
}

enum sn_status rows_read_vtrain(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "vtrain_ground_truth", take_vtrain, err);
}

enum sn_status rows_read_vtrain_many(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "vtrain_ground_truth", take_vtrain_many, err);
}

enum sn_status rows_read_bigscience(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "bigscience_a100_layouts", take_bigscience, err);
}

enum sn_status rows_read_sc21(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "megatron_a100_sc21", take_sc21, err);
}

enum sn_status rows_read_foundry(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "llm_foundry_throughput", take_foundry, err);
}

enum sn_status rows_read_nemo(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "nvidia_dgxc_benchmarking", take_nemo, err);
}

enum sn_status rows_read_sailor(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "sailor_gh200_validation", take_sailor, err);
}

enum sn_status rows_read_internevo(struct rows *rows, const char *folder, struct sn_err *err)
{
    return read(rows, folder, "internevo_7b", take_internevo, err);
}
