/*
 * activations_text.c - the table of kept activations, for people and for programs.
 */
#include "lib/report/activations.h"

const char *sn_why_text(enum sn_why w)
{
    static const char *const text[SN_NWHYS] = {
        [SN_WHY_FP32] = "fp32: 4 bytes an element, not 2",
        [SN_WHY_HEADS] = "key and value heads are not as many as query heads",
        [SN_WHY_LATENTS] = "heads are of latents, not D over their number wide",
        [SN_WHY_WIDTH] = "the feed-forward part is not 4 D wide",
        [SN_WHY_GATHERED] = "the gathered copy is kept, the paper gathers again",
        [SN_WHY_SLICED] = "one slice a tensor rank, the paper counts it whole",
        [SN_WHY_AGAIN] = "computed again in backward",
        [SN_WHY_DELAYED] = "read by delayed weight gradients",
        [SN_WHY_DELAYED_AGAIN] = "computed again, then read by delayed weight gradients",
        [SN_WHY_FLASH] = "scores are never kept, their log-sum-exp is",
        [SN_WHY_MASKS] = "masks are drawn again from counters",
        [SN_WHY_PARALLEL] = "parallel block: one sum",
        [SN_WHY_END] = "end of the virtual stage: the paper leaves it out",
        [SN_WHY_TABLE] = "gradient of the shared table, opened by the head",
        [SN_WHY_SENT] = "given by a collective, which is not run again",
        [SN_WHY_CODED] = "a stream of a codec, where values are sent without one",
        [SN_WHY_EXPERTS] = "a token visits k experts, the paper has one feed-forward part",
        [SN_WHY_OURS] = "the paper leaves it out",
        [SN_WHY_THEIRS] = "only the paper keeps it",
        [SN_WHY_ROUNDED] = "rounded up to 64 bytes",
    };
    return text[w];
}

static double literature_of(const struct sn_activations *a)
{
    double sum = 0;
    for (int i = 0; i < a->n; i++)
        sum += a->kept[i].literature;
    return sum;
}

static void text_row(struct sn_str *out, const struct sn_kept *k)
{
    sn_str_add(out, "%c %-22s %4d ", k->late ? '*' : ' ', k->name, k->copies);
    if (k->copies)
        sn_str_add(out, "%8lld x %-7lld %-5s", (long long)k->rows, (long long)k->cols,
                   sn_dtype_name(k->dtype));
    else
        sn_str_add(out, "%24s", "");
    sn_str_add(out, " %14lld %14.0f", (long long)k->bytes, k->literature);
    const char *sep = "  ";
    for (int w = 0; w < SN_NWHYS; w++)
        if (k->why >> w & 1) {
            sn_str_add(out, "%s%s", sep, sn_why_text((enum sn_why)w));
            sep = "; ";
        }
    sn_str_add(out, "\n");
}

static void text_vstage(struct sn_str *out, const struct sn_job *j, int vstage)
{
    const struct sn_program *p = &j->train;
    struct sn_activations a;
    if (!sn_activations(&a, j, vstage)) {
        out->failed = true;
        return;
    }
    int slots = p->slots[vstage];
    sn_str_add(out, "stage %d, stage module %d of %d: %d layer%s, micro-batches in flight: %d\n",
               j->stage, vstage * j->stages + j->stage, j->modules, a.layers,
               a.layers == 1 ? "" : "s", slots);
    sn_str_add(out, "  %-22s %4s %18s %-5s %14s %14s  %s\n", "tensor", "n", "rows x cols    ",
               "type", "bytes", "2205.05198", "why they differ");
    for (int i = 0; i < a.n; i++)
        text_row(out, &a.kept[i]);
    sn_str_add(out, "  %-52s %14lld %14.0f\n", "one micro-batch", (long long)p->slot_bytes[vstage],
               literature_of(&a));
    if (p->lates[vstage])
        sn_str_add(out, "  %-52s %14lld  x %d\n", "* kept for delayed weight gradients",
                   (long long)p->late_bytes[vstage], p->lates[vstage]);
    sn_str_add(out, "  %-52s %14lld %14.0f\n", "all slots",
               (long long)(slots * p->slot_bytes[vstage]), slots * literature_of(&a));
}

void sn_activations_text(struct sn_str *out, const struct sn_job *j)
{
    for (int v = 0; v < j->train.vstages; v++)
        text_vstage(out, j, v);
    sn_str_add(out, "  %-52s %14lld\n", "slots of the stage, in the arena",
               (long long)j->train.slots_bytes);
    sn_str_add(out, "  %-52s %14lld\n", "temporaries of the stage, in the arena",
               (long long)j->train.temp_bytes);
}

static void json_row(struct sn_str *out, const struct sn_kept *k)
{
    sn_str_add(out,
               "{\"name\": \"%s\", \"copies\": %d, \"rows\": %lld, \"cols\": %lld, "
               "\"type\": \"%s\", \"late\": %s, \"bytes\": %lld, \"literature_bytes\": %.0f, "
               "\"differences\": [",
               k->name, k->copies, (long long)k->rows, (long long)k->cols, sn_dtype_name(k->dtype),
               k->late ? "true" : "false", (long long)k->bytes, k->literature);
    const char *sep = "";
    for (int w = 0; w < SN_NWHYS; w++)
        if (k->why >> w & 1) {
            sn_str_add(out, "%s", sep);
            sn_str_add_json(out, sn_why_text((enum sn_why)w));
            sep = ", ";
        }
    sn_str_add(out, "]}");
}

static void json_vstage(struct sn_str *out, const struct sn_job *j, int vstage)
{
    const struct sn_program *p = &j->train;
    struct sn_activations a;
    if (!sn_activations(&a, j, vstage)) {
        out->failed = true;
        return;
    }
    sn_str_add(out,
               "{\"piece\": %d, \"layers\": %d, \"slots\": %d, \"slot_bytes\": %lld, "
               "\"late_copies\": %d, \"late_bytes\": %lld, \"literature_bytes\": %.0f, "
               "\"tensors\": [",
               vstage * j->stages + j->stage, a.layers, p->slots[vstage],
               (long long)p->slot_bytes[vstage], p->lates[vstage], (long long)p->late_bytes[vstage],
               literature_of(&a));
    for (int i = 0; i < a.n; i++) {
        sn_str_add(out, "%s", i ? ", " : "");
        json_row(out, &a.kept[i]);
    }
    sn_str_add(out, "]}");
}

void sn_activations_json(struct sn_str *out, const struct sn_job *j)
{
    sn_str_add(out,
               "{\"stage\": %d, \"slots_bytes\": %lld, \"temporary_bytes\": %lld, \"parts\": [",
               j->stage, (long long)j->train.slots_bytes, (long long)j->train.temp_bytes);
    for (int v = 0; v < j->train.vstages; v++) {
        sn_str_add(out, "%s", v ? ", " : "");
        json_vstage(out, j, v);
    }
    sn_str_add(out, "]}");
}
