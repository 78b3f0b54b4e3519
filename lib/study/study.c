#include "lib/study/study.h"

#include "lib/base/mem.h"
#include "lib/machine/named.h"
#include "lib/search/resolve.h"

#include <stdio.h>
#include <string.h>

/* A value of a row or a column put into a run file. */
typedef void set_value(struct sn_config *c, int value);

struct side {
    const char *name;
    set_value *set;
    int n, value[SN_STUDY_ROWS];
    const char *const *word; /* by index; NULL: the value is a number */
};

static void name_key(struct sn_config *c, enum sn_layout_key k)
{
    c->layout_named |= 1u << k;
}

static void set_micro_batch(struct sn_config *c, int v)
{
    c->layout.micro_batch = v;
    name_key(c, SN_KEY_MICRO_BATCH);
}

static void set_recompute(struct sn_config *c, int v)
{
    c->layout.recompute = (enum sn_recompute)v;
    name_key(c, SN_KEY_RECOMPUTE);
}

static void set_tensor(struct sn_config *c, int v)
{
    c->layout.tensor = v;
    name_key(c, SN_KEY_TENSOR);
}

static void set_pipeline(struct sn_config *c, int v)
{
    c->layout.pipeline = v;
    name_key(c, SN_KEY_PIPELINE);
}

static void set_sequence_parallel(struct sn_config *c, int v)
{
    c->layout.sequence_parallel = v != 0;
    name_key(c, SN_KEY_SEQUENCE_PARALLEL);
}

static void set_zero(struct sn_config *c, int v)
{
    c->layout.zero = v;
    name_key(c, SN_KEY_ZERO);
}

static void set_attention(struct sn_config *c, int v)
{
    c->machine.software.attention = 1 + v;
}

static void set_norm(struct sn_config *c, int v)
{
    c->machine.software.fused_norm = 1 + v;
}

static const char *const recomputes[] = {"none", "selective", "full"};
static const char *const flags[] = {"false", "true"};
static const char *const kernels[] = {"torch", "fused", "flash1", "flash2"};
static const char *const norms[] = {"several", "one kernel"};

/* 1, 2, 4 ... up to `most`. */
static struct side powers(const char *name, set_value *set, int most, int room)
{
    struct side s = {.name = name, .set = set};
    for (int v = 1; v <= most && s.n < room; v *= 2)
        s.value[s.n++] = v;
    return s;
}

static struct side divisors(const char *name, set_value *set, int of, int least)
{
    struct side s = {.name = name, .set = set};
    for (int v = least; v <= of && s.n < SN_STUDY_COLUMNS; v++)
        if (of % v == 0)
            s.value[s.n++] = v;
    return s;
}

static struct side words(const char *name, set_value *set, const char *const *word, int n)
{
    struct side s = {.name = name, .set = set, .n = n, .word = word};
    for (int i = 0; i < n; i++)
        s.value[i] = i;
    return s;
}

static void label(char out[16], const struct side *s, int i)
{
    if (s->word)
        (void)snprintf(out, 16, "%s", s->word[i]);
    else
        (void)snprintf(out, 16, "%d", s->value[i]);
}

/* --- a cell ------------------------------------------------------------------------------------ */

static enum sn_status search(struct sn_study_cell *out, const struct sn_study_want *w,
                             const struct sn_config *c, struct sn_err *err)
{
    struct sn_software software;
    struct sn_search s = {0};
    SN_TRY(sn_software_of(&software, c, NULL, err));
    out->limit = sn_names_machine(c) ? sn_memory_limit(w->machine, c) : sn_host_limit(w->ranks);
    enum sn_status st = sn_search_run(&s,
                                      &(struct sn_search_want){.config = c,
                                                               .machine = w->machine,
                                                               .software = &software,
                                                               .ops = w->ops,
                                                               .threads = w->threads,
                                                               .ranks = w->ranks,
                                                               .top = 1,
                                                               .limit = out->limit},
                                      err);
    out->valid = st == SN_OK;
    if (st == SN_OK && s.n > 0) {
        out->found = true;
        out->layout = s.found[0].layout;
        out->plan = s.found[0].plan;
    } else if (st == SN_OK)
        (void)sn_search_why(out->why, &s, out->limit);
    sn_search_fini(&s);
    return st;
}

/* What is refused is a cell that says why. */
static enum sn_status fill(struct sn_study_cell *out, const struct sn_study_want *w,
                           struct sn_config *c, struct sn_err *err)
{
    enum sn_status st = search(out, w, c, err);
    if (st != SN_EINPUT)
        return st;
    (void)snprintf(out->why, sizeof(out->why), "%s", err->text);
    *err = (struct sn_err){0};
    return SN_OK;
}

/* --- tables ------------------------------------------------------------------------------------ */

