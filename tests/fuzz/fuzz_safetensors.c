/* Any bytes as a safetensors file: refused with a sentence, or every tensor can be read. */
#include "checkpoint/format/safetensors.h"
#include "lib/base/mem.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_whole(const struct sn_st_tensor *t)
{
    struct sn_st_box box = {0, sn_st_rows(t), 0, sn_st_cols(t)};
    struct sn_err err = {.text = ""};
    char shape[SN_ST_SHAPE_MAX];
    /* Empty tensors may have any number of rows; others are as long as their bytes. */
    float *out = sn_alloc_n(t->bytes + 1, sizeof(*out));
    if (out && t->bytes > 0 && sn_safetensors_read(t, &box, out, box.cols, &err) != SN_OK &&
        !err.text[0])
        abort();
    (void)sn_st_shape(shape, t);
    sn_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_safetensors *st = NULL;
    struct sn_err err = {.text = ""};
    if (sn_safetensors_parse(&st, data, size, "fuzz", &err) != SN_OK) {
        if (!err.text[0])
            abort();
        return 0;
    }
    for (int i = 0; i < sn_safetensors_count(st); i++) {
        const struct sn_st_tensor *t = sn_safetensors_get(st, i);
        if (sn_safetensors_find(st, t->name) != t)
            abort();
        read_whole(t);
    }
    sn_safetensors_close(st);
    return 0;
}
