/*
 * convert_main.c - the command line of sennit-convert.
 */
#include "bin/common.h"
#include "bin/convert.h"
#include "checkpoint/store/source.h"
#include "kernels/tensor.h"
#include "lib/base/mem.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char usage[] =
    "usage: sennit-convert SRC DST --layout LAYOUT.yaml [options]\n"
    "       sennit-convert SRC DST --to safetensors | --to peft [options]\n"
    "       sennit-convert SRC DST --from safetensors [--layout LAYOUT.yaml] [options]\n"
    "       sennit-convert --inspect SRC | --verify SRC | --diff A B [options]\n"
    "\n"
    "SRC is a checkpoint: a directory step-N, or a directory of them (the newest is taken).\n"
    "DST is the new checkpoint if it is named step-N, else the directory that will hold it.\n"
    "  --layout FILE        for the layout of this run file; without it, for one rank\n"
    "  --to safetensors     write weights and config.json as the field's tools read them\n"
    "  --to peft            write the adapters of train.lora alone, as PEFT reads them\n"
    "  --merge              put adapters into the weights that they adapt\n"
    "  --ema                take the averages of weights (train.ema) as the weights\n"
    "  --sparse 2:4|SHARE   of each row of --targets the largest values stay, the others become "
    "0:\n"
    "                       two of each four, or that share of them\n"
    "  --targets NAMES      of --sparse: patterns of matrices, with commas between them\n"
    "  --from safetensors   SRC is a directory of such files\n"
    "  --dtype TYPE         of the weights written: fp32, bf16, fp16 (default: as in SRC)\n"
    "  --grow Nx            every width times N, the model's function unchanged\n"
    "  --noise X            of --grow: how far copies are apart (default 0.3, 0: equal)\n"
    "  --delink             layers that share weights get their own\n"
    "  --mtp N              so many blocks for multi-token prediction stay; with --from: are taken\n"
    "                       (default: all; with --from: none)\n"
    "  --upcycle E          a dense llama becomes a mixtral of E equal experts\n"
    "  --top-k K            of --upcycle: experts of a token (default 2)\n"
    "  --shard-size SIZE    of --to: the most of one file (default 5GB)\n"
    "  --names VERSION      of --to: as transformers 4 (default) or 5 has experts\n"
    "  --beside DIR         of --to: DIR's tokenizer and generation_config.json go along\n"
    "  --memory SIZE        buffers of each process (default 4GiB)\n"
    "  --fresh              do not go on where a killed conversion was\n"
    "\n"
    "  --inspect            print what a checkpoint holds\n"
    "  --verify             read all of it and name every fault\n"
    "  --diff               compare two checkpoints, in whatever layouts they are\n"
    "  --json               report as JSON\n"
    "  --help, --version\n"
    "\n"
    "mpirun -n N sennit-convert ... shares the work among N processes.\n"
    "Exit 0: done, 1: the work failed, or faults or differences were found, 2: bad usage or "
    "input.\n";

enum {
    LAYOUT = 256,
    TO,
    FROM,
    DTYPE,
    GROW,
    NOISE,
    DELINK,
    MERGE,
    EMA,
    SPARSE,
    TARGETS,
    MTP,
    UPCYCLE,
    TOP_K,
    SHARD_SIZE,
    NAMES,
    BESIDE,
    MEMORY,
    FRESH,
    INSPECT,
    VERIFY,
    DIFF,
    JSON,
    HELP,
    VERSION
};

struct options {
    struct sn_convert_line line;
    bool help, version;
    unsigned given; /* bit code - LAYOUT */
};

static enum sn_status parse_dtype(int *out, struct sn_err *err)
{
    static const enum sn_dtype all[] = {SN_F32, SN_BF16, SN_F16};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(optarg, sn_dtype_name(all[i])) == 0) {
            *out = (int)all[i];
            return SN_OK;
        }
    return sn_fail(err, SN_EINPUT, "--dtype: '%s' is no type; want fp32, bf16 or fp16", optarg);
}

static enum sn_status parse_to(struct sn_convert_line *l, struct sn_err *err)
{
    l->mode = SN_CONVERT_EXPORT;
    l->is_peft = strcmp(optarg, "peft") == 0;
    return l->is_peft || strcmp(optarg, "safetensors") == 0
               ? SN_OK
               : sn_fail(err, SN_EINPUT, "--to: '%s' is no format; want safetensors or peft",
                         optarg);
}

