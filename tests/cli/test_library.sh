#!/bin/sh
# test_library.sh - where the plugin for CUDA looks for its maker's libraries, what wins, and what it
# says of one that is not there or does not open. The library is a stand-in of an unusual name.
. tests/lib/tap.sh

find_library=$PWD/$BUILD/tests/gpu/find_library
small=$PWD/$BUILD/tests/gpu/libfake_device.so
name=libsennit_nowhere.so.7
home=$tmp/home
path=/usr/bin:/bin
mkdir -p "$home"

look() { # assignments...: its only environment
    run env -i HOME="$home" PATH="$path" "$@" "$find_library" "$name" "${symbol:-sn_device_plugin}"
}
put() { # folder: the library is there, too
    mkdir -p "$1"
    cp "$small" "$1/$name"
}

look
is "nowhere: refused" "$rc" 1
like "nowhere: the loader's reason, how much was looked through, what helps" "$err" \
    "^$name does not open: $name: cannot open shared object file: No such file or directory; nor is it in [0-9]+ folders of toolkits and Python's packages; name its folder in LD_LIBRARY_PATH\$"

# From the last place to the first: each wins over all before it.
put "$home/.local/lib/python3.11/site-packages/nvidia/cublas/lib"
look
is "the user's packages" "$out" "$home/.local/lib/python3.11/site-packages/nvidia/cublas/lib/$name"

tree=$tmp/tree
mkdir -p "$tree/bin" "$tmp/venv/bin"
printf '#!/bin/sh\nexit 1\n' >"$tree/bin/python3"
chmod +x "$tree/bin/python3"
path=$tree/bin:/usr/bin:/bin
put "$tree/local/lib/python3.12/dist-packages/nvidia/cublas/lib"
look
is "the python3 of PATH: what Debian's users add" "$out" "$tree/local/lib/python3.12/dist-packages/nvidia/cublas/lib/$name"
put "$tree/lib/python3.12/site-packages/nvidia/nccl/lib"
look
is "the python3 of PATH: wheels of CUDA 12" "$out" "$tree/lib/python3.12/site-packages/nvidia/nccl/lib/$name"
ln -s "$tree/bin/python3" "$tmp/venv/bin/python3"
path=$tmp/venv/bin:/usr/bin:/bin
look
is "a virtual environment without it: that of its interpreter" "$out" "$tree/lib/python3.12/site-packages/nvidia/nccl/lib/$name"
put "$tmp/venv/lib/python3.12/site-packages/nvidia/cu13/lib"
look
is "a virtual environment on PATH: wheels of CUDA 13" "$out" "$tmp/venv/lib/python3.12/site-packages/nvidia/cu13/lib/$name"
put "$tmp/conda/lib/python3.10/site-packages/nvidia/cu13/lib"
look CONDA_PREFIX="$tmp/conda"
is "CONDA_PREFIX" "$out" "$tmp/conda/lib/python3.10/site-packages/nvidia/cu13/lib/$name"
put "$tmp/other/lib/python3.10/site-packages/nvidia/cu13/lib"
look CONDA_PREFIX="$tmp/conda" VIRTUAL_ENV="$tmp/other"
is "VIRTUAL_ENV" "$out" "$tmp/other/lib/python3.10/site-packages/nvidia/cu13/lib/$name"
put "$tmp/cuda/targets/sbsa-linux/lib"
look VIRTUAL_ENV="$tmp/other" CUDA_HOME="$tmp/cuda"
is "CUDA_HOME, for another machine's kind" "$out" "$tmp/cuda/targets/sbsa-linux/lib/$name"
put "$tmp/cuda/lib64"
look VIRTUAL_ENV="$tmp/other" CUDA_HOME="$tmp/cuda"
is "CUDA_HOME" "$out" "$tmp/cuda/lib64/$name"
put "$tmp/mine"
look CUDA_HOME="$tmp/cuda" LD_LIBRARY_PATH="$tmp/mine"
is "LD_LIBRARY_PATH wins" "$out" "$tmp/mine/$name"

symbol=no_such_function
look LD_LIBRARY_PATH="$tmp/mine"
is "a function is missing: refused" "$rc" 1
is "a function is missing: which, and of what" "$err" \
    "$tmp/mine/$name has no no_such_function; it is another version than was built for"
symbol=

# What is there is the one: another is not taken in its place.
echo "no library" >"$tmp/mine/$name"
look CUDA_HOME="$tmp/cuda" LD_LIBRARY_PATH="$tmp/mine"
is "one that does not open: refused" "$rc" 1
like "one that does not open: the reason" "$err" "^$name does not open: $tmp/mine/$name: (file too short|invalid ELF header)\$"
echo "no library" >"$tmp/cuda/lib64/$name"
look CUDA_HOME="$tmp/cuda"
like "one of a toolkit that does not open: the reason" "$err" "^$name does not open: $tmp/cuda/lib64/$name: (file too short|invalid ELF header)\$"
tap_done
