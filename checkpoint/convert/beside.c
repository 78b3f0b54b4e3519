/*
 * beside.c - what stands beside the weights of the field's files and is of no model: the tokenizer, how
 * text is made, and the numbers of its tokens.
 */
#include "checkpoint/convert/beside.h"

#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/config/hfconfig.h"

#include <unistd.h>

/* As transformers writes them, of every kind of tokenizer. */
static const char *const names[] = {
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
};

static enum sn_status copy(const char *from, const char *to, struct sn_err *err)
{
    char *bytes;
    size_t len;
    SN_TRY(sn_file_load(&bytes, &len, from, err));
    enum sn_status st = sn_file_save(to, bytes, len, err);
    sn_free(bytes);
    return st;
}

enum sn_status sn_beside_copy(const char *from, const char *to, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && st == SN_OK; i++) {
        char *source = sn_format("%s/%s", from, names[i]),
             *copied = sn_format("%s/%s", to, names[i]);
        if (!source || !copied)
            st = sn_fail(err, SN_ENOMEM, "%s: no memory to copy %s", from, names[i]);
        else if (access(source, F_OK) == 0)
            st = copy(source, copied, err);
        sn_free(source);
        sn_free(copied);
    }
    return st;
}

enum sn_status sn_beside_tokens(struct sn_str *out, const char *from, struct sn_err *err)
{
    char *path = sn_format("%s/config.json", from), *text = NULL;
    size_t len = 0;
    enum sn_status st =
        path ? sn_file_load(&text, &len, path, err)
             : sn_fail(err, SN_ENOMEM, "%s: no memory to read its config.json", from);
    if (st == SN_OK)
        st = sn_hfconfig_tokens(out, text, len, path, err);
    sn_free(text);
    sn_free(path);
    return st;
}
