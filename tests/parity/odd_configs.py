"""Odd configurations against transformers 5, where that is installed: no configuration may be computed otherwise than it says.

    odd_configs.py MORTISE [FAMILY ...]

Each case of tests/golden/config_cases.py is a small checkpoint. transformers and mortise compute the log probabilities of a prompt in
f32; they agree, or mortise refuses the file. Prints a line for each case where only one of them serves the file. The exit code is 1 if
a case differs.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import checkpoints  # puts tests/golden on the path
import config_cases

TOLERANCE = 2e-3  # of log probabilities; a wrong reading is off by tenths at least
SCRIPT = """return pipeline {{ device = cpu {{}}, model = {plugin} {{ path = '{path}', dtype = 'f32' }}, attention = paged {{}},
  scheduler = fcfs {{ max_num_seqs = 1, max_batched_tokens = 256 }}, kv_cache = {{ memory = '64MiB' }} }}
"""


class Refused(Exception):
    """mortise ended with an error, which is the text."""


def ours(mortise, folder, family):
    checkpoints.add_tokenizer(Path(folder), config_cases.VOCAB)
    script, lines, out = (Path(folder) / name for name in ("p.lua", "in.jsonl", "out.jsonl"))
    script.write_text(SCRIPT.format(plugin=family if family in ("opt", "gpt2") else "llama", path=folder))
    body = dict(prompt=config_cases.PROMPT, max_tokens=1, temperature=0, ignore_eos=True, echo=True, logprobs=0)
    lines.write_text(json.dumps(dict(custom_id="0", method="POST", url="/v1/completions", body=body)) + "\n")
    process = subprocess.run([mortise, "batch", script, "-i", lines, "-o", out], capture_output=True, text=True)
    if process.returncode != 0:
        raise Refused(process.stderr.strip().splitlines()[-1])
    choice = json.loads(out.read_text())["response"]["body"]["choices"][0]
    return torch.tensor(choice["logprobs"]["token_logprobs"][1:len(config_cases.PROMPT)])


def compare(mortise, family, label, write):
    """The case's result: agree, DIFFER, both refuse, mortise refuses, transformers refuses."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        reason, theirs, found = "", None, None
        try:
            theirs = config_cases.logprobs(folder)
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
        try:
            found = ours(mortise, folder, family)
        except Refused as refused:
            reason = str(refused)
    if theirs is None or found is None:
        result = "both refuse" if theirs is None and found is None else "mortise refuses" if found is None else "transformers refuses"
    else:
        difference = float((theirs - found).abs().max())
        result, reason = ("agree" if difference < TOLERANCE else "DIFFER"), f"by {difference:.1e}"
    if result not in ("agree", "both refuse"):
        print(f"{result}: {family} {label}: {reason[-200:]}", flush=True)
    return result


def main():
    config_cases.be_quiet()
    mortise, *families = sys.argv[1:]
    counts = {}
    for family in families or config_cases.FAMILIES:
        todo = [(str(case), lambda folder, case=case: config_cases.write(family, case, folder)) for case in config_cases.cases(family)]
        todo.append(("tied, with another head", lambda folder: config_cases.write_with_other_head(family, folder)))
        for label, write in todo:
            result = compare(mortise, family, label, write)
            counts[result] = counts.get(result, 0) + 1
    print(", ".join(f"{result}: {count}" for result, count in sorted(counts.items())))
    return 1 if "DIFFER" in counts else 0


if __name__ == "__main__":
    sys.exit(main())
