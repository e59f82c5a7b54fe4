#!/usr/bin/env python3
"""Builds tokenizer.json files with the published pipelines around the real vocabularies of GGUF files, for comparisons.

    make_real_tokenizers.py GGUF_DIR OUTPUT_DIR [FAMILY ...]

GGUF_DIR holds ggml-vocab-*.gguf: `pip download --no-binary :all: --no-deps llama-cpp-python`, folder vendor/llama.cpp/models.
A GGUF file has tokens and merges (or scores) only; what stands around them comes from tests/golden/tokenizer/published.py.
OUTPUT_DIR is then given to compare_with_tokenizers.py; nothing of it belongs into the project. Needs the package `gguf`.
"""
import functools
import json
import pathlib
import sys

import gguf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden" / "tokenizer"))
import published

# The vocabulary for each family. Where the package has no vocabulary of the family, one of the same kind stands in: it is the
# pipeline that differs.
VOCABULARIES = {
    "gpt2": "gpt-2", "llama2": "llama-spm", "llama2-metaspace": "llama-spm", "llama3": "llama-bpe", "mistral-v0.3": "llama-spm",
    "mistral-legacy": "llama-spm", "mistral-nemo": "llama-bpe", "qwen2": "qwen2", "qwen3.5": "qwen35", "phi3": "phi-3",
    "starcoder": "starcoder", "starcoder2": "refact", "deepseek-llm": "deepseek-llm", "deepseek-coder": "deepseek-coder",
    "deepseek-v3": "deepseek-llm", "falcon": "falcon", "gpt-neox": "gpt-neox", "command-r": "command-r", "gpt-4o": "llama-bpe",
    "bloom": "aquila", "bailing": "qwen2", "tiny-aya": "command-r", "superbpe": "starcoder", "gemma": "gemma-4", "chameleon": "mpt",
}
CONTROL, USER_DEFINED = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED


@functools.cache
def read(path):
    fields = gguf.GGUFReader(path).fields

    def values(key):
        return fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else None
    return {key: values(key) for key in ("tokens", "token_type", "merges", "scores", "bos_token_id")}


def merges_of_scores(vocab, scores):
    """SentencePiece merges two pieces whenever the result is a piece, the one with the best score first."""
    merges = []
    for token, index in vocab.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocab and right in vocab:
                merges.append((-scores[index], vocab[left], vocab[right], left, right))
    return [[left, right] for *_, left, right in sorted(merges)]


def convert(name, path):
    data = read(path)
    vocab = {}
    for index, token in enumerate(data["tokens"]):
        vocab.setdefault(token, index)
    if data["merges"]:
        merges = data["merges"] if " " not in "".join(data["tokens"]) else [merge.split(" ") for merge in data["merges"]]
    else:
        merges = merges_of_scores(vocab, data["scores"])
    kinds = data["token_type"]
    special = [token for token, index in vocab.items() if kinds[index] == CONTROL]
    plain = [token for token, index in vocab.items() if kinds[index] == USER_DEFINED]
    document = published.document(name, vocab, merges, special, data["tokens"][data["bos_token_id"] or 0])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    document["added_tokens"] += [{"id": vocab[token], "content": token, **flags} for token in plain]
    document["added_tokens"].sort(key=lambda token: token["id"])
    return document


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    for name in sys.argv[3:] or VOCABULARIES:
        vocabulary = VOCABULARIES[name]
        path = source / f"ggml-vocab-{vocabulary}.gguf"
        folder = target / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(convert(name, path), ensure_ascii=False))
        print(f"{folder}: from {path.name}", flush=True)


if __name__ == "__main__":
    main()
