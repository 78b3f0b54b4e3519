#!/usr/bin/env python3
"""torch_gemm.py - GFLOP/s of PyTorch's products of the shapes that bench_gemm times.

usage: VENV/bin/python3 tests/bench/torch_gemm.py [THREADS [TOKENS [fp32 | bf16]]]

f is Y = X W^T, d is dX = dY W, w is dW += dY^T X. Medians of 9 turns of at least 4 ms; at the end their median
and the least. Run build/tests/bench/bench_gemm right before and after: it prints ours and the processor's peak.
"""

import statistics
import sys
import time

import torch

SHAPES = [(768, 2304), (768, 768), (768, 3072), (3072, 768), (384, 1152), (384, 1536), (1536, 384), (768, 50304), (384, 50304)]


def rate(product, flops):
    product()
    repeats = 1 + int(4e-3 * 2e11 / flops)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(repeats):
            product()
        times.append((time.perf_counter() - start) / repeats)
    return flops / statistics.median(times) / 1e9


def main():
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    bf16 = len(sys.argv) > 3 and sys.argv[3] == "bf16"
    rates = []
    for width, out in SHAPES:
        x, w, dy = torch.randn(tokens, width), torch.randn(out, width), torch.randn(tokens, out)
        dw = torch.zeros(out, width)
        if bf16:
            x, w, dy, dw = x.bfloat16(), w.bfloat16(), dy.bfloat16(), dw.bfloat16()
        want = x[:2].double() @ w.double().t()
        # A result of bf16 is rounded, by up to 2^-8 of values of up to 5 sqrt(width).
        assert torch.allclose(torch.mm(x, w.t())[:2].double(), want, atol=(2e-2 if bf16 else 1e-3) * width**0.5)
        products = {
            "f": lambda x=x, w=w: torch.mm(x, w.t()),
            "d": lambda dy=dy, w=w: torch.mm(dy, w),
            "w": lambda dw=dw, dy=dy, x=x: dw.addmm_(dy.t(), x),
        }
        for kind, product in products.items():
            rates.append(rate(product, 2.0 * tokens * width * out))
            print(f"{tokens} tokens, {width} -> {out} {kind}: {rates[-1]:.0f}")
    print(f"median {statistics.median(rates):.0f}, least {min(rates):.0f} GFLOP/s")


main()
