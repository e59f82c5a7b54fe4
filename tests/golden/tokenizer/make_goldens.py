#!/usr/bin/env python3
"""Writes the tokenizers and the expected ids and texts beside this script, with the `tokenizers` package (0.22.1).

    python tests/golden/tokenizer/make_goldens.py

demo_style/, qwen_style/, llama3_style/, llama2_style/   a small trained tokenizer each, and its cases.json
components/      one base tokenizer, and variants.json: patches of it (RFC 7386), each with its cases
spans/           the same around a vocabulary that shows where a text is cut (span_variants.py)
pieces/          the published pipelines around the vocabulary of llama2_style
invalid.json     byte strings that are not UTF-8, and what errors="replace" makes of them
A case is [text, ids, ids with special tokens, decoded, decoded without special tokens], or [ids, decoded, without].
Training is deterministic: running the script again changes nothing.
"""
import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import span_variants
import texts

HERE = pathlib.Path(__file__).resolve().parent
QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_PATTERN = QWEN_PATTERN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)


def special(content):
    return AddedToken(content, special=True, normalized=False)


def train(tokenizer, size, special_tokens, alphabet=None, max_token_length=None):
    options = {} if max_token_length is None else {"max_token_length": max_token_length}
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[special(t) for t in special_tokens], show_progress=False,
                                  initial_alphabet=alphabet or pre_tokenizers.ByteLevel.alphabet(), **options)
    tokenizer.train_from_iterator(texts.training_lines(), trainer)


def byte_level(pre_tokenizer, size, special_tokens, **options):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, size, special_tokens, **options)
    return tokenizer


def split_by(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def demo_style():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), 700, ["<|endoftext|>", "<|user|>"])
    return json.loads(tokenizer.to_str()), {"bos_token": None, "eos_token": "<|endoftext|>"}


def qwen_style():
    """NFC, a Split of its own, merges in the older spelling "a b", added tokens that are not special."""
    tokenizer = byte_level(split_by(QWEN_PATTERN), 700, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("café", normalized=True)])
    document = json.loads(tokenizer.to_str())
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    config = {"eos_token": {"content": "<|im_end|>", "special": True},
              "chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ messages }}"}]}
    return document, config


def llama3_style():
    """ignore_merges with a token that no merge reaches, and a template that puts a first token in front."""
    tokenizer = byte_level(split_by(LLAMA3_PATTERN), 700, [])
    document = json.loads(tokenizer.to_str())
    vocabulary = document["model"]["vocab"]
    vocabulary["Ġelephants"] = len(vocabulary)
    document["model"]["ignore_merges"] = True
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([special("<|begin_of_text|>"), special("<|end_of_text|>"), special("<|eot_id|>")])
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B", special_tokens=[
        ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return json.loads(tokenizer.to_str()), {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


def llama2_style():
    """SentencePiece's BPE as tokenizer.json spells it: spaces as U+2581, unknown characters as bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    train(tokenizer, 900, ["<unk>", "<s>", "</s>", *byte_tokens], list("abcdefghijklmnopqrstuvwxyz▁é"), max_token_length=8)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return json.loads(tokenizer.to_str()), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def text_case(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    with_special = tokenizer.encode(text, add_special_tokens=True).ids
    return [text, ids, with_special, *decoded(tokenizer, with_special)]


def decoded(tokenizer, ids):
    return [tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)]


def id_cases(tokenizer, count, rng):
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    cases = []
    for _ in range(count):
        ids = [rng.randrange(size + 2) for _ in range(rng.randint(1, 12))]
        cases.append([ids, *decoded(tokenizer, ids)])
    return cases


def write_json(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_lines(path, cases):
    path.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


def write_tokenizer(name, document, config):
    write_json(HERE / name / "tokenizer.json", document)
    write_json(HERE / name / "tokenizer_config.json", config)
    tokenizer = Tokenizer.from_str(json.dumps(document))
    cases = [text_case(tokenizer, text) for text in texts.SAMPLES] + id_cases(tokenizer, 30, random.Random(name))
    write_lines(HERE / name / "cases.json", cases)


def patched(document, patch):
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged[key] = None  # RFC 7386 removes the member; for every key patched here a null means the same
        else:
            merged[key] = patched(merged.get(key), value)
    return merged


def write_components():
    # Trained without cutting the text, so that the ids show where a pre-tokenizer cuts.
    base = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), 900, ["<|endoftext|>"],
                      max_token_length=6)
    document = json.loads(base.to_str())
    write_json(HERE / "components" / "tokenizer.json", document)
    write_variants("components", document, texts.variants())


def write_spans():
    document = span_variants.base()
    write_json(HERE / "spans" / "tokenizer.json", document)
    write_variants("spans", document, span_variants.variants())


def write_pieces():
    document = json.loads((HERE / "llama2_style" / "tokenizer.json").read_text())
    write_variants("pieces", document, span_variants.piece_variants())


def write_variants(folder, document, all_variants):
    variants = []
    for name, patch, samples in all_variants:
        tokenizer = Tokenizer.from_str(json.dumps(patched(document, patch)))
        cases = [text_case(tokenizer, sample) for sample in samples] + id_cases(tokenizer, 4, random.Random(name))
        variants.append({"name": name, "patch": patch, "cases": cases})
    (HERE / folder).mkdir(exist_ok=True)
    write_lines(HERE / folder / "variants.json", variants)


def write_invalid():
    cases = [[data.hex(), data.decode("utf-8", errors="replace")] for data in texts.invalid_utf8()]
    write_lines(HERE / "invalid.json", cases)


def main():
    if tokenizers.__version__ != "0.22.1":
        sys.exit(f"needs tokenizers 0.22.1, not {tokenizers.__version__}: the goldens should not change with the version")
    for make in (demo_style, qwen_style, llama3_style, llama2_style):
        write_tokenizer(make.__name__, *make())
    write_components()
    write_spans()
    write_pieces()
    write_invalid()


if __name__ == "__main__":
    main()
