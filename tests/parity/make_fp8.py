#!/usr/bin/env python3
"""What PyTorch rounds fp32 numbers to, as 8-bit floats: tests/parity/fixtures/fp8.

Each line: the bits of an fp32 number, its float8_e4m3fn, its float8_e5m2, in hexadecimal. The
numbers: every value of both formats, each midpoint between two neighbours and the fp32 numbers
around it, powers of two, the ends of the ranges, infinities, NaN, and 2,000 at random.

  make_fp8.py            write the file (needs torch 2.1 or later)
"""
import os
import random
import struct

import torch


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def values(dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    return sorted({v for v in codes.view(dtype).to(torch.float32).tolist() if v == v and abs(v) < 1e9})


def main():
    numbers = {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 1, 0x00800000}
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        v = values(dtype)
        numbers |= {bits_of(x) for x in v}
        for a, b in zip(v, v[1:]):
            middle = bits_of((a + b) / 2)
            numbers |= {middle - 1, middle, middle + 1} if middle & 0x7FFFFFFF else {middle}
        top = bits_of(v[-1])
        numbers |= {top + d for d in range(0, 1 << 22, 1 << 16)}
    numbers |= {bits_of(2.0**e) for e in range(-30, 40)}
    draw = random.Random(8)
    numbers |= {draw.getrandbits(32) for _ in range(1000)}
    numbers |= {bits_of(draw.gauss(0, 1) * 2.0 ** draw.randint(-20, 16)) for _ in range(1000)}
    order = sorted(n for n in numbers if n <= 0xFFFFFFFF)
    x = torch.tensor([n - (1 << 32) if n >> 31 else n for n in order], dtype=torch.int32).view(torch.float32)
    columns = [x.to(t).view(torch.uint8).tolist() for t in (torch.float8_e4m3fn, torch.float8_e5m2)]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "fixtures", "fp8"), "w", encoding="ascii") as f:
        for n, a, b in zip(order, *columns):
            f.write(f"{n:08x} {a:02x} {b:02x}\n")


if __name__ == "__main__":
    main()
