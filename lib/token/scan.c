#include "lib/token/scan.h"

static const char *const patterns[] = {
    [SN_SCAN_NONE] = "",
    [SN_SCAN_GPT2] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [SN_SCAN_LLAMA3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                       "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [SN_SCAN_QWEN2] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [SN_SCAN_CL100K] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
                       "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
};

const char *sn_scan_pattern(enum sn_scan scan)
{
    return patterns[scan];
}

enum sn_scan sn_scan_find(const char *pattern, size_t len)
{
    for (int i = SN_SCAN_GPT2; i <= SN_SCAN_CL100K; i++)
        if (strlen(patterns[i]) == len && memcmp(patterns[i], pattern, len) == 0)
            return (enum sn_scan)i;
    return SN_SCAN_NONE;
}

/* --- characters ------------------------------------------------------------------------------- */

enum { LETTER = SN_CHAR_LETTER, NUMBER = SN_CHAR_NUMBER, SPACE = SN_CHAR_SPACE, END = 1 << 16 };

struct scanned {
    const struct sn_unicode *u;
    const char *p;
    size_t len;
};

/* Classes of the character at `at`, END behind the last one; its bytes. */
static inline unsigned look(const struct scanned *s, size_t at, size_t *used)
{
    *used = 1;
    if (at >= s->len)
        return END;
    unsigned char c = (unsigned char)s->p[at];
    if (c < 0x80)
        return s->u->classes[c];
    return s->u->classes[sn_utf8_get(s->p + at, used)];
}

/* Neither a blank nor a letter nor a number. */
static inline bool is_other(unsigned classes)
{
    return !(classes & (LETTER | NUMBER | SPACE | END));
}

static inline size_t run_of(const struct scanned *s, size_t at, unsigned class)
{
    size_t used;
    while (look(s, at, &used) & class)
        at += used;
    return at;
}

static inline size_t run_of_others(const struct scanned *s, size_t at)
{
    size_t used;
    while (is_other(look(s, at, &used)))
        at += used;
    return at;
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* 's 't 're 've 'm 'll 'd behind an apostrophe at `at`: where it ends; 0: there is none. U+017F is
 * an s, where case does not matter. */
static size_t contraction(const struct scanned *s, size_t at, bool any_case)
{
    char two[2] = {0};
    for (size_t i = 0; i < 2 && at + 1 + i < s->len; i++) {
        two[i] = s->p[at + 1 + i];
        if (any_case && two[i] >= 'A' && two[i] <= 'Z')
            two[i] = (char)(two[i] + 32);
    }
    if (two[0] && strchr("stmd", two[0]))
        return at + 2;
    if ((two[0] == 'r' && two[1] == 'e') || (two[0] == 'v' && two[1] == 'e') ||
        (two[0] == 'l' && two[1] == 'l'))
        return at + 3;
    return any_case && memcmp(two, "\xc5\xbf", 2) == 0 ? at + 3 : 0;
}

/* Blanks up to a text: all but the last, which goes with it; one alone is a piece. At the end all. */
static size_t blanks(const struct scanned *s, size_t at)
{
    size_t end = run_of(s, at, SPACE);
    if (end == s->len)
        return end;
    size_t last = end - sn_utf8_before(s->p + at, s->p + end);
    return last > at ? last : end;
}

static size_t next_gpt2(const struct scanned *s, size_t at)
{
    size_t used, end = s->p[at] == '\'' ? contraction(s, at, false) : 0;
    if (end)
        return end;
    size_t begin = at + (s->p[at] == ' ');
    unsigned classes = look(s, begin, &used);
    if (classes & LETTER)
        return run_of(s, begin + used, LETTER);
    if (classes & NUMBER)
        return run_of(s, begin + used, NUMBER);
    if (is_other(classes))
        return run_of_others(s, begin + used);
    return blanks(s, at);
}

static size_t numbers(const struct scanned *s, size_t at, int most)
{
    size_t used;
    for (int i = 0; i < most && (look(s, at, &used) & NUMBER); i++)
        at += used;
    return at;
}

/* Blanks: up to the last end of a line among them, or as others have them. */
static size_t blanks_and_breaks(enum sn_scan scan, const struct scanned *s, size_t at)
{
    size_t end = run_of(s, at, SPACE);
    if (scan == SN_SCAN_CL100K && end == s->len)
        return end;
    for (size_t i = end; i > at; i--)
        if (is_break(s->p[i - 1]))
            return i;
    return blanks(s, at);
}

static size_t next_llama3(enum sn_scan scan, const struct scanned *s, size_t at)
{
    size_t used, next, end = s->p[at] == '\'' ? contraction(s, at, true) : 0;
    if (end)
        return end;
    unsigned classes = look(s, at, &used);
    if (classes & LETTER)
        return run_of(s, at + used, LETTER);
    if (classes & NUMBER)
        return numbers(s, at, scan == SN_SCAN_QWEN2 ? 1 : 3);
    unsigned behind = look(s, at + used, &next);
    if (!is_break(s->p[at]) && (behind & LETTER))
        return run_of(s, at + used + next, LETTER);
    if (is_other(classes) || (s->p[at] == ' ' && is_other(behind))) {
        end = run_of_others(s, at + used);
        while (end < s->len && is_break(s->p[end]))
            end++;
        return end;
    }
    return blanks_and_breaks(scan, s, at);
}

size_t sn_scan_next(enum sn_scan scan, const struct sn_unicode *u, const char *p, size_t len,
                    size_t at)
{
    struct scanned s = {u, p, len};
    return scan == SN_SCAN_GPT2 ? next_gpt2(&s, at) : next_llama3(scan, &s, at);
}
