/*
 * lr_schedule.c - the rows of lr_schedule.h as a table.
 */
#include "lib/config/lr_schedule.h"

#define NAME_OF(id, word, name, decay)  [id] = (name),
#define DECAY_OF(id, word, name, decay) [id] = (decay),

const char *const sn_lr_names[SN_NLR_KINDS + 1] = {SN_LR_SCHEDULES(NAME_OF)};
static const bool decays[SN_NLR_KINDS] = {SN_LR_SCHEDULES(DECAY_OF)};

bool sn_lr_has_decay(enum sn_lr_kind k)
{
    return decays[k];
}
