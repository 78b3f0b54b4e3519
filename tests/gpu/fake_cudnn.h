/*
 * fake_cudnn.h - what the two files of the stand-in for cuDNN share (fake_cudnn.c).
 */
#ifndef FAKE_CUDNN_H
#define FAKE_CUDNN_H

#include "kernels/cuda/cudnn.h"

enum { ATTRIBUTES = 12, SUCCESS = 0, BAD = 2000, UNSUPPORTED = 3000 };

struct attribute {
    int name, type;
    int64_t n;
    void *values;
};

struct descriptor {
    int kind, n;
    bool is_final;
    int engine;                /* of an engine's configuration */
    struct descriptor *answer; /* its graph */
    struct attribute a[ATTRIBUTES];
};

/* The number behind `name` ("version=") in FAKE_CUDNN. */
long fake_habit(const char *name, long otherwise);
/* Keep the text for cudnnGetLastErrorString(); returns status. */
int fake_says(int status, const char *text);

/* Attributes; NULL, -1, false: it is not set. */
const struct attribute *fake_find(const struct descriptor *d, int name);
struct descriptor *fake_descriptor(const struct descriptor *d, int name);
int64_t fake_int(const struct descriptor *d, int name);
bool fake_flag(const struct descriptor *d, int name);

/* ---- what the library exports ---- */

size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char *message, size_t room);
int cudnnCreate(void **handle);
int cudnnDestroy(void *handle);
int cudnnSetStream(void *handle, void *stream);
int cudnnBackendCreateDescriptor(int kind, void **descriptor);
int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t most, int64_t *n,
                             void *values);
int cudnnBackendFinalize(void *descriptor);
int cudnnBackendExecute(void *handle, void *plan, void *variant);

#endif
