/*
 * software.c - the software profile: rows of factors, one for each axis where axes differ.
 */
#include "lib/machine/software.h"

#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/layout/grid.h"
#include "lib/machine/fields.h"

#include <stdio.h>
#include <string.h>

static const char *const attentions[] = {"flash2", "flash1", "fused", "torch", NULL};
_Static_assert(SN_NAXES <= 8, "struct sn_software has a factor for each axis");

#define MAP(key)                                                                                   \
    {                                                                                              \
        .name = (key), .type = SN_KEY_MAP, .offset = SN_NOWHERE                                    \
    }
#define FACTOR(key, member, what)                                                                  \
    {                                                                                              \
        .name = (key), .type = SN_KEY_FLOAT, .offset = offsetof(struct sn_software, member),       \
        .sentence = (what), .min = 1e-3L, .max = 1000, .value = "1"                                \
    }
#define NUMBER(key, member, most, unit_, what)                                                     \
    {                                                                                              \
        .name = (key), .type = SN_KEY_FLOAT, .offset = offsetof(struct sn_software, member),       \
        .sentence = (what), .min = 0, .max = (most), .unit = (unit_), .value = "0"                 \
    }
#define FLAG(key, member, usual, what)                                                             \
    {                                                                                              \
        .name = (key), .type = SN_KEY_BOOL, .offset = offsetof(struct sn_software, member),        \
        .sentence = (what), .value = (usual)                                                       \
    }

/* Of an axis that communicates: all do. */
#define LATENCY(ID, axis, ...)                                                                     \
    FACTOR("communication.latency." #axis, latency[SN_AXIS_##ID],                                  \
           "Factor on the latency of this axis."),
