# Covers: runtime/cli/plugin/{check,info}
"""`mortise plugin check`: the conformance suite as a plugin's author runs it."""
import json

import pytest

from conftest import BUILD, SOURCE


def check(mortise, plugin, *args):
    return mortise("plugin", "check", str(BUILD / f"{plugin}.so"), *args)


@pytest.mark.parametrize("plugin", ["fcfs", "prefix_group", "ngram", "paged-cpu", "cascade-cpu", "cpu"])
def test_built_in_plugins_pass_every_case_that_applies(mortise, plugin):
    process = check(mortise, plugin, "--json")
    report = json.loads(process.stdout)
    assert [case for case in report["cases"] if case["outcome"] == "failed"] == []
    assert process.returncode == 0 and report["passed"]
    assert len({case["case"] for case in report["cases"]}) >= 30


@pytest.mark.parametrize("model, checkpoint", [
    ("llama", "models/demo"),
    ("llama", "tests/golden/models/qwen3"),
    ("gpt2", "tests/golden/models/gpt2"),
    ("opt", "tests/golden/models/opt"),
])
def test_built_in_models_pass_every_case_with_a_checkpoint(mortise, model, checkpoint):
    process = check(mortise, model, "--json", "--options", json.dumps({"path": str(SOURCE / checkpoint)}))
    report = json.loads(process.stdout)
    assert [case for case in report["cases"] if case["outcome"] == "failed"] == []
    assert process.returncode == 0 and report["passed"]
    passed = {case["case"] for case in report["cases"] if case["outcome"] == "passed"}
    assert len([name for name in passed if name.startswith("model.")]) == 33


def test_a_folder_without_a_checkpoint_is_told(mortise, tmp_path):
    process = check(mortise, "llama", "--case", "model.dims", "--options", json.dumps({"path": str(tmp_path)}))
    assert process.returncode == 1
    assert "config.json" in process.stdout


def test_a_part_without_its_required_options_is_not_judged_by_them(mortise):
    process = check(mortise, "draft_model", "--case", "options.defaults")
    assert process.returncode == 0
    assert "the option 'path' has no default; give it with --options" in process.stdout


def test_a_part_that_needs_more_of_the_host_is_not_judged_by_what_the_suite_lacks(mortise):
    process = check(mortise, "draft_model", "--options", json.dumps({"path": str(SOURCE / "models/demo-draft")}))
    assert process.returncode == 0, process.stdout
    assert "it needs mortise.host.runner/1, which the suite does not offer" in process.stdout


def test_the_list_names_every_case_with_its_rule(mortise):
    lines = mortise("plugin", "check", "--list").stdout.splitlines()
    assert len(lines) >= 60
    assert any(line.startswith("scheduler.long_request ") and line.endswith("A long request is not starved by short ones.")
               for line in lines)


def test_a_case_runs_alone_and_again(mortise):
    one = check(mortise, "ngram", "--case", "proposer.batch", "--seed", "9")
    assert one.returncode == 0 and one.stdout.splitlines()[-1] == "1 cases: 1 passed, 0 failed, 0 not applicable"
    again = check(mortise, "ngram", "--reproduce", "ngram/proposer.batch/9")
    assert again.returncode == 0 and "passed  ngram  proposer.batch" in again.stdout


@pytest.mark.parametrize("args, text", [
    ((), "name a plugin file, or --list"),
    (("{plugin}x",), "fcfs.sox is not a file; name the .so that your build made"),
    (("{plugin}", "--case", "scheduler.nothing"), "there is no case 'scheduler.nothing'; --list shows all"),
    (("{plugin}", "--component", "other"), "has no component 'other'"),
    (("{plugin}", "--options", "{{"), "--options"),
    (("{plugin}", "--options", "[]"), "is not a JSON object"),
    (("{plugin}", "--reproduce", "nonsense"), "is not a line of a report"),
])
def test_mistakes_are_told(mortise, args, text):
    process = mortise("plugin", "check", *[arg.format(plugin=BUILD / "fcfs.so") for arg in args])
    assert process.returncode == 1
    assert text in process.stderr


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\nexit 0\n"])
def test_a_file_that_is_no_plugin_fails_its_cases(mortise, tmp_path, content):
    file = tmp_path / "odd.so"
    file.write_bytes(content)
    process = mortise("plugin", "check", str(file))
    assert process.returncode == 1
    assert "FAILED  file  file.exports" in process.stdout


def test_info_of_a_file_runs_none_of_its_code(mortise):
    file = BUILD / "tests/e2e/plugins/fatal/rogue_constructor.so"  # raises SIGSEGV when it is loaded
    process = mortise("plugin", "info", file)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[0] == "scheduler rogue_constructor"
    assert "crashes while it is loaded" in process.stdout and "test.rogue 1, Tests, Apache-2.0, ABI 0." in process.stdout
    assert mortise("plugin", "info", "--run", file).returncode not in (0, 1)


def test_info_of_a_file_is_that_of_the_loaded_plugin(mortise):
    for name in ["ngram", "fcfs", "cascade-cpu"]:
        read = mortise("plugin", "info", BUILD / f"{name}.so").stdout
        assert read and read == mortise("plugin", "info", "--run", BUILD / f"{name}.so").stdout
