/*
 * config_place.h - what the tests of the run file share: a scratch directory, and texts that must
 * be good.
 */
#ifndef CONFIG_PLACE_H
#define CONFIG_PLACE_H

#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "lib/config/files.h"
#include "tests/lib/tap.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL                                                                                      \
    "model: {family: llama, layers: 4, hidden: 256, heads: 4, ffn: 688, vocab: 256, seq: 128}\n"
#define TRAIN "train: {steps: 200, global_batch: 32}\n"

struct place {
    char share[SN_PATH_MAX]; /* the shipped templates */
    char dir[64];            /* a scratch directory */
};

static inline enum sn_status parse(const struct place *p, const char *text, struct sn_config *c,
                                   struct sn_err *err)
{
    *err = (struct sn_err){0};
    return sn_config_parse(c, text, strlen(text), "run.yaml", p->share, err);
}

/* The configuration of a text that must be good. */
static inline struct sn_config good(const struct place *p, const char *text)
{
    struct sn_config c = {0};
    struct sn_err err;
    if (parse(p, text, &c, &err) != SN_OK)
        tap_ok(false, "is good: %s", err.text);
    return c;
}

/* `fmt` holds %s for the scratch directory, up to three times. */
__attribute__((format(printf, 2, 0), unused)) static char *at_place(const struct place *p,
                                                                    const char *fmt)
{
    char *text = sn_format(fmt, p->dir, p->dir, p->dir);
    if (!text)
        abort();
    return text;
}

static inline void write_file(const struct place *p, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static inline struct place make_place(void)
{
    struct place p = {.dir = "/tmp/test_config.XXXXXX"};
    struct sn_err err = {0};
    if (!mkdtemp(p.dir) || sn_share_find(p.share, sizeof(p.share), &err) != SN_OK)
        abort();
    return p;
}

static inline void remove_place(const struct place *p)
{
    char path[512];
    DIR *d = opendir(p->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        (void)snprintf(path, sizeof(path), "%s/%s", p->dir, e->d_name);
        (void)unlink(path); /* "." and ".." refuse, which is right */
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(p->dir);
}

#endif
