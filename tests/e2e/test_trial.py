"""A candidate that is bad harms nobody: it is tried in another process first, and one that passes and fails later is
taken out again. Meanwhile clients stream, and none of them notices."""
# Covers: runtime/assembly/previous_parts runtime/cli/trial runtime/trial/{memory_use,order,page,requests,trial,trial_model,trial_process,trial_run}
import http.client
import itertools
import json
import os
import pathlib
import resource
import subprocess
import threading
import time

import pytest
from conftest import BUILD, MORTISE
from live_server import LiveServer, live_server
from test_swap import BODIES, Streams, event_lines, script_file, served, streamed, swap

PLUGINS = BUILD / "tests/e2e/plugins"
BAD = BUILD / "tests/unit/loader/plugins/bad"
LIMIT_S = 3  # of a call into an active part; others have four times as long
ENV = {"MORTISE_CALL_LIMIT": str(LIMIT_S), "MORTISE_PLUGIN_PATH": str(PLUGINS)}
SMALL = {"max_num_seqs": 16, "max_batched_tokens": 256}  # a rogue scheduler cuts no prompt in chunks


@pytest.fixture
def server(tmp_path):
    with live_server(script_file(tmp_path), env=ENV) as running:
        yield running


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with live_server(script_file(tmp_path_factory.mktemp("plain"))) as plain:
        yield [streamed(plain, body) for body in BODIES]


def children(server):
    return [child for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
            for child in (task / "children").read_text().split()]


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


ENDED = "the plugin ended the process with "
CANDIDATES = [
    # kind, file, options, what the refusal says
    ("scheduler", "no_elf", {}, ["no_elf.so: "]),
    ("scheduler", BAD / "no_entry.so", {}, ["is not a mortise plugin: it does not export"]),
    ("scheduler", BAD / "newer_minor.so", {}, ["this mortise accepts"]),
    ("scheduler", PLUGINS / "fatal/rogue_constructor.so", {},
     ["plugin file ", "fatal/rogue_constructor.so: loading (call 1): " + ENDED + "SIGSEGV"]),
    ("scheduler", "rogue", {"in": "create", "does": "crash"}, ["scheduler 'rogue' (rogue.so): create (call 1): " + ENDED + "SIGSEGV"]),
    ("scheduler", "rogue", {"in": "create", "does": "throw"}, ["scheduler 'rogue' (rogue.so): create: an exception crossed the C ABI"]),
    ("scheduler", "rogue", {"in": "create", "does": "wait"}, [f"rogue.so): create (call 1): has not returned in {4 * LIMIT_S} s"]),
    ("scheduler", "rogue", {"in": "plan", "does": "crash"}, ["rogue.so): plan (call 1): " + ENDED + "SIGSEGV"]),
    ("scheduler", "rogue", {"in": "plan", "does": "abort", "after": 6}, ["rogue.so): plan (call 7): " + ENDED + "SIGABRT"]),
    ("scheduler", "rogue", {"in": "plan", "does": "wait", "after": 2}, [f"rogue.so): plan (call 3): has not returned in {LIMIT_S} s"]),
    ("scheduler", "rogue", {"in": "plan", "does": "exit"}, [ENDED + "exit code 1"]),
    ("scheduler", "rogue", {"in": "plan", "does": "end"}, ["plan (call 1): " + ENDED + "exit code 0"]),
    ("scheduler", "rogue", {"in": "plan", "does": "overrun"}, ["rogue.so): plan (call ", ENDED + "SIG", "it said: "]),
    ("scheduler", "rogue", {"in": "plan", "does": "say"}, ["SIGABRT (it said: a rogue has seen something odd)"]),
    ("scheduler", "rogue", {"in": "plan", "does": "spoil", "after": 3, "times": 1}, ["scheduler 'rogue': plan: bad plan: seqs[0] = "]),
    ("scheduler", "rogue", {"in": "events", "does": "unavailable"}, ["scheduler 'rogue': events: what a rogue says (UNAVAILABLE)"]),
    ("scheduler", "rogue", {"in": "destroy", "does": "crash"}, ["rogue.so): destroy (call 1): " + ENDED + "SIGSEGV"]),
    ("proposer", "rogue_proposer", {"in": "propose", "does": "spoil"}, ["proposer 'rogue_proposer': propose: token id -1 is not in the vocabulary"]),
    ("proposer", "rogue_proposer", {"in": "observe", "does": "throw"}, ["proposer 'rogue_proposer': observe: an exception crossed the C ABI"]),
    ("proposer", "rogue_proposer", {"in": "propose", "does": "crash", "after": 1},
     ["proposer 'rogue_proposer' (rogue.so): propose (call 2): " + ENDED + "SIGSEGV"]),
    ("attention", "rogue_attention", {"in": "plan", "does": "internal"}, ["attention 'rogue_attention': plan: what a rogue says (INTERNAL)"]),
    ("attention", "rogue_attention", {"in": "run", "does": "spoil", "after": 20}, ["these parts give different tokens", "log probability"]),
]


