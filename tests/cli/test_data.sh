#!/bin/sh
# sennit-data: what it writes and prints, and what it says when it cannot.
set -u
. tests/lib/tap.sh
need python3
case $BUILD in
/*) data=$BUILD/bin/sennit-data ;;
*) data=$(pwd)/$BUILD/bin/sennit-data ;;
esac
cd "$tmp" || exit 1 # so that sentences hold short names

valid_json() { # sentence text
    printf '%s' "$2" | python3 -m json.tool >"$tmp/.json" 2>&1
    is "$1" "$?" 0
}

fails() { # sentence exit-code text-of-stderr command...
    what=$1 code=$2 text=$3
    shift 3
    run "$data" "$@"
    is "$what: exit $code" "$rc" "$code"
    is "$what: the sentence" "$err" "$text"
    is "$what: nothing on stdout" "$out" ''
}

# --- building from text ---------------------------------------------------------------------------
printf 'one\ntwo\n\nthree and four\n' >text
run "$data" build --text text -o plain
is "build ends well" "$rc:$err" "0:"
is "build tells what it wrote" "$out" "plain: 24 tokens (u8, 1 byte each), 1 document, 1 sequence"
ok "the token file is the text" cmp -s text plain.bin
is "the index has its size" "$(wc -c <plain.idx | tr -d ' ')" $((34 + 4 + 8 + 16))
run "$data" print plain
is "print shows counts and tokens" "$out" "plain: 24 tokens (u8, 1 byte each), 1 document, 1 sequence
document 0: 24 tokens in 1 sequence
111 110 101 10 116 119 111 10 10 116 104 114 101 101 32 97 110 100 32 102 111 117 114 10"
run "$data" print plain.idx --text --tokens 5
is "print shows text, and the prefix may carry an ending" "$out" "plain: 24 tokens (u8, 1 byte each), 1 document, 1 sequence
document 0: 24 tokens in 1 sequence, the first 5:
111 110 101 10 116
one\\nt"
run "$data" print plain --json --text
is "print --json ends well" "$rc:$err" "0:"
valid_json "print --json is JSON" "$out"
like "print --json counts" "$out" '"dtype": "u8", .*"documents": 1, "sequences": 1, "tokens": 24, "bin_bytes": 24'

printf 'a\342\200\215b\302\205\033' >joined # what a terminal obeys: a joiner, a line end, an escape
run "$data" build --text joined -o joined
run "$data" print joined --text
like "print --text shows what a terminal obeys" "$out" '^a\\u200db\\u0085\\x1b$'
run "$data" print joined --text --json
is "print --text --json gives it back" "$(printf '%s' "$out" | python3 -c 'import json, sys; print(ascii(json.load(sys.stdin)["document"]["text"]))')" \
    "'a\\u200db\\x85\\\\x1b'"

run "$data" build --text text text -o twice
is "a file is a document" "$out" "twice: 48 tokens (u8, 1 byte each), 2 documents, 2 sequences"
run "$data" build --text text -o lines --documents lines
is "a line is a document" "$out" "lines: 24 tokens (u8, 1 byte each), 4 documents, 4 sequences"
run "$data" print lines --document 3 --text
like "the last line is the last document" "$out" '^three and four\\n$'
run "$data" build --text text -o paragraphs --documents paragraphs
is "a paragraph is a document" "$out" "paragraphs: 24 tokens (u8, 1 byte each), 2 documents, 2 sequences"
ok "paragraphs keep every byte" cmp -s text paragraphs.bin
"$data" build --text - -o piped <text >.report 2>&1
ok "standard input is read" cmp -s text piped.bin
run "$data" build --text text -o "odd \"name\"" --json
valid_json "build --json is JSON, whatever the name" "$out"

# --- a validation set -----------------------------------------------------------------------------
run "$data" build --text text -o cut --valid 0.25
is "--valid cuts one document at a token" "$out" "cut: 18 tokens (u8, 1 byte each), 1 document, 1 sequence
cut-valid: 6 tokens (u8, 1 byte each), 1 document, 1 sequence"
cat cut.bin cut-valid.bin >both
ok "--valid loses nothing" cmp -s text both
i=0
while [ $i -lt 200 ]; do
    echo "$i $i $i"
    i=$((i + 1))
done >numbers
run "$data" build --tokens numbers -o many --valid 0.099 --vocab 200 --json
valid_json "build --json with --valid is JSON" "$out"
like "--valid cuts many documents at a boundary" "$out" '"documents": 180, .*"documents": 20, "sequences": 20, "tokens": 60'

# --- tokens ----------------------------------------------------------------------------------------
run "$data" build --tokens numbers -o t8 --vocab 256
like "a vocabulary of 256 is u8" "$out" '600 tokens \(u8, 1 byte each\), 200 documents'
run "$data" build --tokens numbers -o t16 --vocab 65499
like "one of 65499 is u16" "$out" '\(u16, 2 bytes each\)'
run "$data" build --tokens numbers -o t32 --vocab 65500
like "one of 65500 is i32, as in Megatron" "$out" '\(i32, 4 bytes each\)'
run "$data" build --tokens numbers -o unknown
like "an unknown one is i32" "$out" '\(i32, 4 bytes each\)'
run "$data" build --tokens t16.bin --tokens-dtype u16 -o again --vocab 200
ok "binary tokens are read" cmp -s t8.bin again.bin
run "$data" build --tokens t32.bin --tokens-dtype u32 -o again
ok "u32 is read" cmp -s t32.bin again.bin

# --- bad input -------------------------------------------------------------------------------------
printf '1 2\n3 x4\n' >bad
printf '1 2\n300\n' >large
printf 'caf\303\251' >accent
: >empty
mkdir folder
fails "a letter among tokens" 2 "bad:2:3: 'x' is no digit; want decimal tokens with blanks between them, or name a binary type with --tokens-dtype" \
    build --tokens bad -o no
fails "a token too large" 2 "large:2:3: token 300 is outside the vocabulary 0 .. 255; raise --vocab" \
    build --tokens large -o no --vocab 256
fails "a byte too large" 2 "accent: byte 3 is 195, outside the vocabulary 0 .. 127; raise --vocab (256 takes every byte)" \
    build --text accent -o no --vocab 128
fails "half a token" 2 "accent: 5 bytes are no whole number of u16 tokens (2 bytes each); check --tokens-dtype" \
    build --tokens accent --tokens-dtype u16 -o no
fails "binary tokens outside the vocabulary" 2 "t16.bin: byte 18: token 3 is outside the vocabulary 0 .. 2; check --tokens-dtype and --vocab" \
    build --tokens t16.bin --tokens-dtype u16 -o no --vocab 3
printf '1 -2 -\n' >minus
fails "a minus alone" 2 "minus:1:6: a '-' with no token behind it; write it before a token that does not count" build --tokens minus --masked -o no
printf '1 --2' >minus
fails "two of them" 2 "minus:1:4: '-' is no digit; want decimal tokens with blanks between them, or name a binary type with --tokens-dtype" \
    build --tokens minus --masked -o no
printf '1 -2' >minus
fails "a minus where no mask is wanted" 2 "minus:1:3: '-' is no digit; want decimal tokens with blanks between them, or name a binary type with --tokens-dtype" \
    build --tokens minus -o no
fails "a mask of text" 2 "sennit-data build: --masked is for decimal --tokens; leave it out" build --text text --masked -o no
fails "a mask of binary tokens" 2 "sennit-data build: --masked is for decimal --tokens; leave it out" \
    build --tokens t16.bin --tokens-dtype u16 --masked -o no
ok "and no file is left" test ! -e no.mask
fails "a missing file" 2 "absent: there is no such file; check the name" build --text text absent -o no
fails "a folder" 2 "folder: this is a folder; name a file" build --text folder -o no
fails "an empty file" 2 "empty: no tokens in it; name a file that is not empty" build --text empty -o no
fails "empty files" 2 "no: no tokens in any of the files; name a file that is not empty" build --text empty empty -o no
fails "too small a share" 2 "no.bin: a share of 0.001 of 24 tokens leaves nothing on one side; give more tokens or another share" \
    build --text text -o no --valid 0.001
fails "a share over one" 2 "--valid: '1.5' is no share; want a number between 0 and 1, such as 0.01" build --text text -o no --valid 1.5
fails "no such dataset" 2 "absent.idx: there is no such file; 'sennit-data build -o PREFIX' writes PREFIX.bin and PREFIX.idx" print absent
fails "no such document" 2 "plain: there is no document 1; the file has 0 .. 0" print plain --document 1
echo '7 300' >words
run "$data" build --tokens words -o words
fails "tokens that are no text" 2 "words: token 1 of document 0 is 300, which is no byte; leave out --text" print words --text

# --- bad files -------------------------------------------------------------------------------------
cp plain.bin short.bin
head -c 40 plain.idx >short.idx
fails "a cut index" 2 "short.idx: byte 18: 1 sequences do not fit into an index of 40 bytes; copy or build it again" print short
cp plain.idx grown.idx
cat plain.bin plain.bin >grown.bin
fails "a .bin that grew" 2 "grown.idx: byte 38: the sequences end at byte 24 of the .bin, which has 48 bytes; copy or build both files again" print grown
: >hollow.idx
: >hollow.bin
fails "an empty index" 2 "hollow.idx: byte 0: the file is empty; build it again" print hollow
cp text alien.idx
cp text alien.bin
fails "another kind of file" 2 "alien.idx: byte 0: this is no index, which begins with MMIDIDX; name the .idx file that belongs to the .bin" print alien
mkdir dir.idx
fails "a folder for an index" 2 "dir.idx: this is a folder; name a file" print dir

# --- output that cannot be written ------------------------------------------------------------------
fails "no folder for the output" 1 "nowhere/x.bin: cannot be written (No such file or directory); create its folder first" \
    build --text text -o nowhere/x
fails "a file for a folder" 1 "text/x.bin: cannot be written (Not a directory); create its folder first" build --text text -o text/x
fails "a folder in the way" 1 "dir.idx: cannot be written (it is no regular file); choose another name" build --text text -o dir
locked=/sys # where even root may not write
[ "$(id -u)" = 0 ] || { locked=locked && mkdir locked && chmod 555 locked; }
fails "a locked folder" 1 "$locked/x.bin: cannot be written (Permission denied); choose a folder that you may write to" \
    build --text text -o "$locked/x"
if [ -c /dev/full ]; then
    "$data" print plain >/dev/full 2>.err </dev/null
    is "a full disk under stdout" "$?:$(cat .err)" "1:standard output: cannot be written (No space left on device)"
else
    skip "a full disk under stdout" "no /dev/full here"
fi
head -c 200000 /dev/zero >zeros
mkdir limited
(
    ulimit -f 64 # of 512 bytes: less than the output, more than what the shell writes
    "$data" build --text zeros -o limited/x >.report 2>.err </dev/null
    echo $? >.rc
)
is "a file that may not grow" "$(cat .rc):$(cat .err)" "1:limited/x.bin: cannot be written (File too large); raise the limit on file sizes (ulimit -f)"
is "and leaves nothing behind" "$(ls limited)" ''
mkfifo pipe
"$data" build --text pipe -o stopped >.report 2>.err </dev/null &
sleep 0.5
kill -TERM $! 2>/dev/null || :
wait $!
is "an interrupt is told" "$?:$(cat .err)" "1:stopped: interrupted; nothing was written"
is "no failure left a file" "$(find . -name 'no.*' -o -name '*.tmp.*' -o -name 'stopped*' -o -name 'x.*')" ''
cp plain.bin kept.bin
cp plain.idx kept.idx
fails "a failure over an older pair" 2 "bad:2:3: 'x' is no digit; want decimal tokens with blanks between them, or name a binary type with --tokens-dtype" \
    build --tokens bad -o kept
ok "the older pair stays" cmp -s plain.bin kept.bin

# --- what is no text ---------------------------------------------------------------------------------
if command -v gzip >/dev/null 2>&1; then
    gzip -c text >text.gz
    fails "a packed text" 2 "text.gz: this is packed with gzip; unpack it on the way (zcat FILE | sennit-data build --text - ...), or say --raw to take its bytes as they are" \
        build --text text.gz -o no
    zcat text.gz | "$data" build --text - -o unpacked >.report 2>&1
    ok "unpacked on the way" cmp -s text unpacked.bin
    run "$data" build --text text.gz --raw -o packed
    ok "or its bytes, if somebody wants them" cmp -s text.gz packed.bin
else
    skip "a packed text" "no gzip here"
fi
printf '{"text": "a"}\n{"text": "b"}\n' >lines.jsonl
fails "JSON lines" 2 "lines.jsonl: these are JSON lines, whose braces and keys would be learnt too; take the text out (jq -r .text FILE | sennit-data build --text - ...), or say --raw to take the bytes as they are" \
    build --text text lines.jsonl -o no
run "$data" build --text lines.jsonl --raw -o lines-raw
is "or as they are" "$rc" 0
printf '\223NUMPY\001\000v\000{}' >array.npy
fails "an array with a header" 2 "array.npy: this is a numpy file; write the array with tofile, which has no header, or say --raw to take its bytes as they are" \
    build --tokens array.npy --tokens-dtype u16 -o no
printf '{\n  "text": 1\n}\n' >code
run "$data" build --text code -o code-tokens
is "text that begins with a brace is text" "$rc" 0

# --- usage -----------------------------------------------------------------------------------------
fails "no command" 2 "sennit-data: no command; want build, tokenize, train-tokenizer, print, merge, split, shuffle, dedup, stats or check, see sennit-data --help"
fails "an unknown command" 2 "sennit-data: unknown command 'make'; want build, tokenize, train-tokenizer, print, merge, split, shuffle, dedup, stats or check, see sennit-data --help" make
fails "an unknown option" 2 "sennit-data build: unknown option --texts; see sennit-data --help" build --texts text
fails "an option without its value" 2 "sennit-data build: no value after -o; see sennit-data --help" build --text text -o
fails "neither kind of input" 2 "sennit-data build: no kind of input; want --text FILE... or --tokens FILE..." build text -o no
fails "both kinds of input" 2 "sennit-data build: both --text and --tokens; want --text FILE... or --tokens FILE..." \
    build --text --tokens text -o no
fails "no output" 2 "sennit-data build: no output; want -o PREFIX" build --text text
fails "no files" 2 "sennit-data build: no files; name some, or - for standard input" build --text -o no
fails "two prefixes" 2 "sennit-data print: 2 prefixes; want exactly one" print plain lines
fails "lines of binary tokens" 2 "sennit-data build: binary tokens have no lines or paragraphs; want --documents files" \
    build --tokens t16.bin --tokens-dtype u16 --documents lines -o no
for help in --help "build --help" "print --help"; do
    # shellcheck disable=SC2086
    run "$data" $help
    is "$help exits 0 and is silent on stderr" "$rc:$err" "0:"
    like "$help shows the usage" "$out" '^usage: sennit-data build'
done
run "$data" --version
like "--version names a version" "$out" '^sennit-data [0-9]+\.[0-9]+'
tap_done
