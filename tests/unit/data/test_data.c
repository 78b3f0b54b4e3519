/*
 * test_data.c - token files: the bytes on the disk, the checks of an index, samples and their
 * order.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/data_format.h"
#include "tests/lib/tap.h"
#include "tests/unit/data/data_golden.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static const int all_codes[] = {SN_TOK_U8,  SN_TOK_I8,  SN_TOK_I16,
                                SN_TOK_I32, SN_TOK_I64, SN_TOK_U16};

/* --- helpers ------------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
        printf("Bail out! cannot write %s\n", path);
        exit(1);
    }
}

static size_t get_file(const char *path, unsigned char *bytes, size_t cap)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(bytes, 1, cap, f) : 0;
    if (f)
        (void)fclose(f);
    return n;
}

/* One document for each length, with the tokens 0, 1, 2, ... modulo `modulo`. */
static enum sn_status write_counting(const char *prefix, int code, const int *lengths, int n,
                                     int modulo, struct sn_err *err)
{
    struct sn_data_writer *w = NULL;
    int32_t tokens[256], next = 0;
    enum sn_status st = sn_data_writer_create(&w, prefix, code, err);
    for (int i = 0; i < n && st == SN_OK; i++) {
        for (int k = 0; k < lengths[i]; k++)
            tokens[k] = next++ % modulo;
        st = sn_data_writer_add(w, tokens, lengths[i], err);
    }
    if (st == SN_OK)
        st = sn_data_writer_finish(w, err);
    sn_data_writer_destroy(w);
    return st;
}

