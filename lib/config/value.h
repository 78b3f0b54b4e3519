/*
 * value.h - the parts of a value that single values (value.c) and lists (lists.c) share.
 */
#ifndef SN_VALUE_H
#define SN_VALUE_H

#include "lib/config/keys.h"

/* What was written, in words: "a list", "'4.5'"; returns buf. */
const char *sn_value_got(const struct sn_yaml_node *n, char buf[SN_WANT_SIZE]);
/* SN_EINPUT: "KEY: got ...; want ..." */
enum sn_status sn_value_wrong_type(const struct sn_key *k, const struct sn_yaml_node *n,
                                   struct sn_err *err);
/* Is the node an unquoted whole number? If so, the second reads it and checks the row's bounds. */
bool sn_value_is_whole(const struct sn_yaml_node *n);
enum sn_status sn_value_whole(const struct sn_key *k, const struct sn_yaml_node *n, int64_t *out,
                              struct sn_err *err);
enum sn_status sn_value_float(const struct sn_key *k, const struct sn_yaml_node *n, double *at,
                              struct sn_err *err);
/* In as few digits as are read back. */
void sn_value_format_double(double v, char buf[32]);
/* The index in the row's names of a scalar. */
enum sn_status sn_value_name(const struct sn_key *k, const struct sn_yaml_node *n, int *at,
                             struct sn_err *err);
/* As a YAML string in double quotes; no control characters can be in it (yaml.c). Returns its
 * length, at most size - 1. */
size_t sn_value_quote(char *out, size_t size, const char *text);

/* A text, or a path, of the row's type. */
enum sn_status sn_value_text(const struct sn_key *k, const struct sn_yaml_node *n, char *at,
                             struct sn_err *err);

/* Sets of data, and phases of their weights (sets.c), as lists below. */
enum sn_status sn_sets_parse(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                             struct sn_err *err);
void sn_sets_format(const struct sn_key *k, const void *at, char buf[SN_VALUE_SIZE]);

/* Lists: of the types SN_KEY_WORDS, SN_KEY_INTS, SN_KEY_FLOATS and SN_KEY_RANKING. `n` may be a scalar. */
enum sn_status sn_list_parse(const struct sn_key *k, const struct sn_yaml_node *n, void *at,
                             struct sn_err *err);
/* No words; no numbers, which is the row's word; the names in the row's own order. */
void sn_list_default(const struct sn_key *k, void *at);
void sn_list_format(const struct sn_key *k, const void *at, char buf[SN_VALUE_SIZE]);

#endif
