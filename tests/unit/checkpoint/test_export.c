/* The field's files, out and in: the same bytes again, whatever the memory,
 * the types, the files. */
#include "lib/base/log.h"
#include "tests/lib/export_test.h"
#include "tests/lib/thread_comm.h"

#include <math.h>
#include <sys/stat.h>

static const char *const families[] = {"gpt2",       "gpt2-erf", "gpt-neox", "llama",
                                       "llama-tied", "mixtral",  "qwen2"};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

static bool same_bytes(const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    size_t nx = 0, ny = 0;
    struct sn_err err;
    bool same = sn_file_load(&x, &nx, a, &err) == SN_OK &&
                sn_file_load(&y, &ny, b, &err) == SN_OK && nx == ny && memcmp(x, y, nx) == 0;
    sn_free(x);
    sn_free(y);
    return same;
}

static void the_same_file_comes_out_again(void)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        struct place p;
        struct sn_convert_report r = {0};
        char out[128], in[128];
        place_init(&p);
        struct sn_export_options o = export_to(&p);
        (void)snprintf(out, sizeof(out), "%s/model.safetensors", p.dst);
        (void)snprintf(in, sizeof(in), "tests/parity/fixtures/%s/model.safetensors", families[f]);
        tap_ok(export_fixture(&p, families[f], &o, &r) == SN_OK && same_bytes(out, in),
               "%s: safetensors, ours, safetensors: the same file", families[f]);
        tap_ok(entries(p.root) == 1 && entries(p.dst) == 2, "it and config.json, nothing else");
        tap_ok(r.tensors > 0 && r.bytes > 0 && r.peak_buffers > 0 && r.peak_buffers <= o.memory,
               "reported: %d tensors, %lld bytes, within the memory", (int)r.tensors,
               (long long)r.bytes);
        place_fini(&p);
    }
}

/* Names of version 5 and back: the file of version 4 that it began with. */
static void stacks_of_experts_are_the_same_weights(void)
{
    struct place p, q;
    struct sn_source s = {0};
    struct sn_model_config m;
    struct sn_convert_report r;
    struct sn_safetensors *st = NULL;
    char again[128];
    place_init(&p);
    place_init(&q);
    struct sn_export_options o = export_to(&p), back = export_to(&q);
    o.later_names = true;
    bool good = export_fixture(&p, "mixtral", &o, &r) == SN_OK &&
                sn_safetensors_open(&st, p.dst, &p.err) == SN_OK;
    const struct sn_st_tensor *up =
        good ? sn_safetensors_find(st, "model.layers.1.mlp.experts.gate_up_proj") : NULL;
    const struct sn_st_tensor *down =
        good ? sn_safetensors_find(st, "model.layers.1.mlp.experts.down_proj") : NULL;
    tap_ok(up && up->rank == 3 && up->shape[0] == 4 && up->shape[1] == 80 && up->shape[2] == 32 &&
               down && down->shape[1] == 32 && down->shape[2] == 40,
           "gate and up, and down, of all experts are a tensor each %s", p.err.text);
    (void)snprintf(again, sizeof(again), "%s/model.safetensors", p.dst);
    tap_ok(same_bytes(again, "tests/parity/fixtures/mixtral/names5.safetensors"),
           "the file is PyTorch's, byte for byte");
    (void)snprintf(again, sizeof(again), "%s/model.safetensors", q.dst);
    sn_safetensors_close(st);
    good = good && sn_hf_load_model(&m, p.dst, &p.err) == SN_OK &&
           sn_source_open_safetensors(&s, p.dst, &m, &p.err) == SN_OK;
    good = good && sn_export_run(&s, &m, &back, &r, &p.err) == SN_OK;
    sn_source_close(&s);
    tap_ok(good && same_bytes(again, "tests/parity/fixtures/mixtral/model.safetensors"),
           "and come back byte for byte %s", p.err.text);
    m.experts.count = 3;
    tap_ok(sn_source_open_safetensors(&s, p.dst, &m, &p.err) == SN_EINPUT, "%s", p.err.text);
    place_fini(&p);
    place_fini(&q);
}

