/* The master shows every tensor from its pieces, and any other master is refused by name. */
#include "checkpoint/format/master.h"

#include "checkpoint/format/hdf5.h"
#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_TENSORS = 5, N_PIECES = 10 };

/* A manifest of three shards by hand: tensors in slices by rows and by columns, a vector, one in a
 * larger dataset, one without values. */
struct bench {
    char dir[64];
    struct sn_manifest m;
    struct sn_manifest_shard shards[3];
    struct sn_manifest_tensor tensors[N_TENSORS];
    struct sn_manifest_piece pieces[N_PIECES];
    struct sn_err err;
};

static void add(struct bench *b, struct sn_box box, int shard, const char *dataset)
{
    struct sn_manifest_tensor *t = &b->tensors[b->m.n_tensors - 1];
    t->n_pieces++;
    b->pieces[b->m.n_pieces++] = (struct sn_manifest_piece){
        .box = box, .shard = shard, .dataset = dataset, .set_rows = box.rows, .set_cols = box.cols};
}

static void begin(struct bench *b, const char *group, const char *name, int64_t rows, int64_t cols,
                  enum sn_dtype dtype)
{
    b->tensors[b->m.n_tensors++] =
        (struct sn_manifest_tensor){group, name, rows, cols, dtype, 0, &b->pieces[b->m.n_pieces]};
}

static void setup(struct bench *b)
{
    *b = (struct bench){.dir = "/tmp/sn-master-XXXXXX",
                        .shards = {{"shard-00000.h5", 1}, {"shard-00001.h5", 2}, {"s3.h5", 3}}};
    if (!mkdtemp(b->dir)) {
        perror(b->dir);
        exit(1);
    }
    b->m = (struct sn_manifest){.model_text = "model:\n  family: llama\n",
                                .block = SN_BLOCK_BYTES,
                                .n_shards = 3,
                                .shards = b->shards,
                                .tensors = b->tensors,
                                .pieces = b->pieces};
    begin(b, "exp_avg", "rows", 9, 4, SN_F32);
    add(b, (struct sn_box){0, 0, 4, 4}, 0, "/optim/exp_avg/rows@0,0");
    add(b, (struct sn_box){4, 0, 5, 4}, 2, "/optim/exp_avg/rows@4,0");
    begin(b, "model", "columns", 3, 7, SN_BF16);
    add(b, (struct sn_box){0, 0, 3, 1}, 0, "/model/columns@0,0");
    add(b, (struct sn_box){0, 1, 3, 6}, 1, "/model/columns@0,1");
    begin(b, "model", "empty", 0, 4, SN_F32);
    add(b, (struct sn_box){0, 0, 0, 4}, 1, "/model/empty");
    begin(b, "model", "vector", 6, 1, SN_F16);
    add(b, (struct sn_box){0, 0, 2, 1}, 1, "/model/vector@0,0");
    add(b, (struct sn_box){2, 0, 4, 1}, 2, "/model/vector@2,0");
    begin(b, "model", "within", 8, 8, SN_F32);
    add(b, (struct sn_box){0, 0, 8, 3}, 1, "/model/within");
    add(b, (struct sn_box){0, 3, 8, 5}, 1, "/model/within");
    for (int i = 7; i < 9; i++) {
        b->pieces[i].set_rows = b->pieces[i].set_cols = 8;
        b->pieces[i].at_col = b->pieces[i].box.col;
    }
}

static void teardown(struct bench *b)
{
    (void)sn_dir_remove(b->dir, &b->err);
}

/* The first fault, as a status and a sentence. */
static enum sn_status check(struct bench *b)
{
    struct sn_master *v = NULL;
    b->err.text[0] = '\0';
    enum sn_status st = sn_master_open(&v, b->dir, &b->m, &b->err);
    for (int i = 0; i < b->m.n_tensors && st == SN_OK; i++)
        st = sn_master_check(v, i, &b->err);
    sn_master_close(v);
    return st;
}

static void what_was_written_is_right(void)
{
    struct bench b;
    setup(&b);
    tap_ok(sn_master_write(b.dir, &b.m, &b.m.master, &b.err) == SN_OK, "a master is written %s",
           b.err.text);
    tap_ok(check(&b) == SN_OK, "and is right %s", b.err.text);
    b.m.n_tensors = 0;
    tap_ok(sn_master_write(b.dir, &b.m, &b.m.master, &b.err) == SN_OK && check(&b) == SN_OK,
           "one of nothing too %s", b.err.text);
    teardown(&b);
}

static void who_has_no_master(void)
{
    struct bench b;
    setup(&b);
    b.m.block = INT64_MAX;
    tap_ok(!sn_master_is_due(&b.m), "schemas before 3 have none");
    b.m.block = SN_BLOCK_BYTES;
    b.m.n_shards = 1;
    b.shards[0].file = SN_MASTER_NAME;
    tap_ok(!sn_master_is_due(&b.m) && sn_master_write(b.dir, &b.m, &b.m.master, &b.err) == SN_OK &&
               rmdir(b.dir) == 0,
           "a single file has none: nothing is written");
    teardown(&b);
}

