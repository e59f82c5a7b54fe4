"""Finished lines that wait for an earlier one survive the end of a run: they are in a file beside the output.
tests/unit/jsonl/waiting_lines_test.cpp has the file itself."""
# Covers: runtime/cli/waiting_results
import json
import random
import signal
import time

import pytest

from test_resume import Files, batch_lines, score_lines


class WaitingFiles(Files):
    @property
    def waiting(self):
        return self.target.with_name(self.target.name + ".waiting")

    def kept(self):
        """Line number -> result, of the whole lines in the file."""
        try:
            lines = self.waiting.read_bytes().splitlines(keepends=True)[1:]
        except FileNotFoundError:
            return {}
        return {json.loads(line)["line"]: json.loads(line)["result"] for line in lines if line.endswith(b"\n")}

    def leave(self, results, numbers, **head):
        """What a killed run leaves: `numbers` are lines of the input whose results wait."""
        succeeded = [json.loads(line) for line in results if b'"error":{' not in line]
        bodies = [line["response"]["body"] if self.command == "batch" else line for line in succeeded]
        head = {"command": self.command, "created": int(self.source.stat().st_mtime),
                "system_fingerprint": bodies[0]["system_fingerprint"], **head}
        text = '{"mortise_waiting":1,' + json.dumps(head, separators=(",", ":"))[1:] + "\n"
        for number in numbers:
            text += f'{{"line":{number},"result":{results[result_of(number)].decode()}}}\n'
        self.waiting.write_text(text)


def result_of(number):
    """The index of a line's result; line 8 is blank."""
    return number - 1 if number < 8 else number - 2


@pytest.fixture(params=["batch", "score"])
def done(request, tmp_path):
    """Files of a run without a break, and the lines that it wrote."""
    files = WaitingFiles(tmp_path, request.param, batch_lines(max_tokens=4) if request.param == "batch" else score_lines())
    assert files.run().returncode == 1
    assert not files.waiting.exists()
    return files, files.target.read_bytes().splitlines()


def mark(result):
    """The same result, told from one that is computed again."""
    return result[:-1] + b',"marked":true}'


def joined(results):
    return b"".join(result + b"\n" for result in results)


@pytest.mark.parametrize("written", [0, 5])
def test_waiting_results_are_taken_byte_for_byte(written, done):
    files, results = done
    numbers = [7, 12, 9, 24, 4]  # line 4 is a failed one
    for number in numbers:
        results[result_of(number)] = mark(results[result_of(number)])
    files.target.write_bytes(joined(results[:written]))
    files.leave(results, numbers)
    process = files.run()
    assert process.returncode == 1 and "1 line failed" in process.stderr
    assert "ran again" not in process.stderr
    assert files.target.read_bytes() == joined(results)
    assert not files.waiting.exists()


def test_a_result_of_a_line_that_changed_is_not_taken(done):
    files, results = done
    for number in (10, 12):
        results[result_of(number)] = mark(results[result_of(number)])
    files.target.write_bytes(joined(results[:5]))
    files.leave(results, [10, 12])
    lines = files.source.read_text().splitlines()
    lines[9] = lines[9].replace("Once", "Twice")
    files.source.write_text("".join(line + "\n" for line in lines))
    process = files.run()
    assert f"1 finished line in {files.waiting} ran again: the input has changed there" in process.stderr
    now = files.target.read_bytes().splitlines()
    assert [i for i, line in enumerate(now) if line != results[i]] == [result_of(10)]
    assert b"marked" not in now[result_of(10)]


def test_results_of_another_model_are_refused(done, pipeline):
    files, results = done
    files.target.write_bytes(b"")
    files.leave(results, [2, 12])
    before = files.waiting.read_bytes()
    files.args = (pipeline(path="DEMO-draft"),)
    process = files.run()
    assert process.returncode == 1
    assert f"{files.waiting}: has results of system_fingerprint mortise-" in process.stderr
    assert files.waiting.read_bytes() == before and files.target.read_bytes() == b""


def test_results_of_another_run_than_the_output_are_run_again(tmp_path):
    files = WaitingFiles(tmp_path, "batch", batch_lines(max_tokens=4))
    files.run()
    results = files.target.read_bytes().splitlines()
    files.target.write_bytes(joined(results[:5]))
    files.leave([mark(result) for result in results], [10, 12], created=1234567890)
    process = files.run()
    assert f"the finished lines in {files.waiting} ran again: they do not belong to the run that made the output" in process.stderr
    assert files.target.read_bytes() == joined(results)


