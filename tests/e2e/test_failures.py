"""What a plugin's failure costs (abi.h): requests of no other step, and one message with the plugin, the function and the code."""
# Covers: runtime/loader/{call_watchdog,process_end}
import json
import re
import subprocess

import pytest
from conftest import BUILD, MORTISE, SOURCE

PLUGINS = BUILD / "tests/e2e/plugins"
PIPELINE = """return pipeline { device = cpu {}, model = llama { path = '%s' }, attention = %s, scheduler = %s,
  kv_cache = { memory = '64MiB' }, speculation = { lengths = 'fixed' }, proposer = %s }"""


@pytest.fixture(autouse=True)
def rogues(monkeypatch):
    monkeypatch.setenv("MORTISE_PLUGIN_PATH", str(PLUGINS))


@pytest.fixture
def parts(script):
    """parts(scheduler="rogue {}") -> path of a script."""
    def write(attention="paged {}", scheduler="fcfs {}", proposer="nil", model=SOURCE / "models/demo"):
        return script(PIPELINE % (model, attention, scheduler, proposer))
    return write


def requests(count=40, **body):
    return [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
             "body": {"prompt": [5 + i, 17, 29, 5 + i], "max_tokens": 12 + i % 13, "temperature": 0.8, "seed": i, "ignore_eos": True,
                      "logprobs": 1, **body}} for i in range(count)]


def choices(answers):
    return [answer["response"]["body"].get("choices") for answer in answers]


@pytest.fixture
def expected(jsonl, parts, tmp_path):
    """The choices of requests() without a rogue."""
    process, answers = jsonl("batch", requests(), parts())
    assert process.returncode == 0, process.stderr
    (tmp_path / "out.jsonl").unlink()  # or the next batch finds every line done
    return choices(answers)


THROWN = "an exception crossed the C ABI: what a rogue says"
WITHOUT = {"scheduler": "it will not be called again; all steps run first come, first served",
           "proposer": "it will not be called again; requests continue without its drafts"}


@pytest.mark.parametrize("kind, function", [("scheduler", "plan"), ("scheduler", "events"), ("proposer", "propose"),
                                            ("proposer", "observe")])
@pytest.mark.parametrize("does, text", [("throw", THROWN), ("internal", "what a rogue says")])
def test_a_part_that_fails_is_dropped_and_no_request_is_lost(jsonl, parts, expected, tmp_path, kind, function, does, text):
    name = {"scheduler": "rogue", "proposer": "rogue_proposer"}[kind]
    calls = tmp_path / "calls"
    rogue = f"{name} {{ ['in'] = '{function}', does = '{does}', after = {1 if function == 'events' else 3}, calls = '{calls}' }}"
    process, answers = jsonl("batch", requests(), parts(**{kind: rogue}))
    assert process.returncode == 0, process.stderr
    assert choices(answers) == expected
    assert f"{kind} '{name}': {function}: {text} (INTERNAL); {WITHOUT[kind]}\n" in process.stderr
    assert process.stderr.count(f"'{name}'") == 1, process.stderr
    assert not calls.exists(), calls.read_text()  # not even destroy


@pytest.mark.parametrize("kind, function, consequence", [
    ("scheduler", "events", "it will not be told of these sequences or ends again"),
    ("scheduler", "plan", "the step runs first come, first served"),
    ("proposer", "propose", "the step continues without its drafts"),
    ("proposer", "observe", "the step continues without its drafts"),
])
def test_a_failure_that_comes_again_is_logged_once_and_counted(jsonl, parts, expected, kind, function, consequence):
    name = {"scheduler": "rogue", "proposer": "rogue_proposer"}[kind]
    process, answers = jsonl("batch", requests(), parts(**{kind: f"{name} {{ ['in'] = '{function}', does = 'unavailable' }}"}))
    assert process.returncode == 0, process.stderr
    assert choices(answers) == expected
    begin = f"warning: {kind} '{name}': {function}: "
    lines = [line.split(begin)[1] for line in process.stderr.splitlines() if begin in line]
    assert lines[0] == f"what a rogue says (UNAVAILABLE); {consequence}"
    assert len(lines) == 2 and re.fullmatch(r"\d+ more times \(UNAVAILABLE\)", lines[1]), process.stderr


def test_a_request_that_names_a_dropped_proposer_goes_on_without(jsonl, parts, expected):
    rogue = "rogue_proposer { ['in'] = 'propose' }"
    process, answers = jsonl("batch", requests(speculation={"proposer": "rogue_proposer"}), parts(proposer=rogue))
    assert process.returncode == 0, process.stderr
    assert choices(answers) == expected