/* Many pieces with long names: the file fits into the memory that is set aside for it. */
static void large_ones_have_room(void)
{
    enum { TENSORS = 40, PIECES = 300, LONG = 150 };
    struct bench b;
    char names[TENSORS][LONG + 10], filler[LONG + 1];
    struct sn_manifest_tensor *tensors = sn_alloc_n(TENSORS, sizeof(*tensors));
    struct sn_manifest_piece *pieces = sn_alloc_n(TENSORS * PIECES, sizeof(*pieces));
    setup(&b);
    memset(filler, 'x', LONG);
    filler[LONG] = '\0';
    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%.*s%03d", i % LONG, filler, i);
        tensors[i] = (struct sn_manifest_tensor){"model", names[i],           PIECES, 3, SN_F32,
                                                 PIECES,  &pieces[i * PIECES]};
        for (int k = 0; k < PIECES; k++)
            pieces[i * PIECES + k] = (struct sn_manifest_piece){.box = {k, 0, 1, 3},
                                                                .dataset = "/model/x",
                                                                .shard = k % 3,
                                                                .set_rows = 1,
                                                                .set_cols = 3};
    }
    b.m.tensors = tensors;
    for (int n = 1; n <= TENSORS; n += 13) {
        b.m.n_tensors = n;
        tap_ok(sn_master_write(b.dir, &b.m, &b.m.master, &b.err) == SN_OK && check(&b) == SN_OK,
               "%d tensors of %d pieces %s", n, PIECES, b.err.text);
    }
    sn_free(tensors);
    sn_free(pieces);
    teardown(&b);
}

/* What the manifest says after the master was written. */
enum change { SHARD, PLACE, SWAP, TYPE, SHAPE, DATASET, LESS, NAME, N_CHANGES };

static void change(struct bench *b, enum change what)
{
    switch (what) {
    case SHARD:
        b->pieces[1].shard = 1;
        break;
    case PLACE:
        b->pieces[7].at_col = 1;
        break;
    case SWAP: /* rows of the two halves of a vector */
        b->pieces[5].box = (struct sn_box){4, 0, 2, 1};
        b->pieces[6].box = (struct sn_box){0, 0, 4, 1};
        break;
    case TYPE:
        b->tensors[1].dtype = SN_F16;
        break;
    case SHAPE:
        b->tensors[3].rows = 7;
        break;
    case DATASET:
        b->pieces[2].dataset = "/model/columns@1,0";
        break;
    case LESS:
        b->tensors[0].n_pieces--;
        break;
    case NAME:
        b->tensors[4].name = "without";
        break;
    case N_CHANGES:
        break;
    }
}

static void any_other_master_is_refused(void)
{
    static const char *const says[N_CHANGES] = {
        [SHARD] = "/optim/exp_avg/rows takes row 4, column 0 from 's3.h5', but not as the manifest "
                  "says from /optim/exp_avg/rows@4,0 of shard-00001.h5 (tensor exp_avg rows)",
        [PLACE] = "/model/within takes row 0, column 0 from 'shard-00001.h5', but not as",
        [SWAP] = "/model/vector takes row 4, column 0 from 'shard-00001.h5', but not as",
        [TYPE] = "/model/columns is not little-endian fp16 as the manifest says (tensor model",
        [SHAPE] = "/model/vector is 6 x 1, but the manifest says 7 x 1 (tensor model vector)",
        [DATASET] = "/model/columns takes row 0, column 0 from 'shard-00000.h5', but not as the "
                    "manifest says from /model/columns@1,0 of shard-00000.h5",
        [LESS] = "/optim/exp_avg/rows is not a virtual dataset of 1 pieces",
        [NAME] = "cannot open /model/without: name doesn't exist (tensor model without)"};
    for (int i = 0; i < N_CHANGES; i++) {
        struct bench b;
        setup(&b);
        (void)sn_master_write(b.dir, &b.m, &b.m.master, &b.err);
        change(&b, (enum change)i);
        tap_ok(check(&b) == SN_EIO && strstr(b.err.text, says[i]), "%s", says[i]);
        printf("# %s\n", b.err.text);
        teardown(&b);
    }
}

static void a_shard_in_its_place_is_refused(void)
{
    struct bench b;
    char path[128];
    struct sn_h5_slot slot = {.dataset = "/optim/exp_avg/rows", .rows = 9, .cols = 4};
    setup(&b);
    tap_ok(check(&b) == SN_EIO && strstr(b.err.text, "master.h5: cannot open: No such file"),
           "a missing one is named");
    (void)snprintf(path, sizeof(path), "%s/%s", b.dir, SN_MASTER_NAME);
    (void)sn_h5_layout(path, 1, &slot, &b.err);
    tap_ok(check(&b) == SN_EIO && strstr(b.err.text, "is not a virtual dataset of 2 pieces"),
           "a plain dataset of the same name and shape is refused");
    teardown(&b);
}

static void put_byte(const char *path, const char *image, int64_t at, int flip)
{
    char c = (char)(image[at] ^ flip);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &c, 1, (off_t)at) != 1 || close(fd) != 0)
        exit(1);
}

