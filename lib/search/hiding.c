#include "lib/search/hiding.h"

struct list {
    struct sn_hiding *out;
    int n, ranks;
    struct sn_config *room;
};

static bool names(const struct list *l, int key)
{
    return l->room->layout_named >> key & 1u;
}

static void add(struct list *l, const struct sn_layout_config *layout, int group)
{
    struct sn_err why;
    l->room->layout = *layout;
    if (l->n < SN_HIDINGS && sn_config_check_layout(l->room, l->ranks, &why) == SN_OK)
        l->out[l->n++] = (struct sn_hiding){*layout, group};
}

static void add_turns(struct list *l, const struct sn_layout_config *found, int schedule,
                      int vstages)
{
    struct sn_layout_config x = *found;
    int group = 1 + schedule * SN_HIDINGS + vstages;
    x.schedule = (enum sn_schedule)schedule;
    x.virtual_stages = vstages;
    add(l, &x, group);
    if (x.zero == 0 && !names(l, SN_KEY_ZERO)) {
        x.zero = 1;
        add(l, &x, group);
    }
    if (x.recompute == SN_RECOMPUTE_NONE && !names(l, SN_KEY_RECOMPUTE)) {
        x.recompute = SN_RECOMPUTE_SELECTIVE;
        add(l, &x, group);
    }
}

/* Rows in pieces: collectives of tensor ranks beside products of the same micro-batch. */
static void add_pieces(struct list *l, const struct sn_layout_config *found)
{
    struct sn_layout_config x = *found;
    if ((x.tensor == 1 && x.tensor_x == 1) || names(l, SN_KEY_TENSOR_PIECES))
        return;
    for (x.tensor_pieces = 2; x.tensor_pieces <= 4; x.tensor_pieces *= 2)
        add(l, &x, SN_HIDINGS * SN_HIDINGS + x.tensor_pieces);
}

int sn_hidings_list(struct sn_hiding out[SN_HIDINGS], struct sn_config *room,
                    const struct sn_layout_config *found, int ranks)
{
    struct list l = {.out = out, .ranks = ranks, .room = room};
    add(&l, found, 0);
    add_pieces(&l, found);
    for (int s = 0; s < SN_NSCHEDULES && !names(&l, SN_KEY_SCHEDULE); s++)
        for (int v = 1; v <= 4 && sn_schedule_traits((enum sn_schedule)s)->takes_turns; v *= 2)
            if (!names(&l, SN_KEY_VIRTUAL_STAGES) || v == found->virtual_stages)
                add_turns(&l, found, s, v);
    return l.n;
}
