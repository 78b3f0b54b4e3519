#include "lib/layout/cut.h"

#include <stdlib.h>
#include <string.h>

/* --- points ----------------------------------------------------------------------------------- */

/* What a point is, whatever the mesh. */
enum layer {
    LINEAR, /* the first product of a block: column-parallel */
    QKV,
    TRANSPOSED, /* the product that takes what such a one gives: row-parallel */
    OF_HEADS,   /* inside, with weights that all heads share */
    OF_FEATURES, /* inside, with a weight for each feature */
    INSIDE,     /* no parameters, between the two */
    WORDS,      /* an embedding */
    HEAD,
    ROUTER,
    EXPERTS,   /* the two matrices of an expert */
    BETWEEN,   /* on what stands between blocks: norms, sums, dropout */
    IN_SLICES, /* the same under sequence parallelism */
    NLAYERS
};

static const struct {
    const char *point; /* what follows the layer's number */
    enum layer layer;
} points[] = {
    {"embed", WORDS},
    {"attn.qkv", QKV},
    {"attn.q", LINEAR}, /* of latents: rows of whole heads, for the ranks divide these */
    {"attn.q_b", LINEAR},
    {"attn.kv_b", LINEAR},
    {"attn.join", INSIDE},
    {"attn.qk_norm", OF_HEADS},
    {"attn.wide_norm", OF_FEATURES},
    {"attn.rope", INSIDE},
    {"attn.core", INSIDE},
    {"attn.o", TRANSPOSED},
    {"ffn.up", LINEAR},
    {"ffn.act", INSIDE},
    {"ffn.gate_up", LINEAR},
    {"ffn.swiglu", INSIDE},
    {"ffn.down", TRANSPOSED},
    {"ffn.shared.gate_up", LINEAR},
    {"ffn.shared.swiglu", INSIDE},
    {"ffn.shared.down", TRANSPOSED},
    {"ffn.shared_gate", ROUTER},
    {"ffn.router", ROUTER},
    {"ffn.experts", EXPERTS},
    {"mtp.embed", WORDS},
    {"mtp.head", HEAD},
    {"head", HEAD},
};

/* --- their cuts over an axis ------------------------------------------------------------------ */

struct axis_cut {
    enum sn_cut_kind weight, bias;
    struct sn_axis_placement want, give;
};

/* clang-format off */
#define REPLICATE    {SN_REPLICATE, SN_ROWS}
#define PARTIAL_GRAD {SN_REPLICATE_PARTIAL_GRAD, SN_ROWS}
#define PARTIAL      {SN_PARTIAL, SN_ROWS}
#define TOKENS       {SN_SHARD, SN_ROWS}
#define FEATURES     {SN_SHARD, SN_COLS}
#define OF_TOKENS    {SN_CUT_GATHERED, SN_CUT_GATHERED, TOKENS, TOKENS}

