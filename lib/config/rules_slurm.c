/*
 * rules_slurm.c - the rules of the batch script's keys: what a script could take for something else
 * than it is, is refused where it was written.
 */
#include "lib/base/duration.h"
#include "lib/config/settings.h"

#include <stddef.h>
#include <string.h>

static const char alphanumeric[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/* The first character that is neither a letter, a digit nor one of `more`; 0: none. */
static char find_other(const char *text, const char *more)
{
    for (; *text; text++)
        if (!strchr(alphanumeric, *text) && !strchr(more, *text))
            return *text;
    return 0;
}

static enum sn_status plain(const struct sn_settings *s, const char *key, const char *text,
                            struct sn_err *err)
{
    static const char more[] = "_-.,:/@%+=[]&|*!()";
    char bad[2] = {find_other(text, more), 0}, shown[SN_CLIP_SIZE];
    (void)sn_clip(shown, text);
    if (!bad[0] && text[0] != '-')
        return SN_OK;
    if (!bad[0])
        return sn_settings_fail(s, key, err, "'%s' begins with '-', as an option does; want a name",
                                shown);
    return sn_settings_fail(s, key, err,
                            "'%s' has %s%s, which a batch script does not take; want letters, "
                            "digits and %s",
                            shown, (unsigned char)bad[0] < 0x7f ? bad : "a character",
                            (unsigned char)bad[0] < 0x7f ? "" : " outside ASCII", more);
}

static enum sn_status names_are_plain(const struct sn_config *c, const struct sn_settings *s,
                                      struct sn_err *err)
{
    static const struct {
        const char *key;
        size_t offset;
    } row[] = {{"slurm.partition", offsetof(struct sn_slurm_config, partition)},
               {"slurm.account", offsetof(struct sn_slurm_config, account)},
               {"slurm.qos", offsetof(struct sn_slurm_config, qos)},
               {"slurm.constraint", offsetof(struct sn_slurm_config, constraint)},
               {"slurm.reservation", offsetof(struct sn_slurm_config, reservation)}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        SN_TRY(plain(s, row[i].key, (const char *)&c->slurm + row[i].offset, err));
    for (int i = 0; i < c->slurm.n_exclude; i++)
        SN_TRY(plain(s, "slurm.exclude", c->slurm.exclude[i], err));
    return SN_OK;
}

/* Quotes would end where sbatch sees fit; spaces are quoted by the script's writer. */
static enum sn_status extras_are_options(const struct sn_config *c, const struct sn_settings *s,
                                         struct sn_err *err)
{
    static const char more[] = " _-.,:/@%+=[]&|*!()<>^~;";
    char shown[SN_CLIP_SIZE];
    for (int i = 0; i < c->slurm.n_extra; i++) {
        const char *text = c->slurm.extra[i];
        if (text[0] != '-' || !text[1])
            return sn_settings_fail(s, "slurm.extra", err,
                                    "'%s' is no option; want one such as --mail-type=FAIL",
                                    sn_clip(shown, text));
        if (find_other(text, more))
            return sn_settings_fail(s, "slurm.extra", err,
                                    "'%s' has a quote or another character that sbatch would "
                                    "take for something else; want letters, digits and%s",
                                    sn_clip(shown, text), more);
    }
    return SN_OK;
}

static enum sn_status time_is_a_time(struct sn_config *c, const struct sn_settings *s,
                                     struct sn_err *err)
{
    struct sn_slurm_config *l = &c->slurm;
    char shown[SN_CLIP_SIZE];
    if (!l->time[0] || sn_duration_parse(l->time, &l->seconds))
        return SN_OK;
    return sn_settings_fail(s, "slurm.time", err,
                            "'%s' is no time limit; want minutes, H:MM:SS or D-HH:MM:SS, such "
                            "as 12:00:00",
                            sn_clip(shown, l->time));
}

static enum sn_status signal_is_within_time(const struct sn_config *c, const struct sn_settings *s,
                                            struct sn_err *err)
{
    const struct sn_slurm_config *l = &c->slurm;
    if (!l->seconds || l->signal_before < l->seconds)
        return SN_OK;
    return sn_settings_fail(s, "slurm.signal_before", err,
                            "%d seconds are not less than slurm.time (%s); want a part of it",
                            l->signal_before, l->time);
}

enum sn_status sn_rules_slurm(struct sn_config *c, const struct sn_settings *s, struct sn_err *err)
{
    if (strcmp(c->slurm.account, "none") == 0)
        memset(c->slurm.account, 0, sizeof(c->slurm.account));
    SN_TRY(names_are_plain(c, s, err));
    SN_TRY(extras_are_options(c, s, err));
    SN_TRY(time_is_a_time(c, s, err));
    return signal_is_within_time(c, s, err);
}
