#!/usr/bin/env python3
"""PyTorch training steps on the CPU, tuned: the figure that sennit-train has to meet.

One JSON line on stdout per configuration: median ms per step, tokens/s, first and last loss, and
everything that decides the number (torch, threads, compiler, allocator, OpenMP environment).
`other_cores` is how many cores other processes used while the steps were timed; `quiet_*` is the
median over those steps alone in which it was under 0.1. --until-quiet N waits before each step
until nobody else computes and goes on until N steps were undisturbed: a figure from a shared
machine that compares. `cpu_ms_*` is the process's own CPU time: with --threads 1 it ranks settings
even on a busy machine (with more threads it counts spinning).

  torch_train.py --config gpt2-124m-b4t64 --compile
  torch_train.py --config gpt2-124m-b1t1024 --precision bf16 --steps 10
  torch_train.py --model llama --config gpt2-124m-b4t64      same width and depth, Llama blocks

Run it through torch_best.sh, which sets the environment that was found fastest. A step is: new
batch, zero_grad(set_to_none), forward, backward, clip to norm 1, AdamW. Master weights are float32;
bf16 is autocast. Nothing here is taken from sennit; both count tokens as batch x seq / step time.
"""
import argparse
import contextlib
import json
import math
import os
import resource
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

#          layers width heads ffn(gpt2) ffn(llama) vocab  batch seq
CONFIGS = {
    "gpt2-124m-b4t64": (12, 768, 12, 3072, 2048, 50304, 4, 64),
    "gpt2-124m-b1t1024": (12, 768, 12, 3072, 2048, 50304, 1, 1024),
    "gpt2-30m-b4t256": (6, 384, 6, 1536, 1024, 50304, 4, 256),
    "gpt2-1m-b8t128": (4, 128, 4, 512, 344, 512, 8, 128),
    "mixtral-8x16m-b4t256": (6, 384, 6, 1536, 1024, 50304, 4, 256),  # --model mixtral
}
QUIET = 0.1  # cores in use by others


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)


class Experts(nn.Module):
    """Mixtral's: each token visits two of eight, without capacity. Tokens are sorted by expert once, so
    that each expert multiplies one slice of them."""

    def __init__(self, d, ffn, count=8, top_k=2):
        super().__init__()
        self.count, self.top_k = count, top_k
        self.router = nn.Linear(d, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, 2 * ffn, d) * 0.02)  # gate | up
        self.down = nn.Parameter(torch.randn(count, d, ffn) * 0.02)

    def forward(self, x):
        flat = x.flatten(0, 1)
        weight, chosen = self.router(flat).float().softmax(-1).topk(self.top_k, -1)
        weight = (weight / weight.sum(-1, keepdim=True)).to(x.dtype)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=self.count).tolist()
        token = order // self.top_k
        parts = []
        for e, rows in enumerate(flat[token].split(counts)):
            gate, up = F.linear(rows, self.up[e]).chunk(2, -1)
            parts.append(F.linear(F.silu(gate) * up, self.down[e]))
        y = torch.cat(parts) * weight.flatten()[order, None]
        return torch.zeros_like(flat).index_add(0, token, y.to(flat.dtype)).view_as(x)


