/*
 * sweep.c - the A100 sweep of arXiv 2311.05610: layouts/aa_layouts_sweep.csv and aa_llama_30b_256.csv.
 *
 * All rows have one profile. A group, for leaving it out, is a model at a number of devices and a
 * length of sequences.
 */
#include "tests/bench/foreign/rows.h"

#include <stdio.h>
#include <string.h>

enum { VOCAB = 128000 };

static enum sn_attention_kernel kernel_of(const char *name)
{
    return strcmp(name, "flash2") == 0       ? SN_ATTENTION_FLASH2
           : strcmp(name, "flash1.0.8") == 0 ? SN_ATTENTION_FLASH1
           : strcmp(name, "torch") == 0      ? SN_ATTENTION_TORCH
                                             : SN_ATTENTION_FUSED;
}

/* "data/seqpara/llama_13B_bfloat16_64_GPUs_all_runs.xlsx": without folder and ending */
static void name_sheet(struct row *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(r->sheet, sizeof(r->sheet), "%s", slash ? slash + 1 : path);
    r->sheet[strcspn(r->sheet, ".")] = 0;
}

static enum sn_status take(void *arg, const struct table *t, struct sn_err *err)
{
    struct rows *rows = arg;
    const char *status = table_text(t, "status");
    if (strcmp(status, "oom") != 0 && table_number(t, "step_time_s") <= 0) {
        rows->unused++;
        return SN_OK;
    }
    struct row *r;
    SN_TRY(rows_add(rows, &r, err));
    name_sheet(r, table_text(t, "sheet"));
    (void)snprintf(r->id, sizeof(r->id), "%s", table_text(t, "trial_id"));
    const char *model = table_text(t, "model");
    (void)snprintf(r->group, sizeof(r->group), "%.5s, %ld, %ldk",
                   model + strcspn(model, "0123456789"), table_int(t, "gpus"),
                   table_int(t, "seq") / 1024);
    r->machine = "dgx-a100-80";
    r->software = "aleph-alpha-2023";
    r->attention = kernel_of(table_text(t, "attn"));
    r->fused_norm = table_int(t, "rmsnorm_kernel") != 0;
    r->outcome = strcmp(status, "oom") == 0 ? ROW_OOM : ROW_TIMED;
    r->seconds = table_number(t, "step_time_s");
    enum sn_status st =
        row_configure(r,
                      &(struct row_layout){
                          .layers = (int)table_int(t, "layers"),
                          .hidden = (int)table_int(t, "hidden"),
                          .heads = (int)table_int(t, "heads"),
                          .kv_heads = (int)table_int(t, "heads"),
                          .ffn = (int)table_int(t, "ffn"),
                          .vocab = VOCAB,
                          .seq = (int)table_int(t, "seq"),
                          .batch = (int)table_int(t, "gbs"),
                          .tensor = (int)table_int(t, "tp"),
                          .pipeline = (int)table_int(t, "pp"),
                          .context = 1,
                          .data = (int)table_int(t, "dp"),
                          .micro_batch = (int)table_int(t, "mbs"),
                          .virtual_stages = 1,
                          .zero = 1,
                          .sequence_parallel = strcmp(table_text(t, "seq_parallel"), "True") == 0,
                          .recompute = strcmp(table_text(t, "act_ckpt"), "every_layer") == 0,
                      },
                      err);
    if (st != SN_EINPUT)
        return st;
    rows->n--; /* a layout that our rules refuse */
    rows->unused++;
    return SN_OK;
}

enum sn_status rows_read_sweep(struct rows *rows, const char *folder, struct sn_err *err)
{
    char path[SN_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/aa_layouts_sweep.csv", folder);
    SN_TRY(table_read(path, take, rows, err));
    (void)snprintf(path, sizeof(path), "%s/aa_llama_30b_256.csv", folder);
    return table_read(path, take, rows, err);
}
