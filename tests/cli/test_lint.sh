#!/bin/sh
# Each rule of tools/lint fires on a planted violation, names its line and says what would work; and
# code that only looks like a violation passes.
set -u
. tests/lib/tap.sh

mkdir "$tmp/tree"
cp -R Makefile tools tests lib kernels checkpoint slurm bin docs templates "$tmp/tree" 2>/dev/null
here=$(pwd)
cd "$tmp/tree" || exit 1
rm -rf build
put() { # file: what comes on standard input
    mkdir -p "$(dirname "$1")" && cat >"$1"
}

put kernels/plant.c <<'END'
#include "lib/base/err.h"
END
put lib/layout/plant.c <<'END'
#include "lib/model/model.h"
#include "plant.h"
END
put lib/program/plant.c <<'END'
/* #include "lib/data/data.h" would be wrong */
#include "lib/data/data.h"
END
put bin/plant.c <<'END'
#include <mpi.h>
#  include <hdf5.h>
END
put lib/train/plant.c <<'END'
int sn_plant(void);
int sn_plant(void)
{
#ifdef SOME_SYSTEM
    return 1;
#endif
    return 2;
}
END
put lib/model/plant.c <<'END'
/* a comment may say rank, and so may "a string": */
const char *const sn_plant_text = "rank, comm /* not a comment";
int sn_plant_common(int frank);
int sn_plant_common(int frank)
{
    return frank;
}
int sn_plant_all(int my_rank);
END
put lib/train/plant_maker.c <<'END'
/* cudaMalloc in a comment, and "cudaFree" in a string */
void sn_plant_maker(void **p);
void sn_plant_maker(void **p)
{
    cudaMalloc(p, 1);
    ncclGroupStart();
}
END
put lib/cost/plant_family.c <<'END'
/* A comment may name SN_LLAMA. */
static const char *const text = "SN_GPT2";
static const int not_one = SN_LLAMA_LIKE;
static const int is_one = SN_GPT_NEOX;
END
put lib/search/plant_schedule.c <<'END'
/* A comment may name SN_GPIPE. */
static const char *const text = "SN_1F1B";
static const int is_one = SN_ZERO_BUBBLE;
static const int of_rates = SN_LR_COSINE;
END
put lib/exec/plant_walk.c <<'END'
/* A comment may say x->device. */
int sn_plant(const struct sn_exec *x)
{
    return x->device ? 1 : max->device != x->devices;
}
END
printf '#include "lib/exec/exec_device.h"\nvoid *a = x->device;\n' | put lib/exec/plant_device.c
put lib/nowhere/plant.c </dev/null
put kernels/cuda/plant.cu <<'END'
#include "lib/model/model.h"
struct sn_planted {
    int a;
};
void sn_wide(int a, int b, int c, int d, int e, int f, int g, int h, int (*i)(int, int), int j,
             int k)
{
    if (a)
        for (;;)
            while (b)
                if (c)
                    if (d)
                        return;
}
END
put kernels/cpu/plant.h <<'END'
struct sn_planted {
    int a;
};
struct sn_planted_twice {
    int a;
};
END
put slurm/plant.h <<'END'
struct sn_planted_twice {
    int b;
};
int sn_seven(int a, int b, int c, int d, int e, int f, int g, int h);
static int sn_eight(int a, int b, int c, int d, int e, int f, int g, int h)
{
    return a;
}
END
put lib/base/plant.h <<'END'
#ifndef SN_PLANT_H
#define SN_PLANT_H
size_t sn_plant_size(void);
#endif
END
put lib/base/bare.h <<'END'
int sn_bare(void);
END
put lib/search/plant.c <<'END'
#include "lib/base/mem.h"
void sn_plant(char *a, const char *b); /* strcpy( in a comment */
void sn_plant(char *a, const char *b)
{
    strcpy(a, b);
    sn_free(a);
    free (a);
}
END
{
    echo 'void sn_long(void);'
    echo 'void sn_long(void)'
    echo '{'
    for i in 0 1 2 3 4 5 6 7; do for j in 0 1 2 3 4 5 6 7 8 9; do echo "    /* $i$j */"; done; done
    echo '}'
} | put lib/config/plant_long.c
{ i=0; while [ $i -lt 501 ]; do echo '/* line */'; i=$((i + 1)); done; } | put lib/config/plant_500.c
{ i=0; echo '/* Longer than 500 lines because this is a table. */'
  while [ $i -lt 501 ]; do echo '/* line */'; i=$((i + 1)); done; } | put lib/config/plant_reason.c
