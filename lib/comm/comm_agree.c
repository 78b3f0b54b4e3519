/*
 * comm_agree.c - how the ranks have fared: the worst of all, and the sentence of who fared so.
 */
#include "lib/comm/comm_engine.h"

#include <string.h>
#include <unistd.h>

/* The greatest word of all in *word; false: it is not known, or SN_OK, or the only rank's. *from is
 * the lowest rank that has it. */
static bool find_worst(struct sn_engine *e, int *word, int *from)
{
    int local[2] = {*word, e->base.rank}, worst[2] = {SN_OK, 0};
    e->port->ops->worst(e->port, local, worst);
    if (!sn_engine_complete(e, SN_PORT_WORLD) || worst[0] == SN_OK || e->base.size == 1)
        return false;
    *word = worst[0];
    *from = worst[1];
    return true;
}

/* The sentence of one rank to all, behind its name where it does not bear one yet. */
static void spread(struct sn_engine *e, struct sn_err *err, int from)
{
    if (from == e->base.rank && !err->agreed) {
        char host[64] = "unknown host";
        (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
        (void)sn_err_prefix(err, "rank %d (%s)", e->base.rank, host);
    }
    sn_engine_broadcast(e, err->text, sizeof(err->text), from);
}

void sn_engine_agree(struct sn_engine *e, struct sn_err *mine)
{
    int word = (int)mine->status, from = 0;
    if (!find_worst(e, &word, &from))
        return;
    mine->status = (enum sn_status)word;
    spread(e, mine, from);
}

void sn_engine_poll(struct sn_engine *e, struct sn_engine_poll *mine)
{
    int from = 0;
    if (!find_worst(e, &mine->word, &from) || mine->word == SN_POLL_WORKS)
        return;
    spread(e, &mine->err, from);
    if (mine->word == SN_POLL_STUCK)
        mine->word = SN_ELOST;
    mine->err.status = (enum sn_status)mine->word;
    mine->err.agreed = 1;
}
