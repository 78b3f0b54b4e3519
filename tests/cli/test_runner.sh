#!/bin/sh
# test_runner.sh - tools/run counts what ran: a program that fails, dies or never starts is no success.
# shellcheck disable=SC2154  # run sets rc and out
# This test may have been told to give way itself; whoever it starts would be, too.
case $(chrt -p $$ 2>/dev/null) in *SCHED_IDLE*) ! chrt -o 0 true 2>/dev/null || exec chrt -o 0 "$0" ;; esac
own=$(chrt -p $$ 2>/dev/null | sed -n 's/.*policy: *//p') # where that is not allowed
. tests/lib/tap.sh
need mount

program() { # name, lines of a script
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1"
    chmod +x "$tmp/$1"
}

count() { # what, exit code, last line; then arguments of tools/run
    what=$1 code=$2 last=$3
    shift 3
    run env BUILD="$tmp/build" tools/run "$@"
    is "$what: exit code" "$rc" "$code"
    is "$what: the count" "$(echo "$out" | tail -n 1)" "$last"
}

program good 'echo "ok 1 - a"; echo 1..1'
program fine 'echo "ok 1 - a"; echo 1..1'
program well 'echo "ok 1 - a"; echo 1..1'
program bad 'echo "not ok 1 - a"; echo 1..1; exit 1'
program short 'echo "ok 1 - a"; echo 1..2'
program killer 'echo "ok 1 - a"; echo 1..1; kill -9 $(cut -d" " -f4 /proc/$PPID/stat)'
count "together and alone" 0 "3 passed, 0 failed, 0 skipped" "$tmp/good" "$tmp/fine" -- "$tmp/well"

# --- who gives way ------------------------------------------------------------------------------------
program waits 'for _ in $(seq 300); do [ -e "$HERE/made" ] && break; sleep 0.1; done
[ -e "$HERE/made" ] && echo "ok 1 - $(chrt -p $$)" || echo "not ok 1 - the other runs meanwhile"; echo 1..1'
program makes 'touch "$HERE/made"; echo "ok 1 - $(chrt -p $$)"; echo 1..1'
HERE=$tmp && export HERE
if chrt -i 0 true 2>/dev/null; then
    SLOWEST=1 && export SLOWEST
    count "those behind -- run meanwhile" 0 "2 passed, 0 failed, 0 skipped" "$tmp/waits" -- "$tmp/makes"
    unset SLOWEST
    like "and the others give way to them" "$(cat "$tmp"/build/log/*waits.log)" SCHED_IDLE
    like "who do not" "$(cat "$tmp"/build/log/*makes.log)" "$own"
    like "the sum of seconds and the one that cost most are printed" "$out" '^[0-9]+ s of CPU, .* one after another'
    is "seconds of both are kept" "$(sed 's|.*/||' "$tmp/build/log/times" | sort | tr '\n' ' ')" "makes waits "
else
    skip "those behind -- run meanwhile" "nobody may be told to give way here"
fi
OWN=$own && export OWN
program goes 'chrt -p $$ | grep -q "$OWN" && echo "ok 1 - a" || echo "not ok 1 - a"; echo 1..1'
count "without them nobody gives way" 0 "1 passed, 0 failed, 0 skipped" "$tmp/goes"

program says 'echo "ok 1 - $*"; echo 1..1'
count "a program gets its arguments" 0 "1 passed, 0 failed, 0 skipped" "$tmp/says,a,2@30"
like "each a word of its own" "$(cat "$tmp"/build/log/*says-a-2.log)" '^ok 1 - a 2$'
count "one fails among others" 1 "1 passed, 1 failed, 0 skipped" "$tmp/good" "$tmp/bad"
count "one stops early, alone" 1 "2 passed, 1 failed, 0 skipped" "$tmp/good" -- "$tmp/short"
count "none is named" 1 "0 passed, 1 failed, 0 skipped"
TEST_JOBS=x
export TEST_JOBS
count "none is started" 1 "1 passed, 1 failed, 0 skipped" "$tmp/good" -- "$tmp/fine"
TEST_JOBS=1
count "the shell of one is killed" 1 "1 passed, 1 failed, 0 skipped" "$tmp/good" "$tmp/killer" "$tmp/fine"

