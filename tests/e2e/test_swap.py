"""Parts are swapped while a server streams: every answer stays the one of a server whose parts nobody touches."""
# Covers: runtime/assembly/{another_model,part_set,proposer_set} runtime/cli/{ctl,http_client,served_models}
# Covers: runtime/server/{admin_events,admin_routes,models,swaps}
import json
import signal
import socket
import threading
import time

import pytest

from conftest import BUILD, SOURCE
from live_server import LiveServer, events, live_server
from test_serve_hostile import make_certificate

SCRIPT = """
return pipeline {{
  device = cpu {{ threads = 1 }}, model = llama {{ path = "{models}/demo" }},
  attention = paged {{ block_size = {block_size} }},
  scheduler = fcfs {{ max_num_seqs = 16, max_batched_tokens = 256 }},
  kv_cache = {{ memory = "16MiB" }}, proposer = ngram {{}},
}}
"""
BODIES = [{"prompt": f"Once upon a time there was a {animal}", "max_tokens": 60 + 20 * i, "ignore_eos": True, "seed": i,
           "temperature": (0, 0.8, 1.2)[i % 3], "stream": True}
          for i, animal in enumerate(["dog", "cat", "bird", "very old bear", "fish", "frog"])]
LONG = {**BODIES[0], "max_tokens": 1900}


def script_file(folder, block_size=16):
    file = folder / "pipeline.lua"
    file.write_text(SCRIPT.format(models=SOURCE / "models", block_size=block_size))
    return file


@pytest.fixture
def server(tmp_path):
    with live_server(script_file(tmp_path)) as running:
        yield running


def streamed(server, body):
    """(text, system fingerprints) of a streamed completion that ends as it should."""
    status, _, text = server.ask("POST", "/v1/completions", body)
    assert status == 200, text
    chunks = [data for _, data in events(text)]
    assert chunks.pop() == "[DONE]", text[-300:]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    return "".join(chunk["choices"][0]["text"] for chunk in chunks), {chunk["system_fingerprint"] for chunk in chunks}


def swap(server, part, plugin="", **options):
    body = {"part": part, "options": options, **({"plugin": plugin} if plugin else {})}
    return server.ask("POST", "/admin/swap", body)


def served(server):
    return {part["role"]: part for part in server.get("/admin/parts")["models"][0]["parts"]}


def event_lines(server):
    status, _, text = server.ask("GET", "/admin/events")
    assert status == 200
    return [json.loads(line) for line in text.splitlines()]


class Streams:
    """Clients that stream again and again, each its own body, until the end of the block. Between two answers each rests, so
    that the trial of a swap gets processors: it has a lower priority than the server."""

    def __init__(self, server, expected, bodies=tuple(BODIES), rest_s=0.3):
        self.server, self.expected, self.bodies, self.rest_s = server, expected, bodies, rest_s
        self.num_answers, self.wrong, self.ends = 0, [], False
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(len(bodies))]

    def run(self, index):
        while not self.ends or self.num_answers < 2 * len(self.bodies):
            try:
                answer = streamed(self.server, self.bodies[index])
            except Exception as error:  # of any kind: it is what the test is about
                answer = repr(error)
            self.num_answers += 1
            if answer != self.expected[index]:
                self.wrong.append((index, answer))
                return
            time.sleep(self.rest_s)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        for thread in self.threads:
            thread.join()


