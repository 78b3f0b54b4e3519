/*
 * test_batch.c - what a site would refuse is refused first, with the line of its profile; the
 * environment with which a job is submitted; what sbatch and bsub answer.
 */
#include "slurm/scheduler/submit.h"
#include "slurm/site/batch.h"
#include "tests/lib/tap.h"

static const char profile[] = "name: here\n"
                              "scheduler: slurm\n"
                              "node: {gpus: 4, gpu_memory: 40GiB, cores: 32}\n"
                              "submit:\n"
                              "  account: required\n"
                              "  account_suffix: _g\n"
                              "  gpus: per-task\n"
                              "  cpus_per_gpu: 8\n"
                              "  forbidden: [--mem, --nodelist, -x]\n"
                              "partitions:\n"
                              "  - {name: p, default: true, max_nodes: 4, max_time: 2:00:00}\n"
                              "  - {name: big, min_nodes: 8, qos: large}\n"
                              "  - {name: wide}\n"
                              "qos:\n"
                              "  - {name: dbg, partition: p, max_nodes: 2}\n"
                              "  - {name: large, partition: big}\n"
                              "kinds:\n"
                              "  - {gpus: 4, gpu_memory: 80GiB, constraint: hbm, max_nodes: 2}\n"
                              "  - {gpus: 8, cores: 128, partition: wide}\n";

struct job {
    struct sn_config c;
    struct sn_site s;
    struct sn_batch_machine machine;
    int ranks_per_node;
};

static void set(char *to, const char *text)
{
    (void)snprintf(to, SN_NAME_MAX, "%s", text);
}

/* A job of `ranks` that the profile takes. */
static void good(struct job *j, int ranks)
{
    memset(&j->c, 0, sizeof(j->c));
    (void)snprintf(j->c.path, sizeof(j->c.path), "run.yaml");
    j->c.layout.data = ranks;
    j->c.layout.tensor = j->c.layout.tensor_x = j->c.layout.pipeline = j->c.layout.context = 1;
    j->c.slurm.chain = 1;
    j->ranks_per_node = 4;
    set(j->c.slurm.account, "m1_g");
}

static void check(const struct job *j, const char *want)
{
    struct sn_batch b;
    struct sn_err err = {0};
    sn_batch_init(&b, &j->c, &j->s, j->machine.name ? &j->machine : NULL, j->ranks_per_node);
    enum sn_status st = sn_batch_check(&b, &err);
    tap_ok(st == (*want ? SN_EINPUT : SN_OK), "%s", *want ? "is refused" : "is taken");
    (void)tap_text(err.text, want, *want ? want : "without a word");
}

static void accounts(struct job *j)
{
    good(j, 16);
    check(j, "");
    j->c.slurm.account[0] = '\0';
    check(j, "s.yaml:5: here wants an account that pays; want slurm.account that ends with _g in "
             "run.yaml");
    set(j->c.slurm.account, "m1");
    check(j, "s.yaml:6: slurm.account: accounts that may use these nodes of here end with '_g'; "
             "want m1_g instead of m1");
    j->s.submit.account = SN_SITE_FORBIDDEN;
    check(j, "s.yaml:5: here takes no account, but run.yaml says 'm1'; leave slurm.account out");
    j->s.submit.account = SN_SITE_REQUIRED;
}

static void limits(struct job *j)
{
    good(j, 20);
    check(j, "s.yaml:11: partition p of here gives a job 4 nodes at most, but this one wants 5; "
             "want fewer, or another partition");
    good(j, 16);
    j->c.slurm.spares = 1;
    check(j, "s.yaml:11: partition p of here gives a job 4 nodes at most, but this one wants 5; "
             "want fewer, or another partition");
    good(j, 16);
    set(j->c.slurm.time, "3:00:00");
    j->c.slurm.seconds = 10800;
    check(j, "s.yaml:11: partition p of here gives a job 2:00:00 at most, but slurm.time is "
             "3:00:00; want less, and slurm.chain for a longer run");
    good(j, 16);
    set(j->c.slurm.partition, "big");
    check(j, "s.yaml:12: partition big of here is for jobs of 8 nodes and more, but this one wants "
             "4; want more, or another partition");
    good(j, 32);
    set(j->c.slurm.partition, "big");
    check(j, "");
    set(j->c.slurm.qos, "dbg");
    check(j, "s.yaml:12: partition big of here goes with qos large, but the job is for 'dbg'; want "
             "slurm.qos: large");
    good(j, 16);
    set(j->c.slurm.qos, "dbg");
    check(j, "s.yaml:15: qos dbg of here gives a job 2 nodes at most, but this one wants 4; want "
             "fewer, or another qos");
    good(j, 20);
    set(j->c.slurm.partition, "unknown");
    check(j, "");
}

