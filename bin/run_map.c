/*
 * run_map.c - sennit-run map: which rank is where, from this job's environment or a recorded one.
 *
 * Outside of the job's processes nobody knows where each will be: the table is predicted from the
 * distribution that was asked for, and says so. sennit-train asks the processes themselves.
 */
#include "bin/common.h"
#include "bin/map_flow.h"
#include "bin/run_verbs.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/search/resolve.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: sennit-run map RUN.yaml [--env FILE] [--topology FILE] [--ranks N] [--json]\n"
    "\n"
    "Prints the rank -> node, GPU, processors, network device and switch table, and the bytes of "
    "a\n"
    "step that pass at each level, in the launcher's order and as sennit-train arranges them. "
    "From\n"
    "outside of the processes it is a prediction by Slurm's distribution; OUTPUT/map.json is what "
    "was.\n"
    "  --env FILE       a recorded environment (output of env in the job) instead of this one\n"
    "  --topology FILE  topology.conf, or an address such as core.s0.n3 a line\n"
    "  --ranks N        processes; default: those of the job, or of the layout\n"
    "  --json           one JSON object\n"
    "  --help\n";

struct line {
    const char *run_file, *environment, *topology;
    long long ranks; /* 0: by the job or the layout */
    bool json, help;
};

/* What is known, and what is made of it. */
struct view {
    struct sn_environment environment;
    struct sn_allocation allocation;
    struct sn_topology *topology;
    struct sn_locality *locality; /* of this host; NULL with a recorded environment */
    struct sn_config config;
    struct sn_places places;
    char predicted[160];
};

static enum sn_status parse_line(struct line *l, int argc, char **argv, struct sn_err *err)
{
    enum { ENVIRONMENT = 256, TOPOLOGY, RANKS, JSON, HELP };
    static const struct option options[] = {{"env", required_argument, NULL, ENVIRONMENT},
                                            {"topology", required_argument, NULL, TOPOLOGY},
                                            {"ranks", required_argument, NULL, RANKS},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    *l = (struct line){.json = false};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == ENVIRONMENT)
            l->environment = optarg;
        else if (code == TOPOLOGY)
            l->topology = optarg;
        else if (code == RANKS)
            SN_TRY(sn_parse_number("--ranks", optarg, 1, 1 << 20, &l->ranks, err));
        else if (code == JSON)
            l->json = true;
        else if (code == HELP)
            l->help = true;
        else
            return sn_refuse_option("sennit-run map", code, argv, err);
    }
    if (l->help)
        return SN_OK;
    return sn_parse_operand(&l->run_file, "sennit-run map", "run file", argc, argv, err);
}

/* ---- how many, and where --------------------------------------------------------------------- */

static int sum(const int *count, int n)
{
    int total = 0;
    for (int i = 0; i < n && count; i++)
        total += count[i];
    return total;
}

static int ranks_of(const struct line *l, const struct view *v)
{
    const struct sn_allocation *a = &v->allocation;
    int model = sn_config_copy_ranks(&v->config.layout);
    if (l->ranks > 0)
        return (int)l->ranks;
    if (a->ntasks > 0)
        return a->ntasks;
    if (a->tasks)
        return sum(a->tasks, a->host.n);
    if (!v->config.layout_auto && v->config.layout.data > 0)
        return model * v->config.layout.data;
    return a->host.n > 0 && a->gpus_per_node > 0 ? a->host.n * a->gpus_per_node : 1;
}

/* Processes of each host: those of the list where it is for as many, else evenly, the first ones
 * with one more. */
static void share_out(int *count, const struct sn_allocation *a, int hosts, int ranks)
{
    bool listed = a->tasks && sum(a->tasks, hosts) == ranks;
    for (int i = 0; i < hosts; i++)
        count[i] = listed ? a->tasks[i] : ranks / hosts + (i < ranks % hosts);
}

