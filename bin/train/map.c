#include "bin/train/map.h"

#include "bin/map_flow.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/text_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Under mpirun, or alone, a scheduler's variables are of whoever started that: what is odd in them
 * is no mistake of this job. */
static enum sn_status read_allocation(struct sn_train_map *m, struct sn_err *err)
{
    enum sn_status st = sn_allocation_read(&m->allocation, &m->environment, err);
    bool by_srun = sn_comm_launched_ranks() > 1 &&
                   !sn_environment_get(&m->environment, "OMPI_COMM_WORLD_SIZE");
    return st == SN_EINPUT && !by_srun ? SN_OK : st;
}

void sn_train_map_open(struct sn_train_map *m)
{
    *m = (struct sn_train_map){.json = {0}};
    enum sn_status st = sn_environment_own(&m->environment, &m->trouble);
    if (st == SN_OK)
        st = read_allocation(m, &m->trouble);
    if (st == SN_OK)
        st = sn_locality_open(&m->locality, &m->trouble);
    m->trouble.status = st;
}

void sn_train_map_switches(const struct sn_train_map *m, char path[SN_TOPOLOGY_PATH])
{
    const struct sn_allocation *a = &m->allocation;
    struct sn_err odd; /* which process 0 has been told when it made the map */
    if (sn_topology_path(path, a->topology, a->topology_pattern, &odd) != SN_OK)
        path[0] = '\0';
}

void sn_train_map_close(struct sn_train_map *m)
{
    sn_locality_close(m->locality);
    sn_allocation_fini(&m->allocation);
    sn_environment_fini(&m->environment);
    sn_str_fini(&m->json);
}

/* A line each. */
static void warn(struct sn_str *warnings)
{
    for (char *line = warnings->p; line && *line;) {
        size_t len = strcspn(line, "\n");
        sn_log(SN_LOG_WARN, "%.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static void report_all(const struct sn_map *map, double seconds)
{
    const struct sn_tree *t = &map->places->tree;
    const struct sn_arrangement *a = map->arrangement;
    char before[16], after[16];
    if (t->levels == 0)
        return;
    if (a->is_identity)
        sn_log(SN_LOG_INFO,
               "map: %d processes on %d nodes, in the launcher's order; %s a step over %s (%.2f s)",
               map->places->n, map->places->nodes, sn_str_bytes(before, a->in_order[t->levels]),
               t->name[t->levels], seconds);
    else
        sn_log(SN_LOG_INFO,
               "map: %d processes on %d nodes, arranged; %s a step over %s instead of %s (%.2f s)",
               map->places->n, map->places->nodes, sn_str_bytes(after, a->arranged[t->levels]),
               t->name[t->levels], sn_str_bytes(before, a->in_order[t->levels]), seconds);
}

/* On the process that has all places. */
static enum sn_status decide(struct sn_train_map *m, int *process_of, struct sn_places *p,
                             const struct sn_config *c, struct sn_err *err)
{
    struct sn_str warnings = {0};
    struct sn_arrangement arrangement;
    struct sn_grid grid;
    double began = sn_clock();
    enum sn_status st = sn_places_check(p, c->run.threads, &warnings, err);
    warn(&warnings);
    sn_str_fini(&warnings);
    SN_TRY(st);
    SN_TRY(sn_map_arrange(process_of, &arrangement, &grid, c, p, err));
    struct sn_map map = {
        .places = p, .grid = &grid, .process_of = process_of, .arrangement = &arrangement};
    sn_map_json(&m->json, &map);
    if (m->json.failed)
        return sn_fail(err, SN_ENOMEM, "map: no memory for map.json");
    report_all(&map, sn_clock() - began);
    return SN_OK;
}

/* What process 0 decides is everybody's. */
static enum sn_status share(struct sn_train_map *m, struct sn_comm *comm, struct sn_places *p,
                            const struct sn_config *c, const char *places, struct sn_err *err)
{
    int *process_of = sn_alloc_n((size_t)comm->size, sizeof(*process_of));
    enum sn_status st = SN_OK;
    if (!process_of)
        st = sn_fail(err, SN_ENOMEM, "map: no memory for %d ranks", comm->size);
    else if (places && comm->rank == 0)
        st = sn_places_load(p, places, err);
    if (st == SN_OK && comm->rank == 0)
        st = decide(m, process_of, p, c, err);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, process_of, comm->size * (int64_t)sizeof(*process_of), 0,
                                  err);
    if (st == SN_OK)
        st = comm->ops->renumber(comm, process_of, err);
    sn_free(process_of);
    return st;
}

static enum sn_status report(struct sn_place *mine, struct sn_places *p,
                             const struct sn_train_map *m, const struct sn_comm *comm,
                             struct sn_err *err)
{
    if (m->trouble.status != SN_OK) {
        *err = m->trouble;
        return m->trouble.status;
    }
    struct sn_place_self self = {.allocation = &m->allocation,
                                 .locality = m->locality,
                                 .environment = &m->environment,
                                 .process = comm->rank,
                                 .local = comm->node_rank,
                                 .shares = comm->node_size};
    SN_TRY(sn_place_report(mine, &self, err));
    p->n = comm->size;
    if (comm->rank == 0 && !(p->v = sn_alloc_n((size_t)p->n, sizeof(*p->v))))
        return sn_fail(err, SN_ENOMEM, "map: no memory for the places of %d processes", p->n);
    return SN_OK;
}

/* Seconds that all may wait for the slowest: who only has to answer, and process 0, which may have
 * to compile the programs of all stages first. */
enum { ANSWER = 10, DECIDE = 60 };

static void set_patience(struct sn_comm *comm, const struct sn_config *c, int most)
{
    sn_comm_set_watch(comm, NULL, c->run.hang_timeout < most ? c->run.hang_timeout : most);
}

enum sn_status sn_train_map_handshake(struct sn_comm *comm, const struct sn_config *c,
                                      struct sn_err *err)
{
    set_patience(comm, c, ANSWER);
    enum sn_status st = sn_comm_handshake(comm, err);
    set_patience(comm, c, c->run.hang_timeout);
    return st;
}

enum sn_status sn_train_map_make(struct sn_train_map *m, struct sn_comm *comm,
                                 const struct sn_config *c, const char *places, enum sn_status st,
                                 struct sn_err *err)
{
    struct sn_place mine;
    struct sn_places p = {.n = 0};
    if (st == SN_OK)
        st = report(&mine, &p, m, comm, err);
    set_patience(comm, c, ANSWER);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = comm->ops->gather(comm, &mine, sizeof(mine), p.v, 0, err);
    set_patience(comm, c, DECIDE);
    if (st == SN_OK)
        st = share(m, comm, &p, c, places, err);
    sn_places_fini(&p);
    return st;
}

enum sn_status sn_train_map_save(const struct sn_train_map *m, const struct sn_config *c,
                                 struct sn_err *err)
{
    char path[SN_PATH_MAX + 16];
    if (!m->json.p)
        return SN_OK;
    (void)snprintf(path, sizeof(path), "%s/map.json", c->run.output);
    return sn_text_keep(&m->json, path, err);
}
