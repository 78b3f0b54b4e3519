/*
 * test_golden.c - a small checkpoint of every schema still loads, to known values.
 *
 * Those of schemas 1 and 2 were written by the last versions that wrote them. Those of schema 3
 * were written by this program: `test_golden FOLDER` makes them there. In schema-3-master the
 * manifest has the hash of master.h5, in schema-3, as sennit first wrote it, not. A change that a
 * reader of today's files would notice needs a new schema, and one more golden checkpoint.
 *
 * The values: element e of tensor NAME in GROUP is the low bits of sn_rng_bits(sn_rng_key(1, "GROUP
 * NAME"), e), whatever its type.
 */
#include "checkpoint/format/hdf5.h"
#include "checkpoint/format/master.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "kernels/half.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <unistd.h>

#define FOLDER "tests/unit/fixtures/checkpoints"
#define STEP   "step-00000100"
#define LAYOUT "layout:\n  tensor: 2\n"

enum { N = 4, N_PIECES = 9, N_SLOTS = 9, BLOCK = 4096 };

static const struct sn_manifest_tensor tensor[N] = {
    {.group = "exp_avg", .name = "embed.weight", .rows = 9, .cols = 5},
    {.group = "exp_avg_sq", .name = "embed.weight", .rows = 9, .cols = 5},
    {.group = "model", .name = "embed.weight", .rows = 9, .cols = 5},
    {.group = "model", .name = "final_norm.weight", .rows = 5, .cols = 1}};
/* In schema 3: more than a block, and every type. */
static const struct sn_manifest_tensor large[N] = {
    {.group = "exp_avg", .name = "embed.weight", .rows = 70, .cols = 33},
    {.group = "exp_avg_sq", .name = "embed.weight", .rows = 70, .cols = 33},
    {.group = "model", .name = "embed.weight", .rows = 70, .cols = 33, .dtype = SN_BF16},
    {.group = "model", .name = "final_norm.weight", .rows = 33, .cols = 1, .dtype = SN_F16}};

static uint32_t bits_of(const struct sn_manifest_tensor *t, int64_t row, int64_t col)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "%s %s", t->group, t->name);
    return (uint32_t)sn_rng_bits(sn_rng_key(1, name), (uint64_t)(row * t->cols + col));
}

static float value_of(const struct sn_manifest_tensor *t, int64_t row, int64_t col)
{
    uint32_t bits = bits_of(t, row, col);
    float f;
    memcpy(&f, &bits, sizeof(f));
    return t->dtype == SN_F32    ? f
           : t->dtype == SN_BF16 ? sn_bf16_to_f32((uint16_t)bits)
                                 : sn_f16_to_f32((uint16_t)bits);
}

/* --- reading --------------------------------------------------------------------------------- */

/* Boxes that no writer had, then the whole. */
static const struct sn_box boxes[] = {{0, 0, 3, 1}, {2, 1, 3, 2}, {3, 0, 6, 2}, {0, 0, 0, 0}};
enum { N_BOXES = sizeof(boxes) / sizeof(boxes[0]) };

static bool read_box(struct sn_reader *r, const struct sn_manifest_tensor *want, struct sn_box box,
                     struct sn_err *err)
{
    struct sn_want w = {sn_manifest_find(&r->manifest, want->group, want->name), box};
    struct sn_feed *feed = NULL;
    float got[70 * 33];
    if (sn_feed_open(&feed, r, &w, 1, 1 << 16, err) != SN_OK)
        return false;
    bool same = sn_feed_next(feed, got, box.cols, err) == SN_OK;
    for (int64_t i = 0; i < sn_box_size(box) && same; i++) {
        float value = value_of(want, box.row + i / box.cols, box.col + i % box.cols);
        same = memcmp(&value, &got[i], sizeof(value)) == 0;
    }
    sn_feed_close(feed);
    return same;
}

static bool reads_right(struct sn_reader *r, const struct sn_manifest_tensor *want,
                        struct sn_err *err)
{
    const struct sn_manifest_tensor *have = sn_manifest_find(&r->manifest, want->group, want->name);
    struct sn_box whole = {0, 0, want->rows, want->cols};
    if (!have || have->rows != want->rows || have->cols != want->cols || have->dtype != want->dtype)
        return false;
    bool good = read_box(r, want, whole, err);
    for (int i = 0; i < N_BOXES && good; i++)
        if (sn_box_fits(boxes[i], want->rows, want->cols))
            good = read_box(r, want, boxes[i], err);
    return good;
}

