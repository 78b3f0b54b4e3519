/*
 * library.h - opens a maker's library (cuBLASLt, NCCL, cuDNN) where toolkits and Python's wheels
 * put it, and keeps what was chosen, or why nothing opened.
 *
 * The order: where the loader looks (LD_LIBRARY_PATH wins, then the plugin's own path and the
 * system's), $CUDA_HOME, the newest /usr/local/cuda*, $VIRTUAL_ENV and $CONDA_PREFIX, the python3
 * of PATH, the user's packages. In each tree of Python: site-packages/nvidia/PACKAGE/lib. The first
 * file that is there is the one: if it does not open, that is the answer, and no other is tried.
 * Folders are listed; no program is run. It knows no CUDA.
 */
#ifndef SN_CUDA_LIBRARY_H
#define SN_CUDA_LIBRARY_H

#include <stddef.h>

struct sn_library {
    void *handle;   /* NULL: it did not open */
    char path[400]; /* of what was opened, as the loader names it */
    char why[400];  /* a sentence: what kept it from opening, or from having a function */
};

/* Open the library of this file name ("libnccl.so.2"), for as long as the process lives. 0, or -1:
 * then l->why has the sentence. */
int sn_library_open(struct sn_library *l, const char *file);

/* Store the address of a function in the pointer at `to`. 0, or -1: it has none of that name, which
 * l->why says. */
int sn_library_find(struct sn_library *l, void *to, const char *name);

/* Open it and store all of `names`, in their order, in the pointers at `to`: a struct of pointers
 * to functions. 0, or -1: nothing is stored. */
int sn_library_fill(struct sn_library *l, const char *file, const char *const *names, size_t n,
                    void *to);

#endif
