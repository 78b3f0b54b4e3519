/*
 * test_locality.c - this machine, and a recorded one whose GPUs are not in the order of its
 * processors.
 */
#include "slurm/topology/locality.h"
#include "tests/lib/tap.h"

#include <sched.h>
#include <stdlib.h>

/* On processor `cpu` alone; false where that is not ours. */
static bool stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static bool describe(struct sn_local *out, const char *variables)
{
    struct sn_locality *l = NULL;
    struct sn_environment e = {0};
    struct sn_err err = {0};
    bool good = sn_environment_parse(&e, variables, strlen(variables), "env", &err) == SN_OK &&
                sn_locality_open(&l, &err) == SN_OK;
    if (good)
        sn_locality_describe(out, l, &e);
    else
        tap_ok(false, "%s", err.text);
    sn_locality_close(l);
    sn_environment_fini(&e);
    return good;
}

static void this_machine(void)
{
    cpu_set_t set;
    struct sn_local l;
    if (sched_getaffinity(0, sizeof(set), &set) != 0 || !describe(&l, "A=1\n"))
        return;
    tap_ok(l.n_cpus == CPU_COUNT(&set) && l.cpus[0], "%d processors: %s", l.n_cpus, l.cpus);
    bool sane = l.n_gpus >= 0 && l.n_gpus <= SN_LOCAL_GPUS;
    for (int i = 0; i < l.n_gpus; i++)
        sane = sane && strlen(l.gpu[i].id) == strlen("0000:00:00.0");
    tap_ok(sane, "%d GPUs, network device '%s', NUMA node %d", l.n_gpus, l.nic, l.numa);
}

static void a_machine_with_its_order_reversed(void)
{
    struct sn_local l;
    if (setenv("HWLOC_XMLFILE", "tests/unit/fixtures/locality/reversed.xml", 1) != 0 ||
        !stay_on(0)) {
        tap_skip("a recorded machine", "processor 0 is not ours");
        return;
    }
    if (!describe(&l, "A=1\n"))
        return;
    tap_ok(l.n_gpus == 4, "four GPUs, and no display of a management controller: %d", l.n_gpus);
    tap_ok(l.numa == 0 && !strcmp(l.cpus, "0") && !strcmp(l.nic, "mlx5_0"),
           "processor 0 is at NUMA node %d, network device %s", l.numa, l.nic);
    tap_ok(!strcmp(l.gpu[0].id, "0000:01:00.0") && l.gpu[0].numa == 1 && l.gpu[0].near_cpus == 0 &&
               !strcmp(l.gpu[0].nic, "mlx5_1"),
           "GPU %s is at NUMA node %d, far from it", l.gpu[0].id, l.gpu[0].numa);
    tap_ok(!strcmp(l.gpu[2].id, "0000:41:00.0") && l.gpu[2].numa == 0 && l.gpu[2].near_cpus == 1 &&
               l.gpu[2].is_certain,
           "GPU %s is at NUMA node %d, near it", l.gpu[2].id, l.gpu[2].numa);
    (void)describe(&l, "CUDA_VISIBLE_DEVICES=3,1,0,2\n");
    tap_ok(l.n_gpus == 4 && !strcmp(l.gpu[0].id, "0000:42:00.0") && l.gpu[0].is_certain,
           "numbers count all of the machine's GPUs: %s", l.gpu[0].id);
    (void)describe(&l, "CUDA_VISIBLE_DEVICES=0\n");
    tap_ok(l.n_gpus == 1 && !strcmp(l.gpu[0].id, "0") && !l.gpu[0].is_certain &&
               l.gpu[0].numa == -1,
           "one number of a confined job may be any of them");
    (void)describe(&l, "CUDA_VISIBLE_DEVICES=GPU-5f3a,MIG-77\n");
    tap_ok(l.n_gpus == 2 && !strcmp(l.gpu[1].id, "MIG-77") && l.gpu[1].is_certain,
           "a UUID is certain");
    (void)describe(&l, "CUDA_VISIBLE_DEVICES=NoDevFiles\n");
    tap_ok(l.n_gpus == 0, "Slurm's word for none is none");
    (void)describe(&l, "CUDA_VISIBLE_DEVICES=\n");
    tap_ok(l.n_gpus == 0, "an empty list is none");
    (void)describe(&l, "ROCR_VISIBLE_DEVICES=0,1,2,3\n");
    tap_ok(l.n_gpus == 4, "the other maker's list is read, too");
}

int main(void)
{
    this_machine();
    a_machine_with_its_order_reversed();
    return tap_done();
}
