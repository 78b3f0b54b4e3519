/*
 * fuzz_index.c - an index of any bytes is accepted or explained.
 *
 * The first two bytes of the input are the size of the .bin, the rest is the index.
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
    struct sn_data_info info = {0};
    struct sn_err err = {0};
    if (len < 2)
        return 0;
    int64_t bin_bytes = sn_le_u16(bytes);
    enum sn_status st = sn_data_check_index(bytes + 2, len - 2, bin_bytes, "f.idx", &info, &err);
    if (st != SN_OK) {
        require(st == SN_EINPUT && strncmp(err.text, "f.idx: byte ", 12) == 0);
        return 0;
    }
    const struct sn_token_type *type = sn_token_type_find(info.dtype_code);
    require(type && info.tokens * type->size == bin_bytes);
    require(info.sequences >= 0 && info.documents >= 0);
    return 0;
}
