/*
 * SQ_NORM, CLIP_SCALE, ADAMW, LION: the end of a step.
 */
#include "tests/lib/kernel_test.h"

/* --- SQ_NORM --------------------------------------------------------------------------------- */

static void sq_norm_adds_squares_for_every_thread_count(void)
{
    static const int64_t sizes[] = {1, 7, 64, 65536, 65537, 200003};
    const struct sn_ops *table[KT_TABLES];
    int n = kt_tables(table);
    bool right = true, same = true;
    for (int i = 0; i < 6; i++) {
        struct kt k = {0};
        const struct sn_mat *g = kt_in(&k, 0, (struct kt_shape){SN_F32, 1, sizes[i], 0});
        double want = 3.0;
        for (int64_t c = 0; c < sizes[i]; c++)
            want += kt_get(g, 0, c) * kt_get(g, 0, c);
        for (int t = 0; t < n; t++) {
            double first = 0.0;
            for (int threads = 1; threads <= 4; threads++) {
                k.scalars = (struct sn_scalars){.sq_norm = 3.0, .nonfinite = 2};
                right = kt_run(&k, table[t], SN_OP_SQ_NORM, threads) && right;
                first = threads == 1 ? k.scalars.sq_norm : first;
                same = same && k.scalars.sq_norm == first;
                right = right && fabs(k.scalars.sq_norm - want) <= 1e-13 * want;
                right = right && k.scalars.nonfinite == 2;
            }
        }
        kt_free(&k);
    }
    tap_ok(right, "SQ_NORM adds the sum of squares to what is there");
    tap_ok(same, "SQ_NORM is bit-identical for 1, 2, 3 and 4 threads");
}

static void sq_norm_counts_what_is_not_finite(void)
{
    struct kt k = {0};
    const struct sn_mat *g = kt_in(&k, 0, (struct kt_shape){SN_F32, 1, 70001, 0});
    kt_set(g, 0, 0, NAN);
    kt_set(g, 0, 65536, INFINITY);
    kt_set(g, 0, 70000, -INFINITY);
    kt_set(g, 0, 5, 3e38); /* its square overflows a float, not a double */
    bool ran = kt_run(&k, sn_ops_cpu(), SN_OP_SQ_NORM, 2);
    kt_free(&k);
    tap_ok(ran && k.scalars.nonfinite == 3, "SQ_NORM counts NaNs and infinities");
}

/* --- CLIP_SCALE ---------------------------------------------------------------------------------- */

static struct sn_scalars decide(struct sn_scalars s, bool dynamic)
{
    struct sn_args a = {.scalars = &s, .attr = {.optimizer.dynamic_scale = dynamic}};
    (void)sn_ops_cpu()->run[SN_OP_CLIP_SCALE](&a, 1); /* cannot fail */
    return s;
}

static void decide_clips_as_pytorch_does(void)
{
    struct sn_scalars s = {.sq_norm = 16.0, .clip = 1.0f, .loss_scale = 1.0f, .adam_count = 4};
    struct sn_scalars d = decide(s, false);
    tap_close(d.grad_norm, 4.0, 1e-15, 0, "grad_norm is the root of sq_norm");
    tap_close((double)d.grad_scale, 1.0 / (4.0 + 1e-6), 1e-7, 0,
              "clipping is clip / (norm + 1e-6)");
    tap_ok(d.ok == 1 && d.adam_count == 5 && d.skipped == 0,
           "a finite step updates and is counted");
    s.clip = 4.0f;
    tap_close((double)decide(s, false).grad_scale, 1.0, 0, 0, "a norm of just clip is left alone");
    s.clip = 0.0f;
    tap_close((double)decide(s, false).grad_scale, 1.0, 0, 0, "clip 0 turns clipping off");
    s.clip = 1e-3f;
    s.sq_norm = 1.0000001e-6;
    tap_ok(decide(s, false).grad_scale <= 1.0f, "clipping never enlarges");
}