static struct sn_data *open_or_die(const char *prefix)
{
    struct sn_err err = {0};
    struct sn_data *d = NULL;
    if (sn_data_open(&d, prefix, &err) != SN_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return d;
}

/* --- writing ------------------------------------------------------------------------------ */

static void the_index_is_megatrons_byte_for_byte(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    unsigned char got[256];
    bool good = sn_data_writer_create(&w, "gold", SN_TOK_U16, &err) == SN_OK &&
                sn_data_writer_add(w, (int32_t[]){10, 20, 30}, 3, &err) == SN_OK &&
                sn_data_writer_add(w, NULL, 0, &err) == SN_OK &&
                sn_data_writer_add(w, (int32_t[]){40}, 1, &err) == SN_OK;
    tap_ok(good && access("gold.bin", F_OK) != 0 && access("gold.idx", F_OK) != 0,
           "no file has its name before finish");
    good = good && sn_data_writer_finish(w, &err) == SN_OK;
    sn_data_writer_destroy(w);
    size_t n = get_file("gold.idx", got, sizeof(got));
    tap_ok(good && n == GOLDEN_BYTES && memcmp(got, golden, n) == 0,
           "the index is Megatron's byte for byte");
    n = get_file("gold.bin", got, sizeof(got));
    tap_ok(n == 8 && memcmp(got, golden_tokens, n) == 0, "the tokens are little-endian u16");
}

static void every_type_is_read_back(void)
{
    for (size_t c = 0; c < sizeof(all_codes) / sizeof(all_codes[0]); c++) {
        struct sn_err err = {0};
        int32_t in[5], out[5];
        int64_t sequence[9];
        enum sn_status st = write_counting("round", all_codes[c], (int[]){7, 0, 9}, 3, 128, &err);
        if (!tap_ok(st == SN_OK, "type %d is written %s", all_codes[c], err.text))
            continue;
        struct sn_data *d = open_or_die("round");
        struct sn_data_info info;
        sn_data_info(d, &info);
        bool good = info.dtype_code == all_codes[c] && info.tokens == 16 && info.sequences == 3 &&
                    info.documents == 3 && sn_data_samples(d, 5) == 3 &&
                    sn_data_sequence(d, 2, sequence, 9) == 9 && sequence[0] == 7 &&
                    sequence[8] == 15 && sn_data_sequence(d, 1, sequence, 9) == 0;
        for (int64_t i = 0; i < 3; i++) {
            good = good && sn_data_read(d, i, 5, 128, in, out, &err) == SN_OK;
            for (int k = 0; k < 5; k++)
                good = good && in[k] == 5 * i + k && out[k] == 5 * i + k + 1;
        }
        tap_ok(good, "type %d is read back", all_codes[c]);
        sn_data_close(d);
    }
}

static void the_largest_tokens_survive(void)
{
    for (size_t c = 0; c < sizeof(all_codes) / sizeof(all_codes[0]); c++) {
        struct sn_err err = {0};
        struct sn_data_writer *w = NULL;
        int32_t largest = (int32_t)sn_token_type_find(all_codes[c])->max, in = 0, out = 0;
        bool good = sn_data_writer_create(&w, "large", all_codes[c], &err) == SN_OK &&
                    sn_data_writer_add(w, (int32_t[]){0, largest}, 2, &err) == SN_OK &&
                    sn_data_writer_finish(w, &err) == SN_OK;
        sn_data_writer_destroy(w);
        struct sn_data *d = open_or_die("large");
        /* INT32_MAX itself is outside every vocabulary that an int32 can count. */
        int32_t vocab = largest < INT32_MAX ? largest + 1 : INT32_MAX;
        enum sn_status st = sn_data_read(d, 0, 1, vocab, &in, &out, &err);
        good = good && (largest < INT32_MAX ? st == SN_OK && out == largest : st == SN_EINPUT);
        tap_ok(good, "type %d holds %d", all_codes[c], (int)largest);
        sn_data_close(d);
    }
}

static void a_token_too_large_is_explained(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    (void)sn_data_writer_create(&w, "big", SN_TOK_U8, &err);
    enum sn_status st = sn_data_writer_add(w, (int32_t[]){5, 256}, 2, &err);
    sn_data_writer_destroy(w);
    tap_ok(st == SN_EINPUT, "u8 refuses 256");
    tap_text(err.text, "big.bin: token 1 is 256, which u8 does not hold; want 0 .. 255",
             "a token too large is explained");
    st = sn_data_writer_create(&w, "big", 7, &err);
    tap_ok(st == SN_EINPUT && strstr(err.text, "dtype code 7"), "floats are no tokens");
    char path[64];
    (void)snprintf(path, sizeof(path), "big.bin.tmp.%ld", (long)getpid());
    tap_ok(access(path, F_OK) != 0 && access("big.bin", F_OK) != 0, "and nothing is left behind");
}

static void an_unwritable_place_is_explained(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    enum sn_status st = sn_data_writer_create(&w, "no/such", SN_TOK_U8, &err);
    tap_ok(st == SN_EIO && !w, "a folder that is not there cannot be written to");
    tap_text(err.text,
             "no/such.bin: cannot be written (No such file or directory); create its folder first",
             "and the sentence says what helps");
}

/* Tokens 0, 1, .., or the bytes that these are in the file. */
static enum sn_status add_document(struct sn_data_writer *w, int n, bool as_bytes,
                                   struct sn_err *err)
{
    int32_t tokens[25];
    unsigned char bytes[2 * 25] = {0};
    for (int i = 0; i < n; i++)
        tokens[i] = bytes[2 * i] = (unsigned char)i;
    SN_TRY(as_bytes ? sn_data_writer_append_bytes(w, bytes, NULL, n, err)
                    : sn_data_writer_append(w, tokens, n, err));
    return sn_data_writer_end(w, err);
}

static void long_documents_become_several_sequences(bool as_bytes)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL;
    int64_t first, end, last[5] = {0};
    bool good = sn_data_writer_create(&w, "long.bin", SN_TOK_U16, &err) == SN_OK;
    sn_data_writer_limit(w, 10);
    good = good && add_document(w, 25, as_bytes, &err) == SN_OK &&
           add_document(w, 10, as_bytes, &err) == SN_OK && sn_data_writer_finish(w, &err) == SN_OK;
    sn_data_writer_destroy(w);
    struct sn_data_info info;
    struct sn_data *d = open_or_die("long.idx");
    sn_data_info(d, &info);
    sn_data_document(d, 0, &first, &end);
    good = good && sn_data_sequence(d, 2, last, 5) == 5 && last[0] == 20 && last[4] == 24;
    tap_ok(good && info.documents == 2 && info.sequences == 4 && first == 0 && end == 3,
           "25 tokens%s are three sequences of at most 10", as_bytes ? ", as bytes," : "");
    sn_data_close(d);
}