/* "2x" or "2" */
static enum sn_status parse_grow(int *out, struct sn_err *err)
{
    char *end;
    long n = strtol(optarg, &end, 10);
    if (end == optarg || (*end && strcmp(end, "x") != 0) || n < 2 || n > 64)
        return sn_fail(err, SN_EINPUT, "--grow: '%s' is no factor; want 2x to 64x", optarg);
    *out = (int)n;
    return SN_OK;
}

static enum sn_status parse_experts(const char *option, int least, int *out, struct sn_err *err)
{
    long long n;
    SN_TRY(sn_parse_number(option, optarg, least, 1024, &n, err));
    *out = (int)n;
    return SN_OK;
}

static enum sn_status parse_noise(double *out, struct sn_err *err)
{
    char *end;
    double x = strtod(optarg, &end);
    if (end == optarg || *end || !(x >= 0 && x <= SN_GROW_NOISE_MAX))
        return sn_fail(err, SN_EINPUT, "--noise: '%s' is no number from 0 to %g", optarg,
                       SN_GROW_NOISE_MAX);
    *out = x;
    return SN_OK;
}

static enum sn_status parse_sparse(struct sn_prune *out, struct sn_err *err)
{
    char *end;
    out->density = strtod(optarg, &end);
    out->is_2_4 = strcmp(optarg, "2:4") == 0;
    if (out->is_2_4 || (end != optarg && !*end && out->density > 0 && out->density < 1))
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "--sparse: '%s' is no share; want 2:4, or a number between 0 and 1 such as 0.5",
                   optarg);
}

/* Cuts the argument where its commas are. */
static enum sn_status parse_targets(struct sn_prune *out, struct sn_err *err)
{
    char *rest = NULL;
    out->n_targets = 0;
    for (char *t = strtok_r(optarg, ",", &rest); t; t = strtok_r(NULL, ",", &rest)) {
        if (out->n_targets == SN_PRUNE_TARGETS)
            return sn_fail(err, SN_EINPUT, "--targets: more than %d patterns", SN_PRUNE_TARGETS);
        out->target[out->n_targets++] = t;
    }
    return out->n_targets > 0 ? SN_OK
                              : sn_fail(err, SN_EINPUT,
                                        "--targets: names nothing; want patterns such as "
                                        "'*.ffn.*.weight,*.attn.*.weight'");
}

static enum sn_status parse_option(int code, char **argv, struct options *o, struct sn_err *err)
{
    struct sn_convert_line *l = &o->line;
    if (code >= LAYOUT)
        o->given |= 1u << (code - LAYOUT);
    switch (code) {
    case LAYOUT:
        l->layout = optarg;
        return SN_OK;
    case TO:
        return parse_to(l, err);
    case FROM:
        l->is_foreign = true;
        return strcmp(optarg, "safetensors") == 0
                   ? SN_OK
                   : sn_fail(err, SN_EINPUT, "--from: '%s' is no format; want safetensors", optarg);
    case DTYPE:
        return parse_dtype(&l->dtype, err);
    case GROW:
        return parse_grow(&l->grow, err);
    case NOISE:
        return parse_noise(&l->noise, err);
    case DELINK:
        l->delink = true;
        return SN_OK;
    case MERGE:
        l->merge = true;
        return SN_OK;
    case EMA:
        l->ema = true;
        return SN_OK;
    case SPARSE:
        return parse_sparse(&l->prune, err);
    case TARGETS:
        return parse_targets(&l->prune, err);
    case MTP:
        return parse_experts("--mtp", 0, &l->mtp, err);
    case UPCYCLE:
        return parse_experts("--upcycle", 2, &l->upcycle, err);
    case TOP_K:
        return parse_experts("--top-k", 1, &l->top_k, err);
    case SHARD_SIZE:
        return sn_parse_bytes("--shard-size", optarg, 1 << 20, &l->shard_bytes, err);
    case NAMES:
        l->later_names = strcmp(optarg, "5") == 0;
        return l->later_names || strcmp(optarg, "4") == 0
                   ? SN_OK
                   : sn_fail(err, SN_EINPUT, "--names: '%s' is no version; want 4 or 5", optarg);
    case BESIDE:
        l->beside = optarg;
        return SN_OK;
    case MEMORY:
        return sn_parse_bytes("--memory", optarg, 1, &l->memory, err);
    case FRESH:
        l->fresh = true;
        return SN_OK;
    case INSPECT:
        l->mode = SN_CONVERT_INSPECT;
        return SN_OK;
    case VERIFY:
        l->mode = SN_CONVERT_VERIFY;
        return SN_OK;
    case DIFF:
        l->mode = SN_CONVERT_DIFF;
        return SN_OK;
    case JSON:
        l->json = true;
        return SN_OK;
    case HELP:
        o->help = true;
        return SN_OK;
    case VERSION:
        o->version = true;
        return SN_OK;
    default:
        return sn_refuse_option("sennit-convert", code, argv, err);
    }
}

