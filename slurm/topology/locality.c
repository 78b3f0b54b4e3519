#include "slurm/topology/locality.h"

#include "lib/base/mem.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_GPUS = 64, /* of a machine */
    MOST_NICS = 32,
    CLASS_DISPLAY = 0x0300, /* PCI classes */
    CLASS_3D = 0x0302,
    CLASS_OTHER = 0x0380,
    VENDOR_NVIDIA = 0x10de,
    VENDOR_AMD = 0x1002
};

struct gpu {
    char id[SN_LOCAL_NAME], uuid[SN_LOCAL_NAME];
    hwloc_obj_t at; /* the smallest object with processors above it */
};

struct nic {
    char name[SN_LOCAL_NIC];
    hwloc_obj_t at;
    bool is_fast; /* InfiniBand and its like */
};

struct sn_locality {
    hwloc_topology_t topology;
    struct gpu gpu[MOST_GPUS]; /* in the order of PCI addresses */
    struct nic nic[MOST_NICS];
    int n_gpus, n_nics;
};

/* ---- reading the machine --------------------------------------------------------------------- */

/* Consoles of management controllers are displays too: those of other makers are left out. */
static bool is_gpu(const struct hwloc_pcidev_attr_s *p)
{
    if (p->class_id == CLASS_3D || p->class_id == CLASS_OTHER)
        return true;
    return p->class_id == CLASS_DISPLAY &&
           (p->vendor_id == VENDOR_NVIDIA || p->vendor_id == VENDOR_AMD);
}

/* The driver's name for a GPU, "" where it tells none. */
static void read_uuid(char uuid[SN_LOCAL_NAME], const char *address)
{
    char path[128], line[128];
    (void)snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", address);
    FILE *f = fopen(path, "r");
    uuid[0] = '\0';
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "GPU UUID: %47s", uuid) == 1)
            break;
    if (f)
        (void)fclose(f); /* only read */
}

static void add_gpu(struct sn_locality *l, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *p = &pci->attr->pcidev;
    if (!is_gpu(p) || l->n_gpus == MOST_GPUS)
        return;
    struct gpu *g = &l->gpu[l->n_gpus++];
    (void)snprintf(g->id, sizeof(g->id), "%04x:%02x:%02x.%01x", p->domain, p->bus, p->dev, p->func);
    read_uuid(g->uuid, g->id);
    g->at = hwloc_get_non_io_ancestor_obj(l->topology, pci);
}

/* Has an address, and is up: others carry no traffic of ours. */
static bool has_address(const struct ifaddrs *all, const char *name)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && strcmp(i->ifa_name, name) == 0 && (i->ifa_flags & IFF_UP) &&
            !(i->ifa_flags & IFF_LOOPBACK) &&
            (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6))
            return true;
    return false;
}

static void add_nic(struct sn_locality *l, const struct ifaddrs *all, hwloc_obj_t device)
{
    hwloc_obj_osdev_type_t type = device->attr->osdev.type;
    bool is_fast = type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    if (l->n_nics == MOST_NICS || !device->name ||
        (!is_fast && (type != HWLOC_OBJ_OSDEV_NETWORK || !has_address(all, device->name))))
        return;
    struct nic *n = &l->nic[l->n_nics++];
    (void)snprintf(n->name, sizeof(n->name), "%.*s", (int)sizeof(n->name) - 1, device->name);
    n->is_fast = is_fast;
    n->at = hwloc_get_non_io_ancestor_obj(l->topology, device);
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct gpu *)a)->id, ((const struct gpu *)b)->id);
}

/* hwloc finds no network device where PCI is hidden; the system's list has them all the same. */
static void add_plain_nics(struct sn_locality *l, const struct ifaddrs *all)
{
    for (const struct ifaddrs *i = all; i && l->n_nics < MOST_NICS; i = i->ifa_next) {
        bool known = !has_address(all, i->ifa_name);
        for (int k = 0; k < l->n_nics && !known; k++)
            known = strncmp(l->nic[k].name, i->ifa_name, SN_LOCAL_NIC - 1) == 0;
        if (known)
            continue;
        struct nic *n = &l->nic[l->n_nics++];
        *n = (struct nic){.at = hwloc_get_root_obj(l->topology)};
        (void)snprintf(n->name, sizeof(n->name), "%.*s", (int)sizeof(n->name) - 1, i->ifa_name);
    }
}

