/*
 * two_shot.h - sums over ranks of compressed values: which rank sums what, what it sends, and the
 * arithmetic, of all ranks in one process.
 *
 * Every rank encodes its values share by share and sends each share to the rank that owns it. The
 * owner decodes what came, its own stream too, and adds in fp32, in the order of ranks: a
 * reduce-scatter. An all-reduce encodes each sum once more, and every rank, the owner too, decodes
 * it, so that all hold the same bits.
 *
 * So a value is encoded twice however many ranks there are. Were sums encoded at each hop of a
 * ring, as MVAPICH does (docs/COMPRESSION.md), hop k would add the error of a sum of k ranks'
 * values: with independent values of one size and a codec of relative error r without bias,
 *
 *   two shots   r sqrt(2)           whatever the number of ranks P
 *   ring        r sqrt((P + 1) / 2) and more, since errors are rounded too
 *
 * tests/unit/comm/test_two_shot.c measures both. It is the shape of ZeRO++'s qgZ (arXiv 2306.10209).
 * Nothing here communicates; what does is text (lib/program/compress_legs.c), and has this as its
 * reference (tests/unit/comm/test_coded_levels.c).
 */
#ifndef SN_TWO_SHOT_H
#define SN_TWO_SHOT_H

#include "kernels/codec.h"

struct sn_two_shot {
    struct sn_codec scatter, gather; /* of the first and the second shot: of fixed rate */
    int64_t n;                       /* values of each rank */
    int ranks;
};

/* Where share r begins, in values: shares are as even as whole granules of both codecs allow. That
 * of r = ranks is n. */
int64_t sn_two_shot_at(const struct sn_two_shot *t, int r);

/* Bytes that leave rank r in each shot: exactly. */
int64_t sn_two_shot_scattered(const struct sn_two_shot *t, int r);
int64_t sn_two_shot_gathered(const struct sn_two_shot *t, int r);
/* The longest stream of either shot: what a buffer for one needs. */
int64_t sn_two_shot_room(const struct sn_two_shot *t);

/* Rank `r`'s part of the first shot: its stream of share `s`, which has room. Draws are those of
 * message draw->message + r, so that no two ranks round alike. */
enum sn_codec_fault sn_two_shot_put(const struct sn_two_shot *t, const struct sn_codecs *of,
                                    const struct sn_values *x, const struct sn_codec_draw *draw,
                                    int r, int s, struct sn_stream *to, int threads);

/* All ranks' values x[ranks] become sums[n], share after share: what each rank holds after a
 * reduce-scatter. `room`: a buffer of sn_two_shot_room() bytes, on 8 bytes. */
enum sn_codec_fault sn_two_shot_reduce_scatter(const struct sn_two_shot *t,
                                               const struct sn_codecs *of,
                                               const struct sn_values *x,
                                               const struct sn_codec_draw *draw, float *sums,
                                               void *room);
/* And after an all-reduce. Draws of the second shot: of message draw->message + ranks. */
enum sn_codec_fault sn_two_shot_all_reduce(const struct sn_two_shot *t, const struct sn_codecs *of,
                                           const struct sn_values *x,
                                           const struct sn_codec_draw *draw, float *sums,
                                           void *room);

/*
 * Two levels: ranks of a node are near each other, nodes are far apart, and `between` may be
 * coarser than `inside`. Rank r is number r % local of node r / local.
 *
 *   1  inside each node a reduce-scatter with `inside`: rank l of a node has share l of its sum
 *   2  ranks l of all nodes make an all-reduce of these with `between`, in shares of the share
 *   3  inside each node the streams of step 2's second shot are handed on as they are
 *
 * So between nodes go 1 / local of what one level would send, and a value is rounded three times,
 * step 3 costs none: sqrt(ri^2 + 2 rb^2) of independent values, whatever the number of ranks. Bytes
 * are those of the two sn_two_shot below; step 3 hands on (local - 1) times what all shares of rank
 * l have.
 */
struct sn_two_level {
    struct sn_codec inside, between; /* of fixed rate */
    int64_t n;
    int nodes, local;
};

/* Step 1 of a node; step 2 of the ranks `l`, whose values are sn_two_shot_at(inside, l) and on. */
struct sn_two_shot sn_two_level_inside(const struct sn_two_level *t);
struct sn_two_shot sn_two_level_between(const struct sn_two_level *t, int l);

/* x[nodes * local] become sums[n]. `partial`: nodes * n values. `room`: that of
 * sn_two_level_room(). Draws of step 1: message draw->message + rank; of step 2 those after, in the
 * order of nodes, and one more. */
int64_t sn_two_level_room(const struct sn_two_level *t);
enum sn_codec_fault sn_two_level_all_reduce(const struct sn_two_level *t,
                                            const struct sn_codecs *of, const struct sn_values *x,
                                            const struct sn_codec_draw *draw, float *sums,
                                            float *partial, void *room);

#endif