static void check_texts(const char *name, struct sn_reader *r)
{
    const struct sn_manifest *m = &r->manifest;
    const struct sn_state_scalars *s = &m->scalars;
    char *text = NULL, *path = sn_format("%s/manifest.json", r->dir);
    size_t len = 0;
    struct sn_err err;
    struct sn_str again = {0};
    tap_ok(s->step == 100 && s->tokens == 4096 &&
               s->loss_scale == (m->schema == 1 ? 0.5f : 65536.0f) && m->config_hash == 7,
           "%s: the scalars are right", name);
    tap_text(m->model_text, "model:\n  family: llama\n", name);
    tap_text(m->layout_text, m->schema < 3 ? "" : LAYOUT, name);
    if (m->schema == SN_MANIFEST_SCHEMA) {
        sn_manifest_format(&again, m);
        tap_ok(sn_file_load(&text, &len, path, &err) == SN_OK && again.len == len &&
                   memcmp(text, again.p, len) == 0,
               "%s: today's writer would write the same manifest", name);
    }
    sn_str_fini(&again);
    sn_free(text);
    sn_free(path);
}

static void check_master(const char *name, const char *dir, const struct sn_manifest *m)
{
    struct sn_master *v = NULL;
    struct sn_err err = {.text = ""};
    enum sn_status st = sn_master_open(&v, dir, m, &err);
    for (int i = 0; i < m->n_tensors && st == SN_OK; i++)
        st = sn_master_check(v, i, &err);
    if (st == SN_OK)
        st = sn_master_prove(dir, m, &err);
    tap_ok(st == SN_OK, "%s: its master is right, byte for byte %s", name, err.text);
    sn_master_close(v);
}

static void a_golden_one_loads(const char *name, int schema, const struct sn_manifest_tensor *want)
{
    struct sn_reader r;
    struct sn_err err = {.text = ""};
    char dir[128];
    (void)snprintf(dir, sizeof(dir), "%s/%s/%s", FOLDER, name, STEP);
    if (!tap_ok(sn_reader_open(&r, dir, &err) == SN_OK, "%s: opens %s", name, err.text))
        return;
    tap_ok(r.manifest.schema == schema && r.manifest.n_tensors == N, "%s: has schema %d", name,
           schema);
    for (int i = 0; i < N; i++)
        tap_ok(reads_right(&r, &want[i], &err), "%s: %s %s is right bit for bit %s", name,
               want[i].group, want[i].name, err.text);
    check_texts(name, &r);
    if (sn_master_is_due(&r.manifest))
        check_master(name, dir, &r.manifest);
    sn_reader_close(&r);
}

/* --- writing --------------------------------------------------------------------------------- */

/* Who writes which box of which tensor, shard by shard, in the order of the files. */
static const struct {
    int tensor, shard;
    struct sn_box box;
} plan[N_PIECES] = {
    {0, 0, {0, 0, 31, 33}},  {0, 1, {31, 0, 39, 33}}, /* rows */
    {1, 0, {0, 0, 70, 16}},  {1, 1, {0, 16, 70, 17}}, /* columns */
    {2, 0, {0, 0, 40, 33}},                           /* a flat slice, and the rest */
    {2, 0, {40, 0, 1, 20}},  {2, 1, {40, 20, 1, 13}},
    {2, 1, {41, 0, 29, 33}}, {3, 1, {0, 0, 33, 1}}, /* whole */
};

struct golden {
    char dir[512], names[N_PIECES][SN_H5_NAME_MAX];
    bool is_single, names_master; /* the manifest has the hash of master.h5 */
    struct sn_h5_slot slot[N_SLOTS];
    struct sn_manifest m;
    struct sn_manifest_tensor tensors[N];
    struct sn_manifest_piece pieces[N_PIECES];
    struct sn_manifest_shard shards[2];
    uint64_t hashes[4 * N_PIECES];
};

static void describe(struct golden *g)
{
    struct sn_err err;
    for (int i = 0; i < N_PIECES; i++) {
        const struct sn_manifest_tensor *t = &large[plan[i].tensor];
        struct sn_box box = plan[i].box,
                      set = g->is_single ? (struct sn_box){0, 0, t->rows, t->cols} : box;
        (void)sn_manifest_dataset(g->names[i], sizeof(g->names[i]), t, set, &err);
        g->pieces[i] = (struct sn_manifest_piece){
            .box = box,
            .dataset = g->names[i],
            .shard = g->is_single ? 0 : plan[i].shard,
            .at_row = box.row - set.row,
            .at_col = box.col - set.col,
            .set_rows = set.rows,
            .set_cols = set.cols,
            .n_blocks = sn_manifest_blocks(sn_manifest_bytes(t, box), BLOCK),
            .hashes = &g->hashes[(size_t)i * 4]};
    }
    for (int i = 0, first = 0; i < N; i++, first += g->tensors[i - 1].n_pieces) {
        g->tensors[i] = large[i];
        g->tensors[i].pieces = &g->pieces[first];
        while (first + g->tensors[i].n_pieces < N_PIECES &&
               plan[first + g->tensors[i].n_pieces].tensor == i)
            g->tensors[i].n_pieces++;
    }
}

