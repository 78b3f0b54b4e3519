/*
 * expert_cases.h - what test_kernels_cuda gives to the operations of experts.
 */
#ifndef EXPERT_CASES_H
#define EXPERT_CASES_H

#include "tests/gpu/case_sizes.h"

enum { EXPERTS = 16, CHOICES = 4 };

static void balance(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t layers = size(60, 8);
    k->a.attr.experts.rate = 0.001f;
    k->scalars.ok = 1;
    struct sn_mat *counts = kt_in(k, 0, shape(SN_F32, layers, EXPERTS));
    for (int64_t l = 0; l < layers; l++)
        for (int e = 0; e < EXPERTS; e++)
            kt_set(counts, l, e, (double)((l + 3 * e) % EXPERTS));
    kt_out(k, 0, shape(SN_F32, layers, EXPERTS), SN_WRITE);
    for (int64_t i = 0; i < layers * EXPERTS; i++)
        kt_set(&k->a.out[0], i / EXPERTS, i % EXPERTS, 0.01 * (double)(i % 7));
}

/* Counts of so many sequences, or of all tokens. */
static void route_counting(struct kt *k, enum sn_op_kind kind, int sequences)
{
    int64_t t = size(8192, 16);
    k->a.attr = (struct sn_attr){
        .experts.count = EXPERTS, .experts.aux_loss = 0.01f, .experts.z_loss = 0.001f};
    k->scalars.tokens_in_step = (double)t;
    k->scalars.loss_scale = 64;
    if (kind == SN_OP_ROUTE) {
        kt_in(k, 0, shape(SN_F32, t, EXPERTS));
        kt_out(k, 0, shape(SN_F32, t, CHOICES), SN_WRITE);
        kt_out(k, 1, shape(SN_I32, t, CHOICES), SN_WRITE);
        kt_out(k, 2, shape(SN_F32, 1, EXPERTS), SN_WRITE);
        return;
    }
    kt_in(k, 0, shape(SN_F32, t, CHOICES));
    kt_in(k, 1, shape(SN_F32, t, EXPERTS));
    struct sn_mat *choice = kt_new(k, 2, shape(SN_I32, t, CHOICES));
    struct sn_mat *counts = kt_in(k, 3, shape(SN_F32, sequences, EXPERTS));
    for (int64_t i = 0; i < t * CHOICES; i++)
        kt_set(choice, i / CHOICES, i % CHOICES,
               (double)((i / CHOICES * 3 + i % CHOICES) % EXPERTS));
    for (int s = 0; s < sequences; s++)
        for (int e = 0; e < EXPERTS; e++)
            kt_set(counts, s, e, (double)((e + 3 * s) % EXPERTS + 1));
    kt_out(k, 0, shape(type, t, EXPERTS), SN_WRITE);
}

static void route(struct kt *k, enum sn_op_kind kind)
{
    route_counting(k, kind, 1);
}

/* A sparsemixer's. Few tokens: where a draw meets the edge between two experts by a rounding, both
 * are right. */
static void route_of_all(struct kt *k, enum sn_op_kind kind)
{
    route(k, kind);
    k->a.attr.experts.of_all = true;
}

static void route_sigmoid(struct kt *k, enum sn_op_kind kind)
{
    route(k, kind);
    k->a.attr.experts.sigmoid = true;
    k->a.attr.experts.route_scale = 2.5f;
    k->a.attr.experts.groups = 8;
    k->a.attr.experts.top_groups = 4;
    k->a.in[SN_ROUTE_DX_COUNTS] = (struct sn_mat){0};
}

/* Balanced in each of 8 sequences, of sigmoids. */
static void route_sequences(struct kt *k, enum sn_op_kind kind)
{
    route_counting(k, kind, 8);
    int64_t t = k->a.out[0].rows;
    k->a.attr.position.seq = t / 8;
    k->a.attr.experts.sigmoid = k->a.attr.experts.by_sequence = true;
    k->a.attr.experts.z_loss = 0;
    if (kind == SN_OP_ROUTE) {
        kt_in(k, 1, shape(SN_F32, 1, EXPERTS));
        kt_out(k, SN_ROUTE_SEQUENCES, shape(SN_F32, 8, EXPERTS), SN_WRITE);
        kt_out(k, SN_ROUTE_OWN, shape(SN_I32, t, CHOICES), SN_WRITE);
    }
}

