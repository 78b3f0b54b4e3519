/*
 * models.h - the models of a table of layouts (layouts.h), each once.
 */
#ifndef MODELS_H
#define MODELS_H

#include "lib/base/hash.h"
#include "lib/config/config.h"

enum { MODELS_MOST = 256 };

struct models {
    uint64_t hash[MODELS_MOST];
    int n;
};

/* Is it the first with this model, and adapters of this rank? */
__attribute__((unused)) static bool models_add(struct models *m, const struct sn_config *c)
{
    struct sn_str text = {0};
    sn_config_format_model(&text, c);
    sn_str_add(&text, "%d", c->train.lora.r);
    uint64_t hash = text.failed ? 0 : sn_hash64(text.p, text.len);
    sn_str_fini(&text);
    for (int i = 0; i < m->n; i++)
        if (m->hash[i] == hash)
            return false;
    if (m->n < MODELS_MOST)
        m->hash[m->n++] = hash;
    return true;
}

#endif
