#!/bin/sh
# foreign.sh - the kernels for Arm and POWER: built by compilers for them, run by an emulator (qemu's user mode), and
# what the inner loops of their tiles execute. Says aloud what is skipped where a compiler or the emulator is missing.
#
# usage: BUILD=build [ALL=1] tests/isa/foreign.sh
#   Of each instruction set the test of GEMM on all shapes. ALL=1: every unit test of the kernels, on all sets of a processor.
#   An emulator shows what is computed, not how fast: nothing here is a figure of a processor.
. tests/lib/tap.sh
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL SN_ISA
export OMP_WAIT_POLICY=passive

build() { # architecture, prefix of its tools, file from the root of its build folder...
    at=$BUILD/foreign/$1 arch=$1 prefix=$2
    shift 2
    # shellcheck disable=SC2046 # words
    make --no-print-directory -j2 BUILD="$at" ARCH="$arch" CC="$prefix-gcc" CUDA=/none ZFP_LIBS= $(printf "$at/%s " "$@") >"$tmp/log.$arch" 2>&1
}

emulator_of() { # its name
    command -v "qemu-$1" || command -v "qemu-$1-static"
}

# One unit test in the emulator: its points become one here.
# shellcheck disable=SC2317 # called by ok
right() { # architecture, model of processor, set, program, [argument]
    arch=$1 model=$2 set=$3 program=$4
    shift 4
    if env ${set:+SN_ISA="$set"} "$(emulator_of "$arch")" -cpu "$model" "$BUILD/foreign/$arch/alone/$program" "$@" >"$tmp/test.$arch" 2>&1 &&
        tail -1 "$tmp/test.$arch" | grep -q '^1\.\.[1-9]'; then
        return 0
    fi
    grep -v '^ok' "$tmp/test.$arch" | sed 's/^/# /' | head -20
    return 1
}

# What objdump shows of one step: at least so many products for each load, no sum on the stack, no copies.
# shellcheck disable=SC2317 # called by ok
lean() { # architecture, prefix of its tools, set, file, function, products, loads
    counted=$("$2-objdump" -d "$BUILD/foreign/$1/kernels/cpu/$3/$4.o" | awk -v wanted="$5" -f tests/isa/count.awk)
    echo "# $3 $counted"
    case $counted in
    "$5: $6 products, $7 loads, "*" 0 copies, 0 accesses to the stack, "*) ;;
    *) return 1 ;;
    esac
}

# POWER8's set runs as on POWER9: glibc has an instruction (mffscrni) that POWER8 takes for an older one and qemu refuses.
# --- architecture, prefix of its tools, and what is looked at -----------------------------------------------------------------------
sets='
aarch64 aarch64-linux-gnu     generic max     fp32/vector whole_tile 24 10
aarch64 aarch64-linux-gnu     armbf16 max     bf16/mmla   tile_12    24 8
ppc64le powerpc64le-linux-gnu generic power9  fp32/vector whole_tile 32 12
ppc64le powerpc64le-linux-gnu power9  power9  fp32/vector whole_tile 32 12
ppc64le powerpc64le-linux-gnu power10 power10 bf16/ger    fp32_16    8  6
ppc64le powerpc64le-linux-gnu power10 power10 bf16/ger    bf16_16    8  6
'
missing_for() { # architecture, prefix of its tools: what is not here
    command -v "$2-gcc" >/dev/null || { echo "no $2-gcc here (tools/deps isa)" && return; }
    command -v "$2-objdump" >/dev/null || { echo "no $2-objdump here (tools/deps isa)" && return; }
    emulator_of "$1" >/dev/null || { echo "no qemu-$1 here (tools/deps isa)" && return; }
    echo 'int main(void){return 0;}' >"$tmp/c.c"
    "$2-gcc" -static -fopenmp "$tmp/c.c" -o "$tmp/c" >/dev/null 2>&1 || echo "$2-gcc cannot link a static program (tools/deps isa)"
}

# A set: what it executes, and GEMM.
check_sets() {
    while read -r arch prefix set model file function products loads; do
        [ -n "$arch" ] || continue
        why=$(missing_for "$arch" "$prefix")
        if [ -n "$why" ]; then
            skip "$set: GEMM in the emulator" "$why"
            continue
        fi
        if ! build "$arch" "$prefix" "kernels/cpu/$set/$file.o" "alone/$set/test_gemm"; then
            ok "$set is built" false
            tail -20 "$tmp/log.$arch" | sed 's/^/# /'
            continue
        fi
        ok "$set, $function: a step is $products products, $loads loads, and no more than it needs" \
            lean "$arch" "$prefix" "$set" "$file" "$function" "$products" "$loads"
        [ "$function" = bf16_16 ] || ok "$set: GEMM of every shape, transposition and type" right "$arch" "$model" '' "$set/test_gemm" shapes
    done <<EOF
$sets
EOF
}

# --- all unit tests -----------------------------------------------------------------------------------------------------------------
tests=$(for f in tests/unit/kernels/test_kernels_*.c tests/unit/kernels/test_gemm.c tests/unit/kernels/test_attention*.c tests/unit/kernels/test_cross_entropy.c tests/unit/codecs/test_codec*.c; do
    basename "$f" .c
done)

# The best set, and each by its name, as kernels/cpu.c chooses on such a processor.
check_choice() { # architecture, model, SN_ISA or '', the set
    said=$(env ${3:+SN_ISA="$3"} "$(emulator_of "$1")" -cpu "$2" "$BUILD/foreign/$1/alone/test_kernels_table" 2>&1)
    like "$2${3:+ with SN_ISA=$3}: $4" "$said" "the name: cpu/$4[ ,]"
}

check_all() { # architecture, prefix of its tools, model, set
    why=$(missing_for "$1" "$2")
    if [ -n "$why" ]; then
        skip "$1: every unit test of the kernels" "$why"
        return
    fi
    # shellcheck disable=SC2046,SC2086 # words
    if ! build "$1" "$2" $(printf 'alone/%s ' $tests); then
        ok "the tests for $1 are built" false
        tail -20 "$tmp/log.$1" | sed 's/^/# /'
        return
    fi
    for test in $tests; do
        ok "$1, $3, all sets up to $4: $test" right "$1" "$3" "$4" "$test"
    done
}

check_sets
if [ -n "${ALL:-}" ]; then
    check_all aarch64 aarch64-linux-gnu max armbf16
    check_all ppc64le powerpc64le-linux-gnu power10 power10
    if [ -x "$BUILD/foreign/aarch64/alone/test_kernels_table" ]; then
        check_choice aarch64 cortex-a72 '' generic
        check_choice aarch64 max '' armbf16
        check_choice aarch64 max generic generic
    fi
    if [ -x "$BUILD/foreign/ppc64le/alone/test_kernels_table" ]; then
        check_choice ppc64le power8 '' generic
        check_choice ppc64le power9 '' power9
        check_choice ppc64le power10 '' power10
        check_choice ppc64le power10 power9 power9
    fi
fi
tap_done
