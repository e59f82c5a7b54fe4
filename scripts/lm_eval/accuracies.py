"""Prints task, metric and value of the results that lm_eval wrote under a folder (--output_path), sorted."""
import json
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).rglob("results_*.json")):
    for task, values in sorted(json.loads(path.read_text())["results"].items()):
        for metric in ("acc,none", "acc_norm,none"):
            print(f"  {task} {metric.split(',')[0]} {values[metric]:.4f}")
