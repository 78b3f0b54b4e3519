/* hdf5.c - files in the format of HDF5 1.10, which every later release reads. */
#include "checkpoint/format/hdf5.h"

#include "checkpoint/format/hdf5_inner.h"
#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards hold little-endian numbers");
_Static_assert(sizeof(hid_t) == sizeof(int64_t), "built for HDF5 1.10 or later");

enum { ALIGNMENT = 4096, ALIGN_FROM = 64 << 10 }; /* bytes */

void sn_h5_setup(void)
{
    (void)setenv("HDF5_USE_FILE_LOCKING", "FALSE",
                 1); /* fails only without memory: locks then stay */
    (void)unsetenv("HDF5_VDS_PREFIX");
}

struct reason {
    char text[200];
};

/* Called from the innermost record outwards; the innermost knows the cause. */
static herr_t take_innermost(unsigned n, const H5E_error2_t *e, void *user)
{
    struct reason *r = user;
    if (n != 0 || !e->desc)
        return 0;
    const char *system_says = strstr(e->desc, "error message = '");
    if (system_says) {
        system_says += strlen("error message = '");
        (void)snprintf(r->text, sizeof(r->text), "%.*s", (int)strcspn(system_says, "'"),
                       system_says);
    } else {
        (void)snprintf(r->text, sizeof(r->text), "%s", e->desc);
    }
    return 0;
}

enum sn_status sn_h5_fail(struct sn_err *err, const char *path, const char *dataset,
                          const char *doing)
{
    struct reason r = {"no reason given"};
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &r); /* without it: "no reason" */
    return sn_fail(err, SN_EIO, "%s: cannot %s%s%s: %s", path, doing, *dataset ? " " : "", dataset,
                   r.text);
}

enum sn_status sn_h5_reserve(void **reserve, size_t bytes, const char *path, struct sn_err *err)
{
    char text[16];
    *reserve = sn_mem_reserve(bytes);
    if (*reserve)
        return SN_OK;
    return sn_fail(err, SN_ENOMEM, "%s: no memory: HDF5 may need %s for it", path,
                   sn_str_bytes(text, (int64_t)bytes));
}

void sn_h5_drop(herr_t (*close)(hid_t), hid_t id)
{
    hid_t why = H5Eget_current_stack(); /* which each call of HDF5 begins anew */
    (void)close(id);                    /* memory only */
    if (why >= 0)
        (void)H5Eset_current_stack(why);
}

