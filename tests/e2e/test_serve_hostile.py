"""Clients that mean harm, or are broken: each gets the right status, and the server serves the next one."""
# Covers: runtime/server/{connection,http,peer_watch,router,tls,transport}
import json
import re
import socket
import subprocess
import time

import pytest

from live_server import live_server, wait_until_idle


@pytest.fixture(scope="module")
def server():
    with live_server("--header-timeout", 1, "--body-timeout", 1, "--idle-timeout", 2) as running:
        yield running
        assert running.ask("GET", "/health")[0] == 200
        model = running.get("/status")["models"][0]
        assert model["running"] == model["waiting"] == 0


def post(body, head="", version="1.1"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST /v1/completions HTTP/{version}\r\nHost: x\r\nContent-Length: {len(data)}\r\n{head}\r\n").encode() + data


def statuses(answer):
    return [int(status) for status in re.findall(rb"HTTP/1\.\d (\d+) ", answer)]


CLOSE = "Connection: close\r\n"
SMALL = {"prompt": "x", "max_tokens": 2}


@pytest.mark.parametrize("data, expected", [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 no TLS here\r\n\r\n", 400),
    (b"GET\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\n\r\n", 400),
    (b"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
    (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", 431),
    (b"GET /health HTTP/1.1\r\nX-Request-Id: \x01\xff\r\nConnection: close\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"DELETE /v1/completions HTTP/1.1\r\nConnection: close\r\n\r\n", 405),
    (b"GET /../etc/passwd HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
])
def test_what_is_no_request(server, data, expected):
    assert statuses(server.send_raw(data)) == [expected]


@pytest.mark.parametrize("body, expected", [
    (b"", 400),
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b'{"prompt": "\xff\xfe"}', 400),
    (b"[" * 1_000_000, 400),
    (b"[" * 99 + b"]" * 99, 400),
    (b'{"prompt": "x", "max_tokens": 2, "y": ' + b"[" * 90 + b"]" * 90 + b"}", 200),
    (b'"text"', 400),
    (b"null", 400),
    (b'{"prompt": "\\u0000\\ud800"}', 400),
])
def test_what_is_no_body(server, body, expected):
    assert statuses(server.send_raw(post(body, CLOSE))) == [expected]


def test_a_body_of_100_mb():
    with live_server() as server:  # whose time-outs are long: the machine may be busy
        answer = server.send_raw(post(b"x" * 100_000_000))
        assert statuses(answer) == [413] and b"--max-body" in answer
        head = b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert statuses(server.send_raw(head + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 100)) == [413]


def test_slow_clients(server):
    begun = time.monotonic()
    assert statuses(server.send_raw(b"GET /health HT")) == [408]
    assert statuses(server.send_raw(post(SMALL)[:-3])) == [408]
    assert server.send_raw(b"") == b""
    assert time.monotonic() - begun < 30


def test_a_header_a_second(server):
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        answer = b""
        connection.settimeout(0.3)
        for _ in range(20):
            try:
                connection.sendall(b"X: y\r\n")
                answer = connection.recv(4096)
                break
            except TimeoutError:
                continue
        assert statuses(answer) == [408]


def test_half_closed(server):
    assert statuses(server.send_raw(post(SMALL), end=True))[-1] == 200
    long = {"prompt": "x", "max_tokens": 300, "ignore_eos": True}
    assert statuses(server.send_raw(post(long), end=True))[-1] == 200
    answer = server.send_raw(post({**long, "stream": True}), end=True)
    assert statuses(answer)[-1] == 200 and b"data: [DONE]" in answer


def test_pipelined(server):
    answer = server.send_raw(post(SMALL) + b"GET /health HTTP/1.1\r\n\r\n" + post(SMALL, CLOSE))
    assert statuses(answer) == [200, 200, 200]


def test_http_1_0(server):
    answer = server.send_raw(post({**SMALL, "stream": True}, version="1.0"))
    assert statuses(answer) == [200] and answer.endswith(b"data: [DONE]\n\n") and b"chunked" not in answer
    assert statuses(server.send_raw(b"GET /health HTTP/1.0\r\n\r\n")) == [200]


def test_expect(server):
    answer = server.send_raw(post(SMALL, CLOSE + "Expect: 100-continue\r\n"))
    assert statuses(answer) == [100, 200]


def test_head(server):
    answer = server.send_raw(b"HEAD /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert statuses(answer) == [200] and answer.endswith(b"\r\n\r\n")


def state_of(server):
    """(sequences that run, tokens generated since the start)"""
    model = server.get("/status")["models"][0]
    return model["running"], model["generated_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_go_away(server, stream):
    before = state_of(server)[1]
    body = post({"prompt": "x", "max_tokens": 1900, "ignore_eos": True, "stream": stream})
    for _ in range(20):
        with server.connect() as connection:
            connection.sendall(body)
    clients = [server.connect() for _ in range(20)]
    for client in clients:
        client.sendall(body)
    while state_of(server)[0] < 20:
        time.sleep(0.01)
    for client in clients:
        client.close()
    wait_until_idle(server)
    assert state_of(server)[1] - before < 20 * 1900 / 2  # 40 * 1900: they run to their ends for nobody


def test_a_reader_that_takes_nothing_stalls_nobody(server):
    """Its answer of 5 MB is made to the end, of which the connection holds a part. Others are served while the rest waits."""
    body = {"prompt": "x", "max_tokens": 1900, "ignore_eos": True, "stream": True, "logprobs": 20, "n": 4}
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        before = state_of(server)[1]
        slow.sendall(post(body))
        while (state := state_of(server))[0] > 0 or state[1] - before < 4 * 1900:
            assert server.ask("POST", "/v1/completions", SMALL)[0] == 200
            time.sleep(0.05)
        assert server.ask("POST", "/v1/completions", SMALL)[0] == 200


def test_too_many_connections():
    with live_server("--max-connections", 3) as running:
        kept = [running.connect() for _ in range(3)]
        time.sleep(0.2)
        refused = running.send_raw(b"GET /health HTTP/1.1\r\n\r\n")
        assert statuses(refused) == [503] and b"the server has too many connections; try again later" in refused
        for connection in kept:
            connection.close()
        time.sleep(0.2)
        assert running.ask("GET", "/health")[0] == 200


def make_certificate(folder):
    """(certificate, key)"""
    folder.mkdir(exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    return certificate, key


def test_tls(tmp_path):
    certificate, key = make_certificate(tmp_path)
    with live_server("--tls-certificate", certificate, "--tls-key", key) as running:
        assert statuses(running.send_raw(post(SMALL, CLOSE))) == [200]
        streamed = running.send_raw(post({**SMALL, "stream": True}, CLOSE))
        assert statuses(streamed) == [200] and b"[DONE]" in streamed
        with socket.create_connection(("127.0.0.1", running.port)) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            answer = b"".join(iter(lambda: plain.recv(65536), b""))
        assert statuses(answer) == [400] and b"plain HTTP was sent to an HTTPS port: ask for https://" in answer
        for junk in (b"\x00" * 50, b"\x16\x03", b"x"):
            with socket.create_connection(("127.0.0.1", running.port)) as plain:
                plain.sendall(junk)
        assert statuses(running.send_raw(post(SMALL, CLOSE))) == [200]


@pytest.mark.parametrize("arguments, text", [
    (["--host", "no.such.host.invalid"], "no address was found"),
    (["--tls-certificate", "/nowhere", "--tls-key", "/nowhere"], "no certificate chain"),
    (["--tls-certificate", "CERTIFICATE", "--tls-key", "/nowhere"], "no private key of"),
    (["--tls-certificate", "CERTIFICATE", "--tls-key", "OTHER_KEY"], "key values mismatch"),
    (["--tls-certificate", "/nowhere"], "--tls-key"),
    (["--api-key-file", "/nowhere"], "the file of API keys cannot be read"),
])
def test_wrong_options(mortise, tmp_path, arguments, text):
    files = {"CERTIFICATE": make_certificate(tmp_path)[0], "OTHER_KEY": make_certificate(tmp_path / "other")[1]}
    done = mortise("serve", "--port", "0", *[files.get(argument, argument) for argument in arguments])
    assert done.returncode != 0 and text in done.stderr


def test_wrong_key_files(mortise, tmp_path):
    keys = tmp_path / "keys"
    for content, text in [("", "it has no API key"), ("a b\n", "keys:1: an API key must be printable ASCII")]:
        keys.write_text(content)
        assert text in mortise("serve", "--port", "0", "--api-key-file", keys).stderr


def test_a_port_that_is_taken(server, mortise):
    done = mortise("serve", "--port", server.port)
    assert done.returncode == 1 and "choose another --port" in done.stderr
