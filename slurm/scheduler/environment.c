/*
 * environment.c - names and values, of this process or recorded.
 */
#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "slurm/scheduler/allocation.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum sn_status sn_environment_own(struct sn_environment *out, struct sn_err *err)
{
    int n = 0;
    while (environ && environ[n])
        n++;
    char **line = sn_alloc_n((size_t)n + 1, sizeof(*line));
    if (!line)
        return sn_fail(err, SN_ENOMEM, "environment: no memory for %d variables", n);
    for (int i = 0; i < n; i++)
        line[i] = environ[i];
    *out = (struct sn_environment){.line = line, .n = n};
    return SN_OK;
}

static bool begins_variable(const char *line, size_t len)
{
    size_t i = 0;
    while (i < len && line[i] != '=' &&
           ((line[i] >= 'A' && line[i] <= 'Z') || (line[i] >= 'a' && line[i] <= 'z') ||
            line[i] == '_' || (i && line[i] >= '0' && line[i] <= '9')))
        i++;
    return i > 0 && i < len && line[i] == '=';
}

/* Mark where variables begin, end each with a NUL; returns how many there are. */
static int cut(char *text, size_t len, char **line)
{
    char end = memchr(text, '\0', len) ? '\0' : '\n'; /* env -0, or env */
    int n = 0;
    for (size_t at = 0; at < len;) {
        char *stop = memchr(text + at, end, len - at);
        size_t size = stop ? (size_t)(stop - (text + at)) : len - at;
        if (begins_variable(text + at, size)) {
            if (at && line)
                text[at - 1] = '\0'; /* the variable before ends here, not at its line */
            if (line)
                line[n] = text + at;
            n++;
        }
        at += size + 1;
    }
    if (line && len && text[len - 1] == '\n')
        text[len - 1] = '\0';
    return n;
}

enum sn_status sn_environment_parse(struct sn_environment *out, const char *text, size_t len,
                                    const char *path, struct sn_err *err)
{
    struct sn_environment e = {.text = sn_alloc(len + 1)};
    if (e.text) {
        memcpy(e.text, text, len);
        e.n = cut(e.text, len, NULL);
        e.line = sn_alloc_n((size_t)e.n + 1, sizeof(*e.line));
    }
    enum sn_status st = SN_OK;
    if (!e.text || !e.line)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for %zu bytes", path, len);
    else if (e.n == 0)
        st = sn_fail(err, SN_EINPUT,
                     "%s: no variable in it; want the output of env, one "
                     "NAME=VALUE a line",
                     path);
    if (st != SN_OK) {
        sn_environment_fini(&e);
        return st;
    }
    (void)cut(e.text, len, e.line);
    *out = e;
    return SN_OK;
}

enum sn_status sn_environment_load(struct sn_environment *out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_environment_parse(out, text, len, path, err);
    sn_free(text);
    return st;
}

void sn_environment_fini(struct sn_environment *e)
{
    sn_free(e->line);
    sn_free(e->text);
    *e = (struct sn_environment){0};
}

const char *sn_environment_get(const struct sn_environment *e, const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; i < e->n; i++)
        if (strncmp(e->line[i], name, len) == 0 && e->line[i][len] == '=')
            return e->line[i][len + 1] ? e->line[i] + len + 1 : NULL;
    return NULL;
}

bool sn_environment_has_program(const struct sn_environment *e, const char *name)
{
    char path[4200];
    for (const char *p = sn_environment_get(e, "PATH"); p && *p; p += strspn(p, ":")) {
        size_t len = strcspn(p, ":");
        (void)snprintf(path, sizeof(path), "%.*s/%s", (int)(len < 4000 ? len : 0), p, name);
        if (access(path, X_OK) == 0)
            return true;
        p += len;
    }
    return false;
}
