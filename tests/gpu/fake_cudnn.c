/*
 * fake_cudnn.c - a cuDNN that computes on the host: what kernels/cuda/cudnn.c opens in tests.
 *
 * It knows no attention. It keeps descriptors with their attributes, refuses what is not finalized,
 * and executes a graph operation by operation, reading and writing operands by the sizes and
 * strides that it was given: what comes out is what the graph says, not what it was meant to say.
 * Sums are of doubles; what passes between operations is rounded to its type. While it computes its
 * workspace is overwritten, so that nothing of ours may lie there.
 *
 * Here are descriptors; fake_cudnn_run.c computes.
 *
 * FAKE_CUDNN="version=91100 create=1 engines=0 first=N workspace=N plans=0 fails=1" sets what it
 * says: its version, a status of cudnnCreate, how many engines there are (-1: it knows no such
 * graph), the bytes that the first and the other one want, whether plans and executions fail.
 * FAKE_CUDNN_LOG names a file that gets a line for each execution.
 */
#include "tests/gpu/fake_cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last[256];

long fake_habit(const char *name, long otherwise)
{
    const char *text = getenv("FAKE_CUDNN");
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

int fake_says(int status, const char *text)
{
    (void)snprintf(last, sizeof(last), "%s", text);
    return status;
}

/* --- what the library exports ----------------------------------------------------------------- */

size_t cudnnGetVersion(void)
{
    return (size_t)fake_habit("version=", 91900);
}

const char *cudnnGetErrorString(int status)
{
    return status == BAD           ? "CUDNN_STATUS_BAD_PARAM"
           : status == UNSUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == 1           ? "CUDNN_STATUS_NOT_INITIALIZED"
                                   : "CUDNN_STATUS_SUCCESS";
}

void cudnnGetLastErrorString(char *message, size_t room)
{
    (void)snprintf(message, room, "%s", last);
}

static int the_handle;

int cudnnCreate(void **handle)
{
    *handle = &the_handle;
    return (int)fake_habit("create=", SUCCESS);
}

int cudnnDestroy(void *handle)
{
    return handle == &the_handle ? SUCCESS : BAD;
}

int cudnnSetStream(void *handle, void *stream)
{
    (void)stream;
    return handle == &the_handle ? SUCCESS : BAD;
}

int cudnnBackendCreateDescriptor(int kind, void **descriptor)
{
    struct descriptor *d = calloc(1, sizeof(*d));
    if (!d)
        return fake_says(BAD, "no memory");
    d->kind = kind;
    *descriptor = d;
    return SUCCESS;
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    struct descriptor *d = descriptor;
    for (int i = 0; i < d->n; i++)
        free(d->a[i].values);
    free(d);
    return SUCCESS;
}

static size_t size_of(int type)
{
    switch (type) {
    case SN_CUDNN_IS_BOOL:
    case SN_CUDNN_IS_CHAR:
        return 1;
    case SN_CUDNN_IS_DTYPE:
    case SN_CUDNN_IS_HEURISTIC:
    case SN_CUDNN_IS_POINTWISE:
    case SN_CUDNN_IS_REDUCTION:
        return sizeof(int);
    default:
        return 8; /* integers, pointers, descriptors */
    }
}

const struct attribute *fake_find(const struct descriptor *d, int name)
{
    for (int i = 0; d && i < d->n; i++)
        if (d->a[i].name == name)
            return &d->a[i];
    return NULL;
}

int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values)
{
    struct descriptor *d = descriptor;
    if (d->is_final || fake_find(d, name) || d->n == ATTRIBUTES || n < 1)
        return fake_says(BAD, "an attribute is set twice, or too late");
    for (int64_t i = 0; type == SN_CUDNN_IS_DESCRIPTOR && i < n; i++) {
        const struct descriptor *of = ((struct descriptor *const *)values)[i];
        if (!of || !of->is_final)
            return fake_says(BAD, "a descriptor is not finalized");
    }
    struct attribute *a = &d->a[d->n++];
    *a = (struct attribute){name, type, n, malloc((size_t)n * size_of(type))};
    if (!a->values)
        abort();
    memcpy(a->values, values, (size_t)n * size_of(type));
    return SUCCESS;
}

struct descriptor *fake_descriptor(const struct descriptor *d, int name)
{
    const struct attribute *a = fake_find(d, name);
    return a && a->type == SN_CUDNN_IS_DESCRIPTOR ? ((struct descriptor **)a->values)[0] : NULL;
}

int64_t fake_int(const struct descriptor *d, int name)
{
    const struct attribute *a = fake_find(d, name);
    return !a ? -1 : size_of(a->type) == 8 ? *(int64_t *)a->values : *(int *)a->values;
}

