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


FP8_MODELS, FP8_STRATEGIES = ("llama_gqa4", "qwen3"), ("block", "channel", "tensor")
FP8_SECTIONS = {
    "block": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "tensor": {"quant_method": "fp8", "activation_scheme": "static"},
    "channel": {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "dynamic": False}}}},
}


def to_fp8(w, strategy):
    """E4M3 and scales (the largest number becomes 448), and what they stand for."""
    rows, columns = {"block": (128, 128), "channel": (1, w.shape[1]), "tensor": w.shape}[strategy]
    counts = (-(-w.shape[0] // rows), -(-w.shape[1] // columns))
    scales = torch.empty(counts)
    for i in range(counts[0]):
        for j in range(counts[1]):
            scales[i, j] = w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns].abs().max() / 448
    wide = scales.repeat_interleave(rows, 0)[:w.shape[0]].repeat_interleave(columns, 1)[:, :w.shape[1]]
    values = (w / wide).clamp(-448, 448).to(torch.float8_e4m3fn)
    return values, scales.reshape(1) if strategy == "tensor" else scales, values.float() * wide


def write_fp8(name, strategy, folder, plain):
    """A golden model, wider (rows of up to three blocks), with the layers' matrices in FP8; and in `plain` what they stand for in
    f32, the rest rounded to bf16."""
    spec = widened(make_models.MODELS[name], 64)
    spec.args |= {"hidden_size": 192, "intermediate_size": 320}
    spec.dtype, spec.shard_size = torch.float32, "100MB"
    make_models.write_checkpoint(plain, spec, make_models.make_model(spec, SEED))
    tensors = make_models.load_file(plain / "model.safetensors")
    fp8, dequantised = {}, {}
    for tensor, w in tensors.items():
        if tensor.endswith("_proj.weight"):
            fp8[tensor], scales, dequantised[tensor] = to_fp8(w, strategy)
            fp8[tensor.removesuffix("weight") + ("weight_scale_inv" if strategy == "block" else "weight_scale")] = scales
        else:
            fp8[tensor] = w.to(torch.bfloat16)
            dequantised[tensor] = fp8[tensor].float()
    make_models.save_file(dequantised, plain / "model.safetensors", metadata={"format": "pt"})
    folder.mkdir()
    make_models.save_file(fp8, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((plain / "config.json").read_text())
    config["quantization_config"] = FP8_SECTIONS[strategy]
    (folder / "config.json").write_text(json.dumps(config))
    add_tokenizer(folder, spec.args["vocab_size"])


def fp8_breakages(model):
    """What a reader of FP8 may get wrong, beside the parts of the model."""
    return {"FP8 of o_proj of one layer": make_models.edited(model, lambda n, p: "layers.0.self_attn.o_proj" in n and p.mul_(1.25))}


def load_f32(folder):
    return make_models.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def load(folder):
    """The model as a bf16 engine has it, for arithmetic in f32: weights rounded to bf16 and widened again."""
    return make_models.with_dtype(make_models.with_dtype(load_f32(folder), torch.bfloat16), torch.float32)


def in_bf16(model):
    """The same, computed in bf16."""
    return make_models.with_dtype(model, torch.bfloat16)
