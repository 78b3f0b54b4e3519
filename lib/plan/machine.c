/*
 * machine.c - the machine file: three rates, and exceptions by kind of operation.
 */
#include "lib/plan/machine.h"

#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/config/keys.h"
#include "lib/program/program.h"

#include <string.h>

/* Bounds refuse units that were mistaken (1000 for 1000 GFLOP/s), not machines. */
static const struct sn_key flops_key = {
    .name = "flops", .type = SN_KEY_FLOAT, .unit = "FLOP/s", .min = 1e6, .max = 1e18};
static const struct sn_key bandwidth_key = {
    .name = "memory_bandwidth", .type = SN_KEY_FLOAT, .unit = "B/s", .min = 1e6, .max = 1e15};
static const struct sn_key overhead_key = {
    .name = "overhead", .type = SN_KEY_FLOAT, .unit = "seconds", .min = 0, .max = 1};

/* Kinds whose price depends on FLOPs at all (sn_op_flops). */
static const enum sn_op_kind computing[] = {SN_OP_GEMM, SN_OP_ATTENTION, SN_OP_ATTENTION_DX};
enum { N_COMPUTING = sizeof(computing) / sizeof(computing[0]) };

static enum sn_status read_exceptions(struct sn_machine *m, const struct sn_yaml_node *map,
                                      struct sn_err *err)
{
    if (map->kind != SN_YAML_MAP)
        return sn_yaml_fail(map, err, "flops_of: want a mapping such as {attention: 5.0e11}");
    for (const struct sn_yaml_node *n = map->first; n; n = n->next) {
        char clipped[SN_CLIP_SIZE];
        int i = 0;
        while (i < N_COMPUTING && strcmp(n->key, sn_op_name(computing[i])) != 0)
            i++;
        if (i == N_COMPUTING)
            return sn_yaml_fail_key(n, err,
                                    "flops_of: '%s' is no operation that is priced by FLOPs; want "
                                    "gemm, attention or attention_dx",
                                    sn_clip(clipped, n->key));
        SN_TRY(sn_key_parse(&flops_key, n, &m->flops[computing[i]], err));
    }
    return SN_OK;
}

static enum sn_status read_rate(const struct sn_yaml_node *root, const struct sn_key *k, double *to,
                                struct sn_err *err)
{
    const struct sn_yaml_node *n = sn_yaml_find(root, k->name);
    char want[SN_WANT_SIZE];
    if (!n)
        return sn_yaml_fail(root, err, "%s: missing; want %s", k->name, sn_key_want(k, want));
    return sn_key_parse(k, n, to, err);
}

static enum sn_status check_names(const struct sn_yaml_node *root, struct sn_err *err)
{
    static const char *const names[] = {"flops", "memory_bandwidth", "overhead", "flops_of"};
    for (const struct sn_yaml_node *n = root->first; n; n = n->next) {
        char clipped[SN_CLIP_SIZE];
        int i = 0;
        while (i < 4 && strcmp(n->key, names[i]) != 0)
            i++;
        if (i == 4)
            return sn_yaml_fail_key(n, err,
                                    "unknown key '%s' of a machine file; want flops, "
                                    "memory_bandwidth, overhead or flops_of",
                                    sn_clip(clipped, n->key));
    }
    return SN_OK;
}

static enum sn_status read_tree(struct sn_machine *m, const struct sn_yaml_doc *doc,
                                struct sn_err *err)
{
    const struct sn_yaml_node *root = doc->root;
    if (!root || root->kind != SN_YAML_MAP)
        return sn_fail(err, SN_EINPUT,
                       "%s: no machine file; want the keys flops, memory_bandwidth and overhead",
                       doc->path);
    SN_TRY(check_names(root, err));
    SN_TRY(read_rate(root, &flops_key, &m->peak, err));
    SN_TRY(read_rate(root, &bandwidth_key, &m->memory_bandwidth, err));
    SN_TRY(read_rate(root, &overhead_key, &m->overhead, err));
    for (int k = 0; k < SN_NKERNELS; k++)
        m->flops[k] = m->peak;
    const struct sn_yaml_node *exceptions = sn_yaml_find(root, "flops_of");
    return exceptions ? read_exceptions(m, exceptions, err) : SN_OK;
}

enum sn_status sn_machine_parse(struct sn_machine *out, const char *text, size_t len,
                                const char *path, struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    struct sn_machine m = {0};
    SN_TRY(sn_yaml_parse(&doc, text, len, path, err));
    enum sn_status st = read_tree(&m, doc, err);
    sn_yaml_destroy(doc);
    if (st == SN_OK)
        *out = m;
    return st;
}

enum sn_status sn_machine_load(struct sn_machine *out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_machine_parse(out, text, len, path, err);
    sn_free(text);
    return st;
}
