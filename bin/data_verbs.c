#include "bin/data_verbs.h"

#include "bin/common.h"
#include "lib/data/data_build.h"
#include "lib/data/rewrite.h"
#include "lib/data/stats.h"
#include "lib/model/model.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-data merge PREFIX... -o OUT      the documents of all, in their order\n"
    "       sennit-data split PREFIX... -o OUT      into OUT-train, OUT-valid, OUT-test\n"
    "       sennit-data shuffle PREFIX... -o OUT    the documents in another order\n"
    "       sennit-data dedup PREFIX... -o OUT      of documents with the same tokens the first\n"
    "       sennit-data stats PREFIX...             lengths of documents, tokens used\n"
    "       sennit-data check PREFIX...             the whole index and every token\n"
    "\n"
    "  -o, --output OUT   where to write; the tokenizer beside PREFIX goes along\n"
    "  --force            replace files that are there\n"
    "  --valid N          split: so many documents, or with N < 1 such a share, into OUT-valid\n"
    "  --test N           split: the same of OUT-test\n"
    "  --seed N           split, shuffle: another choice (default 0)\n"
    "  --memory SIZE      shuffle: documents in memory at once (default 1GiB); the output is the "
    "same\n"
    "  --frequent N       stats: so many of the most frequent tokens (default 10, at most 64)\n"
    "  --seq N            stats: what to plan with where samples have N tokens (model.seq)\n"
    "  --vocab N          check: tokens are 0 .. N-1 (default: the tokenizer's beside PREFIX)\n"
    "  --json             report as JSON\n";

enum verb { MERGE, SPLIT, SHUFFLE, DEDUP, STATS, CHECK, N_VERBS };
static const char *const verbs[N_VERBS] = {"merge", "split", "shuffle", "dedup", "stats", "check"};

enum code { FORCE = 256, VALID, TEST, SEED, MEMORY, FREQUENT, SEQ, VOCAB, JSON, HELP };
#define OF(verb) (1u << (verb))

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, FORCE},
    {"valid", required_argument, NULL, VALID},
    {"test", required_argument, NULL, TEST},
    {"seed", required_argument, NULL, SEED},
    {"memory", required_argument, NULL, MEMORY},
    {"frequent", required_argument, NULL, FREQUENT},
    {"seq", required_argument, NULL, SEQ},
    {"vocab", required_argument, NULL, VOCAB},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {0},
};

struct line {
    enum verb verb;
    struct sn_rewrite rewrite;
    int frequent;
    int64_t seq, vocab;
    bool as_json, wants_help;
};

/* Whose an option is, as bits. */
static unsigned owners(int code)
{
    switch (code) {
    case VALID:
    case TEST:
        return OF(SPLIT);
    case SEED:
        return OF(SPLIT) | OF(SHUFFLE);
    case MEMORY:
        return OF(SHUFFLE);
    case FREQUENT:
    case SEQ:
        return OF(STATS);
    case VOCAB:
        return OF(CHECK);
    case 'o':
    case FORCE:
        return OF(MERGE) | OF(SPLIT) | OF(SHUFFLE) | OF(DEDUP);
    default:
        return ~0u;
    }
}

static enum sn_status foreign_option(int code, const char *verb, struct sn_err *err)
{
    const struct option *o = options;
    while (o->val != code)
        o++;
    return sn_fail(err, SN_EINPUT,
                   "sennit-data %s: --%s is for another command; see sennit-data %s --help", verb,
                   o->name, verb);
}

/* A share below 1, or a whole number of documents. */
static enum sn_status parse_part(const char *option, double *out, struct sn_err *err)
{
    char *end;
    double value = strtod(optarg, &end);
    if (end == optarg || *end || !(value > 0 && value < 0x1p53) ||
        (value >= 1 && value != (double)(int64_t)value))
        return sn_fail(err, SN_EINPUT,
                       "%s: '%s' is neither a share nor a number of documents; want one such as "
                       "0.01 or 5000",
                       option, optarg);
    *out = value;
    return SN_OK;
}

static enum sn_status parse_option(int code, char **argv, struct line *line, struct sn_err *err)
{
    long long n = 0;
    if (!(owners(code) & OF(line->verb)))
        return foreign_option(code, argv[0], err);
    switch (code) {
    case 'o':
        line->rewrite.out = optarg;
        return SN_OK;
    case FORCE:
        line->rewrite.force = true;
        return SN_OK;
    case VALID:
        return parse_part("--valid", &line->rewrite.part[0], err);
    case TEST:
        return parse_part("--test", &line->rewrite.part[1], err);
    case SEED:
        SN_TRY(sn_parse_number("--seed", optarg, 0, INT64_MAX, &n, err));
        line->rewrite.seed = (uint64_t)n;
        return SN_OK;
    case MEMORY:
        return sn_parse_bytes("--memory", optarg, 1, &line->rewrite.memory, err);
    case FREQUENT:
        SN_TRY(sn_parse_number("--frequent", optarg, 0, SN_STATS_FREQUENT, &n, err));
        line->frequent = (int)n;
        return SN_OK;
    case SEQ:
        SN_TRY(sn_parse_number("--seq", optarg, 1, SN_EXPECTED_TOKENS_MOST, &n, err));
        line->seq = n;
        return SN_OK;
    case VOCAB:
        SN_TRY(sn_parse_number("--vocab", optarg, 1, INT32_MAX, &n, err));
        line->vocab = n;
        return SN_OK;
    case JSON:
        line->as_json = true;
        return SN_OK;
    case HELP:
        line->wants_help = true;
        return SN_OK;
    default: {
        char program[32];
        (void)snprintf(program, sizeof(program), "sennit-data %s", argv[0]);
        return sn_refuse_option(program, code, argv, err);
    }
    }
}

