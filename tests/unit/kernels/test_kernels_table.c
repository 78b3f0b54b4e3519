/*
 * The CPU backend as a whole: it is there, complete and describes itself.
 */
#include "kernels/ops.h"
#include "tests/lib/tap.h"

static void the_table_is_complete(void)
{
    const struct sn_ops *ops = sn_ops_cpu();
    bool full = ops && ops->scratch;
    for (int k = 0; full && k < SN_NKERNELS; k++)
        full = ops->run[k] != NULL;
    tap_ok(full, "every operation has a kernel");
    tap_ok(ops == sn_ops_cpu(), "the choice does not change");
}

static void the_backend_describes_itself(void)
{
    const char *warning = "unset";
    const char *line = sn_ops_cpu_describe(&warning);
    tap_ok(strncmp(line, sn_ops_cpu()->name, strlen(sn_ops_cpu()->name)) == 0,
           "the description starts with the name: %s", line);
    tap_ok(strchr(line, '\n') == NULL, "the description is one line");
    tap_ok(!warning || strcmp(warning, "unset") != 0, "the warning is a sentence or nothing");
}

static bool only_bf16(enum sn_dtype t)
{
    return t == SN_BF16;
}

static void what_is_multiplied_is_said(void)
{
    static const struct sn_ops own = {.multiplies = only_bf16}, none = {0};
    static const struct {
        const struct sn_ops *ops;
        enum sn_dtype t;
        const char *want;
    } cases[] = {{&own, SN_F32, ""},
                 {&own, SN_BF16, ", multiplies bf16 and sums in fp32"},
                 {&own, SN_F16, ", computes in fp32 and keeps fp16"},
                 {&none, SN_BF16, ", computes in fp32 and keeps bf16"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[SN_OPS_TEXT];
        const char *got = sn_ops_arithmetic(cases[i].ops, cases[i].t, text);
        tap_ok(strcmp(got, cases[i].want) == 0, "%s where %s is multiplied: '%s'",
               sn_dtype_name(cases[i].t), cases[i].ops == &own ? "bf16" : "nothing", got);
    }
}

int main(void)
{
    the_table_is_complete();
    the_backend_describes_itself();
    what_is_multiplied_is_said();
    return tap_done();
}
