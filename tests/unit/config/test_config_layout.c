/*
 * test_config_layout.c - the layout: values, the rules between its keys and the model's, and the
 * ranks that it needs. Longer than 500 lines because every sentence of every rule stands in it.
 */
#include "tests/unit/config/config_place.h"

#define NEOX                                                                                       \
    "model: {family: gpt-neox, layers: 8, hidden: 96, heads: 12, rotary_pct: 1, vocab: 250, "      \
    "seq: 96}\n"
#define DEEPER                                                                                     \
    "model: {family: llama, layers: 2, hidden: 64, heads: 8, kv_heads: 8, ffn: 128, vocab: 256, "  \
    "seq: 32, mtp: 1}\n"
#define GROUPED                                                                                    \
    "model: {family: llama, layers: 8, hidden: 96, heads: 12, kv_heads: 4, ffn: 100, vocab: 250, " \
    "seq: 96}\n"
#define SHARING                                                                                    \
    "model: {family: llama, layers: 8, hidden: 96, heads: 12, ffn: 100, vocab: 250, seq: 96, "     \
    "share_layers: 2}\n"

#define MIXTURE                                                                                    \
    "model: {family: mixtral, layers: 8, hidden: 96, heads: 12, ffn: 128, vocab: 64, seq: 96, "    \
    "experts: {count: 8}}\n"

/* --- values ----------------------------------------------------------------------------------- */

static void axes_have_defaults(const struct place *p)
{
    struct sn_config c = good(p, MODEL TRAIN);
    const struct sn_layout_config *l = &c.layout;
    tap_ok(l->virtual_stages == 1 && l->sequence_parallel && l->schedule == SN_1F1B &&
               l->recompute == SN_RECOMPUTE_NONE && l->zero == 0 &&
               l->context_kind == SN_CONTEXT_RING && l->n_split == 0,
           "options of the axes");
    bool in_order = l->n_axis_order == SN_NORDER_AXES;
    for (int i = 0; i < l->n_axis_order; i++)
        in_order = in_order && l->axis_order[i] == (enum sn_order_axis)i;
    tap_ok(in_order, "tensor, tensor_x, context, expert, data, pipeline");
}

static void axes_arrive(const struct place *p)
{
    static const enum sn_order_axis order[] = {SN_ORDER_PIPELINE, SN_ORDER_DATA_AXIS,
                                               SN_ORDER_CONTEXT, SN_ORDER_TENSOR};
    struct sn_config c =
        good(p, GROUPED TRAIN
             "run: {hang_timeout: 0}\n"
             "layout: {data: 2, tensor: 4, pipeline: 2, context: 3, micro_batch: 2,\n"
             "  virtual_stages: 2, sequence_parallel: false, schedule: interleaved,\n"
             "  recompute: selective, zero: 3, context_kind: ring, split: [1, 3, 2, 2],\n"
             "  axis_order: [pipeline, data, context, tensor]}\n");
    const struct sn_layout_config *l = &c.layout;
    tap_ok(l->data == 2 && l->tensor == 4 && l->pipeline == 2 && l->context == 3 && l->expert == 1,
           "the axes");
    tap_ok(l->virtual_stages == 2 && !l->sequence_parallel && l->schedule == SN_INTERLEAVED &&
               l->recompute == SN_RECOMPUTE_SELECTIVE && l->zero == 3 &&
               l->context_kind == SN_CONTEXT_RING,
           "their options");
    tap_ok(l->n_split == 4 && l->split[0] == 1 && l->split[1] == 3 && l->split[2] == 2 &&
               l->split[3] == 2,
           "the split");
    tap_ok(l->n_axis_order == 4 && !memcmp(l->axis_order, order, sizeof(order)),
           "the order, without expert");
    tap_ok(c.run.hang_timeout == 0, "no time limit");
}

static void a_grid_of_tensors_is_three_keys(const struct place *p)
{
    struct sn_config all = good(p, NEOX TRAIN "layout: {tensor: {x: 3, y: 2, z: 4}, data: 8}\n");
    const struct sn_layout_config *l = &all.layout;
    tap_ok(l->tensor == 2 && l->tensor_x == 3 && l->zero_node == 4 && l->zero == 3 && l->data == 8,
           "x and y are axes, z is zero 3 among neighbours");
    struct sn_config flat = good(p, NEOX TRAIN "layout: {tensor: {x: 3, z: 1}}\n");
    l = &flat.layout;
    tap_ok(l->tensor == 1 && l->tensor_x == 3 && l->zero_node == 0 && l->zero == 0,
           "a part that is left out is 1, and a z of 1 is no zero");
}

