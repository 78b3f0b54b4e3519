/*
 * layout_test.h - one training run in any layout, in this process, with its losses.
 */
#ifndef SN_LAYOUT_TEST_H
#define SN_LAYOUT_TEST_H

#include "lib/config/config.h"
#include "lib/machine/machine.h"
#include "lib/program/program.h"

enum { LAYOUT_STEPS_MAX = 64 };
struct sn_exec;

struct layout_run {
    int steps;
    /* in: called by each rank behind each of its steps, with `seen` */
    void (*see)(void *seen, struct sn_exec *x, const struct sn_job *j, int step);
    void *seen;
    const struct sn_machine *pace; /* in: sleep by it instead of computing; routing is balanced */
    bool level_routers;      /* in: their weights are 0, so that the first experts get all tokens */
    int node_ranks;          /* in: so many neighbours are a node; of the exchanges of a run */
    int64_t inside, outside; /* bytes between ranks of one node, and of others; */
    int64_t messages;        /* these in so many */
    int64_t routed;          /* bytes that went to experts and back, of all ranks and steps */
    int64_t gathered;        /* and between the tensor ranks that share windows */
    int64_t sent[SN_NAXES];  /* all bytes, by axis */
    bool fuses;      /* in: products have other operations as epilogues wherever that may be */
    long fused;      /* products of rank 0 that have */
    bool on_devices; /* in: each rank on a fake device (tests/lib/fake_device.h) */
    long in_graphs;  /* kernels of rank 0 that were part of a graph */
    long kept_kernels, kept_marks; /* that its graphs have */
    int idle;                      /* how often rank 0 had time while its device had work */
    long splits;                   /* channels of rank 0 that are parts of others */
    long pins_before, pins;        /* page-locked ranges before something was saved, and then */
    double loss[LAYOUT_STEPS_MAX], norm[LAYOUT_STEPS_MAX];
    double val_loss;
    double max_vio[LAYOUT_STEPS_MAX]; /* of experts' load: mean over layers, + 100 x the worst */
    bool expert_load_is_whole;        /* every layer's experts got all choices, in every step */
    bool traffic_is_planned;          /* every rank, every axis, every step */
    bool copies_are_whole; /* of the state, made beside each step; without devices always */
    char fault[768];       /* "" when it ran */
};

/* A small model whose sizes suit 1 to 4 ways of everything (heads 12, seq 48). */
struct sn_config layout_config(enum sn_family family);
int layout_ranks(const struct sn_config *c);
/* Train for out->steps steps on synthetic tokens; ranks are threads. */
void layout_train(struct layout_run *out, const struct sn_config *c);
/* Largest relative difference of losses (and of gradient norms). */
double layout_difference(const struct layout_run *a, const struct layout_run *b);

#endif
