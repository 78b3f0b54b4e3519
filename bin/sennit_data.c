/*
 * sennit_data.c - the command line of sennit-data: build and print token files.
 */
#include "bin/common.h"
#include "bin/data_tokenize.h"
#include "bin/data_train.h"
#include "bin/data_verbs.h"
#include "lib/base/plain.h"
#include "lib/base/str.h"
#include "lib/data/data.h"
#include "lib/data/data_build.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

static const char usage[] =
    "usage: sennit-data build --text FILE... -o PREFIX [options]\n"
    "       sennit-data build --tokens FILE... -o PREFIX [options]\n"
    "       sennit-data tokenize INPUT... --tokenizer FILE --out DIR [options]\n"
    "       sennit-data print PREFIX [options]\n"
    "       sennit-data train-tokenizer INPUT... --vocab-size N -o FILE [options]\n"
    "       sennit-data merge | split | shuffle | dedup | stats | check PREFIX... [options]\n"
    "\n"
    "build writes PREFIX.bin and PREFIX.idx, the indexed format that Megatron reads too.\n"
    "  --text               the bytes of the files are the tokens (vocabulary 256)\n"
    "  --tokens             the files hold tokens: decimal numbers with blanks between them\n"
    "  --tokens-dtype TYPE  text (default), or binary: u8, i8, u16, i16, u32, i32, i64\n"
    "  --masked             decimal tokens with - before them, such as -17, do not count as\n"
    "                       targets (data.loss: mask); also writes PREFIX.mask\n"
    "  -o, --output PREFIX  where to write\n"
    "  --valid FRACTION     put this last share of the tokens into PREFIX-valid\n"
    "  --vocab N            refuse tokens outside 0 .. N-1; N < 65500 also saves space\n"
    "  --raw                take files that are packed (gzip, zstd, ...) or JSON lines as they "
    "are,\n"
    "                       byte by byte; without it they are refused\n"
    "  --documents WHAT     a document is one of: files (default for --text), lines (default\n"
    "                       for decimal --tokens), paragraphs\n"
    "  --json               report as JSON\n"
    "A FILE of - is standard input.\n"
    "\n"
    "tokenize makes tokens of texts by a model's tokenizer; see sennit-data tokenize --help.\n"
    "train-tokenizer makes a vocabulary of texts; see sennit-data train-tokenizer --help.\n"
    "merge, split, shuffle, dedup, stats, check: see sennit-data merge --help.\n"
    "\n"
    "print shows what PREFIX holds.\n"
    "  --document N         show tokens of this document (default 0)\n"
    "  --tokens N           show this many of its tokens (default 32)\n"
    "  --text               show them as text too\n"
    "Tokens that PREFIX.mask leaves out have a - before them.\n"
    "  --json               report as JSON\n"
    "\n"
    "sennit-data --help, --version. Exit 0: done, 1: the work failed, 2: bad usage or input.\n";

enum option_code {
    TEXT = 256,
    TOKENS,
    MASKED,
    TYPE,
    VALID,
    VOCAB,
    RAW,
    DOCUMENTS,
    DOCUMENT,
    JSON,
    HELP
};

static enum sn_status bad_option(int code, char **argv, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "sennit-data %s: %s %s; see sennit-data --help", argv[0],
                   code == ':' ? "no value after" : "unknown option", argv[optind - 1]);
}

static enum sn_status parse_fraction(double *out, struct sn_err *err)
{
    char *end;
    double value = strtod(optarg, &end);
    if (end == optarg || *end || !(value > 0 && value < 1))
        return sn_fail(err, SN_EINPUT,
                       "--valid: '%s' is no share; want a number between 0 and 1, such "
                       "as 0.01",
                       optarg);
    *out = value;
    return SN_OK;
}

static enum sn_status parse_documents(int *out, struct sn_err *err)
{
    static const char *const names[] = {[SN_DOCUMENTS_FILES] = "files",
                                        [SN_DOCUMENTS_LINES] = "lines",
                                        [SN_DOCUMENTS_PARAGRAPHS] = "paragraphs"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(optarg, names[i]) == 0) {
            *out = i;
            return SN_OK;
        }
    }
    return sn_fail(err, SN_EINPUT, "--documents: '%s' is unknown; want files, lines or paragraphs",
                   optarg);
}

static enum sn_status parse_vocab(struct sn_data_build *b, struct sn_err *err)
{
    long long vocab;
    SN_TRY(sn_parse_number("--vocab", optarg, 1, INT32_MAX, &vocab, err));
    b->vocab = vocab;
    return SN_OK;
}

