/*
 * nccl_none.c - in place of nccl.c where its header is missing: ranks talk through the host.
 */
#include "kernels/cuda/plugin.h"

const struct sn_cuda_channels *sn_cuda_channels(void)
{
    return NULL;
}

const char *sn_cuda_no_channels(void)
{
    return "the plugin was built without NCCL, whose header nccl.h was not in CUDA's include "
           "folder; "
           "put it there and build again";
}

void sn_cuda_say_channels(char *text, size_t room)
{
    if (room > 0)
        text[0] = '\0';
}
