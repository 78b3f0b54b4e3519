/* safetensors: good files read exactly, hostile ones are explained. */
#include "checkpoint/format/safetensors.h"
#include "checkpoint/format/safetensors_file.h"
#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* A file in memory: the header's text, and after it n bytes 0, 1, 2 ... */
struct image {
    unsigned char *p;
    size_t len;
};

static struct image image(const char *header, size_t n)
{
    size_t h = strlen(header);
    struct image m = {sn_alloc(8 + h + n), 8 + h + n};
    for (int i = 0; i < 8; i++)
        m.p[i] = (unsigned char)((uint64_t)h >> 8 * i);
    memcpy(m.p + 8, header, h);
    for (size_t i = 0; i < n; i++)
        m.p[8 + h + i] = (unsigned char)i;
    return m;
}

static void free_image(struct image *m)
{
    sn_free(m->p);
}

static enum sn_status parse(struct sn_safetensors **out, const char *header, size_t n,
                            struct image *m, struct sn_err *err)
{
    *m = image(header, n);
    return sn_safetensors_parse(out, m->p, m->len, "f", err);
}

/* --- good files ------------------------------------------------------------------------------ */

static void floats_are_read_exactly(void)
{
    static const struct {
        const char *dtype;
        int size;
        uint64_t bits;
        float want;
    } row[] = {
        {"F32", 4, 0x3f9d70a4, 1.23f},
        {"F32", 4, 1, 0x1p-149f},
        {"F16", 2, 0x3c00, 1.0f},
        {"F16", 2, 0xc000, -2.0f},
        {"F16", 2, 0x3555, 0x1.554p-2f},
        {"F16", 2, 0x7bff, 65504.0f},
        {"F16", 2, 0x0001, 0x1p-24f},
        {"F16", 2, 0x83ff, -0x1.ff8p-15f},
        {"F16", 2, 0x0400, 0x1p-14f},
        {"F16", 2, 0x7c00, INFINITY},
        {"F16", 2, 0xfc00, -INFINITY},
        {"F16", 2, 0x8000, -0.0f},
        {"F16", 2, 0x7e00, NAN},
        {"BF16", 2, 0x3f80, 1.0f},
        {"BF16", 2, 0xc2f7, -123.5f},
        {"BF16", 2, 0x0001, 0x1p-133f},
        {"BF16", 2, 0x7f80, INFINITY},
        {"BF16", 2, 0x7fc0, NAN},
        {"F64", 8, 0x3ff0000000000000, 1.0f},
        {"F64", 8, 0x3ff3ae147ae147ae, 1.23f},
        {"F64", 8, 0x7fefffffffffffff, INFINITY},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        char header[128];
        struct sn_safetensors *st = NULL;
        struct sn_err err = {.text = ""};
        struct image m;
        float got = 0;
        (void)snprintf(header, sizeof(header),
                       "{\"x\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[0,%d]}}",
                       row[i].dtype, row[i].size);
        m = image(header, (size_t)row[i].size);
        memcpy(m.p + m.len - row[i].size, &row[i].bits, (size_t)row[i].size);
        bool good = sn_safetensors_parse(&st, m.p, m.len, "f", &err) == SN_OK &&
                    sn_safetensors_read(sn_safetensors_get(st, 0), &(struct sn_st_box){0, 1, 0, 1},
                                        &got, 1, &err) == SN_OK;
        good = good && (isnan(row[i].want) ? isnan(got) : memcmp(&got, &row[i].want, 4) == 0);
        tap_ok(good, "%s %llx is %g", row[i].dtype, (unsigned long long)row[i].bits,
               (double)row[i].want);
        sn_safetensors_close(st);
        free_image(&m);
    }
}