/* Over axes that cut outputs, inputs and tokens. */
static const struct axis_cut cuts[NLAYERS][SN_NMESH_USES] = {
    /*               weight         bias           wants         gives */
    [LINEAR]     = {{SN_CUT_ROWS,   SN_CUT_ROWS,   PARTIAL_GRAD, FEATURES},
                    {SN_CUT_COLS,   SN_CUT_NONE,   FEATURES,     PARTIAL},      OF_TOKENS},
    [QKV]        = {{SN_CUT_QKV,    SN_CUT_QKV,    PARTIAL_GRAD, FEATURES},
                    {SN_CUT_COLS,   SN_CUT_NONE,   FEATURES,     PARTIAL},      OF_TOKENS},
    [TRANSPOSED] = {{SN_CUT_COLS,   SN_CUT_NONE,   FEATURES,     PARTIAL},
                    {SN_CUT_ROWS,   SN_CUT_ROWS,   PARTIAL_GRAD, FEATURES},     OF_TOKENS},
    [OF_HEADS]   = {{SN_CUT_SUMMED, SN_CUT_NONE,   FEATURES,     FEATURES},
                    {SN_CUT_NONE,   SN_CUT_NONE,   REPLICATE,    REPLICATE},    OF_TOKENS},
    [OF_FEATURES] = {{SN_CUT_ROWS,  SN_CUT_ROWS,   FEATURES,     FEATURES},
                    {SN_CUT_NONE,   SN_CUT_NONE,   REPLICATE,    REPLICATE},    OF_TOKENS},
    [INSIDE]     = {{SN_CUT_NONE,   SN_CUT_NONE,   FEATURES,     FEATURES},
                    {SN_CUT_NONE,   SN_CUT_NONE,   REPLICATE,    REPLICATE},    OF_TOKENS},
    [WORDS]      = {{SN_CUT_ROWS,   SN_CUT_NONE,   PARTIAL_GRAD, PARTIAL},
                    {SN_CUT_ROWS,   SN_CUT_NONE,   PARTIAL_GRAD, PARTIAL},      OF_TOKENS},
    [HEAD]       = {{SN_CUT_ROWS,   SN_CUT_NONE,   PARTIAL_GRAD, FEATURES},
                    {SN_CUT_ROWS,   SN_CUT_NONE,   PARTIAL_GRAD, FEATURES},     OF_TOKENS},
    [ROUTER]     = {{SN_CUT_SUMMED, SN_CUT_NONE,   PARTIAL_GRAD, PARTIAL_GRAD},
                    {SN_CUT_SUMMED, SN_CUT_NONE,   PARTIAL_GRAD, PARTIAL_GRAD}, OF_TOKENS},
    [EXPERTS]    = {{SN_CUT_ROWS,   SN_CUT_COLS,   PARTIAL_GRAD, PARTIAL},
                    {SN_CUT_ROWS,   SN_CUT_COLS,   PARTIAL_GRAD, PARTIAL},      OF_TOKENS},
    [BETWEEN]    = {{SN_CUT_NONE,   SN_CUT_NONE,   REPLICATE,    REPLICATE},
                    {SN_CUT_ROWS,   SN_CUT_ROWS,   FEATURES,     FEATURES},     OF_TOKENS},
    [IN_SLICES]  = {{SN_CUT_SUMMED, SN_CUT_SUMMED, TOKENS,       TOKENS},
                    {SN_CUT_ROWS,   SN_CUT_ROWS,   FEATURES,     FEATURES},     OF_TOKENS},
};
/* clang-format on */

static struct sn_cut over_axes(const struct sn_mesh *m, enum layer layer)
{
    struct sn_cut c = {.weight = {SN_CUT_NONE}};
    for (int a = 0; a < m->n_axes; a++) {
        const struct axis_cut *of = &cuts[layer][m->axis[a].use];
        c.weight[a] = of->weight;
        c.bias[a] = of->bias;
        c.want.axis[a] = of->want;
        c.give.axis[a] = of->give;
    }
    return c;
}

/* "l12.attn.o" -> "attn.o"; what has no layer stays. */
static const char *without_layer(const char *point)
{
    char *end;
    if (point[0] != 'l')
        return point;
    (void)strtol(point + 1, &end, 10);
    return end > point + 1 && *end == '.' ? end + 1 : point;
}

/* --- adapters --------------------------------------------------------------------------------- */

/* What becomes of the cut of a weight: that of its A, or of its B. */
static void cut_adapter(struct sn_cut *c, int axis, bool is_b)
{
    static const struct sn_axis_placement grad = PARTIAL_GRAD, sum = PARTIAL;
    enum sn_cut_kind w = c->weight[axis];
    c->bias[axis] = SN_CUT_NONE;
    if (w == SN_CUT_ROWS || w == SN_CUT_QKV) { /* outputs are cut */
        c->weight[axis] = is_b ? w : SN_CUT_SUMMED;
        c->want.axis[axis] = grad;
        c->give.axis[axis] = is_b ? c->give.axis[axis] : grad;
    } else if (w == SN_CUT_COLS) { /* inputs are: y is a sum, and so is what is on its way to it */
        c->weight[axis] = is_b ? SN_CUT_SUMMED : w;
        c->want.axis[axis] = is_b ? sum : c->want.axis[axis];
        c->give.axis[axis] = sum;
    }
}

/* "attn.qkv.lora_b.2" -> the length of "attn.qkv", and what follows; NULL: no point of adapters. */
static const char *adapter_of(const char *name, size_t *len)
{
    static const char mark[] = ".lora_";
    const char *at = strstr(name, mark);
    *len = at ? (size_t)(at - name) : strlen(name);
    return at ? at + sizeof(mark) - 1 : NULL;
}

static void adapt(struct sn_cut *c, const struct sn_mesh *m, const char *which)
{
    for (int a = 0; a < m->n_axes; a++) {
        cut_adapter(c, a, which[0] == 'b');
        if (which[0] == 's') /* between the two: as A gives it */
            c->want.axis[a] = c->give.axis[a];
        if (which[0] == 'd') /* before them: as A takes it */
            c->give.axis[a] = c->want.axis[a];
        if (which[0] == 's' || which[0] == 'd')
            c->weight[a] = SN_CUT_NONE;
    }
}

