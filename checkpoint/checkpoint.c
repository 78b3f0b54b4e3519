#include "checkpoint/checkpoint.h"

#include "checkpoint/files.h"
#include "checkpoint/hfnames.h"
#include "checkpoint/store.h"
#include "lib/base/mem.h"

static enum sn_status save(void *self, const struct sn_state *s, enum sn_save_phase phase,
                           struct sn_err *err)
{
    return sn_store_save(self, s, phase, err);
}

static enum sn_status find(void *self, int64_t *step, struct sn_err *err)
{
    const struct sn_store *store = self;
    return sn_store_newest(step, store->dir, err);
}

static enum sn_status load(void *self, int64_t step, struct sn_state *s, struct sn_err *err)
{
    return sn_store_load(self, step, s, err);
}

static enum sn_status init(void *self, const char *path, const struct sn_model_config *config,
                           struct sn_state *s, struct sn_err *err)
{
    (void)self;
    return sn_init_from(path, config, s, err);
}

static enum sn_status set_aside(void *self, struct sn_err *err)
{
    return sn_store_set_aside(self, err);
}

enum sn_status sn_checkpoint_open(struct sn_saver *out, const char *dir, int keep,
                                  struct sn_err *err)
{
    if (keep < 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot keep %d checkpoints; 0 keeps all", dir, keep);
    SN_TRY(sn_dir_make(dir, err));
    struct sn_store *store = sn_alloc(sizeof(*store));
    char *name = sn_strdup(dir);
    if (!store || !name) {
        sn_free(store);
        sn_free(name);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    }
    sn_h5_setup();
    *store = (struct sn_store){.dir = name, .keep = keep};
    *out = (struct sn_saver){store, save, find, load, init, set_aside};
    return SN_OK;
}

void sn_checkpoint_close(struct sn_saver *s)
{
    struct sn_store *store = s->self;
    if (!store)
        return;
    sn_free(store->dir);
    sn_free(store);
    *s = (struct sn_saver){0};
}

void sn_checkpoint_die_at(struct sn_saver *s, enum sn_checkpoint_stage stage)
{
    struct sn_store *store = s->self;
    store->die_at = stage;
}
