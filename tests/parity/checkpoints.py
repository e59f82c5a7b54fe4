"""The checkpoints of transformers_parity.py: the golden models as they are committed, and wider variants of each.

The golden models have heads of 16 to 48 elements, to be small; a GPU serves 64 and 128. A variant has the recipe of its golden model
(tests/golden/make_models.py: configuration, scales of the weights, type and shards of the file) with heads that wide.
"""
import copy
import json
import random
import shutil
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import make_models  # noqa: E402

SEED = 0
NUM_GREEDY = make_models.NUM_GREEDY


def breakages(model):
    """Those that bf16 does not hide: the two formulas of gelu are nearer to each other than that."""
    return {part: broken for part, broken in make_models.breakages(model).items() if part != "formula of gelu"}


def golden_names():
    """Of every committed golden model, each of which must have a recipe."""
    folders = {folder.name for folder in make_models.OUT.iterdir() if folder.is_dir()}
    if folders != set(make_models.MODELS):
        raise SystemExit(f"tests/golden/models and the recipes of make_models.py differ by {sorted(folders ^ set(make_models.MODELS))}")
    return sorted(folders)


def head_dim_of(name):
    args = make_models.MODELS[name].args
    if "head_dim" in args:
        return args["head_dim"]
    return args["n_embd"] // args["n_head"] if "n_embd" in args else args["hidden_size"] // args["num_attention_heads"]


def prompt_of(name):
    spec = make_models.MODELS[name]
    draw = random.Random(f"{name} {SEED}")  # text: a seed of its own for each
    return [draw.randrange(3, spec.args["vocab_size"]) for _ in range(spec.prompt_len)]


def widened(spec, head_dim):
    """The recipe with other heads. Where the heads make up the hidden size they still do."""
    spec = copy.deepcopy(spec)
    if "head_dim" in spec.args:
        spec.args["head_dim"] = head_dim
    elif "n_embd" in spec.args:
        spec.args["n_embd"] = head_dim * spec.args["n_head"]
    else:
        spec.args["hidden_size"] = head_dim * spec.args["num_attention_heads"]
    return spec


def write_golden(name, folder):
    shutil.copytree(make_models.OUT / name, folder)
    add_tokenizer(folder, make_models.MODELS[name].args["vocab_size"])


def write_variant(name, head_dim, folder):
    spec = widened(make_models.MODELS[name], head_dim)
    make_models.write_checkpoint(folder, spec, make_models.make_model(spec, SEED))
    add_tokenizer(folder, spec.args["vocab_size"])


def add_tokenizer(folder, vocab_size):
    """Prompts are ids, but a pipeline wants to write text: a name for each id."""
    vocab = {f"<{i}>": i for i in range(vocab_size)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n')


def load(folder):
    """The model as a bf16 engine has it, for arithmetic in f32: weights rounded to bf16 and widened again."""
    model = make_models.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return make_models.with_dtype(make_models.with_dtype(model, torch.bfloat16), torch.float32)


def in_bf16(model):
    """The same, computed in bf16."""
    return make_models.with_dtype(model, torch.bfloat16)
