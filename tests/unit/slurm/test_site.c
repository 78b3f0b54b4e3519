/*
 * test_site.c - site profiles: those that ship, what a file gives, what is wrong with a bad one;
 * options of sbatch by name; time limits.
 */
#include "lib/base/duration.h"
#include "lib/config/files.h"
#include "lib/machine/named.h"
#include "slurm/scheduler/options.h"
#include "slurm/site/site.h"
#include "tests/lib/tap.h"

#include <dirent.h>
#include <stdlib.h>

static const char *const shipped[] = {
    "lassen",     "sierra",   "summit",         "marconi100",    "bede",          "longhorn",
    "perlmutter", "leonardo", "juwels-booster", "jupiter",       "marenostrum5",  "alps",
    "delta",      "deltaai",  "vista",          "snellius-a100", "snellius-h100", "karolina",
    "meluxina",   "generic",  "testcluster"};
enum { N_SHIPPED = sizeof(shipped) / sizeof(shipped[0]) };

static enum sn_status parse(struct sn_site *s, const char *text, struct sn_err *err)
{
    return sn_site_parse(s, text, strlen(text), "s.yaml", err);
}

/* --- those that ship -------------------------------------------------------------------------- */

static void every_site_is_good(void)
{
    static struct sn_config c;
    for (int i = 0; i < N_SHIPPED; i++) {
        struct sn_site s;
        struct sn_err err = {0};
        if (!tap_ok(sn_site_of(&s, &c, shipped[i], NULL, &err) == SN_OK, "%s is read %s",
                    shipped[i], err.text))
            continue;
        tap_ok(strcmp(s.name, shipped[i]) == 0 && s.source[0] && s.what[0],
               "%s has its name, says what it is and where that is known from", shipped[i]);
        struct sn_machine m = {0};
        if (s.machine[0]) {
            tap_ok(sn_machine_preset(&m, s.machine, NULL, &err) == SN_OK, "its machine ships %s",
                   err.text);
            tap_ok(s.node.gpus == m.devices || strcmp(s.machine, "laptop-cpu") == 0,
                   "which has as many devices");
        }
        int cpus = s.node.cores * s.node.threads;
        tap_ok(!cpus || s.submit.cpus_per_gpu * s.node.gpus <= cpus,
               "%s: its ranks have no more processors than a node", shipped[i]);
        tap_ok(!s.n_partitions || sn_site_partition(&s, NULL), "a partition is the default");
        sn_machine_fini(&m);
        sn_site_fini(&s);
    }
}

static void a_machine_counts_where_the_run_may_be_on_it(void)
{
    static const struct {
        const char *what, *machine;
        int gpus;
        enum sn_backend backend;
    } row[] = {{"on its GPUs", "perlmutter-40", 4, SN_BACKEND_CUDA},
               {"perhaps on them", "perlmutter-40", 4, SN_BACKEND_AUTO},
               {"not on its processors", "", 4, SN_BACKEND_CPU},
               {"on GPUs of which the site says nothing", "perlmutter-40", 0, SN_BACKEND_CUDA},
               {"perhaps, where there are none", "", 0, SN_BACKEND_AUTO}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        static struct sn_config c;
        static struct sn_site s = {.machine = "perlmutter-40"};
        c.run.backend = row[i].backend;
        s.node.gpus = row[i].gpus;
        tap_text(sn_site_machine(&s, &c), row[i].machine, row[i].what);
    }
}

static void no_other_site_ships(void)
{
    char share[SN_PATH_MAX], dir[SN_PATH_MAX + 8];
    struct sn_err err = {0};
    int n = 0;
    tap_ok(sn_share_find(share, sizeof(share), &err) == SN_OK, "templates are found %s", err.text);
    (void)snprintf(dir, sizeof(dir), "%s/sites", share);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strstr(e->d_name, ".yaml") != NULL;
    if (d)
        (void)closedir(d);
    tap_ok(n == N_SHIPPED, "%d files, %d of them tested", n, N_SHIPPED);
}

