/*
 * test_head_rows.c - how many rows of the output head's logits exist at once, by backend.
 */
#include "tests/lib/job_test.h"
#include "tests/lib/tap.h"

/* Blocks of the head in the text; 0: it does not compile, or they are not of these rows. */
static int head_blocks(const struct sn_ops *ops, int micro_batch, int vocab, int64_t rows)
{
    struct sn_config c = job_small();
    c.model.layers = 1;
    c.model.vocab = vocab;
    c.model.seq = 1024;
    c.train.precision = SN_BF16;
    c.train.global_batch = c.layout.micro_batch = micro_batch;
    struct sn_err err = {0};
    struct sn_model *m = NULL;
    struct sn_job *j = NULL;
    int n = 0;
    if (sn_model_create(&m, &c.model, &c.train, &err) == SN_OK) {
        struct sn_job_env env = {.config = &c, .model = m, .ops = ops, .threads = 1};
        if (sn_job_create_text(&j, &env, &err) == SN_OK && j->head_block == rows)
            for (int i = 0; i < j->train.n_ops; i++)
                n += j->train.ops[i].kind == SN_OP_CROSS_ENTROPY;
    }
    sn_job_destroy(j);
    sn_model_destroy(m);
    return n;
}

/* The numbers that kernels/cuda/plugin.c has: tests/cli/test_cuda.sh. */
static void the_backend_says_how_the_head_is_cut(void)
{
    struct sn_ops far = *sn_ops_cpu();
    far.head = (struct sn_head_rows){.bytes = (int64_t)2 << 30, .least = 1024, .multiple = 1024};
    tap_ok(head_blocks(sn_ops_cpu(), 64, 50304, 662) == 99,
           "GPT-2 124M at 64 x 1024: the processor has 99 blocks that fit its cache");
    tap_ok(head_blocks(&far, 64, 50304, 16384) == 4, "a device has 4 of 16 x 1024 rows, 1.5 GiB");
    tap_ok(head_blocks(&far, 4, 50304, 4096) == 1, "what fits is one block");
    tap_ok(head_blocks(&far, 42, 50304, 14 * 1024) == 3, "42 x 1024 rows: 3 blocks");
    tap_ok(head_blocks(&far, 23, 50304, 12 * 1024) == 2, "23 x 1024 rows: the second is shorter");
    tap_ok(head_blocks(&far, 25, 50304, 5 * 1024) == 0 && head_blocks(&far, 25, 50304, 13312) == 2,
           "25 x 1024 rows: not 5 blocks because they would be equal");
    tap_ok(head_blocks(&far, 2, 1 << 21, 1024) == 2, "1024 rows at least, whatever the vocabulary");
}

int main(void)
{
    the_backend_says_how_the_head_is_cut();
    return tap_done();
}
