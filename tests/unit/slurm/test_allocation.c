/*
 * test_allocation.c - what the scheduler says, from recorded environments of several versions.
 */
#include "lib/base/mem.h"
#include "slurm/scheduler/allocation.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

static enum sn_status read_text(struct sn_allocation *a, const char *text, struct sn_err *err)
{
    struct sn_environment e = {0};
    enum sn_status st = sn_environment_parse(&e, text, strlen(text), "job.env", err);
    if (st == SN_OK)
        st = sn_allocation_read(a, &e, err);
    sn_environment_fini(&e);
    return st;
}

#define JOB "SLURM_JOB_ID=41\nSLURM_JOB_NODELIST=n[0-3]\nSLURM_JOB_NUM_NODES=4\n"

static void a_batch_script_of_22_05(void)
{
    struct sn_allocation a;
    struct sn_err err = {0};
    bool good =
        read_text(&a,
                  "HOME=/root\n" JOB "SLURM_NTASKS=16\nSLURM_TASKS_PER_NODE=4(x4)\n"
                  "SLURM_JOB_CPUS_PER_NODE=8(x3),6\nSLURM_CPUS_PER_TASK=2\nSLURM_GPUS_ON_NODE=4\n"
                  "SLURM_CLUSTER_NAME=mini\nSLURM_JOB_PARTITION=low\nSLURM_JOB_ACCOUNT=a1\n"
                  "SLURM_JOB_QOS=normal\n",
                  &err) == SN_OK;
    tap_ok(good && a.scheduler == SN_SCHED_SLURM && !a.in_step, "a job without a step %s",
           err.text);
    if (!good)
        return;
    tap_ok(a.host.n == 4 && !strcmp(sn_hostlist_name(&a.host, 3), "n3") && a.ntasks == 16, "hosts");
    tap_ok(a.tasks && a.tasks[3] == 4 && a.cpus && a.cpus[0] == 8 && a.cpus[3] == 6, "counts");
    tap_ok(a.restarts == 0 && a.end_time == 0, "no restart count means none, no end time unknown");
    tap_ok(!strcmp(a.job, "41") && !strcmp(a.cluster, "mini") && !strcmp(a.partition, "low") &&
               !strcmp(a.account, "a1") && !strcmp(a.qos, "normal"),
           "names");
    tap_ok(a.cpus_per_task == 2 && a.gpus_per_node == 4 && a.self.rank == -1, "resources");
    sn_allocation_fini(&a);
}

static void a_task_of_25_11(void)
{
    struct sn_allocation a;
    struct sn_err err = {0};
    bool good = read_text(&a,
                          JOB "SLURM_NTASKS=16\nSLURM_TASKS_PER_NODE=4(x4)\n"
                              "SLURM_JOB_END_TIME=1795300000\nSLURM_RESTART_COUNT=2\n"
                              "SLURM_STEP_NODELIST=n[2-3]\nSLURM_STEP_NUM_NODES=2\n"
                              "SLURM_STEP_NUM_TASKS=6\nSLURM_STEP_TASKS_PER_NODE=4,2\n"
                              "SLURM_JOB_CPUS_PER_NODE=8(x4)\nSLURM_PROCID=5\nSLURM_NODEID=1\n"
                              "SLURM_LOCALID=1\nSLURM_TOPOLOGY_ADDR=core.s0.n3\n"
                              "SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node\n",
                          &err) == SN_OK;
    tap_ok(good && a.in_step, "a task %s", err.text);
    if (!good)
        return;
    tap_ok(a.host.n == 2 && a.ntasks == 6 && a.tasks[1] == 2, "the step's hosts, not the job's");
    tap_ok(a.self.rank == 5 && a.self.node == 1 && a.self.local == 1, "its place");
    tap_ok(a.restarts == 2 && a.end_time == 1795300000, "restarts and end");
    tap_ok(!strcmp(a.topology, "core.s0.n3") && !strcmp(a.topology_pattern, "switch.switch.node"),
           "its switches");
    sn_allocation_fini(&a);
}

static void lsf_under_jsrun(void)
{
    struct sn_allocation a;
    struct sn_err err = {0};
    bool good =
        read_text(&a,
                  "LSB_JOBID=77\nLSB_QUEUE=pbatch\nLSB_PROJECT_NAME=guests\n"
                  "LSB_MCPU_HOSTS=lassen710 1 lassen1 40 lassen2 40 \n"
                  "JSM_NAMESPACE_SIZE=8\nJSM_NAMESPACE_RANK=6\nJSM_NAMESPACE_LOCAL_RANK=2\n",
                  &err) == SN_OK;
    tap_ok(good && a.scheduler == SN_SCHED_LSF && a.in_step, "LSF %s", err.text);
    if (!good)
        return;
    tap_ok(a.host.n == 2 && !strcmp(sn_hostlist_name(&a.host, 0), "lassen1") && a.cpus[1] == 40,
           "the launch host is none of the nodes");
    tap_ok(a.ntasks == 8 && a.self.rank == 6 && a.self.local == 2 && a.self.node == -1,
           "place, but for the node");
    tap_ok(!strcmp(a.job, "77") && !strcmp(a.partition, "pbatch") && !strcmp(a.account, "guests"),
           "names");
    sn_allocation_fini(&a);
}

