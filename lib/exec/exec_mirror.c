/*
 * exec_mirror.c - memory of the executor on a device: the arenas there, mirrors of them here, and
 * what goes from one to the other between runs.
 *
 * Mirrors are reserved, not touched: of the state's, saves and loads fill weights, masters and
 * moments; of the arenas' second one, what communication through this process moves. The state's
 * stays as it is between two pulls, so that a save may read it while the device goes on. What saves
 * read is page-locked when the first one comes; what goes over with each step, scalars, batch and
 * first samples, is in page-locked memory of the device's driver from the begin.
 */
#include "lib/exec/exec_device.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/program/boxes.h"

static enum sn_status arenas(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    char size[16];
    bool fits = true;
    for (int a = 0; a < SN_NARENAS && fits; a++) {
        void *there = NULL;
        fits = v->ops->alloc(v->d, (size_t)j->arena_bytes[a], &there) == 0;
        x->arena[a] = there;
    }
    if (!fits)
        return sn_fail(err, SN_ENOMEM,
                       "executor: %s has no room for the %s that the plan asks for: %s; lower "
                       "layout.micro_batch or use more ranks",
                       v->accelerator->info.name, sn_str_bytes(size, sn_job_arena_bytes(j)),
                       v->ops->explain(v->d));
    return SN_OK;
}

/* The end of the state, from the batch on, and then first samples. */
static enum sn_status small_block(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    size_t first = (size_t)j->train.micros * sizeof(*v->first_sample);
    void *small = NULL;
    x->small_from = j->class_offset[SN_CLASS_BATCH];
    size_t bytes = (size_t)(j->arena_bytes[SN_ARENA_STATE] - x->small_from); /* whole pages */
    if (v->ops->host_alloc(v->d, bytes + first, &small) != 0)
        return sn_device_fail(x, NULL, err);
    x->small = small;
    v->first_sample = (int64_t *)(void *)(x->small + bytes);
    return SN_OK;
}

static enum sn_status mirrors(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    size_t places = (size_t)x->first_request[j->train.next_id] + 1;
    x->here[SN_ARENA_STATE] = sn_arena_reserve((size_t)j->arena_bytes[SN_ARENA_STATE]);
    v->bounce = sn_arena_reserve((size_t)sn_job_arena_bytes(j));
    v->request = sn_alloc_n(places, sizeof(*v->request));
    v->places = (int)places;
    v->rows = sn_alloc_n((size_t)j->group_size[SN_GROUP_WORLD], 2 * sizeof(*v->rows));
    if (!v->rows || !x->here[SN_ARENA_STATE] || !v->bounce || !v->request)
        return sn_fail(err, SN_ENOMEM, "executor: no memory for the mirror of the device's state");
    SN_TRY(small_block(x, err));
    if (v->ops->make_events(v->d, SN_EVENT_DONE + (int)places) != 0)
        return sn_device_fail(x, NULL, err);
    return SN_OK;
}

enum sn_status sn_mirror_create(struct sn_exec *x, struct sn_accelerator *a, struct sn_err *err)
{
    const struct sn_config *c = x->job->config;
    if (c->layout.compress.guard > 0 && sn_config_compresses(c)) /* graphs keep what they send */
        return sn_fail(err, SN_EINPUT,
                       "layout.compress.guard: %g, but on a device messages cannot change their "
                       "codec; use 0, or run.backend: cpu",
                       c->layout.compress.guard);
    struct sn_exec_device *v = sn_alloc(sizeof(*v));
    if (!v)
        return sn_fail(err, SN_ENOMEM, "executor: no memory");
    x->device = v;
    v->accelerator = a;
    v->ops = a->ops;
    v->d = a->device;
    sn_ranges_open(x);
    SN_TRY(arenas(x, err));
    return mirrors(x, err);
}

void sn_mirror_forget_graphs(struct sn_exec *x)
{
    struct sn_exec_device *v = x->device;
    for (int i = 0; v->graph && i < v->cuts; i++)
        if (v->graph[i])
            v->ops->graph_free(v->d, v->graph[i]);
    sn_free(v->graph);
    v->graph = NULL;
    v->runs = v->cuts = 0;
}

