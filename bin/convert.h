/*
 * convert.h - what sennit-convert was asked for, and the parts of it that do it.
 */
#ifndef SN_BIN_CONVERT_H
#define SN_BIN_CONVERT_H

#include "bin/ranks.h"
#include "checkpoint/store/source.h"
#include "lib/base/err.h"
#include "lib/comm/comm.h"

#include <stdbool.h>
#include <stdint.h>

enum sn_convert_mode {
    SN_CONVERT_LAYOUT, /* a checkpoint of ours from one of ours, or (is_foreign) from safetensors */
    SN_CONVERT_EXPORT, /* --to safetensors, or (is_peft) --to peft */
    SN_CONVERT_INSPECT,
    SN_CONVERT_VERIFY,
    SN_CONVERT_DIFF
};

struct sn_convert_line {
    enum sn_convert_mode mode;
    const char *src, *dst; /* --diff: the two; --inspect, --verify: dst is NULL */
    const char *layout;    /* a file; NULL: one rank */
    bool is_foreign;       /* --from safetensors */
    int64_t memory, shard_bytes;
    bool later_names;   /* --names 5 */
    const char *beside; /* --beside: a directory of the field's; NULL: none */
    int dtype;          /* enum sn_dtype; -1: that of the source */
    int grow;           /* 0: not */
    int mtp; /* --mtp: blocks for multi-token prediction that stay, or are taken; -1: not said */
    int upcycle, top_k; /* experts, 0: not; of a token */
    double noise;
    bool delink, fresh, json;
    bool merge, is_peft, ema;
    struct sn_prune prune; /* n_targets 0: not */
};

/* Do it; every rank calls. *found: --verify found faults, or --diff differences. */
enum sn_status sn_convert_do(const struct sn_convert_line *l, struct sn_comm *comm, bool *found,
                             struct sn_err *err);

/* The whole program, its command line from argv[1] on; returns the exit code. */
int sn_convert_main(int argc, char **argv, const struct sn_ranks *ranks);

#endif
