/*
 * calibrate_links.h - measure collectives and sends between ranks, and what computing loses by
 * them.
 */
#ifndef SN_CALIBRATE_LINKS_H
#define SN_CALIBRATE_LINKS_H

#include "kernels/ops.h"
#include "lib/comm/comm.h"
#include "lib/machine/links.h"

struct sn_link_bench {
    struct sn_comm *comm; /* its grid is `grid` */
    const struct sn_grid *grid;
    enum sn_group group; /* all groups of this kind communicate at the same time */
    const struct sn_ops *ops;
    bool on_host;   /* members of a group share a host, and its clock */
    int threads;    /* that compute on each rank */
    double seconds; /* rounds begin for so long, at least three */
};

/* Collective. Add to *out the median seconds of every kind at 256 B .. 16 MiB, as this rank saw
 * them; *processor is the part of computing that is lost while communication is under way. */
enum sn_status sn_calibrate_links(struct sn_links *out, double *processor,
                                  const struct sn_link_bench *how, struct sn_err *err);

#endif
