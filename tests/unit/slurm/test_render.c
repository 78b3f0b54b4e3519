/*
 * test_render.c - batch scripts: quoting that a shell reads back, lines that nothing breaks, places
 * of a template, and what a job of each kind asks for.
 */
#include "lib/base/mem.h"
#include "slurm/scheduler/command.h"
#include "slurm/site/render.h"
#include "slurm/site/script.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <unistd.h>

/* What people and attackers call things. */
static const char *const hostile[] = {"plain",
                                      "",
                                      "two words",
                                      "it's",
                                      "'",
                                      "''; touch broken; '",
                                      "$(touch broken)",
                                      "`touch broken`",
                                      "$HOME ${PATH}",
                                      "a\"b\"c",
                                      "back\\slash\\",
                                      "* ? [a-z] ~root {a,b}",
                                      "-rf",
                                      "# comment",
                                      "a;b&c|d>e<f(g)",
                                      "!!",
                                      "\xc3\xa4\xff",
                                      "%j %x %%",
                                      "=#\\ '\""};
enum { N_HOSTILE = sizeof(hostile) / sizeof(hostile[0]) };

/* --- words ------------------------------------------------------------------------------------ */

static bool shell_reads(const char *word, const char *value)
{
    struct sn_err err;
    struct sn_command_result r;
    char *line = sn_format("printf '%%s|' %s", word);
    const char *const argv[] = {"sh", "-c", line, NULL};
    const struct sn_command c = {.argv = argv, .seconds = 60};
    char *want = sn_format("%s|", value);
    bool same = line && want && sn_command_run(&r, &c, &err) == SN_OK && sn_command_succeeded(&r) &&
                r.out.p && strcmp(r.out.p, want) == 0;
    sn_command_fini(&r);
    sn_free(line);
    sn_free(want);
    return same;
}

static void a_shell_reads_every_word_back(void)
{
    for (int i = 0; i < N_HOSTILE; i++) {
        struct sn_str out = {0};
        sn_script_word(&out, hostile[i]);
        tap_ok(out.p && shell_reads(out.p, hostile[i]), "word %d: %s", i, out.p ? out.p : "");
        sn_str_fini(&out);
    }
    tap_ok(access("broken", F_OK) != 0, "and none of them is a command");
}