def test_every_stream_stays_as_it_is_while_parts_are_swapped(server, tmp_path):
    expected = [streamed(server, body) for body in BODIES]
    rebuilt = tmp_path / "again.so"
    rebuilt.write_bytes((BUILD / "llama.so").read_bytes() + b"another build")
    changes = [
        ("scheduler", "prefix_group", dict(max_num_seqs=16, max_batched_tokens=256)),
        ("attention", "cascade", dict(block_size=16)),
        ("proposer", "none", {}),
        ("attention", "paged", dict(block_size=32)),
        ("scheduler", "fcfs", dict(max_num_seqs=3, max_batched_tokens=32)),
        ("proposer", "ngram", dict(max_tokens=3)),
        ("kv_cache", "", dict(memory="8MiB")),
        ("model", str(rebuilt), {}),
        ("proposer", "draft_model", dict(path=str(SOURCE / "models/demo-draft"))),
        ("device", "cpu", dict(threads=2)),
        ("speculation", "", dict(lengths="fixed", batch_expansion=True)),
        ("attention", "cascade", dict(block_size=64)),
        ("kv_cache", "", dict(memory="16MiB", prefix_cache=False)),
        ("scheduler", "fcfs", {}),
        ("attention", "paged", dict(block_size=16)),
        ("proposer", "none", {}),
        ("model", "llama", {}),
        ("device", "cpu", dict(threads=1)),
        ("proposer", "draft_model", dict(path=str(SOURCE / "models/demo-draft"))),
        ("attention", "cascade", dict(block_size=64)),
    ]
    with Streams(server, expected) as streams:
        for part, plugin, options in changes:
            status, _, text = swap(server, part, plugin, **options)
            assert status == 200, (part, plugin, text)
            seen = streams.num_answers
            while streams.num_answers == seen and not streams.wrong:  # some run with these parts before the next come
                time.sleep(0.01)
    assert not streams.wrong
    assert streams.num_answers >= len(changes)
    made = event_lines(server)
    assert [event["generation"] for event in made] == list(range(1, len(changes) + 1))
    assert sum(event["recomputed_sequences"] for event in made) > 0
    assert {role: part["name"] for role, part in served(server).items()} == {
        "device": "cpu", "model": "llama", "attention": "cascade", "scheduler": "fcfs", "proposer": "draft_model"}
    status = server.get("/status")["models"][0]
    assert status["block_size"] == 64 and {"role": "model", "name": "llama"}.items() <= status["parts"][1].items()
    assert status["parts"][1]["file"] == "llama.so"
    _, _, metrics = server.ask("GET", "/metrics")
    assert 'mortise_part_info{model_name="demo",role="attention",name="cascade"' in metrics


def mapped_builds(server, stem):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if f"-{stem}-" in line}


def test_a_rebuilt_file_under_the_same_name_is_the_new_one(server, tmp_path):
    file, builds = tmp_path / "mine.so", [(BUILD / "fcfs.so").read_bytes() + bytes(n) for n in (1, 2)]
    hashes = []
    for build in builds + builds + builds:
        file.unlink(missing_ok=True)
        file.write_bytes(build)
        status, _, text = swap(server, "scheduler", str(file), max_num_seqs=4)
        assert status == 200, text
        hashes.append(served(server)["scheduler"]["hash"])
        assert streamed(server, BODIES[0])[0]
    assert hashes[0] != hashes[1] and hashes == hashes[:2] * 3
    assert len(mapped_builds(server, "mine")) == 2  # as many as there are different files, however often they are swapped


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """One server for all swaps that it refuses, and two clients that always stream a long answer."""
    with live_server(script_file(tmp_path_factory.mktemp("busy"))) as running:
        expected = streamed(running, LONG)
        with Streams(running, [expected] * 2, [LONG] * 2) as streams:
            yield running, streams


