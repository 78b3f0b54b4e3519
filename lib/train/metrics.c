#include "lib/train/metrics.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"
#include "lib/base/text_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

struct sn_metrics {
    FILE *file;
    char *path;
    bool terminal;        /* stderr is one: draw a line in place */
    double last_printed;  /* seconds */
    double mean_time;     /* of a step, smoothed, for the ETA */
    char buffer[1 << 16]; /* stdio's, so that writing allocates nothing */
};

/* Offset at which the first line of a later step begins. A last line without its end was cut by a
 * crash and goes too. Lines may be longer than what is read at once. */
static long keep_until(FILE *f, int64_t step)
{
    char line[LINE_MAX_BYTES];
    long at = 0;
    bool is_begin = true;
    while (fgets(line, sizeof(line), f)) {
        long long s;
        if (is_begin && (sscanf(line, "{\"step\": %lld", &s) != 1 || s > step))
            return at;
        is_begin = strchr(line, '\n') != NULL;
        at = is_begin ? ftell(f) : at;
    }
    return at;
}

enum sn_status sn_metrics_open(struct sn_metrics **out, const char *dir, const char *name,
                               int64_t step, struct sn_err *err)
{
    struct sn_metrics *m = sn_alloc(sizeof(*m));
    if (m)
        m->path = sn_format("%s/%s", dir, name);
    if (!m || !m->path) {
        sn_free(m);
        return sn_fail(err, SN_ENOMEM, "metrics: no memory");
    }
    int fd = sn_output_open(m->path, O_RDWR | O_APPEND, 0666);
    m->file = fd >= 0 ? fdopen(fd, "a+") : NULL;
    bool good = m->file != NULL;
    if (good) {
        (void)setvbuf(m->file, m->buffer, _IOFBF, sizeof(m->buffer));
        rewind(m->file);
        long keep = keep_until(m->file, step);
        good = ftruncate(fileno(m->file), keep) == 0 && fseek(m->file, 0, SEEK_END) == 0;
    }
    if (!good) {
        enum sn_status st = sn_write_fail(err, m->path, errno);
        sn_metrics_close(m);
        return st;
    }
    m->terminal = isatty(STDERR_FILENO) == 1;
    *out = m;
    return SN_OK;
}

void sn_metrics_close(struct sn_metrics *m)
{
    if (!m)
        return;
    if (m->file)
        (void)fclose(m->file); /* every line was flushed and checked */
    sn_free(m->path);
    sn_free(m);
}

static enum sn_status flush(struct sn_metrics *m, struct sn_err *err)
{
    if (fflush(m->file) != 0 || ferror(m->file))
        return sn_write_fail(err, m->path, errno);
    return SN_OK;
}

/* JSON has no NaN: null says "not a number". */
static void number(FILE *f, const char *key, double v)
{
    if (isfinite(v))
        (void)fprintf(f, ", \"%s\": %.9g", key, v);
    else
        (void)fprintf(f, ", \"%s\": null", key);
}

void sn_metrics_json_memory(FILE *f, const struct sn_memory_plan *m)
{
    (void)fprintf(f, "\"memory_bytes\": {");
    for (int u = 0; u < SN_NMEMORY_USES; u++)
        (void)fprintf(f, "\"%s\": %lld, ", sn_memory_use_row((enum sn_memory_use)u)->name,
                      (long long)m->of[u]);
    (void)fprintf(f, "\"total\": %lld}", (long long)m->total);
}

void sn_metrics_json_traffic(FILE *f, const int64_t *traffic)
{
    (void)fprintf(f, "\"traffic_bytes\": {");
    for (int a = 0; a < SN_NAXES; a++)
        (void)fprintf(f, "%s\"%s\": %lld", a ? ", " : "", sn_axis_name((enum sn_axis)a),
                      (long long)traffic[a]);
    (void)fprintf(f, "}");
}

static void add_snapshot(FILE *f, const struct sn_snapshot_report *s)
{
    (void)fprintf(f, ", \"snapshot_step\": %lld, \"snapshot_bytes\": %lld", (long long)s->step,
                  (long long)s->bytes);
    number(f, "snapshot_copy_s", s->copy);
    number(f, "snapshot_stall_s", s->stall);
}

static void add_codec_error(FILE *f, const double error[SN_NCODED])
{
    const char *comma = "";
    (void)fprintf(f, ", \"codec_error\": {");
    for (int i = 0; i < SN_NCODED; i++) {
        if (isnan(error[i]))
            continue;
        (void)fprintf(f, "%s\"%s\": %.6g", comma, sn_coded_name((enum sn_coded)i), error[i]);
        comma = ", ";
    }
    (void)fprintf(f, "}");
}

