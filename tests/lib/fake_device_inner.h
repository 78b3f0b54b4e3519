/*
 * fake_device_inner.h - what the parts of the device of host memory share: items of work in queues
 * (fake_device.c) and channels between devices of one process (fake_channels.c).
 */
#ifndef FAKE_DEVICE_INNER_H
#define FAKE_DEVICE_INNER_H

#include "tests/lib/fake_device.h"

#include <pthread.h>

enum { EVENTS = 1 << 16, BLOCKS = 16, CLOCKS = 1 << 16, ORIGIN = -1 };

enum item_kind { COPY, RUN, RECORD, AWAIT, MARK, STAMP, LAUNCH, TRANSFER };

struct graph;

struct item {
    enum item_kind kind;
    int stream;
    long number; /* of a record: its; of a wait: the record that it waits for; of a mark */
    int event;   /* of records and waits; channel of a transfer; clock */
    void *to;
    const void *from;
    size_t bytes;
    enum sn_op_kind op;
    struct sn_args args;
    struct graph *graph;
    struct sn_device_transfer transfer;
    struct sn_device_rows *rows; /* of a transfer: to, then from, of each member; ours */
    bool has_come;               /* a transfer: the others know of it */
};

struct queue {
    struct item *item;
    int n, room, first;
};

struct event {
    long recorded, done;
};

struct graph {
    struct queue all; /* in the order of enqueuing */
    /* while it runs: a step of its own, whose streams go their own ways,
     * whose events are its own */
    bool is_running;
    struct queue queue[SN_DEVICE_STREAMS];
    struct event *events;
};

/* What has been split from a hub: which channel, which part. */
struct part {
    int channel, number;
    struct hub *hub;
    struct part *next;
};

/* Members of a channel; of one process. */
struct hub {
    pthread_mutex_t lock;
    struct part *parts;
    int size, came, left;
    long round;
    struct item item[64]; /* copies: queues grow meanwhile */
};

struct channel {
    struct hub *hub;
    int size, index;
    long round; /* transfers that are over here */
};

struct sn_device {
    struct fake_device_habits habits;
    uint64_t dice;
    struct queue queue[SN_DEVICE_STREAMS];
    struct event event[EVENTS];
    int n_events, n_clocks;
    double clock[CLOCKS]; /* seconds; 0: not stamped since */
    struct {
        char *p;
        size_t bytes;
    } block[BLOCKS];
    struct graph *capture;
    bool in_capture[SN_DEVICE_STREAMS], is_joined[SN_DEVICE_STREAMS];
    int origin, asked; /* asked: the stream of the last query */
    bool is_lazy;      /* copies to the host wait */
    uint32_t marked;
    bool has_failed, is_aborted, tunes;
    char why[200];
    struct fake_device_counts counts;
    struct channel channel[SN_DEVICE_CHANNELS];
};

/* Say why, and be failed from now on; never 0. */
int fake_device_fail(struct sn_device *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* From now on fake_device_wait() does not come back. */
void fake_device_hang(void);
/* Copies the item into its stream's queue, or into the graph that is being captured. */
int fake_device_enqueue(struct sn_device *d, const struct item *i);

/* 0, or a failure: what may not be done while a graph is being kept. */
int fake_device_not_now(struct sn_device *d, const char *what);

/* Is it memory of the device? */
bool fake_device_is_here(const struct sn_device *d, const void *p, size_t bytes);

/* As in kernels/device.h. */
int fake_device_pin(struct sn_device *d, void *p, size_t bytes);
void fake_device_unpin(struct sn_device *d, void *p);
int fake_device_host_alloc(struct sn_device *d, size_t bytes, void **out);
void fake_device_host_free(struct sn_device *d, void *p);
int fake_device_channel_id(struct sn_device *d, char id[SN_DEVICE_ID]);
void fake_device_leave(struct sn_device *d); /* all channels */
int fake_device_join(struct sn_device *d, int channel, const char id[SN_DEVICE_ID], int size,
                     int index);
int fake_device_split(struct sn_device *d, int channel, int whole, int part, int size, int index);
int fake_device_transfer(struct sn_device *d, int stream, int channel,
                         const struct sn_device_transfer *t);
const char *fake_device_no_channels(void);
int fake_device_look(struct sn_device *d);
void fake_device_abort(struct sn_device *d);
int fake_device_choice(const struct sn_device *d, int i, char line[SN_DEVICE_CHOICE]);
int fake_device_choose(struct sn_device *d, const char *line);
int fake_device_make_clocks(struct sn_device *d, int n);
int fake_device_stamp(struct sn_device *d, int stream, int clock);
int fake_device_between(struct sn_device *d, int first, int second, double *seconds);
/* A stream has come to the stamp. */
void fake_device_stamped(struct sn_device *d, int clock);
/* Come to it, and move everything if all have; true: it is over here. */
bool fake_device_try_transfer(struct sn_device *d, struct item *i);

#endif
