/*
 * test_rundir.c - what a run directory tells: attempts, checkpoints, progress, records, the map;
 * and a layout for fewer nodes.
 */
#include "kernels/ops.h"
#include "lib/search/relayout.h"
#include "slurm/supervisor/rundir.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *dir, const char *name, const char *text)
{
    char path[1400];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    (void)fputs(text, f);
    (void)fclose(f);
}

static void make(const char *dir, const char *name)
{
    char path[1400];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)mkdir(path, 0777);
}

static void numbers(const struct sn_rundir *r)
{
    struct stat id;
    char path[1400];
    struct sn_str text = {0};
    tap_ok(sn_rundir_next_attempt(r) == 1, "the first attempt is 1");
    put(r->output, "attempt-1.json",
        "{\"attempt\": 1, \"exit_code\": null, \"cause\": \"running\"}\n");
    tap_ok(sn_rundir_next_attempt(r) == 2, "a record takes a number");
    (void)sn_rundir_begin(r, 2, NULL);
    tap_ok(sn_rundir_next_attempt(r) == 3, "so does a folder of ours");
    sn_str_add(&text, "A=1\n");
    tap_ok(sn_rundir_keep(r, 2, "environment", &text, NULL) == SN_OK, "a file is kept in it");
    sn_rundir_path(path, sizeof(path), r, 2, "environment");
    tap_ok(stat(path, &id) == 0 && id.st_size == 4 && (id.st_mode & 0777) == 0600,
           "for its owner alone");
    sn_str_fini(&text);
}

static void checkpoints(const struct sn_rundir *r)
{
    tap_ok(sn_rundir_saved_step(r) == -1 && !sn_rundir_is_saving(r), "no checkpoints yet");
    make(r->output, "ckpt");
    make(r->checkpoints, "step-00000020");
    put(r->checkpoints, "step-00000020/COMMIT", "x");
    make(r->checkpoints, "step-00000040");
    make(r->checkpoints, "step-00000030.aside.7");
    put(r->checkpoints, "step-00000030.aside.7/COMMIT", "x");
    tap_ok(sn_rundir_saved_step(r) == 20, "the newest that is committed and in use counts");
    tap_ok(!sn_rundir_is_saving(r), "nothing is being written");
    make(r->checkpoints, "step-00000050.tmp.1.2");
    tap_ok(sn_rundir_is_saving(r), "now it is");
}

static void progress(const struct sn_rundir *r)
{
    struct sn_rundir_progress p, q;
    sn_rundir_progress(&p, r);
    tap_ok(p.step == -1 && p.step_seconds == 0 && p.save_seconds == 0 && p.snapshot_step == -1,
           "nothing is known");
    put(r->output, "metrics.jsonl",
        "{\"step\": 7, \"loss\": 2.5, \"step_time_s\": 0.25, \"snapshot_step\": 6}\n"
        "{\"step\": 7, \"val_loss\": 2.5}\n{\"step\": 8, \"los");
    put(r->output, "checkpoints.jsonl",
        "{\"step\": 5, \"layout_s\": 1, \"copy_s\": 2, \"stall_s\": 9, \"write_s\": 3, "
        "\"commit_s\": 4}\n");
    sn_rundir_progress(&q, r);
    tap_ok(q.step == 7 && q.step_seconds == 0.25 && q.snapshot_step == 6,
           "the last whole line of a step");
    tap_ok(q.save_seconds == 10, "what a save takes (%g)", q.save_seconds);
    tap_ok(q.motion != p.motion, "files that grow are motion");
    sn_rundir_progress(&p, r);
    tap_ok(q.motion == p.motion, "files that do not are none");
}

static void records(const struct sn_rundir *r)
{
    struct sn_rundir_record record;
    sn_rundir_record(&record, r, 1);
    tap_ok(!record.has_ended, "an attempt that runs has no end");
    put(r->output, "attempt-1.json",
        "{\"attempt\": 1, \"ended\": 5, \"exit_code\": 77, \"cause\": \"rank \\\"2\\\"\"}\n");
    sn_rundir_record(&record, r, 1);
    tap_ok(record.has_ended && record.exit_code == 77, "one that ended has a code");
    tap_text(record.says, "rank \"2\"", "and a sentence");
    put(r->output, "attempt-1.json", "{\"attempt\": 1, \"exi");
    sn_rundir_record(&record, r, 1);
    tap_ok(!record.has_ended && !*record.says, "a damaged one tells nothing");
}

