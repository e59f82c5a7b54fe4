"""Log probabilities of a checkpoint against transformers, where that is installed (a GPU machine): every token of some texts.

    transformers_parity.py MORTISE CHECKPOINT [DEVICE]      DEVICE: the constructor of the pipeline's device, cpu by default

transformers computes in f32 from the same weights, mortise in bf16: they differ by what bf16 loses, and by no more. The last
line tells the largest and the mean difference; the exit code is 1 if one is too large.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = [
    "Once upon a time there was a brave girl called Flora. Flora lived near the river and had a red kite.",
    "One day Hugo and Flora went to the castle. They played so long that they did not see the dark clouds.",
    "The sun came out, and they saw a wide rainbow over the castle. " * 12,
]
# bf16 keeps 8 bits: activations are off by 2^-9 each, over some tens of roundings on the way to a logit.
LARGEST, MEAN = 0.6, 0.03


def ours(mortise: str, checkpoint: str, device: str, rows: list[list[int]]) -> list[list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        script, lines, out = (os.path.join(folder, name) for name in ("p.lua", "in.jsonl", "out.jsonl"))
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"return pipeline {{ device = {device} {{}}, model = llama {{ path = '{os.path.abspath(checkpoint)}' }},"
                       " attention = paged {}, scheduler = fcfs {} }")
        with open(lines, "w", encoding="utf-8") as file:
            for ids in rows:
                file.write(json.dumps({"prompt": ids[:1], "completions": [ids[1:]]}) + "\n")
        subprocess.run([mortise, "score", script, "-i", lines, "-o", out], check=True)
        with open(out, encoding="utf-8") as file:
            return [json.loads(line)["completions"][0]["token_logprobs"] for line in file]


def theirs(checkpoint: str, rows: list[list[int]]) -> list[list[float]]:
    where = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).to(where).eval()
    result = []
    for ids in rows:
        with torch.no_grad():
            logits = model(torch.tensor([ids], device=where)).logits[0].log_softmax(-1).cpu()
        result.append([float(logits[i, token]) for i, token in enumerate(ids[1:])])
    return result


def main() -> int:
    mortise, checkpoint = sys.argv[1], sys.argv[2]
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    rows = [tokenizer(text)["input_ids"] for text in TEXTS]
    a, b = ours(mortise, checkpoint, device, rows), theirs(checkpoint, rows)
    differences = [abs(x - y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True)]
    largest, mean = max(differences), sum(differences) / len(differences)
    good = math.isfinite(largest) and largest <= LARGEST and mean <= MEAN
    print(f"{checkpoint} on {device}: {len(differences)} tokens, largest difference {largest:.4f} (at most {LARGEST}), "
          f"mean {mean:.5f} (at most {MEAN}): {'ok' if good else 'TOO LARGE'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
