/*
 * meaning.h - proof that the programs of all ranks compute what the program of one rank does.
 *
 * Every buffer of every rank holds rectangles of logical tensors (slabs.h), each with a value in a
 * field of 2^61 - 1 elements (field.h) that stands for how it was computed. A step of all ranks is
 * played: each operation takes the values and coordinates of its operands, and gives those of its
 * results by the rule of its kind. What is linear is computed: sums, products, scaling by a number.
 * What is not is a function of which nothing is known. A sum over tokens, features, words or
 * experts is a value times the length of the interval that it is over, measured so that the lengths
 * of neighbouring intervals add up, and those of others do not: a sum in which something is
 * missing, or there twice, never has the value of the whole one.
 *
 * The same step of one rank, on one micro-batch that stands for all tokens, gives the values that
 * are due. Proven is that afterwards every rank holds, of every parameter that it should, the
 * updated weights and optimizer state of the one rank: that every gradient is summed exactly once
 * over every micro-batch and replica and scaled right, that nothing stale or half done is read, and
 * that what is computed again is what was computed first. A wrong program passes with a probability
 * of less than 1e-12 (Schwartz 1980; Zippel 1979).
 *
 * Not looked into: rounding; what codecs lose (their values are taken for exact);
 * which tokens a router sends to which expert; further rounds of the experts' window; where buffers
 * lie in memory (verify.h proves that what is under way is left alone).
 */
#ifndef SN_MEANING_H
#define SN_MEANING_H

#include "lib/program/program.h"

/* What is compared at the end of a step. */
enum sn_meaning_of {
    SN_MEANING_GRADIENT, /* before the update */
    SN_MEANING_WEIGHT,
    SN_MEANING_MOMENT,
    SN_MEANINGS = SN_MEANING_MOMENT + SN_MAX_KEPT
};

struct sn_meaning_world {
    const struct sn_job *const *jobs; /* by rank; those that share a text may not share a pointer */
    int ranks;
    const struct sn_job *reference; /* of sn_meaning_reference */
};

/* The run of one rank, with one micro-batch and nothing that layouts bring: into *out, which is a
 * copy of a resolved configuration. */
void sn_meaning_reference(struct sn_config *out, const struct sn_config *c);
/* Buckets are searched from end to end. */
enum { SN_MEANING_LAYERS = 128 };
/* Why the meaning of this run's programs is not looked into; NULL: it is. */
const char *sn_meaning_gap(const struct sn_config *c);
/* The same of a text: it has operations without a rule. */
const char *sn_meaning_gap_of(const struct sn_program *p);
/* Bit c: messages of enum sn_coded c lose something on their way, by the codecs of this text. */
unsigned sn_meaning_approximate(const struct sn_program *p);
/* SN_OK: proven. SN_EFAIL: refuted, the sentence names operation, rank, tensor and what is missing.
 * `override`: the train programs of the ranks, if not NULL. */
enum sn_status sn_meaning_check(const struct sn_meaning_world *w,
                                const struct sn_program *const *override, struct sn_err *err);

/* Of a job of one rank that is its own reference and keeps_past: are the logits of this row (1 ..) that
 * `generate_row`, or `row_program` in its place if not NULL, makes of the rows that `generate` has kept
 * before it those of `generate`? As sn_meaning_check. */
enum sn_status sn_meaning_generates(const struct sn_job *j, const struct sn_program *row_program,
                                    int64_t row, struct sn_err *err);

/* What an operation of a world's rank gave: parts of logical tensors, whose `at` counts the
 * operand's elements, row after row without gaps. Parts of one value and the same spaces are of the
 * same tensor, whatever world and rank they are of. */
struct sn_slabs; /* lib/meaning/slabs.h */
struct sn_meaning_result {
    int world, rank;
    int entry, op, out; /* of a message: the entry of its WAIT, and its post */
    const struct sn_slabs *parts;
};
typedef void sn_meaning_look(void *arg, const struct sn_meaning_result *r);
/* Check worlds of one model and global batch, and tell each result; of each rank in the order of its
 * program. The reference is worlds[0]'s. */
enum sn_status sn_meaning_follow(const struct sn_meaning_world *worlds, int n,
                                 sn_meaning_look *look, void *arg, struct sn_err *err);

#endif