static void queues_bring_each_other(struct job *j)
{
    struct sn_batch b;
    good(j, 32);
    set(j->c.slurm.partition, "big");
    sn_batch_init(&b, &j->c, &j->s, NULL, 4);
    (void)tap_text(b.qos_name, "large", "a partition's own qos comes with it");
    good(j, 32);
    set(j->c.slurm.qos, "large");
    sn_batch_init(&b, &j->c, &j->s, NULL, 4);
    (void)tap_text(b.partition_name, "big", "and a qos' partition");
}

static void options(struct job *j)
{
    good(j, 16);
    j->c.slurm.n_exclude = 1;
    set(j->c.slurm.exclude[0], "n1");
    check(j, "s.yaml:9: here refuses jobs with --exclude; leave slurm.exclude out of run.yaml");
    good(j, 16);
    j->c.slurm.n_extra = 1;
    set(j->c.slurm.extra[0], "--mem=4G");
    check(j,
          "s.yaml:9: here refuses jobs with '--mem=4G'; leave it out of slurm.extra in run.yaml");
    set(j->c.slurm.extra[0], "-wn1");
    check(j, "s.yaml:9: here refuses jobs with '-wn1'; leave it out of slurm.extra in run.yaml");
    set(j->c.slurm.extra[0], "-t 10");
    check(j, "run.yaml: slurm.extra: '-t 10' is what slurm.time says; leave it out of the list");
    set(j->c.slurm.extra[0], "--mail-type=END");
    check(j, "");
}

static void nodes(struct job *j)
{
    good(j, 16);
    j->c.slurm.cpus_per_rank = 9;
    check(j, "s.yaml:3: a node of here has 32 processors, but 4 ranks of 9 want 36; want "
             "slurm.cpus_per_rank: 8, or fewer ranks");
    good(j, 16);
    j->ranks_per_node = 8;
    check(j, "s.yaml:7: here gives each rank a GPU, of which a node has 4, but "
             "slurm.ranks_per_node is 8; want at most 4");
    const struct sn_batch_machine six = {"six", 6, (int64_t)40 << 30};
    struct sn_err err = {0};
    int n;
    good(j, 16);
    tap_ok(sn_batch_ranks_per_node(&n, &j->c, &j->s, NULL, &err) == SN_OK && n == 4, "of the site");
    tap_ok(sn_batch_ranks_per_node(&n, &j->c, &j->s, &six, &err) == SN_OK && n == 6,
           "of the machine");
    j->c.slurm.ranks_per_node = 3;
    tap_ok(sn_batch_ranks_per_node(&n, &j->c, &j->s, &six, &err) == SN_OK && n == 3,
           "of the run file");
    j->c.slurm.ranks_per_node = j->s.kind[0].gpus = 0;
    tap_ok(sn_batch_ranks_per_node(&n, &j->c, &j->s, NULL, &err) == SN_EINPUT, "%s", err.text);
    j->s.kind[0].gpus = 4;
}

/* Of a machine with `devices` of so many GiB on a node. */
static void planned_for(struct job *j, const char *name, int devices, int gib)
{
    good(j, 2 * devices);
    j->machine = (struct sn_batch_machine){name, devices, ((int64_t)gib << 30) / 100 * 98};
    j->ranks_per_node = devices;
}

