/*
 * hostlist.h - Slurm's compressed lists: hosts ("n[01-03,7],gpu4") and counts ("4(x3),2").
 *
 * The grammar is that of Slurm's src/common/hostlist.c (22.05 and later): names separated by comma,
 * blank, tab or newline; a bracket holds numbers and ranges, and the width of a range's first
 * number as it is written pads all of it with zeros. Order and duplicates are kept. Of several
 * brackets in one name the last varies fastest, then the first, the second ...: so Slurm has it.
 *
 * Where this differs from Slurm 22.05, on purpose (tests/unit/slurm/test_hostlist.c lists it):
 * - "n[1-2" (not closed) is refused; 22.05 makes one host of it, 23.02 refuses it;
 * - text after a bracket ("n[1-3]-ib") is taken, as Slurm does from 23.11 on;
 * - more than 65,536 hosts are taken, up to SN_HOSTLIST_MAX, as from 23.02 on.
 */
#ifndef SN_HOSTLIST_H
#define SN_HOSTLIST_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stddef.h>
#include <stdint.h>

enum { SN_HOSTLIST_MAX = 1 << 18, SN_HOST_NAME = 256 };

struct sn_hostlist {
    char *text; /* names one after another, each with a NUL */
    size_t *at; /* where name i begins */
    size_t len, room_text;
    int n, room;
};

/* Expand a list; "" is none. SN_EINPUT names the character. The caller ends with sn_hostlist_fini;
 * *out is untouched on failure. `what` is the name of the list in messages. */
enum sn_status sn_hostlist_parse(struct sn_hostlist *out, const char *list, const char *what,
                                 struct sn_err *err);
void sn_hostlist_fini(struct sn_hostlist *h); /* a zeroed one is allowed */
static inline const char *sn_hostlist_name(const struct sn_hostlist *h, int i)
{
    return h->text + h->at[i];
}
/* The compressed list: reading it gives the same names in the same order. */
void sn_hostlist_format(struct sn_str *out, const struct sn_hostlist *h);

/* "4(x3),2" is 4 4 4 2, one count a node. Counts are 1 .. 65,536; at most SN_HOSTLIST_MAX of them.
 * The caller frees *out with sn_free. */
enum sn_status sn_counts_parse(int **out, int *n, const char *list, const char *what,
                               struct sn_err *err);
void sn_counts_format(struct sn_str *out, const int *count, int n);

#endif
