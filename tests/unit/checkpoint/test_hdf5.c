/* Shards as HDF5 files: where bytes go, and that nothing else than what we write is believed. */
#include "checkpoint/format/hdf5.h"

#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct bench {
    char dir[64], path[96];
    struct sn_h5 *h;
    struct sn_err err;
};

static void setup(struct bench *b)
{
    *b = (struct bench){.dir = "/tmp/sn-hdf5-XXXXXX"};
    if (!mkdtemp(b->dir)) {
        perror(b->dir);
        exit(1);
    }
    (void)snprintf(b->path, sizeof(b->path), "%s/shard.h5", b->dir);
}

static void teardown(struct bench *b)
{
    (void)sn_dir_remove(b->dir, &b->err);
}

/* Opens the file and asks for one dataset. */
static enum sn_status locate(struct bench *b, struct sn_h5_slot *slot)
{
    b->err.text[0] = '\0';
    enum sn_status st = sn_h5_open(&b->h, b->path, &b->err);
    if (st != SN_OK)
        return st;
    slot->offset = 0;
    st = sn_h5_locate(b->h, slot, &b->err);
    sn_h5_close(b->h);
    return st;
}

static const struct sn_h5_slot slots[] = {
    {"/model/small", 3, 4, SN_F32, 0},         {"/model/large", 300, 70, SN_F32, 0},
    {"/model/bf16@7,0", 200, 200, SN_BF16, 0}, {"/model/fp16", 40000, 1, SN_F16, 0},
    {"/model/none", 0, 5, SN_BF16, 0},         {"/optim/exp_avg/row", 1, 9, SN_F32, 0}};
enum { N = sizeof(slots) / sizeof(slots[0]) };

static uint64_t bytes_of(const struct sn_h5_slot *s)
{
    return (uint64_t)(s->rows * s->cols) * sn_dtype_size(s->dtype);
}

static void what_was_laid_out_is_found(void)
{
    struct bench b;
    struct sn_h5_slot put[N], got[N];
    struct stat sb = {0};
    bool aligned = true, apart = true;
    setup(&b);
    memcpy(put, slots, sizeof(put));
    tap_ok(sn_h5_layout(b.path, N, put, &b.err) == SN_OK && stat(b.path, &sb) == 0,
           "a shard is laid out %s", b.err.text);
    for (int i = 0; i < N; i++) {
        aligned = aligned && (bytes_of(&put[i]) < 64 << 10 || put[i].offset % 4096 == 0);
        for (int k = 0; k < i; k++)
            apart = apart && (bytes_of(&put[i]) == 0 || bytes_of(&put[k]) == 0 ||
                              put[i].offset >= put[k].offset + bytes_of(&put[k]) ||
                              put[k].offset >= put[i].offset + bytes_of(&put[i]));
        got[i] = slots[i];
        tap_ok(locate(&b, &got[i]) == SN_OK &&
                   (bytes_of(&got[i]) == 0 || got[i].offset == put[i].offset) &&
                   got[i].offset + bytes_of(&got[i]) <= (uint64_t)sb.st_size,
               "%s is found where it was put %s", slots[i].dataset, b.err.text);
    }
    tap_ok(aligned, "large ones begin at multiples of 4096");
    tap_ok(apart, "none overlaps another");
    teardown(&b);
}

static enum sn_status write_master(struct bench *b, const struct sn_h5_master *m)
{
    struct sn_h5_image image;
    SN_TRY(sn_h5_make_master(&image, m, b->path, &b->err));
    enum sn_status st = sn_file_save(b->path, image.p, image.bytes, &b->err);
    sn_free(image.p);
    return st;
}

/* Nothing in either file has a time, so equal contents are equal bytes whenever
 * they are written. */
