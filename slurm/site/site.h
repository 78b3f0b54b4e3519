/* clang-format off */
/*
 * site.h - what a machine's site wants of a job: its scheduler and launcher, partitions and their
 * limits, how GPUs, memory and accounts are asked for, what is forbidden, how jobs are preempted,
 * and the environment that its network needs, each line with the reason.
 *
 * A site is data, not code: a YAML file (docs/SITES.md has every key); templates/sites/ has those
 * that ship. It refuses to know how a script looks (slurm/site/render.h).
 *
 *   name: marconi100
 *   what: "CINECA, 980 nodes of 4 V100-16, Slurm"
 *   source: "CINECA UG3.2 Marconi100 user guide"
 *   status: retired
 *   scheduler: slurm
 *   machine: marconi100                  # preset of templates/machines, for the planner
 *   node: {gpus: 4, gpu_memory: 16GiB, cores: 32, threads: 4}
 *   submit:
 *     account: required
 *     gpus: gres                         # gres | per-node | per-task | none
 *     cpus_per_gpu: 32                   # hardware threads, as Slurm counts here
 *     memory: required
 *     memory_value: 230000M
 *     exclusive: true
 *     signal: steps
 *     requeue: true
 *     forbidden: []
 *   partitions:
 *     - {name: m100_usr_prod, default: true, max_nodes: 0, max_time: 1-00:00:00}
 *   qos:
 *     - {name: m100_qos_dbg, max_nodes: 2, max_time: 2:00:00}
 *   launch: {with: srun, flags: [--gpu-bind=none]}
 *   environment:
 *     - {name: NCCL_SOCKET_IFNAME, value: ib0, why: "the first interface is not the fast one"}
 */
/* clang-format on */
#ifndef SN_SITE_H
#define SN_SITE_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/config/keys.h"
#include "slurm/scheduler/allocation.h"
#include "slurm/scheduler/launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SN_SITE_NAME = 64,
    SN_SITE_TEXT = 256,
    SN_SITE_QUEUES = 16, /* partitions, and as many qos */
    SN_SITE_KINDS = 8,   /* of nodes */
    SN_SITE_MODULES = 16,
    SN_SITE_VARIABLES = 32
};

enum sn_gpu_style { SN_GPUS_NONE, SN_GPUS_GRES, SN_GPUS_PER_NODE, SN_GPUS_PER_TASK };
enum sn_site_rule { SN_SITE_OPTIONAL, SN_SITE_REQUIRED, SN_SITE_FORBIDDEN };
/* Who is told that time runs out: the tasks, the batch script, or nobody (the supervisor's own
 * clock does it alone). */
enum sn_site_signal { SN_SIGNAL_STEPS, SN_SIGNAL_BATCH, SN_SIGNAL_NONE };
enum sn_preempt_mode {
    SN_PREEMPT_UNKNOWN,
    SN_PREEMPT_OFF,
    SN_PREEMPT_CANCEL,
    SN_PREEMPT_REQUEUE,
    SN_PREEMPT_SUSPEND
};
const char *sn_preempt_mode_name(enum sn_preempt_mode m); /* "unknown", "off", "cancel", ... */

/* A partition (LSF: a queue), or a quality of service. 0 and "" where nothing is known. */
struct sn_site_queue {
    char name[SN_SITE_NAME];
    bool is_default;
    int min_nodes, max_nodes;
    char max_time[SN_SITE_NAME]; /* as written */
    int64_t max_seconds;
    char partition[SN_SITE_NAME], qos[SN_SITE_NAME]; /* that has to go with it */
    enum sn_preempt_mode preempt;
    int grace;  /* seconds between the warning and the end */
    int exempt; /* seconds that a job has for certain before it is preempted */
    char note[SN_SITE_TEXT];
    int line; /* in the site's file */
};

struct sn_site_variable {
    char name[SN_SITE_NAME], value[SN_SITE_TEXT], why[SN_SITE_TEXT];
    bool on; /* else it stands in the script as a comment, for whoever needs it */
};

struct sn_site_node {
    int gpus, cores, threads; /* threads: hardware threads of a core */
    int64_t gpu_memory;       /* of one, as it is sold; 0: not known */
};

/* Nodes that are alike. A job gets them by a constraint or a partition. */
struct sn_site_kind {
    char machine[SN_SITE_NAME];    /* preset of templates/machines that describes them; "": none */
    char constraint[SN_SITE_NAME]; /* "": the site's usual one */
    char partition[SN_SITE_NAME];  /* "": the site's usual one */
    int gpus, cores, max_nodes;    /* 0: not known */
    int64_t gpu_memory;
    int line; /* in the site's file */
};

/* An environment module that the batch script loads. */
struct sn_site_module {
    char load[SN_SITE_NAME], why[SN_SITE_TEXT];
};

