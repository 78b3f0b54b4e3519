#include "lib/layout/cut.h"

#include <stdlib.h>
#include <string.h>

struct row {
    const char *point; /* what follows the layer's number */
    struct sn_cut cut;
};

/* clang-format off */
#define SHARED   {SN_SHARED, SN_ROWS}
#define PARTIAL  {SN_PARTIAL, SN_ROWS}
#define FEATURES {SN_SPLIT, SN_COLS}
/* clang-format on */

static const struct row rows[] = {
    /* clang-format off */
    /* point           weight       bias         wants     gives */
    {"embed",       {SN_CUT_ROWS, SN_CUT_NONE, SHARED,   PARTIAL}},
    {"attn.qkv",    {SN_CUT_QKV,  SN_CUT_QKV,  SHARED,   FEATURES}},
    {"attn.o",      {SN_CUT_COLS, SN_CUT_NONE, FEATURES, PARTIAL}},
    {"ffn.up",      {SN_CUT_ROWS, SN_CUT_ROWS, SHARED,   FEATURES}},
    {"ffn.gate_up", {SN_CUT_ROWS, SN_CUT_ROWS, SHARED,   FEATURES}},
    {"ffn.down",    {SN_CUT_COLS, SN_CUT_NONE, FEATURES, PARTIAL}},
    {"ffn.shared.gate_up", {SN_CUT_ROWS, SN_CUT_ROWS, SHARED, FEATURES}},
    {"ffn.shared.down", {SN_CUT_COLS, SN_CUT_NONE, FEATURES, PARTIAL}},
    {"ffn.router",  {SN_CUT_SUMMED, SN_CUT_NONE, SHARED,  SHARED}},
    /* the two matrices of an expert */
    {"ffn.experts", {SN_CUT_ROWS, SN_CUT_COLS, SHARED,   PARTIAL}},
    {"head",        {SN_CUT_ROWS, SN_CUT_NONE, SHARED,   FEATURES}},
    /* clang-format on */
};

/* "l12.attn.o" -> "attn.o"; what has no layer stays. */
static const char *without_layer(const char *point)
{
    char *end;
    if (point[0] != 'l')
        return point;
    (void)strtol(point + 1, &end, 10);
    return end > point + 1 && *end == '.' ? end + 1 : point;
}

const struct sn_cut *sn_cut_at(const char *point)
{
    const char *name = without_layer(point);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].point, name) == 0)
            return &rows[i].cut;
    return NULL;
}

struct sn_slice sn_slice_of(int64_t n, int size, int index)
{
    int64_t padded = (n + size - 1) / size;
    int64_t first = index * padded < n ? index * padded : n;
    return (struct sn_slice){first, n - first < padded ? n - first : padded, padded};
}

int sn_kv_copies(const struct sn_model_config *m, int size)
{
    return size > m->kv_heads ? size / m->kv_heads : 1;
}

struct sn_slice sn_slice_of_heads(const struct sn_model_config *m, int piece, int size, int index)
{
    int64_t width = m->hidden / m->heads;
    int copies = piece == 0 ? 1 : sn_kv_copies(m, size);
    int heads = piece == 0 ? m->heads : m->kv_heads;
    int64_t each = heads / (size / copies) * width; /* rules.c: it divides */
    return (struct sn_slice){index / copies * each, each, each};
}