/* Every memory from the least on: bands of one row, of some, of all. */
static void little_memory_gives_the_same(void)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        struct place p;
        struct sn_convert_report r;
        char in[128];
        place_init(&p);
        struct sn_export_options o = export_to(&p);
        (void)snprintf(in, sizeof(in), "tests/parity/fixtures/%s/model.safetensors", families[f]);
        int tried = 0;
        bool good = true;
        for (o.memory = 1; o.memory < 65536 && good; o.memory += o.memory / 5 + 8) {
            struct sn_source s = {0};
            struct sn_model_config m;
            good = open_fixture(&s, &m, families[f], &p.err);
            enum sn_status st = sn_export_run(&s, &m, &o, &r, &p.err);
            sn_source_close(&s);
            if (st == SN_EINPUT && !tried) /* too little */
                continue;
            good = good && st == SN_OK && same_tensors(p.dst, in) && r.peak_buffers <= o.memory;
            tried++;
            (void)sn_dir_remove(p.dst, &p.err);
        }
        tap_ok(good && tried > 15, "%s: the same with each of %d memories", families[f], tried);
        place_fini(&p);
    }
}

static void too_little_memory_is_told(void)
{
    struct place p;
    struct sn_source s;
    struct sn_model_config m;
    struct sn_convert_report r;
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    o.memory = 4000;
    (void)open_fixture(&s, &m, "llama", &p.err);
    s.least = 4096;
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EINPUT && entries(p.root) == 0,
           "too little memory is refused");
    tap_text(p.err.text,
             "tests/parity/fixtures/llama/model.safetensors: 4000 bytes of memory are too few to "
             "export it; want at least 4672",
             "and the least is named");
    sn_source_close(&s);
    place_fini(&p);
}

/* --- files ----------------------------------------------------------------------------------- */

static void many_files_have_an_index(void)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        struct place p;
        struct sn_convert_report r;
        char in[128], path[160];
        struct sn_err err = {0};
        struct stat sb;
        place_init(&p);
        struct sn_export_options o = export_to(&p);
        o.shard_bytes = 20000;
        (void)snprintf(in, sizeof(in), "tests/parity/fixtures/%s/model.safetensors", families[f]);
        bool good = export_fixture(&p, families[f], &o, &r) == SN_OK && same_tensors(p.dst, in);
        int files = entries(p.dst) - 2; /* config.json and the index */
        tap_ok(good && files > 2, "%s: %d files hold the same tensors", families[f], files);
        (void)snprintf(path, sizeof(path), "%s/model-00002-of-%05d.safetensors", p.dst, files);
        tap_ok(stat(path, &sb) == 0 && sb.st_size < 22000, "the second is there, and not larger");
        struct sn_source s = {0};
        struct sn_model_config m;
        tap_ok(sn_hf_load_model(&m, p.dst, &err) == SN_OK &&
                   sn_source_open_safetensors(&s, p.dst, &m, &err) == SN_OK,
               "they are a source");
        sn_source_close(&s);
        place_fini(&p);
    }
}

static void the_index_names_every_tensor(void)
{
    struct place p;
    struct sn_convert_report r;
    char path[128], *text = NULL;
    size_t len;
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    o.shard_bytes = 30000;
    (void)export_fixture(&p, "llama", &o, &r);
    (void)snprintf(path, sizeof(path), "%s/model.safetensors.index.json", p.dst);
    tap_ok(sn_file_load(&text, &len, path, &p.err) == SN_OK, "the index is there");
    char *line = text ? strstr(text, "weight_map") : NULL;
    if (line)
        line = strchr(line, '\n');
    if (line)
        line[strcspn(line + 1, "\n") + 1] = '\0';
    tap_text(text,
             "{\n  \"metadata\": {\n    \"total_size\": 106368\n  },\n  \"weight_map\": {\n"
             "    \"lm_head.weight\": \"model-00005-of-00005.safetensors\",",
             "in the field's form");
    sn_free(text);
    place_fini(&p);
}

