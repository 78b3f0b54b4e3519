#!/bin/sh
# Parquet files are read as what they hold: rows of every encoding and packing that is read, tokens as
# of the same texts in JSON lines; what is damaged or not read is named.
# TORCH_PYTHON names a Python with pyarrow, which writes random files to compare with.
set -u
. tests/lib/tap.sh
here=$(pwd)
case $BUILD in
/*) build=$BUILD ;;
*) build=$here/$BUILD ;;
esac
rows=$build/tests/cli/parquet_rows data=$build/bin/sennit-data
tokenizer=$here/tests/unit/fixtures/token/llama3.json
files=$here/tests/unit/fixtures/parquet
case ${TORCH_PYTHON:-} in */*) python=$TORCH_PYTHON ;; *) python=${TORCH_PYTHON:-python3} ;; esac
cd "$tmp" || exit 1
all="id text messages n big ok ll"

# The same twelve rows: plain; by dictionary, snappy and several row groups; lengths as deltas, gzip, pages of the second version and of
# 20 bytes; texts and numbers as deltas, zstd.
for name in plain snappy gzip zstd; do
    # shellcheck disable=SC2086  # columns are words
    run "$rows" "$files/$name.parquet" $all
    case $err in *"this build has no"*)
        skip "$name: the rows" "${err#*: }"
        continue
        ;;
    esac
    is "$name: ends well" "$rc:$err" "0:"
    is "$name: the rows" "$out" "$(cat "$files/rows.jsonl")"
done
run "$rows" "$files/plain.parquet" none ok
is "of columns some may lack" "$rc" 2
run "$rows" "$files/plain.parquet" n nothing ok
is "those that are there come in the order that they were asked for" "$(printf '%s\n' "$out" | head -n 1)" '{"n": null, "ok": true}'

# --- tokens -----------------------------------------------------------------------------------------
run "$data" tokenize "$files/plain.parquet" --tokenizer "$tokenizer" --out probe --skip-bad 1
case $err in
*"this build has no"*)
    skip "tokens of Parquet files" "${err##*: }"
    tap_done
    exit
    ;;
esac
mkdir mixed
grep -v '"text": null' "$files/rows.jsonl" >mixed/a.jsonl
cp "$files/plain.parquet" mixed/b.parquet
run "$data" tokenize mixed/a.jsonl --tokenizer "$tokenizer" --out lines
ok "texts of rows have the tokens of the same texts in lines" cmp -s probe/tokens.bin lines/tokens.bin
run "$data" tokenize "$files/plain.parquet" --tokenizer "$tokenizer" --out none
like "a row without a text is named" "$rc:$err" "^2:.*plain.parquet:6: has no text 'text'"
run "$data" tokenize mixed --tokenizer "$tokenizer" --out mixed.out --skip-bad 1 --workers 3
is "a directory of both" "$rc" 0
cat probe/tokens.bin >>lines/tokens.bin
ok "has the tokens of both" cmp -s mixed.out/tokens.bin lines/tokens.bin
run "$data" tokenize "$files/plain.parquet" --tokenizer "$tokenizer" --out field --field nope
like "a column that is not there is named, with those that are" "$rc:$err" "^2:.*plain.parquet: has no column 'nope', but id, text, messages, n, big, ok, ll; name one with --field$"
run "$data" tokenize "$files/plain.parquet" --tokenizer "$tokenizer" --out number --field n
like "so is one that is no text" "$rc:$err" "^2:.*plain.parquet:1: has no text 'n'"

# --- conversations -----------------------------------------------------------------------------------
printf '%s' "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% endfor %}" >chat.jinja
chat() { # file out
    run "$data" tokenize "$1" --chat --chat-template chat.jinja --train-on assistant --tokenizer "$tokenizer" --out "$2" --skip-bad 12
    is "$2: conversations" "$rc" 0
}
"$rows" "$files/plain.parquet" id text messages >chat.jsonl
chat "$files/plain.parquet" chat.rows
chat chat.jsonl chat.lines
ok "conversations of rows have the tokens of the same in lines" cmp -s chat.rows/tokens.bin chat.lines/tokens.bin
ok "and their mask" cmp -s chat.rows/tokens.mask chat.lines/tokens.mask

# --- what is not read ---------------------------------------------------------------------------------
refuses() { # what pattern file column
    run "$rows" "$3" "$4"
    like "$1" "$rc:$err" "^2:$3: $2"
}
cp "$files"/*.parquet .
refuses "brotli" "column 'text', page before byte [0-9]+: is packed with a codec that is not read; write it with snappy, gzip or zstd" brotli.parquet text
refuses "lz4" "column 'text', page before byte [0-9]+: is packed with a codec" lz4.parquet text
refuses "times" "column 'text' has dates or times, which are not read; write it as text, or name another with --field" odd.parquet text
refuses "maps" "column 'm' has maps, which are not read" odd.parquet m
refuses "decimals" "column 'dec' has values of a fixed number of bytes, which are not read" odd.parquet dec
head -c 1000 plain.parquet >cut.parquet
refuses "a file that is cut short" "does not end as a Parquet file does: it is cut short; copy it anew" cut.parquet text
{ head -c 6 plain.parquet && printf '\377\377\377\377\377\377\377\377' && tail -c +15 plain.parquet; } >damaged.parquet
refuses "a page that is damaged" "column 'id', page before byte [0-9]+: is damaged; copy the file anew" damaged.parquet id
{ head -c 7 plain.parquet && printf '\376\377\377\377\017\025\306\001' && tail -c +13 plain.parquet; } >huge.parquet
refuses "a page that says it has 2 GiB" "column 'id', page before byte [0-9]+: has more than 256 MiB or 8388608 values, which is not read; write smaller pages" huge.parquet id
cp plain.parquet plain.txt
run "$data" tokenize plain.txt --tokenizer "$tokenizer" --out renamed
is "one of another name" "$rc:$err" "2:plain.txt: is a Parquet file by its first bytes; name it .parquet"

# --- beside pyarrow -----------------------------------------------------------------------------------
if "$python" -c 'import pyarrow.parquet' 2>/dev/null; then
    mkdir random
    run "$python" "$here/tests/cli/parquet.py" random "${SEED:-20261128}" random
    run "$python" "$here/tests/cli/parquet.py" compare "$rows" random
    is "random files of pyarrow are read as it reads them" "$rc:$out" "0:32 files are the same"
else
    skip "random files of pyarrow are read as it reads them" "no pyarrow in $python (TORCH_PYTHON names another)"
fi
tap_done
