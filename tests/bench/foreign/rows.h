/*
 * rows.h - published measurements of training runs: one row is one layout of one trainer.
 *
 * A reader (one file per source) makes rows of the tables in tests/bench/layouts/. A row names the
 * machine and the software profile by which it is priced; what differs from row to row of one
 * trainer (attention kernel, fused norms) is the row's own.
 */
#ifndef ROWS_H
#define ROWS_H

#include "lib/machine/software.h"
#include "lib/sim/plan.h"

enum row_outcome { ROW_TIMED, ROW_OOM };

struct row {
    char sheet[64], id[24]; /* the table that it is ranked in; the run in it */
    char group[48];         /* the model, for leaving one out: "llama_13B" */
    const char *machine;    /* templates/machines */
    const char *software;   /* templates/software */
    enum sn_attention_kernel attention;
    bool fused_norm;
    struct sn_config config;
    enum row_outcome outcome;
    double seconds; /* a step, when timed */
    int twin;       /* first row whose program is the same (itself when there is none before) */
    struct sn_model *model;  /* of twins only */
    struct sn_stages stages; /* of twins only: the others borrow */
};

struct rows {
    struct row *row;
    int n, cap;
    int unused; /* rows of the file that are neither timed nor out of memory */
};

/* The layout of a row in numbers; what is not here is the default of a run file. */
struct row_layout {
    int layers, hidden, heads, kv_heads, ffn, vocab, seq;
    bool tied;
    int batch; /* sequences a step */
    int tensor, pipeline, context, data, micro_batch, virtual_stages, zero;
    bool sequence_parallel, recompute;
    bool even_split;                /* else layers are dealt as ours are */
    const char *family, *precision; /* NULL: llama, bf16 */
    bool ends; /* embedding and head count as a layer each: the first and the last part have one
                  layer less than the others */
    const char *bucket; /* gradients that are reduced together; NULL: as ours */
    const char *stages; /* "7-9-9-9": layers of stages, embedding and head counted; NULL: even */
};

/* A line of a table, by the names of its columns. */
struct table;
const char *table_text(const struct table *t, const char *column); /* "" when it is empty */
long table_int(const struct table *t, const char *column);
double table_number(const struct table *t, const char *column);
/* Call `take` for every line of a CSV file with `#` comments and a line of names. */
typedef enum sn_status table_take(void *arg, const struct table *t, struct sn_err *err);
enum sn_status table_read(const char *path, table_take *take, void *arg, struct sn_err *err);

/* A new row at the end, zeroed. It stays where it is until the next one is added. */
enum sn_status rows_add(struct rows *rows, struct row **out, struct sn_err *err);
/* Fill r->config; SN_EINPUT when our rules refuse the layout. */
enum sn_status row_configure(struct row *r, const struct row_layout *l, struct sn_err *err);
/* Compile what is to be priced, once for equal programs. */
enum sn_status rows_compile(struct rows *rows, struct sn_err *err);
void rows_fini(struct rows *rows);

/* Readers. */
enum sn_status rows_read_sweep(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_vtrain(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_vtrain_many(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_bigscience(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_sc21(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_foundry(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_nemo(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_sailor(struct rows *rows, const char *folder, struct sn_err *err);
enum sn_status rows_read_internevo(struct rows *rows, const char *folder, struct sn_err *err);

#endif
