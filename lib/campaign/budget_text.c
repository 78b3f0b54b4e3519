/*
 * budget_text.c - what a budget buys, in words and in JSON.
 */
#include "lib/campaign/budget.h"

#include <stdio.h>

static void model_line(struct sn_str *out, const char *what, const struct sn_budget *b,
                       double parameters, double tokens)
{
    char n[24], d[24];
    double loss = sn_law_loss(b->law, parameters, tokens);
    sn_str_add(out, "  %-22s %8s parameters, %8s tokens, %5.3g a parameter", what,
               sn_campaign_number(n, parameters), sn_campaign_number(d, tokens),
               tokens / parameters);
    if (loss > 0)
        sn_str_add(out, ", loss %.4g", loss);
}

/* FLOPs that the run's model does in this time. */
static double flops_of(const struct sn_budget *b)
{
    return 6 * (double)b->run.campaign.parameters * b->run.campaign.tokens;
}

static void text_largest(struct sn_str *out, const struct sn_budget *b)
{
    const struct sn_campaign *k = &b->largest.campaign;
    char axes[SN_AXES_SIZE] = {0};
    if (!b->largest.found) {
        sn_str_add(out, "  no model of this shape: %s\n", b->largest.why);
        return;
    }
    model_line(out, "largest of its shape", b, (double)k->parameters, k->tokens);
    sn_str_add(out,
               "\n    layers %d, hidden %d, heads %d, kv_heads %d, ffn %d; MFU %.1f %%, %.3g days; "
               "%s, micro-batch %d, zero %d; %d models planned\n",
               b->model.layers, b->model.hidden, b->model.heads, b->model.kv_heads, b->model.ffn,
               100 * k->plan.mfu, k->days, sn_config_axes(axes, &b->largest.layout),
               b->largest.layout.micro_batch, b->largest.layout.zero, b->tried);
}

void sn_budget_text(struct sn_str *out, const struct sn_budget *b)
{
    const struct sn_campaign *k = &b->run.campaign;
    char hours[24], axes[SN_AXES_SIZE] = {0};
    sn_str_add(out, "budget: %s node-hours of %s on %d ranks; law %s: %s\n",
               sn_campaign_number(hours, b->node_hours), b->run.machine, b->run.ranks, b->law->name,
               b->law->source);
    if (!b->run.found) {
        sn_str_add(out, "  the run's model: %s\n", b->run.why);
    } else {
        model_line(out, "the run's model", b, (double)k->parameters, k->tokens);
        sn_str_add(out, "\n    MFU %.1f %%, %lld steps in %.3g days; %s, micro-batch %d, zero %d\n",
                   100 * k->plan.mfu, (long long)k->steps, k->days,
                   sn_config_axes(axes, &b->run.layout), b->run.layout.micro_batch,
                   b->run.layout.zero);
    }
    for (int i = 0; i < SN_NLAWS && b->run.found; i++) {
        const struct sn_budget by = {.law = &sn_laws[i]};
        double n = sn_law_parameters(&sn_laws[i], flops_of(b));
        char what[40];
        (void)snprintf(what, sizeof(what), "best by %s", sn_laws[i].name);
        model_line(out, what, &by, n, flops_of(b) / 6 / n);
        sn_str_add(out, "%s\n", i ? "" : " (at the rate of the run's model)");
    }
    text_largest(out, b);
}

static void json_model(struct sn_str *out, const struct sn_budget *b, double parameters,
                       double tokens)
{
    double loss = sn_law_loss(b->law, parameters, tokens);
    sn_str_add(out, "\"parameters\": %.9g, \"tokens\": %.9g, \"loss\": ", parameters, tokens);
    if (loss > 0)
        sn_str_add(out, "%.9g", loss);
    else
        sn_str_add(out, "null");
}

void sn_budget_json(struct sn_str *out, const struct sn_budget *b)
{
    sn_str_add(out, "{\"node_hours\": %.9g, \"law\": \"%s\", \"best\": [", b->node_hours,
               b->law->name);
    for (int i = 0; i < SN_NLAWS && b->run.found; i++) {
        const struct sn_budget by = {.law = &sn_laws[i]};
        double n = sn_law_parameters(&sn_laws[i], flops_of(b));
        sn_str_add(out, "%s{\"law\": \"%s\", ", i ? ", " : "", sn_laws[i].name);
        json_model(out, &by, n, flops_of(b) / 6 / n);
        sn_str_add(out, "}");
    }
    sn_str_add(out, "], \"largest\": ");
    if (b->largest.found) {
        sn_str_add(
            out, "{\"layers\": %d, \"hidden\": %d, \"heads\": %d, \"kv_heads\": %d, \"ffn\": %d, ",
            b->model.layers, b->model.hidden, b->model.heads, b->model.kv_heads, b->model.ffn);
        json_model(out, b, (double)b->largest.campaign.parameters, b->largest.campaign.tokens);
        sn_str_add(out, "}");
    } else
        sn_str_add(out, "null");
    sn_str_add(out, ", \"tried\": %d}", b->tried);
}