@pytest.mark.parametrize("part, plugin, options, status, why", [
    ("scheduler", "fcsf", {}, 400, "did you mean 'fcfs'?"),
    ("scheduler", "fcfs", dict(max_num_seq=3), 400, "did you mean 'max_num_seqs'?"),
    ("scheduler", "paged", {}, 400, "scheduler must be a scheduler, but 'paged' is an attention"),
    ("scheduler", "/nowhere/mine.so", {}, 400, "/nowhere/mine.so: no such file"),
    ("kv_cache", "paged", {}, 400, "kv_cache accepts options only, not a plugin"),
    ("tokenizer", "bpe", {}, 400, "'tokenizer' is not a part of a pipeline that can be swapped"),
    ("kv_cache", "", dict(memory="1KiB"), 400, "holds no block of 16 tokens"),
    ("kv_cache", "", dict(memory="16MiB", dtype="int8"), 409, "these parts would give different tokens"),
    ("kv_cache", "", dict(memory="512KiB"), 409, "which has not ended, could not continue"),
    ("model", "llama", dict(path="/nowhere"), 400, "/nowhere"),
    ("model", "llama", dict(path=str(SOURCE / "models/demo-draft"), dtype="f16"), 400, "dtype"),
    ("model", "gpt2", {}, 400, "gpt2"),
    ("speculation", "", dict(verify="rejection"), 409, "these parts would give different tokens"),
    ("proposer", "draft_model", dict(path="/nowhere"), 400, "/nowhere"),
    ("proposer", "", {}, 400, "the field plugin is missing"),
])
def test_what_cannot_be_swapped_is_refused_and_nothing_changes(busy, part, plugin, options, status, why):
    server, streams = busy
    before = served(server)
    got, _, text = swap(server, part, plugin, **options)
    assert (got, why in json.loads(text)["error"]["message"]) == (status, True), text
    seen = streams.num_answers
    while streams.num_answers == seen and not streams.wrong:  # of two: it ran while the swap was refused
        time.sleep(0.01)
    assert not streams.wrong
    assert served(server) == before
    if (part in ("kv_cache", "speculation")) != bool(plugin):  # else the body itself is refused, without an event
        assert event_lines(server)[-1]["event"] == "swap refused"


def mapped_weights(server, folder):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return any(f"/models/{folder}/" in line for line in maps)


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it has not come")


def other_models_script(tmp_path):
    text = SCRIPT.format(models=SOURCE / "models", block_size=16).replace("/demo", "/demo-draft")
    file = tmp_path / "other.lua"
    file.write_text(text)
    return file


def test_another_model_gets_the_requests_that_come_and_the_first_one_ends(server, tmp_path):
    expected, expected_fingerprint = streamed(server, LONG)
    with live_server(other_models_script(tmp_path)) as other:
        others = [streamed(other, body) for body in BODIES]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(streamed(server, LONG))) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.get("/status")["models"][0]["running"] == len(threads))
    for _ in range(2):  # there and back: the pipelines that leave work side by side
        status, _, text = swap(server, "model", "llama", path=str(SOURCE / "models/demo-draft"))
        assert status == 200, text
        event = json.loads(text)
        assert (event["serves"], {event["system_fingerprint"]}) == ("demo-draft", others[0][1])
        assert [model["id"] for model in server.get("/v1/models")["data"]] == ["demo-draft"]
        assert [streamed(server, body) for body in BODIES] == others
        status, _, text = swap(server, "model", "llama", path=str(SOURCE / "models/demo"))
        assert (status, json.loads(text)["serves"]) == (200, "demo"), text
    assert streamed(server, LONG) == (expected, expected_fingerprint)
    for thread in threads:
        thread.join()
    assert answers == [(expected, expected_fingerprint)] * len(threads)
    wait_until(lambda: not mapped_weights(server, "demo-draft"))
    assert mapped_weights(server, "demo")
    # What serves can be swapped like any other.
    assert swap(server, "attention", "cascade", block_size=32)[0] == 200
    assert streamed(server, LONG) == (expected, expected_fingerprint)


def test_a_stream_of_the_model_of_before_does_not_go_on_under_another(server):
    status, _, text = server.ask("POST", "/v1/completions", BODIES[0])
    last = [line[4:] for line in text.splitlines() if line.startswith("id: ")][5]
    assert swap(server, "model", "llama", path=str(SOURCE / "models/demo-draft"))[0] == 200
    status, _, text = server.ask("POST", "/v1/completions", BODIES[0], headers={"Last-Event-ID": last})
    assert status == 409, text


