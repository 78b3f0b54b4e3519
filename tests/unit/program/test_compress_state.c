/*
 * test_compress_state.c - what layout.compress adds to the state goes into a checkpoint and out of
 * it in another layout: every rank of the new one holds the sum of the holders that are folded into
 * it, and weights that ranks compute with are those that were saved.
 */
#include "checkpoint/convert/convert.h"
#include "checkpoint/store/source.h"
#include "lib/base/rng.h"
#include "lib/program/boxes.h"
#include "lib/snapshot/shard.h"
#include "lib/state/weights.h"
#include "tests/lib/checkpoint_test.h"
#include "tests/lib/layout_test.h"

enum { RANKS_MAX = 16 };

/* All ranks of a layout, with memory for their state. */
struct world {
    struct sn_config config;
    struct sn_model *model;
    int ranks;
    struct sn_job *job[RANKS_MAX];
    struct sn_exec *exec[RANKS_MAX];
    struct sn_state state[RANKS_MAX];
    char text[32];
    struct sn_err err;
};

struct layout {
    const char *name;
    int data, tensor, pipeline, zero, kv_heads, expert;
    enum sn_family family;
    enum sn_dtype dtype;
    bool tied, feedback, coded;
};

static const struct layout layouts[] = {
    {"data 4", 4, 1, 1, 0, 4, 1, SN_LLAMA, SN_F32, true, true, true},
    {"data 2", 2, 1, 1, 1, 4, 1, SN_LLAMA, SN_F32, true, true, true},
    {"data 2, bf16, no feedback", 2, 1, 1, 2, 4, 1, SN_LLAMA, SN_BF16, true, false, true},
    {"data 2, tensor 4, copies of heads", 2, 4, 1, 1, 2, 1, SN_LLAMA, SN_F32, true, true, true},
    {"data 3, pipeline 2, zero 2, bf16", 3, 1, 2, 2, 4, 1, SN_LLAMA, SN_BF16, true, true, true},
    {"data 2, zero 3", 2, 2, 1, 3, 4, 1, SN_LLAMA, SN_BF16, true, true, true},
    {"no compression", 3, 1, 1, 1, 4, 1, SN_LLAMA, SN_F32, true, false, false},
    {"experts: data 4, expert 2", 4, 1, 1, 1, 4, 2, SN_MIXTRAL, SN_F32, false, true, true},
    {"experts: data 2, tensor 2", 2, 2, 1, 2, 4, 1, SN_MIXTRAL, SN_BF16, false, true, true},
};
enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static struct sn_config config_of(const struct layout *l)
{
    struct sn_config c = layout_config(l->family);
    struct sn_coding *z = c.layout.compress.coding;
    c.layout.data = l->data, c.layout.tensor = l->tensor, c.layout.pipeline = l->pipeline;
    c.layout.zero = l->zero, c.layout.expert = l->expert;
    c.layout.sequence_parallel = l->tensor > 1;
    c.model.kv_heads = l->kv_heads;
    c.model.tied_embeddings = l->tied;
    c.train.precision = l->dtype;
    z[SN_CODED_DATA] = (struct sn_coding){
        .on = l->feedback, .feedback = l->feedback, .codec = {SN_CODEC_INT4, 0, 0, 0, 0}};
    z[SN_CODED_ZERO] = (struct sn_coding){.on = l->coded, .codec = {SN_CODEC_INT8, 0, 0, 0, 0}};
    return c;
}

static bool add_rank(struct world *w, int r)
{
    struct sn_job_env env = {
        .config = &w->config, .model = w->model, .ops = sn_ops_cpu(), .threads = 1, .rank = r};
    if (sn_job_create(&w->job[r], &env, &w->err) != SN_OK ||
        sn_exec_create(&w->exec[r], w->job[r], NULL, &w->err) != SN_OK ||
        sn_state_create(&w->state[r], w->exec[r], w->job[r], &w->err) != SN_OK)
        return false;
    struct sn_state *s = &w->state[r];
    s->model_text = w->text;
    s->layout_text = "";
    s->rank = r;
    s->ranks = w->ranks;
    s->tag = 11;
    return true;
}

