#!/usr/bin/env python3
"""rewrite.py - token files written and read without sennit, for tests/cli/test_rewrite.sh.

usage: rewrite.py make                     a, b, c, wide: of u8 with a mask, u16 with empty documents, i32, and i64
       rewrite.py merged OUT IN...         OUT holds the documents of IN in their order
       rewrite.py permuted OUT IN          and in another one
       rewrite.py parts OUT IN...          the documents of IN, each in its order of OUT, are those of OUT
       rewrite.py first OUT IN...          of documents with the same tokens the first
Each document is compared as its tokens, its sequences and its mask; a file without a mask counts every token."""
import random
import struct
import sys
from array import array

TYPES = {1: 'B', 4: 'i', 5: 'q', 8: 'H'}


def write(prefix, code, documents, mask):
    lengths = [len(s) for d in documents for s in d]
    tokens = [t for d in documents for s in d for t in s]
    offsets = [sum(lengths[:i]) * array(TYPES[code]).itemsize for i in range(len(lengths))]
    bounds = [0]
    for d in documents:
        bounds.append(bounds[-1] + len(d))
    with open(prefix + '.bin', 'wb') as f:
        array(TYPES[code], tokens).tofile(f)
    with open(prefix + '.idx', 'wb') as f:
        f.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, code, len(lengths), len(bounds)))
        f.write(struct.pack('<%di%dq%dq' % (len(lengths), len(lengths), len(bounds)), *lengths, *offsets, *bounds))
    if mask:
        bits = bytearray((len(tokens) + 7) // 8)
        for i in range(len(tokens)):
            if mask(i):
                bits[i // 8] |= 1 << i % 8
        with open(prefix + '.mask', 'wb') as f:
            f.write(b'SNTMASK\0' + struct.pack('<QQQ', 1, len(tokens), sum(bin(b).count('1') for b in bits)) + bits)


def read(prefix):
    with open(prefix + '.idx', 'rb') as f:
        idx = f.read()
    version, code, sequences, bounds = struct.unpack_from('<QBQQ', idx, 9)
    lengths = struct.unpack_from('<%di' % sequences, idx, 34)
    bound = struct.unpack_from('<%dq' % bounds, idx, 34 + 12 * sequences)
    tokens = array(TYPES[code])
    with open(prefix + '.bin', 'rb') as f:
        tokens.frombytes(f.read())
    try:
        with open(prefix + '.mask', 'rb') as f:
            head, bits = f.read(32), f.read()
        counts = [bits[i // 8] >> i % 8 & 1 for i in range(len(tokens))]
        assert struct.unpack_from('<QQ', head, 16) == (len(tokens), sum(counts)), prefix + '.mask: its head'
    except FileNotFoundError:
        counts = [1] * len(tokens)
    out, at = [], 0
    for d in range(bounds - 1):
        one = []
        for n in lengths[bound[d]:bound[d + 1]]:
            one.append((tuple(tokens[at:at + n]), tuple(counts[at:at + n])))
            at += n
        out.append(tuple(one))
    assert at == len(tokens)
    return out


def make():
    r = random.Random(7)
    def documents(n, top):
        return [[[r.randrange(top) for _ in range(r.choice([1, 2, 40]))] for _ in range(r.choice([1, 1, 3]))] for _ in range(n)]
    write('a', 1, documents(700, 3), lambda i: i * i % 7 < 3)
    write('b', 8, documents(300, 60000) + [[[]], [[1, 2], [3]], [[1], [2, 3]]], None)
    write('wide', 5, [[[1]], [[3, 4], [1 << 31]]], None)
    write('c', 4, [[[1, 2, 3]], [[70000, 1]], [list(range(200)) * 300]] + documents(50, 3), None)


def main():
    kind, names = sys.argv[1], sys.argv[2:]
    if kind == 'make':
        return make()
    out = read(names[0])
    whole = [d for name in names[1:] for d in read(name)]
    if kind == 'merged':
        assert out == whole
    elif kind == 'permuted':
        assert out != whole and sorted(out) == sorted(whole)
    elif kind == 'first':
        seen = {}
        for d in whole:
            seen.setdefault(tuple(t for s in d for t in s[0]), d)
        assert out == list(seen.values()) and len(out) < len(whole)
    elif kind == 'parts':
        parts = [read(name) for name in names[1:]]
        for d in out:
            of = [p for p in parts if p and p[0] == d]
            assert of, 'a document that is in no part, or not in its order'
            of[0].pop(0)
        assert not any(parts)


main()
