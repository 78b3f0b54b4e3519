/*
 * test_verify_faults.c - faults planted in sound programs are found and named.
 */
#include "tests/lib/tap.h"
#include "tests/lib/verify_test.h"

#include <string.h>

/* The first operation of this kind whose label begins so. */
static struct sn_op *op_of(struct sn_program *p, int kind, const char *label)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind && strncmp(p->ops[i].label, label, strlen(label)) == 0)
            return &p->ops[i];
    printf("# there is no %s '%s'\n", sn_op_name(kind), label);
    return &p->spare;
}

static void remove_op(struct sn_op *op)
{
    for (int i = 0; i < SN_MAX_IN; i++)
        op->in[i].buf = -1;
    for (int i = 0; i < SN_MAX_OUT; i++)
        op->out[i].buf = -1;
    op->kind = SN_OP_ALIAS; /* which does nothing */
}

static void swap_ops(struct sn_op *a, struct sn_op *b)
{
    struct sn_op t = *a;
    *a = *b;
    *b = t;
}

/* ZeRO 3 posts the gathers of two layers, one behind the other. */
static void two_collectives_swapped(struct verify_world *w)
{
    struct sn_op *op = op_of(&w->spoilt[1], SN_OP_ALL_GATHER, "weight.");
    while (op[1].kind != SN_OP_ALL_GATHER || strcmp(op[0].label, op[1].label) == 0)
        op++;
    swap_ops(&op[0], &op[1]);
}

/* Sums over groups that cross: post and wait of one, post and wait of the other. */
static void two_groups_swapped(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[1];
    for (int i = 0; i + 3 < p->n_ops; i++) {
        struct sn_op *op = &p->ops[i];
        if (op->kind != SN_OP_ALL_REDUCE || op[2].kind != SN_OP_ALL_REDUCE ||
            op->group == op[2].group || op[1].kind != SN_OP_WAIT || op[3].kind != SN_OP_WAIT)
            continue;
        swap_ops(&op[0], &op[2]);
        swap_ops(&op[1], &op[3]);
        return;
    }
}

static void collective_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[1], SN_OP_ALL_REDUCE, "l0.attn.o"));
}

/* Rows go to the experts on one rank while they come back on the other. */
static void exchanges_swapped(struct verify_world *w)
{
    struct sn_op *out = op_of(&w->spoilt[1], SN_OP_EXCHANGE, "l0.ffn.experts.out");
    struct sn_op *back = op_of(&w->spoilt[1], SN_OP_EXCHANGE, "l0.ffn.experts.back");
    swap_ops(out, back);
    swap_ops(out + 1, back + 1);
}

static void exchange_of_other_members(struct verify_world *w)
{
    op_of(&w->spoilt[1], SN_OP_EXCHANGE, "l0.ffn.experts.out")->attr.blocks_a = 3;
}

/* A rank takes its share of the sum before it has what the experts read. */
static void shares_swapped(struct verify_world *w)
{
    struct sn_op *shares = op_of(&w->spoilt[1], SN_OP_GATHER_ROWS, "l0.ffn.experts.shares");
    struct sn_op *sum = op_of(&w->spoilt[1], SN_OP_GATHER_ROWS, "l0.ffn.experts.sum");
    swap_ops(shares, sum);
    swap_ops(shares + 1, sum + 1);
}

static void shares_of_other_ranks(struct verify_world *w)
{
    op_of(&w->spoilt[1], SN_OP_GATHER_ROWS, "l0.ffn.experts.shares")->attr.blocks_b = 3;
}

static void agreement_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[1], SN_OP_AGREE, "step_end"));
}

static void send_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[0], SN_OP_SEND, "module1.x"));
}

static void receive_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[1], SN_OP_RECV, "module1.x"));
}

static void receive_missing_once(struct verify_world *w)
{
    op_of(&w->spoilt[0], SN_OP_RECV, "module1.dx")->when = SN_FIRST;
}

static void ring_broken(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[2], SN_OP_SHIFT, "l1.attn"));
}

static void shorter_send(struct verify_world *w)
{
    op_of(&w->spoilt[0], SN_OP_SEND, "module1.x")->in[0].cols -= 48;
}

static void shorter_collective(struct verify_world *w)
{
    struct sn_op *op = op_of(&w->spoilt[1], SN_OP_ALL_REDUCE, "l0.attn.o");
    op->in[0].rows--;
    op->out[0].rows--;
}

