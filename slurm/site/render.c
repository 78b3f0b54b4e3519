#include "slurm/site/render.h"

#include "lib/base/duration.h"
#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "slurm/site/script.h"

#include <stdio.h>
#include <string.h>

/* --- header of Slurm -------------------------------------------------------------------------- */

static void number(struct sn_str *out, const char *option, int n)
{
    char value[16];
    (void)snprintf(value, sizeof(value), "%d", n);
    sn_script_sbatch(out, option, value);
}

static void name(struct sn_str *out, const char *option, const char *value)
{
    if (value[0])
        sn_script_sbatch(out, option, value);
}

static void gpus(struct sn_str *out, const struct sn_batch *b)
{
    const struct sn_site_submit *u = &b->site->submit;
    char value[SN_SITE_NAME + 24];
    const char *colon = u->gpu_type[0] ? ":" : "";
    if (u->gpus == SN_GPUS_NONE || b->gpus_per_node == 0)
        return;
    if (u->gpus == SN_GPUS_PER_TASK)
        (void)snprintf(value, sizeof(value), "%s%s1", u->gpu_type, colon);
    else
        (void)snprintf(value, sizeof(value), "%s%s%s%d", u->gpus == SN_GPUS_GRES ? "gpu:" : "",
                       u->gpu_type, colon, b->gpus_per_node);
    sn_script_sbatch(out,
                     u->gpus == SN_GPUS_GRES       ? "--gres"
                     : u->gpus == SN_GPUS_PER_NODE ? "--gpus-per-node"
                                                   : "--gpus-per-task",
                     value);
}

static void resources(struct sn_str *out, const struct sn_batch *b)
{
    const struct sn_site_submit *u = &b->site->submit;
    const struct sn_slurm_config *l = &b->config->slurm;
    number(out, "--nodes", b->nodes + l->spares);
    number(out, "--ntasks-per-node", b->ranks_per_node);
    if (b->cpus_per_rank)
        number(out, "--cpus-per-task", b->cpus_per_rank);
    gpus(out, b);
    name(out, "--mem", u->memory_value);
    if (u->exclusive)
        sn_script_sbatch(out, "--exclusive", NULL);
    name(out, "--constraint", b->constraint);
    name(out, "--reservation", l->reservation);
    if (l->n_exclude) {
        struct sn_str list = {0};
        for (int i = 0; i < l->n_exclude; i++)
            sn_str_add(&list, "%s%s", i ? "," : "", l->exclude[i]);
        sn_script_sbatch(out, "--exclude", list.failed ? "" : list.p);
        out->failed |= list.failed;
        sn_str_fini(&list);
    }
    /* Else Slurm ends the whole job with its first node, and nobody is left to go on with fewer. */
    bool may_shrink = l->shrink && b->nodes > 1 && !sn_site_forbids(b->site, "--no-kill");
    if (l->spares || may_shrink) {
        sn_script_comment(
            out, "A node that fails does not end the job: sennit-run goes on with the others "
                 "(slurm.spares, slurm.shrink).");
        sn_script_comment(out,
                          "Should it be the first, which runs this script, nobody goes on, and "
                          "scancel ends the job.");
        sn_script_sbatch(out, "--no-kill", NULL);
    }
}

/* "--comment=a b" is one word to the user, and so to sbatch. */
static void verbatim(struct sn_str *out, const char *option)
{
    char long_name[SN_NAME_MAX];
    const char *equals = strchr(option, '=');
    if (!equals || strncmp(option, "--", 2) != 0) {
        sn_str_add(out, "#SBATCH %s\n", option);
        return;
    }
    (void)snprintf(long_name, sizeof(long_name), "%.*s", (int)(equals - option), option);
    sn_script_sbatch(out, long_name, equals + 1);
}

/* What happens when time runs out, when the job is put back, and who follows it. */
static void continuation(struct sn_str *out, const struct sn_batch *b)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    char value[32], time[SN_DURATION_SIZE];
    if (l->seconds)
        sn_script_sbatch(out, "--time", sn_duration_format(time, l->seconds));
    if (b->signal_before && b->site->submit.signal != SN_SIGNAL_NONE) {
        (void)snprintf(value, sizeof(value), "%sUSR2@%d",
                       b->site->submit.signal == SN_SIGNAL_BATCH ? "B:" : "", b->signal_before);
        sn_script_sbatch(out, "--signal", value);
    }
    sn_script_sbatch(out, b->requeue ? "--requeue" : "--no-requeue", NULL);
    if (l->chain > 1)
        sn_script_sbatch(out, "--dependency", "singleton");
}

