"""Writes pairs.json: how lm-evaluation-harness splits a context and a continuation into tokens, by its own code.

python3 make_pairs.py   (needs lm-eval==0.4.13 and tokenizers==0.22.1)

tests/unit/openai/score_tokens_test.cpp compares. Running it again changes nothing.
"""
import json
import pathlib
import types

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import has_bos_prefix
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
FOLDERS = ["models/demo"] + [f"tests/golden/tokenizer/{name}_style" for name in ("demo", "llama2", "llama3", "qwen")]
CONTEXTS = ["", "Question: where is it?\nAnswer:", "The cat", "The cat ", "a\n\n", "a \t\n\u00a0\u3000", "Z\u00fcrich \u4f60\u597d", "\x1c\x1d ",
            "x\x1e\x1f", "  lead", "12", "Once upon a time, there was a", "don", "caf", "\U0001f980", "a\u200b"]
CONTINUATIONS = [" A", " sat on the mat.", "dog", "", " ", "\n", "3456", "'t", "e\u0301", "\u00e9 na\u00efve", " \u4e16\u754c", "  two",
                 "\U0001f980\U0001f980", "s"]


def token_text(entry):
    return entry["content"] if isinstance(entry, dict) else entry


class Splitter(TemplateLM):
    """TemplateLM's own tokens and HFLM's way to encode; the model is left out."""

    def __init__(self, folder):
        super().__init__()
        self.backend = "causal"
        self.encoder = Tokenizer.from_file(str(ROOT / folder / "tokenizer.json"))
        config = json.loads((ROOT / folder / "tokenizer_config.json").read_text())
        first, last = (config.get(name) and self.encoder.token_to_id(token_text(config[name])) for name in ("bos_token", "eos_token"))
        self.prefix, self.last = (last if first is None else first), last

    @property
    def eot_token_id(self):
        return self.last

    @property
    def prefix_token_id(self):
        return self.prefix

    def tok_encode(self, string, add_special_tokens=None, **_):
        if add_special_tokens is None:
            add_special_tokens = not has_bos_prefix(string, self.encoder.decode([self.prefix], skip_special_tokens=False))
        return self.encoder.encode(string, add_special_tokens=add_special_tokens).ids

    def _loglikelihood_tokens(self, requests, **_):
        return requests

    def loglikelihood_rolling(self, requests, **_):
        raise NotImplementedError

    def generate_until(self, requests, **_):
        raise NotImplementedError


def pairs(folder):
    splitter = Splitter(folder)
    prefix_text = splitter.encoder.decode([splitter.prefix], skip_special_tokens=False)
    for context in CONTEXTS + [prefix_text + "The cat"]:
        for continuation in CONTINUATIONS:
            if context == "" and splitter.tok_encode(continuation, add_special_tokens=False) == []:
                continue  # the harness reads the first of no tokens
            request = types.SimpleNamespace(args=(context, continuation))
            [(_, before, after)] = splitter.loglikelihood([request], disable_tqdm=True)
            # No prompt, or nothing to score although there is a text: the harness itself asserts that this is not so.
            if before and (after or context.rstrip() + continuation == context):
                yield [context, continuation, before, after]


if __name__ == "__main__":
    golden = {folder: list(pairs(folder)) for folder in FOLDERS}
    lines = ",\n".join(f'"{folder}": [\n' + ",\n".join(json.dumps(pair) for pair in of) + "]" for folder, of in golden.items())
    (HERE / "pairs.json").write_text("{" + lines + "}\n")