static void misfit_gather(struct verify_world *w)
{
    op_of(&w->spoilt[0], SN_OP_ALL_GATHER, "weight.")->in[0].cols--;
}

static void other_type(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[1];
    p->bufs[op_of(p, SN_OP_RECV, "module1.x")->out[0].buf].dtype = SN_BF16;
}

static struct sn_sched *entry(struct sn_program *p, enum sn_segment_kind kind, int micro)
{
    for (int i = 0; i < p->n_sched; i++)
        if (p->segments[p->sched[i].segment].kind == kind && p->sched[i].micro == micro)
            return &p->sched[i];
    printf("# there is no such entry\n");
    return &p->sched[0];
}

static void swap_entries(struct sn_sched *a, struct sn_sched *b)
{
    struct sn_sched t = *a;
    *a = *b;
    *b = t;
}

static void forwards_inverted(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[0];
    swap_entries(entry(p, SN_SEGMENT_FORWARD, 0), entry(p, SN_SEGMENT_FORWARD, 1));
}

/* forward 0, receive of gradient 0, forward 1, backward 0: the second and the last go first. */
static void backward_before_forward(struct verify_world *w)
{
    struct sn_sched *s = w->spoilt[0].sched;
    struct sn_sched t[] = {s[1], s[3], s[0], s[2]};
    memcpy(s, t, sizeof(t));
}

/* The last receive goes behind the agreement: no wait of the program's is in vain, but nothing may
 * be under way where ranks agree. */
static void receive_after_agreement(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[1];
    struct sn_sched *s = entry(p, SN_SEGMENT_RECV_FORWARD, p->micros - 1), last = *s;
    memmove(s, s + 1, (size_t)(p->sched + p->n_sched - s - 1) * sizeof(*s));
    p->sched[p->n_sched - 1] = last;
}

static void unknown_slot(struct verify_world *w)
{
    entry(&w->spoilt[1], SN_SEGMENT_FORWARD, 3)->slot = 7;
}

static void unknown_operation(struct verify_world *w)
{
    op_of(&w->spoilt[0], SN_OP_WAIT, "x.sent")->waits_for = -1;
}

static void unknown_member(struct verify_world *w)
{
    op_of(&w->spoilt[0], SN_OP_SEND, "module1.x")->peer = 2;
}

static void wait_for_receive_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[1], SN_OP_WAIT, "module1.x"));
}

static void wait_for_send_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[0], SN_OP_WAIT, "x.sent"));
}

static void wait_for_gather_missing(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[0];
    remove_op(op_of(p, SN_OP_WAIT, "weight."));
}

/* A cache that is filled when most micro-batches have read it. */
static void cache_filled_by_the_last(struct verify_world *w)
{
    for (int rank = 0; rank < w->ranks; rank++)
        for (int i = 0; i < w->spoilt[rank].n_ops; i++) {
            struct sn_op *op = &w->spoilt[rank].ops[i];
            bool moves = op->kind == SN_OP_ALL_GATHER || op->kind == SN_OP_WAIT;
            if (moves && op->when == SN_FIRST)
                op->when = SN_LAST;
        }
}

static void wait_for_reduction_missing(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[0];
    const struct sn_segment *update = &p->segments[p->n_segments - 1];
    remove_op(&p->ops[update->first]);
}

/* What it makes is read by attention. */
static void product_missing(struct verify_world *w)
{
    remove_op(op_of(&w->spoilt[0], SN_OP_GEMM, "l1.attn.qkv"));
}

static void product_after_its_use(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[1];
    swap_ops(op_of(p, SN_OP_GEMM, "l0.ffn.gate_up"), op_of(p, SN_OP_SWIGLU, "l0.ffn"));
}

static void same_rows_under_way(struct verify_world *w)
{
    struct sn_program *p = &w->spoilt[0];
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == SN_OP_EXCHANGE && p->ops[i].attr.inverse)
            p->ops[i].attr.experts.chunk = 1;
}

static void operand_missing(struct verify_world *w)
{
    op_of(&w->spoilt[1], SN_OP_RMSNORM, "l0.attn_norm")->in[1].buf = -1;
}

static void operand_too_many(struct verify_world *w)
{
    struct sn_op *op = op_of(&w->spoilt[1], SN_OP_RMSNORM, "l0.attn_norm");
    op->in[2] = op->in[1];
}

static void adds_to_a_result(struct verify_world *w)
{
    op_of(&w->spoilt[1], SN_OP_RMSNORM, "l0.attn_norm")->acc[0] = SN_ACC_FIRST_WRITES;
}

