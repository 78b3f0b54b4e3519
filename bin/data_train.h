/*
 * data_train.h - the command line of sennit-data train-tokenizer.
 */
#ifndef SN_BIN_DATA_TRAIN_H
#define SN_BIN_DATA_TRAIN_H

#include "lib/base/err.h"
#include "lib/base/str.h"

/* The work ends when stop_fd becomes readable. */
enum sn_status sn_data_train_tokenizer(int argc, char **argv, int stop_fd, struct sn_str *out,
                                       struct sn_err *err);

#endif
