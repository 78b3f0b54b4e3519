# h5read.sh - checkpoints as h5py sees them. Source after tap.sh.
#
#   is "equal" "$(h5read "$a")" "$(h5read --pieces "$b")"
# shellcheck shell=sh disable=SC2034

h5py=
for h5_python in python3 /usr/bin/python3; do
    [ -n "$h5py" ] || ! "$h5_python" -c 'import h5py' 2>/dev/null || h5py=$h5_python
done
[ -n "$h5py" ] || missing h5py

h5read() { # [--pieces] step-directory
    "$h5py" tests/lib/h5read.py "$@"
}
