/*
 * plugin.h - the plugin's own struct, shared by plugin.c (what is enqueued, graphs), begin.c (begin
 * and end of a device) and nccl.c (channels). Internal to kernels/cuda.
 */
#ifndef SN_CUDA_PLUGIN_H
#define SN_CUDA_PLUGIN_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/sdpa.h"
#include "kernels/device.h"

enum { SN_CUDA_BLOCKS = 4 }; /* what a run allocates is two arenas */

/* NVML's functions, and this device there. */
struct sn_cuda_nvml {
    bool is_missing;
    void *library, *device, *events; /* events NULL: nobody tells of failures */
    int64_t xid;                     /* the last one */
    const char *(*text)(int);
    int (*by_bus)(const char *, void **);
    int (*clock)(void *, int, unsigned *);
    int (*power)(void *, unsigned *);
    int (*temperature)(void *, int, unsigned *);
    int (*throttle)(void *, unsigned long long *);
    int (*ecc)(void *, int, int, unsigned long long *);
    int (*memory)(void *, void *);
    int (*make_set)(void **);
    int (*listen)(void *, unsigned long long, void *);
    int (*next_event)(void *, void *, unsigned);
};

struct sn_device {
    struct sn_cuda cuda;
    struct cudaDeviceProp properties;
    int number, driver;
    cudaStream_t stream[SN_DEVICE_STREAMS];
    cudaEvent_t *event; /* page-locked memory */
    int n_events;
    cudaEvent_t *clock; /* page-locked memory */
    int n_clocks;
    volatile uint32_t *marked; /* page-locked: kernels write it (mark.cu) */
    void *channel[SN_DEVICE_CHANNELS];
    int members[SN_DEVICE_CHANNELS], index[SN_DEVICE_CHANNELS];
    bool is_part[SN_DEVICE_CHANNELS]; /* of another one, which ends after it */
    bool is_aborted;
    enum sn_library_use attention;
    struct sn_sdpa sdpa; /* if cuDNN is open: cuda.sdpa */
    struct sn_cuda_nvml nvml;
    void *ranges;                 /* nvtx.c: its domain; NULL: no tool listens */
    int patience_s, channel_ctas; /* of the options, */
    bool registers;               /* as this is */
    struct {
        void *p;
        size_t bytes;
        void *known[SN_DEVICE_CHANNELS]; /* by channel: NCCL's handle */
    } block[SN_CUDA_BLOCKS];             /* of NCCL's own memory */
    int n_blocks;
    char lacks[320];
    char why[512];
};

/* Write the sentence; returns -1. */
int sn_cuda_fail(struct sn_device *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* 0, or the sentence of a CUDA call that failed: "what: out of memory". */
int sn_cuda_check(struct sn_device *d, cudaError_t rc, const char *what);

/* Add to what it does without, a sentence. */
void sn_cuda_lacks(struct sn_device *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- prove.c ---- */

/* Kernels with known results; 0, SN_DEVICE_HANGS, or what is wrong is said. After the streams. */
int sn_cuda_prove(struct sn_device *d);

/* Until stream 0 has done all; 0, SN_DEVICE_HANGS if that takes too long,
 * or what failed is said. */
int sn_cuda_settle(struct sn_device *d, const char *what);

/* ---- begin.c: functions of struct sn_device_ops ---- */

int sn_cuda_count(char *why, size_t room);
int sn_cuda_begin(struct sn_device *d, int number, const struct sn_device_options *how);
void sn_cuda_end(struct sn_device *d);
int sn_cuda_make_events(struct sn_device *d, int n);
int sn_cuda_make_clocks(struct sn_device *d, int n);

/* cuBLASLt, opened with the first call; `why` is set where it or a function of it is missing. */
const struct sn_library *sn_cuda_blaslt(void);

/* Channels, if there is a library for them: the functions of struct sn_device_ops, NULL if there is
 * none. Looks for it once, when the plugin is opened. */
struct sn_cuda_channels {
    int (*channel_id)(struct sn_device *d, char id[SN_DEVICE_ID]);
    int (*join)(struct sn_device *d, int channel, const char id[SN_DEVICE_ID], int size, int index);
    int (*split)(struct sn_device *d, int channel, int whole, int part, int size, int index);
    int (*transfer)(struct sn_device *d, int stream, int channel,
                    const struct sn_device_transfer *t);
    /* Memory that transfers know, for options.registers; release: was it of that? */
    int (*alloc)(struct sn_device *d, size_t bytes, void **out);
    bool (*release)(struct sn_device *d, void *p);
    int (*look)(struct sn_device *d);
    void (*abort)(struct sn_device *d);
    void (*leave)(struct sn_device *d); /* at the end, of all that were joined */
};
const struct sn_cuda_channels *sn_cuda_channels(void);
/* Why there are none, a sentence. */
const char *sn_cuda_no_channels(void);
/* "NCCL 2.28.9 (/path)"; only where there are channels. */
void sn_cuda_say_channels(char *text, size_t room);

/* Ranges for profilers, of struct sn_device_ops: nvtx.c, or nvtx_none.c where it has no header. */
bool sn_cuda_watched(struct sn_device *d);
void sn_cuda_range_begin(struct sn_device *d, const char *name);
void sn_cuda_range_end(struct sn_device *d);

/* nvml.c: of struct sn_device_ops. */
int sn_cuda_health(struct sn_device *d, struct sn_device_health *out, char *why, size_t room);

#endif
