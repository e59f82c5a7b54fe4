# Covers: runtime/abi_check/checked_component
"""MORTISE_ABI_CHECK=1 and checked = true: correct pipelines give the same tokens, and a part that breaks a rule is named."""
import json
import re
import time

import pytest
from conftest import BUILD, SOURCE
from live_server import LiveServer
from test_swap import BODIES, Streams, script_file, streamed

SCRIPTS = sorted((SOURCE / "scripts").glob("*.lua"))
BROKEN = BUILD / "tests/unit/conformance/broken"
DEMO = SOURCE / "models/demo"
CHECK = {"MORTISE_ABI_CHECK": "1"}


def lines(count=12, max_tokens=24, ids=False):
    """Long and short prompts, shared prefixes, sampling, several choices."""
    for i in range(count):
        text = "The cat sat on the mat. " * (1 + 9 * (i % 3)) + f"The cat number {i // 2} sat on"
        yield {"custom_id": str(i), "method": "POST", "url": "/v1/completions",
               "body": {"prompt": [5 + i, 17, 29, 5 + i] if ids else text, "max_tokens": max_tokens, "temperature": 0.7 * (i % 2), "seed": i,
                        "n": 1 + i % 4 // 3, "logprobs": 2, "ignore_eos": i % 3 == 0}}


def batch(mortise, tmp_path, script, env=None, **form):
    """(the process, the choices by request)."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines(**form)))
    target.unlink(missing_ok=True)
    process = mortise("batch", script, "-i", source, "-o", target, env={"MORTISE_PLUGIN_PATH": str(BROKEN), **(env or {})})
    answers = [json.loads(line) for line in target.read_text().splitlines()] if target.exists() else []
    return process, {answer["custom_id"]: (answer["response"] or {}).get("body", {}).get("choices") for answer in answers}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_correct_pipeline_gives_the_same_tokens(mortise, tmp_path, script):
    _, expected = batch(mortise, tmp_path, script)
    process, found = batch(mortise, tmp_path, script, env=CHECK)
    assert process.returncode == 0 and process.stderr.count("breaks") == 0, process.stderr
    assert found == expected and len(found) == 12 and None not in found.values()


FORMS = {
    "small": "scheduler = fcfs { max_num_seqs = 3, max_batched_tokens = 24 }, kv_cache = { memory = '1MiB' }, proposer = ngram {}",
    "prefix_group": "scheduler = prefix_group { max_num_seqs = 6 }, kv_cache = { memory = '2MiB' }, attention = cascade {}",
    "int8": "kv_cache = { memory = '64MiB', dtype = 'int8' }",
    "rejection": "speculation = { verify = 'rejection' }, proposer = draft_model { path = DRAFT, max_tokens = 3 }",
    "tree": "speculation = { lengths = 'fixed' }, proposer = draft_model { path = DRAFT, max_tokens = 3, branches = 3 }",
    "expansion": "speculation = { batch_expansion = true }, proposer = first_of { ngram {}, draft_model { path = DRAFT } }",
}


def pipeline(tmp_path, **parts):
    """A script with the demo model, and these parts."""
    all_parts = {"device": "cpu {}", "model": f"llama {{ path = '{SOURCE}/models/demo' }}", "attention": "paged {}", "scheduler": "fcfs {}",
                 "kv_cache": "{ memory = '64MiB' }", **parts}
    path = tmp_path / "pipeline.lua"
    path.write_text("return pipeline { " + ", ".join(f"{key} = {value}" for key, value in all_parts.items()) + " }\n")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_a_correct_pipeline_of_another_form_gives_the_same_tokens(mortise, tmp_path, form):
    text = FORMS[form].replace("DRAFT", f"'{SOURCE}/models/demo-draft'")
    parts = dict(re.findall(r"(\w+) = ((?:\w+ )?\{(?:[^{}]|\{[^{}]*\})*\})", text))
    _, expected = batch(mortise, tmp_path, pipeline(tmp_path, **parts))
    process, found = batch(mortise, tmp_path, pipeline(tmp_path, **parts, checked="true"))
    assert process.returncode == 0 and process.stderr.count("breaks") == 0, process.stderr
    assert found == expected and None not in found.values()


def broken(kind, defect):
    plugin = f"broken_{kind}"  # the file of attentions has two
    return {"model": f"{plugin} {{ defect = '{defect}', path = '{DEMO}' }}"} if kind == "model" else {
        kind: f"{plugin} {{ defect = '{defect}' }}", "model": f"llama {{ path = '{DEMO}' }}"}


# The host can do without these two kinds, so all requests are answered.
@pytest.mark.parametrize("kind, defect, text", [
    ("scheduler", "changes_view", "plan: breaks mortise/abi.h, \"Data behind `const` is read-only\": plan changes states"),
    ("scheduler", "changes_pointers", "plan: breaks mortise/scheduler.h, \"The host allocates the arrays\""),
    ("scheduler", "alternates", "plan: breaks mortise/scheduler.h, \"called twice with the same view, it gives the same plan\""),
    ("scheduler", "throws", "plan: breaks mortise/abi.h, \"No exception may leave a plugin\""),
    ("scheduler", "fails_silently", "plan: breaks mortise/abi.h, \"writes the detail into `error`\""),
    ("scheduler", "leaks_host_memory", "destroy: breaks mortise/abi.h, \"The side that allocates memory frees it\""),
    ("proposer", "writes_past_output", "propose: breaks mortise/abi.h, \"The caller provides the memory for results\""),
    ("proposer", "leaks_state", "observe: breaks mortise/ext/sequences.h, \"told that every sequence has ended, the number must be 0\""),
    ("proposer", "throws", "propose: breaks mortise/abi.h, \"No exception may leave a plugin\""),
    ("proposer", "one_too_many", "drafts, but at most "),  # the engine's own check
])
def test_a_part_that_breaks_a_rule_is_named(mortise, tmp_path, kind, defect, text):
    process, found = batch(mortise, tmp_path, pipeline(tmp_path, **broken(kind, defect), checked="true"), ids=True)
    assert process.returncode == 0 and None not in found.values(), process.stderr
    assert text in process.stderr and f"{kind} 'broken_{kind}'" in process.stderr, process.stderr


# Nothing goes on without one of these.
@pytest.mark.parametrize("kind, defect, text", [
    ("attention", "throws", "plan: breaks mortise/abi.h, \"No exception may leave a plugin\""),
    ("attention", "allocates_in_step", "breaks mortise/plugin.h, \"activate (all allocation and tuning)\": the device's allocate is called in a step"),
    ("attention", "changes_v", "attention 'broken_attention' (broken_attention.so) breaks mortise/abi.h, \"Data behind `const` is read-only\": append changes v"),
    ("model", "throws", "forward: breaks mortise/abi.h, \"No exception may leave a plugin\""),
    ("model", "allocates_in_step", "breaks mortise/plugin.h, \"activate (all allocation and tuning)\": the device's allocate is called in a step"),
    ("model", "changes_hidden", "head: breaks mortise/abi.h, \"Data behind `const` is read-only\": head changes the numbers of hidden"),
])
def test_a_part_that_the_pipeline_needs_ends_it(mortise, tmp_path, kind, defect, text):
    process, _ = batch(mortise, tmp_path, pipeline(tmp_path, **broken(kind, defect)), env=CHECK, ids=True)
    assert process.returncode != 0
    assert text in process.stderr and f"broken_{kind}" in process.stderr, process.stderr


def test_a_part_that_is_swapped_in_is_checked(mortise, tmp_path):
    script = pipeline(tmp_path, checked="true")
    change = f"/swap scheduler {BROKEN}/broken_scheduler.so {{defect = \"changes_view\"}}\nOnce upon a time\n"
    process = mortise("run", script, stdin=change)
    assert "plan changes states" in process.stderr + process.stdout, process.stdout + process.stderr


SWAPS = [
    {"part": "proposer", "plugin": "draft_model", "options": {"path": str(SOURCE / "models/demo-draft")}},
    {"part": "attention", "plugin": "cascade", "options": {"block_size": 16}, "verify_steps": 20},
    {"part": "scheduler", "plugin": "prefix_group", "options": {"max_num_seqs": 16, "max_batched_tokens": 256}, "verify_steps": 20},
    {"part": "model", "plugin": "REBUILT", "options": {}, "verify_steps": 20},
    {"part": "proposer", "plugin": "ngram", "options": {}, "verify_steps": 20},
    {"part": "attention", "plugin": "paged", "options": {"block_size": 32}},
    {"part": "scheduler", "plugin": "fcfs", "options": {"max_num_seqs": 3, "max_batched_tokens": 32}},
    {"part": "kv_cache", "options": {"memory": "8MiB"}},
    {"part": "device", "plugin": "cpu", "options": {"threads": 2}},
]


def test_swaps_under_streams_break_no_rule(tmp_path):
    log, rebuilt = tmp_path / "log", tmp_path / "again.so"
    rebuilt.write_bytes((BUILD / "llama.so").read_bytes() + b"another build")
    with log.open("w+") as file:
        server = LiveServer(script_file(tmp_path), env=CHECK, log=file)
        expected = [streamed(server, body) for body in BODIES]
        with Streams(server, expected) as streams:
            for change in SWAPS:
                change = {key: str(rebuilt) if value == "REBUILT" else value for key, value in change.items()}
                status, _, text = server.ask("POST", "/admin/swap", change)
                assert status == 200, (change, text)
                seen = streams.num_answers
                while streams.num_answers == seen and not streams.wrong:  # steps run with these parts before the next come
                    time.sleep(0.01)
        code, _ = server.end()
    assert not streams.wrong and code == 0
    assert "breaks" not in log.read_text() and "failed" not in log.read_text()


def test_without_the_check_nobody_looks(mortise, tmp_path):
    process, _ = batch(mortise, tmp_path, pipeline(tmp_path, **broken("scheduler", "alternates")), ids=True)
    assert process.returncode == 0 and "breaks" not in process.stderr


def test_checked_is_true_or_false(mortise, tmp_path):
    process = mortise("check", pipeline(tmp_path, checked="1"))
    assert process.returncode == 1 and "pipeline.lua:1: checked of pipeline is a number; expected true or false" in process.stderr


def test_the_variable_is_1_or_0(mortise, tmp_path):
    process = mortise("run", pipeline(tmp_path), "-p", "x", "--max-tokens", 1, env={"MORTISE_ABI_CHECK": "yes"})
    assert process.returncode == 1
    assert "MORTISE_ABI_CHECK='yes': expected 1, which checks every call of a plugin, or 0" in process.stderr


def header_words():
    """The text of each header of the plugin API, without the frames of its comments, in one line."""
    folder = SOURCE / "plugin_api/include"
    for path in folder.rglob("*.h"):
        text = re.sub(r"\n\s*\*", " ", path.read_text()).replace("/*", " ").replace("*/", " ")
        yield str(path.relative_to(folder)), " ".join(text.split())


def quoted_rules():
    """(header, words) of each rule in runtime/abi_check; a header may be a constant of the file."""
    for path in sorted((SOURCE / "runtime/abi_check").glob("*.?pp")):
        text = path.read_text()
        constants = dict(re.findall(r'constexpr const char\* (\w+) = "([^"]*)"', text))
        value = lambda word: word[1:-1] if word.startswith('"') else constants.get(word, "")
        for header, words in re.findall(r'("mortise/[\w/]+\.h"|\bk\w+),\s*("(?:[^"\\]|\\.)*"|k\w+)', re.sub(r'"\s*\n\s*"', "", text)):
            if value(header).startswith("mortise/") and value(words):
                yield value(header), value(words).replace('\\"', '"')


def test_each_rule_that_is_quoted_stands_in_its_header():
    headers, rules = dict(header_words()), list(quoted_rules())
    assert len(rules) > 150
    assert [rule for rule in rules if rule[1] not in headers[rule[0]]] == []