static void no_object_has_a_time(void)
{
    static const char *const names[] = {"/", "/model", "/optim", "/optim/exp_avg", "/model/small"};
    struct bench b;
    struct sn_h5_slot put[N];
    struct sn_h5_map map = {0, 0, 3, 4, "shard-00000.h5", "/model/small", 0, 0, 3, 4};
    const struct sn_h5_virtual sets[] = {{"/model/small", 3, 4, SN_F32, 1, &map},
                                         {"/optim/exp_avg/small", 3, 4, SN_F32, 1, &map}};
    const struct sn_h5_master master = {.n_sets = 2, .sets = sets};
    setup(&b);
    memcpy(put, slots, sizeof(put));
    for (int is_master = 0; is_master < 2; is_master++) {
        bool timeless = true;
        if ((is_master ? write_master(&b, &master) : sn_h5_layout(b.path, N, put, &b.err)) != SN_OK)
            exit(1);
        hid_t file = H5Fopen(b.path, H5F_ACC_RDONLY, H5P_DEFAULT);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            H5O_info_t info = {.mtime = 1};
            timeless = timeless && H5Oget_info_by_name(file, names[i], &info, H5P_DEFAULT) >= 0 &&
                       info.mtime == 0 && info.btime == 0;
        }
        (void)H5Fclose(file);
        tap_ok(timeless, "no object of a %s has a time", is_master ? "master" : "shard");
    }
    teardown(&b);
}

static void another_shape_or_type_is_refused(void)
{
    static const struct {
        struct sn_h5_slot slot;
        const char *says;
    } row[] = {
        {{"/model/small", 4, 3, SN_F32, 0}, "is 3 x 4, but the manifest says 4 x 3"},
        {{"/model/small", 12, 1, SN_F32, 0}, "is 3 x 4, but the manifest says 12 x 1"},
        {{"/model/fp16", 20000, 2, SN_F16, 0}, "is 40000 x 1, but the manifest says 20000 x 2"},
        {{"/model/fp16", 1, 40000, SN_F16, 0}, "is 40000 x 1, but the manifest says 1 x 40000"},
        {{"/model/fp16", 40000, 1, SN_BF16, 0}, "fp16 is not little-endian bf16 as the manifest"},
        {{"/model/bf16@7,0", 200, 200, SN_F16, 0}, "is not little-endian fp16 as the manifest"},
        {{"/model/small", 3, 4, SN_BF16, 0}, "is not little-endian bf16"},
        {{"/model/smal", 3, 4, SN_F32, 0}, "cannot open /model/smal: name doesn't exist"},
        {{"/model", 3, 4, SN_F32, 0}, "cannot open /model: not a dataset"},
        {{"/", 3, 4, SN_F32, 0}, "cannot open /: "},
        {{"/model//small", 4, 3, SN_F32, 0}, "shard.h5: "},
        {{"/model/small/", 4, 3, SN_F32, 0}, "shard.h5: "},
        {{"/model/./small", 4, 3, SN_F32, 0}, "shard.h5: "},
        {{"model/small", 4, 3, SN_F32, 0}, "shard.h5: "}};
    struct bench b;
    struct sn_h5_slot put[N];
    setup(&b);
    memcpy(put, slots, sizeof(put));
    (void)sn_h5_layout(b.path, N, put, &b.err);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_h5_slot slot = row[i].slot;
        tap_ok(locate(&b, &slot) == SN_EIO && strstr(b.err.text, row[i].says), "%s as %s: %s",
               slot.dataset, sn_dtype_name(slot.dtype), b.err.text);
    }
    teardown(&b);
}

/* --- files that others made ------------------------------------------------------------------ */

enum foreign {
    PLAIN, /* as ours, to show that it is not the way of making that is refused */
    CHUNKED,
    FILTERED,
    COMPACT,
    EXTERNAL_BYTES,
    VIRTUAL,
    EXTERNAL_LINK,
    SOFT_LINK,
    LINKED_GROUP,
    LATE, /* no space was allocated */
    BIG_END_FIRST,
    INTEGER,
    DOUBLE,
    THREE_DIMS,
    ANY_SIZE,
    OLD_FORMAT,
    N_FOREIGN
};

static void set_creation(hid_t creation, enum foreign kind)
{
    hsize_t dims[2] = {3, 4};
    if (kind == CHUNKED || kind == FILTERED || kind == ANY_SIZE)
        (void)H5Pset_chunk(creation, 2, dims);
    if (kind == FILTERED)
        (void)H5Pset_fletcher32(creation);
    if (kind == COMPACT)
        (void)H5Pset_layout(creation, H5D_COMPACT);
    if (kind == EXTERNAL_BYTES)
        (void)H5Pset_external(creation, "/etc/passwd", 0, 48);
    if (kind == VIRTUAL) {
        hid_t space = H5Screate_simple(2, dims, NULL);
        (void)H5Pset_virtual(creation, space, "other.h5", "/model/x", space);
        (void)H5Sclose(space);
    }
    if (kind != LATE && kind != EXTERNAL_BYTES && kind != VIRTUAL)
        (void)H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
}

