/*
 * test_picture.c - drawings, traces and timelines show the simulator's times, all of them or said
 * so, whatever the pipeline.
 */
#include "tests/lib/picture_test.h"
#include "tests/lib/tap.h"

#include <math.h>

static const struct sn_pipeline small = {SN_1F1B, 2, 1, 3}, virtual = {SN_INTERLEAVED, 4, 2, 8},
                                delayed = {SN_ZERO_BUBBLE, 4, 1, 6}, alone = {SN_1F1B, 1, 1, 1},
                                wide = {SN_GPIPE, 64, 1, 128}, full = {SN_1F1B, 16, 1, 512};

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

/* The number behind the next `key` from *at on; moves *at. */
static double number(const char **at, const char *key)
{
    *at = strstr(*at, key);
    if (!*at)
        return NAN;
    *at += strlen(key);
    return strtod(*at, NULL);
}

/* --- drawing ---------------------------------------------------------------------------------- */

/* Tags are closed in order, attributes quoted, nothing is left raw: what an XML parser demands of
 * this subset. tests/cli/test_pictures.sh asks a real one. */
static bool well_formed(const char *s)
{
    const char *open[64];
    int depth = 0;
    while (*s) {
        if (*s == '&' && s[strcspn(s, "; <")] != ';')
            return false;
        if (*s != '<') {
            s++;
            continue;
        }
        const char *end = strchr(s, '>');
        if (!end || (memchr(s + 1, '<', (size_t)(end - s - 1))))
            return false;
        int quotes = 0;
        for (const char *c = s; c < end; c++)
            quotes += *c == '"';
        if (quotes % 2)
            return false;
        if (s[1] == '/') {
            size_t n = (size_t)(end - s - 2);
            if (depth == 0 || strncmp(open[--depth], s + 2, n) != 0)
                return false;
        } else if (end[-1] != '/') {
            if (depth == 64)
                return false;
            open[depth++] = s + 1;
        }
        s = end + 1;
    }
    return depth == 0;
}

static void drawings_are_xml(void)
{
    const struct sn_pipeline all[] = {small, virtual, delayed, alone, wide, full};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct sim_fixture f;
        struct sn_str out = {0};
        sim_fixture_init(&f, all[i]);
        sn_picture_svg(&out, &f.picture);
        tap_ok(!out.failed && well_formed(out.p), "%d stages, %d micro-batches: the SVG is XML",
               all[i].stages, all[i].micros);
        tap_ok(out.len < (size_t)8 << 20 && !strstr(out.p, "nan") && !strstr(out.p, "inf"),
               "of at most 8 MiB (%zu KiB) and of numbers only", out.len >> 10);
        sn_str_fini(&out);
        sim_fixture_fini(&f);
    }
}

/* Is there a rectangle of this class from x to x + w, within a hundredth of a pixel? */
static bool drawn(const char *svg, const char *cls, double x, double w)
{
    char begin[64];
    (void)snprintf(begin, sizeof(begin), "<rect class=\"%s\" x=\"%.2f\"", cls, x);
    for (const char *p = svg; (p = strstr(p, begin)); p++) {
        const char *at = p;
        if (fabs(number(&at, "width=\"") - w) < 0.011)
            return true;
    }
    return false;
}

static void boxes_are_as_long_as_their_events(void)
{
    static const char *const cls[] = {"forward", "backward", "weight", "update"};
    struct sim_fixture f;
    struct sn_str out = {0};
    int missing = 0, boxes = 0;
    sim_fixture_init(&f, delayed);
    sn_picture_svg(&out, &f.picture);
    double scale = 1096 / f.sim.step; /* the width of the plot */
    for (int64_t i = 0; i < f.sim.n_events; i++) {
        const struct sn_event *e = &f.sim.event[i];
        if (e->kind > SN_EVENT_UPDATE)
            continue;
        boxes++;
        missing += !drawn(out.p, cls[e->kind], 84 + e->begin * scale + 0.4,
                          (e->end - e->begin) * scale - 0.8);
    }
    tap_ok(boxes == delayed.stages * (3 * delayed.micros + 1) && missing == 0,
           "each of %d events has its box, as long as it takes (%d missing)", boxes, missing);
    tap_ok(drawn(out.p, "data", 84 + (f.sim.step - sim_cost.update - sim_cost.wait) * scale,
                 sim_cost.wait * scale),
           "a wait is drawn in its axis' colour");
    tap_ok(drawn(out.p, "update", 84 + (f.sim.stage[0].busy - sim_cost.update) * scale,
                 sim_cost.update * scale),
           "the breakdown has the update behind the computing, on the same scale");
    tap_ok(count(out.p, "class=\"kept\" d=") == delayed.stages, "memory is drawn for each stage");
    tap_ok(strstr(out.p, "22.75 GiB") != NULL, "and its peak is said");
    sn_str_fini(&out);
    sim_fixture_fini(&f);
}

