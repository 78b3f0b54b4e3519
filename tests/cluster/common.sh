# common.sh - what the commands of the test cluster share. Sourced by them, from any folder.
#
# All that stands of a cluster is below $dir: configuration, state and logs, one folder a node, and
# `things`, which names everything that `down` has to end or to unmount, one a line:
#
#   mount PATH
#   process PID START NAME    START tells it from a later process with the same number
# shellcheck shell=sh disable=SC2034
here=$(cd "${0%/*}" && pwd)
me=${0##*/}
dir=${SENNIT_CLUSTER:-/tmp/sennit-cluster-$(id -un)}
net=10.214.0

die() {
    echo "$me: $*" >&2
    exit 1
}

usage() { # the head of the command's own file
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# When a process began, in ticks of the clock: with its number that is one process for ever.
start_of() { # pid
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
}

remember() { # kind...
    echo "$*" >>"$dir/things"
}

# The first process of a node, as this machine counts: all others of the node end with it.
init_of() { # node
    init_p=$(awk -v node="$1" '$1 == "process" && $4 == node { p = $2 " " $3 } END { print p }' "$dir/things")
    [ -n "$init_p" ] && [ "$(start_of "${init_p% *}")" = "${init_p#* }" ] || return 1
    echo "${init_p% *}"
}

stands() {
    [ -f "$dir/things" ] || die "no cluster in $dir; make one with: tests/cluster/up"
}

nodes() {
    cat "$dir/nodes.list"
}

is_node() { # name
    grep -qx "$1" "$dir/nodes.list"
}

# A command in the network of a machine, or among the `switches`, which are bridges.
net_of() { # node command...
    net_n=$1
    shift
    nsenter --net="$dir/net/$net_n" "$@"
}

# A command on a node. It ends when whoever called it ends, has the node's own temporary folder, and
# nothing of a job that the caller may be in. Its / is the node's, which in a chroot is not the top of all mounts.
on() { # node command...
    on_p=$(init_of "$1") || die "$1 is not running; start it with: tests/cluster/fault start-node $1"
    shift
    # shellcheck disable=SC2016  # the inner shell expands it
    nsenter -t "$on_p" -m -r -w -u -i -n -p -- setpriv --pdeathsig TERM \
        env -u SLURM_CONF TMPDIR=/var/tmp sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

# One machine: its name, its memory file systems, its processes.
boot() { # node controller|node
    mkdir -p "$dir/nodes/$1/tmp" "$dir/nodes/$1/spool"
    setsid nsenter --net="$dir/net/$1" unshare --fork --kill-child --pid --mount --uts --ipc --mount-proc \
        "$here/init" "$dir" "$1" "$2" >>"$dir/nodes/$1/console" 2>&1 </dev/null \
        3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- & # a caller's lock must not live on in a daemon
    boot_p=
    for _ in $(seq 1 600); do # half a minute; a busy host takes several seconds
        boot_p=$(pgrep -P $! 2>/dev/null || :)
        [ -z "$boot_p" ] || break
        sleep 0.05
    done
    [ -n "$boot_p" ] || die "$1 does not start: $(tail -n 3 "$dir/nodes/$1/console")"
    remember process "$boot_p" "$(start_of "$boot_p")" "$1"
}

await() { # seconds command...: until it succeeds
    await_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$await_end" ] || return 1
        sleep 0.2
    done
}

# As many nodes as are named, or all, are there for jobs.
nodes_are_up() { # [node]
    nodes_n=$(on outside sinfo -h -N -p low ${1:+-n "$1"} -o '%N %t' 2>/dev/null |
        awk '$2 ~ /^(idle|mix|alloc|comp)$/' | sort -u | wc -l)
    [ "$nodes_n" -ge "$(if [ -n "${1:-}" ]; then echo 1; else nodes | wc -l; fi)" ]
}
