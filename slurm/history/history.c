/*
 * history.c - the files of a run directory: which there are, and when they last changed.
 */
#include "slurm/history/history.h"

#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "lib/comm/flight_recorder.h"
#include "lib/config/config.h"
#include "lib/rundir/record.h"
#include "slurm/scheduler/ledger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WHOLE = 64 << 20,   /* bytes of a file that is read as a whole; of a longer one the end is */
    END = 256 << 10,    /* bytes of a file of which the end is enough */
    RECORDERS = 4096,   /* records of ranks that are looked at */
    HANG_TIMEOUT = 300, /* seconds, where no run file says: the default of run.hang_timeout */
    LEAST_PATIENCE = 60 /* seconds */
};

struct reading {
    struct sn_history *h;
    const char *dir;
    double now, moved;        /* when anything last changed, seconds since 1970; 0: unknown */
    struct sn_config *config; /* NULL: no run file can be read */
    bool is_run;              /* something in the directory is of a run */
    struct sn_evidence evidence;
};

/* ---- a file ---------------------------------------------------------------------------------- */

/* Borrowed from nobody: the last bytes of a file, from the beginning of a line. */
struct text {
    char *p;
    size_t len;
};

static ssize_t read_from(int fd, char *p, size_t room, off_t at)
{
    size_t len = 0;
    while (len < room) {
        ssize_t n = pread(fd, p + len, room - len, at + (off_t)len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

static enum sn_status read_open(struct text *out, int fd, off_t size, off_t most,
                                struct sn_err *err)
{
    off_t at = size > most ? size - most : 0;
    char *p = sn_alloc((size_t)(size - at) + 1);
    if (!p)
        return sn_fail(err, SN_ENOMEM, "no memory for %lld bytes of it", (long long)(size - at));
    ssize_t n = read_from(fd, p, (size_t)(size - at), at);
    if (n < 0) {
        sn_free(p);
        return SN_EIO;
    }
    char *begin = p;
    if (at > 0) {
        begin = memchr(p, '\n', (size_t)n);
        begin = begin ? begin + 1 : p + n;
    }
    size_t len = (size_t)(p + n - begin);
    memmove(p, begin, len);
    p[len] = '\0';
    *out = (struct text){p, len};
    return SN_OK;
}

/* The end of DIR/name. A missing file is an empty text; one that cannot be read counts as damaged.
 * SN_ENOMEM only. */
static enum sn_status read_end(struct text *out, struct reading *r, const char *name, off_t most,
                               struct sn_err *err)
{
    char path[4200];
    struct stat id;
    *out = (struct text){0};
    (void)snprintf(path, sizeof(path), "%s/%s", r->dir, name); /* cut short: open fails */
    int fd = sn_input_open(path, &id);
    if (fd < 0) {
        r->h->damaged += errno != ENOENT && errno != ENOTDIR;
        return SN_OK;
    }
    double at = (double)id.st_mtim.tv_sec + 1e-9 * (double)id.st_mtim.tv_nsec;
    r->moved = at > r->moved ? at : r->moved;
    r->is_run = true;
    enum sn_status st = read_open(out, fd, id.st_size, most, err);
    (void)close(fd); /* only read */
    if (st == SN_ENOMEM)
        return sn_err_prefix(err, "%s", path);
    r->h->damaged += st != SN_OK;
    return SN_OK;
}

/* ---- which files ----------------------------------------------------------------------------- */

static enum sn_status read_journal(struct reading *r, struct sn_err *err)
{
    struct text t;
    SN_TRY(read_end(&t, r, "journal.jsonl", WHOLE, err));
    enum sn_status st = SN_OK;
    if (t.p)
        st = sn_history_take_journal(r->h, &r->evidence, t.p, t.len, err);
    sn_free(t.p);
    return st;
}

static enum sn_status read_record(struct reading *r, int64_t number, struct sn_err *err)
{
    char name[64];
    struct text t;
    (void)snprintf(name, sizeof(name), "attempt-%" PRId64 ".json", number);
    SN_TRY(read_end(&t, r, name, END, err));
    enum sn_status st = SN_OK;
    if (t.p)
        st = sn_history_take_record(r->h, number, t.p, t.len, err);
    sn_free(t.p);
    return st;
}

static enum sn_status read_records(struct reading *r, struct sn_err *err)
{
    DIR *d = opendir(r->dir);
    if (!d)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read: %s; want run.output of a run", r->dir,
                       strerror(errno));
    enum sn_status st = SN_OK;
    for (struct dirent *e; st == SN_OK && (e = readdir(d));) {
        int64_t number = 0;
        int used = 0;
        if (sscanf(e->d_name, "attempt-%9" SCNd64 ".json%n", &number, &used) == 1 && used > 0 &&
            e->d_name[used] == '\0')
            st = read_record(r, number, err);
    }
    (void)closedir(d);
    return st;
}

static enum sn_status read_steps(struct reading *r, struct sn_err *err)
{
    struct text t;
    SN_TRY(read_end(&t, r, "metrics.jsonl", END, err));
    if (t.p)
        sn_history_take_metrics(r->h, t.p, t.len);
    sn_free(t.p);
    SN_TRY(read_end(&t, r, "checkpoints.jsonl", END, err));
    if (t.p)
        sn_history_take_saves(r->h, t.p, t.len);
    sn_free(t.p);
    return SN_OK;
}

/* The run file of this run: its own copy, else the one that the supervisor was given. */
static enum sn_status read_run_file(struct reading *r, struct sn_err *err)
{
    char path[4200];
    struct sn_err why = {0};
    struct sn_config *c = sn_alloc(sizeof(*c));
    if (!c)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its run file", r->dir);
    (void)snprintf(path, sizeof(path), "%s/" SN_RECORD_RUN_FILE, r->dir);
    enum sn_status st = sn_config_load(c, path, NULL, &why);
    if (st != SN_OK && st != SN_ENOMEM && r->h->run_file[0])
        st = sn_config_load(c, r->h->run_file, NULL, &why);
    if (st == SN_OK) {
        r->config = c;
        r->h->steps = c->train.steps;
        return SN_OK;
    }
    sn_free(c);
    return st == SN_ENOMEM ? sn_fail(err, st, "%s", why.text) : SN_OK;
}

static void find_checkpoints(struct reading *r)
{
    const char *place = r->config ? r->config->checkpoint.dir : "ckpt";
    bool own = place[0] != '/';
    (void)snprintf(r->h->checkpoints, sizeof(r->h->checkpoints), "%s%s%s", own ? r->dir : "",
                   own ? "/" : "", place);
    if (!sn_history_take_checkpoints(r->h))
        return;
    r->is_run = r->is_run || r->h->saved >= 0;
    r->moved = fmax(r->moved, r->h->saved_at);
}

/* The ledger has what other runs and other requeues found out, too. */
static enum sn_status read_ledger(struct reading *r, struct sn_err *err)
{
    char own[4200];
    struct sn_ledger ledger = {0};
    const char *path = r->config ? r->config->slurm.ledger : "";
    (void)snprintf(own, sizeof(own), "%s/nodes.jsonl", r->dir);
    enum sn_status st = sn_ledger_load(&ledger, *path ? path : own, (int64_t)r->now, err);
    r->h->damaged += st == SN_EIO;
    for (int i = 0; i < ledger.n && st == SN_OK; i++) {
        const struct sn_ledger_entry *e = &ledger.entry[i];
        st = sn_history_take_bad(r->h, e->host, e->why, (double)e->until, err);
    }
    sn_ledger_fini(&ledger);
    return st == SN_EIO ? SN_OK : st;
}

/* ---- who is alive ---------------------------------------------------------------------------- */

static void look_at_rank(struct reading *r, const char *folder, int rank)
{
    struct sn_flight_view v;
    if (sn_flight_read(&v, folder, rank, NULL) != SN_OK) {
        r->h->damaged++;
        return;
    }
    r->is_run = true;
    r->evidence.ranks_here += v.is_here;
    r->evidence.ranks_elsewhere += !v.is_here;
    r->evidence.ranks_alive += v.is_alive;
}

static void look_at_ranks(struct reading *r)
{
    char folder[4200];
    (void)snprintf(folder, sizeof(folder), "%s/ranks", r->dir);
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && n < RECORDERS && (e = readdir(d));) {
        int rank = -1, used = 0;
        if (sscanf(e->d_name, "rank-%9d.ring%n", &rank, &used) != 1 || used == 0 ||
            e->d_name[used] != '\0' || rank < 0)
            continue;
        look_at_rank(r, folder, rank);
        n++;
    }
    if (d)
        (void)closedir(d);
}

/* What their devices said; mostly nothing, and no file is there. */
static enum sn_status read_health(struct reading *r, struct sn_err *err)
{
    char folder[4200], name[64];
    (void)snprintf(folder, sizeof(folder), "%s/ranks", r->dir);
    DIR *d = opendir(folder);
    enum sn_status st = SN_OK;
    for (struct dirent *e; d && st == SN_OK && (e = readdir(d));) {
        int rank = -1, used = 0;
        struct text t;
        if (sscanf(e->d_name, "rank-%9d.health.jsonl%n", &rank, &used) != 1 || used == 0 ||
            e->d_name[used] != '\0')
            continue;
        (void)snprintf(name, sizeof(name), "ranks/%.50s", e->d_name);
        st = read_end(&t, r, name, END, err);
        if (t.p)
            sn_history_take_health(r->h, t.p, t.len);
        sn_free(t.p);
    }
    if (d)
        (void)closedir(d);
    return st;
}

static void look_at_supervisor(struct reading *r)
{
    char host[64] = "";
    struct sn_evidence *e = &r->evidence;
    (void)gethostname(host, sizeof(host) - 1); /* no name: not here */
    e->supervisor_here = r->h->pid > 0 && strcmp(host, r->h->host) == 0;
    e->supervisor_alive = e->supervisor_here && sn_process_is_alive(r->h->pid);
}

static void weigh(struct reading *r)
{
    struct sn_evidence *e = &r->evidence;
    double step = r->h->step_time > 0 ? r->h->step_time : 0;
    e->still = r->moved > 0 ? fmax(r->now - r->moved, 0) : -1;
    double timeout = r->config ? r->config->run.hang_timeout : HANG_TIMEOUT;
    e->patience = fmax(LEAST_PATIENCE, fmax(2 * timeout, 20 * step));
    look_at_ranks(r);
    look_at_supervisor(r);
}

static void forget_expired(struct sn_history *h, double now)
{
    int kept = 0;
    for (int i = 0; i < h->n_bad; i++)
        if (h->bad[i].until <= 0 || h->bad[i].until > now)
            h->bad[kept++] = h->bad[i];
    h->n_bad = kept;
}

static enum sn_status read_all(struct reading *r, struct sn_err *err)
{
    SN_TRY(read_journal(r, err));
    SN_TRY(read_records(r, err));
    SN_TRY(read_steps(r, err));
    SN_TRY(read_run_file(r, err));
    SN_TRY(read_ledger(r, err));
    SN_TRY(read_health(r, err));
    find_checkpoints(r);
    weigh(r);
    if (!r->is_run)
        return sn_fail(err, SN_EINPUT,
                       "%s: nothing in it is of a run; want the directory that run.output names",
                       r->dir);
    sn_history_conclude(r->h);
    sn_history_judge(r->h, &r->evidence);
    forget_expired(r->h, r->now);
    if (r->h->state == SN_RUN_UNKNOWN && r->config)
        return sn_history_take_recorders(r->h, r->dir, r->config, err);
    return SN_OK;
}

enum sn_status sn_history_read(struct sn_history *out, const char *dir, double now,
                               struct sn_err *err)
{
    struct sn_history h;
    sn_history_init(&h);
    struct reading r = {.h = &h, .dir = dir, .now = now};
    enum sn_status st = read_all(&r, err);
    sn_free(r.config);
    if (st == SN_OK)
        *out = h;
    else
        sn_history_fini(&h);
    return st;
}