/* --- types ----------------------------------------------------------------------------------- */

/* What is rounded once stays: bf16 out, in, out is the same; and the first one is rounded right. */
static void half_types_round_once(void)
{
    static const enum sn_dtype types[] = {SN_BF16, SN_F16};
    for (int f = 0; f < N_FAMILIES; f++)
        for (int k = 0; k < 2; k++) {
            struct place p;
            struct sn_convert_report r;
            struct sn_source s = {0}, wide = {0};
            struct sn_model_config m, same;
            char again[96];
            place_init(&p);
            struct sn_export_options o = export_to(&p);
            o.dtype = types[k];
            (void)snprintf(again, sizeof(again), "%s/again", p.root);
            bool good = export_fixture(&p, families[f], &o, &r) == SN_OK &&
                        sn_hf_load_model(&m, p.dst, &p.err) == SN_OK &&
                        sn_source_open_safetensors(&s, p.dst, &m, &p.err) == SN_OK &&
                        s.tensors[0].dtype == types[k];
            o.dst = again;
            good = good && sn_export_run(&s, &m, &o, &r, &p.err) == SN_OK &&
                   same_tensors(again, p.dst);
            tap_ok(good, "%s as %s: the same bytes again", families[f], sn_dtype_name(types[k]));
            good = open_fixture(&wide, &same, families[f], &p.err) && wide.n_tensors == s.n_tensors;
            double worst = 0;
            for (int i = 0; good && i < s.n_tensors; i++) {
                const struct sn_source_tensor *t = &s.tensors[i];
                float *a = source_whole(&wide, "model", t->name);
                float *b = source_whole(&s, "model", t->name);
                for (int64_t e = 0; a && b && e < t->rows * t->cols; e++)
                    worst = fmax(worst, fabs((double)a[e] - b[e]) / fmax(fabs((double)a[e]), 1e-3));
                sn_free(a);
                sn_free(b);
            }
            double unit = types[k] == SN_BF16 ? 0x1p-8 : 0x1p-11; /* half a last place */
            tap_ok(good && worst <= unit && worst > unit / 2,
                   "nothing is off by more than half a last place (%.2g, of %.2g)", worst, unit);
            sn_source_close(&s);
            sn_source_close(&wide);
            place_fini(&p);
        }
}

/* Made-up values in the model of a fixture; the caller frees both. */
static struct sn_source fake_of(struct fake *f, struct sn_model **model, struct sn_model_config *m,
                                const char *fixture)
{
    struct sn_train_config t = {.global_batch = 1};
    struct sn_source s;
    struct sn_err err;
    if (!open_fixture(&s, m, fixture, &err) || sn_model_create(model, m, &t, &err) != SN_OK)
        exit(1);
    sn_source_close(&s);
    fake_add_model(f, *model, 3);
    return fake_source(f, "");
}

static void what_fp16_cannot_hold_is_refused(void)
{
    struct place p;
    struct sn_convert_report r;
    struct sn_model_config m;
    struct sn_source s;
    struct sn_model *model = NULL;
    struct fake f = {0};
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    o.dtype = SN_F16;
    s = fake_of(&f, &model, &m, "llama");
    float *norm = f.values[source_number(&s, "model", "final_norm.weight")];
    norm[5] = 65519.9f;
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_OK, "65519.9 is 65504 in fp16");
    (void)sn_dir_remove(p.dst, &p.err);
    norm[5] = INFINITY;
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_OK, "infinity stays what it is");
    (void)sn_dir_remove(p.dst, &p.err);
    norm[5] = 65520;
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EINPUT && entries(p.root) == 0,
           "65520 is refused, and nothing is left behind");
    tap_text(
        p.err.text,
        "fake: tensor 'model.norm.weight' has a value (65520) too large for fp16; use bf16 or fp32",
        "and named");
    fake_fini(&f);
    sn_model_destroy(model);
    place_fini(&p);
}

