/* The one file that includes xxhash.h; header only, so nothing is linked. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/base/hash.h"

#include <errno.h>
#include <unistd.h>

uint64_t sn_hash64(const void *p, size_t bytes)
{
    return XXH3_64bits(p, bytes);
}

void sn_hash128(const void *p, size_t bytes, uint64_t out[2])
{
    XXH128_hash_t h = XXH3_128bits(p, bytes);
    out[0] = h.low64;
    out[1] = h.high64;
}

uint64_t sn_hash64_rows(const float *p, int64_t rows, int64_t cols, int64_t ld)
{
    XXH3_state_t state;
    if (ld == cols)
        return sn_hash64(p, (size_t)rows * (size_t)cols * sizeof(*p));
    (void)XXH3_64bits_reset(&state); /* these two fail only for NULL */
    for (int64_t r = 0; r < rows; r++)
        (void)XXH3_64bits_update(&state, p + r * ld, (size_t)cols * sizeof(*p));
    return XXH3_64bits_digest(&state);
}

bool sn_hash64_file(int fd, uint64_t bytes, uint64_t *out)
{
    char part[16384];
    XXH3_state_t state;
    (void)XXH3_64bits_reset(&state); /* these two fail only for NULL */
    for (uint64_t done = 0; done < bytes;) {
        size_t want = bytes - done < sizeof(part) ? (size_t)(bytes - done) : sizeof(part);
        ssize_t n = pread(fd, part, want, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return false;
        (void)XXH3_64bits_update(&state, part, (size_t)n);
        done += (uint64_t)n;
    }
    *out = XXH3_64bits_digest(&state);
    return true;
}
