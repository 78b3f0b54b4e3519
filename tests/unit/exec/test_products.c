/*
 * test_products.c - products of small integers: right with every set of this processor, and one wrong
 * number in one type is an error with the set's name.
 */
#include "kernels/half.h"
#include "kernels/isa.h"
#include "lib/base/mem.h"
#include "lib/exec/products.h"
#include "tests/lib/tap.h"

static void every_set_here_is_right(void)
{
    struct sn_isa list[SN_ISA_MOST];
    const char *lacks;
    (void)sn_ops_cpu(); /* its tables are linked with what chooses one */
    for (int i = 0, n = sn_isa_list(list, &lacks); i < n; i++) {
        struct sn_err err = {0};
        tap_ok(sn_products_check(list[i].ops, &err) == SN_OK, "%s: %s", list[i].ops->name,
               err.text[0] ? err.text : "right");
    }
}

/* The processor's product, and then one number of it another. */
static int wrong_in(const struct sn_args *a, enum sn_dtype t, int64_t at)
{
    int rc = sn_ops_cpu()->run[SN_OP_GEMM](a, 1);
    if (a->in[0].dtype == t)
        ((float *)a->out[0].p)[at] += 1.0f;
    return rc;
}

static int last_fp32(const struct sn_args *a, int threads)
{
    (void)threads;
    return wrong_in(a, SN_F32, a->out[0].rows * a->out[0].cols - 1);
}

static int first_bf16(const struct sn_args *a, int threads)
{
    (void)threads;
    return wrong_in(a, SN_BF16, 0);
}

static int fails(const struct sn_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 1;
}

static void a_wrong_number_is_named(void)
{
    static const struct {
        const char *what;
        int (*gemm)(const struct sn_args *, int);
        const char *want;
    } cases[] = {{"the last in fp32", last_fp32, "in fp32 come out wrong"},
                 {"the first in bf16", first_bf16, "in bf16 come out wrong"},
                 {"a call that fails", fails, "in fp32 come out wrong"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sn_ops ops = *sn_ops_cpu();
        struct sn_err err = {0};
        ops.name = "cpu/planted";
        ops.run[SN_OP_GEMM] = cases[i].gemm;
        tap_ok(sn_products_check(&ops, &err) == SN_EFAIL && strstr(err.text, cases[i].want) &&
                   strncmp(err.text, "cpu/planted: ", 13) == 0,
               "%s: '%s'", cases[i].what, err.text);
    }
}

static void without_memory_it_says_so(void)
{
    struct sn_err err = {0};
    sn_mem_fail_at(1);
    tap_ok(sn_products_check(sn_ops_cpu(), &err) == SN_ENOMEM, "no memory: '%s'", err.text);
    sn_mem_fail_at(0);
}

int main(void)
{
    every_set_here_is_right();
    a_wrong_number_is_named();
    without_memory_it_says_so();
    return tap_done();
}
