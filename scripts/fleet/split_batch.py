#!/usr/bin/env python3
"""Splits a file of requests for `mortise batch` (or `score`) among machines, so that requests which share a prefix stay
together, and puts the machines' results together again. Needs Python alone.

  split_batch.py split requests.jsonl parts/ --parts 4       writes parts/0.jsonl to parts/3.jsonl
  mortise batch -i parts/0.jsonl -o parts/0.out.jsonl        on each machine
  split_batch.py merge parts/ answers.jsonl                  the bytes that one machine would have written

A line's answer depends on the line's number and text, and on the time of the file (docs/operations.md). So a part is
the whole file with the other parts' lines left empty, and has its time: a line keeps its number, and empty lines are
passed over.
The same file gives the same parts everywhere."""
import argparse
import contextlib
import heapq
import json
import os
import shutil
import socket
import sys
from pathlib import Path

BLANK = b" \t\r\v\f\n"  # what the runtime passes over
DEFAULT_TOKENS = 16  # of a completion without max_tokens


def prefix_key(line, max_key):
    """(what the line's prompt begins with, its estimated work). A line that cannot be read costs next to nothing."""
    try:
        body = json.loads(line)
        body = body.get("body", body)  # of `score`, the line is the body
        group, prompt = body.get("group"), body.get("prompt", body.get("messages", ""))
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str):
            prompt = prompt[0]
        text = prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)
        tokens = body.get("max_tokens") or body.get("max_completion_tokens") or DEFAULT_TOKENS
        work = len(line) + 4 * int(tokens) * int(body.get("n") or 1)
    except (ValueError, AttributeError, TypeError):
        return "", 1
    key = f"group {group}\0{text}" if isinstance(group, str) else f"text {text}"
    return key[:max_key], work


def common_length(a, b):
    return len(os.path.commonprefix([a, b]))


def pieces_of(lines, most, min_shared):
    """Runs of lines that belong together: [(work, [line numbers])]. `lines`: (key, number, work), sorted. Neighbours that
    share less than `min_shared` characters are cut apart; so is a run that is larger than `most`, where neighbours share
    least."""
    shared = [0] + [common_length(a[0], b[0]) for a, b in zip(lines, lines[1:])]
    pieces, stack, begin = [], [], 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or shared[i] < min_shared:
            stack.append((begin, i))
            begin = i
    while stack:
        begin, end = stack.pop()
        work = sum(line[2] for line in lines[begin:end])
        if work <= most or end - begin == 1:
            pieces.append((work, [line[1] for line in lines[begin:end]]))
            continue
        # Of the places where least is shared the one nearest to the middle.
        cut = min(range(begin + 1, end), key=lambda i: (shared[i], abs(2 * i - begin - end), i))
        stack += [(begin, cut), (cut, end)]
    return pieces


def assign(lines, num_parts, min_shared):
    """{line number: part}. Groups are cut only as far as it takes to give each part about as much work."""
    lines = sorted(lines)
    fair = sum(line[2] for line in lines) / num_parts
    for cuts in (1, 2, 4, 8, 16):
        loads, where = place(pieces_of(lines, fair / cuts, min_shared), num_parts)
        if max(loads) <= 1.1 * fair:
            break
    return where


def place(pieces, num_parts):
    """(each part's work, {line number: part}): the largest pieces first, each to the part that has least."""
    parts, where = [(0, part) for part in range(num_parts)], {}
    for work, numbers in sorted(pieces, key=lambda piece: (-piece[0], min(piece[1]))):
        load, part = heapq.heappop(parts)
        heapq.heappush(parts, (load + work, part))
        where.update((number, part) for number in numbers)
    return [load for load, _ in parts], where


def split(options):
    source, folder = Path(options.source), Path(options.folder)
    lines = []
    with source.open("rb") as file:
        for number, line in enumerate(file):
            if line.strip(BLANK):
                key, work = prefix_key(line, options.max_key)
                lines.append((key, number, work))
    where = assign(lines, options.parts, options.min_shared)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{part}.jsonl" for part in range(options.parts)]
    for old in folder.glob("[0-9]*.jsonl"):
        if old not in paths and not old.name.endswith(".out.jsonl"):
            sys.exit(f"split_batch: {old} is of another split; give an empty folder")
    with contextlib.ExitStack() as stack, source.open("rb") as file:
        parts = [stack.enter_context(path.open("wb")) for path in paths]
        for number, line in enumerate(file):
            for part, out in enumerate(parts):
                out.write(line if where.get(number, 0) == part else b"\n")
    for path in paths:
        shutil.copystat(source, path)  # the time of the file is the time of its answers
    counts = [sum(part == p for part in where.values()) for p in range(options.parts)]
    print(f"split_batch: {len(where)} requests in {options.parts} parts: {' '.join(map(str, counts))}", file=sys.stderr)


def lines_of(path):
    """The lines of a part's results. An unfinished one would end in the middle of a line."""
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                sys.exit(f"split_batch: {path}: its last line is cut; run mortise on the part again, it goes on there")
            yield line


def merge(options):
    folder = Path(options.folder)
    sources = sorted((path for path in folder.glob("[0-9]*.jsonl") if not path.name.endswith(".out.jsonl")),
                     key=lambda path: int(path.stem))
    if not sources:
        sys.exit(f"split_batch: {folder}: no parts (0.jsonl, 1.jsonl, ...); give the folder that split wrote")
    outputs = [path.with_suffix(".out.jsonl") for path in sources]
    for output in outputs:
        if not output.exists():
            source = output.with_suffix("").with_suffix(".jsonl")
            sys.exit(f"split_batch: {output}: is missing; run: mortise batch -i {source} -o {output}")
    target = Path(options.target)
    # Several may merge at once, on several machines: each writes a file of its own.
    temporary = target.with_name(f"{target.name}.{socket.gethostname()}.{os.getpid()}.new")
    results = [lines_of(output) for output in outputs]
    with contextlib.ExitStack() as stack, temporary.open("wb") as out:
        files = [stack.enter_context(source.open("rb")) for source in sources]
        for number, same_line in enumerate(zip(*files), 1):
            for part, line in enumerate(same_line):
                if not line.strip(BLANK):
                    continue
                result = next(results[part], None)
                if result is None:
                    sys.exit(f"split_batch: {outputs[part]}: has no result of line {number}; "
                             "run mortise on the part again")
                out.write(result)
    for output, rest in zip(outputs, results):
        if next(rest, None) is not None:
            sys.exit(f"split_batch: {output}: has more results than its part has requests; it is of another file")
    temporary.rename(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("split")
    command.add_argument("source")
    command.add_argument("folder")
    command.add_argument("--parts", type=int, required=True)
    command.add_argument("--min-shared", type=int, default=64, help="characters that lines of one group share at least")
    command.add_argument("--max-key", type=int, default=4096, help="characters of a prompt that are looked at")
    command = commands.add_parser("merge")
    command.add_argument("folder")
    command.add_argument("target")
    options = parser.parse_args()
    if options.command == "split" and options.parts < 1:
        parser.error(f"--parts is {options.parts}; give 1 or more")
    split(options) if options.command == "split" else merge(options)


if __name__ == "__main__":
    main()
