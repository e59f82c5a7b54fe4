"""Log probabilities against transformers, where that is installed (a GPU machine): the demo model, the golden models and variants of each.

    transformers_parity.py MORTISE [DEVICE [NAME ...]]      DEVICE: the constructor of the pipeline's device, cpu by default
                                                            NAME: demo, fp8, or a golden model; all when none is named

Every token of a prompt (prefill) and of 64 more that mortise generates greedily (decode), in bf16, is held against transformers in
f32 from the same weights, rounded to bf16. A difference counts in units of the largest logit of its row. What bf16 loses is measured
in the same run, on the same tokens: transformers in bf16 against transformers in f32, which is off by 5e-3 to 2e-2 at most and 2e-3 in the
mean. Two right implementations round at different places, so mortise may differ from f32 by

- MEAN_RATIO times that in the mean: the mean of such noise over 111 tokens and more moves by a tenth or two, since they repeat each other;
- LARGEST_RATIO times that at most: the largest of so many moves by more;
- and the logit of a token that it generates may be below the best one by twice as much, since both may be off.

FP8 checkpoints are held against the matrices that they stand for, in f32 and not rounded to bf16.

Then each part of the model is broken in transformers (no bias, no window, ...): a break that stayed within the bounds would show that
they prove nothing. A golden model that DEVICE does not serve is named with the reason, and the only reason that counts is the size of
its heads; its variants with heads of 64 and 128 elements must run. The exit code is 1 if anything failed.
"""
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer

import checkpoints

LARGEST_RATIO, MEAN_RATIO = 3, 1.5
HEAD_DIMS = (64, 128)
DEMO_TEXTS = [
    "Once upon a time there was a brave girl called Flora. Flora lived near the river and had a red kite.",
    "One day Hugo and Flora went to the castle. They played so long that they did not see the dark clouds.",
    "The sun came out, and they saw a wide rainbow over the castle. " * 12,
]
SCRIPT = """return pipeline {{ device = {device} {{}}, model = {plugin} {{ path = '{path}', dtype = 'bf16' }}, attention = paged {{}},
  scheduler = fcfs {{ max_num_seqs = 4, max_batched_tokens = 256 }}, kv_cache = {{ memory = '64MiB' }} }}
"""


class Refused(Exception):
    """mortise ended with an error, which is the text."""


def ours(mortise, device, checkpoint, prompts):
    """Of each prompt: its tokens with those generated, and the log probability of each but the first."""
    with tempfile.TemporaryDirectory() as folder:
        script, lines, out = (Path(folder) / name for name in ("p.lua", "in.jsonl", "out.jsonl"))
        model_type = json.loads((checkpoint / "config.json").read_text())["model_type"]
        plugin = model_type if model_type in ("opt", "gpt2") else "llama"
        script.write_text(SCRIPT.format(device=device, plugin=plugin, path=checkpoint.absolute()))
        body = {"max_tokens": checkpoints.NUM_GREEDY, "temperature": 0, "ignore_eos": True, "echo": True, "logprobs": 0,
                "return_token_ids": True}
        lines.write_text("".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                                             "body": {**body, "prompt": prompt}}) + "\n" for i, prompt in enumerate(prompts)))
        process = subprocess.run([mortise, "batch", script, "-i", lines, "-o", out], capture_output=True, text=True)
        if process.returncode != 0:
            raise Refused(process.stderr.strip())
        answers = {int(answer["custom_id"]): answer["response"]["body"]["choices"][0]
                   for answer in map(json.loads, out.read_text().splitlines())}
    return [(prompt + answers[i]["token_ids"], answers[i]["logprobs"]["token_logprobs"][1:]) for i, prompt in enumerate(prompts)]


@torch.no_grad()
def logits_of(model, tokens):
    return model(torch.tensor([tokens])).logits[0, :-1].float()


def logprobs_of(logits, tokens):
    return logits.log_softmax(-1).gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]


class Reference:
    """What transformers computes in f32 of some sequences of tokens."""

    def __init__(self, model, sequences):
        self.model, self.sequences = model, sequences
        self.logits = [logits_of(model, tokens) for tokens in sequences]
        self.tops = torch.cat([rows.abs().amax(-1) for rows in self.logits])
        self.logprobs = torch.cat([logprobs_of(*pair) for pair in zip(self.logits, sequences)])

    def differences(self, logprobs):
        return (logprobs - self.logprobs).abs() / self.tops

    def of_model(self, model):
        return self.differences(torch.cat([logprobs_of(logits_of(model, tokens), tokens) for tokens in self.sequences]))

    def greedy_gap(self, num_prompt_tokens):
        """How far below the best logit the logits of the generated tokens are, at most."""
        gaps = [(rows.amax(-1) - rows.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]) / rows.abs().amax(-1)
                for rows, tokens in zip(self.logits, self.sequences)]
        return max(float(gap[num - 1:].max()) for gap, num in zip(gaps, num_prompt_tokens))


