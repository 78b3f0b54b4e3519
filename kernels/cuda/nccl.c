/*
 * nccl.c - channels between devices: NCCL, opened at run time, because machines with one device
 * often have none. Written against NCCL 2.18 and later.
 *
 * NCCL sums in an order of its own (rings, trees), the same in each run on the same ranks; bf16 and
 * fp16 may be rounded at each step. So losses differ from those of the host's sums by rounding.
 */
#include "kernels/cuda/plugin.h"

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(SN_DEVICE_ID >= NCCL_UNIQUE_ID_BYTES, "an id has room in a channel's name");

/* What we call of it. */
struct library {
    ncclResult_t (*version)(int *);
    ncclResult_t (*get_id)(ncclUniqueId *);
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
    ncclResult_t (*destroy)(ncclComm_t);
    ncclResult_t (*abort)(ncclComm_t);
    ncclResult_t (*error)(ncclComm_t, ncclResult_t *);
    const char *(*text)(ncclResult_t);
    ncclResult_t (*begin)(void);
    ncclResult_t (*end)(void);
    ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t, cudaStream_t);
    ncclResult_t (*all_gather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                               cudaStream_t);
    ncclResult_t (*reduce_scatter)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                   ncclComm_t, cudaStream_t);
    ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*receive)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
};

/* Functions in the order of the struct, whose members are pointers alone. */
static const char *const symbols[] = {
    "ncclGetVersion",     "ncclGetUniqueId", "ncclCommInitRankConfig",
    "ncclCommDestroy",    "ncclCommAbort",   "ncclCommGetAsyncError",
    "ncclGetErrorString", "ncclGroupStart",  "ncclGroupEnd",
    "ncclAllReduce",      "ncclAllGather",   "ncclReduceScatter",
    "ncclSend",           "ncclRecv"};
_Static_assert(sizeof(struct library) == sizeof(symbols), "one name for each function");

enum { LEAST = 21800 };

static struct library nccl; /* filled once, before any device is open */
static ncclResult_t (*split_comm)(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *); /* or NULL */
static struct sn_library library;

static const ncclDataType_t type_of[SN_NDTYPES] = {
    [SN_F32] = ncclFloat32, [SN_BF16] = ncclBfloat16, [SN_F16] = ncclFloat16,
    [SN_F64] = ncclFloat64, [SN_I32] = ncclInt32,     [SN_U8] = ncclUint8};

static int check(struct sn_device *d, ncclResult_t rc, const char *what)
{
    return rc == ncclSuccess ? 0 : sn_cuda_fail(d, "nccl: %s: %s", what, nccl.text(rc));
}

/* Communicators do not block: what takes its time (meeting the others, connections) says that it is
 * in progress, and is looked at until it is over. */
static int settle(struct sn_device *d, int channel, ncclResult_t rc, const char *what)
{
    struct timespec began, now, nap = {0, 50000};
    (void)clock_gettime(CLOCK_MONOTONIC, &began); /* cannot fail */
    while (rc == ncclInProgress) {
        ncclResult_t asked = nccl.error(d->channel[channel], &rc);
        if (asked != ncclSuccess)
            return check(d, asked, what);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        if (rc == ncclInProgress && d->patience_s > 0 &&
            now.tv_sec - began.tv_sec > d->patience_s) {
            (void)sn_cuda_fail(d, "nccl: %s: not all have come after %d s", what, d->patience_s);
            return SN_DEVICE_HANGS;
        }
        if (rc == ncclInProgress)
            (void)nanosleep(&nap, NULL); /* a signal ends it sooner, which is as good */
    }
    return check(d, rc, what);
}

static int channel_id(struct sn_device *d, char id[SN_DEVICE_ID])
{
    ncclUniqueId unique;
    if (check(d, nccl.get_id(&unique), "naming a channel") != 0)
        return -1;
    memset(id, 0, SN_DEVICE_ID);
    memcpy(id, unique.internal, sizeof(unique.internal));
    return 0;
}

/* Within a group calls are only noted down. */
static bool may_go_on(ncclResult_t rc)
{
    return rc == ncclSuccess || rc == ncclInProgress;
}

