#include "bin/plan_list.h"

#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/config/hfkeys.h"
#include "lib/machine/machine.h"
#include "lib/model/model.h"
#include "slurm/site/site.h"

#include <stdio.h>
#include <string.h>

enum sn_status sn_plan_parse_list(struct sn_plan_lists *l, const char *text, struct sn_err *err)
{
    static const char *const kinds[] = {"models", "machines", "sites", "software", "runs"};
    l->list = text;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(text, kinds[i]) == 0)
            return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "--list: there are no '%s'; want models, machines, sites, software or runs",
                   text);
}

enum sn_status sn_plan_parse_keys(struct sn_plan_lists *l, const char *format, struct sn_err *err)
{
    l->keys = true;
    l->markdown = format && strcmp(format, "markdown") == 0;
    l->machines = format && strcmp(format, "machines") == 0;
    l->sites = format && strcmp(format, "sites") == 0;
    l->huggingface = format && strcmp(format, "huggingface") == 0;
    if (format && !l->markdown && !l->machines && !l->sites && !l->huggingface)
        return sn_fail(err, SN_EINPUT,
                       "--help-keys: '%s' is no format; want markdown, machines, sites, "
                       "huggingface or nothing",
                       format);
    return SN_OK;
}

enum sn_status sn_plan_check_list(const struct sn_plan_lists *l, int argc, char **argv,
                                  struct sn_err *err)
{
    const char *option = l->keys ? "--help-keys" : "--list";
    int words = l->keys || strchr(argv[1], '=') ? 2 : 3; /* --list WHAT, or one of --list=WHAT */
    bool is_first = strncmp(argv[1], option, 3) == 0;
    if (is_first && argc == words)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "sennit-plan: %s stands alone on its line; leave the other words out", option);
}

/* A line of a shipped model: its name, and how many weights it has. */
static enum sn_status model_line(struct sn_str *out, const char *name, struct sn_err *err)
{
    char text[192];
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    struct sn_model *model = NULL;
    (void)snprintf(text, sizeof(text), "model: {preset: %s}\ntrain: {steps: 1, global_batch: 1}\n",
                   name);
    enum sn_status st = c ? sn_config_parse(c, text, strlen(text), name, NULL, err)
                          : sn_fail(err, SN_ENOMEM, "no memory for the model %s", name);
    if (st == SN_OK)
        st = sn_model_create(&model, &c->model, &c->train, err);
    if (st == SN_OK)
        sn_str_add(out, "%-18s %15lld parameters\n", name, (long long)sn_model_param_count(model));
    sn_model_destroy(model);
    sn_free(c);
    return st;
}

static enum sn_status list_models(struct sn_str *out, struct sn_err *err)
{
    struct sn_str names = {0};
    enum sn_status st = sn_presets_list(&names, "models", err);
    for (char *name = names.p, *end; st == SN_OK && name && *name; name = end + 1) {
        end = strchr(name, '\n'); /* each line has one */
        *end = '\0';
        st = model_line(out, name, err);
    }
    sn_str_fini(&names);
    return st;
}

enum sn_status sn_plan_print_lists(const struct sn_plan_lists *l, struct sn_err *err)
{
    struct sn_str text = {0};
    enum sn_status st = SN_OK;
    if (l->list && strcmp(l->list, "models") == 0)
        st = list_models(&text, err);
    else if (l->list)
        st = sn_presets_list(&text, l->list, err);
    else if (l->machines)
        sn_machine_help(&text);
    else if (l->sites)
        sn_site_help(&text);
    else if (l->huggingface)
        sn_hf_help(&text);
    else
        sn_config_help(&text, l->markdown);
    if (st == SN_OK && text.failed)
        st = sn_fail(err, SN_ENOMEM, "--help-keys: no memory for the text");
    if (st == SN_OK)
        (void)fputs(text.p ? text.p : "", stdout);
    sn_str_fini(&text);
    return st;
}