class Block(nn.Module):
    def __init__(self, d, heads, ffn, llama, experts=False):
        super().__init__()
        self.heads, self.llama = heads, llama
        norm = RMSNorm if llama else nn.LayerNorm
        self.n1, self.n2 = norm(d), norm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=not llama)
        self.proj = nn.Linear(d, d, bias=not llama)
        self.experts = Experts(d, ffn) if experts else None
        if experts:
            return
        self.up = nn.Linear(d, 2 * ffn if llama else ffn, bias=not llama)  # llama: gate | up
        self.down = nn.Linear(ffn, d, bias=not llama)

    def forward(self, x, rope):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).split(d, -1)
        q, k, v = (a.view(b, t, self.heads, -1).transpose(1, 2) for a in (q, k, v))
        if self.llama:
            q, k = rotate(q, *rope), rotate(k, *rope)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        if self.experts:
            return x + self.experts(self.n2(x))
        h = self.up(self.n2(x))
        if self.llama:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        else:
            h = F.gelu(h, approximate="tanh")
        return x + self.down(h)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Model(nn.Module):
    def __init__(self, layers, d, heads, ffn, vocab, seq, llama, experts=False):
        super().__init__()
        self.llama = llama
        self.embed = nn.Embedding(vocab, d)
        self.pos = None if llama else nn.Embedding(seq, d)
        self.blocks = nn.ModuleList(Block(d, heads, ffn, llama, experts) for _ in range(layers))
        self.norm = RMSNorm(d) if llama else nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.embed.weight
        half = d // heads // 2
        angle = torch.arange(seq)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.02 / math.sqrt(2 * layers) if "proj" in name or "down" in name else 0.02
                nn.init.normal_(p, 0.0, std)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, targets):
        x = self.embed(ids)
        if self.pos is not None:
            x = x + self.pos.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, (self.cos, self.sin))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def cpu_seconds():
    """(busy seconds of all cores, of this process): their difference is other people's work."""
    with open("/proc/stat") as f:
        t = [int(x) for x in f.readline().split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    own = time.process_time()
    return (sum(t[:3]) + sum(t[5:8])) / tick, own


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def wait_for_quiet(deadline):
    """Sleep until the others have been quiet for 0.3 s, or the deadline."""
    while time.perf_counter() < deadline:
        busy0, own0 = cpu_seconds()
        time.sleep(0.3)
        busy1, own1 = cpu_seconds()
        if busy1 - busy0 - (own1 - own0) < 0.3 * QUIET:
            return


def make_optimizer(model, kind):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    other = [p for p in model.parameters() if p.dim() < 2]
    how = {"fused": dict(fused=True), "foreach": dict(foreach=True), "loop": dict(foreach=False)}
    return torch.optim.AdamW([dict(params=decay, weight_decay=0.1),
                              dict(params=other, weight_decay=0.0)],
                             lr=3e-4, betas=(0.9, 0.95), eps=1e-8, **how[kind])


def clip(params, optimizer, kind):
    if kind == "torch":
        nn.utils.clip_grad_norm_(params, 1.0)
    elif kind == "folded":  # the fused AdamW divides by grad_scale as it reads the gradients
        norm = nn.utils.get_total_norm([p.grad for p in params])
        optimizer.grad_scale = torch.clamp((norm + 1e-6) / 1.0, min=1.0)
        optimizer.found_inf = torch.zeros(())


def environment():
    keys = ("MALLOC_", "GLIBC_TUNABLES", "OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_")
    env = {k: v for k, v in sorted(os.environ.items()) if k.startswith(keys)}
    if "LD_PRELOAD" in os.environ:
        env["LD_PRELOAD"] = " ".join(os.path.basename(p) for p in
                                     os.environ["LD_PRELOAD"].replace(":", " ").split())
    return env


def cpu_name():
    with open("/proc/cpuinfo") as f:
        text = f.read()
    field = lambda k: next(l.split(":", 1)[1].strip() for l in text.splitlines() if l.startswith(k))
    bf16 = "avx512_bf16" in field("flags")
    return f"{field('model name')} (model {field('model')}, stepping {field('stepping')}, " \
           f"{'with' if bf16 else 'without'} avx512_bf16)"


def profile(step):
    from torch.profiler import ProfilerActivity, profile as record
    with record(activities=[ProfilerActivity.CPU]) as p:
        step()
    print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=25), file=sys.stderr)


def compiled(model, a):
    if not a.compile:
        return model
    for item in a.inductor or []:
        key, value = item.split("=", 1)
        module, leaf = torch._inductor.config, key.split(".")
        for part in leaf[:-1]:
            module = getattr(module, part)
        setattr(module, leaf[-1], json.loads(value))
    return torch.compile(model, mode=None if a.compile_mode == "default" else a.compile_mode)


