/*
 * choices.h - ways of a device's libraries that were measured once, as a machine file keeps them.
 *
 *   choices:
 *     - "cublasLt 130200 sm_90 132 : 40000001000 ..."
 *
 * A line is text of the device's plugin (kernels/device.h, choice), which alone knows what it says.
 */
#ifndef SN_CHOICES_H
#define SN_CHOICES_H

#include "kernels/device.h"
#include "lib/base/err.h"
#include "lib/base/str.h"

struct sn_yaml_node;

struct sn_choices {
    char (*line)[SN_DEVICE_CHOICE];
    int n, room;
};

/* Add a line that is not there yet. SN_ENOMEM. */
enum sn_status sn_choices_add(struct sn_choices *c, const char *line, struct sn_err *err);
/* The list in a machine file; NULL: there is none. */
enum sn_status sn_choices_read(struct sn_choices *c, const struct sn_yaml_node *list,
                               struct sn_err *err);
void sn_choices_format(struct sn_str *out, const struct sn_choices *c);
void sn_choices_fini(struct sn_choices *c); /* a zeroed one is allowed */

#endif
