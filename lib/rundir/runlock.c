#include "lib/rundir/runlock.h"

#include "lib/base/clock.h"
#include "lib/base/input.h"
#include "lib/base/json.h"
#include "lib/base/jsonl.h"
#include "lib/base/log.h"
#include "lib/base/output.h"
#include "lib/base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1024 }; /* bytes of a record */
#define SUPERVISOR "sennit-run exec"

/* --- who -------------------------------------------------------------------------------------- */

enum sn_runlock_verdict sn_runlock_judge(const struct sn_runlock_record *mine,
                                         const struct sn_runlock_record *other,
                                         enum sn_runlock_grip grip, bool lives)
{
    if (grip == SN_RUNLOCK_REFUSED)
        return SN_RUNLOCK_HELD;
    if (!other)
        return SN_RUNLOCK_FREE;
    bool same_boot = other->boot[0] && strcmp(other->boot, mine->boot) == 0;
    if (same_boot && grip == SN_RUNLOCK_TAKEN)
        return SN_RUNLOCK_FREE;
    if (same_boot && strcmp(other->spaces, mine->spaces) == 0)
        return lives ? SN_RUNLOCK_HELD : SN_RUNLOCK_FREE;
    if (mine->job[0] && strcmp(other->job, mine->job) == 0 && other->restart < mine->restart)
        return SN_RUNLOCK_FREE;
    return SN_RUNLOCK_UNSURE;
}

/* The first line of a file of the kernel's; "" if there is none. */
static void read_line(char *out, size_t room, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f || !fgets(out, (int)room, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (f)
        (void)fclose(f); /* only read */
}

/* When a process began, in ticks since the boot (proc(5), field 22 of stat); 0: there is none. */
static int64_t start_of(int64_t pid)
{
    char path[64], line[ROOM];
    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    read_line(line, sizeof(line), path);
    const char *at = strrchr(line, ')'); /* its name may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

static void describe_self(struct sn_runlock_record *r, const struct sn_runlock_want *w)
{
    *r = (struct sn_runlock_record){
        .pid = getpid(), .restart = w->restart, .started = start_of(getpid())};
    (void)gethostname(r->host, sizeof(r->host) - 1); /* a name cut short still helps */
    (void)snprintf(r->job, sizeof(r->job), "%s", w->job);
    (void)snprintf(r->program, sizeof(r->program), "%s", w->program ? w->program : SUPERVISOR);
    read_line(r->boot, sizeof(r->boot), "/proc/sys/kernel/random/boot_id");
    ssize_t n = readlink("/proc/self/ns/pid", r->spaces, sizeof(r->spaces) - 1);
    r->spaces[n > 0 ? n : 0] = '\0';
}

/* --- the record ------------------------------------------------------------------------------- */

/* With one write, always as long: who reads meanwhile sees a whole record. False with errno. */
static bool write_record(const struct sn_runlock *l)
{
    const struct sn_runlock_record *r = &l->mine;
    struct sn_str line = {0};
    char heartbeat[24];
    (void)snprintf(heartbeat, sizeof(heartbeat), "%012lld", (long long)r->heartbeat);
    sn_jsonl_text(&line, "program", r->program);
    sn_jsonl_text(&line, "host", r->host);
    sn_jsonl_int(&line, "pid", r->pid);
    sn_jsonl_int(&line, "started", r->started);
    sn_jsonl_text(&line, "boot", r->boot);
    sn_jsonl_text(&line, "spaces", r->spaces);
    sn_jsonl_text(&line, "job", r->job);
    sn_jsonl_int(&line, "restart", r->restart);
    sn_jsonl_text(&line, "beat", heartbeat);
    sn_str_add(&line, "}\n");
    errno = line.failed ? ENOMEM : ENOSPC; /* ENOSPC: of a write that is cut short */
    bool good = !line.failed && pwrite(l->fd, line.p, line.len, 0) == (ssize_t)line.len &&
                ftruncate(l->fd, (off_t)line.len) == 0 && fsync(l->fd) == 0;
    sn_str_fini(&line);
    return good;
}

/* False: there is none, or none that is whole. Opened anew: a network file system looks again. */
static bool read_record(struct sn_runlock_record *out, const char *path)
{
    char text[ROOM], heartbeat[24];
    struct sn_json all;
    int fd = sn_input_open(path, NULL);
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text), 0) : 0;
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (n <= 0 || !sn_json_parse(&all, text, (size_t)n))
        return false;
    *out = (struct sn_runlock_record){.pid = sn_json_get_integer(all, "pid", 0),
                                      .restart = sn_json_get_integer(all, "restart", 0),
                                      .started = sn_json_get_integer(all, "started", 0)};
    sn_json_get_text(all, "program", out->program, sizeof(out->program));
    sn_json_get_text(all, "host", out->host, sizeof(out->host));
    sn_json_get_text(all, "job", out->job, sizeof(out->job));
    sn_json_get_text(all, "boot", out->boot, sizeof(out->boot));
    sn_json_get_text(all, "spaces", out->spaces, sizeof(out->spaces));
    sn_json_get_text(all, "beat", heartbeat, sizeof(heartbeat));
    out->heartbeat = strtoll(heartbeat, NULL, 10);
    return out->pid > 0;
}

