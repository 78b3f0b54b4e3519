#include "bin/train/line.h"

#include "bin/common.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-train RUN.yaml [options]        (several ranks: mpirun -n N sennit-train ...)\n"
    "\n"
    "Trains the model of RUN.yaml, continuing from the newest valid checkpoint.\n"
    "  --fresh              begin anew; checkpoints that exist are moved aside, not deleted\n"
    "  --stop-after N       leave after step N, saved; the schedule stays that of train.steps\n"
    "  --trial              keep nothing but metrics: no checkpoint, no evaluation (sennit-run "
    "trial "
    "says it)\n"
    "  --places FILE        where the processes are, \"PROCESS SWITCH.NODE\" a line, instead of "
    "what\n"
    "                       they see\n"
    "  --attempt N          number of this attempt's record (default: the first that is free)\n"
    "  --supervisor NAME    who has OUTPUT/supervisor.lock for this attempt (sennit-run exec says "
    "it)\n"
    "  --certificate HEX    refuse other programs than those that sennit-plan --verify has proven\n"
    "  --pace MACHINE.yaml  communicate for real, but spend each compute operation's planned time "
    "on\n"
    "                       that machine asleep: for measuring; learns, evaluates and saves "
    "nothing\n"
    "  --preflight          train nothing: check that every node computes, remembers, sends and "
    "stores as the\n"
    "                       others do, write OUTPUT/preflight.json, exit 77 if one does not\n"
    "  --tune MACHINE.yaml  measure, in one step that nobody keeps, which of its libraries' "
    "algorithms\n"
    "                       the device is fastest with, and write the run's machine with them\n"
    "  --replay STEP        make the steps from the checkpoint before STEP to STEP again, each "
    "held "
    "against what the\n"
    "                       run has left (losses; with run.fingerprints every result), and name "
    "where they\n"
    "                       part; changes nothing; exit 1 if something differs\n"
    "  --rank R             whose results --replay compares (default: all ranks')\n"
    "  --profile            at the end, print the time spent in each kind of operation\n"
    "  --trace FILE         draw the fourth step of this start for Perfetto: when each operation "
    "ran, "
    "on\n"
    "                       all ranks, beside the planned step\n"
    "  --generate TEXT      write a continuation of TEXT from the newest checkpoint, on as many "
    "ranks\n"
    "                       as are started; where no tokenizer is known, TEXT is bytes for a\n"
    "                       vocabulary of 256, else token ids, such as \"72 101\"\n"
    "  --prompt-file FILE   the same of the text in FILE\n"
    "  --answer FILE        the same of prompts in FILE: JSON lines {\"prompt\": ..., ...} in,\n"
    "                       {\"text\": ..., ...} out\n"
    "  --features FILE.npy  what train.prompt reads: for --score and --answer an entry for each; "
    "else a text\n"
    "                       for each entry, in a line, behind TEXT or the lines of FILE\n"
    "  --score FILE         how likely the continuations in FILE are: JSON lines {\"context\": "
    "..., "
    "\n"
    "                       \"continuation\": ...} or {\"text\": ...} in, {\"logprob\": ..., "
    "\"greedy\": "
    "..., ...}\n"
    "                       out, in the same order (any number of ranks)\n"
    "  --begin TOKEN        what a text or an empty context begins behind (default: what the run's "
    "data\n"
    "                       or its tokenizer puts before documents)\n"
    "  --tokenizer FILE     of text (default: that of the run's data)\n"
    "  --stop TOKEN         ends the text (default: what ends documents of the run's data)\n"
    "  --tokens N           how many tokens of it (default 200)\n"
    "  --temperature X      0 takes the most likely token (default 0.8)\n"
    "  --top-k N            draw from the N most likely tokens, 0 from all (default 40)\n"
    "  --top-p X            of these, draw from the fewest that have the share X of the "
    "probability\n"
    "                       (default 1: from all)\n"
    "  --seed N             draw others (default run.seed: the same text every time)\n"
    "  --no-cache           keep no keys and values: each token computes its whole window, the "
    "same text\n"
    "                       slower\n"
    "  --help, --version\n"
    "\n"
    "SIGINT, SIGUSR1, SIGUSR2 or the file OUTPUT/save-and-exit: save, exit 75. SIGTERM, SIGHUP: "
    "save,\n"
    "exit 76. Before the first step there is nothing to save.\n"
    "Exit 0: done, 1: the work failed, 2: bad usage or input, 77: a rank is gone or stuck\n"
    "(run.hang_timeout), 79: diverged.\n";

