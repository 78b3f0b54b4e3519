/*
 * safetensors_file.h - the bytes of one file, on the disk or in memory. Internal to checkpoint/.
 *
 * A file is read by system calls and not mapped: one of 100 GB needs no address space, and one that
 * shrinks meanwhile is an error, not a signal.
 */
#ifndef SN_SAFETENSORS_FILE_H
#define SN_SAFETENSORS_FILE_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct sn_st_file {
    char *path;             /* owned */
    uint64_t len;           /* when it was opened */
    int fd;                 /* -1: in memory */
    const unsigned char *p; /* there, borrowed */
};

/* Takes `path` over, also on failure. */
enum sn_status sn_st_file_open(struct sn_st_file *f, char *path, struct sn_err *err);
/* n bytes from `at` on; they are inside the file. */
enum sn_status sn_st_file_get(const struct sn_st_file *f, uint64_t at, void *out, size_t n,
                              struct sn_err *err);
void sn_st_file_close(struct sn_st_file *f);
/* What to open of a directory: the only file, or the index of several. Caller frees *out. */
enum sn_status sn_st_file_choose(char **out, const char *dir, struct sn_err *err);

#endif
