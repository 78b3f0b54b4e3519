/*
 * site_rules.c - what has to hold between the keys of a site's file, and what its words may be:
 * they go into a script.
 */
#include "slurm/site/site_inner.h"

#include <string.h>

static enum sn_status check_options(const struct sn_site *s, const char *key,
                                    const struct sn_words *w, struct sn_err *err)
{
    bool words = strcmp(key, "launch.flags") == 0; /* where a value may be a word of its own */
    for (int i = 0; i < w->n; i++)
        if ((w->word[i][0] != '-' && !(words && i)) || strpbrk(w->word[i], "'\"\\`$#"))
            return sn_site_fail(s, sn_site_line(s, key), err,
                                "%s: '%.60s' is no option; want one such as --exclusive", key,
                                w->word[i]);
    return SN_OK;
}

static enum sn_status check_text(const struct sn_site *s, const char *key, const char *text,
                                 struct sn_err *err)
{
    if (strspn(text, SN_SITE_PLAIN) == strlen(text) && text[0] != '-')
        return SN_OK;
    return sn_site_fail(s, sn_site_line(s, key), err,
                        "%s: '%.60s' is nothing that a script takes; want letters, digits and %s",
                        key, text, "_-.,:/@%+=[]&|*!()");
}

static enum sn_status check_texts(const struct sn_site *s, struct sn_err *err)
{
    SN_TRY(check_text(s, "name", s->name, err));
    SN_TRY(check_text(s, "machine", s->machine, err));
    const char *option = s->submit.account_option;
    if (option[0] && (option[0] != '-' || strspn(option, SN_SITE_PLAIN) != strlen(option)))
        return sn_site_fail(s, sn_site_line(s, "submit.account_option"), err,
                            "submit.account_option: '%s' is no option; want one such as -G",
                            option);
    SN_TRY(check_text(s, "submit.account_suffix",
                      s->submit.account_suffix + (s->submit.account_suffix[0] == '-'), err));
    SN_TRY(check_text(s, "submit.gpu_type", s->submit.gpu_type, err));
    SN_TRY(check_text(s, "submit.memory_value", s->submit.memory_value, err));
    SN_TRY(check_text(s, "submit.constraint", s->submit.constraint, err));
    for (int i = 1; i < s->n_kinds; i++) {
        SN_TRY(check_text(s, "kinds", s->kind[i].machine, err));
        SN_TRY(check_text(s, "kinds", s->kind[i].constraint, err));
        SN_TRY(check_text(s, "kinds", s->kind[i].partition, err));
        if (s->kind[i].partition[0] && !sn_site_partition(s, s->kind[i].partition))
            return sn_site_fail(s, s->kind[i].line, err,
                                "kinds.partition: '%s' is none of partitions; want one of them",
                                s->kind[i].partition);
    }
    for (int i = 0; i < s->n_partitions + s->n_qos; i++) {
        const struct sn_site_queue *q =
            i < s->n_partitions ? &s->partition[i] : &s->qos[i - s->n_partitions];
        SN_TRY(check_text(s, "partitions", q->partition, err));
        SN_TRY(check_text(s, "partitions", q->qos, err));
    }
    SN_TRY(check_text(s, "launch.mpi", s->launch.mpi, err));
    SN_TRY(check_options(s, "submit.forbidden", &s->submit.forbidden, err));
    SN_TRY(check_options(s, "submit.extra", &s->submit.extra, err));
    return check_options(s, "launch.flags", &s->launch.flags, err);
}

/* "NAME=value". */
static enum sn_status check_detection(const struct sn_site *s, struct sn_err *err)
{
    for (int i = 0; i < s->detect.n; i++) {
        const char *word = s->detect.word[i], *equals = strchr(word, '=');
        size_t n = equals ? (size_t)(equals - word) : 0;
        if (!n || !equals[1] ||
            strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
            return sn_site_fail(s, sn_site_line(s, "detect"), err,
                                "detect: '%.60s' is no variable with its value; want one such as "
                                "NERSC_HOST=perlmutter",
                                word);
    }
    return SN_OK;
}

enum sn_status sn_site_check(const struct sn_site *s, struct sn_err *err)
{
    const struct sn_site_submit *u = &s->submit;
    bool lsf = s->scheduler == SN_SCHED_LSF;
    bool lsf_launcher = s->launch.with == SN_LAUNCH_JSRUN || s->launch.with == SN_LAUNCH_LRUN;
    if (u->memory == SN_SITE_REQUIRED && !u->memory_value[0])
        return sn_site_fail(s, sn_site_line(s, "submit.memory"), err,
                            "submit.memory: required, but how much is not said; want "
                            "submit.memory_value");
    if (u->memory == SN_SITE_FORBIDDEN && u->memory_value[0])
        return sn_site_fail(s, sn_site_line(s, "submit.memory_value"), err,
                            "submit.memory_value: memory is forbidden; want one of the two");
    if (u->account == SN_SITE_FORBIDDEN && u->account_suffix[0])
        return sn_site_fail(s, sn_site_line(s, "submit.account_suffix"), err,
                            "submit.account_suffix: accounts are forbidden; want one of the two");
    if (s->launch.mpi[0] && s->launch.with != SN_LAUNCH_SRUN)
        return sn_site_fail(s, sn_site_line(s, "launch.mpi"), err,
                            "launch.mpi: is for srun, and ranks are started by %s; want one of the "
                            "two",
                            sn_launcher_name(s->launch.with));
    if (lsf != lsf_launcher)
        return sn_site_fail(s, sn_site_line(s, "launch.with"), err,
                            "launch.with: %s does not start jobs of %s; want %s",
                            sn_launcher_name(s->launch.with), sn_scheduler_name(s->scheduler),
                            lsf ? "jsrun or lrun" : "another launcher");
    if (u->signal == SN_SIGNAL_STEPS && s->launch.with != SN_LAUNCH_SRUN)
        return sn_site_fail(s, sn_site_line(s, "launch.with"), err,
                            "submit.signal: what %s starts is no step, or one of its own daemons, "
                            "which a signal ends; want batch",
                            sn_launcher_name(s->launch.with));
    SN_TRY(check_detection(s, err));
    return check_texts(s, err);
}
