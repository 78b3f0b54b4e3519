/*
 * state.h - everything that a run must carry to the next process, and who writes it down.
 *
 * The step loop knows no file format: it hands a struct sn_state to the functions of a struct
 * sn_saver, which bin/ fills from checkpoint/.
 */
#ifndef SN_STATE_H
#define SN_STATE_H

#include "kernels/tensor.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* One logical tensor in this process's memory (fp32, rows x cols, borrowed). */
struct sn_state_tensor {
    const char *group; /* "model" (fp32 master weights), "exp_avg", "exp_avg_sq" */
    const char *name;  /* "layers.3.attn.q.weight" */
    int64_t rows, cols;
    float *p;
};

struct sn_state_scalars {
    int64_t step;   /* steps finished */
    int64_t tokens; /* tokens seen */
    int64_t adam_count, scale_age, skipped;
    float loss_scale;
};

struct sn_state {
    struct sn_state_scalars scalars;
    const char *model_text; /* the model section, resolved, as YAML: another model is refused */
    uint64_t config_hash;
    int n_tensors;
    struct sn_state_tensor *tensors;
};

struct sn_model_config;

struct sn_saver {
    void *self;
    /* Write one complete checkpoint of the state; returns after it is durable and visible. */
    enum sn_status (*save)(void *self, const struct sn_state *s, struct sn_err *err);
    /* Number of the newest valid checkpoint in *step, or -1 when there is none. */
    enum sn_status (*find)(void *self, int64_t *step, struct sn_err *err);
    /* Fill every tensor and the scalars from checkpoint `step`. Another model is SN_EINPUT; a
     * missing, altered or wrong-shaped tensor is an error that names it. */
    enum sn_status (*load)(void *self, int64_t step, struct sn_state *s, struct sn_err *err);
    /* Fill the "model" tensors of s from a safetensors file or directory, or from a checkpoint of
     * ours (train.init_from). */
    enum sn_status (*init)(void *self, const char *path, const struct sn_model_config *config,
                           struct sn_state *s, struct sn_err *err);
    /* Move what is there out of the way, losing nothing (--fresh). Rank 0 only. */
    enum sn_status (*set_aside)(void *self, struct sn_err *err);
};

#endif
