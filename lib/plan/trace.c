/*
 * trace.c - the simulated step in Chrome's trace event format, for Perfetto and chrome://tracing.
 *
 * One complete event ("ph": "X") for each event of the simulator, times in microseconds. Such
 * events of one thread must not overlap unless one lies in the other, and transfers do: each takes
 * the first lane of its stage that is free.
 */
#include "lib/base/mem.h"
#include "lib/plan/picture.h"

enum { COMPUTE = 1, COLLECTIVES, TRANSFERS, LANE = 2, MAX_LANES = 64 };

static void name(struct sn_str *out, int pid, int tid, const char *what, int n)
{
    sn_str_add(
        out,
        ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": "
        "\"%s",
        pid, tid, tid ? "thread_name" : "process_name", what);
    sn_str_add(out, n < 0 ? "\"}}" : " %d\"}}", n);
}

/* The lane of a transfer; where all are taken it shares the last one. */
static int lane_of(double free_at[MAX_LANES], int *lanes, const struct sn_event *e)
{
    int i = 0;
    while (i < *lanes && free_at[i] > e->begin)
        i++;
    if (i == MAX_LANES)
        return MAX_LANES - 1;
    *lanes = i == *lanes ? i + 1 : *lanes;
    free_at[i] = e->end;
    return i;
}

static void event(struct sn_str *out, const struct sn_event *e, int tid, int parts)
{
    const char *kind = sn_event_name(e->kind);
    sn_str_add(
        out,
        ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f,\"cat\":\"%s\",\"name\":",
        e->stage, tid, e->begin * 1e6, (e->end - e->begin) * 1e6, kind);
    if (e->kind == SN_EVENT_TRANSFER && e->label[0])
        sn_str_add_json(out, e->label);
    else if (e->kind >= SN_EVENT_WAIT)
        sn_str_add(out, "\"%s %s\"", kind, sn_axis_name(e->axis));
    else if (e->micro >= 0)
        sn_str_add(out, "\"%s %d\"", kind, e->micro);
    else
        sn_str_add(out, "\"%s\"", kind);
    sn_str_add(out, ",\"args\":{\"micro_batch\":%d", e->micro);
    if (e->part >= 0 && parts > 1)
        sn_str_add(out, ",\"part\":%d", e->part);
    if (e->kind >= SN_EVENT_WAIT)
        sn_str_add(out, ",\"axis\":\"%s\"", sn_axis_name(e->axis));
    if (e->kind == SN_EVENT_TRANSFER)
        sn_str_add(out, ",\"bytes\":%lld", (long long)e->bytes);
    sn_str_add(out, "}}");
}

static void memory(struct sn_str *out, int stage, const struct sn_memory_curve *m)
{
    for (int i = 0; i < m->n; i++)
        sn_str_add(out,
                   ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":%.6f,\"name\":\"memory\",\"args\":{"
                   "\"bytes\":%lld}}",
                   stage, m->point[i].time * 1e6, (long long)(m->point[i].bytes + m->library));
}

struct lanes {
    double free_at[MAX_LANES];
    int n;
};

static void stage_names(struct sn_str *out, int stage, const struct lanes *collectives,
                        const struct lanes *transfers)
{
    name(out, stage, 0, "stage", stage);
    name(out, stage, COMPUTE, "computing", -1);
    for (int i = 0; i < collectives->n; i++)
        name(out, stage, COLLECTIVES + LANE * i, "collectives", i ? i : -1);
    for (int i = 0; i < transfers->n; i++)
        name(out, stage, TRANSFERS + LANE * i, "transfers", i ? i : -1);
}

enum sn_status sn_picture_trace(struct sn_str *out, const struct sn_picture *p, struct sn_err *err)
{
    const struct sn_sim *s = p->sim;
    struct lanes *lanes = sn_alloc_n((size_t)s->stages, 2 * sizeof(*lanes));
    if (!lanes)
        return sn_fail(err, SN_ENOMEM, "trace: no memory for %d stages", s->stages);
    sn_str_add(out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"ph\": \"M\", \"pid\": 0, "
                    "\"name\": \"process_labels\", \"args\": {\"labels\": ");
    sn_str_add_json(out, p->title);
    sn_str_add(out, "}}");
    for (int64_t i = 0; i < s->n_events && !out->failed; i++) {
        const struct sn_event *e = &s->event[i];
        int sends = e->axis == SN_AXIS_PIPELINE;
        int tid = COMPUTE;
        if (e->kind == SN_EVENT_TRANSFER) {
            struct lanes *l = &lanes[2 * e->stage + sends];
            tid = (sends ? TRANSFERS : COLLECTIVES) + LANE * lane_of(l->free_at, &l->n, e);
        }
        event(out, e, tid, p->parts);
    }
    for (int i = 0; i < s->stages; i++) {
        stage_names(out, i, &lanes[2 * i], &lanes[2 * i + 1]);
        if (p->memory)
            memory(out, i, &p->memory[i]);
    }
    sn_str_add(out, "\n]}\n");
    sn_free(lanes);
    return out->failed ? sn_fail(err, SN_ENOMEM, "trace: no memory for the text") : SN_OK;
}