static enum sn_status put_piece(int fd, const char *path, const struct sn_manifest_tensor *t,
                                const struct sn_manifest_piece *p, const struct sn_h5_slot *slot,
                                struct sn_err *err)
{
    size_t size = sn_dtype_size(t->dtype), row = (size_t)p->box.cols * size;
    char bytes[70 * 33 * 4];
    for (int64_t i = 0; i < sn_box_size(p->box); i++) {
        uint32_t bits = bits_of(t, p->box.row + i / p->box.cols, p->box.col + i % p->box.cols);
        memcpy(bytes + (size_t)i * size, &bits, size);
    }
    for (int64_t k = 0, n = sn_manifest_bytes(t, p->box); k < p->n_blocks; k++)
        p->hashes[k] =
            sn_hash64(bytes + k * BLOCK, (size_t)(n - k * BLOCK < BLOCK ? n - k * BLOCK : BLOCK));
    for (int64_t r = 0; r < p->box.rows; r++) {
        uint64_t at = slot->offset + (uint64_t)((p->at_row + r) * p->set_cols + p->at_col) * size;
        SN_TRY(sn_file_put(fd, bytes + (size_t)r * row, row, at, path, "", err));
    }
    return SN_OK;
}

/* The datasets of one shard in one file; its pieces in them. */
static enum sn_status write_shard(struct golden *g, int shard, struct sn_err *err)
{
    int n = 0, slot_of[N_PIECES];
    char path[600];
    for (int i = 0; i < N_PIECES; i++) {
        const struct sn_manifest_piece *p = &g->pieces[i];
        if (p->shard != shard)
            continue;
        if (n == 0 || strcmp(g->slot[n - 1].dataset, p->dataset) != 0) {
            struct sn_h5_slot *s = &g->slot[n++];
            *s = (struct sn_h5_slot){
                .rows = p->set_rows, .cols = p->set_cols, .dtype = large[plan[i].tensor].dtype};
            memcpy(s->dataset, p->dataset, strlen(p->dataset));
        }
        slot_of[i] = n - 1;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", g->dir, g->shards[shard].file);
    SN_TRY(sn_h5_layout(path, n, g->slot, err));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    enum sn_status st = fd < 0 ? sn_file_fail(err, path, "open") : SN_OK;
    for (int i = 0; i < N_PIECES && st == SN_OK; i++)
        if (g->pieces[i].shard == shard)
            st = put_piece(fd, path, &large[plan[i].tensor], &g->pieces[i], &g->slot[slot_of[i]],
                           err);
    g->shards[shard].bytes = lseek(fd, 0, SEEK_END);
    (void)close(fd);
    return st;
}

static enum sn_status write_texts(const struct golden *g, struct sn_err *err)
{
    struct sn_str text = {0};
    char commit[SN_COMMIT_MAX], path[600];
    sn_manifest_format(&text, &g->m);
    sn_commit_format(commit, text.p, text.len, g->m.n_shards);
    (void)snprintf(path, sizeof(path), "%s/manifest.json", g->dir);
    enum sn_status st = sn_file_save(path, text.p, text.len, err);
    (void)snprintf(path, sizeof(path), "%s/COMMIT", g->dir);
    sn_str_fini(&text);
    return st == SN_OK ? sn_file_save(path, commit, strlen(commit), err) : st;
}

static enum sn_status make(const char *folder, const char *name, bool is_single, bool names_master,
                           struct sn_err *err)
{
    struct sn_manifest_master master;
    struct golden g = {
        .is_single = is_single,
        .names_master = names_master,
        .shards = {{is_single ? SN_MASTER_NAME : "shard-00000.h5", 0}, {"shard-00001.h5", 0}}};
    (void)snprintf(g.dir, sizeof(g.dir), "%s/%s/%s", folder, name, STEP);
    g.m = (struct sn_manifest){.scalars = {100, 4096, 100, 3, 1, 65536.0f},
                               .model_text = "model:\n  family: llama\n",
                               .layout_text = LAYOUT,
                               .config_hash = 7,
                               .block = BLOCK,
                               .n_shards = is_single ? 1 : 2,
                               .shards = g.shards,
                               .n_tensors = N,
                               .tensors = g.tensors};
    describe(&g);
    SN_TRY(sn_dir_make(g.dir, err));
    for (int s = 0; s < g.m.n_shards; s++)
        SN_TRY(write_shard(&g, s, err));
    SN_TRY(sn_master_write(g.dir, &g.m, &master, err));
    if (g.names_master)
        g.m.master = master;
    return write_texts(&g, err);
}

int main(int argc, char **argv)
{
    struct sn_err err;
    sn_log_set_level(SN_LOG_ERROR);
    if (argc == 2) {
        enum sn_status st = make(argv[1], "schema-3", false, false, &err);
        if (st == SN_OK)
            st = make(argv[1], "schema-3-single", true, false, &err);
        if (st == SN_OK)
            st = make(argv[1], "schema-3-master", false, true, &err);
        if (st != SN_OK)
            (void)fprintf(stderr, "%s\n", err.text);
        return (int)st;
    }
    a_golden_one_loads("schema-1", 1, tensor);
    a_golden_one_loads("schema-2", 2, tensor);
    a_golden_one_loads("schema-3", 3, large);
    a_golden_one_loads("schema-3-single", 3, large);
    a_golden_one_loads("schema-3-master", 3, large);
    return tap_done();
}
