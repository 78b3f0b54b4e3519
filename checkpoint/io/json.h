/*
 * json.h - memory for jansson that remembers a refusal.
 *
 * jansson 2.14 drops characters of a token when it cannot grow its buffer, and goes on: the only
 * sure sign of a wrong result is that an allocation failed meanwhile (found by failing every
 * allocation in turn: "family" was read as "famiy").
 */
#ifndef SN_JSON_H
#define SN_JSON_H

#include <stddef.h>
#include <stdint.h>

/* For json_set_alloc_funcs, with sn_free. */
void *sn_json_alloc(size_t bytes);
/* How many allocations failed so far: compare before and after a parse. */
uint64_t sn_json_refusals(void);

#endif