static void memory_above_the_limit_stands_out(void)
{
    struct sim_fixture f;
    struct sn_str out = {0};
    sim_fixture_init(&f, small);
    f.picture.limit = (int64_t)14 << 30;
    sn_picture_svg(&out, &f.picture);
    tap_ok(count(out.p, "class=\"over\"") == 1 && count(out.p, "class=\"limit\" d=") == 2,
           "the stage that needs 16.75 GiB of 14 is marked, the one that needs 13.75 is not");
    sn_str_fini(&out);
    f.picture.memory = NULL;
    sn_picture_svg(&out, &f.picture);
    tap_ok(well_formed(out.p) && !strstr(out.p, "Memory of a rank"), "memory may be left out");
    sn_str_fini(&out);
    sim_fixture_fini(&f);
}

/* A wait of a tenth of each box, and boxes of a hundredth of a pixel, are as pale as a tenth. */
static void many_short_waits_are_pale(void)
{
    struct sim_fixture f;
    struct sn_str out = {0};
    sim_fixture_init(&f, alone);
    struct sn_event *e = sn_alloc_n(4000, sizeof(*e));
    for (int i = 0; i < 2000; i++) {
        double t = f.sim.step * i / 4000;
        e[2 * i] =
            (struct sn_event){SN_EVENT_FORWARD, 0, 0, 0, 0, 0, t, t + f.sim.step / 4000, 0, ""};
        e[2 * i + 1] = (struct sn_event){SN_EVENT_WAIT,          0, -1, 0, 0, SN_AXIS_TENSOR, t,
                                         t + f.sim.step / 40000, 0, ""};
    }
    sn_free(f.sim.event);
    f.sim.event = e;
    f.sim.n_events = 4000;
    sn_picture_svg(&out, &f.picture);
    tap_ok(
        count(out.p, "<rect class=\"tensor\" opacity=\"0.15\"") == 1 &&
            count(out.p, "<rect class=\"tensor\"") == 4,
        "two thousand waits of a tenth of the time are one pale span beside two legends and a bar");
    sn_str_fini(&out);
    sim_fixture_fini(&f);
}

static void long_steps_show_three_stretches(void)
{
    struct sim_fixture f;
    struct sn_stretches t;
    struct sn_str out = {0};
    sim_fixture_init(&f, full);
    sn_stretches_find(&t, &f.picture, 42);
    bool apart = t.n == 3 && t.begin[0] == 0 && t.end[2] == f.sim.step;
    double shown = 0;
    for (int k = 0; apart && k < 3; k++) {
        apart = t.begin[k] < t.end[k] && (k == 0 || t.end[k - 1] < t.begin[k]);
        shown += t.end[k] - t.begin[k];
    }
    tap_ok(apart, "from the beginning to the end, in order and apart");
    tap_close(t.shown, shown, 1e-12, 0, "and as long as they say");
    tap_ok(t.end[0] > f.sim.stages * sim_cost.forward, "the beginning has all stages at work");
    sn_picture_svg(&out, &f.picture);
    tap_ok(strstr(out.p, "Drawn are the step's beginning, a stretch of its middle and its end") !=
               NULL,
           "the drawing says that something is left out");
    sn_str_fini(&out);
    sim_fixture_fini(&f);
    sim_fixture_init(&f, virtual);
    sn_stretches_find(&t, &f.picture, 42);
    tap_ok(t.n == 1 && t.shown == f.sim.step, "a short step is shown whole");
    sim_fixture_fini(&f);
}

/* --- trace ------------------------------------------------------------------------------------ */

struct slice {
    long thread;
    double begin, end;
};

static int slices_of(const char *trace, struct slice *out)
{
    int n = 0;
    for (const char *p = trace; (p = strstr(p, "{\"ph\":\"X\"")); n++) {
        double pid = number(&p, "\"pid\":"), tid = number(&p, "\"tid\":");
        double ts = number(&p, "\"ts\":"), dur = number(&p, "\"dur\":");
        out[n] = (struct slice){(long)(pid * 1000 + tid), ts * 1e-6, (ts + dur) * 1e-6};
    }
    return n;
}

/* Two slices of a thread overlap, and neither lies in the other. */
static bool crossed(const struct slice *s, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (s[i].thread == s[j].thread && s[i].begin < s[j].begin - 1e-11 &&
                s[j].begin < s[i].end - 1e-11 && s[j].end > s[i].end + 1e-11)
                return true;
    return false;
}

