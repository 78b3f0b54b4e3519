/*
 * test_data_kind.c - files that are taken for text: what they are, by their first bytes.
 */
#include "lib/data/data_kind.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

#define S(text) (text), sizeof(text) - 1

static const struct {
    const char *bytes;
    size_t n;
    const char *as_text, *as_tokens; /* what the sentence has; "" for none */
} cases[] = {
    {S("\x1f\x8b\x08\x00\x00"), "packed with gzip; unpack it on the way (zcat FILE", "gzip"},
    {S("\x28\xb5\x2f\xfd\x24"), "zstdcat FILE | sennit-data build --text -", "build --tokens -"},
    {S("\xfd\x37zXZ\x00\x00"), "xzcat", "xzcat"},
    {S("BZh91AY&SY"), "bzcat", "bzcat"},
    {S("BZh is a word"), "", ""},
    {S("\x04\x22\x4d\x18"), "lz4cat", "lz4cat"},
    {S("PK\x03\x04"), "unzip -p", "unzip -p"},
    {S("PAR1\x15"), "a parquet file", "a parquet file"},
    {S("ARROW1\x00\x00"), "an arrow file", "an arrow file"},
    {S("\x93NUMPY\x01\x00"), "a numpy file", "write the array with tofile"},
    {S("\x89HDF\r\n\x1a\n"), "an HDF5 file", "an HDF5 file"},
    {S("%PDF-1.7"), "pdftotext", "pdftotext"},
    {S("MMIDIDX\x00"), "the index of token files", "the index of token files"},
    {S("\xff\xfeT\x00"), "this is UTF-16", ""},
    {S("\xfe\xff\x00T"), "this is UTF-16", ""},
    {S("\xef\xbb\xbfText"), "", ""},
    {S("{\"text\": \"a\"}\n{\"text\": \"b\"}\n"), "these are JSON lines", ""},
    {S("{ \"text\": \"a\" } \r\n{\"text\": \"b\"}\n"), "these are JSON lines", ""},
    {S("{\"text\": \"a\"}\n"), "these are JSON lines", ""},
    {S("{\"text\": \"a\"}"), "these are JSON lines", ""},
    {S("{\n  \"text\": \"a\"\n}\n"), "", ""},
    {S("{\"text\": \"a\"}\nis how a line of JSON looks\n"), "", ""},
    {S("{a: b}\n{c: d}\n"), "", ""},
    {S("{\n"), "", ""},
    {S("Once upon a time"), "", ""},
    {S(""), "", ""},
};

static bool says(const unsigned char *p, size_t n, bool is_text, const char *want)
{
    struct sn_err err = {0};
    enum sn_status st = sn_data_kind_check("f", p, n, is_text, &err);
    bool good = *want ? st == SN_EINPUT && strstr(err.text, want) && strstr(err.text, "; ")
                      : st == SN_OK && !err.text[0];
    if (!good)
        printf("# %s\n", err.text);
    return good;
}

/* In memory of exactly their size, cut at every place: nothing beyond is read. */
static void cut_everywhere(const char *bytes, size_t n)
{
    struct sn_err err;
    for (size_t len = 0; len <= n; len++) {
        unsigned char *p = malloc(len ? len : 1);
        if (len)
            memcpy(p, bytes, len);
        (void)sn_data_kind_check("f", p, len, true, &err);
        (void)sn_data_kind_check("f", p, len, false, &err);
        free(p);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const unsigned char *p = (const unsigned char *)cases[i].bytes;
        tap_ok(says(p, cases[i].n, true, cases[i].as_text), "text %zu: %s", i, cases[i].as_text);
        tap_ok(says(p, cases[i].n, false, cases[i].as_tokens), "tokens %zu: %s", i,
               cases[i].as_tokens);
        cut_everywhere(cases[i].bytes, cases[i].n);
    }
    return tap_done();
}
