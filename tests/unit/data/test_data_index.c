/*
 * test_data_index.c - what is wrong with an index is said in one sentence.
 */
#include "lib/base/mem.h"
#include "lib/data/data_format.h"
#include "tests/lib/tap.h"
#include "tests/unit/data/data_golden.h"

#include <inttypes.h>

static enum sn_status check_golden(const unsigned char *bytes, size_t n, struct sn_err *err)
{
    struct sn_data_info info;
    return sn_data_check_index(bytes, n, 8, "g.idx", &info, err);
}

struct bad_field {
    size_t at;
    int width;
    int64_t value;
    const char *sentence; /* after "g.idx: " */
};

/* clang-format off */
static const struct bad_field bad_fields[] = {
    {0, 1, 'X', "byte 0: this is no index, which begins with MMIDIDX; name the .idx file that belongs to the .bin"},
    {8, 1, 1, "byte 0: this is no index, which begins with MMIDIDX; name the .idx file that belongs to the .bin"},
    {9, 8, 2, "byte 9: version 2 of the format; want version 1"},
    {17, 1, 6, "byte 17: dtype code 6 does not stand for tokens; want 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64) or 8 (u16)"},
    {17, 1, 0, "byte 17: dtype code 0 does not stand for tokens; want 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64) or 8 (u16)"},
    {17, 1, 4, "byte 34: sequence 0 needs more than the 8 bytes of the .bin; copy or build both files again"},
    {17, 1, 1, "byte 54: sequence 1 starts at byte 6 of the .bin, but the one before it ends at 3; sennit needs sequences back to back, as 'sennit-data build' writes them"},
    {18, 8, 1000, "byte 18: 1000 sequences do not fit into an index of 102 bytes; copy or build it again"},
    {18, 8, -1, "byte 18: 18446744073709551615 sequences do not fit into an index of 102 bytes; copy or build it again"},
    {26, 8, 5, "byte 26: 5 document bounds do not fit into an index of 102 bytes with 3 sequences; copy or build it again"},
    {26, 8, INT64_MIN, "byte 26: 9223372036854775808 document bounds do not fit into an index of 102 bytes with 3 sequences; copy or build it again"},
    {26, 8, 0, "byte 26: 0 document bounds; want one more than there are documents"},
    {26, 8, 3, "byte 94: 8 bytes follow the document bounds; want none, or one mode byte for each of the 3 sequences"},
    {34, 4, -3, "byte 34: sequence 0 has length -3; want 0 or more"},
    {34, 4, 2, "byte 54: sequence 1 starts at byte 6 of the .bin, but the one before it ends at 4; sennit needs sequences back to back, as 'sennit-data build' writes them"},
    {34, 4, INT32_MAX, "byte 34: sequence 0 needs more than the 8 bytes of the .bin; copy or build both files again"},
    {42, 4, 2, "byte 42: sequence 2 needs more than the 8 bytes of the .bin; copy or build both files again"},
    {42, 4, 0, "byte 46: the sequences end at byte 6 of the .bin, which has 8 bytes; copy or build both files again"},
    {46, 8, 2, "byte 46: sequence 0 starts at byte 2 of the .bin, but the one before it ends at 0; sennit needs sequences back to back, as 'sennit-data build' writes them"},
    {62, 8, -6, "byte 62: sequence 2 starts at byte -6 of the .bin, but the one before it ends at 6; sennit needs sequences back to back, as 'sennit-data build' writes them"},
    {70, 8, 1, "byte 70: the first document begins at sequence 1; want 0"},
    {78, 8, 4, "byte 78: document bound 1 is sequence 4; want 0 .. 3"},
    {86, 8, 0, "byte 86: document bound 2 is sequence 0; want 1 .. 3"},
    {94, 8, 2, "byte 94: the last document ends at sequence 2; want 3, the number of sequences"},
};
/* clang-format on */

