#include "lib/report/html.h"

#include "lib/report/svg_inner.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_TEXT = 1024 };

static const char on_light[] =
    ":root{color-scheme:light dark;--ink:#1d2730;--faint:#5b6873;--sheet:#fff;--card:#f4f6f8;"
    "--rule:#d5dbe1;--bad:#c22f3d;--good:#22775a}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1180px;padding:24px 20px 48px;background:var(--sheet);"
    "color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
    "overflow-wrap:anywhere}\n"
    "h1{font-size:26px;line-height:1.25;margin:0 0 4px;font-weight:650}\n"
    "h2{font-size:18px;margin:0 0 10px;font-weight:650}\n"
    "h3{font-size:14px;margin:22px 0 6px;font-weight:650}\n"
    "section{border-top:1px solid var(--rule);padding:22px 0 6px;margin-top:22px}\n"
    "p{margin:0 0 10px;max-width:80ch}.note{color:var(--faint);font-size:13px}\n"
    ".bad{color:var(--bad)}.good{color:var(--good)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(148px,1fr));gap:10px;"
    "margin-top:18px}\n"
    ".tile{background:var(--card);border-radius:8px;padding:11px 13px 10px}\n"
    ".tile b{display:block;font-size:21px;line-height:1.3;font-weight:650;"
    "font-variant-numeric:tabular-nums}\n"
    ".tile i,.tile small{display:block;font-style:normal;color:var(--faint);font-size:12.5px;"
    "line-height:1.4}\n"
    ".scroll{overflow-x:auto;margin:0 0 12px}.scroll>svg{display:block;width:100%;height:auto;"
    "min-width:900px}.scroll>svg.heat{min-width:520px;max-width:720px}\n"
    "table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}"
    "\n"
    "th{font-weight:500;color:var(--faint);text-align:left;font-size:12.5px;vertical-align:bottom}"
    "\n"
    "th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--rule);overflow-wrap:normal}\n"
    "th:last-child,td:last-child{padding-right:0}td{vertical-align:top}\n"
    ".num{text-align:right;white-space:nowrap}.keep{white-space:nowrap}.words{min-width:15em}\n"
    "tr.this td{font-weight:650}tr.this td.words,td small{font-weight:400}"
    "td small{display:block;color:var(--faint);font-size:12.5px;white-space:normal}\n"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));"
    "gap:0 48px}.few{max-width:820px}\n"
    "td.bar{width:100%;min-width:130px;vertical-align:middle}"
    "td.bar svg{display:block;width:100%;height:17px}\n"
    ".mark{fill:var(--bad)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:3px 16px;margin:0 0 8px;font-size:12.5px;"
    "color:var(--faint)}\n"
    ".legend span{display:inline-flex;align-items:center;gap:6px}.legend svg{width:11px;"
    "height:11px;flex:none}\n"
    ".heatcell{fill:#2a6fbf}.heattext{font-size:11px}\n"
    ".params{fill:#3a78c2}.grads{fill:#7fa834}.optimizer{fill:#7d5bb5}.activations{fill:#2f9c86}"
    ".workspace{fill:#c9781f}.comm{fill:#d64550}.snapshot{fill:#8f6a3c}.again{fill:#8cbccb}.bubble{"
    "fill:#c3ccd4}\n"
    "@media(max-width:620px){body{padding:18px 14px 36px}th,td{padding-right:9px}"
    "table{font-size:12.5px}}\n"
    "code{font:12.5px/1.5 ui-monospace,'DejaVu Sans Mono',monospace}\n";
static const char on_dark[] =
    ":root{--ink:#e5eaef;--faint:#9aa8b4;--sheet:#12171c;--card:#1b2229;--rule:#313b45;"
    "--bad:#ff7f88;--good:#5cc79d}.heatcell{fill:#3d86da}"
    ".again{fill:#5f97a8}.bubble{fill:#55626d}";
static const char on_paper[] =
    "body{max-width:none;padding:0;font-size:11px}section{break-inside:avoid-page}"
    "h2,h3{break-after:avoid}.scroll{overflow:visible}.scroll>svg{min-width:0}"
    "table{font-size:10px}.tile b{font-size:15px}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}";

void sn_html_begin(struct sn_str *out, const char *title)
{
    sn_str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                    "<title>");
    svg_escape(out, title);
    sn_str_add(out, "</title>\n<style>\n");
    sn_svg_style(out);
    sn_str_add(out, "%s@media (prefers-color-scheme:dark){%s}\n@media print{%s}\n", on_light,
               on_dark, on_paper);
    sn_str_add(out, "</style>\n</head>\n<body>\n");
}

