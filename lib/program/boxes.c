/*
 * boxes.c - a rank's flat arrays as rectangles of logical tensors.
 *
 * A bucket is one array of n elements, of which this rank keeps all or its ZeRO slice. A slice may
 * begin and end anywhere, so what it holds of a tensor is part of a row, whole rows, part of a row.
 */
#include "lib/program/boxes.h"

#include "lib/base/mem.h"

enum { PAGE = 4096 };

const char *sn_state_kind_name(const struct sn_config *c, enum sn_state_kind k)
{
    static const char *const name[] = {[SN_STATE_MODEL] = "model",
                                       [SN_STATE_REPLICA] = "replica",
                                       [SN_STATE_FEEDBACK] = "feedback"};
    const struct sn_optimizer_row *o = sn_optimizer_row(c->train.optimizer.kind);
    if (k <= SN_STATE_MODEL || k >= SN_NSTATE_PLAIN)
        return name[k];
    if ((int)k < sn_state_average(c))
        return o->moment[k - SN_STATE_MOMENT].name;
    return (int)k < sn_state_plain(c) ? SN_STATE_EMA : NULL;
}

int sn_state_average(const struct sn_config *c)
{
    return SN_STATE_MOMENT + sn_optimizer_row(c->train.optimizer.kind)->n_moments;
}

int sn_state_plain(const struct sn_config *c)
{
    return sn_state_average(c) + (c->train.ema.decay > 0);
}

int sn_state_buffer(const struct sn_job *j, const struct sn_bucket *b, enum sn_state_kind k)
{
    if (k == SN_STATE_MODEL)
        return b->master;
    if (k < SN_NSTATE_PLAIN)
        return b->moment[k - SN_STATE_MOMENT];
    if (k == SN_STATE_REPLICA)
        return sn_bucket_coding(j, b) ? b->weight : -1;
    return b->feedback;
}

bool sn_job_has_state(const struct sn_job *j, enum sn_state_kind k)
{
    for (int i = 0; i < j->n_buckets; i++)
        if (sn_state_buffer(j, &j->buckets[i], k) >= 0)
            return true;
    return false;
}

unsigned sn_state_copies(const struct sn_bucket *b, enum sn_state_kind k)
{
    return k == SN_STATE_FEEDBACK ? b->copies & ~b->sums : b->copies;
}

int sn_feedback_holder(const struct sn_job *j, const struct sn_bucket *b, int *of)
{
    int index = j->group_index[b->replicas];
    *of = j->group_size[b->replicas];
    for (int q = 0; q < SN_NGROUPS; q++)
        if (b->sums >> q & 1u) {
            index += *of * j->group_index[q];
            *of *= j->group_size[q];
        }
    return index;
}

struct list {
    const struct sn_job *job;
    struct sn_job_box *box; /* NULL: only count */
    int n;
};

/* What a shard holds of a logical tensor, and what is the same for all of its boxes. */
struct place {
    const struct sn_shard *shard;
    const struct sn_shard_tensor *q;
    struct sn_job_box box; /* kind, param, tensor, buf, owned; `at` of the shard's first element */
};

/* --- rectangles ------------------------------------------------------------------------------- */

/* Rows r .. end_r - 1, columns c .. end_c - 1 of the shard, as far as they are the tensor's. */
static void add_box(struct list *l, const struct place *p, const int64_t rows[2],
                    const int64_t cols[2])
{
    const struct sn_shard_tensor *q = p->q;
    int64_t r = rows[0] > q->at ? rows[0] : q->at;
    int64_t end_r = rows[1] < q->at + q->n ? rows[1] : q->at + q->n;
    int64_t c = cols[0], end_c = cols[1] < q->n_cols ? cols[1] : q->n_cols;
    if (r >= end_r || c >= end_c)
        return;
    struct sn_job_box b = p->box;
    b.row = q->from + r - q->at;
    b.col = q->col + c;
    b.n_rows = end_r - r;
    b.n_cols = end_c - c;
    b.ld = p->shard->cols;
    b.at += r * p->shard->cols + c;
    if (l->box)
        l->box[l->n] = b;
    l->n++;
}

