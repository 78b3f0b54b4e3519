/*
 * table.c - CSV without quotes: `#` comments, a line of names, lines of values.
 */
#include "tests/bench/foreign/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 40, LINE = 2048 };

struct table {
    const char *path;
    int line, n;
    char names[LINE], values[LINE]; /* cut into words */
    const char *name[COLUMNS], *value[COLUMNS];
};

static int cut(char *text, const char *word[COLUMNS])
{
    int n = 0;
    text[strcspn(text, "\r\n")] = 0;
    while (text && n < COLUMNS)
        word[n++] = strsep(&text, ",");
    return n;
}

const char *table_text(const struct table *t, const char *column)
{
    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->name[i], column) == 0)
            return t->value[i];
    }
    return "";
}

double table_number(const struct table *t, const char *column)
{
    return strtod(table_text(t, column), NULL);
}

long table_int(const struct table *t, const char *column)
{
    return strtol(table_text(t, column), NULL, 10);
}

static enum sn_status take_line(struct table *t, table_take *take, void *arg, struct sn_err *err)
{
    if (t->values[0] == '#')
        return SN_OK;
    if (t->n == 0) {
        memcpy(t->names, t->values, sizeof(t->names));
        t->n = cut(t->names, t->name);
        return SN_OK;
    }
    int n = cut(t->values, t->value);
    if (n != t->n)
        return sn_fail(err, SN_EINPUT, "%s:%d: %d values, but the table has %d columns", t->path,
                       t->line, n, t->n);
    enum sn_status st = take(arg, t, err);
    return st == SN_OK ? st : sn_err_prefix(err, "%s:%d: ", t->path, t->line);
}

enum sn_status table_read(const char *path, table_take *take, void *arg, struct sn_err *err)
{
    struct table t = {.path = path};
    FILE *f = fopen(path, "r");
    if (!f)
        return sn_fail(err, SN_EINPUT, "%s: cannot be opened; is this the repository's root?",
                       path);
    enum sn_status st = SN_OK;
    for (; st == SN_OK && fgets(t.values, sizeof(t.values), f); t.line++)
        st = take_line(&t, take, arg, err);
    (void)fclose(f);
    return st;
}
