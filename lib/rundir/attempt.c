#include "lib/rundir/attempt.h"

#include "lib/base/directory.h"
#include "lib/base/exit_code.h"
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
    case SN_EXIT_DONE:
        return "finished";
    case SN_EXIT_SAVED:
        return "asked to leave (SIGINT, SIGUSR1, SIGUSR2 or save-and-exit); saved";
    case SN_EXIT_TERMINATED:
        return "terminated (SIGTERM); saved";
    case SN_EXIT_DIVERGED:
        return "diverged";
    default:
        return "failed";
    }
}

static enum sn_status write_record(const struct sn_attempt *a, struct sn_str *text,
                                   struct sn_err *err)
{
    enum sn_status st = sn_text_keep(text, a->path, err);
    sn_str_fini(text);
    return st;
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

static void add_passed_over(struct sn_str *text, const struct sn_attempt *a)
{
    if (a->passed_over.len > 0 && !a->passed_over.failed)
        sn_str_add(text, ", \"passed_over\": [%s]", a->passed_over.p);
}

static void name_record(struct sn_attempt *a, const char *output, int number)
{
    a->number = number;
    (void)snprintf(a->path, sizeof(a->path), "%s/attempt-%d.json", output, number);
}

static void add_beginning(struct sn_str *text, const struct sn_attempt *a)
{
    sn_str_add(text, "{\"attempt\": %d, \"started\": %lld, ", a->number, (long long)a->started);
    if (a->from_step >= 0)
        sn_str_add(text, "\"from_step\": %lld, ", (long long)a->from_step);
    if (a->certificate)
        sn_str_add(text, "\"certificate\": \"%016llx\", ", (unsigned long long)a->certificate);
}

static enum sn_status write_running(const struct sn_attempt *a, struct sn_err *err)
{
    struct sn_str text = {0};
    add_beginning(&text, a);
    sn_str_add(&text, "\"pid\": %ld, \"exit_code\": null, \"cause\": \"running\"", (long)getpid());
    add_passed_over(&text, a);
    sn_str_add(&text, "}\n");
    return write_record(a, &text, err);
}

enum sn_status sn_attempt_begin(struct sn_attempt *a, const struct sn_config *c, int rank,
                                int number, struct sn_err *err)
{
    *a = (struct sn_attempt){.from_step = -1};
    SN_TRY(sn_directory_make(c->run.output, "run.output", err));
    if (rank != 0)
        return SN_OK;
    name_record(a, c->run.output, number ? number : 1);
    while (number == 0 && access(a->path, F_OK) == 0)
        name_record(a, c->run.output, a->number + 1);
    a->started = (int64_t)time(NULL);
    return write_running(a, err);
}

/* Of a run under way, which goes on without. */
static void write_on(const struct sn_attempt *a)
{
    struct sn_err err;
    if (a->number > 0 && write_running(a, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
}

void sn_attempt_resumed(struct sn_attempt *a, int64_t step)
{
    a->from_step = step;
    write_on(a);
}

void sn_attempt_pass_over(struct sn_attempt *a, int64_t step, const struct sn_err *why)
{
    if (a->number == 0)
        return;
    sn_str_add(&a->passed_over, "%s{\"step\": %lld, \"why\": ", a->passed_over.len ? ", " : "",
               (long long)step);
    sn_str_add_json(&a->passed_over, why->text);
    sn_str_add(&a->passed_over, "}");
    write_on(a);
}

void sn_attempt_end(struct sn_attempt *a, int exit_code, const struct sn_err *why)
{
    if (a->number == 0)
        return;
    struct sn_str text = {0};
    add_beginning(&text, a);
    sn_str_add(&text, "\"ended\": %lld, \"exit_code\": %d, \"cause\": ", (long long)time(NULL),
               exit_code);
    sn_str_add_json(&text, why ? why->text : cause(exit_code));
    if (a->stepping > 0)
        sn_str_add(&text, ", \"first_step_began\": %.3f", a->stepping);
    add_passed_over(&text, a);
    sn_str_add(&text, ", \"planned_bytes\": %lld, \"peak_resident_bytes\": %lld}\n",
               (long long)a->planned, (long long)sn_peak_resident());
    struct sn_err err;
    if (write_record(a, &text, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    sn_str_fini(&a->passed_over);
}
