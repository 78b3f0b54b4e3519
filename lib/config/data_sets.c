#include "lib/config/config.h"

#include <string.h>

static const char *text_at(const struct sn_set_texts *t, int at)
{
    return at > 0 ? t->text + at : "";
}

const char *sn_set_path(const struct sn_data_sets *s, int i)
{
    return i < s->n ? text_at(&s->texts, s->set[i].path) : "";
}

const char *sn_set_valid(const struct sn_data_sets *s, int i)
{
    return i < s->n ? text_at(&s->texts, s->set[i].valid) : "";
}

const char *sn_set_name(const struct sn_data_sets *s, int i)
{
    return i < s->n ? text_at(&s->texts, s->set[i].name) : "";
}

int sn_set_find(const struct sn_data_sets *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(sn_set_name(s, i), name) == 0)
            return i;
    return -1;
}

int sn_set_texts_add(struct sn_set_texts *t, const char *text)
{
    int at = t->bytes > 0 ? t->bytes : 1; /* behind the end of "" */
    size_t n = strlen(text) + 1;
    if (n > sizeof(t->text) - (size_t)at)
        return -1;
    memcpy(t->text + at, text, n);
    t->bytes = at + (int)n;
    return at;
}

void sn_sets_take(struct sn_data_sets *s, const char *prefix)
{
    memset(s, 0, sizeof(*s));
    if (!*prefix)
        return;
    s->set[0].path = sn_set_texts_add(&s->texts, prefix);
    s->n = 1;
}

int sn_valid_sets(const struct sn_data_config *d)
{
    int n = d->valid.n;
    for (int i = 0; i < d->train.n; i++)
        n += d->train.set[i].valid > 0;
    return n;
}

struct sn_valid_set sn_valid_set(const struct sn_data_config *d, int i)
{
    bool is_all = d->valid.n == 1 && sn_valid_sets(d) == 1;
    if (i < d->valid.n)
        return (struct sn_valid_set){d->valid.is_list || is_all ? sn_set_name(&d->valid, i)
                                                                : "valid",
                                     sn_set_path(&d->valid, i)};
    int k = 0;
    for (int left = i - d->valid.n;; k++)
        if (d->train.set[k].valid > 0 && left-- == 0)
            break;
    return (struct sn_valid_set){sn_set_name(&d->train, k), sn_set_valid(&d->train, k)};
}

bool sn_phase_weights(const struct sn_data_config *d, int phase, double weight[])
{
    bool has_some = false;
    for (int i = 0; i < d->train.n; i++) {
        weight[i] = phase < 0 ? d->train.set[i].weight : 0;
        has_some = has_some || weight[i] > 0;
    }
    for (int k = 0; k < d->phases.n_parts && phase >= 0; k++) {
        const struct sn_data_part *p = &d->phases.part[k];
        int i = sn_set_find(&d->train, text_at(&d->phases.texts, p->name));
        if (p->phase != phase || i < 0)
            continue;
        weight[i] = p->weight;
        has_some = true;
    }
    return has_some;
}

int sn_told_sets(const struct sn_data_config *d)
{
    return d->train.n > 1 ? d->train.n : 0;
}
