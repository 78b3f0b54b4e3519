#include "slurm/scheduler/ask.h"

#include "lib/base/mem.h"
#include "slurm/scheduler/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE = 20, SHORT_PATIENCE = 2 }; /* seconds that slurmctld may take */

/* ---- texts ----------------------------------------------------------------------------------- */

bool sn_slurm_value(char *out, size_t room, const char *text, const char *name)
{
    static const char blank[] = " \t\n";
    size_t n = strlen(name);
    out[0] = '\0';
    for (const char *at = text; (at = strstr(at, name)); at += n) {
        bool begins = at == text || strchr(blank, at[-1]);
        size_t gap = strspn(at + n, " ");
        const char *value = at + n + gap + 1;
        if (!begins || value[-1] != '=')
            continue;
        if (gap) /* "NAME= OTHER=1" has no value */
            value += strspn(value, " ");
        (void)snprintf(out, room, "%.*s", (int)strcspn(value, blank), value);
        return true;
    }
    return false;
}

int64_t sn_slurm_time(const char *text)
{
    struct tm t = {.tm_isdst = -1};
    char *end;
    if (sscanf(text, "%d-%d-%dT%d:%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min,
               &t.tm_sec) == 6) {
        t.tm_year -= 1900;
        t.tm_mon -= 1;
        time_t when = mktime(&t);
        return when > 0 ? (int64_t)when : 0;
    }
    long long n = strtoll(text, &end, 10);
    return end != text && (*end == '\0' || *end == '\n') && n > 0 ? n : 0;
}

bool sn_job_parse(struct sn_job_facts *out, const char *text)
{
    struct sn_job_facts f = {.is_known = true, .restarts = -1};
    char word[64];
    (void)sn_slurm_value(f.state, sizeof(f.state), text, "JobState");
    (void)sn_slurm_value(f.reason, sizeof(f.reason), text, "Reason");
    (void)sn_slurm_value(word, sizeof(word), text, "Restarts");
    if (*word)
        f.restarts = strtoll(word, NULL, 10);
    (void)sn_slurm_value(word, sizeof(word), text, "Requeue");
    f.may_requeue = strcmp(word, "0") != 0;
    (void)sn_slurm_value(word, sizeof(word), text, "PreemptTime");
    f.is_spared = strcmp(word, "None") == 0;
    f.preempt_time = sn_slurm_time(word);
    (void)sn_slurm_value(word, sizeof(word), text, "EndTime");
    f.end_time = sn_slurm_time(word);
    if (!*f.state)
        return false;
    *out = f;
    return true;
}

