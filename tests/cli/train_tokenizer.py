#!/usr/bin/env python3
"""train_tokenizer.py - vocabularies that Hugging Face's tokenizers trains, for tests/cli/test_train_tokenizer.sh.

usage: train_tokenizer.py golden TEXTS.jsonl OUT     the golden file that the test compares with, without tokenizers too
       train_tokenizer.py compare SENNIT-DATA N SEED  N trainings of random texts by both; prints those that differ"""
import json
import random
import subprocess
import sys

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
QWEN2 = LLAMA3.replace('{1,3}', '')


def train(texts, out, pattern, size, frequency, alphabet, special):
    t = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern == 'gpt2')
    split = pre_tokenizers.Split(Regex(QWEN2 if pattern == 'qwen2' else LLAMA3), 'isolated')
    t.pre_tokenizer = level if pattern == 'gpt2' else pre_tokenizers.Sequence([split, level])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, min_frequency=frequency, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet == 'all' else []))
    t.save(out)


def compare(data, n, seed):
    for i in range(n):
        r = random.Random(seed + i)
        # Few letters make many pairs alike, and the same token of several pairs.
        letters = r.choice(['ab', 'abc', 'ab ', 'a\u00e9 ', 'abcdefgh \n', 'ab12\t\n .,\u65e5\u672c\U0001f642'])
        texts = [''.join(r.choice(letters) for _ in range(r.randint(1, r.choice([10, 60, 400])))) for _ in range(r.randint(1, 60))]
        special = r.choice([[], ['<x>'], ['ab', '<x>'], ['a', 'aa', 'abab']])
        how = [r.choice(['gpt2', 'llama3', 'qwen2']), r.choice([10, 60, 300, 1000]), r.choice([0, 1, 2, 5]), r.choice(['all', 'seen'])]
        train(texts, 'theirs', *how, special)
        with open('texts.jsonl', 'w') as f:
            f.writelines(json.dumps({'text': t}) + '\n' for t in texts)
        command = [data, 'train-tokenizer', 'texts.jsonl', '-o', 'ours', '--force', '--pattern', how[0], '--vocab-size', str(how[1]),
                   '--min-frequency', str(how[2]), '--alphabet', how[3]]
        for s in special:
            command += ['--special', s]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or open('theirs').read() != open('ours').read():
            print('seed', seed + i, ' '.join(command), done.stderr)


if __name__ == '__main__':
    if sys.argv[1] == 'golden':
        with open(sys.argv[2]) as f:
            train([json.loads(line)['text'] for line in f], sys.argv[3], 'llama3', 90, 2, 'seen', ['<|endoftext|>'])
    else:
        compare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
