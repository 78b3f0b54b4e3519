/*
 * codec.h - codecs: flat arrays of floats as fewer bytes, and back.
 *
 * A codec knows no rank and no message: it turns `n` values of a storage type (fp32, bf16, fp16)
 * into a stream of bytes. Where the stream goes is others' business. Codecs are kernels: they are
 * compiled once per instruction set, planners ask for sizes without a program that runs, and the
 * executor calls them beside the operations of kernels/ops.h, whose storage types they share.
 * docs/COMPRESSION.md has the sources of each and what it costs; the streams are these
 * (little-endian, offsets in bytes):
 *
 *   name        a block of m values is                        values a block   error of a value x
 *   ----------- --------------------------------------------- ---------------- -------------------
 *   bf16        m bf16, rounded to even                       1                2^-8 |x|
 *   fp8         scale fp32 = 2^-e, m e4m3 codes of x 2^e      128              max(2^-4 |x|,
 *               (kernels/fp8.h)                                                2^-10 scale)
 *   fp8-e5m2    the same of e5m2 codes                        128              max(2^-3 |x|,
 *                                                                              2^-17 scale)
 *   int8        scale fp32 = max|x| / 127, m codes -127..127  128              scale / 2
 *   int4        scale fp32 = max|x| / 7, ceil(m / 2) bytes:   128              scale / 2
 *               code j low, code j + ceil(m / 2) high, -7..7
 *   nf4         scale fp32 = max|x|, codes as int4's of the  128              0.152 scale
 *               levels of kernels/nf4.h
 *   ..-hadamard the same of H x / 32, each 32 values in turn  128              16 scale (all 32 off
 *               times the Hadamard matrix H; m is rounded up                   alike); in the mean
 *               to whole 32                                                    sqrt(32/12) scale
 *   ..-stochastic  codes are floor(x / scale + u), u drawn    128              scale; its mean is 0
 *   zfp-R       blocks of 4 values in 4 R bits, as libzfp's   64               measured: it depends
 *               fixed rate R writes a 1-dimensional array                      on the neighbours
 *   mpc, mpc-D  lossless: see kernels/cpu/codec_mpc.c         all              0
 *
 * The last block is as long as the values that are left. A stream of fixed rate can be cut at
 * blocks: block b begins at b times the bytes of a whole block.
 *
 * What is not finite. mpc brings every bit back, bf16 NaN as NaN and infinities as infinities.
 * Every other codec brings back a block with a NaN or an infinity in it as NaN in all its values
 * (zfp: the 4 values of its own block), so that a test for overflow after the codec sees what one
 * before it would have seen. What is finite comes back finite, with these exceptions: bf16 rounds
 * what is within 2^-9 of fp32's largest value to infinity, as the format has it; `-hadamard` and
 * zfp may bring back magnitudes from 2^125 on as infinity; and so may a store in fp16 or bf16 of
 * what fp32 held. Small values: int8, int4 and nf4 take a block whose largest magnitude is below 2^-100
 * (of H x / 32 with -hadamard) for zeros, zfp one below 2^-98, where the library's own arithmetic
 * overflows; elsewhere denormals are numbers as others.
 *
 * Corrupt streams. A decoder reads nothing outside the stream and refuses what an encoder cannot
 * have written where that shows in the stream itself: the length, scales that are negative,
 * infinite or too large, codes -128, -8, infinity and NaN, zfp's blocks without exponent, mpc's
 * header and counts. A changed bit elsewhere is another number: streams have no checksum. After a
 * fault the values decoded to hold anything.
 *
 * The same stream comes from every instruction set and every number of threads.
 */
#ifndef SN_CODEC_H
#define SN_CODEC_H

#include "kernels/codec_kind.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sn_codec_fault {
    SN_CODEC_FINE,
    SN_CODEC_BAD_LENGTH,
    SN_CODEC_BAD_SCALE,
    SN_CODEC_BAD_CODE,
    SN_CODEC_BAD_HEADER,
    SN_CODEC_BAD_TYPE,
    SN_CODEC_BAD_PLACE,
    SN_CODEC_MISSING,
    SN_CODEC_NO_MEMORY,
    SN_NFAULTS
};

/* n values without gaps. Borrowed. */
struct sn_values {
    void *p;
    enum sn_dtype dtype; /* SN_F32, SN_BF16, SN_F16 */
    int64_t n;
};

/* Borrowed. zfp and mpc want p on a multiple of 8. */
struct sn_stream {
    void *p;
    int64_t bytes;
};

