/*
 * test_template.c - chat templates give the text and the marks that transformers gave
 * (tests/unit/fixtures/chat/make.py); what they do not is refused, by name and line; and bounds hold.
 */
#include "lib/chat/template.h"

#include "lib/base/jsonl.h"
#include "lib/token/tokenizer.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static const char folder[] = "tests/unit/fixtures/chat";

struct made {
    struct sn_template *t;
    struct sn_pool pool;
    struct sn_bytes file, out;
    struct sn_text_spans marks;
    struct sn_err err;
    enum sn_status st;
};

static void end(struct made *m)
{
    sn_template_destroy(m->t);
    sn_pool_fini(&m->pool);
    sn_bytes_fini(&m->file);
    sn_bytes_fini(&m->out);
    sn_text_spans_fini(&m->marks);
    *m = (struct made){0};
}

static void make(struct made *m, const char *text, size_t len, struct sn_chat_value variables)
{
    m->st = sn_template_parse(&m->t, text, len, "t", &m->err);
    if (m->st == SN_OK)
        m->st = sn_template_render(m->t, &m->pool, variables, &m->out, &m->marks, &m->err);
}

/* Is [[0, 3], [7, 9]] what was marked? */
static bool are_marks(const struct made *m, struct sn_chat_value want)
{
    bool good = want.kind == SN_V_LIST && (int)want.items->n == m->marks.n;
    for (int i = 0; good && i < m->marks.n; i++) {
        const struct sn_chat_value *pair = want.items->v[i].items->v;
        good = pair[0].i == (int64_t)m->marks.list[i].from && pair[1].i == (int64_t)m->marks.list[i].to;
    }
    return good;
}

static bool check_line(struct sn_json json, const char **name, char *buffer, size_t room)
{
    struct made m = {.pool = {.limit = (size_t)64 << 20}};
    struct sn_chat_value file, text = {0}, out, marks, variables;
    m.pool.err = &m.err;
    struct sn_chat_value line = sn_value_of_json(&m.pool, json);
    bool good = sn_value_member(line, "variables", &variables) &&
                sn_value_member(line, "out", &out) && sn_value_member(line, "marks", &marks);
    (void)snprintf(buffer, room, "snippets");
    if (good && sn_value_member(line, "file", &file)) {
        char path[300];
        (void)snprintf(buffer, room, "%.*s", (int)file.len, file.p);
        (void)snprintf(path, sizeof(path), "%s/%s", folder, buffer);
        good = sn_tokenizer_read(&m.file, path, "a fixture", &m.err) == SN_OK;
        text = sn_value_text(m.file.p, m.file.len);
    } else {
        good = good && sn_value_member(line, "template", &text);
    }
    *name = buffer;
    if (good)
        make(&m, text.p, text.len, variables);
    good = good && m.st == SN_OK && sn_value_equal(out, sn_value_text(m.out.p, m.out.len)) &&
           are_marks(&m, marks);
    if (!good)
        printf("# %s: %.*s\n#  got: %.*s\n# want: %.*s\n# %s\n", buffer, (int)text.len, text.p,
               (int)m.out.len, m.out.p ? m.out.p : "", (int)out.len, out.p, m.err.text);
    end(&m);
    return good;
}

/* Lines of one template stand together. */
static void texts_are_those_of_transformers(void)
{
    struct sn_jsonl f = {0};
    struct sn_json line;
    struct sn_err err = {0};
    char path[300], last[100] = "", buffer[100];
    int lines = 0, bad = 0;
    const char *name = "";
    (void)snprintf(path, sizeof(path), "%s/golden.jsonl", folder);
    (void)sn_jsonl_open(&f, path, &err);
    while (sn_jsonl_next(&f, &line)) {
        bool good = check_line(line, &name, buffer, sizeof(buffer));
        if (last[0] && strcmp(last, name) != 0) {
            tap_ok(bad == 0, "%s: %d texts and their marks are those of transformers", last, lines);
            lines = bad = 0;
        }
        (void)snprintf(last, sizeof(last), "%s", name);
        lines++;
        bad += !good;
    }
    tap_ok(bad == 0 && lines > 0 && f.damaged == 0,
           "%s: %d texts and their marks are those of transformers", last, lines);
    sn_jsonl_close(&f);
}