def run(a, name):
    layers, d, heads, ffn_gpt2, ffn_llama, vocab, batch, seq = CONFIGS[name]
    batch, seq = a.batch or batch, a.seq or seq
    llama, experts = a.model != "gpt2", a.model == "mixtral"
    torch.manual_seed(1234)
    model = Model(layers, d, heads, ffn_llama if llama else ffn_gpt2, vocab, max(seq, 64), llama,
                  experts)
    params = list(model.parameters())
    optimizer = make_optimizer(model, a.optimizer)
    call = compiled(model, a)
    data = torch.randint(vocab, (a.batches, batch, seq + 1))
    amp = (torch.autocast("cpu", torch.bfloat16) if a.precision == "bf16"
           else contextlib.nullcontext())
    losses, times, others, own = [], [], [], []

    def step():
        ids = data[len(losses) % a.batches]
        optimizer.zero_grad(set_to_none=True)
        with amp:
            loss = call(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        clip(params, optimizer, a.clip)
        optimizer.step()
        losses.append(loss.item())

    t0 = time.perf_counter()
    for _ in range(a.warmup):
        if a.until_quiet:
            wait_for_quiet(t0 + a.patience / 2)
        step()
    warm = time.perf_counter() - t0
    begin, faults0 = time.perf_counter(), faults()
    while len(times) < a.steps or (
            sum(o < QUIET for o in others) < a.until_quiet
            and time.perf_counter() - begin < a.patience):
        if a.until_quiet:
            wait_for_quiet(begin + a.patience)
        busy0, own0 = cpu_seconds()
        t0 = time.perf_counter()
        step()
        wall = time.perf_counter() - t0
        busy1, own1 = cpu_seconds()
        times.append(1e3 * wall)
        own.append(1e3 * (own1 - own0))
        others.append(max(0.0, busy1 - busy0 - (own1 - own0)) / wall)
    quiet = [t for t, o in zip(times, others) if o < QUIET]
    if a.profile:
        profile(step)
    median = statistics.median(times)
    print(json.dumps({
        "config": name, "model": a.model, "params": sum(p.numel() for p in params),
        "batch": batch, "seq": seq, "precision": a.precision,
        "ms_per_step": round(median, 2), "tokens_per_s": round(batch * seq / median * 1e3, 1),
        "ms_min": round(min(times), 2), "ms_max": round(max(times), 2), "steps": len(times),
        "quiet_steps": len(quiet),
        "quiet_ms_per_step": round(statistics.median(quiet), 2) if quiet else None,
        "quiet_tokens_per_s":
            round(batch * seq / statistics.median(quiet) * 1e3, 1) if quiet else None,
        "loss_first": round(losses[0], 5), "loss_last": round(losses[-1], 5),
        "cpu_ms_per_step": round(statistics.median(own), 2), "cpu_ms_min": round(min(own), 2),
        "page_faults_per_step": round((faults() - faults0) / len(times)),
        "other_cores": round(statistics.mean(others), 2),
        "warmup_s": round(warm, 1), "threads": torch.get_num_threads(),
        "torch": torch.__version__, "compile": a.compile_mode if a.compile else None,
        "inductor": a.inductor, "optimizer": a.optimizer, "clip": a.clip,
        "matmul_precision": a.matmul_precision, "env": environment(), "cpu": cpu_name(),
        "isa": torch.backends.cpu.get_cpu_capability(),
    }), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--config", action="append", choices=CONFIGS, help="default: the three large")
    p.add_argument("--model", choices=("gpt2", "llama", "mixtral"), default="gpt2")
    p.add_argument("--batch", type=int, help="sequences per step instead of the configuration's")
    p.add_argument("--seq", type=int, help="tokens per sequence instead of the configuration's")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--compile", action="store_true", help="torch.compile instead of eager")
    p.add_argument("--compile-mode", default="default",
                   choices=("default", "max-autotune-no-cudagraphs", "reduce-overhead"))
    p.add_argument("--inductor", action="append", metavar="KEY=JSON",
                   help="a torch._inductor.config setting")
    p.add_argument("--optimizer", choices=("fused", "foreach", "loop"), default="fused")
    p.add_argument("--clip", choices=("torch", "folded", "none"), default="torch",
                   help="folded: the scaling happens inside the fused AdamW")
    p.add_argument("--matmul-precision", choices=("highest", "high", "medium"), default="highest")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--until-quiet", type=int, default=0, metavar="N",
                   help="start steps at quiet moments, until N ran undisturbed")
    p.add_argument("--patience", type=float, default=120, help="seconds, then stop waiting")
    p.add_argument("--batches", type=int, default=1,
                   help="distinct random batches; 1 shows that it learns")
    p.add_argument("--flush-denormal", action="store_true")
    p.add_argument("--profile", action="store_true", help="one profiled step on stderr")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.set_float32_matmul_precision(a.matmul_precision)
    if a.flush_denormal:
        torch.set_flush_denormal(True)
    for name in a.config or list(CONFIGS)[:3]:
        run(a, name)


if __name__ == "__main__":
    main()