def candidate_id(candidate):
    kind, file, options, _ = candidate
    return "-".join([kind, pathlib.Path(file).stem, *map(str, options.values())])


@pytest.fixture(scope="module")
def busy(tmp_path_factory, expected):
    """One server with streams for all candidates. A candidate is judged for up to 12 seconds, so clients may rest for longer."""
    folder = tmp_path_factory.mktemp("busy")
    with live_server(script_file(folder), env=ENV) as running:
        with Streams(running, expected[:3], BODIES[:3], rest_s=1) as streams:
            yield running, streams


@pytest.mark.parametrize("candidate", CANDIDATES, ids=map(candidate_id, CANDIDATES))
def test_a_bad_candidate_is_refused_and_no_stream_notices(busy, tmp_path, candidate):
    server, streams = busy
    kind, file, options, texts = candidate
    if file == "no_elf":
        file = tmp_path / "no_elf.so"
        file.write_text("not at all")
    before = served(server)
    status, _, text = swap(server, kind, str(file), **options)
    message = json.loads(text)["error"]["message"]
    assert status in (400, 409), text
    for part in texts:
        assert part in message, message
    assert served(server) == before and not streams.wrong
    assert children(server) == []
    event = event_lines(server)[-1]
    assert event["event"] == "swap refused" and event["error"] == message


def test_a_candidate_that_takes_all_memory_is_refused(tmp_path):
    """With a longer limit of a call: on a busy machine gigabytes are not written in three seconds."""
    with live_server(script_file(tmp_path), env={**ENV, "MORTISE_CALL_LIMIT": "100"}) as server:
        status, _, text = swap(server, "scheduler", "rogue", **{"in": "plan", "does": "hog"})
        assert status == 400 and "plan (call 1): the trial has used more memory than its limit, " in text and "GiB" in text
        assert children(server) == [] and streamed(server, BODIES[0])[0]


def least_descriptors(server):
    """The server may still be closing the last connection, whose descriptor is then counted for a moment."""
    counts = []
    for _ in range(50):
        counts.append(descriptors(server))
        time.sleep(0.02)
    return min(counts)


def test_a_trial_leaves_nothing_behind(server):
    for _ in range(3):  # what is opened once, for ever, is open by now
        assert swap(server, "scheduler", "prefix_group", **SMALL)[0] == 200
        assert swap(server, "scheduler", "fcfs", **SMALL)[0] == 200
    before = least_descriptors(server)
    for name in ["prefix_group", "fcfs"] * 3:
        assert swap(server, "scheduler", name, **SMALL)[0] == 200
        assert swap(server, "scheduler", "rogue", **{"in": "plan", "does": "crash"})[0] == 400
    assert children(server) == [] and least_descriptors(server) == before


