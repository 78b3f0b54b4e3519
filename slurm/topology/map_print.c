/*
 * map_print.c - the map as JSON and as text.
 */
#include "slurm/topology/place.h"

#include <stdio.h>
#include <string.h>

static const char *nic_of(const struct sn_map *m, int process)
{
    const struct sn_local_gpu *g = sn_places_gpu(m->places, process);
    return g && g->nic[0] ? g->nic : m->places->v[process].here.nic;
}

static const char *gpu_of(const struct sn_map *m, int process)
{
    const struct sn_local_gpu *g = sn_places_gpu(m->places, process);
    return g ? g->id : "";
}

static void add_text(struct sn_str *out, const char *name, const char *text)
{
    sn_str_add(out, ", \"%s\": ", name);
    sn_str_add_json(out, text);
}

static void add_rank(struct sn_str *out, const struct sn_map *m, int rank)
{
    int process = m->process_of[rank];
    const struct sn_place *p = &m->places->v[process];
    sn_str_add(out, "{\"rank\": %d, \"process\": %d", rank, process);
    add_text(out, "host", p->host);
    sn_str_add(out, ", \"node\": %d, \"local\": %d", p->node, p->local);
    for (int i = 0; i < SN_NGRID_AXES; i++)
        sn_str_add(out, ", \"%s\": %d", sn_axis_name(sn_axis_told(i)),
                   sn_grid_coord(m->grid, rank, sn_axis_told(i)));
    add_text(out, "cpus", p->here.cpus);
    sn_str_add(out, ", \"numa\": %d", p->here.numa);
    add_text(out, "gpu", gpu_of(m, process));
    add_text(out, "nic", nic_of(m, process));
    add_text(out, "switch", p->path);
    sn_str_add(out, "}");
}

void sn_map_json(struct sn_str *out, const struct sn_map *m)
{
    const struct sn_tree *t = &m->places->tree;
    sn_str_add(out, "{\"placement\": \"%s\",\n",
               m->arrangement->is_identity ? "default" : "arranged");
    if (m->predicted) {
        sn_str_add(out, " \"predicted\": ");
        sn_str_add_json(out, m->predicted);
        sn_str_add(out, ",\n");
    }
    sn_str_add(out, " \"levels\": [");
    for (int i = 0; i <= t->levels && t->levels > 0; i++)
        sn_str_add(out, "%s{\"level\": \"%s\", \"bytes_in_order\": %lld, \"bytes_arranged\": %lld}",
                   i ? ", " : "", t->name[i], (long long)m->arrangement->in_order[i],
                   (long long)m->arrangement->arranged[i]);
    sn_str_add(out, "],\n \"ranks\": [\n");
    for (int r = 0; r < m->places->n; r++) {
        sn_str_add(out, "%s  ", r ? ",\n" : "");
        add_rank(out, m, r);
    }
    sn_str_add(out, "]}\n");
}

/* ---- the table ------------------------------------------------------------------------------- */

static const char *or_unknown(const char *text)
{
    return *text ? text : "-";
}

static int wider(int width, const char *text)
{
    int n = (int)strlen(text);
    return n > width ? n : width;
}

void sn_map_table(struct sn_str *out, const struct sn_map *m)
{
    int host = 4, cpus = 4, gpu = 3, nic = 3;
    for (int i = 0; i < m->places->n; i++) {
        host = wider(host, m->places->v[i].host);
        cpus = wider(cpus, m->places->v[i].here.cpus);
        gpu = wider(gpu, gpu_of(m, i));
        nic = wider(nic, nic_of(m, i));
    }
    sn_str_add(out, "rank  process ");
    for (int i = 0; i < SN_NGRID_AXES; i++)
        if (sn_axis_is_told(sn_axis_told(i), m->grid->size[sn_axis_told(i)]))
            sn_str_add(out, " %s", sn_axis_name(sn_axis_told(i)));
    sn_str_add(out, "  %-*s local  %-*s numa  %-*s %-*s switch\n", host, "host", cpus, "cpus", gpu,
               "gpu", nic, "nic");
    for (int r = 0; r < m->places->n; r++) {
        int q = m->process_of[r];
        const struct sn_place *p = &m->places->v[q];
        char numa[16] = "-";
        if (p->here.numa >= 0)
            (void)snprintf(numa, sizeof(numa), "%d", p->here.numa);
        sn_str_add(out, "%4d  %7d ", r, q);
        for (int i = 0; i < SN_NGRID_AXES; i++)
            if (sn_axis_is_told(sn_axis_told(i), m->grid->size[sn_axis_told(i)]))
                sn_str_add(out, " %*d", (int)strlen(sn_axis_name(sn_axis_told(i))),
                           sn_grid_coord(m->grid, r, sn_axis_told(i)));
        sn_str_add(out, "  %-*s %5d  %-*s %4s  %-*s %-*s %s\n", host, p->host, p->local, cpus,
                   or_unknown(p->here.cpus), numa, gpu, or_unknown(gpu_of(m, q)), nic,
                   or_unknown(nic_of(m, q)), or_unknown(p->path));
    }
}

void sn_map_levels(struct sn_str *out, const struct sn_map *m)
{
    const struct sn_tree *t = &m->places->tree;
    if (t->levels == 0)
        return;
    sn_str_add(out, "bytes of a step by where they pass    launcher's order         arranged\n");
    for (int i = 0; i <= t->levels; i++) {
        char before[16], after[16];
        sn_str_add(out, "  %-34s %17s %16s\n", t->name[i],
                   sn_str_bytes(before, m->arrangement->in_order[i]),
                   sn_str_bytes(after, m->arrangement->arranged[i]));
    }
}
