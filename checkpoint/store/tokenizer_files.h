/*
 * tokenizer_files.h - a tokenizer's files beside checkpoints: DIR/tokenizer-HASH/, once for all
 * checkpoints in DIR whose manifests name it.
 */
#ifndef SN_TOKENIZER_FILES_H
#define SN_TOKENIZER_FILES_H

#include "lib/base/err.h"
#include "lib/base/tokenizer_id.h"

/* DIR/tokenizer-HASH; caller frees; NULL without memory. */
char *sn_tokenizer_files_folder(const char *dir, uint64_t hash);
/* What the manifest of the checkpoint STEP_DIR says, with the folder beside it. */
enum sn_status sn_tokenizer_files_of(struct sn_tokenizer_id *out,
                                     const struct sn_tokenizer_id *said, const char *step_dir,
                                     struct sn_err *err);
/* Copy it from t->folder into DIR, where it is not there already. SN_EINPUT: its file is not there,
 * or is another one by now. */
enum sn_status sn_tokenizer_files_keep(const struct sn_tokenizer_id *t, const char *dir,
                                       struct sn_err *err);
/* SN_EINPUT: the file in t->folder is not there, or is another one. */
enum sn_status sn_tokenizer_files_verify(const struct sn_tokenizer_id *t, struct sn_err *err);
/* The file that is called `file` in the directory `from` into the directory `to`, as `name`, and all
 * companions of `from`; `file` NULL: these alone. Byte for byte, synced. */
enum sn_status sn_tokenizer_files_copy(const char *from, const char *to, const char *file,
                                       const char *name, struct sn_err *err);
/* Are a run's tokens of the tokenizer that the checkpoint in `step_dir` was trained with? SN_EINPUT
 * where both are known and differ. */
enum sn_status sn_tokenizer_files_check(const struct sn_tokenizer_id *had,
                                        const struct sn_tokenizer_id *has, const char *step_dir,
                                        struct sn_err *err);

#endif