static bool same_holder(const struct sn_runlock_record *a, const struct sn_runlock_record *b)
{
    return a->pid == b->pid && a->started == b->started && strcmp(a->boot, b->boot) == 0 &&
           strcmp(a->host, b->host) == 0;
}

static enum sn_status say_held(const struct sn_runlock *l, const struct sn_runlock_record *other,
                               struct sn_err *err)
{
    bool known = other && other->pid;
    if (!known)
        return sn_fail(err, SN_EINPUT,
                       "%s: another process works on this run; let it end, or end it", l->path);
    return sn_fail(
        err, SN_EINPUT,
        "%s: another %s works on this run: process %lld on %s%s%s; let it end, or end it", l->path,
        other->program[0] ? other->program : SUPERVISOR, (long long)other->pid, other->host,
        other->job[0] ? ", job " : "", other->job);
}

static const char *name_of(char buf[SN_RUNLOCK_NAME], const struct sn_runlock_record *r)
{
    (void)snprintf(buf, SN_RUNLOCK_NAME, "%s:%lld:%lld", r->host, (long long)r->pid,
                   (long long)r->started);
    return buf;
}

const char *sn_runlock_name(char buf[SN_RUNLOCK_NAME], const struct sn_runlock *l)
{
    buf[0] = '\0';
    return l->fd < 0 ? buf : name_of(buf, &l->mine);
}

/* --- taking it -------------------------------------------------------------------------------- */

static void sleep_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&t, NULL); /* one that a signal cuts short is followed by another */
}

static enum sn_runlock_grip grip(const struct sn_runlock *l, const struct sn_runlock_want *w)
{
    if (w->lacks_locks)
        return SN_RUNLOCK_NONE;
    if (flock(l->fd, LOCK_EX | LOCK_NB) == 0)
        return SN_RUNLOCK_TAKEN;
    return errno == EWOULDBLOCK ? SN_RUNLOCK_REFUSED : SN_RUNLOCK_NONE;
}

/* Somebody elsewhere: has it a heartbeat? */
static enum sn_status watch(const struct sn_runlock *l, const struct sn_runlock_want *w,
                            const struct sn_runlock_record *first, struct sn_err *err)
{
    struct sn_runlock_record now;
    sn_log(
        SN_LOG_INFO,
        "%s: process %lld on %s worked on this run and left its record; watching whether it lives",
        l->path, (long long)first->pid, first->host);
    double until = sn_clock() + (w->watch ? w->watch : SN_RUNLOCK_WATCH);
    while (sn_clock() < until) {
        if (w->is_asked && w->is_asked(w->self))
            return sn_fail(err, SN_EFAIL,
                           "%s: asked to leave while it watched whether process %lld on %s lives",
                           l->path, (long long)first->pid, first->host);
        if (!w->is_asked)
            sleep_for(0.2);
        if (!read_record(&now, l->path))
            return SN_OK; /* it has left */
        if (!same_holder(&now, first) || now.heartbeat != first->heartbeat)
            return say_held(l, &now, err);
    }
    return SN_OK;
}