/* --- shared and missing ----------------------------------------------------------------------- */

/* Layers that share are written each; read with the same sharing they are one again. */
static void shared_layers_are_written_apart(void)
{
    struct place p;
    struct sn_convert_report r;
    struct sn_source s = {0}, again = {0};
    struct sn_model_config m, theirs;
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    tap_ok(open_fixture(&s, &m, "llama-share", &p.err) &&
               sn_export_run(&s, &m, &o, &r, &p.err) == SN_OK && r.tensors == 4 * 9 + 3,
           "4 layers that share in pairs are 4 layers there");
    tap_ok(sn_source_open_safetensors(&again, p.dst, &m, &p.err) == SN_OK &&
               again.n_tensors == s.n_tensors,
           "and 2 again for a model that shares");
    float *a = source_whole(&s, "model", "layers.2.ffn.up.weight");
    float *b = source_whole(&again, "model", "layers.2.ffn.up.weight");
    tap_ok(a && b && memcmp(a, b, (size_t)m.ffn * (size_t)m.hidden * sizeof(*a)) == 0,
           "with the same values");
    sn_source_close(&again);
    tap_ok(sn_hf_load_model(&theirs, p.dst, &p.err) == SN_OK && theirs.share_layers == 1 &&
               sn_source_open_safetensors(&again, p.dst, &theirs, &p.err) == SN_OK,
           "or 4 for the model of config.json");
    float *c = source_whole(&again, "model", "layers.3.ffn.up.weight");
    tap_ok(a && c && memcmp(a, c, (size_t)m.ffn * (size_t)m.hidden * sizeof(*a)) == 0,
           "where layer 3 is a copy of layer 2");
    sn_free(a);
    sn_free(b);
    sn_free(c);
    sn_source_close(&again);
    sn_source_close(&s);
    place_fini(&p);
}

static void another_set_of_tensors_is_refused(void)
{
    struct place p;
    struct sn_convert_report r;
    struct sn_model_config m;
    struct sn_source s;
    struct sn_model *model = NULL;
    struct fake f = {0};
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    s = fake_of(&f, &model, &m, "gpt2");
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_OK, "Adam's moments are left alone");
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EINPUT &&
               strstr(p.err.text, "is there already; name a new directory") && entries(p.root) == 1,
           "a directory that is there is refused");
    (void)sn_dir_remove(p.dst, &p.err);
    int i = source_number(&s, "model", "layers.1.attn.k.bias");
    f.tensors[i].rows--;
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EINPUT, "another shape");
    tap_text(p.err.text,
             "fake: tensor model layers.1.attn.k.bias is 31 x 1, but the model's is 32 x 1",
             "is named");
    f.tensors[i].rows++;
    f.tensors[i].name = "layers.1.attn.kk.bias";
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EINPUT, "a missing tensor");
    tap_text(p.err.text, "fake: has no tensor model layers.1.attn.k.bias, which the model needs",
             "is named");
    f.tensors[i].name = "layers.1.attn.k.bias";
    (void)fake_add(&f, "model", "layers.3.attn.k.bias", 32, 1);
    s = fake_source(&f, "");
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EINPUT, "one too many");
    tap_text(p.err.text,
             "fake: the model has no place for 1 of its tensors: 'layers.3.attn.k.bias'",
             "is named");
    tap_ok(entries(p.root) == 0, "nothing was written");
    fake_fini(&f);
    sn_model_destroy(model);
    place_fini(&p);
}

/* --- failures --------------------------------------------------------------------------------- */

static void a_read_that_fails_leaves_nothing(void)
{
    struct place p;
    struct sn_convert_report r;
    struct sn_model_config m;
    struct sn_source s;
    struct sn_model *model = NULL;
    struct fake f = {0};
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    s = fake_of(&f, &model, &m, "gpt-neox");
    f.fail_at = 40;
    tap_ok(sn_export_run(&s, &m, &o, &r, &p.err) == SN_EIO && entries(p.root) == 0 &&
               strcmp(p.err.text, "fake: read 40 fails") == 0,
           "a source that fails is told, and nothing is left behind");
    fake_fini(&f);
    sn_model_destroy(model);
    place_fini(&p);
}

