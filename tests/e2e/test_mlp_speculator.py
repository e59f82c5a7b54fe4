"""mlp_speculator through the whole program: it changes no bit of any output, whatever it drafts."""
import json
import random
import shutil
import struct

import pytest

from conftest import BUILD, SOURCE, run_mortise

SPECULATOR = SOURCE / "models/demo-mlp-speculator"
PROMPTS = ["Once upon a time there was a clever otter named Miro.", "One day a brave girl called Flora", "Q: 23 + 58 = ? A:",
           "Tarnwick is a town."]
TEXTS = {"cpu": "threads = 2", "remote": "threads = 2, isa = 'auto'"}


def requests():
    draw = random.Random(3)
    rows = []
    for i in range(10):
        sampling = [{"temperature": 0}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.0}, {"temperature": 0.8, "top_k": 5},
                    {"temperature": 0, "repetition_penalty": 1.3}][i % 5]
        body = {"prompt": PROMPTS[draw.randrange(len(PROMPTS))], "max_tokens": draw.randrange(1, 90), "logprobs": 2, "seed": i, "n": 1 + i % 2,
                "return_token_ids": True, **sampling}
        rows.append({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body})
    return rows


def run(tmp_path, device, proposer, name):
    """Answers by id, and the numbers that the run told of drafts."""
    script, lines, out = (tmp_path / f"{name}{end}" for end in (".lua", ".in.jsonl", ".out.jsonl"))
    script.write_text(f"return pipeline {{ device = {device} {{ {TEXTS[device]} }}, model = llama {{ path = '{SOURCE}/models/demo' }}, "
                      f"attention = paged {{}}, scheduler = fcfs {{ max_num_seqs = 6, max_batched_tokens = 64 }}, "
                      f"kv_cache = {{ memory = '4MiB' }}{proposer} }}")
    lines.write_text("".join(json.dumps(row) + "\n" for row in requests()))
    env = {"MORTISE_PLUGIN_PATH": f"{BUILD}/tests/property/remote"} if device == "remote" else {}
    process = run_mortise("batch", script, "-i", lines, "-o", out, env=env)
    assert process.returncode == 0, process.stderr
    answers = {}
    for line in out.read_text().splitlines():
        row = json.loads(line)
        answers[row["custom_id"]] = [(choice["token_ids"], choice["logprobs"], choice["finish_reason"])
                                     for choice in row["response"]["body"]["choices"]]
    return answers


def proposer(path, max_tokens=None):
    most = "" if max_tokens is None else f", max_tokens = {max_tokens}"
    return f", proposer = mlp_speculator {{ path = '{path}'{most} }}"


@pytest.mark.parametrize("device", ["cpu", "remote"])
def test_outputs_are_bit_equal_to_those_without(device, tmp_path):
    alone = run(tmp_path, device, "", "none")
    for most in (None, 1, 2, 3):
        assert run(tmp_path, device, proposer(SPECULATOR, most), f"drafts{most}") == alone


def write_variant(folder, change):
    """The demo's speculator with its tensors' bytes changed."""
    shutil.copytree(SPECULATOR, folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header, tensors = json.loads(data[8:8 + size]), data[8 + size:]
    path.write_bytes(data[:8 + size] + change(header, tensors))
    return folder


def test_a_damaged_speculator_changes_nothing(tmp_path):
    noise = random.Random(1)
    damaged = write_variant(tmp_path / "noise", lambda _, tensors: noise.randbytes(len(tensors)))
    broken = write_variant(tmp_path / "nan", lambda _, tensors: b"\xff\x7f" * (len(tensors) // 2))  # every weight NaN
    alone = run(tmp_path, "cpu", "", "none")
    for folder in (damaged, broken):
        assert run(tmp_path, "cpu", proposer(folder), folder.name + "-run") == alone


@pytest.mark.parametrize("key, value, text", [
    ("emb_dim", 128, "emb_dim is 128, the target's hidden size is 256"),
    ("vocab_size", 4000, "vocab_size is 4000, the target's vocabulary size is 4096"),
    ("model_type", "llama", "model type 'llama' is not mlp_speculator"),
    ("n_predict", 0, "n_predict is 0; expected an integer from 1 to 64"),
])
def test_a_speculator_that_does_not_fit_is_refused(key, value, text, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(SPECULATOR, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    script = tmp_path / "p.lua"
    script.write_text(f"return pipeline {{ device = cpu {{}}, model = llama {{ path = '{SOURCE}/models/demo' }}, attention = paged {{}}, "
                      f"scheduler = fcfs {{}}, kv_cache = {{ memory = '4MiB' }}{proposer(folder)} }}")
    process = run_mortise("run", script, "-p", "Once", stdin="")
    assert process.returncode != 0
    assert text in process.stderr