static void the_run_file_names_one(void)
{
    static struct sn_config c;
    struct sn_site s;
    struct sn_err err = {0};
    (void)snprintf(c.path, sizeof(c.path), "run.yaml");
    tap_ok(sn_site_of(&s, &c, NULL, NULL, &err) == SN_OK && !strcmp(s.name, "generic"),
           "no name is generic");
    sn_site_fini(&s);
    (void)snprintf(c.slurm.site, sizeof(c.slurm.site), "lassen");
    tap_ok(sn_site_of(&s, &c, NULL, NULL, &err) == SN_OK && s.scheduler == SN_SCHED_LSF &&
               s.launch.with == SN_LAUNCH_JSRUN,
           "a name in the run file");
    sn_site_fini(&s);
    sn_site_fini(&s);
    (void)snprintf(c.slurm.site, sizeof(c.slurm.site), "templates/sites/vista.yaml");
    tap_ok(sn_site_of(&s, &c, NULL, NULL, &err) == SN_OK && s.launch.with == SN_LAUNCH_IBRUN,
           "a path %s", err.text);
    sn_site_fini(&s);
    (void)snprintf(c.slurm.site, sizeof(c.slurm.site), "lasen");
    tap_ok(sn_site_of(&s, &c, NULL, NULL, &err) == SN_EINPUT, "a slip is refused");
    (void)tap_text(err.text, "run.yaml: slurm.site: no preset 'lasen'; did you mean 'lassen'?",
                   "and understood");
    tap_ok(sn_site_of(&s, &c, "../x", NULL, &err) == SN_EINPUT, "%s", err.text);
}

/* Every row is one site's alone: a process is at one of them. */
static void the_environment_tells_where_one_is(void)
{
    static const char *const row[][3] = {{"NERSC_HOST", "perlmutter", "perlmutter"},
                                         {"TACC_SYSTEM", "vista", "vista"},
                                         {"LCSCHEDCLUSTER", "sierra", "sierra"},
                                         {"LMOD_SYSTEM_NAME", "summit", "summit"},
                                         {"NERSC_HOST", "cori", NULL}};
    char name[SN_SITE_NAME], by[SN_SITE_TEXT], want[SN_SITE_TEXT];
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        (void)unsetenv(row[i][0]);
    tap_ok(!sn_site_detect(name, by, NULL), "nowhere");
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        (void)setenv(row[i][0], row[i][1], 1);
        (void)snprintf(want, sizeof(want), "%s=%s", row[i][0], row[i][1]);
        bool found = sn_site_detect(name, by, NULL);
        tap_ok(row[i][2] ? found && !strcmp(name, row[i][2]) && !strcmp(by, want) : !found,
               "%s is %s", want, row[i][2] ? row[i][2] : "none");
        (void)unsetenv(row[i][0]);
    }
}

/* --- what a file gives ------------------------------------------------------------------------ */

static const char full[] =
    "name: full\n"
    "what: w\n"
    "source: s\n"
    "status: retired\n"
    "scheduler: slurm\n"
    "machine: lassen\n"
    "detect: [HERE=full, THERE=full-2]\n"
    "node: {gpus: 4, gpu_memory: 16GiB, cores: 40, threads: 2}\n"
    "submit:\n"
    "  account: required\n"
    "  account_option: -U\n"
    "  account_suffix: _g\n"
    "  gpus: gres\n"
    "  gpu_type: a100\n"
    "  cpus_per_gpu: 9\n"
    "  cpus_per_gpu_least: 3\n"
    "  memory: required\n"
    "  memory_value: 10G\n"
    "  constraint: a&b\n"
    "  exclusive: true\n"
    "  requeue: false\n"
    "  signal: none\n"
    "  forbidden: [--nodelist, -x]\n"
    "  extra: [--comment=x y]\n"
    "partitions:\n"
    "  - {name: p, default: true, min_nodes: 2, max_nodes: 8, max_time: 1-00:00:00, qos: q,\n"
    "     preempt: cancel, grace: 30, exempt: 60, note: n}\n"
    "  - {name: r}\n"
    "qos: [{name: q, partition: p}]\n"
    "kinds:\n"
    "  - {machine: dgx-a100-80, constraint: big, gpus: 8, gpu_memory: 80GiB, cores: 128, "
    "max_nodes: 5}\n"
    "  - {partition: r}\n"
    "modules: [{load: nccl/2.21, why: plugin}]\n"
    "launch: {with: mpirun, flags: [--mca, btl, tcp]}\n"
    "environment:\n"
    "  - {name: A_1, value: 'a \"b\" $c', why: because}\n"
    "  - {name: B, value: b, why: rarely, on: false}\n"
    "files: {hdf5_locking: false, scratch: /s, burst: /b, note: n}\n"
    "network: {interface: ib0, host_suffix: i}\n";

