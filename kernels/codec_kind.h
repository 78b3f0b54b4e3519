/*
 * codec_kind.h - which codecs there are and their settings, for those who only name them:
 * attributes of operations, run files. What they do is in kernels/codec.h.
 */
#ifndef SN_CODEC_KIND_H
#define SN_CODEC_KIND_H

#include "kernels/philox.h"

#include <stdbool.h>
#include <stdint.h>

enum sn_codec_kind {
    SN_CODEC_BF16,
    SN_CODEC_FP8,
    SN_CODEC_FP8_E5M2,
    SN_CODEC_INT8,
    SN_CODEC_INT4,
    SN_CODEC_NF4,
    SN_CODEC_ZFP,
    SN_CODEC_MPC,
    SN_NCODECS
};

enum {
    SN_CODEC_BLOCK = 128,      /* values that share a scale */
    SN_CODEC_ROTATED = 32,     /* points of the Hadamard transform */
    SN_CODEC_ZFP_GRANULE = 64, /* values of which zfp-R makes R words of 64 bits */
    SN_CODEC_ZFP_LEAST = 3,
    SN_CODEC_ZFP_MOST = 32, /* bits a value */
    SN_CODEC_MPC_MOST = 32, /* the farthest that mpc looks back */
    SN_CODEC_MPC_HEADER =
        16,            /* bytes before what mpc writes, also where it sends values as they are */
    SN_CODEC_NAME = 32 /* bytes of a name, the end included */
};

/* A codec with its settings; a member that a kind does not name is 0. */
struct sn_codec {
    enum sn_codec_kind kind;
    int32_t rate;    /* ZFP: bits a value */
    int32_t dim;     /* MPC: how many positions back the value lies that is subtracted */
    bool hadamard;   /* INT8, INT4 */
    bool stochastic; /* INT8, INT4 */
};

/* What is compressed, each with a codec of its own (layout.compress). */
enum sn_coded {
    SN_CODED_DATA,     /* gradients: all-reduce, reduce-scatter */
    SN_CODED_ZERO,     /* updated weights: all-gather */
    SN_CODED_TENSOR,   /* activations and their gradients among tensor ranks */
    SN_CODED_PIPELINE, /* those that go to the next stage, and back */
    SN_CODED_EXPERT,   /* tokens on their way to experts, and back */
    SN_NCODED
};

enum { SN_CODEC_LEVELS = 3 }; /* codecs that one message may have in turn, each milder */

/* The number of a message, for those who draw: of an operation (`site`), of the rank `member`, of
 * the micro-batch that begins with `sample`. Stream i of it has this number plus i. */
SN_BOTH uint64_t sn_codec_message(uint32_t site, int32_t member, int64_t sample)
{
    struct sn_philox r =
        sn_philox((uint64_t)site << 32 | (uint32_t)member, (uint64_t)sample, 0x6d657373u);
    return (uint64_t)r.v[1] << 32 | r.v[0];
}

#endif