void sn_html_end(struct sn_str *out)
{
    sn_str_add(out, "</body>\n</html>\n");
}

void sn_html_section_begin(struct sn_str *out, const char *head)
{
    sn_str_add(out, "<section>\n");
    sn_html_add(out, "h2", NULL, "%s", head);
}

void sn_html_section_end(struct sn_str *out)
{
    sn_str_add(out, "</section>\n");
}

static void open_tag(struct sn_str *out, const char *tag, const char *cls)
{
    sn_str_add(out, cls ? "<%s class=\"%s\">" : "<%s>", tag, cls);
}

void sn_html_add(struct sn_str *out, const char *tag, const char *cls, const char *fmt, ...)
{
    char text[MOST_TEXT];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    open_tag(out, tag, cls);
    svg_escape(out, text);
    sn_str_add(out, "</%s>\n", tag);
}

void sn_html_tile(struct sn_str *out, const char *head, const char *figure, const char *below)
{
    sn_str_add(out, "<div class=\"tile\"><i>");
    svg_escape(out, head);
    sn_str_add(out, "</i><b>");
    svg_escape(out, figure);
    sn_str_add(out, "</b><small>");
    svg_escape(out, below);
    sn_str_add(out, "</small></div>\n");
}

void sn_html_table_begin(struct sn_str *out, const char *const *head, int n)
{
    sn_str_add(out, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (int i = 0; i < n; i++) {
        bool is_number = head[i][0] == '#';
        open_tag(out, "th", is_number ? "num" : NULL);
        svg_escape(out, head[i] + is_number);
        sn_str_add(out, "</th>");
    }
    sn_str_add(out, "</tr></thead>\n<tbody>\n");
}

void sn_html_table_end(struct sn_str *out)
{
    sn_str_add(out, "</tbody>\n</table></div>\n");
}

void sn_html_row_begin(struct sn_str *out, const char *cls)
{
    open_tag(out, "tr", cls);
}

void sn_html_row_end(struct sn_str *out)
{
    sn_str_add(out, "</tr>\n");
}

void sn_html_cell(struct sn_str *out, const char *cls, const char *fmt, ...)
{
    char text[MOST_TEXT];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    open_tag(out, "td", cls);
    svg_escape(out, text);
    sn_str_add(out, "</td>");
}

void sn_html_bar(struct sn_str *out, const struct sn_html_part *part, int n, double whole,
                 double limit)
{
    double x = 0, scale = whole > 0 ? 1000 / whole : 0;
    sn_str_add(out, "<td class=\"bar\"><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">"
                    "<rect class=\"idle\" width=\"1000\" height=\"10\"/>");
    for (int i = 0; i < n; i++) {
        double w = part[i].value * scale;
        if (w > 0)
            sn_str_add(out, "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"10\"/>",
                       part[i].cls, x, w);
        x += w > 0 ? w : 0;
    }
    if (limit > 0 && limit <= whole)
        sn_str_add(out, "<rect class=\"mark\" x=\"%.2f\" width=\"3\" height=\"10\"/>",
                   limit * scale > 997 ? 997 : limit * scale);
    sn_str_add(out, "</svg></td>");
}

void sn_html_legend(struct sn_str *out, const struct sn_html_part *part, int n, bool limit)
{
    sn_str_add(out, "<div class=\"legend\">");
    for (int i = 0; i < n; i++) {
        sn_str_add(out,
                   "<span><svg viewBox=\"0 0 1 1\"><rect class=\"%s\" width=\"1\" height=\"1\"/>"
                   "</svg>",
                   part[i].cls);
        svg_escape(out, part[i].name);
        sn_str_add(out, "</span>\n");
    }
    if (limit)
        sn_str_add(out, "<span><svg viewBox=\"0 0 1 1\"><rect class=\"mark\" width=\"0.3\" "
                        "height=\"1\"/></svg>what the device has</span>\n");
    sn_str_add(out, "</div>\n");
}

const char *sn_html_digits(char buf[32], int64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%lld", (long long)n), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

void sn_html_count(struct sn_str *out, int64_t n)
{
    char digits[32];
    sn_html_cell(out, "num", "%s", sn_html_digits(digits, n));
}

void sn_html_box_begin(struct sn_str *out, const char *cls)
{
    sn_str_add(out, "<div class=\"%s\">\n", cls);
}

void sn_html_box_end(struct sn_str *out)
{
    sn_str_add(out, "</div>\n");
}
