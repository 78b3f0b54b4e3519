/* The feed: any boxes out of any pieces, in any memory, and no byte read in vain. */
#include "tests/lib/feed_test.h"

#include <dirent.h>

enum { WANTS = 40, AMPLE = 256 << 20 };

static struct sn_box random_box(struct dice *d, const struct sn_manifest_tensor *t)
{
    struct sn_box b = {0, 0, t->rows, t->cols};
    if (roll(d, 3)) {
        b.row = roll(d, t->rows);
        b.rows = roll(d, t->rows - b.row + 1);
    }
    if (roll(d, 3) == 0) {
        b.col = roll(d, t->cols);
        b.cols = roll(d, t->cols - b.col + 1);
    }
    return b;
}

/* Bytes of all blocks that hold an element of a want, found element by element. */
static int64_t bytes_needed(const struct world *w, const struct sn_want *wants, int n)
{
    int64_t bytes = 0;
    const struct sn_manifest *m = &w->reader.manifest;
    for (int k = 0; k < m->n_tensors; k++)
        for (int i = 0; i < m->tensors[k].n_pieces; i++) {
            const struct sn_manifest_tensor *t = &m->tensors[k];
            const struct sn_manifest_piece *p = &t->pieces[i];
            int64_t size = (int64_t)sn_dtype_size(t->dtype), all = sn_manifest_bytes(t, p->box);
            bool *needed = sn_alloc((size_t)p->n_blocks);
            for (int j = 0; j < n; j++) {
                struct sn_box c = sn_box_common(p->box, wants[j].box);
                for (int64_t e = 0; wants[j].tensor == t && e < sn_box_size(c); e++) {
                    int64_t row = c.row + e / c.cols - p->box.row;
                    int64_t col = c.col + e % c.cols - p->box.col;
                    needed[(row * p->box.cols + col) * size / BLOCK] = true;
                }
            }
            for (int64_t b = 0; b < p->n_blocks; b++)
                if (needed[b])
                    bytes += all - b * BLOCK < BLOCK ? all - b * BLOCK : BLOCK;
            sn_free(needed);
        }
    return bytes;
}

static void any_boxes_come_out_of_any_pieces(void)
{
    enum { ROUNDS = 60 };
    for (int round = 1; round <= ROUNDS; round++) {
        struct dice d = {sn_rng_key((uint64_t)round, "feed"), 0};
        static struct world w;
        struct sn_want wants[WANTS];
        int64_t ample = 0, little = 0;
        bool good = true, is_right;
        make_world(&w, &d);
        for (int i = 0; i < WANTS; i++) {
            wants[i].tensor = read_tensor(&w, (int)roll(&d, TENSORS));
            wants[i].box = random_box(&d, wants[i].tensor);
        }
        int64_t memory = roll(&d, 40 * BLOCK), gap = roll(&d, 3);
        good = read_all(&w, wants, WANTS, AMPLE, gap, &ample, &is_right) == SN_OK && is_right;
        good =
            read_all(&w, wants, WANTS, memory, 0, &little, &is_right) == SN_OK && is_right && good;
        int64_t needed = bytes_needed(&w, wants, WANTS);
        tap_ok(good && ample == needed && little >= needed,
               "seed %d: %d boxes of %d pieces%s; %lld bytes needed, %lld read in ample memory, "
               "%lld in little %s",
               round, WANTS, w.m.n_pieces, w.is_single ? " in one file" : "", (long long)needed,
               (long long)ample, (long long)little, w.err.text);
        end(&w);
    }
}

/* Blocks whose users are close are read once also where not all fit. */
static void neighbours_share_blocks_in_little_memory(void)
{
    static struct world w;
    struct sn_want wants[200];
    int64_t bytes = 0;
    bool is_right;
    begin(&w, false);
    add_tensor(&w, 400, 1000, SN_F32);
    add_piece(&w, (struct sn_box){0, 0, 400, 1000}, 0);
    finish(&w);
    for (int i = 0; i < 200; i++)
        wants[i] = (struct sn_want){read_tensor(&w, 0), {2 * i, 0, 2, 1000}};
    bool good = read_all(&w, wants, 200, 0, 0, &bytes, &is_right) == SN_OK && is_right;
    tap_ok(good && bytes == 400 * 1000 * 4, "200 boxes in a row, four slots: %lld bytes are read",
           (long long)bytes);
    for (int i = 0; i < 200; i++)
        wants[i].box = (struct sn_box){i % 2 ? 128 : 0, 0, 2, 1000};
    tap_ok(read_all(&w, wants, 200, 0, 0, &bytes, &is_right) == SN_OK && is_right &&
               bytes == 4 * BLOCK,
           "two boxes in turn, four slots: their blocks stay");
    end(&w);
}

/* Rows of two blocks each, of which the first is wanted: it ends where the second begins. */
static void a_block_beside_the_wanted_columns_is_not_read(void)
{
    static struct world w;
    struct sn_want want;
    int64_t bytes = 0;
    bool is_right;
    begin(&w, false);
    add_tensor(&w, 9, BLOCK / 2, SN_F32);
    add_piece(&w, (struct sn_box){0, 0, 9, BLOCK / 2}, 0);
    finish(&w);
    for (int half = 0; half < 2; half++) {
        want = (struct sn_want){read_tensor(&w, 0), {1, half * BLOCK / 4, 7, BLOCK / 4}};
        bool good = read_all(&w, &want, 1, AMPLE, 0, &bytes, &is_right) == SN_OK && is_right;
        tap_ok(good && bytes == 7 * BLOCK, "half %d of 7 rows: %lld bytes", half, (long long)bytes);
    }
    end(&w);
}

