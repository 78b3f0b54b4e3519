/*
 * site.c - a site's file: rows of keys, lists of queues and variables, and what has to hold between
 * them.
 */
#include "slurm/site/site.h"

#include "lib/base/duration.h"
#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/machine/fields.h"
#include "slurm/scheduler/options.h"
#include "slurm/site/site_inner.h"

#include <stdio.h>
#include <string.h>

static const char *const statuses[] = {"production", "retired", NULL};
static const char *const schedulers[] = {"none", "slurm", "lsf", NULL};
static const char *const gpu_styles[] = {"none", "gres", "per-node", "per-task", NULL};
static const char *const rules[] = {"optional", "required", "forbidden", NULL};
static const char *const signals[] = {"steps", "batch", "none", NULL};
static const char *const modes[] = {"unknown", "off", "cancel", "requeue", "suspend", NULL};

const char *sn_preempt_mode_name(enum sn_preempt_mode m)
{
    return modes[m];
}

#define ROW(key, kind, member, what)                                                               \
    .name = (key), .type = SN_KEY_##kind, .offset = offsetof(struct OF, member), .sentence = (what)
#define TEXTROW(key, member, what)                                                                 \
    ROW(key, TEXT, member, what), .max = sizeof(((struct OF *)0)->member)
#define MAP(key)   .name = (key), .type = SN_KEY_MAP, .offset = SN_NOWHERE
#define LIST(key)  .name = (key), .type = SN_KEY_INCLUDE, .offset = SN_NOWHERE
#define DEFAULT(v) .value = (v)
#define ABSENT(v)  .derived = (v)

