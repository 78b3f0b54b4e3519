/*
 * plan.cu - plans of GEMM as lines of text, which a machine file keeps (docs/CUDA.md).
 *
 *   cublasLt 130200 sm_90 132 : 5 numbers of the key, 8 of the algorithm, in hexadecimal
 *
 * An algorithm is cuBLASLt's own and means something to that version of it alone, and a choice is
 * good for that many multiprocessors; the key is gemm.cu's.
 */
#include "kernels/cuda/ops.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 5, ALGORITHM = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t), HEAD = 64 };

static void head_of(const struct sn_cuda *cx, char head[HEAD])
{
    (void)snprintf(head, HEAD, "cublasLt %zu sm_%d %d :", cublasLtGetVersion(), cx->device.arch,
                   cx->device.multiprocessors);
}

int sn_cuda_plan_format(const struct sn_cuda *cx, int i, char *line, size_t room)
{
    uint64_t words[KEYS + ALGORITHM];
    if (i < 0 || i >= cx->plans.n)
        return 1;
    const struct sn_cuda_plan *p = &cx->plans.plan[i];
    char head[HEAD];
    memcpy(words, p->key, sizeof(p->key));
    memcpy(words + KEYS, &p->algo, sizeof(p->algo));
    head_of(cx, head);
    size_t at = (size_t)snprintf(line, room, "%s", head);
    for (int w = 0; w < KEYS + ALGORITHM && at < room; w++)
        at += (size_t)snprintf(line + at, room - at, " %llx", (unsigned long long)words[w]);
    return at < room ? 0 : 1;
}

/* Whole words of a line, no more and no fewer. */
static bool read_words(const char *at, uint64_t words[KEYS + ALGORITHM])
{
    for (int w = 0; w < KEYS + ALGORITHM; w++) {
        char *end;
        if (at[0] != ' ' || at[1] == ' ' || at[1] == '-' || at[1] == '+')
            return false;
        words[w] = strtoull(at + 1, &end, 16);
        if (end == at + 1)
            return false;
        at = end;
    }
    return *at == '\0';
}

int sn_cuda_plan_parse(struct sn_cuda *cx, const char *line)
{
    char head[HEAD];
    uint64_t words[KEYS + ALGORITHM];
    const char *colon = strchr(line, ':');
    if (strncmp(line, "cublasLt ", 9) != 0 || !colon || !read_words(colon + 1, words))
        return -1;
    head_of(cx, head);
    if (strncmp(line, head, strlen(head)) != 0)
        return 1;
    if (cx->plans.n == SN_CUDA_PLANS)
        return 0; /* as many as are kept */
    struct sn_cuda_plan *p = &cx->plans.plan[cx->plans.n++];
    memcpy(p->key, words, sizeof(p->key));
    memcpy(&p->algo, words + KEYS, sizeof(p->algo));
    return 0;
}
