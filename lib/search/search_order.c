#include "lib/search/search_order.h"

#include <string.h>

void sn_search_order(struct sn_layout_config *l, int k)
{
    static const enum sn_order_axis usual[] = {SN_ORDER_TENSOR, SN_ORDER_CONTEXT,
                                               SN_ORDER_DATA_AXIS, SN_ORDER_PIPELINE};
    enum sn_order_axis left[4];
    bool shared_out = l->expert > 1 || l->expert_tensor > 1;
    bool apart = k >= SN_SEARCH_ORDERS && shared_out, inside = k >= SN_SEARCH_ORDERS && !shared_out;
    memcpy(left, usual, sizeof(left));
    l->n_axis_order = 0;
    k %= SN_SEARCH_ORDERS;
    for (int i = 0, n = 4, base = 6; i < 4; i++, n--) {
        int pick = k / base;
        if (inside && left[pick] == SN_ORDER_TENSOR)
            l->axis_order[l->n_axis_order++] = SN_ORDER_TENSOR_X;
        l->axis_order[l->n_axis_order++] = left[pick];
        if (apart && left[pick] == SN_ORDER_DATA_AXIS)
            l->axis_order[l->n_axis_order++] = SN_ORDER_EXPERT;
        for (int j = pick; j + 1 < n; j++)
            left[j] = left[j + 1];
        k %= base;
        base = i == 0 ? 2 : 1;
    }
}
