/*
 * test_names.c - a mixtral read from files with either generation's names says what PyTorch says.
 *
 * model.safetensors has the names of transformers 4 and names5.safetensors those of 5; logits.json
 * is what make_fixtures.py computes of the same weights in float64. Gate read as up, or one expert
 * as another, is far off.
 */
#include "lib/base/log.h"
#include "tests/lib/export_test.h"
#include "tests/lib/logits.h"

#include <jansson.h>
#include <math.h>

enum { TOKENS = 20, VALUES = 40 * 32 }; /* of the fixture; values of a matrix of an expert */
#define FIXTURE "tests/parity/fixtures/mixtral/"

struct reference {
    int32_t tokens[TOKENS];
    double logits[TOKENS * 101];
};

static bool read_reference(struct reference *r)
{
    json_t *root = json_load_file(FIXTURE "logits.json", 0, NULL);
    const json_t *tokens = json_object_get(root, "tokens"), *rows = json_object_get(root, "logits");
    bool good = json_array_size(tokens) == TOKENS && json_array_size(rows) == TOKENS;
    for (size_t t = 0; t < TOKENS && good; t++) {
        const json_t *row = json_array_get(rows, t);
        good = json_array_size(row) == 101;
        r->tokens[t] = (int32_t)json_integer_value(json_array_get(tokens, t));
        for (size_t v = 0; v < 101; v++)
            r->logits[t * 101 + v] = json_number_value(json_array_get(row, v));
    }
    json_decref(root);
    return good;
}

/* How far the logits of these weights are from the reference's, over the largest of those; infinity
 * where there are none. */
static double distance(const char *weights, const struct reference *r)
{
    static float have[TOKENS * 101];
    struct sn_source s = {0};
    struct sn_config c;
    struct sn_err err = {0};
    enum sn_status st = sn_config_load(&c, FIXTURE "run.yaml", NULL, &err);
    if (st == SN_OK)
        st = sn_source_open_safetensors(&s, weights, &c.model, &err);
    if (st == SN_OK)
        st = logits_of(have, &s, &c.model, r->tokens, TOKENS, &err);
    sn_source_close(&s);
    if (st != SN_OK)
        printf("# %s\n", err.text);
    double off = 0, top = 0;
    for (int i = 0; i < TOKENS * 101; i++) {
        off = fmax(off, fabs((double)have[i] - r->logits[i]));
        top = fmax(top, fabs(r->logits[i]));
    }
    return st == SN_OK && top > 0 ? off / top : INFINITY;
}

/* A copy of a weight file in which n pairs of matrices have changed places. */
struct swap {
    const char *tensor[2];
    int64_t matrix[2]; /* of the tensor */
};

static bool spoil(const char *to, const char *from, const struct swap *pairs, int n)
{
    struct sn_safetensors *st = NULL;
    struct sn_err err = {0};
    char *bytes = NULL, *place[2];
    size_t len = 0, size = VALUES * sizeof(float);
    bool good = sn_file_load(&bytes, &len, from, &err) == SN_OK &&
                sn_safetensors_open(&st, from, &err) == SN_OK;
    for (int i = 0; i < n && good; i++) {
        char held[VALUES * sizeof(float)];
        for (int k = 0; k < 2 && good; k++) {
            const struct sn_st_tensor *t = sn_safetensors_find(st, pairs[i].tensor[k]);
            good = t && (size_t)(pairs[i].matrix[k] + 1) * size <= t->bytes;
            place[k] = good ? bytes + t->offset + (size_t)pairs[i].matrix[k] * size : NULL;
        }
        if (!good)
            break;
        memcpy(held, place[0], size);
        memcpy(place[0], place[1], size);
        memcpy(place[1], held, size);
    }
    sn_safetensors_close(st);
    FILE *f = good ? fopen(to, "wb") : NULL;
    good = f && fwrite(bytes, 1, len, f) == len;
    good = f && fclose(f) == 0 && good;
    sn_free(bytes);
    return good;
}

#define OLD(matrix) "model.layers.1.block_sparse_moe.experts." matrix ".weight"
#define NEW(stack)  "model.layers.1.mlp.experts." stack

static void both_names_say_what_pytorch_says(void)
{
    static const struct {
        const char *file, *what;
        int n;
        struct swap pairs[3];
    } spoils[] = {
        {"model", "an expert's gate for its up", 1, {{{OLD("2.w1"), OLD("2.w3")}, {0, 0}}}},
        {"model",
         "one expert for another",
         3,
         {{{OLD("2.w1"), OLD("3.w1")}, {0, 0}},
          {{OLD("2.w2"), OLD("3.w2")}, {0, 0}},
          {{OLD("2.w3"), OLD("3.w3")}, {0, 0}}}},
        {"names5",
         "an expert's gate for its up",
         1,
         {{{NEW("gate_up_proj"), NEW("gate_up_proj")}, {4, 5}}}},
        {"names5",
         "one expert for another",
         3,
         {{{NEW("gate_up_proj"), NEW("gate_up_proj")}, {4, 6}},
          {{NEW("gate_up_proj"), NEW("gate_up_proj")}, {5, 7}},
          {{NEW("down_proj"), NEW("down_proj")}, {2, 3}}}},
    };
    static struct reference r;
    struct place p;
    place_init(&p);
    tap_ok(read_reference(&r), "PyTorch's logits of 20 tokens are there");
    double off[2] = {distance(FIXTURE "model.safetensors", &r),
                     distance(FIXTURE "names5.safetensors", &r)};
    tap_ok(off[0] <= 1e-5, "names of transformers 4: off by %.1e of the largest", off[0]);
    tap_ok(off[1] <= 1e-5, "names of transformers 5: off by %.1e of the largest", off[1]);
    for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
        char from[96], to[128];
        (void)snprintf(from, sizeof(from), FIXTURE "%s.safetensors", spoils[i].file);
        (void)snprintf(to, sizeof(to), "%s/spoiled.safetensors", p.root);
        bool good = spoil(to, from, spoils[i].pairs, spoils[i].n);
        double far = distance(to, &r);
        tap_ok(good && far > 1e-3 && isfinite(far), "%s: %s is found: off by %.1e", spoils[i].file,
               spoils[i].what, far);
    }
    place_fini(&p);
}

int main(void)
{
    sn_log_set_level(SN_LOG_ERROR);
    both_names_say_what_pytorch_says();
    return tap_done();
}
