/*
 * nvtx.c - ranges for profilers: NVTX 3, which is a header alone. Where a tool listens (Nsight
 * Systems, or the library that NVTX_INJECTION64_PATH names) it has loaded itself behind the first
 * call; where none does the domain has no handle, and that call was the only one.
 */
#include "kernels/cuda/plugin.h"

#include <nvtx3/nvToolsExt.h>

bool sn_cuda_watched(struct sn_device *d)
{
    if (!d->ranges)
        d->ranges = nvtxDomainCreateA("sennit");
    return d->ranges != NULL;
}

void sn_cuda_range_begin(struct sn_device *d, const char *name)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                               .message = {.ascii = name}};
    (void)nvtxDomainRangePushEx(d->ranges, &a); /* the depth, which nobody needs */
}

void sn_cuda_range_end(struct sn_device *d)
{
    (void)nvtxDomainRangePop(d->ranges);
}
