#!/bin/sh
# netns.sh - several "hosts" on this machine, joined by slow links, and mpirun across them.
#
# usage: tests/bench/pace/netns.sh up DIR HOSTS RATE     e.g. 4 200mbit; root only
#        tests/bench/pace/netns.sh run DIR RANKS COMMAND...
#        tests/bench/pace/netns.sh bytes DIR             that have left all hosts since `up`
#        tests/bench/pace/netns.sh packets DIR           the same
#        tests/bench/pace/netns.sh down DIR
#
# A host is a network namespace with a link to a bridge, limited by tbf in both directions; each job
# gives it a host name and shared memory of its own, so that Open MPI takes it for a machine: ranks of
# a host use shared memory, all others TCP. That memory is another one in each job; where there is a
# folder DIR/memory/K it is the K-th host's in all of them. RANKS are dealt out in blocks, so that HOSTS divides them; or
# there are fewer, one on each of the first hosts.
#
# `up` writes all names it takes into DIR/names, `down` removes those and what still runs in them,
# and may be repeated. Where hosts cannot be made `up` says "SKIPPED: why" and exits with 77.
#
# With OVERHEAD in the environment every packet counts so many bytes more, and a short message costs what a long
# one does: a network of which messages are dear.
#
# The links: packets of up to SEGMENT bytes and a bucket of two of them, so that hardly anything passes
# faster than RATE; a queue that is never full, because windows bound what TCP has under way, so that
# nothing is dropped; so no slow start, and no packet is sent twice because its answer waits in a queue. Windows are Reno's: BBR, which is
# the default on some machines, sends at a rate that it has measured of short messages, and now and then nearly nothing for 200 ms.
set -eu
SEGMENT=8192 BUFFER=262144

die() {
    echo "netns.sh: $*" >&2
    exit 1
}
skip() {
    echo "netns.sh: SKIPPED: $*" >&2
    down
    exit 77
}

usage() {
    echo "usage: netns.sh up DIR HOSTS RATE | run DIR RANKS COMMAND... | bytes DIR | packets DIR | down DIR" >&2
    exit 2
}

down() {
    [ -f "$dir/names" ] || return 0
    while read -r kind name; do
        case $kind in
        host) # whatever a job that was cut off left in it, which is ours alone
            for pid in $(ip netns pids "$name" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || :; done
            ip netns del "$name" 2>/dev/null || :
            ;;
        link) ip link del "$name" 2>/dev/null || : ;;
        job) # an mpirun that would wait for its daemons; the number may be another process's by now
            ! grep -q "$dir/agent" "/proc/$name/cmdline" 2>/dev/null || kill "$name" 2>/dev/null || :
            ;;
        esac
    done <"$dir/names"
    rm -f "$dir/names" "$dir/shim" "$dir/agent" "$dir/hosts"
}

# No address of this machine may be in the network that the hosts use.
free_network() {
    for n in 77 78 79 80 81 82 83 84; do
        ip -o addr show | grep -q " 10\.213\.$n\." || { echo "10.213.$n" && return; }
    done
}

limit() { # namespace or "", device
    # shellcheck disable=SC2086
    ${1:+ip netns exec $1} tc qdisc add dev "$2" root ${OVERHEAD:+stab overhead $OVERHEAD} tbf rate "$rate" \
        burst $((2 * SEGMENT + ${OVERHEAD:-0})) limit 64mb
}

one_host() { # number
    ns=$id-$1
    echo "host $ns" >>"$dir/names"
    echo "link ${id}h$1" >>"$dir/names"
    ip netns add "$ns"
    ip link add "${id}h$1" gso_max_size $SEGMENT type veth peer name eth0 netns "$ns"
    ip -n "$ns" link set eth0 gso_max_size $SEGMENT
    ip link set "${id}h$1" master "$id" up
    ip -n "$ns" addr add "$net.$1/24" dev eth0
    ip -n "$ns" link set eth0 up
    ip -n "$ns" link set lo up
    ip -n "$ns" route change "$net.0/24" dev eth0 src "$net.$1" initcwnd 256 rto_min 3s
    ip netns exec "$ns" sh -c 'cd /proc/sys/net/ipv4 && echo 0 >tcp_slow_start_after_idle && echo 0 >tcp_early_retrans && echo reno >tcp_congestion_control'
    limit "" "${id}h$1" || skip "this kernel has no tbf"
    limit "$ns" eth0 || skip "this kernel has no tbf"
}