/* The marks are those of scontrol: '*' for one that does not answer. */
static enum sn_node_health health_of(const char *state)
{
    static const struct {
        const char *word;
        enum sn_node_health health;
    } row[] = {{"DOWN", SN_HEALTH_DEAD},
               {"POWERING_DOWN", SN_HEALTH_DEAD},
               {"POWERED_OFF", SN_HEALTH_DEAD},
               {"REBOOT_ISSUED", SN_HEALTH_DEAD},
               {"NOT_RESPONDING", SN_HEALTH_SILENT},
               {"NO_RESPOND", SN_HEALTH_SILENT},
               {"*", SN_HEALTH_SILENT},
               {"DRAIN", SN_HEALTH_LEAVING},
               {"FAIL", SN_HEALTH_LEAVING},
               {"REBOOT", SN_HEALTH_LEAVING}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (strstr(state, row[i].word))
            return row[i].health;
    return SN_HEALTH_GOOD;
}

int sn_nodes_parse(enum sn_node_health *health, const struct sn_hostlist *host, const char *text)
{
    char name[SN_HOST_NAME], state[128];
    int found = 0;
    for (const char *p = text; (p = strstr(p, "NodeName=")); p++) {
        (void)sn_slurm_value(name, sizeof(name), p, "NodeName");
        (void)sn_slurm_value(state, sizeof(state), p, "State");
        enum sn_node_health now = health_of(state);
        for (int i = 0; i < host->n; i++)
            if (strcmp(sn_hostlist_name(host, i), name) == 0) {
                health[i] = now > health[i] ? now : health[i];
                found++;
            }
    }
    return found;
}

/* The list that follows NAME=, for the caller to free; NULL: there is none. */
static char *list_of(const char *text, const char *name)
{
    for (const char *at = text; (at = strstr(at, name)); at += strlen(name))
        if (at == text || at[-1] == ' ' || at[-1] == '\n')
            return sn_format("%.*s", (int)strcspn(at + strlen(name), " \n"), at + strlen(name));
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* DEAD are the hosts that are not in `left`. */
static enum sn_status mark_missing(enum sn_node_health *health, const struct sn_hostlist *host,
                                   const struct sn_hostlist *left, struct sn_err *err)
{
    const char **name = sn_alloc_n((size_t)left->n, sizeof(*name));
    if (!name)
        return sn_fail(err, SN_ENOMEM, "nodes: no memory for %d names", left->n);
    for (int i = 0; i < left->n; i++)
        name[i] = sn_hostlist_name(left, i);
    qsort(name, (size_t)left->n, sizeof(*name), compare_names);
    for (int i = 0; i < host->n; i++) {
        const char *key = sn_hostlist_name(host, i);
        if (!bsearch(&key, name, (size_t)left->n, sizeof(*name), compare_names))
            health[i] = SN_HEALTH_DEAD;
    }
    sn_free(name);
    return SN_OK;
}

enum sn_status sn_job_nodes_parse(enum sn_node_health *health, const struct sn_hostlist *host,
                                  const char *text, struct sn_err *err)
{
    struct sn_job_facts job;
    struct sn_hostlist left;
    if (!sn_job_parse(&job, text) || strcmp(job.state, "RUNNING") != 0)
        return SN_OK; /* the list shrinks while a job is being ended */
    char *list = list_of(text, "NodeList=");
    if (!list)
        return SN_OK;
    enum sn_status st = sn_hostlist_parse(&left, list, "NodeList", err);
    sn_free(list);
    if (st != SN_OK || left.n == 0)
        return st;
    st = mark_missing(health, host, &left, err);
    sn_hostlist_fini(&left);
    return st;
}

int sn_slurm_version(const char *text)
{
    int year, month;
    const char *p = strpbrk(text, "0123456789");
    return p && sscanf(p, "%d.%d", &year, &month) == 2 && month < 100 ? year * 100 + month : 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* What a command prints when it succeeds; false, and nothing to free, otherwise. */
static bool ask(struct sn_str *out, double seconds, const char *const *argv)
{
    char why[SN_COMMAND_WHY];
    return sn_command_ask(out, why, argv, seconds, NULL) == SN_OK && out->p;
}

#define ASK_FOR(out, seconds, ...) ask(out, seconds, (const char *const[]){__VA_ARGS__, NULL})
#define ASK(out, ...)              ASK_FOR(out, PATIENCE, __VA_ARGS__)

static void ask_scontrol(struct sn_job_facts *out, const char *job, double seconds)
{
    const char *const argv[] = {"scontrol", "--oneliner", "show", "job", job, NULL};
    struct sn_command c = {.argv = argv, .seconds = seconds};
    struct sn_command_result r = {0};
    bool ran = sn_command_run(&r, &c, NULL) == SN_OK;
    if (ran && sn_command_succeeded(&r) && r.out.p)
        (void)sn_job_parse(out, r.out.p);
    else if (ran)
        out->is_down = r.end == SN_COMMAND_TIMEOUT || (r.err.p && strstr(r.err.p, "contact"));
    sn_command_fini(&r); /* "Unable to contact slurm controller (connect failure)" */
}

static void ask_job(struct sn_job_facts *out, const char *job, double seconds)
{
    struct sn_str text;
    *out = (struct sn_job_facts){.restarts = -1, .may_requeue = true};
    ask_scontrol(out, job, seconds);
    if (!out->end_time &&
        ASK_FOR(&text, seconds, "squeue", "--noheader", "--jobs", job, "--format=%e")) {
        out->end_time = sn_slurm_time(text.p);
        sn_str_fini(&text);
    }
}

void sn_ask_job(struct sn_job_facts *out, const char *job)
{
    ask_job(out, job, PATIENCE);
}

void sn_ask_job_shortly(struct sn_job_facts *out, const char *job)
{
    ask_job(out, job, SHORT_PATIENCE);
}

bool sn_ask_chained(const char *job, const char *name)
{
    struct sn_str text;
    bool found = false;
    if (!name || !ASK(&text, "squeue", "--noheader", "--me", "--states=PENDING", "--name", name,
                      "--format=%A"))
        return false;
    for (const char *p = text.p; *p && !found;) {
        size_t len = strcspn(p, "\n");
        found = len > 0 && (strlen(job) != len || strncmp(p, job, len) != 0);
        p += len + (p[len] == '\n');
    }
    sn_str_fini(&text);
    return found;
}

bool sn_ask_nodes(enum sn_node_health *health, const struct sn_hostlist *host, const char *job,
                  double seconds, struct sn_str *nodes)
{
    struct sn_str list = {0}, text = {0};
    enum sn_node_health *now = sn_alloc_n((size_t)host->n + 1, sizeof(*now));
    sn_hostlist_format(&list, host);
    bool good = now && !list.failed && list.p &&
                ASK_FOR(&text, seconds, "scontrol", "--oneliner", "show", "node", list.p) &&
                sn_nodes_parse(now, host, text.p) > 0;
    sn_str_fini(&list);
    if (good && nodes)
        *nodes = text;
    else
        sn_str_fini(&text);
    if (good && ASK_FOR(&text, seconds, "scontrol", "--oneliner", "show", "job", job)) {
        (void)sn_job_nodes_parse(now, host, text.p, NULL); /* else the states alone count */
        sn_str_fini(&text);
    }
    if (good)
        memcpy(health, now, (size_t)host->n * sizeof(*health));
    sn_free(now);
    return good;
}

bool sn_ask_config(struct sn_str *out)
{
    return ASK(out, "scontrol", "show", "config");
}

/* "41.0", "41.batch", "41.extern", one a line: steps have numbers. */
int sn_steps_parse(const char *text)
{
    int n = 0;
    for (const char *p = text; (p = strchr(p, '.')); p++)
        n += p[1] >= '0' && p[1] <= '9';
    return n;
}

int sn_ask_steps(const char *job)
{
    struct sn_str text;
    if (!ASK(&text, "squeue", "--noheader", "--steps", "--jobs", job, "--format=%i"))
        return 0;
    int n = sn_steps_parse(text.p);
    sn_str_fini(&text);
    return n;
}

enum sn_status sn_ask_requeue(const char *job, struct sn_err *err)
{
    const char *const argv[] = {"scontrol", "requeue", job, NULL};
    struct sn_str text;
    char why[SN_COMMAND_WHY];
    enum sn_status st = sn_command_ask(&text, why, argv, PATIENCE, err);
    sn_str_fini(&text);
    return st == SN_OK && *why ? sn_fail(err, SN_EFAIL, "%s", why) : st;
}

int sn_ask_version(void)
{
    struct sn_str text;
    if (!ASK(&text, "srun", "--version"))
        return 0;
    int version = sn_slurm_version(text.p);
    sn_str_fini(&text);
    return version;
}
