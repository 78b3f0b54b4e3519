/*
 * price.h - seconds of each operation of a compiled program on a machine, under a trainer's habits.
 *
 * Computing is a roofline with measured efficiencies (machine.h). A product with attr.gemm.fp8 first reads
 * its operands of bf16 (twice where each has one scale, whose size must be known before) and writes
 * them in 8 bits, or in bf16 where device.peak.fp8 is 0. A collective is priced by level:
 * a group of n members that has g of them in each domain of a level moves, at that level, the bytes
 * of a hierarchical algorithm, over links that it shares with the groups that communicate at the
 * same time (all groups of the same axis do). Formulas stand at each function in price.c.
 */
#ifndef SN_PRICE_H
#define SN_PRICE_H

#include "lib/program/lanes.h"
#include "lib/machine/machine.h"
#include "lib/machine/software.h"
#include "lib/program/program.h"

/* How the members of a group lie on the machine's levels, device r being rank r. Worst of all
 * groups of the same kind: a group's slowest link decides. */
struct sn_span {
    int members;
    int at[SN_MAX_LEVELS]; /* domains of the level below that the group touches in one domain of
                              level i: 1 means that it does not use level i */
    int sharing[SN_MAX_LEVELS]; /* members of all groups of this kind in one domain of the level
                                   below that send out of it at the same time; 0 where at is 1 */
    int hops[SN_MAX_LEVELS];    /* the same where each member sends to its neighbour only */
};

struct sn_pricer {
    const struct sn_machine *machine;
    const struct sn_software *software;
    enum sn_dtype precision;
    struct sn_grid grid;
    int threads;
    double seen
        [2]; /* of keys that causal samples see, in layers without and with a window; 0: all of them */
    struct sn_span span[SN_NGROUPS];
};

/* For the grid and the precision of a job (all stages of a plan have the same).
 * Borrows the rest. */
void sn_pricer_init(struct sn_pricer *out, const struct sn_machine *m, const struct sn_software *s,
                    const struct sn_job *j);
/* How a group kind of a grid lies on a machine. */
void sn_span_of(struct sn_span *out, const struct sn_machine *m, const struct sn_grid *g,
                enum sn_group q);
/* The level at which two ranks meet: the innermost of which they share a domain. */
int sn_span_meeting(const struct sn_machine *m, int a, int b);
/* Ordered pairs of members that meet at each level, over all groups of a kind in a pipeline stage;
 * of WORLD over all ranks. Not for PIPELINE and TIED, which no stage holds. */
void sn_span_pairs(int64_t at[SN_MAX_LEVELS], const struct sn_machine *m, const struct sn_grid *g,
                   enum sn_group q, int stage);

/* Seconds of a kernel; 0 for communication. */
double sn_price_op(const struct sn_pricer *p, const struct sn_program *prog,
                   const struct sn_op *op);
/* Seconds of the arithmetic of a product or of attention at the best rate that the machine gives any shape
 * of its kind; 0 of others. However the operation is cut, in rows, columns or heads, its parts' prices sum to no less. */
double sn_price_least(const struct sn_pricer *p, const struct sn_program *prog,
                      const struct sn_op *op);
/* Of an ENCODE or DECODE whose codec the machine knows (codecs.h); false: it is priced like others,
 * by what it moves. */
bool sn_price_coded(double *seconds, const struct sn_pricer *p, const struct sn_program *prog,
                    const struct sn_op *op);
/* What a kernel is looked up by in device.measured: kind, dtype (of the first input, without inputs
 * of the first output; of a product with attr.gemm.fp8 SN_U8), epilogue and shape (sn_op_shape); seconds
 * 0. */
void sn_price_key(const struct sn_program *prog, const struct sn_op *op, struct sn_measured *key);
/* Is a kind priced by the bytes that it moves, and as what? False for GEMM, attention and
 * communication. */
bool sn_price_moved(int kind, enum sn_moved *out);
/* Seconds from post to completion of a collective or transfer when its stream is free; n as enum
 * sn_collective says. A transfer costs at its SEND; a RECV is 0. */
double sn_price_collective(const struct sn_pricer *p, enum sn_collective kind, int64_t n,
                           enum sn_dtype dtype, enum sn_group q);
/* Are its streams as long as they come out? Then an exchange of their lengths goes ahead, of
 * SN_PRICE_LENGTH bytes for each. */
enum { SN_PRICE_LENGTH = 8 };
bool sn_price_is_sized(const struct sn_op *op);
/* The same for an operation of a program; 0 for what is none. Streams without a fixed rate are as
 * long as they are likely to be. */
double sn_price_comm(const struct sn_pricer *p, const struct sn_program *prog,
                     const struct sn_op *op);
/* For which share of these seconds links of each level are busy with it, of a collective; none of other
 * operations. */
void sn_price_uses(struct sn_link_use *out, const struct sn_pricer *p,
                   const struct sn_program *prog, const struct sn_op *op);
/* The same of an all-gather of so many bytes of each member. */
void sn_price_gather_uses(struct sn_link_use *out, const struct sn_pricer *p, int64_t bytes,
                          enum sn_group q);
/* Seconds of any operation on its stream: of what ranks send, those that the trainer does not hide. */
double sn_price_shown(const struct sn_pricer *p, const struct sn_program *prog,
                      const struct sn_op *op);
/* Bytes that cross each level in one step, summed over all ranks of a stage: of all stages they sum
 * to the plan's traffic. A byte counts at the level at which sender and receiver meet. */
void sn_price_levels(const struct sn_pricer *p, const struct sn_job *stage,
                     int64_t bytes[SN_MAX_LEVELS]);

#endif