def test_wild_pointers_in_a_plan_are_not_followed(jsonl, parts, expected):
    process, answers = jsonl("batch", requests(), parts(scheduler="wild {}"))
    assert process.returncode == 0 and "wild" not in process.stderr  # the plans themselves are good
    assert choices(answers) == expected


@pytest.mark.parametrize("does, code, text", [
    ("exhausted", "RESOURCE_EXHAUSTED", "lower max_batched_tokens or max_num_seqs of the scheduler, or kv_cache.memory"),
    ("unavailable", "UNAVAILABLE", "what a rogue says"),
])
def test_a_step_that_fails_costs_its_own_requests_alone(jsonl, parts, expected, does, code, text):
    rogue = f"rogue_attention {{ ['in'] = 'plan', does = '{does}', after = 40, times = 1 }}"
    process, answers = jsonl("batch", requests(), parts(attention=rogue, scheduler="fcfs { max_num_seqs = 4 }"))
    assert process.returncode == 1
    failed = [i for i, answer in enumerate(answers) if answer["response"]["status_code"] != 200]
    assert 1 <= len(failed) <= 4
    for i, answer in enumerate(answers):
        if i in failed:
            assert text in json.dumps(answer["response"]["body"]["error"])
        else:
            assert choices([answer]) == [expected[i]]
    assert f"attention 'rogue_attention': plan: what a rogue says ({code}); the requests of the step fail" in process.stderr


@pytest.mark.parametrize("does, text", [("throw", THROWN), ("internal", "what a rogue says")])
def test_without_an_attention_the_run_ends_and_can_go_on(jsonl, parts, expected, tmp_path, does, text):
    calls = tmp_path / "calls"
    rogue = f"rogue_attention {{ ['in'] = 'plan', does = '{does}', after = 40, calls = '{calls}' }}"
    process, answers = jsonl("batch", requests(), parts(attention=rogue, scheduler="fcfs { max_num_seqs = 4 }"))
    assert process.returncode == 3
    assert 1 <= len(answers) < 40 and choices(answers) == expected[: len(answers)]  # no line says that it failed
    reason = f"attention 'rogue_attention': plan: {text} (INTERNAL)"
    end = f"cannot continue: {reason} ({len(answers)} lines are done; run the same command again to continue)"
    assert end in process.stderr and process.stderr.count(reason) <= 2, process.stderr  # the log and the end
    assert not calls.exists(), calls.read_text()
    assert "sequences," not in process.stderr  # what destroy would say
    process, answers = jsonl("batch", requests(), parts(attention="rogue_attention { ['in'] = 'plan', after = 1000000 }"))
    assert process.returncode == 0 and choices(answers) == expected


@pytest.mark.parametrize("does", ["exit", "quick_exit", "abort", "terminate", "crash"])
@pytest.mark.parametrize("kind, part, function, file", [
    ("proposer", "rogue_proposer", "propose", "rogue.so"), ("scheduler", "rogue", "create", "rogue.so"),
    ("attention", "rogue_attention", "plan", "rogue_attention.so"),
])
def test_a_plugin_that_ends_the_process_is_named(jsonl, parts, does, kind, part, function, file):
    process, _ = jsonl("batch", requests(3), parts(**{kind: f"{part} {{ ['in'] = '{function}', does = '{does}' }}"}))
    signals = {"abort": (-6, " with SIGABRT"), "terminate": (-6, " with SIGABRT"), "crash": (-11, " with SIGSEGV")}
    code, signal = signals.get(does, (1, ""))
    assert process.returncode == code
    assert f"mortise: {kind} '{part}' ({file}): {function}: the plugin ended the process{signal}\n" in process.stderr


def test_an_entry_function_that_throws_is_an_error_of_its_file(mortise, parts):
    process = mortise("check", parts(scheduler=f"plugin('{PLUGINS / 'rogue_entry.so'}') {{}}"))
    assert process.returncode == 1
    assert "rogue_entry.so: mortise_plugin_entry_v0: an exception crossed the C ABI: nothing is described today (INTERNAL)" in process.stderr


@pytest.mark.parametrize("function", ["create", "bind", "activate"])
def test_an_exception_before_the_first_step_is_one_error(mortise, parts, function):
    process = mortise("run", parts(proposer=f"rogue_proposer {{ ['in'] = '{function}' }}"), "-p", "x")
    assert process.returncode == 1
    assert process.stderr == f"mortise: proposer 'rogue_proposer' (rogue.so): {function}: {THROWN} (INTERNAL)\n"


