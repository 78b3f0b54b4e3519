/*
 * test_place.c - reports of processes that make a job, and those that do not; who takes which GPU.
 */
#include "lib/base/mem.h"
#include "slurm/topology/place.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

/* Two nodes of four processes, each with its share of four GPUs and two NUMA nodes. */
static void make(struct sn_places *p, int n, int per_node)
{
    *p = (struct sn_places){.v = sn_alloc_n((size_t)n, sizeof(*p->v)), .n = n};
    for (int i = 0; i < n; i++) {
        struct sn_place *x = &p->v[i];
        *x = (struct sn_place){.process = i,
                               .node = i / per_node,
                               .local = i % per_node,
                               .launched = n,
                               .shares = per_node};
        (void)snprintf(x->host, sizeof(x->host), "n%d", i / per_node);
        (void)snprintf(x->path, sizeof(x->path), "core.s%d", i / per_node % 2);
        (void)snprintf(x->here.cpus, sizeof(x->here.cpus), "%d", i % per_node);
        x->here.n_cpus = 1;
        x->here.numa = i % per_node * 2 / per_node;
    }
}

static void show_gpus(struct sn_places *p, int process, int n, int first_numa)
{
    struct sn_local *l = &p->v[process].here;
    l->n_gpus = n;
    for (int g = 0; g < n; g++) {
        l->gpu[g] = (struct sn_local_gpu){
            .is_certain = 1, .numa = g < n / 2 ? first_numa : 1 - first_numa, .near_cpus = 1};
        (void)snprintf(l->gpu[g].id, SN_LOCAL_NAME, "0000:%02x:00.0", g);
    }
}

static bool check(struct sn_places *p, struct sn_str *w, struct sn_err *err)
{
    *err = (struct sn_err){0};
    return sn_places_check(p, 1, w, err) == SN_OK;
}

static void a_good_job(void)
{
    struct sn_places p;
    struct sn_str w = {0};
    struct sn_err err;
    make(&p, 8, 4);
    bool good = check(&p, &w, &err);
    tap_ok(good && p.nodes == 2 && p.per_node == 4, "2 nodes of 4 %s", err.text);
    tap_ok(!w.p && p.gpu[3] == -1, "nothing odd, no GPU");
    tap_ok(p.tree.levels == 2 && p.tree.domains[0] == 2 && p.tree.domains[1] == 2 &&
               !strcmp(p.tree.name[2], "spine"),
           "nodes, leaves, spine");
    sn_places_fini(&p);
}

