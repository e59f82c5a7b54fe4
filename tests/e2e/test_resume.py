"""batch and score go on where a run ended, and the file comes out as if it had never ended."""
# Covers: runtime/cli/{earlier_results,json_lines_command,stop_signals}
import array
import fcntl
import json
import os
import random
import resource
import signal
import subprocess
import termios
import time

import pytest

from conftest import MORTISE, run_mortise

WHAT_TO_DO = "give the input that made it, another -o, or --overwrite to start from the beginning"


def batch_lines(count=24, max_tokens=40):
    lines = []
    for i in range(count):
        body = {"prompt": f"Once upon a time number {i}", "max_tokens": max_tokens, "temperature": 0.8,
                "ignore_eos": True}
        lines.append(json.dumps({"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions", "body": body}))
    lines[3] = "{broken"
    lines[7] = ""
    return lines


def score_lines(count=24):
    lines = [json.dumps({"id": i, "prompt": "Once upon", "completions": [" a time" * (1 + i % 5), " no"]})
             for i in range(count)]
    lines[3] = "{broken"
    lines[7] = ""
    return lines


class Files:
    """An input and its output."""

    def __init__(self, folder, command, lines, *args):
        self.command, self.args = command, args
        self.source, self.target = folder / "in.jsonl", folder / "out.jsonl"
        self.source.write_text("".join(line + "\n" for line in lines))

    def argv(self):
        return [MORTISE, self.command, *map(str, self.args), "-i", str(self.source), "-o", str(self.target)]

    def run(self, *args):
        return run_mortise(*self.argv()[1:], *args)

    def start(self):
        return subprocess.Popen(self.argv(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait_for_lines(self, process, count):
        while process.poll() is None and (not self.target.exists() or self.target.read_bytes().count(b"\n") < count):
            time.sleep(0.005)


@pytest.fixture(params=["batch", "score"])
def done(request, tmp_path):
    """Files of a run without a break, and the bytes it wrote."""
    files = Files(tmp_path, request.param, batch_lines(max_tokens=4) if request.param == "batch" else score_lines())
    process = files.run()
    assert process.returncode == 1 and "1 line failed" in process.stderr
    return files, files.target.read_bytes()


def test_a_run_that_was_cut_anywhere_goes_on_to_the_same_bytes(done):
    files, whole = done
    random.seed(1)
    cuts = [0, 1, len(whole) - 1, whole.index(b"\n"), whole.index(b"\n") + 1, random.randrange(len(whole))]
    for cut in cuts:
        files.target.write_bytes(whole[:cut])
        process = files.run()
        assert process.returncode == 1, process.stderr  # lines that failed before count
        assert files.target.read_bytes() == whole, f"cut at {cut}"


def test_a_finished_file_runs_nothing_again(done):
    files, whole = done
    before = files.target.stat().st_mtime_ns
    files.args = ("/no/such/script.lua",)
    process = files.run()
    assert process.returncode == 1
    assert process.stderr == (f"mortise: {files.command}: every line was done before\n"
                              f'mortise: {files.command}: 1 line failed; see "error" in the output\n')
    assert files.target.stat().st_mtime_ns == before and files.target.read_bytes() == whole


def test_a_touched_input_is_no_other_input(done):
    files, whole = done
    files.target.write_bytes(whole[:len(whole) // 2])
    os.utime(files.source, (1, 1))
    files.run()
    assert files.target.read_bytes() == whole


def expect_refusal(files, message):
    before = files.target.read_bytes()
    process = files.run()
    assert process.returncode == 1
    assert process.stderr == f"mortise: {files.target}: {message}; {WHAT_TO_DO}\n"
    assert files.target.read_bytes() == before


def not_the_result(files, result, line):
    return (f"line {result} is not the result of line {line} of {files.source}: one of the files has changed, or they "
            "do not belong together")


def test_an_input_that_changed_is_an_error_until_told_to_overwrite(done):
    files, whole = done
    lines = files.source.read_text().splitlines()
    lines[10] = lines[10].replace("Once", "Twice")
    changed_at = files.source.stat().st_mtime_ns
    files.source.write_text("".join(line + "\n" for line in lines))
    os.utime(files.source, ns=(changed_at, changed_at))  # `created` of every result
    expect_refusal(files, not_the_result(files, 10, 11))
    files.target.write_bytes(b"".join(whole.splitlines(keepends=True)[:10]))  # none of it left to go on with
    expect_refusal(files, not_the_result(files, 10, 11))
    assert files.run("--overwrite").returncode == 1
    changed = files.target.read_bytes().splitlines()
    assert [i for i, line in enumerate(whole.splitlines()) if line != changed[i]] == [9]


def test_lines_that_moved_are_an_error(done):
    files, whole = done
    files.source.write_text("\n" + files.source.read_text())
    expect_refusal(files, not_the_result(files, 1, 2))


def test_more_results_than_lines_are_an_error(done):
    files, whole = done
    files.source.write_text("".join(line + "\n" for line in files.source.read_text().splitlines()[:5]))
    expect_refusal(files, f"line 6 is beyond the last request of {files.source}")


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"\x00" * 50, b"{}\n", b"\n[]\n"])
def test_a_file_that_is_something_else_is_left_alone(tmp_path, content):
    files = Files(tmp_path, "score", score_lines())
    files.target.write_bytes(content)
    expect_refusal(files, not_the_result(files, 2 if content.startswith(b"\n") else 1, 1))


def test_a_damaged_result_is_named(done):
    files, whole = done
    lines = whole.splitlines(keepends=True)
    lines[1] = lines[1][:100] + b"\n"
    files.target.write_bytes(b"".join(lines))
    expect_refusal(files, "line 2 is damaged (column 101: not JSON)")


def test_results_of_another_model_are_not_continued(done, pipeline):
    files, whole = done
    files.target.write_bytes(b"".join(whole.splitlines(keepends=True)[:6]))
    process = None
    files.args = (pipeline(path="DEMO-draft"),)
    process = files.run()
    assert process.returncode == 1
    assert "has results of system_fingerprint mortise-" in process.stderr and WHAT_TO_DO[-40:] in process.stderr
    assert files.target.read_bytes() == b"".join(whole.splitlines(keepends=True)[:6])


def test_a_broken_script_loses_no_results(done):
    files, whole = done
    files.target.write_bytes(whole[:-1])
    files.args = ("/no/such/script.lua",)
    assert files.run("--overwrite").returncode == 1
    assert files.target.read_bytes() == whole[:-1]


@pytest.fixture
def slow(tmp_path, pipeline):
    """A run that writes its lines one after the other, for seconds."""
    return Files(tmp_path, "batch", batch_lines(count=40, max_tokens=100), pipeline(scheduler="max_num_seqs = 2"))


@pytest.fixture
def slow_whole(slow):
    slow.run()
    whole = slow.target.read_bytes()
    slow.target.unlink()
    return whole


def test_kill_9_again_and_again_ends_in_the_same_bytes(slow, slow_whole):
    kills = 0
    for lines in (3, 9, 20, 33):
        process = slow.start()
        slow.wait_for_lines(process, lines)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        process.stderr.close()
    assert kills > 0
    assert slow.run().returncode == 1
    assert slow.target.read_bytes() == slow_whole


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_writes_what_is_done_and_tells_how_to_go_on(slow, slow_whole, number, code):
    process = slow.start()
    slow.wait_for_lines(process, 3)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert errors.splitlines()[-1] == "mortise: batch: stopped; run the same command again to continue where it ended"
    part = slow.target.read_bytes()
    assert part.endswith(b"\n") and slow_whole.startswith(part) and len(part) < len(slow_whole)
    assert slow.run().returncode == 1
    assert slow.target.read_bytes() == slow_whole


def test_ctrl_c_ends_a_run_that_waits_for_input():
    with subprocess.Popen([MORTISE, "score", "-i", "-", "-o", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write('{"prompt": "a", "completions": []}\n')
        process.stdin.flush()
        process.stdout.readline()  # the run has begun
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read().endswith("mortise: score: stopped; output that is not a file cannot be continued\n")


def test_the_second_ctrl_c_ends_at_once(tmp_path):
    files = Files(tmp_path, "score", score_lines() * 200)
    files.target = "-"  # a pipe that nobody reads: the run hangs in a write
    with subprocess.Popen(files.argv(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        waiting, unchanged = array.array("i", [0]), 0
        while unchanged < 10:  # only a run that hangs in a write adds nothing to a full pipe for half a second
            before = waiting[0]
            time.sleep(0.05)
            fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
            unchanged = unchanged + 1 if waiting[0] == before > 65536 - 4096 else 0
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        # A slow machine may not have handled the first SIGINT yet, and pending SIGINTs merge into one. So send more.
        end = time.monotonic() + 60
        while process.poll() is None:
            assert time.monotonic() < end
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert process.returncode == -signal.SIGINT


def test_two_runs_do_not_write_one_file(slow):
    first = slow.start()
    slow.wait_for_lines(first, 1)
    second = slow.run()
    assert second.returncode == 1
    assert second.stderr == (f"mortise: {slow.target}: another run is already writing this file (wait for "
                             "its end), or this run is (give another file)\n")
    first.kill()
    first.communicate()


def test_a_full_disk_tells_how_to_go_on(tmp_path):
    files = Files(tmp_path, "score", score_lines())
    files.run()
    whole = files.target.read_bytes()
    files.target.unlink()
    lines = files.source.read_text()
    # A limit of file size stands for a disk: a write that passes it fails as one on a full disk does.
    argv = [*files.argv()[:2], "-i", "-", "-o", str(files.target)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          restore_signals=False) as process:  # Python ignores SIGXFSZ; so does the program now
        process.stdin.write(lines[:lines.index("\n") + 1])
        process.stdin.flush()
        files.wait_for_lines(process, 1)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (len(whole) // 2, len(whole) // 2))
        process.stdin.write(lines[lines.index("\n") + 1:])
        process.stdin.close()
        errors = process.stderr.read()
    done = files.target.read_bytes().count(b"\n")
    assert 0 < done < 23 and process.returncode == 1
    assert errors == (f"mortise: {files.target}: cannot be written: File too large ({done} lines are done; run the same "
                      "command again to continue)\n")
    files.run()
    assert files.target.read_bytes() == whole


def test_standard_input_is_continued_too(tmp_path):
    target = tmp_path / "out.jsonl"
    text = "".join(line + "\n" for line in batch_lines(max_tokens=4))
    run_mortise("batch", "-i", "-", "-o", target, stdin=text)
    whole = target.read_bytes()
    target.write_bytes(whole[:len(whole) // 2])
    time.sleep(1.1)  # `created` is that of the first run, not the time of day
    run_mortise("batch", "-i", "-", "-o", target, stdin=text)
    assert target.read_bytes() == whole


def test_named_pipelines_go_on_as_well(tmp_path, script):
    part = ("pipeline { device = cpu {}, model = llama { path = 'DEMO%s' }, attention = paged {}, "
            "scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    path = script(f"return {{ large = {part % ''}, small = {part % '-draft'} }}")
    lines = [json.dumps({"custom_id": str(i), "url": "/v1/completions",
                         "body": {"model": ["large", "small", "none"][i % 3], "prompt": "Once", "max_tokens": 3}})
             for i in range(9)]
    files = Files(tmp_path, "batch", lines, path)
    process = files.run()
    assert "3 lines failed" in process.stderr
    whole = files.target.read_bytes()
    assert len({json.loads(line)["response"]["body"]["system_fingerprint"]
                for i, line in enumerate(whole.splitlines()) if i % 3 != 2}) == 2
    files.target.write_bytes(whole[:len(whole) // 2])
    files.run()
    assert files.target.read_bytes() == whole


def test_a_pipeline_that_does_not_open_ends_the_run(tmp_path, script):
    part = ("pipeline { device = cpu {}, model = llama { path = '%s' }, attention = paged {}, "
            "scheduler = fcfs {}, kv_cache = { memory = '64MiB' } }")
    (tmp_path / "empty").mkdir()
    path = script(f"return {{ default = {part % 'DEMO'}, broken = {part % (tmp_path / 'empty')} }}")
    lines = [json.dumps({"custom_id": "a", "url": "/v1/completions",
                         "body": {"model": name, "prompt": "Once", "max_tokens": 1}}) for name in ("default", "broken")]
    files = Files(tmp_path, "batch", lines, path)
    process = files.run()
    assert process.returncode == 1
    assert str(tmp_path / "empty") in process.stderr  # an error line would count as done and never be tried again
    assert files.target.read_bytes().count(b"\n") <= 1
