#include "slurm/scheduler/launcher.h"

#include "slurm/scheduler/command.h"

#include <signal.h>
#include <string.h>

const char *const sn_launcher_names[SN_LAUNCHERS + 1] = {
    [SN_LAUNCH_SRUN] = "srun",          [SN_LAUNCH_MPIRUN] = "mpirun",
    [SN_LAUNCH_JSRUN] = "jsrun",        [SN_LAUNCH_LRUN] = "lrun",
    [SN_LAUNCH_IBRUN] = "ibrun",        [SN_LAUNCH_BEDE_MPIRUN] = "bede-mpirun",
    [SN_LAUNCH_HYDRA] = "mpiexec.hydra"};

const char *sn_launcher_name(enum sn_launcher l)
{
    return sn_launcher_names[l];
}

enum sn_status sn_launcher_parse(enum sn_launcher *out, const char *name, struct sn_err *err)
{
    for (int i = 0; i < SN_LAUNCHERS; i++)
        if (strcmp(name, sn_launcher_names[i]) == 0) {
            *out = (enum sn_launcher)i;
            return SN_OK;
        }
    return sn_fail(err, SN_EINPUT,
                   "launcher '%.40s' is not known; want srun, mpirun, jsrun, lrun, ibrun, "
                   "bede-mpirun or mpiexec.hydra",
                   name);
}

enum sn_status sn_launcher_look_up(const struct sn_environment *e, const char *program,
                                   struct sn_err *err)
{
    if (sn_environment_has_program(e, program))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: is not on PATH, so nothing can be started; load the module of MPI, or name "
                   "another launcher with --launcher",
                   program);
}

/* SIGTERM is an order to kill for srun and for Open MPI's mpirun. Hydra passes it on as it does
 * SIGUSR1, dies of SIGUSR2, and its proxies end their ranks when it is gone. */
const struct sn_launcher_ways *sn_launcher_ways(enum sn_launcher l)
{
    static const struct sn_launcher_ways usual = {.save = SIGUSR2, .end = SIGTERM},
                                         hydra = {.save = SIGUSR1,
                                                  .end = SIGKILL,
                                                  .mixes_codes = true,
                                                  .ends_at_once = true,
                                                  .says_on_stdout = true};
    return l == SN_LAUNCH_HYDRA ? &hydra : &usual;
}

enum sn_launcher sn_launcher_of_version(const char *text)
{
    static const char *const hydra[] = {"HYDRA", "Intel(R) MPI", "MPICH", "MVAPICH"};
    for (size_t i = 0; i < sizeof(hydra) / sizeof(hydra[0]); i++)
        if (strstr(text, hydra[i]))
            return SN_LAUNCH_HYDRA;
    return SN_LAUNCH_MPIRUN;
}

enum sn_launcher sn_launcher_ask_mpirun(void)
{
    static const char *const argv[] = {"mpirun", "--version", NULL};
    enum { PATIENCE = 10 }; /* seconds */
    char why[SN_COMMAND_WHY];
    struct sn_str text;
    enum sn_launcher l = SN_LAUNCH_MPIRUN;
    if (sn_command_ask(&text, why, argv, PATIENCE, NULL) != SN_OK)
        return l;
    if (text.p)
        l = sn_launcher_of_version(text.p);
    sn_str_fini(&text);
    return l;
}
