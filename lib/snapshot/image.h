/*
 * image.h - one rank's image: the boxes that it would write into a checkpoint and the scalars, as
 * one block of memory that can be sent, kept, and trusted or not.
 *
 *   head    SN_IMAGE_HEAD bytes, sealed by its own hash: whose image, of which step
 *   table   a struct sn_image_box for each box, then a hash for each SN_IMAGE_BLOCK of the values
 *   values  fp32, without gaps
 *
 * The head is written last, so that whatever ends a process in between leaves no image rather than
 * half of one. Values lie in the byte order of the machine: images live no longer than an
 * allocation. docs/SNAPSHOTS.md has the format. Knows neither files nor communication.
 */
#ifndef SN_IMAGE_H
#define SN_IMAGE_H

#include "lib/program/boxes.h"
#include "lib/state/state.h"

/* Whose image it is. Images of one step belong together if everything but `rank` is equal. */
struct sn_image_tag {
    uint64_t run; /* of OUTPUT/snapshots.id: another one after a start from anything but memory */
    uint64_t series; /* of the attempt that took it */
    uint64_t model;  /* sn_state_hash */
    int32_t rank, world;
};

struct sn_image_head {
    char magic[16];
    uint64_t seal;  /* hash of the head with 0 here */
    uint64_t table; /* hash of the boxes and of the values' hashes */
    struct sn_image_tag tag;
    struct sn_image_room room; /* which decides where what lies */
    int64_t n_boxes, n_floats; /* in use */
    struct sn_state_scalars scalars;
};

/* Rows and columns of tensor number `tensor` of sn_state.all; its first value is number `at`, rows
 * follow one another. What only layout.compress brings about has the number of its weight, and
 * which it is in the high half: so numbers are the same in every layout. */
struct sn_image_box {
    int64_t tensor, row, col, n_rows, n_cols, at;
};
_Static_assert(sizeof(struct sn_image_box) == SN_IMAGE_BOX, "planned in boxes.h");

/* A number in parts: of the weight, and SN_IMAGE_PLAIN, SN_IMAGE_REPLICA, or SN_IMAGE_FEEDBACK plus
 * the holder. */
enum { SN_IMAGE_PLAIN, SN_IMAGE_REPLICA, SN_IMAGE_FEEDBACK };
static inline int64_t sn_image_weight(int64_t tensor)
{
    return tensor & INT32_MAX;
}
static inline int64_t sn_image_kind(int64_t tensor)
{
    return tensor >> 32;
}

/* Hash of the model section and of every tensor that a checkpoint of it holds whatever the layout:
 * images of one model fit any layout of it. */
uint64_t sn_state_hash(const struct sn_state *s);
/* The number of each of s->tensors as in struct sn_image_box; SN_EFAIL when one is not there. */
enum sn_status sn_state_index(const struct sn_state *s, int64_t *out, struct sn_err *err);

/* What is copied: borrowed. */
struct sn_image_source {
    const struct sn_state *state;
    const int64_t *tensor; /* sn_state_index */
    struct sn_image_tag tag;
    struct sn_image_room room;
};
/* Fill sn_image_bytes(room) bytes. SN_EFAIL when the state owns more than there is room for.
 * Allocates nothing. */
enum sn_status sn_image_write(void *image, const struct sn_image_source *s, struct sn_err *err);

/* From here on there is no image; and, by a head that came another way, there is one. */
void sn_image_break(void *image);
void sn_image_seal(void *image, const void *head);

/* Is there a sealed head whose image fits into `bytes` bytes? Then a copy of it in *out. */
bool sn_image_look(struct sn_image_head *out, const void *image, int64_t bytes);
/* Is all of it, behind such a head, what was written? SN_EIO names the first part that is not. */
enum sn_status sn_image_check(const void *image, const struct sn_image_head *h, struct sn_err *err);

static inline const struct sn_image_box *sn_image_boxes(const void *image)
{
    return (const struct sn_image_box *)(const void *)((const char *)image + SN_IMAGE_HEAD);
}
static inline const float *sn_image_values(const void *image, const struct sn_image_head *h)
{
    const char *at = (const char *)image + sn_image_values_at(&h->room);
    return (const float *)(const void *)at;
}

#endif
