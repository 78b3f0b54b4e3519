#include "tests/lib/price_test.h"

#include <math.h>

static struct sn_buffer bufs[] = {{.dtype = SN_BF16}, {.dtype = SN_F32}, {.dtype = SN_U8}};
const struct sn_program price_program = {.bufs = bufs, .n_bufs = 3, .micros = 1};

bool price_near(double got, double want)
{
    return fabs(got - want) <= 1e-9 * fabs(want);
}

struct sn_op price_op(int kind)
{
    struct sn_op op = {.kind = kind};
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i].buf = -1;
    for (int o = 0; o < SN_MAX_OUT; o++)
        op.out[o].buf = -1;
    return op;
}

struct sn_view price_view(int buf, int64_t rows, int64_t cols)
{
    return (struct sn_view){.buf = buf, .rows = rows, .cols = cols, .ld = cols};
}

struct sn_machine price_cluster(void)
{
    struct sn_machine m = {.n_levels = 2, .launch = 20e-6};
    m.device.bandwidth = 2e12;
    m.device.overhead = 4e-6;
    m.device.half_bytes = 1e6;
    m.device.gemm[SN_BF16] = (struct sn_gemm_rate){
        .peak = 300e12, .most = 0.8, .half_m = 100, .half_n = 50, .half_k = 25};
    m.device.attention_forward = 0.5;
    m.device.attention_backward = 0.4;
    m.device.attention_half_seq = 256;
    m.device.moved[SN_MOVED_NORM] = 0.5;
    m.device.moved[SN_MOVED_ELEMENTWISE] = 0.8;
    m.level[0] = (struct sn_level){
        .ranks = 8, .latency = 5e-6, .device = 300e9, .efficiency = 0.8, .all_reduce = 1};
    m.level[1] = (struct sn_level){
        .latency = 30e-6, .device = 50e9, .domain = 200e9, .efficiency = 0.9, .all_reduce = 1};
    return m;
}

struct sn_pricer price_pricer(const struct sn_machine *m, const struct sn_software *s,
                              const int size[SN_NGRID_AXES])
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    struct sn_pricer p = {.machine = m, .software = s, .precision = SN_BF16};
    int ranks = 1;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        ranks *= size[a];
    (void)sn_grid_init(&p.grid, ranks, size, order, NULL);
    for (int q = 0; q < SN_NGROUPS; q++)
        sn_span_of(&p.span[q], m, &p.grid, (enum sn_group)q);
    return p;
}
