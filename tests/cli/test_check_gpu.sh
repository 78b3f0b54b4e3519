#!/bin/sh
# test_check_gpu.sh - make check-gpu without a GPU: the device of host memory, the emulated kernels and stand-ins for
# NVIDIA's tools. Each section runs; in each a fault is planted, which the report has to name.
# shellcheck disable=SC2016  # what sh -c is given
. tests/lib/tap.sh
need pgrep mount

units=$BUILD/tests/emul
if [ ! -x "$units/test_kernels_cuda" ]; then
    echo "1..0 # SKIP the emulated kernels are not built: no C++ compiler"
    exit 0
fi
fake=$PWD/$BUILD/tests/gpu/libfake_device.so

# --- stand-ins -------------------------------------------------------------------------------------------------
mkdir "$tmp/bin" "$tmp/slow"
cat >"$tmp/bin/nvidia-smi" <<'END'
#!/bin/sh
[ -z "${NO_DRIVER:-}" ] || { echo "NVIDIA-SMI has failed because it couldn't communicate with the driver" && exit 9; }
case $* in
*clocks*) while :; do echo "1755, 2619, 612.10, 61" && sleep 1; done ;;
*) echo "a stand-in" ;;
esac
END
cat >"$tmp/bin/compute-sanitizer" <<'END'
#!/bin/sh
[ "$1 $3 $4 $SN_GUARD" = "--tool --error-exitcode 9 0" ] || { echo "called otherwise: $*" && exit 1; }
[ "${INVALID:-}" != "$2" ] || { echo "========= Invalid __global__ read of size 16 bytes" && exit 9; }
shift 4
"$@" && echo "========= ERROR SUMMARY: 0 errors"
END
cat >"$tmp/bin/ncu" <<'END'
#!/bin/sh
[ -z "${NO_COUNTERS:-}" ] || { echo "==ERROR== ERR_NVGPUCTRPERM - no permission" && exit 1; }
[ -z "${NO_KERNELS:-}" ] || { echo "==WARNING== No kernels were profiled." && exit 0; }
[ "$1 $2 $3 $4 $5" = "--clock-control none --set basic --csv" ] || { echo "called otherwise: $*" && exit 1; }
shift 5
"$@" >/dev/null && echo '"0","a_kernel","Duration","ns","1234"'
END
cat >"$tmp/bin/python" <<'END'
#!/bin/sh
case $2 in
there) echo "PyTorch 9" ;;
*) echo "${POINT:-ok} 1 - a point" && [ -z "${POINT:-}" ] ;;
esac
END
printf '#!/bin/sh\necho "# it sleeps"\nexec sleep 1000\n' >"$tmp/slow/test_kernels_rope"
chmod +x "$tmp"/bin/* "$tmp"/slow/*

check() { # name VARIABLE=VALUE... -- SECTION...: sets $rc and $report
    name=$1
    shift
    run env DRY=1 SN_PLUGIN="$fake" UNITS="$units" REFERENCES="$tmp/references" TORCH_PYTHON="$tmp/bin/python" OUT="$tmp/$name" \
        PATH="$tmp/bin:$PATH" "$@"
    report=$(cat "$tmp/$name/report.md" 2>/dev/null)
}
fails() { # what section case sentence: the last report names the case as the smallest one, and says why
    like "$1: the report names the section's smallest case" "$report" "^\| $2 \|.*\| $3 \|$"
    like "$1: and says why" "$report" "^- $2, $3: .*$4"
}

# --- usage -------------------------------------------------------------------------------------------------------
run tests/gpu/check --list
is "--list: exit 0" "$rc" 0
like "--list: sections with their seconds" "$out" '^  operations +[0-9]+ s  '
run tests/gpu/check no-such
is "a section that is none: exit 2" "$rc" 2
is "and the sentence" "$err" "check-gpu: there is no group or section 'no-such'; --list prints them"
run env BUDGET=soon tests/gpu/check
is "a budget that is none" "$rc $err" "2 check-gpu: BUDGET: got 'soon'; want seconds, a whole number"
if ls /dev/nvidia[0-9]* /dev/dxg >/dev/null 2>&1; then
    skip "without a GPU it says so and ends well" "there is one"
else
    check none FAKE_DEVICE=devices=-1 tests/gpu/check
    is "without a GPU it ends well" "$rc" 0
    like "and says so" "$out" '^1..0 # SKIP no GPU that this build can use'
fi

# Where the plugin is, nobody tells them on a machine: beside their build.
mkdir -p "$tmp/c/tests/gpu" "$tmp/c/lib/sennit"
cp "$BUILD/tests/gpu/bench_ceilings" "$BUILD/tests/gpu/bench_codec" "$tmp/c/tests/gpu/"
run env -u SN_PLUGIN "$tmp/c/tests/gpu/bench_ceilings" first
like "a build without a plugin: it says where it looked" "$rc $out" "^1 run.backend: cuda needs the plugin $tmp/c/lib/sennit/libsennit_cuda.so"
cp "$fake" "$tmp/c/lib/sennit/libsennit_cuda.so"
run env -u SN_PLUGIN "$tmp/c/tests/gpu/bench_ceilings" first
like "the plugin of the build is found" "$rc $out" "^0 name a fake device"
run env -u SN_PLUGIN "$tmp/c/tests/gpu/bench_codec" 2000
like "for codecs too" "$rc $out" "^0 a fake device, 2000 values"

# --- references --------------------------------------------------------------------------------------------------
run env DRY=1 DIVISOR=64 ONLY='^GEMM:(fp32|bf16)' tests/gpu/references "$tmp/references"
is "references are made" "$rc" 0
[ "$rc" = 0 ] || tap_lines err "$err"
like "and counted" "$out" '^references: 3 runs, 2 operations, '
is "ids are those of a whole vocabulary" "$(tests/gpu/zipf 2000 16 | tr ' ' '\n' | sort -un | paste -sd ' ')" \
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"

# --- all is well -------------------------------------------------------------------------------------------------
check good BUDGET=900 tests/gpu/check probe operations unit tiny losses sanitizer resume ranks step speed torch
is "all is well: exit 0" "$rc" 0
[ "$rc" = 0 ] || tap_lines out "$out"
like "the report counts what passed" "$report" '^[0-9]+ right, 0 failed, 0 not done in time, 0 not begun or cut at the end of the time, 4 skipped\.$'
is "skipped is what asks for cuDNN, which that device has not" "$(printf '%s\n' "$report" | grep -c '^- \(losses\|rates\), .*,cudnn.*: cudnn: this device has no cuDNN$')" 4
like "it says that this is no GPU" "$report" '^A dry run: '
like "it has times beside rooflines" "$report" '^\| gemm bf16 64 x 96 x 32 \| l0.attn.qkv \| 2 \|'
like "and tokens a second, with MFU in two ways" "$report" '^\| tiny \| true \| [0-9]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \|$'
like "and clocks" "$report" 'SM clock 1755 to 1755 MHz, at most 612 W'
like "and what PyTorch's side says" "$report" '^- a small gpt2: 1 right, 0 wrong'
is "few files" "$(find "$tmp/good" -type f | wc -l)" 4
ok "metrics are kept" sh -c 'tar -tzf "$1" | grep -q metrics.jsonl' - "$tmp/good/metrics.tar.gz"

# --- a fault in each section -------------------------------------------------------------------------------------
check driver NO_DRIVER=1 SN_EMUL_WRONG=gemm NO_COUNTERS=1 POINT="not ok" tests/gpu/check probe operations kernels torch
is "faults: exit 1" "$rc" 1
fails "no driver" probe nvidia-smi "NVIDIA-SMI has failed"
fails "a wrong product" operations GEMM:fp32 "GEMM:fp32 at sizes / 1024: out 0 \(0, 0\) is .*, want "
fails "no counters" kernels GEMM:bf16 ERR_NVGPUCTRPERM
fails "a wrong result of an operation beside PyTorch's" torch-operations operations "operations: as PyTorch has it"
fails "a wrong step beside PyTorch's" torch-124m gpt2-124m "a small gpt2: as PyTorch has it"
fails "a larger one" torch-1.5b gpt2-1.5b "a small gpt2: as PyTorch has it"

check idle NO_KERNELS=1 tests/gpu/check kernels
fails "a tool that measured nothing" kernels GEMM:bf16 "ncu measured no kernel: ==WARNING== No kernels were profiled"
# Without DRY, as on a machine: what the program is given is what it takes.
run env -u DRY PATH="$tmp/bin:$PATH" WORK="$tmp" UNITS="$units" REFERENCES="$tmp/references" tests/gpu/point counters ZERO:bf16
is "a kernel at its full size: exit 0" "$rc" 0
like "and it is counted" "$out" '^result: 1 kernels$'

check race INVALID=racecheck tests/gpu/check sanitizer
fails "a race" sanitizer racecheck,test_kernels_rope "Invalid __global__ read of size 16"
check fault SN_EMUL_FAULT=5 tests/gpu/check unit
fails "a fault that a device does not survive" unit test_kernels_rope "Bail out! call 5, rope: a planted fault"
tar -xzf "$tmp/fault/logs.tar.gz" -C "$tmp" ./unit.test_kernels_rope.log
is "and only one test is lost to a fault" "$(grep -c '^not ok' "$tmp/unit.test_kernels_rope.log")" 1

check device FAKE_DEVICE=fail_at=30 tests/gpu/check tiny losses resume ranks step calibrate rates codecs
fails "a device that fails" tiny gpt2-fp32-1-step-blocking "\(exit [0-9]+\)"
fails "in whole runs" losses gpt2-fp32 "\(exit [0-9]+\)"
fails "in a resume" resume llama-bf16 "\(exit [0-9]+\)"
fails "with ranks" ranks data-2 "an illegal address was met"
fails "in a large step" step tiny "\(exit [0-9]+\)"
fails "while it is calibrated" calibrate tiny "\(exit [0-9]+\)"
fails "while its speed is measured" rates tiny "\(exit [0-9]+\)"
fails "in a codec" codecs codecs "\(exit [0-9]+\)"
check begin FAKE_DEVICE=fail_at=1 tests/gpu/check ceilings nccl
fails "in its first work" ceilings copy "calibrate: .*an illegal address was met"
fails "ranks without channels, where NCCL was asked for" nccl data-2 "\(exit [0-9]+\)"
check channels tests/gpu/check nccl
fails "ranks that have no channels, where NCCL was asked for" nccl data-2 "devices cannot talk to each other, because rank 0 has no channels"

sed -i '2s/.*/9.5/' "$tmp/references/losses/llama-bf16-none.loss"
sed -i '1s/.*/# 0123456789abcdef/' "$tmp/references/losses/gpt2-fp32-none.loss"
check stale tests/gpu/check losses
like "a loss that differs: the step is named" "$report" '^- losses, llama-bf16: .*step 1: loss 5\.[0-9]*, want 9\.5'
fails "a stale reference" losses gpt2-fp32 "gpt2-fp32-none.loss is stale"

