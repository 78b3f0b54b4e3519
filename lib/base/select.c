#include "lib/base/select.h"

uint64_t sn_select_largest(uint64_t *x, int64_t n, int64_t k)
{
    int64_t first = 0, last = n - 1;
    k--;
    while (first < last) {
        uint64_t pivot = x[first + (last - first) / 2];
        int64_t i = first, j = last;
        while (i <= j) {
            while (x[i] > pivot)
                i++;
            while (x[j] < pivot)
                j--;
            if (i <= j) {
                uint64_t t = x[i];
                x[i++] = x[j];
                x[j--] = t;
            }
        }
        if (k <= j)
            last = j;
        else if (k >= i)
            first = i;
        else
            break;
    }
    return x[k];
}
