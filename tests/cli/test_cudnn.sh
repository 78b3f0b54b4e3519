#!/bin/sh
# test_cudnn.sh - run.attention: what is refused before a run, what a run says of a cuDNN that is there, too old or
# broken, the memory that is planned; and whether the real cuDNN, where there is one, takes our graphs.
. tests/lib/tap.sh
. tests/lib/train.sh

train=$BUILD/bin/sennit-train
plan=$BUILD/bin/sennit-plan
fake=$PWD/$BUILD/tests/gpu/libfake_cuda.so
real=$PWD/$BUILD/lib/sennit/libsennit_cuda.so
make_tokens "$tmp/tok"
steps=8 eval_every=0 hidden=64 batch=4 precision=bf16

file() { # name keys of run
    run_file "$tmp/$1.yaml" "$tmp/$1"
    sed -i "s/^run: {/run: {$2, /" "$tmp/$1.yaml"
}
refused() { # what sentence
    file refused "${backend:-backend: cuda, }attention: cudnn"
    run "$plan" "$tmp/refused.yaml"
    is "$1: exit 2" "$rc" 2
    like "$1: the sentence" "$err" "run.attention: cudnn $2; take own or auto"
}
backend='backend: cpu, ' && refused "the processor" 'needs a GPU, and run.backend is cpu'
backend=
precision=fp32 && refused "fp32" 'needs train.precision: bf16 or fp16'
precision=bf16 dropout=0.1 && refused "dropout" 'has no dropout of ours \(model.dropout\)'
dropout=0.0 hidden=48 && refused "heads of 12 columns" 'takes heads of 8, 16, ... 128 columns, and those of the model have 12'
hidden=64
file context "backend: cuda, attention: cudnn" && sed -i 's/^layout: {/layout: {context: 2, /' "$tmp/context.yaml"
run "$plan" "$tmp/context.yaml"
is "context parallelism: exit 2" "$rc" 2
like "context parallelism: the sentence" "$err" 'run.attention: cudnn takes whole sequences \(layout.context: 1\); take own or auto'
file other "attention: flash"
run "$plan" "$tmp/other.yaml"
is "another word: exit 2" "$rc" 2

if [ -e "$fake" ]; then
    on() { # attention habits-of-cuDNN [variable...]
        whose=$1 habits=$2
        shift 2
        file on "backend: cuda, attention: $whose"
        run env SN_PLUGIN="$fake" FAKE_CUDNN="$habits" "$@" "$train" "$tmp/on.yaml" --fresh --stop-after 1
    }
    on cudnn version=92101
    is "cuDNN is there: it runs" "$rc" 0
    [ "$rc" = 0 ] || tap_lines err "$err"
    like "cuDNN is there: which" "$err" 'libraries: cuBLASLt .*, cuDNN 9.21.1 \(.*/fake/libcudnn.so.9\)'
    on auto version=92101
    like "auto: which" "$err" 'libraries: cuBLASLt .*, cuDNN 9.21.1 \(.*/fake/libcudnn.so.9\)'
    on own version=92101
    is "own: cuDNN is not opened" "$(printf '%s\n' "$err" | grep -c cuDNN)" 0
    bad() { # what sentence habits [variable...]
        what=$1 sentence=$2
        shift 2
        on cudnn "$@"
        is "$what: exit 2" "$rc" 2
        like "$what: the sentence" "$err" "run.attention: cudnn: $sentence; or take own or auto"
        on auto "$@"
        is "$what, auto: it runs" "$rc" 0
        like "$what, auto: and says so" "$err" "attention is computed without cuDNN: $sentence"
        like "$what, auto: whose kernels" "$err" 'libraries: .*, no cuDNN: attention by kernels of our own'
    }
    bad "an old cuDNN" '.*/fake/libcudnn.so.9 is cuDNN 9.11.0; attention needs 9.12 or later' version=91100
    bad "a cuDNN that does not begin" '.*/fake/libcudnn.so.9 does not begin: CUDNN_STATUS_NOT_INITIALIZED' create=1
    mkdir "$tmp/broken" && echo "no library" >"$tmp/broken/libcudnn.so.9"
    bad "a cuDNN that does not open" "libcudnn.so.9 does not open: $tmp/broken/libcudnn.so.9: (file too short|invalid ELF header)" '' LD_LIBRARY_PATH="$tmp/broken"
    cp "$BUILD/tests/gpu/libfake_device.so" "$tmp/broken/libcudnn.so.9"
    bad "a cuDNN that lacks a function" "$tmp/broken/libcudnn.so.9 has no cudnnGetVersion; it is another version than was built for" '' LD_LIBRARY_PATH="$tmp/broken"
    on cudnn '' FAKE_CUDA="arch=75"
    is "an old device: exit 2" "$rc" 2
    like "an old device: the sentence" "$err" 'run.attention: cudnn needs sm_80 or later, and a fake GPU is sm_75; take own or auto'
    on auto '' FAKE_CUDA="arch=75"
    is "an old device, auto: it runs" "$rc" 0
    run env SN_PLUGIN="$PWD/$BUILD/tests/gpu/libfake_device.so" "$train" "$tmp/on.yaml" --fresh --stop-after 1
    is "a device without cuDNN, auto: it runs" "$rc" 0
    file must "backend: cuda, attention: cudnn"
    run env SN_PLUGIN="$PWD/$BUILD/tests/gpu/libfake_device.so" "$train" "$tmp/must.yaml"
    is "a device without cuDNN: exit 2" "$rc" 2
    like "a device without cuDNN: the sentence" "$err" 'run.attention: cudnn: this device has no cuDNN'
