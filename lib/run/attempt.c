#include "lib/run/attempt.h"

#include "lib/base/directory.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/base/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *cause(int exit_code)
{
    switch (exit_code) {
    case 0:
        return "finished";
    case 75:
        return "asked to leave (SIGINT, SIGUSR2 or save-and-exit); saved";
    case 76:
        return "terminated (SIGTERM); saved";
    case 79:
        return "diverged";
    default:
        return "failed";
    }
}

static bool write_record(const struct sn_attempt *a, struct sn_str *text)
{
    if (text->failed) {
        errno = ENOMEM;
        return false;
    }
    FILE *f = fopen(a->path, "w");
    bool good = f && fputs(text->p, f) >= 0;
    if (f && fclose(f) != 0)
        good = false;
    sn_str_fini(text);
    return good;
}

int64_t sn_peak_resident(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long long kib = 0;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            break;
    if (f)
        (void)fclose(f); /* only read */
    return kib * 1024;
}

static void name_record(struct sn_attempt *a, const char *output, int number)
{
    a->number = number;
    (void)snprintf(a->path, sizeof(a->path), "%s/attempt-%d.json", output, number);
}

enum sn_status sn_attempt_begin(struct sn_attempt *a, const struct sn_config *c, int rank,
                                int number, struct sn_err *err)
{
    *a = (struct sn_attempt){0};
    SN_TRY(sn_directory_make(c->run.output, "run.output", err));
    if (rank != 0)
        return SN_OK;
    name_record(a, c->run.output, number ? number : 1);
    while (number == 0 && access(a->path, F_OK) == 0)
        name_record(a, c->run.output, a->number + 1);
    struct sn_str text = {0};
    sn_str_add(&text,
               "{\"attempt\": %d, \"started\": %lld, \"pid\": %ld, \"exit_code\": null, "
               "\"cause\": \"running\"}\n",
               a->number, (long long)time(NULL), (long)getpid());
    if (!write_record(a, &text))
        return sn_write_fail(err, a->path, errno);
    return SN_OK;
}

void sn_attempt_end(const struct sn_attempt *a, int exit_code, const struct sn_err *why)
{
    if (a->number == 0)
        return;
    struct sn_str text = {0};
    sn_str_add(&text,
               "{\"attempt\": %d, \"ended\": %lld, \"exit_code\": %d, \"cause\": ", a->number,
               (long long)time(NULL), exit_code);
    sn_str_add_json(&text, why ? why->text : cause(exit_code));
    if (a->stepping > 0)
        sn_str_add(&text, ", \"first_step_began\": %.3f", a->stepping);
    sn_str_add(&text, ", \"planned_bytes\": %lld, \"peak_resident_bytes\": %lld}\n",
               (long long)a->planned, (long long)sn_peak_resident());
    if (!write_record(a, &text))
        sn_log(SN_LOG_WARN, "%s: cannot be written: %s", a->path, strerror(errno));
}
