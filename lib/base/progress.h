/*
 * progress.h - what a long piece of work tells whoever waits for it: that it moves.
 *
 * Who does the work marks each part that it has done: a block read or written, a tensor laid out.
 * Who waits compares the marks now and then. Any thread may mark; NULL: nobody asks.
 */
#ifndef SN_PROGRESS_H
#define SN_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

struct sn_progress {
    _Atomic uint64_t marks; /* only grows */
};

static inline void sn_progress_mark(struct sn_progress *p)
{
    if (p)
        atomic_fetch_add_explicit(&p->marks, 1, memory_order_relaxed);
}

#endif
