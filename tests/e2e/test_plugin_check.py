# Covers: runtime/cli/plugin/{case_progress,check,info} runtime/conformance/held_signals
"""`mortise plugin check`: the conformance suite as a plugin's author runs it."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from conftest import BUILD, MORTISE, SOURCE, process_names
from terminal import CTRL_C, Terminal


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
    process = check(mortise, "oracle", "--case", "options.defaults")
    assert process.returncode == 0
    assert "the option 'log' has no default; give it with --options" in process.stdout


def test_a_part_that_needs_more_of_the_host_is_not_judged_by_what_the_suite_lacks(mortise):
    options = json.dumps({"path": str(SOURCE / "models/demo-mlp-speculator")})
    process = check(mortise, "mlp_speculator", "--options", options)
    assert process.returncode == 0, process.stdout
    assert "it needs mortise.host.checkpoint/1, which the suite does not offer" in process.stdout


@pytest.mark.parametrize("args", [(), ("--options", json.dumps({"path": str(SOURCE / "models/demo-draft")}))])
def test_a_proposer_that_needs_a_runner_gets_one(mortise, args):
    """Every case runs, with whatever path: the suite's runners have a draft model of their own."""
    process = check(mortise, "draft_model", "--json", *args)
    assert process.returncode == 0, process.stdout
    cases = json.loads(process.stdout)["cases"]
    assert {case["outcome"] for case in cases} == {"passed"} and len(cases) >= 60
    assert len([case for case in cases if case["case"].startswith("runner.")]) == 6


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


BROKEN = BUILD / "tests/unit/conformance/broken"
HANGS = ("plugin", "check", BROKEN / "broken_proposer.so", "--case", "proposer.many", "--options", '{"defect": "hangs"}')


def on_terminal(*args, stdout, columns=120, env=None):
    """All that a terminal gets which is standard error, and the exit code."""
    terminal = Terminal(MORTISE, *args, env={**os.environ, **(env or {})}, stdout=stdout, columns=columns)
    while not terminal.ended:
        terminal._read()
    return terminal.raw.decode(), terminal.process.wait()


def shown(text):
    """What a terminal shows in the end, and the lines that it has shown before."""
    lines = text.replace("\r\n", "\n").split("\r\x1b[K")
    return lines[-1], lines[1:-1]


def test_a_terminal_shows_which_case_runs_and_nothing_in_the_end(tmp_path):
    with open(tmp_path / "out", "w") as out:
        text, code = on_terminal("plugin", "check", BUILD / "ngram.so", stdout=out)
    last, lines = shown(text)
    assert code == 0 and last == ""
    lines = [line for line in lines if line]
    numbers = [re.fullmatch(r"case (\d+) of (\d+): ([a-z]+\.[a-z_]+)", line).groups() for line in lines]
    total = numbers[-1][1]
    assert [(int(number), of) for number, of, _ in numbers] == [(i + 1, total) for i in range(int(total))]
    results = (tmp_path / "out").read_text().splitlines()
    assert [name for _, _, name in numbers] == [re.split("[ :]+", line)[2] for line in results[:-1]]
    assert results[-1].startswith(f"{total} cases: ")


def test_results_on_the_same_terminal_stand_on_lines_of_their_own():
    text, _ = on_terminal("plugin", "check", BUILD / "ngram.so", "--case", "proposer.many", stdout=None)
    assert text == ("\r\x1b[Kcase 1 of 1: proposer.many\r\x1b[K" + re.search("passed .*\r\n", text)[0] +
                    "1 cases: 1 passed, 0 failed, 0 not applicable\r\n")


def test_an_install_and_a_narrow_terminal_show_it_too(tmp_path):
    plugin = BUILD / "tests/e2e/plugins/lookback.so"
    pin = subprocess.run(["sha256sum", plugin], capture_output=True, text=True, check=True).stdout.split()[0]
    args = ("plugin", "install", plugin, "--sha256", pin, "--to", tmp_path)
    with open(tmp_path / "out", "w") as out:
        text, code = on_terminal(*args, stdout=out, columns=20)
    last, lines = shown(text)
    assert code == 0 and last == "" and lines[0].startswith("case 1 of ") and len(lines) > 60
    assert max(map(len, lines)) == 19  # a line that fills a terminal may be wrapped


def test_without_a_terminal_nothing_is_shown(mortise):
    assert check(mortise, "ngram").stderr == ""


def test_the_line_goes_when_a_case_fails(tmp_path):
    broken = BROKEN / "broken_two_line_summary.so"
    pin = subprocess.run(["sha256sum", broken], capture_output=True, text=True, check=True).stdout.split()[0]
    with open(tmp_path / "out", "w") as out:
        text, code = on_terminal("plugin", "install", broken, "--sha256", pin, "--to", tmp_path / "plugins", stdout=out)
    last, _ = shown(text)
    assert code == 1 and last.startswith("mortise: ") and last.count("\n") == 1


def test_an_interrupt_ends_the_case_and_its_processes(tmp_path):
    """Also those that have left the session of the check, and the files of the check."""
    env = {**os.environ, "TMPDIR": str(tmp_path), "STRAY_NAME": "stray-of-check"}
    terminal = Terminal(MORTISE, *HANGS[:-1], '{"defect": "starts_daemon_and_hangs"}', env=env)
    terminal.expect("case 1 of 1: proposer.many")
    while "stray-of-check" not in process_names():
        time.sleep(0.01)
    terminal.send(CTRL_C)
    assert terminal.expect("mortise: interrupted by SIGINT")
    assert terminal.process.wait() == 128 + signal.SIGINT and list(tmp_path.iterdir()) == []
    assert "stray-of-check" not in process_names()
    for number, name in ((signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP"), (signal.SIGQUIT, "SIGQUIT")):
        process = subprocess.Popen([MORTISE, *HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        wait_for_child(process.pid)
        process.send_signal(number)
        assert process.communicate() == ("", f"mortise: interrupted by {name}\n") and process.returncode == 128 + number
        assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_ends_the_check(tmp_path):
    """As `mortise plugin check FILE | head -1` does."""
    process = subprocess.Popen([MORTISE, "plugin", "check", BUILD / "ngram.so"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TMPDIR": str(tmp_path)})
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 128 + signal.SIGPIPE and process.stderr.read() == "mortise: interrupted by SIGPIPE\n"
    assert list(tmp_path.iterdir()) == []


def wait_for_child(pid):
    """Until the case runs."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    while not children.read_text():
        time.sleep(0.01)


def test_an_ignored_hangup_ends_nothing(tmp_path):
    process = subprocess.Popen(["nohup", MORTISE, *map(str, HANGS), "--timeout", "2"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_for_child(process.pid)
    process.send_signal(signal.SIGHUP)
    assert "does not end within 2 s" in process.communicate()[0]


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