/* Pieces to and from every member, at the same time. */
static ncclResult_t exchange(struct sn_device *d, int channel, const struct sn_device_transfer *t,
                             cudaStream_t stream)
{
    ncclComm_t c = d->channel[channel];
    int64_t row = t->n * (int64_t)sn_dtype_size(t->dtype);
    ncclResult_t rc = nccl.begin(), ended;
    for (int m = 0; m < d->members[channel] && may_go_on(rc); m++) {
        struct sn_device_rows to = {m, 1}, from = {m, 1};
        if (t->kind == SN_DEVICE_ROWS) {
            to = t->to[m];
            from = t->from[m];
        }
        if (to.n > 0)
            rc = nccl.send((const char *)t->in + to.at * row, (size_t)(to.n * t->n),
                           type_of[t->dtype], m, c, stream);
        if (from.n > 0 && may_go_on(rc))
            rc = nccl.receive((char *)t->out + from.at * row, (size_t)(from.n * t->n),
                              type_of[t->dtype], m, c, stream);
    }
    ended = nccl.end();
    return may_go_on(rc) ? ended : rc;
}

/* NCCL connects two ranks when they first send to each other, and that call returns when the peer
 * has come, too. In a step it would keep this process from what the peer waits for: a stage posts
 * its first receive of gradients before a forward that the sender may need. So they meet here. */
