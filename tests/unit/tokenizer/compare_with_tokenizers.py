#!/usr/bin/env python3
"""Compares tokenizer_tool with the `tokenizers` package on random texts and ids, for real vocabularies.

    compare_with_tokenizers.py TOOL [--count N] [--seed S] [MODEL_DIR ...]

Without MODEL_DIR: the demo models, and every folder of $MORTISE_TEST_DATA/tokenizers (by default ../shared/data/tokenizers
beside the project) if it is there. Exit code 77 (skipped) when the package is missing, 1 after a difference, which is
printed with the seed.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77

try:
    import tokenizers
except ImportError:
    venv_python = PROJECT / ".venv" / "bin" / "python"
    if venv_python.exists() and pathlib.Path(sys.prefix) != PROJECT / ".venv":
        os.execv(venv_python, [str(venv_python), *sys.argv])
    print("skipped: the Python package `tokenizers` is not installed (scripts/test.sh installs it in .venv)")
    sys.exit(SKIPPED)

WORDS = ("the quick brown fox jumps over 13 lazy dogs; I'm sure they'LL've don'T she'd WE'RE it's THAT'S 'ſ "
         "def f(x): return x**2 != 0x1F for(int i=0;i<n;++i){a[i]=b;} https://example.org/a?b=c&d=%20 "
         "Grüße aus Köln naïve façade Ελληνικά русский язык українська עברית العربية हिन्दी বাংলা தமிழ் ไทย "
         "한국어 日本語テキスト 中文字符 繁體 Tiếng Việt e\u0301 o\u0308 A\u030a \u1100\u1161\u11a8 ﬁ ½ Ⅷ ① ² ５").split(" ")
RUNS = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e",
        "\u200b", "\u200d", "\ufeff", "\x0b", "\x0c", "\x1c", "\x00", "\x1b[0m", "\x7f", "\u00ad", "\u0301"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "❤️", "🤷🏾‍♀️"]
PUNCTUATION = ["...", "!?", "--", "\"", "'", "''", "$100", "€", "()", "[]", "{}", "<|", "|>", "<s>", "</s>", "@#", "_", "~"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF),
          (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2150, 0x218F), (0x2460, 0x24FF), (0x3040, 0x30FF),
          (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x10000, 0x1FFFF), (0x20000, 0x323AF),
          (0, 0x10FFFF)]


def code_point(rng):
    first, last = rng.choice(BLOCKS)
    value = rng.randint(first, last)
    return "" if 0xD800 <= value <= 0xDFFF else chr(value)


def random_text(rng, added):
    parts = []
    for _ in range(rng.choice([1, 2, 3, 5, 10, 30])):
        kind = rng.random()
        if kind < 0.35:
            word = rng.choice(WORDS)
            parts.append(rng.choice([word, " " + word, word.upper(), word[:rng.randint(1, len(word))]]))
        elif kind < 0.55:
            parts.append(rng.choice(RUNS) * rng.choice([1, 1, 1, 2, 3, 17]))
        elif kind < 0.65:
            parts.append(str(rng.randint(0, 10 ** rng.randint(1, 12))))
        elif kind < 0.72:
            parts.append(rng.choice(PUNCTUATION))
        elif kind < 0.78:
            parts.append(rng.choice(EMOJI))
        elif kind < 0.84 and added:
            parts.append(rng.choice(added))
        else:
            parts.append("".join(code_point(rng) for _ in range(rng.randint(1, 8))))
        if rng.random() < 0.4:
            parts.append(" ")
    return "".join(parts)


def random_ids(rng, tokenizer, size, text):
    if rng.random() < 0.5:
        return [rng.randrange(size + 3) for _ in range(rng.randint(0, 20))]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [i for i in ids if rng.random() < 0.9]


def differences(tokenizer, inputs, outputs):
    for given, line in zip(inputs, outputs, strict=True):
        found = json.loads(line)
        if isinstance(given, str):
            expected = {"ids": tokenizer.encode(given, add_special_tokens=False).ids,
                        "special": tokenizer.encode(given, add_special_tokens=True).ids}
        else:
            expected = {"text": tokenizer.decode(given, skip_special_tokens=False),
                        "skip": tokenizer.decode(given, skip_special_tokens=True)}
            if "".join(found.pop("pieces", [])) != found.get("text"):
                yield given, "the pieces of the stream to be the text", found
        if found != expected:
            yield given, expected, found


def compare(tool, model_dir, count, seed):
    rng = random.Random(seed)
    tokenizer = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    tokenizer.no_truncation()
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    inputs = []
    while len(inputs) < count:
        text = random_text(rng, added)
        inputs.append(text)
        if len(inputs) % 3 == 0:
            inputs.append(random_ids(rng, tokenizer, size, text))
    lines = "".join(json.dumps(value) + "\n" for value in inputs)
    run = subprocess.run([tool, str(model_dir)], input=lines, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(f"{model_dir}: {run.stderr}")
        return False
    found_any = False
    for given, expected, found in list(differences(tokenizer, inputs, run.stdout.split("\n")[:-1]))[:5]:
        found_any = True
        print(f"{model_dir}, seed {seed}:\n  input    {json.dumps(given)}\n  expected {expected}\n  found    {found}")
    print(f"{model_dir.name}: {len(inputs)} texts and id lists {'DIFFER' if found_any else 'agree'} (seed {seed})")
    return not found_any


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("model_dirs", nargs="*", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    data = pathlib.Path(os.environ.get("MORTISE_TEST_DATA", PROJECT.parent / "shared" / "data")) / "tokenizers"
    model_dirs = options.model_dirs
    if not model_dirs:
        model_dirs = sorted(path.parent for folder in (PROJECT / "models", data) for path in folder.glob("*/tokenizer.json"))
        if not data.is_dir():
            print(f"skipped for real vocabularies: there is no {data} (MORTISE_TEST_DATA names another folder)")
    results = [compare(options.tool, model_dir, options.count, options.seed) for model_dir in model_dirs]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
