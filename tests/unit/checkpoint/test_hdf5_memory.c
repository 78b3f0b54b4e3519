/* Under every limit of memory, shards and masters are written, or it is said that there is no memory:
 * libhdf5 dies of an allocation that fails (1.10.8: SIGSEGV, or exit 255 without a word). */
#include "checkpoint/format/hdf5.h"

#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SETS = 60, MAPS = 40, STEP = 192 << 10, STEPS = 90 };

struct work {
    char dir[64];
    bool is_master;
    int sets, maps;
    enum sn_status st;
    struct sn_err err;
};

static void name_set(char name[SN_H5_NAME_MAX], int i)
{
    static const char *const group[] = {"model", "optim/exp_avg", "optim/exp_avg_sq"};
    (void)snprintf(name, SN_H5_NAME_MAX, "/%s/layers.%d.ffn.gate.weight", group[i % 3], i);
}

static enum sn_status lay_out(struct work *w, const char *path)
{
    struct sn_h5_slot *slots = sn_alloc_n((size_t)w->sets, sizeof(*slots));
    if (!slots)
        return sn_fail(&w->err, SN_ENOMEM, "no memory");
    for (int i = 0; i < w->sets; i++) {
        name_set(slots[i].dataset, i);
        slots[i].rows = 17;
        slots[i].cols = 3;
    }
    enum sn_status st = sn_h5_layout(path, w->sets, slots, &w->err);
    sn_free(slots);
    return st;
}

static enum sn_status make_master(struct work *w, const char *path)
{
    struct sn_h5_virtual *sets = sn_alloc_n((size_t)w->sets, sizeof(*sets));
    struct sn_h5_map *maps = sn_alloc_n((size_t)w->maps, sizeof(*maps)); /* the same in all */
    struct sn_h5_master master = {.n_sets = w->sets, .sets = sets};
    struct sn_h5_image image = {0};
    enum sn_status st = sets && maps ? SN_OK : sn_fail(&w->err, SN_ENOMEM, "no memory");
    for (int k = 0; st == SN_OK && k < w->maps; k++)
        maps[k] = (struct sn_h5_map){k, 0, 1, 3, "shard-00000.h5", "/model/w@1,0", 0, 0, 1, 3};
    for (int i = 0; st == SN_OK && i < w->sets; i++) {
        name_set(sets[i].dataset, i);
        sets[i].rows = w->maps;
        sets[i].cols = 3;
        sets[i].n_maps = w->maps;
        sets[i].maps = maps;
    }
    if (st == SN_OK)
        st = sn_h5_make_master(&image, &master, path, &w->err);
    if (st == SN_OK)
        st = sn_file_save(path, image.p, image.bytes, &w->err);
    sn_free(image.p);
    sn_free(sets);
    sn_free(maps);
    return st;
}

static void *save(void *self)
{
    struct work *w = self;
    char path[80];
    (void)snprintf(path, sizeof(path), "%s/x.h5", w->dir);
    w->st = w->is_master ? make_master(w, path) : lay_out(w, path);
    return NULL;
}

/* Of this process. */
static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1)
        exit(1);
    (void)fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* In a child, whose own thread saves as the trainer's does. 0: well; 1: told that there is no memory;
 * 2: any other sentence; 3: died. */
static int outcome(struct work *w, size_t more)
{
    int state;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        struct rlimit limit = {address_space() + more, 0};
        limit.rlim_max = limit.rlim_cur;
        (void)setrlimit(RLIMIT_AS, &limit);
        if (sn_thread_start(&thread, 256 << 10, save, w) != 0)
            _exit(1);
        (void)pthread_join(thread, NULL);
        if (w->st != SN_OK && w->st != SN_ENOMEM)
            printf("# %s\n", w->err.text);
        (void)fflush(stdout);
        _exit(w->st == SN_OK ? 0 : w->st == SN_ENOMEM ? 1 : 2);
    }
    if (waitpid(pid, &state, 0) != pid || !WIFEXITED(state) || WEXITSTATUS(state) > 2)
        return 3;
    return WEXITSTATUS(state);
}

static void every_limit_is_told(bool is_master, int sets, int maps)
{
    struct work w = {
        .dir = "/tmp/sn-h5mem-XXXXXX", .is_master = is_master, .sets = sets, .maps = maps};
    int n[4] = {0};
    bool has_succeeded = false, is_ordered = true;
    if (!mkdtemp(w.dir))
        exit(1);
    for (int i = 0; i < STEPS; i++) {
        int got = outcome(&w, (size_t)i * STEP);
        n[got]++;
        is_ordered = is_ordered && (got == 0 || !has_succeeded);
        has_succeeded = has_succeeded || got == 0;
    }
    tap_ok(
        n[2] == 0 && n[3] == 0 && n[0] > 0 && n[1] > 0,
        "%s of %d datasets under %d limits: %d written, %d told that there is no memory, %d told "
        "otherwise, %d dead",
        is_master ? "a master" : "a shard", sets, STEPS, n[0], n[1], n[2], n[3]);
    tap_ok(is_ordered, "and where it is written once, it is written with more");
    (void)sn_dir_remove(w.dir, &w.err);
}

static void a_reserve_is_there_until_it_is_released(void)
{
    void *r = sn_mem_reserve(10 << 20);
    tap_ok(r != NULL, "10 MiB are reserved");
    sn_mem_release(r);
    sn_mem_release(NULL);
    sn_mem_fail_at(1);
    tap_ok(!sn_mem_reserve(1), "a reserve is an allocation that may fail");
    sn_mem_fail_at(0);
}

static void reasons_are_kept(void)
{
    struct work w = {.dir = "/tmp/sn-h5none", .sets = 3};
    (void)save(&w);
    tap_ok(w.st == SN_EIO && strstr(w.err.text, "x.h5: cannot create: No such file or directory"),
           "%s", w.err.text);
}

int main(void)
{
    sn_mem_share_heap();
    sn_h5_setup();
    reasons_are_kept();
    a_reserve_is_there_until_it_is_released();
    if (address_space() > (size_t)1 << 40) {
        tap_skip("limits of memory", "a sanitizer has reserved terabytes of addresses");
        return tap_done();
    }
    every_limit_is_told(false, 3, 0);
    every_limit_is_told(false, SETS, 0);
    every_limit_is_told(true, SETS, 1);
    every_limit_is_told(true, SETS, MAPS);
    every_limit_is_told(true, 2, 4 * MAPS);
    return tap_done();
}
