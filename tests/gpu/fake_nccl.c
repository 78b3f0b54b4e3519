/*
 * fake_nccl.c - an NCCL that begins, says its version and moves nothing: what kernels/cuda/nccl.c
 * opens in tests. FAKE_NCCL="version=21500 hangs_at=1 fails_at=1" sets what it says, split_stuck=1
 * and split_lost=1 the same of what is split; each call is a line of the file that FAKE_NCCL_LOG
 * names. Without the library's header, so that it shares no mistake with nccl.c.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long habit(const char *name, long otherwise)
{
    const char *text = getenv("FAKE_NCCL");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

__attribute__((format(printf, 1, 2))) static int note(const char *fmt, ...)
{
    const char *path = getenv("FAKE_NCCL_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    va_list ap;
    va_start(ap, fmt);
    if (f) {
        (void)vfprintf(f, fmt, ap);
        (void)fclose(f);
    }
    va_end(ap);
    return 0;
}

enum { REMOTE = 6, IN_PROGRESS = 7 };

struct id {
    char bytes[128];
};

int ncclGetVersion(int *version);
int ncclGetUniqueId(struct id *id);
struct config;
int ncclCommInitRankConfig(void **comm, int size, struct id id, int rank, struct config *how);
int ncclCommSplit(void *parent, int color, int key, void **comm, struct config *how);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclCommGetAsyncError(void *comm, int *state);
const char *ncclGetErrorString(int rc);

int ncclGetVersion(int *version)
{
    *version = (int)habit("version=", 22809);
    return 0;
}

int ncclGetUniqueId(struct id *id)
{
    memset(id, 1, sizeof(*id));
    return note("id\n");
}

/* As the manual's ncclConfig_t begins. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, least, most;
    const char *net;
    int shares;
};

struct comm {
    long asked;
    int hangs, fails, is_part, shares;
    struct comm *part; /* that it will be split into, */
    void **to;         /* which is said here */
};

/* In progress for three looks; the n-th for ever, or until it fails. */
int ncclCommInitRankConfig(void **comm, int size, struct id id, int rank, struct config *how)
{
    static long inits;
    struct comm *c = calloc(1, sizeof(*c));
    if (!c)
        return 1;
    inits++;
    c->hangs = habit("hangs_at=", 0) == inits;
    c->fails = habit("fails_at=", 0) == inits;
    c->shares = how->shares;
    *comm = c;
    (void)note("init %d of %d, id %d, blocking %d, blocks %d\n", rank, size, id.bytes[0],
               how->blocking, how->most < 0 ? 0 : how->most);
    return how->blocking ? 0 : IN_PROGRESS;
}

/* The parent is in progress again; the part is not there before it no longer is. */
int ncclCommSplit(void *parent, int color, int key, void **comm, struct config *how)
{
    static long splits;
    struct comm *p = parent, *c = calloc(1, sizeof(*c));
    if (!c)
        return 1;
    splits++;
    p->asked = 0;
    p->hangs = habit("split_stuck=", 0) == splits;
    p->fails = habit("split_lost=", 0) == splits;
    c->is_part = 1;
    p->part = c;
    p->to = comm;
    *comm = NULL;
    (void)note("split part %d, place %d, %s, blocking %d, blocks %d\n", color, key,
               p->shares == 1 ? "shared" : "apart", how->blocking, how->most < 0 ? 0 : how->most);
    return how->blocking ? 0 : IN_PROGRESS;
}

int ncclCommDestroy(void *comm)
{
    int is_part = ((struct comm *)comm)->is_part;
    free(comm);
    return note(is_part ? "destroy part\n" : "destroy\n");
}

int ncclCommAbort(void *comm)
{
    int is_part = ((struct comm *)comm)->is_part;
    free(comm);
    return note(is_part ? "abort part\n" : "abort\n");
}

int ncclCommGetAsyncError(void *comm, int *state)
{
    struct comm *c = comm;
    *state = c->asked++ < 3 || c->hangs ? IN_PROGRESS : c->fails ? REMOTE : 0;
    if (*state == 0 && c->part) {
        *c->to = c->part;
        c->part = NULL;
    }
    return 0;
}

const char *ncclGetErrorString(int rc)
{
    return rc == REMOTE ? "remote process exited or there was a network error" : "an error";
}

/* Memory of the stand-in of CUDA, which knows what is the device's. */
static int of_cuda(const char *name, void **p, size_t bytes)
{
    const char *plugin = getenv("SN_PLUGIN");
    void *library = plugin ? dlopen(plugin, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *symbol = library ? dlsym(library, name) : NULL;
    int (*f)(void **, size_t);
    if (!symbol)
        abort();
    memcpy(&f, &symbol, sizeof(f));
    return f(p, bytes);
}

int ncclMemAlloc(void **p, size_t bytes);
int ncclMemFree(void *p);
int ncclCommRegister(void *comm, void *p, size_t bytes, void **handle);
int ncclCommDeregister(void *comm, void *handle);

int ncclMemAlloc(void **p, size_t bytes)
{
    (void)note("memory\n");
    return of_cuda("cudaMalloc", p, bytes);
}

int ncclMemFree(void *p)
{
    (void)note("free\n");
    return of_cuda("cudaFree", p, 0);
}

int ncclCommRegister(void *comm, void *p, size_t bytes, void **handle)
{
    *handle = p;
    return note("register%s\n", comm && p && bytes ? "" : " nothing");
}

int ncclCommDeregister(void *comm, void *handle)
{
    return note("deregister%s\n", comm && handle ? "" : " nothing");
}

/* Transfers move nothing. */
#define IDLE(name)                                                                                 \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return note(#name "\n");                                                                   \
    }
IDLE(ncclGroupStart)
IDLE(ncclGroupEnd)
IDLE(ncclAllReduce)
IDLE(ncclAllGather)
IDLE(ncclReduceScatter)
IDLE(ncclSend)
IDLE(ncclRecv)
