#!/bin/sh
# test_cuda.sh - the plugin for CUDA. On calls of CUDA that are done on host memory, with the CPU's
# kernels: it trains with the bits of the processor. And the real one, without a GPU: says what is missing.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
fake=$PWD/$BUILD/tests/gpu/libfake_cuda.so
real=$PWD/$BUILD/lib/sennit/libsennit_cuda.so
make_tokens "$tmp/tok"
steps=8 eval_every=4 hidden=48 batch=6 every=4

on() { # backend name
    run_file "$tmp/$2.yaml" "$tmp/$2"
    sed -i "s/^run: {/run: {backend: $1, /" "$tmp/$2.yaml"
}
near() { # file other: as many numbers, to the unit of bf16, 2^-8
    ! cmp -s "$1" "$2" && paste "$1" "$2" | awk '
        { off = $1 - $2; bad += NF != 2 || off * off > 2 ^ -16 * $2 * $2 }
        END { exit bad || NR == 0 }'
}
series() { # name
    { metric loss "$tmp/$1/metrics.jsonl" && metric grad_norm "$tmp/$1/metrics.jsonl" &&
        metric val_loss "$tmp/$1/metrics.jsonl"; } >"$tmp/$1.series"
}

# What check-gpu times where there is a GPU: here only that it compares, and goes through to its end.
run env SN_PLUGIN="$PWD/$BUILD/tests/gpu/libfake_device.so" "$BUILD/tests/gpu/bench_codec" 20000
is "the bench of codecs runs on a device of host memory" "$rc" 0
is "it has a row for each codec, in fp32 and bf16" "$(printf '%s\n' "$out" | grep -cE '^\| (bf16|fp8|int|zfp|mpc)')" 26
if [ -e "$fake" ]; then
    for precision in fp32 bf16; do
        on cpu "cpu-$precision"
        run "$train" "$tmp/cpu-$precision.yaml"
        on cuda "cuda-$precision"
        run env SN_PLUGIN="$fake" "$train" "$tmp/cuda-$precision.yaml"
        is "$precision: the plugin trains" "$rc" 0
        [ "$rc" = 0 ] || tap_lines err "$err"
        like "$precision: the header names the device" "$err" 'a fake GPU, sm_90, driver for CUDA'
        series "cpu-$precision" && series "cuda-$precision"
        # Residuals are added within products, where the sum is rounded once: to bf16, not to fp32, that is seen.
        case $precision in
        fp32) ok "$precision: its losses are the processor's" cmp -s "$tmp/cuda-$precision.series" "$tmp/cpu-$precision.series" ;;
        *) ok "$precision: its losses are near the processor's, and not all the same" near "$tmp/cuda-$precision.series" "$tmp/cpu-$precision.series" ;;
        esac
        ok "$precision: there are some" test -s "$tmp/cuda-$precision.series"
    done
    family=gpt2 # which has activations and biases
    on cpu cpu-gpt2
    on cuda cuda-gpt2
    run "$train" "$tmp/cpu-gpt2.yaml"
    run env SN_PLUGIN="$fake" "$train" "$tmp/cuda-gpt2.yaml"
    is "gpt2 in bf16: the plugin trains" "$rc" 0
    series cpu-gpt2 && series cuda-gpt2
    ok "gpt2 in bf16: its losses are near the processor's" near "$tmp/cuda-gpt2.series" "$tmp/cpu-gpt2.series"
    run env SN_PLUGIN="$fake" "$BUILD/bin/sennit-plan" "$tmp/cuda-gpt2.yaml" --explain 0
    is "gpt2 in bf16: activations, their slopes and sums of columns are in one with products" \
        "$(printf '%s\n' "$out" | awk '$2 ~ /^(gemm\+.*|act|act_dx|colsum)$/ { n[$2]++ }
            END { print n["gemm+act"], n["gemm+act_dx"], n["gemm+colsum"], n["act"] + n["act_dx"] + n["colsum"] }')" '2 2 8 0'
    family=llama
    precision=fp32
    on cuda marked
    run env SN_PLUGIN="$fake" FAKE_CUDA="copies_out=0" "$train" "$tmp/marked.yaml"
    is "graphs have no copies to the host in their midst" "$rc" 0
    on cuda pageable
    run env SN_PLUGIN="$fake" FAKE_CUDA="no_pin=1" "$train" "$tmp/pageable.yaml"
    is "no memory can be page-locked: it trains and saves" "$rc" 0
    is "no memory can be page-locked: said once" "$(printf '%s\n' "$err" | grep -c 'are not page-locked: page-locking memory: ')" 1
    on cuda none
    run env SN_PLUGIN="$fake" FAKE_CUDA="driver=0 devices=0 rc=35" "$train" "$tmp/none.yaml"
    is "no driver: exit 2" "$rc" 2
    like "no driver: the sentence" "$err" 'run.backend: this host has no NVIDIA driver; run on a node with a GPU, or set cpu'
    run env SN_PLUGIN="$fake" FAKE_CUDA="driver=11040 devices=0 rc=35" "$train" "$tmp/none.yaml"
    is "an old driver: exit 2" "$rc" 2
    like "an old driver: the sentence" "$err" 'the driver of this host is for CUDA 11.4, the plugin was built with [0-9.]*; update the driver, or build'
    run env SN_PLUGIN="$fake" FAKE_CUDA="devices=0" "$train" "$tmp/none.yaml"
    is "no GPU: exit 2" "$rc" 2
    like "no GPU: the sentence" "$err" 'shows no GPU; ask the scheduler for one, and look at CUDA_VISIBLE_DEVICES'
    # Which cuBLASLt, and what keeps it from beginning.
    on cuda library
    run env SN_PLUGIN="$fake" FAKE_CUDA="blas=130103" "$train" "$tmp/library.yaml" --stop-after 1
    like "the run says which cuBLASLt" "$err" "libraries: cuBLASLt 13.1.3 \(.*/tests/gpu/fake/libcublasLt.so.[0-9]+\)"
    run env SN_PLUGIN="$fake" FAKE_CUDA="blas_status=1 driver=12020" "$train" "$tmp/none.yaml"
    is "cuBLASLt that does not begin: exit 2" "$rc" 2
    like "cuBLASLt that does not begin: which, its words, the driver" "$err" \
        'run.backend: cuBLASLt 13.0.2 \(.*/fake/libcublasLt.so.[0-9]+\) does not begin: the library was not initialized \(status 1\); the driver is for CUDA 12.2'
    blas=$(basename "$BUILD"/tests/gpu/fake/libcublasLt.so.*)
    mkdir "$tmp/broken" && echo "no library" >"$tmp/broken/$blas"
    run env SN_PLUGIN="$fake" LD_LIBRARY_PATH="$tmp/broken" "$train" "$tmp/none.yaml"
    is "cuBLASLt that does not open: exit 2" "$rc" 2
    like "cuBLASLt that does not open: the loader's reason" "$err" \
        "run.backend: cuBLASLt: $blas does not open: $tmp/broken/$blas: (file too short|invalid ELF header)"
    cp "$BUILD/tests/gpu/libfake_device.so" "$tmp/broken/$blas"
    run env SN_PLUGIN="$fake" LD_LIBRARY_PATH="$tmp/broken" "$train" "$tmp/none.yaml"
    like "cuBLASLt that lacks a function: which" "$err" \
        "run.backend: cuBLASLt: $tmp/broken/$blas has no cublasLtGetVersion; it is another version than was built for"
    # Channels: which NCCL, and why there are none.
    run env SN_PLUGIN="$fake" FAKE_NCCL=version=22809 "$train" "$tmp/library.yaml" --fresh --stop-after 1
    like "the run says which NCCL" "$err" 'libraries: cuBLASLt .*, NCCL 2.28.9 \(.*/fake/libnccl.so.2\)'
    on cuda apart
    sed -i 's/^layout: {/layout: {tensor: 2, /' "$tmp/apart.yaml"
    none() { # assignments...: two ranks, each with a device, and no channels
        run env SN_PLUGIN="$fake" FAKE_CUDA="apart=1" "$@" tests/mpi/run -n 2 "$train" "$tmp/apart.yaml"
        is "no channels ($*): exit 2" "$rc" 2
    }
    none FAKE_NCCL=version=21604
    like "an old NCCL: its version" "$err" 'run.channels: devices cannot talk to each other, because rank 0 has no channels: NCCL: .*/fake/libnccl.so.2 is version 2.16.4, and channels need 2.18 or later; mend that, or set run.channels: host'
    mkdir "$tmp/nccl" && echo "no library" >"$tmp/nccl/libnccl.so.2"
    none LD_LIBRARY_PATH="$tmp/nccl"
    like "an NCCL that does not open: the reason" "$err" "rank 0 has no channels: NCCL: libnccl.so.2 does not open: $tmp/nccl/libnccl.so.2: (file too short|invalid ELF header)"
    cp "$BUILD/tests/gpu/libfake_device.so" "$tmp/nccl/libnccl.so.2"
    none LD_LIBRARY_PATH="$tmp/nccl"
    like "an NCCL that lacks a function: which" "$err" "rank 0 has no channels: NCCL: $tmp/nccl/libnccl.so.2 has no ncclGetVersion; it is another version than was built for"
    run env SN_PLUGIN="$fake" tests/mpi/run -n 2 "$train" "$tmp/apart.yaml" --stop-after 1
    is "ranks of one device: they run" "$rc" 0
    like "ranks of one device: and say why it is slow" "$err" 'ranks talk through the host, which is slow: ranks 0 and 1 share a device; start no more ranks than devices'
    sed -i 's/^run: {/run: {channels: host, /' "$tmp/apart.yaml"
    run env SN_PLUGIN="$fake" FAKE_CUDA="apart=1" FAKE_NCCL_LOG="$tmp/nccl.log" tests/mpi/run -n 2 "$train" "$tmp/apart.yaml" --fresh --stop-after 1
    is "run.channels: host: they run" "$rc" 0
    ok "run.channels: host: NCCL is asked for nothing" test ! -e "$tmp/nccl.log"
    sed -i 's/channels: host/channels: direct/' "$tmp/apart.yaml"
    run "$train" "$tmp/apart.yaml"
    is "run.channels: direct: exit 2" "$rc" 2
    sed -i 's/channels: direct, //' "$tmp/apart.yaml"
    run env SN_PLUGIN="$fake" SN_SHARED_CHANNELS=1 FAKE_NCCL_LOG="$tmp/nccl.log" timeout -k 5 60 tests/mpi/run -n 2 "$train" "$tmp/apart.yaml" --fresh --stop-after 1
    like "SN_SHARED_CHANNELS: ranks of one device have channels" "$(cat "$tmp/nccl.log")" '^init [01] of 2, id 1, blocking 0, blocks 0$'
    sed -i 's/^run: {/run: {channel_ctas: 8, hang_timeout: 2, /' "$tmp/apart.yaml"
    meets() { # habits of NCCL
        run env SN_PLUGIN="$fake" FAKE_CUDA="apart=1" FAKE_NCCL="$1" FAKE_NCCL_LOG="$tmp/met.log" timeout -k 5 60 tests/mpi/run -n 2 "$train" "$tmp/apart.yaml" --fresh --stop-after 1
    }
    meets hangs_at=1
    is "ranks that do not come to a channel: exit 77" "$rc" 77
    like "ranks that do not come to a channel: which, and who they are" "$err" \
        'rank [01] \(.*\): channel of tensor, ranks 0 1: cuda: nccl: joining: not all have come after 2 s'
    like "run.channel_ctas is what NCCL gets" "$(cat "$tmp/met.log")" '^init [01] of 2, id 1, blocking 0, blocks 8$'
    rm -f "$tmp/met.log"
    sed -i 's/^run: {/run: {channel_register: true, /' "$tmp/apart.yaml"
    meets version=22809
    is "run.channel_register: both arenas of both ranks are NCCL's" "$(grep -c '^memory$' "$tmp/met.log")" 4
    is "run.channel_register: each is registered with each channel" "$(grep -c '^register$' "$tmp/met.log")" "$((2 * $(grep -c '^init' "$tmp/met.log")))"
    sed -i 's/channel_register: true, //' "$tmp/apart.yaml"
    meets fails_at=1
    is "a channel that fails: exit 1" "$rc" 1
    like "a channel that fails: the reason" "$err" 'channel of tensor, ranks 0 1: cuda: nccl: joining: remote process exited or there was a network error'

    # Groups of one axis that lie in each other: the tensor ranks' communicator is split into those with copies of one head.
    kv_heads=2 on cuda parts
    sed -i 's/^layout: {/layout: {tensor: 4, /; s/^run: {/run: {channel_ctas: 8, hang_timeout: 2, /' "$tmp/parts.yaml"
    splits() { # assignments...
        rm -f "$tmp/parts.log"
        run env SN_PLUGIN="$fake" FAKE_CUDA="apart=1" FAKE_NCCL_LOG="$tmp/parts.log" "$@" timeout -k 5 100 tests/mpi/run -n 4 "$train" "$tmp/parts.yaml" --fresh --stop-after 1
    }
    splits FAKE_NCCL=version=22809
    is "parts: all 4 ranks join one communicator" "$(grep '^init' "$tmp/parts.log" | sort)" "$(for i in 0 1 2 3; do echo "init $i of 4, id 1, blocking 0, blocks 8"; done)"
    is "parts: and split it in two, sharing what it has" "$(grep '^split' "$tmp/parts.log" | sort)" \
        "$(for i in '0, place 0' '0, place 1' '2, place 0' '2, place 1'; do echo "split part $i, shared, blocking 0, blocks 8"; done)"
    is "parts: and they end before it does" "$(grep -m 1 -E '^(destroy|abort)' "$tmp/parts.log" | sed 's/.* //')" part
    splits FAKE_NCCL=split_stuck=1
    is "a split to which not all come: exit 77" "$rc" 77
    like "a split to which not all come: which, and who they are" "$err" \
        'rank [0-3] \(.*\): channel of kv copies, ranks [02] [13]: cuda: nccl: splitting: not all have come after 2 s'
    splits FAKE_NCCL=split_lost=1
    is "a split that fails: exit 1" "$rc" 1
    like "a split that fails: the reason" "$err" 'channel of kv copies, ranks [02] [13]: cuda: nccl: splitting: remote process exited or there was a network error'
    ok "a split that fails: what it is a part of is aborted, too" grep -qE '^(abort|destroy)$' "$tmp/parts.log"
    mkdir "$tmp/old" && LC_ALL=C sed 's/ncclCommSplit/ncclCommSplot/g' "$BUILD/tests/gpu/fake/libnccl.so.2" >"$tmp/old/libnccl.so.2"
    splits LD_LIBRARY_PATH="$tmp/old"
    is "an NCCL that splits nothing: each group joins, every rank twice" "$(grep -c '^init' "$tmp/parts.log")" 8
    is "an NCCL that splits nothing: said once" "$(printf '%s\n' "$err" | grep -c 'cuda: its library splits no channels: that of kv copies shares nothing with that of tensor')" 1

    # What a device is asked to compute before a run believes it. Kinds of operations: 1 copies, 16 multiplies.
    run env SN_PLUGIN="$fake" FAKE_CUDA="image=0" "$train" "$tmp/none.yaml"
    is "no code for the device: exit 2" "$rc" 2
    like "no code for the device: the sentence" "$err" \
        'run.backend: a fake GPU is sm_90; the plugin was built for CUDA_ARCH="[0-9 ]+", of which the driver \(for CUDA 13.0\) has no code for it \(.*\); build it with CUDA_ARCH=90'
    run env SN_PLUGIN="$fake" FAKE_CUDA="spoils=1" "$train" "$tmp/none.yaml"
    is "a copy with a wrong bit: exit 2" "$rc" 2
    like "a copy with a wrong bit: the sentence" "$err" 'run.backend: the first kernel \(copy, fp32 to 16 bits\): element 0 is [-0-9.]+, not -125; '
    run env SN_PLUGIN="$fake" FAKE_CUDA="spoils=16" "$train" "$tmp/none.yaml"
    is "a product with a wrong bit: exit 2" "$rc" 2
    like "a product with a wrong bit: the sentence" "$err" 'run.backend: the first product \(cuBLASLt, 64 x 64 x 64\): row 0, column 0 is [-0-9.e]+, not [-0-9]+; '
    run env SN_PLUGIN="$fake" FAKE_CUDA="warpgroup=2" "$train" "$tmp/none.yaml"
    is "a wrong warpgroup product: exit 2" "$rc" 2
    like "a wrong warpgroup product: the sentence" "$err" 'run.backend: the first warpgroup product: row 0, column 0 is [-0-9.]+, not [-0-9]+; '
    run env SN_PLUGIN="$fake" FAKE_CUDA="warpgroup=2 arch=80" "$train" "$tmp/library.yaml" --stop-after 2
    is "sm_80 is asked for none: it trains" "$rc" 0
    run env SN_PLUGIN="$fake" FAKE_CUDA="warpgroup=0 algorithms=0" "$train" "$tmp/library.yaml" --stop-after 3
    is "no warpgroup products in the plugin: it trains" "$rc" 0
    like "no warpgroup products in the plugin: and says so" "$err" \
        'the plugin \(CUDA_ARCH="[0-9 ]+"\) has no warpgroup products for sm_90: attention takes mma.sync, which is slower; build it with CUDA_ARCH=90'
    like "no algorithm of cuBLASLt: said, too" "$err" 'cuBLASLt has no algorithm for the first product: kernels of our own multiply'
    sed 's/hang_timeout: [0-9]*, //; s/^run: {/run: {hang_timeout: 1, /' "$tmp/none.yaml" >"$tmp/hangs.yaml"
    run env SN_PLUGIN="$fake" FAKE_CUDA="hangs=1" timeout -k 5 60 "$train" "$tmp/hangs.yaml"
    is "a first kernel that never ends: exit 77" "$rc" 77
    like "a first kernel that never ends: the sentence" "$err" 'cuda: the first kernel \(copy, fp32 to 16 bits\) has not ended after 1 s'
    run env SN_PLUGIN="$fake" FAKE_CUDA="fail_at=60" "$train" "$tmp/none.yaml"
    is "a kernel that fails: exit 1" "$rc" 1
    like "a kernel that fails: it is named" "$err" "[a-z_]* [a-z0-9._]*: cuda: (a mark: )?an illegal memory access"
    precision=bf16 seq=1024 batch=64 micro=64
    on cuda head && sed -i 's/vocab: 256/vocab: 50304/' "$tmp/head.yaml"
    run env SN_PLUGIN="$fake" "$BUILD/bin/sennit-plan" "$tmp/head.yaml" --explain 0
    is "64 x 1024 tokens, 50,304 words: the head is cut into 4 blocks of 16 x 1024 rows" \
        "$(printf '%s\n' "$out" | grep -c ' gemm .*(rows \(0..16383\|16384..32767\|32768..49151\|49152..65535\)), head.weight -> ')" 4
    is "and has no others" "$(printf '%s\n' "$out" | grep -c ' cross_entropy ')" 4
    seq="" batch=6 micro=""
    precision=bf16 fp8=tensorwise
    on cuda old
    run env SN_PLUGIN="$fake" FAKE_CUDA="arch=80" "$train" "$tmp/old.yaml"
    is "train.fp8 on sm_80: exit 2" "$rc" 2
    like "train.fp8 on sm_80: the sentence" "$err" 'run.backend: train.fp8 needs sm_89 or later, and a fake GPU is sm_80; leave it out, or take another GPU'
    run env SN_PLUGIN="$fake" FAKE_CUDA="arch=89" "$train" "$tmp/old.yaml" --stop-after 2
    is "train.fp8 on sm_89: it trains" "$rc" 0
    is "what the plugin has to tell is told once, not each step" "$(printf '%s\n' "$err" | grep -c 'fake note [01]')" 2
    fp8=blockwise
    on cuda blocks
    for arch in 89 100 120; do
        run env SN_PLUGIN="$fake" FAKE_CUDA="arch=$arch" "$train" "$tmp/blocks.yaml"
        is "blockwise on sm_$arch: exit 2" "$rc" 2
        like "blockwise on sm_$arch: the sentence" "$err" "run.backend: train.fp8: blockwise needs sm_90, and a fake GPU is sm_$arch; take tensorwise, or another GPU"
    done
    run env SN_PLUGIN="$fake" FAKE_CUDA="arch=90 blas=120805" "$train" "$tmp/blocks.yaml"
    is "blockwise with an old cuBLASLt: exit 2" "$rc" 2
    like "blockwise with an old cuBLASLt: the sentence" "$err" 'train.fp8: blockwise needs cuBLASLt 12.9 or later, and this is version 120805; take tensorwise, or a later CUDA'
    run env SN_PLUGIN="$fake" FAKE_CUDA="arch=90" "$train" "$tmp/blocks.yaml" --stop-after 2
    is "blockwise on sm_90: it trains" "$rc" 0
    fp8=none precision=fp32
    nvtx=$PWD/$BUILD/tests/gpu/libfake_nvtx.so
    if [ -e "$nvtx" ]; then # a step of 6 micro-batches in pieces, one as graphs, and those twice; five micro-batches share a graph
        eval_every=0
        on cuda watched
        run env SN_PLUGIN="$fake" NVTX_INJECTION64_PATH="$nvtx" FAKE_NVTX="$tmp/ranges" "$train" "$tmp/watched.yaml" --stop-after 4
        is "a tool that listens: it trains" "$rc" 0
        like "a tool that listens: all ranges that begin end, in the domain" "$(tail -1 "$tmp/ranges")" \
            '^sennit: ([0-9]+) begun, \1 ended, 0 strange$'
        is "a tool that listens: a range for each step" "$(grep -c '^0 train, step [1-4]$' "$tmp/ranges")" 4
        is "a tool that listens: an operation of each micro-batch in the step in pieces, and of the two that are kept" \
            "$(grep -cE '^1 cross_entropy [a-z0-9._]*, micro-batch [0-5]$' "$tmp/ranges")" \
            $(((6 + 2) * $(SN_PLUGIN=$fake "$BUILD/bin/sennit-plan" "$tmp/watched.yaml" --explain 0 | grep -c ' cross_entropy ')))
        is "a tool that listens: the graphs of three steps" "$(sed -nE 's/^[12] graph ([0-9]), step [2-4], up to micro-batch ([0-9])$/\1 \2/p' "$tmp/ranges" | tr '\n' ,)" \
            "$(for step in 2 3 4; do printf '%s,' '0 0' '1 1' '1 2' '1 3' '1 4' '1 5' '2 5' '3 5'; done)"
        series watched && on cuda unwatched && run env SN_PLUGIN="$fake" "$train" "$tmp/unwatched.yaml" --stop-after 4 && series unwatched
        ok "a tool that listens: the losses stay" cmp -s "$tmp/watched.series" "$tmp/unwatched.series"
        eval_every=4
    else
        skip "ranges for profilers" "no nvtx3/nvToolsExt.h here"
    fi
    # What the driver says of the device, by a library of ours; without one nothing is said. Asked at most once a second.
    nvml=$PWD/$BUILD/tests/gpu/nvml steps=6 eval_every=0 every=0
    told() { # name FAKE_NVML: a run of less than a second
        on cuda "$1"
        run env SN_PLUGIN="$fake" LD_LIBRARY_PATH="$nvml" FAKE_NVML="$2" "$train" "$tmp/$1.yaml"
    }
    told cool "throttle=4"
    is "the driver is asked: it trains" "$rc" 0
    like "the driver is asked: what it says is in the metrics" "$(head -1 "$tmp/cool/metrics.jsonl")" \
        '"gpu": \{"sm_mhz": 1980, "memory_mhz": 2619, "power_w": 650, "temperature_c": 61, "memory_used_bytes": 53687091200, "ecc_corrected": 3, "ecc_uncorrected": 0, "xid": 0, "throttle": \["power_cap"\]\}'
    run "$BUILD/bin/sennit-run" status "$tmp/cool"
    like "the driver is asked: status says it in a line" "$out" 'device 0 +1980 MHz, 650 W, 61 C, slowed: power_cap'
    ok "a device at its power cap is no fault" test ! -e "$tmp/cool/ranks/rank-00000.health.jsonl"
    told hot "throttle=72 celsius=91"
    like "a device that is too hot: it is said at once" "$err" 'rank 0 \(.*\), step 1: device: throttled hw_thermal \(91\)'
    run "$BUILD/bin/sennit-run" why "$tmp/hot"
    like "a device that is too hot: why names it" "$out" \
        'likely because the device of rank 0 \(.*\) was slowed down \(hw_thermal, 91 C\) by step 1 \(the gravest of 2 such reports\)'
    # Longer than a second, so that it is asked twice.
    steps=4000
    on cuda failing
    sed -i 's/^run: {/run: {hang_timeout: 60, /' "$tmp/failing.yaml"
    SN_PLUGIN=$fake LD_LIBRARY_PATH=$nvml FAKE_NVML="throttle=0 uncorrected=2 xid=79" "$train" "$tmp/failing.yaml" 2>"$tmp/failing.err" &
    pid=$!
    for _ in $(seq 1 600); do
        grep -qs xid "$tmp/failing/ranks/rank-00000.health.jsonl" && break
        sleep 0.1
    done
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    run "$BUILD/bin/sennit-run" why "$tmp/failing"
    like "memory that fails: why names it before what the driver says of it" "$out" \
        'likely because the device of rank 0 \(.*\) had 2 uncorrected memory errors by step [0-9]+ \(the gravest of 2 such reports\)'
    is "memory that fails: each thing is written once" "$(wc -l <"$tmp/failing/ranks/rank-00000.health.jsonl")" 2
    steps=6
    told unloaded "rc=9"
    is "a driver that does not answer: it trains" "$rc" 0
    is "a driver that does not answer: one line says so" "$(printf '%s\n' "$err" | grep -c 'the device are not known: NVML: it does not begin: Driver Not Loaded')" 1
    is "a driver that does not answer: the metrics have nothing of it" "$(grep -c '"gpu"' "$tmp/unloaded/metrics.jsonl")" 0
    on cuda without
    run env SN_PLUGIN="$fake" "$train" "$tmp/without.yaml"
    if [ -e /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 ]; then
        skip "no library of the driver's" "there is one here"
    else
        like "no library of the driver's: one line says so" "$err" 'clocks, power and errors of the device are not known: NVML does not open: libnvidia-ml.so.1'
    fi
    steps=8 eval_every=4 every=4 precision=bf16
    run env SN_PLUGIN="$fake" "$train" "$tmp/none.yaml" --tune "$tmp/tuned.yaml"
    is "--tune by the plugin: exit 0" "$rc" 0
    is "--tune by the plugin: its lines" "$(grep -c '"fake choice [01]"' "$tmp/tuned.yaml")" 2
    on cuda first && sed 's/layers: 2/layers: 3/' "$tmp/first.yaml" >"$tmp/second.yaml"
    run env SN_PLUGIN="$fake" "$BUILD/bin/sennit-plan" calibrate "$tmp/first.yaml" "$tmp/second.yaml" --seconds 0 -o "$tmp/m.yaml"
    is "calibrate by the plugin's clocks: exit 0" "$rc" 0
    [ "$rc" = 0 ] || tap_lines err "$err"
    like "calibrate by the plugin's clocks: the device is in the file" "$(cat "$tmp/m.yaml")" 'name: "?a fake GPU, sm_90'
    like "calibrate by the plugin's clocks: products take some time" "$(cat "$tmp/m.yaml")" 'op: gemm, .*seconds: [1-9]'
    precision=fp32
