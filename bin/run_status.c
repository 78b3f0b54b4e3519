/*
 * run_status.c - sennit-run status and why: what a run directory says of its run.
 */
#include "bin/run_status.h"

#include "bin/common.h"
#include "bin/run_verbs.h"
#include "lib/base/clock.h"
#include "lib/base/plain.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char status_usage[] =
    "usage: sennit-run status DIR [--json] [--at SECONDS]\n"
    "\n"
    "Says where the run in DIR (run.output) stands: state, attempt, step, loss, speed, time left,\n"
    "newest checkpoint, deadline, nodes, hosts that are avoided. Reads files alone.\n"
    "  --json        one JSON object\n"
    "  --at SECONDS  as of that time (seconds since 1970) instead of now\n"
    "  --help\n";

static const char why_usage[] =
    "usage: sennit-run why DIR [--json] [--at SECONDS]\n"
    "\n"
    "Says what ended each attempt of the run in DIR (run.output): cause, exit code, the rank and\n"
    "host to blame, what was decided then and why, and the steps that had to be done again.\n"
    "  --json        one JSON object, the attempts with all that is known of them\n"
    "  --at SECONDS  as of that time (seconds since 1970) instead of now\n"
    "  --help\n";

struct line {
    const char *dir;
    double now;
    bool json, help;
};

static enum sn_status parse_line(struct line *l, int argc, char **argv, struct sn_err *err)
{
    enum { JSON = 256, AT, HELP };
    static const struct option options[] = {
        {"json", no_argument, NULL, JSON},
        {"at", required_argument, NULL, AT},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    char program[32];
    long long at;
    (void)snprintf(program, sizeof(program), "sennit-run %s", argv[0]);
    *l = (struct line){.now = sn_clock_date()};
    for (int code; (code = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (code == JSON) {
            l->json = true;
        } else if (code == HELP) {
            l->help = true;
        } else if (code == AT) {
            SN_TRY(sn_parse_number("--at", optarg, 0, 1LL << 40, &at, err));
            l->now = (double)at;
        } else {
            return sn_refuse_option(program, code, argv, err);
        }
    }
    if (l->help)
        return SN_OK;
    return sn_parse_operand(&l->dir, program, "directory of a run", argc, argv, err);
}

static enum sn_status print(const struct line *l, bool why, struct sn_err *err)
{
    struct sn_history h;
    struct sn_str text = {0};
    SN_TRY(sn_history_read(&h, l->dir, l->now, err));
    if (l->json)
        sn_status_json(&text, &h, l->now, why);
    else if (why)
        sn_status_why_text(&text, &h, l->now);
    else
        sn_status_text(&text, &h, l->now);
    enum sn_status st = SN_OK;
    sn_plain_lines(text.p);
    if (text.failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to print what it says", l->dir);
    else if (fputs(text.p, stdout) < 0 || fflush(stdout) != 0)
        st = sn_fail(err, SN_EIO, "stdout: cannot be written");
    sn_str_fini(&text);
    sn_history_fini(&h);
    return st;
}

static int run(int argc, char **argv, bool why)
{
    struct sn_err err = {0};
    struct line l;
    enum sn_status st = parse_line(&l, argc, argv, &err);
    if (st == SN_OK && l.help) {
        (void)fputs(why ? why_usage : status_usage, stdout);
        return 0;
    }
    if (st == SN_OK)
        st = print(&l, why, &err);
    return st == SN_OK ? 0 : sn_report(&err);
}

int sn_run_status(int argc, char **argv)
{
    return run(argc, argv, false);
}

int sn_run_why(int argc, char **argv)
{
    return run(argc, argv, true);
}