static void a_box_is_cut_out(void)
{
    struct sn_safetensors *st = NULL;
    struct sn_err err;
    struct image m;
    float data[12], got[4] = {0};
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    /* The header has an odd length, so the floats lie at odd addresses. */
    m = image("{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[3,4],"
              "\"data_offsets\":[0,48]},\"e\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":["
              "48,48]}} ",
              48);
    memcpy(m.p + m.len - 48, data, 48);
    tap_ok(sn_safetensors_parse(&st, m.p, m.len, "f", &err) == SN_OK, "a good file opens");
    tap_ok(sn_safetensors_count(st) == 2, "metadata is no tensor, an empty tensor is one");
    const struct sn_st_tensor *w = sn_safetensors_find(st, "w");
    char shape[SN_ST_SHAPE_MAX];
    tap_ok(w && sn_st_rows(w) == 3 && sn_st_cols(w) == 4 && strcmp(w->dtype, "F32") == 0,
           "found by name");
    tap_text(sn_st_shape(shape, w), "[3, 4]", "its shape as text");
    tap_ok(!sn_safetensors_find(st, "v"), "another name is not found");
    tap_ok(sn_safetensors_read(w, &(struct sn_st_box){1, 2, 2, 2}, got, 2, &err) == SN_OK &&
               got[0] == 6 && got[1] == 7 && got[2] == 10 && got[3] == 11,
           "rows 1-2, columns 2-3");
    tap_ok(sn_safetensors_read(w, &(struct sn_st_box){2, 2, 0, 4}, got, 4, &err) == SN_EINPUT,
           "row 3 is not there");
    tap_text(err.text, "f: tensor 'w' is [3, 4]; rows 2 + 2, columns 0 + 4 are not in it",
             "and named");
    const struct sn_st_tensor *e = sn_safetensors_find(st, "e");
    tap_ok(sn_safetensors_read(e, &(struct sn_st_box){0, 0, 0, 0}, got, 2, &err) == SN_EINPUT,
           "I64 is no weight");
    tap_text(err.text, "f: tensor 'e' is I64; weights are read from F32, F16, BF16 and F64",
             "and named");
    sn_safetensors_close(st);
    free_image(&m);
}

/* --- hostile ones ---------------------------------------------------------------------------- */

#define T(dtype, shape, begin, end)                                                                \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void hostile_headers_are_explained(void)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } row[] = {
        {"", 4, "f: its header does not begin with '{'"},
        {"[1]", 4, "f: its header does not begin with '{'"},
        {" {}", 0, "f: its header does not begin with '{'"},
        {"{}", 4, "f: the last 4 bytes belong to no tensor"},
        {"{\"a\":1}", 0, "f: tensor 'a' is not a JSON object"},
        {"{\"__metadata__\":[]}", 0, "f: __metadata__ is not a JSON object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "f: __metadata__ 'a' is not a string"},
        {"{\"a\":{}}", 0, "f: tensor 'a' has no dtype that the format knows"},
        {"{\"a\":" T("F33", "[1]", "0", "4") "}", 4,
         "f: tensor 'a' has no dtype that the format knows"},
        {"{\"a\":{\"dtype\":7}}", 0, "f: tensor 'a' has no dtype that the format knows"},
        {"{\"a\":" T("F32", "4", "0", "4") "}", 4, "f: tensor 'a' has no shape"},
        {"{\"a\":" T("F32", "[-1]", "0", "4") "}", 4,
         "f: tensor 'a': dimension 0 is not a whole number from 0 up"},
        {"{\"a\":" T("F32", "[1,1.5]", "0", "4") "}", 4,
         "f: tensor 'a': dimension 1 is not a whole number from 0 up"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4,
         "f: tensor 'a' has 9 dimensions; at most 8 are read"},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", "0", "4") "}", 4,
         "f: tensor 'a' has 4 bytes, which is not [4294967296, 4294967296] of F32"},
        {"{\"a\":" T("F32", "[9223372036854775807,3,0]", "0", "4") "}", 4,
         "f: tensor 'a' has 4 bytes, which is not [9223372036854775807, 3, 0] of F32"},
        {"{\"a\":" T("F32", "[2]", "0", "4") "}", 4,
         "f: tensor 'a' has 4 bytes, which is not [2] of F32"},
        {"{\"a\":" T("F4", "[1]", "0", "0") "}", 0,
         "f: tensor 'a' has 0 bytes, which is not [1] of F4"},
        {"{\"a\":" T("F32", "[1]", "4", "0") "}", 4,
         "f: tensor 'a' lies at bytes 4 to 0 of the data, which has 4"},
        {"{\"a\":" T("F32", "[1]", "4", "8") "}", 4,
         "f: tensor 'a' lies at bytes 4 to 8 of the data, which has 4"},
        {"{\"a\":" T("F32", "[1]", "-4", "0") "}", 4,
         "f: tensor 'a': data_offsets are not two whole numbers from 0 up"},
        {"{\"a\":" T("F32", "[1]", "0", "4.0") "}", 4,
         "f: tensor 'a': data_offsets are not two whole numbers from 0 up"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
         "f: tensor 'a': data_offsets are not two whole numbers from 0 up"},
        {"{\"a\":" T("F32", "[1]", "4", "8") "}", 8,
         "f: 4 bytes before tensor 'a' belong to no tensor"},
        {"{\"a\":" T("U8", "[2]", "0", "2") ",\"b\":" T("U8", "[2]", "3", "5") "}", 5,
         "f: 1 bytes before tensor 'b' belong to no tensor"},
        {"{\"b\":" T("U8", "[3]", "1", "4") ",\"a\":" T("U8", "[2]", "0", "2") "}", 4,
         "f: tensor 'b' overlaps the one before it by 1 bytes"},
        {"{\"a\":" T("U8", "[2]", "0", "2") ",\"b\":" T("U8", "[2]", "0", "2") "}", 2,
         "f: tensor 'b' overlaps the one before it by 2 bytes"},
        {"{\"a\":" T("U8", "[2]", "0", "2") "}", 3, "f: the last 1 bytes belong to no tensor"},
        {"{\"a\":" T("U8", "[2]", "0", "2") ",\"a\":" T("U8", "[2]", "0", "2") "}", 2,
         "f: its header is not JSON: duplicate object key near '\"a\"' at byte 56"},
        {"{\"a\":" T("U8", "[99999999999999999999]", "0", "2") "}", 2,
         "f: its header is not JSON: too big integer near '99999999999999999999' at byte 48"},
        {"{\"a\":", 0, "f: its header is not JSON: unexpected token near end of file at byte 5"},
        {"{} x", 0, "f: its header is not JSON: end of file expected near 'x' at byte 4"},
        {"{\"a\\u0000b\":1}", 0,
         "f: its header is not JSON: NUL byte in object key not supported near "
         "'\"a\\u0000b\"' at byte 11"},
        {"{\"a\\nb\\u001b[31m\":1}", 0, "f: tensor 'a?b?[31m' is not a JSON object"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_safetensors *st = NULL;
        struct sn_err err = {.text = ""};
        struct image m;
        tap_ok(parse(&st, row[i].header, row[i].data, &m, &err) == SN_EINPUT,
               "hostile %d is refused", (int)i);
        tap_text(err.text, row[i].says, "hostile: says why");
        sn_safetensors_close(st);
        free_image(&m);
    }
}

