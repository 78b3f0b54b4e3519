#include "lib/search/search_heap.h"

#include "lib/base/mem.h"

/* Equal bounds: the order of the list, compiled ones first. */
static bool before(const struct sn_branch *a, const struct sn_branch *b)
{
    if (a->bound != b->bound)
        return a->bound < b->bound;
    if (a->variant != b->variant)
        return a->variant < b->variant;
    return a->level != b->level ? a->level > b->level : a->order < b->order;
}

static void swap(struct sn_branch *a, struct sn_branch *b)
{
    struct sn_branch t = *a;
    *a = *b;
    *b = t;
}

enum sn_status sn_heap_push(struct sn_heap *h, const struct sn_branch *n, struct sn_err *err)
{
    if (!sn_grow((void **)&h->node, (int)h->n, &h->cap, sizeof(*h->node)))
        return sn_fail(err, SN_ENOMEM, "search: no memory for more than %lld layouts",
                       (long long)h->n);
    int64_t i = h->n++;
    h->node[i] = *n;
    for (; i > 0 && before(&h->node[i], &h->node[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&h->node[i], &h->node[(i - 1) / 2]);
    return SN_OK;
}

bool sn_heap_pop(struct sn_branch *out, struct sn_heap *h)
{
    if (h->n == 0)
        return false;
    *out = h->node[0];
    h->node[0] = h->node[--h->n];
    for (int64_t i = 0;;) {
        int64_t least = 2 * i + 1;
        if (least + 1 < h->n && before(&h->node[least + 1], &h->node[least]))
            least++;
        if (least >= h->n || !before(&h->node[least], &h->node[i]))
            return true;
        swap(&h->node[least], &h->node[i]);
        i = least;
    }
}

void sn_heap_fini(struct sn_heap *h)
{
    sn_free(h->node);
    *h = (struct sn_heap){0};
}
