/*
 * The rows of operations: each kind has one, and what it says of operands agrees with itself.
 */
#include "lib/program/opinfo.h"
#include "tests/lib/tap.h"

#include <string.h>

/* Without operands: what works on the step's scalars, or on those of a group, alone. */
static bool has_no_operands(int kind)
{
    return kind == SN_OP_CLIP_SCALE || kind == SN_OP_AGREE;
}

static int operands_of(const struct sn_op_row *row)
{
    int n = 0;
    for (int i = 0; i < SN_MAX_IN; i++)
        n += row->in[i].name != NULL;
    for (int o = 0; o < SN_MAX_OUT; o++)
        n += row->out[o].name != NULL;
    return n;
}

static void each_kind_has_a_row_and_a_name(void)
{
    int rows = 0, names = 0;
    for (int k = 0; k < SN_NKINDS; k++) {
        rows += (operands_of(sn_op_row(k)) == 0) == has_no_operands(k);
        bool named = sn_op_name(k) != NULL;
        for (int other = 0; other < k && named; other++)
            named = strcmp(sn_op_name(k), sn_op_name(other)) != 0;
        names += named;
        if (!named)
            printf("# kind %d has the name of another, or none\n", k);
    }
    tap_ok(rows == SN_NKINDS, "%d of %d kinds have a row", rows, SN_NKINDS);
    tap_ok(names == SN_NKINDS, "%d of %d kinds have a name of their own", names, SN_NKINDS);
}

static void each_kernel_is_there(void)
{
    int n = 0;
    for (int k = 0; k < SN_NKERNELS; k++)
        n += sn_ops_cpu()->run[k] != NULL;
    tap_ok(n == SN_NKERNELS, "the processor has %d of %d kernels", n, (int)SN_NKERNELS);
}

/* An output takes the place of an input of its kind, and adds nothing to what it takes. */
static bool takes_rightly(const struct sn_op_row *row, const struct sn_operand_info *out)
{
    for (int c = 0; c < 2; c++) {
        int in = out->takes[c] - 1;
        if (in >= SN_MAX_IN || (in >= 0 && !row->in[in].name))
            return false;
    }
    return out->name || (out->takes[0] == 0 && out->takes[1] == 0);
}

static void outputs_take_the_places_of_inputs(void)
{
    int wrong = 0;
    for (int k = 0; k < SN_NKINDS; k++)
        for (int o = 0; o < SN_MAX_OUT; o++) {
            bool right = takes_rightly(sn_op_row(k), &sn_op_row(k)->out[o]);
            wrong += !right;
            if (!right)
                printf("# %s: output %d\n", sn_op_name(k), o);
        }
    tap_ok(wrong == 0, "places that outputs take are those of inputs");
}

static void roles_are_of_the_right_side(void)
{
    const unsigned of_outputs = SN_ROLE_ADDED | SN_ROLE_UPDATED | SN_ROLE_ANY_ORDER;
    int wrong = 0;
    for (int k = 0; k < SN_NKINDS; k++) {
        const struct sn_op_row *row = sn_op_row(k);
        unsigned read = 0;
        for (int i = 0; i < SN_MAX_IN; i++) {
            wrong += (row->in[i].roles & of_outputs) != 0 || (row->in[i].roles && !row->in[i].name);
            read |= row->in[i].roles & SN_ROLE_GRADIENT;
        }
        for (int o = 0; o < SN_MAX_OUT; o++) {
            unsigned r = row->out[o].roles;
            wrong += (r && !row->out[o].name) || ((r & SN_ROLE_ANY_ORDER) && !(r & SN_ROLE_ADDED));
            read |= r & SN_ROLE_GRADIENT;
        }
        wrong += (read || row->dx || row->dw) && !row->gradient;
    }
    tap_ok(wrong == 0, "roles of outputs are on outputs, those of gradients where there is a rule");
}

static void what_moves_is_no_kernel(void)
{
    int wrong = 0;
    for (int k = 0; k < SN_NKINDS; k++) {
        const struct sn_op_row *row = sn_op_row(k);
        bool message = row->moves || row->synchronises || k == SN_OP_ALIAS;
        wrong += message != (k >= SN_NKERNELS) || message != (row->cost == SN_COST_MESSAGE);
        wrong += (row->is_sum || row->counts_rows || row->may_be_coded) && !row->moves;
        wrong += (row->moves || k == SN_OP_AGREE) != (row->stream != SN_STREAM_COMPUTE);
        wrong += sn_op_is_posted(&(struct sn_op){.kind = k}) != row->moves;
    }
    tap_ok(wrong == 0, "messages follow the kernels, and have their columns alone");
}

int main(void)
{
    each_kind_has_a_row_and_a_name();
    each_kernel_is_there();
    outputs_take_the_places_of_inputs();
    roles_are_of_the_right_side();
    what_moves_is_no_kernel();
    return tap_done();
}