enum {
    FRESH = 256,
    TRIAL,
    STOP_AFTER,
    ATTEMPT,
    SUPERVISOR,
    CERTIFICATE,
    PACE,
    PREFLIGHT,
    PROFILE,
    TRACE,
    TUNE,
    REPLAY,
    RANK,
    PLACES,
    GENERATE,
    ANSWER,
    PROMPT_FILE,
    FEATURES,
    SCORE,
    BEGIN,
    TOKENIZER,
    STOP,
    TOKENS,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    SEED,
    NO_CACHE,
    HELP,
    VERSION
};

const char *sn_train_usage(void)
{
    return usage;
}

static enum sn_status parse_real(const char *option, double most, double *out, struct sn_err *err)
{
    char *end;
    double x = strtod(optarg, &end);
    if (end == optarg || *end || !(x >= 0 && x <= most))
        return sn_fail(err, SN_EINPUT, "%s: '%s' is no number from 0 to %g", option, optarg, most);
    *out = x;
    return SN_OK;
}

static enum sn_status parse_generate(int code, char **argv, struct sn_train_generate *g,
                                     struct sn_err *err)
{
    switch (code) {
    case GENERATE:
        g->text = optarg;
        return SN_OK;
    case ANSWER:
        g->answer = optarg;
        return SN_OK;
    case PROMPT_FILE:
        g->file = optarg;
        return SN_OK;
    case STOP:
        g->option = "--stop";
        g->stop = optarg;
        return SN_OK;
    case TOKENS:
        g->option = "--tokens";
        return sn_parse_number("--tokens", optarg, 1, 1 << 24, &g->tokens, err);
    case TOP_K:
        g->option = "--top-k";
        return sn_parse_number("--top-k", optarg, 0, 1 << 24, &g->top_k, err);
    case SEED:
        g->option = "--seed";
        return sn_parse_number("--seed", optarg, 0, INT64_MAX, &g->seed, err);
    case NO_CACHE:
        g->option = "--no-cache";
        g->whole = true;
        return SN_OK;
    case TEMPERATURE:
        g->option = "--temperature";
        return parse_real("--temperature", 100, &g->temperature, err);
    case TOP_P:
        g->option = "--top-p";
        return parse_real("--top-p", 1, &g->top_p, err);
    default:
        return sn_refuse_option("sennit-train", code, argv, err);
    }
}

static enum sn_status parse_option(int code, char **argv, struct sn_train_line *l,
                                   struct sn_err *err)
{
    long long n;
    switch (code) {
    case FRESH:
        l->train.fresh = true;
        return SN_OK;
    case TRIAL:
        l->train.trial = true;
        return SN_OK;
    case STOP_AFTER:
        SN_TRY(sn_parse_number("--stop-after", optarg, 1, INT64_MAX, &n, err));
        l->train.stop_after = n;
        return SN_OK;
    case ATTEMPT:
        return sn_parse_number("--attempt", optarg, 1, INT32_MAX, &l->attempt, err);
    case SUPERVISOR:
        l->supervisor = optarg;
        return SN_OK;
    case CERTIFICATE:
        l->certificate = strtoull(optarg, NULL, 16);
        if (strlen(optarg) != 16 || strspn(optarg, "0123456789abcdef") != 16 || l->certificate == 0)
            return sn_fail(
                err, SN_EINPUT,
                "--certificate: '%s' is none; want the 16 digits that sennit-plan --verify "
                "prints",
                optarg);
        return SN_OK;
    case PACE:
        l->machine_file = optarg;
        return SN_OK;
    case PREFLIGHT:
        l->preflight = true;
        return SN_OK;
    case PROFILE:
        l->profile = true;
        return SN_OK;
    case TRACE:
        l->trace.path = optarg;
        return SN_OK;
    case TUNE:
        l->tune = optarg;
        return SN_OK;
    case REPLAY:
        return sn_parse_number("--replay", optarg, 1, INT64_MAX, &l->replay.step, err);
    case RANK:
        return sn_parse_number("--rank", optarg, 0, INT32_MAX, &l->replay.rank, err);
    case PLACES:
        l->places = optarg;
        return SN_OK;
    case FEATURES:
        l->generate.features = l->score.features = optarg;
        return SN_OK;
    case SCORE:
        l->score.file = optarg;
        return SN_OK;
    case BEGIN:
        l->score.begin = optarg;
        return SN_OK;
    case TOKENIZER:
        l->generate.tokenizer = l->score.tokenizer = optarg;
        return SN_OK;
    case HELP:
        l->help = true;
        return SN_OK;
    case VERSION:
        l->version = true;
        return SN_OK;
    default:
        return parse_generate(code, argv, &l->generate, err);
    }
}

