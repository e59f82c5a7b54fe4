# Covers: runtime/cli/plugin/{bench,check_options} runtime/conformance/{bench_work,plugin_bench}
"""`mortise plugin bench`: a plugin beside the built-in part of its kind. What is asserted are no times."""
import json

import pytest

from conftest import BUILD, SOURCE


def bench(mortise, plugin, *args):
    return mortise("plugin", "bench", str(BUILD / plugin), "--rounds", "1", *args)


@pytest.mark.parametrize("plugin, component, built_in, work", [
    ("prefix_group.so", "scheduler 'prefix_group'", "scheduler 'fcfs'", "plan, 256 requests"),
    ("cascade-cpu.so", "attention 'cascade'", "attention 'paged'", "run, prefill of 512 tokens"),
    ("cpu.so", "device 'cpu'", "device 'cpu'", "linear in bf16, 32 rows of 1024"),
])
def test_a_part_is_measured_beside_the_built_in_one(mortise, plugin, component, built_in, work):
    process = bench(mortise, plugin, "--json")
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert (report["component"], report["built_in"], report["rounds"]) == (component, built_in, 1)
    figures = {figure["what"]: figure for figure in report["figures"]}
    assert figures[work]["unit"] == "us" and figures[work]["plugin"] > 0 and figures[work]["built_in"] > 0


def test_the_same_proposer_on_both_sides_is_as_good_as_itself(mortise):
    process = bench(mortise, "ngram.so")
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[0] == "proposer 'ngram' beside proposer 'ngram' (built in); medians of 1 alternating rounds"
    tokens = next(line for line in lines if line.startswith("tokens a step")).split()
    assert float(tokens[-3]) > 1.5 and tokens[-3] == tokens[-2] and tokens[-1] == "1.00"


@pytest.mark.parametrize("plugin, args, text", [
    ("nowhere.so", [], "nowhere.so is not a file; name the .so that your build made"),
    ("llama.so", [], "plugin bench does not measure a model: `mortise bench` measures one in a pipeline"),
    ("ngram.so", ["--component", "fcfs"], "has no component 'fcfs'"),
    ("ngram.so", ["--options", "[1]"], "--options: [1] is not a JSON object"),
    ("tests/unit/conformance/broken/broken_scheduler.so", ["--options", '{"defect": "aborts"}'],
     "scheduler 'broken_scheduler': crashes with ABRT"),
])
def test_what_cannot_be_measured_is_told(mortise, plugin, args, text):
    process = bench(mortise, plugin, *args)
    assert process.returncode == 1 and text in process.stderr


def test_options_reach_the_part(mortise):
    process = bench(mortise, "ngram.so", "--options", '{"max_tokens": 1}', "--json")
    figures = {figure["what"]: figure for figure in json.loads(process.stdout)["figures"]}
    tokens = figures["tokens a step, text that repeats itself"]
    assert 1 < tokens["plugin"] <= 2 < tokens["built_in"]


def test_a_draft_model_is_measured_in_a_pipeline(mortise):
    process = bench(mortise, "draft_model.so", "--options", json.dumps({"path": str(SOURCE / "models/demo-draft")}))
    assert process.returncode == 1
    assert "plugin bench does not measure a proposer with a draft model: `mortise bench` measures one in a pipeline" in process.stderr
