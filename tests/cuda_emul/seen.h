/*
 * seen.h - tests of what the emulation sees: a fault is run in a process of its own, which it ends
 * with a message.
 */
#ifndef SN_EMUL_SEEN_H
#define SN_EMUL_SEEN_H

#include "tests/cuda_emul/emul.h"

#include <sys/wait.h>
#include <unistd.h>

static int points, failed;
static struct sn_cuda cx;

static void ok(bool good, const char *what, const char *how)
{
    printf("%sok %d - %s: %s\n", good ? "" : "not ", ++points, what, how);
    failed += !good;
}

/* Runs it in a child. Its messages, and in *rc what it returned, or 1000 where it died. */
template <class F> static const char *said(F run, int *rc)
{
    static char text[4096];
    int ends[2], status = 0;
    size_t n = 0;
    ssize_t got;
    if (pipe(ends) != 0)
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        _exit(run() & 127);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    (void)waitpid(child, &status, 0);
    *rc = n == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    return text;
}

/* run(false) is right: no message, 0. run(true) is wrong, and `words` are in the message. */
template <class F> static void sees(const char *what, const char *words, F run)
{
    int rc;
    const char *text = said([=] { return run(false); }, &rc);
    ok(rc == 0, what, "passes without the fault");
    if (rc != 0)
        printf("# %d %s\n", rc, text);
    text = said([=] { return run(true); }, &rc);
    bool seen = rc != 0 && strstr(text, words);
    ok(seen, what, "is seen");
    if (!seen)
        printf("# %d %s\n", rc, text);
}

static struct sn_shape shape(uint32_t threads, size_t shared = 0)
{
    struct sn_shape g = {1, 1, 1, threads, 1, shared};
    return g;
}

#endif
