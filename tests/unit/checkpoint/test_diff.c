/* Comparing two sources: what differs is named and counted, whatever the memory. */
#include "checkpoint/convert/inspect.h"
#include "tests/lib/source_test.h"

#define MODEL "model:\n  family: llama\n  hidden: 64\n  heads: 4\n"
enum { ROWS = 70, COLS = 3000, LONG = 50000 };

/* Two sources of the same three tensors: a matrix, a vector, and a single row
 * longer than a strip. */
struct both {
    struct fake a, b;
    struct sn_source of_a, of_b;
    struct sn_diff d;
    struct sn_str out;
    struct sn_err err;
};

static void fill(struct fake *f)
{
    static const struct sn_source_tensor t[] = {{"exp_avg", "empty", 0, 5, SN_F32},
                                                {"model", "long", 2, LONG, SN_F32},
                                                {"model", "matrix", ROWS, COLS, SN_F32},
                                                {"model", "vector", COLS, 1, SN_F32}};
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        float *p = fake_add(f, t[i].group, t[i].name, t[i].rows, t[i].cols);
        sn_rng_normal(sn_rng_key(1, t[i].name), 0, (size_t)(t[i].rows * t[i].cols), 1.0f, p);
    }
}

static void setup(struct both *x)
{
    *x = (struct both){.err = {.text = ""}};
    fill(&x->a);
    fill(&x->b);
    x->of_a = fake_source(&x->a, MODEL);
    x->of_b = fake_source(&x->b, MODEL);
    x->of_a.name = "A";
    x->of_b.name = "B";
}

static void teardown(struct both *x)
{
    sn_str_fini(&x->out);
    fake_fini(&x->a);
    fake_fini(&x->b);
}

static const char *compare(struct both *x, int64_t memory)
{
    sn_str_fini(&x->out);
    if (sn_diff_sources(&x->d, &x->out, &x->of_a, &x->of_b, memory, &x->err) != SN_OK)
        return x->err.text;
    return x->out.p ? x->out.p : "";
}

static float *values(struct fake *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return f->values[i];
    return NULL;
}

static void equal_sources_have_no_lines(void)
{
    struct both x;
    setup(&x);
    values(&x.a, "vector")[7] = values(&x.b, "vector")[7] = NAN;
    for (int64_t memory = 1; memory <= INT64_C(1) << 40; memory *= 1024) {
        tap_text(compare(&x, memory), "", "the same values, the same NaN: no line");
        tap_ok(x.d.tensors == 4 && x.d.different == 0 && x.d.missing == 0 &&
                   x.d.values == 2 * LONG + ROWS * COLS + COLS && x.d.different_values == 0 &&
                   x.d.largest == 0 && x.d.scalars == 0,
               "%lld bytes: all is counted", (long long)memory);
        tap_ok(x.a.read == x.b.read && x.a.at == x.a.n_wants && x.b.at == x.b.n_wants,
               "all was read");
    }
    teardown(&x);
}

static void memory_is_divided(void)
{
    struct both x;
    setup(&x);
    (void)compare(&x, 16 << 20);
    tap_ok(x.a.memory == x.b.memory && x.a.memory == 6 << 20,
           "an eighth for the values of each, the rest for the two feeds");
    teardown(&x);
}

static void values_that_differ_are_counted_and_placed(void)
{
    struct both x;
    setup(&x);
    float *a = values(&x.a, "matrix"), *b = values(&x.b, "matrix");
    a[20 * COLS + 5] = 1.0f;
    b[20 * COLS + 5] = 1.25f;
    a[69 * COLS] = 3.0f;
    b[69 * COLS] = 2.5f;
    values(&x.a, "long")[LONG + 40000] = 0.0f;
    values(&x.b, "long")[LONG + 40000] = -0.0f;
    values(&x.b, "vector")[2999] = NAN;
    for (int64_t memory = 1 << 10; memory <= 1 << 30; memory *= 1024) {
        tap_text(compare(&x, memory),
                 "model long: 1 of 100000 values differ, by at most 0, the first at row 1, column "
                 "40000\n"
                 "model matrix: 2 of 210000 values differ, by at most 0.5, the first at row 20, "
                 "column 5\n"
                 "model vector: 1 of 3000 values differ, by at most inf, the first at row 2999, "
                 "column 0\n",
                 "each tensor has its line");
        tap_ok(x.d.different == 3 && x.d.different_values == 4 && isinf(x.d.largest), "and is "
                                                                                      "counted");
    }
    x.b.tensors[2].dtype = SN_BF16;
    tap_ok(strstr(compare(&x, 1 << 20), "row 20, column 5 (fp32 against bf16)\n"),
           "types that differ are told with the values");
    teardown(&x);
}

static void tensors_of_one_only_are_named(void)
{
    struct both x;
    setup(&x);
    (void)snprintf(x.b.names[2], sizeof(x.b.names[2]), "metrix");
    x.b.tensors[1].rows = 1;
    tap_text(compare(&x, 1 << 20),
             "model long: is 2 x 50000 in A and 1 x 50000 in B\n"
             "model matrix: only in A\n"
             "model metrix: only in B\n",
             "missing tensors and other shapes are named");
    tap_ok(x.d.missing == 2 && x.d.different == 1 && x.d.tensors == 3 && x.d.values == COLS,
           "and counted");
    teardown(&x);
}

static void scalars_are_compared(void)
{
    struct both x;
    setup(&x);
    x.of_b.scalars = (struct sn_state_scalars){8, 701, 6, 2, 0, 0.5f, {[SN_CODED_ZERO] = 2}, 2, 9};
    x.of_b.model_text = "model:\n  family: llama\n  hidden: 128\n  heads: 4\n";
    tap_text(compare(&x, 1 << 20),
             "step: 7 against 8\ntokens: 700 against 701\nskipped: 1 against 0\n"
             "loss_scale: 8 against 0.5\nadapter_scale: 0 against 2\nblend: 0 against 9\n"
             "codec_level of zero: 0 against 2\nmodel: 'hidden: 64' against 'hidden: 128'\n",
             "each has its line");
    tap_ok(x.d.scalars == 8, "and is counted");
    x.of_b.scalars = x.of_a.scalars;
    x.of_b.model_text = "model:\n  family: llama\n  hidden: 64\n";
    tap_text(compare(&x, 1 << 20), "model: 'heads: 4' against ''\n", "a line less is told");
    teardown(&x);
}

static void a_failed_read_is_the_sentence(void)
{
    struct both x;
    setup(&x);
    x.b.fail_at = 2;
    tap_text(compare(&x, 1 << 20), "fake: read 2 fails", "of either source");
    teardown(&x);
}

static void every_allocation_may_fail(void)
{
    struct both x;
    setup(&x);
    values(&x.b, "vector")[0] += 1;
    int failed = 0;
    bool good = true, done = false;
    for (uint64_t n = 1; !done; n++) {
        sn_str_fini(&x.out);
        sn_mem_fail_at(n);
        enum sn_status st = sn_diff_sources(&x.d, &x.out, &x.of_a, &x.of_b, 1 << 20, &x.err);
        sn_mem_fail_at(0);
        done = st == SN_OK;
        failed += !done;
        good = good && (done || st == SN_ENOMEM);
    }
    tap_ok(good && failed >= 5, "%d allocations fail in turn, each with a sentence", failed);
    teardown(&x);
}

int main(void)
{
    equal_sources_have_no_lines();
    memory_is_divided();
    values_that_differ_are_counted_and_placed();
    tensors_of_one_only_are_named();
    scalars_are_compared();
    a_failed_read_is_the_sentence();
    every_allocation_may_fail();
    return tap_done();
}