void sn_h5_silence(void)
{
    (void)H5dont_atexit(); /* fails when it was called before */
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

hid_t sn_h5_access(void)
{
    hid_t p = H5Pcreate(H5P_FILE_ACCESS);
    if (p < 0)
        return p;
    if (H5Pset_libver_bounds(p, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0 ||
        H5Pset_alignment(p, ALIGN_FROM, ALIGNMENT) < 0 ||
        H5Pset_fclose_degree(p, H5F_CLOSE_STRONG) < 0) {
        (void)H5Pclose(p);
        return H5I_INVALID_HID;
    }
    return p;
}

void sn_h5_close_types(const hid_t type[SN_F16 + 1])
{
    for (int d = SN_F32; d <= SN_F16; d++)
        if (type[d] >= 0)
            (void)H5Tclose(type[d]); /* memory only */
}

/* A 16-bit float: sign, exponent, fraction from the highest bit down. */
static hid_t half_type(size_t exponent_at, size_t exponent_bits, size_t bias)
{
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    if (t < 0)
        return t;
    if (H5Tset_fields(t, 15, exponent_at, exponent_bits, 0, exponent_at) < 0 ||
        H5Tset_precision(t, 16) < 0 || H5Tset_size(t, 2) < 0 || H5Tset_ebias(t, bias) < 0) {
        (void)H5Tclose(t);
        return H5I_INVALID_HID;
    }
    return t;
}

/* HDF5's own names for these two came with 1.14 and 2.0. */
bool sn_h5_make_types(hid_t type[SN_F16 + 1])
{
    type[SN_F32] = H5Tcopy(H5T_IEEE_F32LE);
    type[SN_BF16] = half_type(7, 8, 127);
    type[SN_F16] = half_type(10, 5, 15);
    if (type[SN_F32] >= 0 && type[SN_BF16] >= 0 && type[SN_F16] >= 0)
        return true;
    sn_h5_close_types(type);
    return false;
}

/* Space is there as soon as the dataset is, and is never filled: our pwrite does that. No time
 * stamps, so that equal states give equal bytes. */
static hid_t dataset_creation(void)
{
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);
    if (p < 0)
        return p;
    if (H5Pset_layout(p, H5D_CONTIGUOUS) < 0 || H5Pset_alloc_time(p, H5D_ALLOC_TIME_EARLY) < 0 ||
        H5Pset_fill_time(p, H5D_FILL_TIME_NEVER) < 0 || H5Pset_obj_track_times(p, false) < 0) {
        (void)H5Pclose(p);
        return H5I_INVALID_HID;
    }
    return p;
}

hid_t sn_h5_create(const char *path, hid_t access)
{
    hid_t creation = H5Pcreate(H5P_FILE_CREATE), file = H5I_INVALID_HID;
    if (creation < 0)
        return creation;
    if (H5Pset_obj_track_times(creation, false) >= 0) /* of the root */
        file = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    sn_h5_drop(H5Pclose, creation);
    return file;
}

static bool make_group(hid_t file, const char *path)
{
    htri_t exists = H5Lexists(file, path, H5P_DEFAULT);
    if (exists != 0)
        return exists > 0;
    hid_t creation = H5Pcreate(H5P_GROUP_CREATE), group = H5I_INVALID_HID;
    if (creation < 0)
        return false;
    if (H5Pset_obj_track_times(creation, false) >= 0)
        group = H5Gcreate2(file, path, H5P_DEFAULT, creation, H5P_DEFAULT);
    sn_h5_drop(H5Pclose, creation);
    return group >= 0 && H5Gclose(group) >= 0;
}

bool sn_h5_make_groups(hid_t file, const char *dataset)
{
    char path[SN_H5_NAME_MAX];
    for (const char *end = strchr(dataset + 1, '/'); end; end = strchr(end + 1, '/')) {
        (void)snprintf(path, sizeof(path), "%.*s", (int)(end - dataset), dataset);
        if (!make_group(file, path))
            return false;
    }
    return true;
}

hid_t sn_h5_shape(int64_t rows, int64_t cols)
{
    hsize_t dims[2] = {(hsize_t)rows, (hsize_t)cols};
    return H5Screate_simple(cols == 1 ? 1 : 2, dims, NULL);
}

static enum sn_status create_slot(hid_t file, hid_t type, hid_t creation, const char *path,
                                  struct sn_h5_slot *s, struct sn_err *err)
{
    if (!sn_h5_make_groups(file, s->dataset))
        return sn_h5_fail(err, path, s->dataset, "make the groups of");
    hid_t space = sn_h5_shape(s->rows, s->cols);
    if (space < 0)
        return sn_h5_fail(err, path, s->dataset, "describe");
    enum sn_status st = SN_OK;
    hid_t set = H5Dcreate2(file, s->dataset, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    if (set < 0) {
        st = sn_h5_fail(err, path, s->dataset, "create");
        goto out_space;
    }
    bool is_empty = s->rows == 0 || s->cols == 0;
    haddr_t at = is_empty ? 0 : H5Dget_offset(set);
    if (at == HADDR_UNDEF)
        st = sn_h5_fail(err, path, s->dataset, "place");
    if (H5Dclose(set) < 0 && st == SN_OK)
        st = sn_h5_fail(err, path, s->dataset, "close");
    if (st == SN_OK)
        s->offset = (uint64_t)at;
out_space:
    (void)H5Sclose(space); /* memory only */
    return st;
}

static enum sn_status create_slots(hid_t file, const char *path, int n, struct sn_h5_slot *slots,
                                   struct sn_err *err)
{
    hid_t creation = dataset_creation(), type[SN_F16 + 1];
    enum sn_status st = SN_OK;
    bool typed = sn_h5_make_types(type);
    if (creation < 0 || !typed)
        st = sn_h5_fail(err, path, "", "set up");
    for (int i = 0; i < n && st == SN_OK; i++)
        st = create_slot(file, type[slots[i].dtype], creation, path, &slots[i], err);
    if (typed)
        sn_h5_close_types(type);
    if (creation >= 0)
        (void)H5Pclose(creation); /* memory only */
    return st;
}

static enum sn_status lay_out(const char *path, int n, struct sn_h5_slot *slots, struct sn_err *err)
{
    sn_h5_silence();
    hid_t access = sn_h5_access();
    if (access < 0)
        return sn_h5_fail(err, path, "", "set up");
    enum sn_status st = SN_OK;
    hid_t file = sn_h5_create(path, access);
    if (file < 0) {
        st = sn_h5_fail(err, path, "", "create");
        goto out_access;
    }
    st = create_slots(file, path, n, slots, err);
    if (H5Fclose(file) < 0 && st == SN_OK)
        st = sn_h5_fail(err, path, "", "write");
out_access:
    (void)H5Pclose(access); /* memory only */
    return st;
}

enum sn_status sn_h5_layout(const char *path, int n, struct sn_h5_slot *slots, struct sn_err *err)
{
    void *reserve;
    SN_TRY(sn_h5_reserve(&reserve, SN_H5_BASE + (size_t)n * SN_H5_SLOT, path, err));
    enum sn_status st = lay_out(path, n, slots, err);
    sn_mem_release(reserve);
    return st;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Many shards may be open at once, and each dataset is looked up once: a small cache, which does
 * not grow, is enough. */
static bool use_small_cache(hid_t access)
{
    H5AC_cache_config_t c = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    if (H5Pget_mdc_config(access, &c) < 0)
        return false;
    c.set_initial_size = true;
    c.initial_size = c.min_size = c.max_size = 256 << 10;
    c.incr_mode = H5C_incr__off;
    c.flash_incr_mode = H5C_flash_incr__off;
    c.decr_mode = H5C_decr__off;
    return H5Pset_mdc_config(access, &c) >= 0;
}

static enum sn_status open_read_only(hid_t *out, const char *path, struct sn_err *err)
{
    hid_t access = sn_h5_access(), file = H5I_INVALID_HID;
    enum sn_status st = SN_OK;
    if (access < 0)
        return sn_h5_fail(err, path, "", "set up");
    if (!use_small_cache(access))
        st = sn_h5_fail(err, path, "", "set up");
    else if ((file = H5Fopen(path, H5F_ACC_RDONLY, access)) < 0)
        st = sn_h5_fail(err, path, "", "open");
    (void)H5Pclose(access); /* memory only */
    *out = file;
    return st;
}

/* Cheap questions to the superblock before HDF5 sees the file; it is kept from most garbage by
 * them, and the rest of what we write has checksums of its own. */
static enum sn_status check_superblock(const unsigned char *b, uint64_t size, const char *path,
                                       struct sn_err *err)
{
    enum { VERSION = 8, FLAGS = 11, BASE = 12, END = 28 };
    static const unsigned char start[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 3, 8, 8};
    uint64_t base, end;
    memcpy(&base, b + BASE, sizeof(base));
    memcpy(&end, b + END, sizeof(end));
    if (memcmp(b, start, VERSION) != 0)
        return sn_fail(err, SN_EIO, "%s: is no HDF5 file", path);
    if (memcmp(b, start, sizeof(start)) != 0 || base != 0)
        return sn_fail(err, SN_EIO, "%s: is not an HDF5 file as sennit writes it", path);
    if (b[FLAGS] != 0)
        return sn_fail(err, SN_EIO, "%s: was not finished by who wrote it", path);
    if (end > size)
        return sn_fail(err, SN_EIO, "%s: has %" PRIu64 " bytes where %" PRIu64 " were written",
                       path, size, end);
    return SN_OK;
}

static enum sn_status check_start(uint64_t bytes, int fd, const char *path, struct sn_err *err)
{
    unsigned char b[48] = {0};
    ssize_t n = pread(fd, b, sizeof(b), 0);
    if (n < 0)
        return sn_file_fail(err, path, "read");
    if ((size_t)n < sizeof(b))
        return sn_fail(err, SN_EIO, "%s: has %zd bytes; that is no HDF5 file", path, n);
    return check_superblock(b, bytes, path, err);
}

static enum sn_status check_file(uint64_t *bytes, const char *path, struct sn_err *err)
{
    struct stat id;
    int fd = sn_file_open(path, &id, err);
    if (fd < 0)
        return err->status;
    *bytes = (uint64_t)id.st_size;
    enum sn_status st = check_start(*bytes, fd, path, err);
    (void)close(fd); /* read only */
    return st;
}

static enum sn_status open_checked(struct sn_h5 *h, const char *path, struct sn_err *err)
{
    void *reserve;
    SN_TRY(check_file(&h->bytes, path, err));
    SN_TRY(sn_h5_reserve(&reserve, SN_H5_BASE, path, err));
    sn_h5_silence();
    enum sn_status st = open_read_only(&h->file, path, err);
    if (st == SN_OK && !sn_h5_make_types(h->type)) {
        st = sn_h5_fail(err, path, "", "set up");
        (void)H5Fclose(h->file); /* read only: nothing can be lost */
    }
    sn_mem_release(reserve);
    return st;
}

enum sn_status sn_h5_open(struct sn_h5 **out, const char *path, struct sn_err *err)
{
    struct sn_h5 *h = sn_alloc(sizeof(*h));
    char *name = sn_strdup(path);
    enum sn_status st = SN_ENOMEM;
    if (!h || !name)
        (void)sn_fail(err, st, "%s: no memory to open it", path);
    else
        st = open_checked(h, path, err);
    if (st != SN_OK) {
        sn_free(name);
        sn_free(h);
        return st;
    }
    h->path = name;
    *out = h;
    return SN_OK;
}

void sn_h5_close(struct sn_h5 *h)
{
    if (!h)
        return;
    sn_h5_close_types(h->type);
    (void)H5Fclose(h->file); /* read only: nothing can be lost */
    sn_free(h->path);
    sn_free(h);
}

enum sn_status sn_h5_check_links(const struct sn_h5 *h, const char *dataset, struct sn_err *err)
{
    char part[SN_H5_NAME_MAX];
    const char *end = dataset;
    do {
        end = strchrnul(end + 1, '/');
        H5L_info_t link;
        (void)snprintf(part, sizeof(part), "%.*s", (int)(end - dataset), dataset);
        if (H5Lget_info(h->file, part, &link, H5P_DEFAULT) < 0)
            return sn_h5_fail(err, h->path, dataset, "open");
        if (link.type != H5L_TYPE_HARD)
            return sn_fail(err, SN_EIO, "%s: %s is a link to elsewhere; the file was altered",
                           h->path, part);
    } while (*end);
    return SN_OK;
}

enum sn_status sn_h5_check_values(const struct sn_h5 *h, hid_t set, const struct sn_h5_slot *s,
                                  struct sn_err *err)
{
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t dims[2] = {1, 1};
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (rank == 1 || rank == 2)
        rank = H5Sget_simple_extent_dims(space, dims, NULL);
    bool same_type = type >= 0 && H5Tequal(type, h->type[s->dtype]) > 0;
    if (type >= 0)
        (void)H5Tclose(type); /* memory only */
    if (space >= 0)
        (void)H5Sclose(space);
    if (!same_type)
        return sn_fail(err, SN_EIO, "%s: %s is not little-endian %s as the manifest says", h->path,
                       s->dataset, sn_dtype_name(s->dtype));
    if (rank != 1 && rank != 2)
        return sn_fail(err, SN_EIO, "%s: %s is neither a vector nor a matrix", h->path, s->dataset);
    if (rank != (s->cols == 1 ? 1 : 2) || dims[0] != (hsize_t)s->rows ||
        dims[1] != (hsize_t)s->cols)
        return sn_fail(err, SN_EIO, "%s: %s is %llu x %llu, but the manifest says %lld x %lld",
                       h->path, s->dataset, (unsigned long long)dims[0],
                       (unsigned long long)dims[1], (long long)s->rows, (long long)s->cols);
    return SN_OK;
}

static H5D_layout_t layout_of(hid_t set, bool *is_plain)
{
    hid_t creation = H5Dget_create_plist(set);
    if (creation < 0)
        return H5D_LAYOUT_ERROR;
    H5D_layout_t layout = H5Pget_layout(creation);
    *is_plain = H5Pget_nfilters(creation) == 0 && H5Pget_external_count(creation) == 0;
    (void)H5Pclose(creation); /* memory only */
    return layout;
}

static enum sn_status find_bytes(const struct sn_h5 *h, hid_t set, struct sn_h5_slot *s,
                                 struct sn_err *err)
{
    SN_TRY(sn_h5_check_values(h, set, s, err));
    bool is_plain = false;
    if (layout_of(set, &is_plain) != H5D_CONTIGUOUS || !is_plain)
        return sn_fail(err, SN_EIO,
                       "%s: the values of %s are not stored there in one run; the file was altered",
                       h->path, s->dataset);
    uint64_t bytes = (uint64_t)s->rows * (uint64_t)s->cols * sn_dtype_size(s->dtype);
    haddr_t at = H5Dget_offset(set);
    if (bytes == 0)
        at = 0;
    if (at == HADDR_UNDEF || at > h->bytes || bytes > h->bytes - at)
        return sn_fail(err, SN_EIO,
                       "%s: the %" PRIu64 " bytes of %s are not inside the file; it was cut or "
                       "altered",
                       h->path, bytes, s->dataset);
    s->offset = (uint64_t)at;
    return SN_OK;
}

enum sn_status sn_h5_open_set(hid_t *out, const struct sn_h5 *h, const char *dataset,
                              struct sn_err *err)
{
    sn_h5_silence();
    SN_TRY(sn_h5_check_links(h, dataset, err));
    *out = H5Dopen2(h->file, dataset, H5P_DEFAULT);
    return *out < 0 ? sn_h5_fail(err, h->path, dataset, "open") : SN_OK;
}

enum sn_status sn_h5_locate(struct sn_h5 *h, struct sn_h5_slot *slot, struct sn_err *err)
{
    hid_t set;
    void *reserve;
    SN_TRY(sn_h5_reserve(&reserve, SN_H5_LOOK, h->path, err));
    enum sn_status st = sn_h5_open_set(&set, h, slot->dataset, err);
    if (st == SN_OK) {
        st = find_bytes(h, set, slot, err);
        (void)H5Dclose(set); /* read only: nothing can be lost */
    }
    sn_mem_release(reserve);
    return st;
}

enum sn_status sn_h5_locate_all(const char *path, int n, struct sn_h5_slot *slots,
                                struct sn_err *err)
{
    struct sn_h5 *h;
    SN_TRY(sn_h5_open(&h, path, err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < n && st == SN_OK; i++)
        st = sn_h5_locate(h, &slots[i], err);
    sn_h5_close(h);
    return st;
}