/* "departs": a list of what sn_finding_say says, with its parts. Names hold what JSON holds. */
static void add_departs(FILE *f, const struct sn_finding *x, int n)
{
    char text[512];
    (void)fprintf(f, ", \"departs\": [");
    for (int i = 0; i < n; i++) {
        sn_finding_say(text, sizeof(text), &x[i]);
        (void)fprintf(f, "%s{\"kind\": \"%s\", \"rank\": %d, \"host\": \"%s\"", i ? ", " : "",
                      sn_finding_name(x[i].kind), x[i].rank, x[i].host);
        number(f, "ratio", x[i].ratio);
        (void)fprintf(f, ", \"since\": %lld, \"says\": \"%s\"}", (long long)x[i].since, text);
    }
    (void)fprintf(f, "]");
}

static void progress(struct sn_metrics *m, const struct sn_step_report *r, double rate)
{
    m->mean_time = m->mean_time > 0 ? 0.9 * m->mean_time + 0.1 * r->step_time : r->step_time;
    double t = sn_clock();
    bool last = r->step == r->steps;
    if (!last && t - m->last_printed < (m->terminal ? 0.2 : 10.0))
        return;
    m->last_printed = t;
    long left = (long)(m->mean_time * r->left + 0.5);
    char line[256], learnt[64] = "paced";
    if (!isnan(r->loss) || !isnan(r->grad_norm)) /* a paced step has neither */
        (void)snprintf(learnt, sizeof(learnt), "loss %.4f  grad norm %.3f", r->loss, r->grad_norm);
    if (isfinite(r->loss) && !isfinite(r->grad_norm))
        (void)snprintf(learnt, sizeof(learnt), "loss %.4f  no update", r->loss);
    (void)snprintf(line, sizeof(line),
                   "step %lld/%lld  %s  lr %.2e  %.0f tokens/s  ETA %ld:%02ld:%02ld",
                   (long long)r->step, (long long)r->steps, learnt, r->lr, rate, left / 3600,
                   left / 60 % 60, left % 60);
    if (m->terminal)
        (void)fprintf(stderr, "\r%-110s%s", line, last ? "\n" : "");
    else
        sn_log(SN_LOG_INFO, "%s", line);
}

static void add_set_losses(FILE *f, const struct sn_step_report *r)
{
    for (int i = 0; i < r->n_set_losses; i++) {
        char key[SN_SET_NAME_MAX + 32];
        (void)snprintf(key, sizeof(key), "%s%s", i ? "" : "set_losses\": {\"", r->set_loss[i].name);
        number(f, key, r->set_loss[i].loss);
    }
    (void)fprintf(f, r->n_set_losses > 0 ? "}" : "");
}

enum sn_status sn_metrics_step(struct sn_metrics *m, const struct sn_step_report *r,
                               struct sn_err *err)
{
    FILE *f = m->file;
    double rate = (double)r->step_tokens / r->step_time;
    (void)fprintf(f, "{\"step\": %lld", (long long)r->step);
    number(f, "loss", r->loss);
    add_set_losses(f, r);
    if (!isnan(r->head_z))
        number(f, "head_z_loss", r->head_z);
    if (!isnan(r->mtp))
        number(f, "mtp_loss", r->mtp);
    if (r->has_aux_loss)
        number(f, "aux_loss", r->aux_loss);
    if (r->has_z_loss)
        number(f, "z_loss", r->z_loss);
    if (r->has_imbalance) {
        number(f, "max_vio", r->imbalance.mean);
        number(f, "max_vio_worst", r->imbalance.worst);
    }
    number(f, "grad_norm", r->grad_norm);
    number(f, "lr", r->lr);
    (void)fprintf(f, ", \"tokens\": %lld", (long long)r->tokens);
    if (r->targets >= 0)
        (void)fprintf(f, ", \"targets\": %lld", (long long)r->targets);
    if (r->length > 0)
        (void)fprintf(f, ", \"length\": %d", r->length);
    number(f, "step_time_s", r->step_time);
    number(f, "tokens_per_s", rate);
    number(f, "mfu", r->peak > 0 ? rate * r->flops_per_token / r->peak : NAN);
    number(f, "mfu_uncausal", r->peak > 0 ? rate * r->flops_uncausal / r->peak : NAN);
    if (r->fp16) {
        number(f, "loss_scale", r->loss_scale);
        (void)fprintf(f, ", \"skipped\": %lld", (long long)r->skipped);
        if (r->overflow > 0)
            (void)fprintf(f, ", \"overflow\": %lld", (long long)r->overflow);
    }
    (void)fprintf(f, ", ");
    sn_metrics_json_memory(f, r->memory);
    (void)fprintf(f, ", ");
    int64_t traffic[SN_NAXES];
    memcpy(traffic, r->traffic, sizeof(traffic));
    traffic[SN_AXIS_EXPERT] += r->has_routed ? r->routed : 0;
    traffic[SN_AXIS_TENSOR] += r->has_routed ? r->gathered : 0;
    for (int a = 0; a < SN_NAXES && r->off_plan; a++)
        traffic[a] += (int64_t)r->off_plan[a];
    sn_metrics_json_traffic(f, traffic);
    if (r->has_codec_error)
        add_codec_error(f, r->codec_error);
    if (r->has_routed)
        (void)fprintf(f, ", \"routed_bytes\": %lld", (long long)r->routed);
    if (r->has_routed && r->gathered > 0)
        (void)fprintf(f, ", \"gathered_bytes\": %lld", (long long)r->gathered);
    if (r->snapshot)
        add_snapshot(f, r->snapshot);
    if (r->health) {
        (void)fprintf(f, ", ");
        sn_health_json(f, r->health);
    }
    if (r->n_departs > 0)
        add_departs(f, r->departs, r->n_departs);
    (void)fprintf(f, "}\n");
    progress(m, r, rate);
    return flush(m, err);
}

