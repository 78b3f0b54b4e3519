#include "slurm/scheduler/hostlist.h"

#include "lib/base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 8 };

struct range {
    uint64_t low, high;
    int width; /* digits of `low` as written */
};

/* Ranges of all brackets of a name follow one another. */
struct bracket {
    int first, n;     /* of the ranges */
    size_t text, end; /* what stands before the bracket: list[text .. end) */
    int range;        /* the value that is next, */
    uint64_t offset;  /* range[first + range].low + offset */
};

struct reader {
    const char *list, *what;
    size_t at;
    struct sn_err *err;
    struct range *range;
    int n_ranges, room_ranges;
    struct bracket bracket[MAX_BRACKETS];
    int n_brackets;
    size_t tail, end; /* what stands after the last bracket */
    struct sn_hostlist hosts;
};

static bool separates(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n';
}

static enum sn_status bad(const struct reader *r, size_t at, const char *why)
{
    return sn_fail(r->err, SN_EINPUT,
                   "%s: character %zu of '%.60s': %s; want a list such as "
                   "n[01-04,7],gpu9",
                   r->what, at + 1, r->list, why);
}

static enum sn_status no_memory(const struct reader *r)
{
    return sn_fail(r->err, SN_ENOMEM, "%s: no memory for %d hosts", r->what, r->hosts.n + 1);
}

/* ---- one name -------------------------------------------------------------------------------- */

static enum sn_status read_number(struct reader *r, uint64_t *out, int *width)
{
    size_t from = r->at;
    char *end;
    if (!isdigit((unsigned char)r->list[from]))
        return bad(r, from, "no number in a bracket");
    errno = 0;
    *out = strtoull(r->list + from, &end, 10);
    r->at = (size_t)(end - r->list);
    *width = (int)(r->at - from);
    if (errno == ERANGE || *width > 32)
        return bad(r, from, "a number that no host has");
    return SN_OK;
}

static enum sn_status add_range(struct reader *r, struct range range)
{
    if (!sn_grow((void **)&r->range, r->n_ranges, &r->room_ranges, sizeof(*r->range)))
        return no_memory(r);
    r->range[r->n_ranges++] = range;
    return SN_OK;
}

/* From after '[' to after ']'. */
static enum sn_status read_bracket(struct reader *r, struct bracket *b)
{
    b->first = r->n_ranges;
    do {
        struct range g;
        int unused;
        size_t from = r->at;
        SN_TRY(read_number(r, &g.low, &g.width));
        g.high = g.low;
        if (r->list[r->at] == '-') {
            r->at++;
            SN_TRY(read_number(r, &g.high, &unused));
        }
        if (g.high < g.low)
            return bad(r, from, "a range that runs backwards");
        if (g.high - g.low >= SN_HOSTLIST_MAX)
            return bad(r, from, "a range of too many hosts");
        SN_TRY(add_range(r, g));
    } while (r->list[r->at] == ',' && r->at++);
    if (r->list[r->at] != ']')
        return bad(r, r->at, r->list[r->at] ? "no ',' or ']' after a number" : "no closing ']'");
    r->at++;
    b->n = r->n_ranges - b->first;
    return SN_OK;
}

static enum sn_status read_name(struct reader *r)
{
    size_t text = r->at;
    r->n_brackets = r->n_ranges = 0;
    while (r->list[r->at] && !separates(r->list[r->at])) {
        if (r->list[r->at] == ']' && r->n_brackets)
            return bad(r, r->at, "a ']' without '['");
        if (r->list[r->at] != '[') {
            r->at++;
            continue;
        }
        if (r->n_brackets == MAX_BRACKETS)
            return bad(r, r->at, "too many brackets in one name");
        struct bracket *b = &r->bracket[r->n_brackets];
        *b = (struct bracket){.text = text, .end = r->at++};
        SN_TRY(read_bracket(r, b));
        r->n_brackets++;
        text = r->at;
    }
    r->tail = text;
    r->end = r->at;
    return SN_OK;
}

/* ---- its hosts ------------------------------------------------------------------------------- */

