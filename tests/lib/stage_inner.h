/*
 * stage_inner.h - what the files of the stage share.
 */
#ifndef TESTS_LIB_STAGE_INNER_H
#define TESTS_LIB_STAGE_INNER_H

#include "tests/lib/stage.h"

extern const struct sn_platform_launcher stage_launcher;
extern const struct sn_platform_scheduler stage_scheduler;

/* "OUTPUT/NAME"; a text into a file, "w" or "a". */
void stage_path(char out[512], const struct stage *s, const char *name);
void stage_put(const char *path, const char *how, const char *text);
/* The steps that the child has made by now; it ends with a code. */
void stage_go_on(struct stage *s);
void stage_end_child(struct stage *s, int code);
/* What happens next by itself; who is asked then, enum sn_asked. */
unsigned stage_meet(struct stage *s);

#endif
