/*
 * plan_goodput.c - what sennit-plan prints about failures and checkpoints.
 */
#include "bin/plan_print.h"
#include "lib/report/picture.h"

#include <stdio.h>

void sn_plan_goodput_json(struct sn_str *out, const struct sn_goodput *g)
{
    if (!g) {
        sn_str_add(out, "null");
        return;
    }
    const struct sn_failures *f = &g->failures;
    sn_str_add(out,
               "{\"mtbf_s\": %.9g, \"checkpoint_bytes\": %lld, \"checkpoint_s\": %.9g, "
               "\"write_s\": %.9g, \"restart_s\": %.9g, \"interval_s\": %.9g, "
               "\"interval_steps\": %lld, \"fraction\": %.9g, "
               "\"mtbf_assumed\": %s, \"storage_assumed\": %s}",
               f->mtbf, (long long)g->bytes, f->pause, f->write, f->restart, g->interval,
               (long long)g->steps, g->fraction, g->mtbf_assumed ? "true" : "false",
               g->storage_assumed ? "true" : "false");
}

/* "2.3 h", "14 min" or as sn_picture_time. */
static const char *long_time(char buf[24], double seconds)
{
    if (seconds >= 7200)
        (void)snprintf(buf, 24, "%.1f h", seconds / 3600);
    else if (seconds >= 120)
        (void)snprintf(buf, 24, "%.0f min", seconds / 60);
    else
        (void)sn_picture_time(buf, seconds);
    return buf;
}

void sn_plan_goodput_text(const struct sn_goodput *g)
{
    const struct sn_failures *f = &g->failures;
    char mtbf[24], pause[24], interval[24], size[16];
    (void)printf("goodput: a checkpoint (%s) every %lld steps (%s) leaves %.2f %% of the time to "
                 "training:\n",
                 sn_str_bytes(size, g->bytes), (long long)g->steps,
                 long_time(interval, g->interval), 100 * g->fraction);
    (void)printf("  a failure every %s, %s without training for a save, %.0f s for a restart%s",
                 long_time(mtbf, f->mtbf), long_time(pause, f->pause), f->restart,
                 g->mtbf_assumed && g->storage_assumed ? " (failures and storage assumed)"
                 : g->mtbf_assumed                     ? " (failures assumed)"
                 : g->storage_assumed                  ? " (storage assumed)"
                                                       : "");
    if (g->as_it_was > 0)
        (void)printf("; checkpoint.every leaves %.2f %%", 100 * g->as_it_was);
    (void)printf("\n");
}
