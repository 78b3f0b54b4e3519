/*
 * culprit_text.c - who is to blame for an end, by what others wrote of it: the trainer's sentence,
 * the launcher's words.
 */
#include "slurm/supervisor/culprit.h"

#include "lib/layout/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the trainer's sentence ------------------------------------------------------------------ */

/* "rank 12 (" anywhere: the number, and what follows it. */
static const char *next_rank(const char *text, int *rank)
{
    for (const char *p = text; (p = strstr(p, "rank ")); p += 5) {
        char *end;
        long n = strtol(p + 5, &end, 10);
        if (end != p + 5 && n >= 0 && n < INT32_MAX && strncmp(end, " (", 2) == 0) {
            *rank = (int)n;
            return end + 2;
        }
    }
    return NULL;
}

static void copy_until(char *out, size_t room, const char *text, const char *stop)
{
    size_t len = strcspn(text, stop);
    (void)snprintf(out, room, "%.*s", (int)(len < room ? len : room - 1), text);
}

/* Does a group's name begin here? Its length; the longest counts ("data", "data x context"). */
static size_t group_at(const char *text)
{
    size_t longest = 0;
    for (int q = 0; q < SN_NGROUPS; q++) {
        size_t len = strlen(sn_group_name((enum sn_group)q));
        if (len > longest && strncmp(text, sn_group_name((enum sn_group)q), len) == 0 &&
            text[len] == ' ')
            longest = len;
    }
    return longest;
}

/* "rank 0 (n1): l0.w: data all_reduce 'l0.w' (number 7) has waited 3 s": axis and operation. */
static void read_waiting(struct sn_culprit *c, const char *text, const char *waited)
{
    const char *begin = group_at(text) ? text : NULL;
    for (const char *p = text; (p = strstr(p, ": ")) && p < waited;) {
        p += 2;
        if (group_at(p))
            begin = p;
    }
    if (!begin)
        return;
    size_t axis = group_at(begin), len = (size_t)(waited - begin) - axis - 1;
    const char *number = strstr(begin, " (number");
    if (number && number < waited)
        len = (size_t)(number - begin) - axis - 1;
    (void)snprintf(c->axis, sizeof(c->axis), "%.*s", (int)axis, begin);
    (void)snprintf(c->operation, sizeof(c->operation), "%.*s", (int)len, begin + axis + 1);
}

bool sn_culprit_from_sentence(struct sn_culprit *out, const char *text)
{
    struct sn_culprit c = {.kind = SN_SUSPECT_HANG, .rank = -1};
    const char *waited = strstr(text, " has waited ");
    if (!waited)
        return false;
    c.seconds = strtod(waited + 12, NULL);
    read_waiting(&c, text, waited);
    const char *behind = strstr(waited, "is behind at number ");
    const char *number = strstr(text, "(number ");
    if (behind && number)
        c.behind = strtoll(number + 8, NULL, 10) - strtoll(behind + 20, NULL, 10);
    for (const char *p = waited; (p = next_rank(p, &c.rank));)
        ; /* the last one that is named: it waits for nobody, */
    if (strstr(waited, SN_FLIGHT_WAITS_ITSELF))
        c.rank = -1; /* unless it says otherwise */
    const char *silent = strstr(waited, "; process "), *on = silent ? strstr(silent, " on ") : NULL;
    if (c.rank < 0 && on) /* processes have no ranks yet; the first of those that do not answer */
        copy_until(c.host, sizeof(c.host), on + 4, " ,;\n");
    if (strstr(waited, "is gone"))
        c.kind = SN_SUSPECT_SILENT;
    *out = c;
    return true;
}

bool sn_culprit_from_failure(struct sn_culprit *out, const char *text)
{
    struct sn_culprit c = {.kind = SN_SUSPECT_SILENT, .rank = -1};
    const char *host = strncmp(text, "rank ", 5) == 0 ? next_rank(text, &c.rank) : NULL;
    const char *end = host ? strstr(host, "): ") : NULL;
    if (!end || strcspn(host, " )") != (size_t)(end - host))
        return false;
    copy_until(c.host, sizeof(c.host), host, ")");
    *out = c;
    return true;
}

/* ---- the launcher's words -------------------------------------------------------------------- */