static void every_key_arrives(void)
{
    struct sn_site s;
    struct sn_err err = {0};
    if (!tap_ok(parse(&s, full, &err) == SN_OK, "a file with every key is read %s", err.text))
        return;
    const struct sn_site_submit *u = &s.submit;
    tap_ok(!strcmp(s.path, "s.yaml") && !strcmp(s.what, "w") && !strcmp(s.source, "s") &&
               s.status == 1 && s.scheduler == SN_SCHED_SLURM && !strcmp(s.machine, "lassen"),
           "the site");
    tap_ok(s.node.gpus == 4 && s.node.cores == 40 && s.node.threads == 2, "node");
    tap_ok(u->account == SN_SITE_REQUIRED && !strcmp(u->account_option, "-U") &&
               !strcmp(u->account_suffix, "_g") && u->gpus == SN_GPUS_GRES &&
               !strcmp(u->gpu_type, "a100") && u->cpus_per_gpu == 9 &&
               u->memory == SN_SITE_REQUIRED && !strcmp(u->memory_value, "10G"),
           "account, GPUs, memory");
    tap_ok(!strcmp(u->constraint, "a&b") && u->exclusive && !u->requeue &&
               u->signal == SN_SIGNAL_NONE && u->forbidden.n == 2 &&
               !strcmp(u->extra.word[0], "--comment=x y"),
           "options");
    const struct sn_site_kind *k = s.kind;
    tap_ok(s.n_kinds == 3 && k[0].gpus == 4 && k[0].gpu_memory == (int64_t)16 << 30 &&
               !strcmp(k[0].machine, "lassen") && !strcmp(k[0].constraint, "a&b") &&
               !strcmp(k[1].machine, "dgx-a100-80") && !strcmp(k[1].constraint, "big") &&
               k[1].gpus == 8 && k[1].gpu_memory == (int64_t)80 << 30 && k[1].cores == 128 &&
               k[1].max_nodes == 5 && !strcmp(k[2].partition, "r") && k[2].gpus == 0,
           "kinds of nodes, the usual ones first");
    tap_ok(s.detect.n == 2 && u->cpus_per_gpu_least == 3 && s.n_modules == 1 &&
               !strcmp(s.module[0].load, "nccl/2.21") && !strcmp(s.module[0].why, "plugin"),
           "detection, processors at least, modules");
    const struct sn_site_queue *p = sn_site_partition(&s, NULL), *q = sn_site_qos(&s, "q");
    tap_ok(p && p->min_nodes == 2 && p->max_nodes == 8 && p->max_seconds == 86400 &&
               !strcmp(p->qos, "q") && p->preempt == SN_PREEMPT_CANCEL && p->grace == 30 &&
               p->exempt == 60 && !strcmp(p->note, "n") && p->line == 26,
           "the default partition");
    tap_ok(sn_site_partition(&s, "r") && !sn_site_partition(&s, "s") && q &&
               !strcmp(q->partition, "p") && !sn_site_qos(&s, NULL),
           "others by name; no qos is the default");
    tap_ok(s.launch.with == SN_LAUNCH_MPIRUN && s.launch.flags.n == 3 &&
               !strcmp(s.launch.flags.word[1], "btl"),
           "launcher");
    tap_ok(s.n_variables == 2 && !strcmp(s.variable[0].name, "A_1") &&
               !strcmp(s.variable[0].value, "a \"b\" $c") && s.variable[0].on &&
               !s.variable[1].on && !strcmp(s.variable[1].why, "rarely"),
           "environment");
    tap_ok(!s.files.hdf5_locking && !strcmp(s.files.scratch, "/s") &&
               !strcmp(s.network.interface, "ib0") && !strcmp(s.network.host_suffix, "i"),
           "files, network");
    tap_ok(sn_site_line(&s, "submit.memory") == 17 && sn_site_line(&s, "submit.none") == 9 &&
               sn_site_line(&s, "none") == 1,
           "lines of keys");
    tap_ok(sn_site_fail(&s, 13, &err, "no %d", 1) == SN_EINPUT &&
               !strcmp(err.text, "s.yaml:13: no 1"),
           "%s", err.text);
    tap_ok(sn_site_forbids(&s, "-w n1") && sn_site_forbids(&s, "--nodelist=n1") &&
               sn_site_forbids(&s, "--exclude=a") && !sn_site_forbids(&s, "--nodes=2") &&
               !sn_site_forbids(&s, "--mem=1"),
           "what is forbidden");
    sn_site_fini(&s);
}

