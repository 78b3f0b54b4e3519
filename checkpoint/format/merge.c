/*
 * merge.c - many writers' lists as one manifest, and the proof that nothing is missing or double.
 */
#include "checkpoint/format/manifest.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- coverage -------------------------------------------------------------------------------- */

static enum sn_status explain_overlap(const struct sn_manifest *m,
                                      const struct sn_manifest_tensor *t, const int64_t pair[2],
                                      const char *file, struct sn_err *err)
{
    const struct sn_manifest_piece *a = &t->pieces[pair[0]], *b = &t->pieces[pair[1]];
    struct sn_box twice = sn_box_common(a->box, b->box);
    return sn_fail(err, SN_EIO,
                   "%s: tensor %s %s: rows %" PRId64 " to %" PRId64 ", columns %" PRId64
                   " to %" PRId64 " are stored twice, as %s of %s and as %s of %s",
                   file, t->group, t->name, twice.row, twice.row + twice.rows - 1, twice.col,
                   twice.col + twice.cols - 1, a->dataset, m->shards[a->shard].file, b->dataset,
                   m->shards[b->shard].file);
}

/* `boxes` has room for the tensor's pieces. */
static enum sn_status check_tensor(const struct sn_manifest *m, const struct sn_manifest_tensor *t,
                                   struct sn_box *boxes, const char *file, struct sn_err *err)
{
    int64_t at[2] = {0, 0}, covered = 0;
    for (int i = 0; i < t->n_pieces; i++)
        boxes[i] = t->pieces[i].box;
    if (sn_boxes_overlap(t->n_pieces, boxes, at))
        return explain_overlap(m, t, at, file, err);
    for (int i = 0; i < t->n_pieces; i++)
        covered += sn_box_size(boxes[i]);
    if (covered == t->rows * t->cols)
        return SN_OK;
    (void)sn_boxes_gap(t->n_pieces, boxes, t->rows, t->cols, at); /* there is one: sizes differ */
    return sn_fail(err, SN_EIO,
                   "%s: tensor %s %s (%" PRId64 " x %" PRId64 ") has %" PRId64 " of its %" PRId64
                   " values in no piece, the first at row %" PRId64 ", column %" PRId64,
                   file, t->group, t->name, t->rows, t->cols, t->rows * t->cols - covered,
                   t->rows * t->cols, at[0], at[1]);
}

enum sn_status sn_manifest_check_cover(const struct sn_manifest *m, const char *file,
                                       struct sn_err *err)
{
    int most = 0;
    for (int i = 0; i < m->n_tensors; i++)
        most = m->tensors[i].n_pieces > most ? m->tensors[i].n_pieces : most;
    struct sn_box *boxes = sn_alloc_n((size_t)most, sizeof(*boxes));
    if (!boxes)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to compare %d pieces", file, most);
    enum sn_status st = SN_OK;
    for (int i = 0; i < m->n_tensors && st == SN_OK; i++)
        st = check_tensor(m, &m->tensors[i], boxes, file, err);
    sn_free(boxes);
    return st;
}

/* --- merging --------------------------------------------------------------------------------- */

/* A tensor of one list, whose shards become first_shard and following. */
struct part {
    const struct sn_manifest_tensor *of;
    int list, first_shard;
};

static int by_name(const void *pa, const void *pb)
{
    const struct part *a = pa, *b = pb;
    int order = sn_manifest_order(a->of->group, a->of->name, b->of->group, b->of->name);
    return order ? order : (a->list > b->list) - (a->list < b->list);
}

static int by_place(const void *pa, const void *pb)
{
    const struct sn_manifest_piece *a = pa, *b = pb;
    return sn_box_order(a->box, b->box);
}

