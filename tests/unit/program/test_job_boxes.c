/*
 * test_job_boxes.c - over all ranks of every layout, each element of the state is owned once.
 */
#include "lib/base/mem.h"
#include "lib/program/boxes.h"
#include "lib/program/build.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

enum { RANKS_MAX = 64 };

/* The boxes of all ranks, with the jobs that they are of. */
struct world {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *jobs[RANKS_MAX];
    struct sn_job_box *boxes[RANKS_MAX];
    int n[RANKS_MAX], ranks;
    struct sn_err err;
};

/* Other parts for a job without ZeRO: as if its context axis cut inputs where tensor cuts outputs,
 * which no layout does. */
static enum sn_status cut_both(struct sn_job *j, struct sn_err *err)
{
    j->mesh.n_axes = 2;
    j->mesh.axis[1] = (struct sn_mesh_axis){.name = "y",
                                            .use = SN_MESH_INPUTS,
                                            .group = SN_GROUP_CONTEXT,
                                            .size = j->grid.size[SN_AXIS_CONTEXT],
                                            .stride = j->grid.stride[SN_AXIS_CONTEXT]};
    j->group_size[SN_GROUP_REPLICA] = j->group_size[SN_GROUP_EXPERT_DATA] = 1;
    j->group_index[SN_GROUP_REPLICA] = j->group_index[SN_GROUP_EXPERT_DATA] = 0;
    sn_free(j->shards);
    sn_free(j->shard_tensors);
    sn_free(j->buckets);
    sn_free(j->first_shard);
    sn_free(j->shard_of_bucket);
    sn_free(j->train.bufs);
    j->train.bufs = NULL;
    j->n_shards = j->n_buckets = j->train.n_bufs = j->train.cap_bufs = 0;
    SN_TRY(sn_shards_create(j, err));
    sn_state_buffers(j, &j->train);
    return SN_OK;
}

static bool world_init(struct world *w, const struct sn_config *c)
{
    *w = (struct world){.config = *c, .ranks = layout_ranks(c)};
    bool good = sn_model_create(&w->model, &w->config.model, &w->config.train, &w->err) == SN_OK;
    for (int r = 0; good && r < w->ranks; r++) {
        struct sn_job_env env = {.config = &w->config, .model = w->model, .threads = 1, .rank = r};
        good = sn_job_create_shards(&w->jobs[r], &env, &w->err) == SN_OK &&
               sn_job_boxes(&w->boxes[r], &w->n[r], w->jobs[r], &w->err) == SN_OK;
    }
    if (!good)
        tap_ok(false, "boxes are listed: %s", w->err.text);
    return good;
}

static void world_fini(struct world *w)
{
    for (int r = 0; r < w->ranks; r++) {
        sn_free(w->boxes[r]);
        sn_job_destroy(w->jobs[r]);
    }
    sn_model_destroy(w->model);
}

static int64_t size_of(const struct sn_job_box *b)
{
    return b->n_rows * b->n_cols;
}

/* --- each element once ------------------------------------------------------------------------ */

/* Where the values of (kind, param, tensor) begin in an array of all logical tensors. */
static int64_t first_of(const struct world *w, const struct sn_job_box *b)
{
    int64_t at = 0, all = 0;
    for (int i = 0; i < w->model->n_params; i++) {
        const struct sn_param *p = &w->model->params[i];
        for (int k = 0; k < p->n_tensors; k++) {
            if (i == b->param && k == b->tensor)
                at = all;
            all += p->tensor[k].rows * p->cols;
        }
    }
    return at + b->kind * all;
}

static bool is_inside(const struct world *w, const struct sn_job_box *b)
{
    const struct sn_param *p = &w->model->params[b->param];
    return b->n_rows > 0 && b->n_cols > 0 && b->row >= 0 && b->col >= 0 &&
           b->row + b->n_rows <= p->tensor[b->tensor].rows && b->col + b->n_cols <= p->cols;
}

