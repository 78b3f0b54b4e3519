/*
 * trace.h - a step in Chrome's trace event format, which Perfetto opens: what is planned and what
 * was measured are written by the same functions, so that they look alike.
 *
 * A process of the trace is a pipeline stage (planned) or a rank (measured). It has a thread for
 * computing and at least one for each axis that it communicates on. Slices of one thread must not
 * overlap unless one lies in the other, and transfers do: each takes the first thread of its axis
 * that is free. Times are written in picoseconds of a whole number, so that what lies within
 * another slice, or ends where it begins, does so in the file.
 *
 * Everything is added to a text; writers look at its `failed`.
 */
#ifndef SN_TRACE_H
#define SN_TRACE_H

#include "lib/base/str.h"
#include "lib/layout/grid.h"

enum { SN_TRACE_LANES = 64 };

/* The threads of an axis: when each is free again, seconds. */
struct sn_trace_lanes {
    double free_at[SN_TRACE_LANES];
    int n;
};

struct sn_trace_process {
    int pid;
    struct sn_trace_lanes axis[SN_NAXES];
};

struct sn_trace_slice {
    double begin, end; /* seconds from the begin of the step */
    const char *category, *name;
    int number;          /* follows the name: "forward 3"; -1: none */
    int micro;           /* micro-batch; -1: of none */
    int vstage, slot;    /* virtual stage, copy of its buffers; -1: not said */
    const char *axis;    /* NULL: none */
    int64_t bytes;       /* -1: not said */
    double planned;      /* seconds that this operation was planned to take; < 0: not said */
    const char *waiting; /* the operation that is waited for; NULL: none */
    const char *carries; /* of what is sent, or waited for; NULL: not said */
};

/* What says nothing but name and times. */
static inline struct sn_trace_slice sn_slice(const char *category, const char *name, double begin,
                                             double end)
{
    return (struct sn_trace_slice){.begin = begin,
                                   .end = end,
                                   .category = category,
                                   .name = name,
                                   .number = -1,
                                   .micro = -1,
                                   .vstage = -1,
                                   .slot = -1,
                                   .bytes = -1,
                                   .planned = -1};
}

/* The text before the first event and after the last one. */
void sn_trace_open(struct sn_str *out, const char *title);
void sn_trace_close(struct sn_str *out);
/* On the thread of computing. One that lies in another comes after it. */
void sn_trace_computing(struct sn_str *out, const struct sn_trace_process *p,
                        const struct sn_trace_slice *s);
/* On the first free thread of an axis; in order of begin. Where all are taken it shares the last
 * one. */
void sn_trace_transfer(struct sn_str *out, struct sn_trace_process *p, enum sn_axis a,
                       const struct sn_trace_slice *s);
/* After all slices: what the process and its threads are called, and where it stands among the
 * processes. */
void sn_trace_names(struct sn_str *out, const struct sn_trace_process *p, const char *name,
                    int order);

#endif
