"""KV events as vLLM publishes them: whoever follows them knows what the prefix cache holds."""
# Covers: runtime/cli/kv_event_publishers runtime/kv_events/{cached_blocks,publisher}
import contextlib
import pathlib
import re
import socket

import msgpack
import zmq

from conftest import run_mortise
from live_server import live_server

ENDPOINTS = ["--kv-events", "tcp://127.0.0.1:*", "--kv-events-replay", "tcp://127.0.0.1:*"]


class Follower:
    """A router's view of one server: block hashes to (parent, tokens), kept by events alone."""

    def __init__(self, server, model=0):
        self.server, self.model, self.blocks, self.next = server, model, {}, 0
        where = server.get("/status")["models"][model]["kv_events"]
        self.topic = where["topic"]
        context = zmq.Context.instance()
        self.subscriber = context.socket(zmq.SUB)
        self.subscriber.setsockopt_string(zmq.SUBSCRIBE, self.topic)
        self.dealer = context.socket(zmq.DEALER)
        for reader, endpoint in ((self.subscriber, where["endpoint"]), (self.dealer, where["replay"])):
            reader.setsockopt(zmq.LINGER, 0)
            reader.setsockopt(zmq.RCVTIMEO, 20000)
            reader.connect(endpoint)

    def close(self):
        self.subscriber.close()
        self.dealer.close()

    def replayed(self, start):
        """(seq, batch) of each message from `start` on."""
        self.dealer.send_multipart([b"", start.to_bytes(8, "big")])
        messages = []
        while True:
            empty, topic, seq, payload = self.dealer.recv_multipart()
            assert empty == b""
            if int.from_bytes(seq, "big", signed=True) == -1:
                assert not payload
                return messages
            assert topic == self.topic.encode()
            messages.append((int.from_bytes(seq, "big"), msgpack.unpackb(payload)))

    def catch_up(self):
        """Applies everything until now."""
        for seq, batch in self.replayed(self.next):
            self.apply(seq, batch)
        return self

    def apply(self, seq, batch):
        assert seq >= self.next
        self.next = seq + 1
        seconds, events, rank = batch
        assert seconds > 1e9 and rank is None
        for event in events:
            if event["type"] == "AllBlocksCleared":
                self.blocks.clear()
            elif event["type"] == "BlockRemoved":
                for block in event["block_hashes"]:
                    del self.blocks[block]  # KeyError: a removal of what was never stored
            else:
                self.store(event)

    def store(self, event):
        assert event["medium"] == "GPU" and event["lora_id"] is None and event["lora_name"] is None
        parent, size = event["parent_block_hash"], event["block_size"]
        assert len(event["token_ids"]) == size * len(event["block_hashes"])
        for i, block in enumerate(event["block_hashes"]):
            assert parent is None or parent in self.blocks
            self.blocks[block] = (parent, tuple(event["token_ids"][i * size:(i + 1) * size]))
            parent = block

    def num_cached(self, tokens):
        """How many of a prompt's tokens the server has, by the events."""
        children = {node: block for block, node in self.blocks.items()}
        parent, count = None, 0
        size = self.server.get("/status")["models"][self.model]["block_size"]
        while (block := children.get((parent, tuple(tokens[count:count + size])))) is not None:
            parent, count = block, count + size
        return count


def complete(server, prompt, max_tokens=4):
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "return_token_ids": True}
    return server.post("/v1/completions", body)