static void find_devices(struct sn_locality *l)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        all = NULL; /* no interface is known to have an address */
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(l->topology, o));)
        add_gpu(l, o);
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(l->topology, o));)
        add_nic(l, all, o);
    if (hwloc_topology_is_thissystem(l->topology))
        add_plain_nics(l, all);
    qsort(l->gpu, (size_t)l->n_gpus, sizeof(l->gpu[0]), by_address);
    if (all)
        freeifaddrs(all);
}

/* Processors, NUMA nodes and devices alone. Asking each processor with CPUID moves this thread over
 * all of them, vendors' libraries start drivers, and libpciaccess leaks: none is needed, since the
 * system's files tell all of it. */
static int load(hwloc_topology_t t)
{
    static const char *const unneeded[] = {"x86",  "pci",  "opencl",    "cuda",
                                           "nvml", "rsmi", "levelzero", "gl"};
    for (size_t i = 0; i < sizeof(unneeded) / sizeof(unneeded[0]); i++)
        (void)hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            unneeded[i]); /* one that does not exist is none */
    if (hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
        hwloc_topology_set_type_filter(t, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0)
        return -1;
    return hwloc_topology_load(t);
}

enum sn_status sn_locality_open(struct sn_locality **out, struct sn_err *err)
{
    struct sn_locality *l = sn_alloc(sizeof(*l));
    /* hwloc opens all its plugins before it leaves some out, MPI's calls of it too: those of
     * graphics load X11 and OpenCL in every process. No memory: it takes longer. */
    (void)setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_gl.so,hwloc_opencl.so", 0);
    if (!l)
        return sn_fail(err, SN_ENOMEM, "locality: no memory for %zu bytes", sizeof(*l));
    if (hwloc_topology_init(&l->topology) != 0) {
        sn_free(l);
        return sn_fail(err, SN_ENOMEM, "locality: hwloc has no memory");
    }
    if (load(l->topology) != 0) {
        sn_locality_close(l);
        return sn_fail(err, SN_EFAIL, "locality: hwloc cannot read this machine; see lstopo");
    }
    find_devices(l);
    *out = l;
    return SN_OK;
}

void sn_locality_close(struct sn_locality *l)
{
    if (!l)
        return;
    hwloc_topology_destroy(l->topology);
    sn_free(l);
}

/* ---- describing a process -------------------------------------------------------------------- */

/* "0-3,8"; what does not fit ends in "...". */
static void format_mask(char *out, size_t room, const cpu_set_t *mask)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, mask))
            continue;
        int last = i;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, mask))
            last++;
        char part[32];
        int n = snprintf(part, sizeof(part), last > i ? "%s%d-%d" : "%s%d", at ? "," : "", i, last);
        if (at + (size_t)n + 4 > room) { /* room for the dots stays */
            (void)snprintf(out + at, room - at, "...");
            return;
        }
        (void)snprintf(out + at, room - at, "%s", part);
        at += (size_t)n;
        i = last;
    }
}

static hwloc_bitmap_t bitmap_of(const cpu_set_t *mask)
{
    hwloc_bitmap_t b = hwloc_bitmap_alloc();
    for (int i = 0; b && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, mask) && hwloc_bitmap_set(b, (unsigned)i) != 0) {
            hwloc_bitmap_free(b);
            return NULL;
        }
    return b;
}

/* The NUMA node that a set of processors lies in; -1 if in several or none. Nodes without
 * processors (memory of GPUs) hold no set. */
static int numa_of(const struct sn_locality *l, hwloc_const_bitmap_t cpus)
{
    int found = -1;
    if (!cpus || hwloc_bitmap_iszero(cpus))
        return -1;
    for (hwloc_obj_t o = NULL;
         (o = hwloc_get_next_obj_by_type(l->topology, HWLOC_OBJ_NUMANODE, o));) {
        if (hwloc_bitmap_iszero(o->cpuset) || !hwloc_bitmap_isincluded(cpus, o->cpuset))
            continue;
        if (found < 0) /* several nodes with the same processors: the first is their memory */
            found = (int)o->os_index;
    }
    return found;
}

/* The network device closest to a place: the one under the smallest object that holds it;
 * InfiniBand before Ethernet. `turn` shares equals out. */
static void nearest_nic(char out[SN_LOCAL_NIC], const struct sn_locality *l,
                        hwloc_const_bitmap_t cpus, int turn)
{
    int best = -1, equals = 0;
    long score = 0;
    out[0] = '\0';
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < l->n_nics; i++) {
            const struct nic *n = &l->nic[i];
            if (!n->at || !n->at->cpuset || !cpus || !hwloc_bitmap_intersects(n->at->cpuset, cpus))
                continue;
            long s = -hwloc_bitmap_weight(n->at->cpuset) + (n->is_fast ? 1L << 20 : 0);
            if (pass == 0 && (best < 0 || s > score)) {
                best = i;
                score = s;
                equals = 0;
            }
            if (pass == 0)
                equals += s == score;
            else if (s == score && turn-- == 0)
                best = i;
        }
        turn = equals > 0 ? turn % equals : 0;
    }
    if (best >= 0)
        (void)snprintf(out, SN_LOCAL_NIC, "%s", l->nic[best].name);
}

