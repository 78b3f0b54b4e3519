#include "bin/data_tokenize.h"

#include "bin/common.h"
#include "lib/base/thread.h"
#include "lib/data/data_format.h"
#include "lib/texts/tokenize.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: sennit-data tokenize INPUT... --tokenizer FILE --out DIR [options]\n"
    "\n"
    "Writes DIR/tokens.bin and .idx, the indexed format that Megatron reads too, from texts.\n"
    "  INPUT              a file, a directory (all texts below it), or a pattern in quotes;\n"
    "                     .txt, .jsonl and others, packed with gzip or zstd or not,\n"
    "                     and .parquet\n"
    "  --tokenizer FILE   tokenizer.json, a .tiktoken or SentencePiece's .model\n"
    "  --out DIR          where to write; the same command again goes on where it was stopped\n"
    "  --field NAME       the text of a line of JSON or of a row (default text)\n"
    "  --begin TOKEN      put this token before each document, --end TOKEN behind it\n"
    "  --special          put around each document what the tokenizer's file says\n"
    "  --documents WHAT   of plain text: files (default), lines or paragraphs\n"
    "  --share I/N        this process takes share I (from 0) of N of the files; srun -n N says "
    "it\n"
    "                     itself, and the last one puts the parts together\n"
    "  --workers N        threads (default: one for each core that it may run on)\n"
    "  --skip-bad N       leave out up to N documents that are no valid text or JSON, and list "
    "them\n"
    "  --chat             documents are conversations: lines with messages (role, content) or\n"
    "                     conversations (from, value), by the tokenizer's chat template; which\n"
    "                     tokens count as targets goes into DIR/tokens.mask (data.loss: mask)\n"
    "  --train-on ROLES   whose turns count, with commas between them (default assistant)\n"
    "  --chat-template FILE  in place of the tokenizer's own\n"
    "  --chat-arg NAME=VALUE a variable of the template, such as enable_thinking=false; repeat it\n"
    "  --chat-date DATE   YYYY-MM-DD, where a template asks for today's\n"
    "  --role NAME=TEXT   no template: a turn of this role is TEXT with its content in place of "
    "{};\n"
    "                     \\n is a line end; once for each role\n"
    "  --json             report as JSON\n";

/* Options that may be repeated, at most so often. */
enum { MANY = 64 };

struct asked {
    struct sn_tokenize t;
    struct sn_chat_want chat;
    char *roles[MANY], *arguments[MANY];
    bool as_json, is_chat;
};

enum code {
    TOKENIZER = 256,
    OUT,
    FIELD,
    BEGIN,
    END,
    TEMPLATE,
    TRAIN_ON,
    DATE,
    CHAT,
    ROLE,
    ARGUMENT,
    SPECIAL,
    DOCUMENTS,
    SHARE,
    WORKERS,
    SKIP,
    JSON,
    HELP
};

static const struct option options[] = {
    {"tokenizer", required_argument, NULL, TOKENIZER},
    {"out", required_argument, NULL, OUT},
    {"field", required_argument, NULL, FIELD},
    {"begin", required_argument, NULL, BEGIN},
    {"end", required_argument, NULL, END},
    {"chat", no_argument, NULL, CHAT},
    {"chat-template", required_argument, NULL, TEMPLATE},
    {"train-on", required_argument, NULL, TRAIN_ON},
    {"chat-date", required_argument, NULL, DATE},
    {"chat-arg", required_argument, NULL, ARGUMENT},
    {"role", required_argument, NULL, ROLE},
    {"special", no_argument, NULL, SPECIAL},
    {"documents", required_argument, NULL, DOCUMENTS},
    {"share", required_argument, NULL, SHARE},
    {"workers", required_argument, NULL, WORKERS},
    {"skip-bad", required_argument, NULL, SKIP},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {0},
};