static void decide_divides_by_the_scale_the_gradients_were_made_with(void)
{
    struct sn_scalars s = {.sq_norm = 16.0 * 1024 * 1024, .loss_scale = 1024.0f, .scale_age = 1999};
    struct sn_scalars d = decide(s, true);
    tap_close(d.grad_norm, 4.0, 1e-15, 0, "grad_norm is free of the loss scale");
    tap_close((double)d.grad_scale, 1.0 / 1024, 0, 0, "grad_scale undoes this step's loss scale");
    tap_ok(d.loss_scale == 2048.0f && d.scale_age == 0,
           "the scale doubles after 2000 clean updates");
    s.scale_age = 1998;
    d = decide(s, true);
    tap_ok(d.loss_scale == 1024.0f && d.scale_age == 1999, "and not after 1999");
    s = (struct sn_scalars){.loss_scale = 0x1p24f, .scale_age = 1999};
    tap_ok(decide(s, true).loss_scale == 0x1p24f, "the scale stays at most 2^24");
    s.loss_scale = 8.0f;
    d = decide(s, false);
    tap_ok(d.loss_scale == 8.0f && d.scale_age == 1999, "a fixed scale stays");
}

static void decide_skips_what_is_not_finite(void)
{
    struct sn_scalars s = {.sq_norm = NAN,
                           .nonfinite = 1,
                           .loss_scale = 1024.0f,
                           .adam_count = 7,
                           .scale_age = 5,
                           .skipped = 1};
    struct sn_scalars d = decide(s, true);
    tap_ok(d.ok == 0 && d.skipped == 2 && d.adam_count == 7,
           "overflow: no update, counted as skipped");
    tap_ok(d.loss_scale == 512.0f && d.scale_age == 0, "overflow halves the scale");
    s.nonfinite = 0;
    s.sq_norm = INFINITY;
    tap_ok(decide(s, true).ok == 0, "an infinite sum alone is overflow too");
    d = decide(s, false);
    tap_ok(d.ok == 0 && d.loss_scale == 1024.0f, "a fixed scale skips as well, and stays");
    s.loss_scale = 0x1p-24f;
    tap_ok(decide(s, true).loss_scale == 0x1p-24f, "the scale stays at least 2^-24");
}

/* --- ADAMW ----------------------------------------------------------------------------------- */

struct adam {
    double lr, b1, b2, eps, decay, grad_scale, t;
};

/* torch.optim.AdamW's single-tensor step, in double. */
static void adam_step(const struct adam *h, double g, double *p, double *m, double *v)
{
    g *= h->grad_scale;
    *p *= 1.0 - h->lr * h->decay;
    *m += (g - *m) * (1.0 - h->b1);
    *v = *v * h->b2 + (1.0 - h->b2) * g * g;
    double step = h->lr / (1.0 - pow(h->b1, h->t));
    double denominator = sqrt(*v) / sqrt(1.0 - pow(h->b2, h->t)) + h->eps;
    *p -= step * *m / denominator;
}

static const struct sn_attr attr = {.optimizer.beta1 = 0.9f,
                                    .optimizer.beta2 = 0.95f,
                                    .optimizer.eps = 1e-8f,
                                    .optimizer.decay = 0.1f};

static struct adam adam_of(const struct sn_scalars *s)
{
    return (struct adam){.lr = (double)s->lr,
                         .b1 = (double)attr.optimizer.beta1,
                         .b2 = (double)attr.optimizer.beta2,
                         .eps = (double)attr.optimizer.eps,
                         .decay = (double)attr.optimizer.decay,
                         .grad_scale = (double)s->grad_scale,
                         .t = (double)s->adam_count};
}

static bool adamw_case(int64_t n, int64_t count, int copy_dtype)
{
    struct kt k = {.magnitude = 0.1,
                   .scalars = {.ok = 1, .lr = 3e-3f, .grad_scale = 0.5f, .adam_count = count}};
    struct kt_shape s = {SN_F32, 1, n, 0};
    kt_in(&k, 0, s);
    k.a.attr = attr;
    for (int o = 0; o < 3; o++)
        kt_out(&k, o, s, SN_ADD); /* filled: it is read */
    for (int64_t i = 0; i < n; i++)
        kt_set(&k.a.out[2], 0, i, fabs(kt_get(&k.a.out[2], 0, i)) + (double)(i % 3) * 1e-3);
    double *p = kt_ref(&k, 0), *m = kt_ref(&k, 1), *v = kt_ref(&k, 2), *w = NULL;
    if (copy_dtype >= 0) {
        s.dtype = (enum sn_dtype)copy_dtype;
        kt_out(&k, 3, s, SN_WRITE);
        w = kt_ref(&k, 3);
    }
    struct adam h = adam_of(&k.scalars);
    for (int64_t i = 0; i < n; i++) {
        adam_step(&h, kt_get(&k.a.in[0], 0, i), &p[i], &m[i], &v[i]);
        if (w)
            w[i] = p[i];
    }
    bool good = kt_check(&k, SN_OP_ADAMW, 1e-6);
    kt_free(&k);
    return good;
}