/* Count the elements of a box that was claimed so often before; false beyond the tensor. */
static bool claim(const struct world *w, const struct sn_job_box *b, unsigned char *claims)
{
    int64_t first = first_of(w, b), cols = w->model->params[b->param].cols;
    if (!is_inside(w, b))
        return false;
    for (int64_t r = 0; r < b->n_rows; r++)
        for (int64_t c = 0; c < b->n_cols; c++)
            claims[first + (b->row + r) * cols + b->col + c]++;
    return true;
}

/* One count an element; moments that a frozen parameter does not have are taken. Caller frees. */
static unsigned char *claims_create(const struct world *w)
{
    unsigned char *claims =
        sn_alloc((size_t)(sn_state_plain(&w->config) * sn_model_param_count(w->model)));
    for (int i = 0; i < w->model->n_params; i++) {
        const struct sn_param *p = &w->model->params[i];
        for (int k = SN_STATE_MOMENT; k < sn_state_plain(&w->config) && !sn_param_trains(p); k++) {
            struct sn_job_box whole = {.kind = (enum sn_state_kind)k, .param = i};
            memset(claims + first_of(w, &whole), 1, (size_t)(p->rows * p->cols));
        }
    }
    return claims;
}

static bool each_is_owned_once(const struct world *w)
{
    int64_t all = sn_model_param_count(w->model);
    unsigned char *claims = claims_create(w);
    bool good = true;
    for (int r = 0; r < w->ranks; r++)
        for (int i = 0; i < w->n[r]; i++)
            if (w->boxes[r][i].owned)
                good = claim(w, &w->boxes[r][i], claims) && good;
    for (int64_t e = 0; e < sn_state_plain(&w->config) * all; e++)
        good = good && claims[e] == 1;
    sn_free(claims);
    return good;
}

/* Of the parts of a rank, padding left out; all kinds. */
static int64_t kept_by(const struct sn_job *j)
{
    int64_t n = 0;
    for (int i = 0; i < j->n_shards; i++) {
        const struct sn_shard *p = &j->shards[i];
        for (int k = 0; k < p->n_tensors; k++)
            n += (j->buckets[p->bucket].trains ? sn_state_plain(j->config) : 1) * p->tensor[k].n *
                 p->tensor[k].n_cols;
    }
    return n;
}

enum { UNIT = 2 }; /* bytes of the smallest type */

/* Where an element's value lies in a buffer of its bucket; bytes: how many it has. Those of codes are its
 * block's, if it is the first of one. */
static int64_t place_of(const struct sn_job *j, int buf, int64_t element, int64_t *bytes)
{
    const struct sn_bucket *b = &j->buckets[j->train.bufs[buf].bucket];
    int64_t unit = b->is_coded && buf == b->weight ? SN_CODEC_BLOCK : 1;
    *bytes = element % unit == 0 ? sn_bucket_bytes(j, b, buf, unit) : 0;
    return *bytes ? sn_bucket_bytes(j, b, buf, element) : 0;
}

/* A rank's boxes are apart, as elements of tensors and in memory; without ZeRO they are all that
 * its parts hold. (With it, that all ranks together own everything says so.) */
