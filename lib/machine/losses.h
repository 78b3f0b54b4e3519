/*
 * losses.h - how much codecs raise the loss: a table that ships (templates/codec_losses.csv).
 *
 * Lines are WHAT,WAY,CODEC,VALUE; # begins a comment. WAY is a kind of message and how it is coded:
 * data, data+feedback, zero, zero-diff, tensor, pipeline, expert. The relative rise of the loss by
 * a codec on a way is
 *
 *   the value of its `loss` row, which was measured; else
 *   sensitivity of the way x error of the codec, an estimate: both have rows
 *
 * and of what loses nothing 0. Rises of several kinds are taken to add up.
 */
#ifndef SN_LOSSES_H
#define SN_LOSSES_H

#include "lib/config/config.h"

enum { SN_NWAYS = SN_NCODED + 2 }; /* kinds, data+feedback, zero-diff */

struct sn_loss_row {
    int way; /* of `loss` rows; -1: the codec's error */
    struct sn_codec codec;
    double value;
};

struct sn_losses {
    double sensitivity[SN_NWAYS]; /* below 0: no row */
    struct sn_loss_row *row;
    int n, room;
};

/* SN_EINPUT: "FILE:LINE: what is wrong; what would work". The caller ends with sn_losses_fini. */
enum sn_status sn_losses_parse(struct sn_losses *out, const char *text, const char *path,
                               struct sn_err *err);
/* The one that ships; share_dir NULL: the installed or in-tree one. */
enum sn_status sn_losses_load(struct sn_losses *out, const char *share_dir, struct sn_err *err);
void sn_losses_fini(struct sn_losses *l); /* a zeroed one is allowed */

/* The relative rise of the loss by one kind's coding; *measured: by a `loss` row. False: the table
 * does not know the codec. */
bool sn_losses_find(double *rise, bool *measured, const struct sn_losses *l, enum sn_coded kind,
                    const struct sn_coding *z);
/* Of all kinds of a layout; false: of one it is not known. */
bool sn_losses_sum(double *rise, const struct sn_losses *l, const struct sn_layout_config *layout);

#endif