static enum sn_status keep(struct reader *r, const char *name, size_t len)
{
    struct sn_hostlist *h = &r->hosts;
    if (h->n == SN_HOSTLIST_MAX)
        return sn_fail(r->err, SN_EINPUT, "%s: more than %d hosts; want fewer", r->what,
                       SN_HOSTLIST_MAX);
    if (!sn_grow((void **)&h->at, h->n, &h->room, sizeof(*h->at)))
        return no_memory(r);
    if (h->len + len + 1 > h->room_text) {
        size_t room = 2 * h->room_text + len + 256;
        char *text = sn_realloc(h->text, room);
        if (!text)
            return no_memory(r);
        h->text = text;
        h->room_text = room;
    }
    h->at[h->n++] = h->len;
    memcpy(h->text + h->len, name, len + 1);
    h->len += len + 1;
    return SN_OK;
}

/* The name with the brackets' present values. */
static enum sn_status write_name(struct reader *r)
{
    char name[SN_HOST_NAME];
    size_t len = 0;
    for (int i = 0; i <= r->n_brackets; i++) {
        const struct bracket *b = &r->bracket[i];
        bool last = i == r->n_brackets;
        size_t from = last ? r->tail : b->text, n = (last ? r->end : b->end) - from;
        if (n >= sizeof(name) - len)
            return bad(r, from, "a name of more than 255 characters");
        memcpy(name + len, r->list + from, n);
        len += n;
        if (last)
            break;
        const struct range *g = &r->range[b->first + b->range];
        int wrote =
            snprintf(name + len, sizeof(name) - len, "%0*" PRIu64, g->width, g->low + b->offset);
        if (wrote < 0 || (size_t)wrote >= sizeof(name) - len)
            return bad(r, from, "a name of more than 255 characters");
        len += (size_t)wrote;
    }
    name[len] = '\0';
    return keep(r, name, len);
}

/* The next value of a bracket; false: it begins again. */
static bool turn(const struct reader *r, struct bracket *b)
{
    const struct range *g = &r->range[b->first + b->range];
    if (b->offset < g->high - g->low) {
        b->offset++;
        return true;
    }
    b->offset = 0;
    b->range = b->range + 1 < b->n ? b->range + 1 : 0;
    return b->range != 0;
}

/* The last bracket varies fastest, then the first, the second, ... */
static bool next_name(struct reader *r)
{
    if (r->n_brackets == 0)
        return false;
    if (turn(r, &r->bracket[r->n_brackets - 1]))
        return true;
    for (int i = 0; i < r->n_brackets - 1; i++)
        if (turn(r, &r->bracket[i]))
            return true;
    return false;
}

static enum sn_status expand(struct reader *r)
{
    do
        SN_TRY(write_name(r));
    while (next_name(r));
    return SN_OK;
}

static enum sn_status read_list(struct reader *r)
{
    while (r->list[r->at]) {
        if (separates(r->list[r->at])) {
            r->at++;
            continue;
        }
        SN_TRY(read_name(r));
        SN_TRY(expand(r));
    }
    return SN_OK;
}

enum sn_status sn_hostlist_parse(struct sn_hostlist *out, const char *list, const char *what,
                                 struct sn_err *err)
{
    struct reader r = {.list = list, .what = what, .err = err};
    enum sn_status st = read_list(&r);
    sn_free(r.range);
    if (st == SN_OK)
        *out = r.hosts;
    else
        sn_hostlist_fini(&r.hosts);
    return st;
}

