/*
 * hdf5_master.c - virtual datasets over the shards of a checkpoint.
 *
 * The file is made in memory, for our own function to write: as with shards, a full disk must not
 * be met inside HDF5.
 */
#include "checkpoint/format/hdf5_inner.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>

enum { IMAGE_STEP = 1 << 20 }; /* bytes by which a file in memory grows */

/* --- a file in memory ------------------------------------------------------------------------ */

/* H5Fget_file_image of 1.10 gives a superblock with a wrong checksum, so the finished file is taken
 * from the driver when it lets go of it. All memory is there before: a driver that fails to grow
 * would leave the file open for ever, too. */
struct image {
    void *p;
    size_t room, len; /* len: in use */
};

static void *image_alloc(size_t bytes, H5FD_file_image_op_t op, void *user)
{
    struct image *i = user;
    (void)op;
    if (bytes > i->room)
        return NULL;
    i->len = bytes;
    return i->p;
}

static void *image_grow(void *p, size_t bytes, H5FD_file_image_op_t op, void *user)
{
    (void)p;
    return image_alloc(bytes, op, user);
}

static herr_t image_keep(void *p, H5FD_file_image_op_t op, void *user)
{
    (void)p, (void)op, (void)user; /* the owner frees it */
    return 0;
}

/* HDF5 copies property lists, and with them this pointer; the image stays one. */
static void *image_same(void *user)
{
    return user;
}

static herr_t image_leave(void *user)
{
    (void)user;
    return 0;
}

static hid_t memory_access(struct image *image)
{
    H5FD_file_image_callbacks_t calls = {.image_malloc = image_alloc,
                                         .image_realloc = image_grow,
                                         .image_free = image_keep,
                                         .udata_copy = image_same,
                                         .udata_free = image_leave,
                                         .udata = image};
    hid_t p = sn_h5_access();
    /* A dataset that is closed goes from HDF5's cache: its mappings, kilobytes each, stay no
     * longer. */
    if (p >= 0 &&
        (H5Pset_evict_on_close(p, true) < 0 || H5Pset_fapl_core(p, IMAGE_STEP, false) < 0 ||
         H5Pset_file_image_callbacks(p, &calls) < 0)) {
        (void)H5Pclose(p);
        return H5I_INVALID_HID;
    }
    return p;
}

/* --- one virtual dataset --------------------------------------------------------------------- */

/* By dtype: the quiet NaN, little endian, which people see where a shard is missing. */
static const uint32_t not_a_number[SN_F16 + 1] = {0x7fc00000, 0x7fc0, 0x7e00};

/* A matrix with a box of it selected; one column is one dimension. */
static hid_t select_box(int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t n_rows,
                        int64_t n_cols)
{
    hsize_t start[2] = {(hsize_t)row, (hsize_t)col}, count[2] = {(hsize_t)n_rows, (hsize_t)n_cols};
    hid_t space = sn_h5_shape(rows, cols);
    if (space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0) {
        (void)H5Sclose(space);
        return H5I_INVALID_HID;
    }
    return space;
}

static bool add_map(hid_t creation, const struct sn_h5_virtual *v, const struct sn_h5_map *m)
{
    hid_t here = select_box(v->rows, v->cols, m->row, m->col, m->rows, m->cols);
    hid_t there = select_box(m->set_rows, m->set_cols, m->at_row, m->at_col, m->rows, m->cols);
    bool good =
        here >= 0 && there >= 0 && H5Pset_virtual(creation, here, m->file, m->dataset, there) >= 0;
    if (here >= 0)
        (void)H5Sclose(here); /* memory only */
    if (there >= 0)
        (void)H5Sclose(there);
    return good;
}

static hid_t virtual_creation(const struct sn_h5_virtual *v, hid_t type)
{
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);
    if (p < 0)
        return p;
    bool good = H5Pset_layout(p, H5D_VIRTUAL) >= 0 && H5Pset_obj_track_times(p, false) >= 0 &&
                H5Pset_fill_value(p, type, &not_a_number[v->dtype]) >= 0;
    for (int i = 0; i < v->n_maps && good; i++)
        good = add_map(p, v, &v->maps[i]);
    if (good)
        return p;
    sn_h5_drop(H5Pclose, p);
    return H5I_INVALID_HID;
}

static bool create_virtual(hid_t file, hid_t type, const struct sn_h5_virtual *v)
{
    hid_t creation = virtual_creation(v, type), space = sn_h5_shape(v->rows, v->cols);
    hid_t set = H5I_INVALID_HID;
    if (creation >= 0 && space >= 0 && sn_h5_make_groups(file, v->dataset))
        set = H5Dcreate2(file, v->dataset, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    bool good = set >= 0 && H5Dclose(set) >= 0;
    if (space >= 0)
        sn_h5_drop(H5Sclose, space);
    if (creation >= 0)
        sn_h5_drop(H5Pclose, creation);
    return good;
}

/* Strings of any length, as h5py wants them to be Python's str. */
static hid_t text_type(void)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    if (t >= 0 && (H5Tset_size(t, H5T_VARIABLE) < 0 || H5Tset_cset(t, H5T_CSET_UTF8) < 0)) {
        (void)H5Tclose(t);
        return H5I_INVALID_HID;
    }
    return t;
}