static void adamw_follows_pytorch(void)
{
    static const int64_t sizes[] = {1, 7, 64, 100, 257, 1024, 20011};
    bool good = true;
    for (int i = 0; i < 7; i++)
        for (int copy = -1; copy < 3; copy++)
            good = adamw_case(sizes[i], 1 + 999 * (i % 2), copy) && good;
    tap_ok(good, "ADAMW equals torch.optim.AdamW's step, with and without a storage copy");
}

static void adamw_follows_pytorch_over_many_steps(void)
{
    enum { N = 50, STEPS = 200 };
    struct kt k = {.scalars = {.ok = 1, .lr = 1e-2f, .grad_scale = 1.0f}};
    struct kt_shape s = {SN_F32, 1, N, 0};
    kt_in(&k, 0, s);
    k.a.attr = attr;
    for (int o = 0; o < 3; o++) {
        const struct sn_mat *m = kt_new(&k, SN_MAX_IN + o, s);
        for (int64_t i = 0; i < N; i++)
            kt_set(m, 0, i, 0.0);
    }
    double p[N] = {0}, m[N] = {0}, v[N] = {0}, worst = 0.0;
    for (int t = 1; t <= STEPS; t++) {
        k.scalars.adam_count = t;
        kt_fill_normal(&k, &k.a.in[0]);
        struct adam h = adam_of(&k.scalars);
        for (int64_t i = 0; i < N; i++)
            adam_step(&h, kt_get(&k.a.in[0], 0, i), &p[i], &m[i], &v[i]);
        (void)kt_run(&k, sn_ops_cpu(), SN_OP_ADAMW, 1); /* judged by the parameters */
    }
    for (int64_t i = 0; i < N; i++)
        worst = fmax(worst, fabs(kt_get(&k.a.out[0], 0, i) - p[i]));
    kt_free(&k);
    tap_ok(worst < 3e-6, "ADAMW stays with PyTorch's over 200 steps (off by %.2g)", worst);
}

static void adamw_does_nothing_after_overflow(void)
{
    struct kt k = {.scalars = {.ok = 0, .lr = 1.0f, .adam_count = 1}};
    struct kt_shape s = {SN_F32, 1, 100, 0};
    kt_in(&k, 0, s);
    k.a.attr = attr;
    for (int o = 0; o < 4; o++) {
        kt_out(&k, o, s, SN_ADD);
        kt_ref(&k, o); /* what it was */
    }
    tap_ok(kt_check(&k, SN_OP_ADAMW, 0.0), "ADAMW leaves everything alone when the step is not ok");
    kt_free(&k);
}

/* --- LION ------------------------------------------------------------------------------------ */

/* Algorithm 2 of arXiv 2302.06675, in double. */
static void lion_step(const struct adam *h, double g, double *p, double *m)
{
    g *= h->grad_scale;
    double c = h->b1 * *m + (1.0 - h->b1) * g;
    *p -= h->lr * ((double)((c > 0.0) - (c < 0.0)) + h->decay * *p);
    *m = h->b2 * *m + (1.0 - h->b2) * g;
}