/* clang-format off */
#define OF sn_site
static const struct sn_key site_rows[] = {
    {TEXTROW("name", name, "Name of the site, as in slurm.site.")},
    {TEXTROW("what", what, "Whose machine it is and of what, for people."), ABSENT("none")},
    {TEXTROW("source", source, "Where this comes from."), ABSENT("none")},
    {ROW("status", ENUM, status, "Whether jobs can still be submitted there; submit warns where not."), .names = statuses, DEFAULT("production")},
    {ROW("scheduler", ENUM, scheduler, "Who is asked for nodes."), .names = schedulers},
    {TEXTROW("machine", machine, "Shipped machine by which the planner prices a run that names none."), ABSENT("none")},
    {ROW("detect", WORDS, detect, "Variables of the environment, such as NERSC_HOST=perlmutter, any of which tells that one is there: submit takes this site where the run file names none."), DEFAULT("[]")},
    {MAP("node")},
    {ROW("node.gpus", INT, node.gpus, "GPUs of a node; 0: none, or not known."), .min = 0, .max = 64, DEFAULT("0")},
    {ROW("node.gpu_memory", BYTES, node.gpu_memory, "Memory of a GPU, as it is sold: a machine that plans with more, or with less than nine tenths of it, is another one; 0: not known."), .min = 0, .max = 1LL << 50, DEFAULT("0B")},
    {ROW("node.cores", INT, node.cores, "Cores of a node that jobs may use; 0: not known."), .min = 0, .max = 65536, DEFAULT("0")},
    {ROW("node.threads", INT, node.threads, "Hardware threads of a core."), .min = 1, .max = 16, DEFAULT("1")},
    {MAP("submit")},
    {ROW("submit.account", ENUM, submit.account, "Whether a job says which account pays."), .names = rules, DEFAULT("optional")},
    {TEXTROW("submit.account_option", submit.account_option, "Option that names it, where it is not --account."), ABSENT("--account; -G of LSF")},
    {TEXTROW("submit.account_suffix", submit.account_suffix, "What accounts that may use these nodes end with."), ABSENT("none")},
    {ROW("submit.gpus", ENUM, submit.gpus, "How GPUs are asked for: --gres=gpu:N, --gpus-per-node=N, --gpus-per-task=1, or not at all."), .names = gpu_styles, DEFAULT("none")},
    {TEXTROW("submit.gpu_type", submit.gpu_type, "Type in --gres=gpu:TYPE:N or --gpus-per-node=TYPE:N."), ABSENT("none")},
    {ROW("submit.cpus_per_gpu", INT, submit.cpus_per_gpu, "Processors that go with a GPU, as the scheduler counts them: hardware threads where it does; 0: not known."), .min = 0, .max = 65536, DEFAULT("0")},
    {ROW("submit.cpus_per_gpu_least", INT, submit.cpus_per_gpu_least, "Of these, what a job has to ask for at least for each GPU; 0: as it likes."), .min = 0, .max = 65536, DEFAULT("0")},
    {ROW("submit.memory", ENUM, submit.memory, "Whether a job says how much memory of a node it wants."), .names = rules, DEFAULT("optional")},
    {TEXTROW("submit.memory_value", submit.memory_value, "What is asked for, as --mem takes it; where memory is optional, too."), ABSENT("none")},
    {TEXTROW("submit.constraint", submit.constraint, "Features of the nodes, where the run file names none."), ABSENT("none")},
    {ROW("submit.exclusive", BOOL, submit.exclusive, "Whether whole nodes have to be asked for (--exclusive)."), DEFAULT("false")},
    {ROW("submit.requeue", BOOL, submit.requeue, "Whether a job may be put back into the queue; else --no-requeue, and slurm.chain goes on."), DEFAULT("true")},
    {ROW("submit.signal", ENUM, submit.signal, "Who is told that time runs out: the tasks; the batch script, where the launcher is not srun; or nobody: sennit-run looks at the clock."), .names = signals, DEFAULT("steps")},
    {ROW("submit.forbidden", WORDS, submit.forbidden, "Options that the site refuses, such as --mem."), DEFAULT("[]")},
    {ROW("submit.extra", WORDS, submit.extra, "Options that every job has."), DEFAULT("[]")},
    {LIST("partitions"), .unit = "a list of partitions", ABSENT("none"), .sentence = "What jobs can be submitted to: see below."},
    {LIST("qos"), .unit = "a list of qualities of service", ABSENT("none"), .sentence = "The same of --qos."},
    {LIST("kinds"), .unit = "a list of kinds of nodes", ABSENT("none"), .sentence = "Other nodes than those of `node`: see below."},
    {MAP("launch")},
    {ROW("launch.with", ENUM, launch.with, "Program that starts the ranks."), .names = sn_launcher_names, DEFAULT("srun")},
    {TEXTROW("launch.mpi", launch.mpi, "How srun and the MPI of the ranks find each other, as --mpi takes it: pmix for Open MPI, cray_shasta for Cray MPICH, pmi2 for other MPICH and for Intel MPI."), ABSENT("pmix")},
    {ROW("launch.flags", WORDS, launch.flags, "Its options here, word by word, after those that sennit-run chooses."), DEFAULT("[]")},
    {LIST("modules"), .unit = "a list of modules", ABSENT("none"), .sentence = "Environment modules that the batch script loads first: see below."},
    {LIST("environment"), .unit = "a list of variables", ABSENT("none"), .sentence = "What the batch script exports: see below."},
    {MAP("files")},
    {ROW("files.hdf5_locking", BOOL, files.hdf5_locking, "Whether the shared file system has locks that work; else HDF5_USE_FILE_LOCKING=FALSE is exported."), DEFAULT("true")},
    {TEXTROW("files.scratch", files.scratch, "File system for runs and checkpoints, for people."), ABSENT("none")},
    {TEXTROW("files.burst", files.burst, "Faster storage of a node or a job, for people."), ABSENT("none")},
    {TEXTROW("files.note", files.note, "What else is to know of it, for people."), ABSENT("none")},
    {MAP("network")},
    {TEXTROW("network.interface", network.interface, "Interface of the fast network, for people."), ABSENT("none")},
    {TEXTROW("network.host_suffix", network.host_suffix, "What a host's name ends with there, for people."), ABSENT("none")},
};
#undef OF

