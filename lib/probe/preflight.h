/*
 * preflight.h - is every node of a job well? Asked before a run, in well under a minute.
 *
 * Each rank multiplies matrices, fills and copies memory (its device's, where it has one),
 * exchanges messages with ranks of two other nodes, and one rank a node writes a file into
 * checkpoint.dir and reads it back. Every result is checked against what it must be, so that a node
 * that computes, keeps or sends wrong bits fails whatever its speed. Rates are compared with the
 * median of all ranks: a node is slow if it is slow with both partners, and again when all is
 * measured once more. What is slow everywhere is no node's fault and passes.
 *
 * Knows no launcher and no scheduler. The ranks may be any number: layouts do not matter.
 */
#ifndef SN_PREFLIGHT_H
#define SN_PREFLIGHT_H

#include "kernels/ops.h"
#include "lib/base/str.h"
#include "lib/comm/comm.h"
#include "lib/comm/flight_recorder.h"
#include "lib/exec/accelerator.h"

#include <stdbool.h>

enum { SN_PREFLIGHT_ROUNDS = 3, SN_PREFLIGHT_WHY = 160, SN_PREFLIGHT_PATIENCE = 30 /* seconds */ };

/* A rate below this part of the median fails: of products and copies that of a rank among all, of
 * messages that of a node (its best rank) among the nodes. A rank whose messages are slower than
 * 0.35 of the median rank's fails too. Ranks of one node alone have no network to be judged.
 *
 * A rank that waited for processors more than SN_PREFLIGHT_DISTURBED of the time is not judged by
 * that rate, nor are its partners in messages: it was not the node that was measured; unless the
 * rate is below SN_PREFLIGHT_HOPELESS of the median. If few nodes wait only, something else runs
 * there: they fail by that (of three nodes or more). */
#define SN_PREFLIGHT_DISTURBED 0.1
#define SN_PREFLIGHT_HOPELESS  0.01
#define SN_PREFLIGHT_LEAST     0.7

/* Data that was not what it must be. */
enum {
    SN_WRONG_PRODUCT = 1,
    SN_WRONG_MEMORY = 2,
    SN_WRONG_MESSAGE = 4,  /* with wrong_round */
    SN_WRONG_STORAGE = 8,  /* read back otherwise than written */
    SN_FAILED_STORAGE = 16 /* a system call failed: `error` */
};

/* Kinds of rates. */
enum sn_preflight_kind { SN_FLIGHT_PRODUCT, SN_FLIGHT_MEMORY, SN_FLIGHT_MESSAGE, SN_FLIGHT_KINDS };

/* Of one rank; travels between ranks as 8-byte words. Rates of 0: not measured. */
struct sn_preflight_rank {
    char host[64];
    int64_t rank, node, local;        /* number of its host by first ranks, and among its ranks */
    double gemm;                      /* FLOP/s, the best of many products */
    double memory;                    /* bytes/s read and written, the best of many copies */
    double link[SN_PREFLIGHT_ROUNDS]; /* bytes/s, both ways together */
    int64_t partner[SN_PREFLIGHT_ROUNDS]; /* rank; -1: none in this round */
    double storage_write, storage_read;   /* bytes/s */
    /* Part of the time in which its threads were ready and others had the processors, the least of
     * all passes. */
    double waited[SN_FLIGHT_KINDS];
    int64_t wrong;        /* SN_WRONG_... */
    int64_t wrong_rounds; /* bit r: the message of round r was altered */
    int64_t error;        /* errno of SN_FAILED_STORAGE */
    int64_t lost;         /* it did not answer in time */
    double spent;         /* seconds so far */
    int64_t pass;
    char why[SN_PREFLIGHT_WHY]; /* "" when it passes */
};

struct sn_preflight {
    int n; /* ranks */
    struct sn_preflight_rank *rank;
    double seconds;
    bool pass;
    int slow;          /* bit k: somebody fails by kind k, and all by rates: measure those again */
    int storage_error; /* errno with which storage failed on every node: nobody's fault */
};
void sn_preflight_fini(struct sn_preflight *p); /* a zeroed one is allowed */

