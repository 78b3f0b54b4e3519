#!/bin/sh
# test_torch.sh - the comparison with PyTorch that check-gpu makes: what it says without PyTorch, that a
# wrong result fails; and with PyTorch, on small shapes, that our operations (the emulated CUDA kernels)
# and our step (on a device of host memory) have its results.
. tests/lib/tap.sh

fake=$PWD/$BUILD/tests/gpu/libfake_device.so
library=$BUILD/emul/libby_pointer.so

run env TORCH_PYTHON="$tmp/no-such-python" tests/gpu/torch "$tmp/report" --small
is "without Python: it ends well" "$rc" 0
like "without Python: and says so" "$out" '# SKIP there is no .*no-such-python \(TORCH_PYTHON names another\)'
like "without Python: in the report, too" "$(cat "$tmp/report")" '^- not compared: there is no '

# Stands for a Python whose answers are known: exit codes, one for each call.
cat >"$tmp/python" <<'END'
#!/bin/sh
case $2 in
there) echo "$SAYS" && exit "${THERE:-0}" ;;
*) echo "${POINT:-ok} 1 - a point" && exit "${COMPARED:-0}" ;;
esac
END
chmod +x "$tmp/python"
run env TORCH_PYTHON="$tmp/python" SAYS="PyTorch 9 here has no GPU" THERE=77 tests/gpu/torch "$tmp/none" --small
is "without a GPU for PyTorch: it ends well" "$rc" 0
like "without a GPU for PyTorch: and says so" "$out" '# SKIP PyTorch 9 here has no GPU'
like "without a GPU for PyTorch: in the report, too" "$(cat "$tmp/none")" '^- not compared: PyTorch 9 here has no GPU'
run env SN_PLUGIN="$fake" TORCH_PYTHON="$tmp/python" SAYS="PyTorch 9" tests/gpu/torch "$tmp/right" --small
is "with points that are right: it ends well" "$rc" 0
like "with points that are right: they are counted" "$(cat "$tmp/right")" '^- a small llama: 1 right, 0 wrong, exit 0'
run env SN_PLUGIN="$fake" TORCH_PYTHON="$tmp/python" SAYS="PyTorch 9" tests/gpu/torch "$tmp/part" --small llama
is "a part: it ends well" "$rc" 0
is "a part: and it alone" "$(grep -c ' right, ' "$tmp/part")$(grep -c '^- a small llama: ' "$tmp/part")" 11
run env SN_PLUGIN="$fake" TORCH_PYTHON="$tmp/python" SAYS="PyTorch 9" POINT="not ok" COMPARED=1 tests/gpu/torch "$tmp/wrong" --small
is "with a point that is wrong: exit 1" "$rc" 1
like "with a point that is wrong: the report has it" "$(cat "$tmp/wrong")" '^- a small gpt2: 0 right, 1 wrong, exit 1'

python=${TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
    skip "small shapes beside PyTorch's" "no torch in $python (TORCH_PYTHON names another)"
    tap_done
fi
run env SN_PLUGIN="$fake" TORCH_PYTHON="$python" tests/gpu/torch "$tmp/small" --small
is "small shapes beside PyTorch's: all right" "$rc" 0
[ "$rc" = 0 ] || tap_lines out "$out"
like "steps: losses of both are the same" "$(cat "$tmp/small")" '^- a small gpt2: 2 right, 0 wrong'
like "steps: with a table" "$(cat "$tmp/small")" '^\| sennit \| [0-9]+ \| 1.00 \|'
if [ -e "$library" ]; then
    like "operations: with a table" "$(cat "$tmp/small")" '^\| attention, backward \|'
    run env "$python" tests/gpu/torch_compare.py ops --library "$library" --device cpu --small --report "$tmp/ops"
    is "operations: each is right" "$rc $(printf '%s\n' "$out" | grep -c '^not ok')" "0 0"
else
    skip "operations: with a table" "the emulated kernels are not built: no C++ compiler"
fi
tap_done
