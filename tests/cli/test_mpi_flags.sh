#!/bin/sh
# test_mpi_flags.sh - what the Makefile finds out about an MPI: from compilers that answer as those of each family do.
. tests/lib/tap.sh

flags=$PWD/tests/mpi/flags
mkdir "$tmp/bin"
compiler() { # name; its answers, "OPTION: WORDS" a line, on standard input: anything else is refused
    sed "s/'/'\\\\''/g; s/^\([^ ]*\): \(.*\)/\1) echo '\2' ;;/" >"$tmp/answers"
    {
        echo '#!/bin/sh'
        echo 'case $1 in'
        cat "$tmp/answers"
        echo '*) echo "error: no input files" >&2; exit 1 ;;'
        echo esac
    } >"$tmp/bin/$1"
    chmod +x "$tmp/bin/$1"
}
finds() { # name family compile link
    is "$1: its family" "$("$flags" family "$tmp/bin/$1")" "$2"
    is "$1: what compiles" "$("$flags" compile "$tmp/bin/$1")" "$3"
    is "$1: what links" "$("$flags" link "$tmp/bin/$1")" "$4"
    is "$1: nothing is wrong" "$("$flags" why "$tmp/bin/$1")" ''
}

compiler mpicc.open <<'END'
--showme:version: mpicc: Open MPI 4.1.6 (Language: C)
--showme:compile: -I/opt/openmpi/include -pthread
--showme:link: -pthread -L/opt/openmpi/lib -Wl,-rpath -Wl,/opt/openmpi/lib -Wl,--enable-new-dtags -lmpi
END
finds mpicc.open openmpi '-I/opt/openmpi/include' '-L/opt/openmpi/lib -Wl,-rpath -Wl,/opt/openmpi/lib -Wl,--enable-new-dtags -lmpi'

compiler mpicc.mpich <<'END'
-show: gcc -Wl,-z,relro -g -O2 -I/usr/include/mpich -L/usr/lib/x86_64-linux-gnu -lmpich
-compile_info: gcc -Wl,-z,relro -g -O2 -I/usr/include/mpich -L/usr/lib/x86_64-linux-gnu -lmpich
-link_info: gcc -Wl,-z,relro -I/usr/include/mpich -L/usr/lib/x86_64-linux-gnu -lmpich
END
finds mpicc.mpich mpich '-I/usr/include/mpich' '-L/usr/lib/x86_64-linux-gnu -lmpich'

compiler mpicc.mvapich <<'END'
-show: gcc -I/opt/mvapich2/include -L/opt/mvapich2/lib -Wl,-rpath -Wl,/opt/mvapich2/lib -lmpi
END
finds mpicc.mvapich mpich '-I/opt/mvapich2/include' '-L/opt/mvapich2/lib -Wl,-rpath -Wl,/opt/mvapich2/lib -lmpi'

compiler mpiicc <<'END'
-show: icc -I"/opt/intel/mpi/include" -L"/opt/intel/mpi/lib/release" -L"/opt/intel/mpi/lib" -Xlinker --enable-new-dtags -Xlinker -rpath -Xlinker "/opt/intel/mpi/lib" -lmpifort -lmpi -ldl -lrt -lpthread
END
finds mpiicc mpich '-I/opt/intel/mpi/include' '-L/opt/intel/mpi/lib/release -L/opt/intel/mpi/lib -Xlinker --enable-new-dtags -Xlinker -rpath -Xlinker /opt/intel/mpi/lib -lmpifort -lmpi -ldl -lrt -lpthread'

compiler craycc <<'END'
--cray-print-opts=cflags: -I/opt/cray/pe/mpich/8.1.28/ofi/gnu/12.3/include -I/opt/cray/pe/pmi/6.1.13/include
--cray-print-opts=libs: -L/opt/cray/pe/mpich/8.1.28/ofi/gnu/12.3/lib -Wl,--as-needed,-lmpi_gnu_123 -ldl
END
finds craycc other '-I/opt/cray/pe/mpich/8.1.28/ofi/gnu/12.3/include -I/opt/cray/pe/pmi/6.1.13/include' \
    '-L/opt/cray/pe/mpich/8.1.28/ofi/gnu/12.3/lib -Wl,--as-needed,-lmpi_gnu_123 -ldl'

