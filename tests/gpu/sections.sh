# sections.sh - the sections of tests/gpu/check: which cases each has, the smallest first. Source it.
#
# A section is a function that calls `one NAME LIMIT COMMAND...` for each case (no blanks or quotes in a word but _
# for a blank in a layout), and then `together JOBS`; its line in the list says its share of the time.
# shellcheck shell=sh disable=SC2154

# group section seconds: what it is for
sections() {
    cat <<'END'
correctness probe 40 driver, libraries, memory of the host that the device reads
correctness operations 150 each operation beside the processor's result
correctness unit 120 the kernels' unit tests, as older devices too, and with sums in any order
correctness tiny 40 the first steps of a small model: enqueued, captured, launched again
correctness losses 70 20 steps of each family in each type, beside the processor's losses
correctness sanitizer 90 compute-sanitizer on the unit tests, without guards
correctness resume 30 a run that was stopped has the bits of one that was not
correctness ranks 50 ranks that share the device, through the host
correctness nccl 60 two ranks on one device through NCCL, which nobody supports: nothing depends on it
correctness step 60 a step of GPT-2 124M: memory beside the plan
speed ceilings 40 what the device can do at most: a copy, a product
speed calibrate 130 the time of every operation's shape, by the device's clock
speed rates 250 tokens a second and MFU, after algorithms were measured
speed kernels 70 ncu on single kernels
speed codecs 50 codecs beside a copy
torch torch-operations 150 single operations beside PyTorch's
torch torch-124m 190 GPT-2 124M beside PyTorch, eager and compiled
torch torch-1.5b 200 GPT-2 1.5B beside PyTorch, eager and compiled
END
}

one() { # name limit command...
    echo "$section $*" >>"$CASES/$section.plan"
}

# Runs what `one` has listed, so many at a time.
together() { # jobs
    if [ ! -s "$CASES/$section.plan" ]; then # a section that shows nothing
        echo "$section none 0" >>"$CASES/planned"
        printf '%s\tnone\tFAIL\t0\tthere is nothing to run in %s\n' "$section" "$UNITS" >>"$CASES/results"
        return
    fi
    cut -d ' ' -f 1-3 "$CASES/$section.plan" >>"$CASES/planned"
    xargs -L 1 -P "$1" tests/gpu/case <"$CASES/$section.plan"
}

section_probe() {
    if command -v nvidia-smi >/dev/null; then one nvidia-smi 20 nvidia-smi; else missing nvidia-smi; fi
    one opens 30 "$point" ceiling first
    one pin-4-MiB 20 "$point" ceiling pin 4194304
    [ -n "${DRY:-}" ] || one pin-1-GiB 20 "$point" ceiling pin 1073741824
    together 1
}

section_operations() {
    names=$(cat "$REFERENCES/operations/list" 2>/dev/null) || names=$("$UNITS/test_kernels_cuda" --list)
    for name in $names; do one "$name" 150 "$point" operation "$name"; done
    together "$jobs"
}

section_unit() {
    for t in "$UNITS"/test_*; do
        [ -x "$t" ] || continue
        name=${t##*/}
        case $name in *.d | *.o | test_kernels_cuda) continue ;; esac
        [ -z "${DRY:-}" ] || [ "$name" = test_kernels_rope ] || continue
        one "$name" 90 "$point" unit "$name" SN_PLAIN=1
        case $name in
        test_attention | test_attention_parts | test_gemm | test_kernels_experts)
            one "$name,as-sm_80" 90 "$point" unit "$name" SN_GPU_ARCH=80 SN_EMUL_ARCH=80
            one "$name,as-sm_70" 90 "$point" unit "$name" SN_GPU_ARCH=70 SN_EMUL_ARCH=70
            ;;
        esac
        case $name in
        test_attention | test_attention_parts | test_kernels_norm* | test_kernels_embed | test_kernels_pointwise)
            one "$name,any-order" 90 "$point" unit "$name" SN_ANY_ORDER=1
            ;;
        esac
        case $name in
        test_attention)
            one "$name,cudnn" 90 "$point" unit "$name" SN_ATTENTION=auto
            one "$name,cudnn,any-order" 90 "$point" unit "$name" SN_ATTENTION=auto SN_ANY_ORDER=1
            ;;
        esac
    done
    together "$jobs"
}

section_tiny() {
    one gpt2-fp32-1-step-blocking 30 "$point" steps 1 gpt2 fp32 CUDA_LAUNCH_BLOCKING=1
    one gpt2-fp32-3-steps 30 "$point" steps 3 gpt2 fp32
    one llama-bf16-1-step-blocking 30 "$point" steps 1 llama bf16 CUDA_LAUNCH_BLOCKING=1
    one llama-bf16-3-steps 30 "$point" steps 3 llama bf16
    together 1
}

