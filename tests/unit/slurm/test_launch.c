/*
 * test_launch.c - command lines, environments and nodes of an attempt; what Slurm's answers mean.
 */
#include "lib/base/mem.h"
#include "slurm/scheduler/ask.h"
#include "slurm/scheduler/child.h"
#include "slurm/site/launch.h"
#include "slurm/supervisor/nodes.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const struct sn_launch usual = {.launcher = SN_LAUNCH_SRUN,
                                       .trainer = "/opt/sennit-train",
                                       .run_file = "my run.yaml",
                                       .attempt = 7,
                                       .nodes = 2,
                                       .ranks = 8,
                                       .ranks_per_node = 4};

static void line_is(const struct sn_launch *l, const char *want, const char *what)
{
    struct sn_argv a = {0};
    struct sn_str text = {0};
    (void)sn_launch_format(&a, l, NULL);
    sn_argv_format(&text, &a);
    tap_text(text.p ? text.p : "", want, what);
    tap_ok(a.word && !a.word[a.n], "and ends with NULL");
    sn_argv_fini(&a);
    sn_str_fini(&text);
}

#define SRUN "srun --kill-on-bad-exit=1 --wait=60 --unbuffered --export=ALL --mpi=pmix --nodes=2 "

static void command_lines(void)
{
    struct sn_launch l = usual;
    const char *const options[] = {"--distribution=block", NULL};
    line_is(&l,
            SRUN "--ntasks=8 --ntasks-per-node=4 --cpu-bind=none /opt/sennit-train 'my run.yaml' "
                 "--attempt 7",
            "srun, nothing known but counts");
    l.ranks = 7;
    l.cpus_per_rank = 10;
    l.gpus_per_node = 4;
    l.slurm_version = 2205;
    l.fresh = true;
    line_is(&l,
            SRUN "--ntasks=7 --cpus-per-task=10 --cpu-bind=cores --gpu-bind=none /opt/sennit-train "
                 "'my run.yaml' --attempt 7 --fresh",
            "an uneven number of ranks, cores and GPUs");
    l = usual;
    l.gpus_per_node = 4;
    l.slurm_version = 2411;
    l.may_lose_nodes = l.beside_others = true;
    l.node_list = "n[0,3]";
    l.options = options;
    l.stop_after = 50;
    line_is(&l,
            SRUN "--ntasks=8 --ntasks-per-node=4 --cpu-bind=none --tres-bind=gres/gpu:none "
                 "--no-kill --overlap --mem=0 '--nodelist=n[0,3]' --distribution=block "
                 "/opt/sennit-train 'my run.yaml' --attempt 7 --stop-after 50",
            "a newer Slurm, chosen nodes, a site's words");
    l = usual;
    l.launcher = SN_LAUNCH_MPIRUN;
    l.run_file = "it's.yaml";
    l.nodes = 1;
    l.ranks_per_node = 8;
    line_is(&l, "mpirun -n 8 /opt/sennit-train 'it'\\''s.yaml' --attempt 7", "mpirun");
    l = usual;
    l.launcher = SN_LAUNCH_MPIRUN;
    l.node_list = "n[1,3]";
    line_is(&l,
            "mpirun -n 8 --map-by ppr:4:node:oversubscribe --host n1:4,n3:4 /opt/sennit-train "
            "'my run.yaml' --attempt 7",
            "mpirun on chosen nodes of a job");
    l.launcher = SN_LAUNCH_HYDRA;
    line_is(&l,
            "mpiexec.hydra -n 8 -ppn 4 -hosts n1,n3 /opt/sennit-train 'my run.yaml' --attempt 7",
            "Hydra on chosen nodes of a job");
    l.program = "mpirun";
    l.nodes = 1;
    l.node_list = NULL;
    line_is(&l, "mpirun -n 8 /opt/sennit-train 'my run.yaml' --attempt 7", "by its other name");
    l = usual;
    l.mpi = "cray_shasta";
    line_is(&l,
            "srun --kill-on-bad-exit=1 --wait=60 --unbuffered --export=ALL --mpi=cray_shasta "
            "--nodes=2 --ntasks=8 --ntasks-per-node=4 --cpu-bind=none /opt/sennit-train "
            "'my run.yaml' --attempt 7",
            "srun for another MPI");
    l = usual;
    l.launcher = SN_LAUNCH_JSRUN;
    l.cpus_per_rank = 10;
    l.gpus_per_node = 4;
    l.preflight = true;
    line_is(&l,
            "jsrun --nrs=8 --rs_per_host=4 --tasks_per_rs=1 --cpu_per_rs=10 --gpu_per_rs=1 "
            "--exit_on_error=1 /opt/sennit-train 'my run.yaml' --preflight",
            "jsrun, for a preflight");
    l = usual;
    l.launcher = SN_LAUNCH_LRUN;
    line_is(&l, "lrun -N2 -T4 /opt/sennit-train 'my run.yaml' --attempt 7", "lrun");
    l.launcher = SN_LAUNCH_IBRUN;
    line_is(&l, "ibrun -n 8 /opt/sennit-train 'my run.yaml' --attempt 7", "ibrun");
}

