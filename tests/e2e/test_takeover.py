"""A new mortise serve takes over from one that serves: nothing is refused, no stream is lost."""
# Covers: runtime/cli/{serve,service_manager} runtime/server/{takeover,takeover_offer}
import asyncio
import collections
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

import msgpack
import pytest

import serve_load
from conftest import MORTISE, run_mortise
from live_server import LiveServer, events
from test_kv_events import Follower, complete, story

LONG = {"prompt": "Once upon a time", "max_tokens": 1200, "ignore_eos": True, "temperature": 0.9, "seed": 11,
        "stream": True}


class Servers:
    """Servers of one test, each with a log of its own, at one takeover socket."""

    def __init__(self, folder):
        self.folder, self.path, self.all = folder, folder / "takeover", []

    def start(self, *args, env=None):
        log = open(self.folder / f"log{len(self.all)}", "w+")
        server = LiveServer("--takeover-socket", self.path, *args, env=env, log=log)
        server.log = log
        self.all.append(server)
        return server

    def take_over(self, *args, env=None):
        return self.start("--takeover", *args, env=env)


@pytest.fixture
def servers(tmp_path):
    started = Servers(tmp_path)
    yield started
    for server in started.all:
        server.process.kill()
        server.process.communicate()
        server.log.close()


def log_of(server):
    server.log.seek(0)
    return server.log.read()


def event_in_log(server, name):
    found = [json.loads(line.split(": ", 2)[2]) for line in log_of(server).splitlines() if '"event":' in line]
    return next(event for event in found if event["event"] == name)


def whole_answer(server, body, headers=None):
    status, _, text = server.ask("POST", "/v1/completions", body, headers)
    assert status == 200, text
    return text


def ask_broken(server, body, headers=None):
    """(body as far as it came, whether it was whole) of a stream; the server may end meanwhile."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/completions", json.dumps(body), headers or {})
        response = connection.getresponse()
        assert response.status == 200
        try:
            return response.read().decode(), True
        except http.client.IncompleteRead as broken:
            return broken.partial.decode(), False


def in_background(work, *args):
    """A function that waits for the result of work(*args)."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work(*args)))
    thread.start()

    def wait():
        thread.join()
        return results[0]
    wait.is_running = thread.is_alive
    return wait


def wait_until_running(server, count=1):
    while server.get("/status")["models"][0]["running"] < count:
        time.sleep(0.01)


class Load:
    """Clients of one port: some stream and go on where a stream broke, some open a connection for each short request."""

    def __init__(self, port, num_streams=64, num_openers=4, distinct=8, most_tokens=300):
        self.port, self.num_streams, self.num_openers = port, num_streams, num_openers
        self.distinct, self.most_tokens = distinct, most_tokens
        self.stops, self.got, self.short = False, collections.defaultdict(set), set()
        self.num_breaks = self.num_unavailable = self.num_short = 0
        self.begun = set()  # streaming clients whose first answer has come
        self.wait = in_background(asyncio.run, self.run())

    async def run(self):
        await asyncio.gather(*(self.stream_client(number) for number in range(self.num_streams)),
                             *(self.opener() for _ in range(self.num_openers)))

    async def stream_client(self, number):
        for turn in range(1000):
            if self.stops:
                return
            index = (number + turn) % self.distinct
            self.got[index].add(serve_load.answer_of(await self.stream(index, with_tokens=number % 2 == 1)))
            self.begun.add(number)

    async def stream(self, index, with_tokens):
        body = {**serve_load.request(index, self.most_tokens), "stream": True, "return_token_ids": with_tokens}
        headers, kept = {}, ""
        while True:
            status, text, whole = await serve_load.post(self.port, body, headers)
            if status == 503:  # its body came when the deadline was over
                self.num_unavailable += 1
                continue
            assert status == 200, text
            kept += text
            if whole:
                return kept
            self.num_breaks += 1
            found = [event for event in events(kept) if event[0]]
            if found:
                headers = {"Last-Event-ID": found[-1][0]}
                if with_tokens:
                    body["resume_token_ids"] = [t for _, data in found for t in data["choices"][0]["token_ids"]]

    async def opener(self):
        body = {"prompt": "The dog", "max_tokens": 2, "temperature": 0}
        while not self.stops:
            status, text, _ = await serve_load.post(self.port, body)
            if status == 503:
                self.num_unavailable += 1
                continue
            assert status == 200, text
            self.num_short += 1
            self.short.add(json.loads(text)["choices"][0]["text"])

    def wait_for_answers(self):
        """Until each streaming client has had one more answer."""
        self.begun.clear()
        while len(self.begun) < self.num_streams:
            assert self.wait.is_running(), "a client has failed"
            time.sleep(0.01)


