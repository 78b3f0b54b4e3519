/*
 * layouts.h - the lines of tests/equiv/layouts as configurations. The table's head says what a line
 * is; tests/lib/layouts.sh reads the same lines for runs of processes.
 */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include "lib/config/config.h"

#include <stdio.h>

struct layouts_line {
    char name[64];
    bool fast, smoke, twice, blends;
    char resume[64];         /* "": no resume */
    struct sn_config config; /* layout.data is set */
};

/* A line, which is cut into its words. */
enum sn_status layouts_read(struct layouts_line *out, char *text, struct sn_err *err);
/* The next line that is no comment: 1, or 0 at the end of the file. -1: *err says what is wrong,
 * the run file's rules included. */
int layouts_next(FILE *f, struct layouts_line *out, struct sn_err *err);
/* The same of tests/equiv/compress, with the codecs that the kind of a line stands for. */
enum { LAYOUTS_KIND = 32 };
int layouts_next_coded(FILE *f, char kind[LAYOUTS_KIND], struct layouts_line *out,
                       struct sn_err *err);
/* From now on in the order in which messages are hidden, and in turns, by rates of which none matters
 * here. */
void layouts_overlap(struct sn_config *c);
/* The same model, trained by one rank; where routers are balanced, on as many sequences at once. */
struct sn_config layouts_reference(const struct sn_config *c);

#endif
