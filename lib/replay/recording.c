#include "lib/replay/recording.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"
#include "lib/base/text_file.h"
#include "lib/exec/exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "sennitFP";
enum { VERSION = 1, PATH_ROOM = SN_PATH_MAX + 96 };

static bool is_begun_with(const struct sn_buffer *b)
{
    return b->cls == SN_CLASS_PARAM || b->cls == SN_CLASS_OPTIM || b->cls == SN_CLASS_BATCH;
}

static enum sn_status no_memory(struct sn_recording *r, struct sn_err *err)
{
    sn_recording_destroy(r);
    return sn_fail(err, SN_ENOMEM, "fingerprints: no memory for those of a step");
}

enum sn_status sn_recording_create(struct sn_recording **out, const struct sn_job *j,
                                   struct sn_err *err)
{
    struct sn_recording *r = sn_alloc(sizeof(*r));
    if (!r)
        return no_memory(r, err);
    int rounds = j->config->model.experts.count > 0 ? 2 : 1;
    r->room = sn_results_most(j) * rounds + j->train.n_state_bufs;
    r->head = (struct sn_recording_head){.version = VERSION,
                                         .ranks = j->group_size[SN_GROUP_WORLD],
                                         .rank = j->rank,
                                         .program = sn_program_hash(&j->train)};
    memcpy(r->head.magic, magic, sizeof(magic));
    (void)snprintf(r->head.kernels, sizeof(r->head.kernels), "%s", j->ops->name);
    sn_signs_init(&r->signs);
    r->t = sn_alloc_n((size_t)r->room, sizeof(*r->t));
    if (!r->t)
        return no_memory(r, err);
    *out = r;
    return SN_OK;
}

void sn_recording_destroy(struct sn_recording *r)
{
    if (r)
        sn_free(r->t);
    sn_free(r);
}

void sn_recording_take(void *recording, const struct sn_result *x)
{
    struct sn_recording *r = recording;
    if (r->head.n == r->room) {
        r->head.results_lost++;
        return;
    }
    r->t[r->head.n++] = (struct sn_recorded){.entry = x->entry,
                                             .op = x->op,
                                             .micro = x->micro,
                                             .part = x->part,
                                             .round = (int16_t)x->round,
                                             .out = (int16_t)x->out,
                                             .type = x->m.dtype,
                                             .print = sn_fingerprint_of(&r->signs, &x->m)};
}

void sn_recording_begin(struct sn_recording *r, struct sn_exec *x, const struct sn_job *j,
                        int64_t step)
{
    r->head.step = step;
    r->head.n = r->head.results_lost = 0;
    for (int i = 0; i < j->train.n_state_bufs; i++) {
        const struct sn_buffer *b = &j->train.bufs[i];
        struct sn_result of = {.entry = SN_BEGIN, .op = i};
        if (!is_begun_with(b) || b->rows * b->cols == 0)
            continue;
        of.m =
            (struct sn_mat){sn_exec_address(x, &j->train, i), b->dtype, b->rows, b->cols, b->cols};
        sn_recording_take(r, &of);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

struct path {
    char s[PATH_ROOM];
};

static struct path folder(const char *output, int64_t step)
{
    struct path p;
    (void)snprintf(p.s, sizeof(p.s), "%s/fingerprints/step-%08lld", output, (long long)step);
    return p;
}

static struct path file(const char *output, int64_t step, int rank)
{
    struct path p = folder(output, step);
    size_t n = strlen(p.s);
    (void)snprintf(p.s + n, sizeof(p.s) - n, "/rank-%05d", rank);
    return p;
}

static bool make_folder(const char *output, int64_t step)
{
    struct path all, own = folder(output, step);
    (void)snprintf(all.s, sizeof(all.s), "%s/fingerprints", output);
    (void)mkdir(all.s, 0777); /* the next one says what is wrong */
    return mkdir(own.s, 0777) == 0 || errno == EEXIST;
}

/* Whoever is the last to leave takes the folder with him. */
static void forget(const char *output, int64_t step, int rank)
{
    struct path p = file(output, step, rank);
    if (step <= 0)
        return;
    (void)unlink(p.s); /* of a run that began later there is none */
    p = folder(output, step);
    (void)rmdir(p.s); /* it is not empty until then */
}

static bool put(int fd, const void *p, size_t bytes)
{
    for (ssize_t n; bytes > 0; bytes -= (size_t)n, p = (const char *)p + n) {
        n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            return false;
    }
    return true;
}

enum sn_status sn_recording_save(struct sn_recording *r, const char *output, int64_t every,
                                 struct sn_err *err)
{
    struct path p = file(output, r->head.step, r->head.rank);
    size_t bytes = (size_t)r->head.n * sizeof(*r->t);
    r->head.hash = sn_hash64(r->t, bytes);
    int fd = make_folder(output, r->head.step) ? sn_output_open(p.s, O_WRONLY | O_TRUNC, 0666) : -1;
    bool good = fd >= 0 && put(fd, &r->head, sizeof(r->head)) && put(fd, r->t, bytes);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    forget(output, r->head.step - SN_RECORDINGS_KEPT * every, r->head.rank);
    return good ? SN_OK : sn_write_fail(err, p.s, why);
}

static bool get(int fd, void *p, size_t bytes)
{
    for (ssize_t n; bytes > 0; bytes -= (size_t)n, p = (char *)p + n) {
        n = read(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            return false;
    }
    return true;
}

static bool is_head(const struct sn_recording_head *h, int64_t step, int rank, int64_t bytes)
{
    return memcmp(h->magic, magic, sizeof(magic)) == 0 && h->version == VERSION &&
           h->step == step && h->rank == rank && h->n >= 0 &&
           h->n <= bytes / (int64_t)sizeof(struct sn_recorded) &&
           bytes == (int64_t)sizeof(*h) + h->n * (int64_t)sizeof(struct sn_recorded) &&
           memchr(h->kernels, 0, sizeof(h->kernels)) != NULL;
}

static bool read_all(struct sn_recording *r, int fd, int64_t step, int rank, bool *has_memory)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !get(fd, &r->head, sizeof(r->head)) ||
        !is_head(&r->head, step, rank, st.st_size))
        return false;
    r->room = r->head.n;
    r->t = sn_alloc_n((size_t)r->room + 1, sizeof(*r->t));
    *has_memory = r->t != NULL;
    size_t bytes = (size_t)r->head.n * sizeof(*r->t);
    return r->t && get(fd, r->t, bytes) && sn_hash64(r->t, bytes) == r->head.hash;
}

enum sn_status sn_recording_load(struct sn_recording **out, const char *output, int64_t step,
                                 int rank, struct sn_err *err)
{
    struct path p = file(output, step, rank);
    struct sn_recording *r = sn_alloc(sizeof(*r));
    bool has_memory = true;
    if (!r)
        return no_memory(r, err);
    int fd = open(p.s, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && read_all(r, fd, step, rank, &has_memory);
    int why = errno;
    if (fd >= 0)
        (void)close(fd); /* it was read */
    if (good) {
        sn_signs_init(&r->signs);
        *out = r;
        return SN_OK;
    }
    sn_recording_destroy(r);
    if (!has_memory)
        return no_memory(NULL, err);
    if (fd < 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read (%s); run.fingerprints keeps such files",
                       p.s, strerror(why));
    return sn_fail(err, SN_EINPUT,
                   "%s: is damaged, or no file of this version; replay another step", p.s);
}

bool sn_recording_is_there(const char *output, int64_t step)
{
    return access(file(output, step, 0).s, R_OK) == 0;
}