/* One bit of each step-th byte differs, attributes and unused bytes included.
 * HDF5 never sees it. */
static void every_flip_is_named(bool has_hash, int64_t step, const char *says)
{
    struct bench b;
    char path[128], *image;
    size_t len;
    int64_t missed = 0, n = 0;
    setup(&b);
    (void)sn_master_write(b.dir, &b.m, &b.m.master, &b.err);
    int64_t bytes = b.m.master.bytes;
    if (!has_hash)
        b.m.master.bytes = 0;
    tap_ok(bytes > 1000 && sn_master_prove(b.dir, &b.m, &b.err) == SN_OK,
           "the %lld bytes that were written are proven", (long long)bytes);
    (void)snprintf(path, sizeof(path), "%s/%s", b.dir, SN_MASTER_NAME);
    if (sn_file_load(&image, &len, path, &b.err) != SN_OK || (int64_t)len != bytes)
        exit(1);
    for (int64_t at = 0; at < bytes; at += step, n++) {
        put_byte(path, image, at, 1 << (at % 8));
        missed += sn_master_prove(b.dir, &b.m, &b.err) != SN_EIO || !strstr(b.err.text, says);
        put_byte(path, image, at, 0);
    }
    tap_ok(n > 100 && missed == 0, "each of %lld flipped bits is named, %lld missed: %s",
           (long long)n, (long long)missed, b.err.text);
    (void)truncate(path, (off_t)bytes - 1);
    tap_ok(sn_master_prove(b.dir, &b.m, &b.err) == SN_EIO, "so is a lost end: %s", b.err.text);
    sn_free(image);
    teardown(&b);
}

static void odd_names_are_refused(void)
{
    static const char *const names[] = {"", ".", "a/b", "a@0,0", "100%b"};
    char out[SN_H5_NAME_MAX], narrow[15];
    struct sn_err err;
    struct sn_manifest_tensor t = {.group = "model", .name = "weight", .rows = 3, .cols = 4};
    tap_ok(sn_manifest_dataset(narrow, sizeof(narrow), &t, (struct sn_box){0, 0, 3, 4}, &err) ==
                   SN_OK &&
               strcmp(narrow, "/model/weight") == 0,
           "a whole tensor has the plain name");
    tap_ok(sn_manifest_dataset(narrow, sizeof(narrow), &t, (struct sn_box){1, 0, 2, 4}, &err) ==
               SN_EINPUT,
           "a name that is too long is refused");
    tap_text(err.text, "checkpoint: 'model weight' is no name for a tensor", "with a sentence");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        t.name = names[i];
        tap_ok(sn_manifest_dataset(out, sizeof(out), &t, (struct sn_box){0, 0, 3, 4}, &err) ==
                   SN_EINPUT,
               "'%s' is refused", names[i]);
    }
}

static void no_space_and_no_memory_are_told(void)
{
    struct bench b;
    int n = 0;
    setup(&b);
    enum sn_status st = SN_EIO;
    for (; st != SN_OK && n < 1000; n++) {
        sn_mem_fail_at((uint64_t)n + 1);
        st = sn_master_write(b.dir, &b.m, &b.m.master, &b.err);
        if (st == SN_OK)
            st = check(&b);
        sn_mem_fail_at(0);
        if (st != SN_OK && !b.err.text[0])
            break;
    }
    tap_ok(st == SN_OK && n > 6, "%d allocations fail, each is told", n - 1);
    char dir[80];
    (void)snprintf(dir, sizeof(dir), "%s/none", b.dir);
    tap_ok(sn_master_write(dir, &b.m, &b.m.master, &b.err) == SN_EIO &&
               strstr(b.err.text, "none/master.h5: "),
           "a folder that is not there is named: %s", b.err.text);
    char path[128];
    struct stat sb;
    (void)snprintf(path, sizeof(path), "%s/%s", b.dir, SN_MASTER_NAME);
    struct rlimit small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY}, before;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &small);
    enum sn_status full = sn_master_write(b.dir, &b.m, &b.m.master, &b.err);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    tap_ok(full == SN_EIO && strstr(b.err.text, "File too large; free some space"),
           "a file that may not grow is told: %s", b.err.text);
    tap_ok(unlink(path) == 0 && symlink("/dev/null", path) == 0 &&
               sn_master_write(b.dir, &b.m, &b.m.master, &b.err) == SN_OK &&
               lstat(path, &sb) == 0 && S_ISREG(sb.st_mode),
           "a link in its place is replaced, not followed");
    teardown(&b);
}

int main(void)
{
    what_was_written_is_right();
    who_has_no_master();
    large_ones_have_room();
    any_other_master_is_refused();
    a_shard_in_its_place_is_refused();
    every_flip_is_named(true, 1, "/master.h5: its bytes are not those that were saved");
    every_flip_is_named(false, 11,
                        "it is not what is written for this manifest, which has no hash");
    odd_names_are_refused();
    no_space_and_no_memory_are_told();
    return tap_done();
}