static enum sn_status parse_type(struct sn_data_build *b, struct sn_err *err)
{
    b->binary_code = sn_data_binary_code(optarg);
    if (b->binary_code == 0 && strcmp(optarg, "text") != 0)
        return sn_fail(err, SN_EINPUT,
                       "--tokens-dtype: '%s' is unknown; want text, u8, i8, u16, i16, u32, i32 or "
                       "i64",
                       optarg);
    return SN_OK;
}

struct build_line {
    struct sn_data_build build;
    bool has_text, has_tokens, has_type, as_json, wants_help;
    int documents; /* -1: not said */
};

static enum sn_status parse_build_option(int code, char **argv, struct build_line *line,
                                         struct sn_err *err)
{
    switch (code) {
    case TEXT:
        line->has_text = true;
        return SN_OK;
    case TOKENS:
        line->has_tokens = true;
        return SN_OK;
    case MASKED:
        line->build.masked = true;
        return SN_OK;
    case TYPE:
        line->has_type = true;
        return parse_type(&line->build, err);
    case 'o':
        line->build.prefix = optarg;
        return SN_OK;
    case VALID:
        return parse_fraction(&line->build.valid, err);
    case VOCAB:
        return parse_vocab(&line->build, err);
    case RAW:
        line->build.raw = true;
        return SN_OK;
    case DOCUMENTS:
        return parse_documents(&line->documents, err);
    case JSON:
        line->as_json = true;
        return SN_OK;
    case HELP:
        line->wants_help = true;
        return SN_OK;
    default:
        return bad_option(code, argv, err);
    }
}

/* The rules between the options. */
static enum sn_status settle(struct build_line *line, struct sn_err *err)
{
    struct sn_data_build *b = &line->build;
    if (line->has_text == line->has_tokens)
        return sn_fail(err, SN_EINPUT,
                       "sennit-data build: %s; want --text FILE... or --tokens "
                       "FILE...",
                       line->has_text ? "both --text and --tokens" : "no kind of input");
    if (!b->prefix || !*b->prefix)
        return sn_fail(err, SN_EINPUT, "sennit-data build: no output; want -o PREFIX");
    if (b->n_files == 0)
        return sn_fail(err, SN_EINPUT,
                       "sennit-data build: no files; name some, or - for standard "
                       "input");
    if (line->has_type && line->has_text)
        return sn_fail(err, SN_EINPUT,
                       "sennit-data build: --tokens-dtype is for --tokens; leave it "
                       "out with --text");
    if (b->masked && (line->has_text || b->binary_code != 0))
        return sn_fail(err, SN_EINPUT,
                       "sennit-data build: --masked is for decimal --tokens; leave it out");
    bool is_binary = line->has_tokens && b->binary_code != 0;
    if (is_binary && line->documents > SN_DOCUMENTS_FILES)
        return sn_fail(err, SN_EINPUT,
                       "sennit-data build: binary tokens have no lines or "
                       "paragraphs; want --documents files");
    b->source = line->has_text ? SN_SOURCE_BYTES : is_binary ? SN_SOURCE_BINARY : SN_SOURCE_DECIMAL;
    b->documents = line->documents >= 0             ? (enum sn_data_documents)line->documents
                   : b->source == SN_SOURCE_DECIMAL ? SN_DOCUMENTS_LINES
                                                    : SN_DOCUMENTS_FILES;
    return SN_OK;
}

/* Signals that end the work become readable at the file that is returned; too large a file becomes
 * an error. So nothing half-written stays behind. */