static void says(const void *p, size_t len, const char *text)
{
    struct sn_safetensors *st = NULL;
    struct sn_err err = {.text = ""};
    tap_ok(sn_safetensors_parse(&st, p, len, "f", &err) == SN_EINPUT, "%zu bytes are refused", len);
    tap_text(err.text, text, "says why");
    sn_safetensors_close(st);
}

static void hostile_lengths_are_explained(void)
{
    struct image m = image("{\"a\":" T("U8", "[2]", "0", "2") "}", 2);
    says(m.p, 0, "f: has 0 bytes; a safetensors file has at least 8");
    says(m.p, 7, "f: has 7 bytes; a safetensors file has at least 8");
    says(m.p, 20, "f: is cut: it has 20 bytes, its header alone needs 61");
    says(m.p, m.len - 1, "f: tensor 'a' lies at bytes 0 to 2 of the data, which has 1");
    m.p[4] = 1;
    says(m.p, m.len,
         "f: asks for a header of 4294967349 bytes; at most 100000000 are allowed, so this is "
         "no safetensors file");
    memset(m.p, 0xff, 8);
    says(m.p, m.len,
         "f: asks for a header of 18446744073709551615 bytes; at most 100000000 are allowed, so "
         "this is no safetensors file");
    free_image(&m);
}

static void any_flipped_byte_is_safe(void)
{
    struct image m =
        image("{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T(
                  "F32", "[2,3]", "0", "24") ",\"bb\":" T("BF16", "[5]", "24", "34") "}",
              34);
    int opened = 0, refused = 0;
    for (size_t at = 0; at < m.len - 34; at++)
        for (int bit = 0; bit < 8; bit++) {
            struct sn_safetensors *st = NULL;
            struct sn_err err = {.text = ""};
            m.p[at] ^= (unsigned char)(1 << bit);
            if (sn_safetensors_parse(&st, m.p, m.len, "f", &err) == SN_OK)
                opened++;
            else
                refused += err.text[0] != '\0';
            m.p[at] ^= (unsigned char)(1 << bit);
            sn_safetensors_close(st);
        }
    tap_ok(opened + refused == (int)(m.len - 34) * 8, "each flipped bit: %d open, %d explained",
           opened, refused);
    free_image(&m);
}

