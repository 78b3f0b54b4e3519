/*
 * tokens.h - how tokens come to experts that are cut over tensor ranks, by price.
 *
 * There are three ways (docs/EXPERTS.md): tensor ranks route the same tokens and each sends a row
 * of every one; the same, but each row once between them (layout.drop_duplicates); each routes
 * tokens of its own (layout.expert_tokens: split). Where keys say auto, a layer's step is played in
 * each way that they and the rules leave, with its own hops and as many chunks as pay. Plain
 * sending stands unless another way is shorter; and unless that way fits, where plain sending does.
 */
#ifndef SN_TOKENS_H
#define SN_TOKENS_H

#include "lib/cost/price.h"

/* Is there something to choose, by the price of a named machine? */
bool sn_tokens_are_open(const struct sn_config *c);
/* The shortest way into c->layout, which is a resolved one but for these keys, hops and chunks. */
enum sn_status sn_tokens_choose(struct sn_config *c, const struct sn_machine *m,
                                const struct sn_software *s, struct sn_err *err);

#endif