/* --- what goes together ----------------------------------------------------------------------- */

enum {
    WAY_GENERATE,
    WAY_SCORE,
    WAY_PREFLIGHT,
    WAY_PACE,
    WAY_TUNE,
    WAY_TRACE,
    WAY_REPLAY,
    WAY_TRIAL,
    WAY_FRESH,
    WAY_STOP_AFTER,
    WAY_PROFILE,
    WAYS
};

struct way {
    const char *option;
    bool is_given;
    const char *why;   /* it goes without others; NULL: it has none to go without */
    unsigned excludes; /* bits */
};

static enum sn_status check_ways(const struct sn_train_line *l, struct sn_err *err)
{
    static const char reads[] = "only reads the newest checkpoint";
    const struct way ways[WAYS] = {
        [WAY_GENERATE] = {sn_train_generate_option(&l->generate),
                          sn_train_generate_wanted(&l->generate), reads,
                          1u << WAY_FRESH | 1u << WAY_STOP_AFTER},
        [WAY_SCORE] = {"--score", l->score.file != NULL, reads,
                       1u << WAY_GENERATE | 1u << WAY_PREFLIGHT | 1u << WAY_PACE | 1u << WAY_TUNE |
                           1u << WAY_TRACE | 1u << WAY_REPLAY | 1u << WAY_FRESH |
                           1u << WAY_STOP_AFTER},
        [WAY_PACE] = {"--pace", l->machine_file != NULL, "learns nothing and touches no checkpoint",
                      1u << WAY_GENERATE | 1u << WAY_FRESH},
        [WAY_PREFLIGHT] = {"--preflight", l->preflight, "trains nothing",
                           1u << WAY_GENERATE | 1u << WAY_PACE | 1u << WAY_FRESH |
                               1u << WAY_STOP_AFTER},
        [WAY_TUNE] = {"--tune", l->tune != NULL, "keeps nothing of its step",
                      1u << WAY_GENERATE | 1u << WAY_PACE | 1u << WAY_PREFLIGHT | 1u << WAY_FRESH |
                          1u << WAY_STOP_AFTER},
        [WAY_TRACE] = {"--trace", l->trace.path != NULL, "draws a step as it is trained",
                       1u << WAY_GENERATE | 1u << WAY_PREFLIGHT | 1u << WAY_TUNE |
                           1u << WAY_PROFILE},
        [WAY_REPLAY] = {"--replay", l->replay.step > 0,
                        "makes steps again and keeps nothing of them",
                        1u << WAY_GENERATE | 1u << WAY_PREFLIGHT | 1u << WAY_PACE | 1u << WAY_TUNE |
                            1u << WAY_TRACE | 1u << WAY_FRESH | 1u << WAY_STOP_AFTER},
        [WAY_TRIAL] = {"--trial", l->train.trial, "trains and keeps nothing but metrics",
                       1u << WAY_GENERATE | 1u << WAY_SCORE | 1u << WAY_PREFLIGHT | 1u << WAY_PACE |
                           1u << WAY_TUNE | 1u << WAY_REPLAY},
        [WAY_FRESH] = {"--fresh", l->train.fresh, NULL, 0},
        [WAY_STOP_AFTER] = {"--stop-after", l->train.stop_after > 0, NULL, 0},
        [WAY_PROFILE] = {"--profile", l->profile, NULL, 0}};
    for (int w = 0; w < WAYS; w++)
        for (int other = 0; ways[w].is_given && other < WAYS; other++)
            if (ways[w].excludes >> other & 1u && ways[other].is_given)
                return sn_fail(err, SN_EINPUT, "%s: %s; leave %s out", ways[w].option, ways[w].why,
                               ways[other].option);
    return SN_OK;
}

