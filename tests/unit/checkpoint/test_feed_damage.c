/* The feed: whatever is wrong with a shard is told with its name and the tensor's, and no altered
 * byte comes out. */
#include "tests/lib/feed_test.h"

/* Two tensors over two shards; what is damaged is in the second. */
static void make_pair(struct world *w)
{
    begin(w, false);
    for (int i = 0; i < 2; i++) {
        add_tensor(w, 100, 500, i ? SN_BF16 : SN_F32);
        add_piece(w, (struct sn_box){0, 0, 40, 500}, 0);
        add_piece(w, (struct sn_box){40, 0, 60, 500}, 1);
    }
    finish(w);
}

static const char *path_of(const struct world *w, int shard)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", w->dir, w->file[shard]);
    return path;
}

/* Reading rows first .. first + n - 1 of both tensors fails with that sentence about shard 1. */
static void reading_says(struct world *w, int64_t first, int64_t n, const char *text)
{
    struct sn_want wants[2];
    int64_t bytes;
    bool is_right;
    char want[512];
    for (int i = 0; i < 2; i++)
        wants[i] = (struct sn_want){read_tensor(w, i), {first, 0, n, 500}};
    w->err.text[0] = '\0';
    enum sn_status st = read_all(w, wants, 2, 1 << 20, 0, &bytes, &is_right);
    (void)snprintf(want, sizeof(want), "%s%s", path_of(w, 1), text);
    tap_ok(st == SN_EIO && is_right, "it does not load");
    tap_text(w->err.text, want, "and the sentence names shard and tensor");
    sn_reader_close(&w->reader);
    if (sn_reader_open(&w->reader, w->dir, &w->err) != SN_OK)
        exit(1);
    for (int i = 0; i < 2; i++)
        wants[i] = (struct sn_want){read_tensor(w, i), {0, 0, 40, 500}};
    st = read_all(w, wants, 2, 1 << 20, 0, &bytes, &is_right);
    tap_ok(st == SN_OK && is_right, "what lies in the other shard still loads %s", w->err.text);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    int c = EOF;
    if (f && fseek(f, at, SEEK_SET) == 0)
        c = fgetc(f);
    if (c == EOF || fseek(f, at, SEEK_SET) != 0 || fputc(c ^ 4, f) == EOF || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static long find(const char *path, const void *p, size_t len)
{
    char *text = NULL;
    size_t n = 0;
    struct sn_err err;
    if (sn_file_load(&text, &n, path, &err) != SN_OK)
        exit(1);
    char *at = memmem(text, n, p, len);
    long found = at ? (long)(at - text) : -1;
    sn_free(text);
    return found;
}

static void a_lost_shard(void)
{
    static struct world w;
    make_pair(&w);
    (void)unlink(path_of(&w, 1));
    reading_says(&w, 0, 100,
                 ": cannot open: No such file or directory (reading tensor model "
                 "layers.0.weight)");
    (void)mkfifo(path_of(&w, 1), 0600);
    reading_says(&w, 0, 100, ": is not a plain file (reading tensor model layers.0.weight)");
    (void)unlink(path_of(&w, 1));
    (void)mkdir(path_of(&w, 1), 0700);
    reading_says(&w, 99, 1, ": is not a plain file (reading tensor model layers.0.weight)");
    end(&w);
}

static void an_unreadable_shard(void)
{
    static struct world w;
    make_pair(&w);
    enum { NOBODY = 65534 }; /* root may read everything */
    bool was_root = geteuid() == 0;
    bool good = chmod(path_of(&w, 1), 0) == 0 && chmod(w.dir, 0755) == 0;
    if (tap_ok(good && (!was_root || seteuid(NOBODY) == 0), "somebody may not read it"))
        reading_says(&w, 0, 100,
                     ": cannot open: Permission denied (reading tensor model layers.0.weight)");
    if (was_root && seteuid(0) != 0)
        exit(1);
    end(&w);
}

static void a_cut_shard(void)
{
    static struct world w;
    make_pair(&w);
    char text[256];
    (void)snprintf(text, sizeof(text),
                   ": has 70000 bytes where %lld were saved; the file was cut or altered, use "
                   "another checkpoint (reading tensor model layers.0.weight)",
                   (long long)w.shard[1].bytes);
    if (truncate(path_of(&w, 1), 70000) != 0)
        exit(1);
    reading_says(&w, 0, 100, text);
    end(&w);
}

static void a_shard_of_garbage(void)
{
    static struct world w;
    make_pair(&w);
    flip(path_of(&w, 1), 1);
    reading_says(&w, 50, 2,
                 ": is no HDF5 file (reading tensor model "
                 "layers.0.weight)");
    end(&w);
}

static void a_renamed_dataset(void)
{
    static struct world w;
    make_pair(&w);
    w.slot[3].dataset[strlen(w.slot[3].dataset) - 1] = '1'; /* ends in 40,1 */
    write_shard(&w, 1);
    struct sn_want want = {read_tensor(&w, 1), {41, 0, 1, 500}};
    int64_t bytes;
    bool is_right;
    tap_ok(read_all(&w, &want, 1, 1 << 20, 0, &bytes, &is_right) == SN_EIO, "it does not load");
    tap_ok(strncmp(w.err.text, path_of(&w, 1), strlen(path_of(&w, 1))) == 0 &&
               strstr(w.err.text, "/model/layers.1.weight@40,0") &&
               strstr(w.err.text, "(reading tensor model layers.1.weight)"),
           "%s", w.err.text);
    want.tensor = read_tensor(&w, 0);
    tap_ok(read_all(&w, &want, 1, 1 << 20, 0, &bytes, &is_right) == SN_OK && is_right,
           "the dataset beside it still loads");
    end(&w);
}

/* Every block of the second shard's pieces in turn. */
static void a_flipped_bit(void)
{
    static struct world w;
    make_pair(&w);
    for (int i = 0; i < 2; i++) {
        int64_t size = i ? 2 : 4, blocks = (60 * 500 * size + BLOCK - 1) / BLOCK;
        long first = find(path_of(&w, 1), w.stored[i] + 40 * 500 * size, (size_t)(60 * 500 * size));
        tap_ok(first > 0, "the bytes of tensor %d are found", i);
        for (int64_t b = 0; b < blocks; b += blocks / 2) {
            int64_t last = (b + 1) * BLOCK < 60 * 500 * size ? (b + 1) * BLOCK : 60 * 500 * size;
            char text[400];
            (void)snprintf(text, sizeof(text),
                           ": the bytes of /model/layers.%d.weight@40,0, block %lld of %lld (rows "
                           "%lld to %lld), are not those that were saved (their hash differs); the "
                           "file was altered, use another checkpoint",
                           i, (long long)b + 1, (long long)blocks,
                           (long long)(40 + b * BLOCK / (500 * size)),
                           (long long)(40 + (last - 1) / (500 * size)));
            flip(path_of(&w, 1), first + (long)last - 1);
            reading_says(&w, 0, 100, text);
            flip(path_of(&w, 1), first + (long)last - 1);
        }
    }
    end(&w);
}

/* Only what is read is verified: a flipped bit in a block that nobody wants is not seen. */
static void only_wanted_blocks_are_read(void)
{
    static struct world w;
    make_pair(&w);
    long first = find(path_of(&w, 1), w.stored[0] + 40 * 500 * 4, 60 * 500 * 4);
    flip(path_of(&w, 1), first);
    struct sn_want want = {read_tensor(&w, 0), {60, 0, 40, 500}};
    int64_t bytes;
    bool is_right;
    tap_ok(read_all(&w, &want, 1, 1 << 20, 0, &bytes, &is_right) == SN_OK && is_right,
           "rows 60 to 99 load although row 40 is damaged");
    end(&w);
}

static void a_shard_that_is_cut_while_it_is_read(void)
{
    static struct world w;
    struct sn_feed *f = NULL;
    float *out = sn_alloc(1000 * 1000 * 4);
    begin(&w, false);
    add_tensor(&w, 1000, 1000, SN_F32);
    add_piece(&w, (struct sn_box){0, 0, 1000, 1000}, 0);
    finish(&w);
    struct sn_want want = {read_tensor(&w, 0), {0, 0, 1000, 1000}};
    bool good = sn_feed_open(&f, &w.reader, &want, 1, 0, &w.err) == SN_OK;
    tap_ok(good && truncate(path_of(&w, 0), 1000000) == 0, "four blocks are under way");
    tap_ok(sn_feed_next(f, out, 1000, &w.err) == SN_EIO, "it does not load");
    char text[256];
    (void)snprintf(text, sizeof(text), "%s: ends after 1000000 bytes where ", path_of(&w, 0));
    tap_ok(strncmp(w.err.text, text, strlen(text)) == 0 &&
               strstr(w.err.text, " are needed (reading tensor model layers.0.weight)"),
           "%s", w.err.text);
    sn_feed_close(f);
    sn_free(out);
    end(&w);
}

/* Files that are too large to be ours are not read: these would take a terabyte. */
static void a_manifest_of_another_size(void)
{
    static struct world w;
    struct sn_reader r;
    struct stat sb;
    char path[128];
    make_pair(&w);
    const char *name[] = {"manifest.json", "COMMIT"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", w.dir, name[i]);
        if (stat(path, &sb) != 0 || truncate(path, INT64_C(1) << 40) != 0)
            exit(1);
        tap_ok(sn_reader_open(&r, w.dir, &w.err) == SN_EIO &&
                   strstr(w.err.text, "/manifest.json: is not what COMMIT was written for; one of "
                                      "them was altered"),
               "%s of a terabyte: %s", name[i], w.err.text);
        if (truncate(path, sb.st_size) != 0)
            exit(1);
    }
    tap_ok(sn_reader_open(&r, w.dir, &w.err) == SN_OK, "as they were: it opens");
    sn_reader_close(&r);
    (void)unlink(path);
    (void)mkfifo(path, 0600);
    tap_ok(sn_reader_open(&r, w.dir, &w.err) == SN_EIO, "COMMIT as a pipe: %s", w.err.text);
    end(&w);
}

int main(void)
{
    a_manifest_of_another_size();
    a_lost_shard();
    an_unreadable_shard();
    a_cut_shard();
    a_shard_of_garbage();
    a_renamed_dataset();
    a_flipped_bit();
    only_wanted_blocks_are_read();
    a_shard_that_is_cut_while_it_is_read();
    return tap_done();
}
