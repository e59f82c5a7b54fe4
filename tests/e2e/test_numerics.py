"""cpu { numerics = ... }: two orders of sums, each a class with the same bits on every instruction set."""
import functools
import json
import re

import pytest

from conftest import run_mortise

ORDERS = ("tiles", "pairs")
CLASSES = {"tiles": ("cpu-bf16/1", "attention-span256/1"), "pairs": ("cpu-bf16-pairs/1", "attention-span256-pairs/1")}
ISAS = ("portable", "avx2", "avx512", "amx")


def lines():
    def line(custom_id, **body):
        return {"custom_id": custom_id, "url": "/v1/completions", "body": {"prompt": "Once upon a time", **body}}
    return [line("greedy", max_tokens=40, temperature=0), line("sampled", max_tokens=30, n=2, seed=3, logprobs=2),
            line("echo", max_tokens=2, echo=True, logprobs=1, prompt=list(range(5, 305)))]


@functools.cache
def has(isa):
    process = run_mortise("run", "-p", "x", "--max-tokens", 1, env={"MORTISE_ISA": isa})
    return "does not have" not in process.stderr


@pytest.fixture
def record(tmp_path, pipeline):
    """record(order, kv) -> (script, log of a batch on portable code)."""
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()))

    def make(order, kv=""):
        script, log = pipeline(device=f"numerics = '{order}'", kv=kv), tmp_path / f"{order}.log"
        process = run_mortise("batch", script, "-i", tmp_path / "in.jsonl", "-o", tmp_path / f"{order}.jsonl", "--record",
                              log, env={"MORTISE_ISA": "portable"})
        assert process.returncode == 0, process.stderr
        return script, log
    return make


@pytest.mark.parametrize("kv", ["", ', dtype = "int8"'])
@pytest.mark.parametrize("order", ORDERS)
def test_a_log_of_portable_code_replays_on_every_instruction_set(order, kv, record, mortise):
    script, log = record(order, kv)
    for isa in filter(has, ISAS):
        process = mortise("replay", log, script, env={"MORTISE_ISA": isa})
        assert process.returncode == 0, isa + process.stdout + process.stderr
        assert process.stdout.endswith("differences        0\n")


def test_the_fingerprint_names_the_class(record):
    headers = {order: json.loads(record(order)[1].read_text().splitlines()[0]) for order in ORDERS}
    for order, (device, attention) in CLASSES.items():
        assert headers[order]["numerics_id"].startswith(f"{device}; attention {attention}; model llama;")
    assert headers["tiles"]["system_fingerprint"] != headers["pairs"]["system_fingerprint"]


def test_a_log_of_the_other_class_names_the_option_that_brings_it_back(record, pipeline, mortise):
    _, log = record("pairs")
    process = mortise("replay", log, pipeline(device="numerics = 'tiles'"))
    assert process.returncode == 1  # some bit differs, so the two are two classes
    assert "'cpu-bf16-pairs/1' is now 'cpu-bf16/1'" in process.stderr
    assert 'cpu { numerics = "pairs" } brings class cpu-bf16-pairs/1 back' in process.stderr


def test_verify_names_the_option_too(pipeline, mortise, tmp_path):
    requests = tmp_path / "requests.jsonl"
    requests.write_text(json.dumps({"prompt": "Once", "max_tokens": 2, "temperature": 0}) + "\n")
    old = pipeline(device="numerics = 'tiles'").rename(tmp_path / "old.lua")
    new = pipeline(device="numerics = 'pairs'")
    process = mortise("verify", old, new, "-i", requests)
    assert 'cpu { numerics = "tiles" } brings class cpu-bf16/1 back' in process.stdout, process.stdout + process.stderr


def test_auto_asks_the_machine_and_not_the_instruction_set(mortise):
    def fingerprint(isa):
        process = mortise("run", "-p", "x", "--max-tokens", 1, "--json", env={"MORTISE_ISA": isa})
        return json.loads(process.stdout)["system_fingerprint"]
    assert len({fingerprint(isa) for isa in ("", *filter(has, ISAS))}) == 1


def test_plugin_info_names_both_ids_of_an_attention(mortise):
    infos = [mortise("plugin", "info", name).stdout for name in ("paged", "cascade")]
    for info in infos:
        assert re.findall(r"numerics +(\S+)", info)[:2] == ["attention-span256/1", "attention-span256-pairs/1"]
        assert "pairs" in re.search(r"capabilities +(.*)", info)[1]


def test_an_unknown_order_is_refused_with_the_script_line(pipeline, mortise):
    process = mortise("check", pipeline(device="numerics = 'pair'"))
    assert process.returncode != 0 and "numerics" in process.stderr and "pairs" in process.stderr
