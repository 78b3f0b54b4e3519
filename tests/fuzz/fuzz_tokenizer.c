/*
 * fuzz_tokenizer.c - a tokenizer's file of any bytes is loaded or explained; what is loaded encodes
 * and decodes any text. A text behind the last 0xff of the input is encoded, else the file itself.
 */
#include "lib/token/tokenizer.h"

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

static void use(const struct sn_tokenizer *t, const char *text, size_t len)
{
    struct sn_encoder *e = NULL;
    struct sn_err err = {0};
    struct sn_ids ids = {0};
    struct sn_bytes out = {0};
    require(sn_encoder_create(&e, t, &err) == SN_OK);
    enum sn_status st = sn_encode(e, text, len, true, &ids, &err);
    require(st == SN_OK || err.text[0]);
    if (st == SN_OK)
        require(sn_decode(t, ids.p, ids.len, false, &out, &err) == SN_OK);
    sn_ids_fini(&ids);
    sn_bytes_fini(&out);
    sn_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sn_tokenizer *t = NULL;
    struct sn_err err = {0};
    const uint8_t *cut = memrchr(bytes, 0xff, len);
    size_t file = cut ? (size_t)(cut - bytes) : len;
    char *copy = malloc(file + 1); /* so that a byte behind it is seen */
    require(copy != NULL);
    memcpy(copy, bytes, file);
    copy[file] = '\0';
    enum sn_status st = sn_tokenizer_parse(&t, copy, file, "f.tokenizer", &err);
    if (st == SN_OK)
        use(t, cut ? (const char *)cut + 1 : copy, cut ? len - file - 1 : file);
    else
        require(st == SN_EINPUT && err.text[0]);
    sn_tokenizer_destroy(t);
    free(copy);
    return 0;
}