#define OF sn_site_queue
#define QUEUE(list)                                                                                \
    {TEXTROW(list ".name", name, "Its name.")},                                                    \
    {ROW(list ".default", BOOL, is_default, "Whether a run that names none gets this one."), DEFAULT("false")}, \
    {ROW(list ".min_nodes", INT, min_nodes, "Fewest nodes of a job; 0: no limit."), .min = 0, .max = 1 << 20, .unit = "nodes", DEFAULT("0")}, \
    {ROW(list ".max_nodes", INT, max_nodes, "Most nodes of a job; 0: not known."), .min = 0, .max = 1 << 20, .unit = "nodes", DEFAULT("0")}, \
    {TEXTROW(list ".max_time", max_time, "Longest time limit, as in slurm.time."), ABSENT("not known")}, \
    {TEXTROW(list ".partition", partition, "Partition that has to go with it."), ABSENT("any")},   \
    {TEXTROW(list ".qos", qos, "Quality of service that has to go with it."), ABSENT("any")},      \
    {ROW(list ".preempt", ENUM, preempt, "What happens to a job whose nodes a more urgent one gets."), .names = modes, DEFAULT("unknown")}, \
    {ROW(list ".grace", INT, grace, "Time between the warning (SIGTERM) and the end; 0: none, or not known."), .min = 0, .max = 86400, .unit = "seconds", DEFAULT("0")}, \
    {ROW(list ".exempt", INT, exempt, "Time that a job has for certain before that."), .min = 0, .max = 864000, .unit = "seconds", DEFAULT("0")}, \
    {TEXTROW(list ".note", note, "What else is to know of it, which submit says."), ABSENT("none")}

static const struct sn_key partition_rows[] = {QUEUE("partitions")};
static const struct sn_key qos_rows[] = {QUEUE("qos")};
#undef OF

#define OF sn_site_kind
static const struct sn_key kind_rows[] = {
    {TEXTROW("kinds.machine", machine, "Shipped machine that describes them."), ABSENT("none")},
    {TEXTROW("kinds.constraint", constraint, "Features by which a job gets them."), ABSENT("the usual one")},
    {TEXTROW("kinds.partition", partition, "Partition that they are in."), ABSENT("any")},
    {ROW("kinds.gpus", INT, gpus, "GPUs of a node; 0: not known."), .min = 0, .max = 64, DEFAULT("0")},
    {ROW("kinds.gpu_memory", BYTES, gpu_memory, "Memory of a GPU, as node.gpu_memory; 0: not known."), .min = 0, .max = 1LL << 50, DEFAULT("0B")},
    {ROW("kinds.cores", INT, cores, "Cores of a node that jobs may use; 0: not known."), .min = 0, .max = 65536, DEFAULT("0")},
    {ROW("kinds.max_nodes", INT, max_nodes, "How many there are; 0: not known."), .min = 0, .max = 1 << 20, .unit = "nodes", DEFAULT("0")},
};
#undef OF

#define OF sn_site_module
static const struct sn_key module_rows[] = {
    {TEXTROW("modules.load", load, "Its name, as module load takes it.")},
    {TEXTROW("modules.why", why, "The reason, which stands beside it in the script.")},
};
#undef OF

#define OF sn_site_variable
static const struct sn_key variable_rows[] = {
    {TEXTROW("environment.name", name, "Its name.")},
    {TEXTROW("environment.value", value, "Its value.")},
    {TEXTROW("environment.why", why, "The reason, which stands beside it in the script.")},
    {ROW("environment.on", BOOL, on, "Whether it is exported; else it stands in the script as a comment, for whoever meets what it cures."), DEFAULT("true")},
};
#undef OF
/* clang-format on */

#define FIELDS(prefix_, rows_)                                                                     \
    {                                                                                              \
        .what = "a site's file", .prefix = (prefix_), .row = (rows_),                              \
        .n = (int)(sizeof(rows_) / sizeof((rows_)[0]))                                             \
    }
static const struct sn_fields site_fields = FIELDS("", site_rows);
static const struct sn_fields partition_fields = FIELDS("partitions", partition_rows);
static const struct sn_fields qos_fields = FIELDS("qos", qos_rows);
static const struct sn_fields kind_fields = FIELDS("kinds", kind_rows);
static const struct sn_fields module_fields = FIELDS("modules", module_rows);
static const struct sn_fields variable_fields = FIELDS("environment", variable_rows);

