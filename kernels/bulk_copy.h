/*
 * bulk_copy.h - copies what nobody reads again soon, past the caches.
 *
 * A store of a block fetches its cache lines first, unless it goes past the caches: a copy through them
 * moves three bytes of memory for each one, a copy past them two. The C library's memcpy() does so
 * from some tens of MiB on; a copy in blocks wants it for each block.
 */
#ifndef SN_BULK_COPY_H
#define SN_BULK_COPY_H

#include <stddef.h>

/* What memcpy() does. Faster than it for blocks of 64 KiB and more whose `to` is 64-byte aligned, where
 * the processor can (x86-64); else it is memcpy(). Another thread sees the bytes as after memcpy(). */
void sn_bulk_copy(void *to, const void *from, size_t bytes);

#endif
