#include "slurm/scheduler/scrub.h"

#include "lib/base/mem.h"
#include "slurm/scheduler/options.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool sn_is_of_a_job(const char *name)
{
    static const char *const prefix[] = {
        "SLURM_",         "SLURMD_",       "SRUN_",          "SBATCH_",          "SALLOC_",
        "PMI_",           "PMI2_",         "PMIX_",          "OMPI_COMM_WORLD_", "OMPI_MCA_ess",
        "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_UNIVERSE_", "PRTE_MCA_prte_"};
    static const char *const kept[] = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"};
    size_t n = strcspn(name, "=");
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (n == strlen(kept[i]) && begins(name, kept[i]))
            return false;
    for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
        if (begins(name, prefix[i]))
            return true;
    return false;
}

/* Has the script a line "#SBATCH OPTION" or "#SBATCH OPTION=..."? */
static bool script_has(const char *script, const char *option)
{
    size_t n = strlen(option);
    for (const char *at = script; (at = strstr(at, "#SBATCH ")); at++) {
        const char *said = at + strlen("#SBATCH ");
        if ((at == script || at[-1] == '\n') && begins(said, option) &&
            (said[n] == '=' || said[n] == '\n' || !said[n]))
            return true;
    }
    return false;
}

static bool goes(const char *line, bool inside, const char *script)
{
    char name[NAME];
    if (inside)
        return sn_is_of_a_job(line);
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, "="), line);
    const char *option = sn_option_of_variable(name);
    /* --requeue and --no-requeue are one thing, said twice. */
    bool either = option && strstr(option, "requeue");
    return option && (either || script_has(script, option));
}

enum sn_status sn_scrub(struct sn_scrubbed *out, const struct sn_environment *own,
                        const char *script, struct sn_err *err)
{
    struct sn_scrubbed s = {.variable = sn_alloc_n((size_t)own->n + 1, sizeof(*s.variable)),
                            .removed = sn_alloc_n((size_t)own->n + 1, sizeof(*s.removed))};
    bool inside = sn_environment_get(own, "SLURM_JOB_ID") != NULL;
    if (!s.variable || !s.removed) {
        sn_scrubbed_fini(&s);
        return sn_fail(err, SN_ENOMEM, "submit: no memory for %d variables", own->n);
    }
    for (int i = 0; i < own->n; i++) {
        if (goes(own->line[i], inside, script))
            s.removed[s.n_removed++] = own->line[i];
        else
            s.variable[s.n++] = own->line[i];
    }
    *out = s;
    return SN_OK;
}

void sn_scrubbed_fini(struct sn_scrubbed *s)
{
    sn_free(s->variable);
    sn_free(s->removed);
    *s = (struct sn_scrubbed){0};
}
