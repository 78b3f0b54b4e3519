/*
 * test_snapshot.c - snapshot shards among ranks: who is whose partner, what is sent, what is found
 * after hosts were lost, and that any layout may be loaded from it.
 *
 * Ranks are threads; a host is a folder. The state is two matrices and a vector, cut by rows, of
 * which every value tells its tensor, its place and its step.
 */
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/snapshot/snapshot_inner.h"
#include "tests/lib/tap.h"
#include "tests/lib/thread_comm.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 8, TENSORS = 3, ROWS = 96, COLS = 40 };

static const struct sn_state_shape all[TENSORS] = {
    {"model", "a", ROWS, COLS}, {"model", "b", 7 * ROWS, 2 * COLS}, {"exp_avg", "v", ROWS, 1}};

/* --- ranks ------------------------------------------------------------------------------------ */

/* What the ranks do: a word of letters.
 *   t  take the next step's snapshot, whole      h  take it, but the run ends in the exchange
 *   f  find and load, and compare                o  open, as after f
 *   x  forget */
struct play {
    const char *base; /* folder of output and hosts */
    int ranks;
    int hosts[MOST]; /* of each rank */
    bool by_columns; /* another layout: columns of b */
    bool fresh;
    int64_t step, after;
    int64_t capacity; /* 0: what is needed */
    const char *word;
    /* --- what came of it --- */
    struct sn_snapshot_found found;
    int good[MOST]; /* steps of the word that went well */
    enum sn_status status[MOST];
    struct sn_err err[MOST];
    int64_t sent[MOST], said[MOST], traffic;
    uint64_t allocations[MOST];
    int to[MOST], exposed;
    struct thread_world *world;
};

struct rank {
    struct sn_state_tensor box[TENSORS + 1];
    struct sn_state state;
    struct sn_snapshot_shard_room room;
    float *values;
};

static float value_of(int tensor, int64_t row, int64_t col, int64_t step)
{
    return (float)(step * 1000003 + tensor * 70000 + row * 97 + col);
}

static void set_values(struct rank *r, int64_t step)
{
    for (int i = 0; i < r->state.n_tensors; i++) {
        const struct sn_state_tensor *t = &r->box[i];
        int tensor = t->name[0] == 'a' ? 0 : t->name[0] == 'b' ? 1 : 2;
        for (int64_t y = 0; y < t->n_rows; y++)
            for (int64_t x = 0; x < t->n_cols; x++)
                t->p[y * t->ld + x] = value_of(tensor, t->row + y, t->col + x, step);
    }
    r->state.scalars =
        (struct sn_state_scalars){.step = step, .tokens = 10 * step, .loss_scale = 3};
}

static bool has_values(const struct rank *r, int64_t step)
{
    for (int i = 0; i < r->state.n_tensors; i++) {
        const struct sn_state_tensor *t = &r->box[i];
        int tensor = t->name[0] == 'a' ? 0 : t->name[0] == 'b' ? 1 : 2;
        for (int64_t y = 0; y < t->n_rows; y++)
            for (int64_t x = 0; x < t->n_cols; x++)
                if (t->p[y * t->ld + x] != value_of(tensor, t->row + y, t->col + x, step))
                    return false;
    }
    return r->state.scalars.step == step && r->state.scalars.tokens == 10 * step &&
           r->state.scalars.loss_scale == 3;
}

/* Rows of a and v and, by_columns, columns of b; every rank holds all of v and owns a part. */
static void cut(struct rank *r, const struct play *p, int rank)
{
    int64_t lo[TENSORS], hi[TENSORS], n = 0;
    for (int i = 0; i < TENSORS; i++) {
        int64_t size = i == 1 && p->by_columns ? all[i].cols : all[i].rows;
        lo[i] = size * rank / p->ranks;
        hi[i] = size * (rank + 1) / p->ranks;
    }
    r->values = sn_alloc_n(20 * ROWS * COLS, sizeof(float));
    for (int i = 0; i < 2; i++) {
        bool columns = i == 1 && p->by_columns;
        struct sn_state_tensor *t = &r->box[i];
        *t = (struct sn_state_tensor){
            .group = all[i].group, .name = all[i].name, .rows = all[i].rows, .cols = all[i].cols};
        t->row = columns ? 0 : lo[i];
        t->col = columns ? lo[i] : 0;
        t->n_rows = columns ? all[i].rows : hi[i] - lo[i];
        t->n_cols = columns ? hi[i] - lo[i] : all[i].cols;
        t->ld = t->n_cols + 3;
        t->p = r->values + n;
        t->owned = true;
        n += t->n_rows * t->ld;
        r->room.floats += t->n_rows * t->n_cols;
    }
    int64_t at[] = {0, lo[2], hi[2], ROWS};
    for (int i = 0; i < 2; i++) /* its own rows, and those before; the rest is nobody's business */
        r->box[2 + i] = (struct sn_state_tensor){"exp_avg", "v",    0,
                                                 0,         ROWS,   1,
                                                 at[i],     0,      at[i + 1] - at[i],
                                                 1,         1,      r->values + n + at[i],
                                                 i == 1,    SN_F32, NULL,
                                                 0};
    r->room.floats += hi[2] - lo[2] + 5;
    r->room.boxes = 4;
    r->state = (struct sn_state){.model_text = "family: llama\n",
                                 .n_tensors = TENSORS + 1,
                                 .tensors = r->box,
                                 .n_all = TENSORS,
                                 .all = (struct sn_state_shape *)(uintptr_t)all,
                                 .rank = rank,
                                 .ranks = p->ranks};
}

