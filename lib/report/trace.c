#include "lib/report/trace.h"

#include <math.h>

enum { COMPUTE = 1, FIRST_AXIS };

static int thread_of(enum sn_axis a, int lane)
{
    return FIRST_AXIS + (int)a + SN_NAXES * lane;
}

void sn_trace_open(struct sn_str *out, const char *title)
{
    sn_str_add(out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"ph\": \"M\", \"pid\": 0, "
                    "\"name\": \"process_labels\", \"args\": {\"labels\": ");
    sn_str_add_json(out, title);
    sn_str_add(out, "}}");
}

void sn_trace_close(struct sn_str *out)
{
    sn_str_add(out, "\n]}\n");
}

/* Microseconds with six digits, which a picosecond is. */
static void add_time(struct sn_str *out, const char *key, int64_t ps)
{
    const char *sign = ps < 0 ? "-" : "";
    long long n = ps < 0 ? -ps : ps;
    sn_str_add(out, ",\"%s\":%s%lld.%06lld", key, sign, n / 1000000, n % 1000000);
}

static void add_slice(struct sn_str *out, int pid, int tid, const struct sn_trace_slice *s)
{
    int64_t begin = llround(s->begin * 1e12), end = llround(s->end * 1e12);
    sn_str_add(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d", pid, tid);
    add_time(out, "ts", begin);
    add_time(out, "dur", end > begin ? end - begin : 0);
    sn_str_add(out, ",\"cat\":\"%s\",\"name\":", s->category);
    if (s->number >= 0)
        sn_str_add(out, "\"%s %d\"", s->name, s->number);
    else
        sn_str_add_json(out, s->name);
    sn_str_add(out, ",\"args\":{\"micro_batch\":%d", s->micro);
    if (s->vstage >= 0)
        sn_str_add(out, ",\"part\":%d", s->vstage);
    if (s->slot >= 0)
        sn_str_add(out, ",\"slot\":%d", s->slot);
    if (s->axis)
        sn_str_add(out, ",\"axis\":\"%s\"", s->axis);
    if (s->bytes >= 0)
        sn_str_add(out, ",\"bytes\":%lld", (long long)s->bytes);
    if (s->planned >= 0)
        sn_str_add(out, ",\"planned_us\":%.3f", s->planned * 1e6);
    if (s->waiting) {
        sn_str_add(out, ",\"for\":");
        sn_str_add_json(out, s->waiting);
    }
    if (s->carries)
        sn_str_add(out, ",\"carries\":\"%s\"", s->carries);
    sn_str_add(out, "}}");
}

void sn_trace_computing(struct sn_str *out, const struct sn_trace_process *p,
                        const struct sn_trace_slice *s)
{
    add_slice(out, p->pid, COMPUTE, s);
}

static int lane_of(struct sn_trace_lanes *l, const struct sn_trace_slice *s)
{
    int i = 0;
    while (i < l->n && l->free_at[i] > s->begin)
        i++;
    if (i == SN_TRACE_LANES)
        return SN_TRACE_LANES - 1;
    l->n = i == l->n ? i + 1 : l->n;
    l->free_at[i] = s->end;
    return i;
}

void sn_trace_transfer(struct sn_str *out, struct sn_trace_process *p, enum sn_axis a,
                       const struct sn_trace_slice *s)
{
    add_slice(out, p->pid, thread_of(a, lane_of(&p->axis[a], s)), s);
}

static void add_name(struct sn_str *out, int pid, int tid, const char *what, int n)
{
    sn_str_add(
        out,
        ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": ", pid,
        tid, tid ? "thread_name" : "process_name");
    if (n > 0)
        sn_str_add(out, "\"%s %d\"}}", what, n);
    else
        sn_str_add(out, "\"%s\"}}", what);
}

void sn_trace_names(struct sn_str *out, const struct sn_trace_process *p, const char *name,
                    int order)
{
    add_name(out, p->pid, 0, name, 0);
    sn_str_add(out,
               ",\n{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_sort_index\", \"args\": "
               "{\"sort_index\": %d}}",
               p->pid, order);
    add_name(out, p->pid, COMPUTE, "computing", 0);
    for (int a = 0; a < SN_NAXES; a++)
        for (int i = 0; i < p->axis[a].n; i++)
            add_name(out, p->pid, thread_of((enum sn_axis)a, i), sn_axis_name((enum sn_axis)a), i);
}
