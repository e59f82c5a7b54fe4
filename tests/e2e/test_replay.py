"""--record and mortise replay: what ran comes out again, bit by bit, or the first difference is named."""
# Covers: runtime/cli/replay runtime/replay/request_collector
import json
import os
import re
import signal
import struct
import subprocess
import time

import pytest

from conftest import MORTISE, run_mortise

SUMMARY = ("requests           {} compared, {} with differences\n"
           "tokens             {} compared\n"
           "log probabilities  {} compared\n"
           "differences        {}\n")


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def batch_lines():
    def line(custom_id, **body):
        return {"custom_id": custom_id, "url": "/v1/completions", "body": {"prompt": "Once upon a time", **body}}
    return [line("greedy", max_tokens=12, temperature=0),
            line("sampled", max_tokens=12, n=3, temperature=1.2, top_p=0.9, top_k=40, min_p=0.01),
            line("edits", max_tokens=12, repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=-0.25,
                 logit_bias={"5": -100, "7": 2.5}, min_tokens=3, stop=[" the", "."], stop_token_ids=[11], seed=-1),
            line("echo", max_tokens=2, echo=True, logprobs=3, prompt=[[5, 6, 7, 8], [9, 10]], priority=-2),
            line("choices", choices=[" cat", " dog", " small dog"], skip_special_tokens=False),
            line("refused", max_tokens=-5),
            {"custom_id": "score", "url": "/v1/score",
             "body": {"prompt": "Once", "completions": [" upon", " a time", ""]}}]


@pytest.fixture
def recorded(tmp_path, jsonl):
    """(log file, its lines as JSON) of a batch."""
    log = tmp_path / "requests.log"
    process, _ = jsonl("batch", batch_lines(), "--record", log)
    assert "1 line failed" in process.stderr
    return log, [json.loads(line) for line in log.read_text().splitlines()]


def counts(entries):
    """(requests, tokens, log probabilities) of request lines."""
    tokens = logprobs = 0
    for entry in entries:
        for choice in entry["choices"]:
            tokens += len(choice["tokens"])
            logprobs += len(choice["token_logprobs"]) + len(choice.get("prompt_logprobs", []))
            logprobs += sum(map(len, choice.get("top_logprobs", []) + choice.get("prompt_top_logprobs", [])))
    return len(entries), tokens, logprobs


def write(log, entries):
    log.write_text("".join((entry if isinstance(entry, str) else json.dumps(entry)) + "\n" for entry in entries))


def test_the_log_has_a_header_and_every_request_that_ran(recorded):
    header, *entries = recorded[1]
    assert header["mortise_log"] == 1 and header["pipeline"] == "demo" and header["model"] == "demo"
    assert header["system_fingerprint"].startswith("mortise-") and "weights" in header["numerics_id"]
    assert header["vocab_size"] > 0 and re.fullmatch("[0-9a-f]{16}", header["vocabulary"])
    assert len(entries) == 4 + 2 + 3
    sampled = next(e for e in entries if e["sampling"]["n"] == 3)
    assert len(sampled["choices"]) == 3 and isinstance(sampled["sampling"]["seed"], int)
    for entry in entries:
        for choice in entry["choices"]:
            assert choice["finish_reason"] in ("stop", "length")
            assert len(choice["token_logprobs"]) == len(choice["tokens"])
            for value in choice["token_logprobs"]:
                assert struct.unpack("<f", struct.pack("<f", value))[0] == value  # a 32-bit float, all of it
    edits = next(e for e in entries if "logit_bias" in e["sampling"])
    assert edits["sampling"]["seed"] == 2**64 - 1 and edits["sampling"]["logit_bias"] == {"5": -100.0, "7": 2.5}
    echoed = [e for e in entries if e.get("score_from") == 1 and e["sampling"]["max_tokens"] > 0]
    assert [len(e["choices"][0]["prompt_logprobs"]) for e in sorted(echoed, key=lambda e: e["request"])] == [3, 1]