struct sn_site_submit {
    enum sn_site_rule account;
    char account_option[SN_SITE_NAME]; /* "": the scheduler's usual one */
    char account_suffix[SN_SITE_NAME]; /* "_g": accounts end so */
    enum sn_gpu_style gpus;
    char gpu_type[SN_SITE_NAME]; /* of --gres=gpu:TYPE:N */
    int cpus_per_gpu;            /* as the scheduler counts: hardware threads; 0: not known */
    int cpus_per_gpu_least;      /* of which it rejects fewer; 0: none */
    enum sn_site_rule memory;
    char memory_value[SN_SITE_NAME]; /* of a node, as --mem takes it */
    char constraint[SN_SITE_NAME];
    bool exclusive, requeue;
    enum sn_site_signal signal;
    struct sn_words forbidden, extra; /* options: "--mem"; and those that every job has */
};

struct sn_site_launch {
    enum sn_launcher with;
    char mpi[SN_SITE_NAME]; /* of srun --mpi=; "": pmix */
    struct sn_words flags;  /* words for its command line, after those that exec chooses */
};

struct sn_site_files {
    bool hdf5_locking; /* the file system's locks work */
    char scratch[SN_SITE_TEXT], burst[SN_SITE_TEXT], note[SN_SITE_TEXT];
};

struct sn_site_network {
    char interface[SN_SITE_NAME];   /* that has the fast network's addresses */
    char host_suffix[SN_SITE_NAME]; /* of a host's name there: "i" */
};

struct sn_site {
    char path[SN_PATH_MAX]; /* the file, for messages */
    char name[SN_SITE_NAME], what[SN_SITE_TEXT], source[SN_SITE_TEXT];
    int status; /* 0: in production, 1: retired */
    enum sn_scheduler scheduler;
    char machine[SN_SITE_NAME]; /* preset of templates/machines; "": none */
    struct sn_words detect;     /* "NERSC_HOST=perlmutter": how a process knows that it is there */
    struct sn_site_node node;
    struct sn_site_submit submit;
    struct sn_site_launch launch;
    struct sn_site_files files;
    struct sn_site_network network;
    int n_partitions, n_qos, n_variables, n_kinds, n_modules;
    struct sn_site_kind kind[SN_SITE_KINDS + 1]; /* the first is `node`; n_kinds counts it */
    struct sn_site_module module[SN_SITE_MODULES];
    struct sn_site_queue partition[SN_SITE_QUEUES], qos[SN_SITE_QUEUES];
    struct sn_site_variable variable[SN_SITE_VARIABLES];
    struct sn_yaml_doc *doc; /* for sn_site_line */
};

/* SN_EINPUT with "FILE:LINE:COL: what is wrong; what would work". On failure *out is as it was.
 * The caller ends with sn_site_fini. */
enum sn_status sn_site_load(struct sn_site *out, const char *path, struct sn_err *err);
/* The same from memory; `path` is used in messages only. */
enum sn_status sn_site_parse(struct sn_site *out, const char *text, size_t len, const char *path,
                             struct sn_err *err);
/* The site of a run: `name` (NULL: slurm.site of *c, or generic), which is a shipped one's or, if
 * there is a '/' in it, a path. `share_dir` holds sites/NAME.yaml; NULL: the installed or in-tree
 * one. */
enum sn_status sn_site_of(struct sn_site *out, const struct sn_config *c, const char *name,
                          const char *share_dir, struct sn_err *err);
void sn_site_fini(struct sn_site *s); /* a zeroed one is allowed */

/* The shipped site at which this process runs, by its environment: `name`, and in `by` the variable
 * that told ("NERSC_HOST=perlmutter"). False: none is known. */
bool sn_site_detect(char name[SN_SITE_NAME], char by[SN_SITE_TEXT], const char *share_dir);

/* The shipped machine by which layouts of a run that names none are judged there; "": none. With
 * run.backend: auto only where the nodes have GPUs, which the run may be on. */
const char *sn_site_machine(const struct sn_site *s, const struct sn_config *c);

/* The partition or qos of a name; NULL name: the default one. NULL: the file says nothing of it. */
const struct sn_site_queue *sn_site_partition(const struct sn_site *s, const char *name);
const struct sn_site_queue *sn_site_qos(const struct sn_site *s, const char *name);
/* Does a list of options forbid this one, such as "--mem=4G" or "-w n1"? A forbidden "--mem" does
 * not mean "--mem-bind". */
bool sn_site_forbids(const struct sn_site *s, const char *option);

/* Where the file has the dotted `key`, or else its section: a line, from 1. */
int sn_site_line(const struct sn_site *s, const char *key);
/* SN_EINPUT: "FILE:LINE: sentence". */
enum sn_status sn_site_fail(const struct sn_site *s, int line, struct sn_err *err, const char *fmt,
                            ...) __attribute__((format(printf, 4, 5)));

/* Every key of a site's file, as docs/SITES.md. */
void sn_site_help(struct sn_str *out);

#endif