/* --- reading ---------------------------------------------------------------------------------- */

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
/* The list of a key; *first is NULL where there is none. */
static enum sn_status open_list(const struct sn_yaml_node *root, const char *key, int most,
                                const struct sn_yaml_node **first, struct sn_err *err)
{
    const struct sn_yaml_node *list = sn_yaml_find(root, key);
    int n = 0;
    *first = NULL;
    if (!list || sn_yaml_is_null(list))
        return SN_OK;
    if (list->kind != SN_YAML_LIST)
        return sn_yaml_fail(list, err, "%s: want a list of mappings", key);
    for (const struct sn_yaml_node *i = list->first; i; i = i->next)
        n++;
    if (n > most)
        return sn_yaml_fail(list, err, "%s: %d items; want at most %d", key, n, most);
    *first = list->first;
    return SN_OK;
}

/* A list of partitions or of qos. */
struct queues {
    const struct sn_fields *fields;
    struct sn_site_queue *queue;
    int *n;
};

static enum sn_status read_queue(const struct queues *to, const struct sn_yaml_node *item,
                                 struct sn_err *err)
{
    const char *list = to->fields->prefix;
    struct sn_site_queue *q = &to->queue[*to->n];
    SN_TRY(sn_fields_read(to->fields, item, q, err));
    q->line = item->line;
    for (int i = 0; i < *to->n; i++) {
        if (strcmp(to->queue[i].name, q->name) == 0)
            return sn_yaml_fail(item, err, "%s.name: '%s' stands twice; keep one", list, q->name);
        if (to->queue[i].is_default && q->is_default)
            return sn_yaml_fail(item, err, "%s.default: '%s' is the default already; want one",
                                list, to->queue[i].name);
    }
    if (q->max_time[0] && !sn_duration_parse(q->max_time, &q->max_seconds))
        return sn_yaml_fail(item, err, "%s.max_time: '%s' is no time; want H:MM:SS or D-HH:MM:SS",
                            list, q->max_time);
    if (strspn(q->name, SN_SITE_PLAIN) != strlen(q->name) || q->name[0] == '-')
        return sn_yaml_fail(item, err,
                            "%s.name: '%s' is no name for a script; want letters and "
                            "digits",
                            list, q->name);
    if (q->max_nodes && q->max_nodes < q->min_nodes)
        return sn_yaml_fail(item, err, "%s.max_nodes: %d is less than min_nodes (%d); want more",
                            list, q->max_nodes, q->min_nodes);
    ++*to->n;
    return SN_OK;
}

static enum sn_status read_queues(const struct queues *to, const struct sn_yaml_node *root,
                                  struct sn_err *err)
{
    const struct sn_yaml_node *i;
    SN_TRY(open_list(root, to->fields->prefix, SN_SITE_QUEUES, &i, err));
    for (; i; i = i->next)
        SN_TRY(read_queue(to, i, err));
    return SN_OK;
}

static enum sn_status read_kinds(struct sn_site *s, const struct sn_yaml_node *root,
                                 struct sn_err *err)
{
    const struct sn_yaml_node *i;
    struct sn_site_kind *usual = &s->kind[s->n_kinds++];
    *usual = (struct sn_site_kind){.gpus = s->node.gpus,
                                   .cores = s->node.cores,
                                   .gpu_memory = s->node.gpu_memory,
                                   .line = sn_site_line(s, "node")};
    memcpy(usual->machine, s->machine, sizeof(usual->machine));
    memcpy(usual->constraint, s->submit.constraint, sizeof(usual->constraint));
    SN_TRY(open_list(root, "kinds", SN_SITE_KINDS, &i, err));
    for (; i; i = i->next) {
        struct sn_site_kind *k = &s->kind[s->n_kinds++];
        SN_TRY(sn_fields_read(&kind_fields, i, k, err));
        k->line = i->line;
        if (!k->constraint[0] && !k->partition[0])
            return sn_yaml_fail(i, err,
                                "kinds: nothing says how a job gets these nodes; want constraint "
                                "or partition");
    }
    return SN_OK;
}

static enum sn_status read_modules(struct sn_site *s, const struct sn_yaml_node *root,
                                   struct sn_err *err)
{
    const struct sn_yaml_node *i;
    SN_TRY(open_list(root, "modules", SN_SITE_MODULES, &i, err));
    for (; i; i = i->next) {
        struct sn_site_module *m = &s->module[s->n_modules++];
        SN_TRY(sn_fields_read(&module_fields, i, m, err));
        if (strspn(m->load, SN_SITE_PLAIN) != strlen(m->load) || m->load[0] == '-')
            return sn_yaml_fail(i, err,
                                "modules.load: '%s' is no name of a module; want one such "
                                "as nccl/2.21.5",
                                m->load);
    }
    return SN_OK;
}