/* Elements [lo, hi) of the bucket, as far as they are the tensor's. */
static void add_range(struct list *l, const struct place *p, int64_t lo, int64_t hi)
{
    int64_t cols = p->shard->cols, size = p->shard->rows * cols;
    lo = lo > p->shard->offset ? lo - p->shard->offset : 0;
    hi = hi - p->shard->offset < size ? hi - p->shard->offset : size;
    if (lo >= hi)
        return;
    int64_t first = lo / cols, last = hi / cols; /* rows; `last` is cut, or behind the end */
    if (first == last) {
        add_box(l, p, (int64_t[]){first, first + 1}, (int64_t[]){lo % cols, hi % cols});
        return;
    }
    if (lo % cols) {
        add_box(l, p, (int64_t[]){first, first + 1}, (int64_t[]){lo % cols, cols});
        first++;
    }
    add_box(l, p, (int64_t[]){first, last}, (int64_t[]){0, cols});
    add_box(l, p, (int64_t[]){last, last + 1}, (int64_t[]){0, hi % cols});
}

/* --- who owns what ---------------------------------------------------------------------------- */

/* Of one kind: the elements that replicas hold whole, and own together, in the order of shards,
 * padding left out, and this rank's share of them. */
struct share {
    int64_t lo, hi;
    int64_t passed; /* in the tensors so far */
};

static bool is_first(const struct sn_job *j, unsigned groups)
{
    for (int g = 0; g < SN_NGROUPS; g++)
        if (groups >> g & 1u && j->group_index[g] != 0)
            return false;
    return true;
}

static bool owns_copy(const struct sn_job *j, const struct sn_bucket *b, enum sn_state_kind k)
{
    return is_first(j, sn_state_copies(b, k));
}

static struct share share_of(const struct sn_job *j, enum sn_state_kind k, enum sn_group replicas)
{
    int64_t n = 0, members = j->group_size[replicas], index = j->group_index[replicas];
    for (int i = 0; i < j->n_shards; i++) {
        const struct sn_shard *shard = &j->shards[i];
        const struct sn_bucket *b = &j->buckets[shard->bucket];
        if (sn_state_buffer(j, b, k) < 0 || !owns_copy(j, b, k) || b->replicas != replicas ||
            sn_updates_are_slices(&b->held))
            continue;
        for (int q = 0; q < shard->n_tensors; q++)
            n += shard->tensor[q].n * shard->tensor[q].n_cols;
    }
    return (struct share){.lo = n * index / members, .hi = n * (index + 1) / members};
}

/* The row of the tensor at which a cut behind `element` of its elements is made: the nearest; of a
 * small tensor only its ends. Monotonic, so the shares of neighbours meet. */
static int64_t cut_at(const struct sn_shard_tensor *q, int64_t element)
{
    int64_t size = q->n * q->n_cols;
    if (element <= 0 || element >= size)
        return element <= 0 ? 0 : q->n;
    if (size <= SN_BOX_UNCUT)
        return 2 * element < size ? 0 : q->n;
    return (element + q->n_cols / 2) / q->n_cols;
}

/* A tensor that is whole on all replicas: rows before the share, the share, rows behind it. */
static void add_shared(struct list *l, struct place *p, struct share *s)
{
    const struct sn_shard_tensor *q = p->q;
    bool own = owns_copy(l->job, &l->job->buckets[p->shard->bucket], p->box.kind);
    int64_t from = own ? q->at + cut_at(q, s->lo - s->passed) : q->at;
    int64_t to = own ? q->at + cut_at(q, s->hi - s->passed) : q->at;
    const int64_t cols[] = {0, q->n_cols};
    add_box(l, p, (int64_t[]){q->at, from}, cols);
    p->box.owned = true;
    add_box(l, p, (int64_t[]){from, to}, cols);
    p->box.owned = false;
    add_box(l, p, (int64_t[]){to, q->at + q->n}, cols);
    s->passed += own ? q->n * q->n_cols : 0;
}

/* All of the tensor, which no replica has a share in. */
static void add_own(struct list *l, struct place *p)
{
    const struct sn_shard_tensor *q = p->q;
    const struct sn_bucket *b = &l->job->buckets[p->shard->bucket];
    p->box.holder = sn_feedback_holder(l->job, b, &p->box.holders);
    p->box.owned = owns_copy(l->job, b, SN_STATE_FEEDBACK);
    add_box(l, p, (int64_t[]){q->at, q->at + q->n}, (int64_t[]){0, q->n_cols});
}

