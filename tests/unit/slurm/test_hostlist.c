/*
 * test_hostlist.c - lists of hosts and counts, held to what Slurm's own library made of them.
 */
#include "lib/base/mem.h"
#include "slurm/scheduler/hostlist.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static const char vectors[] = "tests/unit/fixtures/slurm/hostlist-22.05.8.tsv";

/* Where we differ from 22.05 on purpose: hostlist.h says why. */
static const struct {
    const char *list, *want; /* NULL: refused */
} differs[] = {
    {"n[1-3]-ib", "n1-ib n2-ib n3-ib"},
    {"n[1-2]m", "n1m n2m"},
    {"n[1-2", NULL},
    {"n[0-65536]", "count=65537 first=n0"},
};

static const char *want_of(const char *list, const char *recorded)
{
    for (size_t i = 0; i < sizeof(differs) / sizeof(differs[0]); i++)
        if (strcmp(list, differs[i].list) == 0)
            return differs[i].want;
    return strcmp(recorded, "NULL") == 0 ? NULL : recorded;
}

static void show(struct sn_str *out, const struct sn_hostlist *h, const char *want)
{
    if (want && strncmp(want, "count=", 6) == 0) {
        sn_str_add(out, "count=%d first=%s", h->n, sn_hostlist_name(h, 0));
        return;
    }
    sn_str_add(out, "%s", "");
    for (int i = 0; i < h->n; i++)
        sn_str_add(out, "%s%s", i ? " " : "", sn_hostlist_name(h, i));
}

static void check_vector(const char *list, const char *recorded)
{
    struct sn_hostlist h = {0};
    struct sn_err err = {0};
    struct sn_str got = {0};
    const char *want = want_of(list, recorded);
    enum sn_status st = sn_hostlist_parse(&h, list, "hosts", &err);
    if (!want) {
        tap_ok(st == SN_EINPUT && h.n == 0, "'%s' is refused: %s", list, err.text);
        return;
    }
    if (st == SN_OK)
        show(&got, &h, want);
    tap_text(got.p ? got.p : err.text, want, list[0] ? list : "the empty list");
    sn_str_fini(&got);
    sn_hostlist_fini(&h);
}

static void as_slurm_does(void)
{
    char line[1024];
    int n = 0;
    FILE *f = fopen(vectors, "r");
    if (!tap_ok(f != NULL, "the recorded vectors are there"))
        return;
    while (fgets(line, sizeof(line), f)) {
        char *tab = strchr(line, '\t');
        line[strcspn(line, "\n")] = '\0';
        if (!tab || line[0] == '#')
            continue;
        *tab = '\0';
        check_vector(line, tab + 1);
        n++;
    }
    (void)fclose(f);
    tap_ok(n == 38, "all %d vectors were read", n);
}

