/*
 * goodput_text.c - what a plan says about failures and checkpoints.
 */
#include "lib/report/goodput.h"
#include "lib/report/picture.h"

void sn_goodput_json(struct sn_str *out, const struct sn_goodput *g)
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

void sn_goodput_text(struct sn_str *out, const struct sn_goodput *g)
{
    const struct sn_failures *f = &g->failures;
    char mtbf[24], pause[24], interval[24], size[16];
    sn_str_add(out,
               "goodput: a checkpoint (%s) every %lld steps (%s) leaves %.2f %% of the time to "
               "training:\n",
               sn_str_bytes(size, g->bytes), (long long)g->steps,
               sn_picture_hours(interval, g->interval), 100 * g->fraction);
    sn_str_add(out, "  a failure every %s, %s without training for a save, %.0f s for a restart%s",
               sn_picture_hours(mtbf, f->mtbf), sn_picture_hours(pause, f->pause), f->restart,
               g->mtbf_assumed && g->storage_assumed ? " (failures and storage assumed)"
               : g->mtbf_assumed                     ? " (failures assumed)"
               : g->storage_assumed                  ? " (storage assumed)"
                                                     : "");
    if (g->as_it_was > 0)
        sn_str_add(out, "; checkpoint.every leaves %.2f %%", 100 * g->as_it_was);
    sn_str_add(out, "\n");
}