static bool each_is_held_once(const struct world *w, int r)
{
    const struct sn_job *j = w->jobs[r];
    unsigned char *claims = claims_create(w);
    unsigned char *memory = sn_alloc((size_t)j->arena_bytes[SN_ARENA_STATE]);
    int64_t held = 0;
    bool good = true;
    for (int i = 0; i < w->n[r]; i++) {
        const struct sn_job_box *b = &w->boxes[r][i];
        const struct sn_buffer *buf = &j->train.bufs[b->buf];
        int64_t end = b->at + (b->n_rows - 1) * b->ld + b->n_cols;
        const struct sn_bucket *bucket = &j->buckets[buf->bucket];
        good = good && b->at >= 0 && end <= sn_bucket_elements(j, bucket, b->buf) &&
               b->n_cols <= b->ld && claim(w, b, claims);
        for (int64_t e = 0; good && e < size_of(b); e++) {
            int64_t at = b->at + e / b->n_cols * b->ld + e % b->n_cols;
            int64_t bytes, from = buf->offset + place_of(j, b->buf, at, &bytes);
            for (int64_t u = 0; u < bytes; u += UNIT)
                good = memory[(from + u) / UNIT]++ == 0 && good;
        }
        held += size_of(b);
    }
    int64_t all = sn_state_plain(&w->config) * sn_model_param_count(w->model);
    for (int64_t e = 0; e < all; e++)
        good = good && claims[e] <= 1;
    sn_free(claims);
    sn_free(memory);
    return good && (sn_updates_are_slices(j->held) ? held <= kept_by(j) : held == kept_by(j));
}

/* --- shares ----------------------------------------------------------------------------------- */

/* Has an image of what rank r owns the room that is planned? */
static bool has_room(const struct world *w, int r)
{
    struct sn_snapshot_shard_room room, used = {0};
    sn_job_snapshot_shard_room(w->jobs[r], &room);
    for (int i = 0; i < w->n[r]; i++)
        if (w->boxes[r][i].owned) {
            used.boxes++;
            used.floats += size_of(&w->boxes[r][i]);
        }
    return used.boxes <= room.boxes && used.floats <= room.floats &&
           sn_snapshot_shard_bytes(&used) <= sn_snapshot_shard_bytes(&room);
}

static int64_t owned_by(const struct world *w, int r, int64_t *pages)
{
    int64_t n = 0;
    *pages = 0;
    for (int i = 0; i < w->n[r]; i++)
        if (w->boxes[r][i].owned) {
            n += size_of(&w->boxes[r][i]);
            *pages += (size_of(&w->boxes[r][i]) * 4 + 4095) / 4096 * 4096;
        }
    return n;
}

/* What the shares of replicas may differ by: two rows or two small tensors of each kind; under ZeRO
 * what of the slices is padding. */
static int64_t bound_of(const struct sn_job *j)
{
    int64_t widest = SN_BOX_UNCUT, padding = 0;
    for (int i = 0; i < j->n_buckets; i++)
        padding += j->buckets[i].n;
    for (int i = 0; i < j->n_shards; i++) {
        const struct sn_shard *p = &j->shards[i];
        widest = p->cols > widest ? p->cols : widest;
        for (int k = 0; k < p->n_tensors; k++)
            padding -= p->tensor[k].n * p->tensor[k].n_cols;
    }
    return sn_state_plain(j->config) * (sn_updates_are_slices(j->held) ? padding : 2 * widest);
}

static bool shares_are_even(const struct world *w)
{
    bool good = true;
    for (int r = 0; r < w->ranks; r++) {
        const struct sn_job *j = w->jobs[r];
        int64_t pages, mine = owned_by(w, r, &pages);
        int other = sn_group_member(&j->grid, r, SN_GROUP_REPLICA, 0);
        int64_t first = owned_by(w, other, &(int64_t){0});
        int first_of_stage =
            sn_grid_coord(&j->grid, r, SN_AXIS_PIPELINE) * j->grid.stride[SN_AXIS_PIPELINE];
        int64_t off = mine > first ? mine - first : first - mine;
        int64_t snapshot = sn_job_snapshot_bytes(j);
        good = good && off <= bound_of(j) && pages <= snapshot && has_room(w, r) &&
               snapshot == sn_job_snapshot_bytes(w->jobs[first_of_stage]);
    }
    return good;
}