def test_a_replay_under_the_same_parts_is_equal(recorded, mortise):
    log, lines = recorded
    process = mortise("replay", log)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout == SUMMARY.format(counts(lines[1:])[0], 0, *counts(lines[1:])[1:], 0)
    assert "requests" not in process.stderr and "recorded as" not in process.stderr


def test_a_replay_under_other_parts_of_the_same_bits_is_equal(recorded, mortise, pipeline):
    log, _ = recorded
    other = pipeline(device="threads = 1, isa = 'portable'", attention="block_size = 32",
                     scheduler="max_num_seqs = 2, max_batched_tokens = 16")
    process = mortise("replay", log, other)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.endswith("differences        0\n")


@pytest.mark.parametrize("weights", ["int8-block32", "int4-block32"])
def test_a_log_of_blocks_of_32_replays_on_every_instruction_set(weights, tmp_path, jsonl, mortise, pipeline):
    log, model = tmp_path / "requests.log", f', weights = "{weights}"'
    jsonl("batch", batch_lines()[:2], pipeline(device="isa = 'portable'", model=model), "--record", log)
    for isa in ("", "avx2", "avx512", "amx"):
        process = mortise("replay", log, pipeline(model=model), env={"MORTISE_ISA": isa})
        if "does not have" in process.stderr:
            continue
        assert process.returncode == 0, process.stdout + process.stderr
        assert process.stdout.endswith("differences        0\n"), isa


def test_recording_changes_no_answer(tmp_path, jsonl):
    _, plain = jsonl("batch", batch_lines())
    again = tmp_path / "again.jsonl"  # of the same input file: `created` is the time of its last change
    run_mortise("batch", "-i", tmp_path / "in.jsonl", "-o", again, "--record", tmp_path / "log")
    assert plain == [json.loads(line) for line in again.read_text().splitlines()]
    args = ("run", "-p", "Once", "--max-tokens", 3, "--seed", 1, "--json")
    tokens = [json.loads(run_mortise(*args, *more).stdout)["tokens"] for more in ((), ("--record", tmp_path / "log"))]
    assert tokens[0] == tokens[1] and "logprob" not in tokens[1][0]


def test_the_first_difference_is_named_with_its_bits(recorded, mortise):
    log, lines = recorded
    entry = next(i for i, e in enumerate(lines) if i > 0 and e["sampling"]["n"] == 3)
    choice = lines[entry]["choices"][1]
    old = choice["token_logprobs"][4]
    changed = struct.unpack("<f", struct.pack("<I", bits(old) + 1))[0]
    choice["token_logprobs"][4] = changed
    write(log, lines)
    process = mortise("replay", log)
    assert process.returncode == 1
    position = len(lines[entry]["prompt"]) + 4
    assert process.stdout.splitlines()[0].startswith(
        f"{log}: line {entry + 1}: request {lines[entry]['request']}, choice 1, position {position}, generated token 5 "
        f"({choice['tokens'][4]}): log probability ")
    assert f"(0x{bits(changed):08x}) recorded" in process.stdout and f"(0x{bits(old):08x}) replayed" in process.stdout
    assert process.stdout.endswith(SUMMARY.format(9, 1, *counts(lines[1:])[1:], 1))


def test_a_token_that_differs_ends_the_comparison_of_its_choice(recorded, mortise):
    log, lines = recorded
    entry = next(i for i, e in enumerate(lines) if i > 0 and e["sampling"]["temperature"] == 0 and
                 e["sampling"]["max_tokens"] == 12)
    tokens = lines[entry]["choices"][0]["tokens"]
    tokens[2] += 1
    write(log, lines)
    process = mortise("replay", log)
    assert process.returncode == 1
    first = process.stdout.splitlines()[0]
    assert f"position {len(lines[entry]['prompt']) + 2}, generated token 3: token {tokens[2]}, log probability" in first
    assert f"recorded; token {tokens[2] - 1}, log probability" in first
    assert process.stdout.endswith("differences        1\n")
    assert f"tokens             {counts(lines[1:])[1] - len(tokens) + 3} compared\n" in process.stdout