#define BIT(code) (1u << ((code)-LAYOUT))

/* Which options go with what is asked for. */
static enum sn_status check_options(const struct options *o, const struct option *names,
                                    struct sn_err *err)
{
    static const unsigned allowed[] = {
        [SN_CONVERT_LAYOUT] = BIT(LAYOUT) | BIT(FROM) | BIT(DTYPE) | BIT(GROW) | BIT(NOISE) |
                              BIT(DELINK) | BIT(MERGE) | BIT(EMA) | BIT(SPARSE) | BIT(TARGETS) |
                              BIT(MTP) | BIT(UPCYCLE) | BIT(TOP_K) | BIT(MEMORY) | BIT(FRESH) | BIT(JSON),
        [SN_CONVERT_EXPORT] = BIT(TO) | BIT(DTYPE) | BIT(GROW) | BIT(NOISE) | BIT(DELINK) |
                              BIT(MERGE) | BIT(EMA) | BIT(SPARSE) | BIT(TARGETS) | BIT(MTP) | BIT(UPCYCLE) |
                              BIT(TOP_K) | BIT(SHARD_SIZE) | BIT(NAMES) | BIT(BESIDE) |
                              BIT(MEMORY) | BIT(JSON),
        [SN_CONVERT_INSPECT] = BIT(INSPECT) | BIT(JSON),
        [SN_CONVERT_VERIFY] = BIT(VERIFY) | BIT(MEMORY) | BIT(JSON),
        [SN_CONVERT_DIFF] = BIT(DIFF) | BIT(MEMORY) | BIT(JSON)};
    static const char *const what[] = {[SN_CONVERT_LAYOUT] = "a new checkpoint",
                                       [SN_CONVERT_EXPORT] = "--to safetensors",
                                       [SN_CONVERT_INSPECT] = "--inspect",
                                       [SN_CONVERT_VERIFY] = "--verify",
                                       [SN_CONVERT_DIFF] = "--diff"};
    static const unsigned change = BIT(LAYOUT) | BIT(FROM) | BIT(DTYPE) | BIT(GROW) | BIT(DELINK) |
                                   BIT(MERGE) | BIT(EMA) | BIT(SPARSE) | BIT(MTP) | BIT(UPCYCLE);
    enum sn_convert_mode mode = o->line.mode;
    for (int i = 0; names[i].name; i++)
        if (o->given & ~allowed[mode] & BIT(names[i].val))
            return sn_fail(err, SN_EINPUT, "--%s does not go with %s; see sennit-convert --help",
                           names[i].name, what[mode]);
    if (mode == SN_CONVERT_LAYOUT && !(o->given & change))
        return sn_fail(
            err, SN_EINPUT,
            "sennit-convert: nothing to do; want SRC and DST with one of --layout, --to, "
            "--from, --dtype, --grow, --delink, --merge, --ema, --sparse, --mtp, --upcycle");
    if (!(o->given & BIT(SPARSE)) != !(o->given & BIT(TARGETS)))
        return sn_fail(
            err, SN_EINPUT,
            "--sparse and --targets say together what becomes sparse; name both, such as "
            "--sparse 0.5 --targets '*.ffn.*.weight'");
    if ((o->given & BIT(NOISE)) && !(o->given & BIT(GROW)))
        return sn_fail(err, SN_EINPUT, "--noise is for --grow; name a factor such as --grow 2x");
    static const unsigned of_weights = BIT(GROW) | BIT(DELINK) | BIT(MERGE) | BIT(SPARSE) |
                                       BIT(UPCYCLE) | BIT(SHARD_SIZE) | BIT(NAMES) | BIT(BESIDE);
    for (int i = 0; o->line.is_peft && names[i].name; i++)
        if (o->given & of_weights & BIT(names[i].val))
            return sn_fail(err, SN_EINPUT, "--%s does not go with --to peft; leave it out",
                           names[i].name);
    if ((o->given & BIT(TOP_K)) && !(o->given & BIT(UPCYCLE)))
        return sn_fail(err, SN_EINPUT,
                       "--top-k is for --upcycle; name a number of experts such as --upcycle 8");
    return SN_OK;
}

