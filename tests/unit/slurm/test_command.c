/*
 * test_command.c - programs that answer, fail, print a lot, stay too long, or do not exist.
 */
#include "lib/base/clock.h"
#include "slurm/scheduler/command.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct sn_command_result run(const char *const *argv, double seconds)
{
    struct sn_command_result r;
    struct sn_command c = {.argv = argv, .seconds = seconds};
    struct sn_err err = {0};
    if (sn_command_run(&r, &c, &err) != SN_OK)
        tap_ok(false, "%s can be tried: %s", argv[0], err.text);
    return r;
}

static void check_why(const struct sn_command_result *r, const char *const *argv, const char *want)
{
    char buf[SN_COMMAND_WHY];
    struct sn_command c = {.argv = argv, .seconds = 0.2};
    (void)tap_text(sn_command_why(buf, &c, r), want, want);
}

static void output_and_code_arrive(void)
{
    const char *const *argv = ARGV("sh", "-c", "echo one; echo two >&2; printf three; exit 5");
    struct sn_command_result r = run(argv, 60);
    tap_ok(r.end == SN_COMMAND_EXITED && r.code == 5 && !sn_command_succeeded(&r), "exit code");
    (void)tap_text(r.out.p ? r.out.p : "", "one\nthree", "stdout");
    (void)tap_text(r.err.p ? r.err.p : "", "two\n", "stderr, apart");
    check_why(&r, argv, "two");
    sn_command_fini(&r);
    r = run(ARGV("true"), 60);
    tap_ok(sn_command_succeeded(&r) && !r.out.p && !r.err.p, "a program that says nothing");
    sn_command_fini(&r);
    sn_command_fini(&r);
    argv = ARGV("sh", "-c", "exit 3");
    r = run(argv, 60);
    check_why(&r, argv, "sh left with exit code 3");
    sn_command_fini(&r);
}

static void arguments_are_not_shell(void)
{
    struct sn_command_result r = run(ARGV("printf", "%s|", "$(echo a)", "b; c", "d'e\"f", "*"), 60);
    (void)tap_text(r.out.p ? r.out.p : "", "$(echo a)|b; c|d'e\"f|*|", "arguments pass unchanged");
    sn_command_fini(&r);
}

static void a_missing_program_is_told_apart(void)
{
    const char *const *argv = ARGV("sennit-no-such-program", "x");
    struct sn_command_result r = run(argv, 60);
    tap_ok(r.end == SN_COMMAND_ABSENT && r.code == 127 && !sn_command_succeeded(&r), "not on PATH");
    check_why(&r, argv, "sennit-no-such-program is not on PATH");
    sn_command_fini(&r);
    r = run(ARGV("/no/such/place/scontrol"), 60);
    tap_ok(r.end == SN_COMMAND_ABSENT, "not at its path");
    sn_command_fini(&r);
    argv = ARGV("sh", "-c", "exit 127");
    r = run(argv, 60);
    tap_ok(r.end == SN_COMMAND_EXITED && r.code == 127, "exit code 127 is an exit code");
    sn_command_fini(&r);
}

static void nothing_waits_for_ever(void)
{
    const char *const *argv = ARGV("sh", "-c", "echo begun; sleep 600 & sleep 600");
    double begin = sn_clock();
    struct sn_command_result r = run(argv, 0.2);
    tap_ok(r.end == SN_COMMAND_TIMEOUT && r.code == 137, "a program that stays is killed");
    tap_ok(sn_clock() - begin < 60, "soon");
    (void)tap_text(r.out.p ? r.out.p : "", "begun\n", "what it said before is kept");
    check_why(&r, argv, "sh did not answer in 0.2 s");
    sn_command_fini(&r);
    begin = sn_clock();
    r = run(ARGV("sh", "-c", "sleep 600 & echo done"), 120);
    tap_ok(sn_command_succeeded(&r) && sn_clock() - begin < 60,
           "a child that keeps the output open is not waited for");
    (void)tap_text(r.out.p ? r.out.p : "", "done\n", "and all of the output is there");
    sn_command_fini(&r);
    r = run(ARGV("sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 4"), 60);
    tap_ok(r.end == SN_COMMAND_EXITED && r.code == 4, "a program that closes its output first");
    sn_command_fini(&r);
}