/* "srun: error: n1: task 3: Killed", "srun: error: n1: tasks 4-7: Exited with exit code 1" */
static bool read_srun_task(struct sn_culprit *c, const char *line)
{
    static const char lead[] = "srun: error: ";
    if (strncmp(line, lead, sizeof(lead) - 1) != 0)
        return false;
    const char *host = line + sizeof(lead) - 1, *task = strstr(host, ": task");
    if (!task || strcspn(host, " ,\n") < (size_t)(task - host))
        return false;
    task += 6 + (task[6] == 's');
    if (*task != ' ' || task[1] < '0' || task[1] > '9')
        return false;
    c->rank = (int)strtol(task + 1, NULL, 10);
    copy_until(c->host, sizeof(c->host), host, ":[");
    return true;
}

/* "srun: error: task 12 launch failed: Unspecified error": its node could not begin it */
static bool read_launch(struct sn_culprit *c, const char *line)
{
    static const char lead[] = "srun: error: task ", rest[] = " launch failed";
    char *end;
    if (strncmp(line, lead, sizeof(lead) - 1) != 0)
        return false;
    long task = strtol(line + sizeof(lead) - 1, &end, 10);
    if (end == line + sizeof(lead) - 1 || task < 0 || task > INT32_MAX ||
        strncmp(end, rest, sizeof(rest) - 1) != 0)
        return false;
    c->rank = (int)task;
    return true;
}

/* "srun: error: Node failure on n3", "srun: error: Task launch for StepId=1.0 failed on node n3:
 * Communication connection failure" */
static bool read_node_failure(struct sn_culprit *c, const char *line)
{
    static const char *const lead[] = {"Node failure on ", " failed on node "};
    const char *end = strchr(line, '\n');
    for (size_t i = 0; i < sizeof(lead) / sizeof(lead[0]); i++) {
        const char *p = strstr(line, lead[i]);
        if (!p || (end && p > end))
            continue;
        copy_until(c->host, sizeof(c->host), p + strlen(lead[i]), " :,[\n");
        c->host_died = true;
        return true;
    }
    return false;
}

/* "mpirun noticed that process rank 3 with PID 0 on node h exited on signal 9 (Killed)." */
static bool read_mpirun(struct sn_culprit *c, const char *line)
{
    const char *p = strstr(line, "process rank "), *end = strchr(line, '\n');
    if (!p || (end && p > end) || p[13] < '0' || p[13] > '9')
        return false;
    c->rank = (int)strtol(p + 13, NULL, 10);
    const char *node = strstr(p, " on node ");
    if (node && (!end || node < end))
        copy_until(c->host, sizeof(c->host), node + 9, " \n");
    return true;
}

/* "  Process name: [[27213,1],2]": mpirun about one that exited by itself. */
static bool read_process_name(struct sn_culprit *c, const char *line)
{
    int job, step, rank;
    const char *p = line + strspn(line, " ");
    if (sscanf(p, "Process name: [[%d,%d],%d]", &job, &step, &rank) != 3)
        return false;
    c->rank = rank;
    return true;
}

/* "=   PID 29272 RUNNING AT n3": the host of Hydra's that was first to lose a rank. */
static bool read_hydra(struct sn_culprit *c, const char *line)
{
    static const char where[] = " RUNNING AT ";
    char *end;
    if (strncmp(line, "=   PID ", 8) != 0)
        return false;
    long pid = strtol(line + 8, &end, 10);
    if (end == line + 8 || pid <= 0 || pid > INT32_MAX ||
        strncmp(end, where, sizeof(where) - 1) != 0)
        return false;
    copy_until(c->host, sizeof(c->host), end + sizeof(where) - 1, " \n");
    return true;
}

/* "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)" */
int sn_culprit_signal(const char *words)
{
    const char *line = strstr(words ? words : "", "TERMINATED WITH THE EXIT STRING: ");
    const char *end = line ? strchr(line, '\n') : NULL, *p = line ? strstr(line, "(signal ") : NULL;
    if (!p || (end && p > end))
        return 0;
    long n = strtol(p + 8, NULL, 10);
    return n > 0 && n < 65 ? (int)n : 0;
}

bool sn_culprit_from_words(struct sn_culprit *out, const char *words)
{
    struct sn_culprit c = {.kind = SN_SUSPECT_SILENT, .rank = -1};
    for (const char *line = words; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (read_node_failure(&c, line) || read_srun_task(&c, line) || read_launch(&c, line) ||
            read_mpirun(&c, line) || read_process_name(&c, line) || read_hydra(&c, line)) {
            *out = c;
            return true;
        }
    }
    return false;
}