#define BANDWIDTH(ID, axis, ...)                                                                   \
    FACTOR("communication.bandwidth." #axis, bandwidth[SN_AXIS_##ID], "Factor on its bandwidth."),
#define PER_NODE(ID, axis, ...)                                                                    \
    NUMBER("communication.per_node." #axis, per_node[SN_AXIS_##ID], 10, NULL,                      \
           "Part by which each node of the job beside the first lengthens what its messages take " \
           "between nodes."),
#define HIDDEN(ID, axis, ...)                                                                      \
    NUMBER("communication.hidden." #axis, hidden[SN_AXIS_##ID], 1, NULL,                           \
           "Part of its exposed time that computing hides although our program would wait; 0: as " \
           "compiled."),
#define KERNELS(key, member, what)                                                                 \
    FACTOR(key ".flash2", member[SN_ATTENTION_FLASH2], what),                                      \
        FACTOR(key ".flash1", member[SN_ATTENTION_FLASH1], what),                                  \
        FACTOR(key ".fused", member[SN_ATTENTION_FUSED], what),                                    \
        FACTOR(key ".torch", member[SN_ATTENTION_TORCH], what)

/* clang-format off */
static const struct sn_key rows[] = {
    {.name = "name", .type = SN_KEY_TEXT, .offset = offsetof(struct sn_software, name),
     .sentence = "Name of the trainer.", .max = SN_MACHINE_NAME, .derived = "sennit"},
    {.name = "attention", .type = SN_KEY_ENUM, .offset = offsetof(struct sn_software, attention),
     .sentence = "Its attention kernel; fused and torch keep the scores.", .names = attentions, .value = "flash2"},
    FLAG("fused_norm", fused_norm, "true", "Whether a norm is one kernel."),
    MAP("time"),
    FACTOR("time.gemm", gemm, "Factor on the seconds of products."),
    MAP("time.attention_forward"),
    KERNELS("time.attention_forward", attention_forward, "Factor on the seconds of this attention kernel."),
    MAP("time.attention_backward"),
    KERNELS("time.attention_backward", attention_backward, "The same of its gradient."),
    FACTOR("time.norm_fused", norm_fused, "Factor on the bytes of fused norms."),
    FACTOR("time.norm_unfused", norm_unfused, "Factor on the bytes of norms that are several kernels."),
    FACTOR("time.elementwise", elementwise, "Factor on the bytes of other operations that move memory."),
    FACTOR("time.overhead", overhead, "Factor on what each operation begins with."),
    NUMBER("time.step_fixed", step_fixed, 1000, "seconds", "Added to each step."),
    NUMBER("time.layer_fixed", layer_fixed, 1000, "seconds", "Added to each layer and micro-batch."),
    NUMBER("time.host", host, 1, "s", "Seconds in which the host issues an operation, ahead of the device where it can."),
    NUMBER("time.stall", stall, 1000, NULL, "Times of a micro-batch by which a pipeline is longer than its schedule."),
    MAP("communication"),
    MAP("communication.latency"),
    SN_AXES(LATENCY)
    MAP("communication.bandwidth"),
    SN_AXES(BANDWIDTH)
    MAP("communication.per_node"),
    SN_AXES(PER_NODE)
    MAP("communication.hidden"),
    SN_AXES(HIDDEN)
    FLAG("communication.data_overlaps", data_overlaps, "true", "Else gradients are reduced after the last backward."),
    NUMBER("communication.late", late, 100, "s", "By which a billion parameters of a rank are reduced later for each node of their group beside the first."),
    NUMBER("communication.late_full", late_full, 100, "s", "The same for each node of the job beside the first, times 4 times the part of the device's memory that is full beyond three quarters."),
    NUMBER("communication.grad_wire_bytes", grad_wire_bytes, 16, "B", "An element of reduced gradients; 0: as compiled."),
    FLAG("communication.logits_gathered", logits_gathered, "false", "The head's logits are whole on every tensor rank."),
    MAP("memory"),
    NUMBER("memory.param_bytes", param_bytes, 64, "B", "An element of the weights; 0: as compiled."),
    NUMBER("memory.grad_bytes", grad_bytes, 64, "B", "The same of gradients."),
    NUMBER("memory.optimizer_bytes", optimizer_bytes, 64, "B", "The same of the optimizer's state."),
    NUMBER("memory.kept_replicated", kept_replicated, 1000, "B", "Kept for backward of a layer, token and feature on every tensor rank (kept_sharded 0 too: as compiled)."),
    NUMBER("memory.kept_sharded", kept_sharded, 1000, "B", "The same, divided among the tensor ranks."),
    NUMBER("memory.kept_unfused", kept_unfused, 1000, "B", "Kept in addition to kept_replicated where norms are several kernels."),
    NUMBER("memory.kept_scores", kept_scores, 1000, "B", "Kept of each score by attention kernels that keep them."),
    NUMBER("memory.recompute_live", recompute_live, 100, "layers", "Layers whose activations are there at once when recomputing."),
    NUMBER("memory.logits_bytes", logits_bytes, 64, "B", "A token and word of logits."),
    NUMBER("memory.logits_gathered_bytes", logits_gathered_bytes, 64, "B", "And more where the head is cut over tensor ranks."),
    NUMBER("memory.fixed_bytes", fixed_bytes, 1e15L, "B", "Of each rank, beside the rest."),
    {.name = "memory.cutoff", .type = SN_KEY_FLOAT, .offset = offsetof(struct sn_software, memory_cutoff),
     .sentence = "Part of the device's memory that is usable.", .min = 0.01L, .max = 1, .value = "1"},
    MAP("accuracy"),
    NUMBER("accuracy.low", low, 1, NULL, "Measured over planned step, of nine in ten steps of each sheet, none of which a constant was fitted to: at least that; 0: not known."),
    NUMBER("accuracy.high", high, 1000, NULL, "And at most that."),
    NUMBER("accuracy.devices_least", devices_least, 1e9L, NULL, "Fewest devices of the steps that were measured."),
    NUMBER("accuracy.devices_most", devices_most, 1e9L, NULL, "Most devices."),
    NUMBER("accuracy.hidden_least", hidden_least, 1e9L, NULL, "Least width of their models."),
    NUMBER("accuracy.hidden_most", hidden_most, 1e9L, NULL, "Greatest width."),
    NUMBER("accuracy.seq_least", seq_least, 1e9L, "tokens", "Shortest sequences."),
    NUMBER("accuracy.seq_most", seq_most, 1e9L, "tokens", "Longest sequences."),
};
/* clang-format on */

static const struct sn_fields fields = {.what = "a software profile",
                                        .prefix = "",
                                        .row = rows,
                                        .n = (int)(sizeof(rows) / sizeof(rows[0]))};
_Static_assert(sizeof(rows) / sizeof(rows[0]) <= SN_KEYS_MAX, "too many rows");

void sn_software_default(struct sn_software *out)
{
    memset(out, 0, sizeof(*out)); /* padding too: equal files give equal bytes */
    (void)strncpy(out->name, "sennit", sizeof(out->name) - 1);
    sn_fields_default(&fields, out);
    for (int a = 0; a < 8; a++)
        out->latency[a] = out->bandwidth[a] = 1; /* also of indices that are no axis */
}

const char *sn_software_mfu_note(const struct sn_software *s, const struct sn_machine *m)
{
    bool is_ours = strcmp(s->name, "sennit") == 0, is_gpu = m->algorithm == SN_ALGORITHM_RING;
    return is_ours && is_gpu && m->device.n_measured == 0 ? "not measured on a GPU" : NULL;
}

bool sn_software_extrapolates(char *why, size_t room, const struct sn_software *s, int devices,
                              int hidden, int seq)
{
    const struct {
        const char *what;
        double is, least, most;
    } seen[] = {{"devices", devices, s->devices_least, s->devices_most},
                {"features", hidden, s->hidden_least, s->hidden_most},
                {"tokens a sequence", seq, s->seq_least, s->seq_most}};
    size_t used = 0;
    why[0] = 0;
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        if (seen[i].most == 0 || (seen[i].is >= seen[i].least && seen[i].is <= seen[i].most))
            continue;
        int n = snprintf(why + used, room - used, "%s%.0f %s, measured %.0f to %.0f",
                         used ? "; " : "", seen[i].is, seen[i].what, seen[i].least, seen[i].most);
        used = n < 0 || (size_t)n >= room - used ? room - 1 : used + (size_t)n;
    }
    return used > 0;
}

enum sn_status sn_software_parse(struct sn_software *out, const char *text, size_t len,
                                 const char *path, struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    struct sn_software s;
    sn_software_default(&s);
    SN_TRY(sn_fields_parse(&doc, text, len, path,
                           "a software profile: a mapping of keys such as attention: flash2", err));
    enum sn_status st = sn_fields_read(&fields, doc->root, &s, err);
    sn_yaml_destroy(doc);
    if (st == SN_OK)
        memcpy(out, &s, sizeof(s));
    return st;
}

enum sn_status sn_software_load(struct sn_software *out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_software_parse(out, text, len, path, err);
    sn_free(text);
    return st;
}

void sn_software_format(struct sn_str *out, const struct sn_software *s)
{
    sn_fields_format(out, &fields, s, 0, "");
}

void sn_software_help(struct sn_str *out)
{
    sn_fields_help(out, &fields);
}