static enum sn_status read_variables(struct sn_site *s, const struct sn_yaml_node *root,
                                     struct sn_err *err)
{
    const struct sn_yaml_node *i;
    SN_TRY(open_list(root, "environment", SN_SITE_VARIABLES, &i, err));
    for (; i; i = i->next) {
        struct sn_site_variable *v = &s->variable[s->n_variables++];
        SN_TRY(sn_fields_read(&variable_fields, i, v, err));
        size_t n = strlen(v->name);
        if (strspn(v->name, letters) == 0 || strspn(v->name, SN_SITE_PLAIN) != n ||
            strcspn(v->name, "-.,:/@%+=[]&|*!()") != n)
            return sn_yaml_fail(i, err,
                                "environment.name: '%s' is no name of a variable; want "
                                "letters, digits and _",
                                v->name);
    }
    return SN_OK;
}

static enum sn_status read_tree(struct sn_site *s, struct sn_err *err)
{
    const struct sn_yaml_node *root = s->doc->root;
    const struct queues partitions = {&partition_fields, s->partition, &s->n_partitions},
                        qos = {&qos_fields, s->qos, &s->n_qos};
    SN_TRY(sn_fields_read(&site_fields, root, s, err));
    SN_TRY(read_queues(&partitions, root, err));
    SN_TRY(read_queues(&qos, root, err));
    SN_TRY(read_kinds(s, root, err));
    SN_TRY(read_modules(s, root, err));
    SN_TRY(read_variables(s, root, err));
    return sn_site_check(s, err);
}

enum sn_status sn_site_parse(struct sn_site *out, const char *text, size_t len, const char *path,
                             struct sn_err *err)
{
    struct sn_yaml_doc *doc;
    SN_TRY(sn_fields_parse(&doc, text, len, path,
                           "a site's file: the keys name, scheduler, submit and launch "
                           "(docs/SITES.md)",
                           err));
    struct sn_site *s = sn_alloc(sizeof(*s)); /* large for a stack */
    enum sn_status st = s ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path);
    if (s) {
        s->doc = doc;
        (void)snprintf(s->path, sizeof(s->path), "%s", path);
        st = read_tree(s, err);
    }
    if (st == SN_OK)
        memcpy(out, s, sizeof(*out));
    else
        sn_yaml_destroy(doc);
    sn_free(s);
    return st;
}

enum sn_status sn_site_load(struct sn_site *out, const char *path, struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_site_parse(out, text, len, path, err);
    sn_free(text);
    return st;
}

enum sn_status sn_site_of(struct sn_site *out, const struct sn_config *c, const char *name,
                          const char *share_dir, struct sn_err *err)
{
    char share[SN_PATH_MAX], dir[SN_PATH_MAX + 16], path[SN_PATH_MAX];
    const char *of = name ? "--site" : c->path, *key = name ? "site" : "slurm.site";
    struct sn_text_place at = name ? (struct sn_text_place){0} : c->slurm.site_at;
    name = name ? name : c->slurm.site[0] ? c->slurm.site : "generic";
    if (strchr(name, '/'))
        return sn_site_load(out, name, err);
    if (share_dir)
        (void)snprintf(share, sizeof(share), "%s", share_dir);
    else
        SN_TRY(sn_share_find(share, sizeof(share), err));
    (void)snprintf(dir, sizeof(dir), "%s/sites", share);
    struct sn_yaml_node n = {
        .kind = SN_YAML_SCALAR, .file = of, .line = at.line, .col = at.col, .text = (char *)name};
    SN_TRY(sn_preset_find(path, sizeof(path), dir, key, &n, err));
    return sn_site_load(out, path, err);
}

const char *sn_site_machine(const struct sn_site *s, const struct sn_config *c)
{
    bool may_use_gpus = c->run.backend == SN_BACKEND_CUDA ||
                        (c->run.backend == SN_BACKEND_AUTO && s->node.gpus > 0);
    return may_use_gpus ? s->machine : "";
}