static void machines(struct job *j)
{
    struct sn_batch b;
    planned_for(j, "mine", 4, 40);
    check(j, "");
    planned_for(j, "mine", 4, 80);
    check(j, "");
    sn_batch_init(&b, &j->c, &j->s, &j->machine, 4);
    (void)tap_text(b.constraint, "hbm", "its nodes are asked for");
    planned_for(j, "mine", 4, 80);
    j->c.layout.data = 16;
    check(j, "s.yaml:18: here has 2 such nodes (hbm), but the job wants 4; want fewer, or another "
             "machine");
    planned_for(j, "mine", 4, 16);
    check(j, "s.yaml:3: a node of here has 4 GPUs of 40.00 GiB, but run.yaml plans for mine, whose "
             "nodes have 4 devices of 15.68 GiB; want a machine file of such nodes, as sennit-plan "
             "calibrate writes");
    set(j->c.slurm.constraint, "hbm");
    check(j, "s.yaml:18: a node of here has 4 GPUs of 80.00 GiB, but run.yaml plans for mine, "
             "whose nodes have 4 devices of 15.68 GiB; want a machine file of such nodes, as "
             "sennit-plan calibrate writes");
    j->c.run.backend = SN_BACKEND_CPU;
    check(j, "");
    planned_for(j, "mine", 8, 80);
    check(j, "s.yaml:3: a node of here has 4 GPUs of 40.00 GiB, but run.yaml plans for mine, whose "
             "nodes have 8 devices of 78.40 GiB; want a machine file of such nodes, as sennit-plan "
             "calibrate writes");
    set(j->c.slurm.partition, "wide");
    check(j, "");
    sn_batch_init(&b, &j->c, &j->s, &j->machine, 8);
    tap_ok(b.gpus_per_node == 8 && b.cpus_per_rank == 8, "a partition's nodes, with their GPUs");
    struct sn_err err = {0};
    int n;
    tap_ok(sn_batch_ranks_per_node(&n, &j->c, &j->s, NULL, &err) == SN_OK && n == 8,
           "and their number of ranks");
    j->machine = (struct sn_batch_machine){0};
}

static void a_filter_wants_processors(struct job *j)
{
    good(j, 16);
    j->s.submit.cpus_per_gpu_least = 8;
    check(j, "");
    j->c.slurm.cpus_per_rank = 7;
    check(j, "s.yaml:4: here rejects jobs with fewer than 8 processors for a GPU, but 4 ranks of 7 "
             "have 28 for 4; want slurm.cpus_per_rank: 8");
    j->s.submit.cpus_per_gpu_least = 0;
}

static void nodes_that_failed_are_avoided(struct job *j)
{
    struct sn_ledger_entry entry[] = {
        {.host = "n3", .why = "a rank hung", .grade = SN_NODE_DOUBTFUL},
        {.host = "n4", .why = "it died", .grade = SN_NODE_DIED},
        {.host = "n5", .why = "its memory is bad", .grade = SN_NODE_BAD},
        {.host = "a b;$(c)", .why = "not a host", .grade = SN_NODE_BAD},
        {.host = "-w", .why = "not a host", .grade = SN_NODE_BAD},
        {.host = "n9", .why = "excluded already", .grade = SN_NODE_BAD}};
    const struct sn_ledger l = {.entry = entry, .n = 6};
    struct sn_str words = {0};
    good(j, 16);
    set(j->c.slurm.exclude[j->c.slurm.n_exclude++], "n9");
    sn_batch_avoid(&j->c, &j->s, &l, &words);
    tap_ok(j->c.slurm.n_exclude == 1, "a site without --exclude");
    (void)tap_text(words.p,
                   "n3 cannot be avoided, the site takes no --exclude: a rank hung\n"
                   "n5 cannot be avoided, the site takes no --exclude: its memory is bad\n",
                   "is told");
    sn_str_fini(&words);
    j->s.submit.forbidden.n = 0;
    sn_batch_avoid(&j->c, &j->s, &l, &words);
    j->s.submit.forbidden.n = 3;
    tap_ok(j->c.slurm.n_exclude == 3 && !strcmp(j->c.slurm.exclude[1], "n3") &&
               !strcmp(j->c.slurm.exclude[2], "n5"),
           "others exclude them");
    (void)tap_text(words.p, "n3 is avoided: a rank hung\nn5 is avoided: its memory is bad\n",
                   "and say so");
    sn_str_fini(&words);
}

static void schedulers(struct job *j)
{
    static struct job lsf;
    struct sn_err err = {0};
    good(&lsf, 16);
    tap_ok(sn_site_of(&lsf.s, &lsf.c, "lassen", NULL, &err) == SN_OK, "Lassen %s", err.text);
    check(&lsf, "");
    lsf.c.slurm.spares = 1;
    check(&lsf, "run.yaml: slurm.spares: lassen runs LSF, which ends a job whose node fails; leave "
                "it out");
    lsf.c.slurm.spares = 0;
    set(lsf.c.slurm.qos, "x");
    check(&lsf, "run.yaml: slurm.qos: has no meaning for LSF, which lassen runs; say it with "
                "slurm.extra as bsub takes it");
    sn_site_fini(&lsf.s);
    good(j, 16);
    j->s.scheduler = SN_SCHED_NONE;
    check(j, "s.yaml:2: here has no scheduler to submit to; run sennit-run exec there");
    j->s.scheduler = SN_SCHED_SLURM;
}

/* --- environment and answers ------------------------------------------------------------------ */