/* Where locks prove nothing two may have come at once: the record is the last one's. */
static enum sn_status check_alone(const struct sn_runlock *l, struct sn_err *err)
{
    struct sn_runlock_record now;
    sleep_for(1);
    if (!read_record(&now, l->path) || same_holder(&now, &l->mine))
        return SN_OK;
    return say_held(l, &now, err);
}

static enum sn_status take(struct sn_runlock *l, const struct sn_runlock_want *w,
                           struct sn_err *err)
{
    struct sn_runlock_record other;
    enum sn_runlock_grip g = grip(l, w);
    bool found = read_record(&other, l->path);
    bool lives = found && other.started && start_of(other.pid) == other.started;
    enum sn_runlock_verdict v = sn_runlock_judge(&l->mine, found ? &other : NULL, g, lives);
    if (v == SN_RUNLOCK_HELD)
        return say_held(l, found ? &other : NULL, err);
    if (v == SN_RUNLOCK_UNSURE)
        SN_TRY(watch(l, w, &other, err));
    if (!write_record(l))
        return sn_write_fail(err, l->path, errno);
    return g == SN_RUNLOCK_NONE || v == SN_RUNLOCK_UNSURE ? check_alone(l, err) : SN_OK;
}

/* Is it held by who has started this process? A network file system may show it late. */
static bool is_supervised(const struct sn_runlock *l, const struct sn_runlock_want *w)
{
    enum { LOOKS = 25 };
    struct sn_runlock_record holder;
    char name[SN_RUNLOCK_NAME];
    for (int i = 0; w->supervisor && i < LOOKS; i++) {
        if (i > 0)
            sleep_for(0.2);
        if (read_record(&holder, l->path) && strcmp(name_of(name, &holder), w->supervisor) == 0)
            return true;
    }
    return false;
}

enum sn_status sn_runlock_take(struct sn_runlock *out, const struct sn_runlock_want *want,
                               struct sn_err *err)
{
    *out = (struct sn_runlock){.next_heartbeat = sn_clock() + SN_RUNLOCK_HEARTBEAT};
    (void)snprintf(out->path, sizeof(out->path), "%s/supervisor.lock", want->output);
    describe_self(&out->mine, want);
    if (is_supervised(out, want)) {
        out->fd = -1;
        return SN_OK;
    }
    out->fd = sn_output_open(out->path, O_RDWR, 0666);
    if (out->fd < 0)
        return sn_fail(err, SN_EIO, "%s: cannot be opened: %s", out->path, sn_output_why(errno));
    enum sn_status st = take(out, want, err);
    if (st != SN_OK) {
        (void)close(out->fd); /* the record is another one's */
        out->fd = -1;
    }
    return st;
}

void sn_runlock_heartbeat(struct sn_runlock *l)
{
    double now = sn_clock();
    if (l->fd < 0 || now < l->next_heartbeat)
        return;
    l->next_heartbeat = now + SN_RUNLOCK_HEARTBEAT;
    l->mine.heartbeat++;
    (void)write_record(l); /* where that fails others fall back on the lock */
}

/* The file stays: who waits for its lock may have it open. */
void sn_runlock_release(struct sn_runlock *l)
{
    if (l->fd < 0)
        return;
    int rc = ftruncate(l->fd, 0);
    (void)rc; /* a record that stays is found stale */
    (void)close(l->fd);
    l->fd = -1;
}
