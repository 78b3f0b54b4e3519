/*
 * site_inner.h - what site.c and site_rules.c share.
 */
#ifndef SN_SITE_INNER_H
#define SN_SITE_INNER_H

#include "slurm/site/site.h"

/* What a name in a script may be made of. */
#define SN_SITE_PLAIN                                                                              \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/@%+=[]&|*!()"

/* The rules between keys, once all are read. */
enum sn_status sn_site_check(const struct sn_site *s, struct sn_err *err);

#endif
