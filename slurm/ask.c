#include "slurm/ask.h"

#include "slurm/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE = 20, SHORT_PATIENCE = 2 }; /* seconds that slurmctld may take */

/* ---- texts --------------------------------------------------------------------------------------
 */

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
    (void)sn_slurm_value(word, sizeof(word), text, "Restarts");
    if (*word)
        f.restarts = strtoll(word, NULL, 10);
    (void)sn_slurm_value(word, sizeof(word), text, "Requeue");
    f.may_requeue = strcmp(word, "0") != 0;
    (void)sn_slurm_value(word, sizeof(word), text, "PreemptTime");
    f.is_spared = strcmp(word, "None") == 0;
    (void)sn_slurm_value(word, sizeof(word), text, "EndTime");
    f.end_time = sn_slurm_time(word);
    if (!*f.state)
        return false;
    *out = f;
    return true;
}

static bool is_dead(const char *state)
{
    static const char *const word[] = {"DOWN",       "FAIL",         "NOT_RESPONDING",
                                       "NO_RESPOND", "POWERED_DOWN", "POWERING_DOWN",
                                       "REBOOT",     "DRAIN",        "UNKNOWN"};
    for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++)
        if (strstr(state, word[i]))
            return true;
    return strchr(state, '*') != NULL;
}

int sn_nodes_parse(bool *dead, const struct sn_hostlist *host, const char *text)
{
    char name[SN_HOST_NAME], state[128];
    int found = 0;
    for (const char *p = text; (p = strstr(p, "NodeName=")); p++) {
        (void)sn_slurm_value(name, sizeof(name), p, "NodeName");
        (void)sn_slurm_value(state, sizeof(state), p, "State");
        for (int i = 0; i < host->n; i++)
            if (strcmp(sn_hostlist_name(host, i), name) == 0) {
                dead[i] = dead[i] || is_dead(state);
                found++;
            }
    }
    return found;
}

int sn_slurm_version(const char *text)
{
    int year, month;
    const char *p = strpbrk(text, "0123456789");
    return p && sscanf(p, "%d.%d", &year, &month) == 2 && month < 100 ? year * 100 + month : 0;
}

/* ---- questions ----------------------------------------------------------------------------------
 */

/* What a command prints when it succeeds; false, and nothing to free, otherwise. */
static bool ask(struct sn_str *out, double seconds, const char *const *argv)
{
    char why[SN_COMMAND_WHY];
    return sn_command_ask(out, why, argv, seconds, NULL) == SN_OK && out->p;
}

#define ASK_FOR(out, seconds, ...) ask(out, seconds, (const char *const[]){__VA_ARGS__, NULL})
#define ASK(out, ...)              ASK_FOR(out, PATIENCE, __VA_ARGS__)

static void ask_job(struct sn_job_facts *out, const char *job, double seconds)
{
    struct sn_str text;
    *out = (struct sn_job_facts){.restarts = -1, .may_requeue = true};
    if (ASK_FOR(&text, seconds, "scontrol", "--oneliner", "show", "job", job)) {
        (void)sn_job_parse(out, text.p);
        sn_str_fini(&text);
    }
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

int64_t sn_ask_end(const char *job)
{
    struct sn_job_facts f;
    ask_job(&f, job, SHORT_PATIENCE);
    return f.end_time;
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

bool sn_ask_nodes(bool *dead, const struct sn_hostlist *host)
{
    struct sn_str list = {0}, text;
    sn_hostlist_format(&list, host);
    bool good =
        !list.failed && list.p && ASK(&text, "scontrol", "--oneliner", "show", "node", list.p);
    sn_str_fini(&list);
    if (!good)
        return false;
    int found = sn_nodes_parse(dead, host, text.p);
    sn_str_fini(&text);
    return found > 0;
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