static void map(const struct sn_rundir *r)
{
    char host[64];
    tap_ok(sn_rundir_rank_of(r, 3) == 3, "without a map a process is its rank");
    sn_rundir_host_of(host, sizeof(host), r, 3);
    tap_text(host, "", "and is anywhere");
    put(r->output, "map.json",
        "{\"ranks\": [{\"rank\": 5, \"process\": 3, \"host\": \"n1\"},\n {\"rank\": 3, "
        "\"process\": 5, "
        "\"host\": \"n0\"}]}\n");
    tap_ok(sn_rundir_rank_of(r, 3) == 5, "with one it is another");
    sn_rundir_host_of(host, sizeof(host), r, 3);
    tap_text(host, "n0", "on the host of the map");
}

static const char run_text[] =
    "model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 160, vocab: 256, seq: 64}\n"
    "train: {steps: 10, global_batch: 16}\n"
    "layout: {data: 2, tensor: 4, pipeline: 2, split: [1, 1]}\n";

static void other_nodes(const char *dir)
{
    static struct sn_config c, found, back; /* large */
    char path[1400];
    int nodes = 0;
    struct sn_err err;
    tap_ok(sn_config_parse(&c, run_text, sizeof(run_text) - 1, "run.yaml", NULL, &err) == SN_OK,
           "a run of 16 ranks");
    struct sn_relayout_want w = {.config = &c,
                                 .most_nodes = 3,
                                 .ranks_per_node = 4,
                                 .node_memory = INT64_C(64) << 30,
                                 .ops = sn_ops_cpu(),
                                 .threads = 1};
    tap_ok(sn_relayout(&found, &nodes, &w, &err) == SN_OK, "has a layout on three of its nodes");
    tap_ok(nodes == 2 && sn_config_ranks(&found) == 8,
           "or rather on two: 12 ranks divide neither batch nor layers (%d nodes, %d ranks)", nodes,
           sn_config_ranks(&found));
    tap_ok(found.train.global_batch == 16, "the batch stays");
    (void)snprintf(path, sizeof(path), "%s/run.yaml", dir);
    tap_ok(sn_config_save(&found, path, &err) == SN_OK &&
               sn_config_load(&back, path, NULL, &err) == SN_OK,
           "it is saved and read back");
    struct sn_str a = {0}, b = {0};
    sn_config_format_layout(&a, &found);
    sn_config_format_layout(&b, &back);
    tap_text(b.p, a.p, "the same layout");
    sn_str_fini(&a);
    sn_str_fini(&b);
    c.checkpoint.snapshot_every = 5;
    tap_ok(sn_relayout(&found, &nodes, &w, &err) == SN_OK && found.checkpoint.snapshot_every == 5,
           "snapshots are kept among 8 ranks");
    w.ranks_per_node = w.most_nodes = 1;
    tap_ok(sn_relayout(&found, &nodes, &w, &err) == SN_OK && sn_config_ranks(&found) == 1 &&
               found.checkpoint.snapshot_every == 0 &&
               sn_config_save(&found, path, &err) == SN_OK &&
               sn_config_load(&back, path, NULL, &err) == SN_OK &&
               sn_config_resolve_ranks(&back, 1, &err) == SN_OK,
           "one rank has nobody to keep its snapshots: %s", err.text);
    c.checkpoint.snapshot_every = 0;
    w.ranks_per_node = 4;
    w.most_nodes = 3;
    w.node_memory = 1 << 20;
    tap_ok(sn_relayout(&found, &nodes, &w, &err) == SN_EINPUT &&
               strstr(err.text, "the run needs more nodes"),
           "what fits nowhere is said so: %s", err.text);
}

int main(void)
{
    char dir[] = "/tmp/sn-rundir-XXXXXX", command[64];
    static struct sn_config c;
    static struct sn_rundir r;
    struct sn_err err;
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(c.run.output, sizeof(c.run.output), "%s/out/deep", dir);
    (void)snprintf(c.checkpoint.dir, sizeof(c.checkpoint.dir), "ckpt");
    tap_ok(sn_rundir_open(&r, &c, &err) == SN_OK, "a run directory is made");
    numbers(&r);
    checkpoints(&r);
    progress(&r);
    records(&r);
    map(&r);
    other_nodes(dir);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) ? 1 : tap_done();
}
