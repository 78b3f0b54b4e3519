#include "slurm/topology/place.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/config/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void cut_to(char *to, size_t room, const char *text, size_t len)
{
    (void)snprintf(to, room, "%.*s", (int)(len < room ? len : room - 1), text);
}

/* srun started this process itself; under mpirun the numbers of its daemon's task are inherited. */
static bool is_own_task(const struct sn_place_self *s)
{
    const struct sn_allocation *a = s->allocation;
    return a->scheduler == SN_SCHED_SLURM && a->in_step &&
           !sn_environment_get(s->environment, "OMPI_COMM_WORLD_SIZE");
}

enum sn_status sn_place_report(struct sn_place *out, const struct sn_place_self *s,
                               struct sn_err *err)
{
    const struct sn_allocation *a = s->allocation;
    bool task = is_own_task(s);
    struct sn_place p = {.process = task ? a->self.rank : s->process,
                         .node = task ? a->self.node : -1,
                         .local = task ? a->self.local : s->local,
                         .launched = task ? a->ntasks : 0,
                         .shares = s->shares,
                         .asked_cpus = task ? a->cpus_per_task : 0};
    char host[SN_PLACE_HOST] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || !host[0])
        return sn_fail(err, SN_EFAIL, "map: this host has no name; see hostname");
    cut_to(p.host, sizeof(p.host), host, strlen(host));
    if (sn_topology_path(p.path, a->topology, a->topology_pattern, err) != SN_OK && p.process == 0)
        sn_log(SN_LOG_WARN, "%s; the switches are unknown", err->text); /* a job runs without */
    sn_locality_describe(&p.here, s->locality, s->environment);
    *out = p;
    return SN_OK;
}

/* ---- recorded places ------------------------------------------------------------------------- */

static enum sn_status read_place(struct sn_places *p, bool *seen, char *line, const char *where,
                                 struct sn_err *err)
{
    char *end, *path = line + strcspn(line, " \t");
    long process = strtol(line, &end, 10);
    path += strspn(path, " \t");
    if (end == line || (*end && *end != ' ' && *end != '\t') || process < 0 || process >= p->n ||
        !*path || path[strcspn(path, " \t")])
        return sn_fail(err, SN_EINPUT,
                       "%s: '%.60s'; want a process of 0..%d and an address such as core.s0.n3",
                       where, line, p->n - 1);
    if (seen[process])
        return sn_fail(err, SN_EINPUT, "%s: process %ld has a line already", where, process);
    struct sn_place *to = &p->v[process];
    char *dot = strrchr(path, '.'), *node = dot ? dot + 1 : path;
    if (!*node || strlen(node) >= sizeof(to->host) || strlen(path) >= sizeof(to->path))
        return sn_fail(err, SN_EINPUT, "%s: '%.60s' has no node, or is too long", where, path);
    cut_to(to->host, sizeof(to->host), node, strlen(node));
    cut_to(to->path, sizeof(to->path), path, dot ? (size_t)(dot - path) : 0);
    to->node = -1;
    to->local = -1; /* by order on the node */
    to->shares = 0; /* not what MPI sees */
    seen[process] = true;
    return SN_OK;
}

static enum sn_status read_places(struct sn_places *p, bool *seen, char *text, const char *path,
                                  struct sn_err *err)
{
    char where[SN_PATH_MAX + 16];
    int number = 0;
    for (char *line = text; line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        (void)snprintf(where, sizeof(where), "%s:%d", path, ++number);
        line[strcspn(line, "#\r")] = '\0';
        line += strspn(line, " \t");
        for (size_t n = strlen(line); n > 0 && strchr(" \t", line[n - 1]); n--)
            line[n - 1] = '\0';
        if (*line)
            SN_TRY(read_place(p, seen, line, where, err));
        line = next;
    }
    for (int i = 0; i < p->n; i++)
        if (!seen[i])
            return sn_fail(err, SN_EINPUT, "%s: no line for process %d of %d", path, i, p->n);
    return SN_OK;
}

enum sn_status sn_places_load(struct sn_places *p, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    bool *seen = sn_alloc_n((size_t)p->n, sizeof(*seen));
    enum sn_status st = seen ? read_places(p, seen, text, path, err)
                             : sn_fail(err, SN_ENOMEM, "%s: no memory for %d places", path, p->n);
    sn_free(seen);
    sn_free(text);
    return st;
}

void sn_places_fini(struct sn_places *p)
{
    sn_free(p->v);
    sn_free(p->gpu);
    sn_free(p->domains);
    *p = (struct sn_places){.n = 0};
}

const struct sn_local_gpu *sn_places_gpu(const struct sn_places *p, int process)
{
    int i = p->gpu ? p->gpu[process] : -1;
    return i >= 0 ? &p->v[process].here.gpu[i] : NULL;
}
