/*
 * test_jsonl.c - JSON lines written and read back, cut and damaged ones; the tails of texts.
 */
#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "lib/base/tail.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool parse(struct sn_json *out, const char *text)
{
    return sn_json_parse(out, text, strlen(text));
}

static void what_is_a_value(void)
{
    static const struct {
        const char *text;
        bool good;
    } row[] = {
        {"{}", true},
        {" [1, -2.5e3, \"a\\u00e9\\n\", true, null, {\"b\": [[]]}] ", true},
        {"", false},
        {"{\"a\": 1", false},
        {"{\"a\" 1}", false},
        {"{\"a\": 1,}", false},
        {"[1 2]", false},
        {"\"open", false},
        {"\"tab\there\"", false},
        {"\"bad \\x\"", false},
        {"\"bad \\u12g4\"", false},
        {"nan", false},
        {"0x10", false},
        {"1.2.3", false},
        {"{} {}", false},
        {"{\"a\": }", false},
    };
    struct sn_json v;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        tap_ok(parse(&v, row[i].text) == row[i].good, "%s is %s", row[i].text,
               row[i].good ? "JSON" : "refused");
    char deep[100];
    memset(deep, '[', 50);
    memset(deep + 50, ']', 50);
    tap_ok(!sn_json_parse(&v, deep, 100), "50 levels are refused");
    tap_ok(sn_json_parse(&v, deep + 25, 50), "25 levels are taken");
    tap_ok(!sn_json_parse(&v, "[\0]", 3), "a NUL is refused");
}

static void members_are_found(void)
{
    struct sn_json v, name, item;
    char text[32];
    bool b = false;
    int64_t n = 0;
    double x = 0;
    (void)parse(&v, "{\"a\": {\"b\": 1}, \"b\": 9007199254740993, \"x\": -0.5, \"t\": true, "
                    "\"s\": \"q\\\"\\\\\\u00e9\\ud83d\\ude00\", \"l\": [1, [2], \"c\"]}");
    tap_ok(sn_json_integer(sn_json_get(v, "b"), &n) && n == 9007199254740993,
           "an integer is found whole, beside one of the same name within");
    tap_ok(sn_json_number(sn_json_get(v, "x"), &x) && x == -0.5, "a number");
    tap_ok(!sn_json_integer(sn_json_get(v, "x"), &n), "which is no integer");
    tap_ok(sn_json_bool(sn_json_get(v, "t"), &b) && b, "a boolean");
    sn_json_get_text(v, "s", text, sizeof(text));
    tap_text(text, "q\"\\\xc3\xa9\xf0\x9f\x98\x80", "a text, unescaped to UTF-8");
    sn_json_get_text(v, "s", text, 5);
    tap_text(text, "q\"\\", "is cut between characters");
    tap_ok(!sn_json_get(v, "none").at && sn_json_get_integer(v, "none", -7) == -7,
           "what is not there is said so");
    int items = 0;
    for (size_t at = 0; sn_json_next(sn_json_get(v, "l"), &at, &name, &item);)
        items += item.at && !name.at;
    tap_ok(items == 3, "an array has three items (%d)", items);
    int members = 0;
    for (size_t at = 0; sn_json_next(v, &at, &name, &item);)
        members++;
    tap_ok(members == 6, "the object has six members (%d)", members);
    size_t at = 0;
    (void)parse(&v, "{}");
    tap_ok(!sn_json_next(v, &at, &name, &item), "an empty object has none");
}

static void write_line(const char *path, int64_t n)
{
    const char *const list[] = {"n0", "a \"b\"\n"};
    struct sn_str line = {0};
    struct sn_err err;
    sn_jsonl_int(&line, "n", n);
    sn_jsonl_text(&line, "none", NULL);
    sn_jsonl_texts(&line, "list", list, 2);
    sn_jsonl_real(&line, "x", 0.1);
    sn_jsonl_real(&line, "bad", NAN);
    sn_jsonl_bool(&line, "yes", true);
    tap_ok(sn_jsonl_append(path, &line, &err) == SN_OK, "line %lld is appended", (long long)n);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");
    (void)fputs(text, f);
    (void)fclose(f);
}

