"""What scripts/fleet promises, without routers, Slurm and Ray: those run the same commands."""
import json
import os
import random
import subprocess
import sys

import pytest

from conftest import MORTISE, SOURCE, run_mortise
from live_server import live_server

FLEET = SOURCE / "scripts/fleet"
SPLIT = FLEET / "split_batch.py"


def fleet(script, *args, env=None):
    return subprocess.run([script, *map(str, args)], capture_output=True, text=True, env={**os.environ, **(env or {})})


def group_lines(groups=6, each=5):
    """Requests of each group in random order, with a broken line, blank ones and one without a line end at last."""
    lines = []
    for group in range(groups):
        words = random.Random(group).choices(["castle", "river", "lamp", "stone"], k=60)
        for i in range(each):
            body = {"prompt": f"Story {group}: {' '.join(words)}. Part {i}", "max_tokens": 6, "temperature": 0.9}
            lines.append(json.dumps({"custom_id": f"{group}-{i}", "method": "POST", "url": "/v1/completions",
                                     "body": body}))
    random.Random(1).shuffle(lines)
    lines[3], lines[7], lines[9] = "{broken", "", "  "
    return "\ufeff" + "\r\n".join(lines)


def part_files(folder, suffix=".jsonl"):
    return sorted(path for path in folder.glob("*" + suffix) if suffix == ".out.jsonl" or ".out" not in path.name)


@pytest.mark.parametrize("command", ["batch", "score"])
def test_parts_put_together_are_the_bytes_of_one_machine(tmp_path, command):
    source, parts = tmp_path / "in.jsonl", tmp_path / "parts"
    source.write_bytes(group_lines().encode() if command == "batch" else b"".join(
        json.dumps({"prompt": f"Story {i % 3}: " + "a b " * 40, "completions": [" c", " d"]}).encode() + b"\n"
        for i in range(12)))
    os.utime(source, (1700000000, 1700000000))
    assert run_mortise(command, "-i", source, "-o", tmp_path / "whole.jsonl").returncode in (0, 1)
    process = fleet(SPLIT, "split", source, parts, "--parts", 2)
    assert process.returncode == 0, process.stderr
    running = [subprocess.Popen([MORTISE, command, "-i", part, "-o", part.with_suffix(".out.jsonl")],
                                stderr=subprocess.DEVNULL) for part in part_files(parts)]
    assert len(running) == 2 and all(process.wait() in (0, 1) for process in running)
    process = fleet(SPLIT, "merge", parts, tmp_path / "merged.jsonl")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "merged.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_lines_of_a_prefix_stay_together_and_parts_are_fair(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(group_lines(groups=12, each=8))
    for folder in ("first", "second"):
        assert fleet(SPLIT, "split", source, tmp_path / folder, "--parts", 3).returncode == 0
    homes, counts = {}, []
    for part in part_files(tmp_path / "first"):
        assert part.read_bytes() == (tmp_path / "second" / part.name).read_bytes()
        groups = [json.loads(line)["custom_id"].split("-")[0] for line in part.read_text("utf-8-sig").splitlines()
                  if line.strip() and line != "{broken"]
        counts.append(len(groups))
        for group in set(groups):
            homes.setdefault(group, []).append(part.name)
    assert all(len(where) == 1 for where in homes.values()) and len(homes) == 12
    assert max(counts) <= 1.2 * min(counts)


def test_a_bodys_group_goes_before_its_text(tmp_path):
    lines = [{"body": {"prompt": f"{i} " * 60, "group": "tenant a" * 12 if i % 2 else "tenant b" * 12}}
             for i in range(20)]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert fleet(SPLIT, "split", source, tmp_path / "parts", "--parts", 2).returncode == 0
    for part in part_files(tmp_path / "parts"):
        assert len({json.loads(line)["body"]["group"] for line in part.read_text().splitlines() if line}) == 1


def test_merge_says_what_is_missing(tmp_path):
    source, parts = tmp_path / "in.jsonl", tmp_path / "parts"
    source.write_text("{}\n{}\n{}\n")
    assert "no parts" in fleet(SPLIT, "merge", tmp_path, tmp_path / "out").stderr
    fleet(SPLIT, "split", source, parts, "--parts", 1)
    assert "0.out.jsonl: is missing; run: mortise batch -i " in fleet(SPLIT, "merge", parts, tmp_path / "out").stderr
    for results, message in [("a\nb\n", "has no result of line 3; run mortise on the part again"),
                             ("a\nb\nc", "its last line is cut"),
                             ("a\nb\nc\nd\n", "more results than its part has requests")]:
        (parts / "0.out.jsonl").write_text(results)
        assert message in fleet(SPLIT, "merge", parts, tmp_path / "out").stderr
    (parts / "0.out.jsonl").write_text("a\nb\nc\n")
    assert fleet(SPLIT, "merge", parts, tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_text() == "a\nb\nc\n"


def test_tasks_of_a_slurm_array_merge_when_all_are_done(tmp_path):
    source, parts, answers = tmp_path / "in.jsonl", tmp_path / "parts", tmp_path / "answers.jsonl"
    source.write_text(group_lines())
    run_mortise("batch", "-i", source, "-o", tmp_path / "whole.jsonl")
    fleet(SPLIT, "split", source, parts, "--parts", 2)
    for task in (0, 1):
        assert not answers.exists()
        fleet(FLEET / "slurm_array.sh", parts, answers, env={"SLURM_ARRAY_TASK_ID": str(task), "MORTISE": str(MORTISE),
                                                             "MORTISE_FLEET": str(FLEET)})
    assert answers.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_streams_of_a_replica_that_is_killed_go_on_at_another(tmp_path):
    with live_server() as first, live_server() as second:
        with pytest.raises(AssertionError):  # the third does not end as servers should
            with live_server() as third:
                pid_file = tmp_path / "third.pid"
                pid_file.write_text(str(third.process.pid))
                urls = [third.url, first.url, second.url]
                process = fleet(sys.executable, FLEET / "load.py", "kill", "--url", *urls, "--replicas", *urls,
                                "--pid-file", pid_file, "--after", 0.7, "--groups", 6, "--per-group", 4,
                                "--max-tokens", 200, "--shared", 60, "--concurrency", 12)
        assert process.returncode == 0, process.stderr + process.stdout
        result = json.loads(process.stdout)
        assert result["lost"] == result["different"] == 0 and result["replicas_left"] == 2
        assert result["streams_that_broke"] > 0


def test_the_files_that_the_documentation_names_are_there():
    for name in ("start.sh", "stop.sh", "nginx.conf", "haproxy.cfg", "ray_batch.py", "mortise.service", "mortise@.service",
                 "replica.lua"):
        assert (FLEET / name).exists() and f"`{name}`" in (FLEET / "README.md").read_text()
    assert run_mortise("check", FLEET / "replica.lua").returncode == 0