# --- a command that is not here ---------------------------------------------------------------------
program needs '. tests/lib/tap.sh; need cat no-such-command sed; ok "it came so far" true; tap_done'
count "a command is missing" 1 "0 passed, 1 failed, 0 skipped" "$tmp/needs"
like "which is named" "$out" 'not ok - 1 - no-such-command is here \(tools/deps check installs it\)'
MAY_MISS='cat no-such-command'
export MAY_MISS
count "and may be" 0 "0 passed, 0 failed, 1 skipped" "$tmp/needs"
like "which is said" "$out" 'SKIP no-such-command is missing, which MAY_MISS allows'
count "nothing that is here is skipped" 0 "1 passed, 0 failed, 1 skipped" "$tmp/good" "$tmp/needs"

# --- what has passed is not run again -----------------------------------------------------------------
emulated() { # what it must say
    run env BUILD="$tmp/e" tests/cuda_emul/run
    like "$1" "$out" "$2"
}
mkdir -p "$tmp/e/tests/emul" "$tmp/e/emul"
printf '#!/bin/sh\necho "$SN_EMUL_ARCH" >>"%s/ran"\n' "$tmp" >"$tmp/e/tests/emul/test_kernels_norm"
chmod +x "$tmp/e/tests/emul/test_kernels_norm"
emulated "emulated kernels are run" '^ok 1 - test_kernels_norm as sm_90$'
emulated "and not again, which is said" '^ok 1 - test_kernels_norm # SKIP 1 points passed here on 2'
is "truly" "$(wc -l <"$tmp/ran")" 1
ANEW=1 && export ANEW
emulated "but on request" '^ok 1 - test_kernels_norm as sm_90$'
unset ANEW
echo 'exit 1' >>"$tmp/e/tests/emul/test_kernels_norm"
emulated "and when a program is another" '^not ok 1 - test_kernels_norm'
emulated "and whatever has failed" '^not ok 1 - test_kernels_norm'
cp "$tmp/e/tests/emul/test_kernels_norm" "$tmp/e/tests/emul/test_gemm"
emulated "what takes too long is not run" '^1\.\.1$'
run env BUILD="$tmp/e" tests/cuda_emul/run test_gemm
like "unless it is named" "$out" '^not ok 3 - test_gemm as sm_90$'

# --- a root that is a mount point -------------------------------------------------------------------
# As in a chroot: a folder, and in it what a shell needs.
root=$tmp/root
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    mkdir -p "$root"
    for folder in bin dev etc lib lib64 proc sbin tmp usr var; do
        [ ! -e "/$folder" ] || mkdir -p "$root/$folder"
    done
    mkdir -p "$root/work"
    cat >"$tmp/in-chroot" <<SH
for folder in bin dev etc lib lib64 proc sbin usr; do
    [ ! -e "/\$folder" ] || mount --rbind "/\$folder" "$root/\$folder"
done
mount --bind "$PWD" "$root/work"
mount -t tmpfs tmpfs "$root/tmp"
exec chroot "$root" sh -c 'cd /work && "\$@"' sh "\$@"
SH
    chrooted() { unshare --mount sh "$tmp/in-chroot" "$@"; }
    run chrooted unshare --mount true
    ok "in a chroot nobody makes mounts of his own ($rc)" test "$rc" != 0
    run chrooted tools/rooted sh -c 'unshare --mount pwd && echo "$1" && exit 3' sh 'a b'
    is "unless by tools/rooted: the folder, the words and the exit code are the same" "$out $rc" "$(printf '/work\na b 3')"
    run chrooted sh -c 'tools/rooted true && ls -A /tmp'
    is "and nothing is left of it" "$out$rc" 0
    run chrooted tools/rooted sh -c 'kill -TERM $$'
    is "a signal's end is told" "$rc" 143
else
    skip "a root that is a mount point" "this user makes no chroot"
fi
tap_done
