"""Trains the tokenizer that both demo models share and writes tokenizer.json and tokenizer_config.json.

    python3 make_tokenizer.py OUT_DIR

Byte-level BPE, 4096 tokens, the four special tokens first. Digits are single tokens, so that a sum is a matter of
columns. The post-processor puts <|bos|> in front.
"""

import argparse
import json
import multiprocessing
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from chats import BOS, CHAT_TEMPLATE, EOS, TURN_END, TURN_START, conversation, render
from corpus import training_document
from grammar import document_rng

VOCABULARY = 4096
DOCUMENTS = 60_000
# Qwen2's pattern: words with the space before them, single digits, runs of other signs.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS, TURN_START, TURN_END],
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def save(tokenizer: Tokenizer, out: pathlib.Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": EOS,
        "additional_special_tokens": [TURN_START, TURN_END],
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": 2048,
        "chat_template": CHAT_TEMPLATE,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def check(out: pathlib.Path) -> None:
    """The saved folder loads in transformers and agrees with what the corpus is made of."""
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert len(tokenizer) == VOCABULARY, len(tokenizer)
    messages = conversation(document_rng("heldout", "tokenizer", 0), "heldout")
    assert tokenizer.apply_chat_template(messages, tokenize=False) == render(messages)
    text = "Zoë has 23 + 58 apples.\n\n  Добрый день 👩‍🚀\t<|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    assert tokenizer.encode("Q") == [tokenizer.bos_token_id, *tokenizer.encode("Q", add_special_tokens=False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    with multiprocessing.Pool() as pool:
        tokenizer = train_tokenizer(pool.map(training_document, range(DOCUMENTS), chunksize=500))
    save(tokenizer, args.out)
    check(args.out)
    print(f"tokenizer: {tokenizer.get_vocab_size()} tokens in {args.out}")


if __name__ == "__main__":
    main()
