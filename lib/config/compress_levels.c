/*
 * compress_levels.c - codings of two codecs, inside nodes and between them, and
 * layout.compress.node.
 */
#include "lib/config/settings.h"

#include "kernels/codec.h"

#include <stdio.h>
#include <string.h>

bool sn_coding_split(const char *text, char first[SN_NAME_MAX], char second[SN_NAME_MAX])
{
    static const char diff[] = "-diff";
    const char *slash = strchr(text, '/');
    (void)snprintf(first, SN_NAME_MAX, "%s", text);
    second[0] = '\0';
    if (!slash)
        return false;
    size_t n = strlen(slash + 1), tail = sizeof(diff) - 1;
    bool differs = n > tail && strcmp(slash + 1 + n - tail, diff) == 0;
    (void)snprintf(second, SN_NAME_MAX, "%.*s", (int)(differs ? n - tail : n), slash + 1);
    (void)snprintf(first, SN_NAME_MAX, "%.*s%s", (int)(slash - text), text, differs ? diff : "");
    return true;
}

/* --- which codec ------------------------------------------------------------------------------ */

static int milder_ones(const struct sn_codec *from, struct sn_codec out[SN_CODEC_LEVELS])
{
    int n = 1;
    out[0] = *from;
    while (n < SN_CODEC_LEVELS && sn_codec_milder(&out[n], &out[n - 1]))
        n++;
    return n;
}

/* Levels rise together: the shorter list stays with its last. */
int sn_coding_levels_at(const struct sn_config *c, enum sn_coded of, bool between,
                        struct sn_codec out[SN_CODEC_LEVELS])
{
    const struct sn_coding *z = &c->layout.compress.coding[of];
    struct sn_codec other[SN_CODEC_LEVELS];
    int n = milder_ones(between ? &z->between : &z->codec, out);
    int m = milder_ones(between ? &z->codec : &z->between, other);
    for (; n < m; n++)
        out[n] = out[n - 1];
    return c->layout.compress.guard > 0 ? n : 1;
}

int sn_coding_levels(const struct sn_config *c, enum sn_coded of,
                     struct sn_codec out[SN_CODEC_LEVELS])
{
    bool replicas = of == SN_CODED_DATA || of == SN_CODED_ZERO;
    return sn_coding_levels_at(c, of, replicas && sn_config_replica_node(c) == 1, out);
}

/* --- how many levels -------------------------------------------------------------------------- */

bool sn_replica_node_fits(const struct sn_layout_config *l, int node)
{
    int replicas = l->data * l->context;
    return replicas % node == 0 && (l->context % node == 0 || node % l->context == 0);
}

int sn_config_replica_node(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    int replicas = l->data * l->context, node = l->compress.node;
    if (node == 0 || node >= replicas)
        return replicas;
    return sn_replica_node_fits(l, node) ? node : 1; /* a searched layout: else refused */
}

int sn_config_zero_node(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    bool divides = l->zero > 0 && l->zero_node > 0 && l->zero_node < l->data * l->context;
    return divides && sn_replica_node_fits(l, l->zero_node) ? l->zero_node : 0;
}

enum sn_status sn_rule_zero_node(const struct sn_config *c, const struct sn_settings *s,
                                 struct sn_err *err)
{
    const struct sn_layout_config *l = &c->layout;
    const struct sn_coding *z = l->compress.coding;
    if (l->zero_node == 0)
        return SN_OK;
    if (l->zero == 0)
        return sn_settings_fail(
            s, "layout.zero_node", err,
            "%d, but nothing is divided; set layout.zero: 1, 2 or 3, or leave it "
            "out",
            l->zero_node);
    if (l->data > 0 && l->zero_node < l->data * l->context &&
        !sn_replica_node_fits(l, l->zero_node))
        return sn_settings_fail(
            s, "layout.zero_node", err,
            "%d of %d replicas (data x context) are no whole groups of them; use "
            "a divisor that is a multiple or a divisor of layout.context",
            l->zero_node, l->data * l->context);
    if (z[SN_CODED_DATA].on || z[SN_CODED_ZERO].on)
        return sn_settings_fail(
            s, "layout.zero_node", err,
            "%d with layout.compress.%s is not built yet; leave one of them out", l->zero_node,
            z[SN_CODED_DATA].on ? "data" : "zero");
    return SN_OK;
}

enum sn_status sn_rule_replica_node(const struct sn_config *c, const struct sn_settings *s,
                                    struct sn_err *err)
{
    const struct sn_compress_config *z = &c->layout.compress;
    const struct sn_coding *data = &z->coding[SN_CODED_DATA], *zero = &z->coding[SN_CODED_ZERO];
    if (z->node > 0 && !data->on && !zero->on)
        return sn_settings_fail(s, "layout.compress.node", err,
                                "%d, but gradients and weights are not compressed; set "
                                "layout.compress.data or zero, or leave it out",
                                z->node);
    if (c->model.experts.count == 0)
        return SN_OK;
    if (data->two || zero->two)
        return sn_settings_fail(
            s, data->two ? "layout.compress.data" : "layout.compress.zero", err,
            "two codecs, inside nodes and between them, of a model with experts "
            "are not built yet; use one");
    if (z->node > 1)
        return sn_settings_fail(s, "layout.compress.node", err,
                                "%d with a model with experts is not built yet; use 1 or auto",
                                z->node);
    return SN_OK;
}
