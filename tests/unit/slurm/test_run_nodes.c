/*
 * test_run_nodes.c - what sennit-run exec launches where: the command, spares in place of dead nodes,
 * fewer nodes in another layout, nodes that are doubted. A job of sixteen ranks on a stage.
 */
#include "lib/sim/stages.h"
#include "tests/lib/scenes.h"
#include "tests/lib/tap_like.h"

#include <stdlib.h>
#include <string.h>

static const struct stage_act done = {.code = 0, .saved = 100, .step = 100};

static void command_and_environment_are_the_jobs(struct stage *s)
{
    char want[512];
    s->environment =
        "SLURM_CPU_BIND=quiet,mask_cpu:0x1 SBATCH_EXPORT=NONE SLURM_NTASKS=3 SRUN_DEBUG=7 "
        "SLURM_TRES_PER_TASK=cpu:1 PMI_RANK=3 HF_TOKEN=hush PMIX_MCA_psec=native";
    tap_ok(stage_play(s, &done, 1, false) == 0, "launch: done");
    char *who = strstr(s->command[0], " --supervisor ");
    tap_like(who ? who : "", "^ --supervisor [^ :]+:[0-9]+:[0-9]+$", "launch: by whom, at its end");
    if (who)
        *who = '\0';
    (void)snprintf(want, sizeof(want),
                   "srun --kill-on-bad-exit=1 --wait=60 --unbuffered --export=ALL --mpi=pmix "
                   "--nodes=4 --ntasks=16 --ntasks-per-node=4 --cpus-per-task=2 --cpu-bind=cores "
                   "sennit-train %s --attempt 1",
                   s->run_file);
    tap_text(s->command[0], want, "launch: the command");
    static const char *const gone[] = {"SLURM_CPU_BIND=", "SBATCH_",    "SLURM_NTASKS",
                                       "SRUN_",           "SLURM_TRES", "PMI_RANK="};
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        tap_ok(!strstr(s->started_with, gone[i]), "launch: %s, which another job left, is gone",
               gone[i]);
    tap_ok(strstr(s->started_with, "PMIX_MCA_psec=native"), "launch: what a person set is not");
    tap_ok(strstr(s->started_with, "SLURM_JOB_ID=41"), "launch: the job is there");
    tap_ok(strstr(s->started_with, "SLURM_PMIX_FENCE=ring"),
           "launch: Slurm's PMIx is told to be careful");
    const char *kept = stage_file(s, "attempts/1/environment");
    tap_ok(strstr(kept, "SLURM_JOB_ID=41\n"), "launch: the environment is recorded");
    tap_ok(strstr(kept, "HF_TOKEN=(not recorded)\n"), "launch: without secrets");
    tap_like(stage_event(s, "launch", 0),
             "\"nodes\": \\[\"n0\", \"n1\", \"n2\", \"n3\"\\], \"spares\": \\[\\], \"ranks\": 16, "
             ".*\"layout\": \\{\"data\": 2, \"tensor\": 4, \"context\": 1, \"pipeline\": 2",
             "launch: nodes and layout are in the journal");
}

static void another_mpi_meets_as_its_site_says(struct stage *s)
{
    s->slurm = "preflight: false, site: perlmutter";
    tap_ok(stage_play(s, &done, 1, false) == 0, "cray: done");
    tap_like(s->command[0], " --mpi=cray_shasta ", "cray: as its site says");
}

static void a_spare_takes_a_dead_nodes_place(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = 137,
         .saved = 10,
         .step = 12,
         .words = "srun: error: Node failure on n2|srun: error: n2: task 9: Killed",
         .died = "n2"},
        {.code = 0, .saved = 100, .step = 100}};
    s->slurm = "preflight: false, spares: 1";
    s->step_gone = 50;
    tap_ok(stage_play(s, acts, 2, false) == 0, "spare: done");
    tap_ok(s->launched[1] < 10, "spare: a step that Slurm keeps for a dead node is not waited for");
    tap_like(s->command[0], "--nodes=4 .*--no-kill --nodelist=n\\[0-3\\] ",
             "spare: four of five nodes");
    tap_like(s->command[1], "--no-kill --overlap --mem=0 --nodelist=n\\[0-1,3-4\\] ",
             "spare: then without the dead one");
    tap_like(stage_event(s, "end", 0),
             "\"cause\": \"a node died\", .*\"rank\": -1, \"host\": \"n2\"", "spare: because");
    tap_like(stage_event(s, "bad-node", 0), "\"host\": \"n2\", \"why\": \"a node died\"",
             "spare: which is written down");
    tap_like(stage_file(s, "nodes.jsonl"),
             "\"host\": \"n2\", .*\"grade\": \"died\", \"until\": [0-9]+, \"job\": \"41\"",
             "spare: in the ledger, too");
    tap_like(stage_event(s, "launch", -1), "\"attempt\": 2, .*\"from_step\": 10",
             "spare: and goes on from the checkpoint");
    char *down = strstr(s->nodes, "DOWN*");
    if (down)
        memcpy(down, "IDLE ", 5);
    tap_ok(stage_play(s, &done, 1, false) == 0, "spare: the next job is done");
    tap_like(s->command[0], "--nodelist=n\\[0-3\\] ",
             "spare: it has got the node back, and uses it");
}

