/*
 * encode.c - tokens of documents, for tests that compare them with another program's.
 *
 * usage: encode TOKENIZER [special] <DOCUMENTS >TOKENS
 *        encode TOKENIZER decode [skip] <TOKENS >TEXTS
 *   Each document, list of tokens or text is its length as u32 (bytes, tokens, bytes), then itself;
 *   tokens are i32. A document that is refused has the length 0xffffffff, and its sentence is on
 *   standard error. Numbers are this machine's.
 */
#include "lib/token/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

static int say(const struct sn_err *err)
{
    (void)fprintf(stderr, "%s\n", err->text);
    return sn_exit_code(err->status);
}

static bool take(void *p, size_t size, size_t n)
{
    return fread(p, size, n, stdin) == n;
}

static void give(const void *p, size_t size, size_t n, bool good)
{
    uint32_t length = good ? (uint32_t)n : UINT32_MAX;
    (void)fwrite(&length, sizeof(length), 1, stdout);
    if (good && n > 0)
        (void)fwrite(p, size, n, stdout);
}

static int encode(const struct sn_tokenizer *t, bool special)
{
    struct sn_encoder *e;
    struct sn_err err = {0};
    struct sn_bytes text = {0};
    struct sn_ids ids = {0};
    uint32_t len;
    if (sn_encoder_create(&e, t, &err) != SN_OK)
        return say(&err);
    while (take(&len, sizeof(len), 1)) {
        text.len = ids.len = 0;
        if (!sn_bytes_room(&text, (size_t)len + 1) || !take(text.p, 1, len))
            return 1;
        bool good = sn_encode(e, text.p, len, special, &ids, &err) == SN_OK;
        if (!good)
            (void)say(&err);
        give(ids.p, sizeof(*ids.p), ids.len, good);
    }
    sn_bytes_fini(&text);
    sn_ids_fini(&ids);
    sn_encoder_destroy(e);
    return 0;
}

static int decode(const struct sn_tokenizer *t, bool skip)
{
    struct sn_err err = {0};
    struct sn_bytes text = {0};
    struct sn_ids ids = {0};
    uint32_t n;
    while (take(&n, sizeof(n), 1)) {
        text.len = ids.len = 0;
        if (!sn_ids_room(&ids, (size_t)n + 1) || !take(ids.p, sizeof(*ids.p), n))
            return 1;
        if (sn_decode(t, ids.p, n, skip, &text, &err) != SN_OK)
            return say(&err);
        give(text.p, 1, text.len, true);
    }
    sn_bytes_fini(&text);
    sn_ids_fini(&ids);
    return 0;
}

int main(int argc, char **argv)
{
    struct sn_tokenizer *t;
    struct sn_err err = {0};
    const char *mode = argc > 2 ? argv[2] : "";
    if (argc < 2)
        return 2;
    if (sn_tokenizer_load(&t, argv[1], &err) != SN_OK)
        return say(&err);
    int rc = strcmp(mode, "decode") == 0 ? decode(t, argc > 3) : encode(t, *mode != '\0');
    sn_tokenizer_destroy(t);
    return rc;
}