static bool add_attribute(hid_t file, hid_t type, const struct sn_h5_attribute *a)
{
    hid_t one = H5Screate(H5S_SCALAR);
    if (one < 0)
        return false;
    hid_t at = H5Acreate2(file, a->name, type, one, H5P_DEFAULT, H5P_DEFAULT);
    bool good = at >= 0 && H5Awrite(at, type, &a->text) >= 0;
    if (at >= 0)
        good = H5Aclose(at) >= 0 && good;
    (void)H5Sclose(one); /* memory only */
    return good;
}

/* --- the whole file -------------------------------------------------------------------------- */

static enum sn_status fill_file(hid_t file, const char *path, const struct sn_h5_master *c,
                                struct sn_err *err)
{
    hid_t type[SN_F16 + 1], text = text_type();
    bool typed = sn_h5_make_types(type);
    enum sn_status st = SN_OK;
    if (!typed || text < 0)
        st = sn_h5_fail(err, path, "", "set up");
    for (int i = 0; i < c->n_attributes && st == SN_OK; i++)
        if (!add_attribute(file, text, &c->attributes[i]))
            st = sn_h5_fail(err, path, c->attributes[i].name, "write attribute");
    for (int i = 0; i < c->n_sets && st == SN_OK; i++)
        if (!create_virtual(file, type[c->sets[i].dtype], &c->sets[i]))
            st = sn_h5_fail(err, path, c->sets[i].dataset, "describe");
    if (text >= 0)
        (void)H5Tclose(text); /* memory only */
    if (typed)
        sn_h5_close_types(type);
    return st;
}

/* More than HDF5 needs (tests/unit/checkpoint/test_master.c measures), of pages that are only touched when
 * used. */
static size_t room_for(const struct sn_h5_master *c)
{
    enum { PER_FILE = 256 << 10, PER_SET = 2048, PER_MAP = 256 };
    size_t room = PER_FILE + IMAGE_STEP;
    for (int i = 0; i < c->n_attributes; i++)
        room += 2 * strlen(c->attributes[i].text);
    for (int i = 0; i < c->n_sets; i++) {
        room += PER_SET;
        for (int k = 0; k < c->sets[i].n_maps; k++)
            room += PER_MAP + strlen(c->sets[i].maps[k].file) + strlen(c->sets[i].maps[k].dataset);
    }
    return room;
}

/* What the driver took last may be more than the file: its end is in the superblock. */
static enum sn_status find_end(size_t *bytes, const struct image *i, const char *path,
                               struct sn_err *err)
{
    enum { END_AT = 28 };
    uint64_t end = 0;
    if (i->len >= END_AT + sizeof(end))
        memcpy(&end, (const char *)i->p + END_AT, sizeof(end));
    if (end == 0 || end > i->len)
        return sn_fail(err, SN_EFAIL, "%s: HDF5 made no file of the %zu bytes that it took", path,
                       i->len);
    *bytes = (size_t)end;
    return SN_OK;
}

static enum sn_status make_image(struct image *image, const char *path,
                                 const struct sn_h5_master *c, struct sn_err *err)
{
    hid_t access = memory_access(image);
    if (access < 0)
        return sn_h5_fail(err, path, "", "set up");
    enum sn_status st = SN_OK;
    hid_t file = sn_h5_create(path, access);
    if (file < 0) {
        st = sn_h5_fail(err, path, "", "create");
    } else {
        st = fill_file(file, path, c, err);
        if (H5Fclose(file) < 0 && st == SN_OK)
            st = sn_h5_fail(err, path, "", "finish");
    }
    (void)H5Pclose(access); /* memory only */
    return st;
}

static size_t need_of(int n_sets, int most_maps)
{
    return SN_H5_BASE + (size_t)n_sets * SN_H5_SLOT + (size_t)most_maps * SN_H5_MAP;
}

static int most_maps(const struct sn_h5_master *c)
{
    int most = 0;
    for (int i = 0; i < c->n_sets; i++)
        most = c->sets[i].n_maps > most ? c->sets[i].n_maps : most;
    return most;
}

enum sn_status sn_h5_make_master(struct sn_h5_image *out, const struct sn_h5_master *master,
                                 const char *path, struct sn_err *err)
{
    size_t bytes = 0;
    void *reserve = NULL;
    struct image image = {.room = room_for(master)};
    image.p = sn_alloc(image.room);
    if (!image.p)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %zu bytes", path, image.room);
    enum sn_status st =
        sn_h5_reserve(&reserve, need_of(master->n_sets, most_maps(master)), path, err);
    if (st == SN_OK) {
        sn_h5_silence();
        st = make_image(&image, path, master, err);
    }
    sn_mem_release(reserve);
    if (st == SN_OK)
        st = find_end(&bytes, &image, path, err);
    if (st == SN_OK)
        *out = (struct sn_h5_image){image.p, bytes};
    else
        sn_free(image.p);
    return st;
}

