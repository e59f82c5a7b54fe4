#!/usr/bin/env python3
"""Writes the small random MLP speculators of tests/golden/speculators and what an implementation of its own computes from them.

usage: make_speculators.py       (needs torch, safetensors, numpy)

The formula is that of the paper (arXiv 2404.19124) with the constants of the published checkpoints, written down plainly and in
double: the plugin folds its weights differently. expected.safetensors of a folder has, for R hidden rows,
    hidden f32 [R, emb_dim], tokens i64 [R]     what the stages begin with
    logits f32 [n_predict, R, vocab_size]       of each stage, reading the best token of the one before
    drafts i64 [n_predict, R]                   these best tokens, each better than the next by more than MIN_GAP
"""
import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parent / "speculators"
ROWS = 12
MIN_GAP = 1e-3
EPS = 1e-6

# name: (emb_dim, inner_dim, vocab_size, n_predict, tie_weights, scale_input, prefix, dtype)
SPECULATORS = {
    "untied": (48, 40, 97, 3, False, False, "", torch.float32),
    "tied": (64, 0, 130, 4, True, True, "speculator.", torch.float16),
    "one_stage": (24, 56, 64, 1, False, True, "", torch.bfloat16),
}


def random_tensors(emb_dim, inner, vocab, stages, tied, generator):
    """By name without prefix. Tied ones once, as safetensors keeps what shares memory."""
    def normal(*shape, scale=1.0, mean=0.0):
        return mean + scale * torch.randn(shape, generator=generator)

    tensors = {}
    for i in range(stages):
        if i == 0 or not tied:
            tensors[f"emb.{i}.weight"] = normal(vocab, inner, scale=inner**-0.5)
            tensors[f"head.{i}.weight"] = normal(vocab, inner, scale=inner**-0.5 * 3)
            tensors[f"ln.{i}.weight"] = normal(inner, scale=0.3, mean=1.0)
            tensors[f"ln.{i}.bias"] = normal(inner, scale=0.3)
        if i < 2 or not tied:
            width = emb_dim if i == 0 else inner
            tensors[f"proj.{i}.weight"] = normal(inner, width, scale=width**-0.5)
    return tensors


def normed(x):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS)


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def run(tensors, stages, tied, scaled, inner, state, token):
    """Logits and best tokens of each stage."""
    state_weight = 0.5 ** (0.5 / stages)
    emb_weight = math.sqrt(1 - state_weight**2) * math.sqrt(inner / 2)
    if scaled:
        state = normed(state) / math.sqrt(2)
    logits, drafts = [], []
    for i in range(stages):
        own, proj = (0, min(i, 1)) if tied else (i, i)
        summed = state_weight * (state @ tensors[f"proj.{proj}.weight"].T) + emb_weight * tensors[f"emb.{own}.weight"][token]
        state = gelu(normed(summed) * tensors[f"ln.{own}.weight"] + tensors[f"ln.{own}.bias"])
        logits.append(state @ tensors[f"head.{own}.weight"].T)
        token = logits[-1].argmax(-1)
        drafts.append(token)
    return torch.stack(logits), torch.stack(drafts)


def make(name):
    emb_dim, inner_dim, vocab, stages, tied, scaled, prefix, dtype = SPECULATORS[name]
    inner = inner_dim or emb_dim
    for seed in range(1000):
        generator = torch.Generator().manual_seed(seed)
        tensors = {key: value.to(dtype) for key, value in random_tensors(emb_dim, inner, vocab, stages, tied, generator).items()}
        hidden = 2 * torch.randn(ROWS, emb_dim, generator=generator)
        tokens = torch.randint(vocab, (ROWS,), generator=generator)
        wide = {key: value.double() for key, value in tensors.items()}
        logits, drafts = run(wide, stages, tied, scaled, inner, hidden.double(), tokens)
        best = logits.topk(2, -1).values
        if (best[..., 0] - best[..., 1]).min() > MIN_GAP:
            break
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator", "emb_dim": emb_dim, "inner_dim": inner_dim,
              "n_predict": stages, "vocab_size": vocab, "tie_weights": tied, "scale_input": scaled, "top_k_tokens_per_head": [1] * stages}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({prefix + key: value for key, value in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    expected = {"hidden": hidden, "tokens": tokens, "logits": logits.float().contiguous(), "drafts": drafts.contiguous()}
    save_file(expected, folder / "expected.safetensors", metadata={"seed": str(seed)})
    print(f"{name}: seed {seed}")


if __name__ == "__main__":
    for speculator in SPECULATORS:
        make(speculator)
