/*
 * test_verify.c - compiled layouts are proven. Nothing is trained: jobs of all ranks are compiled and
 * played through.
 */
#include "lib/base/mem.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"
#include "tests/lib/verify_test.h"

/* --- what is sound ---------------------------------------------------------------------------- */

/* Every line of the matrix, with a job for each rank. */
static void the_whole_matrix_is_proven(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    int more = 1, proven = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        struct verify_world w;
        bool good = verify_world_compile(&w, &line.config) && verify_all(&w, false, &err) == SN_OK;
        if (!good)
            tap_ok(false, "%s is proven: %s", line.name, err.text);
        proven += good;
        verify_world_fini(&w);
    }
    tap_ok(f && more == 0 && proven > 100, "%d layouts are proven %s", proven, err.text);
    if (f)
        (void)fclose(f);
}

static void apart_from_their_weight_gradients_too(void)
{
    struct verify_layout l = {
        .name = "pp4 split", .family = SN_LLAMA, .pipeline = 4, .split_backward = true};
    struct verify_world w;
    struct sn_err err = {0};
    if (verify_world_init(&w, &l))
        tap_ok(verify_all(&w, false, &err) == SN_OK, "%s is proven %s", l.name, err.text);
    verify_world_fini(&w);
}

/* --- uses ------------------------------------------------------------------------------------- */

/* As sennit-plan does: a job per stage stands for all its ranks. */
static void ranks_may_share_a_job(void)
{
    struct verify_layout l = {.name = "shared",
                              .family = SN_GPT2,
                              .data = 2,
                              .tensor = 2,
                              .context = 2,
                              .pipeline = 2,
                              .zero = 3,
                              .sequence_parallel = true};
    struct verify_world w;
    struct sn_err err = {0};
    const struct sn_job *jobs[VERIFY_RANKS_MAX];
    if (verify_world_init(&w, &l)) {
        const struct sn_grid *g = &w.jobs[0]->grid;
        for (int i = 0; i < w.ranks; i++)
            jobs[i] = w.jobs[sn_grid_coord(g, i, SN_AXIS_PIPELINE) * g->stride[SN_AXIS_PIPELINE]];
        tap_ok(sn_verify(&(struct sn_verify_world){g, jobs}, NULL, &err) == SN_OK,
               "a job per stage %s", err.text);
        for (int i = 0; i < w.ranks; i++)
            jobs[i] = w.jobs[0];
        tap_ok(sn_verify(&(struct sn_verify_world){g, jobs}, NULL, &err) == SN_EFAIL,
               "the first stage's text on all of them: %s", err.text);
    }
    verify_world_fini(&w);
}

static void no_memory_is_no_verdict(void)
{
    struct verify_layout l = {.name = "oom", .family = SN_LLAMA, .pipeline = 2};
    struct verify_world w;
    struct sn_err err;
    if (verify_world_init(&w, &l)) {
        bool good = true;
        uint64_t before = sn_mem_count();
        (void)verify_all(&w, false, &err);
        uint64_t calls = sn_mem_count() - before;
        for (uint64_t n = 1; n <= calls; n++) {
            sn_mem_fail_at(n);
            good = good && verify_all(&w, false, &err) == SN_ENOMEM;
            sn_mem_fail_at(0);
        }
        tap_ok(good && calls > 10, "each of %d allocations may fail", (int)calls);
    }
    verify_world_fini(&w);
}

int main(void)
{
    the_whole_matrix_is_proven();
    apart_from_their_weight_gradients_too();
    ranks_may_share_a_job();
    no_memory_is_no_verdict();
    return tap_done();
}