/*
 * What stochastic rounding draws with: nothing else enters, so every run and every layout that
 * numbers its messages alike draws the same. The value at i of the message, in block b = i / 128 of
 * it, rounds with
 *
 *   u = (h + 1/2) 2^-16,  h = 16-bit half p % 2 of word p / 2 of philox(key, (message, 16 b + g)),
 *   g = i % 16,  p = i % 128 / 16
 *
 * so the mean of what comes back is within 2^-17 of a step of x. `first`: the number in the message
 * of the first value that is encoded, a multiple of 128.
 */
struct sn_codec_draw {
    uint64_t key; /* sn_codec_key() */
    uint64_t message;
    int64_t first;
};

uint64_t sn_codec_key(uint64_t seed, int64_t step);

/* "int4-hadamard-stochastic" and back; false: no codec has that name. */
bool sn_codec_parse(struct sn_codec *out, const char *text);
void sn_codec_format(const struct sn_codec *c, char name[SN_CODEC_NAME]);
/* The names that there are, for a sentence. */
const char *sn_codec_names(void);
/* Every codec there is, once with each set of words: of zfp and mpc those that schemes name. */
const struct sn_codec *sn_codec_all(int *n);
/* NULL, or what is missing in this build for it and what would help. */
const char *sn_codec_missing(const struct sn_codec *c);
/* What a fault is, as the end of a sentence. */
const char *sn_codec_explain(enum sn_codec_fault f);

/* Are the bytes of a stream known before it is encoded? */
bool sn_codec_is_fixed(const struct sn_codec *c);
/* Where a stream of fixed rate can be cut: after every so many values. */
int64_t sn_codec_granule(const struct sn_codec *c);
/* Bytes of the stream of n values of a storage type: exact where the rate is fixed,
 * else the most. */
int64_t sn_codec_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n);

/*
 * A stream as part of a message (operations ENCODE and DECODE): rounded up to a multiple of 8 bytes.
 * Where the rate is not fixed its length comes first, 8 bytes little-endian, and only what is used
 * need travel. These are the bytes that the message has room for. n: values.
 */
int64_t sn_coded_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n);
/* The same of `marked` streams, which follow their length whatever the codec is. */
int64_t sn_coded_row_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n);
/* The most over all levels of an operation. */
int64_t sn_coded_room(const struct sn_codec *c, int levels, enum sn_dtype t, int64_t n);
/* What is likely to travel of it: of a lossless codec as of normals (docs/COMPRESSION.md). */
int64_t sn_coded_likely(const struct sn_codec *c, enum sn_dtype t, int64_t n);
/* The next codec that loses less, for values of this type: false, there is none. */
bool sn_codec_milder(struct sn_codec *out, const struct sn_codec *c);

/* The codecs of one instruction set. */
struct sn_codecs {
    const char *name;
    /* Fills `to`, which has room for sn_codec_bytes(), and sets its bytes. `draw` may be NULL where
     * the codec does not draw. */
    enum sn_codec_fault (*encode)(const struct sn_codec *c, const struct sn_values *x,
                                  const struct sn_codec_draw *draw, struct sn_stream *to,
                                  int threads);
    /* y is set, or added to (fp32 only: sums are never rounded to less). The storage type of y need
     * not be that of the values encoded. */
    enum sn_codec_fault (*decode)(const struct sn_codec *c, const struct sn_stream *from,
                                  const struct sn_values *y, enum sn_acc acc, int threads);
    /*
     * Error feedback (Seide et al. 2014; Karimireddy et al. 2019, arXiv 1901.09847): what was lost
     * of a message is added to the next. e has as many fp32 values as x and begins with zeros.
     *
     * encode_fed gives the stream of x + e, as if these sums were fp32 values. e is left alone, so
     * that a step that is skipped has not happened.
     *
     * keep is called once the step counts, with the same x: e becomes x + e - what `from` decodes
     * to; where that is not finite e stays as it was.
     *
     * The sum of all messages that were decoded is that of all x, less the last e. mpc, which loses
     * nothing, encodes x and has no e.
     */
    enum sn_codec_fault (*encode_fed)(const struct sn_codec *c, const struct sn_values *x,
                                      const float *e, const struct sn_codec_draw *draw,
                                      struct sn_stream *to, int threads);
    enum sn_codec_fault (*keep)(const struct sn_codec *c, const struct sn_values *x, float *e,
                                const struct sn_stream *from, int threads);
};

/* Those for the best instruction set of this processor; never NULL. */
const struct sn_codecs *sn_codecs_cpu(void);
/* Its number among those that the Makefile lists, from 0 (kernels/cpu.c). */
int sn_cpu_level(void);

#endif