static void scrub(const char *text, const char *script, const char *stay, const char *go)
{
    struct sn_environment e = {0};
    struct sn_scrubbed s = {0};
    struct sn_err err = {0};
    struct sn_str left = {0}, gone = {0};
    tap_ok(sn_environment_parse(&e, text, strlen(text), "env", &err) == SN_OK &&
               sn_scrub(&s, &e, script, &err) == SN_OK,
           "is scrubbed %s", err.text);
    for (int i = 0; i < s.n; i++)
        sn_str_add(&left, "%s ", s.variable[i]);
    for (int i = 0; i < s.n_removed; i++)
        sn_str_add(&gone, "%s ", s.removed[i]);
    tap_ok(s.variable && !s.variable[s.n], "ends");
    (void)tap_text(left.p ? left.p : "", stay, "stays");
    (void)tap_text(gone.p ? gone.p : "", go, "goes");
    sn_str_fini(&left);
    sn_str_fini(&gone);
    sn_scrubbed_fini(&s);
    sn_environment_fini(&e);
}

static void environments_are_scrubbed(void)
{
    scrub(
        "HOME=/h\nSLURM_JOB_ID=1\nSLURM_CPU_BIND=x\nSLURM_CONF=/c\nSBATCH_QOS=q\nSRUN_DEBUG=1\n"
        "PMIX_RANK=0\nPMI_FD=3\nOMPI_COMM_WORLD_RANK=0\nOMPI_MCA_btl=tcp\nSLURMX=1\nSLURM_JWT=j\n",
        "", "HOME=/h SLURM_CONF=/c OMPI_MCA_btl=tcp SLURMX=1 SLURM_JWT=j ",
        "SLURM_JOB_ID=1 SLURM_CPU_BIND=x SBATCH_QOS=q SRUN_DEBUG=1 PMIX_RANK=0 PMI_FD=3 "
        "OMPI_COMM_WORLD_RANK=0 ");
    scrub(
        "SBATCH_TIMELIMIT=1\nSBATCH_QOS=q\nSBATCH_NO_REQUEUE=1\nSBATCH_DEBUG=1\nSLURM_CLUSTERS=c\n",
        "#!/bin/sh\n#SBATCH --time=2\n#SBATCH --qos-else=1\n",
        "SBATCH_QOS=q SBATCH_DEBUG=1 SLURM_CLUSTERS=c ", "SBATCH_TIMELIMIT=1 SBATCH_NO_REQUEUE=1 ");
    tap_ok(sn_is_of_a_job("SLURM_NTASKS") && sn_is_of_a_job("SLURM_NTASKS=1") &&
               !sn_is_of_a_job("SLURM_CONF") && !sn_is_of_a_job("SLURM_CONF=/x") &&
               sn_is_of_a_job("SLURM_CONFIG=1"),
           "names, with and without a value");
}

static void answers_have_numbers(void)
{
    static const struct {
        enum sn_scheduler scheduler;
        const char *text, *job;
    } row[] = {{SN_SCHED_SLURM, "12\n", "12"},
               {SN_SCHED_SLURM, "12;cluster\n", "12"},
               {SN_SCHED_SLURM, "12", "12"},
               {SN_SCHED_SLURM, "Submitted batch job 12\n", ""},
               {SN_SCHED_SLURM, "", ""},
               {SN_SCHED_SLURM, "12x\n", ""},
               {SN_SCHED_LSF, "Job <345> is submitted to queue <pbatch>.\n", "345"},
               {SN_SCHED_LSF, "note\nJob <6> is submitted\n", "6"},
               {SN_SCHED_LSF, "Job not submitted.\n", ""},
               {SN_SCHED_LSF, "Job <a>\n", ""}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        char job[SN_SUBMIT_JOB] = "";
        bool found = sn_submit_parse(job, row[i].scheduler, row[i].text);
        tap_ok(found == (row[i].job[0] != 0) && !strcmp(job, row[i].job), "'%s'", row[i].job);
    }
}

int main(void)
{
    static struct job j;
    struct sn_err err = {0};
    tap_ok(sn_site_parse(&j.s, profile, strlen(profile), "s.yaml", &err) == SN_OK, "a profile %s",
           err.text);
    accounts(&j);
    limits(&j);
    queues_bring_each_other(&j);
    options(&j);
    nodes(&j);
    machines(&j);
    a_filter_wants_processors(&j);
    nodes_that_failed_are_avoided(&j);
    schedulers(&j);
    sn_site_fini(&j.s);
    environments_are_scrubbed();
    answers_have_numbers();
    return tap_done();
}