static enum sn_status parse_documents(enum sn_data_documents *out, struct sn_err *err)
{
    static const char *const names[] = {[SN_DOCUMENTS_FILES] = "files",
                                        [SN_DOCUMENTS_LINES] = "lines",
                                        [SN_DOCUMENTS_PARAGRAPHS] = "paragraphs"};
    for (int i = 0; i < 3; i++)
        if (strcmp(optarg, names[i]) == 0) {
            *out = (enum sn_data_documents)i;
            return SN_OK;
        }
    return sn_fail(err, SN_EINPUT, "--documents: '%s' is unknown; want files, lines or paragraphs",
                   optarg);
}

static enum sn_status parse_share(const char *text, struct sn_tokenize *t, struct sn_err *err)
{
    int end = 0;
    if (sscanf(text, "%d/%d%n", &t->share, &t->shares, &end) != 2 || text[end] || t->shares < 1 ||
        t->shares > 1 << 20 || t->share < 0 || t->share >= t->shares)
        return sn_fail(err, SN_EINPUT,
                       "--share: '%s' is none; want I/N with I from 0 to N - 1, such as 0/4", text);
    return SN_OK;
}

/* Of a step of Slurm with several processes, the share of this one. SLURM_NTASKS is set in a batch
 * script, too, which is one process. */
static enum sn_status find_share(struct sn_tokenize *t, struct sn_err *err)
{
    char text[64];
    const char *of = getenv("SLURM_STEP_NUM_TASKS"), *own = getenv("SLURM_PROCID");
    if (t->shares > 0 || !of || !own || strcmp(of, "1") == 0)
        return SN_OK;
    (void)snprintf(text, sizeof(text), "%s/%s", own, of);
    return parse_share(text, t, err);
}

static enum sn_status parse_many(char **list, int *n, const char *name, struct sn_err *err)
{
    if (*n == MANY)
        return sn_fail(err, SN_EINPUT, "%s: more than %d of them", name, MANY);
    list[(*n)++] = optarg;
    return SN_OK;
}

static enum sn_status parse_option(int code, char **argv, struct asked *a, struct sn_err *err)
{
    long long n = 0;
    struct sn_tokenize *t = &a->t;
    const char **texts[] = {&t->tokenizer,     &t->out,      &t->field,
                            &t->begin,         &t->end,      &a->chat.template_file,
                            &a->chat.train_on, &a->chat.date};
    a->is_chat = a->is_chat || (code >= TEMPLATE && code <= ARGUMENT);
    if (code >= TOKENIZER && code <= DATE) {
        *texts[code - TOKENIZER] = optarg;
        return SN_OK;
    }
    switch (code) {
    case CHAT:
        return SN_OK;
    case ROLE:
        return parse_many(a->roles, &a->chat.n_roles, "--role", err);
    case ARGUMENT:
        return parse_many(a->arguments, &a->chat.n_arguments, "--chat-arg", err);
    case SPECIAL:
        t->special = true;
        return SN_OK;
    case DOCUMENTS:
        return parse_documents(&t->documents, err);
    case SHARE:
        return parse_share(optarg, t, err);
    case WORKERS:
        SN_TRY(sn_parse_number("--workers", optarg, 1, 1024, &n, err));
        t->workers = (int)n;
        return SN_OK;
    case SKIP:
        SN_TRY(sn_parse_number("--skip-bad", optarg, 0, INT64_MAX, &n, err));
        t->skip_bad = n;
        return SN_OK;
    case JSON:
        a->as_json = true;
        return SN_OK;
    default:
        return sn_fail(err, SN_EINPUT,
                       "sennit-data tokenize: %s %s; see sennit-data tokenize --help",
                       code == ':' ? "no value after" : "unknown option", argv[optind - 1]);
    }
}

static enum sn_status check(const struct sn_tokenize *t, struct sn_err *err)
{
    const char *lacks = t->n_inputs == 0                  ? "no input; name texts"
                        : !t->tokenizer || !*t->tokenizer ? "no tokenizer; want --tokenizer FILE"
                        : !t->out || !*t->out             ? "no output; want --out DIR"
                        : t->chat && t->special
                            ? "--special: a chat template says itself what stands around"
                            : NULL;
    return lacks ? sn_fail(err, SN_EINPUT, "sennit-data tokenize: %s", lacks) : SN_OK;
}

