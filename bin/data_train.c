#include "bin/data_train.h"

#include "bin/common.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/texts/train_tokenizer.h"

#include <getopt.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-data train-tokenizer INPUT... --vocab-size N -o FILE [options]\n"
    "\n"
    "Writes FILE, a tokenizer.json: a byte-level BPE whose merges are those of BpeTrainer of\n"
    "Hugging Face's tokenizers on the same documents.\n"
    "  INPUT              as of sennit-data tokenize\n"
    "  --vocab-size N     tokens in all, special ones and bytes among them\n"
    "  -o, --output FILE  where to write\n"
    "  --pattern NAME     how words are cut: llama3 (default), gpt2 or qwen2\n"
    "  --special TOKEN    a special token, the first one is 0; once for each\n"
    "  --min-frequency N  pairs that are seen less often become no token (default 2)\n"
    "  --alphabet WHICH   bytes that are tokens: all (default), or those that were seen\n"
    "  --field NAME       the text of a line of JSON (default text)\n"
    "  --documents WHAT   of plain text: files (default), lines or paragraphs\n"
    "  --workers N        threads (default: one for each core that it may run on); the file is the "
    "same\n"
    "  --skip-bad N       leave out up to N documents that are no valid text or JSON, and list "
    "them\n"
    "  --force            replace a file that is there\n"
    "  --json             report as JSON\n";

enum code {
    VOCAB = 256,
    PATTERN,
    SPECIAL,
    FREQUENCY,
    ALPHABET,
    FIELD,
    DOCUMENTS,
    WORKERS,
    SKIP,
    FORCE,
    JSON,
    HELP
};

static const struct option options[] = {
    {"vocab-size", required_argument, NULL, VOCAB},
    {"output", required_argument, NULL, 'o'},
    {"pattern", required_argument, NULL, PATTERN},
    {"special", required_argument, NULL, SPECIAL},
    {"min-frequency", required_argument, NULL, FREQUENCY},
    {"alphabet", required_argument, NULL, ALPHABET},
    {"field", required_argument, NULL, FIELD},
    {"documents", required_argument, NULL, DOCUMENTS},
    {"workers", required_argument, NULL, WORKERS},
    {"skip-bad", required_argument, NULL, SKIP},
    {"force", no_argument, NULL, FORCE},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {0},
};

struct line {
    struct sn_train_tokenizer train;
    char **special; /* room for as many as there are words on the command line */
    bool as_json, wants_help;
};

/* One of three words; which, or SN_EINPUT. */
static enum sn_status parse_word(const char *option, const char *const words[3], int *out,
                                 struct sn_err *err)
{
    for (*out = 0; *out < 3; ++*out)
        if (words[*out] && strcmp(optarg, words[*out]) == 0)
            return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: '%s' is unknown; want %s%s%s or %s", option, optarg,
                   words[2] ? words[0] : "", words[2] ? ", " : "", words[2] ? words[1] : words[0],
                   words[2] ? words[2] : words[1]);
}

static enum sn_status parse_choice(int code, struct sn_train_tokenizer *t, struct sn_err *err)
{
    static const char *const patterns[3] = {"gpt2", "llama3", "qwen2"};
    static const char *const documents[3] = {"files", "lines", "paragraphs"};
    static const char *const alphabets[3] = {"all", "seen"};
    int which = 0;
    if (code == PATTERN) {
        SN_TRY(parse_word("--pattern", patterns, &which, err));
        t->pattern = (enum sn_scan)(SN_SCAN_GPT2 + which);
    } else if (code == DOCUMENTS) {
        SN_TRY(parse_word("--documents", documents, &which, err));
        t->texts.documents = (enum sn_data_documents)which;
    } else {
        SN_TRY(parse_word("--alphabet", alphabets, &which, err));
        t->how.all_bytes = which == 0;
    }
    return SN_OK;
}

static enum sn_status parse_count(int code, struct sn_train_tokenizer *t, struct sn_err *err)
{
    long long n = 0;
    if (code == VOCAB) {
        SN_TRY(sn_parse_number("--vocab-size", optarg, 1, SN_TOKEN_IDS, &n, err));
        t->how.vocab = n;
    } else if (code == FREQUENCY) {
        SN_TRY(sn_parse_number("--min-frequency", optarg, 0, INT64_MAX, &n, err));
        t->how.min_frequency = n;
    } else if (code == WORKERS) {
        SN_TRY(sn_parse_number("--workers", optarg, 1, 1024, &n, err));
        t->texts.workers = (int)n;
    } else {
        SN_TRY(sn_parse_number("--skip-bad", optarg, 0, INT64_MAX, &n, err));
        t->texts.skip_bad = n;
    }
    return SN_OK;
}

