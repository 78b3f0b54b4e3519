/*
 * err, mem, str: what everything else stands on.
 */
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/plain.h"
#include "lib/base/str.h"
#include "tests/lib/tap.h"

/* --- err ------------------------------------------------------------------------------------- */

static enum sn_status fails(struct sn_err *err)
{
    return sn_fail(err, SN_EIO, "%s: cannot open", "a.yaml");
}

static enum sn_status passes_on(struct sn_err *err, bool *went_on)
{
    SN_TRY(fails(err));
    *went_on = true;
    return SN_OK;
}

static void errors_carry_a_sentence(void)
{
    struct sn_err err = {0};
    bool went_on = false;
    tap_ok(passes_on(&err, &went_on) == SN_EIO && !went_on, "SN_TRY leaves with the status");
    tap_text(err.text, "a.yaml: cannot open", "the sentence is the one that was written");
    tap_ok(err.status == SN_EIO, "the status is kept beside it");
    tap_ok(sn_err_prefix(&err, "rank %d", 3) == SN_EIO, "a prefix returns the status");
    tap_text(err.text, "rank 3: a.yaml: cannot open", "a prefix goes in front");
    tap_ok(sn_fail(NULL, SN_ENOMEM, "x") == SN_ENOMEM, "err may be NULL");
}

static void is_plain(const char *text, const char *want, const char *what)
{
    struct sn_err err = {0};
    (void)sn_fail(&err, SN_EINPUT, "%s", text);
    tap_text(err.text, want, what);
}

static void what_a_terminal_obeys_is_shown(void)
{
    char cut[8];
    struct sn_err err = {0};
    is_plain("a\x1b]0;b\a.yaml", "a\\x1b]0;b\\x07.yaml", "a title that a name would set");
    is_plain("a\nb\tc\r", "a\\nb\\tc\\x0d", "lines and tabs");
    is_plain("gr\xc3\xb6\xc3\x9f"
             "e \xe6\x97\xa5 \xf0\x9f\x98\x80",
             "gr\xc3\xb6\xc3\x9f"
             "e \xe6\x97\xa5 \xf0\x9f\x98\x80",
             "text of any language stays");
    is_plain("\xc2\x9b"
             "31m \xe2\x80\xae",
             "\\xc2\\x9b31m \\xe2\\x80\\xae", "controls of two bytes and the turn of writing");
    is_plain("\x9b \xc0\x9b \xe2\x80", "\\x9b \\xc0\\x9b \\xe2\\x80", "bytes that are no text");
    (void)sn_fail(&err, SN_EIO, "x");
    (void)sn_err_prefix(&err, "host\x1b[2J");
    tap_text(err.text, "host\\x1b[2J: x", "and what is put before a sentence");
    sn_plain(cut, sizeof(cut), "abcde\x1b");
    tap_text(cut, "abcde", "nothing is cut in its middle");
    char lines[] = "a\x1b[2J\tb\n\xc2\x9b\xc3\xb6\xff";
    sn_plain_lines(lines);
    tap_text(lines, "a?[2J\tb\n??\xc3\xb6?", "lines that are printed keep their length");
    sn_plain_lines(NULL);
}