static bool world_init(struct world *w, const struct layout *l)
{
    *w = (struct world){.config = config_of(l)};
    w->ranks = layout_ranks(&w->config);
    (void)snprintf(w->text, sizeof(w->text), "model:\n  family: %d\n", (int)l->family);
    bool good = sn_model_create(&w->model, &w->config.model, &w->config.train, &w->err) == SN_OK;
    for (int r = 0; good && r < w->ranks; r++)
        good = add_rank(w, r);
    if (!good)
        tap_ok(false, "%s is compiled: %s", l->name, w->err.text);
    return good;
}

static void world_fini(struct world *w)
{
    for (int r = 0; r < w->ranks; r++) {
        sn_state_fini(&w->state[r]);
        sn_exec_destroy(w->exec[r]);
        sn_job_destroy(w->job[r]);
    }
    sn_model_destroy(w->model);
}

/* --- values: small whole numbers, of which every sum is exact, also in bf16 ------------------ */

static uint64_t key_of(const char *group, const char *name)
{
    return sn_rng_key(sn_rng_key(3, group), name);
}

static float value_of(uint64_t key, int64_t element)
{
    return (float)(sn_rng_bits(key, (uint64_t)element) % 15) - 7;
}

static void set_values(struct world *w)
{
    for (int r = 0; r < w->ranks; r++)
        for (int i = 0; i < w->state[r].n_tensors; i++) {
            struct sn_state_tensor t = w->state[r].tensors[i];
            uint64_t key = key_of(t.group, t.name);
            t.folds = 0; /* set, not added */
            for (int64_t y = 0; y < t.n_rows; y++)
                for (int64_t x = 0; x < t.n_cols; x++) {
                    float v = value_of(key, (t.row + y) * t.cols + t.col + x);
                    sn_state_put(&t, y, x, 1, &v);
                }
        }
}

static bool has(const struct world *w, const char *group, const char *name)
{
    const struct sn_state *s = &w->state[0];
    for (int i = 0; i < s->n_all; i++)
        if (strcmp(s->all[i].group, group) == 0 && strcmp(s->all[i].name, name) == 0)
            return true;
    return false;
}

/* What the elements of a box must be after a load of what `from` had:
 * sums of the values of these. */
struct sum {
    uint64_t key[RANKS_MAX];
    int n;
};

static struct sum sum_of(const struct world *from, const struct sn_state_tensor *t)
{
    char group[32];
    struct sum s = {.n = 0};
    if (t->folds == 0) {
        s.key[s.n++] = key_of(has(from, t->group, t->name) ? t->group : "model", t->name);
        return s;
    }
    for (int h = sn_state_holder(t->group); s.n < RANKS_MAX; h += t->folds) {
        (void)snprintf(group, sizeof(group), "feedback.%d", h);
        if (!has(from, group, t->name))
            break;
        s.key[s.n++] = key_of(group, t->name);
    }
    return s;
}

static float expected(const struct sum *s, int64_t element)
{
    float sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += value_of(s->key[i], element);
    return sum;
}

static bool is_expected(const struct world *from, const struct sn_state_tensor *t)
{
    struct sum sum = sum_of(from, t);
    for (int64_t y = 0; y < t->n_rows; y++)
        for (int64_t x = 0; x < t->n_cols; x++) {
            float v;
            sn_state_get(t, y, x, 1, &v);
            if (v != expected(&sum, (t->row + y) * t->cols + t->col + x))
                return false;
        }
    return true;
}

/* --- sums over all holders ------------------------------------------------------------------- */

/* Of every element times a number of its own, so that no two can be mistaken. */
static double sum_of_feedback(const struct world *w, bool *some)
{
    double sum = 0;
    for (int r = 0; r < w->ranks; r++)
        for (int i = 0; i < w->state[r].n_tensors; i++) {
            const struct sn_state_tensor *t = &w->state[r].tensors[i];
            uint64_t key = key_of("weight of", t->name);
            for (int64_t y = 0; t->folds > 0 && t->owned && y < t->n_rows; y++)
                for (int64_t x = 0; x < t->n_cols; x++) {
                    float v;
                    sn_state_get(t, y, x, 1, &v);
                    sum += (double)v * (double)value_of(key, (t->row + y) * t->cols + t->col + x);
                    *some = true;
                }
        }
    return sum;
}