/* How many processes of a host follow one another before the next host has its turn. */
static int turn_of(struct view *v, int hosts, int ranks)
{
    const char *asked = sn_environment_get(&v->environment, "SLURM_DISTRIBUTION");
    int plane = 0;
    char what[48] = "block";
    if (asked && sscanf(asked, "plane=%5d", &plane) == 1 && plane > 0)
        (void)snprintf(what, sizeof(what), "plane of %d", plane);
    else if (asked && strncmp(asked, "cyclic", 6) == 0) {
        plane = 1;
        (void)snprintf(what, sizeof(what), "cyclic");
    }
    (void)snprintf(v->predicted, sizeof(v->predicted),
                   "%s distribution of %d processes over %d nodes; sennit-train asks the processes",
                   what, ranks, hosts);
    return plane > 0 ? plane : ranks;
}

/* Process numbers to hosts, in turns. */
static void assign(int *host_of, int *count, int hosts, int turn)
{
    for (int p = 0, more = 1; more;) {
        more = 0;
        for (int h = 0; h < hosts; h++) {
            for (int i = 0; i < turn && count[h] > 0; i++, count[h]--)
                host_of[p++] = h;
            more += count[h] > 0;
        }
    }
}

/* ---- one place ------------------------------------------------------------------------------- */

/* The switches above a host: of the file, else of the environment for its own node. */
static enum sn_status find_path(struct sn_place *p, const struct view *v, struct sn_err *err)
{
    const struct sn_allocation *a = &v->allocation;
    const char *own = sn_environment_get(&v->environment, "SLURMD_NODENAME");
    if (v->topology) {
        const char *path = sn_topology_find(v->topology, p->host);
        if (!path)
            return sn_fail(err, SN_EINPUT, "--topology: host %s is not in it", p->host);
        (void)snprintf(p->path, sizeof(p->path), "%s", path);
    } else if (a->host.n == 1 && own && strcmp(own, p->host) == 0) {
        return sn_topology_path(p->path, a->topology, a->topology_pattern, err);
    }
    return SN_OK;
}

/* Slurm numbers the GPUs of a node from 0. */
static void number_gpus(struct sn_local *l, int gpus)
{
    for (int g = 0; g < gpus && g < SN_LOCAL_GPUS; g++) {
        l->gpu[g] = (struct sn_local_gpu){.numa = -1, .near_cpus = -1};
        (void)snprintf(l->gpu[g].id, sizeof(l->gpu[g].id), "%d", g);
        l->n_gpus = g + 1;
    }
}

static enum sn_status put(struct view *v, int process, const char *host, struct sn_err *err)
{
    struct sn_place *p = &v->places.v[process];
    char own[SN_PLACE_HOST] = "";
    *p = (struct sn_place){.process = process, .node = -1, .local = -1, .here.numa = -1};
    if (strlen(host) >= sizeof(p->host))
        return sn_fail(err, SN_EINPUT, "map: the name of host %.40s... is longer than %d", host,
                       SN_PLACE_HOST - 1);
    (void)snprintf(p->host, sizeof(p->host), "%s", host);
    (void)gethostname(own, sizeof(own) - 1); /* without a name it is no host of the list */
    if (v->locality && strcmp(own, host) == 0)
        sn_locality_describe(&p->here, v->locality, &v->environment);
    else
        number_gpus(&p->here, v->allocation.gpus_per_node);
    return find_path(p, v, err);
}

