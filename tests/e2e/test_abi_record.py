# Covers: runtime/abi_record/{attention_fields,attention_recorder,attention_replay,call_recorder,call_replay,fields,recorded_instance}
# Covers: runtime/cli/plugin/replay runtime/loader/instance_states
"""--record-abi and mortise plugin replay: the calls of one part, made again without the engine."""
import json
import random

import pytest

from conftest import BUILD, SOURCE, run_mortise

NGRAM = SOURCE / "scripts/ngram.lua"
LINES = [{"custom_id": str(i), "url": "/v1/completions",
          "body": {"prompt": "The cat sat on the mat. The cat sat on", "max_tokens": 24, "temperature": i % 2, "seed": i}}
         for i in range(4)]


def record(path, target, script, source):
    source.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return run_mortise("batch", script, "-i", source, "-o", path.with_suffix(".out"), "--record-abi", target)


FILES = {"paged": "paged-cpu", "cascade": "cascade-cpu"}
# Of each part: a function of its steps, and an output of it.
STEPS = {"ngram": ("propose", "num_drafts"), "fcfs": ("plan", "num_scheduled"), "prefix_group": ("plan", "num_scheduled"),
         "paged": ("run", "out"), "cascade": ("append", "q")}


def replay(path, plugin):
    return run_mortise("plugin", "replay", path, BUILD / f"{FILES.get(plugin, plugin)}.so")


def record_of(part, folder):
    """The record of a part from a batch with the demo model."""
    script = folder / "pipeline.lua"
    text = NGRAM.read_text().replace('script_dir .. "/../models/demo"', f'"{SOURCE}/models/demo"')
    other = {"prefix_group": "fcfs", "cascade": "paged"}.get(part)
    script.write_text(text.replace(f"{other} {{", f"{part} {{") if other else text)
    path = folder / "part.abi"
    process = record(path, path if part == "fcfs" else f"{part}={path}", script, folder / "in.jsonl")
    assert process.returncode == 0, process.stderr
    return path


@pytest.fixture(scope="module", params=["ngram", "fcfs", "prefix_group", "paged", "cascade"])
def recorded(request, tmp_path_factory):
    """(the part's name, its record)."""
    return request.param, record_of(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def paged_record(tmp_path_factory):
    return record_of("paged", tmp_path_factory.mktemp("paged_alone"))


@pytest.fixture(scope="module")
def ngram_record(tmp_path_factory):
    return record_of("ngram", tmp_path_factory.mktemp("ngram_alone"))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(tmp_path, lines):
    path = tmp_path / "changed.abi"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_same_build_gives_the_same_outputs(recorded):
    part, path = recorded
    lines = lines_of(path)
    calls = [line["function"] for line in lines if "call" in line]
    assert calls[0] == "create" and calls[-1] == "destroy"
    assert set(calls) >= {"propose": {"propose", "observe"}, "plan": {"plan", "events"}}.get(STEPS[part][0], {"bind", "plan", "append", "run"})
    process = replay(path, part)
    assert process.stdout == f"{len(calls)} calls: all outputs are equal\n" and process.returncode == 0, process.stderr


def test_the_first_call_that_differs_is_named(recorded, tmp_path):
    part, path = recorded
    lines = lines_of(path)
    function, key = STEPS[part]
    calls = {line["call"]: line["function"] for line in lines if "call" in line}
    results = [line for line in lines if calls.get(line.get("result")) == function]
    changed = results[len(results) // 2]
    value = changed["out"][key]
    if isinstance(value, str):  # the bytes of a tensor
        changed["out"][key] = value[:-1] + "0f"[value[-1] == "0"]
    elif isinstance(value, list):
        value[0] += 1
    else:
        changed["out"][key] += 1
    process = replay(written(tmp_path, lines), part)
    assert process.returncode == 1
    assert process.stdout.startswith(f"call {changed['result']} differs: {function}: /{key}"), process.stdout


def test_other_behaviour_of_the_plugin_is_found(ngram_record, tmp_path):
    part, path = "ngram", ngram_record
    lines = lines_of(path)
    lines[1]["in"]["options"].update(min_match=16, max_match=16)
    process = replay(written(tmp_path, lines), part)
    assert process.returncode == 1 and " differs: propose: /" in process.stdout


def test_a_record_may_end_in_the_call_that_ended_the_program(recorded, tmp_path):
    part, path = recorded
    process = replay(written(tmp_path, lines_of(path)[:-1]), part)
    assert process.returncode == 0 and "The recorded program ended in the last call, which returned here." in process.stdout


def test_damaged_records_are_refused(recorded, tmp_path):
    part, path = recorded
    data, cut = path.read_bytes(), tmp_path / "cut.abi"
    cut.write_bytes(data[:-5])
    process = replay(cut, part)
    assert process.returncode == 1 and "the last line is incomplete; copy the whole record" in process.stderr
    rng = random.Random(7)
    for _ in range(8):
        at = rng.randrange(len(data) - 1)
        cut.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1:])  # no UTF-8
        process = replay(cut, part)
        assert process.returncode == 1 and "not JSON" in process.stderr, (at, process.stderr)


def test_a_record_of_a_scheduler_has_a_list_of_tokens_for_each_event(tmp_path):
    lines = lines_of(record_of("fcfs", tmp_path))
    next(line for line in lines if line.get("function") == "events")["in"]["tokens"] = []
    process = replay(written(tmp_path, lines), "fcfs")
    assert process.returncode == 1 and "'tokens' is not a list of " in process.stderr