# --- what hangs --------------------------------------------------------------------------------------------------
check slow BUDGET=20 UNITS="$tmp/slow" tests/gpu/check unit probe
is "what hangs: exit 1" "$rc" 1
like "the report says that it was cut" "$report" '^- unit, test_kernels_rope: not done after the [0-9]+ s that were left'
like "and what comes behind it ran" "$report" '^- probe, opens: name a fake device'
mkdir "$tmp/cases"
env CASES="$tmp/cases" END=$(($(date +%s) + 100)) tests/gpu/case section hung 1 "$tmp/slow/test_kernels_rope"
like "a case that hangs is ended after its own limit" "$(cat "$tmp/cases/results")" '^section	hung	TIME	.*not done after 1 s: # it sleeps$'
ok "and nothing of it is left" sh -c '! pgrep -f "$1/slow/test_kernels_rope"' - "$tmp"
# --- the bundle --------------------------------------------------------------------------------------------------
# In a root that has a shell, its usual commands and the C library: what else it needs it brings. The device of host
# memory stands for the plugin, the emulated programs for those that need a GPU.
sentence="the bundle runs where there is nothing else"
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
    skip "$sentence" "a root of its own needs rights of root"
    tap_done
fi
mkdir -p "$tmp/b/bin" "$tmp/b/libexec/sennit" "$tmp/b/lib/sennit" "$tmp/b/tests/gpu" "$tmp/b/tests/emul"
cp "$BUILD"/bin/sennit-train "$BUILD"/bin/sennit-data "$BUILD"/bin/sennit-plan "$tmp/b/bin/"
cp "$BUILD/libexec/sennit/sennit-mpi" "$tmp/b/libexec/sennit/"
cp "$fake" "$tmp/b/lib/sennit/libsennit_cuda.so"
cp "$BUILD/tests/gpu/bench_ceilings" "$units/test_kernels_cuda" "$units/test_kernels_rope" "$tmp/b/tests/gpu/"
cp "$units/test_kernels_cuda" "$tmp/b/tests/emul/"
run env BUILD="$tmp/b" DRY=1 DIVISOR=64 ONLY='^GEMM:bf16' tests/gpu/bundle
is "the bundle is made" "$rc" 0
[ "$rc" = 0 ] || tap_lines err "$err"
like "it says how large it is, with the tree" "$out" 'sennit-gpu.tar.gz: [0-9]+ MiB, and [0-9]+ MiB of the tree'