/* --- several ranks ---------------------------------------------------------------------------- */

enum { RANKS = 3 };

struct team {
    struct thread_world *world;
    struct sn_export_options o;
    int64_t cut; /* memory of the last rank, where it is not 0 */
    enum sn_status st[RANKS];
    struct sn_err err[RANKS];
};

static void export_on_a_rank(void *arg, int rank)
{
    struct team *t = arg;
    struct sn_source s = {0};
    struct sn_model_config m;
    struct sn_convert_report r;
    struct sn_err *err = &t->err[rank];
    struct sn_export_options o = t->o;
    o.comm = thread_world_comm(t->world, rank);
    if (t->cut && rank == RANKS - 1)
        o.memory = t->cut;
    t->st[rank] = SN_EFAIL;
    if (open_fixture(&s, &m, "gpt-neox", err))
        t->st[rank] = sn_export_run(&s, &m, &o, &r, err);
    sn_source_close(&s);
}

static void ranks_share_the_files(void)
{
    struct place p;
    struct team t = {0};
    place_init(&p);
    t.o = export_to(&p);
    t.o.shard_bytes = 20000;
    t.world = thread_world_create(RANKS);
    t.cut = 100;
    thread_world_run(t.world, export_on_a_rank, &t);
    tap_ok(t.st[0] == SN_EINPUT && t.st[1] == SN_EINPUT && t.st[2] == SN_EINPUT &&
               strstr(t.err[0].text, "100 bytes of memory are too few") && entries(p.root) == 0,
           "what fails on one rank ends all, and leaves nothing");
    t.cut = 0;
    thread_world_run(t.world, export_on_a_rank, &t);
    tap_ok(t.st[0] == SN_OK && t.st[1] == SN_OK && t.st[2] == SN_OK && entries(p.root) == 1 &&
               same_tensors(p.dst, "tests/parity/fixtures/gpt-neox/model.safetensors"),
           "%d ranks write %d files together", RANKS, entries(p.dst) - 2);
    thread_world_destroy(t.world);
    place_fini(&p);
}

static void no_memory_is_told(void)
{
    struct place p;
    struct sn_convert_report r;
    struct sn_config c;
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    o.shard_bytes = 30000;
    enum sn_status st = sn_config_load(&c, "tests/parity/fixtures/gpt2/run.yaml", NULL, &p.err);
    int n = 0;
    bool clean = st == SN_OK;
    for (st = SN_ENOMEM; st == SN_ENOMEM && n < 10000;) {
        struct sn_source s = {0};
        p.err.text[0] = '\0';
        sn_mem_fail_at((uint64_t)++n);
        st = sn_source_open_safetensors(&s, "tests/parity/fixtures/gpt2/model.safetensors",
                                        &c.model, &p.err);
        if (st == SN_OK)
            st = sn_export_run(&s, &c.model, &o, &r, &p.err);
        sn_mem_fail_at(0);
        sn_source_close(&s);
        clean = clean && (st == SN_OK || (p.err.text[0] && entries(p.root) == 0));
    }
    if (!tap_ok(st == SN_OK && n > 100 && clean, "%d allocations fail, each is told", n - 1))
        printf("# %s\n", p.err.text);
    place_fini(&p);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    the_same_file_comes_out_again();
    stacks_of_experts_are_the_same_weights();
    little_memory_gives_the_same();
    too_little_memory_is_told();
    many_files_have_an_index();
    the_index_names_every_tensor();
    half_types_round_once();
    what_fp16_cannot_hold_is_refused();
    shared_layers_are_written_apart();
    another_set_of_tensors_is_refused();
    a_read_that_fails_leaves_nothing();
    ranks_share_the_files();
    no_memory_is_told();
    return tap_done();
}
