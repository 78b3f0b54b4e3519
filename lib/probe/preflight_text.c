/*
 * preflight_text.c - a preflight as a table and as JSON.
 */
#include "lib/base/jsonl.h"
#include "lib/base/text_file.h"
#include "lib/probe/preflight.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 64 };

static double best_link(const struct sn_preflight_rank *r)
{
    double best = 0;
    for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++)
        best = fmax(best, r->link[k]);
    return best;
}

/* The most of all kinds. */
static double waited(const struct sn_preflight_rank *r)
{
    double most = 0;
    for (int k = 0; k < SN_FLIGHT_KINDS; k++)
        most = fmax(most, r->waited[k]);
    return most;
}

/* The first failing rank of its node, which speaks for it; NULL: the node passes. */
static const struct sn_preflight_rank *failing(const struct sn_preflight *p, int64_t node)
{
    for (int i = 0; i < p->n; i++)
        if (p->rank[i].node == node && !p->rank[i].pass)
            return &p->rank[i];
    return NULL;
}

static void add_rate(struct sn_str *out, double v, double scale)
{
    if (v > 0)
        sn_str_add(out, " %11.2f", v * scale);
    else
        sn_str_add(out, " %11s", "-");
}

static void add_line(struct sn_str *out, const struct sn_preflight_rank *r)
{
    sn_str_add(out, "%6d  %-16s", (int)r->rank, r->host);
    add_rate(out, r->gemm, 1e-9);
    add_rate(out, r->memory, 1e-9);
    add_rate(out, best_link(r), 1e-9);
    add_rate(out, r->storage_write, 1e-6);
    add_rate(out, r->storage_read, 1e-6);
    sn_str_add(out, " %8.0f  %s\n", 100 * waited(r), r->pass ? "pass" : r->why);
}

void sn_preflight_text(struct sn_str *out, const struct sn_preflight *p)
{
    int failed = 0, nodes = 0;
    sn_str_add(out, "%6s  %-16s %11s %11s %11s %11s %11s %8s\n", "rank", "host", "GFLOP/s",
               "memory GB/s", "link GB/s", "write MB/s", "read MB/s", "waited %");
    for (int i = 0; i < p->n; i++) {
        if (p->n <= SHOWN || !p->rank[i].pass)
            add_line(out, &p->rank[i]);
        failed += !p->rank[i].pass;
        nodes += p->rank[i].local == 0;
    }
    sn_str_add(out, "preflight: %d of %d ranks on %d nodes pass, %.1f s\n", p->n - failed, p->n,
               nodes, p->seconds);
}

static void add_hosts(struct sn_str *out, const struct sn_preflight *p)
{
    struct sn_str list = {0};
    sn_str_add(&list, "[");
    for (int i = 0; i < p->n; i++) {
        if (p->rank[i].local != 0)
            continue;
        const struct sn_preflight_rank *bad = failing(p, p->rank[i].node);
        sn_str_add(&list, "%s{\"host\": ", list.len > 1 ? ", " : "");
        sn_str_add_json(&list, p->rank[i].host);
        sn_str_add(&list, ", \"pass\": %s, \"why\": ", bad ? "false" : "true");
        sn_str_add_json(&list, bad ? bad->why : "");
        sn_str_add(&list, "}");
    }
    sn_str_add(&list, "]");
    out->failed = out->failed || list.failed;
    if (!list.failed)
        sn_jsonl_raw(out, "hosts", list.p);
    sn_str_fini(&list);
}

static void add_positive(struct sn_str *out, const char *name, double v)
{
    sn_jsonl_real(out, name, v > 0 ? v : NAN);
}

static void add_rank(struct sn_str *list, const struct sn_preflight_rank *r)
{
    struct sn_str o = {0};
    sn_jsonl_int(&o, "rank", r->rank);
    sn_jsonl_text(&o, "host", r->host);
    add_positive(&o, "gemm_flops", r->gemm);
    add_positive(&o, "memory_bandwidth", r->memory);
    add_positive(&o, "link_bandwidth", best_link(r));
    add_positive(&o, "storage_write", r->storage_write);
    add_positive(&o, "storage_read", r->storage_read);
    sn_jsonl_real(&o, "waited", waited(r));
    sn_jsonl_bool(&o, "pass", r->pass);
    sn_jsonl_text(&o, "why", r->why);
    list->failed = list->failed || o.failed;
    if (!o.failed)
        sn_str_add(list, "%s%s}", list->len > 1 ? ", " : "", o.p);
    sn_str_fini(&o);
}

void sn_preflight_json(struct sn_str *out, const struct sn_preflight *p)
{
    struct sn_str list = {0};
    sn_jsonl_bool(out, "pass", p->pass);
    sn_jsonl_real(out, "seconds", p->seconds);
    add_hosts(out, p);
    sn_str_add(&list, "[");
    for (int i = 0; i < p->n; i++)
        add_rank(&list, &p->rank[i]);
    sn_str_add(&list, "]");
    out->failed = out->failed || list.failed;
    if (!list.failed)
        sn_jsonl_raw(out, "ranks", list.p);
    sn_str_fini(&list);
    sn_str_add(out, "}\n");
}

enum sn_status sn_preflight_save(const struct sn_preflight *p, const char *output, int rank,
                                 struct sn_err *err)
{
    char path[4200];
    struct sn_str text = {0};
    (void)snprintf(path, sizeof(path), "%s/preflight.json", output); /* cut short: fails */
    sn_preflight_json(&text, p);
    enum sn_status st = sn_text_keep_by(&text, path, rank, err);
    sn_str_fini(&text);
    return st;
}
