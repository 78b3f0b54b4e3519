#include "lib/search/overlap.h"

#include "lib/cost/price.h"
#include "lib/machine/named.h"

#include <assert.h>

static_assert((int)SN_NGROUPS <= (int)SN_OVERLAP_GROUPS, "rates of all groups have their place");
static_assert((int)SN_LINK_LEVELS == (int)SN_OVERLAP_LEVELS, "and those of all levels");

/* The line through a short and a long message of a group. */
static void rate_group(struct sn_overlap_rates *out, const struct sn_pricer *p, enum sn_group q)
{
    enum { SHORT = 64, LONG = 64 << 20 }; /* bytes of a member */
    int members = p->span[q].members;
    double first = sn_price_collective(p, SN_ALL_GATHER, SHORT, SN_U8, q),
           last = sn_price_collective(p, SN_ALL_GATHER, LONG, SN_U8, q);
    double sent = (double)sn_collective_bytes(SN_ALL_GATHER, LONG - SHORT, SN_U8, members, 0);
    struct sn_link_use use;
    sn_price_gather_uses(&use, p, LONG, q);
    for (int i = 0; i < SN_LINK_LEVELS; i++)
        out->busy[q][i] = use.of[i];
    out->messages[q] = use.messages;
    out->start[q] = first;
    out->link[q] = last > first && sent > 0 ? sent / (last - first) : 1e30; /* nobody to send to */
}

enum sn_status sn_overlap_rates_of(struct sn_overlap_rates *out, const struct sn_config *c,
                                   const struct sn_machine *m, const struct sn_software *s,
                                   struct sn_err *err)
{
    *out = (struct sn_overlap_rates){0};
    if (c->layout.overlap == SN_OVERLAP_NONE)
        return SN_OK;
    struct sn_pricer p = {.machine = m,
                          .software = s,
                          .precision = c->train.precision,
                          .threads = c->run.threads > 0 ? c->run.threads : 1};
    const struct sn_gemm_rate *gemm = &m->device.gemm[c->train.precision];
    SN_TRY(sn_job_grid(&p.grid, c, err));
    for (int q = 0; q < SN_NGROUPS; q++) {
        sn_span_of(&p.span[q], m, &p.grid, (enum sn_group)q);
        rate_group(out, &p, (enum sn_group)q);
    }
    out->flops = gemm->peak * gemm->most;
    out->bytes = m->device.bandwidth;
    return SN_OK;
}

enum sn_status sn_overlap_resolve(struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_software s;
    c->overlap_rates = (struct sn_overlap_rates){0};
    if (c->layout.overlap == SN_OVERLAP_NONE || !sn_names_machine(c))
        return SN_OK;
    SN_TRY(sn_machine_of(&m, c, NULL, err)); /* its own sentence names the file */
    enum sn_status st = sn_software_of(&s, c, NULL, err);
    if (st == SN_OK)
        st = sn_overlap_rates_of(&c->overlap_rates, c, &m, &s, err);
    sn_machine_fini(&m);
    return st == SN_OK ? SN_OK : sn_err_prefix(err, "layout.overlap: auto");
}