static void no_memory_is_told(void)
{
    struct image m = image("{\"__metadata__\":{\"format\":\"pt\"},\"a_long_name_for_a_tensor\":" T(
                               "F32", "[2,3]", "0", "24") ",\"b\":" T("U8", "[0]", "24", "24") "}",
                           24);
    struct sn_err err = {.text = ""};
    enum sn_status status = SN_ENOMEM;
    int n = 0;
    while (status == SN_ENOMEM && n < 1000) {
        struct sn_safetensors *st = NULL;
        sn_mem_fail_at((uint64_t)++n);
        status = sn_safetensors_parse(&st, m.p, m.len, "f", &err);
        sn_mem_fail_at(0);
        sn_safetensors_close(st);
    }
    if (!tap_ok(status == SN_OK && n > 20, "%d allocations fail, each is told", n - 1))
        printf("# %s\n", err.text);
    free_image(&m);
}

/* --- files and directories ------------------------------------------------------------------- */

struct folder {
    char root[64];
    struct sn_err err;
};

static void make_folder(struct folder *f)
{
    *f = (struct folder){.root = "/tmp/sn-st-XXXXXX"};
    if (!mkdtemp(f->root)) {
        perror(f->root);
        exit(1);
    }
}

static const char *in(const struct folder *f, const char *name, char buf[128])
{
    (void)snprintf(buf, 128, "%s/%s", f->root, name);
    return buf;
}

static void put(struct folder *f, const char *name, const char *header, size_t n)
{
    char path[128];
    struct image m = image(header, n);
    (void)sn_file_save(in(f, name, path), m.p, m.len, &f->err);
    free_image(&m);
}

static void put_text(struct folder *f, const char *name, const char *text)
{
    char path[128];
    (void)sn_file_save(in(f, name, path), text, strlen(text), &f->err);
}

#define INDEX "model.safetensors.index.json"

/* Open `name` in the folder ("" for the folder itself): "" for success, else the sentence, where
 * the folder is written as DIR. */
static void opens(struct folder *f, const char *name, const char *want)
{
    char path[128], text[1024] = "";
    struct sn_safetensors *st = NULL;
    f->err.text[0] = '\0';
    if (sn_safetensors_open(&st, *name ? in(f, name, path) : f->root, &f->err) != SN_OK)
        for (const char *c = f->err.text; *c; c++) {
            bool root = strncmp(c, f->root, strlen(f->root)) == 0;
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s", root ? 3 : 1,
                           root ? "DIR" : c);
            c += root ? strlen(f->root) - 1 : 0;
        }
    tap_text(text, want, *want ? want : "opens");
    sn_safetensors_close(st);
}

static void one_file_opens_by_name_and_by_directory(void)
{
    struct folder f;
    make_folder(&f);
    opens(&f, "", "DIR: has neither model.safetensors nor model.safetensors.index.json");
    put_text(&f, "adapter_model.safetensors", "");
    opens(&f, "",
          "DIR: has no model.safetensors, but adapter_model.safetensors, a file of adapters; want "
          "the directory of the weights that they adapt, and this one as train.lora.init_from");
    put_text(&f, "pytorch_model.bin.index.json", "");
    opens(&f, "",
          "DIR: has no model.safetensors, but pytorch_model.bin.index.json, a file of torch, which "
          "may hold code; want model.safetensors, as transformers' save_pretrained writes it");
    put_text(&f, "pytorch_model.bin", "");
    opens(&f, "",
          "DIR: has no model.safetensors, but pytorch_model.bin, a file of torch, which may hold "
          "code; want model.safetensors, as transformers' save_pretrained writes it");
    opens(&f, "none", "DIR/none: cannot open: No such file or directory");
    put(&f, "model.safetensors", "{\"a\":" T("U8", "[2]", "0", "2") "}", 2);
    opens(&f, "", "");
    opens(&f, "model.safetensors", "");
    put_text(&f, "empty", "");
    opens(&f, "empty", "DIR/empty: has 0 bytes; a safetensors file has at least 8");
    (void)sn_dir_remove(f.root, &f.err);
}

/* It is read when it is asked for: what was cut off meanwhile is an error. */
static void a_file_that_shrinks_is_told(void)
{
    struct folder f;
    make_folder(&f);
    put(&f, "model.safetensors", "{\"a\":" T("F32", "[4]", "0", "16") "}", 16);
    struct sn_safetensors *st = NULL;
    char path[128], want[256];
    float got[4];
    (void)snprintf(path, sizeof(path), "%s/model.safetensors", f.root);
    tap_ok(sn_safetensors_open(&st, path, &f.err) == SN_OK, "a file is open");
    const struct sn_st_tensor *t = sn_safetensors_get(st, 0);
    struct sn_st_box all = {0, 4, 0, 1};
    tap_ok(sn_safetensors_read(t, &all, got, 1, &f.err) == SN_OK, "and read");
    if (truncate(path, (off_t)t->offset + 6) != 0)
        perror(path);
    tap_ok(sn_safetensors_read(t, &all, got, 1, &f.err) == SN_EIO, "and cut");
    (void)snprintf(want, sizeof(want), "%s: ends after %d bytes; it had %d when it was opened",
                   path, (int)t->offset + 6, (int)t->offset + 16);
    tap_text(f.err.text, want, "which is told");
    sn_safetensors_close(st);
    (void)sn_dir_remove(f.root, &f.err);
}

