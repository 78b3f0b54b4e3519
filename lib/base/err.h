/*
 * err.h - one status type and one sentence of explanation.
 *
 * Whoever knows the cause writes the sentence with sn_fail(); everybody else passes it on with
 * SN_TRY. Only bin/ prints it and only bin/ exits. No allocation on the failure path.
 */
#ifndef SN_ERR_H
#define SN_ERR_H

enum sn_status {
    SN_OK = 0,
    SN_EINPUT, /* bad usage or bad input: exit code 2 */
    SN_ENOMEM, /* an allocation failed: exit code 1 */
    SN_EIO,    /* a file or the network failed: exit code 1 */
    SN_EFAIL,  /* the work itself failed: exit code 1 */
    SN_ELOST   /* a peer is gone or does not answer: exit code 77 */
};

struct sn_err {
    enum sn_status status;
    char text[768]; /* "where: what is wrong; what would work", no full stop */
    int agreed;     /* every rank has this sentence: rank 0 prints it, all leave together */
};

/* Write the sentence (err may be NULL), fit for a terminal (plain.h), and return `st`. */
enum sn_status sn_fail(struct sn_err *err, enum sn_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "where: " before a sentence already written; returns err->status. */
enum sn_status sn_err_prefix(struct sn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The process exit code that belongs to a status: 0, 1, 2 or 77. */
int sn_exit_code(enum sn_status st);

#define SN_TRY(call)                                                                               \
    do {                                                                                           \
        enum sn_status sn_try_ = (call);                                                           \
        if (sn_try_ != SN_OK)                                                                      \
            return sn_try_;                                                                        \
    } while (0)

#endif