static void every_name_is_its_value(const struct place *p)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zero-bubble",
                                            "combined"};
    static const char *const recomputes[] = {"none", "selective", "full"};
    static const char *const kinds[] = {"ring", "all-to-all"};
    static const enum sn_schedule schedule[] = {SN_GPIPE, SN_1F1B, SN_INTERLEAVED, SN_ZERO_BUBBLE,
                                                SN_COMBINED};
    static const enum sn_recompute recompute[] = {SN_RECOMPUTE_NONE, SN_RECOMPUTE_SELECTIVE,
                                                  SN_RECOMPUTE_FULL};
    for (int i = 0; i < 15; i++) {
        char text[512];
        (void)snprintf(text, sizeof(text),
                       MODEL TRAIN "layout: {schedule: %s, recompute: %s, context_kind: %s, zero: "
                                   "%d}\n",
                       schedules[i % 5], recomputes[i % 3], kinds[i % 2], i % 4);
        struct sn_config c = good(p, text);
        tap_ok(c.layout.schedule == schedule[i % 5] && c.layout.recompute == recompute[i % 3] &&
                   c.layout.context_kind == (i % 2 ? SN_CONTEXT_ALL_TO_ALL : SN_CONTEXT_RING) &&
                   c.layout.zero == i % 4,
               "%s, %s, %s, zero %d", schedules[i % 5], recomputes[i % 3], kinds[i % 2], i % 4);
    }
}

static void layouts_that_fit_are_accepted(const struct place *p)
{
    static const char *const layouts[] = {
        GROUPED TRAIN "layout: {tensor_x: 3}\n",
        GROUPED TRAIN "layout: {tensor: 2, tensor_x: 4, axis_order: [tensor_x, data, tensor, "
                      "pipeline, context]}\n",
        MIXTURE TRAIN "layout: {tensor: 2, tensor_x: 2, expert: 2}\n",
        GROUPED TRAIN "layout: {tensor_x: 2, compress: {data: bf16}}\n",
        "model: {family: gpt2, layers: 3, hidden: 60, heads: 5, ffn: 77, vocab: 251, seq: 10, "
        "dropout: 0.1}\n" TRAIN "layout: {tensor_x: 3}\n",
        GROUPED TRAIN "layout: {tensor: 2}\n",
        GROUPED TRAIN "layout: {tensor: 12}\n", /* three copies of each of 4 heads */
        GROUPED TRAIN "layout: {tensor: 2, context: 2, context_kind: all-to-all}\n",
        GROUPED TRAIN "layout: {context: 48}\n",
        GROUPED TRAIN "layout: {pipeline: 8, schedule: zero-bubble}\n",
        GROUPED TRAIN "layout: {pipeline: 4, virtual_stages: 2, schedule: interleaved}\n",
        "model: {family: gpt2, layers: 3, hidden: 60, heads: 5, ffn: 77, vocab: 251, seq: 10, "
        "dropout: 0.1}\n" TRAIN "layout: {tensor: 5, context: 5, pipeline: 3, zero: 3, "
        "sequence_parallel: false}\n",
        SHARING TRAIN "layout: {tensor: 4, context: 3, sequence_parallel: true}\n",
    };
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        struct sn_config c;
        struct sn_err err;
        tap_ok(parse(p, layouts[i], &c, &err) == SN_OK, "%s", strstr(layouts[i], "layout: "));
        tap_text(err.text, "", "fits");
    }
}

