/*
 * test_verify_limits.c - the verifier beyond what test layouts reach: many posts in flight, many
 * ranks.
 */
#include "lib/verify/verify.h"

#include "tests/lib/tap.h"

#include <string.h>

enum { MANY = 2 * SN_VERIFY_IN_FLIGHT };

/* n transfers of one element each, with tags upwards or downwards. */
static void fill(struct sn_program *p, int kind, int n, bool down)
{
    for (int i = 0; i < n; i++) {
        struct sn_op *op = &p->ops[i];
        struct sn_view v = {.buf = 0, .offset = i, .rows = 1, .cols = 1, .ld = 1};
        *op = (struct sn_op){.kind = kind, .id = i, .tag = down ? n - 1 - i : i, .waits_for = -1};
        for (int k = 0; k < SN_MAX_IN; k++)
            op->in[k].buf = -1;
        for (int k = 0; k < SN_MAX_OUT; k++)
            op->out[k].buf = -1;
        *(kind == SN_OP_SEND ? &op->in[0] : &op->out[0]) = v;
        op->group = SN_GROUP_PIPELINE;
        op->peer = kind == SN_OP_SEND;
    }
    p->n_ops = p->next_id = p->segments[0].n = n;
}

static enum sn_status verify_many(int n, struct sn_err *err)
{
    static struct sn_op ops[2][MANY];
    static struct sn_job job;
    struct sn_segment segments[2] = {{.kind = SN_SEGMENT_FORWARD}, {.kind = SN_SEGMENT_FORWARD}};
    struct sn_sched sched = {.n = n};
    struct sn_buffer buf = {.cls = SN_CLASS_COMM, .rows = 1, .cols = MANY, .bytes = 4L * MANY};
    struct sn_grid grid = {
        .size = {1, 1, 1, 1, 2}, .stride = {1, 1, 1, 1, 1}, .kv_copies = 1, .experts = 1};
    const struct sn_job *const jobs[2] = {&job, &job};
    struct sn_program p[2];
    job.group_size[SN_GROUP_PIPELINE] = 2;
    for (int i = 0; i < 2; i++) {
        p[i] = (struct sn_program){.name = "train", .ops = ops[i], .bufs = &buf, .micros = 1};
        p[i].segments = &segments[i];
        p[i].sched = &sched;
        p[i].n_bufs = p[i].n_state_bufs = p[i].n_segments = p[i].n_sched = p[i].vstages = 1;
        p[i].slots[0] = 1;
        fill(&p[i], i ? SN_OP_RECV : SN_OP_SEND, n, i == 1);
    }
    const struct sn_program *const programs[2] = {&p[0], &p[1]};
    return sn_verify(&(struct sn_verify_world){&grid, jobs}, programs, err);
}

/* The communicator blocks while 256 are under way: what is done makes room, in whatever order. */
static void posts_in_flight_are_limited(void)
{
    struct sn_err err = {0};
    tap_ok(verify_many(MANY - 1, &err) == SN_OK,
           "511 transfers in opposite orders: the middle one makes room, and so on %s", err.text);
    tap_ok(verify_many(MANY, &err) == SN_EFAIL && strstr(err.text, "waits in send '' for rank 1") &&
               strstr(err.text, "which waits in recv '' for rank 0"),
           "of 512, the first 256 of both sides wait for each other");
}

static void large_grids_shrink(void)
{
    int size[] = {[SN_AXIS_TENSOR] = 8,
                  [SN_AXIS_TENSOR_X] = 1,
                  [SN_AXIS_CONTEXT] = 4,
                  [SN_AXIS_DATA] = 64,
                  [SN_AXIS_PIPELINE] = 16};
    enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_PIPELINE, SN_AXIS_CONTEXT,
                            SN_AXIS_DATA};
    struct sn_grid g, s;
    struct sn_err err;
    tap_ok(sn_grid_init(&g, 32768, size, order, &err) == SN_OK, "a grid of 32,768 ranks");
    s = sn_verify_grid(&g);
    tap_ok(s.size[SN_AXIS_DATA] == 2 && s.size[SN_AXIS_TENSOR] == 8 && sn_grid_ranks(&s) == 1024,
           "data shrinks first, and the rest stays when that is enough");
    tap_ok(s.stride[SN_AXIS_TENSOR] == 1 && s.stride[SN_AXIS_PIPELINE] == 8 &&
               s.stride[SN_AXIS_CONTEXT] == 128 && s.stride[SN_AXIS_DATA] == 512,
           "axes keep their order");
    size[SN_AXIS_DATA] = 1;
    size[SN_AXIS_PIPELINE] = 1024;
    tap_ok(sn_grid_init(&g, 32768, size, order, &err) == SN_OK, "another");
    g.kv_copies = 4;
    s = sn_verify_grid(&g);
    tap_ok(s.size[SN_AXIS_TENSOR] == 2 && s.size[SN_AXIS_CONTEXT] == 2 && s.kv_copies == 2 &&
               s.stride[SN_AXIS_PIPELINE] == 2 && s.stride[SN_AXIS_CONTEXT] == 2048,
           "tensor and context follow; copies of heads stay a divisor");
    s = sn_verify_grid(&s);
    tap_ok(sn_grid_ranks(&s) == 4096 && s.size[SN_AXIS_CONTEXT] == 2, "4096 ranks are left alone");
}