static int connect_pair(struct sn_device *d, int channel)
{
    void *room = NULL; /* what is sent means nothing */
    if (sn_cuda_check(d, cudaMalloc(&room, 4 * sizeof(float)), "memory of a channel") != 0)
        return -1;
    struct sn_device_transfer t = {.kind = SN_DEVICE_ALL_TO_ALL,
                                   .dtype = SN_F32,
                                   .n = 1,
                                   .in = room,
                                   .out = (float *)room + 2};
    int rc = settle(d, channel, exchange(d, channel, &t, d->stream[0]), "connecting");
    rc = rc ? rc : sn_cuda_settle(d, "connecting");
    if (rc != SN_DEVICE_HANGS)
        (void)cudaFree(room); /* nothing follows from a failure here */
    return rc;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Looked for when somebody asks: NCCL has them since 2.19. */
static struct memory {
    ncclResult_t (*alloc)(void **, size_t);
    ncclResult_t (*release)(void *);
    ncclResult_t (*enrol)(const ncclComm_t, void *, size_t, void **);
    ncclResult_t (*strike)(const ncclComm_t, void *);
} memory;

static int take(struct sn_device *d, size_t bytes, void **out)
{
    static const char *const name[] = {"ncclMemAlloc", "ncclMemFree", "ncclCommRegister",
                                       "ncclCommDeregister"};
    void *at[4];
    for (int i = 0; i < 4; i++)
        if (sn_library_find(&library, &at[i], name[i]) != 0)
            return sn_cuda_fail(d, "run.channel_register: %s", library.why);
    memcpy(&memory, at, sizeof(memory)); /* as POSIX asks: no cast of a data pointer */
    if (d->n_blocks == SN_CUDA_BLOCKS)
        return sn_cuda_fail(d, "nccl: more than %d blocks of memory", (int)SN_CUDA_BLOCKS);
    if (check(d, memory.alloc(out, bytes), "memory of the device") != 0)
        return -1;
    d->block[d->n_blocks].p = *out;
    d->block[d->n_blocks++].bytes = bytes;
    return 0;
}

static bool give_back(struct sn_device *d, void *p)
{
    for (int i = 0; i < d->n_blocks && p; i++)
        if (d->block[i].p == p) {
            for (int c = 0; c < SN_DEVICE_CHANNELS; c++)
                if (d->block[i].known[c] && d->channel[c])
                    (void)memory.strike(d->channel[c], d->block[i].known[c]);
            (void)memory.release(p); /* the device may have failed */
            d->block[i].p = NULL;
            return true;
        }
    return false;
}

/* All blocks that there are, with a channel that has come about. */
static int enrol(struct sn_device *d, int channel)
{
    int rc = 0;
    for (int i = 0; i < d->n_blocks && rc == 0; i++)
        if (d->block[i].p)
            rc = settle(d, channel,
                        memory.enrol(d->channel[channel], d->block[i].p, d->block[i].bytes,
                                     &d->block[i].known[channel]),
                        "registering memory");
    return rc;
}

/* --- begin and end ---------------------------------------------------------------------------- */

/* splitShare is asked of the whole: its parts then use its memory, connections and threads. */
static ncclConfig_t habits(const struct sn_device *d)
{
    ncclConfig_t how = NCCL_CONFIG_INITIALIZER;
    how.blocking = 0;
    how.splitShare = 1;
    if (d->channel_ctas > 0)
        how.maxCTAs = d->channel_ctas;
    return how;
}

static int join(struct sn_device *d, int channel, const char id[SN_DEVICE_ID], int size, int index)
{
    ncclUniqueId unique;
    ncclConfig_t how = habits(d);
    memcpy(unique.internal, id, sizeof(unique.internal));
    ncclComm_t made = NULL;
    ncclResult_t begun = nccl.init(&made, size, unique, index, &how);
    d->channel[channel] = made;
    d->members[channel] = size;
    d->index[channel] = index;
    int rc = settle(d, channel, begun, "joining");
    rc = rc ? rc : enrol(d, channel);
    return rc == 0 && size == 2 ? connect_pair(d, channel) : rc;
}

/* Until the whole says that it is no longer in progress the part is not there: NCCL writes its
 * address then. */
static int split(struct sn_device *d, int channel, int whole, int part, int size, int index)
{
    ncclConfig_t how = habits(d);
    d->members[channel] = size;
    d->index[channel] = index;
    d->is_part[channel] = true;
    int rc =
        settle(d, whole,
               split_comm(d->channel[whole], part, index, (ncclComm_t *)&d->channel[channel], &how),
               "splitting");
    if (rc == 0 && !d->channel[channel])
        return sn_cuda_fail(d, "nccl: splitting: it gave no communicator");
    rc = rc ? rc : settle(d, channel, ncclInProgress, "splitting");
    return rc ? rc : enrol(d, channel);
}

/* NCCL writes sums and does not add to what is there: the sum goes to the own block of what was
 * read, and from there to `out`. */
static int add_scattered(struct sn_device *d, int stream, int channel,
                         const struct sn_device_transfer *t)
{
    char *own =
        (char *)(uintptr_t)t->in + d->index[channel] * t->n * (int64_t)sn_dtype_size(t->dtype);
    struct sn_args a = {.in = {{own, t->dtype, 1, t->n, t->n}},
                        .out = {{t->out, t->dtype, 1, t->n, t->n}},
                        .acc = {SN_ADD}};
    int rc = settle(d, channel,
                    nccl.reduce_scatter(t->in, own, (size_t)t->n, type_of[t->dtype], ncclSum,
                                        d->channel[channel], d->stream[stream]),
                    "reduce_scatter");
    if (rc)
        return rc;
    d->cuda.stream = d->stream[stream];
    if (sn_cuda_run_op(&d->cuda, SN_OP_COPY, &a) == 0)
        return 0;
    return sn_cuda_fail(d, "%s (code %d)", d->cuda.fault.what, d->cuda.fault.code);
}

static int transfer(struct sn_device *d, int stream, int channel,
                    const struct sn_device_transfer *t)
{
    ncclComm_t c = d->channel[channel];
    cudaStream_t s = d->stream[stream];
    ncclDataType_t type = type_of[t->dtype];
    size_t n = (size_t)t->n;
    const void *in = t->in ? t->in : t->out;
    switch (t->kind) {
    case SN_DEVICE_ALL_REDUCE:
        return settle(d, channel, nccl.all_reduce(in, t->out, n, type, ncclSum, c, s),
                      "all_reduce");
    case SN_DEVICE_ALL_GATHER:
        return settle(d, channel, nccl.all_gather(in, t->out, n, type, c, s), "all_gather");
    case SN_DEVICE_REDUCE_SCATTER:
        if (t->add)
            return add_scattered(d, stream, channel, t);
        return settle(d, channel, nccl.reduce_scatter(in, t->out, n, type, ncclSum, c, s),
                      "reduce_scatter");
    case SN_DEVICE_SEND:
        return settle(d, channel, nccl.send(in, n, type, t->peer, c, s), "send");
    case SN_DEVICE_RECV:
        return settle(d, channel, nccl.receive(t->out, n, type, t->peer, c, s), "receive");
    case SN_DEVICE_ALL_TO_ALL:
    case SN_DEVICE_ROWS:
        return settle(d, channel, exchange(d, channel, t, s), "exchange");
    }
    return sn_cuda_fail(d, "nccl: no transfer of kind %d", (int)t->kind);
}

static int look(struct sn_device *d)
{
    for (int i = 0; i < SN_DEVICE_CHANNELS; i++) {
        ncclResult_t state = ncclSuccess;
        if (!d->channel[i] || d->is_aborted)
            continue;
        if (check(d, nccl.error(d->channel[i], &state), "looking at a channel") != 0)
            return -1;
        if (state != ncclInProgress && check(d, state, "a peer or the network") != 0)
            return -1;
    }
    return 0;
}

/* All of them, parts before what they are parts of: those share what it owns. */
static void end_all(struct sn_device *d, ncclResult_t (*end)(ncclComm_t))
{
    for (int i = 0; i < 2 * SN_DEVICE_CHANNELS; i++) {
        int c = i % SN_DEVICE_CHANNELS;
        if (!d->channel[c] || d->is_part[c] != (i < SN_DEVICE_CHANNELS))
            continue;
        (void)end(d->channel[c]); /* whatever it says, it is gone */
        d->channel[c] = NULL;
    }
}

/* Parts have the whole's mark of an abort: one alone could not be aborted. */
static void abort_channels(struct sn_device *d)
{
    d->is_aborted = true;
    end_all(d, nccl.abort);
}

/* All work is done, or it was aborted. */
static void leave(struct sn_device *d)
{
    end_all(d, nccl.destroy);
}

/* Transfers of several channels run beside each other, and each waits for its peer, so none may
 * hold up another. What the user has set stands.
 *
 * Streams that share one of the device's queues wait for each other; there are 8 unless one asks.
 *
 * A device may have no room to run two transfers at once. NCCL then begins them in the order of the
 * calls, if asked: a transfer begins when the one before it has, and nothing hangs
 * (tests/unit/verify/test_verify_launch.c). Drivers before CUDA 12.9 cannot tell of a launch within a
 * graph that it has begun; there NCCL would wait until the one before it is over, and a stage that
 * posts its next receive early would wait for ever. */
static void set_habits(void)
{
    int driver = 0;
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12090)
        (void)setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

static bool open_library(void)
{
    struct library found;
    int version = 0;
    if (sn_library_fill(&library, "libnccl.so.2", symbols, sizeof(symbols) / sizeof(symbols[0]),
                        &found) != 0)
        return false;
    if (found.version(&version) != ncclSuccess || version < LEAST) {
        (void)snprintf(library.why, sizeof(library.why),
                       "%.200s is version %d.%d.%d, and channels need 2.18 or later", library.path,
                       version / 10000, version % 10000 / 100, version % 100);
        return false;
    }
    nccl = found;
    void *at = NULL;
    if (sn_library_find(&library, &at, "ncclCommSplit") == 0) /* since 2.18; builds may lack it */
        memcpy(&split_comm, &at, sizeof(split_comm));
    library.why[0] = '\0';
    set_habits();
    return true;
}

const char *sn_cuda_no_channels(void)
{
    static char why[sizeof(library.why) + 8]; /* the same for all who ask */
    (void)snprintf(why, sizeof(why), "NCCL: %s", library.why);
    return why;
}

void sn_cuda_say_channels(char *text, size_t room)
{
    int v = 0;
    (void)nccl.version(&v); /* it did not fail before */
    (void)snprintf(text, room, "NCCL %d.%d.%d (%.200s)", v / 10000, v % 10000 / 100, v % 100,
                   library.path);
}

const struct sn_cuda_channels *sn_cuda_channels(void)
{
    static struct sn_cuda_channels channels = {.channel_id = channel_id,
                                               .join = join,
                                               .alloc = take,
                                               .release = give_back,
                                               .transfer = transfer,
                                               .look = look,
                                               .abort = abort_channels,
                                               .leave = leave};
    if (!nccl.get_id && !library.why[0] && !open_library()) /* it is looked for once */
        return NULL;
    channels.split = split_comm ? split : NULL;
    return nccl.get_id ? &channels : NULL;
}