static void control_characters_are_refused(void)
{
    static const char *const bad[] = {"a\nb", "\r", "tab\there", "\x7f", "\x1b[0m"};
    struct sn_err err = {0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        tap_ok(sn_script_check("run.output", bad[i], &err) == SN_EINPUT, "%s", err.text);
    (void)tap_text(err.text,
                   "run.output: has a control character (byte 27 at 1), which would end a line of "
                   "the batch script; want a name without",
                   "in words");
    struct sn_str out = {0};
    sn_script_comment(&out, "a\n#SBATCH --x\nb");
    (void)tap_text(out.p, "# a #SBATCH --x b\n", "a comment has one line");
    sn_str_fini(&out);
}

static void directives_are_escaped(void)
{
    struct sn_str out = {0};
    struct sn_err err = {0};
    sn_script_sbatch(&out, "--comment", "a b'c\"d#e\\f");
    sn_script_sbatch(&out, "--exclusive", NULL);
    sn_script_sbatch(&out, "--qos", "a[1-2]&(b)");
    (void)tap_text(out.p,
                   "#SBATCH --comment=\"a b'c\\\"d#e\\\\f\"\n#SBATCH --exclusive\n"
                   "#SBATCH --qos=a[1-2]&(b)\n",
                   "#SBATCH");
    sn_str_fini(&out);
    tap_ok(sn_script_check_sbatch("run.yaml", "#SBATCH --job-name=my-HetJob\n", &err) == SN_EINPUT,
           "%s", err.text);
    sn_script_bsub(&out, "-J", "name");
    sn_script_bsub(&out, "-o", "/a b/%J");
    sn_script_bsub(&out, "-r", NULL);
    (void)tap_text(out.p, "#BSUB -J name\n#BSUB -o \"/a b/%J\"\n#BSUB -r\n", "#BSUB");
    sn_str_fini(&out);
    tap_ok(sn_script_check_bsub("x", "a\"b", &err) == SN_EINPUT, "%s", err.text);
    tap_ok(sn_script_pattern(&out, "x", "/a%j/b", &err) == SN_OK && !strcmp(out.p, "/a%%j/b"),
           "a percent sign of a path is no pattern");
    sn_str_fini(&out);
    tap_ok(sn_script_pattern(&out, "x", "a\\b", &err) == SN_EINPUT, "%s", err.text);
}

static void names_of_jobs_are_plain(void)
{
    char buf[SN_JOB_NAME];
    (void)tap_text(sn_script_job_name(buf, "llama-7b_v1.0"), "llama-7b_v1.0", "a name");
    (void)tap_text(sn_script_job_name(buf, "-a b;c\xc3\xa4"), "_a_b_c__", "a hostile one");
    (void)tap_text(sn_script_job_name(buf, ""), "sennit", "none");
    char longest[200];
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    tap_ok(strlen(sn_script_job_name(buf, longest)) == SN_JOB_NAME - 1, "a long one is cut");
}

/* --- scripts ---------------------------------------------------------------------------------- */

struct job {
    struct sn_config c;
    struct sn_site s;
    struct sn_batch b;
};

static void job_init(struct job *j, const char *site)
{
    struct sn_err err = {0};
    memset(j, 0, sizeof(*j));
    struct sn_layout_config *l = &j->c.layout;
    (void)snprintf(j->c.path, sizeof(j->c.path), "run.yaml");
    (void)snprintf(j->c.run.name, sizeof(j->c.run.name), "job");
    l->data = l->tensor = 2;
    l->tensor_x = 1;
    l->pipeline = 4;
    l->context = 1;
    j->c.slurm.chain = 1;
    if (sn_site_of(&j->s, &j->c, site, NULL, &err) != SN_OK)
        tap_ok(false, "%s", err.text);
}

static void job_place(struct job *j, int ranks_per_node)
{
    sn_batch_init(&j->b, &j->c, &j->s, NULL, ranks_per_node);
    j->b.directory = "/runs";
    j->b.program = "/usr/bin/sennit-run";
    j->b.run_file = "run.yaml";
    j->b.output = "/runs/out";
}

static void check_script(struct job *j, const char *what, const char *template, const char *want)
{
    struct sn_str out = {0};
    struct sn_err err = {0};
    enum sn_status st = sn_render(&out, &j->b, template, "t.sh", &err);
    tap_ok(st == SN_OK, "%s %s", what, err.text);
    (void)tap_text(out.p ? out.p : "", want, what);
    sn_str_fini(&out);
}

static void a_plain_job_asks_for_little(void)
{
    static struct job j;
    job_init(&j, "generic");
    job_place(&j, 4);
    check_script(&j, "plain Slurm", "@{header}\n",
                 "#SBATCH --job-name=job\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\n"
                 "#SBATCH --requeue\n#SBATCH --output=/runs/out/slurm-%j.out\n"
                 "#SBATCH --open-mode=append\n");
    sn_site_fini(&j.s);
}

#define NO_KILL                                                                                    \
    "# A node that fails does not end the job: sennit-run goes on with the others (slurm.spares, " \
    "slurm.shrink).\n# Should it be the first, which runs this script, nobody goes on, and "       \
    "scancel "                                                                                     \
    "ends the job.\n#SBATCH --no-kill\n"

static void every_key_has_its_option(void)
{
    static struct job j;
    job_init(&j, "leonardo");
    struct sn_slurm_config *l = &j.c.slurm;
    (void)snprintf(l->account, sizeof(l->account), "acc");
    (void)snprintf(l->partition, sizeof(l->partition), "boost_usr_prod");
    (void)snprintf(l->qos, sizeof(l->qos), "boost_qos_dbg");
    (void)snprintf(l->constraint, sizeof(l->constraint), "a&b");
    (void)snprintf(l->reservation, sizeof(l->reservation), "res");
    l->seconds = 90 * 60 + 5;
    l->spares = 1;
    l->chain = 3;
    l->n_exclude = 2;
    (void)snprintf(l->exclude[0], sizeof(l->exclude[0]), "lrdn[1-2]");
    (void)snprintf(l->exclude[1], sizeof(l->exclude[1]), "lrdn7");
    l->n_extra = 2;
    (void)snprintf(l->extra[0], sizeof(l->extra[0]), "--comment=a b");
    (void)snprintf(l->extra[1], sizeof(l->extra[1]), "--mail-type=FAIL");
    job_place(&j, 4);
    j.b.signal_before = 200;
    check_script(&j, "all keys", "@{header}\n",
                 "#SBATCH --job-name=job\n#SBATCH --account=acc\n"
                 "#SBATCH --partition=boost_usr_prod\n#SBATCH --qos=boost_qos_dbg\n"
                 "#SBATCH --nodes=5\n#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=8\n"
                 "#SBATCH --gres=gpu:4\n#SBATCH --mem=494000M\n#SBATCH --exclusive\n"
                 "#SBATCH --constraint=a&b\n#SBATCH --reservation=res\n"
                 "#SBATCH --exclude=lrdn[1-2],lrdn7\n" NO_KILL "#SBATCH --time=1:30:05\n"
                 "#SBATCH --signal=USR2@200\n#SBATCH --requeue\n#SBATCH --dependency=singleton\n"
                 "#SBATCH --output=/runs/out/slurm-%j.out\n#SBATCH --open-mode=append\n"
                 "#SBATCH --comment=\"a b\"\n#SBATCH --mail-type=FAIL\n");
    sn_site_fini(&j.s);
}

static void ranks_decide_nodes_and_gpus(void)
{
    static struct job j;
    job_init(&j, "leonardo");
    job_place(&j, 2);
    tap_ok(j.b.nodes == 8 && j.b.gpus_per_node == 2 && j.b.cpus_per_rank == 8, "2 ranks of a node");
    job_place(&j, 8);
    tap_ok(j.b.nodes == 2 && j.b.gpus_per_node == 4 && j.b.cpus_per_rank == 4,
           "more ranks than GPUs share the processors");
    job_place(&j, 5);
    tap_ok(j.b.nodes == 4 && j.b.ranks == 16, "a last node that is not full");
    job_place(&j, 64);
    tap_ok(j.b.nodes == 1 && j.b.ranks_per_node == 16, "fewer ranks than a node takes");
    j.c.slurm.cpus_per_rank = 3;
    job_place(&j, 4);
    tap_ok(j.b.cpus_per_rank == 3, "the run file goes before the profile");
    sn_site_fini(&j.s);
    job_init(&j, "generic");
    j.c.run.threads = 6;
    job_place(&j, 4);
    tap_ok(j.b.cpus_per_rank == 6, "threads, where the profile has nothing");
    sn_site_fini(&j.s);
}

static void lsf_has_lines_of_its_own(void)
{
    static struct job j;
    job_init(&j, "lassen");
    struct sn_slurm_config *l = &j.c.slurm;
    (void)snprintf(l->account, sizeof(l->account), "bank");
    l->seconds = 12 * 3600 + 61;
    job_place(&j, 4);
    j.b.signal_before = 601;
    j.b.output = "/runs/an out";
    check_script(&j, "LSF", "@{header}\n",
                 "#BSUB -J job\n#BSUB -nnodes 4\n#BSUB -G bank\n#BSUB -q pbatch\n#BSUB -W 12:02\n"
                 "#BSUB -wa USR2\n#BSUB -wt 11\n#BSUB -r\n#BSUB -o \"/runs/an out/lsf-%J.out\"\n"
                 "#BSUB -alloc_flags smt4\n");
    struct sn_str out = {0};
    struct sn_err err = {0};
    j.b.output = "/runs/$(id)";
    tap_ok(sn_render(&out, &j.b, "@{header}\n", "t.sh", &err) == SN_EINPUT, "%s", err.text);
    sn_str_fini(&out);
    sn_site_fini(&j.s);
}

static void places_are_filled(void)
{
    static struct job j;
    struct sn_str out = {0};
    struct sn_err err = {0};
    job_init(&j, "generic");
    job_place(&j, 4);
    j.b.directory = "/my runs";
    check_script(&j, "words", "a\n\n@{environment}\n\n@{setup}\n\ncd @{directory} # @{site}\nb",
                 "a\n\ncd '/my runs' # generic\nb\n");
    j.c.slurm.n_setup = 1;
    (void)snprintf(j.c.slurm.setup[0], sizeof(j.c.slurm.setup[0]), "module load x");
    check_script(&j, "setup", "a\n\n@{environment}\n\n@{setup}\n\nb\n",
                 "a\n\nmodule load x\n\nb\n");
    j.s.files.hdf5_locking = false;
    j.s.n_variables = 2;
    j.s.variable[0] = (struct sn_site_variable){"A", "a 'b' $c", "why", true};
    j.s.variable[1] = (struct sn_site_variable){"B", "b", "else", false};
    check_script(&j, "environment", "@{environment}\n",
                 "# why\nexport A='a '\\''b'\\'' $c'\n# else\n# export B=b\n"
                 "# the shared file system's locks fail or are slow; each checkpoint file has one "
                 "writer\nexport HDF5_USE_FILE_LOCKING=FALSE\n");
    (void)snprintf(j.c.slurm.setup[0], sizeof(j.c.slurm.setup[0]), "X=1 BA=2; export A=3");
    check_script(&j, "what slurm.setup sets stays", "@{environment}\n",
                 "# why\n# (slurm.setup has a value of its own)\n# export A='a '\\''b'\\'' $c'\n"
                 "# else\n# export B=b\n"
                 "# the shared file system's locks fail or are slow; each checkpoint file has one "
                 "writer\nexport HDF5_USE_FILE_LOCKING=FALSE\n");
    j.s.n_modules = 2;
    j.s.module[0] = (struct sn_site_module){"nccl/2.21", "plugin"};
    j.s.module[1] = (struct sn_site_module){"gpu(x)", "odd"};
    check_script(&j, "modules come first", "@{setup}\n",
                 "# plugin\nmodule load nccl/2.21\n# odd\nmodule load 'gpu(x)'\n"
                 "X=1 BA=2; export A=3\n");
    tap_ok(sn_render(&out, &j.b, "a\nb @{haeder}\n", "t.sh", &err) == SN_EINPUT &&
               strstr(err.text, "t.sh:2: there is no place @{haeder}; want"),
           "%s", err.text);
    sn_str_fini(&out);
    tap_ok(sn_render(&out, &j.b, "x @{header}\n", "t.sh", &err) == SN_EINPUT, "%s", err.text);
    sn_str_fini(&out);
    tap_ok(sn_render(&out, &j.b, "@{header", "t.sh", &err) == SN_EINPUT, "%s", err.text);
    sn_str_fini(&out);
    j.b.directory = "/a\nrm -rf b";
    tap_ok(sn_render(&out, &j.b, "cd @{directory}\n", "t.sh", &err) == SN_EINPUT, "%s", err.text);
    sn_str_fini(&out);
    sn_site_fini(&j.s);
}

/* The whole script with hostile paths, run by a shell whose "sennit-run" prints its words. */
static void hostile_names_stay_names(void)
{
    static struct job j;
    char dir[] = "/tmp/sennit-render-XXXXXX";
    tap_ok(mkdtemp(dir) != NULL && chdir(dir) == 0, "a scratch directory");
    job_init(&j, "generic");
    job_place(&j, 4);
    for (int i = 0; i < N_HOSTILE; i++) {
        struct sn_str out = {0};
        struct sn_err err = {0};
        struct sn_command_result r = {0};
        if (strchr(hostile[i], '\\'))
            continue; /* refused in run.output */
        char *output = sn_format("/runs/%s", hostile[i]);
        j.b.directory = dir;
        j.b.program = "echo";
        j.b.run_file = hostile[i];
        j.b.output = output;
        (void)snprintf(j.c.run.name, sizeof(j.c.run.name), "%s", hostile[i]);
        enum sn_status st = sn_render(
            &out, &j.b, "#!/bin/sh\n@{header}\ncd @{directory}\nexec @{program} x @{run_file}\n",
            "t.sh", &err);
        const char *const argv[] = {"sh", "-c", out.p, NULL};
        const struct sn_command c = {.argv = argv, .seconds = 60};
        char *want = sn_format("x %s\n", hostile[i]);
        bool good = st == SN_OK && sn_command_run(&r, &c, &err) == SN_OK &&
                    sn_command_succeeded(&r) && r.out.p && !r.err.p;
        tap_ok(good && want && !strcmp(r.out.p, want), "script %d runs with '%s' %s", i, hostile[i],
               err.text);
        sn_command_fini(&r);
        sn_str_fini(&out);
        sn_free(want);
        sn_free(output);
    }
    tap_ok(access("broken", F_OK) != 0 && access("x", F_OK) != 0, "nothing else was run");
    (void)chdir("/");
    tap_ok(rmdir(dir) == 0, "and nothing was written");
    sn_site_fini(&j.s);
}

int main(void)
{
    a_shell_reads_every_word_back();
    control_characters_are_refused();
    directives_are_escaped();
    names_of_jobs_are_plain();
    a_plain_job_asks_for_little();
    every_key_has_its_option();
    ranks_decide_nodes_and_gpus();
    lsf_has_lines_of_its_own();
    places_are_filled();
    hostile_names_stay_names();
    return tap_done();
}