/* --- splitting ---------------------------------------------------------------------------- */

static void split_case(const int *lengths, int n, int limit, double fraction, const char *want)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL, *tail = NULL;
    int32_t tokens[512], next = 0;
    bool good = sn_data_writer_create(&w, "part", SN_TOK_I32, &err) == SN_OK;
    if (limit)
        sn_data_writer_limit(w, limit);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < lengths[i]; k++)
            tokens[k] = next++;
        good = good && sn_data_writer_add(w, tokens, lengths[i], &err) == SN_OK;
    }
    good = good && sn_data_writer_split(w, fraction, "part-valid", &tail, &err) == SN_OK &&
           sn_data_writer_finish(w, &err) == SN_OK && sn_data_writer_finish(tail, &err) == SN_OK;
    sn_data_writer_destroy(w);
    sn_data_writer_destroy(tail);
    if (!tap_ok(good, "%d documents are split at %g %s", n, fraction, err.text))
        return;
    struct sn_data *part[2] = {open_or_die("part"), open_or_die("part-valid")};
    struct sn_data_info info[2];
    char got[128];
    int64_t token = 0, listed[512];
    for (int p = 0; p < 2; p++) {
        sn_data_info(part[p], &info[p]);
        for (int64_t s = 0; s < info[p].sequences; s++) {
            int64_t count = sn_data_sequence(part[p], s, listed, 512);
            for (int64_t k = 0; k < count; k++)
                good = good && listed[k] == token++;
        }
        sn_data_close(part[p]);
    }
    tap_ok(good && token == next, "no token is lost, changed or doubled");
    (void)snprintf(got, sizeof(got),
                   "%" PRId64 "/%" PRId64 "/%" PRId64 " %" PRId64 "/%" PRId64 "/%" PRId64,
                   info[0].tokens, info[0].sequences, info[0].documents, info[1].tokens,
                   info[1].sequences, info[1].documents);
    tap_text(got, want, "tokens/sequences/documents of both parts");
}

static void the_tail_becomes_a_validation_set(void)
{
    split_case((int[]){100}, 1, 0, 0.25, "75/1/1 25/1/1");
    split_case((int[]){40, 40, 20}, 3, 0, 0.2, "80/2/2 20/1/1");
    split_case((int[]){40, 41, 19}, 3, 0, 0.2, "81/2/2 19/1/1"); /* near enough to a boundary */
    split_case((int[]){40, 45, 15}, 3, 0, 0.2, "80/2/2 20/2/2"); /* not near enough */
    split_case((int[]){100}, 1, 30, 0.4, "60/2/1 40/2/1");       /* between sequences */
    split_case((int[]){100}, 1, 30, 0.5, "50/2/1 50/3/1");       /* inside one */
    split_case((int[]){0, 50, 0, 50, 0}, 5, 0, 0.5, "50/2/2 50/3/3");
    split_case((int[]){1, 1}, 2, 0, 0.5, "1/1/1 1/1/1");
}

static void a_split_without_tokens_is_explained(void)
{
    struct sn_err err = {0};
    struct sn_data_writer *w = NULL, *tail = NULL;
    (void)sn_data_writer_create(&w, "tiny", SN_TOK_U8, &err);
    (void)sn_data_writer_add(w, (int32_t[]){1, 2, 3}, 3, &err);
    enum sn_status st = sn_data_writer_split(w, 0.01, "tiny-valid", &tail, &err);
    sn_data_writer_destroy(w);
    tap_ok(st == SN_EINPUT && !tail, "one per cent of three tokens is refused");
    tap_text(
        err.text,
        "tiny.bin: a share of 0.01 of 3 tokens leaves nothing on one side; give more tokens or "
        "another share",
        "and explained");
}

