/*
 * data_kind.h - what a file is that somebody takes for text or for tokens, by its first bytes.
 */
#ifndef SN_DATA_KIND_H
#define SN_DATA_KIND_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* SN_EINPUT, with the command that unpacks it: the `n` bytes that the file `name` begins with are
 * those of a packed or structured file, whose own bytes nobody wants to train on. With `is_text`
 * that is also what is text, but not only that: JSON lines, UTF-16. */
enum sn_status sn_data_kind_check(const char *name, const unsigned char *bytes, size_t n,
                                  bool is_text, struct sn_err *err);

#endif