static enum sn_status take(struct play *p, struct rank *r, struct sn_snapshot *s, bool whole)
{
    struct sn_comm *c = s->env.comm;
    struct sn_err *err = &p->err[c->rank];
    int64_t sent[SN_NAXES] = {0};
    set_values(r, ++r->state.scalars.step);
    uint64_t before = sn_mem_count();
    SN_TRY(sn_snapshot_begin(s, err));
    int64_t step = r->state.scalars.step;
    set_values(r, 999); /* the state may change at once */
    r->state.scalars.step = step;
    if (whole) {
        SN_TRY(sn_snapshot_wait(s, err));
    } else { /* all is there, and nobody seals it */
        SN_TRY(c->ops->drain(c, err));
        s->is_under_way = false;
    }
    p->allocations[c->rank] += sn_mem_count() - before;
    c->ops->take_sent_bytes(c, sent);
    p->sent[c->rank] = sent[SN_AXIS_WORLD];
    p->said[c->rank] = sn_snapshot_sent(s);
    return c->ops->agree(c, SN_OK, err);
}

static enum sn_status find(struct play *p, struct rank *r, struct sn_snapshot *s, bool *loaded)
{
    struct sn_err *err = &p->err[s->env.comm->rank];
    struct sn_snapshot_found found;
    SN_TRY(sn_snapshot_find(s, p->after, &found, err));
    if (s->env.comm->rank == 0)
        p->found = found;
    if (found.step < 0)
        return SN_OK;
    set_values(r, 12345);
    SN_TRY(sn_snapshot_load(s, &r->state, loaded, err));
    if (!*loaded || !has_values(r, found.step))
        return sn_fail(err, SN_EFAIL, "rank %d has other values", s->env.comm->rank);
    return SN_OK;
}

static enum sn_status act(struct play *p, struct rank *r, struct sn_snapshot *s)
{
    int rank = s->env.comm->rank;
    bool loaded = false;
    for (const char *w = p->word; *w; w++, p->good[rank]++)
        switch (*w) {
        case 't':
        case 'h':
            SN_TRY(take(p, r, s, *w == 't'));
            break;
        case 'f':
            SN_TRY(find(p, r, s, &loaded));
            break;
        case 'o':
            SN_TRY(sn_snapshot_open(s, loaded, &p->err[rank]));
            if (!loaded)
                set_values(r, p->step);
            break;
        default:
            SN_TRY(sn_snapshot_forget(s, &p->err[rank]));
        }
    return SN_OK;
}