@pytest.mark.parametrize("change, text", [
    (lambda l: [{**l[0], "mortise_abi_record": 2}], "another version of Mortise wrote this record"),
    (lambda l: [{**l[0], "name": "other"}], "but {file} has no such component"),
    (lambda l: [], "the record is empty"),
    (lambda l: [l[0], []], "the line is not a JSON object"),
    (lambda l: [{**l[0], "kind": 5}], "'kind' is not a text"),
    (lambda l: [l[0]] + l[3:], "call 1 is missing"),
    (lambda l: [l[0], {**l[3], "call": 1}], "comes before 'create'"),
    (lambda l: l[:3] + [{**l[1], "call": 2}], "'create' comes twice"),
    (lambda l: l[:3] + [{"call": 2, "function": "observe", "in": {}}], "'num_seqs' is missing"),
    (lambda l: l[:3] + [{"call": 2, "function": "nonsense", "in": {}}], "a proposer has no function 'nonsense'"),
    (lambda l: l[:2] + [{**l[2], "result": 9}], "the result of call 1 is missing"),
    (lambda l: broken(l, "observe", num_seqs=-1), "'num_seqs' is -1"),
    (lambda l: broken(l, "observe", num_seqs=1 << 40), "'num_seqs' is not an integer in its range"),
    (lambda l: broken(l, "observe", token_offsets=[0]), "'token_offsets' is not a list of"),
    (lambda l: broken(l, "observe", token_offsets=None), "'token_offsets' is missing"),
    (lambda l: broken(l, "propose", draft_stride=1 << 30), "'draft_stride' is 1073741824"),
    (lambda l: broken(l, "propose", draft_stride=1 << 24), "'draft_stride' is 16777216 for"),
])
def test_wrong_records_are_refused(ngram_record, tmp_path, change, text):
    part, path = "ngram", ngram_record
    process = replay(written(tmp_path, change(lines_of(path))), part)
    assert process.returncode == 1 and "changed.abi:" in process.stderr
    assert text.format(file=BUILD / "ngram.so") in process.stderr, process.stderr


@pytest.mark.parametrize("function, fields, text", [
    ("append", {"q": "00"}, "'q' is not a text of"),
    ("append", {"q": 5}, "'q' is not a text of"),
    ("append", {"dtype": 9}, "'dtype' is 9"),
    ("append", {"q_norm": {"dtype": 9, "data": ""}}, "'dtype' is 9"),
    ("append", {"rope": {"rotary_dim": 1 << 20, "interleaved": 0, "cos": "", "sin": ""}}, "'rotary_dim' is 1048576"),
    ("plan", {"num_seqs": -2}, "'seq_ids' is not a list of -2 numbers"),
    ("plan", {"num_groups": 1, "group_offsets": None, "group_shared_tokens": [1], "group_parents": [0]}, "'group_offsets' is missing"),
    ("bind", {"num_blocks": 0}, "'num_blocks' is 0"),
])
def test_wrong_records_of_an_attention_are_refused(paged_record, tmp_path, function, fields, text):
    lines = lines_of(paged_record)
    call = next(line for line in lines if line.get("function") == function)
    call["in"].update(fields)
    process = replay(written(tmp_path, lines), "paged")
    assert process.returncode == 1 and text in process.stderr, process.stderr


@pytest.mark.parametrize("change, text", [
    (lambda l: [line for line in l if line.get("function") != "kv_layout"], "comes before 'kv_layout'"),
    (lambda l: l[:9] + l[5:7], "'bind' comes twice"),
    (lambda l: [line for line in l if line.get("function") != "plan"], "a step comes before 'plan'"),
    (lambda l: [line for line in l if line.get("function") != "activate"], "a step comes before 'activate'"),
    (lambda l: l[:9] + l[7:9], "'activate' comes twice"),
    (lambda l: l[:9] + [{"call": 1, "function": "nonsense", "in": {}}], "an attention has no function 'nonsense'"),
])
def test_calls_of_an_attention_come_in_order(paged_record, tmp_path, change, text):
    lines, number = [], 0
    by_call = {line["result"]: line for line in lines_of(paged_record) if "result" in line}
    for line in change([line for line in lines_of(paged_record)]):
        if "call" in line:  # with its result, numbered anew
            number += 1
            lines += [{**line, "call": number}, {**by_call[line["call"]], "result": number}]
        elif "mortise_abi_record" in line:
            lines.append(line)
    process = replay(written(tmp_path, lines), "paged")
    assert process.returncode == 1 and text in process.stderr, process.stderr


def broken(lines, function, **fields):
    """The record with other fields in the call of the function that has the most sequences."""
    call = max((line for line in lines if line.get("function") == function), key=lambda line: line["in"]["num_seqs"])
    call["in"].update(fields)
    return lines


@pytest.mark.parametrize("target, script, text", [
    ("cpu=", NGRAM, "it is of kind device, whose calls use weights"),
    ("llama=", NGRAM, "it is of kind model, whose calls use weights; only schedulers, proposers and attentions can be recorded"),
    ("mlp_speculator=", SOURCE / "scripts/mlp_speculator.lua", "it reads hidden rows in device memory, which cannot be recorded"),
    ("draft_model=", SOURCE / "scripts/demo.lua", "whose results --record-abi cannot record; record another part"),
    ("nowhere/", NGRAM, "cannot be written; check the path and its permissions"),
])
def test_parts_that_cannot_be_recorded_are_refused_by_name(tmp_path, target, script, text):
    process = record(tmp_path / "x.abi", f"{target}{tmp_path}/x.abi" if "=" in target else tmp_path / target / "x", script,
                     tmp_path / "in.jsonl")
    assert process.returncode == 1
    assert text in process.stderr, process.stderr


def test_a_missing_record_is_told(tmp_path):
    process = replay(tmp_path / "none.abi", "ngram")
    assert process.returncode == 1 and "is not a record that can be read; check the path" in process.stderr
