/*
 * fuzz_mask.c - a mask of any bytes is accepted or explained. The first two bytes of the input are the
 * tokens of the .bin, the rest is the mask.
 */
#include "lib/data/data_format.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sn_err err = {0};
    if (len < 2)
        return 0;
    int64_t tokens = sn_le_u16(bytes), counted = 0;
    enum sn_status st = sn_data_mask_check(bytes + 2, len - 2, tokens, "f.mask", &err);
    if (st != SN_OK) {
        require(st == SN_EINPUT && strncmp(err.text, "f.mask: ", 8) == 0);
        return 0;
    }
    require(len - 2 == 32 + (size_t)(tokens + 7) / 8);
    for (int64_t k = 0; k < tokens; k++)
        counted += bytes[2 + 32 + k / 8] >> (k % 8) & 1;
    require(sn_le_i64(bytes + 2 + 24) <= tokens && counted <= tokens);
    return 0;
}
