/*
 * losses.c - the table of what codecs cost the loss, read and asked.
 */
#include "lib/machine/losses.h"

#include "kernels/codec.h"
#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "lib/machine/codecs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEEDBACK = SN_NCODED, DIFFERENCE, FIELDS = 4, FIELD_SIZE = 64 };

static const char *const ways[SN_NWAYS] = {"data",   "zero",          "tensor",   "pipeline",
                                           "expert", "data+feedback", "zero-diff"};
static const char ways_text[] = "data, data+feedback, zero, zero-diff, tensor, pipeline or expert";

/* --- reading ---------------------------------------------------------------------------------- */

struct line {
    const char *path;
    int number;
    char field[FIELDS][FIELD_SIZE];
};

/* WHAT,WAY,CODEC,VALUE; false: not four fields, or a long one. */
static bool cut(struct line *l, const char *text, size_t n)
{
    int f = 0;
    size_t at = 0;
    memset(l->field, 0, sizeof(l->field));
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ',') {
            f++;
            at = 0;
        } else if (text[i] != ' ' && text[i] != '\r') {
            if (f >= FIELDS || at + 1 >= FIELD_SIZE)
                return false;
            l->field[f][at++] = text[i];
        }
    }
    return f == FIELDS - 1;
}

static enum sn_status read_value(double *out, const struct line *l, struct sn_err *err)
{
    char *end = NULL;
    *out = strtod(l->field[3], &end);
    if (end != l->field[3] && *end == '\0' && isfinite(*out) && *out >= 0 && *out <= 1000)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s:%d: value: got '%s'; want a number in 0..1000", l->path,
                   l->number, l->field[3]);
}

static enum sn_status read_way(int *out, const struct line *l, struct sn_err *err)
{
    for (*out = 0; *out < SN_NWAYS; (*out)++)
        if (strcmp(ways[*out], l->field[1]) == 0)
            return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s:%d: '%s' is no way to send; want %s", l->path, l->number,
                   l->field[1], ways_text);
}

static enum sn_status read_row(struct sn_losses *out, const struct line *l, struct sn_err *err)
{
    struct sn_loss_row row = {.way = -1};
    bool is_error = strcmp(l->field[0], "error") == 0, is_loss = strcmp(l->field[0], "loss") == 0;
    SN_TRY(read_value(&row.value, l, err));
    if (!is_error)
        SN_TRY(read_way(&row.way, l, err));
    if (strcmp(l->field[0], "sensitivity") == 0) {
        out->sensitivity[row.way] = row.value;
        return SN_OK;
    }
    if (!is_error && !is_loss)
        return sn_fail(err, SN_EINPUT, "%s:%d: unknown row '%s'; want error, sensitivity or loss",
                       l->path, l->number, l->field[0]);
    if (!sn_codec_parse(&row.codec, l->field[2]))
        return sn_fail(err, SN_EINPUT, "%s:%d: '%s' is no codec; want %s", l->path, l->number,
                       l->field[2], sn_codec_names());
    if (!sn_grow((void **)&out->row, out->n, &out->room, sizeof(*out->row)))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %d rows", l->path, out->n + 1);
    out->row[out->n++] = row;
    return SN_OK;
}

static enum sn_status read_lines(struct sn_losses *out, const char *text, const char *path,
                                 struct sn_err *err)
{
    struct line l = {.path = path};
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        l.number++;
        if (n > 0 && *p != '#') {
            if (!cut(&l, p, n))
                return sn_fail(err, SN_EINPUT,
                               "%s:%d: want four fields, such as error,,int8,0.0065", path,
                               l.number);
            SN_TRY(read_row(out, &l, err));
        }
        p += n + (p[n] == '\n');
    }
    return SN_OK;
}

enum sn_status sn_losses_parse(struct sn_losses *out, const char *text, const char *path,
                               struct sn_err *err)
{
    struct sn_losses l = {.n = 0};
    for (int w = 0; w < SN_NWAYS; w++)
        l.sensitivity[w] = -1;
    enum sn_status st = read_lines(&l, text, path, err);
    if (st == SN_OK)
        *out = l;
    else
        sn_losses_fini(&l);
    return st;
}

enum sn_status sn_losses_load(struct sn_losses *out, const char *share_dir, struct sn_err *err)
{
    char dir[SN_PATH_MAX], path[SN_PATH_MAX + 32], *text = NULL;
    size_t len;
    struct stat id;
    if (share_dir)
        (void)snprintf(dir, sizeof(dir), "%s", share_dir);
    else
        SN_TRY(sn_share_find(dir, sizeof(dir), err));
    (void)snprintf(path, sizeof(path), "%s/codec_losses.csv", dir);
    SN_TRY(sn_file_read(&text, &len, &id, path, err));
    enum sn_status st = sn_losses_parse(out, text, path, err);
    sn_free(text);
    return st;
}

void sn_losses_fini(struct sn_losses *l)
{
    sn_free(l->row);
    *l = (struct sn_losses){.n = 0};
}

/* --- asking ----------------------------------------------------------------------------------- */

static const struct sn_loss_row *row_of(const struct sn_losses *l, int way,
                                        const struct sn_codec *c)
{
    for (int i = 0; i < l->n; i++)
        if (l->row[i].way == way && sn_codec_same(&l->row[i].codec, c))
            return &l->row[i];
    return NULL;
}

bool sn_losses_find(double *rise, bool *measured, const struct sn_losses *l, enum sn_coded kind,
                    const struct sn_coding *z)
{
    int way = z->feedback ? FEEDBACK : z->diff ? DIFFERENCE : (int)kind;
    *rise = 0;
    *measured = false;
    if (!sn_coding_loses(z))
        return true;
    if (z->rank > 0)
        return false; /* nobody has measured factors */
    const struct sn_loss_row *row = row_of(l, way, &z->codec), *error = row_of(l, -1, &z->codec);
    *measured = row != NULL;
    if (!row && (!error || l->sensitivity[way] < 0))
        return false;
    *rise = row ? row->value : l->sensitivity[way] * error->value;
    return true;
}

bool sn_losses_sum(double *rise, const struct sn_losses *l, const struct sn_layout_config *layout)
{
    bool known = true;
    *rise = 0;
    for (int i = 0; i < SN_NCODED; i++) {
        double one;
        bool measured;
        known = sn_losses_find(&one, &measured, l, (enum sn_coded)i, &layout->compress.coding[i]) &&
                known;
        *rise += one;
    }
    return known;
}
