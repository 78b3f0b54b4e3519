/*
 * pipeline_schedule.c - the rows of pipeline_schedule.h as tables.
 */
#include "lib/config/pipeline_schedule.h"

#include "lib/base/str.h"

#define NAME_OF(id, word, name, ...)   [id] = (name),
#define TRAITS_OF(id, word, name, ...) [id] = {__VA_ARGS__},

const char *const sn_schedule_names[SN_NSCHEDULES + 1] = {SN_SCHEDULES(NAME_OF)};
static const struct sn_schedule_traits traits[SN_NSCHEDULES] = {SN_SCHEDULES(TRAITS_OF)};

const struct sn_schedule_traits *sn_schedule_traits(enum sn_schedule s)
{
    return &traits[s];
}

const char *sn_schedules_with_virtual_stages(char buf[SN_SCHEDULES_SIZE])
{
    unsigned has = 0;
    for (int s = 0; s < SN_NSCHEDULES; s++)
        has |= (unsigned)traits[s].virtual_stages << s;
    return sn_str_names(buf, SN_SCHEDULES_SIZE, sn_schedule_names, has);
}
