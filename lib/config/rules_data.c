/*
 * rules_data.c - the rules between the sets of data.train, data.valid and data.phases; and of data.curriculum
 * and data.prefix.
 */
#include "lib/config/settings.h"

#include <string.h>

static enum sn_status phases_name_sets(const struct sn_config *c, const struct sn_settings *s,
                                       struct sn_err *err)
{
    const struct sn_data_phases *p = &c->data.phases;
    if (p->n > 0 && !c->data.train.is_list)
        return sn_settings_fail(s, "data.phases", err,
                                "needs sets with names; want data.train: [{path: PREFIX}, ...]");
    for (int i = 0; i < p->n_parts; i++) {
        const char *name = p->texts.text + p->part[i].name;
        if (sn_set_find(&c->data.train, name) < 0)
            return sn_settings_fail(s, "data.phases", err,
                                    "data.train has no set '%s'; want names of its sets, such as "
                                    "'%s'",
                                    name, sn_set_name(&c->data.train, 0));
    }
    return SN_OK;
}

/* A set that no step would read. */
static enum sn_status sets_have_parts(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    const struct sn_data_config *d = &c->data;
    double weight[SN_SETS_MAX];
    bool has_part[SN_SETS_MAX] = {false}, begins = d->phases.n > 0 && d->phases.from_step[0] == 1;
    if (!begins && !sn_phase_weights(d, -1, weight))
        return SN_OK; /* all do, by size */
    if (begins && sn_phase_weights(d, -1, weight))
        return sn_settings_fail(s, "data.phases", err,
                                "a phase from step 1 on leaves nothing to data.train's own "
                                "weights; leave those out, or let it begin later");
    for (int phase = begins ? 0 : -1; phase < d->phases.n; phase++) {
        (void)sn_phase_weights(d, phase, weight);
        for (int i = 0; i < d->train.n; i++)
            has_part[i] = has_part[i] || weight[i] > 0;
    }
    for (int i = 0; i < d->train.n; i++)
        if (!has_part[i])
            return sn_settings_fail(s, "data.train", err,
                                    "set '%s' has no weight where others have, and no phase names "
                                    "it; want a weight, or leave the set out",
                                    sn_set_name(&d->train, i));
    return SN_OK;
}

static enum sn_status validation_has_names(const struct sn_config *c, const struct sn_settings *s,
                                           struct sn_err *err)
{
    int n = sn_valid_sets(&c->data);
    if (n > SN_SETS_MAX)
        return sn_settings_fail(s, "data.valid", err,
                                "%d sets are validated with those of data.train; want at most %d",
                                n, SN_SETS_MAX);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const char *name = sn_valid_set(&c->data, i).name;
            if (strcmp(name, sn_valid_set(&c->data, k).name) == 0)
                return sn_settings_fail(s, "data.valid", err,
                                        "'%s' is validated in data.train (valid), too; want "
                                        "another name, or one of them",
                                        name);
        }
    return SN_OK;
}

static enum sn_status curriculum_grows(const struct sn_config *c, const struct sn_settings *s,
                                       struct sn_err *err)
{
    const struct sn_curriculum_config *u = &c->data.curriculum;
    if (u->n_until != u->n_lengths)
        return sn_settings_fail(s, u->n_until > 0 ? "data.curriculum.until" : "data.curriculum", err,
                                "%d ends of %d lengths; want one for each in data.curriculum.until",
                                u->n_until, u->n_lengths);
    for (int k = 0; k < u->n_lengths; k++) {
        int next = k + 1 < u->n_lengths ? u->lengths[k + 1] : c->model.seq;
        if (u->lengths[k] >= next)
            return sn_settings_fail(s, "data.curriculum.lengths", err,
                                    "%d comes before %d; want lengths that grow, up to less than "
                                    "model.seq",
                                    u->lengths[k], next);
        if (k > 0 && u->until[k] <= u->until[k - 1])
            return sn_settings_fail(s, "data.curriculum.until", err,
                                    "pieces of %d tokens have no step; want ends that grow",
                                    u->lengths[k]);
    }
    return SN_OK;
}

/* A prompt is a document's, and a mask says where it ends. */
static enum sn_status prefix_is_told(const struct sn_config *c, const struct sn_settings *s,
                                     struct sn_err *err)
{
    bool apart = c->data.documents == SN_DOCUMENTS_APART;
    if (c->data.prefix == SN_PREFIX_NONE || (apart && c->data.loss == SN_LOSS_MASK))
        return SN_OK;
    return sn_settings_fail(s, "data.prefix", err,
                            "prompt is what of a document comes before its first token that "
                            "counts; want data.documents: apart and data.loss: mask beside it");
}

/* What a plan expects is of masks that training has. */
static enum sn_status lengths_are_of_masks(const struct sn_config *c, const struct sn_settings *s,
                                           struct sn_err *err)
{
    const struct sn_data_config *d = &c->data;
    int most = d->document_length > 0 ? d->document_length : c->model.seq;
    if (d->document_length > 0 && d->documents != SN_DOCUMENTS_APART)
        return sn_settings_fail(s, "data.document_length", err,
                                "has no effect where documents see each other; want "
                                "data.documents: apart, or 0");
    if (d->document_length > 0 && sn_prompt_positions(&c->train.prompt) > 0)
        return sn_settings_fail(s, "data.document_length", err,
                                "has no effect beside train.prompt, where each document is a "
                                "sample; want 0");
    if (d->prefix_length > 0 && d->prefix == SN_PREFIX_NONE)
        return sn_settings_fail(s, "data.prefix_length", err,
                                "has no effect without data.prefix: prompt; want that, or 0");
    if (d->prefix_length > most)
        return sn_settings_fail(s, "data.prefix_length", err,
                                "%d is more than the %d tokens of %s",
                                d->prefix_length, most,
                                d->document_length > 0
                                    ? "a document; want fewer"
                                    : "a sample, which is one document where data.document_length "
                                      "is 0; set that, or fewer");
    return SN_OK;
}

enum sn_status sn_rule_data(const struct sn_config *c, const struct sn_settings *s,
                            struct sn_err *err)
{
    SN_TRY(phases_name_sets(c, s, err));
    SN_TRY(sets_have_parts(c, s, err));
    SN_TRY(curriculum_grows(c, s, err));
    SN_TRY(prefix_is_told(c, s, err));
    SN_TRY(lengths_are_of_masks(c, s, err));
    return validation_has_names(c, s, err);
}
