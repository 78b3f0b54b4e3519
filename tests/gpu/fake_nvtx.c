/*
 * fake_nvtx.c - a tool that listens to NVTX, as Nsight Systems would: NVTX_INJECTION64_PATH names
 * this library. When the process ends it writes a line to $FAKE_NVTX for each range, by its depth
 * and name, and how many were begun, ended, and ended without a begin.
 */
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;
static long begun, ended, depth, strange;
static char domain[64];

static nvtxDomainHandle_t create(const char *name)
{
    (void)snprintf(domain, sizeof(domain), "%s", name);
    return (nvtxDomainHandle_t)(void *)domain;
}

static int push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
    strange += (void *)d != (void *)domain || a->messageType != NVTX_MESSAGE_TYPE_ASCII ||
               a->version != NVTX_VERSION;
    (void)fprintf(out, "%ld %s\n", depth, a->message.ascii);
    begun++;
    return (int)depth++;
}

static int pop(nvtxDomainHandle_t d)
{
    strange += (void *)d != (void *)domain || depth == 0;
    ended++;
    return (int)--depth;
}

static void tell(void)
{
    (void)fprintf(out, "%s: %ld begun, %ld ended, %ld strange\n", domain, begun, ended, strange);
    (void)fclose(out);
}

static void listen(NvtxFunctionTable table, unsigned size, unsigned id, NvtxFunctionPointer f)
{
    if (id < size && table[id])
        *table[id] = f;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *calls = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    const char *path = getenv("FAKE_NVTX");
    if (!path || !calls || !calls->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    out = fopen(path, "w");
    if (!out)
        return 0;
    listen(table, size, NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create);
    listen(table, size, NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)push);
    listen(table, size, NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)pop);
    (void)atexit(tell);
    return 1;
}
