#!/bin/sh
# test_install.sh - make install, uninstall and dist: what is installed works from where it lies.
# shellcheck disable=SC2317  # functions are called through run
# shellcheck disable=SC2013,SC2016  # no header's name holds a blank; bash expands it, not this shell
. tests/lib/tap.sh
need tclsh python3 git

# Paths with a blank, since a packager's may have one.
stage="$tmp/a stage" prefix=/opt/sennit
make_it() { # target
    env -u MAKEFLAGS -u MAKELEVEL make -s "$1" BUILD="$BUILD" PREFIX="$prefix" DESTDIR="$stage" SAN="${SAN:-}" ${CC:+"CC=$CC"}
}
case $BUILD in */san) SAN=1 && export SAN ;; esac

run make_it install
is "make install: exit code" "$rc" 0
[ "$rc" = 0 ] || tap_lines stderr "$err"
root=$stage$prefix
for binary in "$BUILD"/bin/sennit-*; do
    name=$(basename "$binary")
    case $name in *.*) continue ;; esac
    run "$root/bin/$name" --version
    like "$name runs" "$out" "^$name [0-9]"
    ok "$name has its man page" test -s "$root/share/man/man1/$name.1"
    ok "$name has its completion" test -s "$root/share/bash-completion/completions/$name"
done

# --- debug information is for who builds ------------------------------------------------------------
is "nothing for debuggers is installed" "$(readelf -S "$root/bin/sennit-train" "$root/libexec/sennit/sennit-mpi" "$root/lib/libsennit.a" | grep -c '[.]debug_info')" 0
like "the names of functions are" "$(readelf -S "$root/bin/sennit-train")" '[.]symtab'
run env STRIP= DESTDIR="$tmp/whole" PREFIX="$prefix" BUILD="$BUILD" VERSION=1 packaging/install
like "unless it is asked for ($rc)" "$(readelf -S "$tmp/whole$prefix/bin/sennit-train")" '[.]debug_info'
rm -rf "$tmp/whole"

# --- login nodes may have no MPI -----------------------------------------------------------------
for name in plan run data convert; do
    is "sennit-$name needs no MPI" "$(readelf -d "$root/bin/sennit-$name" | grep 'NEEDED.*libmpi')" ''
done
like "sennit-train needs it" "$(readelf -d "$root/bin/sennit-train")" 'NEEDED.*libmpi'
mv "$root/libexec" "$tmp/libexec"
for words in 'plan calibrate' 'convert --inspect'; do
    # shellcheck disable=SC2086  # words
    run env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$root/bin/sennit-"$words x
    is "ranks of sennit-$words have no program to go on as: exit code" "$rc" 2
    like "and say so" "$err" "$root/libexec/sennit/sennit-mpi: cannot be started: No such file or directory; .* need it: \`make\`"
    # shellcheck disable=SC2086
    run env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 "$root/bin/sennit-"$words x
    is "once" "$rc:$err" 2:
done
mv "$tmp/libexec" "$root/libexec"

# --- templates are found from where the program lies, wherever that was moved to ------------------
mv "$root" "$tmp/moved"
mkdir "$tmp/elsewhere"
cat >"$tmp/elsewhere/run.yaml" <<YAML
run: {name: test, output: out}
model: {preset: llama-tiny}
data: {train: none}
train: {steps: 1, global_batch: 4}
machine: {preset: lassen, nodes: 1}
YAML
planned() { # program
    (cd "$tmp/elsewhere" && env -i PATH=/usr/bin:/bin HOME=/nonexistent "$1" run.yaml)
}
run planned "$tmp/moved/bin/sennit-plan"
is "an installed program finds its templates: exit code" "$rc" 0
[ "$rc" = 0 ] || tap_lines stderr "$err"
ln -s "$tmp/moved/bin/sennit-plan" "$tmp/elsewhere/plan"
run planned "$tmp/elsewhere/plan"
is "also through a link: exit code" "$rc" 0
is "every template is installed" \
    "$(cd templates && find . -type f ! -name demo.sh | sort)" \
    "$(cd "$tmp/moved/share/sennit/templates" && find . -type f | sort)"
