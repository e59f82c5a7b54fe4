#!/usr/bin/env python3
"""Compares tokenizer_tool with the `tokenizers` package on random tokenizer.json files: any component after any other.

    compare_random_pipelines.py TOOL [--count N] [--seed S]

The vocabulary has each byte's character twice, once with an end_of_word_suffix, and a few merges: so the ids show where a text
was cut. Files on which the package panics are passed over; one that it takes and we refuse, or the other way round, is a
difference. Exit code 1 after a difference; the file is left in the temporary folder and named.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import pre_tokenizers

import adversarial_texts

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
STRINGS = [" ", "▁", "a", "ab", "-", "", "\n", "é", "Ġ", "  "]
REGEXES = [r"\s+", r"\p{L}+", r"\p{N}{1,3}", r"[^\s\p{L}]+", r"^", r"$", r"^\s*", r"\s+$", r"a|ab", r"x*", r"\b", r"\w+", r".", r"(?i:A)", r"[\r\n]",
           r"\s?\p{L}+", r"(?=\d)", r"[[:punct:]]+", r"[^\P{L}a]", r"[\w&&[^a-c]]+", r"[^(\s|[.,!?])]+", r" {2,}", r"\p{M}", r"(?<=a)b|\s"]
NEVER_EMPTY = [regex for regex in REGEXES if regex not in ("^", "$", r"^\s*", "x*", r"\b", r"(?=\d)")]
CONTENTS = ["", " ", "▁", "xy", "é", "-"]
CHARACTERS = [" ", "▁", "a", "é", "-", "_"]
SHORT_TEXTS = ["", " ", "a", " a", "  ab  ab", "a-b é", "\n\na1 22 333", "▁a ▁", "éa e\u0301 \u0301x", "\u00a0a\u3000", "A'B's", "<s>a<s> <x>b", "-a--b-"]


def choose(rng, makers):
    return rng.choice(makers)(rng)


def pattern(rng):
    return {"String": rng.choice(STRINGS)} if rng.random() < 0.4 else {"Regex": rng.choice(REGEXES)}


def flag(rng):
    return rng.random() < 0.5


def metaspace(rng):
    options = {"type": "Metaspace", "replacement": rng.choice(CHARACTERS)}
    if flag(rng):
        options["prepend_scheme"] = rng.choice(["first", "never", "always"])
    elif flag(rng):
        options |= {"str_rep": options["replacement"], "add_prefix_space": True}
    if flag(rng):
        options["split"] = flag(rng)
    return options


def many(rng, name, key, makers, depth=0):
    if rng.random() < 0.2 and depth == 0:
        return None
    if depth > 1 or rng.random() < 0.4:
        return choose(rng, makers)
    return {"type": "Sequence", key: [part for _ in range(rng.randint(0, 4)) if (part := many(rng, name, key, makers, depth + 1))]}


def replace(rng):
    """No empty match: what the package inserts at the start of a text, it doubles when a later step rewrites the text."""
    choice = {"String": rng.choice([text for text in STRINGS if text])} if flag(rng) else {"Regex": rng.choice(NEVER_EMPTY)}
    return {"type": "Replace", "pattern": choice, "content": rng.choice(CONTENTS)}


NORMALIZERS = [lambda rng: {"type": rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"])},
               lambda rng: {"type": "Prepend", "prepend": rng.choice(CONTENTS[1:])},  # "": doubled as in replace()
               lambda rng: {"type": "Strip", "strip_left": flag(rng), "strip_right": flag(rng)},
               replace]
PRE_TOKENIZERS = [lambda rng: {"type": "ByteLevel", "add_prefix_space": flag(rng), "trim_offsets": True, "use_regex": flag(rng)},
                  metaspace, metaspace,
                  lambda rng: {"type": "Split", "pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": flag(rng)},
                  lambda rng: {"type": "Digits", "individual_digits": flag(rng)},
                  lambda rng: {"type": "Punctuation", "behavior": rng.choice(BEHAVIORS)},
                  lambda rng: {"type": rng.choice(["Whitespace", "WhitespaceSplit", "Punctuation"])},
                  lambda rng: {"type": "CharDelimiterSplit", "delimiter": rng.choice(CHARACTERS)}]
DECODERS = [lambda rng: {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}, metaspace,
            lambda rng: {"type": rng.choice(["ByteFallback", "Fuse"])}, lambda rng: {"type": "BPEDecoder", "suffix": rng.choice(["</w>", "a", "▁"])},
            lambda rng: {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(CONTENTS)},
            lambda rng: {"type": "Strip", "content": rng.choice(CHARACTERS), "start": rng.randint(0, 2), "stop": 0}]


def model(rng):
    prefix, suffix = rng.choice(["", "", "##"]), rng.choice(["</w>", "</w>", ""])
    texts = [p + c + s for c in [*ALPHABET, "▁"] for p in {"", prefix} for s in {"", suffix}]
    merges = [["a", f"{prefix}b"], ["a", f"{prefix}b{suffix}"], ["▁", f"{prefix}a"], ["Ġ", f"{prefix}a{suffix}"], ["ab", f"{prefix}a"]]
    texts += [left + right[len(prefix):] for left, right in merges] + ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocab = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    if rng.random() < 0.3:
        for text in rng.sample(sorted(vocab), 100):
            vocab[text] += 5000  # holes
    if flag(rng):
        for text in rng.sample([text for text in vocab if not text.startswith("<")], 60):
            vocab.pop(text)
        merges = [pair for pair in merges if all(half in vocab for half in (*pair, pair[0] + pair[1][len(prefix):]))]
    return {"type": "BPE", "dropout": rng.choice([None, 0.0, 0]), "unk_token": rng.choice([None, "<unk>"]),
            "continuing_subword_prefix": prefix or rng.choice([None, ""]), "end_of_word_suffix": suffix or rng.choice([None, ""]),
            "fuse_unk": flag(rng), "byte_fallback": flag(rng), "ignore_merges": flag(rng), "vocab": vocab,
            "merges": merges if flag(rng) else [" ".join(pair) for pair in merges]}


def added_tokens(rng):
    contents = ["<s>", "<x>", "a", "ab", " ", "\n", "é", "e\u0301", "Hello", "A", "▁a", "</s>", "  ", "</w>", "-"]
    return [{"id": rng.randint(0, 9000), "content": rng.choice(contents), "single_word": rng.random() < 0.2, "lstrip": rng.random() < 0.3,
             "rstrip": rng.random() < 0.3, "normalized": flag(rng), "special": flag(rng)} for _ in range(rng.choice([0, 1, 3, 6]))]


def post_processor(rng):
    token, text = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return rng.choice([None, {"type": "BertProcessing", "sep": ["</s>", 7], "cls": ["<s>", 8]},
                       {"type": "RobertaProcessing", "sep": ["</s>", 7], "cls": ["<s>", 8], "trim_offsets": True, "add_prefix_space": False},
                       {"type": "TemplateProcessing", "single": [token, text, token], "pair": [text],
                        "special_tokens": {"<s>": {"id": "<s>", "ids": [3, 4], "tokens": ["<s>", "x"]}}}])


def random_document(rng):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(rng),
            "normalizer": many(rng, "normalizer", "normalizers", NORMALIZERS),
            "pre_tokenizer": many(rng, "pre_tokenizer", "pretokenizers", PRE_TOKENIZERS), "post_processor": post_processor(rng),
            "decoder": many(rng, "decoder", "decoders", DECODERS), "model": model(rng)}


def quietly(function):
    """The result, or the error's text: a panic of the package is no Exception."""
    try:
        return function(), None
    except BaseException as error:  # pylint: disable=broad-except
        if isinstance(error, KeyboardInterrupt):
            raise
        return None, f"{type(error).__name__}: {error}"


