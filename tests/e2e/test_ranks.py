"""cpu { shards = ... }: a model that is cut for several ranks gives the same answers, with the same fingerprint."""
import json
import re
import shutil
import time

import pytest

from conftest import SOURCE
from live_server import LiveServer


def answers(mortise, script, tmp_path, name, *options, env=None):
    lines = [{"prompt": "Once upon a time", "max_tokens": 30, "temperature": 0},
             {"prompt": "The donkey", "max_tokens": 20, "n": 2, "seed": 3, "logprobs": 3},
             {"prompt": list(range(5, 405)), "max_tokens": 2, "echo": True, "logprobs": 1}]
    source, target = tmp_path / "in.jsonl", tmp_path / f"{name}.jsonl"
    source.write_text("".join(
        json.dumps({"custom_id": str(i), "url": "/v1/completions", "body": body}) + "\n" for i, body in enumerate(lines)))
    process = mortise("batch", script, "-i", source, "-o", target, *options, env=env)
    assert process.returncode == 0, process.stderr
    bodies = [json.loads(line)["response"]["body"] for line in target.read_text().splitlines()]
    return [(body["choices"], body["system_fingerprint"]) for body in bodies]


@pytest.mark.parametrize("weights", ["auto", "int8", "int4", "fp8", "mxfp4", "int8-block32"])
def test_no_number_of_ranks_changes_an_answer(weights, mortise, pipeline, tmp_path):
    def with_ranks(ranks):
        script = pipeline(device=f"threads = 2, shards = {ranks}", model=f", weights = '{weights}'")
        return answers(mortise, script, tmp_path, f"{ranks}")
    one = with_ranks(1)
    assert with_ranks(2) == one
    assert with_ranks(4) == one


def test_exchanges_keep_the_rules_of_the_abi(mortise, pipeline, tmp_path):
    script = pipeline(device="shards = 2")
    checked = answers(mortise, script, tmp_path, "checked", env={"MORTISE_ABI_CHECK": "1"})
    assert checked == answers(mortise, script, tmp_path, "plain")


@pytest.mark.parametrize("verify", ["coupled", "rejection"])
def test_a_draft_model_runs_on_any_ranks(verify, mortise, script, tmp_path):
    def drafted(ranks, devices):
        path = script(f"""return pipeline {{ device = cpu {{ threads = 2, shards = {ranks} }}, model = llama {{ path = "DEMO" }},
            attention = paged {{}}, scheduler = fcfs {{}}, kv_cache = {{ memory = "64MiB" }}, speculation = {{ verify = "{verify}", lengths = "fixed" }},
            proposer = draft_model {{ path = "DEMO-draft", devices = {{ {devices} }} }} }}""")
        process = mortise("run", path, "-p", "Once upon a time", "--seed", 2, "--max-tokens", 40)
        assert process.returncode == 0, process.stderr
        accepted, drafts = map(int, re.search(r"(\d+) of (\d+) drafts accepted", process.stderr).groups())
        assert accepted > 0
        name = f"{ranks}-{devices}".replace(", ", "-")
        return process.stdout, accepted, drafts, answers(mortise, path, tmp_path, name)

    one = drafted(1, "0")
    assert drafted(2, "0") == drafted(2, "1") == drafted(2, "0, 1") == drafted(2, "1, 0") == one


def test_a_draft_model_on_a_rank_that_is_not_there_is_refused(mortise, script):
    path = script("""return pipeline { device = cpu { shards = 2 }, model = llama { path = "DEMO" }, attention = paged {}, scheduler = fcfs {},
        proposer = draft_model { path = "DEMO-draft", devices = { 2 } } }""")
    process = mortise("run", path, "-p", "x")
    assert process.returncode != 0 and "option 'devices' names rank 2, but the pipeline has 2, counted from 0" in process.stderr


def test_a_log_of_one_rank_replays_on_two(mortise, pipeline, tmp_path):
    log = tmp_path / "requests.log"
    answers(mortise, pipeline(device="shards = 1"), tmp_path, "one", "--record", log)
    process = mortise("replay", log, pipeline(device="shards = 2"))
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.endswith("differences        0\n")


def test_packed_weights_are_kept_for_each_rank(mortise, tmp_path, pipeline):
    demo = shutil.copytree(SOURCE / "models/demo", tmp_path / "demo")
    time.sleep(0.15)  # a checkpoint that was written just now cannot be told from one that is written right now
    script = pipeline(path=demo, device="shards = 2, packed_cache = true")
    first = answers(mortise, script, tmp_path, "first")
    assert sorted(file.name for file in demo.glob("*.packed")) == [
        "mortise-cpu-bf16-rank0of2.packed", "mortise-cpu-bf16-rank1of2.packed"]
    assert answers(mortise, script, tmp_path, "second") == first


@pytest.mark.parametrize("ranks, text", [
    (3, "3 ranks cannot divide num_attention_heads = 4 evenly"),
    (64, "64 ranks cannot divide num_attention_heads = 4 evenly")])
def test_a_number_that_does_not_divide_the_model_is_refused(ranks, text, mortise, pipeline):
    process = mortise("run", pipeline(device=f"shards = {ranks}"), "-p", "x")
    assert process.returncode != 0 and text in process.stderr


def test_a_swap_changes_the_number_of_ranks_and_no_token(pipeline):
    def swap(**order):
        status, _, text = server.ask("POST", "/admin/swap", order)
        return status, text

    def answer():
        body = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "seed": 1}
        answer = server.post("/v1/completions", body)
        return answer["choices"], answer["system_fingerprint"]

    server = LiveServer(pipeline(device="shards = 1"))
    try:
        before = answer()
        for ranks in (2, 4, 1, 2):
            assert swap(part="device", plugin="cpu", options={"shards": ranks})[0] == 200
            assert answer() == before
        status, text = swap(part="attention", plugin="cascade", options={}, verify_steps=3)
        assert status == 409
        assert "verify_steps compares parts on one device, but the pipeline has 2 ranks" in text
    finally:
        server.end()


def test_bisect_refuses_ranks(mortise, pipeline, tmp_path):
    log = tmp_path / "requests.log"
    answers(mortise, pipeline(), tmp_path, "one", "--record", log)
    process = mortise("bisect", pipeline(), pipeline(device="shards = 2"), "-i", log, "--line", 2)
    assert process.returncode != 0
    assert "bisect traces a pipeline on one device, but this one has 2 ranks" in process.stderr + process.stdout
