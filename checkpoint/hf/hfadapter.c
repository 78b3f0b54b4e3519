/*
 * hfadapter.c - names of adapters in PEFT's files: "base_model.model." before the module's, as
 * "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight". A[r, in] and B[out, r] lie as
 * ours, also where a weight lies turned. Source: peft/utils/save_and_load.py and
 * peft/tuners/lora/layer.py of version 0.21.
 */
#include "checkpoint/hf/hfrules.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum sn_status sn_hf_adapter_name(struct sn_hf_adapter_name *out, enum sn_family family,
                                  const char *tensor, const char *where, struct sn_err *err)
{
    char weight[96];
    struct sn_hf_at at = {0, 0};
    size_t stem = strlen(tensor) - strlen("lora_a");
    (void)snprintf(weight, sizeof(weight), "%.*sweight", (int)stem, tensor);
    const struct sn_hf_rule *r = sn_hf_rule_of(family, weight, &at);
    if (!r)
        return sn_fail(err, SN_EINPUT, "%s: no name is known for %s in files of the family %s",
                       where, weight, sn_family_name(family));
    if (r->form != SN_HF_SAME && r->form != SN_HF_CONV)
        return sn_fail(err, SN_EINPUT,
                       "%s: in files of the family %s %s is one matrix with others, and adapters "
                       "of such are not built in PEFT's form yet",
                       where, sn_family_name(family), weight);
    struct sn_hf_name module = sn_hf_theirs(family, r, at);
    module.text[strlen(module.text) - strlen(".weight")] = '\0';
    bool is_a = tensor[strlen(tensor) - 1] == 'a';
    const char *layers = strstr(module.text, "layers.");
    out->is_turned = r->form == SN_HF_CONV;
    (void)snprintf(out->module, sizeof(out->module), "%.95s", layers ? layers : module.text);
    (void)snprintf(out->text, sizeof(out->text), "base_model.model.%s.lora_%c.weight", module.text,
                   is_a ? 'A' : 'B');
    return SN_OK;
}

enum sn_status sn_hf_no_adapters(const char *path, struct sn_err *err)
{
    char *config = sn_format("%s/adapter_config.json", path);
    if (!config)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    bool is_there = access(config, F_OK) == 0; /* never where path is a file */
    sn_free(config);
    return !is_there
               ? SN_OK
               : sn_fail(err, SN_EINPUT,
                         "%s: has adapter_config.json beside the weights, by which transformers "
                         "adds adapters to others; want it in a directory of its own, such as "
                         "train.lora.init_from names",
                         path);
}
