/*
 * preflight_inner.h - what the probes of a processor and of a device share: products whose result
 * is known. Internal to lib/probe.
 */
#ifndef SN_PREFLIGHT_INNER_H
#define SN_PREFLIGHT_INNER_H

#include <stdbool.h>
#include <stdint.h>

/* C = A B with whole numbers so small that every sum is exact in fp32 (and they themselves in bf16
 * and fp16). Checked as Freivalds does: C x = A (B x) for a vector x without zeros, exactly; one
 * wrong element is always seen. */
struct sn_known_product {
    int64_t side;
    float *a, *b, *c; /* side x side each */
    int64_t *want;    /* A (B x) */
};

/* Fills a, b and want; `room`: for `side` numbers. */
void sn_known_product_fill(struct sn_known_product *p, int64_t *room);
bool sn_known_product_holds(const struct sn_known_product *p);

#endif