static enum sn_status settle(const struct line *line, struct sn_err *err)
{
    const struct sn_rewrite *r = &line->rewrite;
    const char *verb = verbs[line->verb];
    if (r->n_prefixes == 0)
        return sn_fail(err, SN_EINPUT, "sennit-data %s: no PREFIX; name token files", verb);
    if (line->verb <= DEDUP && (!r->out || !*r->out))
        return sn_fail(err, SN_EINPUT, "sennit-data %s: no output; want -o OUT", verb);
    if (line->verb == SPLIT && r->part[0] == 0 && r->part[1] == 0)
        return sn_fail(err, SN_EINPUT,
                       "sennit-data split: into what; want --valid N, --test N, or both");
    return SN_OK;
}

static enum sn_status stats(const struct line *line, struct sn_str *out, struct sn_err *err)
{
    const struct sn_rewrite *r = &line->rewrite;
    struct sn_stats s;
    struct sn_stats_want want = {line->frequent, line->seq, r->stop_fd};
    SN_TRY(sn_stats(r->prefixes, r->n_prefixes, &want, &s, err));
    if (s.seq > 0)
        sn_model_documents_of(s.seq, s.keys, s.prompt_keys, &s.plan_length, &s.plan_prompt);
    return sn_stats_format(r->prefixes, r->n_prefixes, &s, line->as_json, out, err);
}

static void checked(const char *prefix, const struct sn_data_checked *c, bool as_json,
                    struct sn_str *out)
{
    if (as_json) {
        sn_str_add(out, "{");
        sn_data_counts_json(out, prefix, "", &c->info);
        sn_str_add(out, c->vocab ? ", \"vocab\": %lld" : ", \"vocab\": null", (long long)c->vocab);
        sn_str_add(out, ", \"tokenizer\": %s, \"mask\": %s}", c->has_tokenizer ? "true" : "false",
                   c->has_mask ? "true" : "false");
        return;
    }
    sn_data_counts(out, prefix, "", &c->info);
    if (c->vocab)
        sn_str_add(out, "the index%s sound, and every token is one of 0 .. %lld%s\n",
                   c->has_mask ? " and the mask are" : " is", (long long)c->vocab - 1,
                   c->has_tokenizer ? "; the tokenizer beside it is its own" : "");
    else
        sn_str_add(out,
                   "the index%s sound; tokens are held to no vocabulary, which --vocab N names\n",
                   c->has_mask ? " and the mask are" : " is");
}

static enum sn_status check(const struct line *line, struct sn_str *out, struct sn_err *err)
{
    const struct sn_rewrite *r = &line->rewrite;
    sn_str_add(out, line->as_json ? "[" : "");
    for (int i = 0; i < r->n_prefixes; i++) {
        struct sn_data_checked c;
        SN_TRY(sn_data_check(r->prefixes[i], line->vocab, r->stop_fd, &c, err));
        sn_str_add(out, line->as_json && i > 0 ? ", " : "");
        checked(r->prefixes[i], &c, line->as_json, out);
    }
    sn_str_add(out, line->as_json ? "]\n" : "");
    return SN_OK;
}

bool sn_data_is_verb(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (strcmp(name, verbs[i]) == 0)
            return true;
    return false;
}

enum sn_status sn_data_verb(int argc, char **argv, int stop_fd, struct sn_str *out,
                            struct sn_err *err)
{
    struct line line = {.frequent = 10,
                        .rewrite = {.memory = INT64_C(1) << 30, .stop_fd = stop_fd}};
    while (strcmp(argv[0], verbs[line.verb]) != 0)
        line.verb++;
    for (int code; (code = getopt_long(argc, argv, ":o:", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, &line, err));
    if (line.wants_help) {
        sn_str_add(out, "%s", usage);
        return SN_OK;
    }
    line.rewrite.prefixes = argv + optind;
    line.rewrite.n_prefixes = argc - optind;
    SN_TRY(settle(&line, err));
    if (line.verb == STATS)
        return stats(&line, out, err);
    if (line.verb == CHECK)
        return check(&line, out, err);
    struct sn_rewritten done;
    line.rewrite.kind = (enum sn_rewrite_kind)line.verb; /* in the same order */
    SN_TRY(sn_rewrite(&line.rewrite, &done, err));
    sn_rewritten_format(&line.rewrite, &done, line.as_json, out);
    return SN_OK;
}
