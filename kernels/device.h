/*
 * device.h - what the executor needs of a device that has memory and streams of its own.
 *
 * A device comes from a plugin that is opened at run time; the core knows this struct of functions
 * and no maker's library. lib/exec/exec_device.c decides what follows what; a plugin only enqueues.
 * tests/lib/fake_device.c is a device of host memory that runs its streams in any legal order.
 *
 * Streams, events, channels and graphs are numbers that the executor gives. Work of one stream is
 * done in order; work of two streams only as events say. Functions that return int return 0, or
 * another number: then explain() has the sentence, and what fails later fails in query(). One
 * thread calls; nothing allocates on the device after open() but alloc() and join().
 */
#ifndef SN_DEVICE_H
#define SN_DEVICE_H

#include "kernels/ops.h"

enum {
    SN_DEVICE_ABI = 10, /* grows with every change of this file */
    SN_DEVICE_STREAMS = 16,
    SN_DEVICE_CHANNELS = 64,
    SN_DEVICE_ID = 128,     /* bytes of a channel's name: what its members agree on */
    SN_DEVICE_CHOICE = 320, /* bytes of a line of choice() */
    SN_DEVICE_HANGS = 77    /* of open(), join(), split() and transfer(): it does not come back;
                               nothing may be called */
};

struct sn_device; /* an open device, in `size` zeroed bytes of the caller's */

/* How operations may be computed. */
struct sn_device_options {
    bool tf32;               /* products of fp32 matrices may round their operands to TF32 */
    enum sn_fp8_scaling fp8; /* such products will come: refuse where there are none */
    bool tune; /* time the library's ways for each product when its shape first comes; that waits,
                * and results may be wrong: for a step that nobody keeps */
    int patience_s; /* how long open() and join() wait for the device and for peers; 0: for ever */
    int channel_ctas; /* blocks of threads that a transfer may take at most; 0: as the library likes
                       */
    enum sn_library_use attention; /* of the operations that will come; MUST: refuse where it is not
                                    * there, or not for this device */
    bool registers; /* alloc() gives memory that the channels' library knows, from join() on */
};

struct sn_device_info {
    char name[96];          /* "NVIDIA H200, sm_90, driver 13.0" */
    unsigned char uuid[16]; /* two processes with the same one share a device */
    int64_t bytes, free_bytes;
    double peak[SN_NDTYPES]; /* FLOP/s of dense products as the maker says, SN_U8 of 8-bit floats;
                              * 0: not known, or none */
    char libraries[640];     /* that were opened: "cuBLASLt 13.0.2 (/path), NCCL 2.28.9 (/path)" */
    char lacks[320];         /* what it does without, and what would mend that; else empty */
};

/* Why a device runs slower than it could. */
enum sn_device_throttle {
    SN_THROTTLE_POWER_CAP,   /* at the power that it may take, as busy devices often are */
    SN_THROTTLE_SYNC_BOOST,  /* with the slowest of its group */
    SN_THROTTLE_SW_THERMAL,  /* too hot: its driver, */
    SN_THROTTLE_HW_THERMAL,  /* or the device itself, to half its clock or less */
    SN_THROTTLE_POWER_BRAKE, /* the power supply asks for it */
    SN_THROTTLE_HW_SLOWDOWN, /* one of the two before, or another one of the device itself */
    SN_NTHROTTLES
};

/* What a device says of itself now; negative: it does not say. */
struct sn_device_health {
    double sm_mhz, memory_mhz; /* clocks */
    double watts, celsius;
    int64_t memory_used;                    /* bytes, of all processes */
    int64_t ecc_corrected, ecc_uncorrected; /* errors of its memory since the driver was loaded */
    int64_t xid; /* the driver's number of the last failure since the first question; 0: none */
    unsigned throttle; /* bit 1 << enum sn_device_throttle */
    bool knows_throttle;
};

enum sn_device_way { SN_TO_DEVICE, SN_TO_HOST, SN_ON_DEVICE };

/* In the order of lib/layout's enum sn_collective; then rows of tokens, to and from members. */
enum sn_device_collective {
    SN_DEVICE_ALL_REDUCE,
    SN_DEVICE_ALL_GATHER,
    SN_DEVICE_REDUCE_SCATTER,
    SN_DEVICE_ALL_TO_ALL,
    SN_DEVICE_SEND,
    SN_DEVICE_RECV,
    SN_DEVICE_ROWS
};

/* Rows `at` .. `at` + `n` - 1. */
struct sn_device_rows {
    int64_t at, n;
};

struct sn_device_transfer {
    enum sn_device_collective kind;
    enum sn_dtype dtype;
    int64_t n;      /* elements, as enum sn_collective says; ROWS: of one row */
    const void *in; /* on the device; REDUCE_SCATTER with `add` may write the own block of it */
    void *out;
    bool add;                               /* REDUCE_SCATTER, fp32: add to out */
    int peer;                               /* SEND, RECV: member */
    const struct sn_device_rows *to, *from; /* ROWS: of each member; read before the return */
};

struct sn_device_ops {
    int abi;           /* SN_DEVICE_ABI: the rest means what this file says */
    const char *maker; /* "cuda" */
    size_t size;       /* of a struct sn_device */
    /* name and scratch(); its run[] is empty: operations run through `run` below. Needs neither
     * device nor driver, so that plans are made anywhere. */
    const struct sn_ops *ops;
    /* How many devices this process sees. None: a sentence in `why`, and 0 on a host that is not
     * made for them (no driver), which is nothing to mend, else -1. */
    int (*count)(char *why, size_t room);
    int (*open)(struct sn_device *d, int number, const struct sn_device_options *how);
    /* May operations of this storage type run here? NULL, or what is missing: a sentence. */
    const char *(*refuses)(const struct sn_device *d, enum sn_dtype storage);
    int (*make_events)(struct sn_device *d, int n); /* 0 .. n - 1, in place of those there are */
    /* Clocks 0 .. n - 1, which calibration reads; those that there are stay. */
    int (*make_clocks)(struct sn_device *d, int n);
    void (*close)(
        struct sn_device *d); /* also one that open() failed on, or that has failed since */
    void (*describe)(struct sn_device *d, struct sn_device_info *out);
    /* What failed last, a sentence. */
    const char *(*explain)(const struct sn_device *d);

