/*
 * fuzz_features.c - a .npy of any bytes is accepted or explained. The first two bytes of the input are the rows
 * of an entry and the numbers of a row, the rest is the file.
 */
#include "lib/data/features.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sn_features_layout x = {0};
    struct sn_err err = {0};
    if (len < 2)
        return 0;
    struct sn_features_shape want = {1 + bytes[0] % 8, 1 + bytes[1] % 64};
    enum sn_status st = sn_features_check(&x, bytes + 2, len - 2, want, "f.npy", &err);
    if (st != SN_OK) {
        require(st == SN_EINPUT && strncmp(err.text, "f.npy: ", 7) == 0);
        return 0;
    }
    require((x.width == 2 || x.width == 4) && x.entries >= 0 && x.first <= len - 2);
    require((uint64_t)x.entries * (uint64_t)(want.rows * want.size * x.width) == len - 2 - x.first);
    return 0;
}
