/*
 * cudnn.h - as much of cuDNN as attention needs: the library, opened at run time, and its
 * descriptors, of which a graph of operations is made.
 *
 * Everything in cuDNN's graph API is a descriptor with attributes, each a number, a type and an
 * array. The numbers below are those of cuDNN 9 (cudnn_graph.h), which its major version keeps;
 * tests/unit/kernels/test_sdpa.c compares them with that header where it is installed. So the plugin is
 * built without cuDNN, and is the same where there is none. This file knows no CUDA either.
 *
 * What fails leaves a sentence in the set of descriptors, and all later calls do nothing, so that a
 * graph is written down without a test after each line.
 */
#ifndef SN_CUDA_CUDNN_H
#define SN_CUDA_CUDNN_H

#include "kernels/cuda/library.h"

#include <stdbool.h>
#include <stdint.h>

#define SN_CUDNN_FILE "libcudnn.so.9"

/* The first version whose attention writes its statistics in the strides that it is given. */
enum { SN_CUDNN_LEAST = 91200 };

/* Kinds of descriptors. */
enum {
    SN_CUDNN_POINTWISE = 0,
    SN_CUDNN_ENGINE_CONFIG = 3,
    SN_CUDNN_HEURISTICS = 4,
    SN_CUDNN_PLAN = 5,
    SN_CUDNN_POINTWISE_OP = 13,
    SN_CUDNN_GRAPH = 15,
    SN_CUDNN_VARIANT = 16,
    SN_CUDNN_TENSOR = 17,
    SN_CUDNN_MATMUL = 18,
    SN_CUDNN_MATMUL_OP = 19,
    SN_CUDNN_REDUCTION = 21,
    SN_CUDNN_REDUCTION_OP = 22,
    SN_CUDNN_RESHAPE_OP = 31,
    SN_CUDNN_DEVICE = 38
};

/* Types of attributes. */
enum {
    SN_CUDNN_IS_HANDLE = 0,
    SN_CUDNN_IS_DTYPE = 1,
    SN_CUDNN_IS_BOOL = 2,
    SN_CUDNN_IS_INT64 = 3,
    SN_CUDNN_IS_POINTER = 6,
    SN_CUDNN_IS_HEURISTIC = 8,
    SN_CUDNN_IS_POINTWISE = 14,
    SN_CUDNN_IS_DESCRIPTOR = 15,
    SN_CUDNN_IS_REDUCTION = 18,
    SN_CUDNN_IS_CHAR = 24
};

/* Attributes. */
enum {
    SN_CUDNN_POINTWISE_MODE = 0,
    SN_CUDNN_POINTWISE_PRECISION = 1,
    SN_CUDNN_POINTWISE_AXIS = 9,
    SN_CUDNN_HEURISTICS_MODE = 200,
    SN_CUDNN_HEURISTICS_GRAPH = 201,
    SN_CUDNN_HEURISTICS_RESULTS = 202,
    SN_CUDNN_HEURISTICS_DEVICE = 204,
    SN_CUDNN_CONFIG_WORKSPACE = 303,
    SN_CUDNN_PLAN_HANDLE = 400,
    SN_CUDNN_PLAN_CONFIG = 401,
    SN_CUDNN_PLAN_WORKSPACE = 402,
    SN_CUDNN_POINTWISE_OP_HOW = 750,
    SN_CUDNN_POINTWISE_OP_X = 751,
    SN_CUDNN_POINTWISE_OP_B = 752,
    SN_CUDNN_POINTWISE_OP_Y = 753,
    SN_CUDNN_POINTWISE_OP_T = 758,
    SN_CUDNN_GRAPH_HANDLE = 800,
    SN_CUDNN_GRAPH_OPS = 801,
    SN_CUDNN_TENSOR_ALIGNMENT = 900,
    SN_CUDNN_TENSOR_DTYPE = 901,
    SN_CUDNN_TENSOR_SIZES = 902,
    SN_CUDNN_TENSOR_STRIDES = 903,
    SN_CUDNN_TENSOR_ID = 906,
    SN_CUDNN_TENSOR_IS_VIRTUAL = 907,
    SN_CUDNN_TENSOR_BY_VALUE = 908,
    SN_CUDNN_VARIANT_IDS = 1000,
    SN_CUDNN_VARIANT_POINTERS = 1001,
    SN_CUDNN_VARIANT_WORKSPACE = 1003,
    SN_CUDNN_MATMUL_PRECISION = 1500,
    SN_CUDNN_MATMUL_OP_A = 1520,
    SN_CUDNN_MATMUL_OP_B = 1521,
    SN_CUDNN_MATMUL_OP_C = 1522,
    SN_CUDNN_MATMUL_OP_HOW = 1523,
    SN_CUDNN_REDUCTION_HOW = 1600,
    SN_CUDNN_REDUCTION_PRECISION = 1601,
    SN_CUDNN_REDUCTION_OP_X = 1610,
    SN_CUDNN_REDUCTION_OP_Y = 1611,
    SN_CUDNN_REDUCTION_OP_HOW = 1612,
    SN_CUDNN_RESHAPE_OP_X = 2200,
    SN_CUDNN_RESHAPE_OP_Y = 2201,
    SN_CUDNN_DEVICE_JSON = 2702
};