/* --- checking it ----------------------------------------------------------------------------- */

/* Is exactly this box selected, in a space of as many dimensions as we write? Takes the space. Only
 * of the virtual side does a file say how large the whole is. */
static bool is_selected(hid_t space, int64_t cols, struct sn_h5_map want)
{
    hsize_t first[2] = {0, 0}, last[2] = {0, 0};
    if (space < 0)
        return false;
    bool good = H5Sget_simple_extent_ndims(space) == (cols == 1 ? 1 : 2) &&
                H5Sget_select_bounds(space, first, last) >= 0 && first[0] == (hsize_t)want.row &&
                first[1] == (hsize_t)want.col && last[0] == (hsize_t)(want.row + want.rows - 1) &&
                last[1] == (hsize_t)(want.col + want.cols - 1) &&
                H5Sget_select_npoints(space) == want.rows * want.cols;
    (void)H5Sclose(space); /* memory only */
    return good;
}

static bool is_map(hid_t creation, size_t i, const struct sn_h5_virtual *v,
                   const struct sn_h5_map *m, char file[SN_H5_NAME_MAX])
{
    char dataset[SN_H5_NAME_MAX];
    struct sn_h5_map there = {m->at_row, m->at_col, m->rows, m->cols, NULL, NULL, 0, 0, 0, 0};
    ssize_t nf = H5Pget_virtual_filename(creation, i, file, SN_H5_NAME_MAX);
    ssize_t nd = H5Pget_virtual_dsetname(creation, i, dataset, sizeof(dataset));
    return nf > 0 && nf < SN_H5_NAME_MAX && nd > 0 && nd < SN_H5_NAME_MAX &&
           strcmp(file, m->file) == 0 && strcmp(dataset, m->dataset) == 0 &&
           is_selected(H5Pget_virtual_vspace(creation, i), v->cols, *m) &&
           is_selected(H5Pget_virtual_srcspace(creation, i), m->set_cols, there);
}

static enum sn_status check_maps(const struct sn_h5 *h, hid_t creation,
                                 const struct sn_h5_virtual *v, struct sn_err *err)
{
    size_t n = 0;
    uint32_t fill = 0;
    if (H5Pget_layout(creation) != H5D_VIRTUAL || H5Pget_virtual_count(creation, &n) < 0 ||
        n != (size_t)v->n_maps)
        return sn_fail(err, SN_EIO, "%s: %s is not a virtual dataset of %d pieces", h->path,
                       v->dataset, v->n_maps);
    if (H5Pget_fill_value(creation, h->type[v->dtype], &fill) < 0 || fill != not_a_number[v->dtype])
        return sn_fail(err, SN_EIO, "%s: %s does not show NaN where a shard is missing", h->path,
                       v->dataset);
    for (size_t i = 0; i < n; i++) {
        char file[SN_H5_NAME_MAX] = "";
        const struct sn_h5_map *m = &v->maps[i];
        if (!is_map(creation, i, v, m, file))
            return sn_fail(err, SN_EIO,
                           "%s: %s takes row %lld, column %lld from '%s', but not as the manifest "
                           "says from %s of %s",
                           h->path, v->dataset, (long long)m->row, (long long)m->col, file,
                           m->dataset, m->file);
    }
    return SN_OK;
}

static enum sn_status check_set(const struct sn_h5 *h, hid_t set, const struct sn_h5_virtual *v,
                                struct sn_err *err)
{
    struct sn_h5_slot slot = {.rows = v->rows, .cols = v->cols, .dtype = v->dtype};
    memcpy(slot.dataset, v->dataset, sizeof(slot.dataset));
    SN_TRY(sn_h5_check_values(h, set, &slot, err));
    hid_t creation = H5Dget_create_plist(set);
    if (creation < 0)
        return sn_h5_fail(err, h->path, v->dataset, "look into");
    enum sn_status st = check_maps(h, creation, v, err);
    (void)H5Pclose(creation); /* memory only */
    return st;
}

enum sn_status sn_h5_check_virtual(struct sn_h5 *h, const struct sn_h5_virtual *v,
                                   struct sn_err *err)
{
    hid_t set;
    void *reserve;
    SN_TRY(sn_h5_reserve(&reserve, need_of(1, v->n_maps), h->path, err));
    enum sn_status st = sn_h5_open_set(&set, h, v->dataset, err);
    if (st == SN_OK) {
        st = check_set(h, set, v, err);
        (void)H5Dclose(set); /* read only: nothing can be lost */
    }
    sn_mem_release(reserve);
    return st;
}