static void body(void *arg, int rank)
{
    struct play *p = arg;
    struct rank r = {0};
    struct sn_snapshot *s = NULL;
    char root[128], output[128], host[16];
    struct sn_comm *c = thread_world_comm(p->world, rank);
    const int size[SN_NGRID_AXES] = {[SN_AXIS_TENSOR] = 1,
                                     [SN_AXIS_TENSOR_X] = 1,
                                     [SN_AXIS_CONTEXT] = 1,
                                     [SN_AXIS_DATA] = p->ranks,
                                     [SN_AXIS_PIPELINE] = 1};
    const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT, SN_AXIS_DATA,
                                  SN_AXIS_PIPELINE};
    struct sn_grid grid;
    (void)sn_grid_init(&grid, p->ranks, size, order, &p->err[rank]);
    (void)c->ops->set_grid(c, &grid, &p->err[rank]);
    (void)snprintf(host, sizeof(host), "n%d", p->hosts[rank]);
    (void)snprintf(root, sizeof(root), "%s/%s", p->base, host);
    (void)snprintf(output, sizeof(output), "%s/out", p->base);
    cut(&r, p, rank);
    struct sn_snapshot_env env = {.comm = c,
                                  .state = &r.state,
                                  .room = r.room,
                                  .capacity = p->capacity ? p->capacity : 20 * ROWS * COLS * 4,
                                  .output = output,
                                  .root = root,
                                  .host = host,
                                  .fresh = p->fresh};
    p->status[rank] = sn_snapshot_create(&s, &env, &p->err[rank]);
    if (p->status[rank] == SN_OK) {
        p->to[rank] = s->to;
        p->exposed = sn_snapshot_exposed(s);
        p->traffic = sn_snapshot_traffic(s);
        p->status[rank] = act(p, &r, s);
    }
    sn_snapshot_close(s);
    sn_free(r.values);
}

/* True if all ranks did all of it. */
static bool run(struct play *p)
{
    bool good = true;
    memset(p->good, 0, sizeof(p->good));
    memset(p->allocations, 0, sizeof(p->allocations));
    p->found = (struct sn_snapshot_found){.step = -2};
    p->world = thread_world_create(p->ranks);
    thread_world_run(p->world, body, p);
    thread_world_destroy(p->world);
    for (int r = 0; r < p->ranks; r++)
        good = good && p->status[r] == SN_OK && p->good[r] == (int)strlen(p->word);
    return good;
}

static bool play(struct play *p, const char *word)
{
    p->word = word;
    bool good = run(p);
    for (int r = 0; !good && r < p->ranks; r++)
        if (p->status[r] != SN_OK)
            printf("# %s, rank %d: %s\n", word, r, p->err[r].text);
    return good;
}

/* --- hosts ------------------------------------------------------------------------------------ */

static void shell(const char *base, const char *command)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "cd %s && %s", base, command);
    if (system(text) != 0)
        printf("# failed: %s\n", text);
}

/* A fresh run on `hosts` hosts of as many ranks. */
static struct play begin(const char *base, int ranks, int hosts)
{
    struct play p = {.base = base, .ranks = ranks, .after = -1};
    shell(base, "rm -rf * && mkdir -p out n0 n1 n2 n3 n4");
    for (int r = 0; r < ranks; r++)
        p.hosts[r] = r * hosts / ranks;
    return p;
}

static int files(const char *base, const char *pattern)
{
    char text[256];
    int n = -1;
    (void)snprintf(text, sizeof(text), "ls %s/%s 2>/dev/null | wc -l", base, pattern);
    FILE *f = popen(text, "r");
    if (f && fscanf(f, "%d", &n) != 1)
        n = -1;
    if (f)
        (void)pclose(f);
    return n;
}

/* --- the exchange ----------------------------------------------------------------------------- */

static void partners_are_on_other_hosts(const char *base)
{
    struct play p = begin(base, 6, 3);
    if (tap_ok(play(&p, "o"), "three hosts of two ranks open"))
        tap_ok(p.to[0] == 2 && p.to[1] == 3 && p.to[4] == 0 && p.to[5] == 1 && p.exposed == 0,
               "each has its partner on the next host");
    p = begin(base, 5, 3);
    p.hosts[0] = 1, p.hosts[1] = 0, p.hosts[2] = 1, p.hosts[3] = 0, p.hosts[4] = 2;
    if (tap_ok(play(&p, "o"), "so do uneven hosts, whose ranks lie apart"))
        tap_ok(p.to[0] == 1 && p.to[2] == 3 && p.to[1] == 4 && p.to[3] == 0 && p.to[4] == 2 &&
                   p.exposed == 0,
               "and have partners elsewhere");
    p = begin(base, 4, 1);
    tap_ok(play(&p, "ottt") && p.exposed == 4, "on one host all are exposed to its loss");
    p = begin(base, 4, 2);
    p.hosts[2] = 0;
    tap_ok(play(&p, "ot") && p.exposed == 2, "so are some where a host has more than half");
    p = begin(base, 1, 1);
    tap_ok(!play(&p, "") && p.status[0] == SN_EINPUT, "one rank is refused");
    tap_ok(strstr(p.err[0].text, "checkpoint.snapshot_every needs ranks on two hosts") != NULL,
           "by name");
}