enum sn_status sn_train_line_parse(int argc, char **argv, struct sn_train_line *l,
                                   struct sn_err *err)
{
    static const struct option options[] = {{"fresh", no_argument, NULL, FRESH},
                                            {"trial", no_argument, NULL, TRIAL},
                                            {"stop-after", required_argument, NULL, STOP_AFTER},
                                            {"attempt", required_argument, NULL, ATTEMPT},
                                            {"supervisor", required_argument, NULL, SUPERVISOR},
                                            {"certificate", required_argument, NULL, CERTIFICATE},
                                            {"pace", required_argument, NULL, PACE},
                                            {"preflight", no_argument, NULL, PREFLIGHT},
                                            {"profile", no_argument, NULL, PROFILE},
                                            {"trace", required_argument, NULL, TRACE},
                                            {"tune", required_argument, NULL, TUNE},
                                            {"replay", required_argument, NULL, REPLAY},
                                            {"rank", required_argument, NULL, RANK},
                                            {"places", required_argument, NULL, PLACES},
                                            {"generate", required_argument, NULL, GENERATE},
                                            {"answer", required_argument, NULL, ANSWER},
                                            {"prompt-file", required_argument, NULL, PROMPT_FILE},
                                            {"features", required_argument, NULL, FEATURES},
                                            {"score", required_argument, NULL, SCORE},
                                            {"begin", required_argument, NULL, BEGIN},
                                            {"tokenizer", required_argument, NULL, TOKENIZER},
                                            {"stop", required_argument, NULL, STOP},
                                            {"tokens", required_argument, NULL, TOKENS},
                                            {"temperature", required_argument, NULL, TEMPERATURE},
                                            {"top-k", required_argument, NULL, TOP_K},
                                            {"top-p", required_argument, NULL, TOP_P},
                                            {"seed", required_argument, NULL, SEED},
                                            {"no-cache", no_argument, NULL, NO_CACHE},
                                            {"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {0}};
    *l = (struct sn_train_line){.replay.rank = -1};
    sn_train_generate_init(&l->generate);
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, l, err));
    if (l->help || l->version)
        return SN_OK;
    SN_TRY(sn_parse_operand(&l->run_file, "sennit-train", "run file", argc, argv, err));
    if (l->generate.text && l->generate.file)
        return sn_fail(err, SN_EINPUT, "--prompt-file: leave --generate out, or it");
    if (l->generate.answer && (l->generate.text || l->generate.file))
        return sn_fail(err, SN_EINPUT, "--answer: has prompts of its own; leave %s out",
                       l->generate.text ? "--generate" : "--prompt-file");
    if (l->generate.option && !sn_train_generate_wanted(&l->generate))
        return sn_fail(err, SN_EINPUT, "%s: is for --generate and --answer%s", l->generate.option,
                       strcmp(l->generate.option, "--seed") == 0 ? "; a run's seed is run.seed"
                                                                 : ", which are not asked for");
    if ((l->generate.tokenizer || l->generate.features) && !l->score.file &&
        !sn_train_generate_wanted(&l->generate))
        return sn_fail(err, SN_EINPUT,
                       "--%s: is for --generate, --answer and --score, which are not asked for",
                       l->generate.tokenizer ? "tokenizer" : "features");
    if (l->score.begin && !l->score.file)
        return sn_fail(err, SN_EINPUT, "--begin: is for --score, which is not asked for");
    if (l->replay.rank >= 0 && l->replay.step == 0)
        return sn_fail(err, SN_EINPUT, "--rank: is for --replay, which is not asked for");
    return check_ways(l, err);
}
