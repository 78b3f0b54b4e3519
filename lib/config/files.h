/*
 * files.h - where the texts behind a run file lie: files, and the presets that ship.
 */
#ifndef SN_FILES_H
#define SN_FILES_H

#include "lib/base/str.h"
#include "lib/config/yaml.h"

#include <sys/stat.h>

/* The whole file (NUL added). Caller frees *text. *id says which file it was. */
enum sn_status sn_file_read(char **text, size_t *len, struct stat *id, const char *path,
                            struct sn_err *err);

/* The directory of the shipped templates, found from where this program lies: installed
 * (PREFIX/share/sennit/templates) or in the source tree. SN_EFAIL when there is none. */
enum sn_status sn_share_find(char *dir, size_t size, struct sn_err *err);

/* Path of share_dir/kind/NAME.yaml for the name in node `n` (of key `key`), or a sentence with the
 * names there are. */
enum sn_status sn_preset_find(char *path, size_t size, const char *dir, const char *key,
                              const struct sn_yaml_node *n, struct sn_err *err);
/* Names of the presets in share_dir/kind (models, machines, sites ...), one a line, as `name`s of
 * sn_preset_find. */
enum sn_status sn_presets_list(struct sn_str *out, const char *kind, struct sn_err *err);

#endif
