#include "lib/machine/named.h"

#include "lib/config/files.h"

#include <stdio.h>

bool sn_names_machine(const struct sn_config *c)
{
    return c->machine.preset[0] || c->machine.file[0];
}

/* A key that names a shipped file, and where, for messages. */
struct naming {
    const char *key, *name, *file;
    struct sn_text_place at;
};

static enum sn_status preset_path(char path[SN_PATH_MAX], const char *kind, const struct naming *x,
                                  const char *share_dir, struct sn_err *err)
{
    char share[SN_PATH_MAX], dir[SN_PATH_MAX + 16];
    struct sn_yaml_node n = {.kind = SN_YAML_SCALAR,
                             .file = x->file,
                             .line = x->at.line,
                             .col = x->at.col,
                             .text = (char *)x->name};
    if (share_dir)
        (void)snprintf(share, sizeof(share), "%s", share_dir);
    else
        SN_TRY(sn_share_find(share, sizeof(share), err));
    (void)snprintf(dir, sizeof(dir), "%s/%s", share, kind);
    return sn_preset_find(path, SN_PATH_MAX, dir, x->key, &n, err);
}

enum sn_status sn_machine_preset(struct sn_machine *out, const char *name, const char *share_dir,
                                 struct sn_err *err)
{
    char path[SN_PATH_MAX];
    SN_TRY(preset_path(path, "machines", &(struct naming){"machine.preset", name, "preset", {0}},
                       share_dir, err));
    return sn_machine_load(out, path, err);
}

enum sn_status sn_machine_check_precision(const struct sn_machine *m, enum sn_dtype precision,
                                          struct sn_err *err)
{
    /* Of those that it has, half the width is the better advice. */
    static const enum sn_dtype choice[] = {SN_BF16, SN_F16, SN_F32};
    const char *first = NULL, *second = NULL;
    if (m->device.gemm[precision].peak > 0)
        return SN_OK;
    for (int i = 0; i < SN_NPRECISIONS; i++) {
        if (m->device.gemm[choice[i]].peak <= 0)
            continue;
        second = first ? sn_dtype_name(choice[i]) : NULL;
        first = first ? first : sn_dtype_name(choice[i]);
    }
    return sn_fail(err, SN_EINPUT, "train.precision: %s has no %s; use %s%s%s",
                   m->device.name[0] ? m->device.name : "the machine's device",
                   sn_dtype_name(precision), first, second ? " or " : "", second ? second : "");
}

static enum sn_status check(const struct sn_machine *m, const struct sn_config *c,
                            struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    int64_t room = sn_machine_ranks(m, c);
    int64_t ranks = sn_config_least_ranks(l);
    if (sn_machine_check_precision(m, c->train.precision, err) != SN_OK)
        return sn_err_prefix(err, "%s", c->path);
    if (room && ranks > room)
        return sn_fail(err, SN_EINPUT,
                       "%s: machine.nodes: %d nodes of %s have %lld devices, but the layout has "
                       "%lld ranks; want at least %lld nodes",
                       c->path, c->machine.nodes, m->name, (long long)room, (long long)ranks,
                       (long long)((ranks + m->devices - 1) / m->devices));
    return SN_OK;
}

enum sn_status sn_machine_of(struct sn_machine *out, const struct sn_config *c,
                             const char *share_dir, struct sn_err *err)
{
    char path[SN_PATH_MAX];
    const char *file = c->machine.file, *name = c->machine.preset;
    struct sn_machine m;
    if (!file[0]) {
        struct naming x = {"machine.preset", name[0] ? name : "laptop-cpu", c->path,
                           c->machine.preset_at};
        SN_TRY(preset_path(path, "machines", &x, share_dir, err));
        file = path;
    }
    SN_TRY(sn_machine_load(&m, file, err));
    enum sn_status st = check(&m, c, err);
    if (st != SN_OK) {
        sn_machine_fini(&m);
        return st;
    }
    *out = m;
    return SN_OK;
}

enum sn_status sn_software_of(struct sn_software *out, const struct sn_config *c,
                              const char *share_dir, struct sn_err *err)
{
    const struct sn_software_config *w = &c->machine.software;
    char path[SN_PATH_MAX];
    const char *file = w->file;
    struct sn_software s;
    sn_software_default(&s);
    if (w->profile[0]) {
        struct naming x = {"machine.software.profile", w->profile, c->path, {0}};
        SN_TRY(preset_path(path, "software", &x, share_dir, err));
        file = path;
    }
    if (file[0])
        SN_TRY(sn_software_load(&s, file, err));
    if (w->attention)
        s.attention = (enum sn_attention_kernel)(w->attention - 1);
    if (w->fused_norm)
        s.fused_norm = w->fused_norm == 2;
    *out = s;
    return SN_OK;
}

int64_t sn_memory_limit(const struct sn_machine *m, const struct sn_config *c)
{
    return (int64_t)((double)m->device.memory * c->machine.memory_fraction);
}

int64_t sn_machine_ranks(const struct sn_machine *m, const struct sn_config *c)
{
    return (int64_t)c->machine.nodes * m->devices;
}