/* Values: data types, what an element becomes, sums and maxima, heuristics. */
enum {
    SN_CUDNN_F32 = 0,
    SN_CUDNN_F16 = 2,
    SN_CUDNN_I32 = 4,
    SN_CUDNN_BF16 = 9,
    SN_CUDNN_BOOL = 11
};
enum {
    SN_CUDNN_ADD = 0,
    SN_CUDNN_MUL = 1,
    SN_CUDNN_DIV = 6,
    SN_CUDNN_SUB = 9,
    SN_CUDNN_EXP = 13,
    SN_CUDNN_LOG = 15,
    SN_CUDNN_IDENTITY = 21,
    SN_CUDNN_AT_LEAST = 303,
    SN_CUDNN_INDEX = 501,
    SN_CUDNN_SELECT = 601
};
enum { SN_CUDNN_SUM = 0, SN_CUDNN_MAXIMUM = 3 };
enum { SN_CUDNN_HEURISTIC_A = 3 };

/* Functions of the library, in the order of cudnn.c's names. */
struct sn_cudnn {
    size_t (*version)(void);
    const char *(*text)(int status);
    void (*last)(char *message, size_t room);
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*make)(int kind, void **descriptor);
    int (*drop)(void *descriptor);
    int (*set)(void *descriptor, int attribute, int type, int64_t n, const void *values);
    int (*get)(void *descriptor, int attribute, int type, int64_t most, int64_t *n, void *values);
    int (*finalize)(void *descriptor);
    int (*execute)(void *handle, void *plan, void *variant);
};

/* Opened with the first call, for as long as the process lives. NULL: *why is a sentence. */
const struct sn_cudnn *sn_cudnn_open(const char **why);
/* Where it was opened from; only after it was. */
const char *sn_cudnn_path(void);

enum { SN_CUDNN_DESCRIPTORS = 160 };

/* Descriptors that belong together, and the sentence of the first call that failed. */
struct sn_cudnn_set {
    const struct sn_cudnn *api;
    int n;
    void *made[SN_CUDNN_DESCRIPTORS];
    bool has_failed;
    char why[240];
};

/* NULL when it fails, as when something has failed before. */
void *sn_cudnn_make(struct sn_cudnn_set *s, int kind);
void sn_cudnn_put(struct sn_cudnn_set *s, void *d, int attribute, int type, int64_t n,
                  const void *values);
void sn_cudnn_put_int(struct sn_cudnn_set *s, void *d, int attribute, int64_t value);
void sn_cudnn_put_enum(struct sn_cudnn_set *s, void *d, int attribute, int type, int value);
void sn_cudnn_put_descriptor(struct sn_cudnn_set *s, void *d, int attribute, void *value);
void sn_cudnn_finalize(struct sn_cudnn_set *s, void *d, const char *what);
/* Drop all of them. */
void sn_cudnn_drop(struct sn_cudnn_set *s);
/* Record a failure, with cuDNN's own words for it. */
void sn_cudnn_failed(struct sn_cudnn_set *s, int status, const char *what);

#endif
