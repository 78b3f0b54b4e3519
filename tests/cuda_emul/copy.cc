/*
 * copy.cc - asynchronous copies of each thread, which happen when they are waited for.
 */
#include "tests/cuda_emul/mma.h"

#include <vector>

struct copy {
    void *to;
    const void *from;
    int bytes;
    bool there;
    int group;
};

static std::vector<copy> pending[SN_BLOCK_MOST];
static int groups[SN_BLOCK_MOST];

static int me(void)
{
    return (int)(threadIdx.y * blockDim.x + threadIdx.x);
}

void sn_emul_copy(void *to, const void *from, int bytes, bool there)
{
    memset(to, 0xff, (size_t)bytes); /* what is read too early is NaN */
    sn_emul_wrote(to, (size_t)bytes);
    pending[me()].push_back({to, from, bytes, there, groups[me()]});
}

void sn_emul_commit(void)
{
    groups[me()]++;
}

void sn_emul_wait(int most)
{
    std::vector<copy> later;
    for (const copy &c : pending[me()]) {
        if (c.group >= groups[me()] - most) {
            later.push_back(c);
            continue;
        }
        if (c.there)
            memcpy(c.to, c.from, (size_t)c.bytes);
        else
            memset(c.to, 0, (size_t)c.bytes);
        sn_emul_wrote(c.to, (size_t)c.bytes);
    }
    pending[me()] = later;
}

void sn_emul_copies_end(void)
{
    for (int i = 0; i < SN_BLOCK_MOST; i++) {
        pending[i].clear();
        groups[i] = 0;
    }
}