/* --- sentences -------------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *text, *want;
} bad[] = {
    /* values */
    {MODEL TRAIN "layout: {tensor: 0}\n",
     "run.yaml:3:18: layout.tensor: 0 is outside 1..1048576 ranks"},
    {MODEL TRAIN "layout: {tensor: [2]}\n",
     "run.yaml:3:18: layout.tensor: got a list; want a whole number in 1..1048576 ranks"},
    {MODEL TRAIN "layout: {pipeline: 10001}\n",
     "run.yaml:3:20: layout.pipeline: 10001 is outside 1..10000 stages"},
    {MODEL TRAIN "layout: {context: {x: 2}}\n",
     "run.yaml:3:19: layout.context: got a mapping; want a whole number in 1..1048576 ranks"},
    {MODEL TRAIN "layout: {zero: 4}\n",
     "run.yaml:3:16: layout.zero: 4 is outside 0..3"},
    {MODEL TRAIN "run: {hang_timeout: 86401}\n",
     "run.yaml:3:21: run.hang_timeout: 86401 is outside 0..86400 seconds"},
    {MODEL TRAIN "layout: {schedule: 1f1}\n",
     "run.yaml:3:20: layout.schedule: unknown name '1f1'; did you mean '1f1b' (want gpipe, "
     "1f1b, interleaved, zero-bubble or combined)?"},
    {MODEL TRAIN "layout: {recompute: everything}\n",
     "run.yaml:3:21: layout.recompute: unknown name 'everything'; want none, selective or "
     "full"},
    {MODEL TRAIN "layout: {context_kind: rings}\n",
     "run.yaml:3:24: layout.context_kind: unknown name 'rings'; did you mean 'ring' (want "
     "ring or all-to-all)?"},
    {MODEL TRAIN "layout: {split: even}\n",
     "run.yaml:3:17: layout.split: got 'even'; want auto or a list of whole numbers in "
     "1..10000 layers"},
    {MODEL TRAIN "layout: {split: []}\n",
     "run.yaml:3:17: layout.split: got a list; want auto or a list of whole numbers in "
     "1..10000 layers"},
    {MODEL TRAIN "layout: {split: {a: 4}}\n",
     "run.yaml:3:17: layout.split: got a mapping; want auto or a list of whole numbers in "
     "1..10000 layers"},
    {MODEL TRAIN "layout: {split: [4, x]}\n",
     "run.yaml:3:21: layout.split: got 'x' in the list; want a whole number in 1..10000 "
     "layers"},
    {MODEL TRAIN "layout: {split: [4, [4]]}\n",
     "run.yaml:3:21: layout.split: got a list in the list; want a whole number in 1..10000 "
     "layers"},
    {MODEL TRAIN "layout: {pipeline: 2, split: [4, 0]}\n",
     "run.yaml:3:34: layout.split: 0 is outside 1..10000 layers"},
    {MODEL TRAIN "layout: {axis_order: auto}\n",
     "run.yaml:3:22: layout.axis_order: got 'auto'; want a list of tensor, tensor_x, "
     "context, expert, data or pipeline, each once"},
    {MODEL TRAIN "layout: {axis_order: [tensor, [data]]}\n",
     "run.yaml:3:31: layout.axis_order: got a list as a name; want a word"},
    {MODEL TRAIN "layout: {axis_order: [tensor, contxt]}\n",
     "run.yaml:3:31: layout.axis_order: unknown name 'contxt'; did you mean 'context' (want "
     "tensor, tensor_x, context, expert, data or pipeline)?"},
    {MODEL TRAIN "layout: {axis_order: [tensor, data, context, tensor, pipeline]}\n",
     "run.yaml:3:46: layout.axis_order: tensor is given twice; keep one"},
    {MODEL TRAIN "layout: {axis_order: [expert, tensor, data, pipeline]}\n",
     "run.yaml:3:22: layout.axis_order: context is missing; want each of tensor, context, "
     "data, pipeline once"},
    {MODEL TRAIN "layout: {axis_order: []}\n",
     "run.yaml:3:22: layout.axis_order: tensor is missing; want each of tensor, context, "
     "data, pipeline once"},
    /* the axes and the model */
    {MODEL TRAIN "layout: {data: 32, tensor: 1048576, context: 64}\n",
     "run.yaml:3:9: layout: data 32 x tensor 1048576 x tensor_x 1 x context 64 x pipeline 1 "
     "is more than 2147483647 ranks; want fewer"},
    {MODEL TRAIN "layout: {tensor: 65536, tensor_x: 65536}\n",
     "run.yaml:3:9: layout: data 1 x tensor 65536 x tensor_x 65536 x context 1 x pipeline 1 "
     "is more than 2147483647 ranks; want fewer"},
    {NEOX TRAIN "layout: {tensor: 5}\n",
     "run.yaml:3:18: layout.tensor: 5 does not divide model.heads (12); nearest that work: 4 "
     "or 6"},
    {NEOX TRAIN "layout: {tensor: 16}\n",
     "run.yaml:3:18: layout.tensor: 16 does not divide model.heads (12); nearest that work: "
     "12"},
    {GROUPED TRAIN "layout: {tensor: 5}\n",
     "run.yaml:3:18: layout.tensor: 5 does not divide model.heads (12); nearest that work: 4 "
     "or 12"},
    {GROUPED TRAIN "layout: {tensor: 6}\n",
     "run.yaml:3:18: layout.tensor: 6 neither divides model.kv_heads (4) nor is a multiple "
     "of it; nearest that work: 4 or 12"},
    {NEOX TRAIN "layout: {tensor: 2, tensor_pieces: 2}\n",
     "run.yaml:3:36: layout.tensor_pieces: 2 needs layout.overlap: auto"},
    {NEOX TRAIN "layout: {tensor: 2, overlap: auto, tensor_pieces: 5}\n",
     "run.yaml:3:51: layout.tensor_pieces: 5 does not divide micro_batch x seq / context (1 x 96 / "
     "1), with sequence_parallel / tensor; nearest that work: 4 or 6"},
    {NEOX TRAIN "layout: {tensor: 2, sequence_parallel: false, overlap: auto, tensor_pieces: 64}\n",
     "run.yaml:3:77: layout.tensor_pieces: 64 does not divide micro_batch x seq / context (1 x 96 / "
     "1); nearest that work: 48"},
    {NEOX TRAIN "layout: {tensor: 2, overlap: auto, tensor_pieces: 2, compress: {tensor: mpc}}\n",
     "run.yaml:3:51: layout.tensor_pieces: 2 does not go with layout.compress.tensor; use 1"},
    {MIXTURE TRAIN "layout: {tensor: 2, overlap: auto, tensor_pieces: 2}\n",
     "run.yaml:3:51: layout.tensor_pieces: 2 does not go with experts and sequence_parallel, which "
     "have an order of rows; use 1"},
    {NEOX TRAIN "layout: {tensor_x: 5}\n",
     "run.yaml:3:20: layout.tensor_x: 5 does not divide model.hidden (96); nearest that work: 4 "
     "or 6"},
    {"model: {family: llama, layers: 2, hidden: 256, heads: 4, ffn: 640, vocab: 256, seq: 64}\n"
     "train: {steps: 1, global_batch: 1, lora: {rank: 2, targets: [a], base: int8}}\n"
     "layout: {tensor: 2}\n",
     "run.yaml:2:72: train.lora.base: has blocks of 128 columns, but a rank has 640 / 2 of "
     "model.ffn (layout.tensor: 2); want a multiple of 128 of them, or train.lora.base: full"},
    {MIXTURE
     "train: {steps: 1, global_batch: 1, lora: {rank: 2, targets: [a], base: int4}}\n",
     "run.yaml:2:72: train.lora.base: with experts, whose matrices are not held as codes yet; set "
     "train.lora.base: full"},
    {NEOX TRAIN "layout: {tensor_x: 200}\n",
     "run.yaml:3:20: layout.tensor_x: 200 does not divide model.hidden (96); nearest that work: "
     "96"},
    {MIXTURE TRAIN "layout: {tensor: 4, tensor_x: 2, expert_tensor: 2}\n",
     "run.yaml:3:31: layout.tensor_x: 2 does not go with experts' tokens that tensor ranks split "
     "(layout.expert_tokens, expert_tensor) yet; use 1"},
    {NEOX TRAIN "layout: {tensor_x: 2}\nrun: {bits: all}\n",
     "run.yaml:3:20: layout.tensor_x: 2 does not go with run.bits: all yet; use 1"},
    {DEEPER TRAIN "layout: {tensor: 8}\nrun: {bits: all, backend: cpu}\n",
     "run.yaml:3:18: layout.tensor: 8 ranks slice 32 tokens (micro_batch x seq / context) into less than "
     "whole blocks of 8, which run.bits: all and model.mtp need; use fewer ranks, another micro_batch, "
     "sequence_parallel: false, or bits: layout"},
    {DEEPER TRAIN "layout: {tensor: 4, tensor_pieces: 2, overlap: auto}\nrun: {bits: all, backend: cpu}\n",
     "run.yaml:3:18: layout.tensor: 4 ranks slice 16 tokens (micro_batch x seq / context / tensor_pieces) "
     "into less than whole blocks of 8, which run.bits: all and model.mtp need; use fewer ranks, another "
     "micro_batch, sequence_parallel: false, or bits: layout"},
    {NEOX "train: {steps: 200, global_batch: 32, precision: bf16, fp8: tensorwise}\n"
     "layout: {tensor_x: 2}\n",
     "run.yaml:3:20: layout.tensor_x: 2 does not go with train.fp8 yet; use 1"},
    {NEOX TRAIN "layout: {tensor: {x: 2, w: 2}}\n",
     "run.yaml:3:25: layout.tensor: 'w' is no part of it; want x, y or z"},
    {NEOX TRAIN "layout: {tensor: {y: 2, x: 2}, tensor_x: 2}\n",
     "run.yaml:3:25: layout.tensor: x is layout.tensor_x, which is given, too; keep one"},
    {NEOX TRAIN "layout: {tensor: {x: 2, z: 2}, zero_node: 2}\n",
     "run.yaml:3:25: layout.tensor: z is layout.zero_node, which is given, too; keep one"},
    {NEOX TRAIN "layout: {tensor: {x: 2, z: 2}, zero: 1}\n",
     "run.yaml:3:28: layout.tensor: z: 2 shares weights out as layout.zero: 3 does, which is 1; "
     "leave layout.zero out"},
    {NEOX TRAIN "layout: {tensor: {x: 2, z: 0}}\n",
     "run.yaml:3:28: layout.tensor: z: 0 is no number of ranks; want at least 1"},
    {NEOX TRAIN "layout: {tensor: {y: 5}}\n",
     "run.yaml:3:22: layout.tensor: 5 does not divide model.heads (12); nearest that work: 4 or 6"},
    {NEOX TRAIN "layout: {tensor: {x: 5}}\n",
     "run.yaml:3:22: layout.tensor_x: 5 does not divide model.hidden (96); nearest that work: 4 "
     "or 6"},
    {NEOX TRAIN "layout: {context: 5}\n",
     "run.yaml:3:19: layout.context: 2 x 5 does not divide model.seq (96), as context_kind "
     "ring needs; nearest that work: 4 or 6"},
    {NEOX TRAIN "layout: {context: 32}\n",
     "run.yaml:3:19: layout.context: 2 x 32 does not divide model.seq (96), as context_kind "
     "ring needs; nearest that work: 24 or 48"},
    {NEOX TRAIN "layout: {context: 200}\n",
     "run.yaml:3:19: layout.context: 2 x 200 does not divide model.seq (96), as context_kind "
     "ring needs; nearest that work: 48"},
    {NEOX TRAIN "layout: {context: 5, context_kind: all-to-all}\n",
     "run.yaml:3:19: layout.context: 5 does not divide model.seq (96); nearest that work: 4 "
     "or 6"},
    {NEOX TRAIN "layout: {tensor: 2, context: 4, context_kind: all-to-all}\n",
     "run.yaml:3:30: layout.context: tensor x context (2 x 4) does not divide model.heads "
     "(12), as context_kind all-to-all needs; nearest that work: 3 or 6"},
    {GROUPED TRAIN "layout: {context: 3, context_kind: all-to-all}\n",
     "run.yaml:3:19: layout.context: tensor x context (1 x 3) does not divide model.kv_heads "
     "(4), as context_kind all-to-all needs; nearest that work: 2 or 4"},
    {GROUPED TRAIN "layout: {tensor: 12, context: 2, context_kind: all-to-all}\n",
     "run.yaml:3:31: layout.context: tensor x context (12 x 2) does not divide model.heads "
     "(12), as context_kind all-to-all needs; nearest that work: 1"},
    {NEOX TRAIN "layout: {tensor: 12, context: 24}\n",
     "run.yaml:3:18: layout.tensor: 12 does not divide micro_batch x seq / context (1 x 96 / "
     "24), as sequence_parallel needs; nearest that work: 4, or sequence_parallel: false"},
    {NEOX TRAIN "layout: {tensor: 3, context: 24, micro_batch: 2}\n",
     "run.yaml:3:18: layout.tensor: 3 does not divide micro_batch x seq / context (2 x 96 / "
     "24), as sequence_parallel needs; nearest that work: 2 or 4, or sequence_parallel: false"},
    /* the pipeline */
    {NEOX TRAIN "layout: {pipeline: 9, virtual_stages: 2}\n",
     "run.yaml:3:20: layout.pipeline: 9 is more than model.layers (8); want at most that"},
    {NEOX TRAIN "layout: {pipeline: 4, virtual_stages: 3, schedule: interleaved}\n",
     "run.yaml:3:39: layout.virtual_stages: pipeline x virtual_stages (4 x 3) is more than "
     "model.layers (8); want at most 2 virtual stages"},
    {NEOX TRAIN "layout: {pipeline: 5, virtual_stages: 10000, schedule: interleaved}\n",
     "run.yaml:3:39: layout.virtual_stages: pipeline x virtual_stages (5 x 10000) is more "
     "than model.layers (8); want at most 1 virtual stage"},
    {NEOX TRAIN "layout: {virtual_stages: 2, schedule: interleaved}\n",
     "run.yaml:3:26: layout.virtual_stages: 2 needs layout.pipeline of at least 2; use 1"},
    {NEOX TRAIN "layout: {pipeline: 4, virtual_stages: 2}\n",
     "run.yaml:3:39: layout.virtual_stages: 2 needs schedule interleaved or combined, not 1f1b; "
     "use 1 or schedule: interleaved or combined"},
    {NEOX TRAIN "layout: {pipeline: 4, virtual_stages: 2, schedule: zero-bubble}\n",
     "run.yaml:3:39: layout.virtual_stages: 2 needs schedule interleaved or combined, not "
     "zero-bubble; use 1 or schedule: interleaved or combined"},
    {NEOX TRAIN "layout: {data: 2, micro_batch: 2, pipeline: 3, schedule: interleaved}\n",
     "run.yaml:2:35: train.global_batch: 32 is not a multiple of data x micro_batch x "
     "pipeline (2 x 2 x 3), as schedule interleaved needs; nearest that are: 24 or 36"},
    {NEOX TRAIN "layout: {pipeline: 2, split: [2, 2, 4]}\n",
     "run.yaml:3:30: layout.split: 3 numbers, but pipeline x virtual_stages is 2 x 1; want "
     "2, such as [4, 4], or auto"},
    {NEOX TRAIN "layout: {pipeline: 3, split: [8]}\n",
     "run.yaml:3:30: layout.split: 1 number, but pipeline x virtual_stages is 3 x 1; want 3, "
     "such as [3, 3, 2], or auto"},
    {NEOX TRAIN "layout: {pipeline: 2, virtual_stages: 2, schedule: interleaved, split: [2, 2, 2, 3]}\n",
     "run.yaml:3:72: layout.split: the sum is 9, but model.layers is 8; want that sum, such "
     "as [2, 2, 2, 2], or auto"},
    {"model: {preset: llama-7b}\n" TRAIN "layout: {pipeline: 20, split: [32]}\n",
     "run.yaml:3:31: layout.split: 1 number, but pipeline x virtual_stages is 20 x 1; want "
     "20, or auto"},
    {SHARING TRAIN "layout: {pipeline: 2}\n",
     "run.yaml:1:103: model.share_layers: 2 needs a whole model on each rank, but pipeline x "
     "virtual_stages is 2 x 1; use 1, or 1 for both of those"},
};
/* clang-format on */

