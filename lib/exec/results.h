/*
 * results.h - what each operation of a run of the train program gave, told to whoever looks.
 *
 * On the processor, where an operation's results lie in this process's memory when it has ended; on
 * devices nothing is told. What a message brings is told at its WAIT. Only values are told that the
 * program has defined: of rows on their way to experts those that there are, of messages of streams
 * (whose unused room has any values) none.
 */
#ifndef SN_RESULTS_H
#define SN_RESULTS_H

#include "lib/program/program.h"

struct sn_exec;
struct sn_results;

/* What stands in `part` where an operation has no operand that it writes: the numbers in the
 * scalars block that operations add to, 1 x SN_RESULT_SCALARS in fp64. */
enum { SN_RESULT_OF_SCALARS = -1, SN_RESULT_SCALARS = 5 };

struct sn_result {
    int entry; /* of the schedule, */
    int op;    /* of the program: of a message its post, */
    int micro; /* and the micro-batch of the entry */
    int round; /* of rows beyond the experts' window */
    int out;   /* operand, or SN_RESULT_OF_SCALARS */
    int part;  /* of the operand, where rows of several ranks come together: in order */
    struct sn_mat m;
};
typedef void sn_results_look(void *arg, const struct sn_result *r);

/* look(arg) is called with every result, in the order of the program, after sn_exec_set_results.
 * Caller destroys, after the last run with it. */
enum sn_status sn_results_create(struct sn_results **out, struct sn_exec *x, sn_results_look *look,
                                 void *arg, struct sn_err *err);
void sn_results_destroy(struct sn_results *r); /* NULL is allowed */
/* From now on (borrowed); NULL: no more. */
void sn_exec_set_results(struct sn_exec *x, struct sn_results *r);
/* Are there any to be looked at? Not on a device. */
bool sn_exec_has_results(const struct sn_exec *x);
/* Results of one run, at most, when no rows go beyond the experts' windows. */
int64_t sn_results_most(const struct sn_job *j);

#endif
