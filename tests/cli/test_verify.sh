#!/bin/sh
# test_verify.sh - sennit-plan --verify as a user meets it. Faults are planted in tests/unit/verify/test_verify_faults.c:
# a run file cannot name a layout that is refuted.
. tests/lib/tap.sh
. tests/lib/train.sh

plan=$BUILD/bin/sennit-plan
run_file "$tmp/r.yaml" "$tmp/out"

run "$plan" "$tmp/r.yaml" --ranks 4 --verify
is "a proven layout exits 0" "$rc" 0
like "it says so, with the ranks that were played" "$out" '^verified: .* \(4 ranks\)$'
like "and that they compute what one rank does" "$out" '^  and every rank ends a step with the weights of one rank.s'
certificate=$(printf '%s\n' "$out" | sed -n 's/^certificate: //p')
like "with a certificate" "$certificate" '^[0-9a-f]{16}$'
run "$plan" "$tmp/r.yaml" --ranks 4 --verify --json
is "also as JSON" "$rc" 0
like "with all keys at the end of the object" "$out" \
    ", \"certificate\": \"$certificate\", \"approximate\": \[\], \"meaning\": true, \"verified\": true, \"fault\": null}\$"
run "$plan" "$tmp/r.yaml" --ranks 4 --json
ok "who does not ask is not told" test "${out#*verified}" = "$out"

batch=1024 eval_every=0 layers=16
run_file "$tmp/large.yaml" "$tmp/out"
sed -i 's/layout: {/layout: {tensor: 4, pipeline: 16, zero: 1, /' "$tmp/large.yaml"
run "$plan" "$tmp/large.yaml" --ranks 16384 --verify
is "16,384 ranks in three axes are proven" "$rc" 0
like "by those that stand for them, and it says so" "$out" ' ranks stand for 16384: '

family=mixtral batch=16 layers=2
run_file "$tmp/e.yaml" "$tmp/out"
sed -i 's/layout: {/layout: {expert: 2, zero: 1, /; s/^  family:/  experts: {count: 4, top_k: 2}\n  family:/' "$tmp/e.yaml"
run "$plan" "$tmp/e.yaml" --ranks 8 --verify
like "experts that replicas share out are proven, by two groups that do" "$out" \
    '^  and every rank ends .* \(4 ranks, 2 micro-batches each\)$'
family=llama

# --- what is compressed --------------------------------------------------------------------------------
layers=2 batch=12
run_file "$tmp/z.yaml" "$tmp/z"
sed -i 's/layout: {/layout: {data: 2, tensor: 2, compress: {data: fp8, tensor: mpc}, /' "$tmp/z.yaml"
run "$plan" "$tmp/z.yaml" --ranks 4 --verify
is "with codecs: exit code" "$rc" 0
like "with codecs: proven" "$out" '^  and every rank ends .* \(4 ranks, '
like "with codecs: what loses something is named, mpc is not" "$out" '^  but for what codecs lose of what they send \(layout.compress: data\)$'
run "$plan" "$tmp/z.yaml" --ranks 4 --verify --json
like "with codecs: in JSON" "$out" '"approximate": \["data"\], "meaning": true'

# --- a trainer holds its programs to the certificate -----------------------------------------------------
steps=6 batch=12 layers=2
run_file "$tmp/c.yaml" "$tmp/c"
make_tokens "$tmp/tok"
run "$plan" "$tmp/c.yaml" --ranks 2 --verify
certificate=$(printf '%s\n' "$out" | sed -n 's/^certificate: //p')
run mpi 2 "$BUILD/bin/sennit-train" "$tmp/c.yaml" --certificate "$certificate"
is "programs with their certificate train" "$rc" 0
like "whose record keeps it" "$(cat "$tmp/c/attempt-1.json")" "\"certificate\": \"$certificate\""
run mpi 2 "$BUILD/bin/sennit-train" "$tmp/c.yaml" --fresh --certificate 0123456789abcdef
is "others are refused" "$rc" 2
like "with both numbers" "$err" "--certificate: 0123456789abcdef was given, .* have $certificate; prove these with"
for bad in 12 '' -00000000000000f 0x00000000000012 0123456789ABCDEF 0000000000000000 "${certificate}0"; do
    run "$BUILD/bin/sennit-train" "$tmp/c.yaml" --certificate "$bad"
    is "'$bad' is no certificate and refused" "$rc" 2
done
like "with what would work" "$err" 'want the 16 digits that sennit-plan --verify prints'

run "$plan" "$tmp/r.yaml" --verify --explain 0
is "a program and a verdict at once are refused" "$rc" 2
like "with the two options" "$err" '--verify is of the plan, --explain '
tap_done