static void lines_come_back(const char *path)
{
    struct sn_jsonl f;
    struct sn_json v;
    struct sn_err err;
    write_line(path, 1);
    put(path, "{\"n\": 2, \"cut");
    write_line(path, 3);
    put(path, "7\n\n{\"n\": 4}");
    tap_ok(sn_jsonl_open(&f, path, &err) == SN_OK, "the file is read");
    int64_t got[4] = {0};
    int n = 0;
    double x = 0;
    while (n < 4 && sn_jsonl_next(&f, &v)) {
        got[n++] = sn_json_get_integer(v, "n", -1);
        if (n == 2)
            x = sn_json_get_number(v, "x", 0);
    }
    tap_ok(n == 3 && got[0] == 1 && got[1] == 3 && got[2] == 4,
           "whole lines come back, also behind one that was cut off (%lld %lld %lld)",
           (long long)got[0], (long long)got[1], (long long)got[2]);
    tap_ok(x == 0.1, "numbers come back bit for bit");
    tap_ok(f.damaged == 2, "two lines are no objects (%lld)", (long long)f.damaged);
    sn_jsonl_close(&f);
    tap_ok(sn_jsonl_open(&f, "/nowhere/at/all", &err) == SN_OK && !sn_jsonl_next(&f, &v),
           "a file that is not there has no lines");
    sn_jsonl_close(&f);
}

static void failures_have_words(const char *dir)
{
    struct sn_str line = {0};
    struct sn_err err = {0};
    sn_jsonl_int(&line, "n", 1);
    tap_ok(sn_jsonl_append(dir, &line, &err) == SN_EIO && strstr(err.text, "cannot be appended to"),
           "a directory is no file to append to: %s", err.text);
    sn_mem_fail_at(1);
    sn_jsonl_int(&line, "n", 1);
    sn_mem_fail_at(0);
    tap_ok(sn_jsonl_append(dir, &line, &err) == SN_ENOMEM, "without memory: %s", err.text);
}

static void tails(const char *path)
{
    static struct sn_tail t; /* large */
    char out[64], line[32];
    for (int i = 0; i < 5000; i++)
        sn_tail_add(&t, line, (size_t)snprintf(line, sizeof(line), "line %d of many\n", i));
    tap_ok(t.len < SN_TAIL_MAX && t.len > SN_TAIL_MAX - 64 && !strncmp(t.text, "line ", 5),
           "a stream's tail begins with a line and is as long as can be (%zu)", t.len);
    tap_text(sn_tail_last_line(t.text), "line 4999 of many\n", "and ends with its last");
    char *big = sn_alloc(3 * SN_TAIL_MAX);
    memset(big, 'x', 3 * SN_TAIL_MAX);
    sn_tail_add(&t, big, 3 * SN_TAIL_MAX);
    sn_tail_add(&t, "y\n", 2);
    tap_ok(t.len <= SN_TAIL_MAX - 1 && strlen(t.text) == t.len && t.text[t.len - 2] == 'y',
           "a line longer than all of it is cut from the front");
    sn_free(big);
    sn_tail_read(out, sizeof(out), path);
    tap_text(out, "", "no file, no lines");
    put(path, "a first line that is rather long, so that it does not fit\n"
              "second\nthird\nbeing writ");
    sn_tail_read(out, 24, path);
    tap_text(out, "third\n", "the whole lines that fit");
    sn_tail_read(out, 22, path);
    tap_text(out, "third\n", "a line that begins before them is left out");
    tap_ok(!sn_tail_last_line("\n\n") && !sn_tail_last_line(""), "nothing has no last line");
}

int main(void)
{
    char dir[] = "/tmp/sn-jsonl-XXXXXX", path[64], other[64];
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(path, sizeof(path), "%s/a.jsonl", dir);
    (void)snprintf(other, sizeof(other), "%s/b", dir);
    what_is_a_value();
    members_are_found();
    lines_come_back(path);
    failures_have_words(dir);
    tails(other);
    (void)unlink(path);
    (void)unlink(other);
    (void)rmdir(dir);
    return tap_done();
}