static void bad_layouts_are_explained(const struct place *p)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_config c;
        struct sn_err err;
        tap_ok(parse(p, bad[i].text, &c, &err) == SN_EINPUT, "case %zu is bad input", i + 1);
        tap_text(err.text, bad[i].want, bad[i].want);
    }
}

static void a_split_has_an_end(const struct place *p)
{
    struct sn_config c;
    struct sn_err err;
    struct sn_str text = {0};
    sn_str_add(&text, MODEL TRAIN "layout:\n  split:\n");
    for (int i = 0; i <= SN_SPLIT_MAX; i++)
        sn_str_add(&text, "  - 1\n");
    tap_ok(parse(p, text.p, &c, &err) == SN_EINPUT, "513 numbers");
    tap_text(err.text, "run.yaml:517:5: layout.split: more than 512 numbers; want fewer, or auto",
             "are one too many");
    sn_str_fini(&text);
}

/* The nearest values that a sentence names must themselves be accepted. */
static void what_would_work_does(const struct place *p)
{
    static const struct {
        const char *model, *key, *rest;
        int works[2];
    } cases[] = {
        {GROUPED, "tensor", "", {4, 12}},
        {NEOX, "context", ", context_kind: ring", {24, 48}},
        {NEOX, "context", ", tensor: 2, context_kind: all-to-all", {3, 6}},
        {GROUPED, "context", ", context_kind: all-to-all", {2, 4}},
        {NEOX, "tensor", ", context: 24, micro_batch: 2", {2, 4}},
        {NEOX, "tensor_x", "", {4, 6}},
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        struct sn_config c;
        struct sn_err err;
        (void)snprintf(text, sizeof(text), "%s" TRAIN "layout: {%s: %d%s}\n", cases[i / 2].model,
                       cases[i / 2].key, cases[i / 2].works[i % 2], cases[i / 2].rest);
        tap_ok(parse(p, text, &c, &err) == SN_OK, "%s %d works", cases[i / 2].key,
               cases[i / 2].works[i % 2]);
        tap_text(err.text, "", "without a word");
    }
}

