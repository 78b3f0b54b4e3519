/*
 * data_golden.h - a small pair of token files, byte by byte.
 */
#ifndef SN_TESTS_DATA_GOLDEN_H
#define SN_TESTS_DATA_GOLDEN_H

/* clang-format off */
/* The index of documents {10, 20, 30}, {}, {40} in u16, byte by byte as Megatron's writer puts it:
 * struct.pack("<Q", 1), struct.pack("<B", 8), counts "<Q", then int32, int64 and int64 arrays. */
enum { GOLDEN_BYTES = 34 + 3 * 4 + 3 * 8 + 4 * 8 };
static const unsigned char golden[GOLDEN_BYTES + 1] =
    "MMIDIDX\0\0"
    "\1\0\0\0\0\0\0\0"                                                          /* version */
    "\10"                                                                       /* u16 */
    "\3\0\0\0\0\0\0\0" "\4\0\0\0\0\0\0\0"                                       /* counts */
    "\3\0\0\0" "\0\0\0\0" "\1\0\0\0"                                            /* lengths */
    "\0\0\0\0\0\0\0\0" "\6\0\0\0\0\0\0\0" "\6\0\0\0\0\0\0\0"                    /* offsets */
    "\0\0\0\0\0\0\0\0" "\1\0\0\0\0\0\0\0" "\2\0\0\0\0\0\0\0" "\3\0\0\0\0\0\0\0"; /* documents */
static const unsigned char golden_tokens[8] = {10, 0, 20, 0, 30, 0, 40, 0};
/* clang-format on */

#endif
