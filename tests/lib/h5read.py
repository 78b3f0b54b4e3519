#!/usr/bin/env python3
"""h5read.py - what somebody else's HDF5 sees in a checkpoint.

usage: h5read.py [--pieces] STEP_DIR

Prints "group name rows cols dtype sha256" of every tensor, sorted: of the values that h5py reads
through master.h5, or (--pieces) that it reads from the shards and puts together by manifest.json.
The hash is of the values as stored: little endian, row by row.
"""
import hashlib
import json
import os
import sys

import h5py
import numpy

BF16 = (15, 7, 8, 0, 7)  # sign, exponent at and bits, fraction at and bits
FP16 = (15, 10, 5, 0, 10)


def dtype_of(dataset):
    kind = dataset.id.get_type()
    if kind.get_class() != h5py.h5t.FLOAT or kind.get_order() != h5py.h5t.ORDER_LE:
        return "?"
    if kind.get_size() == 4 and kind == h5py.h5t.IEEE_F32LE:
        return "fp32"
    return {BF16: "bf16", FP16: "fp16"}.get(kind.get_fields(), "?") if kind.get_size() == 2 else "?"


def values(dataset, rows=slice(None), cols=slice(None)):
    """A matrix of the stored type; bf16, which numpy lacks, as its bits."""
    part = dataset[rows, cols] if dataset.ndim == 2 else dataset[rows].reshape(-1, 1)
    if dtype_of(dataset) == "bf16":
        bits = numpy.ascontiguousarray(part, dtype="<f4").view("<u4")
        return (bits >> 16).astype("<u2")
    return part


def line(group, name, dtype, matrix):
    digest = hashlib.sha256(numpy.ascontiguousarray(matrix).tobytes()).hexdigest()
    return f"{group} {name} {matrix.shape[0]} {matrix.shape[1]} {dtype} {digest}"


def through_master(folder):
    lines = []

    def visit(path, item):
        if isinstance(item, h5py.Dataset):
            group, name = path.split("/")[-2:]
            lines.append(line(group, name, dtype_of(item), values(item)))

    with h5py.File(os.path.join(folder, "master.h5"), "r") as master:
        master.visititems(visit)
    return lines


def through_pieces(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    shards = [h5py.File(os.path.join(folder, s["file"]), "r") for s in manifest["shards"]]
    lines = []
    for t in manifest["tensors"]:
        kind = {"fp32": "<f4", "bf16": "<u2", "fp16": "<f2"}[t["dtype"]]
        whole = numpy.zeros(t["shape"], dtype=kind)
        for p in t["pieces"]:
            dataset = shards[p["shard"]][p["dataset"]]
            if dtype_of(dataset) != t["dtype"]:
                sys.exit(f"{p['dataset']} is {dtype_of(dataset)}, not {t['dtype']}")
            (r0, r1), (c0, c1) = p["row"], p["col"]
            at = p.get("at", [0, 0])
            whole[r0:r1, c0:c1] = values(
                dataset, slice(at[0], at[0] + r1 - r0), slice(at[1], at[1] + c1 - c0)
            )
        lines.append(line(t["group"], t["name"], t["dtype"], whole))
    return lines


def main():
    args = sys.argv[1:]
    read = through_pieces if args[:1] == ["--pieces"] else through_master
    if len(args) != 1 + (read is through_pieces):
        sys.exit(__doc__)
    print("\n".join(sorted(read(args[-1]))))


main()
