#include "slurm/scheduler/ledger.h"

#include "lib/base/jsonl.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

static const char *const grade_name[] = {"good", "died", "doubtful", "bad"};

static enum sn_ledger_grade parse_grade(const char *name)
{
    for (int i = SN_NODE_DIED; i < SN_NODE_BAD; i++)
        if (strcmp(name, grade_name[i]) == 0)
            return (enum sn_ledger_grade)i;
    return SN_NODE_BAD; /* what a person wrote without a grade */
}

static enum sn_status keep(struct sn_ledger *l, const struct sn_ledger_entry *e, struct sn_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->entry[i].host, e->host) == 0) {
            if (e->grade >= l->entry[i].grade)
                l->entry[i] = *e; /* a node that is bad does not become doubtful */
            return SN_OK;
        }
    if (!sn_grow((void **)&l->entry, l->n, &l->room, sizeof(*l->entry)))
        return sn_fail(err, SN_ENOMEM, "ledger: no memory for %d nodes", l->n + 1);
    l->entry[l->n++] = *e;
    return SN_OK;
}

enum sn_status sn_ledger_load(struct sn_ledger *out, const char *path, int64_t now,
                              struct sn_err *err)
{
    struct sn_jsonl file;
    struct sn_json line;
    struct sn_ledger l = {0};
    enum sn_status st = SN_OK;
    SN_TRY(sn_jsonl_open(&file, path, err));
    while (st == SN_OK && sn_jsonl_next(&file, &line)) {
        struct sn_ledger_entry e = {.until = sn_json_get_integer(line, "until", 0)};
        char grade[16];
        sn_json_get_text(line, "host", e.host, sizeof(e.host));
        sn_json_get_text(line, "why", e.why, sizeof(e.why));
        sn_json_get_text(line, "grade", grade, sizeof(grade));
        e.grade = parse_grade(grade);
        if (*e.host && e.until > now)
            st = keep(&l, &e, err);
    }
    sn_jsonl_close(&file);
    if (st == SN_OK)
        *out = l;
    else
        sn_ledger_fini(&l);
    return st;
}

void sn_ledger_fini(struct sn_ledger *l)
{
    sn_free(l->entry);
    *l = (struct sn_ledger){0};
}

const struct sn_ledger_entry *sn_ledger_find(const struct sn_ledger *l, const char *host)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->entry[i].host, host) == 0)
            return &l->entry[i];
    return NULL;
}

enum sn_status sn_ledger_add(struct sn_ledger *l, const char *path,
                             const struct sn_ledger_entry *entry, const char *job, int64_t now,
                             struct sn_err *err)
{
    struct sn_str line = {0};
    sn_jsonl_int(&line, "time", now);
    sn_jsonl_text(&line, "host", entry->host);
    sn_jsonl_text(&line, "why", entry->why);
    sn_jsonl_text(&line, "grade", grade_name[entry->grade]);
    sn_jsonl_int(&line, "until", entry->until);
    sn_jsonl_text(&line, "job", job);
    SN_TRY(sn_jsonl_append(path, &line, err));
    return keep(l, entry, err);
}