else
    skip "a run says which cuDNN" "no headers of CUDA here"
fi

# Gradients of 4 heads' scores over 2048 tokens, statistics twice, a MiB, and to align them: more than the 32 MiB of products.
if [ -e "$real" ]; then
    seq=2048
    workspace() { # attention
        file planned "backend: cuda, attention: $1"
        run env SN_PLUGIN="$real" "$plan" "$tmp/planned.yaml" --json
        printf '%s\n' "$out" | sed -n 's/.*"workspace": \([0-9]*\).*/\1/p' | head -n 1
    }
    is "scratch is planned for cuDNN" "$(workspace cudnn)" $((4 * 2048 * 2048 * 2 + 2 * 2048 * 4 * 4 + 1048576 + 256))
    is "with auto too" "$(workspace auto)" "$(workspace cudnn)"
    is "and for our own kernels as before" "$(workspace own)" 33554432
    seq=64
else
    skip "scratch is planned for cuDNN" "the plugin is not built: no nvcc here"
fi

# The library itself, asked about devices that it is told of; the driver that it wants to open may be a stub.
mkdir "$tmp/driver"
for stub in "${CUDA:-/usr/local/cuda}"/lib64/stubs/libcuda.so "${CUDA:-/usr/local/cuda}"/lib/stubs/libcuda.so; do
    [ ! -e "$stub" ] || ln -sf "$stub" "$tmp/driver/libcuda.so.1"
done
run env LD_LIBRARY_PATH="$tmp/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" timeout 300 "$BUILD/tests/gpu/cudnn_plans"
if [ "$rc" = 3 ]; then
    skip "the real cuDNN takes our graphs" "$(printf '%s' "$out" | cut -c 1-120)"
elif [ ! -e "$tmp/driver/libcuda.so.1" ]; then
    skip "the real cuDNN takes our graphs" "there is no stub of a driver here"
else
    is "the real cuDNN takes our graphs" "$rc" 0
    is "all of them" "$(printf '%s\n' "$out" | grep -c '^ok')" 72
    [ "$rc" = 0 ] || tap_lines out "$(printf '%s\n' "$out" | grep -v '^ok' | head -20)"
fi
tap_done
