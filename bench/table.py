#!/usr/bin/env python3
"""Reports of `mortise bench --json` as one Markdown table: the work, what was measured, its floor, how near it is, and the limits of
the same run. usage: bench/table.py REPORT.json [REPORT.json ...]"""
import json
import sys
from pathlib import Path


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def limits_text(limits):
    if limits is None:
        return ""
    text = f"{limits['read_bytes_per_s'] * 1e-9:.1f} GB/s"
    if limits["operations_per_s"]:
        text += f", {limits['operations_per_s'] * 1e-12:.3g} T/s"
    return text


def rows_of(report):
    model = report["subject"].replace(" (random weights)", "")
    for figure in report["figures"]:
        samples = figure["samples"]
        spread = f"{number(min(samples))} .. {number(max(samples))}" if len(samples) > 1 else ""
        floor = number(figure["floor"]) if figure["floor"] else ""
        ratio = f"{figure['ratio']:.2f}" if figure["ratio"] else ""
        yield (f"{model}: {figure['name']}, {figure['unit']}", number(figure["value"]), spread, floor, ratio, limits_text(report["limits"]))


def table(reports):
    lines = ["| work | median | all runs | floor | nearness | limits of the run |", "|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for report in reports for row in rows_of(report)]
    devices = sorted({f"{report['device']}, {report['repeats']} repeats" for report in reports})
    commands = [report["command"] for report in reports]
    return "\n".join(lines) + "\n\n" + "\n".join(devices) + "\n\n" + "".join(f"    {command}\n" for command in commands)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(table([json.loads(Path(path).read_text()) for path in sys.argv[1:]]), end="")