/* A slice, of which as many ranks as hold it each own a part. */
static void add_slice(struct list *l, struct place *p, int64_t slice)
{
    const struct sn_job *j = l->job;
    const struct sn_bucket *b = &j->buckets[p->shard->bucket];
    int parts = sn_slices_are_copied(b) ? j->group_size[SN_GROUP_REPLICA_RAIL] : 1;
    int64_t unit = b->is_coded ? SN_CODEC_BLOCK : 1, units = b->slice / unit;
    for (int i = 0; i < parts; i++) {
        p->box.owned =
            is_first(j, b->copies) && (parts == 1 || i == j->group_index[SN_GROUP_REPLICA_RAIL]);
        add_range(l, p, slice + units * i / parts * unit, slice + units * (i + 1) / parts * unit);
    }
}

static void add_shard(struct list *l, enum sn_state_kind k, const struct sn_shard *shard,
                      struct share *s)
{
    const struct sn_job *j = l->job;
    const struct sn_bucket *b = &j->buckets[shard->bucket];
    int64_t slice = sn_bucket_slice_at(j, b);
    int buf = sn_state_buffer(j, b, k);
    if (buf < 0)
        return;
    bool has_slice = sn_bucket_elements(j, b, buf) < b->n; /* and nothing else */
    for (int i = 0; i < shard->n_tensors; i++) {
        struct place p = {shard,
                          &shard->tensor[i],
                          {.kind = k, .param = shard->param, .tensor = shard->tensor[i].tensor}};
        p.box.buf = buf;
        p.box.at = shard->offset - (has_slice ? slice : 0);
        if (k == SN_STATE_FEEDBACK) {
            add_own(l, &p);
            continue;
        }
        if (!sn_updates_are_slices(&b->held)) {
            add_shared(l, &p, s);
            continue;
        }
        add_slice(l, &p, slice);
    }
}

static void add_all(struct list *l)
{
    for (int k = 0; k < SN_NSTATE_KINDS; k++) {
        enum sn_state_kind kind = (enum sn_state_kind)k;
        struct share all = share_of(l->job, kind, SN_GROUP_REPLICA);
        struct share experts = share_of(l->job, kind, SN_GROUP_EXPERT_DATA);
        for (int i = 0; i < l->job->n_shards; i++) {
            const struct sn_shard *shard = &l->job->shards[i];
            bool is_expert = l->job->buckets[shard->bucket].replicas == SN_GROUP_EXPERT_DATA;
            add_shard(l, kind, shard, is_expert ? &experts : &all);
        }
    }
}

enum sn_status sn_job_boxes(struct sn_job_box **out, int *n, const struct sn_job *j,
                            struct sn_err *err)
{
    struct list l = {.job = j};
    add_all(&l);
    l.box = sn_alloc_n((size_t)l.n + 1, sizeof(*l.box));
    if (!l.box)
        return sn_fail(err, SN_ENOMEM, "state: no memory for a list of %d boxes", l.n);
    l.n = 0;
    add_all(&l);
    *out = l.box;
    *n = l.n;
    return SN_OK;
}

/* --- memory of a copy of what a rank owns ----------------------------------------------------- */

/* Of what one group of replicas holds: nothing here depends on a rank's place within its stage:
 * padded sizes, all copies. */
