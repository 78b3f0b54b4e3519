/*
 * feed_test.h - a small checkpoint, cut at random into pieces of all kinds, with its values known.
 */
#ifndef FEED_TEST_H
#define FEED_TEST_H

#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "kernels/half.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TENSORS = 6, PIECES = 800, SHARDS = 160, BLOCK = 4096 };

struct world {
    char dir[64], name[TENSORS][32], file[SHARDS][SN_SHARD_NAME_MAX];
    bool is_single; /* the dataset is the tensor, all in one file */
    int n_tensors;
    struct sn_manifest_tensor tensor[TENSORS];
    struct sn_manifest_piece piece[PIECES];
    struct sn_h5_slot slot[PIECES];
    struct sn_manifest_shard shard[SHARDS];
    struct sn_manifest m;
    char *stored[TENSORS]; /* the tensor's bytes */
    float *value[TENSORS]; /* and what they mean */
    struct sn_reader reader;
    struct sn_err err;
};

__attribute__((unused)) static float meaning(const char *p, enum sn_dtype dtype)
{
    uint16_t half;
    float f;
    memcpy(&half, p, sizeof(half));
    if (dtype != SN_F32)
        return dtype == SN_BF16 ? sn_bf16_to_f32(half) : sn_f16_to_f32(half);
    memcpy(&f, p, sizeof(f));
    return f;
}

/* A tensor of random bits, so far without pieces. */
__attribute__((unused)) static void add_tensor(struct world *w, int64_t rows, int64_t cols,
                                               enum sn_dtype dtype)
{
    int i = w->n_tensors++;
    size_t size = sn_dtype_size(dtype), n = (size_t)(rows * cols);
    (void)snprintf(w->name[i], sizeof(w->name[i]), "layers.%d.weight", i);
    w->tensor[i] = (struct sn_manifest_tensor){.group = "model",
                                               .name = w->name[i],
                                               .rows = rows,
                                               .cols = cols,
                                               .dtype = dtype,
                                               .pieces = &w->piece[w->m.n_pieces]};
    w->stored[i] = sn_alloc(n * size + 4);
    w->value[i] = sn_alloc_n(n, sizeof(float));
    for (size_t e = 0; e < n; e++) {
        uint64_t bits = sn_rng_bits((uint64_t)i + 100, e);
        memcpy(w->stored[i] + e * size, &bits, size);
        w->value[i][e] = meaning(w->stored[i] + e * size, dtype);
    }
}

/* A box of the tensor added last, in that shard. */
__attribute__((unused)) static void add_piece(struct world *w, struct sn_box box, int shard)
{
    struct sn_manifest_tensor *t = &w->tensor[w->n_tensors - 1];
    int i = w->m.n_pieces++;
    struct sn_manifest_piece *p = &w->piece[i];
    *p = (struct sn_manifest_piece){
        .box = box, .shard = shard, .set_rows = box.rows, .set_cols = box.cols};
    struct sn_box whole = {0, 0, t->rows, t->cols};
    if (w->is_single) {
        *p = (struct sn_manifest_piece){box, NULL, 0, box.row, box.col, t->rows, t->cols, 0, NULL};
        box = whole;
    }
    w->slot[i] = (struct sn_h5_slot){.rows = box.rows, .cols = box.cols, .dtype = t->dtype};
    if (sn_manifest_dataset(w->slot[i].dataset, SN_H5_NAME_MAX, t, box, &w->err) != SN_OK)
        exit(1);
    p->dataset = w->slot[i].dataset;
    t->n_pieces++;
    w->m.n_shards = p->shard >= w->m.n_shards ? p->shard + 1 : w->m.n_shards;
}

/* Elements first .. end - 1: part of a row, whole rows, part of a row. */
__attribute__((unused)) static void add_flat(struct world *w, int64_t first, int64_t end, int shard)
{
    int64_t cols = w->tensor[w->n_tensors - 1].cols;
    while (first < end) {
        struct sn_box b = {first / cols, first % cols, 1, cols - first % cols};
        if (b.col == 0 && end - first >= cols)
            b.rows = (end - first) / cols;
        else if (b.cols > end - first)
            b.cols = end - first;
        add_piece(w, b, shard);
        first += sn_box_size(b);
    }
}

