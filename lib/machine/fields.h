/*
 * fields.h - a YAML file of known keys, read into a struct by rows of the kind that the run file
 * has (lib/config/keys.h): machine files and software profiles.
 *
 * A row's name is dotted; its offset is in the caller's struct. Rows of a section follow the
 * section's own row. What differs from the run file: SN_KEY_TEXT is a char array of `max` bytes,
 * SN_KEY_INCLUDE marks what the caller reads by itself (lists), and a row without default whose
 * `derived` is set stays zero when it is left out.
 */
#ifndef SN_FIELDS_H
#define SN_FIELDS_H

#include "lib/base/str.h"
#include "lib/config/keys.h"

struct sn_fields {
    const char *what;   /* "a machine file", for messages */
    const char *prefix; /* of all names: "" or a list's, such as "links" */
    const struct sn_key *row;
    int n; /* at most SN_KEYS_MAX */
};

/* Defaults, then what `map` says, to the struct at `to`; a required key that is missing is an error
 * at the map's place. */
enum sn_status sn_fields_read(const struct sn_fields *f, const struct sn_yaml_node *map, void *to,
                              struct sn_err *err);
void sn_fields_default(const struct sn_fields *f, void *to);
/* What differs from the defaults, as YAML that reads back to the same bytes; lines begin with
 * `indent` spaces, the first with `first`. */
void sn_fields_format(struct sn_str *out, const struct sn_fields *f, const void *from, int indent,
                      const char *first);
/* A table of the rows in Markdown. */
void sn_fields_help(struct sn_str *out, const struct sn_fields *f);

/* Parse a whole text: the root has to be a mapping. The document is the caller's. */
enum sn_status sn_fields_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                               const char *path, const char *what, struct sn_err *err);

#endif
