#include "lib/comm/flight_recorder.h"

#include "lib/base/clock.h"
#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"
#include "lib/base/process.h"
#include "lib/layout/collective.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "sennit ring 3";

struct file {
    char magic[16];
    int32_t rank, pid;
    char host[64];
    uint64_t posted[SN_FLIGHT_GROUPS];
    uint64_t heartbeats;
    struct sn_flight_event event[SN_FLIGHT_EVENTS];
};

struct sn_flight_recorder {
    struct file *file; /* mapped */
    uint64_t id;       /* of the last event */
    char folder[];
};

static void path_of(char *out, size_t room, const char *folder, int rank)
{
    (void)snprintf(out, room, "%s/rank-%05d.ring", folder, rank); /* cut short: open fails */
}

static void name_host(char host[64])
{
    if (gethostname(host, 64) != 0)
        (void)snprintf(host, 64, "unknown host");
    host[63] = '\0';
}

static struct file *map_file(const char *path)
{
    struct file *f = MAP_FAILED;
    int fd = sn_output_open(path, O_RDWR | O_TRUNC, 0666);
    if (fd < 0)
        return NULL;
    /* Blocks now, not at a full disk later, when a store would be a signal. */
    int rc = posix_fallocate(fd, 0, (off_t)sizeof(*f));
    if (rc == 0)
        f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    else
        errno = rc;
    int why = errno;
    (void)close(fd); /* the mapping holds the file */
    errno = why;
    return f == MAP_FAILED ? NULL : f;
}

enum sn_status sn_flight_open(struct sn_flight_recorder **out, const char *output, int rank,
                              struct sn_err *err)
{
    char path[4200];
    size_t room = strlen(output) + sizeof("/ranks");
    struct sn_flight_recorder *r = sn_alloc(sizeof(*r) + room);
    if (!r)
        return sn_fail(err, SN_ENOMEM, "%s/ranks: no memory for a record of rank %d", output, rank);
    (void)snprintf(r->folder, room, "%s/ranks", output);
    path_of(path, sizeof(path), r->folder, rank);
    if ((mkdir(r->folder, 0777) == 0 || errno == EEXIST) && (r->file = map_file(path)) != NULL) {
        r->file->rank = rank;
        r->file->pid = (int32_t)getpid();
        name_host(r->file->host);
        memcpy(r->file->magic, magic, sizeof(magic));
        *out = r;
        return SN_OK;
    }
    enum sn_status st = sn_fail(err, SN_EIO, "%s: cannot be made: %s", path, sn_output_why(errno));
    sn_free(r);
    return st;
}

void sn_flight_close(struct sn_flight_recorder *r)
{
    if (!r)
        return;
    (void)munmap(r->file, sizeof(*r->file)); /* cannot fail on what mmap gave */
    sn_free(r);
}

const char *sn_flight_folder(const struct sn_flight_recorder *r)
{
    return r->folder;
}

uint64_t sn_flight_post(struct sn_flight_recorder *r, const struct sn_flight_event *event)
{
    uint64_t id = ++r->id;
    struct sn_flight_event *to = &r->file->event[id % SN_FLIGHT_EVENTS];
    to->id = 0; /* whoever reads now passes over it */
    atomic_thread_fence(memory_order_release);
    struct sn_flight_event copy = *event;
    copy.id = 0;
    copy.time = copy.came = sn_clock();
    copy.state = SN_FLIGHT_POSTED;
    *to = copy;
    atomic_thread_fence(memory_order_release);
    to->id = id;
    if (event->peer < 0 && event->group >= 0 && event->group < SN_FLIGHT_GROUPS)
        r->file->posted[event->group] = event->number;
    return id;
}

void sn_flight_mark(struct sn_flight_recorder *r, uint64_t id, enum sn_flight_state state)
{
    struct sn_flight_event *e = &r->file->event[id % SN_FLIGHT_EVENTS];
    if (e->id != id)
        return;
    e->time = sn_clock();
    e->state = state;
}

void sn_flight_heartbeat(struct sn_flight_recorder *r)
{
    r->file->heartbeats++;
}

