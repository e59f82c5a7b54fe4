"""oracle in a script: drafts from the log of the same requests, with a draft model that runs for its cost, and the figures of all that."""
import json
import re
import shutil

import pytest
from conftest import SOURCE, run_mortise

PIPELINE = """return pipeline { device = cpu {}, model = llama { path = 'DEMO' }, attention = paged {}, scheduler = fcfs {},
  kv_cache = { memory = '64MiB' }, speculation = { lengths = 'fixed' }, proposer = PROPOSER }"""
PROMPTS = ["Once upon a time there was a clever otter named Miro.", "One day a brave girl called Flora", "Q: 23 + 58 = ? A:"]


def lines():
    return [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
             "body": {"prompt": prompt, "max_tokens": 50, "temperature": 0.7 * (i % 2), "seed": i, "ignore_eos": True,
                      "return_token_ids": True}} for i, prompt in enumerate(PROMPTS)]


def tokens_of(answers):
    return [answer["response"]["body"]["choices"][0]["token_ids"] for answer in answers]


@pytest.fixture
def recorded(jsonl, script, tmp_path):
    """(log, tokens) of a run without drafts."""
    log = tmp_path / "requests.log"
    process, answers = jsonl("batch", lines(), script(PIPELINE.replace("PROPOSER", "nil")), "--record", log)
    assert process.returncode == 0, process.stderr
    (tmp_path / "out.jsonl").unlink()  # or the next batch finds every line done
    return log, tokens_of(answers)


@pytest.mark.parametrize("rate, model", [(1, ""), (1, "path = 'DEMO-draft'"), (0.5, "path = 'DEMO-draft'"), (0, "path = 'DEMO-draft'")])
def test_drafts_come_true_at_the_rate_and_change_no_token(recorded, script, tmp_path, rate, model):
    log, tokens = recorded
    path = script(PIPELINE.replace("PROPOSER", f"oracle {{ log = '{log}', rate = {rate}, max_tokens = 3, {model} }}"))
    process = run_mortise("batch", path, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", env={"MORTISE_LOG": "info"})
    assert process.returncode == 0, process.stderr
    assert tokens_of(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())) == tokens
    accepted, drafts = map(int, re.search(r"info: speculation: oracle: (\d+) of (\d+) drafts accepted \(", process.stderr).groups())
    assert drafts > 90
    assert accepted == drafts if rate == 1 else accepted == 0 if rate == 0 else 0.15 < accepted / drafts < 0.6
    # The log has what /stats has: acceptance by position, mean length, times.
    assert re.search(r"by position( [0-9]+){3} %\), mean acceptance length [1-4]\.\d\d; drafting [0-9.]+ ms\n", process.stderr)
    assert re.search(r"info: speculation: verifying: [0-9]+ steps, [0-9.]+ ms\n", process.stderr)


def test_json_of_a_run_has_the_figures(recorded, script):
    log, _ = recorded
    path = script(PIPELINE.replace("PROPOSER", f"oracle {{ log = '{log}', rate = 1, max_tokens = 3 }}"))
    process = run_mortise("run", path, "-p", PROMPTS[0], "--temperature", 0, "--ignore-eos", "--max-tokens", 50, "--json")
    assert process.returncode == 0, process.stderr
    speculation = json.loads(process.stdout)["speculation"]
    oracle, = speculation["proposers"]
    assert oracle["name"] == "oracle" and oracle["acceptance_rate"] == 1
    assert oracle["acceptance_rate_by_position"] == [1, 1, 1]
    assert oracle["verified"] == speculation["verify_steps"] == 12 and oracle["draft_tokens"] == oracle["accepted_tokens"] == 36
    assert oracle["mean_acceptance_length"] == 4
    assert oracle["draft_s"] > 0 and speculation["verify_s"] > 0
    without = run_mortise("run", script(PIPELINE.replace("PROPOSER", "nil")), "-p", "x", "--max-tokens", 2, "--json")
    assert "speculation" not in json.loads(without.stdout)


def refused(recorded, script, path):
    process = run_mortise("run", script(PIPELINE.replace("PROPOSER", f"oracle {{ log = '{recorded[0]}', path = '{path}' }}")), "-p", "x")
    assert process.returncode == 1 and process.stdout == "" and len(process.stderr.splitlines()) <= 3, process.stderr
    return process.stderr


def test_a_draft_model_that_does_not_fit_is_refused_as_of_draft_model(recorded, script, tmp_path):
    assert "proposer 'oracle' (oracle.so): bind: " in refused(recorded, script, "/nowhere/draft")
    assert "/nowhere/draft" in refused(recorded, script, "/nowhere/draft")
    copy = shutil.copytree(SOURCE / "models/demo-draft", tmp_path / "draft")
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": 4096, "content": "<|new|>"})
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    text = refused(recorded, script, copy)
    assert f"the tokenizer of the draft model in {copy} has 4097 tokens" in text
    assert "use a draft model that was made with the target's tokenizer" in text


def test_an_empty_path_is_no_path(recorded, script):
    assert "option 'path' of proposer 'oracle' is \"\"" in refused(recorded, script, "")
