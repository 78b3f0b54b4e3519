#include "lib/page/page_inner.h"

#include "lib/layout/axes.h"
#include "lib/search/words.h"

#include <math.h>
#include <stdio.h>

const char *page_axes(char buf[PAGE_AXES], const struct sn_layout_config *l)
{
    int size[SN_NGRID_AXES];
    size_t n = 0;
    sn_axes_sizes(size, l);
    buf[0] = '\0';
    for (int i = 0; i < SN_NGRID_AXES; i++) {
        enum sn_axis a = sn_axis_told(i);
        if (size[a] > 1 && n < PAGE_AXES)
            n += (size_t)snprintf(buf + n, PAGE_AXES - n, "%s%s %d", n ? " x " : "",
                                  sn_axis_name(a), size[a]);
    }
    if (n == 0)
        (void)snprintf(buf, PAGE_AXES, "one rank");
    return buf;
}

void page_layout_cell(struct sn_str *out, const char *name, const struct sn_layout_config *l)
{
    char axes[PAGE_AXES];
    struct sn_str words = {0};
    sn_search_describe(&words, l);
    sn_str_add(out, "<td class=\"words\">");
    sn_html_add(out, "span", NULL, "%s%s%s", name ? name : "", name ? ": " : "",
                page_axes(axes, l));
    sn_html_add(out, "small", NULL, "%s", words.p ? words.p : "");
    sn_str_add(out, "</td>");
    out->failed |= words.failed;
    sn_str_fini(&words);
}

void page_plan_cells(struct sn_str *out, const struct sn_plan *p, double step, int64_t limit)
{
    char time[16], bytes[16];
    bool fits = p->memory.total <= limit;
    sn_html_cell(out, "num", "%s", sn_str_seconds(time, p->step_time));
    if (fabs(p->step_time / step - 1) < 0.0005)
        sn_html_cell(out, "num", "=");
    else
        sn_html_cell(out, "num", "%+.1f %%", 100 * (p->step_time / step - 1));
    sn_html_cell(out, "num", "%.1f %%", 100 * p->mfu);
    sn_html_cell(out, fits ? "num" : "num bad", "%s%s", sn_str_bytes(bytes, p->memory.total),
                 fits ? "" : ", does not fit");
}

enum sn_status sn_page_html(struct sn_str *out, const struct sn_page *p, struct sn_err *err)
{
    sn_html_begin(out, p->stages->job[0]->config->run.name);
    page_headline(out, p);
    page_layout(out, p);
    page_memory(out, p);
    SN_TRY(page_traffic(out, p, err));
    page_time(out, p);
    SN_TRY(page_rivals(out, p, err));
    SN_TRY(page_what_ifs(out, p, err));
    SN_TRY(page_made(out, p, err));
    sn_html_end(out);
    return SN_OK;
}