    /* What `tune` found: the i-th way that a library was fastest in, a line of text for choose().
     * 0, or 1: there are no more. */
    int (*choice)(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE]);
    /* Take a way that choice() gave, before the first operation. 0: taken; 1: it is of another kind
     * of device or another version of the library, which is no failure; else the line is wrong. */
    int (*choose)(struct sn_device *d, const char *line);

    int (*alloc)(struct sn_device *d, size_t bytes, void **out); /* zeroed */
    void (*release)(struct sn_device *d, void *p);               /* NULL is allowed */
    /* Page-lock host memory, so that copies read and write it while the host goes on. Without it,
     * or where that is refused, they go through memory of the driver: slower, and right. */
    int (*pin)(struct sn_device *d, void *p, size_t bytes);
    void (*unpin)(struct sn_device *d, void *p);

    /* Everything from here on is enqueued, on the stream that is named. */
    int (*copy)(struct sn_device *d, int stream, void *to, const void *from, size_t bytes,
                enum sn_device_way way);
    int (*run)(struct sn_device *d, int stream, enum sn_op_kind kind, const struct sn_args *a);
    int (*record)(struct sn_device *d, int stream, int event);
    /* What comes later on `stream` waits for the last record of the event. */
    int (*await)(struct sn_device *d, int stream, int event);
    /* Let the clock say when the stream has come here. */
    int (*stamp)(struct sn_device *d, int stream, int clock);
    /* Let marked() be at least so much once the stream has come here. */
    int (*mark)(struct sn_device *d, int stream, uint32_t number);

    /* From begin to end what is enqueued on `stream`, and on streams that wait for it, is kept
     * instead of done; at the end `stream` waits for all of them. launch does it, again and again,
     * with what copies find in memory then. */
    int (*graph_begin)(struct sn_device *d, int stream);
    int (*graph_end)(struct sn_device *d, int stream, void **graph);
    int (*graph_launch)(struct sn_device *d, int stream, void *graph);
    void (*graph_free)(struct sn_device *d, void *graph);

    /* These look at once. */
    int (*query)(struct sn_device *d, int stream); /* 0: all done, 1: not yet, else failed */
    uint32_t (*marked)(const struct sn_device *d);
    /* Seconds from one clock's last stamp to another's, when both are done. */
    int (*between)(struct sn_device *d, int first, int second, double *seconds);

    /* Channels between devices; all NULL: there are none, ranks talk through the host. One member
     * makes the id, all join at the same time. Then a transfer between two is enqueued without
     * waiting for the other, the first one, too. */
    int (*channel_id)(struct sn_device *d, char id[SN_DEVICE_ID]);
    int (*join)(struct sn_device *d, int channel, const char id[SN_DEVICE_ID], int size, int index);
    /* Parts of a channel that was joined, as channels of their own, which share its memory and its
     * connections: transfers of the whole and of its parts run one after another, whatever their
     * streams, so those should have one. All members of `whole` call it at the same time and in the
     * same order; who gives the same `part`, a number from 0 on, is together, in the order of
     * index. `whole` is no part itself. NULL: it does not split, each channel is joined. */
    int (*split)(struct sn_device *d, int channel, int whole, int part, int size, int index);
    int (*transfer)(struct sn_device *d, int stream, int channel,
                    const struct sn_device_transfer *t);
    /* Has a peer or the network failed? 0: no. */
    int (*look)(struct sn_device *d);
    /* What was enqueued has failed: close() will not wait for peers. Not where it hangs: then
     * nothing is called any more, for all of it may wait. */
    void (*abort)(struct sn_device *d);

    /* Page-locked host memory of the driver's own, zeroed: for the little that each step copies. */
    int (*host_alloc)(struct sn_device *d, size_t bytes, void **out);
    void (*host_free)(struct sn_device *d, void *p); /* NULL is allowed */

    /* Why there are no channels, a sentence. Only where `transfer` is NULL. */
    const char *(*no_channels)(void);

    /* Ranges of the thread that calls, for a tool that watches; all NULL: there are none. Does a
     * tool listen? Asked once; if not nothing below is called. Ranges lie in each other, and end in
     * the order opposite to that in which they began. */
    bool (*watched)(struct sn_device *d);
    void (*range_begin)(struct sn_device *d, const char *name); /* copied */
    void (*range_end)(struct sn_device *d);

    /* The i-th thing that a user should know of what has been enqueued so far, a sentence: what
     * runs slower than it might. 0, or 1: there are no more. NULL: there never is any. */
    int (*note)(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE]);

    /* How the device fares; takes milliseconds, and does not wait for what it computes. 0, or 1:
     * nobody says, now and later, and the first time `why` has a sentence. NULL: the same. */
    int (*health)(struct sn_device *d, struct sn_device_health *out, char *why, size_t room);
};

/* What a plugin exports: its functions, or NULL for another abi. `cpu` is the specification. */
#define SN_DEVICE_PLUGIN "sn_device_plugin"
typedef const struct sn_device_ops *sn_device_plugin_fn(int abi, const struct sn_ops *cpu);

#endif