static void each_bad_field_is_named(void)
{
    for (size_t i = 0; i < sizeof(bad_fields) / sizeof(bad_fields[0]); i++) {
        const struct bad_field *bad = &bad_fields[i];
        unsigned char bytes[GOLDEN_BYTES];
        char want[512], what[64];
        struct sn_err err = {0};
        memcpy(bytes, golden, GOLDEN_BYTES);
        uint64_t le = htole64((uint64_t)bad->value);
        memcpy(bytes + bad->at, &le, (size_t)bad->width);
        enum sn_status st = check_golden(bytes, GOLDEN_BYTES, &err);
        (void)snprintf(want, sizeof(want), "g.idx: %s", bad->sentence);
        (void)snprintf(what, sizeof(what), "%" PRId64 " at byte %zu is explained", bad->value,
                       bad->at);
        if (st != SN_EINPUT)
            err.text[0] = '\0';
        tap_text(err.text, want, what);
    }
}

static void an_index_cut_anywhere_is_refused(void)
{
    struct sn_err err = {0};
    bool good = check_golden(golden, GOLDEN_BYTES, &err) == SN_OK;
    tap_ok(good, "the whole index is accepted %s", err.text);
    for (size_t n = 0; n < GOLDEN_BYTES; n++) {
        unsigned char *exact = sn_alloc(n); /* so that a sanitizer sees a read past its end */
        memcpy(exact, golden, n);
        good = good && check_golden(exact, n, &err) == SN_EINPUT && strchr(err.text, ';');
        sn_free(exact);
    }
    tap_ok(good, "an index cut at any byte is refused with a sentence");
    (void)check_golden(golden, 20, &err);
    tap_text(err.text,
             "g.idx: byte 20: the file ends inside the header of 34 bytes; copy or build it again",
             "a cut header is named");
    (void)check_golden(golden, 0, &err);
    tap_text(err.text, "g.idx: byte 0: the file is empty; build it again",
             "an empty index is named");
    tap_ok(check_golden((const unsigned char *)"GIF89a", 6, &err) == SN_EINPUT &&
               strstr(err.text, "this is no index"),
           "another kind of file is told from a cut index");
}

static void flipped_bytes_never_crash(void)
{
    int refused = 0;
    for (int at = 0; at < GOLDEN_BYTES; at++) {
        for (int value = 0; value < 256; value++) {
            unsigned char *bytes = sn_alloc(GOLDEN_BYTES);
            struct sn_err err = {0};
            memcpy(bytes, golden, GOLDEN_BYTES);
            bytes[at] = (unsigned char)value;
            refused += check_golden(bytes, GOLDEN_BYTES, &err) != SN_OK;
            sn_free(bytes);
        }
    }
    /* Every changed byte is noticed, but for u16 read as i16 and the two document bounds that may
     * lie anywhere in order: bound 1 as 0 or 2, bound 2 as 1 or 3. */
    tap_ok(refused == GOLDEN_BYTES * 255 - 5, "%d of %d changed bytes are noticed", refused,
           GOLDEN_BYTES * 255);
}

static void mode_bytes_must_say_text(void)
{
    struct sn_err err = {0};
    unsigned char bytes[GOLDEN_BYTES + 4] = {0};
    memcpy(bytes, golden, GOLDEN_BYTES);
    tap_ok(check_golden(bytes, GOLDEN_BYTES + 3, &err) == SN_OK, "modes of text are accepted %s",
           err.text);
    tap_ok(check_golden(bytes, GOLDEN_BYTES + 4, &err) == SN_EINPUT, "a byte too many is refused");
    bytes[GOLDEN_BYTES + 1] = 1;
    (void)check_golden(bytes, GOLDEN_BYTES + 3, &err);
    tap_text(
        err.text,
        "g.idx: byte 103: sequence 1 has mode 1, which is not text; sennit trains on text alone "
        "(mode 0)",
        "an image is refused");
}

int main(void)
{
    each_bad_field_is_named();
    an_index_cut_anywhere_is_refused();
    flipped_bytes_never_crash();
    mode_bytes_must_say_text();
    return tap_done();
}