static bool has(const struct sn_argv *a, const char *word)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->word[i], word) == 0)
            return true;
    return false;
}

static void environments(void)
{
    static const char text[] =
        "PATH=/bin\nSLURM_JOB_ID=1\nSLURM_NTASKS=3\nSLURM_NTASKS_PER_NODE=3\nSLURM_CPU_BIND=x\n"
        "SLURM_CPU_BIND_LIST=x\nSLURM_MEM_BIND_TYPE=x\nSBATCH_EXCLUSIVE=1\nSRUN_DEBUG=3\n"
        "SLURM_TRES_PER_TASK=cpu:1\nSLURM_STEP_ID=4\nSLURM_PROCID=3\nPMI_RANK=1\nPMIX_RANK=2\n"
        "HYDI_CONTROL_FD=7\nPMIX_MCA_psec=native\nOMPI_COMM_WORLD_RANK=1\nOMPI_MCA_btl=tcp\nMY_API_"
        "KEY=hush\n"
        "OMPI_MCA_rmaps_base_oversubscribe=0\nSLURM_JOB_NODELIST=n[0-3]\n";
    static const char *const kept[] = {"PATH=/bin",
                                       "SLURM_JOB_ID=1",
                                       "PMIX_MCA_psec=native",
                                       "OMPI_MCA_btl=tcp",
                                       "SLURM_JOB_NODELIST=n[0-3]",
                                       "SLURM_PMIX_FENCE=ring"};
    struct sn_environment e = {0};
    struct sn_argv a = {0};
    struct sn_str record = {0};
    (void)sn_environment_parse(&e, text, sizeof(text) - 1, "test", NULL);
    (void)sn_launch_environment(&a, &e, SN_LAUNCH_SRUN, NULL);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        tap_ok(has(&a, kept[i]), "srun gets %s", kept[i]);
    tap_ok(a.n == 8, "and nothing of another step (%d)", a.n);
    sn_launch_record(&record, &a);
    tap_ok(strstr(record.p, "MY_API_KEY=(not recorded)\n") && !strstr(record.p, "hush"),
           "the record shows no secret");
    sn_str_fini(&record);
    sn_argv_fini(&a);
    (void)sn_launch_environment(&a, &e, SN_LAUNCH_MPIRUN, NULL);
    tap_ok(has(&a, "SLURM_NTASKS=3") && !has(&a, "PMI_RANK=1") &&
               !has(&a, "OMPI_COMM_WORLD_RANK=1"),
           "mpirun sees the job, and no rank of another");
    tap_ok(has(&a, "OMPI_ALLOW_RUN_AS_ROOT=1") && has(&a, "OMPI_MCA_rmaps_base_oversubscribe=0") &&
               !has(&a, "OMPI_MCA_rmaps_base_oversubscribe=1"),
           "what a person set stands");
    sn_argv_fini(&a);
    (void)sn_launch_environment(&a, &e, SN_LAUNCH_HYDRA, NULL);
    tap_ok(has(&a, "SLURM_NTASKS=3") && !has(&a, "PMI_RANK=1") && !has(&a, "HYDI_CONTROL_FD=7") &&
               !has(&a, "OMPI_ALLOW_RUN_AS_ROOT=1"),
           "Hydra sees the job, no rank of another, and nothing of Open MPI");
    sn_argv_fini(&a);
    sn_mem_fail_at(3);
    struct sn_err err;
    tap_ok(sn_launch_environment(&a, &e, SN_LAUNCH_SRUN, &err) == SN_ENOMEM, "no memory: %s",
           err.text);
    sn_mem_fail_at(0);
    sn_environment_fini(&e);
}

