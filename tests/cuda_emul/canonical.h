/*
 * canonical.h - a second reading of descriptors of warpgroup products, beside that of wgmma.cc: one
 * follows PTX's tables of strides (9.7.15.5.1), this one the canonical layouts of a 128-byte
 * swizzle. Each descriptor that a kernel names is read both ways and must give the same bytes.
 *
 * A tile consists of pieces of 16 bytes, 8 elements of 16 bits. Which piece an element is in
 * follows from a list of digits: each is a size and how many pieces apart its values lie.
 *   rows of the tile are rows of A or columns of B: row (8, more), deep (8 in a piece, 2)
 *   rows of the tile are depth (turned): row (8 in a piece, 8, more), deep (8, 2)
 * Then pieces of a line of 128 bytes change places: place p of line l holds piece p ^ l mod 8.
 */
#ifndef SN_EMUL_CANONICAL_H
#define SN_EMUL_CANONICAL_H

#include <stdint.h>

struct sn_emul_tile {
    uint64_t start, leading, stride; /* in pieces */
    bool turned;
};

static inline struct sn_emul_tile sn_emul_tile_of(uint64_t d, bool turned)
{
    return {d % (1 << 14), d / (1 << 16) % (1 << 14), d / ((uint64_t)1 << 32) % (1 << 14), turned};
}

/* The byte of shared memory where element (row, deep) begins. */
static inline uint64_t sn_emul_canonical(const struct sn_emul_tile &t, int row, int deep)
{
    struct digit {
        int size;
        uint64_t apart;
    };
    const struct digit rows[2][3] = {{{8, 8}, {1 << 20, t.stride}, {1, 0}},
                                     {{8, 1}, {1 << 20, t.leading}, {1, 0}}};
    const struct digit depths[2][2] = {{{2, 1}, {1, 0}}, {{8, 8}, {2, t.stride}}};
    int in_piece = t.turned ? row % 8 : deep % 8;
    uint64_t piece = t.start;
    row = t.turned ? row / 8 : row;
    deep = t.turned ? deep : deep / 8;
    for (const struct digit &d : rows[t.turned]) {
        piece += (uint64_t)(row % d.size) * d.apart;
        row /= d.size;
    }
    for (const struct digit &d : depths[t.turned]) {
        piece += (uint64_t)(deep % d.size) * d.apart;
        deep /= d.size;
    }
    uint64_t line = piece / 8, place = piece % 8 ^ line % 8;
    return (line * 8 + place) * 16 + (uint64_t)in_piece * 2;
}

/* What a device does not take, or reads otherwise than we do: a sentence, or NULL. */
static inline const char *sn_emul_descriptor_fault(uint64_t d, bool turned, int rows)
{
    const uint64_t fields = 0x3fff3fff3fffull, swizzled = (uint64_t)1 << 62;
    struct sn_emul_tile t = sn_emul_tile_of(d, turned);
    if ((d & ~fields) != swizzled)
        return "a descriptor that is not of the 128-byte swizzle, or has bits that mean something "
               "else (base offset)";
    if (t.start % 64 >= 8)
        return "a tile whose first line is not at a multiple of 1024 bytes: lines are swapped by "
               "their address";
    if (turned ? t.start % 8 != 0 : t.start % 8 > 6)
        return "a descriptor whose 16 elements do not lie in one line of 128 bytes";
    if (t.stride % 64 || t.stride == 0 || (turned && rows > 64 && (t.leading % 64 || !t.leading)))
        return "a descriptor with distances that are not multiples of 1024 bytes";
    return 0;
}

#endif
