"""Writes the batch file of the benchmark "answers beside the steps": requests with random sampling options, and log
probabilities on some of them. The same arguments write the same bytes.

    python3 bench/random_batch.py --out requests.jsonl
    build/release/mortise batch bench/random_batch.lua -i requests.jsonl -o answers.jsonl --trace trace.json
    python3 bench/phases.py trace.json
"""

import argparse
import json
import random

WORDS = (
    "the a small large old young red green quick slow river mountain house garden city child bird horse book letter "
    "king queen friend stranger winter summer morning night walked looked found lost opened closed said asked answered "
    "and but because when before after under over behind near every no some many never always once again"
).split()


def prompt(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 60)))


def options(rng, max_tokens):
    """Sampling options as a client might mix them: each is left out about half of the time."""
    body = {"max_tokens": rng.randint(max_tokens // 8, max_tokens), "temperature": rng.choice([0, 0.3, 0.7, 1.0, 1.3])}
    candidates = {
        "top_p": lambda: round(rng.uniform(0.5, 1.0), 3),
        "top_k": lambda: rng.randint(1, 100),
        "min_p": lambda: round(rng.uniform(0.0, 0.2), 3),
        "frequency_penalty": lambda: round(rng.uniform(-0.5, 1.5), 3),
        "presence_penalty": lambda: round(rng.uniform(-0.5, 1.5), 3),
        "repetition_penalty": lambda: round(rng.uniform(0.9, 1.4), 3),
        "logit_bias": lambda: {str(rng.randint(5, 4000)): rng.randint(-20, 5) for _ in range(rng.randint(1, 8))},
        "min_tokens": lambda: rng.randint(1, max_tokens // 8),
        "ignore_eos": lambda: True,
        "stop": lambda: [rng.choice(WORDS) + ".", "\n\n\n"],
    }
    for name, draw in candidates.items():
        if rng.random() < 0.5:
            body[name] = draw()
    return body


def line(rng, index, arguments):
    body = {"prompt": prompt(rng), **options(rng, arguments.max_tokens)}
    if rng.random() < arguments.logprobs_share:
        body["logprobs"] = rng.randint(0, 5)
    return {"custom_id": f"line-{index}", "method": "POST", "url": "/v1/completions", "body": body}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--lines", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=512, help="of an answer; the least is an eighth of it")
    parser.add_argument("--logprobs-share", type=float, default=0.43)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with open(arguments.out, "w", encoding="utf-8") as out:
        for index in range(arguments.lines):
            out.write(json.dumps(line(rng, index, arguments)) + "\n")


if __name__ == "__main__":
    main()