root=$tmp/root
mkdir -p "$root/bin" "$root/tmp" "$root/proc" "$root/dev" "$root/lib64"
for tool in sh awk sed grep find xargs tar gzip paste cut cksum timeout nproc mktemp date cat tail head tr wc sort rm mkdir mv cp \
    dirname basename env sleep tee cmp id ls uname; do
    found=$(command -v "$tool") && cp -L "$found" "$root/bin/$tool"
done
for f in "$root"/bin/*; do ldd "$f"; done 2>/dev/null | grep -o '/[^ ]*' | sort -u >"$tmp/needs"
ldd "$BUILD/bin/sennit-train" | grep -oE '/[^ ]*/(libc|libm|libdl|librt|libpthread|libresolv|libutil|ld-linux[^/]*)\.so[^ ]*' | sort -u >>"$tmp/needs"
while read -r f; do
    mkdir -p "$root${f%/*}"
    cp -L "$f" "$root$f"
done <"$tmp/needs"
tar -xzf "$tmp/b/sennit-gpu.tar.gz" -C "$root"
# shellcheck disable=SC2317  # run calls it
inside() { # command...: in that root
    unshare -m sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"' "$root" "$root" \
        env -i PATH=/bin HOME=/ TMPDIR=/tmp DRY=1 OUT=/tmp/out SN_PLUGIN=/sennit-gpu/build/lib/sennit/libsennit_cuda.so "$@"
}
run inside /sennit-gpu/check-gpu operations unit tiny losses resume ranks
is "$sentence" "$rc" 0
[ "$rc" = 0 ] || { tap_lines out "$out" && tap_lines err "$err" && cat "$root/tmp/out/report.md" 2>/dev/null; }
like "and its sections pass" "$out" '^ok ranks: 2 of 2 cases'
run inside /sennit-gpu/check-gpu --list
like "its sections can be asked for" "$out" '^speed$'
run inside /sennit-gpu/check-gpu --run sennit-train --version
like "and its commands" "$out" '^sennit-train '
tap_done