def test_scores_alternatives_and_ends_are_compared_too(recorded, mortise):
    log, lines = recorded
    echo = next(e for e in lines[1:] if e.get("logprobs") == 3)
    echo["choices"][0]["prompt_logprobs"][0] -= 0.5
    echo["choices"][0]["top_logprobs"][0][1][0] += 1
    greedy = next(e for e in lines[1:] if e["sampling"]["temperature"] == 0 and e["sampling"]["max_tokens"] == 12)
    greedy["choices"][0]["finish_reason"] = "stop"
    for name in ("tokens", "token_logprobs"):
        greedy["choices"][0][name].pop()
    write(log, lines)
    process = mortise("replay", log)
    assert process.returncode == 1
    assert process.stdout.endswith("differences        3\n")
    assert "position 1, prompt token " in process.stdout
    assert "the end: 'stop' after 11 tokens recorded, 'length' after 12 tokens replayed" in process.stdout


def test_another_fingerprint_is_named_and_compared(recorded, mortise):
    log, lines = recorded
    lines[0]["system_fingerprint"] = "mortise-0123456789abcdef"
    lines[0]["numerics_id"] = re.sub("attention [^;]*", "attention toy/1", lines[0]["numerics_id"])
    write(log, lines)
    process = mortise("replay", log)
    assert process.returncode == 0
    assert re.search(r"mortise: replay: pipeline 'demo' was recorded as mortise-0123456789abcdef, this is mortise-\w+: "
                     r"'attention toy/1' is now 'attention [^']+'\n", process.stderr), process.stderr


def test_another_model_with_the_same_tokens_shows_its_differences(recorded, mortise, pipeline):
    log, _ = recorded
    process = mortise("replay", log, pipeline(path="DEMO-draft"))
    assert process.returncode == 1
    assert "is now 'weights" in process.stderr
    assert re.search(r"9 compared, [1-9] with differences", process.stdout)


def test_another_vocabulary_is_an_error(recorded, mortise):
    log, lines = recorded
    lines[0]["vocabulary"] = "0" * 16
    write(log, lines)
    process = mortise("replay", log)
    assert process.returncode == 1 and process.stdout == ""
    assert f"mortise: {log}: line 1: pipeline 'demo' was recorded with a vocabulary of" in process.stderr


@pytest.mark.parametrize("line, message", [
    ("{cut", "column 2: not JSON"),
    ("7", "request: expected a JSON object, got 7"),
    ("[" * 1000, "column 101: JSON is nested deeper than 100 levels"),
    ({"request": -1}, "request: expected an integer from 0 to 2^64 - 1, got -1"),
    ({"pipeline": "other"}, "no header before it names pipeline 'other'"),
    ({"pipeline": 5}, "pipeline: expected a string, got 5"),
    ({"prompt": "text"}, 'prompt: expected a list of token ids, got "text"'),
    ({"prompt": []}, "cannot run here: the prompt is empty"),
    ({"prompt": [99999999]}, "cannot run here: the prompt has token id 99999999"),
    ({"prompt": [1] * 5000}, "cannot run here: prompt of 5000 tokens"),
    ({"sampling": []}, "sampling: expected a JSON object, got []"),
    ({"sampling": {}}, "sampling: seed is missing; a request cannot be repeated without it"),
    ({"sampling": {"seed": 1, "temperature": "hot"}}, "temperature: expected a number"),
    ({"sampling": {"seed": 1, "n": 2}}, "choices has 1 entries for n = 2; it must have one for each"),
    ({"choices": {}}, "choices: expected a list, got {}"),
    ({"choices": [{"finish_reason": "bored"}]}, "finish_reason is 'bored'; it must be stop, length, abort or error"),
    ({"choices": [{"finish_reason": "stop", "tokens": [1], "token_logprobs": []}]},
     "token_logprobs has 0 values for 1 tokens; it must have one for each"),
    ({"choices": [{"finish_reason": "stop", "tokens": [1], "token_logprobs": [1e200]}]},
     'token_logprobs: expected 32-bit floats, or their bits as "0xff800000", got 1e+200'),
    ({"choices": [{"finish_reason": "stop", "tokens": [1], "token_logprobs": ["0xnothing!"]}]},
     "token_logprobs: expected 32-bit floats"),
    ({"choices": [{"finish_reason": "stop", "tokens": [1], "token_logprobs": [0], "top_logprobs": [[5]]}]},
     "top_logprobs: expected lists of [token id, log probability], got 5"),
    ({"choices": [{"finish_reason": "stop", "tokens": [], "token_logprobs": [], "prompt_logprobs": [0]}]},
     "prompt_logprobs has 1 values, which do not fit a prompt of 5 tokens and its score_from"),
    ({"mortise_log": 1, "pipeline": 7}, None),
])
def test_a_hostile_line_is_told_with_its_number(recorded, mortise, line, message):
    log, lines = recorded
    good = next(e for e in lines[1:] if e["sampling"]["temperature"] == 0 and e["sampling"]["max_tokens"] == 12)
    if isinstance(line, dict):
        line = json.dumps({**good, **line})
    write(log, [lines[0], good, line, good])
    process = mortise("replay", log)
    assert process.returncode == 1
    if message is None:  # a header: without it nothing after it can be run
        assert process.stderr.endswith(f"mortise: {log}: line 3: pipeline: expected a string, got 7\n")
        return
    assert message in process.stdout and f"{log}: line 3: " in process.stdout
    assert "requests           2 compared, 0 with differences\n" in process.stdout
    assert process.stdout.endswith("errors             1 line\n")


