/*
 * meaning_test.h - worlds of verify_test.h, and whether they compute what one rank does.
 */
#ifndef MEANING_TEST_H
#define MEANING_TEST_H

#include "lib/meaning/meaning.h"
#include "tests/lib/verify_test.h"

enum sn_status meaning_of(const struct verify_world *w, bool spoilt, struct sn_err *err);

#endif
