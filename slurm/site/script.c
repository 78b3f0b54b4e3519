#include "slurm/site/script.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/@%+="

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

enum sn_status sn_script_check(const char *what, const char *text, struct sn_err *err)
{
    for (const char *c = text; *c; c++)
        if (is_control(*c))
            return sn_fail(err, SN_EINPUT,
                           "%s: has a control character (byte %d at %d), which would end a line of "
                           "the batch script; want a name without",
                           what, (unsigned char)*c, (int)(c - text) + 1);
    return SN_OK;
}

void sn_script_word(struct sn_str *out, const char *text)
{
    if (*text && strspn(text, PLAIN) == strlen(text)) {
        sn_str_add(out, "%s", text);
        return;
    }
    sn_str_add(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            sn_str_add(out, "'\\''");
        else
            sn_str_add(out, "%c", *text);
    }
    sn_str_add(out, "'");
}

void sn_script_comment(struct sn_str *out, const char *text)
{
    sn_str_add(out, "# ");
    for (; *text; text++)
        sn_str_add(out, "%c", is_control(*text) ? ' ' : *text);
    sn_str_add(out, "\n");
}

/* As get_argument of sbatch's opt.c reads it (22.05 to 26.05): quotes keep blanks and '#' together,
 * a backslash takes the next character as it is, but not a blank outside of quotes. */
void sn_script_sbatch(struct sn_str *out, const char *option, const char *value)
{
    const char *quote = value && strpbrk(value, " \"'#\\") ? "\"" : "";
    sn_str_add(out, "#SBATCH %s%s%s", option, value ? "=" : "", quote);
    for (const char *c = value ? value : ""; *c; c++)
        sn_str_add(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    sn_str_add(out, "%s\n", quote);
}

enum sn_status sn_script_check_sbatch(const char *what, const char *lines, struct sn_err *err)
{
    static const char *const words[] = {"hetjob", "packjob"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(lines, words[i]))
            return sn_fail(err, SN_EINPUT,
                           "%s: '%s' in any name makes sbatch take the line for the beginning of "
                           "another job's; want another name",
                           what, words[i]);
    return SN_OK;
}

enum sn_status sn_script_check_bsub(const char *what, const char *text, struct sn_err *err)
{
    SN_TRY(sn_script_check(what, text, err));
    if (strpbrk(text, "\"\\`$"))
        return sn_fail(err, SN_EINPUT,
                       "%s: '%.80s' has a quote, a backslash or a '$', which bsub would take for "
                       "something else; want a name without",
                       what, text);
    return SN_OK;
}

void sn_script_bsub(struct sn_str *out, const char *option, const char *value)
{
    bool bare = !value || (*value && strspn(value, PLAIN) == strlen(value));
    const char *quote = bare ? "" : "\"";
    sn_str_add(out, "#BSUB %s%s%s%s%s\n", option, value ? " " : "", quote, value ? value : "",
               quote);
}

enum sn_status sn_script_pattern(struct sn_str *out, const char *what, const char *path,
                                 struct sn_err *err)
{
    SN_TRY(sn_script_check(what, path, err));
    if (strchr(path, '\\'))
        return sn_fail(err, SN_EINPUT,
                       "%s: '%.80s' has a backslash, with which sbatch replaces no %%j in the name "
                       "of an output file; want a path without",
                       what, path);
    for (; *path; path++)
        sn_str_add(out, "%s%c", *path == '%' ? "%" : "", *path);
    return SN_OK;
}

const char *sn_script_job_name(char buf[SN_JOB_NAME], const char *name)
{
    size_t n = 0;
    for (; *name && n + 1 < SN_JOB_NAME; name++) {
        bool good = isalnum((unsigned char)*name) || *name == '_' || *name == '.' ||
                    (*name == '-' && n > 0);
        buf[n++] = (char)((unsigned char)*name < 0x80 && good ? *name : '_');
    }
    buf[n] = '\0';
    if (n == 0)
        (void)snprintf(buf, SN_JOB_NAME, "sennit");
    return buf;
}