@pytest.mark.parametrize("content, message", [
    ("", "is empty; a request log begins with a header"),
    ("{}\n", "is not a request log, as --record writes it: line 1 is not a header"),
    ('{"mortise_log": 2}\n', "line 1: mortise_log is 2; this program reads version 1"),
    ('{"mortise_log": 1}\n', "line 1: pipeline is missing"),
])
def test_what_is_no_log_is_an_error(tmp_path, mortise, content, message):
    (tmp_path / "log").write_text(content)
    process = mortise("replay", tmp_path / "log")
    assert process.returncode == 1
    assert process.stderr.endswith(f"mortise: {tmp_path}/log: {message}\n")


def test_a_cut_last_line_is_tolerated_and_counted(recorded, mortise):
    log, lines = recorded
    log.write_bytes(log.read_bytes()[:-20])
    process = mortise("replay", log)
    assert process.returncode == 0, process.stdout
    assert "requests           8 compared, 0 with differences\n" in process.stdout
    assert process.stdout.endswith("cut off            the last line\n")


def test_a_log_is_continued_and_what_is_no_log_left_alone(recorded, jsonl, mortise, tmp_path):
    log, lines = recorded
    log.write_bytes(log.read_bytes() + b'{"request": 9, "pipe')  # as a killed run leaves it
    mortise("run", "-p", "Hello", "--max-tokens", 2, "--record", log)
    more = [json.loads(line) for line in log.read_text().splitlines()]
    assert more[:len(lines)] == lines and len(more) == len(lines) + 2
    assert mortise("replay", log).returncode == 0
    notes = tmp_path / "notes"
    notes.write_text("mine")
    process = mortise("run", "-p", "Hello", "--max-tokens", 2, "--record", notes)
    assert process.returncode == 1
    assert process.stderr == f"mortise: {notes}: is not a request log; give --record a new file, or a log to continue\n"
    assert notes.read_text() == "mine"


def test_run_score_and_the_dialogue_are_recorded(tmp_path, jsonl, mortise):
    log = tmp_path / "log"
    mortise("run", "-p", "Hello", "--max-tokens", 2, "--record", log)
    jsonl("score", [{"prompt": "a", "completions": ["b", "c"]}], "--record", log)
    mortise("run", "--max-tokens", 2, "--record", log, stdin="one\ntwo\n")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert ["mortise_log" in line for line in lines] == [True, False, True, False, False, True, False, False]
    process = mortise("replay", log)
    assert process.returncode == 0 and "requests           5 compared" in process.stdout