void sn_hostlist_fini(struct sn_hostlist *h)
{
    sn_free(h->text);
    sn_free(h->at);
    *h = (struct sn_hostlist){0};
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A name is text and a number at its end. */
struct split {
    size_t text; /* length */
    int width;   /* digits; 0: no number that may stand in a bracket */
    uint64_t number;
};

static struct split split_name(const char *name)
{
    size_t len = strlen(name);
    struct split s = {.text = len};
    while (s.text > 0 && len - s.text < 18 && isdigit((unsigned char)name[s.text - 1]))
        s.text--;
    s.width = (int)(len - s.text);
    s.number = s.width ? strtoull(name + s.text, NULL, 10) : 0;
    return s;
}

/* Is `b` the successor of `a` in a range that is padded to `width`? */
static bool follows(struct split a, struct split b, int width)
{
    char digits[32];
    int n = snprintf(digits, sizeof(digits), "%0*" PRIu64, width, b.number);
    return b.number == a.number + 1 && n == b.width;
}

static bool same_text(const char *a, struct split sa, const char *b, struct split sb)
{
    return sa.width && sb.width && sa.text == sb.text && memcmp(a, b, sa.text) == 0;
}

/* Ranges of names i .. n-1 that share their text; returns the first name that does not. */
static int add_bracket(struct sn_str *out, const struct sn_hostlist *h, int i)
{
    const char *head = sn_hostlist_name(h, i);
    struct split first = split_name(head), s = first;
    int end = i;
    while (end < h->n &&
           same_text(head, first, sn_hostlist_name(h, end), split_name(sn_hostlist_name(h, end))))
        end++;
    sn_str_add(out, "%.*s[", (int)first.text, head);
    while (i < end) {
        int from = i;
        struct split low = s = split_name(sn_hostlist_name(h, i++));
        for (struct split t; i < end; i++, s = t) {
            t = split_name(sn_hostlist_name(h, i));
            if (!follows(s, t, low.width))
                break;
        }
        sn_str_add(out, "%0*" PRIu64, low.width, low.number);
        if (i - from > 1)
            sn_str_add(out, "-%0*" PRIu64, low.width, s.number);
        sn_str_add(out, i < end ? "," : "]");
    }
    return end;
}

void sn_hostlist_format(struct sn_str *out, const struct sn_hostlist *h)
{
    for (int i = 0; i < h->n;) {
        const char *name = sn_hostlist_name(h, i);
        const char *next = i + 1 < h->n ? sn_hostlist_name(h, i + 1) : "";
        if (i)
            sn_str_add(out, ",");
        if (same_text(name, split_name(name), next, split_name(next))) {
            i = add_bracket(out, h, i);
        } else {
            sn_str_add(out, "%s", name);
            i++;
        }
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

static enum sn_status bad_counts(const char *list, const char *what, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "%s: '%.60s' is no list of counts; want one such as 4(x3),2",
                   what, list);
}

/* A number of 1 .. most; NULL if there is none. */
static const char *read_count(const char *at, long most, long *out)
{
    char *end;
    if (!isdigit((unsigned char)*at))
        return NULL;
    errno = 0;
    *out = strtol(at, &end, 10);
    return errno || *out < 1 || *out > most ? NULL : end;
}

enum sn_status sn_counts_parse(int **out, int *n, const char *list, const char *what,
                               struct sn_err *err)
{
    enum { MOST = 65536 };
    int *count = NULL, have = 0;
    for (const char *at = list;;) {
        long value = 0, times = 1;
        at = read_count(at, MOST, &value);
        if (at && at[0] == '(') {
            at = at[1] == 'x' ? read_count(at + 2, SN_HOSTLIST_MAX, &times) : NULL;
            at = at && *at == ')' ? at + 1 : NULL;
        }
        if (!at || (*at && *at != ',') || have + times > SN_HOSTLIST_MAX) {
            sn_free(count);
            return bad_counts(list, what, err);
        }
        int *more = sn_realloc(count, (size_t)(have + times) * sizeof(*more));
        if (!more) {
            sn_free(count);
            return sn_fail(err, SN_ENOMEM, "%s: no memory for %ld counts", what, have + times);
        }
        count = more;
        for (long i = 0; i < times; i++)
            count[have++] = (int)value;
        if (!*at++)
            break;
    }
    *out = count;
    *n = have;
    return SN_OK;
}

void sn_counts_format(struct sn_str *out, const int *count, int n)
{
    for (int i = 0, j; i < n; i = j) {
        for (j = i; j < n && count[j] == count[i];)
            j++;
        sn_str_add(out, "%s%d", i ? "," : "", count[i]);
        if (j - i > 1)
            sn_str_add(out, "(x%d)", j - i);
    }
}
