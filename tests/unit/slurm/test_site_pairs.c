/*
 * test_site_pairs.c - every site that ships with every machine that ships: the script asks for what
 * was planned for, or a sentence says which machine would do.
 */
#include "lib/config/files.h"
#include "lib/machine/named.h"
#include "slurm/site/batch.h"
#include "slurm/site/render.h"
#include "tests/lib/tap.h"

#include <dirent.h>
#include <stdlib.h>

enum { MOST = 64 };

struct names {
    int n;
    char name[MOST][SN_SITE_NAME];
};

static void find_names(struct names *out, const char *folder)
{
    char share[SN_PATH_MAX], dir[SN_PATH_MAX + 16];
    struct sn_err err = {0};
    tap_ok(sn_share_find(share, sizeof(share), &err) == SN_OK, "templates are found %s", err.text);
    (void)snprintf(dir, sizeof(dir), "%s/%s", share, folder);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && out->n < MOST && (e = readdir(d));) {
        const char *end = strstr(e->d_name, ".yaml");
        if (end)
            (void)snprintf(out->name[out->n++], SN_SITE_NAME, "%.*s", (int)(end - e->d_name),
                           e->d_name);
    }
    if (d)
        (void)closedir(d);
    tap_ok(out->n > 10, "%d %s", out->n, folder);
}

/* Two nodes of the machine, with an account that the site takes. */
static void config(struct sn_config *c, const struct sn_site *s, int devices)
{
    memset(c, 0, sizeof(*c));
    (void)snprintf(c->path, sizeof(c->path), "run.yaml");
    c->layout.data = 2 * devices;
    c->layout.tensor = c->layout.tensor_x = c->layout.pipeline = c->layout.context = 1;
    c->slurm.chain = 1;
    if (s->submit.account == SN_SITE_REQUIRED)
        (void)snprintf(c->slurm.account, sizeof(c->slurm.account), "m1%s",
                       s->submit.account_suffix);
}

/* GPUs that the script asks for on a node; -1: it does not say. */
static int asked_for(const char *script)
{
    static const char *const option[] = {"--gres=gpu:", "--gpus-per-node="};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(script, option[i]);
        if (at)
            return atoi(at + strlen(option[i]));
    }
    return -1;
}

/* What was planned for is what the job gets. */
static bool is_coherent(const struct sn_batch *b, const struct sn_machine *m, const char *script)
{
    int gpus = asked_for(script);
    const struct sn_site *s = b->site;
    bool own = strcmp(m->name, b->kind->machine) == 0;
    bool memory = !b->kind->gpu_memory || own || m->device.memory <= b->kind->gpu_memory;
    bool count = !b->kind->gpus || own || b->kind->gpus == m->devices;
    int have = (b->kind->cores ? b->kind->cores : s->node.cores) * s->node.threads;
    bool room = !have || b->cpus_per_rank * b->ranks_per_node <= have;
    bool asks = gpus < 0 || gpus == b->ranks_per_node || own;
    bool least =
        b->cpus_per_rank * b->ranks_per_node >= s->submit.cpus_per_gpu_least * b->gpus_per_node;
    return b->ranks_per_node == m->devices && memory && count && room && asks && least;
}

/* 1: a script, 0: a sentence, -1: neither is right. */
static int judge(const struct sn_site *s, const struct sn_machine *m, struct sn_err *err)
{
    static struct sn_config c;
    const struct sn_batch_machine machine = {m->name, m->devices, m->device.memory};
    struct sn_batch b;
    struct sn_str script = {0};
    int each = 0;
    config(&c, s, m->devices);
    if (sn_batch_ranks_per_node(&each, &c, s, &machine, err) != SN_OK)
        return -1;
    sn_batch_init(&b, &c, s, &machine, each);
    if (sn_batch_check(&b, err) != SN_OK)
        return err->status == SN_EINPUT && strstr(err->text, "; want machine")             ? 0
               : err->status == SN_EINPUT && strstr(err->text, "; want a machine file of") ? 0
                                                                                           : -1;
    b.directory = b.program = b.run_file = b.output = "/x";
    b.site_name = s->name;
    bool good = sn_render_shipped(&script, &b, NULL, err) == SN_OK && is_coherent(&b, m, script.p);
    sn_str_fini(&script);
    return good ? 1 : -1;
}

