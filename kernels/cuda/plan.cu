/*
 * plan.cu - plans of GEMM as lines of text, which a machine file keeps (docs/CUDA.md).
 *
 *   cublasLt 130200 sm_90 132 : 5 numbers of the key, 8 of the algorithm, in hexadecimal
 *   cublasLt 130200 sm_90 132 : 5 numbers of the key apart
 *
 * The second form is of a product with an epilogue: a kernel of its own for that is faster; the
 * product alone has a line, too.
 * An algorithm is cuBLASLt's own and means something to that version of it alone, and a choice is
 * good for that many multiprocessors; the key is gemm.cu's.
 */
#include "kernels/cuda/ops.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART " apart"

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
    for (int w = 0; w < (p->is_apart ? KEYS : KEYS + ALGORITHM) && at < room; w++)
        at += (size_t)snprintf(line + at, room - at, " %llx", (unsigned long long)words[w]);
    if (p->is_apart && at < room)
        at += (size_t)snprintf(line + at, room - at, "%s", APART);
    return at < room ? 0 : 1;
}

/* n whole words; what follows them, or NULL: there are fewer. */
static const char *read_words(const char *at, uint64_t *words, int n)
{
    for (int w = 0; w < n; w++) {
        char *end;
        if (at[0] != ' ' || at[1] == ' ' || at[1] == '-' || at[1] == '+')
            return NULL;
        words[w] = strtoull(at + 1, &end, 16);
        if (end == at + 1)
            return NULL;
        at = end;
    }
    return at;
}

/* The words of a line, no more and no fewer. */
static bool read_plan(const char *at, uint64_t words[KEYS + ALGORITHM], bool *is_apart)
{
    const char *rest = read_words(at, words, KEYS);
    *is_apart = rest && strcmp(rest, APART) == 0;
    if (rest && !*is_apart)
        rest = read_words(rest, words + KEYS, ALGORITHM);
    return rest && (*is_apart || *rest == '\0');
}

int sn_cuda_plan_parse(struct sn_cuda *cx, const char *line)
{
    char head[HEAD];
    uint64_t words[KEYS + ALGORITHM] = {0};
    bool is_apart;
    const char *colon = strchr(line, ':');
    if (strncmp(line, "cublasLt ", 9) != 0 || !colon || !read_plan(colon + 1, words, &is_apart))
        return -1;
    head_of(cx, head);
    if (strncmp(line, head, strlen(head)) != 0)
        return 1;
    if (cx->plans.n == SN_CUDA_PLANS)
        return 0; /* as many as are kept */
    struct sn_cuda_plan *p = &cx->plans.plan[cx->plans.n++];
    memcpy(p->key, words, sizeof(p->key));
    memcpy(&p->algo, words + KEYS, sizeof(p->algo));
    p->is_apart = is_apart;
    return 0;
}