static const struct stage_act dies_on_n3[] = {{.code = 137,
                                               .saved = 10,
                                               .step = 12,
                                               .words = "srun: error: n3: task 13: Killed",
                                               .died = "n3"},
                                              {.code = 0, .saved = 100, .step = 100}};

static bool compiles(const struct sn_config *c)
{
    struct sn_model *model = NULL;
    struct sn_stages stages = {0};
    bool good = sn_model_create(&model, &c->model, &c->train, NULL) == SN_OK;
    struct sn_job_env env = {.config = c, .model = model, .ops = sn_ops_cpu(), .threads = 1};
    good = good && sn_stages_create(&stages, &env, NULL) == SN_OK;
    sn_stages_fini(&stages);
    sn_model_destroy(model);
    return good;
}

static void fewer_nodes_get_another_layout(struct stage *s)
{
    struct sn_config *c = calloc(1, sizeof(*c));
    char path[512];
    tap_ok(stage_play(s, dies_on_n3, 2, false) == 0, "shrink: done");
    tap_like(stage_event(s, "decision", 0), "\"action\": \"shrink\"", "shrink: decided");
    tap_like(s->command[1],
             "--nodes=2 --ntasks=8 .*--nodelist=n\\[0-1\\] .*/attempts/2/run.yaml --attempt 2",
             "shrink: on fewer nodes, with a run file of its own");
    tap_like(stage_event(s, "launch", -1), "\"ranks\": 8, .*\"relaid\": true",
             "shrink: which is in the journal");
    (void)snprintf(path, sizeof(path), "%s/attempts/2/run.yaml", s->output);
    bool good = c && sn_config_load(c, path, NULL, NULL) == SN_OK;
    tap_ok(good && sn_config_ranks(c) == 8 && compiles(c), "shrink: and the file is a good one");
    tap_ok(good && c->train.global_batch == 16, "shrink: the global batch is the same");
    free(c);
}

static void without_leave_to_shrink_the_job_is_requeued(struct stage *s)
{
    s->slurm = "preflight: false, shrink: false";
    tap_ok(stage_play(s, dies_on_n3, 1, false) == 75, "rigid: exit code");
    tap_ok(s->requeues == 1 && s->launches == 1, "rigid: without leave to shrink it is requeued");
}

/* What a rank may fill is then its GPU's memory, not this host's. */
static void runs_on_gpus_are_judged_by_the_sites_machine(struct stage *s)
{
    s->run = ", backend: cuda";
    s->slurm = "preflight: false, site: perlmutter";
    tap_ok(stage_play(s, dies_on_n3, 2, false) == 0, "gpus: done");
    tap_like(stage_event(s, "launch", -1), "\"ranks\": 8, .*\"relaid\": true",
             "gpus: by a layout for fewer nodes");
}

static void without_a_machine_runs_on_gpus_are_not_relaid(struct stage *s)
{
    s->run = ", backend: cuda";
    tap_ok(stage_play(s, dies_on_n3, 1, false) == 75, "no machine: exit code");
    tap_ok(s->requeues == 1 && s->launches == 1, "no machine: it waits for its nodes");
    tap_like(stage_event(s, "decision", 0), "\"action\": \"requeue\"", "no machine: as decided");
    s->layout = "auto";
    tap_ok(stage_play(s, NULL, 0, false) == 2, "no machine: nor is a layout chosen");
    tap_like(s->err.text,
             "^[^:]*: run.backend is cuda, and no machine says what its GPUs hold; want "
             "machine.preset, machine.file or a slurm.site that has one$",
             "no machine: it says what would do");
}