up() { # hosts rate
    hosts=$1 rate=$2
    case $hosts in [1-9] | [1-9][0-9]) ;; *) die "$hosts hosts; want 1 to 99" ;; esac
    case $rate in [1-9]*bit) ;; *) die "rate '$rate'; want one as of tc, like 200mbit" ;; esac
    [ "$(id -u)" = 0 ] || skip "network namespaces need root"
    for tool in ip tc mpirun unshare nsenter; do
        command -v $tool >/dev/null || skip "no $tool here"
    done
    # MPICH 4.0.2 over UCX 1.13: after any exchange over TCP about one MPI_Finalize in four never comes back.
    case $(mpirun --version 2>&1) in *HYDRA*) skip "MPICH, of which some hang over TCP in MPI_Finalize; hosts are made for Open MPI" ;; esac
    mkdir -p "$dir"
    [ ! -f "$dir/names" ] || die "$dir is in use; end it with: netns.sh down $dir"
    net=$(free_network)
    [ -n "$net" ] || skip "10.213.77.0/24 to 10.213.84.0/24 are in use here"
    id=sn$$
    ip link add "$id" type bridge 2>/dev/null || skip "this kernel makes no bridge"
    echo "link $id" >"$dir/names"
    trap 'down; exit 130' INT TERM HUP
    trap '[ -f "$dir/agent" ] || down' EXIT # the last thing that is written
    ip addr add "$net.254/24" dev "$id"
    ip link set "$id" up
    for k in $(seq 1 "$hosts"); do one_host "$k"; done
    echo "$hosts $net $id" >"$dir/hosts"
    cat >"$dir/shim" <<SHIM
#!/bin/sh
# agent ADDRESS COMMAND...: as ssh would
k=\${1##*.}
shift
memory="mount -t tmpfs tmpfs /dev/shm"
[ ! -d "$dir/memory/\$k" ] || memory="mount --bind '$dir/memory/\$k' /dev/shm"
exec nsenter --net=/var/run/netns/$id-\$k unshare -u -m sh -c "hostname $id-\$k; \$memory; cd '$PWD'; \$*"
SHIM
    chmod +x "$dir/shim"
    mv "$dir/shim" "$dir/agent"
}

run() { # ranks command...
    ranks=$1
    shift
    read -r hosts net id <"$dir/hosts" || die "$dir: no hosts here; make them with: netns.sh up $dir HOSTS RATE"
    [ "$ranks" -ge "$hosts" ] || hosts=$ranks
    [ $((ranks % hosts)) = 0 ] || die "$ranks ranks on $hosts hosts; want a multiple of $hosts"
    echo "job $$" >>"$dir/names"
    list=
    for k in $(seq 1 "$hosts"); do list=$list,$net.$k:$((ranks / hosts)); done
    exec mpirun -n "$ranks" --host "${list#,}" --map-by slot --mca plm rsh --mca plm_rsh_agent "$dir/agent" \
        --mca oob_tcp_if_include "$net.0/24" --mca btl_tcp_if_include "$net.0/24" \
        --mca btl vader,tcp,self --mca pml ob1 --mca btl_vader_single_copy_mechanism none \
        --mca btl_tcp_sndbuf $BUFFER --mca btl_tcp_rcvbuf $BUFFER --mca btl_tcp_flags send \
        --mca mpi_yield_when_idle 1 --mca hwloc_base_binding_policy none --allow-run-as-root "$@"
}

left() { # statistic
    read -r hosts net id <"$dir/hosts"
    for k in $(seq 1 "$hosts"); do cat "/sys/class/net/${id}h$k/statistics/rx_$1"; done |
        awk '{ s += $1 } END { printf "%.0f\n", s }'
}

[ $# -ge 2 ] || usage
command=$1 dir=$2
shift 2
case $command:$# in
up:2 | down:0) $command "$@" ;;
bytes:0 | packets:0) left "$command" ;;
run:0 | run:1) usage ;;
run:*) run "$@" ;;
*) usage ;;
esac
