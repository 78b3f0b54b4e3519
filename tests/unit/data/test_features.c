/*
 * PREFIX.npy: what its header may say, and what its numbers may be.
 */
#include "lib/data/features.h"

#include "lib/base/mem.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1024 };

static const struct sn_features_shape two_by_three = {2, 3};

struct file {
    unsigned char bytes[ROOM];
    size_t len;
};

/* Version 1 with a dictionary, and n bytes of zeros behind it. */
static struct file file_of(const char *dictionary, size_t n)
{
    struct file f = {{0}, 0};
    size_t len = strlen(dictionary) + 1;
    memcpy(f.bytes, "\x93NUMPY\x01\0", 8);
    f.bytes[8] = (unsigned char)(len & 255);
    f.bytes[9] = (unsigned char)(len >> 8);
    memcpy(f.bytes + 10, dictionary, len - 1);
    f.bytes[10 + len - 1] = '\n';
    f.len = 10 + len + n;
    return f;
}

static void takes(const char *dictionary, size_t bytes, int64_t entries, int width)
{
    struct sn_err err = {0};
    struct sn_features_layout x = {0};
    struct file f = file_of(dictionary, bytes);
    bool good = sn_features_check(&x, f.bytes, f.len, two_by_three, "a.npy", &err) == SN_OK;
    tap_ok(good && x.entries == entries && x.width == width && x.first == f.len - bytes,
           "taken: %s %s", dictionary, err.text);
}

static void refuses(const char *dictionary, size_t bytes, const char *sentence)
{
    struct sn_err err = {0};
    struct sn_features_layout x = {0};
    struct file f = file_of(dictionary, bytes);
    enum sn_status st = sn_features_check(&x, f.bytes, f.len, two_by_three, "a.npy", &err);
    tap_ok(st == SN_EINPUT && strcmp(err.text, sentence) == 0, "%s: %s", dictionary, err.text);
}

/* No beginning of a file is read beyond its end. */
static void every_short_file_is_refused(void)
{
    struct file f = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }", 24);
    int refused = 0;
    for (size_t n = 0; n < f.len; n++) {
        struct sn_err err = {0};
        struct sn_features_layout x;
        unsigned char *part = malloc(n + 1);
        memcpy(part, f.bytes, n);
        refused += sn_features_check(&x, part, n, two_by_three, "a.npy", &err) == SN_EINPUT;
        free(part);
    }
    tap_ok(refused == (int)f.len, "all of %zu shorter files are refused", f.len);
}

static void writes(const char *path, const struct file *f)
{
    FILE *out = fopen(path, "wb");
    bool good = out && fwrite(f->bytes, 1, f->len, out) == f->len;
    good = out && fclose(out) == 0 && good;
    if (!good)
        abort();
}

static void numbers_are_read(void)
{
    char dir[] = "/tmp/sn_features_XXXXXX", path[64], prefix[64];
    struct sn_features *f = NULL;
    struct sn_err err = {0};
    float out[6] = {0}, nan_ = NAN;
    struct file x = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3), }", 48);
    if (!mkdtemp(dir))
        abort();
    (void)snprintf(path, sizeof(path), "%s/x.npy", dir);
    (void)snprintf(prefix, sizeof(prefix), "%s/x.bin", dir);
    for (int i = 0; i < 12; i++) {
        float v = (float)i - 4.5f;
        memcpy(x.bytes + x.len - 48 + 4 * i, &v, 4);
    }
    memcpy(x.bytes + x.len - 48 + 4 * 4, &nan_, 4);
    writes(path, &x);
    tap_ok(sn_features_open(&f, path, two_by_three, NULL, &err) == SN_OK &&
               sn_features_entries(f) == 2 && sn_features_read(f, 1, out, &err) == SN_OK &&
               out[0] == 1.5f && out[5] == 6.5f,
           "float32: an entry is read as it is %s", err.text);
    tap_ok(
        f && sn_features_read(f, 0, out, &err) == SN_EINPUT &&
            strstr(err.text, "x.npy: number 1 of row 1 of entry 0 is not finite; write it again"),
        "NaN is refused by its place: %s", err.text);
    sn_features_close(f);
    f = NULL;
    x = file_of("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 3), }", 12);
    x.bytes[x.len - 11] = 0x3c; /* 1 */
    x.bytes[x.len - 1] = 0xb8;  /* -0.5 */
    writes(path, &x);
    tap_ok(sn_features_open(&f, path, two_by_three, NULL, &err) == SN_OK &&
               sn_features_read(f, 0, out, &err) == SN_OK && out[0] == 1 && out[1] == 0 &&
               out[5] == -0.5f,
           "float16 is widened");
    sn_features_close(f);
    f = NULL;
    x.bytes[x.len - 5] = 0x7c; /* infinite */
    writes(path, &x);
    tap_ok(sn_features_open(&f, path, two_by_three, NULL, &err) == SN_OK &&
               sn_features_read(f, 0, out, &err) == SN_EINPUT &&
               strstr(err.text, "x.npy: number 0 of row 1 of entry 0 is not finite; write it again"),
           "and infinity of it refused: %s", err.text);
    sn_features_close(f);
    char *found = NULL;
    tap_ok(sn_features_find(&found, prefix, &err) == SN_OK && found && strcmp(found, path) == 0,
           "features of tokens are found beside them");
    sn_free(found);
    tap_ok(sn_features_find(&found, path, &err) == SN_OK && !found,
           "tokens of a name that ends in .npy have others");
    (void)unlink(path);
    tap_ok(sn_features_open(&f, path, two_by_three, NULL, &err) == SN_EINPUT &&
               strstr(err.text, "train.prompt.rows reads what numpy.save(PREFIX.npy) wrote"),
           "a missing file: %s", err.text);
    (void)rmdir(dir);
}

int main(void)
{
    takes("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 3), }", 120, 5, 4);
    takes("{'descr': '<f2', 'fortran_order': False, 'shape': (5, 2, 3)}", 60, 5, 2);
    takes("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2, 3), }    ", 0, 0, 4);
    refuses("{'descr': '<f8', 'fortran_order': False, 'shape': (5, 2, 3), }", 240,
            "a.npy: its numbers are of type '<f8'; want little-endian float32 or float16");
    refuses("{'descr': '>f4', 'fortran_order': False, 'shape': (5, 2, 3), }", 120,
            "a.npy: its numbers are of type '>f4'; want little-endian float32 or float16");
    refuses("{'descr': '<f4', 'fortran_order': True, 'shape': (5, 2, 3), }", 120,
            "a.npy: in Fortran's order; save numpy.ascontiguousarray of it");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3, 2), }", 120,
            "a.npy: its shape is (5, 3, 2); train.prompt wants (entries, 2, 3)");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 6), }", 120,
            "a.npy: its shape is (5, 6); train.prompt wants (entries, 2, 3)");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4,
            "a.npy: its shape is (); train.prompt wants (entries, 2, 3)");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 3, 1), }", 120,
            "a.npy: not a file that numpy.save writes; write it again");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2, 3), }", 120,
            "a.npy: 120 bytes behind its header; 9223372036854775807 entries of 24 bytes want "
            "others; copy or write it again");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 3), }", 120,
            "a.npy: 120 bytes behind its header; 6 entries of 24 bytes want others; copy or write "
            "it again");
    refuses("{'fortran_order': False, 'shape': (6, 2, 3), }", 120,
            "a.npy: not a file that numpy.save writes; write it again");
    every_short_file_is_refused();
    numbers_are_read();
    return tap_done();
}
