#include "lib/machine/links.h"

#include "lib/base/mem.h"

#include <math.h>

enum sn_status sn_links_add(struct sn_links *l, struct sn_measured_link x, struct sn_err *err)
{
    if (!sn_grow((void **)&l->v, l->n, &l->cap, sizeof(*l->v)))
        return sn_fail(err, SN_ENOMEM, "links: no memory for %d measurements", l->n + 1);
    l->v[l->n++] = x;
    return SN_OK;
}

void sn_links_fini(struct sn_links *l)
{
    sn_free(l->v);
    *l = (struct sn_links){0};
}

/* The two sizes around, or the two largest; *below NULL when the message is smaller than all. */
static void neighbours(const struct sn_measured_link **below, const struct sn_measured_link **above,
                       const struct sn_measured_link *v, int n,
                       const struct sn_measured_link *wanted)
{
    const struct sn_measured_link *under = NULL, *next = NULL, *before = NULL;
    for (int i = 0; i < n; i++) {
        if (v[i].kind != wanted->kind || v[i].members != wanted->members)
            continue;
        if (v[i].bytes > wanted->bytes) {
            if (!next || v[i].bytes < next->bytes)
                next = &v[i];
        } else if (!under || v[i].bytes > under->bytes) {
            before = under;
            under = &v[i];
        } else if (!before || v[i].bytes > before->bytes) {
            before = &v[i];
        }
    }
    *below = next || !before ? under : before;
    *above = next ? next : under;
}

bool sn_links_find(double *seconds, const struct sn_links *l, const struct sn_measured_link *wanted)
{
    const struct sn_measured_link *a, *b;
    neighbours(&a, &b, l->v, l->n, wanted);
    if (!b)
        return false;
    double bytes = (double)wanted->bytes;
    if (!a)
        *seconds = b->seconds;
    else if (a == b) /* the only point */
        *seconds = a->seconds * bytes / (double)a->bytes;
    else if (bytes > (double)b->bytes) {
        double rate = (b->seconds - a->seconds) / (double)(b->bytes - a->bytes);
        *seconds = b->seconds + (bytes - (double)b->bytes) * fmax(rate, 0);
    } else {
        double at = log(bytes / (double)a->bytes) / log((double)b->bytes / (double)a->bytes);
        *seconds = a->seconds * pow(b->seconds / a->seconds, at);
    }
    return true;
}
