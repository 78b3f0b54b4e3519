#!/bin/sh
# test_transformers.sh - what we say of Hugging Face's files, held against transformers itself: the keys of
# its config classes, the numbers of its models in training, losses of small models that are taken, and
# that others are refused. Needs a Python that has torch and transformers (TORCH_PYTHON; default
# python3). ALL=1 also gives every inert key other values there, which takes minutes.
. tests/lib/tap.sh

python=${TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    skip "the keys of config classes" "no torch and transformers in $python (TORCH_PYTHON names another)"
    tap_done
fi

run "$python" tests/parity/hf_keys.py --check
is "the keys of config classes are those that are committed" "$rc" 0
tap_lines keys "$out"
run "$python" tests/parity/make_theirs.py --check
is "its Mixtral learns as the fixture says" "$rc" 0
tap_lines fixture "$out"
for part in same refused ${ALL:+inert}; do
    run "$python" tests/parity/against_transformers.py "$BUILD" "$tmp/zoo" "$part"
    is "small models, $part: all right" "$rc $(printf '%s\n' "$out" | grep -c '^not ok')" "0 0"
    [ "$rc" = 0 ] || tap_lines "$part" "$out$err"
    ok "small models, $part: some were tried" test "$(printf '%s\n' "$out" | grep -c '^ok')" -ge 5
done
draws=1
[ -z "${ALL:-}" ] || draws=20
run "$python" tests/parity/families.py "$BUILD" "$tmp/drawn" --draws "$draws"
is "models drawn at random: all right" "$rc $(printf '%s\n' "$out" | grep -c '^not ok')" "0 0"
[ "$rc" = 0 ] || tap_lines drawn "$out$err"
tap_done
