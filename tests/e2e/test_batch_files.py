"""What batch and score do with files: odd input, unwritable output, order, one answer a line, progress."""
# Covers: runtime/cli/{batch,json_lines_command,score}
import json
import os
import pty
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from conftest import MORTISE, run_mortise

LIMIT = 16 << 20  # bytes of a line


def request(custom_id, url="/v1/completions", **fields):
    return {"custom_id": custom_id, "method": "POST", "url": url,
            "body": {"prompt": "Once", "max_tokens": 2, "temperature": 0, **fields}}


def score(**fields):
    return {"prompt": "a", "completions": [], **fields}  # costs nothing


def run_files(tmp_path, command, data, *args):
    """(process, output lines) for raw input bytes."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(data)
    process = run_mortise(command, "-i", source, "-o", target, *args)
    return process, [json.loads(line) for line in target.read_text().splitlines()]


def test_blank_lines_crlf_a_byte_order_mark_and_a_missing_newline_do_no_harm(tmp_path):
    lines = [json.dumps(score(id=i)).encode() for i in range(3)]
    data = b"\xef\xbb\xbf" + lines[0] + b"\r\n\r\n  \t\n" + lines[1] + b"\n\n" + lines[2]
    process, answers = run_files(tmp_path, "score", data)
    assert process.returncode == 0, process.stderr
    assert [(a["id"], a["index"]) for a in answers] == [(0, 0), (1, 3), (2, 5)]  # blank lines count


@pytest.mark.parametrize("line, message", [
    (b'{"prompt": "\xff"}', "column 13: not UTF-8"),
    (b'{"prompt": "a"', "column 15: not JSON"),
    (b"[1]", "expected a JSON object with prompt and completions"),
    (b"[" * 5000 + b"]" * 5000, "column 101: JSON is nested deeper than 100 levels"),
    (b'{"prompt": 1e999}', "a number is too large for a 64-bit float"),
    (b'{"prompt": "a", "completions": 3}', "completions: expected a list, got 3"),
    (b'{"id": [], "prompt": "a", "completions": []}', "id: expected a string or a number, got []"),
    (b"\x00", "column 1: not JSON"),
])
def test_a_bad_line_is_told_with_its_number_and_the_rest_runs(tmp_path, line, message):
    process, answers = run_files(tmp_path, "score", b"\n" + line + b"\n" + json.dumps(score(id="last")).encode())
    assert process.returncode == 1
    assert "1 line failed" in process.stderr
    assert answers[0]["error"] == {"message": f"line 2: {message}", "line": 2, "status_code": 400}
    assert answers[0]["index"] == 1 and answers[0]["id"] is None
    assert answers[1]["id"] == "last" and answers[1]["completions"] == []


@pytest.mark.parametrize("fields, message", [
    ({"custom_id": []}, "custom_id: expected a string, got []"),
    ({"method": "GET"}, 'method: expected "POST", got "GET"'),
    ({"url": 7}, "url: expected a string, got 7"),
    ({"body": "x"}, 'body: expected a JSON object, got "x"'),
    ({"body": {"prompt": "a", "stream": True}}, "stream is true, but a batch writes whole answers; leave it out"),
])
def test_fields_of_a_batch_line_are_checked(tmp_path, fields, message):
    process, answers = run_files(tmp_path, "batch", json.dumps({**request("r"), **fields}).encode())
    assert process.returncode == 1
    assert answers[0]["error"] == {"code": "invalid_line", "message": f"line 1: {message}", "line": 1}
    assert answers[0]["custom_id"] == (None if "custom_id" in fields else "r")


def test_a_file_of_decisions_is_checked_and_continued(tmp_path):
    body = {"input": "Hugo has a whistle.", "questions": [{"type": "predicate", "instructions": "Hugo has a whistle."}]}
    lines = [json.dumps({**request(str(i), "/v1/decisions"), "body": body}) for i in range(2)]
    process, answers = run_files(tmp_path, "batch", "\n".join(lines).encode())
    assert process.returncode == 0 and len(answers) == 2, process.stderr
    written = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "out.jsonl").write_bytes(written[: len(written) - 10])  # as a killed run leaves it
    for _ in range(2):
        process = run_mortise("batch", "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
        assert process.returncode == 0, process.stderr
        assert (tmp_path / "out.jsonl").read_bytes() == written


def test_a_batch_line_without_url(tmp_path):
    _, answers = run_files(tmp_path, "batch", b'{"body": {}}')
    assert "url is missing; expected /v1/completions, /v1/chat/completions, /v1/score or /v1/decisions" in str(answers)


def test_a_batch_line_that_is_no_object(tmp_path):
    process, answers = run_files(tmp_path, "batch", b"[1]")
    assert process.returncode == 1
    assert answers[0]["error"]["message"] == "line 1: expected a JSON object with custom_id, method, url and body"


def test_a_custom_id_may_come_twice(jsonl):
    process, answers = jsonl("batch", [request("same", max_tokens=1), request("same", max_tokens=3)])
    assert process.returncode == 0
    assert [a["custom_id"] for a in answers] == ["same", "same"]
    assert [a["response"]["body"]["usage"]["completion_tokens"] for a in answers] == [1, 3]
    assert answers[0]["id"] != answers[1]["id"]


def test_a_huge_line_is_an_error_line_and_not_kept_in_memory(tmp_path):
    source = tmp_path / "in.jsonl"
    with source.open("wb") as file:
        file.write(json.dumps(score(id="first")).encode() + b"\n")
        file.write(b'{"prompt": "')
        for _ in range(300):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + json.dumps(score(id="last")).encode() + b"\n")
    process, kib = run_measured("score", "-i", source, "-o", tmp_path / "out.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert process.returncode == 1
    assert [a["id"] for a in answers] == ["first", None, "last"]
    assert answers[1]["error"]["message"] == (
        f"line 2: the line has {(300 << 20) + 15} bytes, more than the limit of {LIMIT}; split it into several")
    small, small_kib = run_measured("score", "-i", os.devnull, "-o", tmp_path / "none.jsonl")
    assert kib - small_kib < 100_000  # 300 MiB: the line was kept


def run_measured(*args):
    """(process, KiB of memory at most); in a process of its own, since the kernel keeps one maximum for all children."""
    code = ("import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], capture_output=True); "
            "print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); "
            "sys.stderr.buffer.write(p.stderr)")
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"  # by default it keeps 256 MiB of what was freed
    outer = subprocess.run([sys.executable, "-c", code, MORTISE, *map(str, args)], capture_output=True, text=True,
                           env={**os.environ, "ASAN_OPTIONS": sanitizer})
    returncode, kib = map(int, outer.stdout.split())
    return subprocess.CompletedProcess(args, returncode, stderr=outer.stderr), kib


def test_memory_does_not_grow_with_the_file(tmp_path):
    line = json.dumps(score()) + "\n"
    kib = []
    for count in (1_000, 200_000):
        (tmp_path / "in.jsonl").write_text(line * count)
        process, used = run_measured("score", "-i", tmp_path / "in.jsonl", "-o", tmp_path / f"{count}.jsonl")
        assert process.returncode == 0, process.stderr
        with (tmp_path / f"{count}.jsonl").open() as output:
            assert sum(1 for _ in output) == count
        kib.append(used)
    assert kib[1] - kib[0] < 10_000, kib  # 200,000 answers are 25 MB


def test_input_that_cannot_be_read_is_named(tmp_path):
    missing = run_mortise("batch", "-i", tmp_path / "none", "-o", tmp_path / "out")
    assert missing.returncode == 1
    assert missing.stderr == (f"mortise: {tmp_path}/none: cannot be read: No such file or directory; give an existing "
                              "file, or - for standard input\n")
    folder = run_mortise("batch", "-i", tmp_path, "-o", tmp_path / "out")
    assert folder.returncode == 1
    assert folder.stderr == f"mortise: {tmp_path}: is a directory; give a file of JSON lines\n"


def test_output_that_cannot_be_written_is_named(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(score()) + "\n")
    missing = run_mortise("score", "-i", source, "-o", tmp_path / "none/out")
    assert missing.stderr == (f"mortise: {tmp_path}/none/out: cannot be written: No such file or directory; give a file "
                              "in an existing folder, or - for standard output\n")
    folder = run_mortise("score", "-i", source, "-o", tmp_path)
    assert "cannot be written: Is a directory" in folder.stderr
    full = run_mortise("score", "-i", source, "-o", "/dev/full")
    assert full.stderr == "mortise: /dev/full: cannot be written: No space left on device\n"
    same = run_mortise("score", "-i", source, "-o", source)
    assert same.stderr == f"mortise: {source}: is both the input and the output; give another -o\n"
    assert [p.returncode for p in (missing, folder, full, same)] == [1, 1, 1, 1]
    assert json.loads(source.read_text()) == score()


def test_one_file_cannot_be_two_things(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps(score()) * 2 + "\n" + json.dumps(score()) + "\n")
    target.write_text(run_mortise("score", "-i", source, "-o", "-").stdout.splitlines()[0] + "\n")
    before = target.read_bytes()
    for option in ("--trace", "--record"):
        process = run_mortise("score", "-i", source, "-o", target, option, target)
        assert process.returncode == 1 and re.search("is (already writing this file|writing this file)", process.stderr)
        assert target.read_bytes() == before


def test_a_full_standard_output_is_an_error(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(score()) + "\n")
    with open("/dev/full", "w") as full:
        process = subprocess.run([MORTISE, "score", "-i", source, "-o", "-"], stdout=full, stderr=subprocess.PIPE)
    assert process.returncode == 1
    assert process.stderr == b"mortise: standard output: cannot be written: No space left on device\n"


def test_a_closed_standard_output_is_an_error(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(score()) + "\n")
    process = subprocess.run([MORTISE, "score", "-i", source, "-o", "-"], preexec_fn=lambda: os.close(1), text=True,
                             stderr=subprocess.PIPE, timeout=60)
    assert process.returncode == 1
    assert process.stderr == "mortise: standard output: cannot be written: Bad file descriptor\n"


def test_a_file_that_may_not_grow_is_an_error_and_can_be_continued(tmp_path):
    source, target, whole = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    lines = [json.dumps(score(id=i)) + "\n" for i in range(200)]
    source.write_text("".join(lines))
    with subprocess.Popen([MORTISE, "score", "-i", "-", "-o", target], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        process.stdin.write(lines[0])
        process.stdin.flush()
        # Copies of plugins are files too: they are made by the time of the first line.
        while process.poll() is None and not (target.exists() and target.read_text()):
            time.sleep(0.01)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (5000, 5000))
        _, errors = process.communicate("".join(lines[1:]), timeout=60)
    assert process.returncode == 1
    assert re.search(r"cannot be written: File too large \(\d+ lines are done; run the same command again", errors)
    assert run_mortise("score", "-i", source, "-o", target).returncode == 0
    assert run_mortise("score", "-i", source, "-o", whole).returncode == 0
    assert target.read_bytes() == whole.read_bytes()


def test_a_signal_ends_a_run_whose_output_nobody_reads(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(score(id=str(i) * 20000)) + "\n" for i in range(50)))
    with subprocess.Popen([MORTISE, "score", "-i", source, "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        process.stdout.read(1)  # the first line is there; the pipe has no room for the others
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
        assert "output that is not a file cannot be continued" in process.stderr.read()


def test_a_run_that_is_halted_while_its_reader_pauses_goes_on(tmp_path):
    """A halted process comes back from a write in the middle: that is no signal to end."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(score(id=str(i) * 20000)) + "\n" for i in range(10)))
    with subprocess.Popen([MORTISE, "score", "-i", source, "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          bufsize=0) as process:
        first = process.stdout.read(1)
        time.sleep(1)  # it waits in a write
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        time.sleep(2)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [json.loads(line)["id"][0] for line in (first + rest).splitlines()] == [str(i) for i in range(10)]


def test_standard_input_and_output_are_files_too(mortise):
    process = mortise("score", "-i", "-", "-o", "-", stdin=json.dumps(score(id=1)) + "\n" + json.dumps(score(id=2)))
    assert process.returncode == 0, process.stderr
    assert [json.loads(line)["id"] for line in process.stdout.splitlines()] == [1, 2]


def test_answers_come_before_the_input_ends():
    with subprocess.Popen([MORTISE, "score", "-i", "-", "-o", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        for i in range(2):
            process.stdin.write(json.dumps(score(id=i)).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == i  # hangs: lines wait for the next one
        process.stdin.close()


def test_an_empty_input_has_an_empty_output(tmp_path):
    process, answers = run_files(tmp_path, "batch", b"\n\n")
    assert process.returncode == 0 and answers == []
    assert "0 lines, 0 failed" in process.stderr


def test_answers_do_not_depend_on_the_schedule(tmp_path, pipeline):
    lines = [request(f"r{i}", prompt="Once upon a time there was a " * (1 + i % 3), max_tokens=5 + i % 7,
                     temperature=0.9, n=1 + i % 2, logprobs=1) for i in range(24)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outputs = []
    for scheduler in ("max_num_seqs = 1", "max_num_seqs = 32, max_batched_tokens = 64"):
        process = run_mortise("batch", pipeline(scheduler=scheduler), "-i", source, "-o", target, "--overwrite")
        assert process.returncode == 0, process.stderr
        outputs.append(target.read_bytes())
    assert outputs[0] == outputs[1]
    bodies = [json.loads(line)["response"]["body"] for line in outputs[0].splitlines()]
    seeds = [body["choices"][0]["seed"] for body in bodies]
    assert len(set(seeds)) == 24 and all(0 <= seed < 2**63 for seed in seeds)
    assert {body["created"] for body in bodies} == {int(source.stat().st_mtime)}
    assert len({body["id"] for body in bodies}) == 24
    assert "prompt_tokens_details" not in bodies[0]["usage"]


def test_without_a_terminal_only_a_closing_line_is_printed(tmp_path):
    process, _ = run_files(tmp_path, "score", (json.dumps(score()) + "\n").encode() * 5)
    assert re.fullmatch(r"mortise: score: 5 lines, 0 failed, in \d+\.\d s \(\d+\.\d lines/s, 0 tokens/s\)\n",
                        process.stderr), process.stderr


def run_on_terminal(*args):
    """What a terminal of 100 columns gets on standard error."""
    master, slave = pty.openpty()
    subprocess.run(["stty", "cols", "100"], stdin=slave, check=True)
    with subprocess.Popen([MORTISE, *map(str, args)], stdout=subprocess.DEVNULL, stderr=slave) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not piece:
                break
            text += piece
    os.close(master)
    assert process.returncode == 0, text
    return text.decode()


def test_a_terminal_gets_a_bar_with_rate_and_time_left(tmp_path, pipeline):
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(request(f"r{i}", max_tokens=200, ignore_eos=True)) + "\n" for i in range(40)))
    text = run_on_terminal("batch", pipeline(scheduler="max_num_seqs = 1"), "-i", source, "-o", tmp_path / "out.jsonl")
    drawn = text.split("\r\x1b[K")[1:]
    bars = [line for line in drawn if "%" in line]
    assert bars[0] == "mortise: batch: [>                   ]   0%  0 lines, 0.0 lines/s, 0 tokens/s"
    assert all(len(line) <= 99 for line in bars)  # more: it wraps
    assert any(re.search(r"\[=+> *\] +[1-9]\d*%  \d+ lines, \d+\.\d lines/s, [\d,]+ tokens/s, 0:\d\d left$", line)
               for line in bars), bars
    assert drawn[-1].startswith("mortise: batch: 40 lines, 0 failed, in ")
    assert not [line for line in drawn[:-1] if line not in bars and line]


def test_a_long_file_of_shared_prefixes_takes_no_more_memory_than_a_short_one(tmp_path, pipeline):
    """Lines at work are bounded in number and in bytes, whatever is in the file."""
    rng = random.Random(5)
    prefixes = [rng.choices(range(4, 4096), k=300) for _ in range(8)]
    path = pipeline(memory="24MiB")  # taken as it is needed, so that it counts in both

    def peak(num_lines):
        source = tmp_path / f"{num_lines}.jsonl"
        with open(source, "w") as file:
            for number in range(num_lines):
                prompt = rng.choice(prefixes) + rng.choices(range(4, 4096), k=3)
                bodies = [("/v1/completions", {"prompt": prompt, "max_tokens": 1}),
                          ("/v1/score", {"prompt": prompt, "completions": [[7], [8, 9]]}),
                          ("/v1/completions", {"prompt": prompt, "choices": [[10, 11], [12]]})]
                url, body = bodies[number % 3]
                file.write(json.dumps({"custom_id": str(number), "method": "POST", "url": url, "body": body}) + "\n")
        target = tmp_path / "out.jsonl"
        process = subprocess.Popen([MORTISE, "batch", path, "-i", source, "-o", target, "--overwrite"], stderr=subprocess.PIPE)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, errors
        assert sum(1 for _ in open(target)) == num_lines
        return usage.ru_maxrss * 1024

    # Both have more lines than are at work at a time. With all of them at work 3000 more would take 10 KiB each.
    assert peak(4500) - peak(1500) < 10 * 2**20