static enum sn_status predict(struct view *v, int ranks, struct sn_err *err)
{
    const struct sn_allocation *a = &v->allocation;
    char own[SN_PLACE_HOST] = "localhost";
    int hosts = a->host.n > 0 ? a->host.n : 1;
    if (a->host.n == 0)
        (void)gethostname(own, sizeof(own) - 1); /* it is called localhost then */
    int *count = sn_alloc_n((size_t)hosts + (size_t)ranks, sizeof(*count));
    v->places =
        (struct sn_places){.v = sn_alloc_n((size_t)ranks, sizeof(*v->places.v)), .n = ranks};
    enum sn_status st = SN_OK;
    if (!count || !v->places.v)
        st = sn_fail(err, SN_ENOMEM, "map: no memory for %d processes", ranks);
    else if (ranks < hosts)
        st = sn_fail(err, SN_EINPUT, "map: %d processes for %d nodes; want at least one on each",
                     ranks, hosts);
    else {
        share_out(count, a, hosts, ranks);
        assign(count + hosts, count, hosts, turn_of(v, hosts, ranks));
    }
    for (int i = 0; st == SN_OK && i < ranks; i++)
        st = put(v, i, a->host.n > 0 ? sn_hostlist_name(&a->host, count[hosts + i]) : own, err);
    sn_free(count);
    return st;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum sn_status look(struct view *v, const struct line *l, struct sn_err *err)
{
    SN_TRY(l->environment ? sn_environment_load(&v->environment, l->environment, err)
                          : sn_environment_own(&v->environment, err));
    SN_TRY(sn_allocation_read(&v->allocation, &v->environment, err));
    if (l->topology)
        SN_TRY(sn_topology_load(&v->topology, l->topology, err));
    if (!l->environment)
        SN_TRY(sn_locality_open(&v->locality, err));
    SN_TRY(sn_config_load(&v->config, l->run_file, NULL, err));
    int ranks = ranks_of(l, v);
    SN_TRY(sn_resolve_auto(&v->config, ranks, NULL, err));
    SN_TRY(sn_resolve_layout(&v->config, ranks, err));
    return predict(v, ranks, err);
}

static void print_text(const struct sn_map *map, const struct view *v)
{
    struct sn_str out = {0};
    sn_str_add(&out, "predicted: %s\n\n", v->predicted);
    sn_map_table(&out, map);
    sn_str_add(&out, "\n");
    sn_map_levels(&out, map);
    (void)fputs(out.p ? out.p : "", stdout);
    sn_str_fini(&out);
}

static enum sn_status print(const struct sn_map *map, const struct view *v, bool json,
                            struct sn_err *err)
{
    struct sn_str out = {0};
    if (!json) {
        print_text(map, v);
        return SN_OK;
    }
    sn_map_json(&out, map);
    bool failed = out.failed;
    if (!failed)
        (void)fputs(out.p, stdout);
    sn_str_fini(&out);
    return failed ? sn_fail(err, SN_ENOMEM, "map: no memory for the table") : SN_OK;
}

static enum sn_status show(struct view *v, const struct line *l, struct sn_err *err)
{
    struct sn_str warnings = {0};
    struct sn_arrangement arrangement;
    struct sn_grid grid;
    enum sn_status st = sn_places_check(&v->places, v->config.run.threads, &warnings, err);
    if (warnings.p)
        (void)fputs(warnings.p, stderr);
    sn_str_fini(&warnings);
    SN_TRY(st);
    int *process_of = sn_alloc_n((size_t)v->places.n, sizeof(*process_of));
    if (!process_of)
        return sn_fail(err, SN_ENOMEM, "map: no memory for %d ranks", v->places.n);
    st = sn_map_arrange(process_of, &arrangement, &grid, &v->config, &v->places, err);
    struct sn_map map = {.places = &v->places,
                         .grid = &grid,
                         .process_of = process_of,
                         .arrangement = &arrangement,
                         .predicted = v->predicted};
    if (st == SN_OK)
        st = print(&map, v, l->json, err);
    sn_free(process_of);
    return st;
}

int sn_run_map(int argc, char **argv)
{
    struct sn_err err = {0};
    struct line l;
    struct view v = {.topology = NULL};
    enum sn_status st = parse_line(&l, argc, argv, &err);
    if (st == SN_OK && l.help) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (st == SN_OK)
        st = look(&v, &l, &err);
    if (st == SN_OK)
        st = show(&v, &l, &err);
    if (st == SN_OK && v.places.nodes > 1 && strcmp(v.places.tree.name[1], "network") == 0)
        sn_log(SN_LOG_WARN, "map: no switches are known; --topology FILE names them");
    sn_places_fini(&v.places);
    sn_locality_close(v.locality);
    sn_topology_destroy(v.topology);
    sn_allocation_fini(&v.allocation);
    sn_environment_fini(&v.environment);
    return st == SN_OK ? 0 : sn_report(&err);
}