def cached_tokens(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def story(i, words=120):
    return f"Story number {i}. " + " ".join(f"word{(i * 7 + k) % 50}" for k in range(words))


def test_events_say_what_a_request_will_find(pipeline):
    with live_server(pipeline(memory="2MiB"), *ENDPOINTS) as server:
        follower = Follower(server)
        assert follower.catch_up().blocks == {}
        for i in [0, 1, 2, 0, 3, 4, 5, 6, 7, 1, 8, 9, 0, 9]:
            prompt = server.post("/tokenize", {"prompt": story(i)})["tokens"]
            expected = follower.catch_up().num_cached(prompt)
            answer = complete(server, prompt)
            assert cached_tokens(answer) == min(expected, (len(prompt) - 1) // 16 * 16)
        blocks = server.get("/status")["models"][0]["blocks"]
        assert len(follower.catch_up().blocks) == blocks["cached"]  # nothing runs: all that is in the tree is cached
        assert server.get("/status")["models"][0]["blocks"]["total"] < 14 * 30  # else: nothing was ever evicted
        follower.close()


def test_subscribers_are_told_everything_and_then_each_change(pipeline):
    with live_server(pipeline(), *ENDPOINTS, "--kv-events-topic", "kv@me") as server:
        complete(server, story(0))
        subscriber, replayer = Follower(server), Follower(server)
        while subscriber.blocks != replayer.catch_up().blocks or not replayer.blocks:
            topic, seq, payload = subscriber.subscriber.recv_multipart()
            assert topic == b"kv@me" and len(seq) == 8
            subscriber.apply(int.from_bytes(seq, "big"), msgpack.unpackb(payload))
        complete(server, story(1))
        while subscriber.blocks != replayer.catch_up().blocks:
            _, seq, payload = subscriber.subscriber.recv_multipart()
            assert dict(replayer.replayed(0))[int.from_bytes(seq, "big")] == msgpack.unpackb(payload)
            subscriber.apply(int.from_bytes(seq, "big"), msgpack.unpackb(payload))
        assert len(subscriber.blocks) > 10
        subscriber.close()
        replayer.close()


def test_a_replica_gives_a_prefix_the_same_name(pipeline):
    names = []
    for warm_up in ([], [5, 6]):
        with live_server(pipeline(), *ENDPOINTS) as server:
            for i in [*warm_up, 1]:
                complete(server, story(i))
            follower = Follower(server).catch_up()
            prompt = server.post("/tokenize", {"prompt": story(1)})["tokens"]
            names.append({block for block, (_, tokens) in follower.blocks.items() if tokens == tuple(prompt[:16])})
            follower.close()
    assert names[0] & names[1]


def test_each_model_publishes_at_its_own_endpoint(script):
    one = 'pipeline { device = cpu {}, model = llama { path = "DEMO" }, attention = paged {}, scheduler = fcfs {} }'
    two = script(f"return {{ first = {one}, second = {one} }}")
    with live_server(two, *ENDPOINTS) as server:
        first, second = (model["kv_events"] for model in server.get("/status")["models"])
        assert first["endpoint"] != second["endpoint"] and first["replay"] != second["replay"]


def resident_mib(server):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) >> 10


def ask_for_replays_and_read_nothing(endpoint, count=5000):
    dealer = zmq.Context.instance().socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.setsockopt(zmq.RCVHWM, 1)
    dealer.setsockopt(zmq.SNDTIMEO, 20000)
    dealer.connect(endpoint)
    for _ in range(count):
        dealer.send_multipart([b"", bytes(8)])
    return dealer


def send_a_large_frame(endpoint, size=1 << 33):
    """The number of MiB that the socket took before it closed the connection; by hand, since no library sends such a frame."""
    host, port = endpoint.removeprefix("tcp://").split(":")
    ready = b"\x05READY\x0bSocket-Type" + (3).to_bytes(4, "big") + b"SUB"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        connection.sendall(bytes([4, len(ready)]) + ready + b"\x02" + size.to_bytes(8, "big") + b"\x01")
        for sent in range(500):
            try:
                connection.sendall(bytes(1 << 20))
            except (ConnectionResetError, BrokenPipeError):
                return sent
    return 500


def subscribe_to_strange_topics(endpoint, count=30_000):
    xsub = zmq.Context.instance().socket(zmq.XSUB)
    xsub.setsockopt(zmq.LINGER, 0)
    xsub.setsockopt(zmq.SNDTIMEO, 20000)
    xsub.connect(endpoint)
    for i in range(count):
        xsub.send(b"\1" + str(i).encode().ljust(200, b"x"))
    return xsub


def test_hostile_readers_neither_fill_memory_nor_end_events(pipeline):
    with live_server(pipeline(memory="4MiB"), *ENDPOINTS) as server:
        for i in range(30):
            complete(server, story(i))
        follower = Follower(server).catch_up()
        where = server.get("/status")["models"][0]["kv_events"]
        before = resident_mib(server)
        hostile = ask_for_replays_and_read_nothing(where["replay"])
        assert send_a_large_frame(where["endpoint"]) < 500
        assert send_a_large_frame(where["replay"]) < 500
        follower.catch_up()  # after all that was sent so far
        assert resident_mib(server) - before < 20
        xsub = subscribe_to_strange_topics(where["endpoint"])
        for i in range(30, 40):
            complete(server, story(i))
            follower.catch_up()
        assert resident_mib(server) - before < 100
        hostile.close()
        xsub.close()
        subscriber = Follower(server)
        while subscriber.blocks != follower.catch_up().blocks:
            _, seq, payload = subscriber.subscriber.recv_multipart()
            subscriber.apply(int.from_bytes(seq, "big"), msgpack.unpackb(payload))
        follower.close()
        subscriber.close()


def free_ports(offsets):
    """A port P of 127.0.0.1 such that P + each offset is free as well."""
    for port in range(20000, 60000, 97):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for offset in offsets:
                stack.enter_context(socket.create_server(("127.0.0.1", port + offset)))
            return port
    raise RuntimeError("no free ports")


def test_two_models_and_replay_start_at_neighbouring_ports(script):
    one = 'pipeline { device = cpu {}, model = llama { path = "DEMO" }, attention = paged {}, scheduler = fcfs {} }'
    two = script(f"return {{ first = {one}, second = {one} }}")
    port = free_ports(range(4))
    at = [f"tcp://127.0.0.1:{port + i}" for i in range(4)]
    with live_server(two, "--kv-events", at[0], "--kv-events-replay", at[1]) as server:
        models = [model["kv_events"] for model in server.get("/status")["models"]]
        assert [(model["endpoint"], model["replay"]) for model in models] == [(at[0], at[1]), (at[2], at[3])]
        for index in range(2):
            follower = Follower(server, index)
            assert follower.catch_up().next > 0
            follower.close()


def test_endpoints_that_coincide_are_an_error():
    same = "tcp://127.0.0.1:5557"
    process = run_mortise("serve", "--port", "0", "--kv-events", same, "--kv-events-replay", same)
    assert process.returncode != 0
    assert f"--kv-events {same} and --kv-events-replay {same}: with 1 model(s) both need {same}; give " in process.stderr


def test_without_the_option_nothing_is_published():
    with live_server() as server:
        assert server.get("/status")["models"][0]["kv_events"] is None


def test_wrong_endpoints_are_errors_before_the_server_listens():
    process = run_mortise("serve", "--port", "0", "--kv-events", "tcp://192.0.2.1:5557")
    assert process.returncode != 0
    assert "--kv-events tcp://192.0.2.1:5557: cannot listen there: " in process.stderr
    assert run_mortise("serve", "--kv-events-replay", "tcp://127.0.0.1:5558").returncode != 0