mkdir -p "$(dirname "$root")"
mv "$tmp/moved" "$root"

# --- the pages that man pages name are there -------------------------------------------------------
is "every page is installed" "$(cd docs && ls ./*.md)" "$(cd "$root/share/doc/sennit" && ls ./*.md | grep -vE '^./(README|CHANGELOG).md$')"
is "and what they show" "$(ls docs/img)" "$(ls "$root/share/doc/sennit/img")"
is "README.md links to them where they lie" "$(grep -o '](docs/' "$root/share/doc/sennit/README.md")" ''
named=$(grep -ho "[^ (]*share/doc/sennit/[A-Za-z]*\.[a-z]*" "$root"/share/man/man1/*.1 | sort -u)
ok "man pages name some" test "$(echo "$named" | wc -l)" -ge 5
for page in $named; do
    ok "$page is there" test -s "$stage$page"
done
is "and none where nobody finds it" "$(grep -l '[^/]docs/' "$root"/share/man/man1/*.1)" ''

# --- none of Slurm's programs is needed ----------------------------------------------------------
run env -i PATH=/nonexistent "$root/bin/sennit-run" --help
is "sennit-run --help without Slurm: exit code" "$rc" 0
for verb in $(printf '%s\n' "$out" | sed -n 's/^ *sennit-run \([a-z][a-z]*\) .*/\1/p'); do
    run env -i PATH=/nonexistent "$root/bin/sennit-run" "$verb" --help
    is "sennit-run $verb --help without Slurm: exit code" "$rc" 0
    run env -i PATH=/nonexistent "$root/bin/sennit-run" "$verb"
    is "sennit-run $verb with nothing to do: exit code" "$rc" 2
done

# --- pkg-config ----------------------------------------------------------------------------------
export PKG_CONFIG_PATH="$root/lib/pkgconfig"
ok "sennit.pc is valid" pkg-config --validate sennit
is "sennit.pc has the version of the programs" "$(pkg-config --modversion sennit)" \
    "$("$root/bin/sennit-plan" --version | sed 's/.* //')"
like "DESTDIR is in no file" "$(grep -rlF "$stage" "$root/lib/pkgconfig" "$root/share" || echo none)" '^none$'
cat >"$tmp/use.c" <<'C'
#include "lib/base/mem.h"
#include "lib/config/config.h"
#include "slurm/scheduler/hostlist.h"

#include <stdio.h>

int main(void)
{
    struct sn_err err;
    struct sn_hostlist h = {0};
    struct sn_config *c = sn_alloc(sizeof(*c));
    if (sn_hostlist_parse(&h, "n[1-3]", "hosts", &err) != SN_OK || !c)
        return 1;
    printf("%s %d\n", sn_hostlist_name(&h, 2), sn_config_load(c, "missing.yaml", NULL, &err));
    return 0;
}
C
# shellcheck disable=SC2046  # flags are words; the tree lies in DESTDIR, not yet in its prefix
compile() {
    ${CC:-cc} -std=gnu11 ${SAN:+-fsanitize=address,undefined} -o "$tmp/use" "$tmp/use.c" \
        -I"$root/include/sennit" -D_GNU_SOURCE -L"$root/lib" \
        $(pkg-config --static --libs sennit)
}
run compile
is "a program links with the library: exit code" "$rc" 0
[ "$rc" = 0 ] || tap_lines stderr "$err"
is "and works" "$("$tmp/use")" 'n3 1'
bad=
for header in $(cd "$root/include/sennit" && find . -name '*.h'); do
    for needed in $(sed -n 's/^#include "\(.*\)"/\1/p' "$root/include/sennit/$header"); do
        [ -e "$root/include/sennit/$needed" ] || bad="$bad $header: $needed;"
    done
done
is "no installed header includes one that is not" "$bad" ''

# --- completion ----------------------------------------------------------------------------------
completes() { # word... : what bash offers for the last one
    PATH="$root/bin:$PATH" bash -c '
        . "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _sennit "$1" "${COMP_WORDS[COMP_CWORD]}" ""
        printf "%s\n" "${COMPREPLY[@]}"' "$root/share/bash-completion/completions/sennit" "$@" | sort -u
}
flags() { # program... : of its --help
    "$@" --help | grep -oE -e '(^|[^-a-z])--[a-z][a-z-]*' | sed 's/^[^-]*//' | sort -u
}
for binary in "$root"/bin/sennit-*; do
    name=$(basename "$binary")
    is "$name: every option is completed" "$(completes "$name" --)" "$(flags "$binary")"
    for verb in $("$binary" --help | sed -n "s/^\(usage:\)\{0,1\} *$name \([a-z][a-z-]*\) .*/\2/p" | sort -u); do
        like "$name $verb is completed" "$(completes "$name" "$(echo "$verb" | cut -c1-2)")" "^$verb\$"
        is "$name $verb: every option is completed" "$(completes "$name" "$verb" --)" "$(flags "$binary" "$verb")"
    done
    ok "$name is known to bash" bash -c '. "$0"; complete -p "$1" >/dev/null' \
        "$root/share/bash-completion/completions/$name" "$name"
done
like "run files are completed" "$(cd "$tmp/elsewhere" && completes sennit-plan ru)" '^run.yaml$'

# --- module file, package recipe -------------------------------------------------------------------
version=$("$root/bin/sennit-plan" --version | sed 's/.* //')
module=$root/share/modulefiles/sennit/$version
cat >"$tmp/module.tcl" <<'TCL'
proc module-whatis {args} {}
proc conflict {name} {}
proc prepend-path {name path} { puts "$name $path" }
source [lindex $argv 0]
ModulesHelp
TCL
run tclsh "$tmp/module.tcl" "$module"
is "the module file is Tcl: exit code" "$rc" 0
like "it adds the programs to the path" "$out" "^PATH $prefix/bin\$"
missing=
for folder in $(printf '%s\n' "$out" | sed 's/.* //'); do
    [ -d "$stage$folder" ] || missing="$missing $folder"
done
is "every folder that it names exists" "$missing" ''
like "its help names the version" "$err" "$version"
like "the module file begins as the standard says" "$(head -1 "$module")" '^#%Module1.0'

recipe=packaging/spack/packages/sennit/package.py
ok "the Spack recipe is Python" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$recipe"
missing=
for name in hwloc hdf5 libyaml jansson xxhash mpi; do
    grep -q "depends_on(\"${name}[\"@ ]" "$recipe" || missing="$missing $name"
done
is "the Spack recipe depends on every library of tools/deps" "$missing" ''
is "and tools/deps knows no other" \
    "$(sed -n 's/^required *header:\([a-z0-9]*\)\.h .*/\1/p' tools/deps | sort | xargs)" \
    'hdf5 hwloc jansson stdio xxhash yaml'

# --- away again ------------------------------------------------------------------------------------
touch "$root/bin/of-others"
run make_it uninstall
is "make uninstall: exit code" "$rc" 0
is "nothing is left but what others put there" "$(find "$stage" -type f -o -type l)" "$root/bin/of-others"

# --- dist ------------------------------------------------------------------------------------------
if git rev-parse HEAD >/dev/null 2>&1; then
    run env -u MAKEFLAGS -u MAKELEVEL make -s dist
    is "make dist: exit code" "$rc" 0
    tar -tzf "build/sennit-$version.tar.gz" >"$tmp/listed"
    ok "the archive has the Makefile" grep -qx "sennit-$version/Makefile" "$tmp/listed"
    is "and every file that is committed" "$(grep -vc '/$' "$tmp/listed")" \
        "$(git ls-tree -r --name-only HEAD | wc -l | tr -d ' ')"
else
    skip "make dist: exit code" "this is no clone"
fi

tap_done
