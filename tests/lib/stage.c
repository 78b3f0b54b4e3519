#include "tests/lib/stage_inner.h"

#include "lib/base/exit_code.h"
#include "lib/base/log.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double for_ever = 1e7; /* seconds: who waits longer waits for nothing */

/* ---- time ------------------------------------------------------------------------------------ */

static double now(void *self)
{
    return ((struct stage *)self)->now;
}

static double date(void *self)
{
    return STAGE_DATE + ((struct stage *)self)->now;
}

unsigned stage_meet(struct stage *s)
{
    const struct stage_cue *c = &s->cue[s->cues++];
    if (c->job)
        (void)snprintf(s->job, sizeof(s->job), "%s", c->job);
    if (c->room)
        s->room = c->room;
    return c->asked;
}

/* Who asks comes first, then the end of the child. */
static unsigned wait_for(void *self, double seconds)
{
    struct stage *s = self;
    double until = s->now + (seconds > 0 ? seconds : 0);
    unsigned asked = s->pending;
    s->pending = 0;
    if (asked)
        return asked;
    const struct stage_cue *c = s->cues < s->n_cue ? &s->cue[s->cues] : NULL;
    bool is_cue = c && c->at > 0 && c->at <= until;
    double end = s->child.runs ? s->child.ends : 0;
    bool is_end = end > 0 && end <= until && !(is_cue && c->at < end);
    if (is_cue && !is_end)
        until = c->at;
    else if (is_end)
        until = end;
    s->now = until > s->now ? until : s->now;
    if (s->now > for_ever) {
        (void)printf("Bail out! the supervisor waits for ever\n");
        exit(1);
    }
    stage_go_on(s);
    if (is_end)
        stage_end_child(s, s->child.is_asked ? SN_EXIT_SAVED : s->child.act->code);
    return is_cue && !is_end ? stage_meet(s) : 0;
}

/* ---- files that change by themselves --------------------------------------------------------- */

static bool read_record(void *self, struct sn_flight_view *out, const char *folder, int rank,
                        int64_t since)
{
    const struct stage *s = self;
    (void)folder;
    (void)since;
    if (rank >= STAGE_RANKS || s->record[rank].n < 0)
        return false;
    *out = s->record[rank];
    if (s->heartbeats[rank])
        out->heartbeats += (uint64_t)(2 * s->now);
    return true;
}

static int64_t free_bytes(void *self, const char *path)
{
    (void)path;
    return ((struct stage *)self)->room;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const struct sn_platform_clock the_clock = {.now = now, .date = date, .wait = wait_for};
static const struct sn_platform_files files = {.record = read_record, .room = free_bytes};
static bool make_folders(struct stage *s)
{
    char path[160];
    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/sn-stage-XXXXXX");
    if (!mkdtemp(s->dir))
        return false;
    (void)snprintf(s->output, sizeof(s->output), "%s/run", s->dir);
    (void)snprintf(s->run_file, sizeof(s->run_file), "%s/run.yaml", s->dir);
    (void)snprintf(path, sizeof(path), "%s/bin", s->dir);
    bool good = mkdir(s->output, 0755) == 0 && mkdir(path, 0755) == 0;
    static const char *const program[] = {"srun", "mpirun"}; /* looked for, never started */
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/bin/%s", s->dir, program[i]);
        stage_put(path, "w", "");
        good = good && chmod(path, 0755) == 0;
    }
    return good;
}