static void mix(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(512, 16);
    if (kind == SN_OP_ROUTE_DX) {
        route(k, kind);
        k->a.attr.experts.sparsemixer = true;
        k->a.attr.experts.range = 1e6f; /* all are near, and any may have been drawn */
        return;
    }
    k->a.attr = (struct sn_attr){.position.seq = t,
                                 .random.site = 7,
                                 .experts.sparsemixer = true,
                                 .draws = true,
                                 .experts.range = 0.5f};
    k->scalars.seed = 5;
    k->scalars.step = 3;
    kt_in(k, 0, shape(SN_F32, t, EXPERTS));
    kt_out(k, 0, shape(SN_F32, t, 2), SN_WRITE);
    kt_out(k, 1, shape(SN_I32, t, 2), SN_WRITE);
    kt_out(k, 2, shape(SN_F32, 1, EXPERTS), SN_WRITE);
    kt_out(k, 3, shape(SN_F32, t, 2), SN_WRITE);
}

static void place(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t s = size(4096, 16);
    k->a.attr =
        (struct sn_attr){.experts.count = EXPERTS, .position.seq = s, .experts.capacity = s / 5};
    struct sn_mat *choice = kt_new(k, 0, shape(SN_I32, 2 * s, CHOICES));
    for (int64_t i = 0; i < 2 * s * CHOICES; i++)
        kt_set(choice, i / CHOICES, i % CHOICES,
               (double)((i / CHOICES * i / CHOICES + i % CHOICES * 3) % EXPERTS));
    kt_out(k, 0, shape(SN_I32, 2 * s, CHOICES), SN_WRITE);
    kt_out(k, 1, shape(SN_I32, 1, EXPERTS + 1), SN_WRITE);
}

static void arrive(struct kt *k, enum sn_op_kind kind)
{
    enum { SENDERS = 6, EACH = 9 };
    (void)kind;
    k->a.attr = (struct sn_attr){
        .experts.count = EACH, .experts.member = 2, .experts.capacity = 100, .experts.round = 1};
    struct sn_mat *bounds = kt_new(k, 0, shape(SN_I32, SENDERS, SENDERS * EACH + 1));
    for (int64_t m = 0; m < SENDERS; m++)
        for (int64_t e = 0, at = 0; e <= SENDERS * EACH; at += (e * 5 + m) % 11, e++)
            kt_set(bounds, m, e, (double)at);
    kt_out(k, 0, shape(SN_I32, 1, SENDERS * EACH + 1), SN_WRITE);
}

static void arrive_in_chunks(struct kt *k, enum sn_op_kind kind)
{
    arrive(k, kind);
    k->a.attr.experts.capacity = 40;
    k->a.attr.experts.chunk = 1;
    k->a.attr.experts.chunks = 3;
}

static void move_rows(struct kt *k, enum sn_op_kind kind)
{
    int64_t t = size(2048, 16), d = size(4096, 64), n = t * CHOICES;
    bool out = kind == SN_OP_DISPATCH, dw = kind == SN_OP_COMBINE_DW;
    k->magnitude = dw ? sqrt((double)d) : 1.0;
    kt_in(k, 0, shape(type, out || dw ? t : n, d));
    if (dw)
        kt_in(k, 1, shape(type, n, d));
    struct sn_mat *p = kt_new(k, dw ? 2 : 1, shape(SN_I32, t, CHOICES));
    for (int64_t i = 0; i < n; i++)
        kt_set(p, i / CHOICES, i % CHOICES, i % 9 == 0 ? -1.0 : (double)(i * 5 % n));
    if (!dw)
        kt_in(k, 2, shape(SN_F32, t, CHOICES));
    kt_out(k, 0, shape(dw ? SN_F32 : type, out ? n : t, dw ? CHOICES : d), SN_WRITE);
}

static void expert_gemm(struct kt *k, enum sn_op_kind kind)
{
    (void)kind;
    int64_t rows = size(4096, 64), n = size(1024, 16), d = size(512, 16);
    k->magnitude = sqrt((double)d);
    k->a.attr = (struct sn_attr){.gemm.trans_b = true, .experts.count = EXPERTS / 2};
    kt_in(k, 0, shape(type, rows, d));
    kt_in(k, 1, shape(type, EXPERTS / 2 * n, d));
    struct sn_mat *bounds = kt_new(k, 2, shape(SN_I32, 1, EXPERTS + 1));
    for (int s = 0; s <= EXPERTS; s++) /* uneven, and rows of nobody at the end */
        kt_set(bounds, 0, s, (double)(rows * s * s / (EXPERTS * EXPERTS + 9)));
    kt_out(k, 0, shape(type, rows, n), SN_WRITE);
}

#endif
