"""Trains a demo model on a corpus of token ids and saves it in bf16 beside its tokenizer.

    python3 train.py target CORPUS.bin OUT_DIR --steps N
    python3 train.py draft CORPUS.bin OUT_DIR --steps N --teacher TARGET_DIR

OUT_DIR holds the tokenizer already. The target learns to predict the next token; the draft learns the target's whole
distribution (distillation), since what counts is how often it proposes the token that the target takes.
"""

import argparse
import pathlib
import time

import numpy
import torch
import torch.nn.functional as F
from transformers import GenerationConfig, LlamaForCausalLM

from architectures import DRAFT_SHARE, MAX_POSITIONS, draft_config, step_bytes, target_config

LEARNING_RATE = {"target": 3e-3, "draft": 6e-3}
WARMUP_STEPS = 200
SEED = 20


def load_corpus(path: pathlib.Path, device: str) -> torch.Tensor:
    return torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint16).astype(numpy.int16)).to(device)


def batches(corpus: torch.Tensor, rows: int, steps: int):
    """Batches [rows, MAX_POSITIONS + 1]: each epoch cuts the corpus at another offset and takes the pieces in random order."""
    random = torch.Generator().manual_seed(SEED)
    reach = torch.arange(MAX_POSITIONS + 1, device=corpus.device)
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        if len(order) < rows:
            offset = int(torch.randint(MAX_POSITIONS, (1,), generator=random))
            pieces = (len(corpus) - offset - 1) // MAX_POSITIONS
            order = offset + MAX_POSITIONS * torch.randperm(pieces, generator=random)
        starts, order = order[:rows], order[rows:]
        yield corpus[starts.to(corpus.device)[:, None] + reach].long()


def logits(model: LlamaForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    return model.lm_head(model.model(input_ids=ids, use_cache=False).last_hidden_state).float()


def next_token_loss(model, ids):
    return F.cross_entropy(logits(model, ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def distillation_loss(model, teacher, ids):
    with torch.no_grad():
        wanted = F.log_softmax(logits(teacher, ids[:, :-1]), -1).flatten(0, 1)
    given = F.log_softmax(logits(model, ids[:, :-1]), -1).flatten(0, 1)
    return F.kl_div(given, wanted, log_target=True, reduction="batchmean")


def make_optimizer(model: LlamaForCausalLM, rate: float, steps: int):
    """AdamW without decay on norms; the rate rises for WARMUP_STEPS, stays, and falls to zero over the last 60 %."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=rate,
        betas=(0.9, 0.95),
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP_STEPS, 1.0, (steps - step) / (0.6 * steps))
    )
    return optimizer, schedule


def train(model, loss_of, corpus, rows: int, steps: int, rate: float) -> None:
    device = corpus.device.type
    optimizer, schedule = make_optimizer(model, rate, steps)
    started = time.time()
    for step, ids in enumerate(batches(corpus, rows, steps)):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = loss_of(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.4f} seconds {time.time() - started:.0f}", flush=True)
    seen = rows * MAX_POSITIONS * steps
    print(f"{seen / 1e6:.0f} M tokens, {seen / (time.time() - started) / 1e6:.2f} M tokens/s")


def save(model: LlamaForCausalLM, out: pathlib.Path) -> None:
    model.to(torch.bfloat16)
    config = model.config
    model.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    model.save_pretrained(out)
    size = (out / "model.safetensors").stat().st_size
    assert size <= 16 << 20, size
    print(f"{out}: {model.num_parameters()} parameters, {size} bytes, {step_bytes(model)} bytes a step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("target", "draft"))
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rows", type=int, default=64, help="sequences of 2048 tokens a step (default 64)")
    parser.add_argument("--teacher", type=pathlib.Path, help="the target's folder, for the draft")
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    corpus = load_corpus(args.corpus, device)
    if args.model == "target":
        model = LlamaForCausalLM(target_config()).to(device)
        loss = torch.compile(lambda ids: next_token_loss(model, ids))
    else:
        model = LlamaForCausalLM(draft_config()).to(device)
        teacher = LlamaForCausalLM.from_pretrained(args.teacher, dtype=torch.bfloat16).to(device)
        assert step_bytes(model) * DRAFT_SHARE <= step_bytes(teacher), (step_bytes(model), step_bytes(teacher))
        loss = torch.compile(lambda ids: distillation_loss(model, teacher, ids))
    train(model, loss, corpus, args.rows, args.steps, LEARNING_RATE[args.model])
    save(model, args.out)


if __name__ == "__main__":
    main()