def expected_answer(tokenizer, given):
    if isinstance(given, str):
        return quietly(lambda: {"ids": tokenizer.encode(given, add_special_tokens=False).ids, "special": tokenizer.encode(given).ids})
    return quietly(lambda: {"text": tokenizer.decode(given, skip_special_tokens=False), "skip": tokenizer.decode(given)})


def differences(tool, folder, document, rng, counts):
    text = json.dumps(document)
    (folder / "tokenizer.json").write_text(text)
    tokenizer, refusal = quietly(lambda: tokenizers.Tokenizer.from_str(text))
    added = [token["content"] for token in document["added_tokens"]]
    inputs = [*SHORT_TEXTS, *(adversarial_texts.random_text(rng, added) for _ in range(15))]
    ids = list(document["model"]["vocab"].values())
    inputs += [[rng.choice(ids) for _ in range(rng.randint(1, 8))] for _ in range(10)]
    run = subprocess.run([tool, str(folder)], input="".join(json.dumps(value) + "\n" for value in inputs), capture_output=True, text=True,
                         check=False)
    if refusal or run.returncode:
        excused = "PanicException" in str(refusal) or "removes all of it" in run.stderr
        if bool(refusal) != bool(run.returncode) and not excused:
            yield f"package: {refusal}\n  ours: {run.stderr.strip()}"
        counts["refused"] += 1
        return
    for given, line in zip(inputs, run.stdout.split("\n")):
        expected, panic = expected_answer(tokenizer, given)
        found = json.loads(line)
        counts["panics" if panic else "compared"] += 1
        pieces = "".join(found.pop("pieces", [])), "".join(found.pop("skip_pieces", []))
        if panic is None and found != expected:
            yield f"input {json.dumps(given)}\n  expected {json.dumps(expected)}\n  found    {json.dumps(found)}"
        if "text" in found and pieces != (found["text"], found["skip"]):
            yield f"input {json.dumps(given)}\n  streamed {pieces}\n  found    {json.dumps(found)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    num_different, counts = 0, collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        rng = random.Random(seed)
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"mortise-pipeline-{seed}-"))
        found = list(differences(options.tool, folder, random_document(rng), rng, counts))
        if found:
            num_different += 1
            print(f"seed {seed}, {folder}/tokenizer.json:\n  {found[0]}", flush=True)
        else:
            (folder / "tokenizer.json").unlink()
            folder.rmdir()
    print(f"{options.count} pipelines, {num_different or 'none'} different; answers: {dict(counts)}")
    sys.exit(1 if num_different else 0)


if __name__ == "__main__":
    main()