static int common(hwloc_const_bitmap_t mask, hwloc_const_bitmap_t near)
{
    hwloc_bitmap_t both = hwloc_bitmap_alloc();
    int n = -1;
    if (both && mask && near && hwloc_bitmap_and(both, mask, near) == 0)
        n = hwloc_bitmap_weight(both);
    hwloc_bitmap_free(both);
    return n;
}

static void add_known(struct sn_local *out, const struct sn_locality *l, int i,
                      hwloc_const_bitmap_t mask)
{
    const struct gpu *g = &l->gpu[i];
    if (out->n_gpus >= SN_LOCAL_GPUS)
        return;
    struct sn_local_gpu *to = &out->gpu[out->n_gpus++];
    hwloc_const_bitmap_t near = g->at ? g->at->cpuset : NULL;
    *to = (struct sn_local_gpu){
        .is_certain = 1, .numa = numa_of(l, near), .near_cpus = common(mask, near)};
    (void)snprintf(to->id, sizeof(to->id), "%s", g->id);
    nearest_nic(to->nic, l, near, i);
}

static void add_named(struct sn_local *out, const char *name, size_t len, bool is_certain)
{
    if (out->n_gpus >= SN_LOCAL_GPUS)
        return;
    struct sn_local_gpu *to = &out->gpu[out->n_gpus++];
    *to = (struct sn_local_gpu){.is_certain = is_certain, .numa = -1, .near_cpus = -1};
    (void)snprintf(to->id, sizeof(to->id), "%.*s", (int)len, name);
}

static int find_uuid(const struct sn_locality *l, const char *name, size_t len)
{
    for (int i = 0; i < l->n_gpus; i++)
        if (strlen(l->gpu[i].uuid) == len && strncmp(l->gpu[i].uuid, name, len) == 0)
            return i;
    return -1;
}

/* A number counts the GPUs that the job may use, which are all of the machine's only where the list
 * is not shorter; a job confined to some of them counts those from 0. */
static void add_listed(struct sn_local *out, const struct sn_locality *l, const char *list,
                       hwloc_const_bitmap_t mask)
{
    int n = 0;
    for (const char *c = list; *c; c++)
        n += *c == ',';
    bool is_whole = n + 1 == l->n_gpus;
    for (const char *c = list; *c;) {
        size_t len = strcspn(c, ",");
        char *end;
        long number = strtol(c, &end, 10);
        bool is_number = len > 0 && isdigit((unsigned char)*c) && end == c + len;
        int known = is_number && is_whole && number < l->n_gpus ? (int)number : -1;
        if (!is_number)
            known = find_uuid(l, c, len);
        if (known >= 0)
            add_known(out, l, known, mask);
        else if (len > 0 && *c != '-' && !(len == 10 && strncmp(c, "NoDevFiles", len) == 0))
            add_named(out, c, len, !is_number);
        c += len + (c[len] == ',');
    }
}

/* Which GPUs the process may see; NULL: nothing is said, "" : none. */
static const char *visible(const struct sn_environment *e)
{
    static const char *const name[] = {"CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES="};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < e->n; i++)
            if (strncmp(e->line[i], name[k], strlen(name[k])) == 0)
                return e->line[i] + strlen(name[k]);
    return NULL;
}

void sn_locality_describe(struct sn_local *out, const struct sn_locality *l,
                          const struct sn_environment *e)
{
    cpu_set_t mask;
    const char *list = visible(e);
    *out = (struct sn_local){.numa = -1};
    hwloc_bitmap_t cpus = NULL;
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
        out->n_cpus = CPU_COUNT(&mask);
        format_mask(out->cpus, sizeof(out->cpus), &mask);
        cpus = bitmap_of(&mask); /* without memory for it: everything near is unknown */
    }
    out->numa = numa_of(l, cpus);
    nearest_nic(out->nic, l, cpus, 0);
    if (list)
        add_listed(out, l, list, cpus);
    for (int i = 0; i < l->n_gpus && !list; i++)
        add_known(out, l, i, cpus);
    hwloc_bitmap_free(cpus);
}