bool fake_flag(const struct descriptor *d, int name)
{
    const struct attribute *a = fake_find(d, name);
    return a && *(bool *)a->values;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t most, int64_t *n,
                             void *values)
{
    struct descriptor *d = descriptor, *config = d;
    (void)type;
    *n = 1;
    if (name == SN_CUDNN_HEURISTICS_RESULTS && d->is_final) {
        *n = fake_habit("engines=", 2) < most ? fake_habit("engines=", 2) : most;
        for (int64_t i = 0; i < *n; i++) {
            struct descriptor *to = ((struct descriptor **)values)[i];
            to->engine = (int)i;
            to->answer = fake_descriptor(d, SN_CUDNN_HEURISTICS_GRAPH);
            to->is_final = true;
        }
        return SUCCESS;
    }
    if (name == SN_CUDNN_PLAN_WORKSPACE)
        config = fake_descriptor(d, SN_CUDNN_PLAN_CONFIG);
    else if (name != SN_CUDNN_CONFIG_WORKSPACE)
        return fake_says(BAD, "no such attribute");
    *(int64_t *)values = fake_habit(config->engine == 0 ? "first=" : "workspace=", 4096);
    return SUCCESS;
}

/* What a descriptor is not whole without. */
static const struct {
    int kind, n, names[5];
} needed[] = {
    {SN_CUDNN_TENSOR,
     5,
     {SN_CUDNN_TENSOR_DTYPE, SN_CUDNN_TENSOR_SIZES, SN_CUDNN_TENSOR_STRIDES, SN_CUDNN_TENSOR_ID,
      SN_CUDNN_TENSOR_ALIGNMENT}},
    {SN_CUDNN_MATMUL, 1, {SN_CUDNN_MATMUL_PRECISION}},
    {SN_CUDNN_POINTWISE, 2, {SN_CUDNN_POINTWISE_MODE, SN_CUDNN_POINTWISE_PRECISION}},
    {SN_CUDNN_REDUCTION, 2, {SN_CUDNN_REDUCTION_HOW, SN_CUDNN_REDUCTION_PRECISION}},
    {SN_CUDNN_MATMUL_OP,
     4,
     {SN_CUDNN_MATMUL_OP_A, SN_CUDNN_MATMUL_OP_B, SN_CUDNN_MATMUL_OP_C, SN_CUDNN_MATMUL_OP_HOW}},
    {SN_CUDNN_POINTWISE_OP,
     3,
     {SN_CUDNN_POINTWISE_OP_X, SN_CUDNN_POINTWISE_OP_Y, SN_CUDNN_POINTWISE_OP_HOW}},
    {SN_CUDNN_REDUCTION_OP,
     3,
     {SN_CUDNN_REDUCTION_OP_X, SN_CUDNN_REDUCTION_OP_Y, SN_CUDNN_REDUCTION_OP_HOW}},
    {SN_CUDNN_RESHAPE_OP, 2, {SN_CUDNN_RESHAPE_OP_X, SN_CUDNN_RESHAPE_OP_Y}},
    {SN_CUDNN_GRAPH, 2, {SN_CUDNN_GRAPH_HANDLE, SN_CUDNN_GRAPH_OPS}},
    {SN_CUDNN_HEURISTICS, 2, {SN_CUDNN_HEURISTICS_GRAPH, SN_CUDNN_HEURISTICS_MODE}},
    {SN_CUDNN_PLAN, 2, {SN_CUDNN_PLAN_HANDLE, SN_CUDNN_PLAN_CONFIG}},
    {SN_CUDNN_VARIANT,
     3,
     {SN_CUDNN_VARIANT_IDS, SN_CUDNN_VARIANT_POINTERS, SN_CUDNN_VARIANT_WORKSPACE}},
};

int cudnnBackendFinalize(void *descriptor)
{
    struct descriptor *d = descriptor;
    size_t k = 0;
    while (k < sizeof(needed) / sizeof(needed[0]) && needed[k].kind != d->kind)
        k++;
    if (k == sizeof(needed) / sizeof(needed[0]))
        return fake_says(BAD, "no such kind of descriptor");
    for (int i = 0; i < needed[k].n; i++)
        if (!fake_find(d, needed[k].names[i]))
            return fake_says(BAD, "an attribute is missing");
    if (d->kind == SN_CUDNN_HEURISTICS && fake_habit("engines=", 2) < 0)
        return fake_says(UNSUPPORTED, "no engine\nknows this graph");
    if (d->kind == SN_CUDNN_PLAN && !fake_habit("plans=", 1))
        return fake_says(UNSUPPORTED, "the kernel was not loaded");
    d->is_final = true;
    return SUCCESS;
}
