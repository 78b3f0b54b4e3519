#!/usr/bin/env python3
"""tokenize.py - the part of tokenize.sh that knows Hugging Face's tokenizers.

usage: tokenize.py text OUT MIB SEED                 JSON lines of words of 20 scripts, code, numbers and emoji
       tokenize.py train FILE.jsonl TOKENIZER.json KIND  llama3, gpt2, mistral, bert: a vocabulary of 32000
       tokenize.py learn FILE.jsonl TOKENIZER.json KIND SIZE  llama3, gpt2: a BPE of all documents, and the seconds that training took
       tokenize.py encode FILE.jsonl TOKENIZER.json OUT  its tokens as u16, and the seconds that encoding took"""
import json
import os
import random
import sys
import time

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SCRIPTS = [(0x61, 0x7a)] * 12 + [(0xe0, 0x17f), (0x3b1, 0x3c9), (0x430, 0x44f), (0x561, 0x586), (0x5d0, 0x5ea), (0x621, 0x64a),
           (0x905, 0x939), (0x985, 0x9b9), (0xb85, 0xbb9), (0xc05, 0xc39), (0xe01, 0xe2e), (0x10d0, 0x10f0), (0x1200, 0x1248),
           (0x1780, 0x17a2), (0x3041, 0x3096), (0x30a1, 0x30fa), (0x4e00, 0x5e00), (0xac00, 0xb000), (0x1f600, 0x1f64f)]
LLAMA3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def text(out, mib, seed):
    r = random.Random(seed)
    words = []
    for _ in range(60000):
        low, high = r.choice(SCRIPTS)
        words.append(''.join(chr(min(low + int(r.paretovariate(0.8)) - 1, high)) for _ in range(1 + min(int(r.expovariate(0.25)), 14))))
    weights, total = [], 0.0
    for i in range(len(words)):
        total += 1 / (i + 3)
        weights.append(total)
    size = 0
    with open(out, 'w', encoding='utf-8') as f:
        while size < mib << 20:
            parts = []
            for word in r.choices(words, cum_weights=weights, k=r.randint(50, 600)):
                k = r.random()
                parts.append(word if k < 0.9 else word.capitalize() + r.choice(['.', ',', ';\n', '!\n\n']) if k < 0.96
                             else str(r.randint(0, 99999)) if k < 0.98 else 'if (%s == x[%d]) {\n\treturn;\n}' % (word, r.randint(0, 9)))
            line = json.dumps({'text': ' '.join(parts)}, ensure_ascii=False) + '\n'
            size += len(line.encode())
            f.write(line)


def documents(path):
    with open(path, encoding='utf-8') as f:
        return [json.loads(line)['text'] for line in f]


def learn(path, out, kind, size):
    docs = documents(path)
    t = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == 'gpt2')
    t.pre_tokenizer = level if kind == 'gpt2' else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), 'isolated'), level])
    t.decoder = decoders.ByteLevel()
    begin = time.perf_counter()
    t.train_from_iterator(docs, trainers.BpeTrainer(vocab_size=int(size), min_frequency=2, show_progress=False,
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    print('%.3f' % (time.perf_counter() - begin))
    t.save(out)


def train(path, out, kind):
    docs = documents(path)[:4000]
    special = ['<|endoftext|>']
    if kind == 'bert':
        t = Tokenizer(models.WordPiece(unk_token='[UNK]'))
        t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=32000, special_tokens=['[UNK]'], show_progress=False)
    elif kind == 'mistral':
        t = Tokenizer(models.BPE(unk_token='<unk>'))
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme='first')
        trainer = trainers.BpeTrainer(vocab_size=32000, special_tokens=['<unk>'], show_progress=False)
    else:
        t = Tokenizer(models.BPE())
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == 'gpt2')
        t.pre_tokenizer = level if kind == 'gpt2' else pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(LLAMA3), 'isolated'), level])
        trainer = trainers.BpeTrainer(vocab_size=32000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special,
                                      show_progress=False)
        t.decoder = decoders.ByteLevel()
    t.train_from_iterator(docs, trainer)
    t.save(out)


def encode(path, tokenizer, out):
    """As a data tool does: batches of documents over all cores (TOKENIZERS_PARALLELISM, RAYON_NUM_THREADS)."""
    t = Tokenizer.from_file(tokenizer)
    begin = time.perf_counter()
    ids = []
    docs = documents(path)
    for i in range(0, len(docs), 1000):
        ids.extend(e.ids for e in t.encode_batch_fast(docs[i:i + 1000], add_special_tokens=False))
    seconds = time.perf_counter() - begin
    import array
    with open(out, 'wb') as f:
        for one in ids:
            array.array('H', one).tofile(f)
    print('%.3f' % seconds)


if __name__ == '__main__':
    command, args = sys.argv[1], sys.argv[2:]
    if command == 'text':
        text(args[0], int(args[1]), int(args[2]))
    elif command == 'train':
        train(*args)
    elif command == 'learn':
        learn(*args)
    else:
        encode(*args)
