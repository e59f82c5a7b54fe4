#!/usr/bin/env python3
"""Draws figures of `mortise bench decode --json` and `prefill --json` under their roofline: tokens/s over the rows that one reading of
the weights serves, beside the floor of each. usage: bench/plot.py REPORT.json [REPORT.json ...] --out FIGURE.svg
Reports of one model on one device are one line. Needs matplotlib (pip install matplotlib)."""
import argparse
import json
import re
import sys
from pathlib import Path

MAX_BATCHED_TOKENS = 2048  # of a shape's own pipeline: a longer prompt takes several steps


def rows_of(name):
    """How many rows a step of this work has; None: neither decode nor prefill."""
    if match := re.fullmatch(r"decode, batch (\d+)", name):
        return int(match[1])
    if match := re.fullmatch(r"prefill, (\d+) x (\d+)", name):
        return min(int(match[1]) * int(match[2]), MAX_BATCHED_TOKENS)
    return None


def series_of(paths):
    """{"subject (device)": [(rows, tokens/s, least, most, floor or None)]}, by rows."""
    series = {}
    for path in paths:
        report = json.loads(Path(path).read_text())
        points = [(rows_of(f["name"]), f["value"], min(f["samples"]), max(f["samples"]), f["floor"]) for f in report["figures"]]
        points = [point for point in points if point[0] is not None]
        if not points:
            sys.exit(f"{path}: has no figures of decode or prefill; make it with mortise bench decode --json {path}")
        series.setdefault(f"{report['subject']} ({report['device']})", []).extend(points)
    return {label: sorted(points) for label, points in series.items()}


def draw(series, out):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mortise"  # the same figures, the same file
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for label, points in series.items():
        rows = [point[0] for point in points]
        low = [point[1] - point[2] for point in points]
        high = [point[3] - point[1] for point in points]
        line = axes.errorbar(rows, [point[1] for point in points], yerr=[low, high], marker="o", capsize=3, label=label)
        floors = [(point[0], point[4]) for point in points if point[4]]
        if floors:
            axes.plot(*zip(*floors), "--", color=line[0].get_color(), label="its floor")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("rows of a step: sequences that decode together, tokens of prompts")
    axes.set_ylabel("tokens/s")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    draw(series_of(args.reports), args.out)


if __name__ == "__main__":
    main()