struct sn_preflight_env {
    struct sn_comm *comm; /* has a watch where lost ranks are to be noticed */
    const struct sn_ops *ops;
    struct sn_accelerator *accelerator; /* NULL, or without a device: the processor is probed */
    int threads;
    const char *checkpoints; /* an existing directory */
};

/* Measure and judge. Collective; every rank gets the verdict. SN_ELOST: some rank did not answer:
 * then ask sn_preflight_lost. SN_EIO: the storage fails everywhere. The caller ends with
 * sn_preflight_fini in any case. */
enum sn_status sn_preflight_run(struct sn_preflight *out, const struct sn_preflight_env *env,
                                struct sn_err *err);
/* After SN_ELOST, on each rank that met it: a verdict anew, from the records of all `ranks`, in
 * which the ranks fail that do not answer; after some seconds. `recorder` is this rank's. */
enum sn_status sn_preflight_lost(struct sn_preflight *out, struct sn_flight_recorder *recorder,
                                 int ranks, struct sn_err *err);

/* ---- judging: pure --------------------------------------------------------------------------- */

/* Fills pass, why, slow and storage_error from the measurements. SN_ENOMEM. */
enum sn_status sn_preflight_judge(struct sn_preflight *p, struct sn_err *err);
/* Numbers nodes by their first rank and ranks on each of them. SN_ENOMEM. */
enum sn_status sn_preflight_number(struct sn_preflight *p, struct sn_err *err);
/* With whom unit `unit` of `units` exchanges in a round, -1: with nobody. Neighbours in a ring:
 * over the rounds each unit has two different partners, where there are three units. */
int sn_preflight_partner(int units, int unit, int round);

/* Write OUTPUT/preflight.json, whole or not at all, as this rank; several may at once.
 * SN_ENOMEM, SN_EIO. */
enum sn_status sn_preflight_save(const struct sn_preflight *p, const char *output, int rank,
                                 struct sn_err *err);
/* What is in it: one object with a line end. */
void sn_preflight_json(struct sn_str *out, const struct sn_preflight *p);
/* A line a rank up to 64 ranks, beyond that the failing ones; a line a failing host;
 * the verdict. */
void sn_preflight_text(struct sn_str *out, const struct sn_preflight *p);

/* ---- probes of one rank ---------------------------------------------------------------------- */

/* Best FLOP/s of products of small whole numbers in about `seconds`; *wrong: a product was not what
 * it must be. */
enum sn_status sn_probe_product(double *rate, bool *wrong, const struct sn_preflight_env *env,
                                double seconds, struct sn_err *err);
/* Best bytes/s of copies within `bytes`, which are filled with patterns and read back. */
enum sn_status sn_probe_memory(double *rate, bool *wrong, const struct sn_preflight_env *env,
                               size_t bytes, struct sn_err *err);
/* The same of a device: products of bf16 or fp16, a block of its memory that its caches do not
 * hold. */
enum sn_status sn_probe_device_product(double *rate, bool *wrong,
                                       const struct sn_preflight_env *env, double seconds,
                                       struct sn_err *err);
enum sn_status sn_probe_device_memory(double *rate, bool *wrong, const struct sn_preflight_env *env,
                                      struct sn_err *err);
/* Write, sync, read back and remove a file of `bytes` in r's own name. Failures go into r. */
enum sn_status sn_probe_storage(struct sn_preflight_rank *r, const char *folder, size_t bytes,
                                struct sn_err *err);
/* Exchange messages with rank `peer` in this round, both ways at once. */
enum sn_status sn_probe_link(struct sn_preflight_rank *r, const struct sn_preflight_env *env,
                             int round, int peer, struct sn_err *err);
/* Words of a pattern from their place on: checked against a known one. */
void sn_pattern_fill(uint64_t *p, size_t n, uint64_t seed);
bool sn_pattern_holds(const uint64_t *p, size_t n, uint64_t seed);

#endif
