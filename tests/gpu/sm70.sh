#!/bin/sh
# sm70.sh - the CUDA sources compile for sm_70, with clang and CUDA 12: what Lassen's V100 need, and
# CUDA 13's compiler knows no more. Skips aloud, with the reason, where that cannot be had.
#
# usage: BUILD=build [TOOLKIT=DIR] [FETCH=1] tests/gpu/sm70.sh
#   Uses the toolkit in DIR (build/cuda12); FETCH=1 puts one there.
. tests/lib/tap.sh

toolkit=${TOOLKIT:-$BUILD/cuda12}
sentence="every CUDA source compiles and links for sm_70"
ls kernels/cuda/*.cu >/dev/null 2>&1 || { skip "$sentence" "there are no kernels yet"; tap_done; }
command -v clang++ >/dev/null || { skip "$sentence" "no clang++ here (make deps DEV=1)"; tap_done; }
if [ -z "${FETCH:-}" ] && [ ! -e "$toolkit/bin/fatbinary" ]; then
    skip "$sentence" "CUDA 12 is not in $toolkit; make check-sm70 fetches it, once (700 MB)"
    tap_done
fi
if ! why=$(tests/gpu/toolkit12 "$toolkit" 2>&1); then
    skip "$sentence" "$why"
    tap_done
fi
# The header of textures, which CUDA 12 has given up and clang 14 still wants, is passed over.
flags="--cuda-gpu-arch=sm_70 --cuda-path=$toolkit -Wno-unknown-cuda-version
    -D__CLANG_CUDA_TEXTURE_INTRINSICS_H__ -std=c++17 -O2 -fPIC -I."
objects=
for f in kernels/cuda/*.cu; do
    object=$tmp/$(basename "$f" .cu).o
    # shellcheck disable=SC2086
    clang++ -x cuda $flags -c "$f" -o "$object" >"$tmp/log" 2>&1
    ok "$f compiles for sm_70" test -s "$object"
    [ -s "$object" ] || sed 's/^/# /' "$tmp/log" | head -20
    objects="$objects $object"
done
for f in plugin begin prove library blaslt nccl_none nvtx_none nvml; do
    ${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -I. -isystem "$toolkit/include" -DSN_CUDA_ARCH='"70"' -Wall -Wextra -Werror \
        -O2 -fPIC -c "kernels/cuda/$f.c" -o "$tmp/$f.c.o"
    ok "kernels/cuda/$f.c compiles against CUDA 12" test -s "$tmp/$f.c.o"
done
# shellcheck disable=SC2086
clang++ -shared -o "$tmp/plugin.so" $objects "$tmp/plugin.c.o" "$tmp/begin.c.o" "$tmp/prove.c.o" "$tmp/library.c.o" "$tmp/blaslt.c.o" \
    "$tmp/nccl_none.c.o" "$tmp/nvtx_none.c.o" "$tmp/nvml.c.o" -L"$toolkit/lib64" -lcudart -ldl -lpthread \
    >"$tmp/log" 2>&1
ok "the plugin links for sm_70" test -s "$tmp/plugin.so"
[ -s "$tmp/plugin.so" ] || sed 's/^/# /' "$tmp/log" | head -20
tap_done
