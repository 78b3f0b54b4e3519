/*
 * data_tokenize.h - the command line of sennit-data tokenize.
 */
#ifndef SN_DATA_TOKENIZE_COMMAND_H
#define SN_DATA_TOKENIZE_COMMAND_H

#include "lib/base/err.h"
#include "lib/base/str.h"

/* `stop_fd` as of struct sn_tokenize. */
enum sn_status sn_data_tokenize(int argc, char **argv, int stop_fd, struct sn_str *out,
                                struct sn_err *err);

#endif
