/*
 * sdpa.h - attention by cuDNN: what it is asked for, the memory that it may take, its plans.
 *
 * cuDNN computes attention ("scaled dot product attention", SDPA) from a graph of plain operations
 * in which it recognises a fused kernel of its own. We ask it for what is common in training,
 * causal self-attention of whole samples in 16-bit floats; sn_sdpa_refuses() says what is left to
 * our own kernels, and why. The graphs (sdpa_graph.c) are those of NVIDIA's cudnn-frontend 1.32,
 * written with the library's plain C functions, so that building needs neither its headers nor C++.
 *
 * Memory: scratch is planned where no device is, so sn_sdpa_bound() is a formula, and a plan of
 * cuDNN's that wants more is not taken. Plans are made when a shape first comes, host work alone;
 * after that it is one call. Nothing here knows CUDA: pointers and the stream are passed on.
 */
#ifndef SN_CUDA_SDPA_H
#define SN_CUDA_SDPA_H

#include "kernels/cuda/cudnn.h"
#include "kernels/ops.h"

/* One attention: all that its plan depends on. Members of 8 bytes, so that it is compared whole. */
struct sn_sdpa_shape {
    int64_t is_backward, in_order; /* in_order: the same sums in each run (backward) */
    int64_t dtype;                 /* of all but the statistics, which are fp32 */
    int64_t samples, seq, heads, kv_heads, d;
    int64_t q, k, v, o, lse; /* elements between rows; lse: forward */
    int64_t dy, dq, dk, dv;  /* backward: of o's gradient, and of results */
    double scale;            /* a float */
};

/* Operands of an execution; also their numbers in the graph, from 1 on. */
enum sn_sdpa_operand {
    SN_SDPA_Q,
    SN_SDPA_K,
    SN_SDPA_V,
    SN_SDPA_O,
    SN_SDPA_LSE, /* forward: [T, H] as ours; backward: [samples, H, S], packed */
    SN_SDPA_DY,
    SN_SDPA_DQ,
    SN_SDPA_DK,
    SN_SDPA_DV,
    SN_SDPA_DELTA, /* backward: scratch, fp32 [samples, H, S] */
    SN_SDPA_SUMS,  /* backward in any order: scratch, dq as fp32 [samples, H, S, d] */
    SN_SDPA_NOPERANDS
};

/* The widest head, of both passes on every architecture. */
enum { SN_SDPA_WIDEST = 128 };

/* Why cuDNN is not asked for an ATTENTION or ATTENTION_DX, a sentence's part; NULL: it is. `arch`
 * 0: not known yet. attr.attention.library is not SN_LIBRARY_NEVER. */
const char *sn_sdpa_refuses(const struct sn_args *a, bool is_backward, int arch);

/* Only where it is not refused. */
struct sn_sdpa_shape sn_sdpa_shape_of(const struct sn_args *a, bool is_backward);

/*
 * Scratch, from the first multiple of SN_SDPA_PIECE on, each part a multiple of it:
 *   backward             lse packed, delta                           4 bytes of each row and head
 *   backward, any order  dq in fp32                                  4 d bytes
 *   both                 the workspace of cuDNN's plan, at most sn_sdpa_workspace()
 * In order, cuDNN keeps the gradients of all scores, 2 bytes each, and multiplies them once more:
 * samples x heads x S x S, with S in whole tiles of 128 (256 MiB for 8 x 16 heads of 1024).
 */
enum { SN_SDPA_PIECE = 256 };
size_t sn_sdpa_workspace(const struct sn_sdpa_shape *s);
size_t sn_sdpa_bound(const struct sn_sdpa_shape *s);

/* Where cuDNN may compute it, but need not (SN_LIBRARY_MAY), gradients of scores beyond this are
 * not kept: our own backward is in order without them, and they cross memory twice. */
#define SN_SDPA_SCORES ((size_t)256 << 20)

enum { SN_SDPA_PLANS = 24, SN_SDPA_REASONS = 12 };

struct sn_sdpa_plan {
    struct sn_sdpa_shape shape;
    struct sn_cudnn_set set; /* why: what cuDNN says, where there is no plan */
    void *plan;              /* NULL: there is none, our own kernels compute it */
    size_t workspace;
};

/* cuDNN with one device, and its plans: some 48 KiB, in the caller's storage. */
struct sn_sdpa {
    const struct sn_cudnn *api;
    void *handle;
    int n;
    struct sn_sdpa_plan plan[SN_SDPA_PLANS];
    int n_notes;
    char note[SN_SDPA_REASONS][320];
    char why[320]; /* of what failed last */
};

/* Open the library and a handle for the thread's device. 0, or -1: `why` is a sentence. */
int sn_sdpa_open(struct sn_sdpa *s, char *why, size_t room);
void sn_sdpa_close(struct sn_sdpa *s); /* NULL is allowed, and one that is not open */
/* "cuDNN 9.19.0 (/path)" */
void sn_sdpa_say(const struct sn_sdpa *s, char *text, size_t room);

/* The plan of a shape, made when it first comes; NULL: there is none, because of *why. */
struct sn_sdpa_plan *sn_sdpa_find(struct sn_sdpa *s, const struct sn_sdpa_shape *shape,
                                  const char **why);

/* Enqueue it. 0, or -1: p->set.why. */
int sn_sdpa_run(struct sn_sdpa *s, struct sn_sdpa_plan *p, void *stream,
                void *const operand[SN_SDPA_NOPERANDS], void *workspace);

/* Remember a sentence; its number from 1 on, or 0: it was known, or there is no room for more. */
int sn_sdpa_remember(struct sn_sdpa *s, bool is_backward, const char *why);

/* ---- sdpa_graph.c ---- */

/* The graph of a shape, finalized, in p->set; NULL: p->set.why. */
void *sn_sdpa_graph(struct sn_sdpa_plan *p, void *handle);
/* Scalars of the graph, which an execution passes by value: their numbers and where they are. */
enum { SN_SDPA_NSCALARS = 3 };
extern const int64_t sn_sdpa_scalar_id[SN_SDPA_NSCALARS];
/* How many of them are in the graph, and which operands. */
int sn_sdpa_scalars(const struct sn_sdpa_shape *s, float value[SN_SDPA_NSCALARS]);
unsigned sn_sdpa_operands(const struct sn_sdpa_shape *s);

#endif