/* --- ranks ------------------------------------------------------------------------------------ */

#define EVALUATED                                                                                  \
    "train: {steps: 9, global_batch: 32, eval_every: 3, eval_sequences: 12}\n"                     \
    "data: {valid: v}\n"

static const struct {
    const char *text;
    int ranks, data;
    const char *want;
} grids[] = {
    {NEOX TRAIN "layout: {tensor: 2, pipeline: 2, context: 2}\n", 8, 1, ""},
    {MIXTURE TRAIN "layout: {tensor: 4, expert_tensor: 2, expert: 4}\n", 8, 2, ""},
    {MIXTURE TRAIN "layout: {tensor: 4, expert_tensor: 2, expert: 8}\n", 8, 2,
     "run.yaml: layout.expert: 8 does not divide data x tensor / expert_tensor x context (2 x 2 x "
     "1); nearest that do: 4"},
    {MIXTURE TRAIN "layout: {tensor: 4, expert_tensor: 1, expert: 8}\n", 8, 2, ""},
    {MIXTURE TRAIN "layout: {tensor: 6, expert_tensor: 2, expert: 4}\n", 12, 2,
     "run.yaml: layout.expert: 4 does not divide data x tensor / expert_tensor x context (2 x 3 x "
     "1); nearest that do: 2"},
    {MIXTURE TRAIN "layout: {tensor: 4, expert: 4}\n", 8, 2,
     "run.yaml: layout.expert: 4 does not divide data x context (2 x 1); nearest that do: 2"},
    {NEOX TRAIN "layout: {tensor: 2, pipeline: 2, context: 2}\n", 32, 4, ""},
    {NEOX TRAIN "layout: {tensor: 2, pipeline: 2, context: 2, data: 4}\n", 32, 4, ""},
    {NEOX TRAIN "layout: {tensor: 2, pipeline: 2, context: 2}\n", 12, 0,
     "run.yaml: the job has 12 ranks, which is not a multiple of tensor x context x pipeline "
     "(2 x 2 x 2); start 8 or 16 ranks"},
    {NEOX TRAIN "layout: {tensor: 2, tensor_x: 3}\n", 12, 2, ""},
    {NEOX TRAIN "layout: {tensor: 2, tensor_x: 3, data: 2}\n", 24, 2,
     "run.yaml: layout.data 2 x tensor 2 x tensor_x 3 x context 1 x pipeline 1 is 12 ranks, but "
     "the job has 24; start 12 or use layout.data: 4"},
    {NEOX TRAIN "layout: {tensor: 2, tensor_x: 3}\n", 8, 0,
     "run.yaml: the job has 8 ranks, which is not a multiple of tensor x tensor_x x context x "
     "pipeline (2 x 3 x 1 x 1); start 6 or 12 ranks"},
    {NEOX TRAIN "layout: {tensor: 3, pipeline: 2}\n", 4, 0,
     "run.yaml: the job has 4 ranks, which is not a multiple of tensor x context x pipeline "
     "(3 x 1 x 2); start 6 ranks"},
    {NEOX TRAIN "layout: {tensor: 3, pipeline: 2}\n", 18, 0,
     "run.yaml: 18 ranks make layout.data 3, but train.global_batch (32) is not a multiple of "
     "data x micro_batch (3 x 1); start 12 or 24 ranks, or use global_batch 30 or 33"},
    {NEOX TRAIN "layout: {tensor: 3, pipeline: 2, data: 2}\n", 24, 2,
     "run.yaml: layout.data 2 x tensor 3 x context 1 x pipeline 2 is 12 ranks, but the job has "
     "24; start 12 or use layout.data: 4"},
    {NEOX TRAIN "layout: {tensor: 3, pipeline: 2, data: 2}\n", 20, 2,
     "run.yaml: layout.data 2 x tensor 3 x context 1 x pipeline 2 is 12 ranks, but the job has "
     "20; start 12, or leave layout.data out and start 12 or 24 ranks"},
    {NEOX TRAIN "layout: {pipeline: 2, schedule: interleaved}\n", 32, 16, ""},
    {NEOX TRAIN "layout: {pipeline: 2, schedule: interleaved}\n", 64, 0,
     "run.yaml: 64 ranks make layout.data 32, but train.global_batch (32) is not a multiple of "
     "data x micro_batch x pipeline (32 x 1 x 2); start 32 ranks, or use global_batch 64"},
    {NEOX EVALUATED "layout: {tensor: 2}\n", 8, 4, ""},
    {NEOX EVALUATED "layout: {tensor: 2}\n", 16, 8, ""},
};

