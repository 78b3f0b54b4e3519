/*
 * batch.h - the job that a run asks a site for: nodes, ranks, limits; and what the site would
 * refuse, refused first, by the line of its profile that says so.
 *
 * It knows neither how a script looks (slurm/site/render.h) nor how one is submitted.
 */
#ifndef SN_BATCH_H
#define SN_BATCH_H

#include "slurm/scheduler/ledger.h"
#include "slurm/site/site.h"

/* Of the machine that the run file names, what has to be true of the site's nodes. */
struct sn_batch_machine {
    const char *name; /* preset, or what the file calls itself; NULL: none is named */
    int devices;      /* of a node */
    int64_t memory;   /* bytes of a device */
};

struct sn_batch {
    const struct sn_config *config; /* resolved; borrowed, as the site is */
    const struct sn_site *site;
    struct sn_batch_machine machine;
    const struct sn_site_kind *kind; /* of nodes that the job gets */
    int ranks, nodes;                /* that train; the job asks for nodes + config->slurm.spares */
    int ranks_per_node;              /* at most; the last node may have fewer */
    int cpus_per_rank;               /* 0: nothing is asked for */
    int gpus_per_node;
    int signal_before; /* seconds; 0: nobody is told */
    bool requeue;
    const struct sn_site_queue *partition, *qos; /* what the profile says of them; NULL: nothing */
    /* Paths and words, borrowed; the paths are absolute. */
    const char *partition_name, *qos_name, *constraint; /* "": none */
    const char *directory, *program, *run_file, *output;
    const char *site_name; /* by which sn_site_of finds the profile again */
};

/* Ranks of a node: slurm.ranks_per_node, or the devices of a node of `machine` (NULL: the run file
 * names none), or those of the site. SN_EINPUT where nobody says. */
enum sn_status sn_batch_ranks_per_node(int *out, const struct sn_config *c, const struct sn_site *s,
                                       const struct sn_batch_machine *machine, struct sn_err *err);
/* Nodes that failed before, or on which a rank hung, join slurm.exclude of *c, if the scheduler and
 * the site take --exclude; `words` gets a line about each of them. */
void sn_batch_avoid(struct sn_config *c, const struct sn_site *s, const struct sn_ledger *l,
                    struct sn_str *words);
/* Everything but paths, `nodes` and `signal_before` (0 for now): c->layout is resolved, for
 * ranks_per_node ranks on each node. The kind of nodes is that of slurm.partition or
 * slurm.constraint, else the one that `machine` describes (borrowed name; NULL: none), else the
 * usual one. */
void sn_batch_init(struct sn_batch *out, const struct sn_config *c, const struct sn_site *s,
                   const struct sn_batch_machine *machine, int ranks_per_node);
/* What the site's profile forbids or limits: SN_EINPUT with the profile's line, or the run file's
 * key. */
enum sn_status sn_batch_check(const struct sn_batch *b, struct sn_err *err);

#endif