static void choice_is(const struct sn_hostlist *h, const enum sn_node_health *health,
                      const struct sn_ledger *l, int wanted, const char *use, const char *spare)
{
    struct sn_nodes n;
    struct sn_argv names;
    struct sn_str a = {0}, b = {0};
    (void)sn_nodes_choose(&n, h, health, l, wanted, NULL);
    (void)sn_nodes_names(&names, h, n.use, n.n_use, NULL);
    (void)sn_nodes_list(&a, &names, NULL);
    sn_argv_fini(&names);
    (void)sn_nodes_names(&names, h, n.spare, n.n_spare, NULL);
    (void)sn_nodes_list(&b, &names, NULL);
    tap_ok(!strcmp(a.p ? a.p : "", use) && !strcmp(b.p ? b.p : "", spare),
           "%d wanted: %s, spare %s (got %s, %s)", wanted, use, spare, a.p, b.p);
    sn_argv_fini(&names);
    sn_nodes_fini(&n);
    sn_str_fini(&a);
    sn_str_fini(&b);
}

static void nodes(const char *path)
{
    struct sn_hostlist h = {0};
    struct sn_ledger l = {0}, again = {0};
    enum sn_node_health dead[5] = {SN_HEALTH_GOOD, SN_HEALTH_DEAD};
    (void)sn_hostlist_parse(&h, "n[0-4]", "test", NULL);
    choice_is(&h, NULL, &l, 3, "n[0-2]", "n[3-4]");
    choice_is(&h, dead, &l, 3, "n[0,2-3]", "n4");
    struct sn_ledger_entry hung = {"n0", "a rank hung", SN_NODE_DOUBTFUL, 2000};
    struct sn_ledger_entry slow = {"n3", "slow", SN_NODE_BAD, 3000};
    struct sn_ledger_entry died = {"n4", "a node died", SN_NODE_DIED, 3000};
    (void)sn_ledger_add(&l, path, &hung, "1", 1000, NULL);
    (void)sn_ledger_add(&l, path, &slow, "1", 1000, NULL);
    (void)sn_ledger_add(&l, path, &died, "1", 1000, NULL);
    choice_is(&h, NULL, &l, 3, "n[1-2,4]", "n0");
    choice_is(&h, NULL, &l, 4, "n[0-2,4]", "");
    choice_is(&h, dead, &l, 4, "n[0,2,4]", "");
    (void)sn_ledger_load(&again, path, 1500, NULL);
    tap_ok(again.n == 3, "the ledger is read back (%d)", again.n);
    tap_ok(sn_ledger_find(&again, "n4")->grade == SN_NODE_DIED, "with its grades");
    sn_ledger_fini(&again);
    (void)sn_ledger_load(&again, path, 2500, NULL);
    tap_ok(again.n == 2 && !sn_ledger_find(&again, "n0"), "without what is over");
    choice_is(&h, NULL, &again, 3, "n[0-2]", "n4");
    sn_ledger_fini(&l);
    sn_ledger_fini(&again);
    sn_hostlist_fini(&h);
}

