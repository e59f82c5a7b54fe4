"""The training text: a fixed mixture of the generators, tokenized into one array of 16-bit ids.

    python3 corpus.py TOKENIZER_DIR OUT.bin --documents N

Document i of the corpus depends on i alone, so the array is the same however many processes write it.
"""

import argparse
import functools
import multiprocessing
import os
import pathlib

import chats
import choice
import quotes
import stories
import sums
import world
from grammar import document_rng

# Documents of each kind per hundred; the lengths differ, so the shares of tokens do too (see README.md).
MIXTURE = {stories: 20, world: 13, choice: 20, quotes: 13, chats: 12, sums: 22}
CHUNK = 500


def training_document(index: int) -> str:
    rng = document_rng("train", "mixture", index)
    kind = rng.choices(list(MIXTURE), list(MIXTURE.values()))[0]
    return kind.document(rng, "train")


def held_out_documents(kind, count: int) -> list[str]:
    """Documents of one generator from seeds, sums and numbers that no training document has."""
    return [kind.document(document_rng("heldout", kind.__name__, i), "heldout") for i in range(count)]


def _tokenize_chunk(first: int, tokenizer_file: str) -> bytes:
    import numpy

    tokenizer = _load_tokenizer(tokenizer_file)
    texts = [f"{chats.BOS}{training_document(i)}{chats.EOS}" for i in range(first, first + CHUNK)]
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return numpy.concatenate([numpy.asarray(e.ids, dtype=numpy.uint16) for e in encoded]).tobytes()


@functools.cache
def _load_tokenizer(tokenizer_file: str):
    import tokenizers

    return tokenizers.Tokenizer.from_file(tokenizer_file)


def write_corpus(tokenizer_file: str, out: pathlib.Path, documents: int) -> int:
    """Returns the number of tokens written."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    work = functools.partial(_tokenize_chunk, tokenizer_file=tokenizer_file)
    size = 0
    with multiprocessing.Pool() as pool, out.open("wb") as file:
        for block in pool.imap(work, range(0, documents, CHUNK), chunksize=2):
            size += file.write(block)
    return size // 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer_dir", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--documents", type=int, default=1_200_000)
    args = parser.parse_args()
    tokens = write_corpus(str(args.tokenizer_dir / "tokenizer.json"), args.out, args.documents)
    print(f"corpus: {args.documents} documents, {tokens / 1e6:.1f} M tokens")


if __name__ == "__main__":
    main()