static hid_t type_of(enum foreign kind)
{
    return kind == BIG_END_FIRST ? H5T_IEEE_F32BE
           : kind == INTEGER     ? H5T_STD_I32LE
           : kind == DOUBLE      ? H5T_IEEE_F64LE
                                 : H5T_IEEE_F32LE;
}

static void make_dataset(hid_t file, enum foreign kind, const char *name)
{
    hsize_t dims[3] = {3, 4, 1}, most[2] = {H5S_UNLIMITED, 4};
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    hid_t space =
        H5Screate_simple(kind == THREE_DIMS ? 3 : 2, dims, kind == ANY_SIZE ? most : NULL);
    (void)H5Pset_create_intermediate_group(links, 1);
    set_creation(creation, kind);
    hid_t set = H5Dcreate2(file, name, type_of(kind), space, links, creation, H5P_DEFAULT);
    (void)H5Dclose(set);
    (void)H5Sclose(space);
    (void)H5Pclose(links);
    (void)H5Pclose(creation);
}

/* /model/x in the file, or something of that name. */
static void make_foreign(const char *path, enum foreign kind)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5F_libver_t low = kind == OLD_FORMAT ? H5F_LIBVER_EARLIEST : H5F_LIBVER_V110;
    (void)H5Pset_libver_bounds(access, low, H5F_LIBVER_V110);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (kind == EXTERNAL_LINK || kind == SOFT_LINK) {
        (void)H5Gclose(H5Gcreate2(file, "/model", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        make_dataset(file, PLAIN, "/real/x");
    }
    if (kind == EXTERNAL_LINK)
        (void)H5Lcreate_external(path, "/real/x", file, "/model/x", H5P_DEFAULT, H5P_DEFAULT);
    else if (kind == SOFT_LINK)
        (void)H5Lcreate_soft("/real/x", file, "/model/x", H5P_DEFAULT, H5P_DEFAULT);
    else
        make_dataset(file, kind, kind == LINKED_GROUP ? "/real/x" : "/model/x");
    if (kind == LINKED_GROUP)
        (void)H5Lcreate_soft("/real", file, "/model", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Fclose(file);
    (void)H5Pclose(access);
}

static void what_others_made_is_refused(void)
{
    static const char *const says[N_FOREIGN] = {
        [CHUNKED] = "the values of /model/x are not stored there in one run",
        [FILTERED] = "the values of /model/x are not stored there in one run",
        [COMPACT] = "the values of /model/x are not stored there in one run",
        [EXTERNAL_BYTES] = "the values of /model/x are not stored there in one run",
        [VIRTUAL] = "the values of /model/x are not stored there in one run",
        [EXTERNAL_LINK] = "/model/x is a link to elsewhere",
        [SOFT_LINK] = "/model/x is a link to elsewhere",
        [LINKED_GROUP] = "/model is a link to elsewhere",
        [LATE] = "the 48 bytes of /model/x are not inside the file",
        [BIG_END_FIRST] = "/model/x is not little-endian fp32",
        [INTEGER] = "/model/x is not little-endian fp32",
        [DOUBLE] = "/model/x is not little-endian fp32",
        [THREE_DIMS] = "/model/x is neither a vector nor a matrix",
        [ANY_SIZE] = "the values of /model/x are not stored there in one run",
        [OLD_FORMAT] = "is not an HDF5 file as sennit writes it"};
    for (int i = PLAIN; i < N_FOREIGN; i++) {
        struct bench b;
        struct sn_h5_slot slot = {"/model/x", 3, 4, SN_F32, 0};
        setup(&b);
        make_foreign(b.path, (enum foreign)i);
        enum sn_status st = locate(&b, &slot);
        if (i == PLAIN)
            tap_ok(st == SN_OK && slot.offset > 0, "a plain one is taken %s", b.err.text);
        else
            tap_ok(st == SN_EIO && strstr(b.err.text, says[i]), "kind %d: %s", i, b.err.text);
        teardown(&b);
    }
}

/* --- damage that is found before HDF5 sees the file ------------------------------------------- */

static void put_byte(const char *path, off_t at, unsigned char byte)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &byte, 1, at) != 1)
        exit(1);
    (void)close(fd);
}

