/*
 * trace_plan.c - the simulated step as a trace: a slice for each event of the simulator.
 */
#include "lib/base/mem.h"
#include "lib/report/picture.h"
#include "lib/report/trace.h"

#include <stdio.h>

static void add_event(struct sn_str *out, struct sn_trace_process *p, const struct sn_event *e,
                      int vstages)
{
    const char *kind = sn_event_name(e->kind);
    char waits[64];
    struct sn_trace_slice s = sn_slice(kind, kind, e->begin, e->end);
    s.micro = e->micro;
    s.vstage = vstages > 1 ? e->vstage : -1;
    if (e->kind < SN_EVENT_WAIT) {
        s.number = e->micro;
        sn_trace_computing(out, p, &s);
        return;
    }
    s.axis = sn_axis_name(e->axis);
    (void)snprintf(waits, sizeof(waits), "%s %s", kind, s.axis);
    s.name = waits;
    if (e->kind != SN_EVENT_TRANSFER) {
        sn_trace_computing(out, p, &s);
        return;
    }
    s.name = e->label[0] ? e->label : waits;
    s.bytes = e->bytes;
    sn_trace_transfer(out, p, e->axis, &s);
}

static void add_memory(struct sn_str *out, int stage, const struct sn_memory_curve *m)
{
    for (int i = 0; i < m->n; i++)
        sn_str_add(out,
                   ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":%.6f,\"name\":\"memory\",\"args\":{"
                   "\"bytes\":%lld}}",
                   stage, m->point[i].time * 1e6, (long long)(m->point[i].bytes + m->library));
}

enum sn_status sn_picture_events(struct sn_str *out, const struct sn_picture *p, const char *prefix,
                                 int order, struct sn_err *err)
{
    const struct sn_sim *s = p->sim;
    char name[64];
    struct sn_trace_process *stage = sn_alloc_n((size_t)s->stages, sizeof(*stage));
    if (!stage)
        return sn_fail(err, SN_ENOMEM, "trace: no memory for %d stages", s->stages);
    for (int i = 0; i < s->stages; i++)
        stage[i].pid = i;
    for (int64_t i = 0; i < s->n_events && !out->failed; i++)
        add_event(out, &stage[s->event[i].stage], &s->event[i], p->vstages);
    for (int i = 0; i < s->stages; i++) {
        (void)snprintf(name, sizeof(name), "%sstage %d", prefix, i);
        sn_trace_names(out, &stage[i], name, i * order);
        if (p->memory)
            add_memory(out, i, &p->memory[i]);
    }
    sn_free(stage);
    return SN_OK;
}

enum sn_status sn_picture_trace(struct sn_str *out, const struct sn_picture *p, struct sn_err *err)
{
    sn_trace_open(out, p->title);
    SN_TRY(sn_picture_events(out, p, "", 1, err));
    sn_trace_close(out);
    return out->failed ? sn_fail(err, SN_ENOMEM, "trace: no memory for the text") : SN_OK;
}