void sn_site_fini(struct sn_site *s)
{
    sn_yaml_destroy(s->doc);
    s->doc = NULL;
}

/* --- questions -------------------------------------------------------------------------------- */

static const struct sn_site_queue *find_queue(const struct sn_site_queue *q, int n,
                                              const char *name)
{
    for (int i = 0; i < n; i++)
        if (name ? strcmp(q[i].name, name) == 0 : q[i].is_default)
            return &q[i];
    return NULL;
}

const struct sn_site_queue *sn_site_partition(const struct sn_site *s, const char *name)
{
    return find_queue(s->partition, s->n_partitions, name);
}

const struct sn_site_queue *sn_site_qos(const struct sn_site *s, const char *name)
{
    return find_queue(s->qos, s->n_qos, name);
}

bool sn_site_forbids(const struct sn_site *s, const char *option)
{
    char name[SN_OPTION_NAME];
    const struct sn_words *w = &s->submit.forbidden;
    for (int i = 0; i < w->n; i++)
        if (sn_option_is(option, sn_option_name(name, w->word[i])))
            return true;
    return false;
}

int sn_site_line(const struct sn_site *s, const char *key)
{
    const struct sn_yaml_node *at = s->doc->root;
    int line = 1;
    char word[SN_SITE_NAME];
    while (at && *key) {
        size_t n = strcspn(key, ".");
        (void)snprintf(word, sizeof(word), "%.*s", (int)n, key);
        at = at->kind == SN_YAML_MAP ? sn_yaml_find(at, word) : NULL;
        line = at && at->key_line ? at->key_line : line;
        key += n + (key[n] == '.');
    }
    return line;
}

enum sn_status sn_site_fail(const struct sn_site *s, int line, struct sn_err *err, const char *fmt,
                            ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return sn_fail(err, SN_EINPUT, "%s:%d: %s", s->path, line, what);
}

/* --- help ------------------------------------------------------------------------------------- */

static const char intro[] =
    "# Site profiles\n\n"
    "Generated from the key table in `slurm/site/site.c` by `sennit-plan --help-keys=sites >\n"
    "docs/SITES.md`; do not edit.\n\n"
    "A run file names a site with `slurm.site`: a name is one of those that ship\n"
    "(`templates/sites`), a path (with a `/`) is a file of your own. `sennit-run submit` writes "
    "the\n"
    "batch script by it and refuses what the site would refuse; `sennit-run exec` takes the\n"
    "launcher from it. Without one `submit` takes the shipped site that the environment tells of\n"
    "(`detect`), and says so; else it is `generic`: plain Slurm, nothing asked for that the run "
    "file\n"
    "does not name. What a key of the run file says goes before the profile. Unknown keys are\n"
    "errors.\n\n"
    "A job gets the usual nodes (`node`) or one of `kinds`: those of `slurm.partition` or\n"
    "`slurm.constraint`, or else those that the run's machine describes, whose constraint is then "
    "asked\n"
    "for. A machine with other GPUs than the nodes have, by number or memory, is refused.\n\n"
    "The script loads `modules` first, then runs `slurm.setup`, then exports `environment`, but "
    "for\n"
    "variables that a line of `slurm.setup` sets. Each line of `environment` has its reason, which "
    "stands beside it in the script:\n"
    "`sennit-run submit RUN.yaml --print` shows both. Sites change their rules: where a profile "
    "is\n"
    "wrong, `sbatch --test-only`, which `submit` asks first, says so in the site's own words.\n\n";

void sn_site_help(struct sn_str *out)
{
    sn_str_add(out, "%s", intro);
    sn_fields_help(out, &site_fields);
    sn_str_add(out, "\nEach item of `partitions`:\n\n");
    sn_fields_help(out, &partition_fields);
    sn_str_add(out, "\nEach item of `qos`:\n\n");
    sn_fields_help(out, &qos_fields);
    sn_str_add(out, "\nEach item of `kinds`:\n\n");
    sn_fields_help(out, &kind_fields);
    sn_str_add(out, "\nEach item of `modules`:\n\n");
    sn_fields_help(out, &module_fields);
    sn_str_add(out, "\nEach item of `environment`:\n\n");
    sn_fields_help(out, &variable_fields);
}