def test_another_length_is_another_model(server):
    expected = streamed(server, BODIES[0])
    status, _, text = swap(server, "model", "llama", max_model_len=512)
    assert status == 200, text
    assert server.get("/v1/models")["data"][0]["max_model_len"] == 512
    assert streamed(server, BODIES[0])[0] == expected[0]


def test_what_runs_beside_the_model_that_leaves_is_drained_too(tmp_path):
    with live_server(script_file(tmp_path)) as server:
        expected, answers = streamed(server, LONG), []
        thread = threading.Thread(target=lambda: answers.append(streamed(server, LONG)))
        thread.start()
        wait_until(lambda: server.get("/status")["models"][0]["running"] == 1)
        assert swap(server, "model", "llama", path=str(SOURCE / "models/demo-draft"))[0] == 200
        server.process.send_signal(signal.SIGTERM)
        thread.join()
        assert answers == [expected]
        assert server.process.wait(timeout=30) == 0


@pytest.mark.parametrize("options, wanted, why", [
    (["--record", "requests.log"], {}, "needs another log; start another server"),
    (["--kv-events", "tcp://127.0.0.1:*"], {}, "for events of the model that runs: start another server"),
    (["--kv-events", "tcp://127.0.0.1:*"], dict(path="demo", max_model_len=512), "would be 512, but clients have been told the"),
    (["--kv-events", "tcp://127.0.0.1:*"], dict(path="demo", weights="int8"), "these parts would give different tokens"),
])
def test_another_model_is_refused_where_others_follow_the_first(tmp_path, options, wanted, why):
    options = [str(tmp_path / option) if option.endswith(".log") else option for option in options]
    with live_server(script_file(tmp_path), *options) as server:
        expected = streamed(server, BODIES[0])
        wanted = {**wanted, "path": str(SOURCE / "models" / wanted.get("path", "demo-draft"))}
        status, _, text = swap(server, "model", "llama", **wanted)
        assert (status, why in json.loads(text)["error"]["message"]) == (409, True), text
        assert streamed(server, BODIES[0]) == expected


def test_a_broken_file_harms_nobody(server, tmp_path):
    broken = tmp_path / "broken.so"
    for content in [b"", b"no ELF", (BUILD / "fcfs.so").read_bytes()[:5000]]:
        broken.write_bytes(content)
        assert swap(server, "scheduler", str(broken))[0] == 400
    assert server.ask("POST", "/admin/swap", [])[2].count("the body must be an object, ") == 1
    assert streamed(server, BODIES[1])[0]


def test_admin_urls_are_for_this_machine_or_for_who_has_the_key(server, tmp_path):
    for headers in [{"X-Forwarded-For": "10.0.0.1"}, {"Forwarded": "for=10.0.0.1"}, {"Origin": "http://evil.example"}]:
        assert server.ask("GET", "/admin/parts", headers=headers)[0] == 403
    keys = tmp_path / "keys"
    keys.write_text("of-the-file\n")
    env = {"MORTISE_API_KEY": "for-everybody", "MORTISE_ADMIN_KEY": "of-the-environment"}
    with live_server(script_file(tmp_path), "--admin-key-file", keys, env=env) as guarded:
        def status(key=None):
            return guarded.ask("GET", "/admin/parts", headers={"Authorization": f"Bearer {key}"} if key else {})[0]
        assert [status(), status("wrong"), status("for-everybody")] == [401, 401, 401]
        assert [status("of-the-file"), status("of-the-environment")] == [200, 200]


def wait_for_event(server, number):
    for _ in range(1000):
        lines = event_lines(server)
        if len(lines) >= number:
            return lines[number - 1]
        time.sleep(0.02)
    raise AssertionError(f"there are {len(lines)} events")