static enum sn_status slurm_header(struct sn_str *out, const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    const struct sn_words *extra = &b->site->submit.extra;
    char job[SN_JOB_NAME];
    struct sn_str path = {0};
    sn_script_sbatch(out, "--job-name", sn_script_job_name(job, b->config->run.name));
    name(out, b->site->submit.account_option[0] ? b->site->submit.account_option : "--account",
         l->account);
    name(out, "--partition", b->partition_name);
    name(out, "--qos", b->qos_name);
    resources(out, b);
    continuation(out, b);
    enum sn_status st = sn_script_pattern(&path, "run.output", b->output, err);
    sn_str_add(&path, "/slurm-%%j.out");
    if (st == SN_OK && !path.failed)
        sn_script_sbatch(out, "--output", path.p);
    out->failed |= path.failed;
    sn_str_fini(&path);
    sn_script_sbatch(out, "--open-mode", "append");
    for (int i = 0; i < extra->n; i++)
        verbatim(out, extra->word[i]);
    for (int i = 0; i < l->n_extra; i++)
        verbatim(out, l->extra[i]);
    return st == SN_OK && !out->failed ? sn_script_check_sbatch(b->config->path, out->p, err) : st;
}

/* --- header of LSF ---------------------------------------------------------------------------- */

static enum sn_status lsf_header(struct sn_str *out, const struct sn_batch *b, struct sn_err *err)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    const struct sn_site_submit *u = &b->site->submit;
    char job[SN_JOB_NAME], value[32];
    struct sn_str path = {0};
    SN_TRY(sn_script_check_bsub("run.output", b->output, err));
    sn_script_bsub(out, "-J", sn_script_job_name(job, b->config->run.name));
    (void)snprintf(value, sizeof(value), "%d", b->nodes);
    sn_script_bsub(out, "-nnodes", value);
    if (l->account[0])
        sn_script_bsub(out, u->account_option[0] ? u->account_option : "-G", l->account);
    if (b->partition_name[0])
        sn_script_bsub(out, "-q", b->partition_name);
    if (l->seconds) { /* hours and minutes alone */
        int64_t minutes = (l->seconds + 59) / 60;
        (void)snprintf(value, sizeof(value), "%lld:%02lld", (long long)(minutes / 60),
                       (long long)(minutes % 60));
        sn_script_bsub(out, "-W", value);
    }
    if (b->signal_before && u->signal != SN_SIGNAL_NONE) {
        (void)snprintf(value, sizeof(value), "%d", (b->signal_before + 59) / 60);
        sn_script_bsub(out, "-wa", "USR2");
        sn_script_bsub(out, "-wt", value);
    }
    sn_script_bsub(out, b->requeue ? "-r" : "-rn", NULL);
    sn_str_add(&path, "%s/lsf-%%J.out", b->output);
    if (!path.failed)
        sn_script_bsub(out, "-o", path.p);
    out->failed |= path.failed;
    sn_str_fini(&path);
    for (int i = 0; i < u->extra.n; i++)
        sn_str_add(out, "#BSUB %s\n", u->extra.word[i]);
    for (int i = 0; i < l->n_extra; i++)
        sn_str_add(out, "#BSUB %s\n", l->extra[i]);
    return SN_OK;
}

/* --- other places ----------------------------------------------------------------------------- */

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* Does a line of slurm.setup set the variable ("export NAME=x", "A=b NAME=x")? */
static bool is_set_up(const struct sn_slurm_config *l, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < l->n_setup; i++)
        for (const char *at = l->setup[i]; (at = strstr(at, name)); at++)
            if (at[n] == '=' && (at == l->setup[i] || !strchr(letters, at[-1])))
                return true;
    return false;
}

static void export(struct sn_str *out, const struct sn_batch *b, const struct sn_site_variable *v)
{
    bool own = v->on && is_set_up(&b->config->slurm, v->name);
    sn_script_comment(out, v->why);
    if (own)
        sn_script_comment(out, "(slurm.setup has a value of its own)");
    sn_str_add(out, "%sexport %s=", v->on && !own ? "" : "# ", v->name);
    sn_script_word(out, v->value);
    sn_str_add(out, "\n");
}

static void environment(struct sn_str *out, const struct sn_batch *b)
{
    static const struct sn_site_variable locking = {
        .name = "HDF5_USE_FILE_LOCKING",
        .value = "FALSE",
        .why =
            "the shared file system's locks fail or are slow; each checkpoint file has one writer",
        .on = true};
    for (int i = 0; i < b->site->n_variables; i++)
        export(out, b, &b->site->variable[i]);
    if (!b->site->files.hdf5_locking)
        export(out, b, &locking);
}

/* Modules come first, so that neither a line of the user's nor a variable is lost to them. */
static void setup(struct sn_str *out, const struct sn_batch *b)
{
    for (int i = 0; i < b->site->n_modules; i++) {
        sn_script_comment(out, b->site->module[i].why);
        sn_str_add(out, "module load ");
        sn_script_word(out, b->site->module[i].load);
        sn_str_add(out, "\n");
    }
    for (int i = 0; i < b->config->slurm.n_setup; i++)
        sn_str_add(out, "%s\n", b->config->slurm.setup[i]);
}

