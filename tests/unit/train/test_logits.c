/*
 * test_logits.c - what a model says stays the same, bit for bit, from one file format to another.
 *
 * usage: test_logits                     the test
 *        test_logits PATH TOKEN...       logits of a checkpoint, or of the field's files with their
 *                                        config.json: a line of them for each token
 */
#include "lib/base/log.h"
#include "tests/lib/export_test.h"
#include "tests/lib/logits.h"

static void an_export_says_the_same(const char *name, bool later_names)
{
    struct place p;
    struct sn_source s = {0}, again = {0};
    struct sn_model_config m, theirs;
    struct sn_convert_report r;
    int32_t tokens[20];
    place_init(&p);
    struct sn_export_options o = export_to(&p);
    o.later_names = later_names;
    bool good = open_fixture(&s, &m, name, &p.err);
    size_t n = good ? 20 * (size_t)m.vocab : 1;
    float *a = sn_alloc_n(n, sizeof(*a)), *b = sn_alloc_n(n, sizeof(*b));
    for (int i = 0; i < 20 && good; i++)
        tokens[i] = (7 * i + 3) % m.vocab;
    good = good && logits_of(a, &s, &m, tokens, 20, &p.err) == SN_OK &&
           sn_export_run(&s, &m, &o, &r, &p.err) == SN_OK &&
           sn_hf_load_model(&theirs, p.dst, &p.err) == SN_OK &&
           sn_source_open_safetensors(&again, p.dst, &theirs, &p.err) == SN_OK &&
           logits_of(b, &again, &theirs, tokens, 20, &p.err) == SN_OK;
    if (!tap_ok(good && memcmp(a, b, n * sizeof(*a)) == 0 && a[0] != a[n - 1],
                "%s: exported%s and read again, it says the same", name,
                later_names ? " with later names" : ""))
        printf("# %s\n", p.err.text);
    tokens[3]++;
    good = good && logits_of(b, &again, &theirs, tokens, 20, &p.err) == SN_OK;
    size_t before = 3 * (size_t)m.vocab;
    tap_ok(good && memcmp(a, b, before * sizeof(*a)) == 0 &&
               memcmp(a + before, b + before, (size_t)m.vocab * sizeof(*a)) != 0,
           "another token changes what follows, and nothing before");
    sn_free(a);
    sn_free(b);
    sn_source_close(&s);
    sn_source_close(&again);
    place_fini(&p);
}

/* --- for scripts ------------------------------------------------------------------------------ */

static enum sn_status open_any(struct sn_source *s, struct sn_model_config *m, const char *path,
                               struct sn_err *err)
{
    char *config = sn_format("%s/config.json", path);
    bool is_theirs = config && access(config, F_OK) == 0;
    sn_free(config);
    if (is_theirs) {
        SN_TRY(sn_hf_load_model(m, path, err));
        return sn_source_open_safetensors(s, path, m, err);
    }
    SN_TRY(sn_source_open_checkpoint(s, path, err));
    return model_of(m, s->model_text, err);
}

static enum sn_status print_logits(const char *path, int n, char **words, struct sn_err *err)
{
    struct sn_source s = {0};
    struct sn_model_config m;
    int32_t tokens[1024];
    enum sn_status st = open_any(&s, &m, path, err);
    for (int i = 0; i < n && i < 1024; i++)
        tokens[i] = (int32_t)strtol(words[i], NULL, 10);
    float *out = st == SN_OK ? sn_alloc_n((size_t)n * (size_t)m.vocab, sizeof(*out)) : NULL;
    if (st == SN_OK)
        st = n > 1024 ? sn_fail(err, SN_EINPUT, "%d tokens; want at most 1024", n)
                      : logits_of(out, &s, &m, tokens, n, err);
    for (int64_t i = 0; st == SN_OK && i < (int64_t)n * m.vocab; i++)
        printf("%.9g%c", (double)out[i], (i + 1) % m.vocab ? ' ' : '\n');
    sn_free(out);
    sn_source_close(&s);
    return st;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"gpt2",        "gpt-neox", "llama", "llama-tied",
                                        "llama-share", "mixtral",  "qwen2"};
    struct sn_err err = {0};
    sn_log_set_level(SN_LOG_ERROR);
    if (argc > 1) {
        enum sn_status st = print_logits(argv[1], argc - 2, argv + 2, &err);
        if (st != SN_OK)
            fprintf(stderr, "test_logits: %s\n", err.text);
        return sn_exit_code(st);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        an_export_says_the_same(names[i], false);
    an_export_says_the_same("mixtral", true);
    return tap_done();
}