else
    skip "the plugin for CUDA trains" "no headers of CUDA here"
fi

if [ -e "$real" ]; then # 32 MiB are what products get (kernels/cuda/gemm.h)
    on cuda planned
    run env SN_PLUGIN="$real" "$BUILD/bin/sennit-plan" "$tmp/planned.yaml" --json
    is "the real plugin plans without a driver" "$rc" 0
    is "its kernels' workspace" "$(printf '%s\n' "$out" | sed -n 's/.*"workspace": \([0-9]*\).*/\1/p' | head -n 1)" 33554432
    is "and nothing is left to say" "$err" ""
    # the largest product is that of gate and up, or its gradient: heads of 48, 2 x 160 of ffn, 64 tokens
    precision=bf16
    for fp8 in tensorwise blockwise; do
        on cuda "planned-$fp8"
        run env SN_PLUGIN="$real" "$BUILD/bin/sennit-plan" "$tmp/planned-$fp8.yaml" --json
        is "$fp8: the real plugin plans" "$rc" 0
        printf '%s\n' "$out" | sed -n 's/.*"workspace": \([0-9]*\).*/\1/p' | head -n 1 >"$tmp/$fp8.room"
    done
    # workspace, head, copies of w (bf16) and of dy or x; blockwise: factors of lines and blocks too
    is "tensorwise: copies beside the workspace" "$(cat "$tmp/tensorwise.room")" $((33554432 + 256 + 64 * 320 * 2 + 320 * 48 * 2))
    more=$(($(cat "$tmp/blockwise.room") - $(cat "$tmp/tensorwise.room")))
    ok "blockwise: factors beside them ($more bytes)" test "$more" -gt 0
    precision=fp32 fp8=none
else
    skip "the real plugin plans without a driver" "it is not built: no nvcc here"
fi
if [ ! -e "$real" ]; then
    skip "the real plugin says what is missing" "it is not built: no nvcc here"
elif [ -e /dev/nvidia0 ] || [ -e /proc/driver/nvidia ]; then
    skip "the real plugin says what is missing" "there is a GPU here: make check-gpu"
else
    on cuda real
    run env SN_PLUGIN="$real" "$train" "$tmp/real.yaml"
    is "the real plugin without a driver: exit 2" "$rc" 2
    like "the real plugin without a driver: the sentence" "$err" 'run.backend: this host has no NVIDIA driver'
fi
run tests/gpu/check
is "check-gpu without a GPU: ends" "$rc" 0
like "check-gpu without a GPU: and says so" "$out" 'check-gpu: SKIP: |points passed|^ok'
tap_done
