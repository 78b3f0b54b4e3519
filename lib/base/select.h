/*
 * select.h - the k-th largest of many numbers, without sorting them.
 */
#ifndef SN_SELECT_H
#define SN_SELECT_H

#include <stdint.h>

/* Of n numbers the one that k - 1 others come before in falling order, k from 1 to n; moves them
 * about (Hoare, "Algorithm 65: find", 1961). */
uint64_t sn_select_largest(uint64_t *x, int64_t n, int64_t k);

#endif
