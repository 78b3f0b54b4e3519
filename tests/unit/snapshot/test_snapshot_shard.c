/*
 * test_snapshot_shard.c - snapshot shards of a rank's state: what is in them, and that nothing else
 * is taken for one.
 */
#include "lib/base/mem.h"
#include "lib/snapshot/shard.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 3, BOXES = 5, ROWS = 700, COLS = 600 };

/* A rank that owns rows of a matrix, some columns of another, and a vector; and holds more. */
struct scene {
    struct sn_state_shape all[TENSORS];
    struct sn_state_tensor box[BOXES];
    int64_t index[BOXES];
    float *values;
    struct sn_state state;
    struct sn_snapshot_shard_source source;
    int64_t bytes;
    char *shard;
};

static void fill(struct scene *s, float first)
{
    for (int i = 0; i < 2 * ROWS * COLS + ROWS; i++)
        s->values[i] = first + (float)i;
}

static void setup(struct scene *s)
{
    struct sn_err err;
    *s = (struct scene){
        .all = {{"model", "a", ROWS, COLS}, {"model", "b", ROWS, COLS}, {"exp_avg", "a", ROWS, 1}}};
    s->values = sn_alloc_n(2 * ROWS * COLS + ROWS, sizeof(float));
    float *a = s->values, *b = a + ROWS * COLS, *v = b + ROWS * COLS;
    fill(s, 1);
    s->box[0] = (struct sn_state_tensor){"model", "a",  0,    0, ROWS, COLS,   0,    0,
                                         300,     COLS, COLS, a, true, SN_F32, NULL, 0};
    s->box[1] = (struct sn_state_tensor){"model", "a",    0,    0,    ROWS, COLS,
                                         300,     0,      400,  COLS, COLS, a + 300 * COLS,
                                         false,   SN_F32, NULL, 0};
    s->box[2] = (struct sn_state_tensor){"model", "b",    0,    0,   ROWS, COLS,
                                         10,      100,    600,  500, COLS, b + 10 * COLS + 100,
                                         true,    SN_F32, NULL, 0};
    s->box[3] = (struct sn_state_tensor){"exp_avg", "a", 0, 0, ROWS, 1,      0,    0,
                                         ROWS,      1,   1, v, true, SN_F32, NULL, 0};
    s->box[4] = (struct sn_state_tensor){"exp_avg", "a", 0, 0, ROWS, 1,      ROWS, 0,
                                         0,         1,   1, v, true, SN_F32, NULL, 0};
    s->state = (struct sn_state){.scalars = {.step = 7, .tokens = 99, .loss_scale = 2},
                                 .model_text = "family: llama\n",
                                 .n_tensors = BOXES,
                                 .tensors = s->box,
                                 .n_all = TENSORS,
                                 .all = s->all};
    s->source = (struct sn_snapshot_shard_source){.state = &s->state,
                                                  .tensor = s->index,
                                                  .tag = {11, 12, sn_state_hash(&s->state), 1, 4},
                                                  .room = {4, 300 * COLS + 600 * 500 + ROWS + 5}};
    (void)sn_state_index(&s->state, s->index, &err);
    s->bytes = sn_snapshot_shard_bytes(&s->source.room);
    s->shard =
        mmap(NULL, (size_t)s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void teardown(struct scene *s)
{
    (void)munmap(s->shard, (size_t)s->bytes);
    sn_free(s->values);
}

static bool is_whole(const struct scene *s, const void *shard)
{
    struct sn_snapshot_shard_head h;
    struct sn_err err;
    return sn_snapshot_shard_look(&h, shard, s->bytes) &&
           sn_snapshot_shard_check(shard, &h, &err) == SN_OK;
}

static bool box_is(const struct scene *s, int64_t i, const struct sn_state_tensor *t)
{
    struct sn_snapshot_shard_head h;
    const struct sn_snapshot_shard_box *b = sn_snapshot_shard_boxes(s->shard) + i;
    if (!sn_snapshot_shard_look(&h, s->shard, s->bytes) || b->row != t->row || b->col != t->col ||
        b->n_rows != t->n_rows || b->n_cols != t->n_cols)
        return false;
    const float *p = sn_snapshot_shard_values(s->shard, &h) + b->at;
    for (int64_t r = 0; r < t->n_rows; r++)
        if (memcmp(p + r * t->n_cols, t->p + r * t->ld, (size_t)t->n_cols * sizeof(float)) != 0)
            return false;
    return true;
}

static void an_shard_has_what_a_rank_owns(void)
{
    struct scene s;
    struct sn_err err;
    struct sn_snapshot_shard_head h;
    setup(&s);
    tap_ok(!is_whole(&s, s.shard), "memory of zeros is no snapshot shard");
    tap_ok(sn_snapshot_shard_write(s.shard, &s.source, &err) == SN_OK,
           "a snapshot shard is written");
    if (tap_ok(sn_snapshot_shard_look(&h, s.shard, s.bytes), "and found"))
        tap_ok(h.tag.rank == 1 && h.tag.world == 4 && h.scalars.step == 7 &&
                   h.scalars.tokens == 99 && h.scalars.loss_scale == 2 && h.n_boxes == 3,
               "with its rank, its step and the boxes that are owned and not empty");
    tap_ok(sn_snapshot_shard_check(s.shard, &h, &err) == SN_OK, "all of it is as written");
    tap_ok(box_is(&s, 0, &s.box[0]) && box_is(&s, 1, &s.box[2]) && box_is(&s, 2, &s.box[3]),
           "values are the state's, also of rows that lie apart");
    tap_ok(sn_snapshot_shard_boxes(s.shard)[2].tensor == 2, "boxes name their tensors");
    fill(&s, 5);
    tap_ok(sn_snapshot_shard_write(s.shard, &s.source, &err) == SN_OK && is_whole(&s, s.shard) &&
               box_is(&s, 1, &s.box[2]),
           "the next one takes its place");
    teardown(&s);
}

/* Every byte of the head, of the table and some thousands of the values. */
static void an_altered_byte_is_refused(void)
{
    struct scene s;
    struct sn_err err;
    struct sn_snapshot_shard_head h;
    setup(&s);
    (void)sn_snapshot_shard_write(s.shard, &s.source, &err);
    (void)sn_snapshot_shard_look(&h, s.shard, s.bytes);
    int64_t values = sn_snapshot_shard_values_at(&s.source.room), used = h.n_floats * 4, missed = 0,
            tried = 0;
    int64_t table = SN_SNAPSHOT_SHARD_HEAD + h.n_boxes * SN_SNAPSHOT_SHARD_BOX;
    for (int64_t at = 0; at < values + used; at++) {
        if (at == (int64_t)sizeof(h))
            at = SN_SNAPSHOT_SHARD_HEAD;
        if (at == table) /* room for a box that is not there */
            at = SN_SNAPSHOT_SHARD_HEAD + s.source.room.boxes * SN_SNAPSHOT_SHARD_BOX;
        if (at == SN_SNAPSHOT_SHARD_HEAD + s.source.room.boxes * SN_SNAPSHOT_SHARD_BOX +
                      (int64_t)sizeof(uint64_t) *
                          sn_snapshot_shard_blocks(&(struct sn_snapshot_shard_room){0, h.n_floats}))
            at = values;
        if (at > values + 16 && at < values + used - 16)
            at += 25013; /* each costs a hash */
        if (at >= values + used)
            break;
        s.shard[at] ^= 0x10;
        missed += is_whole(&s, s.shard);
        s.shard[at] ^= 0x10;
        tried++;
    }
    tap_ok(missed == 0 && tried > 350, "of %lld altered bytes none passes", (long long)tried);
    tap_ok(is_whole(&s, s.shard), "as it was it is a snapshot shard");
    s.shard[values + used - 4] ^= 1;
    tap_ok(sn_snapshot_shard_check(s.shard, &h, &err) == SN_EIO, "the last value altered");
    tap_text(err.text, "snapshot shard of rank 1, step 7: values 262144 to 480699 have changed",
             "is named");
    s.shard[values + used - 4] ^= 1;
    tap_ok(!sn_snapshot_shard_look(&h, s.shard, s.bytes - 1), "a snapshot shard cut short is none");
    tap_ok(!sn_snapshot_shard_look(&h, s.shard, 100), "nor is a piece of a head");
    sn_snapshot_shard_break(s.shard);
    tap_ok(!is_whole(&s, s.shard), "a broken one is none");
    teardown(&s);
}

static void a_head_comes_last(void)
{
    struct scene s;
    struct sn_err err;
    setup(&s);
    char *kept = sn_alloc((size_t)s.bytes);
    (void)sn_snapshot_shard_write(s.shard, &s.source, &err);
    memcpy(kept + SN_SNAPSHOT_SHARD_HEAD, s.shard + SN_SNAPSHOT_SHARD_HEAD,
           (size_t)s.bytes - SN_SNAPSHOT_SHARD_HEAD);
    tap_ok(!is_whole(&s, kept), "table and values without a head are no snapshot shard");
    sn_snapshot_shard_seal(kept, s.shard);
    tap_ok(is_whole(&s, kept), "with the head they are");
    sn_free(kept);
    teardown(&s);
}

static void too_much_is_refused(void)
{
    struct scene s;
    struct sn_err err;
    setup(&s);
    s.source.room.boxes = 2;
    tap_ok(sn_snapshot_shard_write(s.shard, &s.source, &err) == SN_EFAIL,
           "more boxes than planned");
    tap_ok(strstr(err.text, "owns more than the 2 boxes") != NULL, "are refused: %s", err.text);
    s.source.room = (struct sn_snapshot_shard_room){4, 300 * COLS + 600 * 500};
    tap_ok(sn_snapshot_shard_write(s.shard, &s.source, &err) == SN_EFAIL, "so are more values");
    tap_ok(!is_whole(&s, s.shard), "and leave no snapshot shard");
    s.box[0].name = "c";
    tap_ok(sn_state_index(&s.state, s.index, &err) == SN_EFAIL, "a tensor that no model has");
    tap_text(err.text, "snapshot shard: tensor model c is none of the model's", "is refused");
    teardown(&s);
}

/* A child writes snapshot shards of steps 1, 2, ... into shared memory, in turn into two places,
 * until it is killed: then at least one is whole, of the last step or the one before. */
static void a_kill_leaves_one_of_two(void)
{
    enum { ROUNDS = 60 };
    struct scene s;
    struct sn_err err;
    int whole = 0, torn = 0;
    struct dice d = {.key = 4711};
    setup(&s);
    char *place[2] = {s.shard, mmap(NULL, (size_t)s.bytes, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    volatile int64_t *begun =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        *begun = 0;
        pid_t child = fork();
        for (int64_t step = 1; child == 0; step++) {
            s.state.scalars.step = step;
            *begun = step;
            (void)sn_snapshot_shard_write(place[step % 2], &s.source, &err);
        }
        while (*begun < 3)
            (void)usleep(100);
        (void)usleep((useconds_t)(roll(&d, 2000)));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        struct sn_snapshot_shard_head h;
        int64_t newest = 0;
        for (int i = 0; i < 2; i++) {
            torn += !is_whole(&s, place[i]);
            if (is_whole(&s, place[i]) && sn_snapshot_shard_look(&h, place[i], s.bytes) &&
                h.scalars.step > newest)
                newest = h.scalars.step;
        }
        whole += newest >= *begun - 1;
    }
    tap_ok(whole == ROUNDS, "after %d kills one of two generations was whole each time", whole);
    tap_ok(torn > 0, "though %d times the other was half written", torn);
    (void)munmap(place[1], (size_t)s.bytes);
    (void)munmap((void *)(uintptr_t)begun, 4096);
    teardown(&s);
}

int main(void)
{
    an_shard_has_what_a_rank_owns();
    an_altered_byte_is_refused();
    a_head_comes_last();
    too_much_is_refused();
    a_kill_leaves_one_of_two();
    return tap_done();
}
