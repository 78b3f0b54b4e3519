#include "checkpoint/io/aio.h"

#include "checkpoint/io/files.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SMALL = 64 << 10, /* bytes for which the cache is worth its copy: neighbours are small, too */
    SLAB = 1 << 30,   /* of one system call; Linux takes no more than 2 GiB */
    FLUSH = 64 << 20, /* bytes of the cache that are written back at once, on the way to a sync */
    DENSE = 8,        /* rows that are this part of their stride are read ahead as a whole */
    STACK = 256 << 10 /* of a thread: a converter under ulimit -v has no room for eight MiB */
};
enum { QUEUED, DONE };   /* sn_aio_request.state */
enum { CUT_SHORT = -1 }; /* sn_aio_request.error, beside errno: the file ends too early */

struct sn_aio_file {
    char *path;
    uint64_t size;
    int cached, direct;
    atomic_bool is_direct; /* until the file system refuses */
    atomic_int users;      /* who opened it, and requests not yet waited for */
};

struct sn_aio {
    pthread_mutex_t lock;
    pthread_cond_t queued, done;
    struct sn_aio_request *first, **last; /* not yet taken by a thread */
    bool is_ending, is_held;
    struct sn_progress *progress;
    int n_threads;
    pthread_t thread[];
};

/* --- files ----------------------------------------------------------------------------------- */

static void release(struct sn_aio_file *f)
{
    if (atomic_fetch_sub(&f->users, 1) > 1)
        return;
    if (f->cached >= 0)
        (void)close(f->cached); /* who writes has synced */
    if (f->direct >= 0)
        (void)close(f->direct);
    sn_free(f->path);
    sn_free(f);
}

/* What is written to has been made by this program: a link in its place is somebody else's. */
static int open_once(const struct sn_aio_file *f, struct stat *id, bool write, struct sn_err *err)
{
    if (!write)
        return sn_file_open(f->path, id, err);
    int fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, id) != 0)
        (void)sn_file_fail(err, f->path, "open");
    else if (!S_ISREG(id->st_mode))
        (void)sn_fail(err, SN_EIO, "%s: is not a plain file", f->path);
    else
        return fd;
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return -1;
}

