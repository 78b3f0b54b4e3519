#!/bin/sh
# speed.sh - how fast the planner searches, as Markdown on stdout: `make build/tests/bench/bench_search`
# first. CPU seconds are those of the process, which uses one core.
set -eu
B=${BUILD:-build}/tests/bench/bench_search

row() { # model machine gpus batch seq target
    out=$("$B" "$1" "$2" "$3" "$4" "$5" 10 | grep -v '^#' | head -n 1)
    echo "speed: $out" >&2
    printf '%s\n' "$out" | sed -E 's/.*: ([0-9]+) layouts, ([0-9]+) over the memory, ([0-9]+) compiled; ([0-9.]+) s, ([0-9.]+) s of CPU \(([0-9]+) layouts\/s bounded, ([0-9.]+) ms compiled\), ([0-9]+) MiB/\1 \2 \3 \5 \6 \7 \8/' |
        {
            read -r layouts big exact cpu rate each memory
            echo "| $1 on $3 x $2 | $layouts | $big | $exact | $cpu s | $6 | $rate | $each ms | $memory MiB |"
        }
}

echo "| search | layouts | do not fit | compiled | CPU time | target | layouts a second | each compiled | memory |"
echo "|---|---|---|---|---|---|---|---|---|"
row llama-65b dgx-a100-80 1024 2048 2048 "1 s, 200 MiB"
row llama-65b dgx-a100-80 16384 32768 2048 "5 s, 200 MiB"
row llama-13b dgx-a100-80 64 2048 2048 ""
row mixtral-8x7b dgx-a100-80 1024 2048 4096 ""
row llama3-8b dgx-h100 512 1024 4096 ""
row mixtral-8x7b dgx-h100 64 256 4096 ""
row llama3-70b dgx-h100 256 512 8192 ""
