/*
 * ledger.h - nodes that failed a run: a file of JSON lines that keeps them out for a while.
 *
 *   {"time": 1800000000, "host": "n3", "why": "a node died", "grade": "died", "until": 1800086400,
 *    "job": "41"}
 *
 * One file may serve several runs of a cluster (slurm.ledger). Grades: a node that failed a test is
 * not used; one on which a rank hung, or died twice in a row, is used only when there is no other;
 * one that died is good again when the scheduler gives it to a job, and is listed for people.
 */
#ifndef SN_LEDGER_H
#define SN_LEDGER_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum sn_ledger_grade { SN_NODE_GOOD, SN_NODE_DIED, SN_NODE_DOUBTFUL, SN_NODE_BAD };

enum {
    SN_LEDGER_BAD_SECONDS = 86400,     /* a day: time for somebody to repair it */
    SN_LEDGER_DOUBTFUL_SECONDS = 21600 /* a quarter of it: a rank hung, which may have been the
                                          program's fault */
};

struct sn_ledger_entry {
    char host[256], why[256];
    enum sn_ledger_grade grade;
    int64_t until; /* seconds since 1970 */
};

struct sn_ledger {
    struct sn_ledger_entry *entry; /* those that count at the time of loading, one a host */
    int n, room;
};

/* A file that does not exist is an empty one; lines that are damaged are passed over. SN_EIO,
 * SN_ENOMEM. The caller ends with sn_ledger_fini. */
enum sn_status sn_ledger_load(struct sn_ledger *out, const char *path, int64_t now,
                              struct sn_err *err);
void sn_ledger_fini(struct sn_ledger *l); /* a zeroed one is allowed */
/* NULL: nothing is known against it. */
const struct sn_ledger_entry *sn_ledger_find(const struct sn_ledger *l, const char *host);
/* Add an entry to the file and to *l. */
enum sn_status sn_ledger_add(struct sn_ledger *l, const char *path,
                             const struct sn_ledger_entry *entry, const char *job, int64_t now,
                             struct sn_err *err);

#endif
