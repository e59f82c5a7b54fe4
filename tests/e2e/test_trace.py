"""--trace: Chrome trace events of every command that runs an engine."""
import json
import pathlib
import signal
import subprocess
import time

import jsonschema
import pytest

from conftest import MORTISE, SOURCE, run_mortise

SCHEMA = json.loads((SOURCE / "tests/unit/trace/trace_schema.json").read_text())
PHASES = ["inbox", "plan", "propose", "build", "forward", "sample", "commit", "text", "stream"]


def check_trace(path, whole=True):
    """Schema, order of time, phases inside their steps; returns the events. `whole`: nothing was killed."""
    events = json.loads(path.read_text())
    jsonschema.validate(events, SCHEMA)
    timed = [(round(e["ts"] * 1000), round(e.get("dur", 0) * 1000), e) for e in events]  # nanoseconds
    for pid in {e["pid"] for e in events}:
        mine = [t for t in timed if t[2]["pid"] == pid and t[2]["ph"] != "M"]
        assert [t[0] for t in mine] == sorted(t[0] for t in mine)
        end, left = 0, []
        for begin, duration, event in (t for t in mine if t[2]["ph"] == "X"):
            if event["cat"] == "step":
                assert left == [] and begin >= end
                end, left, last = begin + duration, list(PHASES), begin
            else:
                assert event["name"] == left.pop(0)
                assert begin == last and begin + duration <= end
                last = begin + duration
    begun = [e["id"] for e in events if e["ph"] == "b"]
    ended = [e["id"] for e in events if e["ph"] == "e"]
    assert len(set(begun)) == len(begun) and set(ended) <= set(begun)
    if whole:
        assert sorted(begun) == sorted(ended)
    return events


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"custom_id": str(i), "url": "/v1/completions", "prompt": "a",
                                        "completions": [" b"],
                                        "body": {"prompt": "Once", "max_tokens": 80, "ignore_eos": True}}) + "\n"
                            for i in range(30)))
    return path


@pytest.mark.parametrize("command", ["run", "dialogue", "batch", "score", "bench", "replay"])
def test_every_command_that_runs_an_engine_writes_a_trace(tmp_path, source, command):
    files = ("-i", source, "-o", tmp_path / "out.jsonl")
    if command == "replay":
        run_mortise("score", *files, "--record", tmp_path / "log")
    arguments = {"run": ("run", "-p", "Hello", "--max-tokens", 3), "dialogue": ("run", "--max-tokens", 3),
                 "batch": ("batch", *files), "score": ("score", *files),
                 "bench": ("bench", "decode", "--batch", 2, "--output", 32, "--repeats", 1),
                 "replay": ("replay", tmp_path / "log")}
    process = run_mortise(*arguments[command], "--trace", tmp_path / "trace.json", stdin="Hello\n")
    assert process.returncode == 0, process.stderr
    events = check_trace(tmp_path / "trace.json")
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["pipeline demo", "engine"]
    assert sum(e["args"]["generated_tokens"] for e in events if e["name"] == "step") == {
        "run": 3, "dialogue": 3, "batch": 2400, "score": 0, "bench": 128, "replay": 0}[command]  # 128: a warm-up and one repeat


def test_ctrl_c_and_kill_9_leave_valid_json(tmp_path, source, pipeline):
    path = pipeline(scheduler="max_num_seqs = 1")
    for number in (signal.SIGINT, signal.SIGKILL):
        trace, out = tmp_path / f"{number}.json", tmp_path / f"{number}.jsonl"
        with subprocess.Popen([MORTISE, "batch", path, "-i", source, "-o", out, "--trace", trace],
                              stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and (not trace.exists() or trace.stat().st_size < 20_000):
                time.sleep(0.01)
            process.send_signal(number)
        events = check_trace(trace, whole=number == signal.SIGINT)
        assert [e for e in events if e["name"] == "step"]


def test_each_pipeline_is_a_process_of_the_trace(tmp_path, script):
    part = ("pipeline { device = cpu {}, model = llama { path = 'DEMO' }, attention = paged {}, "
            "scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    path = script(f"return {{ left = {part}, right = {part} }}")
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"custom_id": name, "url": "/v1/completions",
                                          "body": {"model": name, "prompt": "Once"}}) + "\n" for name in ("left", "right")))
    run_mortise("batch", path, "-i", source, "-o", tmp_path / "out", "--trace", tmp_path / "trace.json")
    events = check_trace(tmp_path / "trace.json")
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["pipeline left", "pipeline right"]
    assert {e["pid"] for e in events if e["name"] == "step"} == set(names)


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path, mortise):
    process = mortise("run", "-p", "Hello", "--max-tokens", 1, "--trace", tmp_path)
    assert process.returncode == 1
    assert process.stderr == (f"mortise: {tmp_path}: the trace cannot be written: Is a directory; name a file in "
                              "an existing folder\n")
    process = mortise("run", "-p", "Hello", "--max-tokens", 1, "--trace", "/dev/full")
    assert process.returncode == 1
    assert process.stderr.endswith("mortise: /dev/full: the trace could not be written: No space left on device; it is "
                                   "incomplete\n")
