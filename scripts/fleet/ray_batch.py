#!/usr/bin/env python3
"""A batch on a Ray cluster: Ray Data hands each machine parts of the file, and the results are put together in order.

  ray_batch.py requests.jsonl answers.jsonl --parts 8 --folder /shared/parts [--script pipeline.lua] [--cpus 8]

Needs ray[data] from PyPI, and a folder that all machines share. Ray runs a part again whose machine has died, and it goes
on where it ended, because its results are a file. Run again with the same folder, the whole goes on."""
import argparse
import subprocess
import sys
from pathlib import Path

import ray
import ray.data

HERE = Path(__file__).resolve().parent


def run_part(row, folder, mortise, script):
    """Runs one part where Ray puts it."""
    part = Path(folder) / f"{row['id']}.jsonl"
    command = [mortise, "batch", *([script] if script else []), "-i", part, "-o", part.with_suffix(".out.jsonl")]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode > 1:  # 1: some lines failed, which their answers say
        raise RuntimeError(f"{part}: mortise ended with {process.returncode}: {process.stderr[-1000:]}")
    return {"part": row["id"], "failed_lines": process.returncode == 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mortise", default="mortise")
    parser.add_argument("--script", default="")
    parser.add_argument("--cpus", type=float, default=1, help="of a part, as Ray counts them")
    options = parser.parse_args()
    folder = str(Path(options.folder).resolve())
    split = [sys.executable, str(HERE / "split_batch.py")]
    subprocess.run([*split, "split", options.source, folder, "--parts", str(options.parts)], check=True)
    ray.init()
    parts = ray.data.range(options.parts, override_num_blocks=options.parts)
    done = parts.map(run_part, num_cpus=options.cpus,
                     fn_kwargs={"folder": folder, "mortise": options.mortise, "script": options.script}).take_all()
    subprocess.run([*split, "merge", folder, options.target], check=True)
    failed = sorted(row["part"] for row in done if row["failed_lines"])
    if failed:
        sys.exit(f"ray_batch: lines of parts {failed} failed; see \"error\" in the output")


if __name__ == "__main__":
    main()
