/*
 * fingerprint.h - a matrix in 24 bytes: enough to say whether another one has the same bits, and if
 * not, how far it is off.
 *
 * The hash tells the first. The second is a random projection (Johnson & Lindenstrauss 1984; with
 * random signs: Achlioptas 2003): the sum of all elements, each times a sign that its row and column
 * have drawn. For two matrices whose difference is D, E |projection of A - that of B|^2 = |D|^2
 * (Frobenius), whatever D is. Both sums are over elements, so that fingerprints of parts add up to
 * that of the whole: only their hash is lost.
 */
#ifndef SN_FINGERPRINT_H
#define SN_FINGERPRINT_H

#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

enum { SN_SIGNS = 4096 };

/* Signs of columns, +1 or -1: they repeat, with one more sign for each repetition. */
struct sn_signs {
    float of[SN_SIGNS];
};
void sn_signs_init(struct sn_signs *s);

struct sn_fingerprint {
    uint64_t hash;
    double projection, squares; /* elements that are not finite count as 0 */
};

struct sn_fingerprint sn_fingerprint_of(const struct sn_signs *s, const struct sn_mat *m);
/* Add m's elements, whose first one stands at (row, col) of what the fingerprint is of; no hash. */
void sn_fingerprint_add(struct sn_fingerprint *f, const struct sn_signs *s, const struct sn_mat *m,
                        int64_t row, int64_t col);
/* How far b is off a, relative to the larger of them: an estimate, 0 where the sums are equal. */
double sn_fingerprint_off(const struct sn_fingerprint *a, const struct sn_fingerprint *b);

#endif
