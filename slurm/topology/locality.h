/*
 * locality.h - what is near this process: processors, NUMA nodes, GPUs, network interfaces.
 *
 * locality.c is the one file that knows hwloc. It reads the machine once, before MPI begins: Open
 * MPI 4.1 brings an hwloc of its own, and two of them in one process met at random in crashes when
 * ours came second. What the machine does not tell (containers hide PCI) is reported as unknown
 * (-1, ""), never guessed. Which GPU is near which processor is derived from the PCI tree: on some
 * machines GPU 3 is nearest to processor 0.
 *
 * Nothing is bound here: the mask that the scheduler or launcher gave stands. The CPU backend
 * computes on all of it; what it has in common with the processors near a GPU is reported, so that
 * a mask that has nothing in common can be named.
 */
#ifndef SN_LOCALITY_H
#define SN_LOCALITY_H

#include "lib/base/err.h"
#include "slurm/scheduler/allocation.h"

enum { SN_LOCAL_GPUS = 8, SN_LOCAL_NAME = 48, SN_LOCAL_CPUS = 96, SN_LOCAL_NIC = 16 };

/* A GPU that this process may use. */
struct sn_local_gpu {
    char id[SN_LOCAL_NAME]; /* PCI address "0000:3b:00.0", UUID, or the number in the list */
    char nic[SN_LOCAL_NIC]; /* nearest network device; "": unknown */
    int32_t is_certain;     /* 0: a number that another process may use for another GPU */
    int32_t numa;           /* -1: unknown */
    int32_t near_cpus;      /* processors of this process that are near it; -1: unknown */
};

/* Plain data of one size: it is sent as it is. */
struct sn_local {
    char cpus[SN_LOCAL_CPUS]; /* the mask of this process, "0-3,8"; cut short it ends in "..." */
    char nic[SN_LOCAL_NIC];   /* network device nearest to these processors; "": unknown */
    int32_t n_cpus;
    int32_t numa;   /* that all of the mask is in; -1: several, or unknown */
    int32_t n_gpus; /* visible, up to SN_LOCAL_GPUS of them listed */
    struct sn_local_gpu gpu[SN_LOCAL_GPUS];
};

struct sn_locality;

/* Read the machine (a few milliseconds). Call before MPI begins. The caller closes *out. */
enum sn_status sn_locality_open(struct sn_locality **out, struct sn_err *err);
void sn_locality_close(struct sn_locality *l); /* NULL is allowed */
/* What is near the calling thread's mask. `e` says which GPUs are visible: CUDA_VISIBLE_DEVICES,
 * ROCR_VISIBLE_DEVICES; without them all that the machine shows. */
void sn_locality_describe(struct sn_local *out, const struct sn_locality *l,
                          const struct sn_environment *e);

#endif