static void trees(void)
{
    static const struct {
        const char *path[4];
        int levels;
        const char *last;
    } row[] = {
        {{"", "", "", ""}, 1, "network"},
        {{"core.s0", "core.s0", "core.s0", "core.s0"}, 1, "leaf"},
        {{"core.s0", "core.s1", "core.s0", "core.s1"}, 2, "spine"},
        {{"c.r0.s0", "c.r0.s1", "c.r1.s2", "c.r1.s3"}, 3, "spine"},
        {{"c.r0.s0", "c.r0.s1", "c.s2", "c.s2"}, 3, "spine"},
        {{"b0", "b0", "b1", "b1"}, 2, "spine"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_places p;
        struct sn_str w = {0};
        struct sn_err err;
        make(&p, 8, 2);
        for (int k = 0; k < 8; k++)
            (void)snprintf(p.v[k].path, sizeof(p.v[k].path), "%s", row[i].path[k / 2]);
        bool good = check(&p, &w, &err);
        tap_ok(good && p.tree.levels == row[i].levels &&
                   !strcmp(p.tree.name[p.tree.levels], row[i].last),
               "%s %s %s %s: %d borders, the last at the %s", row[i].path[0], row[i].path[1],
               row[i].path[2], row[i].path[3], p.tree.levels, p.tree.name[p.tree.levels]);
        sn_places_fini(&p);
    }
}

/* GPU 0 and 1 are near NUMA node 1: the processes of node 0 take 2 and 3. */
static void gpus_by_nearness(void)
{
    struct sn_places p;
    struct sn_str w = {0};
    struct sn_err err;
    make(&p, 8, 4);
    for (int i = 0; i < 8; i++)
        show_gpus(&p, i, 4, 1);
    bool good = check(&p, &w, &err), distinct = true, near = true;
    for (int i = 0; i < 8 && good; i++) {
        near = near && sn_places_gpu(&p, i)->numa == p.v[i].here.numa;
        for (int k = i / 4 * 4; k < i; k++)
            distinct = distinct && p.gpu[i] != p.gpu[k];
    }
    tap_ok(good && near && distinct, "each process takes a GPU of its own NUMA node");
    sn_places_fini(&p);
    make(&p, 8, 4);
    for (int i = 0; i < 8; i++)
        show_gpus(&p, i, 2, 0);
    good = check(&p, &w, &err);
    tap_ok(good && p.gpu[0] == 0 && p.gpu[1] == -1 && p.gpu[2] == 1 && p.gpu[3] == -1,
           "fewer GPUs than processes: the nearest get them");
    sn_places_fini(&p);
}

/* ---- what does not match --------------------------------------------------------------------- */

typedef void spoiler(struct sn_places *p);

static void from_two_steps(struct sn_places *p)
{
    p->v[5].launched = 16;
}
static void another_mpi(struct sn_places *p)
{
    p->v[3].process = 4;
}
static void one_name(struct sn_places *p)
{
    for (int i = 0; i < 8; i++)
        (void)snprintf(p->v[i].host, sizeof(p->v[i].host), "localhost");
}
static void one_name_unnumbered(struct sn_places *p)
{
    one_name(p);
    for (int i = 0; i < 8; i++) {
        p->v[i].node = p->v[i].local = -1;
        p->v[i].path[0] = '\0';
    }
}
static void one_number(struct sn_places *p)
{
    for (int i = 0; i < 8; i++)
        p->v[i].node = 0;
}
static void uneven(struct sn_places *p)
{
    (void)snprintf(p->v[3].host, sizeof(p->v[3].host), "n1");
    p->v[3].node = 1;
    (void)snprintf(p->v[3].path, sizeof(p->v[3].path), "core.s1");
}
static void one_seat(struct sn_places *p)
{
    p->v[6].local = 1;
}
static void two_switches(struct sn_places *p)
{
    (void)snprintf(p->v[6].path, sizeof(p->v[6].path), "core.s0");
}
static void one_gpu(struct sn_places *p)
{
    for (int i = 0; i < 8; i++)
        show_gpus(p, i, 1, 0);
}

static void mismatches_are_named(void)
{
    static const struct {
        spoiler *spoil;
        const char *says;
    } row[] = {
        {from_two_steps, "process 5 (n1) says that 16 were launched"},
        {another_mpi, "is process 4 of the launcher"},
        {one_name, "both say host localhost, but nodes 0 and 1"},
        {one_name_unnumbered, "8 processes say host localhost, but MPI sees only 4"},
        {one_number, "node 0 is n0 for process 3 and n1 for process 4"},
        {uneven, "5 processes on n1, but 3 on n0"},
        {one_seat, "processes 5 and 6 are both number 1 on n1"},
        {two_switches, "say switches 'core.s1' and 'core.s0'"},
        {one_gpu, "processes 0 and 1 on n0 both see GPU 0000:00:00.0 alone"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_places p;
        struct sn_str w = {0};
        struct sn_err err;
        make(&p, 8, 4);
        row[i].spoil(&p);
        bool good = check(&p, &w, &err);
        tap_ok(!good && err.status == SN_EINPUT && strstr(err.text, row[i].says), "%s", err.text);
        sn_places_fini(&p);
        sn_str_fini(&w);
    }
}

static void oddities_are_warned_of(void)
{
    struct sn_places p;
    struct sn_str w = {0};
    struct sn_err err;
    make(&p, 8, 4);
    for (int i = 0; i < 8; i++)
        p.v[i].asked_cpus = 8;
    bool good = check(&p, &w, &err);
    tap_ok(good && w.p && strstr(w.p, "1 of the 8 asked for") && strstr(w.p, "and 7 more"), "%s",
           w.p ? w.p : "nothing");
    sn_str_fini(&w);
    sn_places_fini(&p);
    make(&p, 8, 4);
    good = sn_places_check(&p, 4, &w, &err) == SN_OK;
    tap_ok(good && w.p && strstr(w.p, "fewer than run.threads: 4"), "%s", w.p ? w.p : "nothing");
    sn_str_fini(&w);
    sn_places_fini(&p);
    make(&p, 8, 4);
    show_gpus(&p, 2, 1, 0);
    p.v[2].here.gpu[0].near_cpus = 0;
    good = check(&p, &w, &err);
    tap_ok(good && w.p && strstr(w.p, "none is near its GPU"), "%s", w.p ? w.p : "nothing");
    sn_str_fini(&w);
    sn_places_fini(&p);
}

/* ---- recorded places ------------------------------------------------------------------------- */

static enum sn_status load(struct sn_places *p, const char *text, struct sn_err *err)
{
    char path[] = "/tmp/places-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        return SN_EIO;
    enum sn_status st = sn_places_load(p, path, err);
    (void)unlink(path);
    return st;
}

static void recorded_places(void)
{
    static const char *const bad[][2] = {
        {"0 core.s0.n0\n", "no line for process 1 of 2"},
        {"0 n0\n0 n1\n", "process 0 has a line already"},
        {"2 n0\n", "want a process of 0..1"},
        {"0 n0 n1\n", "want a process of 0..1"},
        {"0 core.\n", "has no node"},
    };
    struct sn_places p;
    struct sn_str w = {0};
    struct sn_err err = {0};
    make(&p, 2, 2);
    bool good = load(&p, "# two\n1 core.s1.n7\n0 core.s0.n3 # first\n", &err) == SN_OK &&
                check(&p, &w, &err);
    tap_ok(good && p.nodes == 2 && !strcmp(p.v[1].host, "n7") && !strcmp(p.v[1].path, "core.s1") &&
               p.v[1].local == 0,
           "recorded places take the place of seen ones %s", err.text);
    sn_places_fini(&p);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make(&p, 2, 2);
        enum sn_status st = load(&p, bad[i][0], &err);
        tap_ok(st == SN_EINPUT && strstr(err.text, bad[i][1]), "refused: %s", bad[i][1]);
        sn_places_fini(&p);
    }
}

/* ---- a process of its own -------------------------------------------------------------------- */

static void report(void)
{
    static const char step[] =
        "SLURM_JOB_ID=1\nSLURM_JOB_NODELIST=n[0-1]\nSLURM_STEP_NODELIST=n[0-1]\n"
        "SLURM_STEP_NUM_NODES=2\nSLURM_STEP_NUM_TASKS=8\nSLURM_PROCID=5\nSLURM_NODEID=1\n"
        "SLURM_LOCALID=1\nSLURM_CPUS_PER_TASK=2\nSLURM_TOPOLOGY_ADDR=core.s1.n1\n"
        "SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node\nCUDA_VISIBLE_DEVICES=1\n";
    for (int under_mpirun = 0; under_mpirun < 2; under_mpirun++) {
        struct sn_environment e = {0};
        struct sn_allocation a = {0};
        struct sn_locality *l = NULL;
        struct sn_place p;
        struct sn_err err = {0};
        char text[1024];
        (void)snprintf(text, sizeof(text), "%s%s", step,
                       under_mpirun ? "OMPI_COMM_WORLD_SIZE=4\n" : "");
        bool good = sn_environment_parse(&e, text, strlen(text), "env", &err) == SN_OK &&
                    sn_allocation_read(&a, &e, &err) == SN_OK &&
                    sn_locality_open(&l, &err) == SN_OK;
        struct sn_place_self self = {&a, l, &e, 3, 2, 4};
        good = good && sn_place_report(&p, &self, &err) == SN_OK;
        tap_ok(good && p.process == (under_mpirun ? 3 : 5) && p.node == (under_mpirun ? -1 : 1) &&
                   p.local == (under_mpirun ? 2 : 1) && p.launched == (under_mpirun ? 0 : 8),
               "%s: process %d, node %d %s", under_mpirun ? "mpirun in a job" : "srun", p.process,
               p.node, err.text);
        tap_ok(good && !strcmp(p.path, "core.s1") && p.here.n_cpus > 0 && p.here.cpus[0],
               "switches %s, processors %s", p.path, p.here.cpus);
        sn_locality_close(l);
        sn_allocation_fini(&a);
        sn_environment_fini(&e);
    }
}

/* It is an optimisation: a job whose scheduler tells nonsense trains all the same. */
static void a_broken_address_is_an_unknown_one(void)
{
    struct sn_environment e = {0};
    struct sn_locality *l = NULL;
    struct sn_allocation a = {.topology = "n1", .topology_pattern = "switch.switch.node"};
    struct sn_place p;
    struct sn_err err = {0};
    struct sn_place_self self = {.allocation = &a, .environment = &e, .process = 1};
    bool good = sn_locality_open(&l, &err) == SN_OK;
    self.locality = l;
    good = good && sn_place_report(&p, &self, &err) == SN_OK;
    tap_ok(good && p.path[0] == '\0', "an address with too few fields: switches are unknown");
    sn_locality_close(l);
}

int main(void)
{
    a_good_job();
    trees();
    gpus_by_nearness();
    mismatches_are_named();
    oddities_are_warned_of();
    recorded_places();
    report();
    a_broken_address_is_an_unknown_one();
    return tap_done();
}
