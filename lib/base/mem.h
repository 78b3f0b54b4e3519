/*
 * mem.h - counted allocation, and arenas mapped once.
 *
 * Every heap allocation of sennit goes through here. Tests make the n-th call fail and prove that
 * the step loop makes none.
 */
#ifndef SN_MEM_H
#define SN_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when there is no memory or when the test hook says so. Zeroed. Caller frees with sn_free. */
void *sn_alloc(size_t bytes);
/* As sn_alloc for n objects; NULL on overflow too. */
void *sn_alloc_n(size_t n, size_t bytes);
/* Grow or shrink; new bytes are NOT zeroed; on NULL the old block stands. */
void *sn_realloc(void *p, size_t bytes);
/* Room for one more of the *cap items, of which n are taken, each of `size` bytes: twice as many
 * where there is none. False, and all as it was, when there is no memory. */
bool sn_grow(void **items, int n, int *cap, size_t size);
char *sn_strdup(const char *s);
char *sn_strndup(const char *s, size_t n);
/* printf into a fresh string; caller frees. */
char *sn_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sn_free(void *p); /* NULL is allowed */

/* One heap for all threads: the first thing that a program does which saves. Heaps of their own take
 * 64 MiB of address space each, and under a limit (ulimit -v) those that get none have each small
 * block mapped apart, so that nothing can be reserved. Steps allocate nothing, so nobody waits. */
void sn_mem_share_heap(void);
/* See that libraries which cannot do without memory get some: blocks of `bytes` in all, each far
 * less, can be allocated from here on by this thread, until sn_mem_release. NULL: there is not so
 * much. Counts as one allocation. */
void *sn_mem_reserve(size_t bytes);
void sn_mem_release(void *reserve); /* NULL is allowed */

/* Have so much stack from here on: under a limit of addresses it cannot grow later, when the heap has taken
 * what is left, and a program that needs more of it is killed. False: there is not so much. */
bool sn_mem_reserve_stack(void);
enum { SN_STACK_RESERVE = 512 << 10 };

/* Number of allocations made so far by this process. */
uint64_t sn_mem_count(void);
/* Test hook: the n-th allocation from now (n = 1 is the next) fails once; 0 turns it off. */
void sn_mem_fail_at(uint64_t n);

/* Map `bytes` of zeroed memory, aligned to 2 MiB pages where the system has them, and touch every
 * page so that the step loop meets no page fault. NULL when there is no memory. */
void *sn_arena_map(size_t bytes);
/* The same, untouched: pages that nobody writes take no memory. */
void *sn_arena_reserve(size_t bytes);
void sn_arena_unmap(void *p, size_t bytes); /* NULL is allowed */

#endif
