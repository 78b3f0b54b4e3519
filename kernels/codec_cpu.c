/*
 * codec_cpu.c - picks the codecs for this processor. A file of its own, so that a program that
 * compresses nothing needs no libzfp.
 */
#include "kernels/codec.h"

/* The Makefile says which instruction sets there are: SN_ISAS(X) is X(generic) X(avx2) ... */
#define DECLARE(isa) extern const struct sn_codecs sn_codecs_##isa;
#define ADDRESS(isa) &sn_codecs_##isa,

SN_ISAS(DECLARE)

const struct sn_codecs *sn_codecs_cpu(void)
{
    static const struct sn_codecs *const table[] = {SN_ISAS(ADDRESS)};
    return table[sn_cpu_level()];
}