def test_takeovers_under_64_streams(servers):
    first = servers.start("--drain-seconds", 0)  # every stream that runs at the takeover is cut
    load = Load(first.port)
    wait_until_running(first, 40)
    second = servers.take_over("--drain-seconds", 250)  # the next one finds them all ended
    assert second.port == first.port
    assert first.process.wait(60) == 0
    load.wait_for_answers()
    cuts, unavailable = load.num_breaks, load.num_unavailable
    assert cuts > 0
    third = servers.take_over()
    assert second.process.wait(250) == 0
    load.stops = True
    load.wait()
    assert (load.num_breaks, load.num_unavailable) == (cuts, unavailable)  # more: the second one lost what it had
    assert load.num_short > 0 and len(load.short) == 1
    assert len(load.got) == 8
    serve_load.check(load.got, load.most_tokens)
    shown = json.loads(third.ask("GET", "/admin/events")[2])
    assert third.end()[0] == 0
    assert not servers.path.exists()
    given, taken = event_in_log(second, "handed over"), event_in_log(third, "takeover")
    assert shown == taken
    assert given["to_pid"] == taken["pid"] == third.process.pid
    assert taken["from_pid"] == given["pid"] == second.process.pid
    assert (given["generation"], taken["generation"]) == (2, 3)
    assert taken["duration_ms"] > 0 and taken["address"] == f"127.0.0.1:{third.port}"


def test_a_stream_that_is_cut_ends_as_a_broken_connection(servers):
    whole = serve_load.answer_of(whole_answer(servers.start(), LONG))
    servers.all[0].process.kill()
    first = servers.start("--drain-seconds", 0)  # at the path that the killed one left
    cut = in_background(ask_broken, first, LONG)
    # With n, so that the new process has loaded its model long before they end.
    without_ids = in_background(ask_broken, first, {**LONG, "n": 16, "stream_options": {"include_event_ids": False}})
    answer = in_background(first.ask, "POST", "/v1/completions", {**LONG, "n": 16, "stream": False})
    wait_until_running(first, 33)
    second = servers.take_over()
    assert first.process.wait(60) == 0
    status, headers, text = answer()
    assert status == 503 and json.loads(text)["error"]["code"] == "unavailable" and headers["Connection"] == "close"
    text, is_whole = without_ids()
    assert not is_whole and events(text)[-1][1]["error"]["code"] == "unavailable"  # [DONE]: it looks whole
    text, is_whole = cut()
    found = events(text)
    assert not is_whole and found and all("error" not in data for _, data in found)
    rest = whole_answer(second, LONG, {"Last-Event-ID": found[-1][0]})
    assert serve_load.answer_of(text + rest) == whole


def test_open_connections_are_served_and_end(servers):
    first = servers.start("--header-timeout", 250, "--body-timeout", 250)
    stream = in_background(ask_broken, first, LONG)
    wait_until_running(first)
    with first.connect() as ready, first.connect() as work:
        ready.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n")  # both requests are half sent, so neither connection is idle
        body = b'{"prompt": "The dog", "max_tokens": 2}'
        work.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % len(body))
        second = servers.take_over()
        ready.sendall(b"\r\n")
        work.sendall(body[1:])
        for connection, statuses in ((ready, (503,)), (work, (200, 503))):  # 503: on a machine that slept meanwhile
            answer = b""
            while part := connection.recv(65536):
                answer += part
            assert int(answer.split()[1]) in statuses and b"Connection: close" in answer, answer
        assert second.ask("GET", "/ready")[0] == 200
    text, is_whole = stream()
    assert is_whole and events(text)[-1][1] == "[DONE]"
    assert first.process.wait(60) == 0


def test_a_new_process_that_fails_changes_nothing(servers, script):
    first = servers.start()
    args = ["serve", "--takeover", "--takeover-socket", servers.path]
    failures = {
        "syntax": [*args, "--port", 0, script("return pipeline {")],
        "no/such/model": [*args, "--port", 0, script("return pipeline { device = cpu {}, model = llama { path = "
                                                     "'no/such/model' }, attention = paged {}, scheduler = fcfs {} }",
                                                     "model.lua")],
        "--host and --port say 127.0.0.1:1;": [*args, "--port", 1],
        "no such file": [*args, "--port", 0, "--tls-certificate", "missing", "--tls-key", "missing"],
        "a server listens there": ["serve", "--port", 0, "--takeover-socket", servers.path],
        "cannot check whether the socket exists": ["serve", "--port", 0, "--takeover-socket", f"{servers.path}/below"],
        "--takeover requires --takeover-socket": ["serve", "--takeover"],
    }
    for message, command in failures.items():
        process = run_mortise(*command)
        assert process.returncode in (1, 2) and process.stdout == "", command
        if message not in ("syntax", "no such file"):  # others' words
            assert message in process.stderr, process.stderr
        assert first.ask("GET", "/ready")[0] == 200
    second = servers.take_over()
    assert first.process.wait(60) == 0
    assert second.ask("GET", "/ready")[0] == 200


