/*
 * test_snapshot_choose.c - of the snapshot shards that all ranks have found, those of the newest
 * step of which none is missing.
 */
#include "lib/snapshot/snapshot_inner.h"
#include "tests/lib/tap.h"

static struct sn_snapshot_shard_record record(uint64_t series, int64_t step, int rank, int world,
                                              int holder)
{
    return (struct sn_snapshot_shard_record){
        .series = series, .step = step, .rank = rank, .world = world, .holder = holder};
}

static void the_newest_whole_step_is_chosen(void)
{
    int of[16];
    struct sn_snapshot_choice c = {.of = of};
    struct sn_snapshot_shard_record two[] = {record(1, 5, 0, 2, 0), record(1, 6, 1, 2, 1),
                                             record(1, 5, 1, 2, 1), record(1, 6, 0, 2, 1)};
    tap_ok(sn_snapshot_choose(&c, two, 4, -1) && c.step == 6 && c.world == 2, "the newer of two");
    tap_ok(two[of[0]].holder == 1 && two[of[1]].rank == 1, "from those who hold it");
    tap_ok(!sn_snapshot_choose(&c, two, 4, 6) && c.step == -1, "a checkpoint as new wins");
    struct sn_snapshot_shard_record torn[] = {record(1, 6, 0, 2, 0), record(1, 5, 0, 2, 0),
                                              record(1, 5, 1, 2, 1), record(1, 6, 2, 3, 1)};
    tap_ok(sn_snapshot_choose(&c, torn, 4, -1) && c.step == 5,
           "one that lacks a rank is passed over");
    tap_ok(c.partly == 6 && c.lacks == 1, "and told of");
    tap_ok(!sn_snapshot_choose(&c, torn, 4, 5), "where the checkpoint is newer there is none");
    struct sn_snapshot_shard_record mixed[] = {record(1, 6, 0, 2, 0), record(2, 6, 1, 2, 1),
                                               record(2, 4, 0, 2, 0), record(2, 4, 1, 2, 0)};
    tap_ok(sn_snapshot_choose(&c, mixed, 4, -1) && c.step == 4, "two attempts are not mixed");
    struct sn_snapshot_shard_record copies[] = {record(1, 6, 0, 2, 1), record(1, 6, 0, 2, 0),
                                                record(1, 6, 1, 2, 0)};
    tap_ok(sn_snapshot_choose(&c, copies, 3, -1) && copies[of[0]].holder == 0,
           "of two copies it is that of the rank itself");
    copies[of[0]].is_bad = 1;
    tap_ok(sn_snapshot_choose(&c, copies, 3, -1) && copies[of[0]].holder == 1,
           "of a bad one the other");
    copies[of[0]].is_bad = 1;
    tap_ok(!sn_snapshot_choose(&c, copies, 3, -1) && c.lacks == 0, "of two bad ones none");
    tap_ok(!sn_snapshot_choose(&c, copies, 0, -1) && c.partly == -1, "nothing is nothing");
}

int main(void)
{
    the_newest_whole_step_is_chosen();
    return tap_done();
}