static int catch_signals(void)
{
    const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t stop;
    (void)sigemptyset(&stop);
    for (int i = 0; i < 3; i++) {
        struct sigaction now;
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* as under nohup */
            (void)sigaddset(&stop, ends[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    (void)signal(SIGXFSZ, SIG_IGN);
    int fd = signalfd(-1, &stop, SFD_CLOEXEC);
    if (fd < 0)
        (void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* then they end the program the usual way */
    return fd;
}

static enum sn_status build(int argc, char **argv, struct sn_str *out, struct sn_err *err)
{
    static const struct option options[] = {
        {"text", no_argument, NULL, TEXT},
        {"tokens", no_argument, NULL, TOKENS},
        {"masked", no_argument, NULL, MASKED},
        {"tokens-dtype", required_argument, NULL, TYPE},
        {"output", required_argument, NULL, 'o'},
        {"valid", required_argument, NULL, VALID},
        {"vocab", required_argument, NULL, VOCAB},
        {"raw", no_argument, NULL, RAW},
        {"documents", required_argument, NULL, DOCUMENTS},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct build_line line = {.documents = -1};
    struct sn_data_info info[2];
    for (int code; (code = getopt_long(argc, argv, ":o:", options, NULL)) != -1;)
        SN_TRY(parse_build_option(code, argv, &line, err));
    if (line.wants_help) {
        sn_str_add(out, "%s", usage);
        return SN_OK;
    }
    line.build.files = argv + optind;
    line.build.n_files = argc - optind;
    SN_TRY(settle(&line, err));
    line.build.stop_fd = catch_signals();
    SN_TRY(sn_data_build(&line.build, info, err));
    sn_data_built_format(&line.build, info, line.as_json, out);
    return SN_OK;
}

static enum sn_status print(int argc, char **argv, struct sn_str *out, struct sn_err *err)
{
    static const struct option options[] = {
        {"document", required_argument, NULL, DOCUMENT},
        {"tokens", required_argument, NULL, TOKENS},
        {"text", no_argument, NULL, TEXT},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct sn_data_view view = {0};
    long long document = 0, tokens = 32;
    bool wants_help = false;
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == DOCUMENT)
            SN_TRY(sn_parse_number("--document", optarg, 0, INT64_MAX, &document, err));
        else if (code == TOKENS)
            SN_TRY(sn_parse_number("--tokens", optarg, 0, INT64_MAX, &tokens, err));
        else if (code == '?' || code == ':')
            return bad_option(code, argv, err);
        view.as_text = view.as_text || code == TEXT;
        view.as_json = view.as_json || code == JSON;
        wants_help = wants_help || code == HELP;
    }
    if (wants_help) {
        sn_str_add(out, "%s", usage);
        return SN_OK;
    }
    if (argc - optind != 1)
        return sn_fail(err, SN_EINPUT, "sennit-data print: %d prefixes; want exactly one",
                       argc - optind);
    view.prefix = argv[optind];
    view.document = document;
    view.tokens = tokens;
    struct sn_data *d = NULL;
    SN_TRY(sn_data_open(&d, view.prefix, err));
    enum sn_status st = sn_data_view_format(d, &view, out, err);
    sn_data_close(d);
    return st;
}

static enum sn_status dispatch(int argc, char **argv, struct sn_str *out, struct sn_err *err)
{
    const char *command = argc > 1 ? argv[1] : "";
    opterr = 0; /* we say it ourselves */
    if (strcmp(command, "build") == 0)
        return build(argc - 1, argv + 1, out, err);
    if (strcmp(command, "print") == 0)
        return print(argc - 1, argv + 1, out, err);
    if (strcmp(command, "tokenize") == 0)
        return sn_data_tokenize(argc - 1, argv + 1, catch_signals(), out, err);
    if (strcmp(command, "train-tokenizer") == 0)
        return sn_data_train_tokenizer(argc - 1, argv + 1, catch_signals(), out, err);
    if (sn_data_is_verb(command))
        return sn_data_verb(argc - 1, argv + 1, catch_signals(), out, err);
    if (strcmp(command, "--version") == 0)
        sn_str_add(out, "sennit-data %s\n", SN_VERSION);
    else if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0)
        sn_str_add(out, "%s", usage);
    else
        return sn_fail(err, SN_EINPUT,
                       "sennit-data: %s%s%s; want build, tokenize, train-tokenizer, print, merge, "
                       "split, shuffle, dedup, stats or check, see sennit-data --help",
                       *command ? "unknown command '" : "no command", command, *command ? "'" : "");
    return SN_OK;
}

int main(int argc, char **argv)
{
    struct sn_str out = {0};
    struct sn_err err = {0};
    enum sn_status st = dispatch(argc, argv, &out, &err);
    if (st == SN_OK && out.failed)
        st = sn_fail(&err, SN_ENOMEM, "sennit-data: no memory for the report");
    sn_plain_lines(out.p);
    if (st == SN_OK && ((out.p && fputs(out.p, stdout) < 0) || fflush(stdout) != 0))
        st = sn_fail(&err, SN_EIO, "standard output: cannot be written (%s)", strerror(errno));
    sn_str_fini(&out);
    return st == SN_OK ? 0 : sn_report(&err);
}
