/*
 * test_tokenizer.c - tokens of small tokenizers, one of each kind of part, are those that Hugging
 * Face's tokenizers gave (tests/unit/fixtures/token/make.py); and what is refused, by name.
 */
#include "lib/base/mem.h"
#include "lib/token/tokenizer.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static const char folder[] = "tests/unit/fixtures/token";

struct set { /* one tokenizer's */
    char name[64];
    struct sn_tokenizer *t;
    struct sn_encoder *e;
    int vectors, bad;
    bool missing; /* a library that it needs */
};

static void close_set(struct set *s)
{
    if (s->missing)
        tap_skip(s->name, "this build lacks a library");
    else if (s->name[0])
        (void)tap_ok(s->bad == 0 && s->vectors > 0,
                     "%s: %d documents have the tokens of tokenizers", s->name, s->vectors);
    sn_encoder_destroy(s->e);
    sn_tokenizer_destroy(s->t);
    *s = (struct set){0};
}

static void open_set(struct set *s, const char *name)
{
    struct sn_err err = {0};
    char path[128];
    close_set(s);
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    (void)snprintf(path, sizeof(path), "%s/%s.json", folder, name);
    if (sn_tokenizer_load(&s->t, path, &err) != SN_OK ||
        sn_encoder_create(&s->e, s->t, &err) != SN_OK)
        printf("# %s\n", err.text);
    s->missing = strstr(err.text, "this build has no") != NULL;
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;
    for (; hex[0] > ' ' && hex[1] > ' '; hex += 2)
        (void)sscanf(hex, "%2hhx", (unsigned char *)&out[n++]);
    return n;
}

/* "special hex id id ..." */
static void check_vector(struct set *s, char *line)
{
    static char text[1 << 14]; /* the longest line is shorter */
    struct sn_err err = {0};
    struct sn_ids ids = {0};
    char *hex = strchr(line, ' ') + 1, *p = strchr(hex, ' ');
    size_t len = from_hex(hex, text), i = 0;
    bool good = s->e && sn_encode(s->e, text, len, line[0] == '1', &ids, &err) == SN_OK;
    for (; p && *p == ' ' && p[1] > ' '; i++) {
        long id = strtol(p, &p, 10); /* also where it is not looked at: p goes on */
        good = good && i < ids.len && ids.p[i] == id;
    }
    good = good && i == ids.len;
    if (!good && s->bad++ == 0)
        printf("# %s: %.60s: %s\n", s->name, line, err.text);
    s->vectors++;
    sn_ids_fini(&ids);
}

static void vectors_are_those_of_tokenizers(void)
{
    static char line[1 << 16];
    char path[128];
    struct set s = {0};
    (void)snprintf(path, sizeof(path), "%s/vectors", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '=')
            open_set(&s, line + 2);
        else
            check_vector(&s, line);
    }
    (void)tap_ok(f && s.vectors > 0, "there are vectors");
    close_set(&s);
    if (f)
        (void)fclose(f);
}

static void decoding_gives_the_text_back(void)
{
    static const char text[] = "don't stop: na\xc3\xafve \xf0\x9f\x99\x82 caf\xc3\xa9,\n 12345";
    static const char *const names[] = {"gpt2", "llama3", "o200k", "llama2", "mistral"};
    for (size_t i = 0; i < 5; i++) {
        struct set s = {0};
        struct sn_err err = {0};
        struct sn_ids ids = {0};
        struct sn_bytes out = {0};
        open_set(&s, names[i]);
        bool good = s.e && sn_encode(s.e, text, strlen(text), false, &ids, &err) == SN_OK &&
                    sn_decode(s.t, ids.p, ids.len, false, &out, &err) == SN_OK;
        (void)tap_ok(s.missing ||
                         (good && out.len == strlen(text) && memcmp(out.p, text, out.len) == 0),
                     "%s: decoded it is the text", names[i]);
        s.name[0] = '\0';
        s.missing = false;
        sn_ids_fini(&ids);
        sn_bytes_fini(&out);
        close_set(&s);
    }
}

static void is_refused(const char *file, const char *sentence)
{
    struct sn_tokenizer *t = NULL;
    struct sn_err err = {0};
    enum sn_status st = sn_tokenizer_parse(&t, file, strlen(file), "t", &err);
    (void)tap_ok(st == SN_EINPUT, "refused: %.60s", file);
    (void)tap_text(err.text, sentence, "by this sentence");
    sn_tokenizer_destroy(t);
}

#define BPE "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []"