static void values_are_found(void)
{
    static const struct {
        const char *text, *name, *value; /* NULL: not there */
    } row[] = {{"A=1 B=two C=3", "B", "two"},
               {"AB=1 B=2", "B", "2"},
               {"B=x,y\nC=3", "B", "x,y"},
               {"Name                    = a value\n", "Name", "a"},
               {"Name = \nOther = 2\n", "Name", ""},
               {"A= B=2", "A", ""},
               {"A=\tB=2", "A", ""},
               {"Longer=1 B is=2", "B", NULL},
               {"Longer=1", "Long", NULL},
               {"XB=1", "B", NULL},
               {"B", "B", NULL},
               {"B ", "B", NULL},
               {"", "B", NULL}};
    char value[8];
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        bool found = sn_slurm_value(value, sizeof(value), row[i].text, row[i].name);
        tap_ok(found == (row[i].value != NULL) && !strcmp(value, found ? row[i].value : ""),
               "%s in '%s': '%s'", row[i].name, row[i].text, value);
    }
    tap_ok(sn_slurm_value(value, sizeof(value), "A=123456789", "A") && !strcmp(value, "1234567"),
           "what does not fit is cut off");
}

static void answers(void)
{
    struct sn_job_facts f = {0};
    enum sn_node_health health[3] = {SN_HEALTH_GOOD};
    struct sn_hostlist h = {0};
    (void)setenv("TZ", "UTC", 1);
    tzset();
    tap_ok(sn_slurm_time("2026-11-21T23:10:11") == 1795302611, "a time of Slurm's");
    tap_ok(sn_slurm_time("1795302611\n") == 1795302611 && sn_slurm_time("Unknown") == 0 &&
               sn_slurm_time("N/A") == 0,
           "seconds, and none");
    tap_ok(sn_job_parse(&f, "JobId=5 JobName=JobState=x JobState=RUNNING Reason=None Requeue=0 "
                            "Restarts=2 EndTime=2026-11-21T23:10:11 Deadline=N/A") &&
               !strcmp(f.state, "RUNNING") && f.restarts == 2 && !f.may_requeue &&
               f.end_time == 1795302611,
           "a job's line");
    tap_ok(!f.is_spared && sn_job_parse(&f, "JobState=RUNNING PreemptTime=None") && f.is_spared,
           "a job that nobody preempts");
    tap_ok(!sn_job_parse(&f, "slurm_load_jobs error: Invalid job id specified"), "or none");
    (void)sn_hostlist_parse(&h, "n[0-2]", "test", NULL);
    tap_ok(sn_nodes_parse(health, &h,
                          "NodeName=n0 Arch=x State=MIXED+DRAIN Reason=x\n"
                          "NodeName=n1 State=ALLOCATED\nNodeName=n2 State=IDLE*\n"
                          "NodeName=n9 State=DOWN\n") == 3 &&
               health[0] == SN_HEALTH_LEAVING && health[1] == SN_HEALTH_GOOD &&
               health[2] == SN_HEALTH_SILENT,
           "nodes that drain or do not answer");
    tap_ok(sn_nodes_parse(health, &h, "NodeName=n0 State=DOWN*+CLOUD\n") == 1 &&
               health[0] == SN_HEALTH_DEAD,
           "or are down");
    tap_ok(sn_job_nodes_parse(health, &h,
                              "JobState=RUNNING ReqNodeList=(null) NodeList=n[0,2] NumNodes=2",
                              NULL) == SN_OK &&
               health[1] == SN_HEALTH_DEAD && health[2] == SN_HEALTH_SILENT,
           "or are no more of the job");
    health[1] = SN_HEALTH_GOOD;
    tap_ok(sn_job_nodes_parse(health, &h, "JobState=COMPLETING NodeList=n2", NULL) == SN_OK &&
               health[1] == SN_HEALTH_GOOD,
           "whose list means nothing while it is ended");
    tap_ok(sn_steps_parse("41.0\n41.batch\n41.extern\n41.12\n") == 2, "steps besides the script");
    tap_ok(sn_slurm_version("slurm-wlm 22.05.8\n") == 2205 &&
               sn_slurm_version("slurm 24.11.0") == 2411 && sn_slurm_version("?") == 0,
           "versions");
    sn_hostlist_fini(&h);
}