void sn_flight_give_up(struct sn_flight_recorder *r)
{
    r->file->heartbeats = SN_FLIGHT_GAVE_UP;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_file(const char *path, struct file *f)
{
    int fd = sn_input_open(path, NULL);
    if (fd < 0)
        return false;
    ssize_t n = pread(fd, f, sizeof(*f), 0);
    int why = n < 0 ? errno : EINVAL;
    (void)close(fd);
    errno = why;
    return n == (ssize_t)sizeof(*f) && memcmp(f->magic, magic, sizeof(magic)) == 0;
}

/* Sorted by id, without places never written or just being written. */
static int collect(struct sn_flight_event *out, const struct file *f)
{
    int n = 0;
    for (int i = 0; i < SN_FLIGHT_EVENTS; i++) {
        struct sn_flight_event e = f->event[i];
        if (e.id == 0 || e.id % SN_FLIGHT_EVENTS != (uint64_t)i)
            continue;
        e.kind[sizeof(e.kind) - 1] = e.label[sizeof(e.label) - 1] = '\0';
        int at = n++;
        for (; at > 0 && out[at - 1].id > e.id; at--)
            out[at] = out[at - 1];
        out[at] = e;
    }
    return n;
}

enum sn_status sn_flight_read(struct sn_flight_view *out, const char *folder, int rank,
                              struct sn_err *err)
{
    char path[4200], host[64];
    struct file f;
    path_of(path, sizeof(path), folder, rank);
    if (!read_file(path, &f))
        return sn_fail(err, SN_EIO, "%s: no record of rank %d (%s)", path, rank, strerror(errno));
    struct sn_flight_view v = {.rank = f.rank, .pid = f.pid};
    memcpy(v.host, f.host, sizeof(v.host));
    v.host[sizeof(v.host) - 1] = '\0';
    name_host(host);
    v.is_here = strcmp(host, v.host) == 0;
    v.is_alive = v.is_here && sn_process_is_alive(v.pid);
    memcpy(v.posted, f.posted, sizeof(v.posted));
    v.heartbeats = f.heartbeats;
    v.n = collect(v.event, &f);
    *out = v;
    return SN_OK;
}

/* A collective that it is in. */
static bool is_in(const struct sn_flight_event *e)
{
    return e->peer < 0 && (e->state == SN_FLIGHT_BEGUN || e->state == SN_FLIGHT_AWAITED);
}

static bool is_of_queue(const struct sn_flight_event *e, int queue)
{
    return e->group >= 0 && e->group < SN_NGROUPS &&
           (int)sn_group_queue((enum sn_group)e->group) == queue;
}

/* The one that it is in of a queue; NULL: of none. */
static const struct sn_flight_event *in_queue(const struct sn_flight_view *v, int queue)
{
    for (int i = 0; i < v->n; i++)
        if (is_in(&v->event[i]) && is_of_queue(&v->event[i], queue))
            return &v->event[i];
    return NULL;
}

/* What computing stands for. */
static const struct sn_flight_event *awaited(const struct sn_flight_view *v)
{
    const struct sn_flight_event *send = NULL;
    for (int i = 0; i < v->n; i++) {
        const struct sn_flight_event *e = &v->event[i];
        if (e->state != SN_FLIGHT_AWAITED)
            continue;
        if (e->peer < 0 || strcmp(e->kind, sn_collective_name(SN_RECV)) == 0)
            return e;
        send = send ? send : e; /* its peer does not take it, or the network does not */
    }
    return send;
}

const struct sn_flight_event *sn_flight_waits_in(const struct sn_flight_view *v, int queue)
{
    const struct sn_flight_event *found = in_queue(v, queue);
    if (!found)
        found = awaited(v);
    for (int i = 0; i < v->n && !found; i++)
        found = is_in(&v->event[i]) ? &v->event[i] : NULL;
    return found;
}

const struct sn_flight_event *sn_flight_collective(const struct sn_flight_view *v, int group,
                                                   uint64_t number)
{
    for (int i = 0; i < v->n; i++)
        if (v->event[i].peer < 0 && v->event[i].group == group && v->event[i].number == number)
            return &v->event[i];
    return NULL;
}

bool sn_flight_is_held_up(const struct sn_flight_view *v, int group, uint64_t number)
{
    const struct sn_flight_event *e = sn_flight_collective(v, group, number);
    return e && e->state == SN_FLIGHT_POSTED && group < SN_NGROUPS &&
           in_queue(v, (int)sn_group_queue((enum sn_group)group));
}

double sn_flight_last_time(const struct sn_flight_view *v)
{
    double last = 0;
    for (int i = 0; i < v->n; i++)
        last = v->event[i].time > last ? v->event[i].time : last;
    return last;
}
