"""Swaps with verify_steps under streaming clients: what is equal bit by bit comes in, what is wrong once in a thousand
calls is refused with the place, and no stream changes."""
# Covers: runtime/assembly/{part_set,swap_options} runtime/server/{admin_routes,swaps}
import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import BUILD, SOURCE
from live_server import LiveServer, live_server
from test_swap import BODIES, Streams, event_lines, script_file, served, streamed, swap

SLIPS = str(BUILD / "tests/e2e/plugins/slips.so")
SIZES = dict(max_num_seqs=16, max_batched_tokens=256)


@pytest.fixture
def server(tmp_path):
    with live_server(script_file(tmp_path)) as running:
        yield running


def verified(server, part, plugin, steps, **options):
    body = {"part": part, "plugin": plugin, "options": options, "verify_steps": steps}
    status, _, text = server.ask("POST", "/admin/swap", body)
    return status, json.loads(text)


def test_equal_parts_of_every_kind_come_in_and_say_what_was_compared(server, tmp_path):
    expected = [streamed(server, body) for body in BODIES]
    rebuilt = tmp_path / "again.so"
    rebuilt.write_bytes((BUILD / "llama.so").read_bytes() + b"another build")
    changes = [("attention", "cascade", {}), ("scheduler", "prefix_group", SIZES), ("model", str(rebuilt), {}),
               ("proposer", "draft_model", dict(path=str(SOURCE / "models/demo-draft"), max_tokens=3)),
               ("attention", "paged", {}), ("scheduler", "fcfs", SIZES), ("device", "cpu", dict(threads=2)),
               ("proposer", "ngram", {})]
    with Streams(server, expected) as streams:
        answers = {}
        for part, plugin, options in changes:
            status, answer = verified(server, part, plugin, 20, **options)
            assert status == 200, answer
            assert answer["verified_steps"] == 20
            answers.setdefault(part, answer["verified"])
            assert not streams.wrong
    assert not streams.wrong
    assert answers["attention"]["attention"]["rows"] >= 20
    assert answers["model"]["model"]["rows"] >= 20 and answers["device"]["model"]["rows"] >= 20
    assert answers["scheduler"]["scheduler"]["plans"] == 20 and answers["scheduler"]["scheduler"]["plan_s"] > 0
    drafts = answers["proposer"]["proposer"]
    assert 0 < drafts["accepted_tokens"] <= drafts["draft_tokens"] and drafts["draft_s"] > 0
    assert drafts["serving"].keys() == {"draft_tokens", "accepted_tokens", "draft_s"}
    assert {role: part["name"] for role, part in served(server).items()} == {
        "device": "cpu", "model": "llama", "attention": "paged", "scheduler": "fcfs", "proposer": "ngram"}


def test_an_attention_that_is_wrong_in_one_bit_in_a_thousand_calls_is_refused_with_the_place(server):
    expected, before = [streamed(server, body) for body in BODIES], served(server)
    with Streams(server, expected) as streams:
        status, answer = verified(server, "attention", SLIPS, 2000, every=1000)
    assert not streams.wrong and served(server) == before
    error = answer["error"]
    where = error["where"]
    assert status == 409 and error["message"].startswith("attention 'slipping_paged' does not replace it: step ")
    assert (where["part"], where["what"], where["element"]) == ("attention 'slipping_paged'", "attention output", 3)
    assert where["request"] > 0 and where["position"] >= 0 and where["layer"] >= 0 and where["equal_steps"] > 100
    assert int(where["serving"]["bits"], 16) ^ int(where["candidate"]["bits"], 16) == 1
    event = event_lines(server)[-1]
    assert (event["event"], event["where"], event["verify_steps"]) == ("swap refused", where, 2000)


def test_a_scheduler_that_breaks_one_plan_in_a_thousand_is_refused_with_the_place(server):
    expected, before = [streamed(server, body) for body in BODIES], served(server)
    with Streams(server, expected) as streams:
        status, answer = verified(server, "scheduler", SLIPS, 2000, every=1000)
    assert not streams.wrong and served(server) == before
    where = answer["error"]["where"]
    assert status == 409 and where["equal_steps"] == 999 and where["request"] > 0
    assert where["part"] == "scheduler 'slipping_fcfs'"
    assert "its plan is refused: num_new_tokens[0] = 10" in where["why"] and where["why"] in answer["error"]["message"]
    metrics = server.ask("GET", "/metrics")[2]
    assert [line for line in metrics.splitlines() if "rejected_plans" in line and not line.startswith("#")][0].endswith(" 0")


