/*
 * cudnn.c - see cudnn.h.
 */
#include "kernels/cuda/cudnn.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* In the order of struct sn_cudnn. */
static const char *const names[] = {"cudnnGetVersion",
                                    "cudnnGetErrorString",
                                    "cudnnGetLastErrorString",
                                    "cudnnCreate",
                                    "cudnnDestroy",
                                    "cudnnSetStream",
                                    "cudnnBackendCreateDescriptor",
                                    "cudnnBackendDestroyDescriptor",
                                    "cudnnBackendSetAttribute",
                                    "cudnnBackendGetAttribute",
                                    "cudnnBackendFinalize",
                                    "cudnnBackendExecute"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };
_Static_assert(sizeof(struct sn_cudnn) == NAMES * sizeof(void *), "a name for each function");

static struct {
    struct sn_library library;
    struct sn_cudnn api;
    bool is_there;
} cudnn;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    struct sn_library *l = &cudnn.library;
    if (sn_library_fill(l, SN_CUDNN_FILE, names, NAMES, &cudnn.api) != 0)
        return;
    size_t v = cudnn.api.version();
    cudnn.is_there = v >= SN_CUDNN_LEAST;
    if (!cudnn.is_there)
        (void)snprintf(l->why, sizeof(l->why),
                       "%.250s is cuDNN %zu.%zu.%zu; attention needs %d.%d or later", l->path,
                       v / 10000, v % 10000 / 100, v % 100, SN_CUDNN_LEAST / 10000,
                       SN_CUDNN_LEAST % 10000 / 100);
}

const struct sn_cudnn *sn_cudnn_open(const char **why)
{
    (void)pthread_once(&once, open_library); /* cannot fail with a constant */
    *why = cudnn.library.why;
    return cudnn.is_there ? &cudnn.api : NULL;
}

const char *sn_cudnn_path(void)
{
    return cudnn.library.path;
}

/* --- descriptors ------------------------------------------------------------------------------ */

void sn_cudnn_failed(struct sn_cudnn_set *s, int status, const char *what)
{
    char last[400] = "";
    if (s->has_failed)
        return;
    s->has_failed = true;
    s->api->last(last, sizeof(last));
    last[sizeof(last) - 1] = '\0';
    for (char *c = last; *c; c++)
        if (*c == '\n')
            *c = ' ';
    (void)snprintf(s->why, sizeof(s->why), "%s: %.60s%s%.120s", what, s->api->text(status),
                   last[0] ? ", " : "", last);
}

void *sn_cudnn_make(struct sn_cudnn_set *s, int kind)
{
    void *d = NULL;
    if (s->has_failed)
        return NULL;
    if (s->n == SN_CUDNN_DESCRIPTORS) {
        s->has_failed = true;
        (void)snprintf(s->why, sizeof(s->why), "more than %d descriptors", SN_CUDNN_DESCRIPTORS);
        return NULL;
    }
    int rc = s->api->make(kind, &d);
    if (rc != 0) {
        sn_cudnn_failed(s, rc, "a descriptor");
        return NULL;
    }
    s->made[s->n++] = d;
    return d;
}

void sn_cudnn_put(struct sn_cudnn_set *s, void *d, int attribute, int type, int64_t n,
                  const void *values)
{
    char what[40];
    if (s->has_failed)
        return;
    int rc = s->api->set(d, attribute, type, n, values);
    if (rc == 0)
        return;
    (void)snprintf(what, sizeof(what), "attribute %d", attribute);
    sn_cudnn_failed(s, rc, what);
}

void sn_cudnn_put_int(struct sn_cudnn_set *s, void *d, int attribute, int64_t value)
{
    sn_cudnn_put(s, d, attribute, SN_CUDNN_IS_INT64, 1, &value);
}

void sn_cudnn_put_enum(struct sn_cudnn_set *s, void *d, int attribute, int type, int value)
{
    sn_cudnn_put(s, d, attribute, type, 1, &value);
}

void sn_cudnn_put_descriptor(struct sn_cudnn_set *s, void *d, int attribute, void *value)
{
    sn_cudnn_put(s, d, attribute, SN_CUDNN_IS_DESCRIPTOR, 1, &value);
}

void sn_cudnn_finalize(struct sn_cudnn_set *s, void *d, const char *what)
{
    int rc = s->has_failed ? 0 : s->api->finalize(d);
    if (rc != 0)
        sn_cudnn_failed(s, rc, what);
}

void sn_cudnn_drop(struct sn_cudnn_set *s)
{
    while (s->n > 0)
        (void)s->api->drop(s->made[--s->n]); /* nothing follows from a failure here */
}