static enum sn_status open_both(struct sn_aio_file *f, bool write, struct sn_err *err)
{
    struct stat id;
    int flags = write ? O_WRONLY | O_NOFOLLOW : O_RDONLY;
    f->cached = open_once(f, &id, write, err);
    if (f->cached < 0)
        return err->status;
    f->size = (uint64_t)id.st_size;
    f->direct = open(f->path, flags | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
    if (f->direct < 0 && errno != EINVAL && errno != EOPNOTSUPP)
        return sn_file_fail(err, f->path, "open");
    atomic_store(&f->is_direct, f->direct >= 0);
    return SN_OK;
}

enum sn_status sn_aio_open(struct sn_aio_file **out, const char *path, bool write,
                           struct sn_err *err)
{
    struct sn_aio_file *f = sn_alloc(sizeof(*f));
    char *name = sn_strdup(path);
    if (!f || !name) {
        sn_free(f);
        sn_free(name);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    }
    f->path = name;
    f->cached = f->direct = -1;
    atomic_store(&f->users, 1);
    enum sn_status st = open_both(f, write, err);
    if (st == SN_OK)
        *out = f;
    else
        release(f);
    return st;
}

uint64_t sn_aio_size(const struct sn_aio_file *f)
{
    return f->size;
}

const char *sn_aio_path(const struct sn_aio_file *f)
{
    return f->path;
}

/* One fsync of all that a slow file system still owes takes minutes, in which nothing is seen to
 * move. Where parts cannot be written back it has all to do. */
enum sn_status sn_aio_sync(struct sn_aio_file *f, struct sn_progress *p, struct sn_err *err)
{
    enum { ALL = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };
    struct stat sb;
    off_t bytes = fstat(f->cached, &sb) == 0 ? sb.st_size : 0;
    for (off_t at = 0; at < bytes && sync_file_range(f->cached, at, FLUSH, ALL) == 0; at += FLUSH)
        sn_progress_mark(p);
    return fsync(f->cached) == 0 ? SN_OK : sn_file_fail(err, f->path, "sync");
}

void sn_aio_close(struct sn_aio_file *f)
{
    if (f)
        release(f);
}

/* --- one transfer, on a thread of the pool ---------------------------------------------------- */

static ssize_t move(int fd, bool is_write, char *p, size_t bytes, uint64_t at)
{
    size_t n = bytes < SLAB ? bytes : SLAB;
    ssize_t moved;
    do
        moved = is_write ? pwrite(fd, p, n, (off_t)at) : pread(fd, p, n, (off_t)at);
    while (moved < 0 && errno == EINTR);
    return moved;
}

/* As many of the bytes as go past the cache, all numbers being multiples of SN_AIO_ALIGN. What is
 * left, be it for an error, the cache is asked for, and has the last word. */
static size_t move_direct(struct sn_aio_file *f, bool is_write, char *p, size_t bytes, uint64_t at)
{
    size_t done = 0;
    while (done < bytes && done % SN_AIO_ALIGN == 0 && atomic_load(&f->is_direct)) {
        ssize_t n = move(f->direct, is_write, p + done, bytes - done, at + done);
        if (n < 0 && errno == EINVAL)
            atomic_store(&f->is_direct, false);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

/* 0, an errno, or CUT_SHORT. */
static int move_cached(struct sn_aio_file *f, bool is_write, char *p, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = move(f->cached, is_write, p + done, bytes - done, at + done);
        if (n <= 0)
            return n < 0 ? errno : is_write ? EIO : CUT_SHORT;
        done += (size_t)n;
    }
    return 0;
}

static int write_run(struct sn_aio_request *r)
{
    size_t done = 0;
    if (r->bytes >= SMALL && r->offset % SN_AIO_ALIGN == 0)
        done = move_direct(r->file, true, r->buf, r->bytes - r->bytes % SN_AIO_ALIGN, r->offset);
    return move_cached(r->file, true, r->buf + done, r->bytes - done, r->offset + done);
}

/* From the page that the first byte is in to the one of the last: a few bytes more, no copy. */
static int read_run(struct sn_aio_request *r)
{
    size_t lead = r->offset % SN_AIO_ALIGN, end = lead + r->bytes, done = 0;
    uint64_t at = r->offset - lead;
    if (r->bytes >= SMALL)
        done = move_direct(r->file, false, r->buf,
                           (end + SN_AIO_ALIGN - 1) / SN_AIO_ALIGN * SN_AIO_ALIGN, at);
    if (done < lead)
        done = lead;
    r->data = r->buf + lead;
    return done < end ? move_cached(r->file, false, r->buf + done, end - done, at + done) : 0;
}

/* Where a request ends in its file. */
static uint64_t end_of(const struct sn_aio_request *r)
{
    if (r->row == 0 || r->bytes == 0)
        return r->offset + r->bytes;
    uint64_t last = r->skip + r->bytes - 1;
    return r->offset - r->skip + last / r->row * r->stride + last % r->row + 1;
}

static int move_rows(struct sn_aio_request *r)
{
    size_t in_row = r->skip, n;
    uint64_t at = r->offset;
    int error = 0;
    r->data = r->buf;
    if (!r->is_write && r->row >= r->stride / DENSE) /* advice: read rows one by one without it */
        (void)posix_fadvise(r->file->cached, (off_t)at, (off_t)(end_of(r) - at),
                            POSIX_FADV_WILLNEED);
    for (size_t done = 0; done < r->bytes && !error; done += n) {
        n = r->row - in_row < r->bytes - done ? r->row - in_row : r->bytes - done;
        error = move_cached(r->file, r->is_write, r->buf + done, n, at);
        at += r->stride - in_row;
        in_row = 0;
    }
    return error;
}

static int run(struct sn_aio_request *r)
{
    if (r->hash && r->is_write)
        *r->hash = sn_hash64(r->buf, r->bytes);
    int error = r->row > 0 ? move_rows(r) : r->is_write ? write_run(r) : read_run(r);
    if (r->hash && !r->is_write && !error)
        *r->hash = sn_hash64(r->data, r->bytes);
    return error;
}

/* --- the pool -------------------------------------------------------------------------------- */

static struct sn_aio_request *take(struct sn_aio *a)
{
    while ((!a->first && !a->is_ending) || a->is_held)
        (void)pthread_cond_wait(&a->queued, &a->lock);
    struct sn_aio_request *r = a->first;
    if (r)
        a->first = r->next;
    if (!a->first)
        a->last = &a->first;
    return r;
}

static void *work(void *arg)
{
    struct sn_aio *a = arg;
    (void)pthread_mutex_lock(&a->lock);
    for (struct sn_aio_request *r; (r = take(a));) {
        (void)pthread_mutex_unlock(&a->lock);
        int error = run(r);
        sn_progress_mark(a->progress);
        (void)pthread_mutex_lock(&a->lock);
        r->error = error;
        r->state = DONE;
        (void)pthread_cond_broadcast(&a->done);
    }
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

enum sn_status sn_aio_create(struct sn_aio **out, int threads, struct sn_err *err)
{
    struct sn_aio *a = sn_alloc(sizeof(*a) + (size_t)threads * sizeof(a->thread[0]));
    if (!a)
        return sn_fail(err, SN_ENOMEM, "aio: no memory for %d threads", threads);
    a->last = &a->first;
    (void)pthread_mutex_init(&a->lock, NULL); /* these cannot fail on Linux */
    (void)pthread_cond_init(&a->queued, NULL);
    (void)pthread_cond_init(&a->done, NULL);
    int rc = 0;
    while (rc == 0 && a->n_threads < threads) {
        rc = sn_thread_start(&a->thread[a->n_threads], STACK, work, a);
        a->n_threads += rc == 0;
    }
    if (rc) {
        sn_aio_destroy(a);
        return sn_fail(err, rc == ENOMEM ? SN_ENOMEM : SN_EIO, "aio: cannot start a thread: %s",
                       strerror(rc));
    }
    *out = a;
    return SN_OK;
}

void sn_aio_set_progress(struct sn_aio *a, struct sn_progress *p)
{
    (void)pthread_mutex_lock(&a->lock); /* the pool's threads look under it */
    a->progress = p;
    (void)pthread_mutex_unlock(&a->lock);
}

void sn_aio_destroy(struct sn_aio *a)
{
    if (!a)
        return;
    (void)pthread_mutex_lock(&a->lock);
    a->is_ending = true;
    a->is_held = false;
    (void)pthread_cond_broadcast(&a->queued);
    (void)pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->n_threads; i++)
        (void)pthread_join(a->thread[i], NULL);
    (void)pthread_cond_destroy(&a->done);
    (void)pthread_cond_destroy(&a->queued);
    (void)pthread_mutex_destroy(&a->lock);
    sn_free(a);
}

void sn_aio_submit(struct sn_aio *a, struct sn_aio_request *r)
{
    atomic_fetch_add(&r->file->users, 1);
    r->next = NULL;
    r->state = QUEUED;
    (void)pthread_mutex_lock(&a->lock);
    *a->last = r;
    a->last = &r->next;
    (void)pthread_cond_signal(&a->queued);
    (void)pthread_mutex_unlock(&a->lock);
}

void sn_aio_hold(struct sn_aio *a, bool hold)
{
    (void)pthread_mutex_lock(&a->lock);
    a->is_held = hold;
    (void)pthread_cond_broadcast(&a->queued);
    (void)pthread_mutex_unlock(&a->lock);
}

bool sn_aio_is_done(struct sn_aio *a, const struct sn_aio_request *r)
{
    (void)pthread_mutex_lock(&a->lock);
    bool is_done = r->state == DONE;
    (void)pthread_mutex_unlock(&a->lock);
    return is_done;
}

static enum sn_status explain(const struct sn_aio_request *r, struct sn_err *err)
{
    const struct sn_aio_file *f = r->file;
    struct stat sb;
    if (r->error != CUT_SHORT) {
        errno = r->error;
        return sn_file_fail(err, f->path, r->is_write ? "write" : "read");
    }
    int64_t size = fstat(f->cached, &sb) == 0 ? (int64_t)sb.st_size : -1;
    return sn_fail(err, SN_EIO, "%s: ends after %" PRId64 " bytes where %" PRIu64 " are needed",
                   f->path, size, end_of(r));
}

enum sn_status sn_aio_wait(struct sn_aio *a, struct sn_aio_request *r, struct sn_err *err)
{
    (void)pthread_mutex_lock(&a->lock);
    while (r->state != DONE)
        (void)pthread_cond_wait(&a->done, &a->lock);
    (void)pthread_mutex_unlock(&a->lock);
    enum sn_status st = r->error ? explain(r, err) : SN_OK;
    release(r->file);
    return st;
}