static enum sn_status parse_option(int code, char **argv, struct line *line, struct sn_err *err)
{
    struct sn_train_tokenizer *t = &line->train;
    switch (code) {
    case 'o':
        t->texts.out = optarg;
        return SN_OK;
    case FIELD:
        t->texts.field = optarg;
        return SN_OK;
    case SPECIAL:
        line->special[t->how.n_special++] = optarg;
        return SN_OK;
    case VOCAB:
    case FREQUENCY:
    case WORKERS:
    case SKIP:
        return parse_count(code, t, err);
    case PATTERN:
    case DOCUMENTS:
    case ALPHABET:
        return parse_choice(code, t, err);
    case FORCE:
        t->force = true;
        return SN_OK;
    case JSON:
        line->as_json = true;
        return SN_OK;
    case HELP:
        line->wants_help = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-data train-tokenizer", code, argv, err);
    }
}

static enum sn_status check(const struct sn_train_tokenizer *t, struct sn_err *err)
{
    const char *lacks = t->texts.n_inputs == 0             ? "no input; name texts"
                        : !t->texts.out || !*t->texts.out  ? "no output; want -o FILE"
                        : t->how.vocab == 0                ? "no size; want --vocab-size N"
                        : t->how.vocab <= t->how.n_special ? "--vocab-size has room for special "
                                                             "tokens alone; want more"
                                                           : NULL;
    return lacks ? sn_fail(err, SN_EINPUT, "sennit-data train-tokenizer: %s", lacks) : SN_OK;
}

static void report(const struct line *line, const struct sn_trained_tokenizer *done,
                   struct sn_str *out)
{
    if (line->as_json) {
        sn_str_add(out, "{\"file\": ");
        sn_str_add_json(out, line->train.texts.out);
        sn_str_add(out,
                   ", \"vocab\": %lld, \"merges\": %lld, \"words\": %lld, \"different_words\": "
                   "%lld, \"files\": %d, \"text_bytes\": %lld, \"skipped\": %lld}\n",
                   (long long)done->vocab, (long long)done->merges, (long long)done->words,
                   (long long)done->different_words, done->files, (long long)done->bytes,
                   (long long)done->skipped);
        return;
    }
    sn_str_add(out,
               "%s: %lld tokens, %lld merges, of %lld words, %lld of them different, in %d file%s",
               line->train.texts.out, (long long)done->vocab, (long long)done->merges,
               (long long)done->words, (long long)done->different_words, done->files,
               done->files == 1 ? "" : "s");
    if (done->skipped > 0)
        sn_str_add(out, "; %lld left out", (long long)done->skipped);
    sn_str_add(out, "\n");
    if (done->vocab < line->train.how.vocab)
        sn_str_add(out, "no pair is left that is seen %lld times; %lld tokens were wanted\n",
                   (long long)line->train.how.min_frequency, (long long)line->train.how.vocab);
}

static enum sn_status run(struct line *line, int argc, char **argv, struct sn_str *out,
                          struct sn_err *err)
{
    struct sn_train_tokenizer *t = &line->train;
    struct sn_trained_tokenizer done;
    for (int code; (code = getopt_long(argc, argv, ":o:", options, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, line, err));
    if (line->wants_help) {
        sn_str_add(out, "%s", usage);
        return SN_OK;
    }
    t->texts.inputs = argv + optind;
    t->texts.n_inputs = argc - optind;
    t->how.special = line->special;
    SN_TRY(check(t, err));
    SN_TRY(sn_train_tokenizer(t, &done, err));
    report(line, &done, out);
    return SN_OK;
}

enum sn_status sn_data_train_tokenizer(int argc, char **argv, int stop_fd, struct sn_str *out,
                                       struct sn_err *err)
{
    struct line line = {.train = {.texts = {.field = "text", .stop_fd = stop_fd},
                                  .how = {.min_frequency = 2, .all_bytes = true},
                                  .pattern = SN_SCAN_LLAMA3}};
    line.train.texts.workers = sn_cores();
    line.special = sn_alloc_n((size_t)argc, sizeof(*line.special));
    if (!line.special)
        return sn_fail(err, SN_ENOMEM, "sennit-data train-tokenizer: no memory");
    enum sn_status st = run(&line, argc, argv, out, err);
    sn_free(line.special);
    return st;
}
