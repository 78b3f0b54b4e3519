/*
 * hiding.h - a layout that was found without layout.overlap: what it may be with it.
 */
#ifndef SN_HIDING_H
#define SN_HIDING_H

#include "lib/config/config.h"

/* A few layouts on the same grid, in the order in which they are to be tried; those of one `group`
 * differ in memory alone, and end with the first that fits. */
enum { SN_HIDINGS = 12 };
struct sn_hiding {
    struct sn_layout_config layout;
    int group;
};
/* *found itself; with the rows that go through tensor collectives in two and in four pieces; and with a schedule whose segments take turns, with one, two and four virtual
 * stages: as it is, with the optimizer's state divided, with activations computed again. Keys that
 * room->layout_named names stand. Returns how many; room->layout is written. */
int sn_hidings_list(struct sn_hiding out[SN_HIDINGS], struct sn_config *room,
                    const struct sn_layout_config *found, int ranks);

#endif
