"""Trains an MLP speculator (Wertheimer et al., arXiv 2404.19124) for a demo model, on stories that the model writes itself.

    python3 train_mlp_speculator.py TARGET_DIR OUT_DIR

OUT_DIR gets config.json and model.safetensors in the format of the published speculators (model_type mlp_speculator), in bf16. Half
of the stories are written at temperature 0, half at 1; they begin with the first tokens of training stories. Each stage learns
the next token given the target's last hidden row and the tokens after it. Embedding and head begin as the target's, so that some minutes
on two CPU cores do. The last lines are how often each stage is right on held-out prompts, given that all stages before it were.
"""

import argparse
import json
import math
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

import chats
import stories
from grammar import document_rng

WRITTEN = 192  # tokens a story
BATCH = 100  # stories written at once; they begin with equally many tokens, so that nothing is padded
POSITIONS = 512  # of a training step
LEARNING_RATE = 2e-3
WARMUP_STEPS = 100
NORM_EPS = 1e-6
END = 1  # <|eos|>, and what finished stories are filled up with


class Speculator(nn.Module):
    """All stages share their weights, but for the first projection, which reads the target's hidden row."""

    def __init__(self, target, num_stages: int):
        super().__init__()
        width = target.config.hidden_size
        self.num_stages = num_stages
        self.emb = nn.Parameter(target.get_input_embeddings().weight.detach().clone())
        self.head = nn.Parameter(target.get_output_embeddings().weight.detach().clone())
        self.first = nn.Parameter(torch.eye(width))
        self.later = nn.Parameter(torch.eye(width))
        self.norm_weight = nn.Parameter(torch.ones(width))
        self.norm_bias = nn.Parameter(torch.zeros(width))
        # The first state has half of the last one's magnitude, in expectation.
        self.state_weight = 0.5 ** (0.5 / num_stages)
        self.emb_weight = math.sqrt((1 - self.state_weight**2) * width / 2)
        with torch.no_grad():  # rows of length 1 on average, as the weight of an embedding supposes
            self.emb *= 1 / self.emb.norm(dim=-1).mean()

    @staticmethod
    def normed(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS)

    def stages(self, hidden, tokens):
        """Logits of each stage for hidden rows [n, width]; tokens [n, stages or more]: those that the stages read."""
        state = self.normed(hidden) / math.sqrt(2)
        for i in range(self.num_stages):
            state = state @ (self.first if i == 0 else self.later).T * self.state_weight
            state = state + self.emb[tokens[:, i]] * self.emb_weight
            state = F.gelu(self.normed(state) * self.norm_weight + self.norm_bias)
            yield state @ self.head.T

    def tensors(self):
        """As published: a tensor of each stage, although they are one."""
        named = {}
        for i in range(self.num_stages):
            named[f"speculator.emb.{i}.weight"] = self.emb
            named[f"speculator.proj.{i}.weight"] = self.first if i == 0 else self.later
            named[f"speculator.ln.{i}.weight"] = self.norm_weight
            named[f"speculator.ln.{i}.bias"] = self.norm_bias
            named[f"speculator.head.{i}.weight"] = self.head
        return named


@torch.inference_mode()
def write_stories(target, tokenizer, split: str, count: int):
    """[BATCH, length] at a time: what the target makes of the beginnings of stories."""
    draw = random.Random(f"speculator {split}")
    for first in range(0, count, BATCH):
        length = draw.randrange(4, 25)
        texts = [chats.BOS + stories.document(document_rng(split, "speculator", first + i), split) for i in range(BATCH)]
        prompts = torch.tensor([tokenizer.encode(text, add_special_tokens=False)[:length] for text in texts])
        sampled = first // BATCH % 2 == 1
        torch.manual_seed(first)
        yield target.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=WRITTEN, do_sample=sampled,
                              top_k=0 if sampled else None, pad_token_id=END)


@torch.inference_mode()
def positions_of(target, tokenizer, num_stages: int, split: str, count: int):
    """Hidden rows [n, width] in f32, and tokens [n, stages + 1] after each: those that stages read and predict."""
    rows, windows = [], []
    for ids in write_stories(target, tokenizer, split, count):
        hidden = target.model(input_ids=ids, use_cache=False).last_hidden_state
        after = ids.unfold(1, num_stages + 1, 1)[:, 1:]  # of position p: tokens p + 1 .. p + stages + 1
        hidden = hidden[:, : after.shape[1]]
        real = after[..., 0] != END  # after the end there is padding, which nobody predicts
        rows.append(hidden[real])
        windows.append(after[real])
        print(f"{split}: {sum(map(len, rows))} positions", flush=True)
    return torch.cat(rows), torch.cat(windows)


def train(speculator, hidden, windows, steps: int):
    optimizer = torch.optim.AdamW(speculator.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP_STEPS, 0.5 + 0.5 * math.cos(math.pi * step / steps)))
    started = time.time()
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        chosen = torch.randint(len(hidden), (POSITIONS,), generator=generator)
        tokens = windows[chosen]
        losses = [F.cross_entropy(logits, tokens[:, i + 1]) for i, logits in enumerate(speculator.stages(hidden[chosen], tokens))]
        optimizer.zero_grad()
        sum(losses).backward()
        nn.utils.clip_grad_norm_(speculator.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}, {time.time() - started:.0f} s: " + " ".join(f"{float(loss):.3f}" for loss in losses), flush=True)


@torch.inference_mode()
def acceptance(speculator, hidden, windows):
    """Of each stage: how often its best token is the written one, where all earlier stages' were."""
    right = torch.ones(len(hidden), dtype=torch.bool)
    shares = []
    for i, logits in enumerate(speculator.stages(hidden, windows)):
        before = right
        right = right & (logits.argmax(-1) == windows[:, i + 1])
        shares.append(float(right.sum() / before.sum()))
    return shares


def save(folder: pathlib.Path, speculator, width: int, vocab_size: int):
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator", "emb_dim": width, "inner_dim": 0,
              "n_predict": speculator.num_stages, "scale_input": True, "tie_weights": True, "torch_dtype": "bfloat16",
              "vocab_size": vocab_size, "top_k_tokens_per_head": [1] * speculator.num_stages}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    kept = {name: tensor for name, tensor in speculator.tensors().items() if not is_copy(name)}
    save_file({name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in kept.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def is_copy(name: str) -> bool:
    """safetensors leaves out tensors that share memory with an earlier one."""
    part, stage = name.split(".")[1:3]
    return int(stage) > (1 if part == "proj" else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--stories", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--stages", type=int, default=4)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    target = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.float32).eval()
    hidden, windows = positions_of(target, tokenizer, args.stages, "train", args.stories)
    torch.manual_seed(0)
    speculator = Speculator(target, args.stages)
    train(speculator, hidden.clone(), windows.clone(), args.steps)
    save(args.out, speculator, target.config.hidden_size, target.config.vocab_size)
    hidden, windows = positions_of(target, tokenizer, args.stages, "heldout", 2 * BATCH)
    print("held out, right given the earlier stages: " + " ".join(f"{share:.3f}" for share in acceptance(speculator, hidden, windows)))


if __name__ == "__main__":
    main()
