#include "slurm/scheduler/options.h"

#include <stdio.h>
#include <string.h>

/* Options that a batch script of ours has, of man sbatch (22.05 to 26.05), with the key that says
 * them; their short forms; the variables by which sbatch takes them, which go before the script. */
static const struct row {
    const char *name;
    char letter; /* 0: none */
    const char *owner, *variable;
} rows[] = {
    {"--account", 'A', "slurm.account", "SBATCH_ACCOUNT"},
    {"--array", 'a', "slurm.chain", "SBATCH_ARRAY_INX"},
    {"--begin", 'b', NULL, NULL},
    {"--chdir", 'D', "the working directory", NULL},
    {"--constraint", 'C', "slurm.constraint", "SBATCH_CONSTRAINT"},
    {"--cpus-per-gpu", 0, "slurm.cpus_per_rank", "SBATCH_CPUS_PER_GPU"},
    {"--cpus-per-task", 'c', "slurm.cpus_per_rank", "SBATCH_CPUS_PER_TASK"},
    {"--dependency", 'd', "slurm.chain", NULL},
    {"--error", 'e', "run.output", "SBATCH_ERROR"},
    {"--exclude", 'x', "slurm.exclude", NULL},
    {"--exclusive", 0, NULL, "SBATCH_EXCLUSIVE"},
    {"--gpus", 'G', "slurm.ranks_per_node", "SBATCH_GPUS"},
    {"--gpus-per-node", 0, "slurm.ranks_per_node", "SBATCH_GPUS_PER_NODE"},
    {"--gpus-per-task", 0, "slurm.ranks_per_node", "SBATCH_GPUS_PER_TASK"},
    {"--gres", 0, "slurm.ranks_per_node", "SBATCH_GRES"},
    {"--input", 'i', NULL, "SBATCH_INPUT"},
    {"--job-name", 'J', "run.name", "SBATCH_JOB_NAME"},
    {"--mem", 0, NULL, "SBATCH_MEM_PER_NODE"},
    {"--mem-per-cpu", 0, NULL, "SBATCH_MEM_PER_CPU"},
    {"--mem-per-gpu", 0, NULL, "SBATCH_MEM_PER_GPU"},
    {"--no-kill", 'k', "slurm.spares", "SBATCH_NO_KILL"},
    {"--no-requeue", 0, "the site profile", "SBATCH_NO_REQUEUE"},
    {"--nodefile", 'F', "slurm.nodes", NULL},
    {"--nodelist", 'w', NULL, NULL},
    {"--nodes", 'N', "slurm.nodes", NULL},
    {"--ntasks", 'n', "layout", NULL},
    {"--ntasks-per-core", 0, "slurm.ranks_per_node", NULL},
    {"--ntasks-per-gpu", 0, "slurm.ranks_per_node", NULL},
    {"--ntasks-per-node", 0, "slurm.ranks_per_node", NULL},
    {"--open-mode", 0, "sennit-run", "SBATCH_OPEN_MODE"},
    {"--output", 'o', "run.output", "SBATCH_OUTPUT"},
    {"--parsable", 0, "sennit-run", NULL},
    {"--partition", 'p', "slurm.partition", "SBATCH_PARTITION"},
    {"--qos", 'q', "slurm.qos", "SBATCH_QOS"},
    {"--requeue", 0, "the site profile", "SBATCH_REQUEUE"},
    {"--reservation", 0, "slurm.reservation", "SBATCH_RESERVATION"},
    {"--signal", 0, "slurm.signal_before", "SBATCH_SIGNAL"},
    {"--test-only", 0, "--test-only of sennit-run submit", NULL},
    {"--time", 't', "slurm.time", "SBATCH_TIMELIMIT"},
    {"--wait", 'W', "sennit-run", "SBATCH_WAIT"},
    {"--wrap", 0, "sennit-run", NULL},
};
enum { N = sizeof(rows) / sizeof(rows[0]) };

const char *sn_option_name(char buf[SN_OPTION_NAME], const char *text)
{
    if (text[0] == '-' && text[1] && text[1] != '-') {
        for (int i = 0; i < N; i++)
            if (rows[i].letter == text[1]) {
                (void)snprintf(buf, SN_OPTION_NAME, "%s", rows[i].name);
                return buf;
            }
    }
    (void)snprintf(buf, SN_OPTION_NAME, "%.*s", (int)strcspn(text, "= \t"), text);
    return buf;
}

static bool is_known(const char *name)
{
    for (int i = 0; i < N; i++)
        if (strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

bool sn_option_is(const char *text, const char *name)
{
    char given[SN_OPTION_NAME];
    size_t n = strlen(sn_option_name(given, text));
    if (strcmp(given, name) == 0)
        return true;
    /* --no would be an abbreviation of much; what is an option by itself is none. */
    return n > 4 && strncmp(given, "--", 2) == 0 && strncmp(given, name, n) == 0 &&
           !is_known(given);
}

const char *sn_option_owner(const char *text)
{
    for (int i = 0; i < N; i++)
        if (rows[i].owner && sn_option_is(text, rows[i].name))
            return rows[i].owner;
    return NULL;
}

const char *sn_option_of_variable(const char *variable)
{
    for (int i = 0; i < N; i++)
        if (rows[i].variable && strcmp(rows[i].variable, variable) == 0)
            return rows[i].name;
    return NULL;
}