static void ranks_multiply_the_axes(const struct place *p)
{
    for (size_t i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
        struct sn_err err = {0};
        struct sn_config c = good(p, grids[i].text);
        enum sn_status st = sn_config_resolve_ranks(&c, grids[i].ranks, &err);
        tap_ok(st == (*grids[i].want ? SN_EINPUT : SN_OK) && c.layout.data == grids[i].data,
               "%d ranks, data %d", grids[i].ranks, grids[i].data);
        tap_text(err.text, grids[i].want, *grids[i].want ? grids[i].want : "fit");
    }
}

/* --- back to text, and what a checkpoint sees ------------------------------------------------- */

static const char *const layouts[] = {
    "{tensor: 2}",
    "{pipeline: 2}",
    "{context: 2}",
    "{pipeline: 2, virtual_stages: 2, schedule: interleaved}",
    "{sequence_parallel: false}",
    "{schedule: gpipe}",
    "{schedule: zero-bubble}",
    "{recompute: full}",
    "{zero: 2}",
    "{context_kind: all-to-all}",
    "{pipeline: 2, split: [3, 1]}",
    "{axis_order: [tensor, context, data, pipeline]}",
    "{axis_order: [data, tensor, context, expert, pipeline]}",
};

static void layouts_survive_a_round_trip(const struct place *p)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        char text[512];
        struct sn_str out = {0};
        (void)snprintf(text, sizeof(text), MODEL TRAIN "layout: %s\n", layouts[i]);
        struct sn_config a = good(p, text);
        sn_config_format(&out, &a);
        struct sn_config b = good(p, out.p);
        a.layout_named = b.layout_named = 0; /* the text names every key, in places of its own */
        a.machine.preset_at = b.machine.preset_at = (struct sn_text_place){0};
        a.slurm.site_at = b.slurm.site_at = (struct sn_text_place){0};
        tap_ok(memcmp(&a, &b, sizeof(a)) == 0, "round trip of %s", layouts[i]);
        sn_str_fini(&out);
    }
}