#define HEAD "name: a\nscheduler: slurm\n"

static const struct {
    const char *text, *want;
} bad[] = {
    {"", "s.yaml: want a site's file: the keys name, scheduler, submit and launch (docs/SITES.md)"},
    {"name: a\n", "s.yaml:1:1: scheduler: missing; want none, slurm or lsf"},
    {HEAD "submti: {}\n",
     "s.yaml:3:1: unknown key 'submti' of a site's file; did you mean 'submit'?"},
    {HEAD "submit: {gpu: gres}\n",
     "s.yaml:3:10: unknown key 'submit.gpu' of a site's file; did you mean 'submit.gpus'?"},
    {HEAD "submit: {memory: required}\n",
     "s.yaml:3: submit.memory: required, but how much is not said; want submit.memory_value"},
    {HEAD "submit:\n  memory: forbidden\n  memory_value: 1G\n",
     "s.yaml:5: submit.memory_value: memory is forbidden; want one of the two"},
    {HEAD "submit: {account: forbidden, account_suffix: _g}\n",
     "s.yaml:3: submit.account_suffix: accounts are forbidden; want one of the two"},
    {HEAD "launch: {with: mpirun, mpi: pmi2}\n",
     "s.yaml:3: launch.mpi: is for srun, and ranks are started by mpirun; want one of the two"},
    {HEAD "launch: {mpi: 'a b'}\n",
     "s.yaml:3: launch.mpi: 'a b' is nothing that a script takes; want letters, digits and "
     "_-.,:/@%+=[]&|*!()"},
    {HEAD "launch: {with: jsrun}\n",
     "s.yaml:3: launch.with: jsrun does not start jobs of slurm; want another launcher"},
    {"name: a\nscheduler: lsf\n",
     "s.yaml:1: launch.with: srun does not start jobs of lsf; want jsrun or lrun"},
    {HEAD "launch: {with: ibrun}\n",
     "s.yaml:3: submit.signal: what ibrun starts is no step, or one of its own daemons, which a "
     "signal ends; want batch"},
    {HEAD "submit: {forbidden: [mem]}\n",
     "s.yaml:3: submit.forbidden: 'mem' is no option; want one such as --exclusive"},
    {HEAD "submit: {extra: [\"--comment='a\"]}\n",
     "s.yaml:3: submit.extra: '--comment='a' is no option; want one such as --exclusive"},
    {HEAD "submit: {constraint: 'a b'}\n",
     "s.yaml:3: submit.constraint: 'a b' is nothing that a script takes; want letters, digits and "
     "_-.,:/@%+=[]&|*!()"},
    {HEAD "partitions: {name: p}\n", "s.yaml:3:13: partitions: want a list of mappings"},
    {HEAD "partitions: [{default: true}]\n", "s.yaml:3:14: partitions.name: missing; want a word"},
    {HEAD "partitions: [{name: p}, {name: p}]\n",
     "s.yaml:3:25: partitions.name: 'p' stands twice; keep one"},
    {HEAD "qos: [{name: p, default: true}, {name: q, default: true}]\n",
     "s.yaml:3:33: qos.default: 'p' is the default already; want one"},
    {HEAD "partitions: [{name: p, max_time: long}]\n",
     "s.yaml:3:14: partitions.max_time: 'long' is no time; want H:MM:SS or D-HH:MM:SS"},
    {HEAD "partitions: [{name: '-p'}]\n",
     "s.yaml:3:14: partitions.name: '-p' is no name for a script; want letters and digits"},
    {HEAD "partitions: [{name: p, min_nodes: 4, max_nodes: 2}]\n",
     "s.yaml:3:14: partitions.max_nodes: 2 is less than min_nodes (4); want more"},
    {HEAD "detect: [HERE]\n",
     "s.yaml:3: detect: 'HERE' is no variable with its value; want one such as "
     "NERSC_HOST=perlmutter"},
    {HEAD "detect: ['A B=c']\n",
     "s.yaml:3: detect: 'A B=c' is no variable with its value; want one such as "
     "NERSC_HOST=perlmutter"},
    {HEAD "kinds: [{gpus: 8}]\n",
     "s.yaml:3:9: kinds: nothing says how a job gets these nodes; want constraint or partition"},
    {HEAD "kinds: [{partition: p}]\n",
     "s.yaml:3: kinds.partition: 'p' is none of partitions; want one of them"},
    {HEAD "kinds: [{constraint: '$(x)'}]\n",
     "s.yaml:3: kinds: '$(x)' is nothing that a script takes; want letters, digits and "
     "_-.,:/@%+=[]&|*!()"},
    {HEAD "modules: [{load: 'a; b', why: c}]\n",
     "s.yaml:3:11: modules.load: 'a; b' is no name of a module; want one such as nccl/2.21.5"},
    {HEAD "modules: [{load: -f, why: c}]\n",
     "s.yaml:3:11: modules.load: '-f' is no name of a module; want one such as nccl/2.21.5"},
    {HEAD "modules: [{load: nccl}]\n", "s.yaml:3:11: modules.why: missing; want a word"},
    {HEAD "environment: [{name: A, value: b}]\n",
     "s.yaml:3:15: environment.why: missing; want a word"},
    {HEAD "environment: [{name: 'A;b', value: b, why: c}]\n",
     "s.yaml:3:15: environment.name: 'A;b' is no name of a variable; want letters, digits and _"},
    {HEAD "environment: [{name: 1A, value: b, why: c}]\n",
     "s.yaml:3:15: environment.name: '1A' is no name of a variable; want letters, digits and _"},
};

