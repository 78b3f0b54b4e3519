#include "checkpoint/store/model_text.h"

#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <string.h>

static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
static const char value[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._";
static const char list[] = "[]0123456789+-.e, ";
static const char *const sections[] = {"  experts:", "  latent:", "  rope_scaling:"};
static const char *const includes[] = {"preset", "file", "config"}; /* of lib/config/keys.c */

/* "  key: value" with a key that reads no other file, or of a section inside the model's, whose keys stand
 * further in; a value is a word, or a list of numbers. */
static bool is_plain(const char *line, size_t len)
{
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (strlen(sections[i]) == len && strncmp(line, sections[i], len) == 0)
            return true;
    if (len > 4 && strncmp(line, "    ", 4) == 0) {
        line += 2;
        len -= 2;
    }
    if (len < 2 || strncmp(line, "  ", 2) != 0)
        return false;
    size_t key = strspn(line + 2, letters);
    if (key + 4 > len || strncmp(line + 2 + key, ": ", 2) != 0)
        return false;
    for (size_t i = 0; i < sizeof(includes) / sizeof(includes[0]); i++)
        if (strlen(includes[i]) == key && strncmp(line + 2, includes[i], key) == 0)
            return false;
    const char *says = line + 4 + key;
    return 4 + key + strspn(says, *says == '[' ? list : value) == len;
}

static enum sn_status check_lines(const char *text, const char *where, struct sn_err *err)
{
    int number = 1;
    for (const char *line = text; *line; number++) {
        size_t len = strcspn(line, "\n");
        bool good = number == 1 ? len == 6 && strncmp(line, "model:", 6) == 0 : is_plain(line, len);
        if (!good)
            return sn_fail(err, SN_EINPUT,
                           "%s: line %d of its model section is none of ours; want 'model:', then "
                           "lines such as '  layers: 12'",
                           where, number);
        line += len + (line[len] == '\n');
    }
    return SN_OK;
}

enum sn_status sn_model_text_parse(struct sn_config *out, const char *text, const char *where,
                                   struct sn_err *err)
{
    struct sn_str s = {0};
    SN_TRY(check_lines(text, where, err));
    char *path = sn_format("%s: model section", where);
    sn_str_add(&s, "%s\ntrain: {steps: 1, global_batch: 1}\nlayout: {data: 1}\n", text);
    enum sn_status st = path && !s.failed
                            ? sn_config_parse(out, s.p, s.len, path, NULL, err)
                            : sn_fail(err, SN_ENOMEM, "%s: no memory to read its model", where);
    sn_str_fini(&s);
    sn_free(path);
    return st;
}

enum sn_status sn_model_text_format(char **out, const struct sn_config *c, const char *where,
                                    struct sn_err *err)
{
    struct sn_str s = {0};
    struct sn_config again;
    sn_config_format_model(&s, c);
    enum sn_status st = s.failed
                            ? sn_fail(err, SN_ENOMEM, "%s: no memory to describe its model", where)
                            : sn_model_text_parse(&again, s.p, where, err);
    if (st == SN_OK)
        *out = s.p;
    else
        sn_str_fini(&s);
    return st;
}