static enum sn_status add(struct sn_study *s, const struct sn_study_want *w,
                          const struct side *down, const struct side *across, struct sn_err *err)
{
    struct sn_study_table *t = &s->table[s->n];
    if (down->n == 0 || across->n == 0)
        return SN_OK;
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "study: no memory for a run file");
    t->down = down->name;
    t->across = across->name;
    t->rows = down->n;
    t->columns = across->n;
    enum sn_status st = SN_OK;
    for (int r = 0; r < t->rows; r++)
        for (int k = 0; k < t->columns && st == SN_OK; k++) {
            label(t->row[r], down, r);
            label(t->column[k], across, k);
            *c = *w->config;
            down->set(c, down->value[r]);
            across->set(c, across->value[k]);
            st = fill(&t->cell[r][k], w, c, err);
        }
    s->n++;
    sn_free(c);
    return st;
}

/* Of a trainer of others, whose kernels are told apart, in the order of the study. */
static struct side kernels_of(const struct sn_config *c)
{
    static const int order[] = {SN_ATTENTION_TORCH, SN_ATTENTION_FUSED, SN_ATTENTION_FLASH1,
                                SN_ATTENTION_FLASH2};
    const struct sn_software_config *s = &c->machine.software;
    struct side side =
        words("attention", set_attention, kernels, s->profile[0] || s->file[0] ? 4 : 0);
    for (int i = 0; i < side.n; i++)
        side.value[i] = order[i];
    return side;
}

static enum sn_status add_all(struct sn_study *s, const struct sn_study_want *w, struct sn_err *err)
{
    const struct sn_config *c = w->config;
    int node = w->machine->devices, batch = c->train.global_batch;
    int deep = c->model.layers < w->ranks ? c->model.layers : w->ranks;
    struct side micro = powers("micro-batch", set_micro_batch, batch, 5);
    struct side again = words("recompute", set_recompute, recomputes, 3);
    struct side tensor = divisors("tensor", set_tensor, node < w->ranks ? node : w->ranks, 1);
    struct side pipeline = powers("pipeline", set_pipeline, deep, SN_STUDY_COLUMNS - 1);
    struct side parallel = words("sequence_parallel", set_sequence_parallel, flags, 2);
    struct side several = divisors("tensor", set_tensor, node < w->ranks ? node : w->ranks, 2);
    struct side zero = {.name = "zero", .set = set_zero, .n = 4, .value = {0, 1, 2, 3}};
    struct side attention = kernels_of(c);
    struct side norm = words("norm", set_norm, norms, 2);
    SN_TRY(add(s, w, &micro, &again, err));
    SN_TRY(add(s, w, &tensor, &pipeline, err));
    SN_TRY(add(s, w, &parallel, &several, err));
    SN_TRY(add(s, w, &zero, &tensor, err));
    return add(s, w, &attention, &norm, err);
}

/* Nothing is valid: what the first cell says is right for all. */
static enum sn_status refuse_empty(const struct sn_study *s, struct sn_err *err)
{
    bool any = false;
    for (int i = 0; i < s->n; i++)
        for (int r = 0; r < s->table[i].rows; r++)
            for (int k = 0; k < s->table[i].columns; k++)
                any = any || s->table[i].cell[r][k].valid;
    return any ? SN_OK : sn_fail(err, SN_EINPUT, "%s", s->table[0].cell[0][0].why);
}

enum sn_status sn_study_run(struct sn_study *out, const struct sn_study_want *w, struct sn_err *err)
{
    *out = (struct sn_study){.ranks = w->ranks};
    out->table = sn_alloc_n(SN_STUDY_TABLES, sizeof(*out->table));
    if (!out->table)
        return sn_fail(err, SN_ENOMEM, "study: no memory for the tables");
    memset(out->table, 0, SN_STUDY_TABLES * sizeof(*out->table));
    enum sn_status st = add_all(out, w, err);
    if (st == SN_OK)
        st = refuse_empty(out, err);
    if (st != SN_OK)
        sn_study_fini(out);
    return st;
}

void sn_study_fini(struct sn_study *s)
{
    sn_free(s->table);
    *s = (struct sn_study){0};
}

const struct sn_study_cell *sn_study_best_of(const struct sn_study_table *t)
{
    const struct sn_study_cell *best = NULL;
    for (int r = 0; r < t->rows; r++)
        for (int k = 0; k < t->columns; k++) {
            const struct sn_study_cell *x = &t->cell[r][k];
            if (x->found && (!best || x->plan.step_time < best->plan.step_time))
                best = x;
        }
    return best;
}

const struct sn_study_cell *sn_study_best(const struct sn_study *s)
{
    const struct sn_study_cell *best = NULL;
    for (int i = 0; i < s->n; i++) {
        const struct sn_study_cell *x = sn_study_best_of(&s->table[i]);
        if (x && (!best || x->plan.step_time < best->plan.step_time))
            best = x;
    }
    return best;
}
