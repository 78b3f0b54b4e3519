/*
 * search_order.h - orders of a layout's axes, by number. Internal to the search.
 */
#ifndef SN_SEARCH_ORDER_H
#define SN_SEARCH_ORDER_H

#include "lib/config/config.h"

/* Of four axes; and those in which copies of experts are neighbours, not the ranks that share them
 * out, or, where there are none, tensor_x is inside tensor, not behind it. */
enum { SN_SEARCH_ORDERS = 24, SN_ALL_SEARCH_ORDERS = 2 * SN_SEARCH_ORDERS };

/* The k-th order, the usual one first: what varies fastest innermost. */
void sn_search_order(struct sn_layout_config *l, int k);

#endif