static void bytes_are_those_of_the_formula(const char *base)
{
    struct play p = begin(base, 4, 2);
    int64_t sum = 0;
    bool same = tap_ok(play(&p, "otttt"), "four snapshots are taken");
    for (int r = 0; r < 4; r++) {
        struct sn_snapshot_shard_room room = {4, 0};
        same = same && p.sent[r] == p.said[r];
        room.floats = (ROWS * COLS + 14 * ROWS * COLS + ROWS) / 4 + 5;
        same = same && p.said[r] == sn_snapshot_shard_bytes(&room);
        sum += p.said[r];
    }
    tap_ok(same, "each rank sends %lld bytes each time", (long long)p.said[0]);
    tap_ok(p.traffic == sum, "and knows the sum");
    tap_ok(p.allocations[0] + p.allocations[1] + p.allocations[2] + p.allocations[3] == 0,
           "nothing is allocated");
    tap_ok(files(base, "n0/*/*own*") == 4 && files(base, "n1/*/*kept*") == 4,
           "each host has two generations of its own and of the other's snapshot shards");
}

static void what_is_found(const char *base)
{
    struct play p = begin(base, 4, 2);
    tap_ok(play(&p, "fo") && p.found.step == -1, "where nothing is nothing is found");
    tap_ok(play(&p, "fottt") && play(&p, "f") && p.found.step == 3, "the last of three is found");
    tap_ok(p.found.hosts == 2 && p.found.kept == 0 && p.found.world == 4, "on its own hosts");
    p.after = 2;
    tap_ok(play(&p, "f") && p.found.step == 3, "it is newer than the checkpoint of step 2");
    p.after = 3;
    tap_ok(play(&p, "f") && p.found.step == -1, "and not than that of step 3");
    p.after = -1;
    tap_ok(play(&p, "fo") && files(base, "n*/*/*") == 16, "it is taken again, and the old ones go");
    tap_ok(play(&p, "f") && p.found.step == 3, "so that it is there once more");
    tap_ok(play(&p, "foh") && play(&p, "f") && p.found.step == 4,
           "a run that ends in the exchange leaves each rank's own");
    shell(base, "rm -rf n1/*");
    tap_ok(play(&p, "f") && p.found.step == 3 && p.found.partly == 4 && p.found.lacks == 2,
           "if a host goes with it, the copies of the one before are whole");
    tap_ok(play(&p, "fottx") && files(base, "n*/*") == 0, "what is forgotten leaves no file");
    tap_ok(play(&p, "fotx") && play(&p, "f") && p.found.step == -1, "and is not found");
}

static void a_host_is_lost(const char *base)
{
    struct play p = begin(base, 4, 2);
    tap_ok(play(&p, "ottt"), "three snapshots on two hosts");
    shell(base, "rm -rf n1/*");
    for (int r = 2; r < 4; r++)
        p.hosts[r] = 3; /* a spare */
    tap_ok(play(&p, "f") && p.found.step == 3,
           "one host is lost: a spare goes on from the last step");
    tap_ok(p.found.kept == 2 && p.found.hosts == 1, "from partners' copies");
    tap_ok(play(&p, "fo") && files(base, "n3/*/*own0") == 2 && files(base, "n3/*/*kept0") == 2,
           "and both hosts have snapshot shards again");
    shell(base, "rm -rf n0/*");
    p.hosts[0] = p.hosts[1] = 4;
    tap_ok(play(&p, "f") && p.found.step == 3, "so that the other one may be lost at once");
    shell(base, "rm -rf n3/* n4/*");
    tap_ok(play(&p, "f") && p.found.step == -1, "when all are lost there is nothing");
    p = begin(base, 6, 3);
    tap_ok(play(&p, "ottt"), "three hosts");
    shell(base, "rm -rf n1/* n2/*");
    tap_ok(play(&p, "f") && p.found.step == -1 && p.found.partly == 3 && p.found.lacks == 2,
           "two neighbours lost: rank 2 has no snapshot shard, which is told");
}

static void layouts_may_change(const char *base)
{
    struct play p = begin(base, 6, 3);
    tap_ok(play(&p, "ott"), "six ranks on three hosts");
    shell(base, "rm -rf n1/*");
    p.ranks = 4;
    p.hosts[2] = p.hosts[3] = 2;
    p.hosts[0] = p.hosts[1] = 0;
    p.by_columns = true;
    tap_ok(play(&p, "f") && p.found.step == 2 && p.found.world == 6,
           "four ranks of another layout go on on the two that are left");
    tap_ok(play(&p, "fott") && play(&p, "f") && p.found.step == 4 && p.found.world == 4,
           "and take theirs");
    p.ranks = 8;
    p.by_columns = false;
    for (int r = 0; r < 8; r++)
        p.hosts[r] = r / 2;
    tap_ok(play(&p, "fot") && p.found.world == 4 && play(&p, "f") && p.found.step == 5,
           "eight ranks on four hosts go on from those");
}