section_losses() {
    small_list | while read -r family precision fp8 limit; do
        [ "$fp8" = none ] && name=$family-$precision || name=$family-$fp8
        one "$name" 40 "$point" losses "$family" "$precision" "$fp8" "$limit"
    done
    one llama-bf16,any-order 40 "$point" losses llama bf16 none 1e-2 deterministic:_false
    one llama-bf16,cudnn 40 "$point" losses llama bf16 none 1e-2 attention:_cudnn
    one llama-bf16,cudnn,any-order 40 "$point" losses llama bf16 none 1e-2 attention:_cudnn,_deterministic:_false
    together "$jobs"
}

section_sanitizer() {
    command -v compute-sanitizer >/dev/null || { missing compute-sanitizer && return; }
    names="test_kernels_norm test_kernels_norm_parts test_kernels_pointwise test_kernels_vocab test_cross_entropy test_gemm test_attention"
    [ -z "${DRY:-}" ] || names=test_kernels_rope
    for tool in memcheck racecheck initcheck; do
        for name in $names; do
            one "$tool,$name" 60 "$point" sanitize "$tool" "$name"
        done
    done
    together "$jobs"
}

section_resume() {
    one llama-bf16 60 "$point" resume
    together 1
}

section_ranks() {
    one data-2 40 "$point" ranks 2 data:_2
    one tensor-2 40 "$point" ranks 2 tensor:_2
    [ -n "${DRY:-}" ] || for layout in data:_2,_zero:_3,_tensor:_2 pipeline:_2,_tensor:_2 context:_2,_data:_2; do
        one "$(echo "$layout" | tr -d :_)" 40 "$point" ranks 4 "$layout"
    done
    together 1
}

section_nccl() {
    one data-2 60 "$point" nccl data:_2
    one pipeline-2 60 "$point" nccl pipeline:_2
    together 1
}

section_step() {
    model=gpt2-124m-mb64
    [ -z "${DRY:-}" ] || model=tiny
    one "$model" 90 "$point" memory "$model"
    together 1
}

# --- speed: each alone ----------------------------------------------------------------------------------------
section_ceilings() {
    one copy 30 "$point" ceiling copy
    for n in 64 ${DRY:-2048 8192}; do
        [ "$n" = 1 ] || one "product-$n" 30 "$point" ceiling product "$n"
    done
    together 1
}

section_calibrate() {
    for model in $(large_list | cut -d ' ' -f 1); do
        case $model in *-mb32 | *-mb8 | llama-1b*) continue ;; esac
        one "$model" 60 "$point" calibrate "$model" "$([ -n "${DRY:-}" ] && echo 0 || echo 15)"
    done
    together 1
}

section_rates() {
    for model in $(large_list | cut -d ' ' -f 1); do one "$model" 90 "$point" rate "$model" true; done
    for model in $(large_list | cut -d ' ' -f 1); do
        case $model in *-mb64 | llama-1b* | tiny) one "$model,any-order" 60 "$point" rate "$model" false ;; esac
    done
    for model in $(large_list | cut -d ' ' -f 1); do
        case $model in *-mb64 | tiny)
            one "$model,cudnn" 60 "$point" rate "$model" true cudnn
            one "$model,cudnn,any-order" 60 "$point" rate "$model" false cudnn
            ;;
        esac
    done
    together 1
}

section_kernels() {
    command -v ncu >/dev/null || { missing ncu && return; }
    for name in GEMM:bf16 ATTENTION:bf16 ATTENTION_DX:bf16 LAYERNORM_DX:bf16 CROSS_ENTROPY:bf16 ACT_DX:bf16 EMBED_GRAD:bf16 ADAMW:bf16; do
        one "$name" 40 "$point" counters "$name"
    done
    together 1
}

section_codecs() {
    one codecs 90 "$point" codecs
    together 1
}

# --- torch ----------------------------------------------------------------------------------------------------
section_torch_operations() {
    one operations 200 "$point" beside_torch operations
    together 1
}

section_torch_124m() {
    one gpt2-124m 300 "$point" beside_torch gpt2-124m
    together 1
}

section_torch_1_5b() {
    one gpt2-1.5b 300 "$point" beside_torch gpt2-1.5b
    together 1
}

# A command that is not here is no failure, and is said.
missing() { # command
    echo "$section $1 0" >>"$CASES/planned"
    printf '%s\t%s\tskip\t0\t%s is not installed\n' "$section" "$1" "$1" >>"$CASES/results"
}
