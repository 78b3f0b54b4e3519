/*
 * export_test.h - exports into a temporary directory, and what stands in the files.
 */
#ifndef EXPORT_TEST_H
#define EXPORT_TEST_H

#include "checkpoint/convert/export.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "tests/lib/source_test.h"

#include <stdlib.h>
#include <unistd.h>

/* A temporary directory; exports go to `dst` in it. */
struct place {
    char root[64], dst[96];
    struct sn_comm *comm;
    struct sn_err err;
};

__attribute__((unused)) static void place_init(struct place *p)
{
    *p = (struct place){.root = "/tmp/sn-export-XXXXXX"};
    if (!mkdtemp(p->root) || sn_comm_create_self(&p->comm, &p->err) != SN_OK)
        exit(1);
    (void)snprintf(p->dst, sizeof(p->dst), "%s/out", p->root);
}

__attribute__((unused)) static void place_fini(struct place *p)
{
    p->comm->ops->destroy(p->comm);
    (void)sn_dir_remove(p->root, &p->err);
}

__attribute__((unused)) static struct sn_export_options export_to(struct place *p)
{
    return (struct sn_export_options){.dst = p->dst,
                                      .memory = 1 << 20,
                                      .shard_bytes = INT64_C(5000000000),
                                      .dtype = SN_F32,
                                      .comm = p->comm};
}

/* Number of entries in a directory, less "." and "..": what a failure left behind. */
__attribute__((unused)) static int entries(const char *dir)
{
    char command[160], line[32] = "";
    (void)snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
    FILE *f = popen(command, "r");
    if (!f || !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        (void)pclose(f);
    return atoi(line);
}

/* Do both hold the same tensors, byte for byte? */
__attribute__((unused)) static bool same_tensors(const char *a, const char *b)
{
    struct sn_safetensors *x = NULL, *y = NULL;
    struct sn_err err = {0};
    bool same = sn_safetensors_open(&x, a, &err) == SN_OK &&
                sn_safetensors_open(&y, b, &err) == SN_OK &&
                sn_safetensors_count(x) == sn_safetensors_count(y);
    if (err.text[0])
        printf("# %s\n", err.text);
    for (int i = 0; same && i < sn_safetensors_count(x); i++) {
        const struct sn_st_tensor *t = sn_safetensors_get(x, i), *u = sn_safetensors_get(y, i);
        same = strcmp(t->name, u->name) == 0 && strcmp(t->dtype, u->dtype) == 0 &&
               t->rank == u->rank && memcmp(t->shape, u->shape, sizeof(t->shape)) == 0 &&
               sn_safetensors_same(t, u, &same, &err) == SN_OK && same;
        if (!same)
            printf("# %s and %s differ\n", t->name, u->name);
    }
    sn_safetensors_close(x);
    sn_safetensors_close(y);
    return same;
}

/* The weights of a parity fixture, and the model of its run file. */
__attribute__((unused)) static bool open_fixture(struct sn_source *s, struct sn_model_config *m,
                                                 const char *name, struct sn_err *err)
{
    char run[128], weights[128];
    struct sn_config c;
    (void)snprintf(run, sizeof(run), "tests/parity/fixtures/%s/run.yaml", name);
    (void)snprintf(weights, sizeof(weights), "tests/parity/fixtures/%s/model.safetensors", name);
    bool good = sn_config_load(&c, run, NULL, err) == SN_OK &&
                sn_source_open_safetensors(s, weights, &c.model, err) == SN_OK;
    if (!good)
        printf("# %s\n", err->text);
    *m = c.model;
    return good;
}

__attribute__((unused)) static enum sn_status export_fixture(struct place *p, const char *name,
                                                             const struct sn_export_options *o,
                                                             struct sn_convert_report *report)
{
    struct sn_source s = {0};
    struct sn_model_config m;
    if (!open_fixture(&s, &m, name, &p->err))
        return SN_EFAIL;
    (void)sn_dir_remove(p->dst, &p->err);
    enum sn_status st = sn_export_run(&s, &m, o, report, &p->err);
    if (st != SN_OK)
        printf("# %s\n", p->err.text);
    sn_source_close(&s);
    return st;
}

#endif