/* A place alone in its line: its lines. False: there is no such place. */
static bool lines_of(struct sn_str *out, const struct sn_batch *b, const char *place,
                     enum sn_status *st, struct sn_err *err)
{
    if (strcmp(place, "header") == 0)
        *st = b->site->scheduler == SN_SCHED_LSF ? lsf_header(out, b, err)
                                                 : slurm_header(out, b, err);
    else if (strcmp(place, "environment") == 0)
        environment(out, b);
    else if (strcmp(place, "setup") == 0)
        setup(out, b);
    else
        return false;
    return true;
}

static const char *word_of(const struct sn_batch *b, const char *place)
{
    const struct {
        const char *name, *value;
    } row[] = {{"site", b->site->name},
               {"directory", b->directory},
               {"program", b->program},
               {"run_file", b->run_file},
               {"site_name", b->site_name}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (strcmp(place, row[i].name) == 0)
            return row[i].value;
    return NULL;
}

/* --- the template ----------------------------------------------------------------------------- */

struct renderer {
    struct sn_str *out;
    const struct sn_batch *b;
    const char *path; /* of the template */
    int line;
    bool was_blank; /* blank lines do not follow each other: what is between may be nothing */
    struct sn_err *err;
};

/* The name of a place that begins at `at` ("@{"); the text behind it. */
static enum sn_status place_at(const struct renderer *r, const char *at, const char *end,
                               char place[32], const char **behind)
{
    const char *close = memchr(at, '}', (size_t)(end - at));
    if (!close || close - at - 2 >= 32)
        return sn_fail(r->err, SN_EINPUT,
                       "%s:%d: '@{' without a name and '}'; want @{header} or "
                       "another place",
                       r->path, r->line);
    (void)snprintf(place, 32, "%.*s", (int)(close - at - 2), at + 2);
    *behind = close + 1;
    return SN_OK;
}

static const char *find_place(const char *at, const char *end)
{
    for (; at + 1 < end; at++)
        if (at[0] == '@' && at[1] == '{')
            return at;
    return NULL;
}

static enum sn_status words_line(struct renderer *r, const char *at, const char *end)
{
    char place[32];
    for (const char *next; at < end; at = next) {
        const char *found = find_place(at, end);
        sn_str_add(r->out, "%.*s", (int)((found ? found : end) - at), at);
        if (!found)
            break;
        SN_TRY(place_at(r, found, end, place, &next));
        const char *word = word_of(r->b, place);
        if (!word)
            return sn_fail(
                r->err, SN_EINPUT,
                "%s:%d: there is no place @{%s}; want site, site_name, directory, "
                "program or run_file, or a line of its own with header, environment or setup",
                r->path, r->line, place);
        SN_TRY(sn_script_check(place, word, r->err));
        sn_script_word(r->out, word);
    }
    sn_str_add(r->out, "\n");
    return SN_OK;
}

static enum sn_status render_line(struct renderer *r, const char *at, const char *end)
{
    char place[32];
    const char *behind;
    enum sn_status st = SN_OK;
    if (at == end && r->was_blank)
        return SN_OK;
    if (end - at > 2 && at[0] == '@' && at[1] == '{') {
        SN_TRY(place_at(r, at, end, place, &behind));
        size_t before = r->out->len;
        if (behind == end && lines_of(r->out, r->b, place, &st, r->err)) {
            r->was_blank = r->was_blank && r->out->len == before;
            return st;
        }
    }
    r->was_blank = at == end;
    return words_line(r, at, end);
}

enum sn_status sn_render(struct sn_str *out, const struct sn_batch *b, const char *template,
                         const char *template_path, struct sn_err *err)
{
    struct renderer r = {.out = out, .b = b, .path = template_path, .err = err};
    for (const char *at = template, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        r.line++;
        SN_TRY(render_line(&r, at, end));
    }
    return out->failed ? sn_fail(err, SN_ENOMEM, "%s: no memory for a batch script", template_path)
                       : SN_OK;
}

enum sn_status sn_render_shipped(struct sn_str *out, const struct sn_batch *b,
                                 const char *share_dir, struct sn_err *err)
{
    char share[SN_PATH_MAX], path[SN_PATH_MAX + 32], *text;
    size_t len;
    struct stat id;
    if (share_dir)
        (void)snprintf(share, sizeof(share), "%s", share_dir);
    else
        SN_TRY(sn_share_find(share, sizeof(share), err));
    (void)snprintf(path, sizeof(path), "%s/batch/%s.sh", share,
                   sn_scheduler_name(b->site->scheduler));
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_render(out, b, text, path, err);
    sn_free(text);
    return st;
}
