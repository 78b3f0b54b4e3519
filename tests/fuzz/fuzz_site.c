/*
 * fuzz_site.c - a site's file of any bytes is accepted or explained; what is accepted gives batch
 * scripts in which each line is one of ours: a directive, a comment, an export, or the template's.
 */
#include "lib/base/mem.h"
#include "slurm/site/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
    if (!good)
        abort();
}

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A word has as many quotes as a shell needs to end it in its line. */
static void check_words(const char *word, size_t len)
{
    int quoted = 0;
    for (const char *c = word; c < word + len; c++) {
        if (*c == '\'')
            quoted = !quoted;
        else if (*c == '\\' && !quoted)
            c++;
        else
            require(quoted || !strchr(" ;&|$`\"()<>*?", *c));
    }
    require(!quoted);
}

static void check_export(const char *line, size_t len)
{
    const char *value = memchr(line, '=', len);
    require(value != NULL);
    check_words(value + 1, len - (size_t)(value + 1 - line));
}

static void check_line(const char *line, size_t len, int lsf)
{
    for (size_t i = 0; i < len; i++)
        require((unsigned char)line[i] >= 0x20);
    if (begins(line, "#SBATCH "))
        require(!lsf && line[8] == '-');
    else if (begins(line, "#BSUB "))
        require(lsf && line[6] == '-');
    else if (begins(line, "export "))
        check_export(line, len);
    else if (begins(line, "module load "))
        check_words(line + 12, len - 12);
    else
        require(begins(line, "# ") || begins(line, "exec "));
}

static void check_script(const struct sn_site *s)
{
    static struct sn_config c;
    struct sn_batch b;
    struct sn_str out = {0};
    struct sn_err err = {0};
    c.layout.data = 16;
    c.layout.tensor = c.layout.tensor_x = c.layout.pipeline = c.layout.context = 1;
    c.slurm.chain = 2;
    c.slurm.seconds = 3600;
    sn_batch_init(&b, &c, s, NULL, 4);
    b.signal_before = 100;
    b.directory = b.program = b.run_file = "a'b $(c)";
    b.output = "/out";
    if (sn_batch_check(&b, &err) != SN_OK) {
        require(err.status == SN_EINPUT && strchr(err.text, ':'));
        err = (struct sn_err){0};
    }
    enum sn_status st =
        sn_render(&out, &b, "@{header}\n@{setup}\n@{environment}\nexec @{program} @{run_file}\n",
                  "t.sh", &err);
    if (st != SN_OK) /* sbatch would take a name with "hetjob" or "packjob" in it for another job's
                        beginning */
        require(st == SN_EINPUT && strstr(err.text, "makes sbatch take the line"));
    for (const char *at = st == SN_OK ? out.p : ""; *at;) {
        size_t n = strcspn(at, "\n");
        require(at[n] == '\n');
        check_line(at, n, s->scheduler == SN_SCHED_LSF);
        at += n + 1;
    }
    sn_str_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sn_err err = {0};
    struct sn_site *s = sn_alloc(sizeof(*s));
    require(s != NULL);
    enum sn_status st = sn_site_parse(s, (const char *)bytes, len, "f.yaml", &err);
    if (st == SN_OK) {
        check_script(s);
        require(sn_site_line(s, "submit.gpus") > 0);
        (void)sn_site_forbids(s, "--mem=1");
        sn_site_fini(s);
    } else {
        require(st == SN_EINPUT && err.status == st && strchr(err.text, ':'));
    }
    sn_free(s);
    return 0;
}
