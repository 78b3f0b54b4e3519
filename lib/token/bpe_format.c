/*
 * bpe_format.c - a trained vocabulary as tokenizer.json, laid out as serde's pretty printer does.
 */
#include "lib/base/mem.h"
#include "lib/token/bpe_train.h"

static void add_text(struct sn_str *out, const struct sn_vocab *v, int32_t id)
{
    size_t n;
    const char *p = sn_vocab_text(v, id, &n);
    char *text = sn_strndup(p, n);
    out->failed = out->failed || !text;
    sn_str_add_json(out, text ? text : "");
    sn_free(text);
}

static void add_special(struct sn_str *out, const struct sn_bpe_training *how)
{
    sn_str_add(out, "  \"added_tokens\": [%s", how->n_special ? "\n" : "");
    for (int i = 0; i < how->n_special; i++) {
        sn_str_add(out, "    {\n      \"id\": %d,\n      \"content\": ", i);
        sn_str_add_json(out, how->special[i]);
        sn_str_add(out,
                   ",\n      \"single_word\": false,\n      \"lstrip\": false,\n"
                   "      \"rstrip\": false,\n      \"normalized\": false,\n"
                   "      \"special\": true\n    }%s\n",
                   i + 1 < how->n_special ? "," : "");
    }
    sn_str_add(out, "%s],\n", how->n_special ? "  " : "");
}

static void add_byte_level(struct sn_str *out, const char *blanks, bool prefix, bool regex)
{
    sn_str_add(out,
               "{\n%s  \"type\": \"ByteLevel\",\n%s  \"add_prefix_space\": %s,\n"
               "%s  \"trim_offsets\": true,\n%s  \"use_regex\": %s\n%s}",
               blanks, blanks, prefix ? "true" : "false", blanks, blanks, regex ? "true" : "false",
               blanks);
}

static void add_pretokenizer(struct sn_str *out, enum sn_scan pattern)
{
    sn_str_add(out, "  \"pre_tokenizer\": ");
    if (pattern == SN_SCAN_GPT2) {
        add_byte_level(out, "  ", false, true);
        sn_str_add(out, ",\n");
        return;
    }
    sn_str_add(out, "{\n    \"type\": \"Sequence\",\n    \"pretokenizers\": [\n      {\n"
                    "        \"type\": \"Split\",\n        \"pattern\": {\n          \"Regex\": ");
    sn_str_add_json(out, sn_scan_pattern(pattern));
    sn_str_add(out, "\n        },\n        \"behavior\": \"Isolated\",\n        \"invert\": false\n"
                    "      },\n      ");
    add_byte_level(out, "      ", false, false);
    sn_str_add(out, "\n    ]\n  },\n");
}

void sn_bpe_trained_format(const struct sn_bpe_trained *t, const struct sn_bpe_training *how,
                           enum sn_scan pattern, struct sn_str *out)
{
    int32_t tokens = (int32_t)t->vocab.n_tokens;
    sn_str_add(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    add_special(out, how);
    sn_str_add(out, "  \"normalizer\": null,\n");
    add_pretokenizer(out, pattern);
    sn_str_add(out, "  \"post_processor\": null,\n  \"decoder\": ");
    add_byte_level(out, "  ", true, true);
    sn_str_add(out, ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                    "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                    "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                    "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                    "    \"vocab\": {");
    for (int32_t i = 0; i < tokens; i++) {
        sn_str_add(out, "%s\n      ", i ? "," : "");
        add_text(out, &t->vocab, i);
        sn_str_add(out, ": %d", i);
    }
    sn_str_add(out, "%s},\n    \"merges\": [", tokens ? "\n    " : "");
    for (size_t i = 0; i < t->merges.len; i += 2) {
        sn_str_add(out, "%s\n      [\n        ", i ? "," : "");
        add_text(out, &t->vocab, t->merges.p[i]);
        sn_str_add(out, ",\n        ");
        add_text(out, &t->vocab, t->merges.p[i + 1]);
        sn_str_add(out, "\n      ]");
    }
    sn_str_add(out, "%s]\n  }\n}", t->merges.len ? "\n    " : "");
}