void sn_mirror_destroy(struct sn_exec *x)
{
    struct sn_exec_device *v = x->device;
    const struct sn_job *j = x->job;
    if (!v || v->accelerator->is_hung) /* it may still write to this process's memory */
        return;
    sn_mirror_forget_graphs(x);
    for (int a = 0; a < SN_NARENAS; a++)
        v->ops->release(v->d, x->arena[a]);
    for (int c = 0; c < SN_NSTATE_CLASSES; c++)
        if (v->is_pinned[c])
            v->ops->unpin(v->d, sn_exec_here(x, sn_exec_class(x, (enum sn_class)c)));
    v->ops->host_free(v->d, x->small);
    sn_arena_unmap(v->bounce, (size_t)sn_job_arena_bytes(j));
    sn_arena_unmap(x->here[SN_ARENA_STATE], (size_t)j->arena_bytes[SN_ARENA_STATE]);
    sn_free(v->rows);
    sn_free(v->clocks);
    sn_free(v->request);
    sn_free(v);
}

char *sn_device_bounce(const struct sn_exec *x, const void *at)
{
    const char *p = at;
    const int64_t *bytes = x->job->arena_bytes;
    char *mirror = x->device->bounce;
    int a = 0;
    for (; a < SN_NARENAS - 1 && !(p >= x->arena[a] && p < x->arena[a] + bytes[a]); a++)
        mirror += bytes[a];
    return mirror + (p - x->arena[a]);
}

/* --- what the rest of the process sees -------------------------------------------------------- */

/* A system that refuses is slower, and right: that is said once. */
static void pin_class(struct sn_exec *x, enum sn_class c)
{
    struct sn_exec_device *v = x->device;
    int64_t bytes = x->job->class_bytes[c];
    char size[16];
    if (v->is_pinned[c] || v->is_refused)
        return;
    v->is_pinned[c] = v->ops->pin(v->d, sn_exec_here(x, sn_exec_class(x, c)), (size_t)bytes) == 0;
    v->is_refused = !v->is_pinned[c];
    if (v->is_refused)
        sn_log(SN_LOG_WARN,
               "rank %d: %s of host memory for saves are not page-locked: %s; saves are right, but "
               "copies of the state are slower, and wait",
               x->comm->rank, sn_str_bytes(size, bytes), v->ops->explain(v->d));
}

static enum sn_status pull_class(struct sn_exec *x, enum sn_class c, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    struct sn_address at = sn_exec_class(x, c);
    int64_t bytes = x->job->class_bytes[c];
    if (bytes > 0)
        pin_class(x, c);
    if (bytes == 0 || v->ops->copy(v->d, SN_STREAM_COPY, sn_exec_here(x, at), sn_exec_there(x, at),
                                   (size_t)bytes, SN_TO_HOST) == 0)
        return SN_OK;
    return sn_device_fail(x, NULL, err);
}

/* Between two runs nothing is under way on COMPUTE: the copy need not wait for it. */
enum sn_status sn_mirror_pull_begin(struct sn_exec *x, struct sn_err *err)
{
    SN_TRY(sn_mirror_pull_wait(x, err));
    bool replicas = sn_job_has_state(x->job, SN_STATE_REPLICA); /* state of their own */
    if (x->job->dtype == SN_F32 || replicas) /* fp32: the weights are the masters */
        SN_TRY(pull_class(x, SN_CLASS_PARAM, err));
    SN_TRY(pull_class(x, SN_CLASS_OPTIM, err));
    x->device->is_pulling = true;
    return SN_OK;
}

enum sn_status sn_mirror_pull_wait(struct sn_exec *x, struct sn_err *err)
{
    struct sn_exec_device *v = x->device;
    if (!v->is_pulling)
        return SN_OK;
    v->is_pulling = false;
    return sn_device_wait_on(x, SN_STREAM_COPY, err);
}

static enum sn_status push_class(struct sn_exec *x, enum sn_class c, struct sn_err *err)
{
    struct sn_address at = sn_exec_class(x, c);
    return sn_device_copy(x, sn_exec_there(x, at), sn_exec_here(x, at), x->job->class_bytes[c],
                          SN_TO_DEVICE, err);
}

enum sn_status sn_mirror_push(struct sn_exec *x, struct sn_err *err)
{
    SN_TRY(push_class(x, SN_CLASS_PARAM, err));
    SN_TRY(push_class(x, SN_CLASS_OPTIM, err));
    return sn_device_wait(x, err);
}

enum sn_status sn_mirror_fetch(struct sn_exec *x, const char *at, int64_t bytes, const void **out,
                               struct sn_err *err)
{
    char *here = sn_device_bounce(x, at);
    *out = here;
    SN_TRY(sn_device_copy(x, here, at, bytes, SN_TO_HOST, err));
    return sn_device_wait(x, err);
}
