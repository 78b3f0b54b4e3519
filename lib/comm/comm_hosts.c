/*
 * comm_hosts.c - which ranks share a host, what it is called, and memory that they map together.
 *
 * Each process tells process 0 where it is, which tells all who is the first of each host. All of
 * it goes by messages that are waited for with naps: what MPI has for the purpose
 * (MPI_Comm_split_type, MPI_Win_allocate_shared) polls until the last rank has come, and where
 * ranks share cores that keeps the last one from coming.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARED_FOLDER "/dev/shm" /* of shm_open */

enum { BOOT_ID = 40 };

/* Where a process is. Hosts of one name are told apart by the number that the kernel drew. */
struct sn_engine_place {
    char name[SN_HOST_NAME], boot[BOOT_ID];
    uint64_t shared; /* the device of SHARED_FOLDER: containers may have their own; 0: none */
    int32_t process;
};

/* What process 0 sends to all. */
struct sn_host_table {
    uint64_t nonce;          /* of the memory's name */
    char name[SN_HOST_NAME]; /* of the host of process 0 */
    int32_t first[];         /* by process: the first of its host, f; ~f: no memory in common */
};

static size_t host_table_bytes(const struct sn_engine *e)
{
    return sizeof(struct sn_host_table) + (size_t)e->base.size * sizeof(int32_t);
}

enum sn_status sn_hosts_prepare(struct sn_engine *e, struct sn_err *err)
{
    struct sn_engine_hosts *h = &e->hosts;
    size_t size = (size_t)e->base.size;
    bool is_first = e->port->process == 0;
    h->table = sn_alloc(host_table_bytes(e));
    h->place = sn_alloc_n(is_first ? size : 1, sizeof(*h->place));
    h->ranks = sn_alloc_n(size, sizeof(*h->ranks));
    h->process_of = sn_alloc_n(size, sizeof(*h->process_of));
    h->name = is_first ? sn_alloc_n(size, sizeof(*h->name)) : NULL;
    if (!h->table || !h->place || !h->ranks || !h->process_of || (is_first && !h->name))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the hosts of %zu ranks", e->ops.name,
                       size);
    return SN_OK;
}

static void read_place(struct sn_engine_place *p, int process)
{
    struct stat folder;
    *p = (struct sn_engine_place){.process = process};
    (void)gethostname(p->name, sizeof(p->name) - 1); /* a name cut short still helps */
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(p->boot, sizeof(p->boot), f))
        p->boot[0] = '\0'; /* the name alone tells hosts apart */
    if (f)
        (void)fclose(f); /* only read */
    if (stat(SHARED_FOLDER, &folder) == 0)
        p->shared = (uint64_t)folder.st_dev;
}

static int by_host(const void *x, const void *y)
{
    const struct sn_engine_place *a = x, *b = y;
    int order = strncmp(a->name, b->name, sizeof(a->name));
    if (order == 0)
        order = strncmp(a->boot, b->boot, sizeof(a->boot));
    return order ? order : (a->process > b->process) - (a->process < b->process);
}

/* On process 0: who is the first of each host. Sorts the places. */
static void decide(struct sn_host_table *table, struct sn_engine_place *p, int size)
{
    memcpy(table->name, p[0].name, sizeof(table->name)); /* process 0's own: not yet sorted */
    table->nonce = (uint64_t)getpid();
    (void)getentropy(&table->nonce, sizeof(table->nonce)); /* a number that nobody else has */
    qsort(p, (size_t)size, sizeof(*p), by_host);
    for (int from = 0, to; from < size; from = to) {
        bool shares = p[from].shared != 0;
        for (to = from; to < size && !strncmp(p[to].name, p[from].name, sizeof(p->name)) &&
                        !strncmp(p[to].boot, p[from].boot, sizeof(p->boot));
             to++)
            shares = shares && p[to].shared == p[from].shared;
        for (int i = from; i < to; i++)
            table->first[p[i].process] = shares ? p[from].process : ~p[from].process;
    }
}

/* This process's neighbours, by the numbers that ranks have now. */
static void find_neighbours(struct sn_engine *e)
{
    struct sn_engine_hosts *h = &e->hosts;
    int32_t mine = h->table->first[e->port->process];
    h->n_ranks = 0;
    for (int r = 0; r < e->base.size; r++) {
        int process = h->process_of[r];
        if (process == e->port->process)
            e->base.node_rank = h->n_ranks;
        if (h->table->first[process] == mine)
            h->ranks[h->n_ranks++] = r;
    }
    e->base.node_size = h->n_ranks;
    e->base.node_first = h->ranks[0];
}