/* --- one layout to another ------------------------------------------------------------------- */

static bool load_all(struct world *to, const struct world *from, struct bench *b)
{
    for (int r = 0; r < to->ranks; r++) {
        if (b->saver.load(b->saver.self, 5, &to->state[r], &b->err) != SN_OK)
            return false;
        for (int i = 0; i < to->state[r].n_tensors; i++)
            if (!is_expected(from, &to->state[r].tensors[i])) {
                (void)sn_fail(&b->err, SN_EFAIL, "rank %d: %s %s", r, to->state[r].tensors[i].group,
                              to->state[r].tensors[i].name);
                return false;
            }
    }
    return to->state[0].scalars.codec_level[SN_CODED_ZERO] == 1;
}

/* What the converter would write for the layout. */
static bool convert_all(const struct world *to, const struct world *from, struct bench *b)
{
    struct sn_source s, folded = {0};
    struct sn_manifest plan;
    int dropped;
    if (sn_source_open_checkpoint(&s, b->dir, &b->err) != SN_OK)
        return false;
    bool good = sn_source_fold(&folded, &s, &to->config, &dropped, &b->err) == SN_OK &&
                sn_convert_plan(&plan, &folded, &to->config, &b->err) == SN_OK;
    if (good)
        sn_manifest_fini(&plan);
    for (int i = 0; good && i < folded.n_tensors; i++) {
        const struct sn_source_tensor *t = &folded.tensors[i];
        struct sn_state_tensor box = {.group = t->group, .name = t->name};
        int holder = sn_state_holder(t->group);
        for (int k = 0; holder >= 0 && k < to->state[0].n_all; k++)
            box.folds += sn_state_holder(to->state[0].all[k].group) >= 0 &&
                         strcmp(to->state[0].all[k].name, t->name) == 0;
        struct sn_source_want want[2] = {{i, {0, 0, t->rows, t->cols}}, {i, {0, 0, 1, 1}}};
        float *p = sn_alloc_n((size_t)(t->rows * t->cols), sizeof(*p)), one;
        good = folded.begin(folded.self, want, 2, 1 << 20, &b->err) == SN_OK &&
               folded.next(folded.self, p, t->cols, &b->err) == SN_OK &&
               folded.next(folded.self, &one, 1, &b->err) == SN_OK && one == p[0];
        struct sum sum = sum_of(from, &box);
        for (int64_t e = 0; good && e < t->rows * t->cols; e++)
            good = p[e] == expected(&sum, e);
        sn_free(p);
    }
    sn_source_close(folded.self ? &folded : &s);
    return good;
}

static void moves(const struct layout *a, const struct layout *b)
{
    struct world from, to;
    struct bench bench;
    setup(&bench, 0);
    if (world_init(&from, a) && world_init(&to, b)) {
        bool some = false, any = false;
        set_values(&from);
        for (int r = 0; r < from.ranks; r++) {
            from.state[r].scalars = (struct sn_state_scalars){.step = 5, .loss_scale = 1};
            from.state[r].scalars.codec_level[SN_CODED_ZERO] = 1;
        }
        bool saved = save_ranks(&bench.saver, from.state, from.ranks, &bench.err) == SN_OK;
        tap_ok(saved, "%s: each element is written by one rank %s", a->name,
               saved ? "" : bench.err.text);
        bool loaded = saved && load_all(&to, &from, &bench);
        tap_ok(loaded, "%s: what ranks hold is what %s had %s", b->name, a->name,
               loaded ? "" : bench.err.text);
        bool converted = loaded && convert_all(&to, &from, &bench);
        tap_ok(converted, "%s: so is what the converter reads %s", b->name,
               converted ? "" : bench.err.text);
        double was = sum_of_feedback(&from, &some), is = sum_of_feedback(&to, &any);
        if (some && any)
            tap_ok(was == is && was != 0, "the sum over holders stays (%g, %g)", was, is);
        world_fini(&to);
    }
    world_fini(&from);
    teardown(&bench);
}