static void every_pair_is_coherent_or_refused(void)
{
    static struct names sites, machines;
    static struct sn_config none;
    static struct sn_site s;
    int scripts = 0, sentences = 0;
    find_names(&sites, "sites");
    find_names(&machines, "machines");
    for (int i = 0; i < sites.n; i++) {
        struct sn_err err = {0};
        int own = 0;
        if (!tap_ok(sn_site_of(&s, &none, sites.name[i], NULL, &err) == SN_OK, "%s %s",
                    sites.name[i], err.text))
            continue;
        for (int k = 0; k < machines.n; k++) {
            struct sn_machine m;
            if (sn_machine_preset(&m, machines.name[k], NULL, &err) != SN_OK)
                continue;
            int verdict = judge(&s, &m, &err);
            if (verdict < 0)
                tap_ok(false, "%s at %s: %s", m.name, s.name, err.text);
            scripts += verdict > 0;
            sentences += verdict == 0;
            for (int n = 0; n < s.n_kinds; n++)
                own += verdict > 0 && strcmp(s.kind[n].machine, m.name) == 0;
            sn_machine_fini(&m);
        }
        int named = 0;
        for (int n = 0; n < s.n_kinds; n++)
            named += s.kind[n].machine[0] != 0;
        tap_ok(own == named, "%s takes the %d machines that its profile names", s.name, named);
        sn_site_fini(&s);
    }
    tap_ok(scripts + sentences == sites.n * machines.n && scripts > sites.n / 2 && sentences > 100,
           "%d scripts, %d sentences", scripts, sentences);
}

static void check(const char *site, const char *machine, const char *constraint, const char *want)
{
    static struct sn_config c;
    static struct sn_site s;
    struct sn_machine m;
    struct sn_batch b;
    struct sn_err err = {0};
    if (!tap_ok(sn_site_of(&s, &c, site, NULL, &err) == SN_OK &&
                    sn_machine_preset(&m, machine, NULL, &err) == SN_OK,
                "%s at %s %s", machine, site, err.text))
        return;
    config(&c, &s, m.devices);
    (void)snprintf(c.slurm.constraint, sizeof(c.slurm.constraint), "%s", constraint);
    const struct sn_batch_machine of = {m.name, m.devices, m.device.memory};
    sn_batch_init(&b, &c, &s, &of, m.devices);
    if (sn_batch_check(&b, &err) == SN_OK)
        (void)tap_text(b.constraint, want, "its constraint");
    else
        (void)tap_text(strstr(err.text, "a node of") ? strstr(err.text, "a node of") : err.text,
                       want, "its sentence");
    sn_machine_fini(&m);
    sn_site_fini(&s);
}

int main(void)
{
    every_pair_is_coherent_or_refused();
    check("perlmutter", "perlmutter-40", "", "gpu");
    check("perlmutter", "perlmutter-80", "", "gpu&hbm80g");
    check("perlmutter", "perlmutter-80", "gpu&hbm80g", "gpu&hbm80g");
    check("perlmutter", "perlmutter-80", "gpu",
          "a node of perlmutter has 4 GPUs of 40.00 GiB, but run.yaml plans for perlmutter-80, "
          "whose nodes have 4 devices of 79.15 GiB; want machine.preset: perlmutter-40 or "
          "perlmutter-80");
    check("marenostrum5", "dgx-a100-80", "",
          "a node of marenostrum5 has 4 GPUs of 64.00 GiB, but run.yaml plans for dgx-a100-80, "
          "whose nodes have 8 devices of 79.15 GiB; want a machine file of such nodes, as "
          "sennit-plan calibrate writes");
    return tap_done();
}