static enum sn_status take_paths(struct options *o, int n, char **path, struct sn_err *err)
{
    bool is_one = o->line.mode == SN_CONVERT_INSPECT || o->line.mode == SN_CONVERT_VERIFY;
    if (n != (is_one ? 1 : 2))
        return sn_fail(err, SN_EINPUT, "sennit-convert: want %s, got %d; see sennit-convert --help",
                       is_one                            ? "one checkpoint"
                       : o->line.mode == SN_CONVERT_DIFF ? "two checkpoints"
                                                         : "SRC and DST",
                       n);
    o->line.src = path[0];
    o->line.dst = is_one ? NULL : path[1];
    if (!*o->line.src || (o->line.dst && !*o->line.dst))
        return sn_fail(err, SN_EINPUT, "sennit-convert: a path is empty; name a directory");
    return SN_OK;
}

static enum sn_status parse_line(int argc, char **argv, struct options *o, struct sn_err *err)
{
    static const struct option names[] = {{"layout", required_argument, NULL, LAYOUT},
                                          {"to", required_argument, NULL, TO},
                                          {"from", required_argument, NULL, FROM},
                                          {"dtype", required_argument, NULL, DTYPE},
                                          {"grow", required_argument, NULL, GROW},
                                          {"noise", required_argument, NULL, NOISE},
                                          {"delink", no_argument, NULL, DELINK},
                                          {"merge", no_argument, NULL, MERGE},
                                          {"ema", no_argument, NULL, EMA},
                                          {"sparse", required_argument, NULL, SPARSE},
                                          {"targets", required_argument, NULL, TARGETS},
                                          {"mtp", required_argument, NULL, MTP},
                                          {"upcycle", required_argument, NULL, UPCYCLE},
                                          {"top-k", required_argument, NULL, TOP_K},
                                          {"shard-size", required_argument, NULL, SHARD_SIZE},
                                          {"names", required_argument, NULL, NAMES},
                                          {"beside", required_argument, NULL, BESIDE},
                                          {"memory", required_argument, NULL, MEMORY},
                                          {"fresh", no_argument, NULL, FRESH},
                                          {"inspect", no_argument, NULL, INSPECT},
                                          {"verify", no_argument, NULL, VERIFY},
                                          {"diff", no_argument, NULL, DIFF},
                                          {"json", no_argument, NULL, JSON},
                                          {"help", no_argument, NULL, HELP},
                                          {"version", no_argument, NULL, VERSION},
                                          {0}};
    *o = (struct options){.line = {.memory = (int64_t)4 << 30,
                                   .shard_bytes = INT64_C(5000000000),
                                   .noise = SN_GROW_NOISE,
                                   .top_k = 2,
                                   .dtype = -1,
                                   .mtp = -1}};
    for (int code; (code = getopt_long(argc, argv, ":", names, NULL)) != -1;)
        SN_TRY(parse_option(code, argv, o, err));
    if (o->help || o->version)
        return SN_OK;
    SN_TRY(check_options(o, names, err));
    return take_paths(o, argc - optind, argv + optind, err);
}

/* Shards are open by the hundred, each twice. */
static void allow_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* else an open will say it */
}

static int fail(struct sn_comm *comm, const struct sn_ranks *ranks, enum sn_status st,
                struct sn_err *err)
{
    int code = sn_exit_code(st);
    if (!err->agreed && comm->size > 1) {
        char host[64] = "unknown host";
        (void)gethostname(host, sizeof(host) - 1);
        (void)sn_err_prefix(err, "rank %d (%s)", comm->rank, host);
    }
    if (!err->agreed || comm->rank == 0)
        (void)sn_report(err);
    if (!err->agreed && comm->size > 1) /* the others know nothing of it and would wait */
        ranks->abort(code);
    return code;
}

int sn_convert_main(int argc, char **argv, const struct sn_ranks *ranks)
{
    struct sn_err err = {0};
    struct options o;
    struct sn_comm *comm = NULL;
    bool found = false;
    sn_mem_share_heap();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit fails the write */
    enum sn_status st = parse_line(argc, argv, &o, &err);
    if (st == SN_OK && (o.help || o.version)) {
        (void)fputs(o.help ? usage : "sennit-convert " SN_VERSION "\n", stdout);
        return 0;
    }
    if (st != SN_OK) /* the same on every rank: one says it, and MPI has not begun */
        return sn_comm_launched_rank() == 0 ? sn_report(&err) : sn_exit_code(st);
    allow_files();
    st = sn_ranks_create(&comm, ranks, &err);
    if (st != SN_OK)
        return sn_report(&err);
    st = sn_convert_do(&o.line, comm, &found, &err);
    int code = st == SN_OK ? found : fail(comm, ranks, st, &err);
    comm->ops->destroy(comm);
    return code;
}