@pytest.mark.parametrize("part, plugin, options, status, why", [
    ("attention", "cascade", dict(block_size=32), 409, "but block_size is 16 and would be 32"),
    ("scheduler", "fcfs", dict(max_num_seqs=3, max_batched_tokens=32), 409, "max_num_seqs is 16 and would be 3"),
    ("attention", "paged", {}, 409, "verify_steps: the swap brings no attention, model, scheduler or proposer to"),
])
def test_what_cannot_be_compared_is_refused(server, part, plugin, options, status, why):
    before = served(server)
    got, answer = verified(server, part, plugin, 5, **options)
    assert (got, why in answer["error"]["message"]) == (status, True), answer
    assert served(server) == before


@pytest.mark.parametrize("steps", [-1, "many", 1.5, 10**7])
def test_a_wrong_number_of_steps_is_refused(server, steps):
    status, answer = verified(server, "scheduler", "fcfs", steps, **SIZES)
    assert status == 400 and " expected a number of steps from 0 (none is compared) to 1000000" in answer["error"]["message"]


def machine_memory():
    with open("/proc/meminfo") as lines:
        total = int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) << 10
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except FileNotFoundError:
        limit = "max"
    return total if limit == "max" else min(total, int(limit))


def test_a_second_cache_that_does_not_fit_is_refused(tmp_path):
    script, most = script_file(tmp_path), (machine_memory() >> 20) - 256  # MiB, taken lazily
    script.write_text(script.read_text().replace('memory = "16MiB"', f'memory = "{most}MiB", populate = false'))
    with live_server(script) as server:
        status, answer = verified(server, "attention", "cascade", 5)
    assert status == 409 and "verify_steps needs a second KV cache of " in answer["error"]["message"]


def test_a_second_swap_is_refused_beside_it_and_a_server_that_ends_does_not_wait(tmp_path):
    server = LiveServer(script_file(tmp_path))
    try:
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(verified(server, "scheduler", "prefix_group", 1000, **SIZES)))
        thread.start()
        for _ in range(500):
            status, _, text = swap(server, "proposer", "none")
            if status == 409:
                break
            time.sleep(0.01)
        assert "a swap with verify_steps is under way; wait for its end" in text
        code, log = server.end()
        thread.join()
    finally:
        server.process.kill()
    assert code == 0, log
    assert answers[0][0] == 503 and "the engine is shutting down; 0 of 1000 steps were compared" in str(answers[0][1])


def test_a_client_that_goes_ends_the_comparison(server):
    args = ["ctl", "--url", server.url, "swap", "--verify-steps", "1000", "scheduler", "prefix_group",
            "{max_num_seqs = 16, max_batched_tokens = 256}"]
    client = subprocess.Popen([BUILD / "mortise", *args])
    time.sleep(0.5)
    client.kill()
    client.wait()
    for _ in range(500):
        if event_lines(server):
            break
        time.sleep(0.02)
    assert "the client that asked for the swap no longer waits for it" in event_lines(server)[-1]["error"]


def test_reload_and_ctl_compare_too(server, tmp_path, mortise):
    expected = [streamed(server, body) for body in BODIES]
    script = tmp_path / "pipeline.lua"
    script.write_text(script.read_text().replace("fcfs {", "prefix_group {").replace("paged {", "cascade {"))
    with Streams(server, expected) as streams:
        done = mortise("ctl", "--url", server.url, "reload", "--verify-steps", "15")
        assert done.returncode == 0, done.stderr
        event = json.loads(done.stdout)["swaps"][0]
        assert event["verified_steps"] == 15 and event["verified"].keys() == {"attention", "scheduler"}
        done = mortise("ctl", "--url", server.url, "swap", "--verify-steps", "3000", "attention", SLIPS)
        assert done.returncode == 1 and "attention 'slipping_paged' does not replace it: step " in done.stderr
        status, _, text = server.ask("POST", "/admin/reload", {"steps": 3})
        assert status == 400 and "unknown field 'steps'; the only one is verify_steps" in text
        status, _, text = server.ask("POST", "/admin/reload", [3])
        assert status == 400 and "the body must be an object or empty" in text
    assert not streams.wrong
    assert served(server)["attention"]["name"] == "cascade"


def test_the_repl_compares_on_the_last_prompt(tmp_path, mortise):
    lines = ["/set max_tokens 4", "A cat", "/swap attention cascade {} verify_steps = 12",
             f"/swap attention {SLIPS} {{every = 1000}} verify_steps = 3000", "/swap scheduler fcfs {} verify_steps = x",
             "/swap"]
    process = mortise("run", script_file(tmp_path), stdin="\n".join(lines) + "\n")
    output = process.stdout + process.stderr
    assert "attention: cascade; swapped in " in output and " s, 12 steps compared and equal" in output, output
    assert "attention 'slipping_paged' does not replace it: step " in output
    assert "verify_steps = 'x': expected a number of steps" in output
    assert "attention: cascade" in output.split("'x'")[1]
