"""A running `mortise serve`, and clients for it that need no library."""
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from conftest import MORTISE


class LiveServer:
    """`log`: a file for what it logs, which a server that logs much needs: nobody reads the pipe before the end."""

    def __init__(self, *args, env=None, log=None):
        self.process = subprocess.Popen([MORTISE, "serve", "--port", "0", *map(str, args)], stdout=subprocess.PIPE,
                                        stderr=log or subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            said = self.process.communicate()[1]
            if log and log.readable():
                log.seek(0)
                said = log.read()
            raise RuntimeError(said)
        self.port = int(self.url.rsplit(":", 1)[1])

    def end(self, with_signal=signal.SIGTERM):
        """(exit code, what it logged)"""
        self.process.send_signal(with_signal)
        _, log = self.process.communicate(timeout=60)
        return self.process.returncode, log

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        if not self.url.startswith("https"):
            return plain
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body as text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
            connection.request(method, path, body=text, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()

    def post(self, path, body, headers=None):
        """The answer of a request that works."""
        status, _, text = self.ask("POST", path, body, headers)
        assert status == 200, text
        return json.loads(text)

    def get(self, path):
        status, _, text = self.ask("GET", path)
        assert status == 200, text
        return json.loads(text)

    def send_raw(self, data, end=False):
        """All that comes back until the server closes; `end`: the client says that nothing more will come."""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                if end:
                    connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            except (ConnectionResetError, BrokenPipeError):
                pass
            return answer


@contextlib.contextmanager
def live_server(*args, env=None):
    with tempfile.TemporaryFile("w+") as log:
        server = LiveServer(*args, env=env, log=log)
        try:
            yield server
            code, _ = server.end()
            log.seek(0)
            assert code == 0, log.read()
        finally:
            server.process.kill()
            server.process.communicate()


def wait_until_idle(server):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        model = server.get("/status")["models"][0]
        if model["running"] + model["waiting"] == 0:
            return
        time.sleep(0.02)
    raise AssertionError(f"still running: {model}")


def events(text):
    """(id, data) of each server-sent event, data as JSON but for [DONE]."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        fields = dict(line.split(": ", 1) for line in lines)
        data = fields["data"]
        found.append((fields.get("id"), data if data == "[DONE]" else json.loads(data)))
    return found
