#include "lib/base/mem.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The counters that docs/STYLE.md allows: the only mutable file-scope state besides the log level. */
static atomic_ullong n_allocs;
static atomic_ullong fail_at;

static bool refused(void)
{
    unsigned long long n = atomic_fetch_add(&n_allocs, 1) + 1;
    return n == atomic_load(&fail_at);
}

void *sn_alloc(size_t bytes)
{
    return refused() ? NULL : calloc(1, bytes ? bytes : 1);
}

void *sn_alloc_n(size_t n, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(n, bytes, &total))
        return NULL;
    return sn_alloc(total);
}

void *sn_realloc(void *p, size_t bytes)
{
    return refused() ? NULL : realloc(p, bytes ? bytes : 1);
}

void sn_mem_share_heap(void)
{
    (void)mallopt(M_ARENA_MAX, 1); /* else memory is only used less well */
}

static __attribute__((noinline)) void touch_stack(void)
{
    enum { PAGE = 4096 };
    char room[SN_STACK_RESERVE];
    volatile char *at = room; /* pages are to be written, not values */
    for (int i = SN_STACK_RESERVE - PAGE; i >= 0; i -= PAGE)
        at[i] = 0;
}

bool sn_mem_reserve_stack(void)
{
    size_t bytes = 2 * SN_STACK_RESERVE; /* a page that lacks is the end: rather ask for more */
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    (void)munmap(p, bytes);
    touch_stack();
    return true;
}

/* Memory that was asked for and given back stays with the process, as long as it is not the last of
 * what the system gave: so the last piece is kept. Pieces are smaller than what malloc maps apart,
 * and are neither written to nor, mostly, found in memory. */
void *sn_mem_reserve(size_t bytes)
{
    enum { PIECE = 96 << 10 };
    struct piece {
        struct piece *next;
    } *all = NULL;
    bool good = !refused();
    for (size_t got = 0; good && got <= bytes; got += PIECE) {
        struct piece *p = malloc(PIECE);
        good = p != NULL;
        if (good) {
            p->next = all;
            all = p;
        }
    }
    struct piece *last = all, *next = all ? all->next : NULL;
    for (struct piece *p = next; p; p = next) {
        next = p->next;
        free(p);
    }
    if (good)
        return last;
    free(last);
    return NULL;
}

void sn_mem_release(void *reserve)
{
    free(reserve);
}

char *sn_strndup(const char *s, size_t n)
{
    char *copy = sn_alloc(n + 1);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

bool sn_grow(void **items, int n, int *cap, size_t size)
{
    enum { FIRST = 16 };
    int want = *cap ? *cap : FIRST / 2;
    size_t bytes;
    if (n < *cap)
        return true;
    if (__builtin_mul_overflow(want, 2, &want) ||
        __builtin_mul_overflow((size_t)want, size, &bytes))
        return false;
    void *p = sn_realloc(*items, bytes);
    if (!p)
        return false;
    *items = p;
    *cap = want;
    return true;
}

char *sn_strdup(const char *s)
{
    return sn_strndup(s, strlen(s));
}

char *sn_format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    char *text = sn_alloc((size_t)n + 1);
    if (!text)
        return NULL;
    va_start(ap, fmt);
    (void)vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return text;
}

void sn_free(void *p)
{
    free(p);
}

uint64_t sn_mem_count(void)
{
    return atomic_load(&n_allocs);
}

void sn_mem_fail_at(uint64_t n)
{
    atomic_store(&fail_at, n ? atomic_load(&n_allocs) + n : 0);
}

void *sn_arena_reserve(size_t bytes)
{
    if (refused())
        return NULL;
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *sn_arena_map(size_t bytes)
{
    if (refused())
        return NULL;
    void *p =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes,
                  MADV_HUGEPAGE); /* advice only: a kernel without it is slower, not wrong */
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)p)[i] = 0;
    return p;
}

void sn_arena_unmap(void *p, size_t bytes)
{
    if (p)
        (void)munmap(p, bytes ? bytes : 1);
}
