/*
 * scalars.h - the numbers of a step that are not known when the program is compiled.
 *
 * One block per rank, in a planned buffer. Operations read step, rates and random counters here;
 * nothing of the kind is baked into a program (docs/ARCHITECTURE.md). The host writes the first
 * group before a step and the second before each micro-batch; operations write the rest.
 */
#ifndef SN_SCALARS_H
#define SN_SCALARS_H

#include "kernels/both.h"
#include "kernels/codec_kind.h"

#include <stdint.h>

enum sn_agree {
    SN_AGREE_LOSS,    /* of each row once, whichever ranks have it */
    SN_AGREE_SQ_NORM, /* of gradients that a rank owns */
    SN_AGREE_NONFINITE,
    SN_AGREE_SAVE,      /* ranks that want to save and leave */
    SN_AGREE_TERMINATE, /* ranks that were told to end */
    SN_AGREE_SAVED,     /* ranks that have done their part of the save under way */
    SN_AGREE_SAVE_FAILED,
    SN_NAGREE_DENSE, /* a model without experts has no more */
    SN_AGREE_BALANCE = SN_NAGREE_DENSE,
    SN_AGREE_Z,
    SN_AGREE_ROUTED,   /* bytes that tokens' rows took to other ranks */
    SN_AGREE_GATHERED, /* and, with drop_duplicates, among tensor ranks */
    SN_NAGREE,
    /* where codecs are measured, or their streams' lengths depend on the values,
     * behind all else: */
    SN_AGREE_LOST = 0,                 /* scalars.codec_error, pair after pair */
    SN_AGREE_OFF_PLAN = 2 * SN_NCODED, /* bytes sent beside those planned, by axis */
    SN_NAGREE_AXES = 8,                /* at least as many as there are */
    SN_NAGREE_CODED = SN_AGREE_OFF_PLAN + SN_NAGREE_AXES,
    /* where sums are exact, behind all else: */
    SN_NAGREE_EXACT = 4, /* scalars.sq_exact */
    /* with train.z_loss, before both: */
    SN_NAGREE_HEAD_Z = 1, /* scalars.head_z_sum */
    /* with model.mtp, before all of these: */
    SN_NAGREE_BESIDE = 1 /* scalars.beside_sum */
};

struct sn_scalars {
    /* written by the host before a step */
    uint64_t seed;
    int64_t step; /* from 1 */
    float lr;
    float clip;             /* largest global gradient norm; 0 turns clipping off */
    double tokens_in_step;  /* of the global batch: the divisor of routers' means */
    double targets_in_step; /* those that are to be predicted: the divisor of the mean loss; 1 where
                             * there are none */
    int32_t codec_level[SN_NCODED]; /* which of an ENCODE's codecs is used */
    int32_t codec_sample;           /* not 0: this step measures what codecs lose */
    /* written by the host before each micro-batch */
    int64_t first_sample; /* global number, inside the run, of the micro-batch's first sample */
    /* written by operations */
    double loss_sum;           /* sum of token cross-entropies of this rank (then of all ranks) */
    double balance_sum, z_sum; /* of routers, over tokens and layers (then of all ranks) */
    double head_z_sum;         /* of squares of the logits' log-sum-exp, likewise */
    double beside_sum;         /* of cross-entropies with a weight of their own, likewise */
    double sq_norm;            /* sum of squares of the (still scaled) gradients */
    /* the same where it is exact: 32 bits each of a number of 128 bits, in units of 2^-92, the lowest
     * first; not carried on, so that ranks add theirs up exactly */
    double sq_exact[SN_NAGREE_EXACT];
    double grad_norm;                 /* true global norm, before clipping */
    int64_t nonfinite;                /* gradient elements that are NaN or infinite */
    double codec_error[SN_NCODED][2]; /* sums of squares: lost, encoded (then of all ranks) */
    int32_t codec_fault; /* enum sn_codec_fault of a stream that a device's DECODE refused, or 0 */
    int64_t ok;          /* 1: this step updates, 0: overflow, every update is a no-op */
    float grad_scale;    /* what a stored gradient is multiplied with: clipping / loss scale */
    /* carried over steps: checkpoint state */
    int64_t adam_count; /* updates applied so far; ADAMW's bias correction uses it */
    float loss_scale;   /* 1 unless precision is fp16 */
    int64_t scale_age;  /* updates since the loss scale last changed */
    int64_t skipped;    /* steps skipped for overflow so far */
    /* agreed by the step-end all-reduce: sums over ranks */
    double agree[SN_NAGREE + SN_NAGREE_BESIDE + SN_NAGREE_HEAD_Z + SN_NAGREE_CODED +
                 SN_NAGREE_EXACT];
};

/* Behind the block, where losses are told by set of data: the sum of each set's (then of all ranks'). The
 * host makes them 0 before a step, operations add. */
SN_BOTH double *sn_set_losses(struct sn_scalars *s)
{
    return (double *)(s + 1);
}

#endif
