/*
 * choices.c - see choices.h.
 */
#include "lib/machine/choices.h"

#include "lib/base/mem.h"
#include "lib/config/yaml.h"

#include <stdio.h>
#include <string.h>

/* A quote or a backslash would end or change the text in the file; nothing writes them. */
static bool is_plain(const char *line)
{
    for (const char *p = line; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
            return false;
    return line[0] && strlen(line) < SN_DEVICE_CHOICE;
}

enum sn_status sn_choices_add(struct sn_choices *c, const char *line, struct sn_err *err)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->line[i], line) == 0)
            return SN_OK;
    if (!is_plain(line))
        return sn_fail(err, SN_EINPUT,
                       "choices: '%.40s' is no line of plain text of at most %d "
                       "bytes; want one that sennit-train --tune has written",
                       line, SN_DEVICE_CHOICE - 1);
    if (!sn_grow((void **)&c->line, c->n, &c->room, sizeof(*c->line)))
        return sn_fail(err, SN_ENOMEM, "choices: no memory for %d lines", c->n + 1);
    (void)snprintf(c->line[c->n++], SN_DEVICE_CHOICE, "%s", line);
    return SN_OK;
}

enum sn_status sn_choices_read(struct sn_choices *c, const struct sn_yaml_node *list,
                               struct sn_err *err)
{
    if (!list || sn_yaml_is_null(list))
        return SN_OK;
    if (list->kind != SN_YAML_LIST)
        return sn_yaml_fail(list, err, "choices: want a list of lines");
    for (const struct sn_yaml_node *i = list->first; i; i = i->next) {
        struct sn_err why = {0};
        if (i->kind != SN_YAML_SCALAR)
            return sn_yaml_fail(i, err, "choices: want a line of text");
        if (sn_choices_add(c, i->text, &why) != SN_OK)
            return sn_yaml_fail(i, err, "%s", why.text);
    }
    return SN_OK;
}

void sn_choices_format(struct sn_str *out, const struct sn_choices *c)
{
    for (int i = 0; i < c->n; i++)
        sn_str_add(out, "%s  - \"%s\"\n", i ? "" : "choices:\n", c->line[i]);
}

void sn_choices_fini(struct sn_choices *c)
{
    sn_free(c->line);
    *c = (struct sn_choices){0};
}
