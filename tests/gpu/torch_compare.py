#!/usr/bin/env python3
"""Our operations and our training step beside PyTorch's, on the same tensors and the same batch.

  torch_compare.py ops --library build/tests/gpu/libby_pointer.so          (on the first GPU)
  torch_compare.py step --weights DIR --tokens PREFIX --metrics FILE ...   (after sennit-train)

ops runs single operations (GEMM, attention, norms, SwiGLU, loss, update): first each result is
checked, then both are timed. Right means: no further from PyTorch's own result in float32 than
LIMIT times what PyTorch's kernel in bfloat16 is. step loads the weights that sennit-train began
with, and the batch of its first step, wants the same loss, and then times training steps (eager and
torch.compile; fused attention, fused AdamW, autocast to bfloat16).

Prints TAP points ("ok", "not ok") and appends a table to --report. Times are medians; "ratio" is
PyTorch's time over ours: above 1 we are faster. --device cpu --small runs the same on a host, with
the emulated kernels of tests/cuda_emul in place of the plugin's: results are checked, times are not
told. Exit 0 when all points are right, 1 when not; 77 where there is no torch, or none for a GPU.
"""
import argparse
import ctypes
import json
import math
import os
import struct
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print(f"no PyTorch in {sys.executable}: {e}")
    sys.exit(77)

LIMIT = 2.0   # our error over PyTorch's own
FLOOR = 4e-3  # and half of bfloat16's last bit, for what PyTorch has exactly
FAILED = []
POINTS = [0]


def point(good, sentence):
    POINTS[0] += 1
    print(f"{'ok' if good else 'not ok'} {POINTS[0]} - {sentence}")
    if not good:
        FAILED.append(sentence)


# ---- our operations, by pointer (tests/gpu/by_pointer.c) ----------------------------------------

MOST_IN, MOST_OUT = 7, 6  # SN_MAX_IN, SN_MAX_OUT of kernels/ops.h
TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3, torch.int32: 4, torch.uint8: 5}


class Mat(ctypes.Structure):
    _fields_ = [("p", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64),
                ("ld", ctypes.c_int64)]


class Call(ctypes.Structure):
    _fields_ = [("op", ctypes.c_char_p), ("attrs", ctypes.c_char_p), ("inputs", Mat * MOST_IN),
                ("outputs", Mat * MOST_OUT), ("scalars", ctypes.c_void_p), ("scratch", ctypes.c_void_p)]


def mat(t):
    if t is None:
        return Mat(None, 0, 0, 0, 0)
    t2 = t.view(1, -1) if t.dim() == 1 else t
    assert t2.dim() == 2 and t2.stride(1) == 1
    return Mat(t.data_ptr(), TYPES[t.dtype], t2.shape[0], t2.shape[1], t2.stride(0))


class Ours:
    def __init__(self, path, device):
        self.lib = ctypes.CDLL(path)
        self.lib.by_pointer_call_size.restype = ctypes.c_size_t
        self.lib.by_pointer_scalars.restype = ctypes.c_size_t
        self.lib.by_pointer_scalars.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double]
        self.lib.by_pointer_open.restype = ctypes.c_void_p
        self.lib.by_pointer_scratch.restype = ctypes.c_long
        self.lib.by_pointer_why.restype = ctypes.c_char_p
        self.lib.by_pointer_why.argtypes = self.lib.by_pointer_arch.argtypes = [ctypes.c_void_p]
        self.lib.by_pointer_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Call), ctypes.c_void_p]
        assert self.lib.by_pointer_call_size() == ctypes.sizeof(Call), "by_pointer.c has another layout"
        self.context = self.lib.by_pointer_open(0)
        if not self.context:
            raise SystemExit("our kernels do not open the device")
        self.device, self.scratch = device, {}

    def arch(self):
        return self.lib.by_pointer_arch(self.context)

    def scalars(self, tokens):
        n = self.lib.by_pointer_scalars(None, 0, 0.0)
        raw = ctypes.create_string_buffer(n)
        self.lib.by_pointer_scalars(raw, n, float(tokens))
        return torch.frombuffer(bytearray(raw.raw), dtype=torch.uint8).to(self.device)

    def op(self, name, inputs, outputs, scalars=None, **attrs):
        """A function that runs the operation again and again."""
        call = Call(op=name.encode(), attrs=" ".join(f"{k}={float(v):.9g}" for k, v in attrs.items()).encode())
        for to, some in ((call.inputs, inputs), (call.outputs, outputs)):
            for i, t in enumerate(some):
                to[i] = mat(t)
        call.scalars = scalars.data_ptr() if scalars is not None else None
        need = self.lib.by_pointer_scratch(ctypes.byref(call))
        if need < 0:
            raise SystemExit(f"{name} {attrs}: no such operation or attribute")
        room = self.scratch.get("room")
        if room is None or room.numel() < need + 256:
            room = self.scratch["room"] = torch.zeros(need + 256, dtype=torch.uint8, device=self.device)
        call.scratch = (room.data_ptr() + 255) // 256 * 256
        keep = (inputs, outputs, scalars, room)  # tensors live as long as the function

        def run(keep=keep):
            stream = torch.cuda.current_stream().cuda_stream if self.device == "cuda" else None
            if self.lib.by_pointer_run(self.context, ctypes.byref(call), stream):
                raise SystemExit(f"{name}: {self.lib.by_pointer_why(self.context).decode()}")
        return run


