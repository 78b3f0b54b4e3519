/* The one file that includes hdf5.h. Written with the file format of 1.10, which every later
 * release reads (facts/checkpoints.md 2.2). */
#include "checkpoint/hdf5.h"

#include "lib/base/mem.h"

#include <hdf5.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "shards hold little-endian numbers");
_Static_assert(sizeof(hid_t) == sizeof(int64_t), "built for HDF5 1.10 or later");

enum { ALIGNMENT = 4096, ALIGN_FROM = 64 << 10 }; /* bytes */

struct sn_h5 {
    hid_t file;
    char *path;
};

void sn_h5_setup(void)
{
    (void)setenv("HDF5_USE_FILE_LOCKING", "FALSE",
                 1); /* fails only without memory: locks then stay */
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

/* Must follow the failed call at once: the next HDF5 call clears the record. */
static enum sn_status h5_fail(struct sn_err *err, const char *path, const char *dataset,
                              const char *doing)
{
    struct reason r = {"no reason given"};
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &r); /* without it: "no reason" */
    return sn_fail(err, SN_EIO, "%s: cannot %s%s%s: %s", path, doing, *dataset ? " " : "", dataset,
                   r.text);
}

/* HDF5 prints its stack to stderr unless told not to, per thread. And at exit it closes what it
 * believes open: after a close that failed for lack of space, 1.10 dies of that (SIGSEGV in
 * H5F__close_cb), so it is told not to; all our files are closed by then. */
static void silence(void)
{
    (void)H5dont_atexit(); /* fails when it was called before */
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static hid_t file_access(void)
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

static hid_t link_creation(void)
{
    hid_t p = H5Pcreate(H5P_LINK_CREATE);
    if (p < 0)
        return p;
    if (H5Pset_create_intermediate_group(p, 1) < 0) {
        (void)H5Pclose(p);
        return H5I_INVALID_HID;
    }
    return p;
}

static hid_t shape_of(int64_t rows, int64_t cols)
{
    hsize_t dims[2] = {(hsize_t)rows, (hsize_t)cols};
    return H5Screate_simple(cols == 1 ? 1 : 2, dims, NULL);
}

static enum sn_status create_slot(hid_t file, hid_t links, hid_t creation, const char *path,
                                  struct sn_h5_slot *s, struct sn_err *err)
{
    hid_t space = shape_of(s->rows, s->cols);
    if (space < 0)
        return h5_fail(err, path, s->dataset, "describe");
    enum sn_status st = SN_OK;
    hid_t set = H5Dcreate2(file, s->dataset, H5T_IEEE_F32LE, space, links, creation, H5P_DEFAULT);
    if (set < 0) {
        st = h5_fail(err, path, s->dataset, "create");
        goto out_space;
    }
    haddr_t at = H5Dget_offset(set);
    if (at == HADDR_UNDEF && s->rows > 0 && s->cols > 0)
        st = h5_fail(err, path, s->dataset, "place");
    if (H5Dclose(set) < 0 && st == SN_OK)
        st = h5_fail(err, path, s->dataset, "close");
    if (st == SN_OK)
        s->offset = (uint64_t)at;
out_space:
    (void)H5Sclose(space); /* memory only */
    return st;
}

static enum sn_status create_slots(hid_t file, const char *path, int n, struct sn_h5_slot *slots,
                                   struct sn_err *err)
{
    hid_t links = link_creation(), creation = dataset_creation();
    enum sn_status st = SN_OK;
    if (links < 0 || creation < 0)
        st = h5_fail(err, path, "", "set up");
    for (int i = 0; i < n && st == SN_OK; i++)
        st = create_slot(file, links, creation, path, &slots[i], err);
    if (creation >= 0)
        (void)H5Pclose(creation); /* memory only */
    if (links >= 0)
        (void)H5Pclose(links);
    return st;
}

enum sn_status sn_h5_layout(const char *path, int n, struct sn_h5_slot *slots, struct sn_err *err)
{
    silence();
    hid_t access = file_access();
    if (access < 0)
        return h5_fail(err, path, "", "set up");
    enum sn_status st = SN_OK;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0) {
        st = h5_fail(err, path, "", "create");
        goto out_access;
    }
    st = create_slots(file, path, n, slots, err);
    if (H5Fclose(file) < 0 && st == SN_OK)
        st = h5_fail(err, path, "", "write");
out_access:
    (void)H5Pclose(access); /* memory only */
    return st;
}

static enum sn_status open_read_only(hid_t *out, const char *path, struct sn_err *err)
{
    hid_t access = file_access();
    if (access < 0)
        return h5_fail(err, path, "", "set up");
    enum sn_status st = SN_OK;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (file < 0)
        st = h5_fail(err, path, "", "open");
    (void)H5Pclose(access); /* memory only */
    *out = file;
    return st;
}

enum sn_status sn_h5_open(struct sn_h5 **out, const char *path, struct sn_err *err)
{
    silence();
    struct sn_h5 *h = sn_alloc(sizeof(*h));
    char *name = sn_strdup(path);
    hid_t file = H5I_INVALID_HID;
    enum sn_status st = SN_ENOMEM;
    if (!h || !name)
        (void)sn_fail(err, st, "%s: no memory to open it", path);
    else
        st = open_read_only(&file, path, err);
    if (st != SN_OK) {
        sn_free(name);
        sn_free(h);
        return st;
    }
    *h = (struct sn_h5){file, name};
    *out = h;
    return SN_OK;
}

void sn_h5_close(struct sn_h5 *h)
{
    if (!h)
        return;
    (void)H5Fclose(h->file); /* read only: nothing can be lost */
    sn_free(h->path);
    sn_free(h);
}

/* Refuses what HDF5 would convert or cut in silence. */
static enum sn_status check_shape(const struct sn_h5 *h, hid_t set, const char *dataset,
                                  int64_t rows, int64_t cols, struct sn_err *err)
{
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t dims[2] = {1, 1};
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (rank == 1 || rank == 2)
        rank = H5Sget_simple_extent_dims(space, dims, NULL);
    bool is_fp32 = type >= 0 && H5Tequal(type, H5T_IEEE_F32LE) > 0;
    if (type >= 0)
        (void)H5Tclose(type); /* memory only */
    if (space >= 0)
        (void)H5Sclose(space);
    if (!is_fp32)
        return sn_fail(err, SN_EIO, "%s: %s is not 32-bit little-endian float", h->path, dataset);
    if (rank != (cols == 1 ? 1 : 2) || dims[0] != (hsize_t)rows || dims[1] != (hsize_t)cols)
        return sn_fail(err, SN_EIO, "%s: %s is %llu x %llu, but the manifest says %lld x %lld",
                       h->path, dataset, (unsigned long long)dims[0], (unsigned long long)dims[1],
                       (long long)rows, (long long)cols);
    return SN_OK;
}

enum sn_status sn_h5_read(struct sn_h5 *h, const char *dataset, int64_t rows, int64_t cols,
                          float *out, struct sn_err *err)
{
    silence();
    hid_t set = H5Dopen2(h->file, dataset, H5P_DEFAULT);
    if (set < 0)
        return h5_fail(err, h->path, dataset, "open");
    enum sn_status st = check_shape(h, set, dataset, rows, cols, err);
    if (st == SN_OK && H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        st = h5_fail(err, h->path, dataset, "read");
    (void)H5Dclose(set); /* read only: nothing can be lost */
    return st;
}