static void long_sentences_are_cut(void)
{
    struct sn_err err = {0};
    char words[2000], wide[400];
    memset(words, 'a', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    memset(wide, 'b', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    (void)sn_fail(&err, SN_EFAIL, "%s", words); /* the text is what is tested */
    tap_ok(strlen(err.text) == sizeof(err.text) - 1, "a long sentence is cut to the room there is");
    (void)sn_err_prefix(&err, "%s", wide);
    tap_ok(strlen(err.text) < sizeof(err.text) && err.text[0] == 'b' && strchr(err.text, 'a'),
           "a long prefix leaves some of the sentence");
}

static void exit_codes_follow_the_status(void)
{
    static const int want[] = {0, 2, 1, 1, 1};
    bool good = true;
    for (int st = SN_OK; st <= SN_EFAIL; st++)
        good = good && sn_exit_code((enum sn_status)st) == want[st];
    tap_ok(good, "exit codes: 0 well, 2 bad input, 1 everything else");
}

/* --- mem ------------------------------------------------------------------------------------- */

static void allocations_are_zeroed_and_counted(void)
{
    uint64_t before = sn_mem_count();
    unsigned char *p = sn_alloc(1000);
    bool zero = p != NULL;
    for (int i = 0; p && i < 1000; i++)
        zero = zero && p[i] == 0;
    tap_ok(zero, "memory comes zeroed");
    tap_ok(sn_mem_count() == before + 1, "an allocation is counted");
    p = sn_realloc(p, 2000);
    tap_ok(p && p[999] == 0 && sn_mem_count() == before + 2,
           "growing keeps the bytes and is counted");
    sn_free(p);
    sn_free(NULL);
    tap_ok(sn_alloc_n(SIZE_MAX / 2, 4) == NULL, "n objects that overflow are refused");
    p = sn_alloc(0);
    tap_ok(p != NULL, "no bytes at all is an allocation");
    sn_free(p);
}

static void the_hook_fails_exactly_one_allocation(void)
{
    for (uint64_t n = 1; n <= 3; n++) {
        void *p[4];
        bool good = true;
        sn_mem_fail_at(n);
        for (uint64_t i = 0; i < 4; i++) {
            p[i] = sn_alloc(8);
            good = good && (p[i] == NULL) == (i + 1 == n);
        }
        for (int i = 0; i < 4; i++)
            sn_free(p[i]);
        tap_ok(good, "the hook fails allocation %d and no other", (int)n);
    }
    sn_mem_fail_at(1);
    sn_mem_fail_at(0);
    void *p = sn_alloc(8);
    tap_ok(p != NULL, "0 turns the hook off");
    sn_free(p);
    sn_mem_fail_at(1);
    tap_ok(sn_strdup("x") == NULL, "strings obey the hook");
    sn_mem_fail_at(1);
    tap_ok(sn_format("%d", 1) == NULL, "formatted strings obey the hook");
    sn_mem_fail_at(1);
    tap_ok(sn_arena_map(8) == NULL, "arenas obey the hook");
    sn_mem_fail_at(0);
}

static void strings_are_copied(void)
{
    char *a = sn_strdup("rope"), *b = sn_strndup("rope of four", 4),
         *c = sn_format("%s-%d", "x", 7);
    tap_ok(a && b && c, "copies are made");
    tap_text(a ? a : "", "rope", "sn_strdup copies");
    tap_text(b ? b : "", "rope", "sn_strndup cuts and terminates");
    tap_text(c ? c : "", "x-7", "sn_format prints");
    sn_free(a);
    sn_free(b);
    sn_free(c);
}

static void arenas_are_zeroed_and_writable(void)
{
    size_t bytes = 3 * 1024 * 1024 + 5;
    unsigned char *p = sn_arena_map(bytes);
    tap_ok(p && p[0] == 0 && p[bytes - 1] == 0, "an arena comes zeroed");
    if (p)
        p[0] = p[bytes - 1] = 1;
    sn_arena_unmap(p, bytes);
    sn_arena_unmap(NULL, bytes);
    tap_ok(true, "unmapping nothing is allowed");
}

/* --- str ------------------------------------------------------------------------------------- */

static void text_grows(void)
{
    struct sn_str s = {0};
    for (int i = 0; i < 1000; i++)
        sn_str_add(&s, "%d,", i % 10);
    tap_ok(!s.failed && s.len == 2000 && strlen(s.p) == 2000, "text grows");
    sn_str_fini(&s);
    tap_ok(!s.p && s.len == 0, "and is empty after fini");
    sn_str_add(&s, "%s", "");
    tap_text(s.p ? s.p : "", "", "adding nothing makes an empty text");
    sn_mem_fail_at(1);
    sn_str_add(&s, "%s", "longer than the room that is there already");
    tap_ok(s.failed, "a failed allocation is remembered");
    sn_mem_fail_at(0);
    sn_str_add(&s, "more");
    tap_text(s.p ? s.p : "", "", "and everything after it is dropped");
    sn_str_fini(&s);
}

static void names_are_listed(void)
{
    static const char *const names[] = {"a", "bc", "d", NULL};
    static const char *const want[] = {"",  "a",      "bc",      "a or bc",
                                       "d", "a or d", "bc or d", "a, bc or d"};
    char buf[16];
    for (unsigned bits = 0; bits < 8; bits++)
        tap_text(sn_str_names(buf, sizeof(buf), names, bits), want[bits], want[bits]);
    tap_text(sn_str_names(buf, 6, names, 7), "a, bc", "as many as fit");
}

static void json_is_escaped(void)
{
    struct sn_str s = {0};
    sn_str_add_json(&s, "a \"b\" \\ c\n\t\x01 \xc3\xa9 %d");
    tap_text(s.p ? s.p : "", "\"a \\\"b\\\" \\\\ c\\n\\u0009\\u0001 \xc3\xa9 %d\"",
             "quotes, backslashes and control characters are escaped, the rest is kept");
    sn_str_fini(&s);
    sn_str_add_json(&s, "\xe2\x80\x8d\xc2\x9b\x7f\xf0\x9f\x99\x82\xff");
    tap_text(s.p ? s.p : "", "\"\\u200d\\u009b\\u007f\xf0\x9f\x99\x82\xff\"",
             "and so is what a terminal obeys");
    sn_str_fini(&s);
}

static void distance_counts_edits(void)
{
    static const struct {
        const char *a, *b;
        int want;
    } t[] = {{"", "", 0},
             {"a", "", 1},
             {"", "abc", 3},
             {"same", "same", 0},
             {"paralel", "parallel", 1},
             {"kitten", "sitting", 3},
             {"abc", "cba", 2},
             {"heads", "haeds", 2}};
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
        tap_ok(sn_str_distance(t[i].a, t[i].b) == t[i].want &&
                   sn_str_distance(t[i].b, t[i].a) == t[i].want,
               "'%s' and '%s' are %d apart", t[i].a, t[i].b, t[i].want);
    char far[70];
    memset(far, 'x', sizeof(far) - 1);
    far[sizeof(far) - 1] = '\0';
    tap_ok(sn_str_distance(far, "x") == 99, "anything over 64 characters is far");
}

static void globs_match_like_a_shell(void)
{
    static const struct {
        const char *pattern, *text;
        bool want;
    } t[] = {{"", "", true},
             {"", "a", false},
             {"*", "", true},
             {"*", "anything", true},
             {"a*c", "abbbc", true},
             {"a*c", "abbbd", false},
             {"a?c", "abc", true},
             {"a?c", "ac", false},
             {"*.weight", "h.0.weight", true},
             {"*.weight", "w", false},
             {"*ab*ab", "ababab", true},
             {"**a", "a", true},
             {"?", "", false},
             {"a*", "a", true},
             {"h.*.attn.*", "h.11.attn.qkv", true},
             {"*a*b*c", "xaxbxbxc", true},
             {"*a*b*c", "xaxcxb", false},
             {"?*", "*", true}};
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
        tap_ok(sn_str_glob(t[i].pattern, t[i].text) == t[i].want, "'%s' %s '%s'", t[i].pattern,
               t[i].want ? "matches" : "does not match", t[i].text);
}

static void byte_counts_are_short(void)
{
    static const struct {
        int64_t bytes;
        const char *want;
    } t[] = {{0, "0 B"},
             {12, "12 B"},
             {1023, "1023 B"},
             {1024, "1.00 KiB"},
             {1536, "1.50 KiB"},
             {150 * 1024, "150 KiB"},
             {1610612736, "1.50 GiB"},
             {(int64_t)1 << 50, "1.00 PiB"},
             {INT64_MAX, "8192 PiB"}};
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        char buf[16], what[64];
        (void)snprintf(what, sizeof(what), "%ld bytes read %s", (long)t[i].bytes, t[i].want);
        tap_text(sn_str_bytes(buf, t[i].bytes), t[i].want, what);
    }
}

static void arrays_grow(void)
{
    int *x = NULL, cap = 0, good = 1;
    for (int n = 0; n < 1000; n++) {
        good = good && sn_grow((void **)&x, n, &cap, sizeof(*x)) && cap > n;
        x[n] = n;
    }
    for (int n = 0; n < 1000; n++)
        good = good && x[n] == n;
    tap_ok(good && cap >= 1000 && cap < 2000, "an array grows and keeps what it has (%d)", cap);
    int *old = x, full = cap;
    sn_mem_fail_at(1);
    tap_ok(!sn_grow((void **)&x, cap, &cap, sizeof(*x)) && x == old && cap == full && x[999] == 999,
           "without memory it stays as it was");
    sn_mem_fail_at(0);
    cap = 1 << 30;
    tap_ok(!sn_grow((void **)&x, cap, &cap, sizeof(*x)) && x == old, "nor does its size overflow");
    sn_free(x);
}

static void a_watch_that_stood_still_counts_no_time(void)
{
    struct sn_awake a = {0};
    tap_ok(sn_awake_look(&a, 1000) == 1000, "the first look is at the clock's time");
    tap_ok(sn_awake_look(&a, 1001) == 1001, "and so is one soon after");
    tap_ok(sn_awake_look(&a, 1601) == 1001, "ten minutes in which nobody looked are none");
    tap_ok(sn_awake_at(&a, 1602) == 1002, "from there it goes on");
    tap_ok(sn_awake_look(&a, 1602) == 1002, "look by look");
}

int main(void)
{
    arrays_grow();
    a_watch_that_stood_still_counts_no_time();
    errors_carry_a_sentence();
    what_a_terminal_obeys_is_shown();
    long_sentences_are_cut();
    exit_codes_follow_the_status();
    allocations_are_zeroed_and_counted();
    the_hook_fails_exactly_one_allocation();
    strings_are_copied();
    arenas_are_zeroed_and_writable();
    text_grows();
    names_are_listed();
    json_is_escaped();
    distance_counts_edits();
    globs_match_like_a_shell();
    byte_counts_are_short();
    return tap_done();
}
