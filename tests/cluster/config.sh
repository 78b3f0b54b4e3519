# config.sh - writes the configuration of the test cluster. Sourced by `up` after common.sh.
# shellcheck shell=sh disable=SC2154

# Which of the two leaf switches a node is at: the first half at 0.
leaf_of() { # number nodes
    echo $(($1 >= ($2 + 1) / 2))
}

# n[0-3] of a leaf, or nothing.
leaf_nodes() { # leaf nodes
    leaf_half=$((($2 + 1) / 2))
    if [ "$1" = 0 ]; then
        [ "$2" -lt 1 ] || echo "n[0-$((leaf_half - 1))]"
    else
        [ "$2" -le "$leaf_half" ] || echo "n[$leaf_half-$(($2 - 1))]"
    fi
}

write_hosts() { # nodes
    echo "127.0.0.1 localhost"
    echo "$net.254 outside"
    for k in $(seq 0 $(($1 - 1))); do echo "$net.$((k + 1)) n$k"; done
}

# What every cluster has. Short times, so that tests of requeues and of dead nodes are short: a
# requeued job waits cred_expire + 1 seconds.
write_slurm_conf() { # nodes
    cat <<CONF
ClusterName=sennit
SlurmctldHost=outside($net.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/nodes/%n/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/nodes/%n/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/nodes/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmix
GresTypes=gpu
SlurmdParameters=config_overrides
TmpFS=/var/tmp
ReturnToService=2
KillWait=5
SlurmdTimeout=15
SlurmctldTimeout=30
MessageTimeout=30
MinJobAge=3600
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CONF
    if ! grep -qi '^SelectType=' "${extra:-/dev/null}"; then
        echo "SelectType=select/cons_tres"
        echo "SelectTypeParameters=CR_Core_Memory"
    fi
    grep -qi '^DefMemPer' "${extra:-/dev/null}" || echo "DefMemPerCPU=400"
    [ "$1" -lt 2 ] || echo "TopologyPlugin=topology/tree"
    [ "$1" -lt 1 ] || write_own_nodes "$1"
    [ -z "$extra" ] || write_extra
}

# Nodes that run nowhere are nodes of a cloud, switched off: Slurm would start them for a job.
write_extra() {
    if grep -qi '^NodeName=' "$extra"; then
        printf 'SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=100000\nNodeName=DEFAULT State=CLOUD\n'
    fi
    cat "$extra"
}

write_own_nodes() { # nodes
    for k in $(seq 0 $(($1 - 1))); do
        echo "NodeName=n$k NodeHostname=n$k NodeAddr=$net.$((k + 1)) CPUs=8 RealMemory=4000 Gres=gpu:4"
    done
    all="n[0-$(($1 - 1))]"
    cat <<CONF
PartitionName=low Nodes=$all Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=15 MaxTime=UNLIMITED
PartitionName=high Nodes=$all PriorityTier=10 PreemptMode=OFF MaxTime=UNLIMITED
PartitionName=limited Nodes=$all PriorityTier=1 PreemptMode=REQUEUE GraceTime=15 DefaultTime=1 MaxTime=3
PartitionName=scavenge Nodes=$all PriorityTier=1 PreemptMode=CANCEL GraceTime=0 MaxTime=UNLIMITED
CONF
}

write_topology() { # nodes
    echo "SwitchName=s0 Nodes=$(leaf_nodes 0 "$1")"
    echo "SwitchName=s1 Nodes=$(leaf_nodes 1 "$1")"
    echo "SwitchName=core Switches=s[0-1]"
}

# Nodes of `extra` that run nowhere have an address all the same, where nobody answers.
write_paper_nodes() {
    printf 'ClusterName=none\nSlurmctldHost=none\n' >"$dir/names.conf"
    sed -n 's/^NodeName=\([^ ]*\).*/\1/p' "$extra" | while read -r names; do
        SLURM_CONF=$dir/names.conf scontrol show hostnames "$names" | sed "s/^/$net.254 /"
    done >>"$dir/hosts"
}

# As a site would set it for all: TCP between nodes, shared memory inside, nobody spins on a core that
# others need. (More ranks than cores here.)
write_openmpi() {
    cat <<CONF
pml = ob1
btl = vader,tcp,self
btl_vader_single_copy_mechanism = none
btl_tcp_if_include = $net.0/24
oob_tcp_if_include = $net.0/24
mpi_yield_when_idle = 1
hwloc_base_binding_policy = none
rmaps_base_oversubscribe = 1
CONF
}

write_config() { # nodes
    mkdir -p "$dir/etc" "$dir/state" "$dir/munge" "$dir/dev"
    write_hosts "$1" >"$dir/hosts"
    write_slurm_conf "$1" >"$dir/etc/slurm.conf"
    if [ "$1" -ge 2 ]; then write_topology "$1" >"$dir/etc/topology.conf"; fi
    write_openmpi >"$dir/openmpi.conf"
    : >"$dir/etc/gres.conf"
    if [ "$1" -ge 1 ]; then
        # Devices that do nothing: Slurm hands them out and sets CUDA_VISIBLE_DEVICES.
        for g in 0 1 2 3; do mknod "$dir/dev/gpu$g" c 1 3; done
        echo "NodeName=n[0-$(($1 - 1))] Name=gpu File=$dir/dev/gpu[0-3]" >"$dir/etc/gres.conf"
    fi
    [ -z "$extra" ] || write_paper_nodes
    [ ! -f "${extra:-}.gres" ] || cat "$extra.gres" >>"$dir/etc/gres.conf"
    (umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
    chmod 755 "$dir/munge"
}
