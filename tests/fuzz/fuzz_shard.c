/*
 * Any bytes as a shard, or as a valid one with changes: refused with a sentence, or every dataset
 * lies inside the file. Checksums of HDF5's own are not made right again, so this reaches what
 * accidents reach, and little of libhdf5's parsers.
 */
#include "checkpoint/format/hdf5.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* HDF5 1.10 loses memory when it meets a damaged object header. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* What the shards among the inputs hold, and a little that they do not. */
static const struct sn_h5_slot slots[] = {{"/model/embed.weight@0,0", 4, 5, SN_F32, 0},
                                          {"/model/embed.weight@0,0", 40, 33, SN_BF16, 0},
                                          {"/model/final_norm.weight", 33, 1, SN_F16, 0},
                                          {"/optim/exp_avg/embed.weight@0,0", 31, 33, SN_F32, 0},
                                          {"/optim/exp_avg_sq/embed.weight@0,0", 9, 2, SN_F32, 0},
                                          {"/model/x", 3, 4, SN_F32, 0},
                                          {"/model/x", 1, 1, SN_F32, 0},
                                          {"/model", 2, 2, SN_F32, 0},
                                          {"/", 2, 2, SN_F32, 0}};
enum { N = sizeof(slots) / sizeof(slots[0]) };

/* As a master: tensor exp_avg of the golden one. */
static bool shows(struct sn_h5 *h, struct sn_err *err)
{
    static const struct sn_h5_map maps[] = {
        {0, 0, 31, 33, "shard-00000.h5", "/optim/exp_avg/embed.weight@0,0", 0, 0, 31, 33},
        {31, 0, 39, 33, "shard-00001.h5", "/optim/exp_avg/embed.weight@31,0", 0, 0, 39, 33}};
    static const struct sn_h5_virtual set = {
        "/optim/exp_avg/embed.weight", 70, 33, SN_F32, 2, maps};
    return sn_h5_check_virtual(h, &set, err) == SN_OK;
}

static bool put_all(int fd, const uint8_t *data, size_t size)
{
    return ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size;
}

static void look_into(const char *path, size_t size)
{
    struct sn_h5 *h = NULL;
    struct sn_err err = {.text = ""};
    if (sn_h5_open(&h, path, &err) != SN_OK) {
        if (!err.text[0])
            abort();
        return;
    }
    for (int i = 0; i < N; i++) {
        struct sn_h5_slot s = slots[i];
        uint64_t bytes = (uint64_t)(s.rows * s.cols) * sn_dtype_size(s.dtype);
        err.text[0] = '\0';
        if (sn_h5_locate(h, &s, &err) != SN_OK ? !err.text[0] : s.offset + bytes > size)
            abort();
    }
    err.text[0] = '\0';
    if (!shows(h, &err) && !err.text[0])
        abort();
    sn_h5_close(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("shard", MFD_CLOEXEC);
    if (fd < 0 || !put_all(fd, data, size))
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    look_into(path, size);
    (void)close(fd);
    return 0;
}
