#!/usr/bin/env python3
"""Compares tokenizer_tool with the `tokenizers` package, for real vocabularies.

    compare_with_tokenizers.py TOOL [--count N] [--seed S] [--speed] [MODEL_DIR ...]

Each tokenizer encodes some eight hundred fixed texts (adversarial_texts.py), N random ones and N / 5 of broken UTF-8 (which
Python replaces beforehand), and decodes random ids, whole and streamed, with and without special tokens. --speed: encodes
texts of a megabyte instead, ordinary ones and long runs, and fails where one takes more than two seconds.
Without MODEL_DIR: the demo models, and every folder of $MORTISE_TEST_DATA/tokenizers (by default ../shared/data/tokenizers
beside the project) if it is there. make_real_tokenizers.py builds more. Exit code 77 (skipped) when the package is missing,
1 after a difference, which is printed with the seed.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

import adversarial_texts

PROJECT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77
MAX_SECONDS = 2
SPEED_UNITS = ["a", "A", " ", "\n", "\r\n", "\t", "7", "!", "'", "中", "한", "\u0301", "e\u0301", "👍🏽", "\u200d", "\0", "a ", "  \n", "Aa", "a1",
               ".a", "<", "▁", "'s"]

try:
    import tokenizers
except ImportError:
    venv_python = PROJECT / ".venv" / "bin" / "python"
    if venv_python.exists() and pathlib.Path(sys.prefix) != PROJECT / ".venv":
        os.execv(venv_python, [str(venv_python), *sys.argv])
    print("skipped: the Python package `tokenizers` is not installed (scripts/test.sh installs it in .venv)")
    sys.exit(SKIPPED)


class Reference:
    def __init__(self, model_dir):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.added = [token.content for _, token in sorted(self.tokenizer.get_added_tokens_decoder().items())]
        self.size = self.tokenizer.get_vocab_size(with_added_tokens=True)

    def random_ids(self, rng, text):
        if rng.random() < 0.5:
            return [rng.randrange(self.size + 3) for _ in range(rng.randint(0, 20))]
        ids = self.tokenizer.encode(text, add_special_tokens=rng.random() < 0.5).ids
        return [i for i in ids if rng.random() < 0.9]

    def answer(self, given):
        if isinstance(given, list):
            return {"text": self.tokenizer.decode(given, skip_special_tokens=False),
                    "skip": self.tokenizer.decode(given, skip_special_tokens=True)}
        text = given if isinstance(given, str) else bytes.fromhex(given["hex"]).decode(errors="replace")
        return {"ids": self.tokenizer.encode(text, add_special_tokens=False).ids,
                "special": self.tokenizer.encode(text, add_special_tokens=True).ids}

    def inputs(self, count, rng):
        yield from adversarial_texts.fixed(self.added)
        for i in range(count):
            text = adversarial_texts.random_text(rng, self.added)
            yield text
            if i % 3 == 0:
                yield self.random_ids(rng, text)
            if i % 5 == 0:
                yield {"hex": adversarial_texts.broken(rng, text).hex()}


def joined(answer):
    """The streams' pieces as texts, so that an answer looks like the reference's; None when a stream is not the whole."""
    for whole, pieces in (("text", "pieces"), ("skip", "skip_pieces")):
        if "".join(answer.pop(pieces, [])) != answer.get(whole, ""):
            return None
    return answer


def run_tool(tool, model_dir, inputs):
    lines = "".join(json.dumps(value) + "\n" for value in inputs)
    run = subprocess.run([tool, str(model_dir)], input=lines, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(f"{model_dir}: {run.stderr}")
        return None
    return [json.loads(line) for line in run.stdout.split("\n")[:-1]]


def compare(tool, model_dir, count, seed):
    reference = Reference(model_dir)
    inputs = list(reference.inputs(count, random.Random(seed)))
    answers = run_tool(tool, model_dir, inputs)
    if answers is None:
        return False
    num_different = 0
    for given, found in zip(inputs, answers, strict=True):
        expected, shown = reference.answer(given), json.dumps(found)
        if joined(found) != expected:
            num_different += 1
            if num_different <= 5:
                print(f"{model_dir}, seed {seed}:\n  input    {json.dumps(given)}\n  expected {json.dumps(expected)}\n  found    {shown}")
    print(f"{model_dir.name}: {len(inputs)} texts and id lists, {num_different or 'none'} different (seed {seed})", flush=True)
    return num_different == 0


def check_speed(tool, model_dir):
    rng = random.Random(1)
    ordinary = (PROJECT / "README.md").read_text() + " ".join(adversarial_texts.WORDS)
    letters = "".join(rng.choice("abcdefgh") for _ in range(100000))
    inputs = [{"repeat": unit, "bytes": 1000000} for unit in [ordinary, letters, *SPEED_UNITS]]
    answers = run_tool(tool, model_dir, inputs)
    if answers is None:
        return False
    slow = [f"{given['repeat'][:8]!r}: {answer}" for given, answer in zip(inputs, answers, strict=True)
            if answer.get("seconds", MAX_SECONDS) >= MAX_SECONDS]
    seconds = max(answer.get("seconds", 0) for answer in answers)
    print(f"{model_dir.name}: ordinary text {1 / answers[0].get('seconds', 1):.1f} MB/s, the slowest of {len(inputs)} megabytes "
          f"{seconds:.2f} s{''.join(f'{chr(10)}  {line}' for line in slow)}", flush=True)
    return not slow


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("model_dirs", nargs="*", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_intermixed_args()
    data = pathlib.Path(os.environ.get("MORTISE_TEST_DATA", PROJECT.parent / "shared" / "data")) / "tokenizers"
    model_dirs = options.model_dirs
    if not model_dirs:
        model_dirs = sorted(path.parent for folder in (PROJECT / "models", data) for path in folder.glob("*/tokenizer.json"))
        if not data.is_dir():
            print(f"skipped for real vocabularies: there is no {data} (MORTISE_TEST_DATA names another folder)")
    if options.speed:
        results = [check_speed(options.tool, model_dir) for model_dir in model_dirs]
    else:
        results = [compare(options.tool, model_dir, options.count, options.seed) for model_dir in model_dirs]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