/* A sentence begins below the line of progress, which has no end yet. */
static void leave_line(const struct sn_metrics *m)
{
    if (m->terminal)
        (void)fputc('\n', stderr);
}

enum sn_status sn_metrics_eval(struct sn_metrics *m, const struct sn_eval_report *r,
                               struct sn_err *err)
{
    double loss_sum = 0, tokens = 0;
    char each[SN_SETS_MAX * (SN_SET_NAME_MAX + 16)] = ""; /* " (web 2.1, code 1.9)" */
    size_t len = 0;
    bool has_names = *r->set[0].name;
    for (int i = 0; i < r->n; i++) {
        loss_sum += r->set[i].loss_sum;
        tokens += r->set[i].tokens;
        if (has_names)
            len += (size_t)snprintf(each + len, sizeof(each) - len, "%s%s %.4f%s", i ? ", " : " (",
                                    r->set[i].name, r->set[i].loss_sum / r->set[i].tokens,
                                    i + 1 < r->n ? "" : ")");
    }
    (void)fprintf(m->file, "{\"step\": %lld", (long long)r->step);
    number(m->file, "val_loss", loss_sum / tokens);
    for (int i = 0; i < r->n && has_names; i++) {
        char key[SN_SET_NAME_MAX + 32];
        (void)snprintf(key, sizeof(key), "%s%s", i ? "" : "val_losses\": {\"", r->set[i].name);
        number(m->file, key, r->set[i].loss_sum / r->set[i].tokens);
    }
    (void)fprintf(m->file, has_names ? "}}\n" : "}\n");
    leave_line(m);
    sn_log(SN_LOG_INFO, "step %lld  validation loss %.4f%s", (long long)r->step, loss_sum / tokens,
           each);
    return flush(m, err);
}

enum sn_status sn_metrics_sets(struct sn_metrics *m, int64_t step, const struct sn_set_report *r,
                               int n, struct sn_err *err)
{
    (void)fprintf(m->file, "{\"step\": %lld, \"sets\": {", (long long)step);
    for (int i = 0; i < n; i++) {
        (void)fprintf(m->file, "%s\"%s\": {\"sequences\": %lld, \"tokens\": %lld", i ? ", " : "",
                      r[i].name, (long long)r[i].sequences, (long long)r[i].tokens);
        number(m->file, "share", r[i].share);
        number(m->file, "epochs", r[i].epochs);
        (void)fprintf(m->file, "}");
    }
    (void)fprintf(m->file, "}}\n");
    return flush(m, err);
}

enum sn_status sn_metrics_save(struct sn_metrics *m, const struct sn_save_report *r,
                               struct sn_err *err)
{
    const struct sn_save_times *t = &r->times;
    char size[16];
    FILE *f = m->file;
    (void)fprintf(f, "{\"step\": %lld, \"bytes\": %lld", (long long)r->step, (long long)r->bytes);
    number(f, "layout_s", t->layout);
    number(f, "copy_s", t->copy);
    number(f, "stall_s", r->stall);
    number(f, "write_s", t->write);
    number(f, "commit_s", t->commit);
    (void)fprintf(f, "}\n");
    leave_line(m);
    sn_log(SN_LOG_INFO,
           "step %lld  saved %s: layout %.3f s, copy %.3f s, stall %.3f s, write %.3f s (%.2f "
           "GB/s a rank), commit %.3f s",
           (long long)r->step, sn_str_bytes(size, r->bytes), t->layout, t->copy, r->stall, t->write,
           t->write > 0 ? (double)t->bytes / t->write / 1e9 : 0.0, t->commit);
    return flush(m, err);
}
