/*
 * test_mask.c - masks of targets: the bytes on the disk, what is wrong with them, and writers that
 * carry them along.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/data_format.h"
#include "lib/data/mask.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = 10011 };

/* clang-format off */
static const unsigned char eleven[] = { /* of 11 tokens, of which 0, 1, 9 count */
    'S', 'N', 'T', 'M', 'A', 'S', 'K', 0, 1, 0, 0, 0, 0, 0, 0, 0,
    11, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x03, 0x02};
/* clang-format on */

static void expect(enum sn_status st, const struct sn_err *err)
{
    if (st != SN_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static int counts_at(int64_t k)
{
    return (int)(sn_rng_bits(5, (uint64_t)k) % 3 == 0);
}

/* Documents of 100 tokens, the last one shorter; every third token counts or so. */
static struct sn_data_writer *write_some(const char *prefix)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    expect(sn_data_writer_create(&w, prefix, SN_TOK_U16, &err), &err);
    expect(sn_data_writer_add_mask(w, prefix, &err), &err);
    for (int64_t at = 0; at < TOKENS; at += 100) {
        int32_t tokens[100];
        uint8_t counts[100];
        int64_t n = TOKENS - at < 100 ? TOKENS - at : 100;
        for (int64_t k = 0; k < n; k++) {
            tokens[k] = (int32_t)(at + k);
            counts[k] = (uint8_t)(2 * counts_at(at + k));
        }
        expect(sn_data_writer_append_masked(w, tokens, counts, n, &err), &err);
        expect(sn_data_writer_end(w, &err), &err);
    }
    return w;
}

/* Is the mask of PREFIX that of the tokens first .. first + n - 1? */
static bool holds(const char *prefix, int64_t first, int64_t n)
{
    struct sn_err err = {0};
    struct sn_data_mask *m = NULL;
    expect(sn_data_mask_open(&m, prefix, n, NULL, &err), &err);
    uint8_t *got = sn_alloc((size_t)n);
    int64_t sum = 0;
    sn_data_mask_read(m, 0, n, got);
    bool good = got != NULL;
    for (int64_t k = 0; k < n && good; k++) {
        good = got[k] == counts_at(first + k);
        sum += got[k];
    }
    good = good && sum == sn_data_mask_counted(m) && sum == sn_data_mask_count(m, 0, n);
    for (int64_t at = 0; at + 150 < n && good; at += 37) {
        int64_t part = 0;
        for (int64_t k = 0; k < at % 150; k++)
            part += got[at + k];
        good = sn_data_mask_count(m, at, at % 150) == part;
    }
    sn_free(got);
    sn_data_mask_close(m);
    return good;
}

static void the_bytes_are_those_of_the_description(void)
{
    struct sn_err err = {0};
    struct sn_data_mask_writer *w = NULL;
    unsigned char got[64];
    uint8_t counts[11] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 1};
    expect(sn_data_mask_writer_create(&w, "eleven", &err), &err);
    expect(sn_data_mask_writer_append(w, counts, 11, &err), &err);
    expect(sn_data_mask_writer_seal(w, &err), &err);
    expect(sn_data_mask_writer_publish(w, &err), &err);
    sn_data_mask_writer_destroy(w);
    FILE *f = fopen("eleven.mask", "rb");
    size_t n = f ? fread(got, 1, sizeof(got), f) : 0;
    if (f)
        (void)fclose(f);
    tap_ok(n == sizeof(eleven) && memcmp(got, eleven, n) == 0,
           "a mask has the bytes that its description says");
}

static void a_writer_carries_its_mask_along(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = write_some("all");
    expect(sn_data_writer_finish(w, &err), &err);
    sn_data_writer_destroy(w);
    tap_ok(holds("all.bin", 0, TOKENS), "tokens written with a mask have it beside them");

    struct sn_data_writer *tail = NULL;
    struct sn_data_info info;
    w = write_some("head");
    expect(sn_data_writer_split(w, 0.13, "tail", &tail, &err), &err);
    expect(sn_data_writer_finish(w, &err), &err);
    expect(sn_data_writer_finish(tail, &err), &err);
    sn_data_writer_info(w, &info);
    tap_ok(info.tokens % 8 && holds("head", 0, info.tokens) &&
               holds("tail", info.tokens, TOKENS - info.tokens),
           "a split divides the mask where it divides the tokens (token %lld)",
           (long long)info.tokens);
    sn_data_writer_destroy(w);
    sn_data_writer_destroy(tail);
}

static void tokens_without_a_mask_leave_none_behind(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    int32_t token = 1;
    expect(sn_data_writer_create(&w, "all", SN_TOK_U16, &err), &err);
    expect(sn_data_writer_add(w, &token, 1, &err), &err);
    bool was = sn_data_mask_exists("all");
    expect(sn_data_writer_finish(w, &err), &err);
    sn_data_writer_destroy(w);
    tap_ok(was && !sn_data_mask_exists("all"), "tokens written without a mask leave no older one");
}

static void each_bad_field_is_named(void)
{
    static const struct {
        size_t at;
        unsigned char value;
        const char *sentence;
    } bad[] = {
        {0, 'X',
         "m: byte 0: this is no mask, which begins with SNTMASK; 'sennit-data build --tokens "
         "--masked' writes one"},
        {8, 2, "m: byte 8: version 2 of the format; want version 1"},
        {16, 12, "m: byte 16: a mask of 12 tokens, but the .bin has 11; copy or write both again"},
        {24, 12, "m: byte 24: 12 of 11 tokens count; copy or write it again"},
        {33, 0x0a,
         "m: byte 33: bits behind those of the last token; want 0; copy or write it again"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        unsigned char bytes[sizeof(eleven)];
        struct sn_err err = {0};
        memcpy(bytes, eleven, sizeof(bytes));
        bytes[bad[i].at] = bad[i].value;
        enum sn_status st = sn_data_mask_check(bytes, sizeof(bytes), 11, "m", &err);
        tap_text(st == SN_EINPUT ? err.text : "accepted", bad[i].sentence, "a bad field is named");
    }
    struct sn_err err = {0};
    (void)sn_data_mask_check(eleven, sizeof(eleven) - 1, 11, "m", &err);
    tap_text(err.text, "m: 33 bytes; a mask of 11 tokens has 34; copy or write it again",
             "a mask that was cut off is refused");
    (void)sn_data_mask_check(eleven, 20, 11, "m", &err);
    tap_text(err.text,
             "m: byte 20: the file ends inside the header of 32 bytes; copy or write it again",
             "and one that was cut off in its header");
    struct sn_data_mask *m = NULL;
    enum sn_status st = sn_data_mask_open(&m, "nowhere", 11, NULL, &err);
    tap_text(
        st == SN_EINPUT ? err.text : "opened",
        "nowhere.mask: there is no such file; 'sennit-data build --tokens --masked' writes one",
        "a mask that is not there is refused");
}

int main(void)
{
    char folder[] = "/tmp/test_mask.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        printf("Bail out! no folder\n");
        return 1;
    }
    the_bytes_are_those_of_the_description();
    a_writer_carries_its_mask_along();
    tokens_without_a_mask_leave_none_behind();
    each_bad_field_is_named();
    static const char *const files[] = {"eleven.mask", "all.bin",  "all.idx",
                                        "head.bin",    "head.idx", "head.mask",
                                        "tail.bin",    "tail.idx", "tail.mask"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        (void)unlink(files[i]);
    (void)rmdir(folder);
    return tap_done();
}