static void every_element_has_one_owner_in_the_whole_matrix(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    int more = 1, lines = 0, owned = 0, held = 0, even = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        struct world w;
        lines++;
        if (world_init(&w, &line.config)) {
            bool good = each_is_owned_once(&w);
            owned += good;
            for (int r = 0; r < w.ranks; r++)
                good = each_is_held_once(&w, r) && good;
            held += good;
            bool balanced = shares_are_even(&w);
            even += balanced;
            if (!good || !balanced)
                printf("# %s\n", line.name);
        }
        world_fini(&w);
    }
    tap_ok(f && more == 0 && owned == lines && lines > 100,
           "%d layouts: each element is owned by one rank %s", lines, err.text);
    tap_ok(held == lines, "what a rank holds is listed once, and lies where the box says");
    tap_ok(even == lines, "replicas own shares of a size, which a snapshot has room for");
    if (f)
        (void)fclose(f);
}

/* --- single layouts --------------------------------------------------------------------------- */

/* As sennit-train compiles it: the same boxes. */
static void no_programs_are_needed(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.data = 2, c.layout.tensor = 3, c.layout.pipeline = 2, c.layout.zero = 2;
    c.train.precision = SN_BF16;
    struct world w;
    bool good = world_init(&w, &c);
    for (int r = 0; good && r < w.ranks; r++) {
        struct sn_job_env env = {
            .config = &w.config, .model = w.model, .ops = sn_ops_cpu(), .threads = 1, .rank = r};
        struct sn_job *job = NULL;
        struct sn_job_box *boxes = NULL;
        int n = 0;
        good = sn_job_create(&job, &env, &w.err) == SN_OK &&
               sn_job_boxes(&boxes, &n, job, &w.err) == SN_OK && n == w.n[r] &&
               memcmp(boxes, w.boxes[r], (size_t)n * sizeof(*boxes)) == 0;
        for (int i = 0; good && i < n; i++) {
            const struct sn_buffer *a = &job->train.bufs[boxes[i].buf];
            const struct sn_buffer *b = &w.jobs[r]->train.bufs[boxes[i].buf];
            good = strcmp(a->name, b->name) == 0 && a->offset == b->offset;
        }
        sn_free(boxes);
        sn_job_destroy(job);
    }
    tap_ok(good, "a job without programs has the boxes of a whole one %s", w.err.text);
    world_fini(&w);
}

static void frozen_parameters_have_no_moments(void)
{
    struct sn_config c = layout_config(SN_GPT2);
    c.layout.data = 3;
    c.train.n_freeze = 1;
    (void)snprintf(c.train.freeze[0], sizeof(c.train.freeze[0]), "layers.1.ffn.*");
    struct world w;
    int64_t n[SN_NSTATE_KINDS] = {0}, frozen = 0, most = 0, least = INT64_MAX;
    if (world_init(&w, &c)) {
        for (int r = 0; r < w.ranks; r++) {
            int64_t mine = owned_by(&w, r, &(int64_t){0});
            most = mine > most ? mine : most;
            least = mine < least ? mine : least;
            for (int i = 0; i < w.n[r]; i++)
                n[w.boxes[r][i].kind] += w.boxes[r][i].owned ? size_of(&w.boxes[r][i]) : 0;
        }
        for (int i = 0; i < w.model->n_params; i++)
            if (!w.model->params[i].trainable)
                frozen += w.model->params[i].rows * w.model->params[i].cols;
        tap_ok(frozen > 0 && n[SN_STATE_MODEL] == sn_model_param_count(w.model) &&
                   n[SN_STATE_MOMENT] == n[SN_STATE_MODEL] - frozen &&
                   n[SN_STATE_MOMENT + 1] == n[SN_STATE_MOMENT],
               "frozen tensors are owned once, and have no moments");
        tap_ok(most - least <= bound_of(w.jobs[0]), "the shares are even all the same (%d of %d)",
               (int)(most - least), (int)most);
    }
    world_fini(&w);
}

