/*
 * test_prove.cc - the warpgroup product that a device is asked for before a run believes it
 * (kernels/cuda/prove.cu), on the emulation: its sums are those that prove.c wants.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/prove.h"
#include "tests/cuda_emul/emul.h"

int main(void)
{
    static struct sn_cuda cx;
    static float out[SN_PROVE_ROWS * SN_PROVE_COLS];
    int wrong = 0, rc;
    cx.device = {90, 4, 227 * 1024, 0};
    memset(out, 0xff, sizeof(out));
    rc = sn_cuda_prove_warpgroup(&cx, out);
    for (int row = 0; row < SN_PROVE_ROWS; row++)
        for (int col = 0; col < SN_PROVE_COLS; col++) {
            int sum = 0;
            for (int k = 0; k < SN_PROVE_DEPTH; k++)
                sum += sn_prove_a(row, k) * sn_prove_b(k, col);
            wrong += out[row * SN_PROVE_COLS + col] != (float)sum;
        }
    printf("%sok 1 - the warpgroup product begins\n", rc == 0 ? "" : "not ");
    printf("%sok 2 - its sums are right (%d are not)\n1..2\n", wrong == 0 ? "" : "not ", wrong);
    return rc != 0 || wrong != 0;
}