# Another wrapper, which says nothing and does it all by itself.
real=$(command -v mpicc)
printf '#!/bin/sh\ncase $1 in --show* | --cray* | -show | -*_info) exit 1 ;; esac\nexec %s "$@"\n' "$real" >"$tmp/bin/wrapper"
chmod +x "$tmp/bin/wrapper"
finds wrapper other '' ''

# --- what make does with it --------------------------------------------------------------------------
# In a tree of links, so that nothing of this one is built anew.
mkdir "$tmp/tree"
for f in *; do [ "$f" = build ] || ln -s "$PWD/$f" "$tmp/tree/$f"; done
made() { # variable [NAME=VALUE...]: the variable, as make sees it
    variable=$1
    shift
    (cd "$tmp/tree" && env -u MAKEFLAGS -u MAKELEVEL -u MPICC make -pn "$@" help CC=gcc 2>/dev/null | sed -n "s/^$variable :*= *//p" | tail -n 1)
}
is "make links with it" "$(made MPI_LIBS MPICC="$tmp/bin/mpicc.mpich")" '-L/usr/lib/x86_64-linux-gnu -lmpich'
is "by the usual compiler" "$(made MPI_CC MPICC="$tmp/bin/mpicc.mpich")" gcc
is "or by the wrapper that says nothing" "$(made MPI_CC MPICC="$tmp/bin/wrapper")" "$tmp/bin/wrapper"
is "what is given goes before" "$(made MPI_LIBS MPICC="$tmp/bin/mpicc.mpich" MPI_LIBS=-lmine)" '-lmine'
is "also nothing, for a CC that needs none" "$(made MPI_CC MPICC=none MPI_LIBS= MPI_CFLAGS=)" gcc

refused() { # sentence MPICC
    run env -u MAKEFLAGS -u MAKELEVEL make -C "$tmp/tree" -s CC=gcc BUILD="$tmp/built" MPICC="$2" "$tmp/built/mpi"
    ok "$2: make stops" test "$rc" != 0
    like "$2: and says why" "$err" "$1"
}
refused 'no MPI compiler here \(/nowhere/mpicc\); "make deps" installs or names what is missing, MPICC=... names another' /nowhere/mpicc
printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/broken"
chmod +x "$tmp/bin/broken"
refused 'broken does not say what MPI needs .*; give MPI_CFLAGS and MPI_LIBS' "$tmp/bin/broken"
printf '#!/bin/sh\n' >"$tmp/bin/silent"
chmod +x "$tmp/bin/silent"
refused 'silent does not say what MPI needs' "$tmp/bin/silent"

# --- its launcher --------------------------------------------------------------------------------------
for name in mpirun mpirun.mpich mpirun.open; do printf '#!/bin/sh\n' >"$tmp/bin/$name" && chmod +x "$tmp/bin/$name"; done
is "the launcher has the suffix of the compiler" "$("$flags" launcher "$tmp/bin/mpicc.mpich")" "$tmp/bin/mpirun.mpich"
is "or none" "$("$flags" launcher "$tmp/bin/mpiicc")" "$tmp/bin/mpirun"

# A folder that was built with one MPI is built again with another.
record() { # MPICC MPIRUN
    tests/mpi/record "$tmp/built" "$1" "$2" "gcc $("$flags" link "$1")" known
}
record "$tmp/bin/mpicc.mpich" "$tmp/bin/mpirun.mpich"
ok "tests find its launcher" test -x "$tmp/built/tools/mpirun"
touch -d '1 hour ago' "$tmp/built/mpi"
record "$tmp/bin/mpicc.mpich" "$tmp/bin/mpirun.mpich"
ok "the same again changes nothing" test -n "$(find "$tmp/built/mpi" -mmin +30)"
record "$real" "$(command -v mpirun)"
ok "another is noticed" test -z "$(find "$tmp/built/mpi" -mmin +30)"
ok "and the usual names are used where they are its" test ! -e "$tmp/built/tools"
tap_done
