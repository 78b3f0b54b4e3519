/*
 * points.h - the same run on other numbers of ranks and on other machines: the best layout of each, and
 * what the run costs there.
 */
#ifndef SN_POINTS_H
#define SN_POINTS_H

#include "lib/campaign/campaign.h"

struct sn_point {
    char machine[SN_MACHINE_NAME];
    int ranks;
    bool found; /* else `why` it is not, and nothing below */
    char why[sizeof(((struct sn_err *)0)->text)];
    struct sn_layout_config layout;
    struct sn_campaign campaign;
    /* Hours that each job may wait longer than the terms say, until the run takes as many days as the
     * first point with fewer ranks that was found; below 0: where it takes more. 0 for that one. */
    double patience;
};

struct sn_points {
    struct sn_point *point;
    int n;
    bool compared;
};

struct sn_points_want {
    const struct sn_config *config;   /* keys of the layout that it names stand */
    const struct sn_machine *machine; /* of config, or of what `config` names in its place */
    const struct sn_software *software;
    struct sn_campaign_want campaign;
    int ranks;
};

/* Appends a point. What has no layout, or cannot end, is a point that says why; SN_ENOMEM and the like
 * are errors. The caller ends with sn_points_fini. */
enum sn_status sn_points_add(struct sn_points *p, const struct sn_points_want *w,
                             struct sn_err *err);
/* One that was not looked at, because of `why`. */
enum sn_status sn_points_skip(struct sn_points *p, const char *machine, int ranks, const char *why,
                              struct sn_err *err);
/* `patience` of all. */
void sn_points_compare(struct sn_points *p);
void sn_points_fini(struct sn_points *p);

/* A table, a line a point, and bars of days. */
void sn_points_text(struct sn_str *out, const struct sn_points *p);
/* Days and node-hours over ranks, as a drawing (lib/report/curve.h); SN_EINPUT without two points. */
enum sn_status sn_points_svg(struct sn_str *out, const struct sn_points *p, const char *title,
                             struct sn_err *err);

#endif
