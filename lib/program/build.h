/*
 * build.h - how lowerings and passes write program text. Internal to lib/program.
 *
 * Builders do not report failure one by one: an allocation that fails sets program.failed, further
 * calls do nothing harmful, and the compiler asks once at the end.
 */
#ifndef SN_BUILD_H
#define SN_BUILD_H

#include "lib/program/program.h"

/* A new buffer; returns its index (0 when the program has failed). */
int sn_buffer_add(struct sn_program *p, enum sn_class cls, enum sn_dtype dtype, int64_t rows,
                  int64_t cols, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* A new operation of the given kind with every operand absent. The pointer is valid until the next
 * call. Never NULL (a spare one is returned when the program has failed). */
struct sn_op *sn_op_add(struct sn_program *p, int kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Open a chunk at the current end; it runs to the next one's begin. */
void sn_chunk_begin(struct sn_program *p, enum sn_chunk_kind kind);
void sn_chunks_close(struct sn_program *p); /* after the last operation */
void sn_sched_add(struct sn_program *p, int chunk, int micro, int slot);

extern const struct sn_view sn_no_view;
struct sn_view sn_view_all(const struct sn_program *p, int buf);
struct sn_view sn_view_rows(const struct sn_program *p, int buf, int64_t row, int64_t rows);
struct sn_view sn_view_cols(const struct sn_program *p, int buf, int64_t col, int64_t cols);
/* A buffer as one row of all its elements. */
struct sn_view sn_view_flat(const struct sn_program *p, int buf);

/* The text under construction, beside the program itself. */
struct sn_emit {
    struct sn_job *job;
    struct sn_program *p;
    bool train;            /* gradients are wanted */
    bool generate;         /* the head gives the logits of one row */
    int *value_buf;        /* value -> buffer */
    struct sn_view *gview; /* buffer -> its gradient so far (buf -1: none); sized by cap */
    int cap_gview;
    bool *grad_written; /* param -> its gradient buffer was written in this backward */
};

int sn_weight(const struct sn_emit *e, int param); /* buffer of the weights */
/* The gradient operand of a parameter: where to add, and by which rule (the first contribution of a
 * micro-batch initialises on the first micro-batch). */
struct sn_view sn_param_grad(struct sn_emit *e, int param, enum sn_acc_rule *rule);
bool sn_param_trains(const struct sn_emit *e, int param);

struct sn_view sn_grad_get(const struct sn_emit *e, int buf);
void sn_grad_set(struct sn_emit *e, int buf, struct sn_view g);

/* One file each: */
void sn_state_buffers(struct sn_job *j, struct sn_program *p);     /* state.c */
void sn_lower_forward(struct sn_emit *e);                          /* lower.c */
void sn_lower_head(struct sn_emit *e, const struct sn_node *n);    /* lower_head.c */
void sn_emit_backward(struct sn_emit *e, int first_op, int n_ops); /* grad.c */
void sn_emit_update(struct sn_job *j, struct sn_program *p);       /* optimizer.c */
void sn_pass_split(struct sn_program *p);                          /* split.c */
void sn_pass_buckets(struct sn_job *j, struct sn_program *p);      /* bucket.c */
enum sn_status sn_pass_place(struct sn_job *j, struct sn_program *p,
                             struct sn_err *err); /* place.c */

#endif