static void bad_lists_are_explained(void)
{
    static const struct {
        const char *list, *want;
    } bad[] = {
        {"n[3-1]", "hosts: character 3 of 'n[3-1]': a range that runs backwards; want"},
        {"n[1-2", "character 6 of 'n[1-2': no closing ']'"},
        {"n[1;2]", "no ',' or ']' after a number"},
        {"n[0-99999999]", "a range of too many hosts"},
        {"n[0-99999][0-99999]", "more than 262144 hosts"},
        {"n[184467440737095516150]", "a number that no host has"},
        {"a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]i[1]", "too many brackets"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_hostlist h = {0};
        struct sn_err err = {0};
        enum sn_status st = sn_hostlist_parse(&h, bad[i].list, "hosts", &err);
        tap_ok(st == SN_EINPUT && strstr(err.text, bad[i].want), "%s", err.text);
    }
    char name[400];
    struct sn_hostlist h = {0};
    struct sn_err err = {0};
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    tap_ok(sn_hostlist_parse(&h, name, "hosts", &err) == SN_EINPUT, "%s", err.text);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void is_written(const char *list, const char *want)
{
    struct sn_hostlist h = {0};
    struct sn_str got = {0};
    if (sn_hostlist_parse(&h, list, "hosts", NULL) == SN_OK)
        sn_hostlist_format(&got, &h);
    tap_text(got.p ? got.p : "", want, want);
    sn_str_fini(&got);
    sn_hostlist_fini(&h);
}

static void lists_are_compressed(void)
{
    is_written("n1 n2 n3", "n[1-3]");
    is_written("n09 n10 n11", "n[09-11]");
    is_written("n9 n10 n11", "n[9-11]");
    is_written("n1 n03 n005 n006", "n[1,03,005-006]");
    is_written("n3 n1 n2 n2", "n[3,1-2,2]");
    is_written("login n1 n2 m7", "login,n[1-2],m7");
    is_written("n99 n100 n0101", "n[99-100,0101]");
    is_written("7 8", "[7-8]");
    is_written("n999999999999999999999 n1", "n999999999999999999999,n1");
}

static bool same(const struct sn_hostlist *a, const struct sn_hostlist *b)
{
    for (int i = 0; i < a->n && a->n == b->n; i++)
        if (strcmp(sn_hostlist_name(a, i), sn_hostlist_name(b, i)) != 0)
            return false;
    return a->n == b->n;
}

/* Any names come back, in their order. */
static void what_is_written_reads_the_same(void)
{
    static const char *const text[] = {"n", "gpu-a-", "x1000c0s", "host.domain", "1"};
    struct dice d = {.key = 11};
    int wrong = 0;
    for (int round = 0; round < 2000; round++) {
        struct sn_str list = {0}, again = {0};
        struct sn_hostlist a = {0}, b = {0};
        int64_t number = roll(&d, 120);
        for (int64_t i = roll(&d, 12) + 1; i > 0; i--) {
            number = roll(&d, 4) ? number + 1 : roll(&d, 1200);
            sn_str_add(&list, "%s%0*lld,", text[roll(&d, 8) ? 0 : roll(&d, 5)], (int)roll(&d, 4),
                       (long long)number);
        }
        bool good = sn_hostlist_parse(&a, list.p, "hosts", NULL) == SN_OK;
        sn_hostlist_format(&again, &a);
        good = good && sn_hostlist_parse(&b, again.p, "hosts", NULL) == SN_OK && same(&a, &b);
        wrong += !good;
        sn_hostlist_fini(&a);
        sn_hostlist_fini(&b);
        sn_str_fini(&list);
        sn_str_fini(&again);
    }
    tap_ok(wrong == 0, "2000 random lists come back (%d do not)", wrong);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void counts(void)
{
    static const char *const good[] = {"4", "4(x3),2", "1,2,1", "16(x262144)"};
    static const char *const bad[] = {"",
                                      "4(x0)",
                                      "0",
                                      "4,",
                                      "4(3)",
                                      "4(x3",
                                      "4(x3)2",
                                      "70000(x1)",
                                      "a",
                                      "4(x262145)",
                                      "-1,4",
                                      " 4",
                                      "4(x99999999999999999999)"};
    int *c, n;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct sn_str s = {0};
        if (!tap_ok(sn_counts_parse(&c, &n, good[i], "tasks", NULL) == SN_OK, "'%s' is read",
                    good[i]))
            continue;
        sn_counts_format(&s, c, n);
        tap_text(s.p, good[i], "and written");
        sn_str_fini(&s);
        sn_free(c);
    }
    tap_ok(sn_counts_parse(&c, &n, "4(x3),2", "tasks", NULL) == SN_OK && n == 4 && c[0] == 4 &&
               c[2] == 4 && c[3] == 2,
           "4(x3),2 is 4 4 4 2");
    sn_free(c);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_err err = {0};
        tap_ok(sn_counts_parse(&c, &n, bad[i], "tasks", &err) == SN_EINPUT, "%s", err.text);
    }
}

static void without_memory(void)
{
    bool good = true;
    int fails = 0;
    for (uint64_t i = 1; i < 100; i++) {
        struct sn_hostlist h = {0};
        sn_mem_fail_at(i);
        enum sn_status st = sn_hostlist_parse(&h, "n[0-99],m[1-9]", "hosts", NULL);
        sn_mem_fail_at(0);
        good = good && (st == SN_OK || (st == SN_ENOMEM && h.n == 0 && !h.text));
        fails += st == SN_ENOMEM;
        sn_hostlist_fini(&h);
    }
    tap_ok(good && fails > 3, "each allocation may fail (%d do)", fails);
}

int main(void)
{
    as_slurm_does();
    bad_lists_are_explained();
    lists_are_compressed();
    what_is_written_reads_the_same();
    counts();
    without_memory();
    return tap_done();
}