/* 0 <= cut[1] <= ... <= size, cut at random. */
__attribute__((unused)) static void cut(struct dice *d, int64_t size, int n, int64_t *at)
{
    at[0] = 0;
    at[n] = size;
    for (int i = 1; i < n; i++)
        at[i] = roll(d, size + 1);
    for (int i = 1; i < n; i++)
        for (int k = i; k > 1 && at[k - 1] > at[k]; k--) {
            int64_t other = at[k];
            at[k] = at[k - 1];
            at[k - 1] = other;
        }
}

/* Tile the tensor added last: by rows, by columns, as a ZeRO slice is cut, or both ways. */
__attribute__((unused)) static void cut_up(struct world *w, struct dice *d)
{
    enum { MOST = 5 };
    const struct sn_manifest_tensor *t = &w->tensor[w->n_tensors - 1];
    int n = 1 + (int)roll(d, MOST), kind = (int)roll(d, 4);
    int64_t at[MOST + 1], half = roll(d, t->rows + 1);
    cut(d, kind == 0 ? t->rows : kind == 2 ? t->rows * t->cols : t->cols, n, at);
    for (int i = 0; i < n; i++) {
        int64_t size = at[i + 1] - at[i];
        if (kind == 0)
            add_piece(w, (struct sn_box){at[i], 0, size, t->cols}, i);
        else if (kind == 1)
            add_piece(w, (struct sn_box){0, at[i], t->rows, size}, i);
        else if (kind == 2)
            add_flat(w, at[i], at[i + 1], i);
        else
            add_piece(w, (struct sn_box){0, at[i], half, size}, i);
    }
    for (int i = 0; i < n && kind == 3; i++)
        add_piece(w, (struct sn_box){half, at[i], t->rows - half, at[i + 1] - at[i]}, n - i);
}

