/*
 * text_file.h - whole texts as files.
 */
#ifndef SN_TEXT_FILE_H
#define SN_TEXT_FILE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

/* SN_EIO: "PATH: cannot be written (why); what would help". */
enum sn_status sn_write_fail(struct sn_err *err, const char *path, int errnum);
/* Write a text beside the file and put it in its place: whoever reads finds the old one or all of
 * the new one. What is there and no file, as /dev/stdout, is written to. SN_EIO: "PATH: cannot be
 * written: why"; SN_ENOMEM, also for a text that has failed. */
enum sn_status sn_text_save(const struct sn_str *text, const char *path, struct sn_err *err);
/* The same of a record of ours, in a folder that others may write to: whatever has its name is
 * replaced, and no link is followed. */
enum sn_status sn_text_keep(const struct sn_str *text, const char *path, struct sn_err *err);
/* The same of a record that several processes may write at once, each with a number of its own:
 * one's work beside the file is not taken away by another, and the last one's text stays. */
enum sn_status sn_text_keep_by(const struct sn_str *text, const char *path, int writer,
                               struct sn_err *err);
/* Can it be written? Found out before time is spent on what is to stand there; leaves an empty file
 * where there was none. */
enum sn_status sn_text_try(const char *path, struct sn_err *err);

#endif
