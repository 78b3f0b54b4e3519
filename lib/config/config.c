/*
 * config.c - from a run file to struct sn_config: read, then values and defaults, then rules.
 */
#include "lib/config/config.h"

#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/config/settings.h"

#include <stdio.h>
#include <string.h>

static enum sn_status missing(const struct sn_settings *s, const struct sn_key *k,
                              struct sn_err *err)
{
    char want[SN_WANT_SIZE];
    return sn_settings_fail(s, k->name, err, "missing; want %s", sn_key_want(k, want));
}

static enum sn_status take_values(struct sn_config *c, const struct sn_settings *s,
                                  struct sn_err *err)
{
    for (int i = 0; i < sn_n_keys; i++) {
        const struct sn_key *k = &sn_keys[i];
        union sn_scratch unkept;
        void *at = sn_key_at(k, c);
        if (k->type == SN_KEY_MAP || k->type == SN_KEY_INCLUDE || k->not_built)
            continue;
        if (s->set[i])
            SN_TRY(sn_key_parse(k, s->set[i], at ? at : &unkept, err));
        else if (k->value && at)
            SN_TRY(sn_key_parse_default(k, at));
        else if (!k->value && !k->derived)
            return missing(s, k, err);
    }
    return SN_OK;
}

static enum sn_status parse(struct sn_config *out, struct sn_settings *s, struct sn_err *err)
{
    struct sn_config c;
    memset(&c, 0, sizeof(c)); /* padding too: equal files give equal bytes */
    (void)snprintf(c.path, sizeof(c.path), "%s", s->path);
    SN_TRY(take_values(&c, s, err));
    SN_TRY(sn_rules_apply(&c, s, err));
    memcpy(out, &c, sizeof(c));
    return SN_OK;
}

static enum sn_status read_and_parse(struct sn_config *out, struct sn_settings *s, const char *text,
                                     size_t len, const struct stat *id, struct sn_err *err)
{
    enum sn_status st = sn_settings_read(s, text, len, id, err);
    if (st == SN_OK)
        st = parse(out, s, err);
    sn_settings_fini(s);
    return st;
}

enum sn_status sn_config_parse(struct sn_config *out, const char *text, size_t len,
                               const char *path, const char *share_dir, struct sn_err *err)
{
    struct sn_settings s = {.path = path, .share_dir = share_dir};
    return read_and_parse(out, &s, text, len, NULL, err);
}

enum sn_status sn_config_load(struct sn_config *out, const char *path, const char *share_dir,
                              struct sn_err *err)
{
    char *text;
    size_t len;
    struct stat id;
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    struct sn_settings s = {.path = path, .share_dir = share_dir};
    enum sn_status st = read_and_parse(out, &s, text, len, &id, err);
    sn_free(text);
    return st;
}