static void gather_parts(struct sn_manifest *m, struct part *parts, const struct sn_manifest *lists,
                         int n)
{
    int k = 0;
    for (int i = 0; i < n; i++) {
        const struct sn_manifest *l = &lists[i];
        bool again = m->n_shards > 0 && l->n_shards > 0 &&
                     strcmp(m->shards[m->n_shards - 1].file, l->shards[0].file) == 0;
        m->n_shards -= again;
        for (int t = 0; t < l->n_tensors; t++)
            parts[k++] = (struct part){&l->tensors[t], i, m->n_shards};
        for (int s = 0; s < l->n_shards; s++)
            m->shards[m->n_shards++] = l->shards[s];
    }
    if (k > 1)
        qsort(parts, (size_t)k, sizeof(*parts), by_name);
}

static void add_part(struct sn_manifest *m, struct sn_manifest_tensor *t, const struct part *part)
{
    for (int i = 0; i < part->of->n_pieces; i++) {
        struct sn_manifest_piece *p = &m->pieces[m->n_pieces++];
        *p = part->of->pieces[i];
        p->shard += part->first_shard;
    }
    t->n_pieces += part->of->n_pieces;
}

/* The parts are sorted: those of one tensor follow each other. */
static enum sn_status join_parts(struct sn_manifest *m, const struct part *parts, int n,
                                 const char *file, struct sn_err *err)
{
    struct sn_manifest_tensor *t = NULL;
    for (int i = 0; i < n; i++) {
        const struct sn_manifest_tensor *p = parts[i].of;
        if (!t || sn_manifest_order(t->group, t->name, p->group, p->name) != 0) {
            t = &m->tensors[m->n_tensors++];
            *t = *p;
            t->pieces = m->pieces + m->n_pieces;
            t->n_pieces = 0;
        }
        if (t->rows != p->rows || t->cols != p->cols)
            return sn_fail(err, SN_EFAIL,
                           "%s: tensor %s %s is %" PRId64 " x %" PRId64 " to one rank and %" PRId64
                           " x %" PRId64 " to another",
                           file, p->group, p->name, t->rows, t->cols, p->rows, p->cols);
        if (t->dtype != p->dtype)
            return sn_fail(err, SN_EFAIL, "%s: tensor %s %s is %s to one rank and %s to another",
                           file, p->group, p->name, sn_dtype_name(t->dtype),
                           sn_dtype_name(p->dtype));
        add_part(m, t, &parts[i]);
    }
    for (int i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].n_pieces > 1)
            qsort(m->tensors[i].pieces, (size_t)m->tensors[i].n_pieces,
                  sizeof(*m->tensors[i].pieces), by_place);
    return SN_OK;
}

enum sn_status sn_manifest_merge(struct sn_manifest *out, const struct sn_manifest *lists, int n,
                                 const char *file, struct sn_err *err)
{
    size_t ns = 0, nt = 0, np = 0;
    for (int i = 0; i < n; i++) {
        ns += (size_t)lists[i].n_shards;
        nt += (size_t)lists[i].n_tensors;
        np += (size_t)lists[i].n_pieces;
    }
    if (nt > INT32_MAX || np > INT32_MAX)
        return sn_fail(err, SN_EINPUT, "%s: %zu pieces are more than one checkpoint can list", file,
                       np);
    for (int i = 1; i < n; i++)
        if (lists[i].block != lists[0].block)
            return sn_fail(err, SN_EFAIL,
                           "%s: one rank hashed blocks of %" PRId64 " bytes, another of %" PRId64,
                           file, lists[0].block, lists[i].block);
    struct sn_manifest m = {.block = n > 0 ? lists[0].block : SN_BLOCK_BYTES,
                            .shards = sn_alloc_n(ns, sizeof(*m.shards)),
                            .tensors = sn_alloc_n(nt, sizeof(*m.tensors)),
                            .pieces = sn_alloc_n(np, sizeof(*m.pieces))};
    struct part *parts = sn_alloc_n(nt, sizeof(*parts));
    enum sn_status st = SN_OK;
    if (!m.shards || !m.tensors || !m.pieces || !parts) {
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to list %zu pieces", file, np);
    } else {
        gather_parts(&m, parts, lists, n);
        st = join_parts(&m, parts, (int)nt, file, err);
    }
    sn_free(parts);
    if (st != SN_OK) {
        sn_manifest_fini(&m);
        return st;
    }
    *out = m;
    return SN_OK;
}
