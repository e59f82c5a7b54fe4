#!/usr/bin/env python3
"""Draws decode figures of `mortise bench decode --json` under their roofline: tokens/s over the batch, beside the floor of each.
usage: bench/plot.py REPORT.json [REPORT.json ...] --out FIGURE.svg      needs matplotlib (pip install matplotlib)"""
import argparse
import json
import re
import sys
from pathlib import Path


def decode_rows(path):
    """[(batch, tokens/s, least, most, floor or None)] of a report, by batch."""
    report = json.loads(Path(path).read_text())
    rows = []
    for figure in report["figures"]:
        match = re.fullmatch(r"decode, batch (\d+)", figure["name"])
        if match:
            rows.append((int(match[1]), figure["value"], min(figure["samples"]), max(figure["samples"]), figure["floor"]))
    if not rows:
        sys.exit(f"{path}: has no figures of decode; make it with mortise bench decode --json {path}")
    return report["subject"], report["device"], sorted(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    series = [decode_rows(path) for path in args.reports]

    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mortise"  # the same figures, the same file
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for subject, device, rows in series:
        batches = [row[0] for row in rows]
        low = [row[1] - row[2] for row in rows]
        high = [row[3] - row[1] for row in rows]
        line = axes.errorbar(batches, [row[1] for row in rows], yerr=[low, high], marker="o", capsize=3, label=f"{subject} ({device})")
        if all(row[4] for row in rows):
            axes.plot(batches, [row[4] for row in rows], "--", color=line[0].get_color(), label="its floor")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("sequences that decode together")
    axes.set_ylabel("tokens/s")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(args.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
