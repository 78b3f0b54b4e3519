/*
 * lr_schedule.c - the rows of lr_schedule.h as a table.
 */
#include "lib/config/lr_schedule.h"

#define NAME_OF(id, word, name, ...) [id] = (name),

const char *const sn_lr_names[SN_NLR_KINDS + 1] = {SN_LR_SCHEDULES(NAME_OF)};