static void launchers_of_the_same_name(void)
{
    static const struct {
        const char *text;
        enum sn_launcher want;
    } row[] = {
        {"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
         SN_LAUNCH_MPIRUN},
        {"mpirun (Open MPI) 5.0.3\n", SN_LAUNCH_MPIRUN},
        {"HYDRA build details:\n    Version:                                 4.0.2\n",
         SN_LAUNCH_HYDRA},
        {"Intel(R) MPI Library for Linux* OS, Version 2021.8 Build 20221129\n", SN_LAUNCH_HYDRA},
        {"", SN_LAUNCH_MPIRUN}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        tap_ok(sn_launcher_of_version(row[i].text) == row[i].want, "mpirun that says '%.20s' is %s",
               row[i].text, sn_launcher_name(row[i].want));
    const struct sn_launcher_ways *w = sn_launcher_ways(SN_LAUNCH_HYDRA);
    tap_ok(w->save == SIGUSR1 && w->end == SIGKILL && w->mixes_codes && w->ends_at_once &&
               w->says_on_stdout,
           "Hydra's ways");
    w = sn_launcher_ways(SN_LAUNCH_SRUN);
    tap_ok(w->save == SIGUSR2 && w->end == SIGTERM && !w->mixes_codes, "and srun's");
    enum sn_launcher l;
    for (int i = 0; i < SN_LAUNCHERS; i++)
        tap_ok(sn_launcher_parse(&l, sn_launcher_names[i], NULL) == SN_OK && (int)l == i,
               "%s is known", sn_launcher_names[i]);
    tap_ok(!sn_launcher_names[SN_LAUNCHERS], "and no other");
}

static void children(void)
{
    char *const talk[] = {"sh", "-c", "echo words >&2; echo more; exit 7", NULL};
    char *const sleep[] = {"sleep", "60", NULL}, *const absent[] = {"sn-no-such-program", NULL};
    char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const struct sn_child_want talker = {talk, env, SIGUSR2, true},
                               sleeper = {sleep, env, SIGUSR2, false},
                               none = {absent, env, SIGUSR2, false};
    char bytes[64] = "";
    struct sn_child c;
    struct sn_err err;
    int code = -1;
    size_t n = 0;
    tap_ok(sn_child_start(&c, &talker, &err) == SN_OK, "a child starts");
    for (int i = 0; i < 1000 && (code < 0 || c.err >= 0); i++) {
        n += sn_child_read(&c, bytes + n, sizeof(bytes) - 1 - n);
        (void)sn_child_ended(&c, &code);
        (void)usleep(10000);
    }
    tap_ok(code == 7 && !strcmp(bytes, "words\nmore\n"), "its code and its words come back (%d)",
           code);
    sn_child_close(&c);
    tap_ok(sn_child_start(&c, &none, &err) == SN_EFAIL && strstr(err.text, "No such file"),
           "one that does not exist: %s", err.text);
    (void)sn_child_start(&c, &sleeper, &err);
    sn_child_signal(&c, SIGTERM);
    code = -1;
    for (int i = 0; i < 1000 && code < 0; i++) {
        (void)sn_child_ended(&c, &code);
        (void)usleep(10000);
    }
    tap_ok(code == 128 + SIGTERM, "signals reach it (%d)", code);
    sn_child_close(&c);
}

int main(void)
{
    char dir[] = "/tmp/sn-launch-XXXXXX", path[64];
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(path, sizeof(path), "%s/nodes.jsonl", dir);
    command_lines();
    environments();
    nodes(path);
    values_are_found();
    answers();
    launchers_of_the_same_name();
    children();
    (void)unlink(path);
    (void)rmdir(dir);
    return tap_done();
}
