/*
 * exit_code.h - what sennit's programs end with, and read from each other: one list.
 *
 * 75 to 79 follow sysexits.h, where 75 is "try again later". A supervisor (slurm/supervisor/cause.h) decides by
 * them what comes next; sites' scripts read 75 and 93 (docs/SLURM.md).
 */
#ifndef SN_EXIT_CODE_H
#define SN_EXIT_CODE_H

enum sn_exit {
    SN_EXIT_DONE = 0,
    SN_EXIT_FAILED = 1,      /* the work failed */
    SN_EXIT_INPUT = 2,       /* bad usage or bad input */
    SN_EXIT_SAVED = 75,      /* asked to leave, and saved; of a batch script: somebody goes on */
    SN_EXIT_TERMINATED = 76, /* by SIGTERM or SIGHUP, and saved */
    SN_EXIT_LOST = 77,       /* a peer is gone or does not answer; of a preflight: a node fails */
    SN_EXIT_CONFIG = 78,     /* sysexits.h: what a launcher says of its own settings */
    SN_EXIT_DIVERGED = 79,   /* the loss or the gradients are not finite */
    SN_EXIT_STOP = 93,       /* nobody should go on : another attempt would end alike */
    SN_EXIT_NOW = 130        /* the second SIGINT: 128 + SIGINT */
};

#endif
