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

int main(void)
{
    the_table_is_complete();
    the_backend_describes_itself();
    return tap_done();
}