printf '%s\n' "/* see /wor""k/main */" 'int sn_a(void); ' '	int sn_b(void);' | put lib/base/plant.c
printf '%s\n' 'static int hits;' 'int sn_hit(void);' 'int sn_hit(void) { return ++hits; }' \
    'extern const char *const sn_names[]; const char *const sn_names[] = {"a", "b"};' | put lib/base/state.c
printf '%s\n' '/* Reasons: NOWHER''E.md 6; docs/STYLE.md has others. */' 'int sn_c(void);' | put lib/base/pages.c
echo 100 >1
# Where a command's name stands, and where something only looks like one; # 1 .. n is the line.
put tests/cli/plant.sh <<'END'
#!/bin/sh
. tests/lib/tap.sh
tclsh "$tmp/a"
for f in frob1 frob2; do echo "$f frob3"; done
x=$(frob4 "$(echo "`frob5`")") y=${x:-$(frob6)}
VAR=1 env -u HOME A=b timeout -k 5 3 frob7
find . -name '*.c' -exec frob8 {} \;
sh -c 'cd / && frob9'
cat <<SH
a=\$(frob10)
SH
cat <<EOF
frob11
EOF
case $x in frob12 | frob13) frob14 ;; *) frob15 | frob16 && frob17 || ! frob18 ;; esac
local_one() { frob19; }
local_one # frob20
ok "--frob21" frob22
: $(((2 + 3) * 4)) $# "a # b" ; frob23 >frob24 2>&1
if frob25; then while frob26; do :; done; fi
"$train" frob27 <frob28
trap 'frob29' EXIT
END
printf '#!/bin/sh\nneed tclsh\ntclsh x\nclang-format x\n' | put tests/cli/plant_need.sh
printf '#!/bin/sh\npgrep x\nmpirun x\n' | put templates/plant.sh
mkdir -p build/lib/base
${CC:-gcc} -c lib/base/state.c -o build/lib/base/state.o

LIB_OBJ="build/lib/base/state.o build/lib/base/gone.o" tools/lint >"$tmp/lint.out" 2>&1
rc=$?
cd "$here" || exit 1