def test_named_pipelines_are_recorded_and_replayed_by_name(tmp_path, jsonl, script, mortise):
    part = ("pipeline { device = cpu {}, model = llama { path = 'DEMO%s' }, attention = paged {}, "
            "scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    path = script(f"return {{ large = {part % ''}, small = {part % '-draft'} }}")
    log = tmp_path / "log"
    jsonl("batch", [{"custom_id": name, "url": "/v1/completions", "body": {"model": name, "prompt": "Once"}}
                    for name in ("large", "small", "large")], path, "--record", log)
    process = mortise("replay", log, path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "requests           3 compared" in process.stdout and process.stderr.count("recorded as") == 0
    named_otherwise = script(f"return {{ a = {part % ''}, b = {part % ''} }}", "other.lua")
    process = mortise("replay", log, named_otherwise)
    assert process.returncode == 1
    assert re.search("line 1: model \"(large|small)\" is not one of the script's pipelines: a, b", process.stderr)


def test_kill_9_leaves_a_log_that_replays(tmp_path, pipeline, mortise):
    source, log = tmp_path / "in.jsonl", tmp_path / "log"
    source.write_text("".join(json.dumps({"custom_id": str(i), "url": "/v1/completions",
                                          "body": {"prompt": "Once", "max_tokens": 60, "ignore_eos": True}}) + "\n"
                              for i in range(60)))
    with subprocess.Popen([MORTISE, "batch", pipeline(scheduler="max_num_seqs = 2"), "-i", source, "-o",
                           tmp_path / "out", "--record", log], stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 10):
            time.sleep(0.005)
        process.kill()
    result = mortise("replay", log)
    assert result.returncode == 0, result.stdout
    assert int(re.search(r"(\d+) compared", result.stdout)[1]) >= 9


def test_aborted_requests_are_compared_as_far_as_they_got(tmp_path, mortise, pipeline):
    log = tmp_path / "log"
    with subprocess.Popen([MORTISE, "run", pipeline(), "-p", "Once", "--max-tokens", "400", "--ignore-eos", "--record",
                           log], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    header, entry = [json.loads(line) for line in log.read_text().splitlines()]
    assert entry["choices"][0]["finish_reason"] == "abort" and 0 < len(entry["choices"][0]["tokens"]) < 400
    result = mortise("replay", log)
    assert result.returncode == 0, result.stdout
    assert f"tokens             {len(entry['choices'][0]['tokens'])} compared" in result.stdout


def test_a_log_that_cannot_be_written_is_an_error(tmp_path, mortise):
    process = mortise("run", "-p", "Hello", "--max-tokens", 1, "--record", tmp_path / "none/log")
    assert process.returncode == 1
    assert "none/log: cannot be written: No such file or directory" in process.stderr
    process = mortise("run", "-p", "Hello", "--max-tokens", 1, "--record", "/dev/full")
    assert process.returncode == 1
    assert process.stderr.endswith("mortise: /dev/full: cannot be written: No space left on device; the log is "
                                   "incomplete\n")


def test_the_group_of_a_request_is_kept(tmp_path, script):
    path = script("function on_request(r) return { group = r.user } end return pipeline { device = cpu {}, "
                  "model = llama { path = 'DEMO' }, attention = paged {}, scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    bodies = [{"user": "a"}, {"user": "b"}, {"group": "a"}, {}]
    source, log = tmp_path / "in.jsonl", tmp_path / "requests.log"
    source.write_text("".join(json.dumps({"custom_id": "x", "method": "POST", "url": "/v1/completions",
                                          "body": {"prompt": "Once", "max_tokens": 1, **body}}) + "\n" for body in bodies))
    process = run_mortise("batch", path, "-i", source, "-o", tmp_path / "out.jsonl", "--record", log)
    assert process.returncode == 0, process.stderr
    groups = [entry["group"] for entry in sorted(map(json.loads, log.read_text().splitlines()[1:]), key=lambda e: e["request"])]
    assert groups[0] == groups[2] != groups[1] and groups[3] == 0 and 0 not in groups[:3]
