/*
 * compress.h - what the pass of layout.compress puts in the place of a communication: legs, each
 * one way of streams there. compress_legs.c says which, compress.c writes them down.
 */
#ifndef SN_COMPRESS_H
#define SN_COMPRESS_H

#include "lib/program/program.h"

enum { SN_LEGS = 4 };

/* One way there. */
struct sn_leg {
    int kind;                        /* of communication */
    enum sn_group group;             /* whose members */
    bool between;                    /* nodes: coded as the run file says for those */
    bool hands_on;                   /* what leaves are the streams that came with the leg before */
    int send;                        /* streams that leave: 0 of a RECV */
    int get;                         /* streams that come: 0 of a SEND */
    int send_each, get_each;         /* of them of a member: attr.blocks_b */
    int64_t share;                   /* values of each */
    bool sums;                       /* what comes is of the same values */
    struct sn_view from, minus, fed; /* what is encoded; what is taken off; the feedback */
    struct sn_view to, plus;         /* what is decoded, and added to; to.buf -1: handed on */
    int64_t encode_missing, decode_missing; /* values at the end that this member has not */
    enum sn_dtype type;                     /* of the values encoded */
    int leaves, comes;                      /* buffers of streams */
    int id;                                 /* of the communication */
};

struct sn_coded_move {
    struct sn_op op; /* as it was */
    struct sn_leg leg[SN_LEGS];
    int n_legs, now; /* now: the one that is on its way */
};

/* The legs of m->op, and the sums that lie between them; streams have no buffers yet. */
void sn_legs_of(const struct sn_job *j, struct sn_program *p, struct sn_coded_move *m);
/* The codecs of a leg in turn. */
int sn_leg_codecs(const struct sn_job *j, const struct sn_coded_move *m, const struct sn_leg *l,
                  struct sn_codec codec[SN_CODEC_LEVELS]);

#endif