/* Every tenth element has neither gradient nor moment: it has no sign. */
static bool lion_case(int64_t n, int copy_dtype)
{
    struct kt k = {.magnitude = 0.1,
                   .scalars = {.ok = 1, .lr = 3e-3f, .grad_scale = 0.5f, .adam_count = 3}};
    struct kt_shape s = {SN_F32, 1, n, 0};
    kt_in(&k, SN_UPDATE_G, s);
    k.a.attr = attr;
    kt_out(&k, SN_UPDATE_P, s, SN_ADD); /* filled: it is read */
    kt_out(&k, SN_UPDATE_M, s, SN_ADD);
    for (int64_t i = 0; i < n; i += 10) {
        kt_set(&k.a.in[SN_UPDATE_G], 0, i, 0.0);
        kt_set(&k.a.out[SN_UPDATE_M], 0, i, 0.0);
    }
    double *p = kt_ref(&k, SN_UPDATE_P), *m = kt_ref(&k, SN_UPDATE_M), *w = NULL;
    if (copy_dtype >= 0) {
        s.dtype = (enum sn_dtype)copy_dtype;
        kt_out(&k, SN_UPDATE_W, s, SN_WRITE);
        w = kt_ref(&k, SN_UPDATE_W);
    }
    struct adam h = adam_of(&k.scalars);
    for (int64_t i = 0; i < n; i++) {
        lion_step(&h, kt_get(&k.a.in[SN_UPDATE_G], 0, i), &p[i], &m[i]);
        if (w)
            w[i] = p[i];
    }
    bool good = kt_check(&k, SN_OP_LION, 1e-6);
    kt_free(&k);
    return good;
}

static void lion_follows_its_paper(void)
{
    static const int64_t sizes[] = {1, 7, 64, 100, 257, 1024, 20011};
    bool good = true;
    for (int i = 0; i < 7; i++)
        for (int copy = -1; copy < 3; copy++)
            good = lion_case(sizes[i], copy) && good;
    tap_ok(good, "LION equals its paper's step, with and without a storage copy");
}

static void lion_does_nothing_after_overflow(void)
{
    struct kt k = {.scalars = {.ok = 0, .lr = 1.0f, .adam_count = 1}};
    struct kt_shape s = {SN_F32, 1, 100, 0};
    kt_in(&k, SN_UPDATE_G, s);
    k.a.attr = attr;
    for (int o = SN_UPDATE_P; o <= SN_UPDATE_M; o++) {
        kt_out(&k, o, s, SN_ADD);
        kt_ref(&k, o); /* what it was */
    }
    tap_ok(kt_check(&k, SN_OP_LION, 0.0), "LION leaves everything alone when the step is not ok");
    kt_free(&k);
}

/* --- SGD ------------------------------------------------------------------------------------- */

/* The numbers are those of tests/unit/kernels/sgd_torch.py. */
static void sgd_follows_pytorch(int copy_dtype)
{
    static const double want_p[] = {-0.45632680555,  -0.7240482402, -0.206954722225,
                                    -0.131848919375, 0.1511936111,  0.668287129075,
                                    0.605892931925,  1.0264354624};
    static const double want_m[] = {-0.5410625, 0.6909,     -0.2429, -0.1508125,
                                    0.1790125,  -0.7547875, 0.7123,  -0.332875};
    enum { N = 8 };
    struct kt k = {.scalars = {.ok = 1, .lr = 0.1f, .grad_scale = 0.5f}};
    struct kt_shape s = {SN_F32, 1, N, 0};
    double worst = 0, copied = 0;
    kt_in(&k, SN_UPDATE_G, s);
    k.a.attr = (struct sn_attr){.optimizer.momentum = 0.9f, .optimizer.decay = 0.1f};
    for (int o = SN_UPDATE_P; o <= SN_UPDATE_M; o++)
        (void)kt_new(&k, SN_MAX_IN + o, s);
    s.dtype = (enum sn_dtype)copy_dtype;
    (void)kt_new(&k, SN_MAX_IN + SN_UPDATE_W, s);
    for (int64_t i = 0; i < N; i++) {
        kt_set(&k.a.out[SN_UPDATE_P], 0, i, (double)(i - 3) / 4);
        kt_set(&k.a.out[SN_UPDATE_M], 0, i, 0.0);
    }
    for (int64_t t = 0; t < 5; t++) {
        for (int64_t i = 0; i < N; i++) /* grad_scale halves it */
            kt_set(&k.a.in[SN_UPDATE_G], 0, i, (double)((i * 7 + t * 3) % 11 - 5) / 4);
        (void)kt_run(&k, sn_ops_cpu(), SN_OP_SGD, 1); /* judged by the parameters */
    }
    for (int64_t i = 0; i < N; i++) {
        double p = kt_get(&k.a.out[SN_UPDATE_P], 0, i);
        worst = fmax(worst, fabs(p - want_p[i]));
        worst = fmax(worst, fabs(kt_get(&k.a.out[SN_UPDATE_M], 0, i) - want_m[i]));
        copied = fmax(copied, fabs(kt_get(&k.a.out[SN_UPDATE_W], 0, i) - p));
    }
    kt_free(&k);
    tap_ok(worst < 1e-6 && copied < (copy_dtype == SN_F32 ? 1e-9 : 1e-2),
           "SGD stays with torch.optim.SGD over 5 steps (off by %.2g, its copy by %.2g)", worst,
           copied);
}

