/*
 * test_bulk_copy.c - every byte arrives, and none beside them is touched.
 */
#include "kernels/bulk_copy.h"
#include "tests/lib/tap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 3 << 20, MARGIN = 4096 };

static unsigned char *to, *from;

static bool is_copied(size_t bytes, size_t to_off, size_t from_off)
{
    memset(to, 0xa5, ROOM);
    unsigned char *d = to + MARGIN + to_off;
    sn_bulk_copy(d, from + from_off, bytes);
    bool good = memcmp(d, from + from_off, bytes) == 0;
    for (size_t i = 0; i < MARGIN; i++)
        good = good && d[bytes + i] == 0xa5 && to[to_off + i] == 0xa5;
    return good;
}

int main(void)
{
    static const size_t sizes[] = {0,     1,     63,      64,        4095,       65535,
                                   65536, 65537, 1 << 20, 81920 + 7, 1000000 + 3};
    static const size_t offsets[] = {0, 1, 16, 64};
    to = aligned_alloc(4096, ROOM);
    from = aligned_alloc(4096, ROOM);
    if (!to || !from)
        return 1;
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 13);
    bool good = true;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (size_t o = 0; o < 16; o++)
            good = good && is_copied(sizes[s], offsets[o / 4], offsets[o % 4]);
    }
    tap_ok(good, "any number of bytes, from any address to any");
    free(to);
    free(from);
    return tap_done();
}