# ---- timing and checking ------------------------------------------------------------------------

def median(x):
    return sorted(x)[len(x) // 2]


def microseconds(run, device, repeats=15):
    """Median over repeats, of a few calls each, on the device's clock."""
    if device != "cuda":
        return 0.0
    for _ in range(3):
        run()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times, calls = [], 4
    for _ in range(repeats):
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return median(times)


def error(got, want):
    """Largest difference over the root mean square of what is wanted."""
    size = want.float().pow(2).mean().sqrt().item() or 1.0
    off = (got.float() - want.float()).abs().max().item() / size
    return off if math.isfinite(off) else math.inf


class Table:
    def __init__(self, title, columns):
        self.lines = [f"\n### {title}\n", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]

    def add(self, *cells):
        self.lines.append("| " + " | ".join(str(c) for c in cells) + " |")

    def save(self, path):
        if path:
            with open(path, "a", encoding="utf-8") as f:
                f.write("\n".join(self.lines) + "\n")


class Bench:
    def __init__(self, a):
        self.a, self.ours = a, Ours(a.library, a.device)
        self.table = Table("Operations beside PyTorch's", ["operation", "shape", "our error", "its error", "ours, us",
                                                           "PyTorch, us", "ratio"])
        torch.manual_seed(7)

    def random(self, *shape, scale=1.0, dtype=torch.bfloat16):
        return (torch.randn(*shape, device=self.a.device) * scale).to(dtype)

    def empty(self, *shape, dtype=torch.bfloat16):
        return torch.zeros(*shape, device=self.a.device, dtype=dtype)

    def compare(self, name, shape, ours, outputs, theirs, exact, limit=None, in_place=()):
        """ours() writes `outputs`; theirs() and exact() return as many tensors, the latter from float32."""
        saved = [t.clone() for t in in_place]
        ours()
        got = [o.clone() for o in outputs]
        for t, s in zip(in_place, saved):
            t.copy_(s)
        want, its = exact(), theirs()
        mine = max(error(g, w) for g, w in zip(got, want))
        other = max(error(i, w) for i, w in zip(its, want))
        allowed = limit or LIMIT * other + FLOOR
        point(mine <= allowed, f"{name}, {shape}: error {mine:.2g}, PyTorch's {other:.2g}, limit {allowed:.2g}")
        del want, its, got
        t_ours, t_theirs = microseconds(ours, self.a.device), microseconds(theirs, self.a.device)
        ratio = f"{t_theirs / t_ours:.2f}" if t_ours else "-"
        self.table.add(name, shape, f"{mine:.2g}", f"{other:.2g}", f"{t_ours:.1f}", f"{t_theirs:.1f}", ratio)

    # -- products
    def gemm(self, tokens, wide, narrow):
        x, w, dy = self.random(tokens, narrow), self.random(wide, narrow, scale=0.02), self.random(tokens, wide)
        shape = f"{tokens} x {wide} x {narrow}"
        y, dx, dw = self.empty(tokens, wide), self.empty(tokens, narrow), self.empty(wide, narrow, dtype=torch.float32)
        op = self.ours.op
        self.compare("gemm, forward", shape, op("gemm", [x, w], [y], trans_b=1), [y], lambda: [x @ w.T],
                     lambda: [x.float() @ w.float().T])
        self.compare("gemm, dx", shape, op("gemm", [dy, w], [dx]), [dx], lambda: [dy @ w],
                     lambda: [dy.float() @ w.float()])
        self.compare("gemm, dw in fp32", shape, op("gemm", [dy, x], [dw], trans_a=1), [dw], lambda: [dy.T @ x],
                     lambda: [dy.T.float() @ x.float()])
        # 8 bits: each factor is off by 2^-4 at most, errors of many terms mostly cancel
        for name, how, least in (("tensorwise", 1, 89), ("blockwise", 3, 90)):
            if self.a.device == "cuda" and (self.ours.arch() < least or (how == 3 and self.ours.arch() != 90)):
                print(f"# gemm in 8 bits, {name}: not on sm_{self.ours.arch()}")
                continue
            self.compare(f"gemm in 8 bits, {name} (PyTorch: bf16)", shape, op("gemm", [x, w], [y], trans_b=1, fp8=how), [y],
                         lambda: [x @ w.T], lambda: [x.float() @ w.float().T], limit=0.4)

    # -- attention
    def attention(self, samples, seq, heads, kv_heads, d):
        q = self.random(samples * seq, heads * d)
        k, v = self.random(samples * seq, kv_heads * d), self.random(samples * seq, kv_heads * d)
        do = self.random(samples * seq, heads * d)
        o, lse = self.empty(samples * seq, heads * d), self.empty(samples * seq, heads, dtype=torch.float32)
        dq, dk, dv = (torch.zeros_like(t) for t in (q, k, v))
        attrs = dict(heads=heads, kv_heads=kv_heads, head_dim=d, seq=seq, scale=1 / math.sqrt(d))
        shape = f"{samples} x {seq}, {heads}/{kv_heads} heads of {d}"

        def split(t, n):
            return t.view(samples, seq, n, d).transpose(1, 2)

        def forward(q, k, v):
            q, k, v = split(q, heads), split(k, kv_heads), split(v, kv_heads)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            return out.transpose(1, 2).reshape(samples * seq, heads * d)

        def both(q, k, v, do):
            q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
            return list(torch.autograd.grad(forward(q, k, v), (q, k, v), do))

        op = self.ours.op
        self.compare("attention, forward", shape, op("attention", [q, k, v], [o, lse], **attrs), [o],
                     lambda: [forward(q, k, v)], lambda: [forward(q.float(), k.float(), v.float())])
        ours = op("attention_dx", [q, k, v, o, do, lse], [dq, dk, dv], **attrs)
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        kept = forward(*leaves)
        self.compare("attention, backward", shape, ours, [dq, dk, dv],
                     lambda: list(torch.autograd.grad(kept, leaves, do, retain_graph=True)),
                     lambda: both(q.float(), k.float(), v.float(), do.float()))

    # -- what moves memory
    def norms(self, tokens, width):
        x, w, b, dy = self.random(tokens, width), self.random(width), self.random(width), self.random(tokens, width)
        y, dx, op = self.empty(tokens, width), self.empty(tokens, width), self.ours.op
        rms, stats = self.empty(tokens, 1, dtype=torch.float32), self.empty(tokens, 2, dtype=torch.float32)
        shape, eps = f"{tokens} x {width}", 1e-5

        def gradient(f, x, dy):
            x = x.detach().requires_grad_()
            return list(torch.autograd.grad(f(x), x, dy))

        for name, st, weights, f in (
                ("rmsnorm", rms, [w], lambda x, t=torch.bfloat16: F.rms_norm(x, (width,), w.to(t), eps)),
                ("layernorm", stats, [w, b],
                 lambda x, t=torch.bfloat16: F.layer_norm(x, (width,), w.to(t), b.to(t), eps))):
            self.compare(name, shape, op(name, [x] + weights, [y, st], eps=eps), [y], lambda: [f(x)],
                         lambda: [f(x.float(), torch.float32)])
            leaf = x.detach().requires_grad_()
            kept = f(leaf)
            self.compare(name + ", dx", shape, op(name + "_dx", [dy, x, w, st], [dx], eps=eps), [dx],
                         lambda: list(torch.autograd.grad(kept, leaf, dy, retain_graph=True)),
                         lambda: gradient(lambda x: f(x, torch.float32), x.float(), dy.float()))

    def swiglu(self, tokens, width):
        x, y = self.random(tokens, 2 * width), self.empty(tokens, width)

        def f(x):
            return F.silu(x[:, :width]) * x[:, width:]
        self.compare("swiglu", f"{tokens} x {width}", self.ours.op("swiglu", [x], [y]), [y], lambda: [f(x)],
                     lambda: [f(x.float())])

    def loss(self, rows, vocab):
        logits = self.random(rows, vocab)
        targets = torch.randint(vocab, (rows, 1), device=self.a.device, dtype=torch.int32)
        grad, row = self.empty(rows, vocab), self.empty(rows, 1, dtype=torch.float32)

        def f(x):
            x = x.detach().requires_grad_()
            each = F.cross_entropy(x.float(), targets.view(-1).long(), reduction="none")
            return [*torch.autograd.grad(each.mean(), x), each.detach().view(-1, 1)]
        ours = self.ours.op("cross_entropy", [logits, targets], [grad, row], scalars=self.ours.scalars(rows))
        self.compare("loss and its gradient", f"{rows} x {vocab}", ours, [grad, row], lambda: f(logits),
                     lambda: f(logits.float()))

    def update(self, n):
        p, g = self.random(1, n, dtype=torch.float32), self.random(1, n, dtype=torch.float32)
        m, v, w = torch.zeros_like(p), torch.zeros_like(p), self.empty(1, n)
        q = p.clone().requires_grad_()
        q.grad = g.clone()
        how = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
        adam = torch.optim.AdamW([q], fused=self.a.device == "cuda", **how)
        slow = p.double().requires_grad_()
        slow.grad = g.double()
        torch.optim.AdamW([slow], **how).step()
        first = p.clone().requires_grad_()
        first.grad = g
        torch.optim.AdamW([first], **how).step()

        def theirs():
            adam.step()
            return [first.detach()]
        ours = self.ours.op("adamw", [g], [p, m, v, w], scalars=self.ours.scalars(1), beta1=0.9, beta2=0.95, eps=1e-8,
                            decay=0.1)
        self.compare("adamw", f"{n}", ours, [p], theirs, lambda: [slow.detach()], limit=1e-6, in_place=[p, m, v])


def ops(a):
    b = Bench(a)
    if a.small:
        b.gemm(80, 96, 160)
        b.attention(2, 48, 4, 2, 32)
        b.norms(40, 96)
        b.swiglu(24, 64)
        b.loss(24, 96)
        b.update(1000)
    else:
        for tokens, wide, narrow in ((32768, 2304, 768), (32768, 3072, 768), (8192, 6400, 1600), (8192, 11264, 2048),
                                     (8192, 28672, 4096)):
            b.gemm(tokens, wide, narrow)
        for samples, seq, heads, kv_heads, d in ((32, 1024, 12, 12, 64), (8, 1024, 25, 25, 64), (4, 2048, 32, 8, 64),
                                                 (2, 4096, 32, 8, 128), (1, 8192, 32, 8, 128)):
            b.attention(samples, seq, heads, kv_heads, d)
        for tokens, width in ((32768, 768), (8192, 4096)):
            b.norms(tokens, width)
        b.swiglu(8192, 14336)
        b.loss(16384, 50304)
        b.update(124_000_000)
    b.table.save(a.report)


# ---- a training step ----------------------------------------------------------------------------

def read_safetensors(path):
    with open(path, "rb") as f:
        raw = bytearray(f.read())
    n = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    kinds = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    data, out = memoryview(raw)[8 + n:], {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        out[name] = torch.frombuffer(data[begin:end], dtype=kinds[e["dtype"]]).float().reshape(e["shape"])
    return out


def read_weights(at):
    index = os.path.join(at, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read_safetensors(os.path.join(at, "model.safetensors"))
    with open(index, encoding="utf-8") as f:
        files = sorted(set(json.load(f)["weight_map"].values()))
    return {k: v for name in files for k, v in read_safetensors(os.path.join(at, name)).items()}


def linear(weight, bias=None):
    """A linear map that owns its weight [out, in]."""
    m = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    m.weight = torch.nn.Parameter(weight.contiguous())
    if bias is not None:
        m.bias = torch.nn.Parameter(bias.contiguous())
    return m


class Norm(torch.nn.Module):
    def __init__(self, weight, bias, eps):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(weight), eps
        self.bias = None if bias is None else torch.nn.Parameter(bias)

    def forward(self, x):
        if self.bias is None:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Block(torch.nn.Module):
    def __init__(self, w, c):
        super().__init__()
        self.heads, self.kv, self.gpt2 = c["heads"], c["kv_heads"], c["gpt2"]
        get = w.get
        if self.gpt2:  # its products keep [in, out]
            self.n1 = Norm(w["ln_1.weight"], w["ln_1.bias"], c["eps"])
            self.n2 = Norm(w["ln_2.weight"], w["ln_2.bias"], c["eps"])
            self.qkv = linear(w["attn.c_attn.weight"].T, w["attn.c_attn.bias"])
            self.out = linear(w["attn.c_proj.weight"].T, w["attn.c_proj.bias"])
            self.up = linear(w["mlp.c_fc.weight"].T, w["mlp.c_fc.bias"])
            self.down = linear(w["mlp.c_proj.weight"].T, w["mlp.c_proj.bias"])
        else:
            self.n1 = Norm(w["input_layernorm.weight"], None, c["eps"])
            self.n2 = Norm(w["post_attention_layernorm.weight"], None, c["eps"])
            self.qkv = linear(torch.cat([w[f"self_attn.{n}_proj.weight"] for n in "qkv"]))
            self.out = linear(w["self_attn.o_proj.weight"])
            self.up = linear(torch.cat([w["mlp.gate_proj.weight"], w["mlp.up_proj.weight"]]))
            self.down = linear(w["mlp.down_proj.weight"])
        assert get("rotary_emb.inv_freq") is None

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        each = d // self.heads
        q, k, v = self.qkv(self.n1(x)).split([d, self.kv * each, self.kv * each], -1)
        q, k, v = (a.view(b, t, -1, each).transpose(1, 2) for a in (q, k, v))
        if not self.gpt2:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        h = self.up(self.n2(x))
        if self.gpt2:
            return x + self.down(F.gelu(h, approximate="tanh"))
        gate, up = h.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Model(torch.nn.Module):
    def __init__(self, at, seq):
        super().__init__()
        with open(os.path.join(at, "config.json"), encoding="utf-8") as f:
            c = json.load(f)
        w = read_weights(at)
        self.gpt2 = gpt2 = c["model_type"] == "gpt2"
        assert gpt2 or c["model_type"] == "llama", c["model_type"]
        layers = c["n_layer"] if gpt2 else c["num_hidden_layers"]
        heads = c["n_head"] if gpt2 else c["num_attention_heads"]
        hidden = c["n_embd"] if gpt2 else c["hidden_size"]
        own = dict(gpt2=gpt2, heads=heads, kv_heads=heads if gpt2 else c.get("num_key_value_heads", heads),
                   eps=c["layer_norm_epsilon"] if gpt2 else c["rms_norm_eps"])
        root = "transformer." if gpt2 else "model."
        if gpt2 and not any(k.startswith(root) for k in w):
            root = ""
        blocks = []
        for i in range(layers):
            part = f"{root}{'h' if gpt2 else 'layers'}.{i}."
            blocks.append(Block({k[len(part):]: v for k, v in w.items() if k.startswith(part)}, own))
        self.blocks = torch.nn.ModuleList(blocks)
        words = w[root + ("wte.weight" if gpt2 else "embed_tokens.weight")]
        self.words = torch.nn.Parameter(words)
        self.places = torch.nn.Parameter(w[root + "wpe.weight"]) if gpt2 else None
        self.head = self.words if c.get("tie_word_embeddings", gpt2) else torch.nn.Parameter(w["lm_head.weight"])
        last = "ln_f" if gpt2 else "norm"
        self.norm = Norm(w[f"{root}{last}.weight"], w.get(f"{root}{last}.bias"), own["eps"])
        half = hidden // heads // 2
        theta = c.get("rope_theta", 10000.0)
        angle = torch.arange(seq)[:, None] * theta ** (-torch.arange(half, dtype=torch.float64) / half)
        self.register_buffer("cos", angle.cos().float())
        self.register_buffer("sin", angle.sin().float())

    def forward(self, ids, targets):
        x = F.embedding(ids, self.words)
        if self.places is not None:
            x = x + self.places[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.head)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def read_tokens(prefix):
    """Words of PREFIX.bin, whose type PREFIX.idx names (the field's indexed format)."""
    with open(prefix + ".idx", "rb") as f:
        head = f.read(18)
    assert head[:9] == b"MMIDIDX\0\0", "not an indexed data set"
    kind = {1: torch.uint8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 8: torch.uint16}[head[17]]
    with open(prefix + ".bin", "rb") as f:
        return torch.frombuffer(bytearray(f.read()), dtype=kind).long()


def batch_of(tokens, seq, samples):
    """The first samples in sequential order, again from the begin when there are no more."""
    there = (tokens.numel() - 1) // seq
    rows = torch.stack([tokens[i % there * seq:i % there * seq + seq + 1] for i in range(samples)])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return [m for m in map(json.loads, f) if "loss" in m]


def step(a):
    steps = lines_of(a.metrics)
    torch.set_float32_matmul_precision("high")
    tokens = read_tokens(a.tokens)
    ids, targets = (t.to(a.device) for t in batch_of(tokens, a.seq, a.global_batch))
    model = Model(a.weights, a.seq).to(a.device)
    parts = a.global_batch // a.micro_batch
    low = torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bf16")

    def losses(call):
        total = 0.0
        for i in range(parts):
            rows = slice(i * a.micro_batch, (i + 1) * a.micro_batch)
            with low:
                loss = call(ids[rows], targets[rows]) / parts
            if torch.is_grad_enabled():
                loss.backward()
            total += loss.detach()
        return total

    with torch.no_grad():
        its = losses(model).item()
    ours = steps[0]["loss"]
    off = abs(ours - its) / abs(its)
    point(off <= a.limit, f"{a.label}: loss of the first step {ours:.6f}, PyTorch's {its:.6f}, off by {off:.2g}, "
                          f"limit {a.limit:g}")
    mine = median([m["tokens_per_s"] for m in steps[4:] or steps])
    table = Table(f"A training step beside PyTorch's: {a.label}", ["", "tokens/s", "ours over it", "loss of step 1"])
    table.add("sennit", f"{mine:.0f}", "1.00", f"{ours:.6f}")
    for name, wrap in (("PyTorch, eager", lambda m: m), ("PyTorch, compiled", torch.compile)):
        if name.endswith("compiled") and a.eager:
            continue
        rate, last = steps_per_second(a, model, wrap(model), losses)
        table.add(f"{name} {torch.__version__}", f"{rate:.0f}", f"{mine / rate:.2f}", f"{its:.6f}")
        point(math.isfinite(last), f"{a.label}: {name} trains, {rate:.0f} tokens/s; ours {mine / rate:.2f} times that")
    table.save(a.report)


def steps_per_second(a, model, call, losses):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=a.device == "cuda")
    times, last = [], math.nan
    for _ in range(a.warmup + a.steps):
        if a.device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        total = losses(call)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = total.item()  # waits
        times.append(time.perf_counter() - began)
    return a.global_batch * a.seq / median(times[a.warmup:]), last


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["there", "ops", "step"])
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--report", help="a file that tables are appended to")
    p.add_argument("--library", help="ops: libby_pointer.so")
    p.add_argument("--small", action="store_true", help="ops: small shapes")
    p.add_argument("--weights", help="step: config.json and safetensors that training began with")
    p.add_argument("--tokens", help="step: prefix of the data, read in sequential order")
    p.add_argument("--metrics", help="step: metrics.jsonl of our run")
    p.add_argument("--label", default="a model")
    for name, default in (("--seq", 1024), ("--micro-batch", 1), ("--global-batch", 1), ("--steps", 10), ("--warmup", 4)):
        p.add_argument(name, type=int, default=default)
    p.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    p.add_argument("--limit", type=float, default=5e-3, help="step: largest relative difference of losses")
    p.add_argument("--eager", action="store_true", help="step: leave torch.compile out")
    a = p.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} here has no GPU")
        return 77
    if a.what == "there":
        print(f"PyTorch {torch.__version__}")
        return 0
    (ops if a.what == "ops" else step)(a)
    print(f"1..{POINTS[0]}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