/* A byte of a tensor's values, -1 for none. */
static int byte_of(const struct sn_safetensors *st, const char *name, uint64_t i)
{
    const struct sn_st_tensor *t = sn_safetensors_find(st, name);
    unsigned char byte;
    return t && sn_st_file_get(t->in, t->offset + i, &byte, 1, NULL) == SN_OK ? byte : -1;
}

static void shards_open_by_their_index(void)
{
    struct folder f;
    make_folder(&f);
    put(&f, "x-1", "{\"a\":" T("U8", "[2]", "0", "2") ",\"b\":" T("U8", "[1]", "2", "3") "}", 3);
    put(&f, "x-2", "{\"c\":" T("U8", "[4]", "0", "4") "}", 4);
    put_text(&f, INDEX,
             "{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":\"x-1\",\"c\":\"x-2\",\"b\":"
             "\"x-1\"}}");
    opens(&f, "", "");
    opens(&f, INDEX, "");
    put(&f, "model.safetensors", "{\"a\":" T("U8", "[2]", "0", "2") "}", 2);
    opens(&f, "",
          "DIR: has both model.safetensors and " INDEX
          ", and other programs take one or the other; want one of them, or its path");
    opens(&f, INDEX, "");
    (void)unlink(in(&f, "model.safetensors", (char[128]){0}));
    struct sn_safetensors *st = NULL;
    tap_ok(sn_safetensors_open(&st, f.root, &f.err) == SN_OK && sn_safetensors_count(st) == 3 &&
               byte_of(st, "c", 3) == 3 && byte_of(st, "b", 0) == 2,
           "tensors of both files are found");
    sn_safetensors_close(st);
    put_text(&f, INDEX, "{\"weight_map\":{\"a\":\"x-1\",\"c\":\"x-1\",\"b\":\"x-1\"}}");
    opens(&f, "", "DIR/" INDEX ": says that tensor 'c' is in x-1, which does not have it");
    put_text(&f, INDEX,
             "{\"weight_map\":{\"a\":\"x-1\",\"c\":\"x-2\",\"d\":\"x-2\",\"b\":\"x-1\"}}");
    opens(&f, "", "DIR/" INDEX ": says that tensor 'd' is in x-2, which does not have it");
    put_text(&f, INDEX, "{\"weight_map\":{\"a\":\"x-1\",\"c\":\"x-2\"}}");
    opens(&f, "", "DIR/x-1: has a tensor 'b' that DIR/" INDEX " does not list");
    put_text(&f, INDEX, "{\"weight_map\":{\"a\":\"x-1\",\"c\":\"x-3\"}}");
    opens(&f, "", "DIR/x-3: cannot open: No such file or directory");
    put_text(&f, INDEX, "{\"weight_map\":{\"a\":\"../x-1\"}}");
    opens(&f, "", "DIR/" INDEX ": tensor 'a' has no plain file name");
    put_text(&f, INDEX, "{\"weight_map\":{\"a\":1}}");
    opens(&f, "", "DIR/" INDEX ": tensor 'a' has no plain file name");
    put_text(&f, INDEX, "{\"weight_map\":[]}");
    opens(&f, "", "DIR/" INDEX ": has no weight_map");
    put_text(&f, INDEX, "[]");
    opens(&f, "", "DIR/" INDEX ": the index is not a JSON object");
    put(&f, "x-2", "{\"a\":" T("U8", "[4]", "0", "4") "}", 4);
    put_text(&f, INDEX, "{\"weight_map\":{\"a\":\"x-1\",\"c\":\"x-2\"}}");
    f.err.text[0] = '\0';
    tap_ok(sn_safetensors_open(&st, f.root, &f.err) == SN_EINPUT &&
               strstr(f.err.text, "tensor 'a' is also in"),
           "a tensor in two files is refused");
    (void)sn_dir_remove(f.root, &f.err);
}

int main(void)
{
    floats_are_read_exactly();
    a_box_is_cut_out();
    hostile_headers_are_explained();
    hostile_lengths_are_explained();
    any_flipped_byte_is_safe();
    no_memory_is_told();
    one_file_opens_by_name_and_by_directory();
    a_file_that_shrinks_is_told();
    shards_open_by_their_index();
    return tap_done();
}