def compare(name, mortise, device, checkpoint, prompts, breakages, model=None):
    """Prints a line and returns whether all is well. `model`: what the checkpoint stands for; if not given, it is loaded. Throws
    Refused."""
    results = ours(mortise, device, checkpoint, prompts)
    for prompt, (tokens, logprobs) in zip(prompts, results):
        assert len(tokens) == len(prompt) + checkpoints.NUM_GREEDY and len(logprobs) == len(tokens) - 1, f"{name}: tokens are missing"
    model = model or checkpoints.load(checkpoint)
    reference = Reference(model, [tokens for tokens, _ in results])
    found = reference.differences(torch.tensor([x for _, logprobs in results for x in logprobs]))
    noise = reference.of_model(checkpoints.in_bf16(model))
    largest, mean = float(found.max()), float(found.mean())
    most_largest, most_mean = LARGEST_RATIO * float(noise.max()), MEAN_RATIO * float(noise.mean())
    gap = reference.greedy_gap([len(prompt) for prompt in prompts])
    good = math.isfinite(largest) and largest <= most_largest and mean <= most_mean and gap <= 2 * most_largest
    effects = {part: reference.of_model(broken) for part, broken in breakages(model).items()}
    unseen = [part for part, effect in effects.items() if float(effect.max()) <= most_largest and float(effect.mean()) <= most_mean]
    print(f"{name}: {len(found)} tokens, largest {largest:.2e} (at most {most_largest:.2e}), mean {mean:.2e} (at most {most_mean:.2e}), "
          f"greedy {gap:.1e} below the best: {'ok' if good else 'TOO FAR'}", flush=True)
    if effects:
        part, least = min(((part, float(effect.mean())) for part, effect in effects.items()), key=lambda pair: pair[1])
        print(f"  {len(effects)} parts broken, least seen: {part}, mean {least:.2e}" +
              (f"; NOT SEEN: {', '.join(unseen)}" if unseen else ""), flush=True)
    return good and not unseen


def golden(name, mortise, device):
    """The golden model where the device serves it, and its variants."""
    prompts, good = [checkpoints.prompt_of(name)], True
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "own"
        checkpoints.write_golden(name, own)
        try:
            good = compare(name, mortise, device, own, prompts, checkpoints.breakages)
        except Refused as refused:
            outside = re.search(rf"head_dim {checkpoints.head_dim_of(name)} is not supported on {device}", str(refused))
            print(f"{name}: " + (f"outside what {device} serves: {outside[0]}" if outside else f"REFUSED: {refused}"), flush=True)
            good = outside is not None
        for head_dim in HEAD_DIMS:
            variant = f"{name}, heads of {head_dim}"
            checkpoints.write_variant(name, head_dim, Path(folder) / str(head_dim))
            try:
                good &= compare(variant, mortise, device, Path(folder) / str(head_dim), prompts, checkpoints.breakages)
            except Refused as refused:
                print(f"{variant}: REFUSED: {refused}", flush=True)
                good = False
    return good


def demo(mortise, device):
    checkpoint = checkpoints.ROOT / "models/demo"
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    # Trained, so that what is broken shows in everything; the golden models are made for that.
    return compare("demo", mortise, device, checkpoint, [tokenizer(text)["input_ids"] for text in DEMO_TEXTS], lambda model: {})


def fp8(mortise, device):
    good = True
    for name in checkpoints.FP8_MODELS:
        for strategy in checkpoints.FP8_STRATEGIES:
            with tempfile.TemporaryDirectory() as folder:
                own, plain = Path(folder) / "fp8", Path(folder) / "plain"
                checkpoints.write_fp8(name, strategy, own, plain)
                good &= compare(f"{name}, fp8 by {strategy}", mortise, device, own, [checkpoints.prompt_of(name)],
                                checkpoints.fp8_breakages, checkpoints.load_f32(plain))
    return good


def main():
    mortise, device, *names = [*sys.argv[1:2], *(sys.argv[2:] or ["cpu"])]
    known = ["demo", "fp8", *checkpoints.golden_names()]
    own = {"demo": demo, "fp8": fp8}
    if unknown := set(names) - set(known):
        raise SystemExit(f"no checkpoint {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    transformers.utils.logging.disable_progress_bar()
    results = {name: own[name](mortise, device) if name in own else golden(name, mortise, device) for name in names or known}
    failed = [name for name, good in results.items() if not good]
    print(f"{len(results) - len(failed)} of {len(results)} checkpoints with their variants agree on {device}" +
          (f"; not: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