/* Are parts cut in both directions there, and do all ranks have parts of the same shapes? */
static bool parts_are_blocks(const struct world *w)
{
    bool alike = true;
    int blocks = 0;
    for (int r = 0; r < w->ranks; r++)
        for (int i = 0; i < w->jobs[r]->n_shards; i++) {
            const struct sn_shard *p = &w->jobs[r]->shards[i], *q = &w->jobs[0]->shards[i];
            const struct sn_param *whole = &w->model->params[p->param];
            alike = alike && p->rows == q->rows && p->cols == q->cols && p->offset == q->offset;
            blocks += p->rows < whole->rows && p->cols < whole->cols;
        }
    return alike && blocks > 0;
}

static void rows_and_columns_are_cut_over_two_axes(void)
{
    static const enum sn_family families[] = {SN_GPT2, SN_LLAMA, SN_MIXTRAL};
    for (int f = 0; f < 3; f++) {
        struct sn_config c = layout_config(families[f]);
        c.layout.tensor = 2, c.layout.context = 3;
        if (families[f] == SN_MIXTRAL)
            c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
        struct world w;
        bool good = world_init(&w, &c);
        for (int r = 0; good && r < w.ranks; r++) {
            sn_free(w.boxes[r]);
            w.boxes[r] = NULL;
            good = cut_both(w.jobs[r], &w.err) == SN_OK &&
                   sn_job_boxes(&w.boxes[r], &w.n[r], w.jobs[r], &w.err) == SN_OK;
        }
        tap_ok(good && parts_are_blocks(&w), "family %d on 2 x 3 ranks: parts are blocks", f);
        tap_ok(good && each_is_owned_once(&w), "and each element is owned by one rank %s",
               w.err.text);
        world_fini(&w);
    }
}

/* A share is a run of tensors: as many pieces as there are tensors, and one more for each cut. */
static void shares_are_few_pieces_of_whole_rows(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.data = 4;
    struct world w;
    int whole = 0, pieces = 0, owned = 0, narrow = 0;
    if (world_init(&w, &c)) {
        for (int i = 0; i < w.model->n_params; i++)
            whole += w.model->params[i].n_tensors;
        for (int r = 0; r < w.ranks; r++)
            for (int i = 0; i < w.n[r]; i++) {
                const struct sn_job_box *b = &w.boxes[r][i];
                pieces += b->kind == SN_STATE_MODEL && b->owned;
                owned += b->owned;
                narrow += b->n_cols != w.model->params[b->param].cols;
            }
        tap_ok(owned > 3 * whole, "some tensors are cut");
        tap_ok(pieces <= whole + 3, "%d tensors are %d pieces for 4 writers", whole, pieces);
        tap_ok(narrow == 0, "pieces are whole rows");
    }
    world_fini(&w);
}

static void no_memory_is_a_sentence(void)
{
    struct sn_config c = layout_config(SN_LLAMA);
    c.layout.data = 2;
    struct world w;
    int calls = 0;
    bool good = world_init(&w, &c), done = false;
    struct sn_job_env env = {.config = &w.config, .model = w.model, .threads = 1, .rank = 1};
    for (; good && !done && calls < 1000; calls++) {
        struct sn_job *job = NULL;
        struct sn_job_box *boxes = NULL;
        int n;
        w.err = (struct sn_err){0};
        sn_mem_fail_at((uint64_t)calls + 1);
        enum sn_status st = sn_job_create_shards(&job, &env, &w.err);
        if (st == SN_OK)
            st = sn_job_boxes(&boxes, &n, job, &w.err);
        sn_mem_fail_at(0);
        good = st == SN_OK || (st == SN_ENOMEM && w.err.text[0]);
        done = st == SN_OK;
        sn_free(boxes);
        sn_job_destroy(job);
    }
    tap_ok(good && done && calls > 5, "each of %d allocations may fail", calls - 1);
    world_fini(&w);
}

int main(void)
{
    every_element_has_one_owner_in_the_whole_matrix();
    no_programs_are_needed();
    rows_and_columns_are_cut_over_two_axes();
    frozen_parameters_have_no_moments();
    shares_are_few_pieces_of_whole_rows();
    no_memory_is_a_sentence();
    return tap_done();
}
