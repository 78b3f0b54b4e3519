/*
 * convert.h - writing a checkpoint from a source: any layout, bounded memory, by many processes, to
 * be taken up again after a kill.
 */
#ifndef SN_CONVERT_H
#define SN_CONVERT_H

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/source.h"
#include "lib/comm/comm.h"
#include "lib/config/config.h"

struct sn_convert_options {
    const char *dst;      /* the new directory step-N; must not exist */
    int64_t memory;       /* bytes of buffers in this process */
    enum sn_dtype dtype;  /* of group "model" in the result: SN_F32, SN_BF16, SN_F16 */
    struct sn_comm *comm; /* all ranks call with the same arguments */
    bool fresh;           /* do not take up what a killed run left */
    bool is_quiet;
    int64_t
        sync_bytes; /* written between two syncs, after which a kill costs no more; 0: 256 MiB */
};

/* What was done, on every rank. */
struct sn_convert_report {
    int64_t tensors, bytes; /* of all ranks */
    int64_t resumed_bytes;  /* taken over from a killed run */
    int64_t peak_buffers;   /* of this rank, bytes */
    double seconds;
};

/* The pieces that a trainer of the resolved layout in `c` would write of the source's tensors:
 * shards, datasets, boxes; hashes are not yet known. A source of other tensors than the model's is
 * SN_EINPUT, and names them. Moments that the source lacks (weights only) stay absent, all or none;
 * so does what it lacks of compression's state. The source is one of sn_source_fold.
 * Caller runs sn_manifest_fini. */
enum sn_status sn_convert_plan(struct sn_manifest *out, const struct sn_source *s,
                               const struct sn_config *c, struct sn_err *err);
/* Fill `plan` from the source and commit it as o->dst. Written aside as DST.tmp.convert with a
 * journal; a killed conversion of the same source to the same plan goes on where it was. */
enum sn_status sn_convert_run(struct sn_source *s, struct sn_manifest *plan,
                              const struct sn_convert_options *o, struct sn_convert_report *report,
                              struct sn_err *err);

#endif