def test_hangup_reads_the_script_again(server, tmp_path):
    expected = streamed(server, BODIES[0])
    script = script_file(tmp_path, block_size=32)
    server.process.send_signal(signal.SIGHUP)
    event = wait_for_event(server, 1)
    assert (event["event"], event["by"], event["generation"]) == ("swap", "SIGHUP", 1)
    assert server.get("/status")["models"][0]["block_size"] == 32
    script.write_text("return pipeline {")
    server.process.send_signal(signal.SIGHUP)
    assert wait_for_event(server, 2)["event"] == "reload refused"
    script.write_text("local one = " + script_file(tmp_path).read_text().strip()[7:] + " return { a = one, b = one }")
    status, _, text = server.ask("POST", "/admin/reload", {})
    assert status == 409 and "the script has the pipelines a, b, but pipeline are served; restart the program for others" in text
    text = script_file(tmp_path, block_size=32).read_text()
    script.write_text(text.replace("return pipeline {", "return pipeline { chat = { special_tokens_in_content = true },"))
    status, _, answer = server.ask("POST", "/admin/reload", {})
    assert status == 409 and "the script's 'chat' has changed, or a chat_template was added or removed" in answer
    script_file(tmp_path, block_size=32)
    assert server.post("/admin/reload", {}) == {"swaps": []}  # nothing differs
    assert streamed(server, BODIES[0]) == expected


def test_ctl_tells_of_a_server_that_hangs_up(mortise):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hang_up = threading.Thread(target=lambda: listener.accept()[0].close())
        hang_up.start()
        process = mortise("ctl", "--url", f"http://127.0.0.1:{listener.getsockname()[1]}", "health")
        hang_up.join()
    assert process.returncode == 3 and " has not answered: " in process.stderr


def test_ctl_speaks_https(tmp_path, mortise):
    certificate, key = make_certificate(tmp_path)
    other, _ = make_certificate(tmp_path / "other")
    with live_server(script_file(tmp_path), "--tls-certificate", certificate, "--tls-key", key) as running:
        def ctl(*args, url=f"https://localhost:{running.port}", trusted=certificate, env=None):
            return mortise("ctl", "--url", url, *(["--cacert", trusted] if trusted else []), *args, env=env)

        assert json.loads(ctl("health").stdout) == {"status": "ok"}
        assert json.loads(ctl("swap", "scheduler", "prefix_group").stdout)["generation"] == 1
        assert json.loads(ctl("health", trusted=None, env={"SSL_CERT_FILE": str(certificate)}).stdout) == {"status": "ok"}
        for refused in (ctl("health", trusted=None), ctl("health", trusted=other),
                        ctl("health", url=f"https://127.0.0.1:{running.port}")):
            assert refused.returncode == 3 and ": its certificate is not trusted: " in refused.stderr, refused.stderr
        plain = ctl("health", url=f"http://localhost:{running.port}", trusted=None)
        assert plain.returncode == 1 and "plain HTTP was sent to an HTTPS port: ask for https:// (400)" in plain.stderr
        missing = ctl("health", trusted="/nowhere")
        assert missing.returncode == 1 and "--cacert /nowhere: it has no certificates in PEM form that can be read" in missing.stderr
        useless = ctl("health", url=f"http://localhost:{running.port}")
        assert useless.returncode == 1 and "--cacert is only for https, but --url is http://" in useless.stderr


def test_ctl_tells_that_a_server_serves_no_https(server, mortise):
    refused = mortise("ctl", "--url", f"https://127.0.0.1:{server.port}", "health")
    assert refused.returncode == 3 and ": a TLS connection failed: " in refused.stderr


def test_events_tell_who_what_and_which_files(server):
    old = served(server)["scheduler"]
    assert swap(server, "scheduler", "prefix_group", max_num_seqs=4)[0] == 200
    assert swap(server, "scheduler", "fcsf")[0] == 400
    made, refused = event_lines(server)
    assert made["by"] == "127.0.0.1" and made["plugin"] == "prefix_group" and made["options"] == {"max_num_seqs": 4}
    assert made["generation"] == 1 and made["duration_s"] > 0 and made["pause_s"] == made["largest_gap_s"] == 0  # nobody streams
    assert [part["hash"] for part in made["parts"]] == [part["hash"] for part in served(server).values()]
    assert made["replaced"] == [old]
    assert refused["by"] == "127.0.0.1" and refused["duration_s"] > 0 and refused["parts"] == made["parts"]


