#include "checkpoint/store/checkpoint.h"

#include "checkpoint/hf/hfnames.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "checkpoint/store/tokenizer_files.h"
#include "lib/base/mem.h"

#include <inttypes.h>

static enum sn_status reserve(void *self, int64_t bytes, struct sn_err *err)
{
    struct sn_store *store = self;
    char text[16];
    sn_arena_unmap(store->arena, store->arena_bytes);
    store->arena_bytes = (size_t)bytes;
    store->arena = sn_arena_map((size_t)bytes);
    if (!store->arena)
        return sn_fail(
            err, SN_ENOMEM,
            "checkpoint: no memory for the %s that this rank copies aside in a save; use "
            "more ranks, or leave checkpoint.async out",
            sn_str_bytes(text, bytes));
    return SN_OK;
}

static enum sn_status begin(void *self, const struct sn_state *s, enum sn_save_phase phase,
                            struct sn_err *err)
{
    return sn_phase_begin(self, s, phase, err);
}

static void copied(void *self)
{
    struct sn_store *store = self;
    sn_phase_wait_copied(&store->phase);
}

static enum sn_status finish(void *self, bool wait, bool *ended, struct sn_err *err)
{
    struct sn_store *store = self;
    return sn_phase_finish(&store->phase, wait, ended, err);
}

static void times(void *self, struct sn_save_times *out)
{
    const struct sn_store *store = self;
    *out = store->times;
}

static enum sn_status find(void *self, int64_t before, int64_t *step, struct sn_err *err)
{
    const struct sn_store *store = self;
    return sn_store_before(store->dir, before, step, err);
}

static enum sn_status pass_over(void *self, int64_t step, struct sn_err *err)
{
    struct sn_store *store = self;
    void *items = store->passed_over;
    bool grown = sn_grow(&items, store->n_passed_over, &store->room_passed_over, sizeof(step));
    store->passed_over = items;
    if (!grown)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to pass over step %" PRId64, store->dir,
                       step);
    store->passed_over[store->n_passed_over++] = step;
    return SN_OK;
}

static char *path(void *self, int64_t step)
{
    return sn_store_path(self, step, "");
}

static enum sn_status load(void *self, int64_t step, struct sn_state *s, struct sn_err *err)
{
    return sn_store_load(self, step, s, err);
}

static enum sn_status init(void *self, const struct sn_config *config, struct sn_state *s,
                           struct sn_err *err)
{
    (void)self;
    return config->train.continue_from[0] ? sn_store_load_from(config->train.continue_from, s, err)
                                          : sn_init_from(config, s, err);
}

static enum sn_status keep(void *self, const struct sn_tokenizer_id *t, struct sn_err *err)
{
    const struct sn_store *store = self;
    return sn_tokenizer_files_keep(t, store->dir, err);
}

static enum sn_status set_aside(void *self, struct sn_err *err)
{
    return sn_store_set_aside(self, err);
}

static enum sn_status create(struct sn_store **out, const char *dir,
                             const struct sn_checkpoint_options *o, struct sn_err *err)
{
    struct sn_store *store = sn_alloc(sizeof(*store));
    char *name = sn_strdup(dir);
    enum sn_status st =
        store && name ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to open it", dir);
    if (st == SN_OK)
        st = sn_phase_init(&store->phase, err);
    if (st != SN_OK) {
        sn_free(store);
        sn_free(name);
        return st;
    }
    store->dir = name;
    store->options = *o;
    *out = store;
    return SN_OK;
}

enum sn_status sn_checkpoint_open(struct sn_saver *out, const char *dir,
                                  const struct sn_checkpoint_options *o, struct sn_err *err)
{
    struct sn_store *store;
    if (o->keep < 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot keep %d checkpoints; 0 keeps all", dir, o->keep);
    SN_TRY(sn_dir_make(dir, err));
    SN_TRY(create(&store, dir, o, err));
    sn_h5_setup();
    *out = (struct sn_saver){.self = store,
                             .reserve = reserve,
                             .begin = begin,
                             .copied = copied,
                             .finish = finish,
                             .times = times,
                             .find = find,
                             .pass_over = pass_over,
                             .path = path,
                             .load = load,
                             .init = init,
                             .keep = keep,
                             .set_aside = set_aside};
    return SN_OK;
}

void sn_checkpoint_close(struct sn_saver *s)
{
    struct sn_store *store = s->self;
    struct sn_err ignored;
    bool ended;
    if (!store)
        return;
    (void)sn_phase_finish(&store->phase, true, &ended, &ignored); /* nobody is left to be told */
    sn_store_wait_sweep(store);
    sn_phase_fini(&store->phase);
    sn_arena_unmap(store->arena, store->arena_bytes);
    sn_free(store->passed_over);
    sn_free(store->dir);
    sn_free(store);
    *s = (struct sn_saver){0};
}

void sn_checkpoint_wait_swept(struct sn_saver *s)
{
    sn_store_wait_sweep(s->self);
}

void sn_checkpoint_die_at(struct sn_saver *s, enum sn_checkpoint_stage stage)
{
    struct sn_store *store = s->self;
    store->die_at = stage;
}