void sn_hosts_discover(struct sn_engine *e)
{
    struct sn_engine_hosts *h = &e->hosts;
    struct sn_engine_place mine;
    read_place(&mine, e->port->process);
    e->port->ops->gather(e->port, &mine, (int64_t)sizeof(mine), h->place);
    if (!sn_engine_complete(e, SN_PORT_WORLD))
        return;
    for (int r = 0; r < e->base.size; r++)
        h->process_of[r] = r;
    for (int r = 0; h->name && r < e->base.size; r++)
        memcpy(h->name[r], h->place[r].name, sizeof(h->name[r]));
    if (h->name)
        decide(h->table, h->place, e->base.size);
    sn_engine_broadcast(e, (char *)h->table, (int64_t)host_table_bytes(e), 0);
    if (e->port->failed || sn_engine_has_failed(e))
        return;
    e->base.nonce = h->table->nonce;
    find_neighbours(e);
}

void sn_hosts_renumber(struct sn_engine *e, const int *process_of)
{
    struct sn_engine_hosts *h = &e->hosts;
    memcpy(h->process_of, process_of, (size_t)e->base.size * sizeof(*process_of));
    e->port->process_of = h->process_of;
    for (int r = 0; r < e->base.size; r++)
        if (process_of[r] == e->port->process)
            e->base.rank = r;
    find_neighbours(e);
}

const char *sn_hosts_name(const struct sn_engine *e, int rank)
{
    const struct sn_engine_hosts *h = &e->hosts;
    int process = h->process_of[rank];
    if (process == 0)
        return h->table->name;
    return h->name ? h->name[process] : "";
}

int sn_hosts_seat(const struct sn_engine *e, int rank)
{
    int low = 0, high = e->hosts.n_ranks;
    while (low < high) {
        int middle = (low + high) / 2;
        if (e->hosts.ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->hosts.n_ranks && e->hosts.ranks[low] == rank ? low : -1;
}

/* ---- shared memory --------------------------------------------------------------------------- */

static void shm_name(const struct sn_engine *e, char *name, size_t room)
{
    const struct sn_host_table *t = e->hosts.table;
    (void)snprintf(name, room, "/sennit-%016llx-%d-%d", (unsigned long long)t->nonce,
                   (int)t->first[e->port->process], e->hosts.maps);
}

bool sn_hosts_share(const struct sn_engine *e)
{
    return e->hosts.n_ranks > 1 && e->hosts.table->first[e->port->process] >= 0;
}

static void unmap(struct sn_engine_hosts *h)
{
    if (h->mapped)
        (void)munmap(h->mapped, h->mapped_bytes);
    h->mapped = NULL;
}

/* The pages of this rank's part, from the memory that is near it. Returns an errno. */
static int reserve(int fd, size_t at, size_t bytes, size_t whole)
{
    int rc;
    if (ftruncate(fd, (off_t)whole) != 0)
        return errno;
    do
        rc = posix_fallocate(fd, (off_t)at, (off_t)bytes);
    while (rc == EINTR);
    return rc;
}

enum sn_status sn_hosts_map(struct sn_engine *e, int64_t bytes, struct sn_err *err)
{
    struct sn_engine_hosts *h = &e->hosts;
    char name[64];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t each = ((size_t)bytes + page - 1) / page * page, whole = each * (size_t)h->n_ranks;
    unmap(h);
    e->shm.area[0] = NULL;
    h->maps++; /* some may not have forgotten the name yet */
    shm_name(e, name, sizeof(name));
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    h->has_name = fd >= 0;
    int rc = fd < 0 ? errno : reserve(fd, (size_t)e->base.node_rank * each, each, whole);
    char *at = rc ? MAP_FAILED : mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rc == 0 && at == MAP_FAILED)
        rc = errno;
    if (fd >= 0)
        (void)close(fd); /* the mapping stays */
    if (rc)
        return sn_fail(err, SN_EFAIL,
                       "%s: " SHARED_FOLDER
                       "%s: %d ranks of this host need %.1f MiB there: %s; make it larger (a "
                       "container's --shm-size) or free it",
                       e->ops.name, name, h->n_ranks, (double)whole / (1 << 20), strerror(rc));
    h->mapped = at;
    h->mapped_bytes = whole;
    for (int i = 0; i < h->n_ranks; i++)
        e->shm.area[i] = at + (size_t)i * each;
    return SN_OK;
}

void sn_hosts_mapped(struct sn_engine *e)
{
    char name[64];
    shm_name(e, name, sizeof(name));
    if (e->base.node_rank == 0 && e->hosts.has_name)
        (void)shm_unlink(name); /* its mappings stay */
    e->hosts.has_name = false;
}

void sn_hosts_fini(struct sn_engine *e)
{
    struct sn_engine_hosts *h = &e->hosts;
    unmap(h);
    sn_free(h->table);
    sn_free(h->place);
    sn_free(h->ranks);
    sn_free(h->process_of);
    sn_free(h->name);
}