static void outside_a_buffer(struct verify_world *w)
{
    op_of(&w->spoilt[1], SN_OP_ALL_REDUCE, "bucket")->in[0].offset += 64;
}

struct planted {
    void (*spoil)(struct verify_world *w);
    const char *name;
    const char *words[5]; /* of the sentence */
    struct verify_layout layout;
};

static void check_planted(const struct planted *f)
{
    struct verify_world w;
    struct sn_err err;
    if (verify_world_init(&w, &f->layout)) {
        tap_ok(verify_all(&w, true, &err) == SN_OK, "sound without '%s' %s", f->name, err.text);
        f->spoil(&w);
        bool good = verify_all(&w, true, &err) == SN_EFAIL;
        for (int i = 0; i < 5 && f->words[i]; i++)
            good = good && strstr(err.text, f->words[i]);
        tap_ok(good, "found: %s", f->name);
        printf("#   %s\n", err.text);
    }
    verify_world_fini(&w);
}

static void planted_faults_are_named(void)
{
    /* clang-format off */
    struct verify_layout pp2 = {.name = "pp2", .family = SN_LLAMA, .pipeline = 2},
                  tp2 = {.name = "tp2", .family = SN_LLAMA, .tensor = 2},
                  z3 = {.name = "z3", .family = SN_LLAMA, .data = 2, .zero = 3},
                  z3c = {.name = "z3c", .family = SN_LLAMA, .data = 2, .zero = 3, .zero_cache = 1},
                  dp2 = {.name = "dp2", .family = SN_LLAMA, .data = 2},
                  ep2 = {.name = "ep2", .family = SN_MIXTRAL, .data = 2, .expert = 2},
                  chunks = {.name = "chunks", .family = SN_MIXTRAL, .data = 2, .expert = 2, .expert_chunks = 4},
                  dtd = {.name = "dtd", .family = SN_MIXTRAL, .data = 2, .tensor = 2, .expert = 2, .drop_duplicates = true},
                  cp4 = {.name = "cp4", .family = SN_LLAMA, .context = 4},
                  kv = {.name = "kv", .family = SN_LLAMA, .tensor = 4, .kv_heads = 2, .sequence_parallel = true};
    const struct planted cases[] = {
        {exchanges_swapped, "exchanges of rows swapped on one rank", {"'l0.ffn.experts.back'", "'l0.ffn.experts.out'", "rank 1 (data 1"}, ep2},
        {exchange_of_other_members, "an exchange for another number of members", {"exchange 'l0.ffn.experts.out'", "(columns, members)"}, ep2},
        {shares_swapped, "gathering and summing of rows swapped on one rank", {"'l0.ffn.experts.shares'", "'l0.ffn.experts.sum'", "rank 1 (data 0, tensor 1"}, dtd},
        {shares_of_other_ranks, "shares for another number of ranks", {"gather_rows 'l0.ffn.experts.shares'", "(rows of a share, shares)"}, dtd},
        {two_collectives_swapped, "two collectives swapped on one rank", {"rank 0 (data 0, tensor 0, context 0, pipeline 0) posts all_gather 'weight.bucket", "meets all_gather 'weight.bucket", "rank 1 (data 1"}, z3},
        {two_groups_swapped, "sums of two groups swapped on one rank", {" waits in all_reduce 'tensor.0'", ", which waits in all_reduce 'kv copies.0'", "kv copies", "rank 1 (data 0, tensor 1"}, kv},
        {collective_missing, "a missing collective", {"all_reduce 'l0.attn.o' (", "which meets all_reduce 'l0.ffn.", "rank 1 (data 0, tensor 1"}, tp2},
        {agreement_missing, "a rank that does not take part in the last agreement", {"all_reduce 'step_end'", "rank 1 (data 0, tensor 1, context 0, pipeline 0), which has ended without it"}, tp2},
        {send_missing, "a missing send", {"rank 1 (data 0, tensor 0, context 0, pipeline 1) posts recv 'module1.x'", "12 times from rank 0", "its send 0 times"}, pp2},
        {receive_missing, "a missing receive", {"rank 0 (data 0, tensor 0, context 0, pipeline 0) posts send 'module1.x'", "12 times to rank 1", "its recv 0 times"}, pp2},
        {receive_missing_once, "receives of all but one micro-batch", {"rank 1", "posts send 'module1.dx'", "12 times to rank 0", "its recv 1 times"}, pp2},
        {ring_broken, "a rank that leaves a ring", {"rank 2 (data 0, tensor 0, context 2", "recv 'l2.attn.core.ring'", "meets send 'l1.attn.core.ring'", "of rank 1 (data 0, tensor 0, context 1"}, cp4},
        {shorter_send, "a wrong number of elements", {"'module1.x' (2256 fp32 over pipeline", "'module1.x' (2304 fp32 over pipeline", "both sides must agree"}, pp2},
        {shorter_collective, "a wrong number of elements in a collective", {"'l0.attn.o' (2304 fp32", "'l0.attn.o' (2256 fp32"}, tp2},
        {misfit_gather, "a gather that does not fill its output", {"rank 0 ", "all_gather 'weight.bucket", "do not fit its group"}, z3},
        {other_type, "a wrong type", {"recv 'module1.x' (2304 bf16", "send 'module1.x' (2304 fp32"}, pp2},
        {forwards_inverted, "two forwards in the wrong order", {"recv 'module1.x'", "micro-batch 0), which meets send 'module1.x'", "micro-batch 1) of rank 0"}, pp2},
        {backward_before_forward, "a backward before its forward", {"rank 0 (data 0, tensor 0, context 0, pipeline 0) waits in recv 'module1.dx' for rank 1 (data 0, tensor 0, context 0, pipeline 1), which waits in recv 'module1.x' for rank 0 ("}, pp2},
        {receive_after_agreement, "a send under way where ranks agree", {"rank 0 (data 0, tensor 0, context 0, pipeline 0) waits in send 'module1.x' for rank 1", ", which waits in all_reduce 'step_end' for rank 0 ("}, pp2},
        {unknown_slot, "a slot that does not exist", {"micro-batch 3, slot 7"}, pp2},
        {unknown_operation, "a wait for nothing", {"wait 'x.sent' is for an operation that does not exist (id, ids) (-1"}, pp2},
        {unknown_member, "a member that does not exist", {"send 'module1.x' names a member outside its group (member, size) (2, 2)"}, pp2},
        {wait_for_receive_missing, "a wait missing before a received buffer is read", {"rank 1 ", " reads memory of 'module1.x' that recv 'module1.x'", "still writes; wait for it first"}, pp2},
        {wait_for_send_missing, "a wait missing before a sent buffer is used again", {"rank 0 ", " writes memory of ", "that send 'module1.x'", "still reads"}, pp2},
        {wait_for_gather_missing, "a wait missing before gathered weights are read", {"rank 0 ", " reads memory of 'weight.bucket", "that all_gather"}, z3},
        {wait_for_gather_missing, "a wait missing before a cache is read", {"rank 0 ", " reads memory of ", "that all_gather"}, z3c},
        {cache_filled_by_the_last, "a cache that is read before it is filled", {"rank 0 ", "micro-batch 0) reads 'gathered.bucket", "', which nothing has written before it"}, z3c},
        {product_missing, "a product that nobody computes", {"rank 0 ", " reads 'l1.attn.qkv", "', which nothing has written before it"}, tp2},
        {product_after_its_use, "a product behind what reads it", {"rank 1 ", "swiglu 'l0.ffn", " reads 'l0.ffn.gate_up', which nothing has written before it"}, dp2},
        {same_rows_under_way, "two chunks of an exchange that bring the same rows", {"rank 0 ", "exchange 'l0.ffn.experts.back'", " writes memory of 'l0.ffn.experts.back' that exchange", "still writes"}, chunks},
        {operand_missing, "a norm without its weights", {"rank 1 ", "rmsnorm 'l0.attn_norm' (operation ", "lacks operand 'w'"}, dp2},
        {operand_too_many, "a norm with an operand of another", {"rank 1 ", "rmsnorm 'l0.attn_norm' (operation ", "has an operand that its kind does not have"}, dp2},
        {adds_to_a_result, "a norm that adds to its result", {"rank 1 ", "rmsnorm 'l0.attn_norm' (operation ", "adds to what is only written, 'y'"}, dp2},
        {outside_a_buffer, "a buffer whose end an operation passes", {"rank 1 ", "all_reduce 'bucket", "names memory outside 'grad.bucket"}, dp2},
        {wait_for_reduction_missing, "a wait missing before reduced gradients are read", {"rank 0 ", "sq_norm", "reads memory of 'grad.bucket", "that all_reduce 'bucket"}, dp2},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_planted(&cases[i]);
}

int main(void)
{
    planted_faults_are_named();
    return tap_done();
}