static void report_share(const struct sn_tokenize *t, const struct sn_tokenized *done, bool as_json,
                         struct sn_str *out)
{
    int shares = t->shares > 1 ? t->shares : 1;
    if (as_json)
        sn_str_add(out, "{\"share\": %d, \"shares\": %d, \"files\": %d, \"left\": %d}\n", t->share,
                   shares, done->files, done->left);
    else if (done->left > 0)
        sn_str_add(out, "%s: share %d of %d is done; %d of %d files are others' and are not\n",
                   t->out, t->share, shares, done->left, done->files);
    else
        sn_str_add(out, "%s: share %d of %d is done; another puts the parts together\n", t->out,
                   t->share, shares);
}

static void report(const struct sn_tokenize *t, const struct sn_tokenized *done, bool as_json,
                   struct sn_str *out)
{
    if (done->left > 0 || done->is_joined_by_other) {
        report_share(t, done, as_json, out);
        return;
    }
    const char *type = sn_token_type_find(done->info.dtype_code)->name;
    if (as_json) {
        sn_str_add(out, "{\"prefix\": ");
        sn_str_add_json(out, t->out);
        out->len -= out->len > 0; /* into the text: the name goes on */
        sn_str_add(out,
                   "/tokens\", \"dtype\": \"%s\", \"documents\": %lld, \"tokens\": %lld, "
                   "\"files\": %d, \"kept\": %d, \"text_bytes\": %lld, \"skipped\": %lld",
                   type, (long long)done->info.documents, (long long)done->info.tokens, done->files,
                   done->kept, (long long)done->bytes, (long long)done->skipped);
        if (t->chat)
            sn_str_add(out, ", \"counted\": %lld", (long long)done->counted);
        sn_str_add(out, "}\n");
        return;
    }
    sn_str_add(out,
               "%s/tokens: %lld tokens (%s), %lld documents, of %lld bytes of text in %d file%s",
               t->out, (long long)done->info.tokens, type, (long long)done->info.documents,
               (long long)done->bytes, done->files, done->files == 1 ? "" : "s");
    if (t->chat)
        sn_str_add(out, "; %lld tokens count", (long long)done->counted);
    if (done->skipped > 0)
        sn_str_add(out, "; %lld left out", (long long)done->skipped);
    if (done->was_done)
        sn_str_add(out, "; all of it was there");
    else if (done->kept > 0)
        sn_str_add(out, "; %d of the files were done before", done->kept);
    sn_str_add(out, "\n");
    if (!t->end && !t->special && !t->chat)
        sn_str_add(out, "nothing ends documents; --end TOKEN would, as most trainings want\n");
}

enum sn_status sn_data_tokenize(int argc, char **argv, int stop_fd, struct sn_str *out,
                                struct sn_err *err)
{
    struct asked a = {.t = {.stop_fd = stop_fd, .documents = SN_DOCUMENTS_FILES}};
    struct sn_tokenize *t = &a.t;
    struct sn_tokenized done;
    t->workers = sn_cores();
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == HELP) {
            sn_str_add(out, "%s", usage);
            return SN_OK;
        }
        SN_TRY(parse_option(code, argv, &a, err));
    }
    t->inputs = argv + optind;
    t->n_inputs = argc - optind;
    a.chat.roles = a.roles;
    a.chat.arguments = a.arguments;
    t->chat = a.is_chat ? &a.chat : NULL;
    if (!t->field && !t->chat)
        t->field = "text";
    SN_TRY(check(t, err));
    SN_TRY(find_share(t, err));
    SN_TRY(sn_tokenize(t, &done, err));
    report(t, &done, a.as_json, out);
    return SN_OK;
}