/* Lay the shard out, give all its pieces their place, and write their bytes and hashes. */
__attribute__((unused)) static void write_shard(struct world *w, int shard)
{
    static struct sn_h5_slot slots[PIECES];
    int n = 0, slot_of[PIECES];
    char path[128];
    struct stat sb;
    for (int i = 0; i < w->m.n_pieces; i++) {
        bool is_new = n == 0 || strcmp(slots[n - 1].dataset, w->slot[i].dataset) != 0;
        if (w->piece[i].shard == shard && is_new && sn_box_size(w->piece[i].box) > 0)
            slots[n++] = w->slot[i];
        slot_of[i] = n - 1;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", w->dir, sn_shard_name(w->file[shard], shard));
    if (sn_h5_layout(path, n, slots, &w->err) != SN_OK || stat(path, &sb) != 0) {
        printf("# %s\n", w->err.text);
        exit(1);
    }
    int fd = open(path, O_WRONLY);
    w->shard[shard] = (struct sn_manifest_shard){w->file[shard], sb.st_size};
    for (int k = 0; k < w->n_tensors; k++)
        for (int i = 0; i < w->tensor[k].n_pieces; i++) {
            const struct sn_manifest_tensor *t = &w->tensor[k];
            struct sn_manifest_piece *p = &t->pieces[i];
            int64_t size = (int64_t)sn_dtype_size(t->dtype), bytes = sn_manifest_bytes(t, p->box);
            if (p->shard != shard || bytes == 0)
                continue;
            char *gathered = sn_alloc((size_t)bytes);
            uint64_t at = slots[slot_of[p - w->piece]].offset;
            for (int64_t r = 0; r < p->box.rows; r++) {
                size_t row = (size_t)(p->box.cols * size);
                char *to = gathered + (size_t)r * row;
                memcpy(to, w->stored[k] + ((p->box.row + r) * t->cols + p->box.col) * size, row);
                int64_t place = ((p->at_row + r) * p->set_cols + p->at_col) * size;
                if (pwrite(fd, to, row, (off_t)at + place) != (ssize_t)row)
                    exit(1);
            }
            p->n_blocks = sn_manifest_blocks(bytes, BLOCK);
            sn_free(p->hashes);
            p->hashes = sn_alloc_n((size_t)p->n_blocks, sizeof(*p->hashes));
            for (int64_t b = 0; b < p->n_blocks; b++)
                p->hashes[b] =
                    sn_hash64(gathered + b * BLOCK,
                              (size_t)(bytes - b * BLOCK < BLOCK ? bytes - b * BLOCK : BLOCK));
            sn_free(gathered);
        }
    (void)close(fd);
}

/* An empty world; add tensors and pieces, then finish it. */
__attribute__((unused)) static void begin(struct world *w, bool is_single)
{
    memset(w, 0, sizeof(*w));
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/sn-feed-XXXXXX");
    w->is_single = is_single;
    if (!mkdtemp(w->dir)) {
        perror(w->dir);
        exit(1);
    }
}

/* Write it all and open it. */
__attribute__((unused)) static void finish(struct world *w)
{
    struct sn_str text = {0};
    char commit[SN_COMMIT_MAX];
    for (int i = 0; i < w->m.n_shards; i++)
        write_shard(w, i);
    w->m.model_text = w->m.layout_text = "";
    w->m.block = BLOCK;
    w->m.n_tensors = w->n_tensors;
    w->m.tensors = w->tensor;
    w->m.shards = w->shard;
    w->m.pieces = w->piece;
    sn_manifest_format(&text, &w->m);
    sn_commit_format(commit, text.p, text.len, w->m.n_shards);
    if (sn_store_put(w->dir, "manifest.json", text.p, text.len, &w->err) != SN_OK ||
        sn_store_put(w->dir, "COMMIT", commit, strlen(commit), &w->err) != SN_OK ||
        sn_reader_open(&w->reader, w->dir, &w->err) != SN_OK) {
        printf("# %s\n", w->err.text);
        exit(1);
    }
    sn_str_fini(&text);
    w->err.text[0] = '\0';
}

__attribute__((unused)) static void make_world(struct world *w, struct dice *d)
{
    begin(w, roll(d, 3) == 0);
    for (int i = 0; i < TENSORS; i++) {
        int64_t rows = 1 + roll(d, roll(d, 4) ? 120 : 20000), cols = 1 + roll(d, 200);
        cols = rows > 200 || roll(d, 4) == 0 ? 1 + roll(d, 3) : cols;
        add_tensor(w, rows, cols, (enum sn_dtype)roll(d, 3));
        cut_up(w, d);
    }
    finish(w);
}

__attribute__((unused)) static void end(struct world *w)
{
    sn_reader_close(&w->reader);
    for (int i = 0; i < w->n_tensors; i++) {
        sn_free(w->stored[i]);
        sn_free(w->value[i]);
    }
    for (int i = 0; i < w->m.n_pieces; i++)
        sn_free(w->piece[i].hashes);
    (void)sn_dir_remove(w->dir, &w->err);
}

/* Tensor i as the reader knows it. */
__attribute__((unused)) static const struct sn_manifest_tensor *read_tensor(const struct world *w,
                                                                            int i)
{
    return sn_manifest_find(&w->reader.manifest, "model", w->name[i]);
}

/* Reads the wants in turn, with `gap` values between rows, and compares them with what is known. */
__attribute__((unused)) static enum sn_status read_all(struct world *w, const struct sn_want *wants,
                                                       int n, int64_t memory, int64_t gap,
                                                       int64_t *bytes, bool *is_right)
{
    struct sn_feed *f = NULL;
    static const uint32_t untouched = 0x7fc0dead;
    enum sn_status st = sn_feed_open(&f, &w->reader, wants, n, memory, &w->err);
    *is_right = true;
    for (int i = 0; i < n && st == SN_OK; i++) {
        const struct sn_manifest_tensor *t = wants[i].tensor;
        struct sn_box b = wants[i].box;
        int k = atoi(t->name + strlen("layers."));
        int64_t ld = b.cols + gap, values = b.rows * ld;
        float *out = malloc((size_t)values * sizeof(float) + 1); /* fails in no test */
        for (int64_t e = 0; e < values; e++)
            memcpy(&out[e], &untouched, 4);
        st = sn_feed_next(f, out, ld, &w->err);
        for (int64_t e = 0; e < values && st == SN_OK && *is_right; e++) {
            int64_t r = e / ld, c = e % ld;
            const void *want = &w->value[k][(b.row + r) * t->cols + b.col + c];
            *is_right = memcmp(&out[e], c < b.cols ? want : &untouched, 4) == 0;
        }
        free(out);
    }
    if (st == SN_OK)
        *bytes = sn_feed_bytes_read(f);
    sn_feed_close(f);
    return st;
}

#endif