/* --- samples ---------------------------------------------------------------------------- */

static void files_that_do_not_fit_each_other_are_refused(void)
{
    struct sn_err err = {0};
    struct sn_data *d = NULL;
    put_file("pair.idx", golden, GOLDEN_BYTES);
    put_file("pair.bin", golden_tokens, 7);
    tap_ok(sn_data_open(&d, "pair", &err) == SN_EINPUT, "a cut .bin is refused");
    tap_text(err.text,
             "pair.idx: byte 42: sequence 2 needs more than the 7 bytes of the .bin; copy or build "
             "both files again",
             "and the sentence has the sizes");
    (void)remove("pair.bin");
    (void)sn_data_open(&d, "pair", &err);
    tap_text(err.text,
             "pair.bin: there is no such file; 'sennit-data build -o PREFIX' writes PREFIX.bin and "
             "PREFIX.idx",
             "a missing .bin is named");
    tap_ok(!d, "the output stays untouched");
}

static void a_token_outside_the_vocabulary_is_placed(void)
{
    struct sn_err err = {0};
    int32_t in[4], out[4];
    (void)write_counting("vocab", SN_TOK_U16, (int[]){9}, 1, 100, &err);
    struct sn_data *d = open_or_die("vocab");
    tap_ok(sn_data_read(d, 0, 4, 5, in, out, &err) == SN_OK, "tokens 0 .. 4 fit a vocabulary of 5");
    tap_ok(sn_data_read(d, 1, 4, 8, in, out, &err) == SN_EINPUT, "token 8 does not fit one of 8");
    tap_text(
        err.text,
        "vocab.bin: byte 16: token 8 is 8, outside the vocabulary 0 .. 7; raise model.vocab or "
        "build the data with this model's tokenizer",
        "and its place is told");
    tap_ok(sn_data_read(d, 2, 4, 100, in, out, &err) == SN_EINPUT, "there is no third sample");
    tap_text(err.text, "vocab.bin: sample 2 of 4 tokens is not there; the file has 2 such samples",
             "and the sentence counts them");
    uint64_t before = sn_mem_count();
    (void)sn_data_read(d, 0, 4, 100, in, out, &err);
    tap_ok(sn_mem_count() == before, "reading a sample allocates nothing");
    sn_data_close(d);
}

/* Tokens 0 .. 6, but for one of them. */
static void a_scan_finds_one_token_among_all(void)
{
    static const int64_t odd[] = {7, 7, 7, 7, -1, 7};
    for (size_t t = 0; t < sizeof(all_codes) / sizeof(all_codes[0]); t++) {
        struct sn_err err = {0};
        const struct sn_token_type *type = sn_token_type_find(all_codes[t]);
        bool is_signed = all_codes[t] != SN_TOK_U8 && all_codes[t] != SN_TOK_U16;
        int64_t token = is_signed ? odd[t] : 7;
        unsigned char bytes[8];
        char want[64];
        (void)write_counting("scan", all_codes[t], (int[]){256, 44}, 2, 7, &err);
        struct sn_data *d = open_or_die("scan");
        bool fits = sn_data_scan(d, 7, 1 << 20, &err) == SN_OK;
        sn_data_close(d);
        uint64_t le = htole64((uint64_t)token);
        memcpy(bytes, &le, sizeof(bytes));
        FILE *f = fopen("scan.bin", "r+b");
        (void)fseek(f, 299L * type->size, SEEK_SET);
        (void)fwrite(bytes, 1, (size_t)type->size, f);
        (void)fclose(f);
        d = open_or_die("scan");
        (void)snprintf(want, sizeof(want), "byte %d: token 299 is %" PRId64 ",", 299 * type->size,
                       token);
        tap_ok(fits && sn_data_scan(d, 7, 1 << 20, &err) == SN_EINPUT && strstr(err.text, want),
               "%s: the last of 300 tokens is found: %s", type->name, err.text);
        sn_data_close(d);
    }
}