static void traces_have_every_event(void)
{
    struct sim_fixture f;
    struct sn_str out = {0};
    struct sn_err err = {0};
    static struct slice slice[4096];
    sim_fixture_init(&f, virtual);
    for (int64_t i = 0; i < f.sim.n_events; i++) /* transfers that overlap */
        if (f.sim.event[i].axis == SN_AXIS_PIPELINE && f.sim.event[i].kind == SN_EVENT_TRANSFER)
            f.sim.event[i].end += .05;
    tap_ok(sn_picture_trace(&out, &f.picture, &err) == SN_OK, "a trace is written");
    int n = slices_of(out.p, slice);
    double off = 0;
    for (int i = 0; i < n && i < f.sim.n_events; i++) {
        off = fmax(off, fabs(slice[i].begin - f.sim.event[i].begin));
        off = fmax(off, fabs(slice[i].end - f.sim.event[i].end));
    }
    tap_ok(n == f.sim.n_events && off < 2e-12, "%d events, each at its time (off by %.1e s)", n,
           off);
    tap_ok(!crossed(slice, n), "no two of a thread cross, as Perfetto demands");
    tap_ok(strstr(out.p, "\"name\": \"pipeline 1\"") != NULL, "because transfers have lanes");
    tap_ok(count(out.p, "\"process_name\"") == 4, "a process for each stage");
    tap_ok(count(out.p, "\"ph\":\"C\"") == 4 * 2 * 2 * 2 * 8, "a counter of memory");
    tap_ok(strstr(out.p, "layer \\\"0\\\" & <more>") != NULL, "labels are escaped");
    tap_ok(strstr(out.p, "\"axis\":\"data\",\"bytes\":268435456") != NULL, "transfers have bytes");
    sn_str_fini(&out);
    sim_fixture_fini(&f);
}

/* --- timeline --------------------------------------------------------------------------------- */

static void timelines_are_as_wide_as_asked(void)
{
    struct sim_fixture f;
    struct sn_str out = {0};
    struct sn_err err = {0};
    sim_fixture_init(&f, small);
    sn_picture_timeline(&out, &f.picture, 60, false, &err);
    const char *lines = strstr(out.p, "stage   0");
    tap_text(lines ? lines : out.p,
             "stage   0 |00111......aaaa222bbbbb...ccccc!!!!=======|  65 %\n"
             "stage   1 |...00aaaaa111bbbbb222ccccc!!!========.....|  65 %\n",
             "a step of two stages");
    sn_str_fini(&out);
    sn_picture_timeline(&out, &f.picture, 60, true, &err);
    tap_ok(strstr(out.p, "·") && strstr(out.p, "█") && strstr(out.p, "│"), "the same in UTF-8");
    sn_str_fini(&out);
    sim_fixture_fini(&f);
    sim_fixture_init(&f, full);
    for (int width = 30; width < 200; width += 17) {
        sn_picture_timeline(&out, &f.picture, width, false, &err);
        int least = 1000, most = 0;
        for (const char *p = out.p; (p = strstr(p, "\nstage ")); p++) {
            int n = (int)strcspn(p + 1, "\n");
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
        int want = width < 40 ? 40 : width;
        tap_ok(count(out.p, "\nstage ") == 16 && least == most && most <= want && most >= want - 2,
               "width %d: sixteen lines of %d to %d columns", width, least, most);
        sn_str_fini(&out);
    }
    sim_fixture_fini(&f);
}

/* --- no memory -------------------------------------------------------------------------------- */

static void failed_allocations_are_told(void)
{
    struct sim_fixture f;
    sim_fixture_init(&f, small);
    int good = 0, n = 0;
    for (; good < 3; n++) {
        struct sn_str out[3] = {{0}};
        struct sn_err err = {0};
        good = 0;
        sn_mem_fail_at((uint64_t)n + 1);
        sn_picture_svg(&out[0], &f.picture);
        sn_mem_fail_at((uint64_t)n + 1);
        bool trace = sn_picture_trace(&out[1], &f.picture, &err) == SN_OK;
        sn_mem_fail_at((uint64_t)n + 1);
        bool lines = sn_picture_timeline(&out[2], &f.picture, 80, false, &err) == SN_OK;
        sn_mem_fail_at(0);
        good = !out[0].failed + trace + lines;
        if (trace != !out[1].failed && trace)
            break;
        for (int i = 0; i < 3; i++)
            sn_str_fini(&out[i]);
    }
    tap_ok(good == 3 && n > 3, "the n-th allocation fails, n = 1 to %d: said, not drawn", n);
    sim_fixture_fini(&f);
}

int main(void)
{
    drawings_are_xml();
    boxes_are_as_long_as_their_events();
    memory_above_the_limit_stands_out();
    many_short_waits_are_pale();
    long_steps_show_three_stretches();
    traces_have_every_event();
    timelines_are_as_wide_as_asked();
    failed_allocations_are_told();
    return tap_done();
}