static void state_goes_to_other_layouts(void)
{
    for (int a = 0; a < LAYOUTS; a++)
        for (int b = 0; b < LAYOUTS; b++)
            if (layouts[a].family == layouts[b].family &&
                layouts[a].kv_heads == layouts[b].kv_heads)
                moves(&layouts[a], &layouts[b]);
}

/* --- room ------------------------------------------------------------------------------------ */

static void there_is_room_for_what_is_owned(void)
{
    for (int k = 0; k < LAYOUTS; k++) {
        struct world w;
        bool good = world_init(&w, &layouts[k]), tight = true;
        for (int r = 0; good && r < w.ranks; r++) {
            struct sn_snapshot_shard_room room;
            int64_t boxes = 0, floats = 0, pages = 0;
            sn_job_snapshot_shard_room(w.job[r], &room);
            for (int i = 0; i < w.state[r].n_tensors; i++) {
                const struct sn_state_tensor *t = &w.state[r].tensors[i];
                boxes += t->owned;
                floats += t->owned ? t->n_rows * t->n_cols : 0;
                pages += t->owned ? (t->n_rows * t->n_cols * 4 + 4095) / 4096 * 4096 : 0;
            }
            good = boxes <= room.boxes && floats <= room.floats &&
                   pages <= sn_job_snapshot_bytes(w.job[r]);
            tight = tight && floats * 3 > room.floats;
        }
        tap_ok(good && tight, "%s: images and saves have room for all, and not for thrice as much",
               layouts[k].name);
        world_fini(&w);
    }
}

/* --- memory that is not there ---------------------------------------------------------------- */

/* Read the first value of each tensor, as the layout has them. */
static enum sn_status read_folded(const struct world *to, const char *dir, struct sn_err *err)
{
    struct sn_source s, folded = {0};
    struct sn_source_want want[2];
    float value;
    int dropped;
    SN_TRY(sn_source_open_checkpoint(&s, dir, err));
    enum sn_status st = sn_source_fold(&folded, &s, &to->config, &dropped, err);
    for (int i = 0; st == SN_OK && i + 1 < folded.n_tensors; i += 2) {
        want[0] = (struct sn_source_want){i, {0, 0, 1, 1}};
        want[1] = (struct sn_source_want){i + 1, {0, 0, 1, 1}};
        st = folded.begin(folded.self, want, 2, 1 << 20, err);
        for (int k = 0; st == SN_OK && k < 2; k++)
            st = folded.next(folded.self, &value, 1, err);
    }
    sn_source_close(folded.self ? &folded : &s);
    return st;
}

static void every_allocation_may_fail(void)
{
    struct world from, to;
    struct bench b;
    int failed = 0;
    bool good = true, done = false;
    setup(&b, 0);
    if (world_init(&from, &layouts[0]) && world_init(&to, &layouts[1])) {
        set_values(&from);
        for (int r = 0; r < from.ranks; r++)
            from.state[r].scalars = (struct sn_state_scalars){.step = 5, .loss_scale = 1};
        good = save_ranks(&b.saver, from.state, from.ranks, &b.err) == SN_OK;
        for (uint64_t n = 1; good && !done; n += 1 + n / 50) {
            sn_mem_fail_at(n);
            enum sn_status st = read_folded(&to, b.dir, &b.err);
            sn_mem_fail_at(0);
            done = st == SN_OK;
            failed += !done;
            good = done || st == SN_ENOMEM;
        }
        tap_ok(good && failed > 50, "%d allocations fail in turn, each with a sentence %s", failed,
               good ? "" : b.err.text);
        world_fini(&to);
    }
    world_fini(&from);
    teardown(&b);
}

int main(void)
{
    there_is_room_for_what_is_owned();
    state_goes_to_other_layouts();
    every_allocation_may_fail();
    return tap_done();
}