static void what_is_not_done_is_named(void)
{
    is_refused("hello", "t: is no tokenizer; want a tokenizer.json, a .tiktoken or SentencePiece's "
                        ".model");
    is_refused("{\"version\": \"1.0\", ", "t: is no JSON, or it is cut short; download it again");
    is_refused(
        "{\"version\": \"1.0\", \"flavour\": 1}",
        "t: tokenizer: 'flavour' is not known; a member that is passed over may change tokens");
    is_refused("{\"version\": \"1.0\", " BPE ", \"dropout\": 0.1}}",
               "t: model.dropout: tokens are not drawn by chance here; set it to null");
    is_refused("{\"version\": \"1.0\", \"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " BPE
               "}}",
               "t: pre_tokenizer: type 'UnicodeScripts' is not done here");
    is_refused("{\"version\": \"1.0\", \"padding\": {}, " BPE "}}",
               "t: padding: documents are neither cut nor filled up here; set it to null");
    is_refused("{\"version\": \"1.0\", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": "
               "0}, \"merges\": []}}",
               "t: model.vocab: tokens 'a' and 'b' both have id 0");
    is_refused("{\"version\": \"1.0\", \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
               "\"merges\": [\"a b\"]}}",
               "t: model.merges: 'a' + 'b' are not all in the vocabulary");
}

static void invalid_text_is_refused(void)
{
    struct set s = {0};
    struct sn_err err = {0};
    struct sn_ids ids = {0};
    open_set(&s, "gpt2");
    if (s.missing) {
        close_set(&s);
        return;
    }
    enum sn_status st = s.e ? sn_encode(s.e, "abc\xed\xa0\x80", 6, false, &ids, &err) : SN_OK;
    (void)tap_ok(st == SN_EINPUT, "a surrogate is no text");
    (void)tap_text(err.text, "byte 3 (0xed) is no valid UTF-8", "it says where");
    s.name[0] = '\0';
    sn_ids_fini(&ids);
    close_set(&s);
}

static void each_allocation_may_fail(void)
{
    static const char *const names[] = {"llama3", "bert", "t5", "mistral", "added"};
    for (size_t i = 0; i < 5; i++) {
        char path[128];
        int wrong = 0, n = 1;
        (void)snprintf(path, sizeof(path), "%s/%s.json", folder, names[i]);
        for (; n < 3000; n++) {
            struct sn_tokenizer *t = NULL;
            struct sn_encoder *e = NULL;
            struct sn_err err = {0};
            struct sn_ids ids = {0};
            struct sn_bytes out = {0};
            sn_mem_fail_at((uint64_t)n);
            enum sn_status st = sn_tokenizer_load(&t, path, &err);
            if (st == SN_OK)
                st = sn_encoder_create(&e, t, &err);
            if (st == SN_OK)
                st = sn_encode(e, "\xc3\xa9t\xc3\xa9 <s>: don't", 14, true, &ids, &err);
            if (st == SN_OK)
                st = sn_decode(t, ids.p, ids.len, false, &out, &err);
            sn_mem_fail_at(0);
            sn_encoder_destroy(e);
            sn_tokenizer_destroy(t);
            sn_ids_fini(&ids);
            sn_bytes_fini(&out);
            if (st == SN_OK || strstr(err.text, "this build has no"))
                break;
            wrong += st != SN_ENOMEM;
        }
        (void)tap_ok(wrong == 0 && n < 3000, "%s: each of %d allocations may fail", names[i], n);
    }
}

/* As Whisper's multilingual.tiktoken ends. */
static void an_empty_token_stands_for_nothing(void)
{
    static const char file[] = "IQ== 0\n= 1\nIg== 2\n";
    struct sn_tokenizer *t = NULL;
    struct sn_encoder *e = NULL;
    struct sn_err err = {0};
    struct sn_ids ids = {0};
    bool good = sn_tokenizer_parse(&t, file, strlen(file), "r50k.tiktoken", &err) == SN_OK &&
                sn_encoder_create(&e, t, &err) == SN_OK &&
                sn_encode(e, "!\"", 2, false, &ids, &err) == SN_OK;
    (void)tap_ok((good && ids.len == 2 && ids.p[0] == 0 && ids.p[1] == 2) ||
                     strstr(err.text, "this build has no"),
                 "an empty token of a .tiktoken stands for nothing");
    sn_ids_fini(&ids);
    sn_encoder_destroy(e);
    sn_tokenizer_destroy(t);
}

int main(void)
{
    vectors_are_those_of_tokenizers();
    decoding_gives_the_text_back();
    what_is_not_done_is_named();
    invalid_text_is_refused();
    an_empty_token_stands_for_nothing();
    each_allocation_may_fail();
    return tap_done();
}
