#include "bin/plan_pictures.h"

#include "lib/base/mem.h"
#include "lib/report/picture.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static enum sn_status write_file(const char *option, const char *path, const struct sn_str *text,
                                 struct sn_err *err)
{
    if (text->failed)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the text", option);
    FILE *f = fopen(path, "w");
    if (!f)
        return sn_fail(err, SN_EIO, "%s %s: %s", option, path, strerror(errno));
    bool written = fwrite(text->p, 1, text->len, f) == text->len;
    written = fclose(f) == 0 && written;
    return written ? SN_OK : sn_fail(err, SN_EIO, "%s %s: %s", option, path, strerror(errno));
}

static int terminal_width(void)
{
    struct winsize w;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0;
    return known ? w.ws_col : 100;
}

static enum sn_status curves(struct sn_memory_curve *out, const struct sn_plan *plan,
                             const struct sn_sim *sim, const struct sn_stages *s,
                             struct sn_err *err)
{
    for (int i = 0; i < s->n; i++) {
        struct sn_memory_point *point;
        SN_TRY(sn_sim_memory(&point, &out[i].n, sim, s->job[i], err));
        out[i].point = point;
        out[i].state = s->job[i]->arena_bytes[SN_ARENA_STATE];
        out[i].library = plan->memory.library + plan->memory.snapshot;
    }
    return SN_OK;
}

static enum sn_status draw(const struct sn_pictures *want, const struct sn_page *page,
                           struct sn_str text[4], struct sn_err *err)
{
    const struct sn_picture *p = page->picture;
    if (want->svg) {
        sn_picture_svg(&text[0], p);
        SN_TRY(write_file("--svg", want->svg, &text[0], err));
    }
    if (want->trace) {
        SN_TRY(sn_picture_trace(&text[1], p, err));
        SN_TRY(write_file("--trace", want->trace, &text[1], err));
    }
    if (want->timeline) {
        bool utf8 = setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        SN_TRY(sn_picture_timeline(&text[2], p, terminal_width(), utf8, err));
        (void)fputs(text[2].p, stdout);
    }
    if (want->report) {
        SN_TRY(sn_page_html(&text[3], page, err));
        SN_TRY(write_file("--report", want->report, &text[3], err));
    }
    return SN_OK;
}

enum sn_status sn_plan_pictures_check(const struct sn_pictures *want, struct sn_err *err)
{
    if (!want->report)
        return SN_OK;
    bool is_there = access(want->report, F_OK) == 0;
    FILE *f = fopen(want->report, "ab");
    if (!f)
        return sn_fail(err, SN_EINPUT, "--report %s: %s", want->report, strerror(errno));
    (void)fclose(f); /* nothing was written */
    if (!is_there)
        (void)remove(want->report);
    return SN_OK;
}

enum sn_status sn_plan_pictures(const struct sn_pictures *want, const struct sn_page *p,
                                struct sn_err *err)
{
    const struct sn_stages *s = p->stages;
    struct sn_str text[4] = {{0}};
    struct sn_sim sim = {0};
    struct sn_memory_curve *memory = NULL;
    struct sn_page page = *p;
    if (!want->svg && !want->trace && !want->timeline && !want->report)
        return SN_OK;
    enum sn_status st = sn_sim_run(&sim, s, p->pricer, true, err);
    if (st == SN_OK && !(memory = sn_alloc_n((size_t)s->n, sizeof(*memory))))
        st = sn_fail(err, SN_ENOMEM, "pictures: no memory for %d stages", s->n);
    if (st == SN_OK)
        st = curves(memory, p->plan, &sim, s, err);
    struct sn_picture picture = {.title = s->job[0]->config->run.name,
                                 .sim = &sim,
                                 .memory = memory,
                                 .limit = p->limit,
                                 .micros = s->job[0]->train.micros,
                                 .vstages = s->job[0]->train.vstages,
                                 .mfu = p->plan->mfu,
                                 .mfu_note =
                                     sn_software_mfu_note(p->pricer->software, p->pricer->machine)};
    page.picture = &picture;
    if (st == SN_OK)
        st = draw(want, &page, text, err);
    for (int i = 0; i < 4; i++)
        sn_str_fini(&text[i]);
    for (int i = 0; memory && i < s->n; i++)
        sn_free((void *)memory[i].point);
    sn_free(memory);
    sn_sim_fini(&sim);
    return st;
}
