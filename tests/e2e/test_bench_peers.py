"""The arithmetic and the table of bench/peers/compare.py; the peers themselves are not run here."""
import subprocess
import sys

import pytest

from conftest import SOURCE

sys.path.insert(0, str(SOURCE / "bench/peers"))
import compare  # noqa: E402


def test_nearness_and_speed_are_of_rates_and_of_times():
    # The second round ran on a machine half as fast: ratios do not see it.
    assert compare.nearness("decode, batch 1", [80, 40], [100, 50]) == pytest.approx(0.8)
    assert compare.nearness("start to first token", [2, 4], [1, 2]) == pytest.approx(0.5)
    assert compare.speed("decode, batch 1", [100, 50, 100], [50, 25, 80]) == pytest.approx(2)
    assert compare.speed("start to first token", [1, 2], [2, 4]) == pytest.approx(2)


def test_the_table_holds_each_format_against_its_own():
    samples = {"mortise": {"decode, batch 1": [100, 101, 99], "start to first token": [0.04, 0.05, 0.06]},
               "llama.cpp bf16": {"decode, batch 1": [50, 50, 50], "start to first token": [0.1, 0.1, 0.1]},
               "mortise q8_0": {"decode, batch 1": [200, 200, 200]},
               "llama.cpp q8_0": {"decode, batch 1": [160, 160, 160]},
               "vLLM": {"decode, batch 1": [80, 80, 80]}}
    floors = {"mortise": {"decode, batch 1": [125, 125, 125]}, "mortise q8_0": {}}
    assert compare.table("160m", samples, floors).splitlines() == [
        "| 160m | Mortise | floor (ratio) | llama.cpp bf16 | llama.cpp q8_0 | vLLM |",
        "|---|---|---|---|---|---|",
        "| decode, batch 1, tokens/s | 100 | 125 (0.80) | 50 (2.00 x) |  | 80 (1.25 x) |",
        "| start to first token, s | 0.05 |  | 0.1 (2.00 x) |  |  |",
        "| decode, batch 1, q8_0, tokens/s | 200 |  |  | 160 (1.25 x) |  |"]


def test_lines_that_are_cut_or_are_no_json_are_passed_over():
    text = 'warming up\n{"pl": 1, "speed_tg": 5.0}\n\n{"pl": 2, "speed'
    assert list(compare.complete_lines(text)) == [{"pl": 1, "speed_tg": 5.0}]


@pytest.mark.parametrize("args, text", [
    (["--mortise", "/no/mortise"], "/no/mortise: is not there; build Mortise, or run bench/peers/install_llama.sh or install_vllm.sh"),
    (["--mortise", "/bin/true", "--peers", "llama"], "is not there; build Mortise, or run bench/peers/install_llama.sh"),
    (["--mortise", "/bin/true", "--peers", "hf"], "--peers hf: there are llama and vllm"),
])
def test_what_is_missing_is_named(tmp_path, args, text):
    done = subprocess.run([sys.executable, SOURCE / "bench/peers/compare.py", *args], capture_output=True, text=True,
                          env={"PEERS": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and text in done.stderr