static void what_is_altered_is_not_used(const char *base)
{
    static const char flip[] =
        "printf '\\377' | dd of=$(ls -d n%d/*/*%s) bs=1 seek=%d conv=notrunc status=none";
    char command[256];
    struct play p = begin(base, 4, 2);
    tap_ok(play(&p, "otttt"), "steps 3 and 4 are in memory"); /* generations 0 and 1 */
    (void)snprintf(command, sizeof(command), flip, 0, "00001-own1", 9000);
    shell(base, command);
    tap_ok(play(&p, "f") && p.found.step == 4 && p.found.kept == 1,
           "an altered snapshot shard is replaced by its copy");
    (void)snprintf(command, sizeof(command), flip, 1, "00001-kept1", 20);
    shell(base, command);
    tap_ok(play(&p, "f") && p.found.step == 3 && p.found.partly == 4 && p.found.lacks == 1,
           "an altered copy too: the generation before is used");
    shell(base, "truncate -s 5000 $(ls -d n1/*/*00002-own0)");
    tap_ok(play(&p, "f") && p.found.step == 3 && p.found.kept == 1,
           "a snapshot shard cut short is none");
    shell(base, "rm $(ls -d n0/*/*00002-kept0)");
    tap_ok(play(&p, "f") && p.found.step == -1, "with no copy nothing is left");
}

static void runs_are_told_apart(const char *base)
{
    struct play p = begin(base, 4, 2);
    tap_ok(play(&p, "ott") && play(&p, "f") && p.found.step == 2, "step 2 is in memory");
    shell(base, "rm -rf out && mkdir out");
    tap_ok(play(&p, "f") && p.found.step == -1, "an output directory made anew is another run");
    tap_ok(play(&p, "fo") && files(base, "n*/*/*") == 16, "which removes what the other left");
    tap_ok(play(&p, "fot") && play(&p, "f") && p.found.step == 1, "and has its own");
    p.fresh = true;
    tap_ok(play(&p, "x") && files(base, "n*/*") == 0, "a fresh start forgets");
    p.fresh = false;
    tap_ok(play(&p, "f") && p.found.step == -1, "for good");
    tap_ok(play(&p, "ottt"), "three steps on two hosts");
    p.hosts[0] = p.hosts[1] = 2;
    p.hosts[2] = p.hosts[3] = 3;
    tap_ok(play(&p, "fot") && p.found.step == -1, "on two others nothing is known of them");
    p.hosts[0] = p.hosts[1] = 0;
    p.hosts[2] = p.hosts[3] = 1;
    tap_ok(files(base, "n0/*/*") == 8 && play(&p, "f") && p.found.step == -1,
           "where they are left they are of a course that was left, and not used");
}

static void too_little_memory_is_said_at_the_start(const char *base)
{
    struct play p = begin(base, 4, 2);
    p.capacity = (int64_t)1 << 50;
    tap_ok(!play(&p, "o") && p.status[3] == SN_EIO, "8 PiB do not fit");
    tap_ok(strstr(p.err[0].text,
                  "(9007199254740992 bytes) of the memory there for the 2 ranks of this "
                  "host, but only ") != NULL,
           "which is said with both sizes");
    tap_ok(files(base, "n*/*/*") == 0, "and nothing is left");
    p = begin(base, 4, 2);
    shell(base, "rmdir n1");
    tap_ok(!play(&p, "o") && strstr(p.err[0].text, "cannot make it: No such file") != NULL,
           "no memory at all is said too");
}

int main(void)
{
    char base[] = "/tmp/sn-snapshot-XXXXXX", command[64];
    if (!mkdtemp(base))
        return 1;
    sn_log_set_level(SN_LOG_ERROR);
    partners_are_on_other_hosts(base);
    bytes_are_those_of_the_formula(base);
    what_is_found(base);
    a_host_is_lost(base);
    layouts_may_change(base);
    what_is_altered_is_not_used(base);
    runs_are_told_apart(base);
    too_little_memory_is_said_at_the_start(base);
    (void)snprintf(command, sizeof(command), "rm -rf %s", base);
    (void)!system(command);
    return tap_done();
}