/* A node that is in no record is asked itself: its slurmd does not answer, whatever the controller says. */
static void a_node_that_does_not_answer_is_left_out(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = 77, .saved = 10, .step = 12, .words = "srun: error: n2: task 9: Killed"},
        {.code = 0, .saved = 100, .step = 100}};
    (void)snprintf(
        s->nodes, sizeof(s->nodes),
        "NodeName=n0 NodeAddr=a0 State=ALLOCATED\nNodeName=n1 NodeAddr=a1 State=ALLOCATED\n"
        "NodeName=n2 NodeAddr=a2 State=ALLOCATED\nNodeName=n3 NodeAddr=a3 State=ALLOCATED\n"
        "NodeName=n4 NodeAddr=a4 State=ALLOCATED\n");
    s->slurm = "preflight: false, spares: 1";
    s->silent = "a2";
    tap_ok(stage_play(s, acts, 2, false) == 0, "silent: done");
    tap_like(stage_event(s, "end", 0), "\"cause\": \"a node died\", .*\"host\": \"n2\"",
             "silent: who does not answer is dead, whatever the controller says");
    tap_like(s->command[1], "--nodelist=n\\[0-1,3-4\\] ", "silent: and is left out");
}

static void too_few_nodes_are_put_back_but_not_for_ever(struct stage *s)
{
    s->slurm = "preflight: false, shrink: false";
    tap_ok(stage_play(s, NULL, 0, false) == 75 && s->requeues == 1 && s->launches == 0,
           "few: a job with too few nodes is put back");
    tap_like(stage_event(s, "end", -1), "\"says\": \"2 of 2 nodes are good, the layout wants 4\"",
             "few: it says why");
    s->restart = 1;
    tap_ok(stage_play(s, NULL, 0, false) == 75 && s->requeues == 1, "few: and again");
    s->restart = 2;
    tap_ok(stage_play(s, NULL, 0, false) == 93 && s->requeues == 0, "few: not for ever");
}

static void processes_are_not_ranks(struct stage *s)
{
    static const struct stage_act acts[] = {
        {.code = 137, .saved = 10, .step = 12, .words = "srun: error: n2: task 9: Killed"},
        {.code = 137, .saved = 20, .step = 22, .words = "srun: error: n2: task 8: Killed"},
        {.code = 0, .saved = 100, .step = 100}};
    stage_write(s, "map.json",
                "{\"ranks\": [{\"rank\": 3, \"process\": 9, \"host\": \"n2\"}, "
                "{\"rank\": 9, \"process\": 3, \"host\": \"n0\"}]}\n");
    tap_ok(stage_play(s, acts, 3, false) == 0, "map: done");
    tap_like(stage_event(s, "end", 0),
             "\"cause\": \"a rank was lost\", .*\"rank\": 3, \"host\": \"n2\"",
             "map: the launcher's task 9 is rank 3");
    tap_ok(stage_count(s, "bad-node") == 1, "map: twice on the same node, which is doubted then");
    tap_like(stage_file(s, "nodes.jsonl"), "\"host\": \"n2\", .*\"grade\": \"doubtful\"",
             "map: for some hours");
    tap_like(s->command[2], "--nodes=4 ", "map: but used where there is no other");
}

int main(void)
{
    static const struct scene scene[] = {
        {command_and_environment_are_the_jobs, "n0,n1,n2,n3"},
        {another_mpi_meets_as_its_site_says, "n0,n1,n2,n3"},
        {a_spare_takes_a_dead_nodes_place, "n0,n1,n2,n3,n4"},
        {fewer_nodes_get_another_layout, "n0,n1,n2,n3"},
        {without_leave_to_shrink_the_job_is_requeued, "n0,n1,n2,n3"},
        {runs_on_gpus_are_judged_by_the_sites_machine, "n0,n1,n2,n3"},
        {without_a_machine_runs_on_gpus_are_not_relaid, "n0,n1,n2,n3"},
        {a_node_that_does_not_answer_is_left_out, "n0,n1,n2,n3,n4"},
        {too_few_nodes_are_put_back_but_not_for_ever, "n0,n1"},
        {processes_are_not_ranks, "n0,n1,n2,n3"}};
    return scenes_play(scene, sizeof(scene) / sizeof(scene[0]));
}