def test_a_drain_is_an_event(tmp_path):
    server = LiveServer(script_file(tmp_path), "--drain-seconds", 600)
    try:
        threads = [threading.Thread(target=server.ask, args=("POST", "/v1/completions", {**LONG, "n": 4})) for _ in range(4)]
        for thread in threads:
            thread.start()
        while server.get("/status")["models"][0]["running"] < 8:
            time.sleep(0.005)
        server.post("/admin/drain", {})
        seen = []
        while len(seen) < 2:
            seen = event_lines(server)
        assert [event["event"] for event in seen] == ["drain requested", "drain"]
        assert seen[0]["by"] == "127.0.0.1" and 0 < seen[1]["deadline_s"] <= 3600
        for thread in threads:
            thread.join()
        _, log = server.process.communicate(timeout=60)
        last = [json.loads(line[line.index("{"):]) for line in log.splitlines() if '"event":"drained"' in line]
        assert len(last) == 1 and last[0]["duration_s"] > 0 and last[0]["cut_off"] is False
    finally:
        server.process.kill()
        server.process.communicate()


def test_several_proposers_are_swapped_in(server):
    expected = streamed(server, BODIES[1])
    several = {"proposers": [{"plugin": "ngram", "options": {"max_tokens": 3}},
                             {"plugin": "draft_model", "options": {"path": str(SOURCE / "models/demo-draft")}}]}
    status, _, text = swap(server, "proposer", "first_of", **several)
    assert status == 200, text
    assert [part["name"] for part in json.loads(text)["parts"]][-2:] == ["ngram", "draft_model"]
    assert streamed(server, BODIES[1]) == expected


def test_ctl_asks_and_changes_a_server(tmp_path, mortise):
    server = LiveServer(script_file(tmp_path))
    try:
        def ctl(*args, code=0):
            process = mortise("ctl", "--url", server.url, *args)
            assert process.returncode == code, process.stderr
            return process.stdout if code == 0 else process.stderr

        answer = json.loads(ctl("swap", "attention", "cascade", "{block_size = 8 * 4}"))
        assert {part["name"] for part in answer["parts"]} >= {"cascade"}
        assert json.loads(ctl("swap", "kv_cache", "{memory = '8MiB'}"))["generation"] == 2
        assert json.loads(ctl("swap", "proposer", "first_of", "{ngram {max_tokens = 2}}"))["generation"] == 3
        assert "did you mean 'fcfs'?" in ctl("swap", "scheduler", "fcsf", code=1)
        assert "options of scheduler" in ctl("swap", "scheduler", "fcfs", "{max_num_seqs = }", code=1)
        assert json.loads(ctl("parts"))["models"][0]["parts"][2]["name"] == "cascade"
        assert json.loads(ctl("stats"))["models"][0]["block_size"] == 32
        assert json.loads(ctl("health")) == {"status": "ok"}
        assert [json.loads(line)["event"] for line in ctl("events").splitlines()] == 3 * ["swap"] + ["swap refused"]
        assert len(json.loads(ctl("reload"))["swaps"]) == 1  # back to what the script says
        assert json.loads(ctl("parts"))["models"][0]["parts"][2]["name"] == "paged"
        assert json.loads(ctl("drain")) == {"status": "draining"}
        assert server.process.wait(timeout=60) == 0
        assert "cannot be reached" in ctl("health", code=3)
        for url in ("127.0.0.1:8000", "ftp://127.0.0.1"):
            wrong = mortise("ctl", "--url", url, "health")
            assert wrong.returncode == 1 and "expected http://HOST:PORT or https://HOST:PORT" in wrong.stderr
    finally:
        server.process.kill()
        server.process.communicate()
