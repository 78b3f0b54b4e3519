/*
 * leftover.h - processes of earlier attempts of this run that are still on this host.
 *
 * When a node dies, Slurm keeps the step that lost it until that node has answered, and may be slow
 * to end what is left of it on the others. The supervisor does not wait for that (bin/exec_step.c):
 * the trainer of the next attempt looks itself, before it takes any memory. A process is a leftover
 * if it runs the same program for the same user in the same Slurm job, with a lower --attempt.
 */
#ifndef SN_LEFTOVER_H
#define SN_LEFTOVER_H

/* Wait `seconds` for leftovers to end by themselves, then kill them and wait as long again. Returns
 * how many there were at first, and in *left how many are there still. 0 outside of a Slurm job,
 * and for attempt 0. */
int sn_leftover_end(int attempt, double seconds, int *left);

#endif