static void bad_files_are_explained(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_site s;
        struct sn_err err = {0};
        if (parse(&s, bad[i].text, &err) == SN_OK) {
            tap_ok(false, "is refused: %s", bad[i].want);
            sn_site_fini(&s);
        } else {
            (void)tap_text(err.text, bad[i].want, bad[i].want);
        }
    }
}

/* --- options and times ------------------------------------------------------------------------ */

static void options_have_names(void)
{
    char buf[SN_OPTION_NAME];
    (void)tap_text(sn_option_name(buf, "-wn1"), "--nodelist", "a letter with its value");
    (void)tap_text(sn_option_name(buf, "--mem=4G"), "--mem", "a value after =");
    (void)tap_text(sn_option_name(buf, "-Z 3"), "-Z", "a letter that is not known");
    tap_ok(sn_option_is("--nodel=n1", "--nodelist") && !sn_option_is("--mem-bind=x", "--mem") &&
               !sn_option_is("--mem=1", "--mem-per-cpu") &&
               !sn_option_is("--nodes=1", "--nodelist"),
           "abbreviations are the option, other options are not");
    tap_ok(!strcmp(sn_option_owner("-t 10"), "slurm.time") &&
               !strcmp(sn_option_owner("--time=10"), "slurm.time") &&
               !sn_option_owner("--mail-type=END") && !sn_option_owner("--time-min=10"),
           "who says an option");
    tap_ok(!strcmp(sn_option_of_variable("SBATCH_TIMELIMIT"), "--time") &&
               !sn_option_of_variable("SBATCH_DEBUG"),
           "variables of sbatch");
}

static void times_are_as_slurm_writes_them(void)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } row[] = {{"30", 1800},
               {"10:30", 630},
               {"12:00:00", 43200},
               {"2-0", 172800},
               {"1-12:30", 131400},
               {"1-0:0:1", 86401},
               {"0:0:1", 1},
               {"", 0},
               {"0", 0},
               {"-1", 0},
               {"1-", 0},
               {"1:", 0},
               {"1:2:3:4", 0},
               {"1-2:3:4:5", 0},
               {"a", 0},
               {"1 ", 0},
               {"+1", 0},
               {"12345678", 0},
               {"9999-0", 0},
               {"1--2", 0},
               {"UNLIMITED", 0},
               {"1-2-3", 0},
               {":1", 0},
               {"1::2", 0}};
    char buf[SN_DURATION_SIZE];
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        int64_t got = 0;
        bool good = sn_duration_parse(row[i].text, &got);
        tap_ok(good == (row[i].seconds > 0) && got == row[i].seconds, "'%s' is %lld s", row[i].text,
               (long long)row[i].seconds);
    }
    (void)tap_text(sn_duration_format(buf, 3661), "1:01:01", "below a day");
    (void)tap_text(sn_duration_format(buf, 131405), "1-12:30:05", "above a day");
}

int main(void)
{
    every_site_is_good();
    no_other_site_ships();
    a_machine_counts_where_the_run_may_be_on_it();
    the_run_file_names_one();
    the_environment_tells_where_one_is();
    every_key_arrives();
    bad_files_are_explained();
    options_have_names();
    times_are_as_slurm_writes_them();
    return tap_done();
}