/* --- AVERAGE --------------------------------------------------------------------------------- */

/* Behind update `count`; at 1 it begins, whatever was there. */
static bool average_case(int64_t n, int64_t count, bool ok)
{
    struct kt k = {.magnitude = 1,
                   .scalars = {.ok = ok, .adam_count = count},
                   .a.attr.optimizer.beta1 = 0.75f};
    struct kt_shape s = {SN_F32, 1, n, 0};
    const struct sn_mat *p = kt_in(&k, SN_AVERAGE_P, s);
    struct sn_mat *e = kt_out(&k, SN_AVERAGE_E, s, SN_ADD); /* filled: it is read */
    if (count == 1)
        kt_set(e, 0, n / 2, NAN);
    double *want = kt_ref(&k, SN_AVERAGE_E);
    for (int64_t i = 0; i < n && ok; i++)
        want[i] = count == 1 ? kt_get(p, 0, i) : 0.75 * want[i] + 0.25 * kt_get(p, 0, i);
    if (!ok && count == 1)
        want[n / 2] = 0, kt_set(e, 0, n / 2, 0);
    bool good = kt_check(&k, SN_OP_AVERAGE, ok && count > 1 ? 2e-7 : 0);
    kt_free(&k);
    return good;
}

/* --- PRUNE ----------------------------------------------------------------------------------- */

static bool prune_case(int64_t n, enum sn_dtype type)
{
    struct kt k = {.magnitude = 1, .scalars = {.ok = 1}};
    const struct sn_mat *p = kt_in(&k, SN_PRUNE_P, (struct kt_shape){SN_F32, 1, n, 0});
    (void)kt_out(&k, SN_PRUNE_G, (struct kt_shape){type, 1, n, 0}, SN_ADD); /* filled: it is read */
    double *want = kt_ref(&k, SN_PRUNE_G);
    for (int64_t i = 0; i < n; i += 3) {
        kt_set(p, 0, i, i % 2 ? -0.0 : 0.0);
        want[i] = 0;
    }
    bool good = kt_check(&k, SN_OP_PRUNE, 0);
    kt_free(&k);
    return good;
}

static void gradients_of_zeros_are_dropped(void)
{
    static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};
    static const int64_t sizes[] = {1, 7, 64, 100, 257, 1024, 20011};
    bool good = true;
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 7; i++)
            good = prune_case(sizes[i], types[t]) && good;
    tap_ok(good, "PRUNE drops gradients of what is 0, and no others");
}

static void an_average_follows_the_weights(void)
{
    static const int64_t sizes[] = {1, 7, 64, 100, 257, 1024, 20011};
    bool good = true, begins = true, rests = true;
    for (int i = 0; i < 7; i++) {
        good = average_case(sizes[i], 2, true) && average_case(sizes[i], 1000, true) && good;
        begins = average_case(sizes[i], 1, true) && begins;
        rests = average_case(sizes[i], 1, false) && average_case(sizes[i], 9, false) && rests;
    }
    tap_ok(good, "AVERAGE is decay e + (1 - decay) p");
    tap_ok(begins, "AVERAGE begins as the weights of the first update");
    tap_ok(rests, "AVERAGE leaves everything alone when the step is not ok");
}

int main(void)
{
    an_average_follows_the_weights();
    gradients_of_zeros_are_dropped();
    sq_norm_adds_squares_for_every_thread_count();
    sq_norm_counts_what_is_not_finite();
    decide_clips_as_pytorch_does();
    decide_divides_by_the_scale_the_gradients_were_made_with();
    decide_skips_what_is_not_finite();
    adamw_follows_pytorch();
    adamw_follows_pytorch_over_many_steps();
    adamw_does_nothing_after_overflow();
    lion_follows_its_paper();
    lion_does_nothing_after_overflow();
    sgd_follows_pytorch(SN_F32);
    sgd_follows_pytorch(SN_BF16);
    return tap_done();
}
