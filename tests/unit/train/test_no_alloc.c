/*
 * test_no_alloc.c - after the first step nothing allocates, and memory does not grow.
 *
 * The saver's begin() is called at every checkpoint; it notes how many allocations the process has
 * made (ours and the C library's) and how large it is.
 */
#include "lib/base/mem.h"
#include "lib/data/data.h"
#include "lib/train/trainer.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAVES = 8 };

struct notes {
    int n;
    uint64_t allocations[SAVES];
    size_t in_use[SAVES];
    long resident[SAVES]; /* KiB */
};

/* Defined when AddressSanitizer is in the process: its own memory grows, so ours cannot be told. */
extern void __asan_init(void) __attribute__((weak));

/* Without a FILE, which the C library would allocate. */
static long resident(void)
{
    char text[64] = "";
    int f = open("/proc/self/statm", O_RDONLY);
    ssize_t got = f < 0 ? 0 : read(f, text, sizeof(text) - 1);
    if (f >= 0)
        (void)close(f);
    const char *pages = got > 0 ? strchr(text, ' ') : NULL;
    return pages ? strtol(pages, NULL, 10) * sysconf(_SC_PAGESIZE) / 1024 : 0;
}

static enum sn_status note(void *self, const struct sn_state *s, enum sn_save_phase phase,
                           struct sn_err *err)
{
    struct notes *n = self;
    (void)s, (void)err;
    if (phase == SN_SAVE_COMMIT && n->n < SAVES) {
        n->allocations[n->n] = sn_mem_count();
        n->in_use[n->n] = mallinfo2().uordblks;
        n->resident[n->n++] = resident();
    }
    return SN_OK;
}

static enum sn_status is_over(void *self, bool wait, bool *ended, struct sn_err *err)
{
    (void)self, (void)wait, (void)err;
    *ended = true;
    return SN_OK;
}

static void no_times(void *self, struct sn_save_times *out)
{
    (void)self;
    *out = (struct sn_save_times){0};
}

static void no_copy(void *self)
{
    (void)self;
}

static enum sn_status no_memory(void *self, int64_t bytes, struct sn_err *err)
{
    (void)self, (void)bytes, (void)err;
    return SN_OK;
}

static enum sn_status nothing(void *self, int64_t before, int64_t *step, struct sn_err *err)
{
    (void)self, (void)before, (void)err;
    *step = -1;
    return SN_OK;
}

static bool make_data(const char *prefix)
{
    struct sn_data_writer *w = NULL;
    struct sn_err err = {0};
    int32_t tokens[4000];
    for (int i = 0; i < 4000; i++)
        tokens[i] = (i * 31 + i / 7) % 96;
    bool good = sn_data_writer_create(&w, prefix, 1, &err) == SN_OK &&
                sn_data_writer_add(w, tokens, 4000, &err) == SN_OK &&
                sn_data_writer_finish(w, &err) == SN_OK;
    sn_data_writer_destroy(w);
    return good;
}

static struct sn_config config(enum sn_dtype precision, const char *dir)
{
    struct sn_config c = {0};
    c.run.seed = 3;
    (void)snprintf(c.run.output, sizeof(c.run.output), "%s", dir);
    char prefix[SN_PATH_MAX];
    (void)snprintf(prefix, sizeof(prefix), "%s/tok", dir);
    sn_sets_take(&c.data.train, prefix);
    sn_sets_take(&c.data.valid, prefix);
    c.model = (struct sn_model_config){.family = SN_LLAMA,
                                       .activation = SN_SILU,
                                       .layers = 2,
                                       .hidden = 64,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .ffn = 96,
                                       .vocab = 96,
                                       .seq = 40,
                                       .rope_theta = 10000,
                                       .rotary_pct = 1,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.02,
                                       .share_layers = 1,
                                       .dropout = 0.1};
    c.train.precision = precision;
    c.train.global_batch = 4;
    c.train.steps = SAVES;
    c.train.optimizer = (struct sn_optimizer_config){
        .lr = 1e-3, .weight_decay = 0.1, .clip = 1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    c.train.eval_every = 2;
    c.train.eval_sequences = 4;
    c.layout = (struct sn_layout_config){.data = 1,
                                         .tensor = 1,
                                         .tensor_x = 1,
                                         .pipeline = 1,
                                         .expert = 1,
                                         .context = 1,
                                         .micro_batch = 2,
                                         .bucket = 1 << 20};
    c.checkpoint.every = 1;
    return c;
}

static void nothing_allocates_after_the_first_step(enum sn_dtype precision, bool async,
                                                   const char *dir)
{
    struct sn_config c = config(precision, dir);
    c.checkpoint.async = async;
    struct notes notes = {0};
    struct sn_saver saver = {.self = &notes,
                             .reserve = no_memory,
                             .begin = note,
                             .copied = no_copy,
                             .finish = is_over,
                             .times = no_times,
                             .find = nothing};
    struct sn_comm *comm = NULL;
    struct sn_trainer *t = NULL;
    struct sn_err err = {0};
    int code = 0;
    (void)sn_comm_create_self(&comm, &err);
    struct sn_trainer_env env = {
        .config = &c, .comm = comm, .ops = sn_ops_cpu(), .saver = &saver, .threads = 2};
    struct sn_trainer_options o = {0};
    char name[32];
    (void)snprintf(name, sizeof(name), "%s%s", sn_dtype_name(precision), async ? ", async" : "");
    bool ran = sn_trainer_create(&t, &env, &err) == SN_OK &&
               sn_trainer_run(t, &o, &code, &err) == SN_OK && notes.n == SAVES;
    if (tap_ok(ran, "%s: %d steps with validation run%s", name, SAVES, err.text)) {
        struct sn_memory_plan plan;
        sn_job_memory(sn_trainer_job(t), &plan);
        tap_ok(sn_exec_arena_bytes(sn_trainer_exec(t)) == plan.total - plan.library - plan.snapshot,
               "%s: what is mapped is what was planned, to the byte", name);
        tap_ok(notes.allocations[SAVES - 1] == notes.allocations[0],
               "%s: no allocation of ours after step 1 (%llu)", name,
               (unsigned long long)(notes.allocations[SAVES - 1] - notes.allocations[0]));
        if (__asan_init) {
            tap_skip("no growth of the process", "AddressSanitizer keeps freed memory for a while");
        } else {
            tap_ok(notes.in_use[SAVES - 1] <= notes.in_use[1],
                   "%s: none of the C library's after step 2 (%zu bytes)", name,
                   notes.in_use[SAVES - 1] - notes.in_use[1]);
            tap_ok(notes.resident[SAVES - 1] - notes.resident[1] < 1024,
                   "%s: under 1 MiB of growth after step 2 (%ld KiB)", name,
                   notes.resident[SAVES - 1] - notes.resident[1]);
        }
    }
    sn_trainer_destroy(t);
    comm->ops->destroy(comm);
}

int main(void)
{
    char dir[] = "/tmp/sennit-no-alloc-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    char prefix[64], command[128];
    (void)snprintf(prefix, sizeof(prefix), "%s/tok", dir);
    if (tap_ok(make_data(prefix), "token files")) {
        nothing_allocates_after_the_first_step(SN_F32, false, dir);
        nothing_allocates_after_the_first_step(SN_BF16, false, dir);
        nothing_allocates_after_the_first_step(SN_F16, true, dir);
    }
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    (void)!system(command);
    return tap_done();
}
