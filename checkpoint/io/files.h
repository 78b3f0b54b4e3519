/*
 * files.h - files that survive a crash: written whole, synced, and renamed into place.
 *
 * Knows nothing of checkpoints. Sentences name the file and the system's reason.
 */
#ifndef SN_FILES_H
#define SN_FILES_H

#include "lib/base/err.h"
#include "lib/base/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* A plain file for reading, and what it is; -1 with the sentence in *err, which is not NULL. */
int sn_file_open(const char *path, struct stat *id, struct sn_err *err);
/* The whole file in a fresh NUL-terminated block; caller frees *out. */
enum sn_status sn_file_load(char **out, size_t *len, const char *path, struct sn_err *err);
/* Size and sn_hash64 of a plain file; for a size other than `bytes` the hash is left. */
enum sn_status sn_file_hash(const char *path, int64_t *bytes, uint64_t *hash, struct sn_err *err);
/* Make a fresh file, in place of what has its name; write, fsync, close. */
enum sn_status sn_file_save(const char *path, const void *p, size_t len, struct sn_err *err);
/* Write all bytes at `offset`, in slabs; `what` names them in the sentence ("" for none). */
enum sn_status sn_file_put(int fd, const void *p, size_t len, uint64_t offset, const char *path,
                           const char *what, struct sn_err *err);
/* The one sentence for a system call on a file that failed with errno. */
enum sn_status sn_file_fail(struct sn_err *err, const char *path, const char *doing);

/* "a" of "a/b" or "a/b/", "/" of "/a", "." of "b"; caller frees; NULL without memory. */
char *sn_path_parent(const char *path);
/* Has the directory's file system room for `bytes`? *left is what it has. Where it knows no sizes,
 * everything seems to fit. */
enum sn_status sn_dir_has_room(const char *path, uint64_t bytes, bool *has, uint64_t *left,
                               struct sn_err *err);
/* Make a directory and its missing parents. */
enum sn_status sn_dir_make(const char *path, struct sn_err *err);
/* fsync a directory: names created or renamed in it are durable afterwards. */
enum sn_status sn_dir_sync(const char *path, struct sn_err *err);
/* Remove a directory and everything in it, links not followed; a missing one is fine. */
enum sn_status sn_dir_remove(const char *path, struct sn_err *err);
/* The same, each name that is gone marked in `p`: that of a large file takes its time. */
enum sn_status sn_dir_remove_marked(const char *path, struct sn_progress *p, struct sn_err *err);

#endif