static void refused(const char *template, const char *sentence)
{
    struct made m = {.pool = {.limit = (size_t)8 << 20}};
    char what[200];
    make(&m, template, strlen(template), sn_value_map(&m.pool));
    (void)snprintf(what, sizeof(what), "refused: %.120s", template);
    for (char *p = what; *p; p++)
        *p = *p == '\n' ? ' ' : *p; /* the name of a test is a line */
    tap_text(m.st == SN_EINPUT ? m.err.text : "(it was done)", sentence, what);
    end(&m);
}

static void what_is_not_done_is_named(void)
{
    refused("a\n{% include 'x' %}", "t: line 2: the statement 'include' is not done");
    refused("{{ 1\n | nosuch }}", "t: line 2: the filter 'nosuch' is not done");
    refused("{{ 1 is nosuch }}", "t: line 1: the test 'nosuch' of a int is not done");
    refused("{{ 'a'.zfill(3) }}", "t: line 1: 'zfill' of a str is not done");
    refused("{{ 2 ** 3 }}", "t: line 1: '**' is not done");
    refused("\n\n{{ raise_exception('no ' ~ 1) }}", "t: line 3: the template refuses it: no 1");
    refused("{{ x.y }}", "t: line 1: 'y' is asked of what is undefined");
    refused("{{ 'a' + 1 }}", "t: line 1: str + int is not done");
    refused("{{ '<a>'|safe + 'b' }}",
            "t: line 1: what 'safe' gave and another text are added, which escapes the other; want ~");
    refused("{{ ['\xc3\xa9'] }}",
            "t: line 1: a list or dict with characters beyond ASCII is printed as Python writes it, "
            "which is not done; want |tojson");
    refused("{{ strftime_now('%Y') }}",
            "t: line 1: asks for today's date, by which tokens would change from day to day; want "
            "--chat-date YYYY-MM-DD");
    refused("{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}",
            "t: line 1: {% generation %} in a macro or a block that is set is not done");
    refused("{% if 1 %}", "t: line 1: a block has no end");
    refused("{{ (1 }}", "t: line 1: a bracket is closed that was not opened");
    refused("{% set x.y = 1 %}", "t: line 1: a member of what is no namespace cannot be set");
    refused("{% for a, b in [[1]] %}{% endfor %}", "t: line 1: 1 values do not fit their names");
}

static void bounds_hold(void)
{
    char deep[4096] = "";
    for (int i = 0; i < 1000; i++)
        deep[i] = '(';
    char text[4200];
    (void)snprintf(text, sizeof(text), "{{ %s }}", deep);
    refused(text, "t: line 1: brackets are nested too deep");
    refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "t: line 1: expressions are nested too deep");
    refused("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
            "{% endfor %}",
            "t: line 1: the template takes more than 8 MiB of memory");
    refused("{% for i in range(9999999) %}{% endfor %}",
            "t: line 1: the template takes more than 8 MiB of memory");
    struct made m = {.pool = {.limit = (size_t)8 << 20}};
    const char *loops = "{% for a in range(99) %}{% for b in range(99) %}{% endfor %}{% endfor %}";
    m.st = sn_template_parse(&m.t, loops, strlen(loops), "t", &m.err);
    sn_template_limit(m.t, 100);
    m.st = sn_template_render(m.t, &m.pool, sn_value_map(&m.pool), &m.out, &m.marks, &m.err);
    tap_text(m.err.text, "t: line 1: the template takes too many steps", "steps have a bound");
    end(&m);
}

int main(void)
{
    texts_are_those_of_transformers();
    what_is_not_done_is_named();
    bounds_hold();
    return tap_done();
}