/* What is read is bounded: the first, the last and blocks between them. */
static void a_scan_of_a_large_file_takes_blocks_of_it(void)
{
    enum { BLOCK = 1 << 16, BLOCKS = 9 };
    struct sn_data_writer *w = NULL;
    struct sn_err err = {0};
    int32_t *tokens = sn_alloc_n(BLOCK, sizeof(*tokens));
    enum sn_status st = sn_data_writer_create(&w, "large", SN_TOK_U16, &err);
    for (int i = 0; i < BLOCKS && st == SN_OK; i++) {
        tokens[5] = i == 1 ? 500 : 0;
        st = sn_data_writer_add(w, tokens, BLOCK, &err);
    }
    if (st == SN_OK)
        st = sn_data_writer_finish(w, &err);
    sn_data_writer_destroy(w);
    sn_free(tokens);
    struct sn_data *d = open_or_die("large");
    tap_ok(st == SN_OK && sn_data_scan(d, 500, 5 * 2 * BLOCK, &err) == SN_OK,
           "5 of 9 blocks: 0, 2, 4, 6, 8");
    tap_ok(sn_data_scan(d, 500, 9 * 2 * BLOCK, &err) == SN_EINPUT &&
               strstr(err.text, "token 65541 is 500,"),
           "all 9: %s", err.text);
    tap_ok(sn_data_scan(d, 1 << 16, 9 * 2 * BLOCK, &err) == SN_OK,
           "a vocabulary of all that the type holds");
    sn_data_close(d);
}

static void samples_are_counted_from_tokens(void)
{
    static const int64_t want[][3] = {/* tokens, seq, samples */
                                      {0, 1, 0}, {1, 1, 0},  {2, 1, 1}, {8, 8, 0},
                                      {9, 8, 1}, {16, 8, 1}, {17, 8, 2}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        struct sn_err err = {0};
        (void)write_counting("count", SN_TOK_U8, (int[]){(int)want[i][0]}, 1, 100, &err);
        struct sn_data *d = open_or_die("count");
        tap_ok(sn_data_samples(d, want[i][1]) == want[i][2], "%d tokens are %d samples of %d",
               (int)want[i][0], (int)want[i][2], (int)want[i][1]);
        sn_data_close(d);
    }
}

static void each_epoch_shows_each_sample_once(void)
{
    enum { SAMPLES = 97 };
    int64_t first_orders[3][SAMPLES];
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[SAMPLES] = {0};
        bool once = true;
        for (int k = 0; k < SAMPLES; k++) {
            int64_t number = (int64_t)epoch * SAMPLES + k;
            int64_t i = sn_data_sample_of(SN_ORDER_SHUFFLED, 1234, 0, SAMPLES, number);
            once = once && i >= 0 && i < SAMPLES && ++seen[i < 0 ? 0 : i % SAMPLES] == 1;
            first_orders[epoch][k] = i;
        }
        tap_ok(once, "epoch %d shows each sample exactly once", epoch);
    }
    tap_ok(memcmp(first_orders[0], first_orders[1], sizeof(first_orders[0])) != 0 &&
               memcmp(first_orders[1], first_orders[2], sizeof(first_orders[0])) != 0,
           "epochs have different orders");
    bool is_sorted = true;
    for (int k = 0; k < SAMPLES; k++)
        is_sorted = is_sorted && first_orders[0][k] == k;
    tap_ok(!is_sorted, "the first epoch is shuffled too");
    uint64_t key = sn_rng_mix(sn_rng_key(1234, "data.order"), 1);
    tap_ok(first_orders[1][5] == (int64_t)sn_rng_permute(key, SAMPLES, 5),
           "the order is the permutation that docs/DATA.md describes");
}

