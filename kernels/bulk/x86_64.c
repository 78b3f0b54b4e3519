/* x86_64.c - bulk copies by SSE2, which each x86-64 has. */
#include "kernels/bulk_copy.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

/* Pages that are copied side by side: each has a row of memory of its own open. */
enum { PAGE = 4096, PAGES = 4, LINE = 64, LEAST = 64 << 10 };

static inline void copy_line(char *to, const char *from)
{
    __m128i v[LINE / 16];
    for (int i = 0; i < LINE / 16; i++)
        v[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + (ptrdiff_t)16 * i));
    for (int i = 0; i < LINE / 16; i++)
        _mm_stream_si128((__m128i *)(void *)(to + (ptrdiff_t)16 * i), v[i]);
}

static void copy_pages(char *to, const char *from)
{
    for (size_t line = 0; line < PAGE; line += LINE) {
        for (size_t at = line; at < (size_t)PAGE * PAGES; at += PAGE) {
            __builtin_prefetch(from + at + (ptrdiff_t)2 * LINE);
            copy_line(to + at, from + at);
        }
    }
}

void sn_bulk_copy(void *to, const void *from, size_t bytes)
{
    size_t done = 0, group = (size_t)PAGE * PAGES;
    if (bytes >= LEAST && (uintptr_t)to % LINE == 0) {
        for (; done + group <= bytes; done += group)
            copy_pages((char *)to + done, (const char *)from + done);
        _mm_sfence(); /* such stores are in no order with later ones */
    }
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
}
