"""What a server takes and for how long: codings, bodies, time-outs, origins, bodies of many prompts, several models' tokenizers."""
# Covers: runtime/server/{body_room,connection,cors,options}
import json
import shutil
import signal
import socket
import threading
import time

import pytest

from conftest import SOURCE
from live_server import LiveServer, events, live_server
from test_serve_hostile import CLOSE, SMALL, post, statuses

NEXT = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def server():
    with live_server("--body-timeout", 1, "--header-timeout", 1) as running:
        yield running


@pytest.mark.parametrize("head", [
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])
def test_nothing_is_smuggled_behind_another_coding(server, head):
    answer = server.send_raw(head + NEXT)
    assert statuses(answer) == [400]  # two: the next request was taken for one of this client's
    assert b"is not supported; send chunked over HTTP/1.1" in answer


def test_a_compressed_body_is_status_415(server):
    status, _, text = server.ask("POST", "/v1/completions", SMALL, {"Content-Encoding": "gzip"})
    assert status == 415 and "is not supported; send the body uncompressed" in text


def test_a_url_with_its_host(server):
    assert statuses(server.send_raw(NEXT.replace(b"/version", b"http://x/version"))) == [200]
    assert statuses(server.send_raw(NEXT.replace(b"/version", b"http://x"))) == [404]


def test_bodies_of_requests_that_have_none_take_no_memory(server):
    head = b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 33554432\r\n\r\n"
    waiting = [server.connect() for _ in range(20)]
    for connection in waiting:
        connection.sendall(head)
    body = {"prompt": "x", "max_tokens": 1, "user": "y" * 100_000}
    assert server.ask("POST", "/v1/completions", body)[0] == 200
    assert all(statuses(connection.recv(100)) == [413] for connection in waiting)
    for connection in waiting:
        connection.close()
    _, _, text = server.ask("GET", "/health", body="x")
    assert "GET of '/health' must have no body" in text


def test_many_small_chunked_bodies_have_room(server):
    """Each was once counted as the largest that is allowed."""
    begun = [server.connect() for _ in range(40)]
    for connection in begun:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"p\r\n")
    data = json.dumps(SMALL).encode()
    assert statuses(server.send_raw(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        + f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")) == [200]
    for connection in begun:
        connection.close()


@pytest.mark.parametrize("silent_after", [0.3, 0.9, 1.0, 1.1, 1.4])
def test_a_body_that_trickles_and_stops_is_given_up(server, silent_after):
    with server.connect() as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        end = time.monotonic() + silent_after
        try:
            while time.monotonic() < end:
                connection.sendall(b"x" * 100)
                time.sleep(0.001)
        except OSError:
            pass
        connection.settimeout(20)
        assert statuses(connection.recv(1000)) == [408]


def test_a_slow_reader_that_reads_gets_all():
    """--write-timeout is about a client that takes nothing, not about one that takes long."""
    with live_server("--write-timeout", 1) as running:
        tokens = running.post("/tokenize", {"prompt": "a b c d e f g h " * 60})["tokens"]
        body = {"prompt": [tokens] * 24, "max_tokens": 0, "echo": True, "logprobs": 5, "return_tokens_as_token_ids": True}
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            slow.connect(("127.0.0.1", running.port))
            slow.sendall(post(body, CLOSE))
            slow.settimeout(30)
            answer = b""
            while part := slow.recv(8192):  # a million bytes take longer than the time-out, by the pauses alone
                answer += part
                time.sleep(0.012)
        head, _, text = answer.partition(b"\r\n\r\n")
        assert len(json.loads(text)["choices"]) == 24
        assert len(text) > 1_000_000  # less would have had no time to be cut off


def test_a_body_of_more_prompts_than_may_wait_runs():
    with live_server("--max-waiting", 4) as running:
        body = {"prompt": ["x"] * 64, "max_tokens": 1}
        assert len(running.post("/v1/completions", body)["choices"]) == 64
        status, _, text = running.ask("POST", "/v1/completions", {**body, "stream": True})
        assert status == 200 and len({data["choices"][0]["index"] for _, data in events(text)[:-1]}) == 64


@pytest.mark.parametrize("option", ["--idle-timeout", "--header-timeout", "--body-timeout", "--write-timeout"])
def test_no_time_at_all_is_refused(mortise, option):
    done = mortise("serve", "--port", "0", option, "0")
    assert done.returncode == 2 and option in done.stderr


def test_as_many_bytes_of_headers_as_the_option_says(mortise):
    with live_server("--max-header", "60KiB") as running:
        assert running.ask("GET", "/health", headers={"X-Long": "y" * 55_000})[0] == 200
        assert running.ask("GET", "/health", headers={"X-Long": "y" * 62_000})[0] == 431
    done = mortise("serve", "--port", "0", "--max-header", "200KiB")
    assert done.returncode == 2 and "--max-header" in done.stderr


def test_pages_of_other_origins_may_not_ask_a_server_without_keys(server):
    def ask(running, origin, **headers):
        return running.ask("POST", "/v1/completions", SMALL, {"Origin": origin, **headers})

    status, _, text = ask(server, "http://rebound.example:8000")
    assert status == 403 and "start it with --cors ORIGIN" in text
    for origin in ("http://localhost:3000", "http://127.0.0.1:8000", "http://[::1]:8000"):
        assert ask(server, origin)[0] == 200
    with live_server("--cors", "https://page.example", env={"MORTISE_API_KEY": "k"}) as running:
        assert ask(running, "https://page.example", Authorization="Bearer k")[0] == 200
        assert ask(running, "https://other.example", Authorization="Bearer k")[0] == 200  # it has the key


def test_a_key_that_no_header_could_bear_is_refused(mortise):
    done = mortise("serve", "--port", "0", env={"MORTISE_API_KEY": "a b"})
    assert done.returncode != 0 and "MORTISE_API_KEY: an API key must be printable ASCII" in done.stderr


def test_tokens_that_do_not_exist(server):
    status, _, text = server.ask("POST", "/detokenize", {"tokens": [1, 999_999_999]})
    assert status == 400 and "tokens: the model has no token 999999999" in text


def test_each_models_tokenizer(tmp_path):
    shutil.copytree(SOURCE / "models/demo", tmp_path / "other")
    with live_server(SOURCE / "models/demo", tmp_path / "other") as running:
        status, _, text = running.ask("GET", "/tokenizer_info")
        assert status == 400 and "this server has several models; name one with ?model=NAME" in text
        status, _, text = running.ask("POST", "/v1/completions", {"model": "nobody", "prompt": "x"})
        assert status == 404 and "model 'nobody' is not one of this server's: demo, other" in text
        for model in running.get("/v1/models")["data"]:
            assert running.get("/tokenizer_info?x=1&model=" + model["id"].replace("o", "%6F"))["eos_token"]
        assert running.ask("GET", "/tokenizer_info?model=third")[0] == 404


def test_the_end_waits_for_answers_that_nobody_takes():
    """Answers that are made when their clients have gone and the server ends find what they need still there."""
    for _ in range(3):
        running = LiveServer("--drain-seconds", 5)
        body = {"prompt": ["Once upon a time"] * 8, "max_tokens": 60, "logprobs": 5, "echo": True}
        connections = [running.connect() for _ in range(8)]
        for connection in connections:
            connection.sendall(post(body))
        while running.get("/status")["models"][0]["running"] == 0:
            time.sleep(0.01)
        ends = [threading.Thread(target=connection.close) for connection in connections]
        for end in ends:
            end.start()
        code, log = running.end(signal.SIGTERM)
        assert code == 0, log