static void add_room(const struct sn_job *j, enum sn_state_kind k, enum sn_group replicas,
                     struct sn_snapshot_shard_room *out)
{
    int64_t members = j->group_size[replicas], slices = 0, whole = 0, widest = SN_BOX_UNCUT;
    for (int i = 0; i < j->n_buckets; i++) {
        const struct sn_bucket *b = &j->buckets[i];
        bool other_end = b->copies >> SN_GROUP_TIED & 1u && j->group_index[SN_GROUP_TIED] != 0;
        if (sn_state_buffer(j, b, k) < 0 || other_end || b->replicas != replicas)
            continue;
        bool cut = sn_updates_are_slices(&b->held);
        int parts = cut && sn_slices_are_copied(b) ? j->group_size[SN_GROUP_REPLICA_RAIL] : 1;
        *(cut ? &slices : &whole) += (b->slice + parts - 1) / parts;
        out->boxes += cut ? 2 : 0; /* cut rows at both ends */
    }
    for (int i = 0; i < j->n_shards; i++) {
        if (j->buckets[j->shards[i].bucket].replicas != replicas)
            continue;
        out->boxes += j->shards[i].n_tensors;
        widest = j->shards[i].cols > widest ? j->shards[i].cols : widest;
    }
    if ((!sn_updates_are_slices(j->held) || whole > 0) && members > 1)
        whole = (whole + members - 1) / members + widest;
    out->floats += slices + whole;
}

/* Feedback, of which a rank owns whole shards. */
static void add_own_room(const struct sn_job *j, struct sn_snapshot_shard_room *out)
{
    for (int i = 0; i < j->n_shards; i++) {
        const struct sn_shard *shard = &j->shards[i];
        const struct sn_bucket *b = &j->buckets[shard->bucket];
        bool tied = sn_state_copies(b, SN_STATE_FEEDBACK) >> SN_GROUP_TIED & 1u;
        if (b->feedback < 0 || (tied && j->group_index[SN_GROUP_TIED] != 0))
            continue;
        out->boxes += shard->n_tensors;
        out->floats += shard->rows * shard->cols;
    }
}

void sn_job_snapshot_shard_room(const struct sn_job *j, struct sn_snapshot_shard_room *out)
{
    *out = (struct sn_snapshot_shard_room){0};
    add_own_room(j, out);
    for (int k = 0; k < SN_STATE_FEEDBACK; k++) {
        if (k >= sn_state_plain(j->config) && !sn_job_has_state(j, (enum sn_state_kind)k))
            continue;
        add_room(j, (enum sn_state_kind)k, SN_GROUP_REPLICA, out);
        if (j->config->model.experts.count > 0)
            add_room(j, (enum sn_state_kind)k, SN_GROUP_EXPERT_DATA, out);
    }
}

int64_t sn_job_snapshot_bytes(const struct sn_job *j)
{
    struct sn_snapshot_shard_room room;
    sn_job_snapshot_shard_room(j, &room);
    return room.floats * (int64_t)sizeof(float) + room.boxes * PAGE;
}

int64_t sn_snapshot_shard_blocks(const struct sn_snapshot_shard_room *r)
{
    int64_t bytes = r->floats * (int64_t)sizeof(float);
    return (bytes + SN_SNAPSHOT_SHARD_BLOCK - 1) / SN_SNAPSHOT_SHARD_BLOCK;
}

int64_t sn_snapshot_shard_values_at(const struct sn_snapshot_shard_room *r)
{
    int64_t table = r->boxes * SN_SNAPSHOT_SHARD_BOX +
                    sn_snapshot_shard_blocks(r) * (int64_t)sizeof(uint64_t) + PAGE - 1;
    return SN_SNAPSHOT_SHARD_HEAD + table / PAGE * PAGE;
}

int64_t sn_snapshot_shard_bytes(const struct sn_snapshot_shard_room *r)
{
    return sn_snapshot_shard_values_at(r) +
           (r->floats * (int64_t)sizeof(float) + PAGE - 1) / PAGE * PAGE;
}

/* Shards alone say it, and are made in no time. */
enum sn_status sn_job_snapshot_shard_most(int64_t *out, const struct sn_job_env *env,
                                          struct sn_err *err)
{
    struct sn_job_env e = *env;
    int64_t most = 0;
    e.rank = 0;
    for (int stage = 0; stage < env->config->layout.pipeline; stage++) {
        struct sn_snapshot_shard_room room;
        struct sn_job *j;
        SN_TRY(sn_job_create_shards(&j, &e, err));
        sn_job_snapshot_shard_room(j, &room);
        most = sn_snapshot_shard_bytes(&room) > most ? sn_snapshot_shard_bytes(&room) : most;
        e.rank += j->grid.stride[SN_AXIS_PIPELINE];
        sn_job_destroy(j);
    }
    *out = most;
    return SN_OK;
}
