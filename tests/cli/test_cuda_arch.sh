#!/bin/sh
# test_cuda_arch.sh - for which GPUs make compiles: for those that the driver's tool lists, whatever else it says.
. tests/lib/tap.sh

mkdir -p "$tmp/bin" "$tmp/cuda/bin"
printf '#!/bin/sh\n' >"$tmp/cuda/bin/nvcc"
chmod +x "$tmp/cuda/bin/nvcc"
compiles_for() { # what the tool prints, its exit code, the architectures
    printf '#!/bin/sh\nprintf "%s"\nexit %s\n' "$1" "$2" >"$tmp/bin/nvidia-smi"
    chmod +x "$tmp/bin/nvidia-smi"
    found=$(env -u MAKEFLAGS -u MAKELEVEL -u CUDA_ARCH PATH="$tmp/bin:$PATH" make -pn CUDA="$tmp/cuda" BUILD=build dist 2>/dev/null |
        sed -n 's|^CUDA_OUT := build/cuda/||p')
    is "nvidia-smi prints '$1', exit $2" "$found" "$3"
}
compiles_for '9.0\n' 0 90
compiles_for '8.0\n9.0\n9.0\n' 0 80-90
compiles_for 'No devices were found\n' 6 90
compiles_for "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n" 9 90
compiles_for '[N/A]\n' 0 90
tap_done