bool stage_open(struct stage *s, const char *hosts)
{
    *s =
        (struct stage){.platform = {.clock = &the_clock,
                                    .launcher = &stage_launcher,
                                    .files = &files,
                                    .scheduler = &stage_scheduler},
                       .slurm = "preflight: false",
                       .layout = "{data: 2, tensor: 4, pipeline: 2, micro_batch: 1, bucket: 64KiB}",
                       .run = "",
                       .hosts = hosts,
                       .now = 1,
                       .config = "PreemptType = preempt/none",
                       .partition = "PartitionName=batch PreemptMode=OFF GraceTime=0",
                       .job = "JobId=41 JobName=x JobState=RUNNING Restarts=0 Requeue=1 "
                              "EndTime=Unknown",
                       .has_scontrol = true,
                       .room = -1};
    size_t at = 0;
    for (const char *p = hosts; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
        at += (size_t)snprintf(s->nodes + at, sizeof(s->nodes) - at,
                               "NodeName=%.*s Arch=x86_64 State=ALLOCATED\n", (int)strcspn(p, ","),
                               p);
    for (int i = 0; i < STAGE_RANKS; i++)
        s->record[i].n = -1;
    s->platform.self = s;
    return make_folders(s);
}

static int remove_one(const char *path, const struct stat *id, int kind, struct FTW *at)
{
    (void)id;
    (void)kind;
    (void)at;
    return remove(path);
}

void stage_close(struct stage *s)
{
    (void)nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void stage_cues(struct stage *s, const struct stage_cue *cue, int n)
{
    s->cue = cue;
    s->n_cue = n;
    s->cues = 0;
}

static void write_run_file(const struct stage *s)
{
    char text[2048];
    (void)snprintf(
        text, sizeof(text),
        "run: {name: test, seed: 7, output: %s, threads: 1%s}\n"
        "model: {family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 4, ffn: 160,\n"
        "        vocab: 256, seq: 32, dropout: 0.0}\n"
        "data: {train: tok, valid: tok-valid}\n"
        "train:\n"
        "  steps: 100\n"
        "  global_batch: 16\n"
        "  precision: fp32\n"
        "  optimizer: {lr: 3.0e-4, weight_decay: 0.1, clip: 1.0}\n"
        "  schedule: {kind: cosine, warmup: 5, min_lr: 3.0e-5}\n"
        "  eval_every: 0\n"
        "layout: %s\n"
        "checkpoint: {dir: ckpt, every: 10, keep: 2}\n"
        "slurm: {%s}\n",
        s->output, s->run, s->layout, s->slurm);
    stage_put(s->run_file, "w", text);
}

static void set(const char *name, const char *format, ...)
{
    char value[1024];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(value, sizeof(value), format, ap);
    va_end(ap);
    (void)setenv(name, value, 1);
}

/* What a batch script finds, and what the scene adds to it. */
static void set_environment(const struct stage *s)
{
    int n = 1;
    (void)clearenv();
    set("PATH", "%s/bin", s->dir);
    for (const char *p = s->hosts; *p; p++)
        n += *p == ',';
    if (*s->hosts) {
        set("SLURM_JOB_ID", "41");
        set("SLURM_JOB_NODELIST", "%s", s->hosts);
        set("SLURM_JOB_NUM_NODES", "%d", n);
        set("SLURM_JOB_PARTITION", "batch");
        set("SLURM_JOB_NAME", "x");
        set("SLURM_NTASKS_PER_NODE", "4");
        set("SLURM_JOB_CPUS_PER_NODE", "8(x%d)", n);
    }
    if (s->restart)
        set("SLURM_RESTART_COUNT", "%d", s->restart);
    for (const char *p = s->environment; p && *p; p += strspn(p, " ")) {
        char word[256];
        size_t len = strcspn(p, " ");
        (void)snprintf(word, sizeof(word), "%.*s", (int)len, p);
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        set(word, "%s", value ? value : "");
        p += len;
    }
}

int stage_play(struct stage *s, const struct stage_act *act, int n, bool fresh)
{
    struct sn_supervisor *x = calloc(1, sizeof(*x));
    struct sn_supervisor_line line = {
        .run_file = s->run_file, .fresh = fresh, .version = "0", .trainer = "sennit-train"};
    int code = 1;
    if (!x)
        return code;
    sn_log_set_level(SN_LOG_ERROR);
    s->act = act;
    s->n_act = n;
    s->launches = s->questions = s->requeues = 0;
    write_run_file(s);
    set_environment(s);
    enum sn_status st = sn_supervisor_open(x, &line, &s->platform, &s->err);
    if (st == SN_OK)
        st = sn_supervisor_run(x, &code, &s->err);
    sn_supervisor_close(x);
    free(x);
    if (st == SN_OK)
        return code;
    (void)printf("# %s\n", s->err.text);
    return sn_exit_code(st);
}

/* ---- what became of it ----------------------------------------------------------------------- */
const char *stage_file(struct stage *s, const char *name)
{
    char path[512];
    stage_path(path, s, name);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(s->line, 1, sizeof(s->line) - 1, f) : 0;
    s->line[n] = '\0';
    if (f)
        (void)fclose(f);
    return s->line;
}

static bool next_event(struct stage *s, FILE *f, const char *event)
{
    char mark[64];
    (void)snprintf(mark, sizeof(mark), "\"event\": \"%s\"", event);
    while (f && fgets(s->line, sizeof(s->line), f))
        if (strstr(s->line, mark))
            return true;
    return false;
}

static int count(struct stage *s, const char *event, int stop)
{
    char path[512];
    int n = 0;
    stage_path(path, s, "journal.jsonl");
    FILE *f = fopen(path, "r");
    while (n != stop && next_event(s, f, event))
        n++;
    if (f)
        (void)fclose(f);
    return n;
}

int stage_count(const struct stage *s, const char *event)
{
    struct stage copy = *s;
    return count(&copy, event, -1);
}

const char *stage_event(struct stage *s, const char *event, int i)
{
    int n = count(s, event, -1), which = i < 0 ? n + i : i;
    if (which < 0 || which >= n || count(s, event, which + 1) != which + 1)
        s->line[0] = '\0';
    return s->line;
}
