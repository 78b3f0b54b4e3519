#include "lib/base/tokenizer_id.h"

#include <string.h>

bool sn_tokenizer_id_is_name(const char *file)
{
    size_t n = strlen(file);
    bool good = n > 0 && n < SN_TOKENIZER_NAME_MAX && file[0] != '.';
    for (size_t i = 0; i < n; i++)
        good = good && file[i] >= ' ' && file[i] < 0x7f && file[i] != '/';
    return good;
}

/* As transformers writes them, of every kind of tokenizer. */
const char *const sn_tokenizer_companions[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
    "tekken.json",
    NULL,
};