def test_an_exception_in_supports_is_the_reason_of_a_refusal(mortise, parts):
    process = mortise("run", parts(proposer="unsupported {}"), "-p", "x")
    assert process.returncode == 1
    assert "an exception crossed the C ABI: supports went wrong" in process.stderr


@pytest.mark.parametrize("function", ["deactivate", "destroy"])
def test_an_exception_at_the_end_is_logged(jsonl, parts, expected, function):
    process, answers = jsonl("batch", requests(), parts(proposer=f"rogue_proposer {{ ['in'] = '{function}' }}"))
    assert process.returncode == 0 and choices(answers) == expected
    assert f"proposer 'rogue_proposer' (rogue.so): {function}: {THROWN} (INTERNAL); the instance will not be called again" in process.stderr


def test_a_proposer_without_a_maximum_is_told_what_it_lacks(mortise, parts):
    process = mortise("run", parts(proposer="mute {}"), "-p", "x")
    assert process.returncode == 1
    assert "proposer 'mute' (rogue.so): does not say how many tokens it drafts" in process.stderr
    assert "the function max_drafts" in process.stderr
    process = mortise("run", parts(proposer="rogue_proposer { max_tokens = 0 }"), "-p", "x")
    assert process.returncode == 1 and "drafts at most 0 tokens (option max_tokens)" in process.stderr


def test_an_attention_without_windows_is_refused_where_the_model_has_them(mortise, parts, tmp_path):
    folder = tmp_path / "windowed"
    folder.mkdir()
    for file in (SOURCE / "models/demo").iterdir():
        (folder / file.name).symlink_to(file)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    config.update(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=64)
    (folder / "config.json").write_text(json.dumps(config))
    process = mortise("run", parts(attention="windowless {}", model=folder), "-p", "x")
    assert process.returncode == 1
    assert "attention 'windowless': has no sliding windows (MORTISE_CAP_SLIDING_WINDOW), but model 'llama' needs them in" in process.stderr
    assert mortise("run", parts(model=folder), "-p", "x", "--max-tokens", "2").returncode == 0
    assert mortise("run", parts(attention="windowless {}"), "-p", "x", "--max-tokens", "2").returncode == 0


def test_sequence_ids_are_unique_and_ends_are_told_to_runners_too(jsonl, parts):
    drafts = f"draft_model {{ path = '{SOURCE}/models/demo-draft', max_tokens = 3 }}"
    process, answers = jsonl("batch", requests(),
                             parts(attention="rogue_attention {}", scheduler="fcfs { max_num_seqs = 4 }", proposer=drafts))
    assert process.returncode == 0, process.stderr
    told = [tuple(map(int, pair)) for pair in re.findall(r"attention 'rogue_attention': (\d+) sequences, (\d+) ended", process.stderr)]
    assert len(told) == 2  # the target's attention and the draft's
    for seen, ended in told:
        assert seen == 40 and ended >= 32  # after the last sequences no batch comes that could tell their ends


def test_a_call_that_takes_too_long_is_reported_and_so_is_its_return(parts, tmp_path):
    gate = tmp_path / "gate"
    path = parts(proposer=f"rogue_proposer {{ ['in'] = 'propose', does = 'wait', gate = '{gate}' }}")
    process = subprocess.Popen([MORTISE, "run", path, "-p", "x", "--max-tokens", "8"], stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, text=True, env={"MORTISE_CALL_LIMIT": "0.1", "MORTISE_PLUGIN_PATH": str(PLUGINS)})
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "propose: has been running for" in line:
            gate.touch()
    assert process.wait(timeout=60) == 0
    begin = r"mortise: warning: proposer 'rogue_proposer' \(rogue.so\): propose: "
    told = [line for line in lines if "(rogue.so): propose: " in line]
    assert re.fullmatch(begin + r"has been running for [\d.]+ s, the limit is 0.1 s; everything waits for it\n", told[0])
    assert re.fullmatch(begin + r"returned after [\d.]+ s\n", told[1])


def test_a_call_limit_that_is_no_number_is_refused(mortise, parts):
    process = mortise("check", parts(), env={"MORTISE_CALL_LIMIT": "soon"})
    assert process.returncode == 1
    assert "MORTISE_CALL_LIMIT is 'soon'; expected a number of seconds" in process.stderr
