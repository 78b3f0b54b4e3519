/*
 * bench.h - rows, with the machines and profiles by which they are priced.
 */
#ifndef BENCH_H
#define BENCH_H

#include "tests/bench/foreign/linear.h"
#include "tests/bench/foreign/rows.h"

enum { BENCH_PROFILES = 8, BENCH_MACHINES = 4 };

struct bench {
    struct rows rows;
    struct sn_machine machine[BENCH_MACHINES];
    struct sn_software profile[BENCH_PROFILES];
    const char *machine_name[BENCH_MACHINES], *profile_name[BENCH_PROFILES];
    int n_machines, n_profiles;
    double *seconds;     /* of each row: what we say */
    double *filled;      /* and the part of the device's memory that its fullest rank needs, */
    bool *fits;          /* which we say is there */
    const char *without; /* constant that is not fitted; NULL: none */
    bool *used;          /* of each row: in the part that is looked at now */
    struct plane plane;  /* of fits: the times of all rows, near the last fit */
};

/* Constants of a source that are fitted: a member of the profiles. */
enum fitted { OF_TIME, OF_MEMORY };
struct constant {
    enum fitted what;
    const char *name;
    size_t at;         /* in struct sn_software */
    unsigned profiles; /* bit i: of profile i of the source */
    bool is_factor;    /* fitted as its logarithm */
    double prior, spread, least, most;
};

struct source {
    const char *name;
    enum sn_status (*read)(struct rows *rows, const char *folder, struct sn_err *err);
    const char *const *profiles; /* in the order of the bits; NULL at the end */
    const struct constant *constant;
    int n_constants;
};

extern const struct source source_sweep, source_vtrain, source_vtrain_many, source_bigscience,
    source_sc21, source_foundry, source_nemo, source_sailor, source_internevo;

/* Read, load machines and profiles, compile. */
enum sn_status bench_open(struct bench *b, const struct source *s, const char *folder,
                          struct sn_err *err);
void bench_close(struct bench *b);
/* What is said of rows, apart from *b, whose rows and profiles it borrows. */
enum sn_status bench_keep(struct bench *out, const struct bench *b, struct sn_err *err);
void bench_keep_used(struct bench *kept, const struct bench *b); /* of the used rows, as they are */
void bench_kept_fini(struct bench *kept);
/* Prices all used rows that were timed. */
enum sn_status bench_price(struct bench *b, struct sn_err *err);
/* Fits the source's constants to the used rows; the profiles then hold them. */
enum sn_status bench_fit(struct bench *b, const struct source *s, enum fitted what,
                         struct sn_err *err);
/* The memory of all rows. */
void bench_memory(struct bench *b);
/* The constants as they are now. */
void bench_print_constants(const struct bench *b, const struct source *s);
/* Errors of step times of the used rows of a sheet; NULL: of all. */
struct score {
    int rows;
    double median, p90, most; /* of |planned / measured - 1| */
    double bias;              /* mean of planned / measured - 1 */
    double spearman;
    double first; /* what the layout that we rank first takes over the best one, less 1 */
};
struct score bench_score(const struct bench *b, const char *sheet);
/* What is said of memory. */
struct tally {
    int rows, right, missed, alarms; /* missed: we say that it fits, it did not */
    int low;                         /* ran out although under three quarters of the device */
    double least_oom, most_fit;
};
struct tally bench_tally(const struct bench *b, const char *sheet);
/* The k-th sheet; NULL when there are not so many. */
const char *bench_sheet(const struct bench *b, int k);

/* Tables of the used rows. */
void bench_print_times(const struct bench *b, const char *title);
/* The interval of measured over planned that holds of nine in ten rows of each group, and what was
 * measured, into *s. */
enum sn_status bench_accuracy(struct sn_software *s, const struct bench *b, struct sn_err *err);
/* That interval, and of each group how many are in that of the others. */
void bench_print_interval(const struct bench *b);
void bench_print_rows(const struct bench *b);
void bench_print_memory(const struct bench *b, const char *title);

#endif
