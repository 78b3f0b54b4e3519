#!/bin/sh
# slow.sh - the overlap benchmark over slow links: one rank in each of 2 to 4 network namespaces.
#
# usage: tests/bench/pace/slow.sh [RANKS] [RATE]         (default 2 200mbit; root only)
#
# Namespaces are joined by a bridge; tbf limits both directions of each link. mpirun starts its
# daemons in them through a shim in place of ssh, each with a host name and shared memory of its
# own, so that Open MPI takes them for machines and uses TCP. What this makes is named after its
# process id and removed on every exit.
set -eu
cd "$(dirname "$0")/../../.."
n=${1:-2} rate=${2:-200mbit}
case $n in 2 | 3 | 4) ;; *) echo "slow.sh: $n namespaces; want 2, 3 or 4" >&2 && exit 2 ;; esac

skip() {
    echo "slow.sh: SKIPPED: $*" >&2
    exit 0
}
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for tool in ip tc mpirun unshare; do
    command -v $tool >/dev/null || skip "no $tool here"
done

id=snp$$
net=10.213.77
dir=$(mktemp -d)
clean() {
    for k in $(seq 1 "$n"); do
        # Whatever a job that was cut off left in the namespace, which is ours alone.
        for pid in $(ip netns pids "$id-$k" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || :; done
        ip netns del "$id-$k" 2>/dev/null || :
        ip link del "$id$k" 2>/dev/null || :
    done
    ip link del "$id" 2>/dev/null || :
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
! ip -o addr show | grep -q " $net\." || skip "$net.0/24 is in use here"
ip link add "$id" type bridge 2>/dev/null || skip "this kernel makes no bridge"
ip addr add "$net.254/24" dev "$id"
ip link set "$id" up

limit() { # command before tc, device
    # shellcheck disable=SC2086
    $1 tc qdisc add dev "$2" root tbf rate "$rate" burst 64kb latency 50ms
}
for k in $(seq 1 "$n"); do
    ip netns add "$id-$k"
    ip link add "$id$k" type veth peer name eth0 netns "$id-$k"
    ip link set "$id$k" master "$id" up
    ip -n "$id-$k" addr add "$net.$k/24" dev eth0
    ip -n "$id-$k" link set eth0 up
    ip -n "$id-$k" link set lo up
    limit '' "$id$k" || skip "this kernel has no tbf"
    limit "ip netns exec $id-$k" eth0
done

cat >"$dir/agent" <<SHIM
#!/bin/sh
# agent ADDRESS COMMAND...: as ssh would
k=\${1##*.}
shift
exec ip netns exec $id-\$k unshare -u -m sh -c "hostname $id-\$k; mount -t tmpfs tmpfs /dev/shm; cd '$PWD'; \$*"
SHIM
cat >"$dir/launch" <<RUN
#!/bin/sh
ranks=\$1
shift
hosts=$net.1:1
for k in \$(seq 2 "\$ranks"); do hosts=\$hosts,$net.\$k:1; done
exec mpirun -n "\$ranks" --host "\$hosts" --mca plm rsh --mca plm_rsh_agent $dir/agent \\
    --mca oob_tcp_if_include $net.0/24 --mca btl_tcp_if_include $net.0/24 \\
    --mca btl tcp,self --mca pml ob1 --mca mpi_yield_when_idle 1 --mca hwloc_base_binding_policy none \\
    --allow-run-as-root "\$@"
RUN
chmod +x "$dir/agent" "$dir/launch"

count() { # bytes that have left all namespaces
    for k in $(seq 1 "$n"); do cat "/sys/class/net/$id$k/statistics/rx_bytes"; done |
        awk '{ s += $1 } END { print s }'
}
before=$(count)
"$dir/launch" "$n" hostname | sort | uniq | wc -l | {
    read -r hosts
    [ "$hosts" = "$n" ] || { echo "slow.sh: $n ranks saw $hosts hosts" >&2 && exit 1; }
}
echo "$n ranks in $n namespaces, each link $rate"
HIDDEN=${HIDDEN:-256} STEPS=${STEPS:-4} LAUNCH="$dir/launch" LAUNCH_IS_SLOW=1 tests/bench/pace/overlap.sh "$n"
echo "$(awk "BEGIN { print ($(count) - $before) / 1e6 }") MB crossed the links"