is "lint fails" "$rc" 1
fires() { # line of lint's output
    ok "fires: $1" grep -qE "^$1" "$tmp/lint.out"
}
passes() { # what must not be named
    ok "passes: $1" sh -c "! grep -q '$1' '$tmp/lint.out'"
}
fires 'direction: kernels/plant.c:1: kernels/ includes lib/base/err.h; it may know kernels/'
fires 'direction: lib/layout/plant.c:1: lib/layout/ includes lib/model/model.h; it may know'
fires 'direction: lib/layout/plant.c:2: includes "plant.h"; name it from the root'
fires 'direction: lib/program/plant.c:2: lib/program/ includes lib/data/data.h'
passes 'lib/program/plant.c:1:'
fires 'headers: bin/plant.c:1: #include <mpi.h>; only lib/comm/comm_mpi.c may'
fires 'headers: bin/plant.c:2: .*hdf5.h>; only checkpoint/format/hdf5_inner.h .*may'
fires 'conditional: lib/train/plant.c:4: #ifdef SOME_SYSTEM; make it a whole file'
fires 'conditional: lib/base/bare.h:1: no include guard'
passes 'conditional: kernels/philox.h'
passes 'conditional: lib/base/plant.h'
fires 'model: lib/model/plant.c:8: the model names communication'
passes 'model: lib/model/plant.c:[1-7]:'
fires 'maker: lib/train/plant_maker.c:5: names a maker.s library'
fires 'maker: lib/train/plant_maker.c:6: names a maker.s library'
passes 'maker: lib/train/plant_maker.c:[1-4]:'
passes 'maker: kernels/'
fires 'globals: build/lib/base/state.o:0: hits is mutable at file scope'
fires 'globals: build/lib/base/gone.o:0: no such object'
passes 'globals: .*sn_names'
fires 'alone: lib/base/plant.h:1: does not compile alone'
fires 'length: lib/config/plant_long.c:3: function sn_long has 82 lines; split it'
fires 'length: lib/config/plant_500.c:1: 501 lines; split it, or say'
passes 'plant_reason'
fires 'direction: kernels/cuda/plant.cu:1: kernels/ includes lib/model/model.h'
fires 'rooms: lib/nowhere/:1: this folder has no row in may_include'
fires 'tags: slurm/plant.h:1: sn_planted_twice is defined in kernels/cpu/plant.h:4 too'
passes 'tags: .* sn_planted '
fires 'families: lib/cost/plant_family.c:4: names the family SN_GPT_NEOX; ask a trait of its row'
passes 'families: lib/cost/plant_family.c:[123]:'
passes 'families: lib/config/'
fires 'schedules: lib/search/plant_schedule.c:3: names the schedule SN_ZERO_BUBBLE; ask a trait of its row'
fires 'schedules: lib/search/plant_schedule.c:4: names the schedule SN_LR_COSINE; ask a trait of its row'
passes 'schedules: lib/search/plant_schedule.c:[12]:'
passes 'schedules: lib/config/'
fires 'backend: lib/exec/plant_walk.c:4: looks at the device of the executor; call the table of its backend'
passes 'backend: lib/exec/plant_walk.c:[1-3]:'
passes 'backend: lib/exec/plant_device.c'
passes 'backend: lib/exec/exec'
fires 'form: kernels/cuda/plant.cu:5: 11 parameters; pass a struct, 10 is the limit'
fires 'form: kernels/cuda/plant.cu:12: 5 levels deep; return early'
fires 'form: slurm/plant.h:5: 8 parameters; pass a struct, 7 is the limit'
passes 'form: slurm/plant.h:4:'
fires 'banned: lib/search/plant.c:5: calls strcpy; use a bounded function'
fires 'banned: lib/search/plant.c:7: calls free; use lib/base/mem.h'
passes 'banned: lib/search/plant.c:[26]:'
calls() { # line number...: of the commands that are found there
    line=$1
    shift
    for number; do fires "commands: tests/cli/plant.sh:$line: calls frob$number, which nothing in tools/deps installs"; done
}
fires 'commands: tests/cli/plant.sh:3: calls tclsh, without which it fails somewhere; say at its head: need tclsh'
calls 5 4 5 6
calls 6 7
calls 7 8
calls 8 9
calls 10 10
calls 15 14 15 16 17 18
calls 16 19
calls 18 22
calls 19 23
calls 20 25 26
calls 22 29
for number in 1 2 3 11 12 13 20 21 24 27 28; do passes "calls frob$number,"; done
passes 'calls local_one'
passes 'commands: tests/cli/plant_need.sh:3'
passes 'commands: .*mpirun'
fires 'commands: templates/plant.sh:2: calls pgrep, which `make` does not install; tools/deps has it as check'
passes 'commands: tests/(cli|lib)/[a-oq-z]'
fires 'text: lib/base/plant.c:1: absolute path of a workplace'
fires 'text: lib/base/plant.c:2: space at the end of the line'
fires 'text: lib/base/plant.c:3: tab; indent with spaces'
fires 'pages: lib/base/pages.c:1: NOWHER[E].md is no page of the tree; name one that is'
passes 'STYLE.md is no page'
fires 'root: 1:1: a file that does not belong at the root; remove it'
passes 'root: Makefile'

# --- what is on every machine -----------------------------------------------------------------------
if command -v dpkg-query >/dev/null; then
    names=$(sed -n "/^everywhere='/,/'$/p" tools/lint | sed "s/^everywhere=//" | tr -d "'" | tr '\n' ' ')
    # shellcheck disable=SC2016  # dpkg-query replaces it
    dpkg-query -W -f='${Package} ${Essential}\n' | awk '$2 == "yes" { print $1 }' >"$tmp/essential"
    for name in $names; do
        printf '%s\n' "/bin/$name" "/usr/bin/$name" "/sbin/$name" "/usr/sbin/$name"
    done | xargs dpkg-query -S 2>/dev/null | awk -v names="$names" '
        FILENAME != "-" { essential[$1] = 1; next }
        { name = $NF; sub(/.*\//, "", name); sub(/:.*/, ""); if (!(name in from)) from[name] = $0 }
        END {
            for (n = split(names, all, " "); n; n--) # of several packages: base-files wants an awk, and dash a sh
                if (all[n] !~ /^(awk|sh)$/ && !(from[all[n]] in essential)) print all[n]
        }' "$tmp/essential" - >"$tmp/strange"
    strange=$(cat "$tmp/strange")
    is "commands that lint takes to be on every machine are in packages that Debian calls essential" "$strange" ''
else
    skip "commands that lint takes to be on every machine" "no dpkg here to ask"
fi
tap_done