def test_a_server_without_descriptors_refuses_and_goes_on(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    body = json.dumps({"part": "scheduler", "plugin": "fcfs", "options": SMALL})
    said = ""
    # A descriptor of the request before may be closed after it was counted as used, so there are up to five rounds.
    for free in 5 * list(range(6)):
        if "no memory for a trial: " in said and "opening a pipe failed" in said:
            break
        connection.request("GET", "/health")
        connection.getresponse().read()
        # A limit below which exactly so many numbers are free, whatever descriptors are open above it.
        used = set(map(int, os.listdir(f"/proc/{server.process.pid}/fd")))
        limit = next(itertools.islice(filter(lambda number: number not in used, itertools.count()), free, None))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
        connection.request("POST", "/admin/swap", body=body)
        said += connection.getresponse().read().decode()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
    assert "no memory for a trial: " in said
    assert "the parts cannot be tried: opening a pipe failed: Too many open files" in said
    assert streamed(server, BODIES[0])[0]


def hang(server):
    """A thread that asks for a swap whose trial hangs, once that trial runs."""
    answers = []

    def ask():
        try:
            answers.append(swap(server, "scheduler", "rogue", **{"in": "create", "does": "wait"}))
        except http.client.HTTPException:
            pass  # a server that is killed answers nobody

    thread = threading.Thread(target=ask)
    thread.start()
    while not children(server):
        time.sleep(0.01)
    time.sleep(0.3)
    return thread, answers, int(children(server)[0])


def runs(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_that_ends_ends_its_trial(tmp_path):
    server = LiveServer(script_file(tmp_path), env={"MORTISE_PLUGIN_PATH": str(PLUGINS)})
    thread, answers, trial = hang(server)
    begin = time.monotonic()
    code, _ = server.end()
    thread.join()
    assert code == 0 and time.monotonic() - begin < 20 and not runs(trial)
    assert answers[0][0] == 503 and "the trial of these parts was given up; nothing has changed" in answers[0][2]


def test_a_trial_dies_with_its_server_and_has_nothing_of_it(tmp_path):
    server = LiveServer(script_file(tmp_path), env={"MORTISE_PLUGIN_PATH": str(PLUGINS)})
    try:
        thread, _, trial = hang(server)
        links = [os.readlink(f"/proc/{trial}/fd/{fd}") for fd in os.listdir(f"/proc/{trial}/fd")]
        assert not any("socket:" in link for link in links), links
        assert os.getpriority(os.PRIO_PROCESS, trial) == 5 and os.getpgid(trial) == trial
    finally:
        server.process.kill()
        server.process.communicate()
    for _ in range(200):
        if not runs(trial):
            break
        time.sleep(0.02)
    assert not runs(trial)
    thread.join()


def test_a_script_that_is_read_again_is_tried_too(server, tmp_path):
    script, text = tmp_path / "pipeline.lua", (tmp_path / "pipeline.lua").read_text()
    fcfs = "fcfs { max_num_seqs = 16, max_batched_tokens = 256 }"
    script.write_text(text.replace(fcfs, "rogue { ['in'] = 'plan', does = 'crash' }"))
    answer = server.post("/admin/reload", {})
    assert [event["event"] for event in answer["swaps"]] == ["swap refused"]
    assert "rogue.so): plan (call 1): the plugin ended the process with SIGSEGV" in answer["swaps"][0]["error"]
    script.write_text(text.replace(fcfs, f"plugin('{PLUGINS}/fatal/rogue_constructor.so') {{}}"))
    status, _, refusal = server.ask("POST", "/admin/reload", {})
    assert status == 400 and "rogue_constructor.so: loading (call 1): the plugin ended the process with SIGSEGV" in refusal
    script.write_text(text)
    assert server.post("/admin/reload", {}) == {"swaps": []}
    assert streamed(server, BODIES[0])[0]


def test_the_repl_tries_parts_too(mortise):
    process = mortise("run", stdin="/swap scheduler rogue {['in'] = 'plan', does = 'crash'}\nOnce\n", env=ENV)
    assert process.returncode == 1 and process.stdout
    assert "plan (call 1): the plugin ended the process with SIGSEGV; it was tried in a separate process" in process.stderr


def test_the_sub_command_is_for_mortise_alone(mortise):
    process = mortise("trial-of-parts")
    assert process.returncode == 1 and "this sub-command is internal: mortise" in process.stderr
    assert "trial-of-parts" not in mortise("--help").stdout + mortise("trial").stderr


# What passes and fails later.


def wait_for(server, name):
    for _ in range(1000):
        found = [event for event in event_lines(server) if event["event"] == name]
        if found:
            return found[-1]
        time.sleep(0.02)
    raise AssertionError(event_lines(server))


FAILURES = [
    ("scheduler", "rogue", "plan", "throw", {}, "fcfs", "an exception crossed the C ABI: what a rogue says (INTERNAL)"),
    ("scheduler", "rogue", "plan", "spoil", {}, "fcfs", "10 plans could not be used, the last one because of: scheduler 'rogue': bad plan"),
    ("proposer", "rogue_proposer", "propose", "internal", {}, "ngram", "propose: what a rogue says (INTERNAL)"),
    ("proposer", "rogue_proposer", "propose", "spoil", {}, "ngram", "has failed 10 times, the last time in propose: token id -1"),
    ("attention", "rogue_attention", "plan", "throw", {"fallback": True}, "paged", "attention 'rogue_attention'"),
    ("attention", "rogue_attention", "plan", "unavailable", {"fallback": True}, "paged", "what a rogue says (UNAVAILABLE)"),
]


@pytest.mark.parametrize("kind, name, function, does, wishes, former, why", FAILURES,
                         ids=[f"{failure[1]}-{failure[3]}" for failure in FAILURES])
def test_what_fails_later_is_taken_out_again(server, tmp_path, expected, kind, name, function, does, wishes, former, why):
    now = tmp_path / "now"
    before = served(server)
    with Streams(server, expected) as streams:
        body = {"part": kind, "plugin": name, "options": {"in": function, "does": does, "when": str(now)}, **wishes}
        status, _, text = server.ask("POST", "/admin/swap", body)
        assert status == 200, text
        failed = served(server)[kind]
        assert failed["name"] == name
        seen = streams.num_answers
        while streams.num_answers < seen + 3 and not streams.wrong:
            time.sleep(0.01)
        now.touch()
        event = wait_for(server, "fallback")
        seen = streams.num_answers
        while streams.num_answers < seen + 6 and not streams.wrong:
            time.sleep(0.01)
    assert not streams.wrong
    assert why in event["why"] and event["part"] == kind and event["generation"] == 2
    assert [part["hash"] for part in event["failed"]] == [failed["hash"]]
    assert [part["name"] for part in event["serving"]] == [former]
    assert served(server) == before
    assert server.get("/health") == {"status": "ok"}


def test_without_fallback_it_stays_out(server, tmp_path, expected):
    now = tmp_path / "now"
    body = {"part": "scheduler", "plugin": "rogue", "options": {"in": "plan", "when": str(now)}, "fallback": False}
    assert server.post("/admin/swap", body)["generation"] == 1
    now.touch()
    assert streamed(server, BODIES[0]) == expected[0]
    assert served(server)["scheduler"]["name"] == "rogue"
    assert [event["event"] for event in event_lines(server)] == ["swap"]
    status, _, text = server.ask("POST", "/admin/swap", {**body, "fallback": "yes"})
    assert status == 400 and "fallback is " in text and "expected true or false" in text


def test_the_way_back_is_the_part_before_the_last_swap(server, tmp_path, expected):
    now = tmp_path / "now"
    assert swap(server, "scheduler", "prefix_group", **SMALL)[0] == 200
    assert swap(server, "scheduler", "rogue", **{"in": "plan", "when": str(now)})[0] == 200
    assert swap(server, "attention", "cascade", block_size=32)[0] == 200  # another kind changes nothing about it
    now.touch()
    assert streamed(server, BODIES[1]) == expected[1]
    assert wait_for(server, "fallback")["serving"][0]["name"] == "prefix_group"
    assert {role: part["name"] for role, part in served(server).items()}["attention"] == "cascade"


def test_the_repl_warns_of_a_fallback(mortise, tmp_path):
    now = tmp_path / "now"
    options = f"{{['in'] = 'plan', does = 'throw', when = '{now}'}}"
    with subprocess.Popen([MORTISE, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **ENV}) as process:
        process.stdin.write("/set max_tokens 20\n/swap scheduler fcfs {max_batched_tokens = 256}\n"
                            f"/swap scheduler rogue {options}\nOnce upon a time\n")
        process.stdin.flush()
        process.stdout.read(1)  # it serves
        now.touch()
        _, log = process.communicate("Once again\n/swap\n")
    assert process.returncode == 0, log
    assert "what a rogue says (INTERNAL); the previous parts were restored: scheduler 'fcfs'" in log
    assert "scheduler: fcfs" in log


def test_ctl_says_whether_there_is_a_way_back(server, tmp_path, mortise):
    now = tmp_path / "now"
    change = f"{{['in'] = 'plan', when = '{now}'}}"
    made = mortise("ctl", "--url", server.url, "swap", "--fallback", "attention", "rogue_attention", change)
    assert made.returncode == 0, made.stderr
    made = mortise("ctl", "--url", server.url, "swap", "--no-fallback", "scheduler", "rogue", change)
    assert made.returncode == 0, made.stderr
    now.touch()
    assert streamed(server, BODIES[0])[0]
    event = wait_for(server, "fallback")
    assert event["part"] == "attention" and event["serving"][0]["name"] == "paged"
    assert served(server)["scheduler"]["name"] == "rogue"