/* Ranks compare the hash to be sure that they compile for the same layout; a checkpoint refuses
 * another model only, so a run may go on in another layout. */
static void a_layout_changes_the_hash_but_not_the_model(const struct place *p)
{
    struct sn_config base = good(p, MODEL TRAIN);
    struct sn_str model = {0};
    sn_config_format_model(&model, &base);
    uint64_t hash[sizeof(layouts) / sizeof(layouts[0]) + 1] = {sn_config_hash(&base)};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        char text[512];
        struct sn_str mine = {0};
        (void)snprintf(text, sizeof(text), MODEL TRAIN "layout: %s\n", layouts[i]);
        struct sn_config c = good(p, text);
        sn_config_format_model(&mine, &c);
        hash[i + 1] = sn_config_hash(&c);
        bool seen = false;
        for (size_t k = 0; k <= i; k++)
            seen = seen || hash[k] == hash[i + 1];
        tap_ok(!seen && !strcmp(model.p, mine.p), "%s: another hash, the same model", layouts[i]);
        sn_str_fini(&mine);
    }
    sn_str_fini(&model);
}

int main(void)
{
    struct place p = make_place();
    axes_have_defaults(&p);
    axes_arrive(&p);
    a_grid_of_tensors_is_three_keys(&p);
    every_name_is_its_value(&p);
    layouts_that_fit_are_accepted(&p);
    bad_layouts_are_explained(&p);
    a_split_has_an_end(&p);
    what_would_work_does(&p);
    ranks_multiply_the_axes(&p);
    layouts_survive_a_round_trip(&p);
    a_layout_changes_the_hash_but_not_the_model(&p);
    remove_place(&p);
    return tap_done();
}