/* --- queues ------------------------------------------------------------------------------------ */

struct step {
    int kind;
    bool across; /* over the group whose members have different texts */
    int of;      /* of a WAIT: the step that is waited for */
};

/* One element a step, each at a place of its own. */
static void write_steps(struct sn_program *p, const struct step *s, int n,
                        const enum sn_group group[2])
{
    for (int i = 0; i < n; i++) {
        struct sn_op *op = &p->ops[i];
        struct sn_view v = {.buf = 0, .offset = i, .rows = 1, .cols = 1, .ld = 1};
        *op = (struct sn_op){.kind = s[i].kind, .id = i, .waits_for = s[i].of};
        for (int k = 0; k < SN_MAX_IN; k++)
            op->in[k].buf = -1;
        for (int k = 0; k < SN_MAX_OUT; k++)
            op->out[k].buf = -1;
        op->group = group[s[i].across];
        op->peer = s[i].kind == SN_OP_SEND;
        if (s[i].kind != SN_OP_WAIT && s[i].kind != SN_OP_RECV)
            op->in[0] = v;
        if (s[i].kind == SN_OP_RECV || s[i].kind == SN_OP_ALL_REDUCE)
            op->out[0] = v;
    }
    p->n_ops = p->next_id = p->segments[0].n = n;
}

/* Half of the ranks post a sum over both halves and then one of their own, and tell the others when
 * they are through with theirs; only then these post the sum over both. */
static enum sn_status verify_halves(const struct sn_grid *g, const enum sn_group group[2],
                                    struct sn_err *err)
{
    static const struct step first[] = {{SN_OP_ALL_REDUCE, true, -1}, {SN_OP_ALL_REDUCE, false, -1},
                                        {SN_OP_WAIT, false, 1},       {SN_OP_SEND, true, -1},
                                        {SN_OP_WAIT, true, 3},        {SN_OP_WAIT, true, 0}};
    static const struct step second[] = {{SN_OP_ALL_REDUCE, false, -1}, {SN_OP_WAIT, false, 0},
                                         {SN_OP_RECV, true, -1},        {SN_OP_WAIT, true, 2},
                                         {SN_OP_ALL_REDUCE, true, -1},  {SN_OP_WAIT, true, 4}};
    enum { STEPS = sizeof(first) / sizeof(first[0]) };
    struct sn_op ops[2][STEPS];
    struct sn_job job = {0};
    struct sn_segment segment[2] = {{.kind = SN_SEGMENT_FORWARD}, {.kind = SN_SEGMENT_FORWARD}};
    struct sn_sched sched = {.n = STEPS};
    struct sn_buffer buf = {.cls = SN_CLASS_COMM, .rows = 1, .cols = STEPS, .bytes = 4 * STEPS};
    struct sn_program p[2];
    job.group_size[group[0]] = job.group_size[group[1]] = 2;
    for (int i = 0; i < 2; i++) {
        p[i] = (struct sn_program){.name = "train", .ops = ops[i], .bufs = &buf, .micros = 1};
        p[i].segments = &segment[i];
        p[i].sched = &sched;
        p[i].n_bufs = p[i].n_state_bufs = p[i].n_segments = p[i].n_sched = p[i].vstages = 1;
        p[i].slots[0] = 1;
        write_steps(&p[i], i ? second : first, STEPS, group);
    }
    const struct sn_job *const jobs[] = {&job, &job, &job, &job};
    const struct sn_program *const programs[] = {&p[0], &p[0], &p[1], &p[1]};
    return sn_verify(&(struct sn_verify_world){g, jobs}, programs, err);
}

static void axes_have_queues_of_their_own(void)
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    static const enum sn_group axes[] = {SN_GROUP_TENSOR, SN_GROUP_DATA},
                               nodes[] = {SN_GROUP_REPLICA_NODE, SN_GROUP_REPLICA_RAIL};
    const int square[] = {2, 1, 1, 2, 1}, line[] = {1, 1, 1, 4, 1};
    struct sn_grid g;
    struct sn_err err = {0};
    (void)sn_grid_init(&g, 4, square, order, &err);
    tap_ok(verify_halves(&g, axes, &err) == SN_OK,
           "a sum over tensor ranks needs no sum over data ranks that was posted before it %s",
           err.text);
    (void)sn_grid_init(&g, 4, line, order, &err);
    g.replica_node = 2;
    tap_ok(verify_halves(&g, nodes, &err) == SN_EFAIL &&
               strstr(err.text, "waits in all_reduce '' for rank 2") &&
               strstr(err.text, "which waits in recv '' for rank 0"),
           "of two sums of one axis the second waits for the first, and here for ever");
}

int main(void)
{
    axes_have_queues_of_their_own();
    posts_in_flight_are_limited();
    large_grids_shrink();
    return tap_done();
}