bool sn_cut_at(struct sn_cut *out, const struct sn_mesh *m, const char *point)
{
    const char *name = without_layer(point);
    size_t len;
    const char *adapter = adapter_of(name, &len);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
        if (strlen(points[i].point) == len && memcmp(points[i].point, name, len) == 0) {
            *out = over_axes(m, points[i].layer);
            if (adapter)
                adapt(out, m, adapter);
            return true;
        }
    return false;
}

struct sn_cut sn_cut_between(const struct sn_mesh *m, bool sequence_parallel)
{
    return over_axes(m, sequence_parallel ? IN_SLICES : BETWEEN);
}

/* Products that take and give what stands between blocks. */
static bool is_between(const char *name, size_t len)
{
    static const char *const all[] = {"mtp.embed_proj", "mtp.hidden_proj"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strlen(all[i]) == len && memcmp(all[i], name, len) == 0)
            return true;
    return false;
}

struct sn_cut sn_cut_on(const struct sn_mesh *m, const char *point, bool sequence_parallel)
{
    static const struct sn_axis_placement whole = PARTIAL_GRAD;
    struct sn_cut c;
    size_t len;
    const char *name = without_layer(point), *adapter = adapter_of(name, &len);
    if (sn_cut_at(&c, m, point))
        return c;
    c = sn_cut_between(m, sequence_parallel);
    for (int a = 0; a < m->n_axes && is_between(name, len); a++)
        if (m->axis[a].use == SN_MESH_INPUTS)
            c.want.axis[a] = whole;
    if (adapter && is_between(name, len))
        adapt(&c, m, adapter);
    return c;
}

/* --- parameters ------------------------------------------------------------------------------- */

/* As kept, and as used. */
static const struct sn_axis_placement parameter[][2] = {
    [SN_CUT_NONE] = {REPLICATE, REPLICATE},
    [SN_CUT_ROWS] = {TOKENS, TOKENS},
    [SN_CUT_QKV] = {TOKENS, TOKENS},
    [SN_CUT_COLS] = {FEATURES, FEATURES},
    [SN_CUT_SUMMED] = {REPLICATE, PARTIAL_GRAD},
    [SN_CUT_GATHERED] = {TOKENS, PARTIAL_GRAD},
};

static struct sn_placement placed(const enum sn_cut_kind *cut, int used)
{
    struct sn_placement p;
    for (int a = 0; a < SN_MESH_AXES; a++)
        p.axis[a] = parameter[cut[a]][used];
    return p;
}

struct sn_placement sn_cut_kept(const enum sn_cut_kind cut[SN_MESH_AXES])
{
    return placed(cut, 0);
}

struct sn_placement sn_cut_used(const enum sn_cut_kind cut[SN_MESH_AXES])
{
    return placed(cut, 1);
}

/* --- slices ----------------------------------------------------------------------------------- */

struct sn_slice sn_slice_of(int64_t n, int size, int index)
{
    int64_t padded = (n + size - 1) / size, first = index * padded < n ? index * padded : n;
    return (struct sn_slice){first, n - first < padded ? n - first : padded, padded};
}

struct sn_ways sn_cut_ways(const enum sn_cut_kind cut[SN_MESH_AXES], enum sn_cut_kind kind,
                           const struct sn_mesh_place *at)
{
    struct sn_ways w = {1, 0};
    for (int a = 0; a < SN_MESH_AXES; a++)
        if (cut[a] == kind) {
            w.size *= at->size[a];
            w.index = w.index * at->size[a] + at->index[a];
        }
    return w;
}

struct sn_slice sn_cut_slice(const enum sn_cut_kind cut[SN_MESH_AXES], enum sn_cut_kind kind,
                             const struct sn_mesh_place *at, int64_t n)
{
    struct sn_ways w = sn_cut_ways(cut, kind, at);
    return sn_slice_of(n, w.size, w.index);
}

int sn_kv_copies(const struct sn_model_config *m, int size)
{
    return size > m->kv_heads ? size / m->kv_heads : 1;
}

struct sn_slice sn_slice_of_heads(const struct sn_model_config *m, int tensor, int size, int index)
{
    int64_t width = sn_model_head_dim(m);
    int copies = tensor == 0 ? 1 : sn_kv_copies(m, size);
    int heads = tensor == 0 ? m->heads : m->kv_heads;
    int64_t each = heads / (size / copies) * width; /* rules.c: it divides */
    return (struct sn_slice){index / copies * each, each, each};
}