static void order_depends_on_its_arguments_alone(void)
{
    bool repeats = true, seeds_differ = false;
    for (int number = 0; number < 60; number++) {
        int64_t i = sn_data_sample_of(SN_ORDER_SHUFFLED, 7, 0, 50, number);
        repeats = repeats && i == sn_data_sample_of(SN_ORDER_SHUFFLED, 7, 0, 50, number);
        seeds_differ = seeds_differ || i != sn_data_sample_of(SN_ORDER_SHUFFLED, 8, 0, 50, number);
    }
    tap_ok(repeats, "a sample's number decides");
    tap_ok(seeds_differ, "another seed is another order");
    tap_ok(sn_data_sample_of(SN_ORDER_SEQUENTIAL, 7, 0, 50, 3) == 3 &&
               sn_data_sample_of(SN_ORDER_SEQUENTIAL, 7, 0, 50, 6 * 8 + 5) == 3 &&
               sn_data_sample_of(SN_ORDER_SEQUENTIAL, 9, 0, 1, 1000000006LL * 4096 + 4095) == 0,
           "sequential is the number modulo the samples");
    tap_ok(sn_data_sample_of(SN_ORDER_SHUFFLED, 7, 0, 1, 5) == 0, "one sample is always itself");
}

/* --- memory --------------------------------------------------------------------------------- */

static enum sn_status write_split_and_read(struct sn_err *err)
{
    struct sn_data_writer *w = NULL, *tail = NULL;
    struct sn_data *d = NULL;
    int32_t tokens[25] = {0};
    enum sn_status st = sn_data_writer_create(&w, "oom", SN_TOK_U16, err);
    if (st == SN_OK) {
        sn_data_writer_limit(w, 10);
        st = sn_data_writer_add(w, tokens, 25, err);
    }
    if (st == SN_OK)
        st = sn_data_writer_split(w, 0.5, "oom-valid", &tail, err);
    if (st == SN_OK)
        st = sn_data_writer_finish(w, err);
    if (st == SN_OK)
        st = sn_data_open(&d, "oom", err);
    sn_data_close(d);
    sn_data_writer_destroy(w);
    sn_data_writer_destroy(tail);
    return st;
}

static void every_failed_allocation_is_a_sentence(void)
{
    enum sn_status st = SN_ENOMEM;
    int n = 0, bad = 0;
    while (st != SN_OK && n < 100) {
        struct sn_err err = {0};
        sn_mem_fail_at((uint64_t)++n);
        st = write_split_and_read(&err);
        sn_mem_fail_at(0);
        bad += st != SN_OK && (st != SN_ENOMEM || !strstr(err.text, "no memory"));
        (void)remove("oom.bin");
        (void)remove("oom.idx");
    }
    tap_ok(st == SN_OK && n > 10 && bad == 0, "each of %d allocations may fail", n - 1);
}

int main(void)
{
    char folder[] = "/tmp/sennit-data-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        printf("Bail out! no folder for the test\n");
        return 1;
    }
    the_index_is_megatrons_byte_for_byte();
    every_type_is_read_back();
    the_largest_tokens_survive();
    a_token_too_large_is_explained();
    an_unwritable_place_is_explained();
    long_documents_become_several_sequences(false);
    long_documents_become_several_sequences(true);
    the_tail_becomes_a_validation_set();
    a_split_without_tokens_is_explained();
    files_that_do_not_fit_each_other_are_refused();
    a_token_outside_the_vocabulary_is_placed();
    a_scan_finds_one_token_among_all();
    a_scan_of_a_large_file_takes_blocks_of_it();
    samples_are_counted_from_tokens();
    each_epoch_shows_each_sample_once();
    order_depends_on_its_arguments_alone();
    every_failed_allocation_is_a_sentence();
    if (chdir("/") != 0 || nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
        printf("# %s stays behind\n", folder);
    return tap_done();
}