static void opening_says(struct bench *b, const char *says)
{
    struct sn_h5_slot slot = slots[0];
    tap_ok(locate(b, &slot) == SN_EIO && strstr(b->err.text, says), "%s", b->err.text);
}

static void garbage_is_refused_at_the_door(void)
{
    struct bench b;
    struct sn_h5_slot put[N];
    setup(&b);
    memcpy(put, slots, sizeof(put));
    (void)sn_h5_layout(b.path, N, put, &b.err);
    struct stat sb = {0};
    (void)stat(b.path, &sb);
    put_byte(b.path, 0, 0);
    opening_says(&b, "shard.h5: is no HDF5 file");
    put_byte(b.path, 0, 0x89);
    put_byte(b.path, 8, 2);
    opening_says(&b, "is not an HDF5 file as sennit writes it");
    put_byte(b.path, 8, 3);
    put_byte(b.path, 12, 1);
    opening_says(&b, "is not an HDF5 file as sennit writes it");
    put_byte(b.path, 12, 0);
    put_byte(b.path, 11, 1);
    opening_says(&b, "was not finished by who wrote it");
    put_byte(b.path, 11, 0);
    put_byte(b.path, 20, 1);
    opening_says(&b, "shard.h5: cannot open: incorrect metadata checksum");
    put_byte(b.path, 20, 0xff);
    struct sn_h5_slot slot = slots[0];
    tap_ok(locate(&b, &slot) == SN_OK, "all bytes put back, it opens %s", b.err.text);
    (void)truncate(b.path, sb.st_size - 1);
    opening_says(&b, " bytes where ");
    (void)truncate(b.path, 47);
    opening_says(&b, "has 47 bytes; that is no HDF5 file");
    (void)truncate(b.path, 0);
    opening_says(&b, "has 0 bytes; that is no HDF5 file");
    (void)unlink(b.path);
    opening_says(&b, "cannot open: No such file or directory");
    (void)mkfifo(b.path, 0600);
    opening_says(&b, "is not a plain file");
    (void)unlink(b.path);
    (void)mkdir(b.path, 0700);
    opening_says(&b, "is not a plain file");
    teardown(&b);
}

/* Open files are many when a shard of each of hundreds of ranks is read. */
static void many_open_files_stay_small(void)
{
    enum { FILES = 200, MOST = 2 << 20 };
    struct bench b;
    struct sn_h5 *open_ones[FILES] = {NULL};
    struct sn_h5_slot slot = slots[0];
    int opened = 0;
    long before = 0, after = 0, shared = 0;
    setup(&b);
    (void)sn_h5_layout(b.path, 1, &slot, &b.err);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < FILES;
             i++) { /* the same bytes under other names: other files to HDF5 */
            char command[300], path[128];
            (void)snprintf(path, sizeof(path), "%s/%d.h5", b.dir, i);
            (void)snprintf(command, sizeof(command), "cp %s %s", b.path, path);
            if (pass == 0 && system(command) == 0)
                continue;
            opened += sn_h5_open(&open_ones[i], path, &b.err) == SN_OK &&
                      sn_h5_locate(open_ones[i], &slot, &b.err) == SN_OK;
        }
        FILE *f = fopen("/proc/self/statm", "r");
        if (!f || fscanf(f, "%*d %ld %ld", pass ? &after : &before, &shared) != 2)
            exit(1);
        (void)fclose(f);
    }
    long each = (after - before) * sysconf(_SC_PAGESIZE) / FILES;
    tap_ok(opened == FILES && each < MOST, "%d open files take %ld KiB each", opened, each >> 10);
    for (int i = 0; i < FILES; i++)
        sn_h5_close(open_ones[i]);
    teardown(&b);
}

int main(void)
{
    sn_h5_setup();
    what_was_laid_out_is_found();
    no_object_has_a_time();
    another_shape_or_type_is_refused();
    what_others_made_is_refused();
    garbage_is_refused_at_the_door();
    many_open_files_stay_small();
    return tap_done();
}