static void no_job(void)
{
    struct sn_allocation a;
    tap_ok(read_text(&a, "HOME=/root\nSLURM_CONF=/etc/slurm.conf\n", NULL) == SN_OK &&
               a.scheduler == SN_SCHED_NONE && a.host.n == 0,
           "outside of any job there is none");
    sn_allocation_fini(&a);
}

static void what_cannot_be_is_named(void)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"SLURM_JOB_ID=1\n", "SLURM_JOB_NODELIST: not set"},
        {"SLURM_JOB_ID=1\nSLURM_JOB_NODELIST=n[3-1]\n", "SLURM_JOB_NODELIST: character 3"},
        {JOB "SLURM_NTASKS=many\n", "SLURM_NTASKS: got 'many'"},
        {JOB "SLURM_NTASKS=-1\n", "SLURM_NTASKS: got '-1'"},
        {JOB "SLURM_TASKS_PER_NODE=4(x3)\n", "SLURM_TASKS_PER_NODE: '4(x3)' is for 3 nodes"},
        {"SLURM_JOB_ID=1\nSLURM_JOB_NODELIST=n[0-3]\nSLURM_JOB_NUM_NODES=3\n",
         "'n[0-3]' has 4 hosts, but the job has 3 nodes"},
        {JOB "SLURM_STEP_NODELIST=n0\nSLURM_STEP_NUM_NODES=1\nSLURM_STEP_NUM_TASKS=2\n"
             "SLURM_PROCID=2\nSLURM_NODEID=0\n",
         "task 2 on node 0 is not of a step of 2 tasks"},
        {"LSB_JOBID=1\n", "LSB_MCPU_HOSTS: not set"},
        {"LSB_JOBID=1\nLSB_MCPU_HOSTS=batch 1 h1\n", "LSB_MCPU_HOSTS: 'batch 1 h1'"},
        {"LSB_JOBID=1\nLSB_MCPU_HOSTS=batch 1 h1 x\n", "LSB_MCPU_HOSTS: 'x' is no list of counts"},
        {"nothing\n", "job.env: no variable in it"},
        {"", "job.env: no variable in it"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_allocation a;
        struct sn_err err = {0};
        tap_ok(read_text(&a, bad[i].text, &err) == SN_EINPUT && strstr(err.text, bad[i].want), "%s",
               err.text);
    }
}

static void environments_are_read(void)
{
    static const char zeros[] = "A=1\0B=two\nlines\0C=\0";
    struct sn_environment e = {0};
    bool good = sn_environment_parse(&e, "A=1\nB=two\nlines\nC=\nD=x=y\n", 25, "f", NULL) == SN_OK;
    tap_ok(good && e.n == 4 && !strcmp(sn_environment_get(&e, "B"), "two\nlines"),
           "a value may go on in the next line");
    tap_ok(good && !sn_environment_get(&e, "C") && !strcmp(sn_environment_get(&e, "D"), "x=y") &&
               !sn_environment_get(&e, "AA"),
           "empty is as not set; a value may hold '='");
    sn_environment_fini(&e);
    good = sn_environment_parse(&e, zeros, sizeof(zeros) - 1, "f", NULL) == SN_OK;
    tap_ok(good && e.n == 3 && !strcmp(sn_environment_get(&e, "B"), "two\nlines"), "env -0");
    sn_environment_fini(&e);
    (void)setenv("SN_TEST_OWN", "here", 1);
    good = sn_environment_own(&e, NULL) == SN_OK;
    tap_ok(good && !strcmp(sn_environment_get(&e, "SN_TEST_OWN"), "here"), "this process' own");
    sn_environment_fini(&e);
    struct sn_err err = {0};
    tap_ok(sn_environment_load(&e, "/nowhere/env", &err) != SN_OK &&
               strstr(err.text, "/nowhere/env"),
           "%s", err.text);
}

static void without_memory(void)
{
    bool good = true;
    int fails = 0;
    for (uint64_t i = 1; i < 100; i++) {
        struct sn_allocation a = {0};
        struct sn_err err = {0};
        sn_mem_fail_at(i);
        enum sn_status st =
            read_text(&a, "LSB_JOBID=77\nLSB_MCPU_HOSTS=l 1 lassen1 40 lassen2 40\n", &err);
        sn_mem_fail_at(0);
        good = good && (st == SN_OK || (st == SN_ENOMEM && a.host.n == 0));
        fails += st == SN_ENOMEM;
        if (st == SN_OK)
            sn_allocation_fini(&a);
    }
    tap_ok(good && fails > 5, "each allocation may fail (%d do)", fails);
}

int main(void)
{
    a_batch_script_of_22_05();
    a_task_of_25_11();
    lsf_under_jsrun();
    no_job();
    what_cannot_be_is_named();
    environments_are_read();
    without_memory();
    return tap_done();
}