def test_when_nothing_is_written_yet_the_waiting_results_say_when_the_run_began(tmp_path):
    files = WaitingFiles(tmp_path, "batch", batch_lines(max_tokens=4))
    files.run()
    results = files.target.read_bytes().splitlines()
    created = int(files.source.stat().st_mtime)
    then = [line.replace(f'"created":{created}'.encode(), b'"created":1234567890') for line in results]
    files.target.unlink()
    files.leave(then, [10, 12], created=1234567890)
    files.run()
    assert files.target.read_bytes() == joined(then)


def test_overwrite_discards_them(done):
    files, results = done
    files.target.write_bytes(joined(results[:5]))
    files.leave([mark(result) for result in results], [10, 12])
    assert files.run("--overwrite").returncode == 1
    assert files.target.read_bytes() == joined(results) and not files.waiting.exists()


def test_a_finished_file_needs_none(done):
    files, results = done
    files.leave(results, [23, 24])  # the kill came between the last line and the removal
    assert "every line was done before" in files.run().stderr
    assert files.target.read_bytes() == joined(results) and not files.waiting.exists()


@pytest.mark.parametrize("content", [b"my notes\n", b"{}\n", b'{"mortise_waiting":1,"command":"tokenize"}\n'])
def test_a_file_that_is_something_else_is_left_alone(content, done):
    files, results = done
    files.target.write_bytes(joined(results[:5]))
    files.waiting.write_bytes(content)
    process = files.run()
    assert process.returncode == 1 and f"mortise: {files.waiting}: " in process.stderr
    assert files.waiting.read_bytes() == content and files.target.read_bytes() == joined(results[:5])


NUM_LINES = 40


@pytest.fixture
def uneven(tmp_path, pipeline):
    """The first line takes so long that all others wait for it."""
    lines = []
    for i in range(NUM_LINES):
        body = {"prompt": [100 + i, 50, 60], "max_tokens": 1800 if i == 0 else 12, "temperature": 0.8, "ignore_eos": True}
        lines.append(json.dumps({"custom_id": f"r{i}", "url": "/v1/completions", "body": body}))
    return WaitingFiles(tmp_path, "batch", lines, pipeline(scheduler="max_num_seqs = 4"))


@pytest.fixture
def uneven_whole(uneven):
    assert uneven.run().returncode == 0
    whole = uneven.target.read_bytes()
    uneven.target.unlink()
    return whole


def finished(files):
    kept = set(files.kept())  # first: a line goes from there to the output
    written = files.target.read_bytes().count(b"\n") if files.target.exists() else 0
    return set(range(1, written + 1)) | kept


def recorded_lines(log):
    return [json.loads(line)["prompt"][0] - 99 for line in log.read_text().splitlines()[1:]]


def test_kill_9_loses_no_finished_line_and_none_runs_twice(uneven, uneven_whole, tmp_path):
    before, kills = set(), 0
    for count in (3, 11, 24):
        process = uneven.start()
        while process.poll() is None and len(uneven.kept()) < count:
            time.sleep(0.002)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        process.stderr.close()
        assert before <= finished(uneven)
        before = finished(uneven)
    assert kills == 3 and len(before) >= 24
    log = tmp_path / "requests.log"
    assert uneven.run("--record", log).returncode == 0
    assert uneven.target.read_bytes() == uneven_whole and not uneven.waiting.exists()
    assert sorted(recorded_lines(log)) == sorted(set(range(1, NUM_LINES + 1)) - before)


def test_kill_9_at_any_moment(uneven, uneven_whole):
    random.seed(11)
    began = time.monotonic()
    process = uneven.start()
    while process.poll() is None and not uneven.kept():
        time.sleep(0.002)
    start_s = time.monotonic() - began
    for _ in range(6):
        if process.poll() is None:
            time.sleep(random.random() * 0.2 * start_s)
            process.kill()
        process.communicate()
        before = finished(uneven)
        process = uneven.start()
        time.sleep(random.random() * start_s)
        assert before <= finished(uneven)
    process.kill()
    process.communicate()
    assert uneven.run().returncode == 0
    assert uneven.target.read_bytes() == uneven_whole and not uneven.waiting.exists()


def test_ctrl_c_keeps_them_too(uneven, uneven_whole):
    process = uneven.start()
    while process.poll() is None and len(uneven.kept()) < 5:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130 and "run the same command again to continue" in errors
    assert len(uneven.kept()) >= 5
    assert uneven.run().returncode == 0
    assert uneven.target.read_bytes() == uneven_whole


def test_standard_output_has_none(uneven, uneven_whole, mortise, tmp_path):
    process = mortise(*uneven.argv()[1:-1], "-", cwd=str(tmp_path))
    assert process.stdout.encode() == uneven_whole
    assert not list(tmp_path.glob("*.waiting"))
