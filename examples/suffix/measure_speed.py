#!/usr/bin/env python3
"""How much sooner a model ends with one proposer than with none or another, on files of texts.py.

  measure_speed.py MORTISE PLUGIN.so MODEL TEXTS.jsonl ... [--batch 1] [--repeats 5] [--lengths adaptive]

The model is made to generate each text's output: the output is the only guided choice of its request. So each step costs what it costs, and
the tokens are known. Where the output is empty, the model answers freely, at temperature 0. `mortise batch` runs all texts on one thread with no proposer, ngram and the plugin in turns. The time is the processor time of the whole
command, which other work on the machine disturbs less than the clock's, less that of a command with one request of one token. Prints medians
in tokens/s, and each proposer's acceptance as the program logs it.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

SCRIPT = """return pipeline {{
  device = cpu {{ threads = 1 }}, model = llama {{ path = "{model}" }}, attention = paged {{ block_size = 16 }},
  scheduler = fcfs {{ max_num_seqs = {batch}, max_batched_tokens = 2048 }}, kv_cache = {{ memory = "512MiB" }},
  speculation = {{ lengths = "{lengths}" }}, proposer = {proposer},
}}
"""


def run(mortise, script, requests, folder):
    """Processor seconds, answers, log."""
    answers = folder / "answers.jsonl"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([mortise, "batch", script, "-i", requests, "-o", answers, "--overwrite"], capture_output=True, text=True,
                          env={**os.environ, "MORTISE_LOG": "info"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode != 0:
        sys.exit(done.stderr)
    return seconds, answers.read_text(), done.stderr


def request(number, text, tokens):
    answer = {"max_tokens": len(tokens), "choices": [tokens]} if tokens else {"max_tokens": 400}
    return json.dumps({"custom_id": str(number), "method": "POST", "url": "/v1/completions", "body": {
        "prompt": text["prompt"], "temperature": 0, "seed": 0, "return_token_ids": True, **answer}}) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mortise")
    parser.add_argument("plugin", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="+")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lengths", default="adaptive")
    parser.add_argument("--options", default="", help="of the plugin, as in a script: max_tokens = 8")
    args = parser.parse_args()
    sides = {"none": "nil", "ngram": "ngram {}", "suffix": f'plugin("{args.plugin.resolve()}") {{ {args.options} }}'}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        scripts = {}
        for side, proposer in sides.items():
            scripts[side] = folder / f"{side}.lua"
            scripts[side].write_text(SCRIPT.format(model=args.model.resolve(), batch=args.batch, lengths=args.lengths, proposer=proposer))
        for path in args.texts:
            texts = [json.loads(line) for line in path.read_text().splitlines()]
            whole, one = folder / "whole.jsonl", folder / "one.jsonl"
            whole.write_text("".join(request(i, text, text["output"]) for i, text in enumerate(texts)))
            one.write_text(request(0, texts[0], texts[0]["prompt"][:1]))  # any token
            seconds, answers, logs = {side: [] for side in sides}, {}, {}
            for _ in range(args.repeats):
                for side, script in scripts.items():
                    start, _, _ = run(args.mortise, script, one, folder)
                    took, text, logs[side] = run(args.mortise, script, whole, folder)
                    seconds[side].append(took - start)
                    tokens = [json.loads(line)["response"]["body"]["choices"][0]["token_ids"] for line in text.splitlines()]
                    if answers.setdefault("tokens", tokens) != tokens:
                        sys.exit(f"{side}: other tokens")
            num_tokens = sum(map(len, answers["tokens"]))
            for side in sides:
                rate = num_tokens / statistics.median(seconds[side])
                ratio = statistics.median(a / b for a, b in zip(seconds["none"], seconds[side]))
                print(f"{path.stem} batch {args.batch} {side}: {rate:.0f} tokens/s, {ratio:.2f} of none", flush=True)
                for line in re.findall(r"speculation: .*", logs[side]):
                    print(f"    {line}")


if __name__ == "__main__":
    main()
