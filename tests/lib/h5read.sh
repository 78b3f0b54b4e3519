# h5read.sh - checkpoints as h5py sees them. Source after tap.sh.
#
#   if [ -n "$h5py" ]; then is "equal" "$(h5read "$a")" "$(h5read --pieces "$b")"
#   else skip "equal" "$no_h5py"; fi
# shellcheck shell=sh disable=SC2034

h5py=
for h5_python in python3 /usr/bin/python3; do
    [ -n "$h5py" ] || ! "$h5_python" -c 'import h5py' 2>/dev/null || h5py=$h5_python
done
no_h5py="no h5py here (Debian: python3-h5py)"

h5read() { # [--pieces] step-directory
    "$h5py" tests/lib/h5read.py "$@"
}