static int count_open(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

/* One row in each of many shards, read twice. */
static void many_shards_do_not_exhaust_descriptors(void)
{
    static struct world w;
    struct sn_want wants[2 * SHARDS];
    struct sn_feed *f = NULL;
    float row[7];
    begin(&w, false);
    add_tensor(&w, SHARDS, 7, SN_F32);
    for (int i = 0; i < SHARDS; i++)
        add_piece(&w, (struct sn_box){i, 0, 1, 7}, i);
    finish(&w);
    for (int i = 0; i < 2 * SHARDS; i++)
        wants[i] = (struct sn_want){read_tensor(&w, 0), {i * 7 % SHARDS, 0, 1, 7}};
    int most = 0;
    bool good = sn_feed_open(&f, &w.reader, wants, 2 * SHARDS, 0, &w.err) == SN_OK;
    for (int i = 0; i < 2 * SHARDS && good; i++) {
        good = sn_feed_next(f, row, 7, &w.err) == SN_OK &&
               memcmp(row, w.value[0] + 7 * wants[i].box.row, sizeof(row)) == 0;
        int n = count_open();
        most = n > most ? n : most;
    }
    sn_feed_close(f);
    tap_ok(good && most < 300, "%d shards, at most %d descriptors %s", SHARDS, most, w.err.text);
    end(&w);
}

/* What a converter does: every block of the pieces, located one by one. */
static void blocks_are_located_one_by_one(void)
{
    struct dice d = {sn_rng_key(3, "locate"), 0};
    static struct world w;
    struct sn_aio *pool;
    int blocks = 0, right = 0;
    make_world(&w, &d);
    (void)sn_aio_create(&pool, 2, &w.err);
    char *buf = aligned_alloc(SN_AIO_ALIGN, BLOCK + 2 * SN_AIO_ALIGN);
    const struct sn_manifest *m = &w.reader.manifest;
    for (int i = 0; i < m->n_tensors; i++)
        for (int k = 0; k < m->tensors[i].n_pieces; k++)
            for (int64_t b = 0; b < m->tensors[i].pieces[k].n_blocks; b++, blocks++) {
                const struct sn_manifest_piece *p = &m->tensors[i].pieces[k];
                struct sn_aio_request r;
                if (sn_reader_locate_block(&w.reader, &m->tensors[i], p, b, &r, &w.err) != SN_OK)
                    continue;
                r.buf = buf;
                sn_aio_submit(pool, &r);
                right += sn_aio_wait(pool, &r, &w.err) == SN_OK &&
                         sn_hash64(r.data, r.bytes) == p->hashes[b];
            }
    tap_ok(blocks > 20 && right == blocks, "%d blocks, %d where they are said to be %s", blocks,
           right, w.err.text);
    free(buf);
    sn_aio_destroy(pool);
    end(&w);
}

static void a_feed_may_be_closed_at_any_time(void)
{
    struct dice d = {sn_rng_key(4, "close"), 0};
    static struct world w;
    struct sn_want wants[TENSORS];
    float *out = sn_alloc(sizeof(float) * 20000 * 200);
    bool good = true;
    make_world(&w, &d);
    for (int i = 0; i < TENSORS; i++)
        wants[i] = (struct sn_want){read_tensor(&w, i), {0, 0, w.tensor[i].rows, w.tensor[i].cols}};
    for (int n = 0; n <= TENSORS; n++) {
        struct sn_feed *f = NULL;
        good = sn_feed_open(&f, &w.reader, wants, TENSORS, n * 100000, &w.err) == SN_OK && good;
        for (int i = 0; i < n && good; i++)
            good = sn_feed_next(f, out, wants[i].box.cols, &w.err) == SN_OK;
        sn_feed_close(f);
    }
    struct sn_feed *f = NULL;
    good = sn_feed_open(&f, &w.reader, NULL, 0, 0, &w.err) == SN_OK && good;
    sn_feed_close(f);
    sn_feed_close(NULL);
    tap_ok(good, "after 0 to %d boxes, and without any %s", TENSORS, w.err.text);
    sn_free(out);
    end(&w);
}

static void no_memory_is_told_at_every_allocation(void)
{
    struct dice d = {sn_rng_key(5, "memory"), 0};
    static struct world w;
    struct sn_want wants[WANTS];
    int64_t bytes;
    bool is_right = false;
    make_world(&w, &d);
    for (int i = 0; i < WANTS; i++) {
        wants[i].tensor = read_tensor(&w, (int)roll(&d, TENSORS));
        wants[i].box = random_box(&d, wants[i].tensor);
    }
    enum sn_status st = SN_ENOMEM;
    int n = 0;
    while (st == SN_ENOMEM &&
           n < 1000) { /* with a fresh reader each time: it has located nothing */
        int which[WANTS];
        for (int i = 0; i < WANTS; i++)
            which[i] = (int)(wants[i].tensor - w.reader.manifest.tensors);
        sn_reader_close(&w.reader);
        if (sn_reader_open(&w.reader, w.dir, &w.err) != SN_OK)
            break;
        for (int i = 0; i < WANTS; i++)
            wants[i].tensor = &w.reader.manifest.tensors[which[i]];
        sn_mem_fail_at((uint64_t)++n);
        st = read_all(&w, wants, WANTS, 100000, 0, &bytes, &is_right);
        sn_mem_fail_at(0);
    }
    tap_ok(st == SN_OK && is_right && n > 12, "%d allocations, each failing once", n - 1);
    end(&w);
}

int main(void)
{
    any_boxes_come_out_of_any_pieces();
    neighbours_share_blocks_in_little_memory();
    a_block_beside_the_wanted_columns_is_not_read();
    many_shards_do_not_exhaust_descriptors();
    blocks_are_located_one_by_one();
    a_feed_may_be_closed_at_any_time();
    no_memory_is_told_at_every_allocation();
    return tap_done();
}
