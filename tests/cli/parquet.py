#!/usr/bin/env python3
"""parquet.py - random Parquet files of pyarrow's, and whether parquet_rows gives what they hold.

usage: parquet.py random SEED FOLDER        write FOLDER/N.parquet and what they hold as FOLDER/N.jsonl
       parquet.py compare ROWS FOLDER       run ROWS on each, and compare
"""
import glob
import json
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ["alpha", "β", '"quote"', "back\\slash", "tab\t", "nl\n", "🙂", "x" * 200, "\x01", ""]
COLUMNS = ["text", "id", "messages", "i", "f", "b", "deep"]
CHANCE = random.Random()


def text():
    return "".join(CHANCE.choice(WORDS) for _ in range(CHANCE.randint(0, 30)))


def maybe(value):
    return value if CHANCE.random() < 0.9 else None


def some(make, most):
    return [make() for _ in range(CHANCE.randint(0, most))]


def message():
    return {"role": CHANCE.choice(["user", "assistant", None]), "content": maybe(text())}


def table(n, few):
    values = [CHANCE.choice(WORDS) if few else maybe(text()) for _ in range(n)]
    messages = [maybe(some(message, 5)) for _ in range(n)]
    ints = [maybe(CHANCE.randint(-(2**31), 2**31 - 1)) for _ in range(n)]
    deep = [maybe(some(lambda: maybe(some(lambda: CHANCE.randint(0, 9), 3)), 3)) for _ in range(n)]
    a_message = pa.struct([("role", pa.string()), ("content", pa.string())])
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "text": pa.array(values, pa.string()),
            "messages": pa.array(messages, pa.list_(a_message)),
            "i": pa.array(ints, pa.int32()),
            "f": pa.array([CHANCE.random() for _ in range(n)], pa.float32()),
            "b": pa.array([CHANCE.random() < 0.5 for _ in range(n)]),
            "deep": pa.array(deep, pa.list_(pa.list_(pa.int32()))),
        }
    )


def write(folder, number, codec, version, encoding):
    t = table(CHANCE.choice([0, 1, 10, 1000]), encoding is None)
    coded = {}
    if encoding:
        texts = ["text", "messages.list.element.role", "messages.list.element.content"]
        coded = {"use_dictionary": False, "column_encoding": {name: encoding for name in texts}}
        for name in ["id", "i"]:
            coded["column_encoding"][name] = CHANCE.choice(["PLAIN", "DELTA_BINARY_PACKED"])
    pq.write_table(
        t,
        f"{folder}/{number}.parquet",
        compression=codec,
        data_page_version=version,
        row_group_size=CHANCE.choice([7, 700, 10000]),
        data_page_size=CHANCE.choice([100, 5000, 1 << 20]),
        **coded,
    )
    with open(f"{folder}/{number}.jsonl", "w", encoding="utf-8") as f:
        for row in t.to_pylist():
            f.write(json.dumps({name: row[name] for name in COLUMNS}) + "\n")


def make(seed, folder):
    CHANCE.seed(seed)
    number = 0
    for codec in ["none", "snappy", "gzip", "zstd"]:
        for version in ["1.0", "2.0"]:
            for encoding in [None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]:
                write(folder, number, codec, version, encoding)
                number += 1


def compare(rows, folder):
    files = sorted(glob.glob(folder + "/*.parquet"))
    for path in files:
        done = subprocess.run([rows, path] + COLUMNS, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{path}: {done.stderr}")
        got = [json.loads(line) for line in done.stdout.split("\n") if line]
        with open(path.replace(".parquet", ".jsonl"), encoding="utf-8") as f:
            want = [json.loads(line) for line in f]
        if got != want:
            sys.exit(f"{path}: {len(got)} rows, {len(want)} wanted, and they differ")
    print(f"{len(files)} files are the same")


if __name__ == "__main__":
    make(int(sys.argv[2]), sys.argv[3]) if sys.argv[1] == "random" else compare(*sys.argv[2:])