static void signals_are_told(void)
{
    const char *const *argv = ARGV("sh", "-c", "kill -TERM $$");
    struct sn_command_result r = run(argv, 60);
    tap_ok(r.end == SN_COMMAND_KILLED && r.code == 128 + SIGTERM, "killed by a signal");
    check_why(&r, argv, "sh was killed by signal 15");
    sn_command_fini(&r);
    sigset_t term, before;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &before);
    (void)signal(SIGINT, SIG_IGN);
    r = run(ARGV("sh", "-c", "kill -INT $$; sleep 600"), 60);
    tap_ok(r.code == 128 + SIGINT, "what we ignore is not ignored there");
    sn_command_fini(&r);
    r = run(ARGV("sh", "-c", "kill -TERM $$; sleep 600"), 60);
    tap_ok(r.code == 128 + SIGTERM, "what we block is not blocked there");
    sn_command_fini(&r);
    (void)signal(SIGINT, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

static void much_output_is_read(void)
{
    struct sn_command_result r = run(
        ARGV("sh", "-c", "yes 0123456789abcde | head -c 1048576; yes | head -c 200000 >&2"), 60);
    tap_ok(sn_command_succeeded(&r) && r.out.len == 1048576 && r.err.len == 200000,
           "a mebibyte, and stderr beside it");
    sn_command_fini(&r);
    r = run(ARGV("head", "-c", "17000000", "/dev/zero"), 60);
    tap_ok(r.cut && r.out.len == SN_COMMAND_MAX_OUTPUT && !sn_command_succeeded(&r),
           "too much is cut, and said to be");
    sn_command_fini(&r);
    r = run(ARGV("printf", "a\\0b\\0\\0c"), 60);
    (void)tap_text(r.out.p ? r.out.p : "", "a b  c", "NULs become spaces");
    sn_command_fini(&r);
}

static void a_question_has_an_answer_or_a_reason(void)
{
    char why[SN_COMMAND_WHY] = "old";
    struct sn_str out;
    tap_ok(sn_command_ask(&out, why, ARGV("echo", "yes"), 60, NULL) == SN_OK && !*why && out.p &&
               !strcmp(out.p, "yes\n"),
           "an answer");
    sn_str_fini(&out);
    tap_ok(sn_command_ask(&out, why, ARGV("true"), 60, NULL) == SN_OK && !*why && !out.p,
           "nothing to say is no failure");
    tap_ok(sn_command_ask(&out, why, ARGV("sh", "-c", "echo yes; echo no >&2; exit 3"), 60, NULL) ==
                   SN_OK &&
               !out.p && strstr(why, "no"),
           "a reason: %s", why);
}

static void input_and_environment_are_given(void)
{
    char path[] = "/tmp/sennit-command-XXXXXX";
    int fd = mkstemp(path);
    struct sn_err err = {0};
    struct sn_command_result r;
    tap_ok(fd >= 0 && write(fd, "from a file\n", 12) == 12 && close(fd) == 0, "an input file");
    struct sn_command c = {.argv = ARGV("cat"), .input = path, .seconds = 60};
    tap_ok(sn_command_run(&r, &c, &err) == SN_OK && r.out.p && !strcmp(r.out.p, "from a file\n"),
           "is stdin %s", err.text);
    sn_command_fini(&r);
    (void)unlink(path);
    tap_ok(sn_command_run(&r, &c, &err) == SN_EINPUT &&
               strstr(err.text, "cannot be opened for cat"),
           "%s", err.text);
    r = run(ARGV("cat"), 60);
    tap_ok(sn_command_succeeded(&r) && !r.out.len, "without one there is nothing to read");
    sn_command_fini(&r);
    char *const environment[] = {(char[]){"ONLY=this one"}, NULL};
    c = (struct sn_command){
        .argv = ARGV("/usr/bin/env"), .environment = environment, .seconds = 60};
    tap_ok(sn_command_run(&r, &c, &err) == SN_OK && r.out.p && !strcmp(r.out.p, "ONLY=this one\n"),
           "the environment is the given one");
    sn_command_fini(&r);
}

int main(void)
{
    output_and_code_arrive();
    arguments_are_not_shell();
    a_missing_program_is_told_apart();
    nothing_waits_for_ever();
    signals_are_told();
    much_output_is_read();
    a_question_has_an_answer_or_a_reason();
    input_and_environment_are_given();
    return tap_done();
}
