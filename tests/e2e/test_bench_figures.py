"""bench/table.py and what bench/plot.py draws; matplotlib is not needed here."""
import json
import subprocess
import sys

import pytest

from conftest import MORTISE, SOURCE

sys.path.insert(0, str(SOURCE / "bench"))
import plot  # noqa: E402
import table  # noqa: E402


def report(*figures, repeats=3):
    return {"subject": "160m (random weights)", "device": "a processor, amx, 2 threads", "command": "mortise bench", "repeats": repeats,
            "limits": {"read_bytes_per_s": 33.5e9, "operations_per_s": 5.7e12},
            "figures": [{"name": name, "unit": "tokens/s", "value": value, "samples": samples, "floor": floor,
                         "ratio": floor and value / floor} for name, value, samples, floor in figures]}


def test_the_table_has_each_figure_beside_its_floor():
    text = table.table([report(("decode, batch 1", 103.04, [100.0, 103.04, 104.5], 121.6), ("prefill, 16 x 1024", 11000.0, [11000.0], None))])
    assert text.splitlines()[2:4] == [
        "| 160m: decode, batch 1, tokens/s | 103 | 100 .. 104.5 | 121.6 | 0.85 | 33.5 GB/s, 5.7 T/s |",
        "| 160m: prefill, 16 x 1024, tokens/s | 11,000 |  |  |  | 33.5 GB/s, 5.7 T/s |"]
    assert "a processor, amx, 2 threads, 3 repeats" in text and "    mortise bench\n" in text


def test_the_plot_joins_the_reports_of_a_model_by_their_rows(tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(report(("decode, batch 8", 600, [590, 600, 610], 807), ("decode, batch 1", 100, [99, 100], 121))))
    (tmp_path / "p.json").write_text(json.dumps(report(("prefill, 16 x 1024", 11000, [11000], 23200))))
    assert plot.series_of([tmp_path / "d.json", tmp_path / "p.json"]) == {"160m (random weights) (a processor, amx, 2 threads)": [
        (1, 100, 99, 100, 121), (8, 600, 590, 610, 807), (2048, 11000, 11000, 11000, 23200)]}  # 2048: a step's most, not 16384


def test_a_report_without_rows_is_refused(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(report(("start to first token", 0.04, [0.04], 0.01))))
    with pytest.raises(SystemExit, match="has no figures of decode or prefill"):
        plot.series_of([tmp_path / "s.json"])


def test_reports_of_the_program_itself_are_taken(tmp_path):
    command = [MORTISE, "bench", "decode", "--shape", "tiny", "--batch", "1,2", "--prompt", "4", "--output", "3", "--repeats", "1", "--json"]
    subprocess.run([*command, tmp_path / "d.json"], capture_output=True, check=True, timeout=120)
    (points,) = plot.series_of([tmp_path / "d.json"]).values()
    assert [point[0] for point in points] == [1, 2]
    assert "| tiny: decode, batch 2, tokens/s | " in table.table([json.loads((tmp_path / "d.json").read_text())])
