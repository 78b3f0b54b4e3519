#include "lib/state/state.h"

#include "kernels/frozen.h"
#include "kernels/half.h"

#include <stdlib.h>
#include <string.h>

static const char feedback[] = "feedback.";

int sn_state_holder(const char *group)
{
    size_t skip = sizeof(feedback) - 1;
    if (strncmp(group, feedback, skip) != 0)
        return -1;
    const char *digits = group + skip;
    size_t n = strspn(digits, "0123456789");
    bool is_number = n > 0 && n < 10 && digits[n] == '\0' && (digits[0] != '0' || n == 1);
    return is_number ? (int)strtol(digits, NULL, 10) : -1;
}

bool sn_state_has_levels(const struct sn_state_scalars *s)
{
    for (int i = 0; i < SN_NCODED; i++)
        if (s->codec_level[i] != 0)
            return true;
    return false;
}

bool sn_state_is_extra(const char *group)
{
    return strcmp(group, "replica") == 0 || sn_state_holder(group) >= 0;
}

bool sn_state_may_lack(const char *group)
{
    return strcmp(group, "ema") == 0 || sn_state_is_extra(group);
}

static void *address(const struct sn_state_tensor *t, int64_t row, int64_t col)
{
    return (char *)t->p + (row * t->ld + col) * (int64_t)sn_dtype_size(t->dtype);
}

void sn_state_get(const struct sn_state_tensor *t, int64_t row, int64_t col, int64_t n, float *out)
{
    if (t->codec) {
        sn_frozen_get(t->codec, t->p, row * t->ld + col, n, out);
        return;
    }
    const void *p = address(t, row, col);
    const uint16_t *half = p;
    if (t->dtype == SN_F32)
        memcpy(out, p, (size_t)n * sizeof(*out));
    for (int64_t i = 0; t->dtype != SN_F32 && i < n; i++)
        out[i] = t->dtype == SN_BF16 ? sn_bf16_to_f32(half[i]) : sn_f16_to_f32(half[i]);
}

/* To nothing yet, a value is added as it is: -0 too. */
static void add(float *to, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = to[i] == 0 ? in[i] : to[i] + in[i];
}

void sn_state_put(const struct sn_state_tensor *t, int64_t row, int64_t col, int64_t n,
                  const float *in)
{
    if (t->codec) {
        sn_frozen_put(t->codec, t->p, row * t->ld + col, n, in);
        return;
    }
    void *p = address(t, row, col);
    uint16_t *half = p;
    if (t->folds > 0)
        add(p, in, n);
    else if (t->dtype == SN_F32)
        memcpy(p, in, (size_t)n * sizeof(*in));
    for (int64_t i = 0; t->dtype != SN_F32 && i < n; i++)
        half[i] = t->dtype == SN_BF16 ? sn_f32_to_bf16(in[i]) : sn_f32_to_f16(in[i]);
}

void sn_state_clear_feedback(const struct sn_state *s)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        for (int64_t r = 0; t->folds > 0 && r < t->n_rows; r++)
            memset(address(t, r, 0), 0, (size_t)t->n_cols * sizeof(float));
    }
}