def test_a_new_process_that_dies_changes_nothing(servers):
    first = servers.start()
    command = [MORTISE, "serve", "--port", "0", "--takeover", "--takeover-socket", str(servers.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as loading:
        loading.kill()
    # With the socket in its hands, at the last moment before it serves.
    for kills in (0, 1):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(str(servers.path))
            request = {"takeover": [1], "step": "request", "pid": os.getpid(), "version": "test"}
            peer.send(json.dumps(request).encode())
            offer, descriptors, _, _ = socket.recv_fds(peer, 4096, 2)
            assert json.loads(offer)["pid"] == first.process.pid
            os.close(descriptors[1])
            with socket.socket(fileno=descriptors[0]) as listener:
                assert listener.getsockname()[1] == first.port
                if kills:
                    peer.send(b'{"step": "nonsense"}')
        assert first.ask("GET", "/ready")[0] == 200
    second = servers.take_over()
    assert first.process.wait(60) == 0
    assert "ended before it served" in log_of(first)
    assert second.post("/v1/completions", {"prompt": "x", "max_tokens": 1})


def test_an_old_process_that_serves_on_ends_the_new_one(servers):
    with (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as old, socket.create_server(("127.0.0.1", 0)) as tcp):
        old.bind(str(servers.path))
        old.listen()
        command = [MORTISE, "serve", "--port", "0", "--takeover", "--takeover-socket", str(servers.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as new:
            with old.accept()[0] as peer:
                assert json.loads(peer.recv(4096))["step"] == "request"
                offer = {"takeover": 1, "step": "offer", "pid": os.getpid(), "version": "test", "generation": 1}
                socket.send_fds(peer, [json.dumps(offer).encode()], [tcp.fileno(), old.fileno()])
                assert json.loads(peer.recv(4096))["step"] == "serving"
                connection = http.client.HTTPConnection("127.0.0.1", tcp.getsockname()[1], timeout=60)
                with contextlib.closing(connection):
                    connection.request("GET", "/ready")
                    assert connection.getresponse().status == 200  # it says so, and it is true
                peer.send(b'{"step": "refusal", "reason": "too late"}')
                output, errors = new.communicate()
        assert new.returncode == 1 and output == ""
        assert f"process {os.getpid()} continues to serve: too late" in errors
        assert servers.path.exists()


def test_without_anybody_to_take_over_from_it_listens_by_itself(servers):
    first = servers.take_over()
    assert "no server runs at" in log_of(first) and first.ask("GET", "/ready")[0] == 200
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = servers.take_over()  # the file is there, and nobody behind it
    third = servers.take_over()
    assert second.process.wait(60) == 0 and third.ask("GET", "/ready")[0] == 200


def test_keys_are_those_of_the_process_that_answers(servers):
    servers.start(env={"MORTISE_API_KEY": "old"})
    second = servers.take_over(env={"MORTISE_API_KEY": "new"})
    for key, status in (("old", 401), ("new", 200)):
        assert second.ask("GET", "/v1/models", headers={"Authorization": "Bearer " + key})[0] == status


def test_the_service_manager_hears_when_a_process_serves(servers):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(servers.folder / "notify"))
        manager.settimeout(60)
        for start in (servers.start, servers.take_over):
            start(env={"NOTIFY_SOCKET": str(servers.folder / "notify")})
            assert manager.recv(100) == b"READY=1"


def test_a_signal_while_the_old_process_drains(servers):
    first = servers.start("--drain-seconds", 1000)
    stream = in_background(ask_broken, first, LONG)
    wait_until_running(first)
    servers.take_over()
    first.process.send_signal(signal.SIGTERM)  # it drains already
    text, is_whole = stream()
    assert is_whole and events(text)[-1][1] == "[DONE]"
    assert first.process.wait(60) == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_kv_events_go_on_at_the_same_ports(servers):
    endpoints = ["--kv-events", f"tcp://127.0.0.1:{free_port()}", "--kv-events-replay", f"tcp://127.0.0.1:{free_port()}"]
    first = servers.start(*endpoints)
    complete(first, story(0))
    follower = Follower(first).catch_up()
    old_blocks = dict(follower.blocks)
    assert old_blocks
    stream = in_background(ask_broken, first, LONG)  # the old process lives on when the new one publishes
    wait_until_running(first)
    second = servers.take_over(*endpoints)
    assert "KV events at" in log_of(second) and "no KV events" not in log_of(second)
    complete(second, story(1))
    known = Follower(second).catch_up().blocks
    assert known and not set(known) & set(old_blocks)
    while follower.blocks != known:  # the reader that was there before reconnects by itself, and is told everything
        _, number, payload = follower.subscriber.recv_multipart()
        follower.next = min(follower.next, int.from_bytes(number, "big"))  # numbers begin anew with the process
        follower.apply(int.from_bytes(number, "big"), msgpack.unpackb(payload))
    assert stream()[1]
    assert first.process.wait(60) == 0

