/*
 * plan_list.h - sennit-plan --help-keys and --list: what keys there are, and what ships.
 */
#ifndef SN_BIN_PLAN_LIST_H
#define SN_BIN_PLAN_LIST_H

#include "lib/base/err.h"

#include <stdbool.h>

struct sn_plan_lists {
    const char *list; /* what ships of this; NULL: not asked for */
    bool keys;        /* all keys: of the run file, as a page of it, or of: */
    bool markdown, machines, sites, huggingface;
};

enum sn_status sn_plan_parse_list(struct sn_plan_lists *l, const char *text, struct sn_err *err);
/* `format` NULL: as text. */
enum sn_status sn_plan_parse_keys(struct sn_plan_lists *l, const char *format, struct sn_err *err);
/* Is the list all that the line asks for? */
enum sn_status sn_plan_check_list(const struct sn_plan_lists *l, int argc, char **argv,
                                  struct sn_err *err);
enum sn_status sn_plan_print_lists(const struct sn_plan_lists *l, struct sn_err *err);

#endif
