"""What int8 and int4 weights, or with --kv an int8 KV cache, lose against bf16 on the demo model, with Mortise itself, as
Markdown on standard output.

python3 weight_loss.py MORTISE MODEL_DIR [--count 300] [--isa auto] [--kv]

Held out texts are those of evaluate.py: stories (perplexity over all tokens) and multiple choice (right answers). Each is
scored by `mortise score` under a script that differs in the weights alone, or in the KV cache. Needs no package.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

import chats
import choice
import stories
from corpus import held_out_documents

FORMATS = {
    "bf16": "",
    "int8": 'weights = "int8"',
    "int4, groups of 32": 'weights = "int4", group_size = 32',
    "int4, groups of 64": 'weights = "int4", group_size = 64',
    "int4, groups of 128": 'weights = "int4", group_size = 128',
    "int8-block32": 'weights = "int8-block32"',
    "int4-block32": 'weights = "int4-block32"',
}

# Option of the model, dtype of the cache.
KV_FORMATS = {
    "bf16": ("", "auto"),
    "int8": ("", "int8"),
    "int8, weights too": ('weights = "int8"', "int8"),
}


def encode(mortise: str, model: str, texts: list[str]) -> list[list[int]]:
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([mortise, "tokenize", model], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def score(mortise: str, script: str, requests: list[dict]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder) / name for name in ("script.lua", "in.jsonl", "out.jsonl")}
        files["script.lua"].write_text(script)
        files["in.jsonl"].write_text("".join(json.dumps(request) + "\n" for request in requests))
        command = [mortise, "score", files["script.lua"], "-i", files["in.jsonl"], "-o", files["out.jsonl"]]
        subprocess.run([str(part) for part in command], capture_output=True, check=True)
        return [json.loads(line) for line in files["out.jsonl"].read_text().splitlines()]


def perplexity(results: list[dict]) -> float:
    rows = [result["completions"][0] for result in results]
    return math.exp(-sum(row["logprob"] for row in rows) / sum(len(row["token_ids"]) for row in rows))


def right(results: list[dict], items: list[choice.Item]) -> str:
    hits = 0
    for result, item in zip(results, items, strict=True):
        scores = [completion["logprob"] for completion in result["completions"]]
        hits += scores.index(max(scores)) == item.answer
    return f"{100 * hits / len(items):.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mortise")
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--kv", action="store_true", help="compare types of the KV cache instead of the weights")
    args = parser.parse_args()
    texts = [text + chats.EOS for text in held_out_documents(stories, args.count)]
    documents = [{"prompt": [0], "completions": [ids[:2047]]} for ids in encode(args.mortise, args.model, texts)]
    tasks = {
        "letters": choice.held_out_items(args.count, "letters", 5, True),
        "text": choice.held_out_items(args.count, "text", 5, False),
        "letters, facts never asked": choice.held_out_items(args.count, "letters", 5, False),
    }
    formats = KV_FORMATS if args.kv else {name: (option, "auto") for name, option in FORMATS.items()}
    print(f"| {'KV cache' if args.kv else 'weights'} | perplexity, {args.count} stories | " + " | ".join(tasks) + " |")
    print("| --- | --- |" + " --- |" * len(tasks))
    for name, (option, kv) in formats.items():
        model = f"llama {{ path = {json.dumps(str(pathlib.Path(args.model).resolve()))}, {option} }}"
        script = (f"return pipeline {{ device = cpu {{ isa = {json.dumps(args.isa)} }}, model = {model}, "
                  "attention = paged { block_size = 16 }, scheduler = fcfs { max_num_seqs = 64, "
                  f'max_batched_tokens = 2048 }}, kv_cache = {{ memory = "512MiB", dtype = "{kv}" }} }}\n')
        row = [f"{perplexity(score(args.mortise, script, documents)):.4f}"]
        for items in tasks.values():
            requests = [{"prompt": item.prompt, "completions": item.choices} for item in items]
            row.append(right(score(args.mortise, script, requests), items))
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
